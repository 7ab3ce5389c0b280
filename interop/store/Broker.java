package storeways;

import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.remoting.exception.RemotingConnectException;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyRemotingClient;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/** Requests to one broker as they go over the wire, so that answers are compared as they come. */
final class Broker implements AutoCloseable {
    static final int TIMEOUT_MS = 30_000;

    private final NettyRemotingClient client;
    private final String address;

    Broker(String address) {
        this.address = address;
        NettyClientConfig config = new NettyClientConfig();
        config.setConnectTimeoutMillis(TIMEOUT_MS); // machines that build something else meanwhile are slow
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
        for (int tries = 1; ; tries++) {
            try {
                return client.invokeSync(address, request, TIMEOUT_MS);
            } catch (RemotingConnectException nothingSent) {
                if (tries == 20) {
                    throw nothingSent;
                }
                Thread.sleep(200);
            }
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
