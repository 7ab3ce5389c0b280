import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/** Scenarios on the official Java client of RocketMQ 5.x. Arguments: gRPC endpoint, name server, run id, scenario names; or {@code list}. */
public final class Cases {
    private static final Map<String, Stage.Scenario> ALL = new LinkedHashMap<>();

    static {
        ALL.put("simple", Cases::simple);
        ALL.put("tls", Cases::tls);
        ALL.put("push", Cases::push);
        ALL.put("slow", Cases::slow);
        ALL.put("fifo", Cases::fifo);
        ALL.put("delay", Cases::delay);
        ALL.put("transactions", Cases::transactions);
        ALL.put("tags", Cases::tags);
        ALL.put("sql", Cases::sql);
        ALL.put("dead-letters", Cases::deadLetters);
        ALL.put("large-bodies", Cases::largeBodies);
        ALL.put("both-protocols", Cases::bothProtocols);
        ALL.put("handover", Cases::handover);
    }

    private static void simple(Stage stage) throws Exception {
        var producer = stage.producer();
        var consumer = stage.consumer();
        Map<String, String> sent = new ConcurrentHashMap<>();
        List<java.util.concurrent.CompletableFuture<?>> pending = new ArrayList<>();
        for (int index = 0; index < 40; index++) {
            String body = "body " + index;
            var message = stage.message(body).setTag("A").setKeys("k" + index).addProperty("color", "red").build();
            if (index % 2 == 0) {
                sent.put(producer.send(message).getMessageId().toString(), body);
            } else {
                pending.add(producer.sendAsync(message).thenAccept(receipt -> sent.put(receipt.getMessageId().toString(), body)));
            }
        }
        for (var one : pending) {
            one.get();
        }
        Map<String, String> found = new LinkedHashMap<>();
        for (MessageView message : Stage.receive(consumer, 40)) {
            found.put(message.getMessageId().toString(), Stage.body(message));
            Stage.equal("A", message.getTag().orElse(null), "tag");
            Stage.equal("red", message.getProperties().get("color"), "property");
            Stage.equal(List.of("k" + Stage.body(message).split(" ")[1]), List.copyOf(message.getKeys()), "keys");
            Stage.equal(1, message.getDeliveryAttempt(), "attempt");
        }
        Stage.equal(sent, found, "messages by id");
        Stage.nothing(consumer, "after all were acknowledged");
    }

    private static void tls(Stage stage) throws Exception {
        stage.isEncrypted = true;
        simple(stage);
    }

    private static void push(Stage stage) throws Exception {
        List<String> found = new CopyOnWriteArrayList<>();
        stage.push(message -> {
            found.add(Stage.body(message) + " " + message.getDeliveryAttempt());
            boolean fails = Stage.body(message).equals("7") && message.getDeliveryAttempt() == 1;
            return fails ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
        });
        var producer = stage.producer();
        for (int index = 0; index < 200; index++) {
            producer.send(stage.message("" + index).build());
        }
        Stage.await("delivery of all", () -> found.size() >= 201);
        List<String> expected = new ArrayList<>(IntStream.range(0, 200).mapToObj(index -> index + " 1").toList());
        expected.add("7 2");
        Stage.equal(expected.stream().sorted().toList(), found.stream().sorted().toList(), "deliveries");
    }

    /** A listener that takes longer than messages stay invisible (60 s): the server renews them, so they come once. */
    private static void slow(Stage stage) throws Exception {
        List<String> found = new CopyOnWriteArrayList<>();
        AtomicInteger done = new AtomicInteger();
        stage.push(message -> {
            found.add(Stage.body(message) + " " + message.getDeliveryAttempt());
            try {
                Thread.sleep(75_000);
            } catch (InterruptedException interrupted) {
                return ConsumeResult.FAILURE;
            }
            done.incrementAndGet();
            return ConsumeResult.SUCCESS;
        });
        stage.producer().send(stage.message("slow").build());
        Stage.await("consumption", () -> done.get() > 0);
        Stage.nothing(stage.consumer(), "after the message was consumed");
        Stage.equal(List.of("slow 1"), found, "deliveries");
    }

    private static void fifo(Stage stage) throws Exception {
        Map<String, List<Integer>> found = new ConcurrentHashMap<>();
        AtomicInteger failed = new AtomicInteger();
        stage.push(message -> {
            String[] parts = Stage.body(message).split(" ");
            if (parts[1].equals("3") && failed.getAndIncrement() == 0) {
                return ConsumeResult.FAILURE;
            }
            found.computeIfAbsent(parts[0], key -> new CopyOnWriteArrayList<>()).add(Integer.parseInt(parts[1]));
            return ConsumeResult.SUCCESS;
        });
        var producer = stage.producer();
        for (int index = 0; index < 60; index++) {
            String part = "g" + index % 3;
            producer.send(stage.message(part + " " + index / 3).setMessageGroup(part).build());
        }
        Stage.await("delivery of all", () -> found.values().stream().mapToInt(List::size).sum() >= 60);
        for (var entry : found.entrySet()) {
            Stage.equal(IntStream.range(0, 20).boxed().toList(), List.copyOf(entry.getValue()), "order of " + entry.getKey());
        }
    }

    /** The recalled message would come before the other one. */
    private static void delay(Stage stage) throws Exception {
        var producer = stage.producer();
        var consumer = stage.consumer();
        long due = System.currentTimeMillis() + 30_000;
        if (Stage.canRecall()) {
            var receipt = producer.send(stage.message("recalled").setDeliveryTimestamp(due).build());
            Stage.equal(receipt.getMessageId().toString(), Stage.recall(producer, stage.topic, receipt), "id of the recalled message");
        }
        producer.send(stage.message("late").setDeliveryTimestamp(due + 1).build());
        Stage.equal(List.of("late"), Stage.bodies(Stage.receive(consumer, 1)), "bodies");
        Stage.check(System.currentTimeMillis() > due, "the message came before its time");
        Stage.nothing(consumer, "the recalled message");
    }

    private static void transactions(Stage stage) throws Exception {
        var consumer = stage.consumer();
        var producer = stage.producer(message -> switch (Stage.body(message)) {
            case "asked and committed" -> TransactionResolution.COMMIT;
            case "asked and rolled back" -> TransactionResolution.ROLLBACK;
            // A second decision would deliver a message twice.
            default -> TransactionResolution.UNKNOWN;
        });
        for (String body : List.of("committed", "rolled back", "asked and committed", "asked and rolled back")) {
            var transaction = producer.beginTransaction();
            producer.send(stage.message(body).build(), transaction);
            if (body.equals("committed")) {
                transaction.commit();
            } else if (body.equals("rolled back")) {
                transaction.rollback();
            }
        }
        Stage.equal(List.of("asked and committed", "committed"), Stage.bodies(Stage.receive(consumer, 2)), "bodies");
        Stage.nothing(consumer, "rolled back");
    }

    private static void filtered(Stage stage, FilterExpression filter) throws Exception {
        var producer = stage.producer();
        var consumer = stage.consumer(stage.topic, filter);
        for (String tag : List.of("A", "B", "C", "A")) {
            producer.send(stage.message(tag).setTag(tag).addProperty("size", tag.equals("C") ? "1" : "10").build());
        }
        Stage.equal(List.of("A", "A", "B"), Stage.bodies(Stage.receive(consumer, 3)), "bodies");
        Stage.nothing(consumer, "of what does not match");
    }

    private static void tags(Stage stage) throws Exception {
        filtered(stage, new FilterExpression("A||B", FilterExpressionType.TAG));
    }

    private static void sql(Stage stage) throws Exception {
        filtered(stage, new FilterExpression("size > 5 AND TAGS IS NOT NULL", FilterExpressionType.SQL92));
    }

    /** The runner allows the group two deliveries. */
    private static void deadLetters(Stage stage) throws Exception {
        List<Integer> attempts = new CopyOnWriteArrayList<>();
        stage.push(message -> {
            attempts.add(message.getDeliveryAttempt());
            return ConsumeResult.FAILURE;
        });
        var producer = stage.producer();
        String id = producer.send(stage.message("bad").setKeys("k").addProperty("color", "red").build()).getMessageId().toString();
        Stage.await("two deliveries", () -> attempts.size() >= 2);
        List<SimpleConsumer> consumers = new ArrayList<>();
        Stage.await("a dead letter topic", () -> {
            try {
                return consumers.add(stage.consumer("%DLQ%" + stage.group, FilterExpression.SUB_ALL));
            } catch (Exception missing) {
                return false;
            }
        });
        var found = Stage.receive(consumers.get(0), 1);
        Stage.equal(List.of("bad"), Stage.bodies(found), "dead letters");
        Stage.equal("red", found.get(0).getProperties().get("color"), "property");
        Stage.equal(id, found.get(0).getMessageId().toString(), "id");
        Stage.equal(List.of(1, 2), List.copyOf(attempts), "attempts");
    }

    private static void largeBodies(Stage stage) throws Exception {
        var producer = stage.producer();
        var consumer = stage.consumer();
        byte[] body = new byte[4 << 20];
        new java.util.Random(7).nextBytes(body);
        producer.send(Stage.PROVIDER.newMessageBuilder().setTopic(stage.topic).setBody(body).build());
        var found = Stage.receive(consumer, 1);
        Stage.equal(1, found.size(), "messages");
        byte[] received = new byte[found.get(0).getBody().remaining()];
        found.get(0).getBody().get(received);
        Stage.check(Arrays.equals(body, received), "the body of 4 MiB came back changed");
        try {
            producer.send(Stage.PROVIDER.newMessageBuilder().setTopic(stage.topic).setBody(new byte[(4 << 20) + 1]).build());
            throw new AssertionError("a body over the limit was sent");
        } catch (ClientException refused) {
            Stage.check(refused.getMessage().contains("4194304"), "the limit: " + refused.getMessage());
        }
        producer.send(stage.message("after it").build());
        Stage.equal(List.of("after it"), Stage.bodies(Stage.receive(consumer, 1)), "the next message");
    }

    private static DefaultMQProducer remotingProducer(Stage stage) throws Exception {
        var producer = new DefaultMQProducer("P_" + stage.group);
        producer.setNamesrvAddr(stage.namesrv);
        producer.setInstanceName("p" + stage.group);
        producer.setSendMsgTimeout(60_000);
        producer.start();
        stage.closing(producer::shutdown);
        return producer;
    }

    private static DefaultMQPushConsumer remotingConsumer(Stage stage, List<String> found) throws Exception {
        var consumer = new DefaultMQPushConsumer(stage.group);
        consumer.setNamesrvAddr(stage.namesrv);
        consumer.setInstanceName("c" + stage.group);
        consumer.setConsumeFromWhere(org.apache.rocketmq.common.consumer.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(stage.topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> found.add(new String(message.getBody())));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        return consumer;
    }

    private static List<String> expected(int count) {
        List<String> all = new ArrayList<>();
        IntStream.range(0, count).forEach(index -> Collections.addAll(all, "old " + index, "new " + index));
        return all.stream().sorted().toList();
    }

    /** A producer and a consumer of each protocol on one topic and in one group, whose queues the broker shares out. */
    private static void bothProtocols(Stage stage) throws Exception {
        List<String> byRemoting = new CopyOnWriteArrayList<>();
        List<String> byGrpc = new CopyOnWriteArrayList<>();
        stage.push(message -> {
            byGrpc.add(Stage.body(message));
            return ConsumeResult.SUCCESS;
        });
        var consumer = remotingConsumer(stage, byRemoting);
        consumer.setClientRebalance(false);
        consumer.start();
        stage.closing(consumer::shutdown);
        var remoting = remotingProducer(stage);
        var producer = stage.producer();
        int sent = 0;
        // The client of gRPC may get its queues after the other client got all messages.
        for (long end = System.nanoTime() + 240_000_000_000L; sent < 100 || byGrpc.isEmpty() && System.nanoTime() < end; sent++) {
            remoting.send(new Message(stage.topic, ("old " + sent).getBytes()));
            producer.send(stage.message("new " + sent).build());
            Thread.sleep(sent < 100 ? 0 : 100);
        }
        int count = sent;
        Stage.await("delivery of all", () -> byRemoting.size() + byGrpc.size() >= 2 * count);
        List<String> found = new ArrayList<>(byRemoting);
        found.addAll(byGrpc);
        Stage.equal(expected(count), found.stream().sorted().toList(), "messages of both");
        Stage.check(!byGrpc.isEmpty(), "the client of gRPC got nothing");
    }

    /** A group moves from remoting to gRPC: what the old client consumed does not come again, what it left does. */
    private static void handover(Stage stage) throws Exception {
        List<String> found = new CopyOnWriteArrayList<>();
        var old = remotingConsumer(stage, found);
        old.start();
        var remoting = remotingProducer(stage);
        var producer = stage.producer();
        int count = 20;
        for (int index = 0; index < count; index++) {
            remoting.send(new Message(stage.topic, ("old " + index).getBytes()));
        }
        Stage.await("delivery to the old client", () -> found.size() >= count);
        // What a listener has not returned from when the client shuts down comes again.
        var queues = old.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable();
        Stage.await("consumption", () -> queues.values().stream().allMatch(queue -> queue.getMsgCount().get() == 0));
        old.shutdown();
        for (int index = 0; index < count; index++) {
            producer.send(stage.message("new " + index).build());
        }
        List<String> all = new ArrayList<>(found);
        var consumer = stage.consumer();
        all.addAll(Stage.bodies(Stage.receive(consumer, count)));
        Stage.equal(expected(count), all.stream().sorted().toList(), "messages of both");
        Stage.nothing(consumer, "after all were acknowledged");
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("list")) {
            ALL.keySet().forEach(System.out::println);
            return;
        }
        var pool = Executors.newCachedThreadPool();
        for (String name : Arrays.asList(arguments).subList(3, arguments.length)) {
            pool.submit(() -> Stage.perform(arguments, name, ALL.get(name)));
        }
        pool.shutdown();
        pool.awaitTermination(1, TimeUnit.DAYS);
        // Threads of the clients may outlive their shutdown.
        Runtime.getRuntime().halt(0);
    }
}
