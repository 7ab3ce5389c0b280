package interop;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Reads queues from their first to their last message, checking what every read must satisfy. */
@SuppressWarnings("deprecation") // the plain pull consumer is the most direct way to one queue
final class Reader {
    final DefaultMQPullConsumer consumer;

    Reader(DefaultMQPullConsumer consumer) throws MQClientException {
        this.consumer = consumer;
        consumer.setConsumerPullTimeoutMillis(Stage.TIMEOUT_MILLIS);
        consumer.start();
        consumer.getDefaultMQPullConsumerImpl().getRebalanceImpl().getmQClientFactory().getMQAdminImpl().setTimeoutMillis(Stage.TIMEOUT_MILLIS);
    }

    /** All messages of a topic by queue id, in queue order, once that many are readable (a broker may index after it answers). */
    Map<Integer, List<MessageExt>> topic(String topic, int count) throws Exception {
        Check.await(count + " messages in " + topic, () -> readable(topic) >= count, () -> readable(topic));
        Map<Integer, List<MessageExt>> all = new TreeMap<>();
        for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(topic)) {
            all.put(queue.getQueueId(), queue(queue));
        }
        return all;
    }

    /** Messages of a topic, 0 while it has no route. */
    long readable(String topic) {
        try {
            long sum = 0;
            for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(topic)) {
                sum += consumer.maxOffset(queue) - consumer.minOffset(queue);
            }
            return sum;
        } catch (MQClientException notYet) {
            return 0;
        }
    }

    /** All messages of one queue, once that many are readable. */
    List<MessageExt> queue(MessageQueue queue, int count) throws Exception {
        Check.await(count + " messages in " + queue, () -> max(queue) >= count, () -> max(queue));
        return queue(queue);
    }

    private long max(MessageQueue queue) {
        try {
            return consumer.maxOffset(queue);
        } catch (MQClientException reason) {
            throw new AssertionError("max offset of " + queue, reason);
        }
    }

    private List<MessageExt> queue(MessageQueue queue) throws Exception {
        List<MessageExt> messages = new ArrayList<>();
        long offset = consumer.minOffset(queue);
        long max = consumer.maxOffset(queue);
        while (offset < max) {
            PullResult result = consumer.pull(queue, "*", offset, 32);
            Check.equal(PullStatus.FOUND, result.getPullStatus(), "status of a pull at " + offset + " of " + queue);
            for (MessageExt message : result.getMsgFoundList()) {
                Check.equal(offset, message.getQueueOffset(), "queue offset in " + queue);
                Check.equal(queue.getQueueId(), message.getQueueId(), "queue id of a message in " + queue);
                Check.equal(queue.getTopic(), message.getTopic(), "topic of a message in " + queue);
                messages.add(message);
                offset++;
            }
            Check.equal(offset, result.getNextBeginOffset(), "next begin offset in " + queue);
            Check.that(result.getMaxOffset() >= max, "max offset " + result.getMaxOffset() + " below " + max + " in " + queue);
        }
        return messages;
    }

    void close() {
        consumer.shutdown();
    }
}
