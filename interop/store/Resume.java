package storeways;

import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.message.MessageExt;

/** A push consumer goes on where its group's offsets say; what it got is written down as {@code topic/queue/offset}. */
final class Resume {
    private static final long QUIET_MS = 1_000;

    private Resume() {}

    /** Waits for {@code count} messages, and then a little longer for one too many. */
    static void consume(String namesrv, String group, String topic, int count, Path result) throws Exception {
        ConcurrentLinkedQueue<String> got = new ConcurrentLinkedQueue<>();
        AtomicLong last = new AtomicLong(System.currentTimeMillis());
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName(group + "-" + System.nanoTime());
        consumer.setMqClientApiTimeout(Broker.TIMEOUT_MS);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                got.add(message.getTopic() + "/" + message.getQueueId() + "/" + message.getQueueOffset());
            }
            last.set(System.currentTimeMillis());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        Broker.await(() -> got.size() >= count && System.currentTimeMillis() - last.get() >= QUIET_MS);
        consumer.shutdown();
        try (PrintWriter out = new PrintWriter(Files.newBufferedWriter(result))) {
            List.copyOf(got).stream().sorted().forEach(out::println);
        }
    }
}
