package interop;

import java.lang.reflect.Method;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageQueue;

/** What one scenario works with: its own topic and group names, and clients that are shut down at its end. */
final class Stage implements AutoCloseable {
    final String namesrv;
    final String broker;
    final String topic;
    final String group;
    private final Deque<Runnable> closers = new ArrayDeque<>();

    Stage(String namesrv, String broker, String scenario, String run) {
        this.namesrv = namesrv;
        this.broker = broker;
        this.topic = "T_" + scenario + "_" + run;
        this.group = "G_" + scenario + "_" + run;
    }

    int brokerPort() {
        return Integer.parseInt(broker.substring(broker.indexOf(':') + 1));
    }

    /** Where replies to a request go. */
    String replyTopic(org.apache.rocketmq.common.message.Message request) {
        return request.getProperty("CLUSTER") + "_REPLY_TOPIC";
    }

    DefaultMQProducer producer() throws MQClientException {
        return producer("P");
    }

    DefaultMQProducer producer(String suffix) throws MQClientException {
        DefaultMQProducer producer = new DefaultMQProducer(group + "_" + suffix);
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName(producer.getProducerGroup());
        producer.setSendMsgTimeout(20_000);
        producer.start();
        closers.push(producer::shutdown);
        return producer;
    }

    /** A push consumer that is configured but not yet started. */
    DefaultMQPushConsumer push(String group, String instance) {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName(group + "-" + instance);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET); // the default may skip a queue's first message
        consumer.setMqClientApiTimeout(20_000);
        consumer.setConsumeThreadMin(4);
        consumer.setConsumeThreadMax(4);
        return consumer;
    }

    DefaultMQPushConsumer push() {
        return push(group, "1");
    }

    void start(DefaultMQPushConsumer consumer) throws MQClientException {
        consumer.start();
        closers.push(consumer::shutdown);
    }

    DefaultLitePullConsumer lite(String instance) {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName(group + "-" + instance);
        consumer.setAutoCommit(false);
        closers.push(consumer::shutdown);
        return consumer;
    }

    Reader reader() throws MQClientException {
        Reader reader = new Reader(this);
        closers.push(reader::close);
        return reader;
    }

    /** Creates this scenario's topic and returns its queues in order once the name server routes them. */
    List<MessageQueue> createTopic(DefaultMQProducer producer, int queues) throws Exception {
        String behindProxy = System.getenv("INTEROP_NAMESRV");
        DefaultMQProducer creator = producer;
        if (behindProxy != null) { // a proxy creates no topics
            creator = new DefaultMQProducer(group + "_C");
            creator.setNamesrvAddr(behindProxy);
            creator.setInstanceName(creator.getProducerGroup());
            creator.start();
            closers.push(creator::shutdown);
        }
        Method create;
        try { // 5.x takes attributes, 4.x does not
            create = DefaultMQProducer.class.getMethod("createTopic", String.class, String.class, int.class, Map.class);
            create.invoke(creator, "TBW102", topic, queues, Map.of());
        } catch (NoSuchMethodException older) {
            create = DefaultMQProducer.class.getMethod("createTopic", String.class, String.class, int.class);
            create.invoke(creator, "TBW102", topic, queues);
        }
        return awaitRoute(producer, topic, queues);
    }

    static List<MessageQueue> awaitRoute(DefaultMQProducer producer, String topic, int queues) throws Exception {
        List<MessageQueue> found = new ArrayList<>();
        Check.await(45, "a route of " + topic + " with " + queues + " queues", () -> {
            try {
                found.clear();
                found.addAll(producer.fetchPublishMessageQueues(topic));
            } catch (MQClientException notYet) {
                return false;
            }
            return found.size() == queues;
        }, () -> found);
        found.sort(null);
        return found;
    }

    /** Queues of the topic that this consumer owns now. */
    static int owned(DefaultMQPushConsumer consumer, String topic) {
        return (int) consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet().stream()
            .filter(queue -> queue.getTopic().equals(topic)).count();
    }

    @Override
    public void close() {
        while (!closers.isEmpty()) {
            try {
                closers.pop().run();
            } catch (RuntimeException late) {
                late.printStackTrace();
            }
        }
    }
}
