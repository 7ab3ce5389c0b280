package interop;

import static interop.Pushes.body;
import static interop.Pushes.text;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.impl.MQClientAPIImpl;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.message.MessageRequestMode;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RequestCode;
import org.apache.rocketmq.remoting.protocol.header.QueryConsumerOffsetRequestHeader;

/** Groups that pop, with queues assigned by the broker; clients of 4.x cannot. */
public final class Pops {
    /** Successful answers of the broker by request code: a broker that answered an acknowledgement has it. */
    private static final class Answers implements RPCHook {
        final Map<Integer, AtomicInteger> counts = new ConcurrentHashMap<>();

        int to(int code) {
            return counts.getOrDefault(code, new AtomicInteger()).get();
        }

        @Override
        public void doBeforeRequest(String address, RemotingCommand request) {}

        @Override
        public void doAfterResponse(String address, RemotingCommand request, RemotingCommand response) {
            if (response != null && response.getCode() == 0) {
                counts.computeIfAbsent(request.getCode(), key -> new AtomicInteger()).incrementAndGet();
            }
        }
    }

    /** First pause before a message that was refused comes again: the client's own table. */
    private static final double FIRST_PAUSE = 10;

    private Pops() {}

    /** Adds the scenarios; called by name, because 4.x is compiled without this file. */
    public static void add(Map<String, Main.Scenario> all) {
        all.put("pop-retry", Pops::retry);
        all.put("pop-timeout", Pops::timeout);
        all.put("pop-share", Pops::share);
        all.put("pop-assigned", Pops::assigned);
        all.put("pop-restart", Pops::restart);
        all.put("pop-kill9", Pops::kill);
    }

    /** Sets how the group consumes the topic, as {@code mqadmin setConsumeMode} does. */
    private static void mode(Stage stage, DefaultMQProducer producer, MessageRequestMode mode, int share) throws Exception {
        api(producer).setMessageRequestMode(stage.broker, stage.topic, stage.group, mode, share, 30_000);
    }

    private static MQClientAPIImpl api(DefaultMQProducer producer) {
        return producer.getDefaultMQProducerImpl().getMqClientFactory().getMQClientAPIImpl();
    }

    private static DefaultMQPushConsumer consumer(Stage stage, String instance, MessageListenerConcurrently listener) throws Exception {
        return consumer(stage.push(stage.group, instance), stage.topic, listener);
    }

    private static DefaultMQPushConsumer consumer(DefaultMQPushConsumer consumer, String topic, MessageListenerConcurrently listener) throws Exception {
        consumer.setClientRebalance(false);
        consumer.setPopBatchNums(16);
        consumer.setPopInvisibleTime(120_000);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(listener);
        return consumer;
    }

    private static MessageListenerConcurrently into(ConcurrentLinkedQueue<MessageExt> received) {
        return (messages, context) -> {
            received.addAll(messages);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        };
    }

    private static Set<String> send(DefaultMQProducer producer, List<MessageQueue> queues, int from, int to) throws Exception {
        Set<String> sent = new TreeSet<>();
        for (int i = from; i < to; i++) {
            Message message = text(queues.get(0).getTopic(), i % 2 == 0 ? "Even" : "Odd", "message " + i);
            message.setKeys("key" + i);
            message.putUserProperty("number", Integer.toString(i));
            producer.send(message, queues.get(i % queues.size()));
            sent.add("message " + i);
        }
        return sent;
    }

    private static long committed(Stage stage, DefaultMQProducer producer, MessageQueue queue) {
        QueryConsumerOffsetRequestHeader header = new QueryConsumerOffsetRequestHeader();
        header.setConsumerGroup(stage.group);
        header.setTopic(queue.getTopic());
        header.setQueueId(queue.getQueueId());
        header.setSetZeroIfNotFound(false);
        try {
            return api(producer).queryConsumerOffset(stage.broker, header, 5000);
        } catch (Exception none) {
            return -1;
        }
    }

    /** Two clients pop all queues; each message comes once to one of them, and the offsets of the group follow. */
    static String share(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        List<MessageQueue> queues = stage.createTopic(producer, 4);
        mode(stage, producer, MessageRequestMode.POP, 0);
        Set<String> sent = send(producer, queues, 0, 40); // a new group on a young queue begins at its first message
        List<ConcurrentLinkedQueue<MessageExt>> received = List.of(new ConcurrentLinkedQueue<>(), new ConcurrentLinkedQueue<>());
        for (int i = 0; i < 2; i++) {
            stage.start(consumer(stage, "p" + i, into(received.get(i))));
        }
        Check.await("40 messages", () -> received.get(0).size() + received.get(1).size() >= 40,
            () -> received.get(0).size() + "+" + received.get(1).size());
        long end = System.nanoTime() + Check.PATIENCE_SECONDS * 1_000_000_000L;
        for (int i = 40; i < 1000 || received.stream().anyMatch(mine -> mine.size() < 100) && System.nanoTime() < end; i += 40) { // both are woken in turn
            sent.addAll(send(producer, queues, i, i + 40));
            Thread.sleep(i < 1000 ? 0 : 200);
        }
        Check.await(sent.size() + " messages", () -> received.get(0).size() + received.get(1).size() >= sent.size(),
            () -> received.get(0).size() + "+" + received.get(1).size());
        Set<String> found = new TreeSet<>();
        for (ConcurrentLinkedQueue<MessageExt> mine : received) {
            Check.that(mine.size() >= 100, "one of two clients got only " + mine.size() + " of " + sent.size() + " messages");
            for (MessageExt message : mine) {
                int number = Integer.parseInt(message.getProperty("number"));
                Check.that(found.add(body(message)), body(message) + " came twice");
                Check.equal(number % 4, message.getQueueId(), "queue of " + body(message));
                Check.equal((long) number / 4, message.getQueueOffset(), "offset of " + body(message));
                Check.equal(stage.topic, message.getTopic(), "topic of " + body(message));
                Check.equal(0, message.getReconsumeTimes(), "deliveries of " + body(message));
                Check.that(message.getProperty("POP_CK") != null, "the handle of " + body(message));
            }
        }
        Check.equal(sent, found, "messages");
        for (MessageQueue queue : queues) {
            int last = sent.size() / 4;
            Check.await("offset " + last + " in queue " + queue.getQueueId(), () -> committed(stage, producer, queue) == last,
                () -> committed(stage, producer, queue));
        }
        return received.get(0).size() + "+" + received.get(1).size() + " messages, each once";
    }

    /** Refused messages stay invisible for longer and then come through the retry topic, under their own topic's name. */
    static String retry(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        List<MessageQueue> queues = stage.createTopic(producer, 2);
        mode(stage, producer, MessageRequestMode.POP, 0);
        ConcurrentLinkedQueue<MessageExt> received = new ConcurrentLinkedQueue<>();
        Map<String, Long> refused = new ConcurrentHashMap<>();
        Map<String, Double> pauses = new ConcurrentHashMap<>();
        stage.start(consumer(stage, "1", (messages, context) -> {
            for (MessageExt message : messages) {
                Long since = message.getTags().equals("Even") ? null : refused.putIfAbsent(body(message), System.nanoTime());
                if (since != null) {
                    pauses.put(body(message), (System.nanoTime() - since) / 1e9);
                } else if (message.getTags().equals("Odd")) {
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
                received.add(message);
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        }));
        Set<String> sent = send(producer, queues, 0, 10);
        Check.await("10 messages", () -> received.size() >= 10, () -> received.size() + ", refused " + refused.size());
        Set<String> found = new TreeSet<>();
        for (MessageExt message : received) {
            Check.that(found.add(body(message)), body(message) + " came twice");
            Check.equal(stage.topic, message.getTopic(), "topic of " + body(message));
            Check.equal("key" + message.getProperty("number"), message.getKeys(), "keys of " + body(message));
            boolean odd = message.getTags().equals("Odd");
            Check.equal(odd ? 1 : 0, message.getReconsumeTimes(), "deliveries before of " + body(message));
            if (odd) {
                double pause = pauses.get(body(message));
                Check.that(pause >= FIRST_PAUSE - 0.1, body(message) + " came again after " + pause + " s");
                Check.that(message.getProperty("1ST_POP_TIME") != null, "the time of the first delivery of " + body(message));
            }
        }
        Check.equal(sent, found, "messages");
        Check.equal(10, received.size(), "messages, each once");
        return String.format("5 refused, back after at most %.1f s", Collections.max(pauses.values()));
    }

    /** A client that stops in the middle of its work answers nothing; its messages become visible to the other one. */
    static String timeout(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        List<MessageQueue> queues = stage.createTopic(producer, 2);
        mode(stage, producer, MessageRequestMode.POP, 0);
        Set<String> stuck = ConcurrentHashMap.newKeySet();
        DefaultMQPushConsumer lost = consumer(stage, "lost", (messages, context) -> {
            messages.forEach(message -> stuck.add(body(message)));
            try {
                Thread.sleep(3_600_000);
            } catch (InterruptedException ended) {
                Thread.currentThread().interrupt();
            }
            return null;
        });
        lost.setPopInvisibleTime(10_000);
        lost.start();
        Set<String> sent = send(producer, queues, 0, 4);
        Check.await("4 messages in hand", () -> stuck.size() >= 4, stuck::size);
        long since = System.nanoTime();
        ConcurrentLinkedQueue<MessageExt> received = new ConcurrentLinkedQueue<>();
        stage.start(consumer(stage, "other", into(received)));
        lost.suspend();
        Check.await("4 messages by the other client", () -> received.size() >= 4, received::size);
        double seconds = (System.nanoTime() - since) / 1e9;
        Set<String> found = new TreeSet<>();
        received.forEach(message -> found.add(body(message)));
        Check.equal(sent, found, "messages");
        received.forEach(message -> Check.that(message.getReconsumeTimes() >= 1, "deliveries before of " + body(message)));
        return String.format("4 messages back within %.1f s", seconds);
    }

    /** Without pop the broker shares out queues to pull. */
    static String assigned(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        List<MessageQueue> queues = stage.createTopic(producer, 4);
        mode(stage, producer, MessageRequestMode.PULL, 0);
        List<ConcurrentLinkedQueue<MessageExt>> received = List.of(new ConcurrentLinkedQueue<>(), new ConcurrentLinkedQueue<>());
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            DefaultMQPushConsumer consumer = consumer(stage, "a" + i, into(received.get(i)));
            stage.start(consumer);
            consumers.add(consumer);
        }
        for (DefaultMQPushConsumer consumer : consumers) {
            Check.await("2 queues each", () -> Stage.owned(consumer, stage.topic) == 2, () -> Stage.owned(consumer, stage.topic));
        }
        Set<String> sent = send(producer, queues, 0, 200);
        Check.await("200 messages", () -> received.get(0).size() + received.get(1).size() >= 200,
            () -> received.get(0).size() + "+" + received.get(1).size());
        Set<String> found = new TreeSet<>();
        received.forEach(mine -> mine.forEach(message -> found.add(body(message))));
        Check.equal(sent, found, "messages");
        return "2 queues each, " + received.get(0).size() + "+" + received.get(1).size() + " messages";
    }

    static String restart(Stage stage) throws Exception {
        int again = survive(stage, "restart");
        Check.equal(0, again, "messages that came again although they were acknowledged");
        return "20 acknowledged, 20 back after the restart";
    }

    static String kill(Stage stage) throws Exception {
        return "20 back after the kill, " + survive(stage, "kill9") + " acknowledged ones repeated";
    }

    /** Checks that messages refused before the broker went down come again, and returns how many acknowledged messages do. */
    private static int survive(Stage stage, String request) throws Exception {
        DefaultMQProducer producer = stage.producer();
        List<MessageQueue> queues = stage.createTopic(producer, 4);
        mode(stage, producer, MessageRequestMode.POP, 0);
        Set<String> refused = ConcurrentHashMap.newKeySet();
        Map<String, AtomicInteger> consumed = new ConcurrentHashMap<>();
        Set<String> back = ConcurrentHashMap.newKeySet();
        Answers answers = new Answers();
        stage.start(consumer(stage.push(new DefaultMQPushConsumer(stage.group, answers), "1"), stage.topic, (messages, context) -> {
            for (MessageExt message : messages) {
                if (message.getTags().equals("Odd") && refused.add(body(message))) {
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
                if (message.getTags().equals("Odd")) {
                    back.add(body(message));
                }
                consumed.computeIfAbsent(body(message), key -> new AtomicInteger()).incrementAndGet();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        }));
        Set<String> sent = send(producer, queues, 0, 40);
        Check.await("40 messages", () -> consumed.size() + refused.size() >= 40, () -> consumed.size() + "+" + refused.size());
        Check.await("answers to 20 acknowledgements and 20 refusals", () -> answers.to(RequestCode.ACK_MESSAGE) >= 20
            && answers.to(RequestCode.CHANGE_MESSAGE_INVISIBLETIME) >= 20, () -> answers.counts);
        Main.ask(request);
        Check.await("20 messages that come again", () -> back.size() >= 20, back::size);
        sent.addAll(send(producer, queues, 40, 60));
        Check.await("60 messages", () -> consumed.size() >= 60, consumed::size);
        Check.equal(sent, new TreeSet<>(consumed.keySet()), "messages");
        Set<String> twice = new HashSet<>();
        consumed.forEach((message, times) -> {
            if (times.get() > 1) {
                twice.add(message);
            }
        });
        return twice.size();
    }
}
