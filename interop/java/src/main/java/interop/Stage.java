package interop;

import java.lang.reflect.InvocationTargetException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.impl.MQClientManager;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/** Topic, groups and clients of one scenario. Clients are shut down at its end. */
final class Stage implements AutoCloseable {
    static final int TIMEOUT_MILLIS = 120_000;
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

    /** Topic of the replies to a request. */
    String replyTopic(Message request) {
        return request.getProperty("CLUSTER") + "_REPLY_TOPIC";
    }

    DefaultMQProducer producer() throws MQClientException {
        return producer("P");
    }

    DefaultMQProducer producer(String suffix) throws MQClientException {
        return start(new DefaultMQProducer(group + "_" + suffix));
    }

    <P extends DefaultMQProducer> P start(P producer) throws MQClientException {
        configured(producer, producer.getProducerGroup()).setSendMsgTimeout(TIMEOUT_MILLIS);
        producer.start();
        closers.push(producer::shutdown);
        return producer;
    }

    /** Gives a client its name server, a connection of its own, and timeouts that no busy machine reaches. */
    private <C extends ClientConfig> C configured(C client, String instance) {
        client.setNamesrvAddr(namesrv);
        client.setInstanceName(instance);
        client.setMqClientApiTimeout(TIMEOUT_MILLIS);
        // The client skips a heartbeat while another one is under way; brokers know its subscription from the next one on.
        client.setHeartbeatBrokerInterval(5_000);
        client.setPollNameServerInterval(5_000); // retry topics are made with their first message
        return client;
    }

    /** A push consumer that is configured but not yet started. */
    DefaultMQPushConsumer push(String group, String instance) {
        return push(new DefaultMQPushConsumer(group), instance);
    }

    DefaultMQPushConsumer push(DefaultMQPushConsumer consumer, String instance) {
        configured(consumer, consumer.getConsumerGroup() + "-" + instance);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET); // the default may skip a queue's first message
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
        DefaultLitePullConsumer consumer = configured(new DefaultLitePullConsumer(group), group + "-" + instance);
        consumer.setAutoCommit(false);
        closers.push(consumer::shutdown);
        return consumer;
    }

    @SuppressWarnings("deprecation") // the plain pull consumer is the most direct way to one queue
    Reader reader() throws MQClientException {
        Reader reader = new Reader(configured(new DefaultMQPullConsumer(group + "_R"), group + "_R"));
        closers.push(reader::close);
        return reader;
    }

    /** Creates this scenario's topic and returns its queues in order once the name server routes them. */
    List<MessageQueue> createTopic(DefaultMQProducer producer, int queues) throws Exception {
        String behindProxy = System.getenv("INTEROP_NAMESRV");
        DefaultMQProducer creator = producer;
        if (behindProxy != null) { // a proxy creates no topics
            creator = new Stage(behindProxy, broker, topic, group).producer("C");
            closers.push(creator::shutdown);
        }
        DefaultMQProducer by = creator;
        Check.await("the creation of " + topic, () -> isCreated(by, queues), () -> "none");
        return awaitRoute(producer, topic, queues);
    }

    /** Whether the topic could be created; the client gives up after some seconds. */
    private boolean isCreated(DefaultMQProducer creator, int queues) {
        try {
            try { // 5.x takes attributes, 4.x does not
                DefaultMQProducer.class.getMethod("createTopic", String.class, String.class, int.class, Map.class)
                    .invoke(creator, "TBW102", topic, queues, Map.of());
            } catch (NoSuchMethodException older) {
                DefaultMQProducer.class.getMethod("createTopic", String.class, String.class, int.class).invoke(creator, "TBW102", topic, queues);
            }
            return true;
        } catch (InvocationTargetException late) {
            return false;
        } catch (ReflectiveOperationException wrong) {
            throw new AssertionError(wrong);
        }
    }

    /** Sends a message. The client refuses a send, without a request, if it waits for 3 s while its timer asks for routes. */
    static SendResult send(DefaultMQProducer producer, Message message) throws Exception {
        AtomicReference<SendResult> answer = new AtomicReference<>();
        Check.await("a route of " + message.getTopic(), () -> {
            try {
                answer.set(producer.send(message));
            } catch (MQClientException refusal) {
                Check.that(String.valueOf(refusal.getErrorMessage()).contains("No route info"), String.valueOf(refusal));
            } catch (Exception failure) {
                throw new AssertionError("a send", failure);
            }
            return answer.get() != null;
        }, () -> "none");
        return answer.get();
    }

    /** Waits until the name server and the producer have the route, and returns the queues in order. */
    static List<MessageQueue> awaitRoute(DefaultMQProducer producer, String topic, int queues) throws Exception {
        List<MessageQueue> found = new ArrayList<>();
        MQClientInstance client = MQClientManager.getInstance().getOrCreateMQClientInstance(producer);
        Check.await("a route of " + topic + " with " + queues + " queues", () -> {
            try {
                found.clear();
                found.addAll(producer.fetchPublishMessageQueues(topic));
            } catch (MQClientException notYet) {
                return false;
            }
            client.updateTopicRouteInfoFromNameServer(topic);
            return found.size() == queues && producer.getDefaultMQProducerImpl().getTopicPublishInfoTable().containsKey(topic);
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
