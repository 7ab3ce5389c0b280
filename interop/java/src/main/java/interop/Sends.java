package interop;

import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageClientIDSetter;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageId;
import org.apache.rocketmq.common.message.MessageQueue;

/** The four ways to send, each read back and compared field by field. */
final class Sends {
    private Sends() {}

    /** Properties that client or broker add on their own. */
    private static final Set<String> ADDED = Set.of("UNIQ_KEY", "WAIT", "MSG_REGION", "TRACE_ON", "CLUSTER", "MIN_OFFSET", "MAX_OFFSET",
        "INSTANCE_ID");

    /** A message whose every field depends on its number, with text outside ASCII. */
    static Message message(String topic, int number) {
        byte[] body = switch (number % 3) {
            case 0 -> ("plain body " + number).getBytes(StandardCharsets.UTF_8);
            case 1 -> ("тело сообщения № " + number + " 消息 🚀").getBytes(StandardCharsets.UTF_8);
            default -> everyByte(number);
        };
        Message message = new Message(topic, body);
        message.setTags(number % 4 == 3 ? "标签" : "Tag" + number % 4);
        message.setKeys(List.of("key-" + number, "ключ" + number));
        message.setFlag(number * 7);
        message.putUserProperty("number", Integer.toString(number));
        message.putUserProperty("имя", "значение = " + number);
        return message;
    }

    private static byte[] everyByte(int number) {
        byte[] body = new byte[256 + number];
        for (int i = 0; i < body.length; i++) {
            body[i] = (byte) i;
        }
        return body;
    }

    /** Compares a message that was read with the one that was sent. */
    static void same(Message sent, MessageExt read) {
        String what = "message " + sent.getProperty("number");
        Check.equal(sent.getBody(), read.getBody(), "body of " + what);
        Check.equal(sent.getFlag(), read.getFlag(), "flag of " + what);
        Check.equal(sent.getTags(), read.getTags(), "tags of " + what);
        Check.equal(sent.getKeys(), read.getKeys(), "keys of " + what);
        Check.equal(0, read.getReconsumeTimes(), "reconsume times of " + what);
        Check.equal(MessageClientIDSetter.getUniqID(sent), read.getMsgId(), "message id of " + what);
        Map<String, String> expected = new HashMap<>(sent.getProperties());
        Map<String, String> found = new HashMap<>(read.getProperties());
        expected.keySet().removeAll(ADDED);
        found.keySet().removeAll(ADDED);
        Check.equal(expected, found, "properties of " + what);
    }

    /** Compares a message that was read with the answer its sender got. */
    static void located(SendResult answer, MessageExt read) throws Exception {
        Check.equal(SendStatus.SEND_OK, answer.getSendStatus(), "send status");
        Check.equal(answer.getMsgId(), read.getMsgId(), "message id in the answer");
        Check.equal(answer.getQueueOffset(), read.getQueueOffset(), "queue offset in the answer");
        Check.equal(answer.getMessageQueue().getQueueId(), read.getQueueId(), "queue id in the answer");
        MessageId id = MessageDecoder.decodeMessageId(answer.getOffsetMsgId());
        Check.equal(read.getCommitLogOffset(), id.getOffset(), "log offset in the offset message id");
        Check.equal(read.getStoreHost(), id.getAddress(), "address in the offset message id");
    }

    static String sync(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        long before = System.currentTimeMillis();
        Map<String, Message> sent = new HashMap<>();
        Map<String, SendResult> answers = new HashMap<>();
        for (int i = 0; i < 60; i++) {
            Message message = message(stage.topic, i);
            SendResult answer = Stage.send(producer, message);
            Check.equal("DefaultRegion", answer.getRegionId(), "region in the answer");
            sent.put(answer.getMsgId(), message);
            answers.put(answer.getMsgId(), answer);
        }
        Stage.awaitRoute(producer, stage.topic, 4); // created by the first send from TBW102
        long after = System.currentTimeMillis();
        int read = 0;
        for (List<MessageExt> queue : stage.reader().topic(stage.topic, 60).values()) {
            for (MessageExt message : queue) {
                same(sent.get(message.getMsgId()), message);
                located(answers.get(message.getMsgId()), message);
                Check.equal(stage.brokerPort(), ((InetSocketAddress) message.getStoreHost()).getPort(), "port of the store host");
                Check.that(before <= message.getBornTimestamp() && message.getBornTimestamp() <= after, "born time in range");
                Check.that(before <= message.getStoreTimestamp() && message.getStoreTimestamp() <= after, "store time in range");
                read++;
            }
        }
        Check.equal(60, read, "messages read");
        return "60 messages in 4 created queues";
    }

    static String async(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        List<MessageQueue> queues = stage.createTopic(producer, 8);
        int count = 500;
        Message[] sent = new Message[count];
        Map<Integer, SendResult> answers = new ConcurrentHashMap<>();
        AtomicReference<Throwable> failure = new AtomicReference<>();
        CountDownLatch left = new CountDownLatch(count);
        for (int i = 0; i < count; i++) {
            int number = i;
            sent[i] = message(stage.topic, i);
            producer.send(sent[i], queues.get(i % 8), new SendCallback() {
                @Override
                public void onSuccess(SendResult answer) {
                    answers.put(number, answer);
                    left.countDown();
                }

                @Override
                public void onException(Throwable reason) {
                    failure.set(reason);
                    left.countDown();
                }
            });
        }
        Check.that(left.await(Check.PATIENCE_SECONDS, TimeUnit.SECONDS), left.getCount() + " callbacks are missing");
        Check.equal(null, failure.get(), "failure of an asynchronous send");
        Set<Integer> seen = ConcurrentHashMap.newKeySet();
        for (List<MessageExt> queue : stage.reader().topic(stage.topic, count).values()) {
            for (MessageExt message : queue) {
                int number = Integer.parseInt(message.getProperty("number"));
                Check.that(seen.add(number), "message " + number + " is stored twice");
                Check.equal(number % 8, message.getQueueId(), "queue that was asked for");
                same(sent[number], message);
                located(answers.get(number), message);
            }
        }
        Check.equal(count, seen.size(), "messages read");
        return count + " callbacks, 8 chosen queues";
    }

    static String oneWay(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        List<MessageQueue> queues = stage.createTopic(producer, 2);
        Message[] sent = new Message[100];
        for (int i = 0; i < sent.length; i++) {
            sent[i] = message(stage.topic, i);
            producer.sendOneway(sent[i], queues.get(i % 2));
        }
        Reader reader = stage.reader();
        for (MessageQueue queue : queues) {
            List<MessageExt> read = reader.queue(queue, 50);
            Check.equal(50, read.size(), "one-way messages in " + queue);
            for (MessageExt message : read) { // the broker may store what has no answer in any order
                same(sent[Integer.parseInt(message.getProperty("number"))], message);
            }
            Check.equal(50L, read.stream().map(MessageExt::getMsgId).distinct().count(), "distinct messages");
        }
        return "100 messages";
    }

    static String batch(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        stage.createTopic(producer, 4);
        Map<Integer, List<Message>> expected = new HashMap<>();
        for (int round = 0; round < 6; round++) {
            List<Message> batch = new ArrayList<>();
            for (int i = 0; i < 50; i++) {
                batch.add(message(stage.topic, round * 50 + i));
            }
            SendResult answer = producer.send(batch);
            Check.equal(SendStatus.SEND_OK, answer.getSendStatus(), "send status of a batch");
            List<Message> queue = expected.computeIfAbsent(answer.getMessageQueue().getQueueId(), id -> new ArrayList<>());
            Check.equal((long) queue.size(), answer.getQueueOffset(), "queue offset of a batch's first message");
            List<String> ids = batch.stream().map(MessageClientIDSetter::getUniqID).toList();
            Check.equal(String.join(",", ids), answer.getMsgId(), "message ids of a batch");
            Check.equal(50, answer.getOffsetMsgId().split(",").length, "offset message ids of a batch");
            queue.addAll(batch);
        }
        int read = 0;
        for (Map.Entry<Integer, List<MessageExt>> queue : stage.reader().topic(stage.topic, 300).entrySet()) {
            List<Message> sent = expected.getOrDefault(queue.getKey(), Collections.emptyList());
            Check.equal(sent.size(), queue.getValue().size(), "messages in queue " + queue.getKey());
            for (int i = 0; i < sent.size(); i++) {
                same(sent.get(i), queue.getValue().get(i));
                read++;
            }
        }
        Check.equal(300, read, "messages read");
        return "6 batches of 50";
    }
}
