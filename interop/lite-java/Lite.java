import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.IntStream;
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.LitePushConsumer;
import org.apache.rocketmq.client.apis.consumer.LitePushConsumerBuilder;
import org.apache.rocketmq.client.apis.consumer.MessageListener;
import org.apache.rocketmq.client.apis.consumer.OffsetOption;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.java.exception.LiteSubscriptionQuotaExceededException;

/**
 * Lite topics on the official Java client. Arguments: gRPC endpoint, name server, run id, scenario names; or {@code list}. The scenario
 * {@code refused} is for a server that does not serve them.
 */
public final class Lite {
    /** {@code maxLiteSubscriptionCount} of the brokers. */
    private static final int QUOTA = 150;
    private static final Map<String, Stage.Scenario> ALL = new LinkedHashMap<>();

    static {
        ALL.put("across", Lite::across);
        ALL.put("again", Lite::again);
        ALL.put("slow", Lite::slow);
        ALL.put("dead-letters", Lite::deadLetters);
        ALL.put("exclusive", Lite::exclusive);
        ALL.put("exclusive-back", Lite::exclusiveBack);
        ALL.put("shared", Lite::shared);
        ALL.put("resubscribe", Lite::resubscribe);
        ALL.put("bound", Lite::bound);
        ALL.put("offsets", Lite::offsets);
        ALL.put("own-quota", Lite::ownQuota);
        ALL.put("wildcard", Lite::wildcard);
        ALL.put("overflow", Lite::overflow);
        ALL.put("wildcard-overflow", Lite::wildcardOverflow);
        ALL.put("restart", Lite::restart);
        ALL.put("quota", Lite::quota);
    }

    /** Scenarios that run after the others, each alone. */
    private static final List<String> ALONE = List.of("restart", "quota");

    private static LitePushConsumerBuilder builder(Stage stage, MessageListener listener) throws Exception {
        return Stage.PROVIDER.newLitePushConsumerBuilder().setClientConfiguration(stage.configuration())
            .setConsumerGroup(stage.group).bindTopic(stage.topic).setMessageListener(listener);
    }

    private static LitePushConsumer consumer(Stage stage, MessageListener listener) throws Exception {
        return stage.started(builder(stage, listener)::build);
    }

    private static void send(Stage stage, Producer producer, String liteTopic, String body) throws Exception {
        producer.send(stage.message(body).setLiteTopic(liteTopic).build());
    }

    /** The bodies that came of each lite topic, in order. */
    private static final class Received implements MessageListener {
        final Map<String, List<String>> bodies = new ConcurrentHashMap<>();
        final CountDownLatch gate = new CountDownLatch(1);

        @Override
        public ConsumeResult consume(MessageView message) {
            try {
                gate.await();
            } catch (InterruptedException interrupted) {
                return ConsumeResult.FAILURE;
            }
            bodies.computeIfAbsent(message.getLiteTopic().orElse("none"), name -> new CopyOnWriteArrayList<>()).add(Stage.body(message));
            return ConsumeResult.SUCCESS;
        }

        Received open() {
            gate.countDown();
            return this;
        }

        int count() {
            return bodies.values().stream().mapToInt(List::size).sum();
        }

        /** The first delivery of each body. */
        List<String> first(String liteTopic) {
            return bodies.getOrDefault(liteTopic, List.of()).stream().distinct().toList();
        }
    }

    private static String text(MessageView message) {
        return message.getLiteTopic().orElse("none") + " " + Stage.body(message) + " " + message.getDeliveryAttempt();
    }

    /** Lite topics on both brokers, each in its own order; nothing comes of one that is not subscribed to any more. */
    private static void across(Stage stage) throws Exception {
        var producer = stage.producer();
        Map<String, List<String>> found = new ConcurrentHashMap<>();
        var consumer = consumer(stage, message -> {
            found.computeIfAbsent(message.getLiteTopic().orElse("none"), name -> new CopyOnWriteArrayList<>()).add(text(message));
            return ConsumeResult.SUCCESS;
        });
        Map<String, List<String>> expected = new LinkedHashMap<>();
        for (int topic = 0; topic < 12; topic++) {
            String name = "lite-" + topic;
            consumer.subscribeLite(name, OffsetOption.MIN_OFFSET);
            List<String> texts = new ArrayList<>();
            for (int index = 0; index < 3; index++) {
                producer.send(stage.message("" + index).setLiteTopic(name).build());
                texts.add(name + " " + index + " 1");
            }
            expected.put(name, texts);
        }
        Stage.await("delivery of all", () -> found.values().stream().mapToInt(List::size).sum() >= 36);
        Stage.equal(expected, new LinkedHashMap<>(Map.copyOf(found)), "deliveries by lite topic");
        consumer.unsubscribeLite("lite-0");
        Stage.equal(11, consumer.getLiteTopicSet().size(), "subscribed lite topics");
        producer.send(stage.message("late").setLiteTopic("lite-0").build());
        producer.send(stage.message("last").setLiteTopic("lite-1").build());
        Stage.await("a message of another lite topic", () -> found.get("lite-1").contains("lite-1 last 1"));
        Stage.equal(expected.get("lite-0"), found.get("lite-0"), "deliveries of a lite topic that was left");
    }

    /** A message that was not consumed comes again, in an ordered group before the next one of its lite topic. */
    private static void again(Stage stage) throws Exception {
        List<String> found = new CopyOnWriteArrayList<>();
        var consumer = consumer(stage, message -> {
            boolean fails = found.isEmpty();
            found.add(Stage.body(message));
            return fails ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
        });
        consumer.subscribeLite("x", OffsetOption.MIN_OFFSET);
        var producer = stage.producer();
        producer.send(stage.message("0").setLiteTopic("x").build());
        producer.send(stage.message("1").setLiteTopic("x").build());
        Stage.await("delivery of all", () -> found.size() >= 3);
        Stage.equal(List.of("0", "0", "1"), found, "deliveries");
    }

    /** A message that takes longer than its invisible time (60 s) is renewed, so that it comes once. */
    private static void slow(Stage stage) throws Exception {
        List<String> found = new CopyOnWriteArrayList<>();
        var consumer = consumer(stage, message -> {
            found.add(text(message));
            try {
                Thread.sleep(Stage.body(message).equals("slow") ? 75_000 : 0);
            } catch (InterruptedException interrupted) {
                return ConsumeResult.FAILURE;
            }
            found.add("done");
            return ConsumeResult.SUCCESS;
        });
        consumer.subscribeLite("x", OffsetOption.MIN_OFFSET);
        var producer = stage.producer();
        producer.send(stage.message("slow").setLiteTopic("x").build());
        Stage.await("consumption", () -> found.contains("done"));
        producer.send(stage.message("next").setLiteTopic("x").build());
        Stage.await("the next message", () -> found.size() >= 4);
        Stage.equal(List.of("x slow 1", "done", "x next 1", "done"), found, "deliveries");
    }

    /**
     * A message that fails too often is given up, and the next one of its lite topic comes. It is not the first one there: brokers of
     * 5.5.0 put the copy of that one into the lite topic again.
     */
    private static void deadLetters(Stage stage) throws Exception {
        List<String> found = new CopyOnWriteArrayList<>();
        var consumer = consumer(stage, message -> {
            found.add(Stage.body(message));
            return Stage.body(message).equals("bad") ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
        });
        consumer.subscribeLite("x", OffsetOption.MIN_OFFSET);
        var producer = stage.producer();
        producer.send(stage.message("first").setLiteTopic("x").build());
        Stage.await("the first message", () -> found.contains("first"));
        producer.send(stage.message("bad").setLiteTopic("x").build());
        Stage.await("two deliveries", () -> found.size() >= 3);
        producer.send(stage.message("last").setLiteTopic("x").build());
        Stage.await("the next message", () -> found.contains("last"));
        Stage.equal(List.of("first", "bad", "bad", "last"), found, "deliveries");
    }

    /** In a group of this kind the newest consumer of a lite topic has it alone, and the former one hears so. */
    private static void exclusive(Stage stage) throws Exception {
        List<String> found = new CopyOnWriteArrayList<>();
        var former = consumer(stage, message -> {
            found.add("former " + Stage.body(message));
            return ConsumeResult.SUCCESS;
        });
        former.subscribeLite("x", OffsetOption.MIN_OFFSET);
        former.subscribeLite("y", OffsetOption.MIN_OFFSET);
        var producer = stage.producer();
        producer.send(stage.message("1").setLiteTopic("x").build());
        Stage.await("delivery to the first consumer", () -> found.contains("former 1"));
        var newest = consumer(stage, message -> {
            found.add("newest " + Stage.body(message));
            return ConsumeResult.SUCCESS;
        });
        newest.subscribeLite("x");
        Stage.await("loss of the lite topic", () -> former.getLiteTopicSet().equals(Set.of("y")));
        producer.send(stage.message("2").setLiteTopic("x").build());
        Stage.await("delivery to the newest consumer", () -> found.contains("newest 2"));
        Stage.equal(List.of("former 1", "newest 2"), found, "deliveries");
    }

    /** A consumer that lost a lite topic takes it back, and consumes from the message behind the last consumed one. */
    private static void exclusiveBack(Stage stage) throws Exception {
        List<String> found = new CopyOnWriteArrayList<>();
        var former = consumer(stage, message -> {
            found.add("former " + Stage.body(message));
            return ConsumeResult.SUCCESS;
        });
        var newest = consumer(stage, message -> {
            found.add("newest " + Stage.body(message));
            return ConsumeResult.SUCCESS;
        });
        var producer = stage.producer();
        former.subscribeLite("x", OffsetOption.MIN_OFFSET);
        send(stage, producer, "x", "1");
        Stage.await("delivery to the first consumer", () -> found.contains("former 1"));
        newest.subscribeLite("x");
        Stage.await("loss of the lite topic", () -> former.getLiteTopicSet().isEmpty());
        send(stage, producer, "x", "2");
        Stage.await("delivery to the newest consumer", () -> found.contains("newest 2"));
        former.subscribeLite("x");
        Stage.await("loss at the newest consumer", () -> newest.getLiteTopicSet().isEmpty());
        send(stage, producer, "x", "3");
        Stage.await("delivery to the first consumer again", () -> found.contains("former 3"));
        former.close();
        newest.subscribeLite("x");
        send(stage, producer, "x", "4");
        Stage.await("delivery to the consumer that is left", () -> found.contains("newest 4"));
        Stage.equal(List.of("former 1", "newest 2", "former 3", "newest 4"), found, "deliveries");
    }

    /** Consumers of a group share a lite topic: each message comes once, in order. Another subscription changes nothing. */
    private static void shared(Stage stage) throws Exception {
        List<String> found = new CopyOnWriteArrayList<>();
        List<String> expected = new ArrayList<>();
        for (int index = 0; index < 3; index++) {
            consumer(stage, message -> {
                found.add(Stage.body(message));
                return ConsumeResult.SUCCESS;
            }).subscribeLite("x", OffsetOption.LAST_OFFSET);
        }
        var producer = stage.producer();
        for (int index = 0; index < 30; index++) {
            send(stage, producer, "x", "" + index);
            expected.add("" + index);
        }
        Stage.await("delivery of all", () -> found.size() >= 30);
        Stage.equal(expected, found, "deliveries");
    }

    /** Messages of the time without a subscription come with the next subscription, unless it asks for another offset. */
    private static void resubscribe(Stage stage) throws Exception {
        var received = new Received().open();
        var consumer = consumer(stage, received);
        var producer = stage.producer();
        for (String name : List.of("goes-on", "from-the-end", "again")) {
            consumer.subscribeLite(name, OffsetOption.MIN_OFFSET);
            send(stage, producer, name, "1");
        }
        Stage.await("the first messages", () -> received.count() >= 3);
        for (String name : received.bodies.keySet()) {
            consumer.unsubscribeLite(name);
            send(stage, producer, name, "2");
        }
        consumer.subscribeLite("goes-on");
        consumer.subscribeLite("from-the-end", OffsetOption.MAX_OFFSET);
        consumer.subscribeLite("again", OffsetOption.MIN_OFFSET);
        for (String name : received.bodies.keySet()) {
            send(stage, producer, name, "3");
        }
        Map<String, List<String>> expected = Map.of("goes-on", List.of("1", "2", "3"), "from-the-end", List.of("1", "3"),
            "again", List.of("1", "1", "2", "3"));
        Stage.await("delivery of all", () -> received.count() >= 9);
        Stage.equal(expected, Map.copyOf(received.bodies), "deliveries by lite topic");
    }

    /** Lite consumers and lite groups go together, and a topic of lite topics takes nothing else. */
    private static void bound(Stage stage) throws Exception {
        refuses("acceptMessageTypes=[LITE]", () -> stage.producer().send(stage.message("x").build()));
        logs("bound", "lite group must use LITE mode: " + stage.group, () -> stage.consumer());
        logs("bound", "regular group cannot use LITE mode: " + stage.group + "_regular",
            () -> Stage.PROVIDER.newLitePushConsumerBuilder().setClientConfiguration(stage.configuration())
                .setConsumerGroup(stage.group + "_regular").bindTopic(stage.topic).setMessageListener(message -> ConsumeResult.SUCCESS)
                .build());
    }

    /** Where a group begins in a lite topic that it adds. */
    private static void offsets(Stage stage) throws Exception {
        var producer = stage.producer();
        for (String topic : List.of("min", "second", "max")) {
            for (int index = 0; index < 3; index++) {
                send(stage, producer, topic, "" + index);
            }
        }
        var received = new Received().open();
        var consumer = consumer(stage, received);
        consumer.subscribeLite("min", OffsetOption.MIN_OFFSET);
        consumer.subscribeLite("second", OffsetOption.ofOffset(1));
        consumer.subscribeLite("max", OffsetOption.MAX_OFFSET);
        send(stage, producer, "max", "late");
        Stage.await("delivery of all", () -> received.count() >= 6);
        Stage.equal(Map.of("min", List.of("0", "1", "2"), "second", List.of("1", "2"), "max", List.of("late")),
            Map.copyOf(received.bodies), "deliveries by lite topic");
    }

    /** A group has a quota for each of its consumers, which the consumer gets with its settings. */
    private static void ownQuota(Stage stage) throws Exception {
        var consumer = consumer(stage, message -> ConsumeResult.SUCCESS);
        for (int index = 0; index < 5; index++) {
            consumer.subscribeLite("lite-" + index);
        }
        refuses("quota exceeded 5", () -> consumer.subscribeLite("lite-5"));
        consumer.unsubscribeLite("lite-0");
        consumer.subscribeLite("lite-5");
    }

    /** A group of this kind has all lite topics of its topic, also those that begin while it listens. */
    private static void wildcard(Stage stage) throws Exception {
        var producer = stage.producer();
        send(stage, producer, "before", "0");
        var received = new Received().open();
        var consumer = consumer(stage, received);
        refuses("subscribe lite operation is not supported for this group", () -> consumer.subscribeLite("x"));
        Stage.await("the message from before the consumer", () -> received.bodies.containsKey("before"));
        Map<String, List<String>> expected = new LinkedHashMap<>(Map.of("before", List.of("0")));
        for (int topic = 0; topic < 10; topic++) {
            send(stage, producer, "fresh-" + topic, "0");
            send(stage, producer, "fresh-" + topic, "1");
            expected.put("fresh-" + topic, List.of("0", "1"));
        }
        Stage.await("delivery of all", () -> received.count() >= 21);
        Stage.equal(expected, new LinkedHashMap<>(Map.copyOf(received.bodies)), "deliveries by lite topic");
    }

    /** More lite topics have messages than the group lets a client have waiting (ten), while the client does not receive. */
    private static void overflow(Stage stage) throws Exception {
        overflow(stage, true);
    }

    private static void wildcardOverflow(Stage stage) throws Exception {
        overflow(stage, false);
    }

    private static void overflow(Stage stage, boolean subscribes) throws Exception {
        var received = new Received();
        // A full cache of the client ends its receives.
        var consumer = stage.started(builder(stage, received).setMaxCacheMessageCount(1).setConsumptionThreadCount(1)::build);
        var producer = stage.producer();
        Map<String, List<String>> expected = new LinkedHashMap<>();
        for (int topic = 0; topic < 40; topic++) {
            String name = "lite-" + topic;
            if (subscribes) {
                consumer.subscribeLite(name, OffsetOption.MIN_OFFSET);
            }
            send(stage, producer, name, "0");
            send(stage, producer, name, "1");
            expected.put(name, List.of("0", "1"));
        }
        received.open();
        Stage.await("delivery of all", () -> expected.keySet().stream().mapToInt(name -> received.first(name).size()).sum() >= 80);
        for (var topic : expected.entrySet()) {
            Stage.equal(topic.getValue(), received.first(topic.getKey()), "deliveries of " + topic.getKey());
        }
    }

    /**
     * A broker is killed under load and started again: what was sent comes, each lite topic in its order. Messages may come twice. Runs
     * alone; the runner of this program restarts the broker when asked.
     */
    private static void restart(Stage stage) throws Exception {
        var received = new Received().open();
        var consumer = consumer(stage, received);
        var producer = stage.producer();
        List<String> names = IntStream.range(0, 12).mapToObj(index -> "lite-" + index).toList();
        for (String name : names) {
            consumer.subscribeLite(name, OffsetOption.MIN_OFFSET);
        }
        var isOver = new AtomicBoolean();
        Map<String, Integer> sent = new ConcurrentHashMap<>();
        List<Thread> senders = new ArrayList<>();
        for (int part = 0; part < 4; part++) {
            List<String> own = names.subList(part * 3, part * 3 + 3);
            senders.add(new Thread(() -> {
                for (int index = 0; !isOver.get(); index++) {
                    for (String name : own) {
                        sendUntilStored(stage, producer, name, index);
                        sent.put(name, index + 1);
                    }
                }
            }));
        }
        senders.forEach(Thread::start);
        Stage.await("load", () -> sent.size() == names.size() && sent.values().stream().allMatch(count -> count >= 20));
        System.out.print("@restart\n");
        System.out.flush();
        System.in.read();
        Map<String, Integer> before = Map.copyOf(sent);
        Stage.await("load after the restart", () -> names.stream().allMatch(name -> sent.get(name) >= before.get(name) + 20));
        isOver.set(true);
        for (Thread sender : senders) {
            sender.join();
        }
        Stage.await("delivery of all", () -> names.stream().allMatch(name -> received.first(name).size() >= sent.get(name)));
        for (String name : names) {
            Stage.equal(IntStream.range(0, sent.get(name)).mapToObj(String::valueOf).toList(), received.first(name), "first deliveries of " + name);
        }
    }

    private static void sendUntilStored(Stage stage, Producer producer, String liteTopic, int index) {
        while (true) {
            try {
                send(stage, producer, liteTopic, "" + index);
                return;
            } catch (Exception failure) {
                System.err.println("send again: " + failure);
                // A broker that is down refuses at once.
                LockSupport.parkNanos(100_000_000);
            }
        }
    }

    /** The brokers have place for {@code QUOTA} subscriptions each, which are free again once their consumer closed. Runs alone. */
    private static void quota(Stage stage) throws Exception {
        for (int round = 0; round < 2; round++) {
            var consumer = consumer(stage, message -> ConsumeResult.SUCCESS);
            int count = 0;
            try {
                while (count < 4 * QUOTA) {
                    consumer.subscribeLite("lite-" + count);
                    count++;
                }
                throw new AssertionError(count + " subscriptions were accepted");
            } catch (LiteSubscriptionQuotaExceededException expected) {
                Stage.check(expected.getMessage().contains("lite subscription quota exceeded " + QUOTA), expected.getMessage());
            }
            Stage.check(count >= QUOTA - 10, "only " + count + " subscriptions were accepted in round " + round);
            consumer.close();
        }
    }

    private static void refused(Stage stage) throws Exception {
        logs("refused", "lite topics are not served by this server", () -> consumer(stage, message -> ConsumeResult.SUCCESS));
    }

    interface Call {
        void run() throws Exception;
    }

    private static void refuses(String text, Call call) throws Exception {
        try {
            call.run();
        } catch (ClientException | RuntimeException refusal) {
            Stage.check(String.valueOf(refusal.getMessage()).contains(text), "expected \"" + text + "\", found " + refusal);
            return;
        }
        throw new AssertionError("expected a refusal with \"" + text + "\"");
    }

    /** A client whose settings are refused does not start, and logs why; whoever runs this program looks for it there. */
    private static void logs(String scenario, String text, Call call) throws Exception {
        refuses("", call);
        System.out.print("@logged " + scenario + " " + text + "\n");
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("list")) {
            ALL.keySet().forEach(System.out::println);
            return;
        }
        List<Thread> threads = new ArrayList<>();
        List<String> names = List.of(arguments).subList(3, arguments.length);
        for (String name : names) {
            if (!ALONE.contains(name)) {
                threads.add(new Thread(() -> Stage.perform(arguments, name, ALL.getOrDefault(name, Lite::refused))));
                threads.get(threads.size() - 1).start();
            }
        }
        for (Thread thread : threads) {
            thread.join();
        }
        for (String name : ALONE) {
            if (names.contains(name)) {
                Stage.perform(arguments, name, ALL.get(name));
            }
        }
        // Threads of the clients may outlive their shutdown.
        Runtime.getRuntime().halt(0);
    }
}
