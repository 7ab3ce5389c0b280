package interop;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Two members of one group, one of which leaves. */
final class Groups {
    private Groups() {}

    /** Sends numbered messages to the queues in turn until stopped. */
    private static final class Source extends Thread {
        private final DefaultMQProducer producer;
        private final List<MessageQueue> queues;
        private final long pauseMillis;
        private final AtomicBoolean stop = new AtomicBoolean();
        private final AtomicReference<Throwable> failure = new AtomicReference<>();
        final AtomicInteger sent = new AtomicInteger();

        Source(DefaultMQProducer producer, List<MessageQueue> queues, long pauseMillis) {
            this.producer = producer;
            this.queues = queues;
            this.pauseMillis = pauseMillis;
        }

        @Override
        public void run() {
            try {
                while (!stop.get()) {
                    int number = sent.get();
                    MessageQueue queue = queues.get(number % queues.size());
                    producer.send(Pushes.text(queue.getTopic(), "", Integer.toString(number)), queue);
                    sent.incrementAndGet();
                    Thread.sleep(pauseMillis);
                }
            } catch (Throwable reason) {
                failure.set(reason);
            }
        }

        int finish() throws InterruptedException {
            stop.set(true);
            join();
            Check.equal(null, failure.get(), "failure of a send");
            return sent.get();
        }
    }

    static String rebalance(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        List<MessageQueue> queues = stage.createTopic(producer, 8);
        Queue<MessageExt> byFirst = new ConcurrentLinkedQueue<>();
        Queue<MessageExt> bySecond = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer first = member(stage, "first", byFirst);
        stage.start(first);
        Check.await("8 owned queues", () -> Stage.owned(first, stage.topic) == 8, () -> Stage.owned(first, stage.topic));
        Source source = new Source(producer, queues, 2);
        source.start();
        Check.await("messages by the first", () -> byFirst.size() > 50, byFirst::size);

        DefaultMQPushConsumer second = member(stage, "second", bySecond);
        long joined = System.nanoTime();
        second.start();
        awaitOwned(stage, first, 4, second, 4);
        double join = (System.nanoTime() - joined) / 1e9;
        Check.await("messages by the second", () -> bySecond.size() > 100, bySecond::size);
        long left = System.nanoTime();
        second.shutdown();
        awaitOwned(stage, first, 8, second, 0);
        double leave = (System.nanoTime() - left) / 1e9;
        int mark = source.sent.get();
        Check.await("80 more messages", () -> source.sent.get() > mark + 80, source.sent::get);
        int sent = source.finish();

        Set<Integer> seen = ConcurrentHashMap.newKeySet();
        Check.await("every one of " + sent + " messages", () -> {
            byFirst.forEach(message -> seen.add(Integer.parseInt(Pushes.body(message))));
            bySecond.forEach(message -> seen.add(Integer.parseInt(Pushes.body(message))));
            return seen.size() == sent;
        }, seen::size);
        int twice = byFirst.size() + bySecond.size() - sent;
        return String.format("%d messages, %d of them twice, joined in %.2f s, left in %.2f s", sent, twice, join, leave);
    }

    private static DefaultMQPushConsumer member(Stage stage, String name, Queue<MessageExt> received) throws Exception {
        DefaultMQPushConsumer consumer = stage.push(stage.group, name);
        consumer.subscribe(stage.topic, "*");
        consumer.registerMessageListener(Pushes.into(received));
        return consumer;
    }

    private static void awaitOwned(Stage stage, DefaultMQPushConsumer first, int ofFirst, DefaultMQPushConsumer second, int ofSecond) throws Exception {
        Check.await(ofFirst + " and " + ofSecond + " owned queues",
            () -> Stage.owned(first, stage.topic) == ofFirst && Stage.owned(second, stage.topic) == ofSecond,
            () -> Stage.owned(first, stage.topic) + " and " + Stage.owned(second, stage.topic));
    }

    /** One delivery to an orderly listener. */
    private record Delivery(String member, int sequence) {}

    /** Deliveries to the orderly listeners of both members. */
    private static final class Order {
        final Map<Integer, Queue<Delivery>> deliveries = new ConcurrentHashMap<>();
        final Map<Integer, AtomicInteger> inside = new ConcurrentHashMap<>();
        final Queue<String> overlaps = new ConcurrentLinkedQueue<>();
        final Set<Integer> suspended = ConcurrentHashMap.newKeySet();

        ConsumeOrderlyStatus consume(String member, List<MessageExt> messages, ConsumeOrderlyContext context) {
            int queue = context.getMessageQueue().getQueueId();
            if (inside.computeIfAbsent(queue, key -> new AtomicInteger()).incrementAndGet() != 1) {
                overlaps.add("queue " + queue + " in " + member);
            }
            try {
                for (MessageExt message : messages) {
                    int sequence = Integer.parseInt(Pushes.body(message)) / 4;
                    if (sequence == 20 && suspended.add(queue)) { // asks for this message again, nothing may pass it
                        context.setSuspendCurrentQueueTimeMillis(100);
                        return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
                    }
                    deliveries.computeIfAbsent(queue, key -> new ConcurrentLinkedQueue<>()).add(new Delivery(member, sequence));
                }
                return ConsumeOrderlyStatus.SUCCESS;
            } finally {
                inside.get(queue).decrementAndGet();
            }
        }

        int total() {
            return deliveries.values().stream().mapToInt(list -> (int) list.stream().mapToInt(Delivery::sequence).distinct().count()).sum();
        }

        boolean served(String member) {
            return deliveries.values().stream().anyMatch(list -> list.stream().filter(one -> one.member.equals(member)).count() > 40);
        }
    }

    static String orderly(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        List<MessageQueue> queues = stage.createTopic(producer, 4);
        Order order = new Order();
        List<DefaultMQPushConsumer> members = new ArrayList<>();
        for (String name : List.of("first", "second")) {
            DefaultMQPushConsumer consumer = stage.push(stage.group, name);
            consumer.subscribe(stage.topic, "*");
            consumer.registerMessageListener((List<MessageExt> messages, ConsumeOrderlyContext context) -> order.consume(name, messages, context));
            members.add(consumer);
        }
        stage.start(members.get(0));
        members.get(1).start();
        awaitOwned(stage, members.get(0), 2, members.get(1), 2);
        Source source = new Source(producer, queues, 1);
        source.start();
        Check.await("40 messages of a queue by each member", () -> order.served("first") && order.served("second"), order::total);
        long left = System.nanoTime();
        members.get(1).shutdown();
        awaitOwned(stage, members.get(0), 4, members.get(1), 0);
        double moved = (System.nanoTime() - left) / 1e9;
        int mark = source.sent.get();
        Check.await("100 more messages", () -> source.sent.get() > mark + 100, source.sent::get);
        int sent = source.finish();
        Check.await("all " + sent + " messages", () -> order.total() == sent, order::total);
        int twice = 0;
        for (Map.Entry<Integer, Queue<Delivery>> queue : order.deliveries.entrySet()) {
            twice += inOrder(queue.getKey(), queue.getValue());
        }
        Check.equal("[]", order.overlaps.toString(), "queues with two owners at a time");
        Check.equal(4, order.suspended.size(), "queues that were suspended once");
        return String.format("%d messages in 4 queues, %d again after the move, moved in %.2f s", sent, twice, moved);
    }

    /** Checks that a queue has no gaps and goes back only where another member took over. Returns the number of repeated messages. */
    private static int inOrder(int queue, Queue<Delivery> deliveries) {
        Delivery last = new Delivery("", -1);
        int repeated = 0;
        for (Delivery next : deliveries) {
            boolean follows = next.sequence == last.sequence + 1;
            boolean again = next.sequence <= last.sequence && !next.member.equals(last.member);
            Check.that(follows || again, "queue " + queue + ": " + next + " after " + last);
            repeated += again ? last.sequence - next.sequence + 1 : 0;
            last = next;
        }
        return repeated;
    }
}
