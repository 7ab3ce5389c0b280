"""Topics and consumer groups, made over the remoting protocol as mqadmin makes them."""
import json

from tests.kit.remoting import Client
from tests.kit.waiting import eventually


class Refused(Exception):
    """An answer with another code than 0; the text is the answer."""


def ask(address, code, fields, body=b""):
    """Sends one request to `host:port` and returns the fields and the body of the answer."""
    client = Client(address)
    answer, body = client.call(code, fields, body)
    client.socket.close()
    if answer["code"] != 0:
        raise Refused(f"request {code}: {answer}")
    return answer.get("extFields", {}), body


def topic(broker, name, kind="NORMAL"):
    """Creates a topic with four queues (17 UPDATE_AND_CREATE_TOPIC)."""
    ask(broker, 17, {"topic": name, "defaultTopic": "TBW102", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "topicFilterType": "SINGLE_TAG",
                     "topicSysFlag": 0, "order": "false", "attributes": f"+message.type={kind}"})


def group(broker, name, **settings):
    """Creates a consumer group (200 UPDATE_AND_CREATE_SUBSCRIPTIONGROUP)."""
    ask(broker, 200, {}, json.dumps({"groupName": name, "consumeEnable": True, "consumeFromMinEnable": True, "retryQueueNums": 1,
                                     "retryMaxTimes": 16, "brokerId": 0, "whichBrokerWhenConsumeSlowly": 1,
                                     "notifyConsumerIdsChangedEnable": True, **settings}).encode())


def pop_mode(broker, topic_name, group_name):
    """Lets consumers of the remoting protocol pop (401 SET_MESSAGE_REQUEST_MODE)."""
    ask(broker, 401, {}, json.dumps({"topic": topic_name, "consumerGroup": group_name, "mode": "POP", "popShareQueueNum": 0}).encode())


def end(broker, topic_name, queue):
    """Returns the offset behind the last message of a queue (30 GET_MAX_OFFSET)."""
    fields, _ = ask(broker, 30, {"topic": topic_name, "queueId": queue})
    return int(fields["offset"])


def await_brokers(namesrv, topic_name, count):
    """Waits until the route of a topic has `count` brokers (105 GET_ROUTEINFO_BY_TOPIC)."""
    def is_routed():
        _, body = ask(namesrv, 105, {"topic": topic_name, "acceptStandardJsonOnly": "true"})
        return len(json.loads(body)["queueDatas"]) >= count
    if not eventually(is_routed, refused=Refused):
        raise RuntimeError(f"{topic_name} has no route with {count} brokers")
