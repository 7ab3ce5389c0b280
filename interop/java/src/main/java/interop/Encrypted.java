package interop;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentSkipListSet;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;

/** Clients with useTLS against ports that serve both kinds of connections. */
final class Encrypted {
    private Encrypted() {}

    static String sendAndConsume(Stage stage) throws Exception {
        DefaultMQProducer plain = stage.producer();
        stage.createTopic(plain, 4);
        DefaultMQProducer producer = new DefaultMQProducer(stage.group + "_TLS");
        producer.setUseTLS(true);
        stage.start(producer);
        Set<String> received = new ConcurrentSkipListSet<>();
        DefaultMQPushConsumer consumer = stage.push();
        consumer.setUseTLS(true);
        consumer.subscribe(stage.topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> received.add(message.getKeys() + ":" + message.getBody().length));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        stage.start(consumer);
        Set<String> sent = new TreeSet<>();
        List<Integer> sizes = new ArrayList<>(List.of(1, 1000, 100_000, 3_900_000)); // below, at and far over a record of TLS
        for (int i = 0; i < 200; i++) {
            sizes.add(i);
        }
        for (int i = 0; i < sizes.size(); i++) {
            byte[] body = new byte[sizes.get(i) + 1];
            new java.util.Random(i).nextBytes(body);
            String key = "k" + i;
            DefaultMQProducer by = i % 2 == 0 ? producer : plain;
            Check.equal(SendStatus.SEND_OK, by.send(new Message(stage.topic, "", key, body)).getSendStatus(), "status of " + key);
            sent.add(key + ":" + body.length);
        }
        Check.await(sent.size() + " messages through TLS", () -> received.size() == sent.size(), () -> received.size());
        Check.equal(sent, Set.copyOf(received), "keys and sizes");
        return sent.size() + " messages, half of them sent and all of them received through TLS";
    }
}
