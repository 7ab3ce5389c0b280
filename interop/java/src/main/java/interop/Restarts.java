package interop;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.store.ReadOffsetType;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Clients of a broker that stops and comes back. */
final class Restarts {
    private Restarts() {}

    static String resume(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        List<MessageQueue> queues = stage.createTopic(producer, 4);
        ConcurrentLinkedQueue<MessageExt> before = new ConcurrentLinkedQueue<>();
        ConcurrentLinkedQueue<MessageExt> throughout = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer lasting = consumer(stage, stage.group + "_lasting", "1", throughout);
        DefaultMQPushConsumer leaving = consumer(stage, stage.group, "1", before);
        for (DefaultMQPushConsumer consumer : List.of(lasting, leaving)) {
            Check.await("4 owned queues", () -> Stage.owned(consumer, stage.topic) == 4, () -> Stage.owned(consumer, stage.topic));
        }
        send(producer, queues, 0, 200);
        Check.await("200 messages", () -> before.size() >= 200, before::size);
        Check.await("200 messages by the other group", () -> throughout.size() >= 200, throughout::size);
        for (MessageQueue queue : queues) {
            Check.await("the committed offset 50 of " + queue, () -> committed(leaving, queue) == 50, () -> committed(leaving, queue));
        }
        leaving.shutdown();
        send(producer, queues, 200, 260);

        Main.ask("restart");
        Check.await("an answer by the connection of the producer", () -> isConnected(producer, queues.get(0)), () -> "none");
        send(producer, queues, 260, 320);
        ConcurrentLinkedQueue<MessageExt> after = new ConcurrentLinkedQueue<>();
        consumer(stage, stage.group, "2", after);
        Check.await("120 messages after the restart", () -> after.size() >= 120, after::size);
        Check.await("320 messages by the consumer that stayed", () -> numbers(throughout).size() >= 320, throughout::size);
        Check.equal(range(0, 200), numbers(before), "messages before the restart");
        Check.equal(range(200, 320), numbers(after), "messages after the restart");
        Check.equal(120, after.size(), "messages after the restart, each once");
        Check.equal(range(0, 320), numbers(throughout), "messages by the consumer that stayed");
        int stored = 0;
        for (List<MessageExt> queue : stage.reader().topic(stage.topic, 320).values()) {
            stored += queue.size();
        }
        Check.equal(320, stored, "messages stored");
        return "200 before, 120 after, " + (throughout.size() - 320) + " repeated for the consumer that stayed";
    }

    private static DefaultMQPushConsumer consumer(Stage stage, String group, String instance,
        ConcurrentLinkedQueue<MessageExt> received) throws Exception {
        DefaultMQPushConsumer consumer = stage.push(group, instance);
        consumer.subscribe(stage.topic, "*");
        consumer.registerMessageListener(Pushes.into(received));
        stage.start(consumer);
        return consumer;
    }

    /** Commits the consumer's progress and returns the offset that the broker has; -1 if it has none. */
    static long committed(DefaultMQPushConsumer consumer, MessageQueue queue) {
        consumer.getDefaultMQPushConsumerImpl().persistConsumerOffset();
        return consumer.getDefaultMQPushConsumerImpl().getOffsetStore().readOffset(queue, ReadOffsetType.READ_FROM_STORE);
    }

    /** Whether the broker answers this producer. A connection of the broker that has ended may not be noticed yet. */
    @SuppressWarnings("deprecation") // 5.x has no other question that brokers answer to producers
    private static boolean isConnected(DefaultMQProducer producer, MessageQueue queue) {
        try {
            return producer.maxOffset(queue) > 0;
        } catch (MQClientException notYet) {
            return false;
        }
    }

    private static void send(DefaultMQProducer producer, List<MessageQueue> queues, int from, int to) throws Exception {
        for (int i = from; i < to; i++) {
            MessageQueue queue = queues.get(i % queues.size());
            SendResult answer = producer.send(Pushes.text(queue.getTopic(), "", Integer.toString(i)), queue);
            Check.equal((long) i / queues.size(), answer.getQueueOffset(), "queue offset of message " + i);
        }
    }

    private static Set<Integer> numbers(ConcurrentLinkedQueue<MessageExt> messages) {
        Set<Integer> numbers = new HashSet<>();
        messages.forEach(message -> numbers.add(Integer.parseInt(Pushes.body(message))));
        return numbers;
    }

    private static Set<Integer> range(int from, int to) {
        Set<Integer> numbers = new HashSet<>();
        for (int i = from; i < to; i++) {
            numbers.add(i);
        }
        return numbers;
    }

    /** A sender with one message in flight on a queue of its own; a failed send is never repeated under its number. */
    private static final class Sender extends Thread {
        final Map<Integer, SendResult> acknowledged = new ConcurrentHashMap<>();
        final AtomicInteger attempts = new AtomicInteger();
        private final DefaultMQProducer producer;
        private final MessageQueue queue;
        private final AtomicBoolean stop;

        Sender(DefaultMQProducer producer, MessageQueue queue, AtomicBoolean stop) {
            this.producer = producer;
            this.queue = queue;
            this.stop = stop;
        }

        @Override
        public void run() {
            while (!stop.get()) {
                int number = attempts.getAndIncrement();
                try {
                    SendResult answer = producer.send(new Message(queue.getTopic(), content(queue, number)), queue);
                    if (answer.getSendStatus() == SendStatus.SEND_OK) {
                        acknowledged.put(number, answer);
                    }
                } catch (Exception unanswered) {
                    LockSupport.parkNanos(20_000_000); // another attempt in 20 ms
                }
            }
        }
    }

    private static byte[] content(MessageQueue queue, int number) {
        String text = queue.getQueueId() + ":" + number + ":" + "x".repeat(number * 37 % 700);
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String kill(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        producer.setRetryTimesWhenSendFailed(0);
        List<MessageQueue> queues = stage.createTopic(producer, 8);
        AtomicBoolean stop = new AtomicBoolean();
        List<Sender> senders = new ArrayList<>();
        for (MessageQueue queue : queues) {
            Sender sender = new Sender(producer, queue, stop);
            sender.start();
            senders.add(sender);
        }
        Check.await("4000 acknowledged messages", () -> acknowledged(senders) > 4000, () -> acknowledged(senders));
        Main.ask("kill9");
        int mark = acknowledged(senders);
        Check.await("1000 more acknowledged messages", () -> acknowledged(senders) > mark + 1000, () -> acknowledged(senders));
        stop.set(true);
        for (Sender sender : senders) {
            sender.join();
        }
        Reader reader = stage.reader();
        int extra = 0;
        for (Sender sender : senders) {
            extra += complete(sender, reader.queue(sender.queue, sender.acknowledged.size()));
        }
        return acknowledged(senders) + " acknowledged, " + extra + " stored without an answer";
    }

    private static int acknowledged(List<Sender> senders) {
        return senders.stream().mapToInt(sender -> sender.acknowledged.size()).sum();
    }

    /** Checks that no acknowledged message is missing or moved, and that no message is out of order, stored twice or invented. */
    private static int complete(Sender sender, List<MessageExt> stored) {
        String where = " in queue " + sender.queue.getQueueId();
        Set<Integer> missing = new HashSet<>(sender.acknowledged.keySet());
        int last = -1;
        for (MessageExt message : stored) {
            int number = Integer.parseInt(Pushes.body(message).split(":")[1]);
            Check.that(number > last, "message " + number + " after " + last + where);
            Check.that(number < sender.attempts.get(), "message " + number + " was never sent" + where);
            Check.equal(content(sender.queue, number), message.getBody(), "body of message " + number + where);
            SendResult answer = sender.acknowledged.get(number);
            if (answer != null) {
                Check.equal(answer.getQueueOffset(), message.getQueueOffset(), "acknowledged offset of message " + number + where);
                Check.equal(answer.getMsgId(), message.getMsgId(), "acknowledged id of message " + number + where);
            }
            missing.remove(number);
            last = number;
        }
        Check.that(missing.isEmpty(), "acknowledged but missing" + where + ": " + missing.size() + " such as " + missing.stream().sorted().limit(5).toList());
        return stored.size() - sender.acknowledged.size();
    }
}
