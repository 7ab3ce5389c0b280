package interop;

import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Filters that look at properties. */
final class Filters {
    private static final int MESSAGES = 300;

    private Filters() {}

    interface Wanted {
        boolean is(int number);
    }

    static String sql(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        List<MessageQueue> queues = stage.createTopic(producer, 4);
        Map<String, Wanted> filters = Map.of(
            "size BETWEEN 10 AND 20 OR size > 290", number -> number >= 10 && number <= 20 || number > 290,
            "kind IN ('a', 'b') AND NOT (size < 100)", number -> number % 3 != 2 && number >= 100,
            "rare IS NOT NULL", number -> number % 50 == 0,
            "TAGS = 'TagB' AND kind STARTSWITH 'c'", number -> number % 2 == 1 && number % 3 == 2);
        Map<String, ConcurrentLinkedQueue<MessageExt>> received = new ConcurrentHashMap<>();
        for (String filter : filters.keySet()) {
            ConcurrentLinkedQueue<MessageExt> messages = new ConcurrentLinkedQueue<>();
            DefaultMQPushConsumer consumer = stage.push(stage.group + received.size(), "1");
            consumer.subscribe(stage.topic, MessageSelector.bySql(filter));
            consumer.registerMessageListener(Pushes.into(messages));
            stage.start(consumer);
            received.put(filter, messages);
        }
        for (int i = 0; i < MESSAGES; i++) {
            Message message = Pushes.text(stage.topic, i % 2 == 0 ? "TagA" : "TagB", "" + i);
            message.putUserProperty("size", "" + i);
            message.putUserProperty("kind", List.of("a", "b", "cd").get(i % 3));
            if (i % 50 == 0) {
                message.putUserProperty("rare", "yes");
            }
            producer.send(message, queues.get(i % 4));
        }
        int total = 0;
        for (Map.Entry<String, Wanted> filter : filters.entrySet()) {
            TreeSet<Integer> expected = new TreeSet<>();
            for (int i = 0; i < MESSAGES; i++) {
                if (filter.getValue().is(i)) {
                    expected.add(i);
                }
            }
            ConcurrentLinkedQueue<MessageExt> messages = received.get(filter.getKey());
            Check.await(expected.size() + " messages of " + filter.getKey(), () -> messages.size() >= expected.size(), messages::size);
            Check.equal(expected, messages.stream().map(Pushes::body).map(Integer::valueOf).collect(Collectors.toCollection(TreeSet::new)), filter.getKey());
            Check.equal(expected.size(), messages.size(), "each once, " + filter.getKey());
            total += messages.size();
        }
        refused(stage);
        return filters.size() + " filters, " + total + " messages";
    }

    /** A consumer whose expression is none does not start. */
    private static void refused(Stage stage) throws Exception {
        DefaultMQPushConsumer consumer = stage.push(stage.group + "_bad", "1");
        consumer.subscribe(stage.topic, MessageSelector.bySql("size >"));
        consumer.registerMessageListener(Pushes.into(new ConcurrentLinkedQueue<>()));
        try {
            stage.start(consumer);
        } catch (MQClientException refusal) {
            return;
        }
        throw new AssertionError("a consumer with a broken expression starts");
    }
}
