"""Topics and groups for scenarios, made over the remoting protocol as mqadmin does."""
import json
import socket
import struct
import time


def ask(broker, code, fields, body=b""):
    """Sends one request to `host:port` and returns the answer's fields and body."""
    header = json.dumps({"code": code, "language": "OTHER", "version": 0, "opaque": 1, "flag": 0, "extFields": fields}).encode()
    host, port = broker.split(":")
    with socket.create_connection((host, int(port)), 30) as connection:
        connection.sendall(struct.pack(">ii", 4 + len(header) + len(body), len(header)) + header + body)
        stream = connection.makefile("rb")
        total, length = struct.unpack(">ii", stream.read(8))
        answer, body = json.loads(stream.read(length)), stream.read(total - 4 - length)
    if answer["code"] != 0:
        raise AssertionError(f"request {code}: {answer}")
    return answer.get("extFields", {}), body


def topic(broker, name, kind="NORMAL"):
    """Creates a topic (17 UPDATE_AND_CREATE_TOPIC)."""
    ask(broker, 17, {"topic": name, "defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "4", "perm": "6",
                     "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false", "attributes": f"+message.type={kind}"})
    return name


def group(broker, name, **settings):
    """Creates a consumer group (200 UPDATE_AND_CREATE_SUBSCRIPTIONGROUP)."""
    ask(broker, 200, {}, json.dumps({"groupName": name, "consumeEnable": True, "consumeFromMinEnable": True, "retryQueueNums": 1,
                                     "retryMaxTimes": 16, "brokerId": 0, "whichBrokerWhenConsumeSlowly": 1,
                                     "notifyConsumerIdsChangedEnable": True, **settings}).encode())
    return name


def pop_mode(broker, topic_name, group_name):
    """Lets clients of remoting pop (401 SET_MESSAGE_REQUEST_MODE)."""
    body = {"topic": topic_name, "consumerGroup": group_name, "mode": "POP", "popShareQueueNum": 0}
    ask(broker, 401, {}, json.dumps(body).encode())


def await_brokers(namesrv, topic_name, count):
    """Waits until a topic has a route with so many brokers (105 GET_ROUTEINFO_BY_TOPIC)."""
    end = time.monotonic() + 60
    while True:
        try:
            _, body = ask(namesrv, 105, {"topic": topic_name, "acceptStandardJsonOnly": "true"})
            if len(json.loads(body)["queueDatas"]) >= count:
                return
        except AssertionError:
            pass
        if time.monotonic() > end:
            raise AssertionError(f"{topic_name} has no route with {count} brokers after a minute")
        time.sleep(0.1)
