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
                    replier.send(MessageUtil.createReplyMessage(message, body));
                } catch (Exception reason) {
                    refused.put(text, String.valueOf(reason));
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        stage.start(consumer);
        Check.await("4 owned queues", () -> Stage.owned(consumer, stage.topic) == 4, () -> Stage.owned(consumer, stage.topic));
        long started = System.nanoTime();
        // A broker refuses replies to a requester whose heartbeat it does not have yet.
        Check.await("the first answer", () -> isAnswered(requester, stage.topic), () -> refused);
        String first = String.format("the first after %.1f s", (System.nanoTime() - started) / 1e9);
        ExecutorService pool = Executors.newFixedThreadPool(AT_ONCE);
        List<Future<String>> answers = new ArrayList<>();
        for (int i = 0; i < COUNT; i++) {
            String text = "question " + i;
            answers.add(pool.submit(() -> ask(requester, stage.topic, text)));
        }
        for (int i = 0; i < COUNT; i++) {
            Check.equal("re: question " + i, answers.get(i).get(), "answer " + i);
        }
        pool.shutdown();
        Message large = requester.request(Pushes.text(stage.topic, "", "large"), Stage.TIMEOUT_MILLIS);
        Check.equal(200_000, large.getBody().length, "bytes of a large answer, which travels compressed");
        callback(requester, stage.topic);
        String gone = gone(stage, requester, replier, kept);
        refused.remove("first");
        Check.equal(Map.of(), refused, "replies refused");
        return COUNT + " answers, " + first + ", " + AT_ONCE + " at once; callback, large body, timeout; " + gone;
    }

    private static boolean isAnswered(DefaultMQProducer requester, String topic) {
        try {
            Message answer = requester.request(Pushes.text(topic, "TagQ", "first"), 20_000);
            Check.equal("re: first", new String(answer.getBody(), java.nio.charset.StandardCharsets.UTF_8), "the first answer");
            return true;
        } catch (Exception notYet) {
            return false;
        }
    }

    private static String ask(DefaultMQProducer requester, String topic, String text) throws Exception {
        Message answer = requester.request(Pushes.text(topic, "TagQ", text), Stage.TIMEOUT_MILLIS);
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
        }, Stage.TIMEOUT_MILLIS);
        Check.that(called.await(Check.PATIENCE_SECONDS, TimeUnit.SECONDS), "the callback is called");
        Check.equal("re: with callback", found.get(), "the callback's answer");
    }

    /** Checks a request without a reply, and a reply to a requester that is gone. */
    private static String gone(Stage stage, DefaultMQProducer requester, DefaultMQProducer replier, AtomicReference<MessageExt> kept) throws Exception {
        Check.await("a request that times out", () -> isTimedOut(requester, stage.topic, 2000) && kept.get() != null, kept::get);
        MessageExt request = kept.get();
        Check.equal(null, request.getProperty("PUSH_REPLY_TIME"), "a request has no time of a reply");
        String client = request.getProperty("REPLY_TO_CLIENT");
        Message late = MessageUtil.createReplyMessage(request, "too late".getBytes(java.nio.charset.StandardCharsets.UTF_8));
        Check.equal(stage.replyTopic(request), late.getTopic(), "topic of a reply");
        replier.send(late); // the requester is there and drops a reply that it does not wait for
        requester.shutdown();
        AtomicReference<MQBrokerException> refusal = new AtomicReference<>();
        Check.await("the refusal of a reply", () -> {
            refusal.set(refusal(replier, request));
            return refusal.get() != null;
        }, () -> "none");
        Check.equal(1, refusal.get().getResponseCode(), "code of a reply to a requester that is gone");
        String text = "push reply message fail, channel of <" + client + "> not found.";
        Check.that(refusal.get().getErrorMessage().contains(text), "remark: " + refusal.get().getErrorMessage());
        return "requester gone: " + text;
    }

    /** Whether a request reaches the broker and gets no reply. */
    private static boolean isTimedOut(DefaultMQProducer requester, String topic, long millis) {
        try {
            requester.request(Pushes.text(topic, "TagQ", "nobody answers"), millis);
            throw new AssertionError("a request without a reply did not time out");
        } catch (RequestTimeoutException expected) {
            return true;
        } catch (Exception notSent) {
            return false;
        }
    }

    private static MQBrokerException refusal(DefaultMQProducer replier, MessageExt request) {
        try {
            replier.send(MessageUtil.createReplyMessage(request, new byte[] {1}));
            return null;
        } catch (MQClientException retried) { // code 1 is tried three times
            return (MQBrokerException) retried.getCause();
        } catch (Exception other) {
            throw new AssertionError("a reply to a requester that is gone", other);
        }
    }
}
