import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;

/**
 * A push consumer. Arguments: name server, topic, group, and {@code broadcast} or {@code hang}. The listener of {@code hang} stands
 * until standard input has a line. The program ends with standard input.
 */
public final class Consumer {
    public static void main(String[] arguments) throws Exception {
        CountDownLatch gate = new CountDownLatch(arguments[3].equals("hang") ? 1 : 0);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(arguments[2]);
        consumer.setNamesrvAddr(arguments[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setMessageModel(arguments[3].equals("broadcast") ? MessageModel.BROADCASTING : MessageModel.CLUSTERING);
        consumer.subscribe(arguments[1], "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            standUntilOpen(gate);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        while (System.in.read() >= 0) {
            gate.countDown();
        }
        System.exit(0);
    }

    private static void standUntilOpen(CountDownLatch gate) {
        try {
            gate.await();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
