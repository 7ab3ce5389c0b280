import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs commands of mqadmin in one JVM, and the clients they are about. One request per line: the seconds it may take and its
 * words, separated by tabs. The answer is what the command printed, then a line that begins with "@@". Commands that begin with
 * "!" are for the clients.
 */
public class Shell {
    private static final int PATIENCE_MS = 120_000;
    private final PrintStream out = System.out;
    private final Map<String, DefaultMQPushConsumer> consumers = new HashMap<>();
    /** Ids of the messages that each group has got. */
    private final Map<String, Set<String>> consumed = new HashMap<>();
    private final List<DefaultMQProducer> producers = new ArrayList<>();

    public static void main(String[] args) throws Exception {
        System.setProperty("rocketmq.namesrv.addr", args[0]);
        new Shell().serve();
    }

    private void serve() throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] request = line.split("\t", -1);
            String[] words = Arrays.copyOfRange(request, 1, request.length);
            ByteArrayOutputStream said = new ByteArrayOutputStream();
            PrintStream to = new PrintStream(said, true, StandardCharsets.UTF_8);
            System.setOut(to);
            System.setErr(to);
            String end = "@@done";
            Thread running = new Thread(() -> perform(words, to));
            running.setDaemon(true);
            running.start();
            if (!ended(running, Integer.parseInt(request[0]))) {
                end = "@@timeout";
                running.interrupt();
                running.join(10_000);
            }
            out.println(said.toString(StandardCharsets.UTF_8));
            out.println(end);
            out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    /**
     * Waits for the end of a command. What keeps most commands for three seconds after their last line is the thread of events of
     * the client that they shut down, which polls for so long; the thread is woken up.
     */
    private static boolean ended(Thread running, int seconds) throws InterruptedException {
        long end = System.nanoTime() + seconds * 1_000_000_000L;
        while (running.isAlive() && System.nanoTime() < end) {
            running.join(20);
            if (isIn(running, "ServiceThread", "shutdown")) {
                Thread.getAllStackTraces().keySet().stream()
                    .filter(thread -> thread.getName().equals("NettyEventExecutor") && isIn(thread, "LinkedBlockingQueue", "poll"))
                    .forEach(Thread::interrupt);
            }
        }
        return !running.isAlive();
    }

    private static boolean isIn(Thread thread, String type, String method) {
        return Arrays.stream(thread.getStackTrace())
            .anyMatch(frame -> frame.getClassName().endsWith("." + type) && frame.getMethodName().equals(method));
    }

    private void perform(String[] words, PrintStream to) {
        try {
            if (words[0].startsWith("!")) {
                client(words, to);
            } else {
                fresh();
                MQAdminStartup.main0(words, null);
            }
        } catch (Exception failed) {
            failed.printStackTrace(to);
        }
    }

    /** Some commands keep a client of theirs and can be run once only. */
    private static void fresh() throws Exception {
        Field commands = MQAdminStartup.class.getDeclaredField("SUB_COMMANDS");
        commands.setAccessible(true);
        ((List<?>) commands.get(null)).clear();
    }

    private void client(String[] words, PrintStream to) throws Exception {
        switch (words[0]) {
            case "!send":
                send(words[1], words[2], Integer.parseInt(words[3]), to);
                break;
            case "!consume":
                consume(words[1], words[2], words[3], words.length > 4 && words[4].equals("broadcast"));
                break;
            case "!consumed":
                to.println(consumed.get(words[1]).size());
                break;
            case "!stop":
                for (String name : new ArrayList<>(consumers.keySet())) {
                    if (name.equals(words[1]) || name.startsWith(words[1] + "-")) {
                        consumers.remove(name).shutdown();
                    }
                }
                break;
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    /** Messages with key, tag and trace, in turn to all queues. Prints "queue offset offsetId uniqueId". */
    private void send(String group, String topic, int count, PrintStream to) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(group, true, null);
        producer.setInstanceName(group);
        producer.setSendMsgTimeout(PATIENCE_MS);
        producer.setMqClientApiTimeout(PATIENCE_MS);
        producer.start();
        producers.add(producer);
        List<MessageQueue> queues = producer.fetchPublishMessageQueues(topic);
        for (int number = 0; number < count; number++) {
            Message message = new Message(topic, "TagA", "key-" + number, ("body " + number).getBytes(StandardCharsets.UTF_8));
            SendResult result = producer.send(message, queues.get(number % queues.size()));
            to.println(result.getMessageQueue().getQueueId() + " " + result.getQueueOffset() + " " + result.getOffsetMsgId() + " " + result.getMsgId());
        }
    }

    private void consume(String group, String topic, String expression, boolean broadcast) throws Exception {
        String name = group + (consumers.containsKey(group) ? "-" + consumers.size() : "");
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setInstanceName(name);
        consumer.setMqClientApiTimeout(PATIENCE_MS);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setMessageModel(broadcast ? MessageModel.BROADCASTING : MessageModel.CLUSTERING);
        consumer.setPersistConsumerOffsetInterval(500);
        consumer.subscribe(topic, expression);
        Set<String> ids = consumed.computeIfAbsent(group, key -> ConcurrentHashMap.newKeySet());
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> ids.add(message.getMsgId()));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        consumers.put(name, consumer);
    }
}
