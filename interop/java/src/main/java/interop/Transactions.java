package interop;

import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Messages whose producer decides later. The servers check undecided messages every second. */
final class Transactions {
    private static final int EACH = 20;

    private Transactions() {}

    /** Decides by the message's text; "later" messages are undecided until the broker asks for the second time. */
    private static final class Decisions implements TransactionListener {
        final Map<String, AtomicInteger> asked = new ConcurrentHashMap<>();
        final Map<String, String> seen = new ConcurrentHashMap<>();

        int times(String text) {
            return asked.getOrDefault(text, new AtomicInteger()).get();
        }

        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
            String text = new String(message.getBody(), java.nio.charset.StandardCharsets.UTF_8);
            return text.startsWith("commit") ? LocalTransactionState.COMMIT_MESSAGE
                : text.startsWith("rollback") ? LocalTransactionState.ROLLBACK_MESSAGE : LocalTransactionState.UNKNOW;
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            String text = Pushes.body(message);
            int times = asked.computeIfAbsent(text, key -> new AtomicInteger()).incrementAndGet();
            seen.put(text, message.getTopic() + " " + message.getTags() + " " + message.getKeys() + " "
                + message.getTransactionId() + " " + message.getUserProperty("number"));
            if (text.startsWith("later") && times == 1) {
                return LocalTransactionState.UNKNOW;
            }
            return text.contains("commit") ? LocalTransactionState.COMMIT_MESSAGE : LocalTransactionState.ROLLBACK_MESSAGE;
        }
    }

    static String all(Stage stage) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer(stage.group + "_P");
        Decisions decisions = new Decisions();
        producer.setTransactionListener(decisions);
        stage.start(producer);
        stage.createTopic(stage.producer("A"), 4);
        ConcurrentLinkedQueue<MessageExt> received = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer consumer = stage.push();
        consumer.subscribe(stage.topic, "TagT");
        consumer.registerMessageListener(Pushes.into(received));
        stage.start(consumer);
        Map<String, TransactionSendResult> answers = new TreeMap<>();
        for (int i = 0; i < EACH; i++) {
            for (String kind : List.of("commit ", "rollback ", "later commit ", "later rollback ")) {
                Message message = Pushes.text(stage.topic, "TagT", kind + i);
                message.setKeys("key-" + i);
                message.putUserProperty("number", "" + i);
                answers.put(kind + i, producer.sendMessageInTransaction(message, null));
            }
        }
        Check.await(2 * EACH + " committed messages", () -> received.size() >= 2 * EACH, received::size);
        Check.await(2 * EACH + " messages asked about twice",
            () -> answers.keySet().stream().filter(text -> text.startsWith("later")).allMatch(text -> decisions.times(text) >= 2), () -> decisions.asked);
        return check(stage, decisions, answers, received);
    }

    private static String check(Stage stage, Decisions decisions, Map<String, TransactionSendResult> answers, Iterable<MessageExt> received) {
        List<String> bodies = java.util.stream.StreamSupport.stream(received.spliterator(), false).map(Pushes::body).sorted().collect(Collectors.toList());
        List<String> expected = answers.keySet().stream().filter(text -> text.contains("commit")).sorted().collect(Collectors.toList());
        Check.equal(new TreeSet<>(expected), new TreeSet<>(bodies), "texts received");
        for (String text : expected) { // a decision that was late is sent again when the broker asks again, and Apache's broker obeys both
            boolean isDecidedOnce = decisions.times(text) <= (text.startsWith("later") ? 2 : 0);
            Check.that(!isDecidedOnce || Collections.frequency(bodies, text) == 1, text + " came more than once");
        }
        for (MessageExt message : received) {
            String text = Pushes.body(message);
            TransactionSendResult answer = answers.get(text);
            Check.equal(answer.getMsgId(), message.getMsgId(), "message id of " + text);
            Check.equal(answer.getTransactionId(), message.getTransactionId(), "transaction id of " + text);
            Check.equal(8, message.getSysFlag() & 12, "transaction bits of " + text);
            Check.equal("" + message.getKeys().substring(4), message.getUserProperty("number"), "properties of " + text);
            Check.equal(answer.getMessageQueue().getQueueId(), message.getQueueId(), "queue of " + text);
        }
        decisions.seen.forEach((text, seen) -> {
            String number = text.substring(text.lastIndexOf(' ') + 1);
            Check.equal(stage.topic + " TagT key-" + number + " " + answers.get(text).getTransactionId() + " " + number, seen, "what a check shows of " + text);
        });
        long late = decisions.asked.keySet().stream().filter(text -> !text.startsWith("later")).count(); // the decision took longer than the broker waits
        return EACH + " of each decision, " + 2 * EACH + " decided at the second question, " + late + " asked about although decided";
    }
}
