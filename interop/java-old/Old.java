import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Scenarios for Java clients of all ages. Arguments and output are those of the other programs. Clients before 4.0 have these classes below
 * {@code com.alibaba.rocketmq}.
 */
public final class Old {
    private static final int MESSAGES = 40;
    private static final long PATIENCE_MS = 240_000;
    private static String nameServer;
    private static String run;

    interface Scenario {
        void perform(String name) throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Scenario> scenarios = new HashMap<>();
        scenarios.put("old-shared", Old::shared);
        scenarios.put("old-again", Old::again);
        scenarios.put("old-orderly", Old::orderly);
        scenarios.put("old-pull", Old::pull);
        if (arguments[0].equals("list")) {
            System.out.println(String.join(" ", scenarios.keySet()));
            return;
        }
        nameServer = arguments[0];
        run = arguments[2];
        for (int at = 3; at < arguments.length; at++) {
            long began = System.currentTimeMillis();
            String outcome = "ok", note = "";
            try {
                scenarios.get(arguments[at]).perform(arguments[at]);
            } catch (Throwable wrong) {
                outcome = "fail";
                note = wrong.toString().replace('\n', ' ');
            }
            System.out.printf("@%s %s %.1f %s%n", outcome, arguments[at], (System.currentTimeMillis() - began) / 1000.0, note);
        }
        System.exit(0);
    }

    /** Two members of a group share the queues, and each message comes to one of them. */
    private static void shared(String name) throws Exception {
        String topic = topic(name);
        send(topic, 1);
        Map<String, AtomicInteger> seen = new ConcurrentHashMap<>();
        AtomicInteger[] counts = {new AtomicInteger(), new AtomicInteger()};
        List<DefaultMQPushConsumer> members = new ArrayList<>();
        for (AtomicInteger count : counts) {
            DefaultMQPushConsumer member = member(name, topic);
            member.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                messages.forEach(message -> seen.computeIfAbsent(message.getMsgId(), id -> new AtomicInteger()).incrementAndGet());
                count.addAndGet(messages.size());
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            member.start();
            members.add(member);
        }
        // Members that know of each other have half of the queues each; until then more is sent.
        int sent = 1;
        long end = System.currentTimeMillis() + PATIENCE_MS;
        while (counts[0].get() == 0 || counts[1].get() == 0) {
            check(System.currentTimeMillis() < end, "of " + sent + " messages the members got " + counts[0] + " and " + counts[1]);
            sent += send(topic, 8);
            Thread.sleep(1000);
        }
        sent += send(topic, MESSAGES);
        await(seen, sent);
        members.forEach(DefaultMQPushConsumer::shutdown);
    }

    /** A message that is refused comes again. */
    private static void again(String name) throws Exception {
        String topic = topic(name);
        Map<String, AtomicInteger> seen = new ConcurrentHashMap<>();
        DefaultMQPushConsumer member = member(name, topic);
        member.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            boolean isFirst = false;
            for (MessageExt message : messages) {
                isFirst |= message.getReconsumeTimes() == 0;
                if (message.getReconsumeTimes() == 1) {
                    seen.put(new String(message.getBody()), new AtomicInteger(1));
                }
            }
            return isFirst ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        member.start();
        send(topic, 4);
        await(seen, 4);
        member.shutdown();
    }

    /** A queue's messages come in their order to the member that has its lock. */
    private static void orderly(String name) throws Exception {
        String topic = topic(name);
        Map<String, AtomicInteger> seen = new ConcurrentHashMap<>();
        Map<Integer, Long> last = new ConcurrentHashMap<>();
        AtomicInteger wrong = new AtomicInteger();
        DefaultMQPushConsumer member = member(name, topic);
        member.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            for (MessageExt message : messages) {
                Long before = last.put(message.getQueueId(), message.getQueueOffset());
                if (before != null && before >= message.getQueueOffset()) {
                    wrong.incrementAndGet();
                }
                seen.put(message.getMsgId(), new AtomicInteger(1));
            }
            return ConsumeOrderlyStatus.SUCCESS;
        });
        member.start();
        send(topic, MESSAGES);
        await(seen, MESSAGES);
        check(wrong.get() == 0, wrong + " messages out of order");
        member.shutdown();
    }

    /** Queues are read from their begin, and the offset of the group is kept. */
    private static void pull(String name) throws Exception {
        String topic = topic(name);
        send(topic, MESSAGES);
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(run + name);
        consumer.setNamesrvAddr(nameServer);
        consumer.setConsumerPullTimeoutMillis(PATIENCE_MS);
        consumer.start();
        int count = 0;
        Set<MessageQueue> queues = consumer.fetchSubscribeMessageQueues(topic);
        for (MessageQueue queue : queues) {
            long next = consumer.minOffset(queue);
            while (next < consumer.maxOffset(queue)) {
                PullResult result = consumer.pull(queue, "*", next, 32);
                count += result.getMsgFoundList() == null ? 0 : result.getMsgFoundList().size();
                next = result.getNextBeginOffset();
            }
            consumer.updateConsumeOffset(queue, next);
            check(consumer.fetchConsumeOffset(queue, false) == next, "the offset of " + queue);
        }
        check(count == MESSAGES, count + " of " + MESSAGES + " messages");
        consumer.shutdown();
    }

    private static String topic(String name) {
        return "T" + run + name;
    }

    private static DefaultMQPushConsumer member(String name, String topic) throws Exception {
        DefaultMQPushConsumer member = new DefaultMQPushConsumer(run + name);
        member.setNamesrvAddr(nameServer);
        member.setInstanceName(name + System.nanoTime());
        member.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        member.subscribe(topic, "*");
        return member;
    }

    /** Sends messages and returns their number. */
    private static int send(String topic, int count) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(topic + "-producer");
        producer.setNamesrvAddr(nameServer);
        producer.setInstanceName(topic + System.nanoTime());
        producer.setSendMsgTimeout(120_000);
        producer.start();
        for (int number = 0; number < count; number++) {
            SendResult result = producer.send(new Message(topic, "tag", "key" + number, ("body" + number).getBytes()));
            check(result.getSendStatus() == SendStatus.SEND_OK, result.toString());
        }
        producer.shutdown();
        return count;
    }

    private static void await(Map<String, AtomicInteger> seen, int count) throws Exception {
        long end = System.currentTimeMillis() + PATIENCE_MS;
        while (seen.size() < count) {
            check(System.currentTimeMillis() < end, seen.size() + " of " + count + " messages");
            Thread.sleep(100);
        }
    }

    private static void check(boolean isRight, String what) {
        if (!isRight) {
            throw new IllegalStateException(what);
        }
    }
}
