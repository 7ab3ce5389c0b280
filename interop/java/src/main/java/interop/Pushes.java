package interop;

import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Push consumption of one group. */
final class Pushes {
    private Pushes() {}

    /** A listener that keeps every message it gets. */
    static MessageListenerConcurrently into(java.util.Collection<MessageExt> received) {
        return (messages, context) -> {
            received.addAll(messages);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        };
    }

    static Message text(String topic, String tag, String body) {
        return new Message(topic, tag, body.getBytes(StandardCharsets.UTF_8));
    }

    static String body(MessageExt message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }

    static String tags(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        List<MessageQueue> queues = stage.createTopic(producer, 4);
        Map<String, String> subscriptions = Map.of("A", "TagA || TagB", "B", "标签", "C", "*");
        Map<String, ConcurrentLinkedQueue<MessageExt>> received = new ConcurrentHashMap<>();
        for (Map.Entry<String, String> entry : subscriptions.entrySet()) {
            DefaultMQPushConsumer consumer = stage.push(stage.group + entry.getKey(), "1");
            consumer.subscribe(stage.topic, entry.getValue());
            received.put(entry.getKey(), new ConcurrentLinkedQueue<>());
            consumer.registerMessageListener(into(received.get(entry.getKey())));
            stage.start(consumer);
        }
        String[] tags = {"TagA", "TagB", "TagC", "标签"};
        Map<String, Set<String>> expected = Map.of("A", new TreeSet<>(), "B", new TreeSet<>(), "C", new TreeSet<>());
        for (int i = 0; i < 400; i++) { // every fifth round is a marker in each queue that all three groups get
            String tag = tags[i % 4];
            String body = tag + "-" + i;
            producer.send(text(stage.topic, tag, body), queues.get(i / 4 % 4));
            expected.get("C").add(body);
            if (tag.equals("标签")) {
                expected.get("B").add(body);
            } else if (!tag.equals("TagC")) {
                expected.get("A").add(body);
            }
        }
        for (String group : expected.keySet()) {
            Set<String> wanted = expected.get(group);
            Check.await(wanted.size() + " messages by " + subscriptions.get(group),
                () -> received.get(group).size() >= wanted.size(), () -> received.get(group).size());
            Set<String> found = new TreeSet<>();
            for (MessageExt message : received.get(group)) {
                Check.that(found.add(body(message)), "got twice: " + body(message));
                Check.that(body(message).startsWith(message.getTags() + "-"), "tag of " + body(message));
            }
            Check.equal(wanted, found, "messages by " + subscriptions.get(group));
        }
        return "200, 100 and 400 of 400 by three subscriptions";
    }

    static String volume(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        List<MessageQueue> queues = stage.createTopic(producer, 8);
        int count = 8000;
        int[] hashes = new int[count];
        Random random = new Random(8);
        List<Message> batch = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            byte[] body = new byte[1 + random.nextInt(3000)];
            random.nextBytes(body);
            hashes[i] = Arrays.hashCode(body);
            Message message = new Message(stage.topic, body);
            message.putUserProperty("number", Integer.toString(i));
            batch.add(message);
            if (batch.size() == 100) {
                producer.send(batch, queues.get(i / 100 % 8));
                batch.clear();
            }
        }
        ConcurrentLinkedQueue<MessageExt> received = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer consumer = stage.push();
        consumer.setConsumeMessageBatchMaxSize(32);
        consumer.subscribe(stage.topic, "*");
        consumer.registerMessageListener(into(received));
        stage.start(consumer); // a new group on a young queue starts at its first message
        Check.await(count + " messages", () -> received.size() >= count, received::size);
        Set<Integer> seen = ConcurrentHashMap.newKeySet();
        for (MessageExt message : received) {
            int number = Integer.parseInt(message.getProperty("number"));
            Check.that(seen.add(number), "message " + number + " came twice");
            Check.equal(hashes[number], Arrays.hashCode(message.getBody()), "body of message " + number);
            Check.equal(number / 100 % 8, message.getQueueId(), "queue of message " + number);
            Check.equal((long) (number / 800 * 100 + number % 100), message.getQueueOffset(), "offset of message " + number);
        }
        return count + " messages of up to 3000 bytes";
    }

    /** Sends each message when the last one has come, which wakes a waiting pull; the note has the mean round trip. */
    static String longPolling(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        List<MessageQueue> queues = stage.createTopic(producer, 4);
        LinkedBlockingQueue<MessageExt> received = new LinkedBlockingQueue<>();
        DefaultMQPushConsumer consumer = stage.push();
        consumer.subscribe(stage.topic, "TagA");
        consumer.registerMessageListener(into(received));
        stage.start(consumer);
        Check.await("4 owned queues", () -> Stage.owned(consumer, stage.topic) == 4, () -> Stage.owned(consumer, stage.topic));
        for (MessageQueue queue : queues) { // pulls may be refused until the next heartbeat
            producer.send(text(stage.topic, "TagA", "first"), queue);
            Check.that(received.poll(Check.PATIENCE_SECONDS, TimeUnit.SECONDS) != null, "nothing came from " + queue);
        }
        long start = System.nanoTime();
        for (int i = 0; i < 200; i++) {
            producer.send(text(stage.topic, "TagB", "not for us"), queues.get((i + 1) % 4));
            producer.send(text(stage.topic, "TagA", "ping " + i), queues.get(i % 4));
            MessageExt message = received.poll(Check.PATIENCE_SECONDS, TimeUnit.SECONDS);
            Check.that(message != null, "message " + i + " did not wake the waiting pull");
            Check.equal("ping " + i, body(message), "message");
        }
        return String.format("200 round trips, %.1f ms each", (System.nanoTime() - start) / 1e6 / 200);
    }

    static String broadcast(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        List<MessageQueue> queues = stage.createTopic(producer, 4);
        producer.send(text(stage.topic, "", "before the group existed"), queues.get(0));
        List<ConcurrentLinkedQueue<MessageExt>> received = List.of(new ConcurrentLinkedQueue<>(), new ConcurrentLinkedQueue<>());
        for (int i = 0; i < 2; i++) {
            DefaultMQPushConsumer consumer = stage.push(stage.group, "b" + i);
            broadcasting(consumer);
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET);
            consumer.subscribe(stage.topic, "*");
            consumer.registerMessageListener(into(received.get(i)));
            stage.start(consumer);
            Check.await("4 owned queues", () -> Stage.owned(consumer, stage.topic) == 4, () -> Stage.owned(consumer, stage.topic));
        }
        Set<String> sent = new TreeSet<>();
        for (int i = 0; i < 200; i++) {
            sent.add("all " + i);
            producer.send(text(stage.topic, "", "all " + i), queues.get(i % 4));
        }
        for (ConcurrentLinkedQueue<MessageExt> instance : received) {
            Check.await("200 messages", () -> instance.size() >= 200, instance::size);
            Set<String> found = new TreeSet<>();
            instance.forEach(message -> found.add(body(message)));
            Check.equal(200, instance.size(), "messages of one instance, each once"); // broadcast starts at the end
            Check.equal(sent, found, "messages of one instance");
        }
        return "2 instances, 200 messages each";
    }

    /** The enum moved to another package in 5.x. */
    private static void broadcasting(DefaultMQPushConsumer consumer) throws Exception {
        Method set = Arrays.stream(DefaultMQPushConsumer.class.getMethods())
            .filter(method -> method.getName().equals("setMessageModel")).findFirst().orElseThrow();
        for (Object model : set.getParameterTypes()[0].getEnumConstants()) {
            if (model.toString().equals("BROADCASTING")) {
                set.invoke(consumer, model);
                return;
            }
        }
        throw new AssertionError("this client knows no BROADCASTING");
    }
}
