import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/**
 * Sends one message after the other until its input ends, and prints how long each wait for an acknowledgement was that lasted 5 ms or more.
 * For each byte of its input it prints when a message was acknowledged last.
 */
final class Gap {
    private static final long SHORTEST_MS = 5;
    private static volatile long acknowledgedMs = System.currentTimeMillis();
    private static volatile long sent;
    private static volatile long failed;

    private Gap() {}

    public static void main(String[] arguments) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("gap");
        producer.setNamesrvAddr(arguments[0]);
        producer.start();
        Thread sending = new Thread(() -> send(producer, arguments[1]));
        sending.setDaemon(true);
        sending.start();
        while (System.in.read() >= 0) {
            System.out.println("acknowledged " + acknowledgedMs);
        }
        System.out.println("sent " + sent + " failed " + failed);
        System.exit(0);
    }

    /** Prints a line for each long wait: when it began, in milliseconds since 1970, and for how many of them. */
    private static void send(DefaultMQProducer producer, String topic) {
        while (true) {
            try {
                producer.send(new Message(topic, Long.toString(sent).getBytes(StandardCharsets.UTF_8)));
                sent++;
            } catch (Exception refused) {
                failed++;
                continue;
            }
            long now = System.currentTimeMillis();
            if (now - acknowledgedMs >= SHORTEST_MS) {
                System.out.println("waited " + acknowledgedMs + " " + (now - acknowledgedMs));
            }
            acknowledgedMs = now;
        }
    }
}
