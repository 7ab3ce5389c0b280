package interop;

import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Bodies that are compressed, very large, or refused. */
final class Bodies {
    private Bodies() {}

    private static final int COMPRESSION_TYPE = 0x700; // bits of the message's system flag

    static String compression(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        MessageQueue queue = stage.createTopic(producer, 1).get(0);
        byte[] body = "a body that repeats itself, тело 正文; ".repeat(2000).getBytes(StandardCharsets.UTF_8);
        String tried = "zlib";
        producer.send(new Message(stage.topic, body.clone()), queue);
        Method choose = Arrays.stream(DefaultMQProducer.class.getMethods())
            .filter(method -> method.getName().equals("setCompressType")).findFirst().orElse(null);
        if (choose != null) { // 5.x clients choose among three
            for (Object type : choose.getParameterTypes()[0].getEnumConstants()) {
                choose.invoke(producer, type);
                producer.send(new Message(stage.topic, body.clone()), queue);
                tried += " " + type;
            }
        }
        Set<Integer> types = new HashSet<>();
        for (MessageExt message : stage.reader().queue(queue, tried.split(" ").length)) {
            Check.equal(body, message.getBody(), "body");
            Check.that(message.getStoreSize() < body.length / 10, "stored in " + message.getStoreSize() + " bytes");
            types.add(message.getSysFlag() & COMPRESSION_TYPE);
        }
        Check.equal(choose == null ? 1 : 3, types.size(), "compression types kept in the system flag");
        return tried;
    }

    static String large(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        MessageQueue queue = stage.createTopic(producer, 1).get(0);
        byte[] body = new byte[4 * 1024 * 1024 - 8 * 1024]; // the client's limit, less what zlib adds to noise
        new Random(4).nextBytes(body);
        for (int i = 0; i < 3; i++) {
            producer.send(new Message(stage.topic, "Большой", body.clone()), queue);
        }
        List<MessageExt> read = stage.reader().queue(queue, 3);
        Check.equal(3, read.size(), "messages read");
        for (MessageExt message : read) {
            Check.equal(body, message.getBody(), "body");
            Check.equal("Большой", message.getTags(), "tags");
        }
        return "3 bodies of " + body.length + " bytes";
    }

    static String refusals(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        producer.setMaxMessageSize(16 * 1024 * 1024);
        producer.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
        MessageQueue queue = stage.createTopic(producer, 2).get(0);
        Check.equal(13, code(() -> producer.send(new Message(stage.topic, new byte[5 * 1024 * 1024]), queue)), "code for 5 MiB");
        MessageQueue absent = new MessageQueue(stage.topic, queue.getBrokerName(), 2);
        Check.equal(29, code(() -> producer.send(new Message(stage.topic, new byte[1]), absent)), "code for a send to queue 2 of 2");
        producer.send(new Message(stage.topic, new byte[] {7}), queue); // the connection is still good

        Reader reader = stage.reader();
        Check.equal(1, reader.queue(queue, 1).size(), "messages stored");
        Check.equal(29, code(() -> reader.consumer.pull(absent, "*", 0, 1)), "code for a pull from queue 2 of 2");
        MessageQueue unknown = new MessageQueue(stage.topic + "_unknown", queue.getBrokerName(), 0);
        Check.equal(17, code(() -> reader.consumer.pull(unknown, "*", 0, 1)), "code for a pull from an unknown topic");
        PullResult beyond = reader.consumer.pull(queue, "*", 10, 1);
        Check.equal(PullStatus.OFFSET_ILLEGAL, beyond.getPullStatus(), "status of a pull beyond the end");
        Check.equal(1L, beyond.getNextBeginOffset(), "offset after a pull beyond the end");
        PullResult end = reader.consumer.pull(queue, "*", 1, 1);
        Check.equal(PullStatus.NO_NEW_MSG, end.getPullStatus(), "status of a pull at the end");
        return "codes 13, 17, 29, offset illegal";
    }

    private interface Call {
        void run() throws Exception;
    }

    private static int code(Call call) throws Exception {
        try {
            call.run();
            return 0;
        } catch (MQBrokerException refusal) {
            return refusal.getResponseCode();
        }
    }
}
