package interop;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Messages that a consumer fails on. */
final class Retries {
    private Retries() {}

    static String deadLetter(Stage stage) throws Exception {
        DefaultMQProducer producer = stage.producer();
        List<MessageQueue> queues = stage.createTopic(producer, 2);
        Map<String, List<MessageExt>> deliveries = new ConcurrentHashMap<>();
        Map<String, Long> times = new ConcurrentHashMap<>();
        DefaultMQPushConsumer consumer = stage.push();
        consumer.setMaxReconsumeTimes(1);
        consumer.subscribe(stage.topic, "TagA || TagB");
        consumer.registerMessageListener((List<MessageExt> messages, ConsumeConcurrentlyContext context) -> {
            MessageExt message = messages.get(0); // one at a time by default
            String body = Pushes.body(message);
            deliveries.computeIfAbsent(body, key -> new java.util.concurrent.CopyOnWriteArrayList<>()).add(message);
            times.put(body + message.getReconsumeTimes(), System.currentTimeMillis());
            boolean good = body.startsWith("good") || body.startsWith("once") && message.getReconsumeTimes() > 0;
            return good ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        stage.start(consumer);
        Map<String, SendResult> answers = new ConcurrentHashMap<>();
        for (String body : List.of("good", "once 1", "once 2", "bad 1", "bad 2", "bad 3")) {
            Message message = Pushes.text(stage.topic, "TagB", body);
            message.setKeys("key of " + body);
            message.putUserProperty("имя", body);
            answers.put(body, producer.send(message, queues.get(answers.size() % 2)));
        }
        Check.await("second deliveries of 5 messages",
            () -> deliveries.values().stream().filter(list -> list.size() == 2).count() == 5, deliveries::keySet);
        Check.equal(1, deliveries.get("good").size(), "deliveries of the good message");
        long slowest = 0;
        for (String body : deliveries.keySet()) {
            if (!body.equals("good")) {
                redelivered(stage, answers.get(body), deliveries.get(body));
                long waited = times.get(body + "1") - times.get(body + "0");
                slowest = Math.max(slowest, waited);
                Check.that(waited >= 9_000, "delay level 3 is 10 s, " + body + " came after " + waited + " ms");
            }
        }
        String note = deadLetters(stage, answers);
        Check.equal(6, deliveries.size(), "messages delivered");
        Check.that(deliveries.values().stream().allMatch(list -> list.size() <= 2), "at most two deliveries each");
        return note + ", 10 s took up to " + slowest + " ms";
    }

    private static void redelivered(Stage stage, SendResult answer, List<MessageExt> deliveries) {
        MessageExt first = deliveries.get(0);
        MessageExt second = deliveries.get(1);
        String body = Pushes.body(first);
        Check.equal(0, first.getReconsumeTimes(), "reconsume times at first, " + body);
        Check.equal(1, second.getReconsumeTimes(), "reconsume times at second, " + body);
        Check.equal(stage.topic, second.getTopic(), "topic the listener sees, " + body);
        Check.equal(stage.topic, second.getProperty("RETRY_TOPIC"), "RETRY_TOPIC, " + body);
        Check.equal(answer.getMsgId(), second.getMsgId(), "message id, " + body);
        Check.equal(answer.getOffsetMsgId(), second.getProperty("ORIGIN_MESSAGE_ID"), "ORIGIN_MESSAGE_ID, " + body);
        same(first, second, body);
    }

    private static void same(MessageExt first, MessageExt copy, String body) {
        Check.equal(body, Pushes.body(copy), "body of the copy");
        Check.equal(first.getTags(), copy.getTags(), "tags of the copy of " + body);
        Check.equal(first.getKeys(), copy.getKeys(), "keys of the copy of " + body);
        Check.equal(body, copy.getProperty("имя"), "user property of the copy of " + body);
        Check.equal(first.getBornTimestamp(), copy.getBornTimestamp(), "born time of the copy of " + body);
    }

    private static String deadLetters(Stage stage, Map<String, SendResult> answers) throws Exception {
        String dead = "%DLQ%" + stage.group;
        Reader reader = stage.reader();
        List<MessageExt> letters = reader.topic(dead, 3).get(0);
        Check.equal(3, letters.size(), "dead letters");
        for (MessageExt message : letters) {
            String body = Pushes.body(message);
            Check.that(body.startsWith("bad"), "dead letter " + body);
            Check.equal(2, message.getReconsumeTimes(), "reconsume times of dead letter " + body);
            Check.equal(stage.topic, message.getProperty("RETRY_TOPIC"), "RETRY_TOPIC of dead letter " + body);
            Check.equal(answers.get(body).getOffsetMsgId(), message.getProperty("ORIGIN_MESSAGE_ID"), "ORIGIN_MESSAGE_ID of dead letter " + body);
            Check.equal(answers.get(body).getMsgId(), message.getMsgId(), "message id of dead letter " + body);
            Check.equal("key of " + body, message.getKeys(), "keys of dead letter " + body);
            Check.equal("TagB", message.getTags(), "tags of dead letter " + body);
            Check.equal(body, message.getProperty("имя"), "user property of dead letter " + body);
        }
        return "2 succeed at the second try, 3 dead letters";
    }
}
