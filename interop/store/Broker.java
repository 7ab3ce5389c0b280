package storeways;

import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.remoting.exception.RemotingConnectException;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyRemotingClient;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RequestCode;

/** Requests to one broker as they go over the wire, so that answers are compared as they come. */
final class Broker implements AutoCloseable {
    /** Long enough for a machine whose processors are all busy. */
    static final int TIMEOUT_MS = 240_000;

    private final NettyRemotingClient client;
    private final String address;

    Broker(String address) {
        this.address = address;
        NettyClientConfig config = new NettyClientConfig();
        config.setConnectTimeoutMillis(TIMEOUT_MS);
        client = new NettyRemotingClient(config);
        client.start();
    }

    /** Field names and values in turn. */
    RemotingCommand ask(int code, Object... fields) throws Exception {
        return ask(null, code, fields);
    }

    RemotingCommand ask(byte[] body, int code, Object... fields) throws Exception {
        Map<String, String> map = new HashMap<>();
        for (int i = 0; i < fields.length; i += 2) {
            map.put((String) fields[i], String.valueOf(fields[i + 1]));
        }
        RemotingCommand request = RemotingCommand.createRequestCommand(code, null);
        request.setExtFields((HashMap<String, String>) map);
        request.setBody(body);
        for (long end = System.currentTimeMillis() + TIMEOUT_MS; ; Thread.sleep(200)) {
            try {
                return client.invokeSync(address, request, TIMEOUT_MS);
            } catch (RemotingConnectException nothingSent) {
                if (System.currentTimeMillis() > end) {
                    throw nothingSent;
                }
            }
        }
    }

    /** Pulls up to 32 messages. */
    RemotingCommand pull(String topic, int queue, long offset) throws Exception {
        return ask(RequestCode.PULL_MESSAGE, "consumerGroup", "G_inventory", "topic", topic, "queueId", queue, "queueOffset", offset,
            "maxMsgNums", 32, "sysFlag", 4, "commitOffset", 0, "suspendTimeoutMillis", 0, "subscription", "*", "subVersion", 0, "expressionType", "TAG");
    }

    interface Condition {
        boolean holds() throws Exception;
    }

    /** Waits until a condition holds, or until a time that no machine needs has passed. */
    static void await(Condition condition) throws Exception {
        for (long end = System.currentTimeMillis() + TIMEOUT_MS; !condition.holds() && System.currentTimeMillis() < end; ) {
            Thread.sleep(50);
        }
    }

    /** One field of the answer, or what the broker said instead. */
    String field(String name, int code, Object... fields) throws Exception {
        RemotingCommand answer = ask(code, fields);
        return answer.getCode() == 0 ? answer.getExtFields().get(name) : refusal(answer);
    }

    static String refusal(RemotingCommand answer) {
        return "code " + answer.getCode();
    }

    @Override
    public void close() {
        client.shutdown();
    }
}
