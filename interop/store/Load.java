package storeways;

import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/** Sends to topic {@code Load} until the broker is gone, and writes down what it acknowledged. */
final class Load {
    private Load() {}

    static void send(String namesrv, Path result) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("P_load");
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName("P_load-" + System.nanoTime());
        producer.setRetryTimesWhenSendFailed(0);
        producer.setSendMsgTimeout(Broker.TIMEOUT_MS);
        producer.setMqClientApiTimeout(Broker.TIMEOUT_MS);
        producer.start();
        try (PrintWriter out = new PrintWriter(Files.newBufferedWriter(result))) {
            for (int i = 0; ; i++) {
                SendResult sent = producer.send(new Message("Load", "load", "load-" + i, new byte[100 + i % 2000]));
                out.println("acked Load " + sent.getMessageQueue().getQueueId() + " " + sent.getQueueOffset() + " " + sent.getMsgId());
                out.flush();
            }
        } catch (Exception gone) {
            gone.printStackTrace();
        } finally {
            producer.shutdown();
        }
    }
}
