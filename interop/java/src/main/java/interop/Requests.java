package interop;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.exception.RequestTimeoutException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Applications that ask each other and wait for the answer. */
final class Requests {
    private Requests() {}

    private static final int COUNT = 100;
    private static final int AT_ONCE = 8;

    static String replies(Stage stage) throws Exception {
        DefaultMQProducer requester = stage.producer("Requester");
        DefaultMQProducer replier = stage.producer("Replier");
        stage.createTopic(requester, 4);
        Map<String, String> refused = new ConcurrentHashMap<>();
        AtomicReference<MessageExt> kept = new AtomicReference<>();
        DefaultMQPushConsumer consumer = stage.push();
        consumer.subscribe(stage.topic, "*");
        consumer.registerMessageListener((org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                String text = Pushes.body(message);
                if (text.equals("nobody answers")) {
                    kept.set(message);
                    continue;
                }
                try {
                    byte[] body = text.equals("large") ? new byte[200_000] : ("re: " + text).getBytes(java.nio.charset.StandardCharsets.UTF_8);
                    replier.send(MessageUtil.createReplyMessage(message, body), 5000);
                } catch (Exception reason) {
                    refused.put(text, String.valueOf(reason));
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        stage.start(consumer);
        // A consumer whose first heartbeat falls together with a regular one is known to the broker 30 s later.
        Check.await(45, "4 owned queues", () -> Stage.owned(consumer, stage.topic) == 4, () -> Stage.owned(consumer, stage.topic));
        String first = first(stage, requester, refused);
        ExecutorService pool = Executors.newFixedThreadPool(AT_ONCE);
        List<Future<String>> answers = new ArrayList<>();
        for (int i = 0; i < COUNT; i++) {
            String text = "question " + i;
            answers.add(pool.submit(() -> ask(requester, stage.topic, text, 10_000)));
        }
        for (int i = 0; i < COUNT; i++) {
            Check.equal("re: question " + i, answers.get(i).get(), "answer " + i);
        }
        pool.shutdown();
        Message large = requester.request(Pushes.text(stage.topic, "", "large"), 10_000);
        Check.equal(200_000, large.getBody().length, "bytes of a large answer, which travels compressed");
        callback(requester, stage.topic);
        String gone = gone(stage, requester, replier, kept);
        Check.equal(Map.of(), refused, "replies refused");
        return COUNT + " answers, " + first + ", " + AT_ONCE + " at once; callback, large body, timeout; " + gone;
    }

    /**
     * How long the first answer took. The client sends the heartbeat that makes the requester known with its first request,
     * unless a regular one is under way; then the broker refuses the reply until the next, 30 s later. So it is with the heartbeat
     * after a rebalance: until the next one the consumer's pulls name a later version of its subscription than the broker has.
     */
    private static String first(Stage stage, DefaultMQProducer requester, Map<String, String> refused) throws Exception {
        long started = System.nanoTime();
        String tries = "";
        for (int left = 2; ; left--) {
            try {
                Check.equal("re: first", ask(requester, stage.topic, "first", 60_000), "the first answer");
                return String.format("the first after %.1f s%s", (System.nanoTime() - started) / 1e9, tries);
            } catch (RequestTimeoutException late) {
                String why = refused.remove("first");
                boolean isUnknown = why != null && why.contains("channel of <");
                if (!isUnknown || left == 0) {
                    throw new AssertionError("no first answer; the consumer's reply: " + why, late);
                }
                tries += " (" + why + ")";
            }
        }
    }

    private static String ask(DefaultMQProducer requester, String topic, String text, long millis) throws Exception {
        Message answer = requester.request(Pushes.text(topic, "TagQ", text), millis);
        return new String(answer.getBody(), java.nio.charset.StandardCharsets.UTF_8);
    }

    private static void callback(DefaultMQProducer requester, String topic) throws Exception {
        CountDownLatch called = new CountDownLatch(1);
        AtomicReference<String> found = new AtomicReference<>();
        requester.request(Pushes.text(topic, "", "with callback"), new RequestCallback() {
            @Override
            public void onSuccess(Message message) {
                found.set(new String(message.getBody(), java.nio.charset.StandardCharsets.UTF_8));
                called.countDown();
            }

            @Override
            public void onException(Throwable reason) {
                found.set(String.valueOf(reason));
                called.countDown();
            }
        }, 10_000);
        Check.that(called.await(15, TimeUnit.SECONDS), "the callback is called");
        Check.equal("re: with callback", found.get(), "the callback's answer");
    }

    /** Nobody answers in time, and then the requester is gone when somebody does. */
    private static String gone(Stage stage, DefaultMQProducer requester, DefaultMQProducer replier, AtomicReference<MessageExt> kept) throws Exception {
        try {
            ask(requester, stage.topic, "nobody answers", 2000);
            throw new AssertionError("a request without a reply did not time out");
        } catch (RequestTimeoutException expected) {
            Check.await(10, "the request without a reply", () -> kept.get() != null, kept::get);
        }
        MessageExt request = kept.get();
        Check.equal(null, request.getProperty("PUSH_REPLY_TIME"), "a request has no time of a reply");
        String client = request.getProperty("REPLY_TO_CLIENT");
        Message late = MessageUtil.createReplyMessage(request, "too late".getBytes(java.nio.charset.StandardCharsets.UTF_8));
        Check.equal(stage.replyTopic(request), late.getTopic(), "topic of a reply");
        replier.send(late, 5000); // the requester is there and drops what nobody waits for
        requester.shutdown();
        try {
            replier.send(MessageUtil.createReplyMessage(request, new byte[] {1}), 5000);
            throw new AssertionError("a reply to a requester that is gone was accepted");
        } catch (MQClientException retried) { // code 1 is tried three times
            MQBrokerException expected = (MQBrokerException) retried.getCause();
            Check.equal(1, expected.getResponseCode(), "code of a reply to a requester that is gone");
            String text = "push reply message fail, channel of <" + client + "> not found.";
            Check.that(expected.getErrorMessage().contains(text), "remark: " + expected.getErrorMessage());
            return "requester gone: " + text;
        }
    }
}
