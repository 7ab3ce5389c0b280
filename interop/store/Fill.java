package storeways;

import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.compression.CompressionType;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import org.apache.rocketmq.remoting.protocol.RequestCode;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;

/**
 * Sends messages of every kind and writes down what the broker owes for them, one line each:
 * {@code acked TOPIC QUEUE OFFSET UNIQUE_ID}, {@code due KEY TOPIC EARLIEST_MS LATEST_MS KIND} (later, exactly once), {@code never KEY TOPIC},
 * {@code there KEY TOPIC} (now), {@code offset GROUP TOPIC QUEUE VALUE}, {@code refused KIND REASON}.
 *
 * <p>{@code DueLevels} and {@code DueTimers} get what is pending; their content changes while others are compared.
 */
final class Fill {
    private static final int COMPRESS_NEVER = 8 << 20;
    /** Delays of the levels as the runner configures them. */
    private static final Map<Integer, Long> LEVEL_MS = Map.of(1, 1_000L, 2, 2_000L, 4, 30_000L, 5, 45_000L, 6, 100_000L, 14, 600_000L);

    private final Broker broker;
    private final String namesrv;
    private final int phase;
    private final PrintWriter out;
    private final Random random;
    /** Messages of this phase by topic that are to be there at the end. Every phase sends as many. */
    private final Map<String, Long> expected = new HashMap<>();
    private long decided;
    private DefaultMQProducer producer;
    private TransactionMQProducer deciding;

    private Fill(Broker broker, String namesrv, int phase, PrintWriter out) {
        this.broker = broker;
        this.namesrv = namesrv;
        this.phase = phase;
        this.out = out;
        this.random = new Random(phase);
    }

    private interface Kind {
        void send() throws Exception;
    }

    static void fill(Broker broker, String namesrv, int phase, String kinds, Path result) throws Exception {
        Set<String> wanted = Set.of(kinds.split(","));
        try (PrintWriter out = new PrintWriter(Files.newBufferedWriter(result))) {
            Fill fill = new Fill(broker, namesrv, phase, out);
            fill.producer = fill.start(new DefaultMQProducer("P_fill"), COMPRESS_NEVER);
            fill.topics();
            fill.kind(wanted, "delayed", fill::delayed); // first, so that what they deliver is there at the end
            fill.kind(wanted, "timers", fill::timers);
            fill.kind(wanted, "recalls", fill::recalls);
            fill.kind(wanted, "transactions", fill::transactions);
            fill.kind(wanted, "plain", fill::plain);
            fill.kind(wanted, "wide", fill::wide);
            fill.kind(wanted, "bodies", fill::bodies);
            fill.kind(wanted, "batches", fill::batches);
            fill.kind(wanted, "inner", fill::inner);
            fill.kind(wanted, "alone", fill::alone);
            fill.kind(wanted, "retries", fill::retries);
            fill.kind(wanted, "offsets", fill::offsets);
            fill.settle();
            fill.producer.shutdown();
        }
    }

    private void kind(Set<String> wanted, String name, Kind kind) {
        if (!wanted.contains(name)) {
            return;
        }
        try {
            kind.send();
        } catch (Exception failure) {
            failure.printStackTrace();
            out.println("refused " + name + " " + String.valueOf(failure.getMessage()).replaceAll("\\s+", " "));
        }
    }

    private <P extends DefaultMQProducer> P start(P made, int compressOver) throws Exception {
        made.setNamesrvAddr(namesrv);
        made.setInstanceName(made.getProducerGroup() + "-" + phase + "-" + System.nanoTime());
        made.setCompressMsgBodyOverHowmuch(compressOver);
        made.setSendMsgTimeout(Broker.TIMEOUT_MS);
        made.setMqClientApiTimeout(Broker.TIMEOUT_MS);
        made.start();
        return made;
    }

    private void topics() throws Exception {
        // Its own limit of 6 s, whatever the client's says.
        producer.getDefaultMQProducerImpl().getMqClientFactory().getMQAdminImpl().setTimeoutMillis(Broker.TIMEOUT_MS);
        Map<String, Integer> queues = Map.of("Plain", 4, "Wide", 16, "Bodies", 2, "Batches", 2, "Delayed", 2, "Timers", 2,
            "DueLevels", 1, "DueTimers", 1, "Retried", 1, "Transactions", 2);
        for (Map.Entry<String, Integer> topic : queues.entrySet()) {
            if (phase == 1) {
                producer.createTopic("TBW102", topic.getKey(), topic.getValue(), Map.of());
            }
        }
        if (phase == 1) {
            // The producer's own createTopic drops the attributes.
            producer.getDefaultMQProducerImpl().getMqClientFactory().getMQAdminImpl()
                .createTopic("TBW102", "Inner", 2, 0, Map.of("+queue.type", "BatchCQ"));
        }
        for (String group : phase == 1 ? List.of("G_first", "G_second", "G_resume", "G_retry", "G_late") : List.<String>of()) {
            SubscriptionGroupConfig config = new SubscriptionGroupConfig();
            config.setGroupName(group);
            config.setRetryMaxTimes(7);
            RemotingCommand answer = broker.ask(RemotingSerializable.encode(config), RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP);
            if (answer.getCode() != 0) {
                throw new IllegalStateException("group " + group + ": " + answer);
            }
        }
        producer.createTopic("TBW102", "Fresh" + phase, 2, Map.of());
        Broker.await(() -> isRouted("Fresh" + phase, 2) && isRouted("Plain", 4));
    }

    private boolean isRouted(String topic, int queues) {
        try {
            return producer.fetchPublishMessageQueues(topic).size() == queues;
        } catch (Exception notYet) {
            return false;
        }
    }

    private MessageQueue queue(String topic, int id) throws Exception {
        return producer.fetchPublishMessageQueues(topic).stream().filter(queue -> queue.getQueueId() == id).findFirst().orElseThrow();
    }

    private byte[] noise(int length) {
        byte[] body = new byte[length];
        random.nextBytes(body);
        return body;
    }

    private static byte[] words(int length) {
        return "every message and every offset ".repeat(length / 31 + 1).substring(0, length).getBytes(StandardCharsets.UTF_8);
    }

    private SendResult acked(SendResult result, String topic) {
        if (result.getSendStatus() != SendStatus.SEND_OK) {
            throw new IllegalStateException(topic + ": " + result);
        }
        String[] ids = result.getMsgId().split(",");
        for (int i = 0; i < ids.length; i++) {
            out.println("acked " + topic + " " + result.getMessageQueue().getQueueId() + " " + (result.getQueueOffset() + i) + " " + ids[i]);
        }
        return result;
    }

    private SendResult send(Message message, MessageQueue queue) throws Exception {
        return acked(producer.send(message, queue), message.getTopic());
    }

    private void plain() throws Exception {
        MessageQueue[] queues = {queue("Plain", 0), queue("Plain", 1), queue("Plain", 2), queue("Plain", 3)};
        for (int i = 0; i < 120; i++) {
            Message message = new Message("Plain", noise(1 + random.nextInt(3000)));
            message.setFlag(i * 77);
            if (i % 7 != 0) {
                message.setTags("Tag" + i % 5);
            }
            switch (i % 4) {
                case 1 -> message.setKeys("one-" + phase + "-" + i);
                case 2 -> message.setKeys(List.of("a-" + phase + "-" + i, "b-" + i % 10, "shared"));
                case 3 -> message.setKeys("polygenelubricants " + "schlüssel-" + i % 3);
                default -> { }
            }
            message.putUserProperty("colour", "grün " + i);
            send(message, queues[i % 4]);
        }
        for (int i = 0; i < 20; i++) {
            send(new Message("Fresh" + phase, "only", "fresh-" + phase + "-" + i, words(100)), queue("Fresh" + phase, i % 2));
        }
    }

    private void wide() throws Exception {
        List<MessageQueue> queues = producer.fetchPublishMessageQueues("Wide");
        for (int i = 0; i < 160; i++) {
            send(new Message("Wide", i % 2 == 0 ? "even" : "odd", "wide-" + phase + "-" + i, words(1 + i % 50)), queues.get(i % queues.size()));
        }
    }

    private void bodies() throws Exception {
        int[] sizes = {1, 4095, 4096, 10_000, 40_000, 65_535, 65_536, 100 << 10};
        for (CompressionType type : CompressionType.values()) {
            DefaultMQProducer compressing = start(new DefaultMQProducer("P_" + type), 4096);
            compressing.setCompressType(type);
            for (int size : sizes) {
                acked(compressing.send(new Message("Bodies", "packed", type + "-" + size, words(size)), queue("Bodies", 0)), "Bodies");
            }
            acked(compressing.send(new Message("Bodies", "packed", type + "-noise", noise(30_000)), queue("Bodies", 0)), "Bodies");
            compressing.shutdown();
        }
        for (int size : sizes) {
            send(new Message("Bodies", "plain", "size-" + size, noise(size)), queue("Bodies", 1));
        }
    }

    /** One record each, of several messages; enough for several files of the queue. */
    private void inner() throws Exception {
        for (int i = 0; i < 48; i++) {
            List<Message> batch = new ArrayList<>();
            for (int k = 0; k <= i % 9; k++) {
                Message message = new Message("Inner", "Tag" + k % 3, "inner-" + phase + "-" + i + "-" + k, noise(1 + random.nextInt(300)));
                message.putUserProperty("number", String.valueOf(k));
                batch.add(message);
            }
            acked(producer.send(batch, queue("Inner", i % 2)), "Inner");
        }
    }

    /** RocketMQ stores these and never delivers them. */
    private void alone() throws Exception {
        for (int i = 0; i < 10; i++) {
            send(new Message("Inner", "alone", "alone-" + phase + "-" + i, words(20 + i)), queue("Inner", i % 2));
        }
    }

    private void batches() throws Exception {
        for (int i = 0; i < 8; i++) {
            List<Message> batch = new ArrayList<>();
            for (int k = 0; k < 10; k++) {
                batch.add(new Message("Batches", "Tag" + k % 2, "batch-" + phase + "-" + i + " in-batch-" + k, noise(200 + 100 * k)));
            }
            acked(producer.send(batch, queue("Batches", i % 2)), "Batches");
        }
    }

    private void delayed() throws Exception {
        for (int i = 0; i < 6; i++) {
            later("Delayed", 1 + i % 2, "delayed-" + phase + "-" + i, "there");
        }
        int[] pending = phase == 1 ? new int[] {5, 5, 6, 6, 14} : phase == 2 ? new int[] {4, 5, 5} : new int[0];
        for (int i = 0; i < pending.length; i++) {
            later("DueLevels", pending[i], "level-" + phase + "-" + i, "due");
        }
    }

    private void later(String topic, int level, String key, String owed) throws Exception {
        Message message = new Message(topic, "late", key, words(50 + level));
        message.setDelayTimeLevel(level);
        long before = System.currentTimeMillis();
        producer.send(message);
        owe(owed, key, topic, before + LEVEL_MS.get(level), System.currentTimeMillis() + LEVEL_MS.get(level), "level");
    }

    private void owe(String owed, String key, String topic, long earliest, long latest, String kind) {
        if (owed.equals("there")) {
            expected.merge(topic, 1L, Long::sum);
        }
        out.println(owed.equals("due") ? "due " + key + " " + topic + " " + earliest + " " + latest + " " + kind : owed + " " + key + " " + topic);
    }

    private void timers() throws Exception {
        long now = System.currentTimeMillis();
        for (int i = 0; i < 4; i++) {
            timer("Timers", now + 1_500 + 333 * i, "timed-" + phase + "-" + i, "there");
        }
        long[] pending = phase == 1 ? new long[] {45_000, 45_123, 100_000, 100_777, 600_000} : phase == 2 ? new long[] {30_000, 45_500} : new long[0];
        for (int i = 0; i < pending.length; i++) {
            timer("DueTimers", now + pending[i], "timer-" + phase + "-" + i, "due");
        }
    }

    private SendResult timer(String topic, long deliver, String key, String owed) throws Exception {
        Message message = new Message(topic, "late", key, words(60));
        message.setDeliverTimeMs(deliver);
        SendResult result = producer.send(message);
        owe(owed, key, topic, deliver, deliver, "timer");
        return result;
    }

    private void recalls() throws Exception {
        long deliver = System.currentTimeMillis() + 40_000;
        for (int i = 0; i < 2; i++) {
            SendResult result = timer("DueTimers", deliver + 500 * i, "recalled-" + phase + "-" + i, "never");
            producer.recallMessage("DueTimers", result.getRecallHandle());
        }
    }

    private void transactions() throws Exception {
        deciding = new TransactionMQProducer("P_transactions");
        deciding.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return (LocalTransactionState) argument;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return LocalTransactionState.UNKNOW;
            }
        });
        start(deciding, COMPRESS_NEVER);
        LocalTransactionState[] states = LocalTransactionState.values();
        for (int i = 0; i < 9; i++) {
            LocalTransactionState state = states[i % 3];
            String key = "tx-" + phase + "-" + i + "-" + state;
            deciding.sendMessageInTransaction(new Message("Transactions", "tx", key, words(80)), state);
            owe(state == LocalTransactionState.COMMIT_MESSAGE ? "there" : "never", key, "Transactions", 0, 0, "transaction");
            decided += state == LocalTransactionState.UNKNOW ? 0 : 1;
        }
    }

    /** Messages that a consumer sent back: delivered again, pending, and to the dead letter queue. */
    private void retries() throws Exception {
        for (int i = phase == 3 ? 1 : 0; i < 8; i++) {
            SendResult sent = send(new Message("Retried", "again", "again-" + phase + "-" + i, words(40)), queue("Retried", 0));
            boolean dead = i % 4 == 3;
            int level = i == 0 ? 5 : 1;
            String group = i == 0 ? "G_late" : "G_retry";
            long position = Long.parseLong(sent.getOffsetMsgId().substring(16), 16);
            long before = System.currentTimeMillis();
            RemotingCommand answer = broker.ask(RequestCode.CONSUMER_SEND_MSG_BACK, "offset", position, "group", group, "delayLevel", level,
                "originMsgId", sent.getMsgId(), "originTopic", "Retried", "unitMode", false, "maxReconsumeTimes", dead ? 0 : 16);
            if (answer.getCode() != 0) {
                throw new IllegalStateException("send back: " + answer);
            }
            owe(level == 5 ? "due" : "there", "again-" + phase + "-" + i, (dead ? "%DLQ%" : "%RETRY%") + group, before + LEVEL_MS.get(level),
                System.currentTimeMillis() + LEVEL_MS.get(level), "level");
        }
    }

    /** Waits until every message that is delivered soon is there and every decision is written down, so that inventories are of a store at rest. */
    private void settle() throws Exception {
        for (Map.Entry<String, Long> topic : expected.entrySet()) {
            Broker.await(() -> readable(topic.getKey()) >= topic.getValue() * phase);
        }
        Broker.await(() -> decisions() >= decided * phase);
        deciding.shutdown(); // the decisions are sent one way
    }

    /** Transactions that were committed or rolled back: Java writes several of them in one message, every three seconds. */
    private long decisions() throws Exception {
        long count = 0;
        for (long offset = 0; ; ) {
            RemotingCommand answer = broker.pull("RMQ_SYS_TRANS_OP_HALF_TOPIC", 0, offset);
            List<Stored> records = answer.getCode() == 0 ? Stored.all(answer.getBody()) : List.of();
            if (records.isEmpty()) {
                return count;
            }
            for (Stored record : records) {
                count += new String(record.body, StandardCharsets.UTF_8).split(",").length;
            }
            offset = records.get(records.size() - 1).queueOffset + 1;
        }
    }

    private long readable(String topic) throws Exception {
        long sum = 0;
        for (int queue = 0; queue < 2; queue++) {
            String max = broker.field("offset", RequestCode.GET_MAX_OFFSET, "topic", topic, "queueId", queue, "committed", true);
            sum += max.matches("\\d+") ? Long.parseLong(max) : 0;
        }
        return sum;
    }

    private void offsets() throws Exception {
        for (int queue = 0; queue < 4; queue++) {
            commit("G_first", "Plain", queue, 10L * phase + queue);
            if (phase == 1) {
                commit("G_resume", "Plain", queue, 20 + queue);
            }
        }
        for (int queue = 0; queue < 16; queue += 3) {
            commit("G_second", "Wide", queue, phase + queue);
        }
    }

    private void commit(String group, String topic, int queue, long offset) throws Exception {
        RemotingCommand answer = broker.ask(RequestCode.UPDATE_CONSUMER_OFFSET, "consumerGroup", group, "topic", topic, "queueId", queue, "commitOffset", offset);
        if (answer.getCode() != 0) {
            throw new IllegalStateException("commit of " + group + ": " + answer);
        }
        out.println("offset " + group + " " + topic + " " + queue + " " + offset);
    }
}
