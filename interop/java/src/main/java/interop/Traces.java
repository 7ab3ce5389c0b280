package interop;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.trace.TraceBean;
import org.apache.rocketmq.client.trace.TraceContext;
import org.apache.rocketmq.client.trace.TraceDataEncoder;
import org.apache.rocketmq.client.trace.TraceType;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Traces of messages in the trace topic, found by id and by key as tools do. */
final class Traces {
    static final String TOPIC = "RMQ_SYS_TRACE_TOPIC";
    private static final int COUNT = 20;

    private Traces() {}

    static String both(Stage stage) throws Exception {
        DefaultMQProducer tool = stage.producer("Tool");
        stage.createTopic(tool, 4);
        DefaultMQProducer producer = stage.start(new DefaultMQProducer(stage.group + "_P", true, null));
        DefaultMQPushConsumer consumer = stage.push(new DefaultMQPushConsumer(stage.group, true, null), "1");
        consumer.subscribe(stage.topic, "*");
        ConcurrentLinkedQueue<MessageExt> received = new ConcurrentLinkedQueue<>();
        consumer.registerMessageListener(Pushes.into(received));
        stage.start(consumer);
        long begin = System.currentTimeMillis() - 60_000;
        List<SendResult> sent = new ArrayList<>();
        for (int i = 0; i < COUNT; i++) {
            sent.add(producer.send(new Message(stage.topic, "TagT", "trace-key-" + i, ("m" + i).getBytes(StandardCharsets.UTF_8))));
        }
        Check.await(COUNT + " messages", () -> received.size() >= COUNT, received::size);
        Map<String, String> lacking = new ConcurrentHashMap<>();
        for (int i = 0; i < COUNT; i++) {
            SendResult result = sent.get(i);
            String key = "trace-key-" + i;
            Check.await("the whole trace of message " + i, () -> isWhole(stage, tool, result, key, begin, lacking), () -> lacking);
        }
        return COUNT + " messages: sent, before and after consumption, each found by id and by key";
    }

    /** The three records of a message, found by its id as QueryMsgTraceByIdSubCommand does; by its key as well. */
    private static boolean isWhole(Stage stage, DefaultMQProducer tool, SendResult sent, String key, long begin, Map<String, String> lacking) {
        List<TraceContext> found = contexts(tool, sent.getMsgId(), sent.getMsgId(), begin);
        if (find(found, TraceType.Pub) == null || find(found, TraceType.SubBefore) == null || find(found, TraceType.SubAfter) == null) {
            lacking.put(key, found.size() + " of 3");
            return false;
        }
        TraceContext pub = find(found, TraceType.Pub);
        TraceBean bean = pub.getTraceBeans().get(0);
        Check.equal(stage.topic + " TagT " + key + " " + sent.getOffsetMsgId(), bean.getTopic() + " " + bean.getTags() + " " + bean.getKeys() + " " + bean.getOffsetMsgId(), "what was sent");
        Check.equal(stage.group + "_P DefaultRegion true", pub.getGroupName() + " " + pub.getRegionId() + " " + pub.isSuccess(), "who sent");
        TraceContext before = find(found, TraceType.SubBefore);
        Check.equal(stage.group + " DefaultRegion", before.getGroupName() + " " + before.getRegionId(), "who consumes");
        TraceContext after = find(found, TraceType.SubAfter);
        Check.equal(before.getRequestId() + " true", after.getRequestId() + " " + after.isSuccess(), "who has consumed");
        return contexts(tool, key, sent.getMsgId(), begin).size() >= 3;
    }

    private static TraceContext find(List<TraceContext> contexts, TraceType type) {
        return contexts.stream().filter(context -> context.getTraceType() == type).findFirst().orElse(null);
    }

    private static List<TraceContext> contexts(DefaultMQProducer tool, String key, String id, long begin) {
        List<TraceContext> found = new ArrayList<>();
        try {
            for (MessageExt record : tool.queryMessage(TOPIC, key, 64, begin, System.currentTimeMillis() + 60_000).getMessageList()) {
                for (TraceContext context : TraceDataEncoder.decoderFromTraceDataString(new String(record.getBody(), StandardCharsets.UTF_8))) {
                    if (context.getTraceBeans().get(0).getMsgId().equals(id)) {
                        found.add(context);
                    }
                }
            }
        } catch (MQClientException none) { // what this client throws when there is none yet
            return found;
        } catch (InterruptedException reason) {
            throw new IllegalStateException(reason);
        }
        return found;
    }
}
