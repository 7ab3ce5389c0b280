"""What no official client does: hostile or unusual bytes on the gRPC port, what operators see of clients of gRPC, and imitations of clients that
cannot be run here. Run by interop/grpc with the Python of the Python client. Arguments: gRPC endpoint, broker address, run id, scenario names;
or `list`; or `stop`. `--ping 60 --reopen 3600` before them gives the imitations the times of the real clients."""
import json
import os
import socket
import struct
import sys
import threading
import time
import traceback
from pathlib import Path

import grpc
import grpc_imitations
import grpc_topics
from rocketmq.grpc_protocol import definition_pb2, service_pb2, service_pb2_grpc

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "bench"))
from http2 import CONTINUATION, GOAWAY, HEADERS, PING, RST, SERVICE, Connection as Raw, field  # noqa: E402 (beside bench/run)

# As interop/grpc sets it.
IDLE_S = 10


def check(holds, text):
    if not holds:
        raise AssertionError(text)


def equal(expected, found, what):
    check(expected == found, f"{what}: expected {expected!r:.300}, found {found!r:.300}")


def headers(method, **more):
    fields = {":method": "POST", ":scheme": "http", ":path": SERVICE + method, ":authority": "raw", "content-type": "application/grpc",
              "te": "trailers", "x-mq-client-id": "raw", **more}
    return b"".join(field(name, value) for name, value in fields.items())


def channel(endpoint):
    return grpc.insecure_channel(endpoint, options=[("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)])


def metadata(client_id):
    return [("x-mq-client-id", client_id), ("x-mq-language", "CPP"), ("x-mq-client-version", "5.0.4")]


def is_serving(stage):
    request = service_pb2.QueryRouteRequest()
    request.topic.name = stage.topic
    answer = service_pb2_grpc.MessagingServiceStub(channel(stage.endpoint)).QueryRoute(request, timeout=10, metadata=metadata("raw"))
    equal(20000, answer.status.code, "a route for another connection")


def pings(stage):
    """Pings without a call, closer together than any client sends them."""
    raw = Raw(stage.endpoint)
    for index in range(20):
        raw.ping(struct.pack(">Q", index))


def idle(stage):
    """A connection without calls ends, though it pings; one with an open stream stays."""
    raw, begin = Raw(stage.endpoint), time.monotonic()
    busy = Raw(stage.endpoint)
    busy.send(HEADERS, 4, 1, headers("Telemetry"))
    raw.ping()
    raw.frame(GOAWAY, seconds=IDLE_S * 2)
    took = time.monotonic() - begin
    check(IDLE_S - 1 < took, f"the connection ended after {took:.1f} s")
    busy.ping()


def reset_flood(stage):
    raw, count = Raw(stage.endpoint), 20_000
    try:
        for index in range(count):
            raw.send(HEADERS, 4, index * 2 + 1, headers("QueryRoute"))
            raw.send(RST, 0, index * 2 + 1, struct.pack(">I", 8))
        raw.frame(GOAWAY)
    except OSError:
        pass  # closed while the flood went on
    is_serving(stage)


def continuation_flood(stage):
    raw = Raw(stage.endpoint)
    raw.send(HEADERS, 0, 1, headers("QueryRoute"))
    try:
        for index in range(10_000):
            raw.send(CONTINUATION, 0, 1, field(f"x-{index}", "v" * 16_000))
        raise AssertionError("160 MB of headers were read")
    except OSError:
        is_serving(stage)


def long_headers(stage):
    raw = Raw(stage.endpoint)
    raw.send(HEADERS, 0, 1, headers("QueryRoute"))
    for index in range(3):
        raw.send(CONTINUATION, 4 if index == 2 else 0, 1, field(f"x-{index}", "v" * 10_000))
    try:
        kind, _, _, payload = raw.frame(HEADERS, RST, GOAWAY)
        # 0x88 is status 200.
        check(kind != HEADERS or payload[0] != 0x88, f"headers of 30 KB were served: {payload}")
    except ConnectionError:
        pass
    is_serving(stage)


def failing(call, code, what):
    try:
        call()
        raise AssertionError(f"{what} was served")
    except grpc.RpcError as error:
        equal(code, error.code(), what)
        return error.details()


def malformed(stage):
    connection = channel(stage.endpoint)
    send = connection.unary_unary(SERVICE + "SendMessage")
    missing = connection.unary_unary(SERVICE + "Missing")
    check(failing(lambda: send(b"\xff\xff\xff", timeout=10, metadata=metadata("raw")), grpc.StatusCode.INTERNAL, "no protobuf"), "a text")
    failing(lambda: missing(b"", timeout=10, metadata=metadata("raw")), grpc.StatusCode.UNIMPLEMENTED, "a missing method")
    answer = connection.unary_unary(SERVICE + "SyncLiteSubscription", response_deserializer=service_pb2.SyncLiteSubscriptionResponse.FromString)
    # Only the brokers of a cluster may know lite topics, so there the request is read: it names no topic.
    expected = 40002 if os.environ["VOSTOK_BEFORE"] else 50500
    equal(expected, answer(b"", timeout=10, metadata=metadata("raw")).status.code, "lite topics")


def large_requests(stage):
    """G05: 100 MiB pass the transport; what is over its limit is refused, and the connection stays."""
    connection = channel(stage.endpoint)
    calls = service_pb2_grpc.MessagingServiceStub(connection)

    def request(size):
        made = service_pb2.SendMessageRequest()
        one = made.messages.add(body=b"b" * size)
        one.topic.name, one.system_properties.message_id = stage.topic, "id"
        return made

    def send(size):
        return calls.SendMessage(request(size), timeout=60, metadata=metadata("raw"))
    equal(41301, send(100 << 20).status.code, "100 MiB")
    failing(lambda: send(131 << 20), grpc.StatusCode.RESOURCE_EXHAUSTED, "131 MiB")
    equal(20000, send(10).status.code, "the next message")


def reflection(stage):
    ask = channel(stage.endpoint).stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
    [answer] = list(ask(iter([b"\x3a\x00"]), timeout=10))
    check(b"apache.rocketmq.v2.MessagingService" in answer, f"{answer}")


class Consumer:
    """A push consumer as the server sees it: a Telemetry stream and heartbeats."""

    def __init__(self, stage, client_id, expression="*"):
        self.calls, self.metadata = service_pb2_grpc.MessagingServiceStub(channel(stage.endpoint)), metadata(client_id)
        self.commands, self.wake, self.answers = [], threading.Condition(), {}
        settings = service_pb2.TelemetryCommand()
        settings.settings.client_type = definition_pb2.PUSH_CONSUMER
        settings.settings.subscription.group.name = stage.group
        entry = settings.settings.subscription.subscriptions.add()
        entry.topic.name, entry.expression.expression = stage.topic, expression
        self.say(settings)
        self.stream = self.calls.Telemetry(self.said(), metadata=self.metadata)
        equal(20000, next(self.stream).status.code, "settings")
        threading.Thread(target=self.obey, daemon=True).start()

    def say(self, command):
        with self.wake:
            self.commands.append(command)
            self.wake.notify()

    def said(self):
        while True:
            with self.wake:
                self.wake.wait_for(lambda: self.commands)
                command = self.commands.pop(0)
            yield command

    def obey(self):
        for command in self.stream:
            answer = service_pb2.TelemetryCommand()
            answer.status.code = 20000
            if command.HasField("print_thread_stack_trace_command"):
                answer.thread_stack_trace.nonce = command.print_thread_stack_trace_command.nonce
                answer.thread_stack_trace.thread_stack_trace = "the stacks"
            elif command.HasField("verify_message_command"):
                answer.verify_message_result.nonce = command.verify_message_command.nonce
                self.answers["body"] = command.verify_message_command.message.body
            else:
                continue
            self.say(answer)

    def send(self, stage, count):
        """Sends messages with the bodies "0", "1" and so on in one request."""
        request = service_pb2.SendMessageRequest()
        for index in range(count):
            one = request.messages.add(body=str(index).encode())
            one.topic.name, one.system_properties.message_id = stage.topic, f"{stage.group}{index}"
        answer = self.calls.SendMessage(request, timeout=20, metadata=self.metadata)
        equal((20000, count), (answer.status.code, len(answer.entries)), "a send of several messages")

    def receive(self, stage, seconds=5, **fields):
        """The status of a receive, the messages, and whether the time of the delivery ended it."""
        request = service_pb2.ReceiveMessageRequest(**{"batch_size": 32, **fields})
        request.group.name, request.message_queue.topic.name = stage.group, stage.topic
        request.invisible_duration.seconds, request.long_polling_timeout.seconds = 30, seconds
        answers = list(self.calls.ReceiveMessage(request, timeout=seconds + 30, metadata=self.metadata))
        equal("delivery_timestamp", answers[-1].WhichOneof("content"), "the end of a receive")
        return answers[0].status.code, [answer.message for answer in answers if answer.HasField("message")]


def operators(stage):
    """G97, and consumerConnection (203), producerConnection (204), consumerProgress (208), consumerStatus -s (307), direct consumption (309)."""
    client_id = f"raw-{stage.group}"
    consumer = Consumer(stage, client_id, "A")

    def ask(code, **fields):
        return json.loads(grpc_topics.ask(stage.broker, code, fields)[1])
    found = ask(203, consumerGroup=stage.group)
    [connection] = found["connectionSet"]
    equal((client_id, "CPP"), (connection["clientId"], connection["language"]), "consumerConnection")
    check(connection["clientAddr"].startswith("127.0.0.1:"), f"{connection}")
    equal(("A", "CONSUME_PASSIVELY"), (found["subscriptionTable"][stage.topic]["subString"], found["consumeType"]), "subscription")
    request = service_pb2.SendMessageRequest()
    one = request.messages.add(body=b"direct")
    one.topic.name, one.system_properties.message_id, one.system_properties.tag = stage.topic, f"ID{stage.group}", "A"
    sent = consumer.calls.SendMessage(request, metadata=consumer.metadata)
    equal(20000, sent.status.code, "send")
    producer = service_pb2.TelemetryCommand()
    producer.settings.client_type = definition_pb2.PRODUCER
    producer.settings.publishing.topics.add().name = stage.topic
    held = threading.Event()
    stream = consumer.calls.Telemetry((item for item in [producer, held] if item is producer or held.wait()), metadata=metadata("producer-" + client_id))
    equal(20000, next(stream).status.code, "settings of the producer")
    found = ask(204, producerGroup=stage.topic, topic=stage.topic)
    equal(["producer-" + client_id], [one["clientId"] for one in found["connectionSet"]], "producerConnection")
    receive = service_pb2.ReceiveMessageRequest(batch_size=32)
    receive.group.name, receive.message_queue.topic.name = stage.group, stage.topic
    receive.invisible_duration.seconds, receive.long_polling_timeout.seconds = 30, 5
    answers = list(consumer.calls.ReceiveMessage(receive, timeout=20, metadata=consumer.metadata))
    [message] = [answer.message for answer in answers if answer.HasField("message")]
    acknowledge = service_pb2.AckMessageRequest()
    acknowledge.group.name, acknowledge.topic.name = stage.group, stage.topic
    acknowledge.entries.add().receipt_handle = message.system_properties.receipt_handle
    equal(20000, consumer.calls.AckMessage(acknowledge, metadata=consumer.metadata).status.code, "ack")
    # The keys of the table are objects, which is no JSON: the text is looked at.
    _, body = grpc_topics.ask(stage.broker, 208, {"consumerGroup": stage.group, "topic": stage.topic})
    check(stage.topic.encode() in body and b"brokerOffset" in body, f"consumerProgress: {body}")
    found = ask(307, consumerGroup=stage.group, clientId=client_id, jstackEnable="true")
    equal("the stacks", found["jstack"], "consumerStatus -s")
    host, port = message.system_properties.store_host.split(":")
    offset = int(message.system_properties.receipt_handle.split(" ")[8])
    message_id = (socket.inet_aton(host) + struct.pack(">iq", int(port), offset)).hex().upper()
    found = ask(309, consumerGroup=stage.group, clientId=client_id, msgId=message_id, brokerName=message.system_properties.receipt_handle.split(" ")[5])
    equal(("CR_SUCCESS", "from gRPC client", b"direct"), (found["consumeResult"], found["remark"], consumer.answers["body"]), "direct consumption")
    held.set()


def proxies(stage):
    """Consumers at a proxy without a broker: operators see its own and those that another proxy tells of, and brokers know none."""
    client_id, topic, end = f"raw-{stage.group}", "DefaultHeartBeatSyncerTopic", time.monotonic() + 60
    consumer = Consumer(stage, client_id, "A")

    def asked(address, code, fields, body=b""):
        """The body of an answer; nothing of one that is refused."""
        try:
            return grpc_topics.ask(address, code, fields, body)[1]
        except AssertionError:
            return b""

    def members():
        return json.loads(asked(os.environ["VOSTOK_PROXY"], 203, {"consumerGroup": stage.group}) or b'{"connectionSet":[]}')["connectionSet"]
    [own] = members()
    equal((client_id, "CPP"), (own["clientId"], own["language"]), "its own consumer")
    equal(b"", asked(stage.broker, 203, {"consumerGroup": stage.group}), "consumers that the broker knows")
    channel = {"remoteProxyIp": "10.0.0.2", "remoteAddress": "10.0.0.9:41234", "localAddress": "10.0.0.2:8081", "type": "GRPC_V2", "extendAttribute": "{}"}
    told = {"heartbeatType": "REGISTER", "clientId": "elsewhere", "language": "GO", "version": 493, "lastUpdateTimestamp": 1, "group": stage.group,
            "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING", "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
            "localProxyId": "10.0.0.2%8080%8081", "channelData": json.dumps(channel), "subscriptionDataSet": []}
    send = {"producerGroup": "PID", "topic": topic, "defaultTopic": "TBW102", "defaultTopicQueueNums": "1", "queueId": "0", "sysFlag": "0",
            "bornTimestamp": "1", "flag": "0", "properties": "", "reconsumeTimes": "0"}
    pull = {"consumerGroup": stage.group, "topic": topic, "queueId": "0", "queueOffset": "0", "maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0",
            "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0", "expressionType": "TAG"}

    def is_told():
        """Whether the topic names the consumer: the proxies of all clients write there, so it is read on from pull to pull."""
        try:
            fields, found = grpc_topics.ask(stage.broker, 11, pull)
        except AssertionError:
            return False
        pull["queueOffset"] = fields["nextBeginOffset"]
        return client_id.encode() in found

    # A proxy reads from the end that the topic has when it begins; heartbeats repeat what it misses.
    told_of_it = False
    while len(members()) < 2 or not told_of_it:
        check(time.monotonic() < end, f"within a minute: {members()}, told of it: {told_of_it}")
        told_of_it = told_of_it or is_told()
        asked(stage.broker, 10, send, json.dumps(told).encode())
        equal(20000, consumer.calls.Heartbeat(service_pb2.HeartbeatRequest(group=definition_pb2.Resource(name=stage.group)),
                                              metadata=consumer.metadata).status.code, "heartbeat")
        time.sleep(0.5)
    equal({client_id, "elsewhere"}, {one["clientId"] for one in members()}, "consumers of both")


def settings(stage):
    """G24, G26: settings of a group with an illegal name, and of a producer without topics."""
    calls = service_pb2_grpc.MessagingServiceStub(channel(stage.endpoint))
    illegal, empty = service_pb2.TelemetryCommand(), service_pb2.TelemetryCommand()
    illegal.settings.client_type, illegal.settings.subscription.group.name = definition_pb2.SIMPLE_CONSUMER, "a b"
    empty.settings.client_type = definition_pb2.PRODUCER
    empty.settings.publishing.SetInParent()
    text = failing(lambda: list(calls.Telemetry(iter([illegal]), metadata=metadata("illegal"))), grpc.StatusCode.INVALID_ARGUMENT, "G24")
    check(text.startswith("process client telemetryCommand failed. the specified group[a b]"), text)
    equal(20000, next(calls.Telemetry(iter([empty]), metadata=metadata("empty"))).status.code, "G26")


def receives(stage):
    """G71, G74, G75: an empty topic, a batch of 100, a filter that cannot be read."""
    consumer = Consumer(stage, f"raw-{stage.group}")
    begin = time.monotonic()
    equal((40401, []), consumer.receive(stage), "of an empty topic")
    took = time.monotonic() - begin
    check(4 <= took <= 16, f"the empty answer took {took:.1f} s")
    consumer.send(stage, 100)
    status, found = consumer.receive(stage, batch_size=100)
    equal((20000, 32), (status, len(found)), "G74")
    broken = definition_pb2.FilterExpression(type=definition_pb2.SQL, expression="a >")
    equal((50001, []), consumer.receive(stage, filter_expression=broken), "G75")


def times(stage):
    """G57: a time in the past, and one that is too far away."""
    consumer, now = Consumer(stage, f"raw-{stage.group}"), int(time.time())
    def send(at):
        system = definition_pb2.SystemProperties(message_id="id", message_type=definition_pb2.DELAY)
        system.delivery_timestamp.seconds = at
        request = service_pb2.SendMessageRequest()
        one = request.messages.add(body=b"body", system_properties=system)
        one.topic.name = stage.topic
        return consumer.calls.SendMessage(request, metadata=consumer.metadata).status.code
    equal(20000, send(now - 100), "a time in the past")
    equal(20000, consumer.receive(stage)[0], "the message of a time in the past")
    check(send(now + 24 * 3600 + 60) != 20000, "a delay of more than a day was accepted")


def blocked(stage):
    """G81: a queue in order with messages under way gives none, unless the same attempt asks again."""
    consumer = Consumer(stage, f"raw-{stage.group}")
    for index in range(3):
        system = definition_pb2.SystemProperties(message_id=f"id{index}", message_group="one", message_type=definition_pb2.FIFO)
        request = service_pb2.SendMessageRequest()
        one = request.messages.add(body=str(index).encode(), system_properties=system)
        one.topic.name = stage.topic
        equal(20000, consumer.calls.SendMessage(request, metadata=consumer.metadata).status.code, "send")
    _, first = consumer.receive(stage, attempt_id="first")
    equal([b"0", b"1", b"2"], [one.body for one in first], "the first receive")
    equal((40401, []), consumer.receive(stage, attempt_id="second"), "another attempt")
    _, again = consumer.receive(stage, attempt_id="first")
    equal([b"0", b"1", b"2"], [one.body for one in again], "the same attempt")


class Stage:
    def __init__(self, endpoint, broker, run, scenario):
        name = f"raw_{scenario.replace('-', '_')}_{run}"
        self.endpoint, self.broker, self.topic, self.group = endpoint, broker, f"T_{name}", f"G_{name}"


CASES = {"pings": pings, "idle": idle, "reset-flood": reset_flood, "continuation-flood": continuation_flood, "long-headers": long_headers,
         "malformed": malformed, "large-requests": large_requests, "reflection": reflection, "operators": operators, "proxies": proxies, "settings": settings, "receives": receives, "times": times, "blocked": blocked, **grpc_imitations.CASES}


def stop(stage):
    """A receive that waits and a connection without calls, when the server stops: an answer and GOAWAY."""
    consumer, raw = Consumer(stage, "stopped"), Raw(stage.endpoint)
    raw.ping()
    receive = service_pb2.ReceiveMessageRequest(batch_size=32)
    receive.group.name, receive.message_queue.topic.name = stage.group, stage.topic
    receive.invisible_duration.seconds, receive.long_polling_timeout.seconds = 30, 20
    waiting = consumer.calls.ReceiveMessage(receive, timeout=60, metadata=consumer.metadata)
    time.sleep(4)
    print("ready", flush=True)
    begin = time.monotonic()
    equal(["status", "delivery_timestamp"], [one.WhichOneof("content") for one in waiting], "the receive that waited")
    raw.frame(GOAWAY)
    check(time.monotonic() - begin < 14, "the answer came late")


def perform(arguments, name, case):
    begin = time.monotonic()
    try:
        case(Stage(*arguments, name))
        # Cases run at the same time: a line and its end are written at once.
        print(f"@ok {name} {time.monotonic() - begin:.1f}\n", end="", flush=True)
    except Exception as error:
        traceback.print_exc()
        print(f"@fail {name} {time.monotonic() - begin:.1f} {str(error).splitlines()[0] if str(error) else type(error).__name__}\n", end="", flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["list"]:
        print("\n".join(CASES))
        sys.exit(0)
    while sys.argv[1].startswith("--"):
        setattr(grpc_imitations, {"--ping": "PING_S", "--reopen": "REOPEN_S"}[sys.argv[1]], float(sys.argv[2]))
        del sys.argv[1:3]
    named = {**CASES, "stop": stop}
    threads = [threading.Thread(target=perform, args=(sys.argv[1:4], name, named[name]), daemon=True) for name in sys.argv[4:]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(180 + 3 * grpc_imitations.REOPEN_S)
    sys.stdout.flush()
    os._exit(0)
