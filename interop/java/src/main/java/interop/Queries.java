package interop;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Messages by key, unique key and id, as tools and the console look for them. */
final class Queries {
    private Queries() {}

    private static final int COUNT = 100;

    @SuppressWarnings("deprecation")
    static String byKeyAndId(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        List<MessageQueue> queues = stage.createTopic(producer, 2);
        List<SendResult> sent = new ArrayList<>();
        long begin = System.currentTimeMillis() - 60_000;
        for (int i = 0; i < COUNT; i++) {
            // Every message has a key of its own, one it shares with nine others, and one that has the same hash as another.
            String keys = "own-" + i + " tens-" + i / 10 + " " + (i % 2 == 0 ? "Aa" : "BB") + " ключ键";
            Message message = new Message(stage.topic, "TagA", keys, ("m" + i).getBytes(StandardCharsets.UTF_8));
            sent.add(producer.send(message, queues.get(i % 2)));
        }
        long end = System.currentTimeMillis() + 60_000;
        Check.await("the last message by its key", () -> !find(producer, stage.topic, "own-" + (COUNT - 1), 1, begin, end).isEmpty(), () -> "none");
        for (int i = 0; i < COUNT; i += 7) {
            Check.equal(List.of("m" + i), find(producer, stage.topic, "own-" + i, 32, begin, end), "messages with key own-" + i);
        }
        List<String> tens = new ArrayList<>();
        for (int i = 30; i < 40; i++) {
            tens.add("m" + i);
        }
        Check.equal(tens, find(producer, stage.topic, "tens-3", 32, begin, end), "messages with key tens-3");
        List<String> newest = find(producer, stage.topic, "ключ键", 5, begin, end);
        Check.equal(List.of("m95", "m96", "m97", "m98", "m99"), newest, "the newest five of all");
        // Both keys have one hash: Apache RocketMQ answers the newest 64 of both, and the client sorts them out.
        List<String> even = find(producer, stage.topic, "Aa", 64, begin, end);
        Check.that(even.size() >= 32 && even.get(even.size() - 1).equals("m98"), "the newest messages with key Aa: " + even);
        Check.that(even.stream().allMatch(body -> Integer.parseInt(body.substring(1)) % 2 == 0), "messages with key Aa and not BB: " + even);
        Check.equal(List.of(), find(producer, stage.topic, "AaAa", 32, begin, end), "messages with a key nobody has");
        Check.equal(List.of(), find(producer, stage.topic, "own-1", 32, begin - 60_000, begin), "messages from before the first");

        for (int i = 0; i < COUNT; i += 9) {
            SendResult result = sent.get(i);
            for (String id : List.of(result.getMsgId(), result.getOffsetMsgId())) {
                MessageExt found = producer.viewMessage(stage.topic, id);
                Check.equal("m" + i, body(found), "message " + id);
                Check.equal(result.getQueueOffset(), found.getQueueOffset(), "queue offset of " + id);
                Check.equal(queues.get(i % 2).getQueueId(), found.getQueueId(), "queue of " + id);
            }
        }
        return COUNT + " messages, 4 keys each; by key, unique key and offset id";
    }

    private static List<String> find(DefaultMQProducer producer, String topic, String key, int max, long begin, long end) {
        QueryResult result;
        try {
            result = producer.queryMessage(topic, key, max, begin, end);
        } catch (MQClientException | InterruptedException none) { // the client throws when no broker has any
            return List.of();
        }
        return result.getMessageList().stream()
            .sorted((one, other) -> Long.compare(one.getCommitLogOffset(), other.getCommitLogOffset()))
            .map(Queries::body).collect(Collectors.toList());
    }

    private static String body(MessageExt message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }
}
