package interop;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Topics with {@code queue.type=BatchCQ}: a batch is one record, which clients of 5.x take apart. */
@SuppressWarnings("deprecation") // the plain pull consumer is the most direct way to one queue
public final class InnerBatches {
    private static final int[] SIZES = {3, 1, 40, 2, 10, 7, 1, 25};

    private InnerBatches() {}

    /** Adds the scenario; called by name, because 4.x is compiled without this file. */
    public static void add(Map<String, Main.Scenario> all) {
        all.put("inner-batch", InnerBatches::all);
    }

    static String all(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        // The producer's own createTopic drops the attributes.
        producer.getDefaultMQProducerImpl().getMqClientFactory().getMQAdminImpl()
            .createTopic("TBW102", stage.topic, 1, 0, Map.of("+queue.type", "BatchCQ"));
        MessageQueue queue = Stage.awaitRoute(producer, stage.topic, 1).get(0);
        List<Message> sent = new ArrayList<>();
        TreeMap<Long, Integer> bases = new TreeMap<>();
        for (int size : SIZES) {
            List<Message> batch = new ArrayList<>();
            for (int i = 0; i < size; i++) {
                batch.add(Sends.message(stage.topic, sent.size() + i));
            }
            SendResult answer = producer.send(batch, queue);
            Check.equal(SendStatus.SEND_OK, answer.getSendStatus(), "send status of a batch");
            Check.equal((long) sent.size(), answer.getQueueOffset(), "queue offset of a batch's first message");
            Check.that(!answer.getMsgId().contains(","), "one id for all of a batch, found " + answer.getMsgId());
            Check.equal(1, answer.getOffsetMsgId().split(",").length, "records of a batch");
            bases.put(answer.getQueueOffset(), size);
            sent.addAll(batch);
            Thread.sleep(3); // each batch has a store time of its own
        }
        Reader reader = stage.reader();
        List<MessageExt> read = reader.queue(queue, sent.size());
        Check.equal(sent.size(), read.size(), "messages read");
        for (int i = 0; i < read.size(); i++) {
            Sends.same(sent.get(i), read.get(i));
        }
        Check.equal((long) sent.size(), reader.consumer.maxOffset(queue), "max offset");
        Check.equal(0L, reader.consumer.minOffset(queue), "min offset");
        byTime(reader, queue, bases, read);
        for (long offset = 0; offset < sent.size(); offset++) {
            PullResult result = reader.consumer.pull(queue, "*", offset, 1);
            Check.equal(PullStatus.FOUND, result.getPullStatus(), "status of a pull at " + offset);
            long base = bases.floorKey(offset);
            List<Long> found = result.getMsgFoundList().stream().map(MessageExt::getQueueOffset).toList();
            Check.equal(base, found.get(0), "first message of a pull at " + offset);
            Check.equal(bases.get(base), found.size(), "messages of a pull at " + offset);
            Check.equal(base + found.size(), result.getNextBeginOffset(), "next begin offset of a pull at " + offset);
        }
        consume(stage, reader, queue, sent);
        return SIZES.length + " batches, " + sent.size() + " messages, each offset pulled, pushed once";
    }

    private static void byTime(Reader reader, MessageQueue queue, TreeMap<Long, Integer> bases, List<MessageExt> read) throws Exception {
        for (long base : bases.keySet()) {
            long time = read.get((int) base).getStoreTimestamp();
            Check.equal(base, reader.consumer.searchOffset(queue, time), "offset by the time of the batch at " + base);
            Long after = bases.higherKey(base);
            Check.equal(after == null ? base : after, reader.consumer.searchOffset(queue, time + 1), "offset by the time behind the batch at " + base);
        }
        Check.equal(0L, reader.consumer.searchOffset(queue, 0), "offset by time 0");
    }

    private static void consume(Stage stage, Reader reader, MessageQueue queue, List<Message> sent) throws Exception {
        Map<String, AtomicInteger> received = new ConcurrentHashMap<>();
        Set<String> refused = ConcurrentHashMap.newKeySet();
        DefaultMQPushConsumer consumer = stage.push();
        consumer.subscribe(stage.topic, "*");
        consumer.setConsumeMessageBatchMaxSize(1);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            String key = messages.get(0).getKeys();
            if (key.equals(sent.get(20).getKeys()) && refused.add(key)) {
                return ConsumeConcurrentlyStatus.RECONSUME_LATER;
            }
            received.computeIfAbsent(key, any -> new AtomicInteger()).incrementAndGet();
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        stage.start(consumer);
        Check.await(sent.size() + " messages", () -> received.size() == sent.size(), received::size);
        Map<String, Integer> wrong = new HashMap<>();
        received.forEach((key, count) -> wrong.put(key, count.get()));
        wrong.values().removeIf(count -> count == 1);
        Check.equal(Map.of(), wrong, "messages that came more than once");
        Check.await("the committed offset " + sent.size(), () -> Restarts.committed(consumer, queue) == sent.size(), () -> Restarts.committed(consumer, queue));
    }
}
