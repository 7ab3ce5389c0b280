import java.util.Arrays;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.impl.MQClientAPIImpl;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.PlainAccessConfig;

/**
 * The calls of mqadmin 4.9.8 that change ACL 1.0 (requests 50 to 53), which later clients no longer have:
 * {@code Rules NAMESRV BROKER ACCESSKEY SECRET}. Prints one line for each call: its name and {@code ok}, or code and text.
 */
public class Rules {
    private static final long TIMEOUT = 120_000;

    interface Call {
        Object run() throws Exception;
    }

    public static void main(String[] args) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("rules", new AclClientRPCHook(new SessionCredentials(args[2], args[3])));
        producer.setNamesrvAddr(args[0]);
        producer.setVipChannelEnabled(false);
        producer.start();
        MQClientAPIImpl api = producer.getDefaultMQProducerImpl().getmQClientFactory().getMQClientAPIImpl();
        String broker = args[1];
        PlainAccessConfig account = new PlainAccessConfig();
        account.setAccessKey("bob-the-second");
        account.setSecretKey("bob-secret");
        account.setDefaultGroupPerm("SUB");
        account.setTopicPerms(Arrays.asList("orders=PUB", "old=DENY"));
        say("updateAclConfig", () -> {
            api.createPlainAccessConfig(broker, account, TIMEOUT);
            return "";
        });
        account.setSecretKey("short");
        say("updateAclConfig short", () -> {
            api.createPlainAccessConfig(broker, account, TIMEOUT);
            return "";
        });
        say("updateGlobalWhiteAddr", () -> {
            api.updateGlobalWhiteAddrsConfig(broker, "10.9.9.9,10.8.8.*", null, TIMEOUT);
            return "";
        });
        say("clusterAclConfigVersion", () -> api.getBrokerClusterAclInfo(broker, TIMEOUT).getAllAclConfigDataVersion());
        say("deleteAclConfig", () -> {
            api.deleteAccessConfig(broker, "bob-the-second", TIMEOUT);
            return "";
        });
        say("deleteAclConfig again", () -> {
            api.deleteAccessConfig(broker, "bob-the-second", TIMEOUT);
            return "";
        });
        producer.shutdown();
    }

    private static void say(String name, Call call) {
        String said;
        try {
            said = "ok " + call.run();
        } catch (MQClientException refused) {
            said = refused.getResponseCode() + " " + refused.getErrorMessage();
        } catch (MQBrokerException refused) {
            said = refused.getResponseCode() + " " + refused.getErrorMessage();
        } catch (Exception error) {
            said = error.toString();
        }
        System.out.println(name + ": " + said.replace('\n', ' '));
    }
}
