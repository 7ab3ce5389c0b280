package interop;

import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Questions about offsets that consumers and tools ask. */
final class Offsets {
    private Offsets() {}

    @SuppressWarnings("deprecation")
    static String lookups(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        List<MessageQueue> queues = stage.createTopic(producer, 2);
        MessageQueue queue = queues.get(0);
        for (int i = 0; i < 30; i++) {
            producer.send(new Message(stage.topic, ("m" + i).getBytes(StandardCharsets.UTF_8)), queue);
            if (i % 10 == 9) {
                Thread.sleep(5); // so that store times differ
            }
        }
        Reader reader = stage.reader();
        List<MessageExt> read = reader.queue(queue, 30);
        Check.equal(30, read.size(), "messages read");
        Check.equal(0L, reader.consumer.minOffset(queue), "min offset");
        Check.equal(30L, reader.consumer.maxOffset(queue), "max offset");
        Check.equal(0L, reader.consumer.maxOffset(queues.get(1)), "max offset of an empty queue");
        Check.equal(read.get(0).getStoreTimestamp(), reader.consumer.earliestMsgStoreTime(queue), "earliest store time");
        for (MessageExt message : read) {
            long time = message.getStoreTimestamp();
            long first = read.stream().filter(other -> other.getStoreTimestamp() >= time).findFirst().orElseThrow().getQueueOffset();
            Check.equal(first, reader.consumer.searchOffset(queue, time), "first offset at " + time);
        }
        long last = read.get(29).getStoreTimestamp();
        Check.equal(30L, reader.consumer.searchOffset(queue, last + 1000), "offset of a time after all messages");
        Check.equal(0L, reader.consumer.searchOffset(queue, 1000), "offset of a time before all messages");

        reader.consumer.updateConsumeOffset(queue, 17);
        reader.consumer.getDefaultMQPullConsumerImpl().getOffsetStore().persist(queue);
        Check.await("the committed offset 17", () -> committed(reader, queue) == 17, () -> committed(reader, queue));
        return "min, max, earliest, 32 searches, commit";
    }

    @SuppressWarnings("deprecation")
    private static long committed(Reader reader, MessageQueue queue) {
        try {
            return reader.consumer.fetchConsumeOffset(queue, true);
        } catch (Exception reason) {
            return -1;
        }
    }
}
