import java.io.Closeable;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeoutException;
import java.util.stream.Stream;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.MessageListener;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.TransactionChecker;

/** A topic and a group for one scenario, which the runner made, and clients that are closed at its end. */
final class Stage implements AutoCloseable {
    static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    static final Duration INVISIBLE = Duration.ofSeconds(300);
    private static final int PATIENCE_SECONDS = 240;

    final String topic;
    final String group;
    final String namesrv;
    private final String endpoint;
    private final Deque<Closeable> clients = new ArrayDeque<>();
    boolean isEncrypted;

    Stage(String endpoint, String namesrv, String run, String scenario) {
        this.endpoint = endpoint;
        this.namesrv = namesrv;
        String name = "java_" + scenario.replace('-', '_') + "_" + run;
        topic = "T_" + name;
        group = "G_" + name;
    }

    /** Clients without the setting encrypt every connection. */
    ClientConfiguration configuration() throws Exception {
        var builder = ClientConfiguration.newBuilder().setEndpoints(endpoint).setRequestTimeout(Duration.ofSeconds(60));
        var setting = Arrays.stream(builder.getClass().getMethods()).filter(method -> method.getName().equals("enableSsl")).findAny();
        if (setting.isPresent()) {
            setting.get().invoke(builder, isEncrypted);
        }
        return builder.build();
    }

    <T extends Closeable> T closing(T client) {
        clients.push(client);
        return client;
    }

    /**
     * Starts a client and closes it at the end. A client that gives up because something was late is started again: it waits 3 s for its
     * settings (ClientSessionImpl), and servers end connections whose handshake takes long. Clients start one after the other, because a
     * dozen starts at the same time in a cold JVM need more than 3 s.
     */
    <T extends Closeable> T started(Callable<T> build) throws Exception {
        for (long end = System.nanoTime() + PATIENCE_SECONDS * 1_000_000_000L; ; ) {
            try {
                synchronized (PROVIDER) {
                    return closing(build.call());
                }
            } catch (Exception failure) {
                boolean isLate = Stream.<Throwable>iterate(failure, Objects::nonNull, Throwable::getCause)
                    .anyMatch(cause -> cause instanceof TimeoutException || String.valueOf(cause).contains("UNAVAILABLE"));
                if (!isLate || System.nanoTime() > end) {
                    throw failure;
                }
                Thread.sleep(1_000);
            }
        }
    }

    Producer producer() throws Exception {
        return producer(null);
    }

    Producer producer(TransactionChecker checker) throws Exception {
        var builder = PROVIDER.newProducerBuilder().setClientConfiguration(configuration()).setTopics(topic);
        return started((checker == null ? builder : builder.setTransactionChecker(checker))::build);
    }

    SimpleConsumer consumer() throws Exception {
        return consumer(topic, FilterExpression.SUB_ALL);
    }

    SimpleConsumer consumer(String from, FilterExpression filter) throws Exception {
        return started(PROVIDER.newSimpleConsumerBuilder().setClientConfiguration(configuration()).setConsumerGroup(group)
            .setAwaitDuration(Duration.ofSeconds(5)).setSubscriptionExpressions(Map.of(from, filter))::build);
    }

    void push(MessageListener listener) throws Exception {
        started(PROVIDER.newPushConsumerBuilder().setClientConfiguration(configuration()).setConsumerGroup(group)
            .setSubscriptionExpressions(Map.of(topic, FilterExpression.SUB_ALL)).setMessageListener(listener)::build);
    }

    MessageBuilder message(String body) {
        return PROVIDER.newMessageBuilder().setTopic(topic).setBody(body.getBytes(StandardCharsets.UTF_8));
    }

    /** Receives and acknowledges until {@code count} messages came. */
    static List<MessageView> receive(SimpleConsumer consumer, int count) throws Exception {
        List<MessageView> found = new ArrayList<>();
        for (long end = System.nanoTime() + PATIENCE_SECONDS * 1_000_000_000L; found.size() < count && System.nanoTime() < end; ) {
            for (MessageView message : consumer.receive(32, INVISIBLE)) {
                consumer.ack(message);
                found.add(message);
            }
        }
        return found;
    }

    /** Clients before 5.0.8 cannot take delayed messages back. */
    static boolean canRecall() {
        return Arrays.stream(Producer.class.getMethods()).anyMatch(method -> method.getName().equals("recallMessage"));
    }

    /** Takes a message back, by methods that clients of all versions compile with; its id. */
    static String recall(Producer producer, String topic, SendReceipt receipt) throws Exception {
        Object handle = SendReceipt.class.getMethod("getRecallHandle").invoke(receipt);
        var recall = Producer.class.getMethod("recallMessage", String.class, String.class);
        Object recalled = recall.invoke(producer, topic, handle);
        return recall.getReturnType().getMethod("getMessageId").invoke(recalled).toString();
    }

    static void nothing(SimpleConsumer consumer, String when) throws Exception {
        equal(List.of(), bodies(consumer.receive(32, INVISIBLE)), when);
    }

    static String body(MessageView message) {
        return StandardCharsets.UTF_8.decode(message.getBody()).toString();
    }

    static List<String> bodies(List<MessageView> messages) {
        return messages.stream().map(Stage::body).sorted().toList();
    }

    interface Scenario {
        void run(Stage stage) throws Exception;
    }

    interface Condition {
        boolean holds() throws Exception;
    }

    static void await(String what, Condition condition) throws Exception {
        for (long end = System.nanoTime() + PATIENCE_SECONDS * 1_000_000_000L; !condition.holds(); Thread.sleep(50)) {
            check(System.nanoTime() < end, what + " did not happen within " + PATIENCE_SECONDS + " s");
        }
    }

    static void check(boolean holds, String text) {
        if (!holds) {
            throw new AssertionError(text);
        }
    }

    static void equal(Object expected, Object found, String what) {
        check(Objects.equals(expected, found), what + ": expected " + expected + ", found " + found);
    }

    /** Runs a scenario and prints its result; the end of the line is in the text because scenarios run at the same time. */
    static void perform(String[] arguments, String name, Scenario scenario) {
        String line = "@ok " + name + "\n";
        try (Stage stage = new Stage(arguments[0], arguments[1], arguments[2], name)) {
            scenario.run(stage);
        } catch (Throwable error) {
            error.printStackTrace();
            line = "@fail " + name + " " + String.valueOf(error).lines().findFirst().orElse("") + "\n";
        }
        System.out.print(line);
        System.out.flush();
    }

    @Override
    public void close() {
        for (Closeable client : clients) {
            try {
                client.close();
            } catch (Exception error) {
                System.err.println("close: " + error);
            }
        }
    }
}
