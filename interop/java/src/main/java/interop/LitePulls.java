package interop;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** The lite pull consumer, assigned by hand and by subscription. */
final class LitePulls {
    private LitePulls() {}

    @SuppressWarnings("deprecation") // commitSync is the name that both versions know
    static String assignAndSubscribe(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        List<MessageQueue> queues = stage.createTopic(producer, 4);
        for (int i = 0; i < 200; i++) {
            producer.send(Pushes.text(stage.topic, i % 2 == 0 ? "even" : "odd", Integer.toString(i)), queues.get(i % 4));
        }
        DefaultLitePullConsumer first = stage.lite("assigned");
        first.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        first.start();
        List<MessageQueue> fetched = new ArrayList<>(first.fetchMessageQueues(stage.topic));
        fetched.sort(null);
        Check.equal(queues, fetched, "fetched queues");
        first.assign(fetched);
        inQueueOrder(poll(first, 200), 0, 50); // afterwards nothing is in flight that a seek could race with
        first.seek(queues.get(1), 30);
        Map<Integer, List<MessageExt>> again = poll(first, 20);
        Check.equal(Set.of(1), again.keySet(), "queues with messages after a seek");
        inQueueOrder(again, 30, 50);
        first.seekToBegin(queues.get(1));
        inQueueOrder(poll(first, 50), 0, 50);
        long time = again.get(1).get(0).getStoreTimestamp();
        Check.that(first.offsetForTimestamp(queues.get(1), time) <= 30, "offset of the time of message 30");
        Map<MessageQueue, Long> positions = new HashMap<>();
        queues.forEach(queue -> positions.put(queue, 40L + queue.getQueueId()));
        first.commitSync(positions, true);
        for (MessageQueue queue : queues) {
            Check.await("the committed offset of " + queue, () -> committed(first, queue) == 40 + queue.getQueueId(),
                () -> committed(first, queue));
        }
        first.shutdown();

        DefaultLitePullConsumer second = stage.lite("subscribed");
        second.subscribe(stage.topic, "odd");
        second.start();
        Map<Integer, List<MessageExt>> rest = poll(second, 9 + 7); // odd numbers are in queues 1 and 3
        Check.equal(Set.of(1, 3), rest.keySet(), "queues with odd numbers");
        inQueueOrder(rest, -1, 50);
        Check.equal(41L, rest.get(1).get(0).getQueueOffset(), "first offset of queue 1 after the commit");
        Check.equal(43L, rest.get(3).get(0).getQueueOffset(), "first offset of queue 3 after the commit");
        second.commitSync();
        Check.await("committed ends", () -> committed(second, queues.get(1)) == 50 && committed(second, queues.get(3)) == 50,
            () -> committed(second, queues.get(1)));
        return "assign, 2 seeks, commit, resume by subscription";
    }

    private static long committed(DefaultLitePullConsumer consumer, MessageQueue queue) {
        try {
            return consumer.committed(queue);
        } catch (Exception reason) {
            return -1;
        }
    }

    /** Polls until that many messages came, then once more to see that no others follow. */
    private static Map<Integer, List<MessageExt>> poll(DefaultLitePullConsumer consumer, int count) {
        Map<Integer, List<MessageExt>> byQueue = new HashMap<>();
        Set<String> seen = new TreeSet<>();
        long end = System.nanoTime() + Check.PATIENCE_SECONDS * 1_000_000_000L;
        int got = 0;
        while (got < count && System.nanoTime() < end) {
            for (MessageExt message : consumer.poll(500)) {
                byQueue.computeIfAbsent(message.getQueueId(), id -> new ArrayList<>()).add(message);
                Check.that(seen.add(message.getMsgId()), "polled twice: " + message);
                got++;
            }
        }
        got += consumer.poll(200).size();
        Check.equal(count, got, "messages polled");
        return byQueue;
    }

    /** The number in each body must belong to its queue and offset; with a first offset, none may be missing. */
    private static void inQueueOrder(Map<Integer, List<MessageExt>> byQueue, long first, long end) {
        byQueue.forEach((queue, messages) -> {
            long offset = first;
            for (MessageExt message : messages) {
                Check.equal(Integer.toString((int) message.getQueueOffset() * 4 + queue), Pushes.body(message), "body at its offset");
                if (first >= 0) {
                    Check.equal(offset++, message.getQueueOffset(), "queue offset in queue " + queue);
                }
            }
            if (first >= 0) {
                Check.equal(end, offset, "offset after the last message of queue " + queue);
            }
        });
    }
}
