import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * Sends and pulls with the credentials that a line on standard input names: {@code send|pull ACCESSKEY SECRET TOPIC GROUP},
 * where "-" as access key means no credentials. Answers each line with {@code ok}, or with the broker's code and text.
 */
public class Signed {
    private static final int PATIENCE_MS = 120_000;
    private static int count;

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            RPCHook hook = words[1].equals("-") ? null : new AclClientRPCHook(new SessionCredentials(words[1], words[2]));
            String said;
            try {
                said = words[0].equals("send") ? send(args[0], hook, words[3], words[4]) : pull(args, hook, words[3], words[4]);
            } catch (Exception error) {
                said = refusal(error);
            }
            System.out.println("@@" + said.replace('\n', ' '));
        }
    }

    /** Code and text of the broker's refusal, which a producer wraps. */
    private static String refusal(Exception error) {
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            if (cause instanceof MQBrokerException) {
                MQBrokerException refused = (MQBrokerException) cause;
                return refused.getResponseCode() + " " + refused.getErrorMessage();
            }
        }
        return error.toString();
    }

    private static String send(String namesrv, RPCHook hook, String topic, String group) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(group, hook);
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName("signed-" + count++);
        producer.setVipChannelEnabled(false);
        producer.setRetryTimesWhenSendFailed(0);
        producer.setSendMsgTimeout(PATIENCE_MS);
        producer.setMqClientApiTimeout(PATIENCE_MS);
        producer.start();
        try {
            producer.send(new Message(topic, "tag", "key", "signed".getBytes(StandardCharsets.UTF_8)));
            return "ok";
        } finally {
            producer.shutdown();
        }
    }

    private static String pull(String[] args, RPCHook hook, String topic, String group) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(group, hook);
        consumer.setNamesrvAddr(args[0]);
        consumer.setInstanceName("signed-" + count++);
        consumer.setVipChannelEnabled(false);
        consumer.setConsumerPullTimeoutMillis(PATIENCE_MS);
        consumer.setMqClientApiTimeout(PATIENCE_MS);
        consumer.start();
        try {
            for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(topic)) {
                PullResult found = consumer.pull(queue, "*", 0, 32);
                if (found.getMsgFoundList() != null && !found.getMsgFoundList().isEmpty()) {
                    return "ok";
                }
            }
            return "nothing found";
        } finally {
            consumer.shutdown();
        }
    }
}
