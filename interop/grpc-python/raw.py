"""Bytes and calls that no official client sends: hostile or unusual frames, requests that operators make of clients, and the end of the server.
Arguments: see scenarios.main; $VOSTOK_BROKER is the broker, $VOSTOK_PROXY the remoting port of a proxy before it."""
import json
import os
import socket
import struct
import threading
import time

import grpc
import imitations
import scenarios
from imitations import Connection
from rocketmq.grpc_protocol import definition_pb2, service_pb2, service_pb2_grpc
from scenarios import check, equal

from bench.http2 import CONTINUATION, GOAWAY, HEADERS, RST, SERVICE, field
from tests.kit import topics
from tests.kit.waiting import PATIENCE_SECONDS, eventually

BROKER, PROXY, IDLE_S = os.environ["VOSTOK_BROKER"], os.environ["VOSTOK_PROXY"], int(os.environ["VOSTOK_IDLE_MS"]) / 1000


def headers(method):
    fields = {":method": "POST", ":scheme": "http", ":path": SERVICE + method, ":authority": "raw", "content-type": "application/grpc",
              "te": "trailers", "x-mq-client-id": "raw"}
    return b"".join(field(name, value) for name, value in fields.items())


def channel(endpoint):
    return grpc.insecure_channel(endpoint, options=[("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)])


def metadata(client_id):
    return [("x-mq-client-id", client_id), ("x-mq-language", "CPP"), ("x-mq-client-version", "5.0.4")]


RAW = metadata("raw")


def stub(stage):
    return service_pb2_grpc.MessagingServiceStub(channel(stage.endpoint))


def is_serving(stage):
    request = service_pb2.QueryRouteRequest()
    request.topic.name = stage.topic
    equal(20000, stub(stage).QueryRoute(request, timeout=PATIENCE_SECONDS, metadata=RAW).status.code, "a route for another connection")


def pings(stage):
    """Pings without a call, closer together than any client sends them."""
    connection = Connection(stage.endpoint)
    for index in range(20):
        connection.ping(struct.pack(">Q", index))


def idle(stage):
    """A connection without calls ends, though it pings; a connection with an open stream stays."""
    begin, connection, busy = time.monotonic(), Connection(stage.endpoint), Connection(stage.endpoint)
    busy.send(HEADERS, 4, 1, headers("Telemetry"))
    connection.ping()
    connection.frame(GOAWAY)
    took = time.monotonic() - begin
    check(IDLE_S - 1 < took, f"the connection ended after {took:.1f} s")
    busy.ping()


def flood(stage, frames):
    """Sends frames until the server ends the connection, which it must."""
    connection = Connection(stage.endpoint)
    try:
        for frame in frames:
            connection.send(*frame)
        connection.frame(GOAWAY)
    except ConnectionError:
        pass
    is_serving(stage)


def reset_flood(stage):
    flood(stage, (frame for stream in range(1, 40_000, 2)
                  for frame in ((HEADERS, 4, stream, headers("QueryRoute")), (RST, 0, stream, struct.pack(">I", 8)))))


def continuation_flood(stage):
    """160 MB of headers."""
    flood(stage, ((CONTINUATION, 0, 1, field(f"x-{index}", "v" * 16_000)) if index else (HEADERS, 0, 1, headers("QueryRoute"))
                  for index in range(10_000)))


def long_headers(stage):
    connection = Connection(stage.endpoint)
    connection.send(HEADERS, 0, 1, headers("QueryRoute"))
    for index in range(3):
        connection.send(CONTINUATION, 4 if index == 2 else 0, 1, field(f"x-{index}", "v" * 10_000))
    try:
        kind, _, _, payload = connection.frame(HEADERS, RST, GOAWAY)
        # 0x88 is status 200.
        check(kind != HEADERS or payload[0] != 0x88, f"headers of 30 KB were served: {payload}")
    except ConnectionError:
        pass
    is_serving(stage)


def failing(call, code, what):
    try:
        call()
    except grpc.RpcError as error:
        equal(code, error.code(), what)
        return error.details()
    raise AssertionError(f"{what} was served")


def malformed(stage):
    connection = channel(stage.endpoint)

    def call(method, body, **options):
        return connection.unary_unary(SERVICE + method, **options)(body, timeout=PATIENCE_SECONDS, metadata=RAW)
    check(failing(lambda: call("SendMessage", b"\xff\xff\xff"), grpc.StatusCode.INTERNAL, "no protobuf"), "the refusal has no text")
    failing(lambda: call("Missing", b""), grpc.StatusCode.UNIMPLEMENTED, "a missing method")
    answer = call("SyncLiteSubscription", b"", response_deserializer=service_pb2.SyncLiteSubscriptionResponse.FromString)
    equal(40002, answer.status.code, "a subscription of lite topics that names no topic")


def large_requests(stage):
    """G05: 100 MiB pass the transport; a request over its limit is refused, and the connection stays."""
    calls = stub(stage)

    def send(size):
        request = service_pb2.SendMessageRequest()
        one = request.messages.add(body=b"b" * size)
        one.topic.name, one.system_properties.message_id = stage.topic, "id"
        return calls.SendMessage(request, timeout=PATIENCE_SECONDS, metadata=RAW)
    equal(41301, send(100 << 20).status.code, "100 MiB")
    failing(lambda: send(131 << 20), grpc.StatusCode.RESOURCE_EXHAUSTED, "131 MiB")
    equal(20000, send(10).status.code, "the next message")


def reflection(stage):
    ask = channel(stage.endpoint).stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
    [answer] = list(ask(iter([b"\x3a\x00"]), timeout=PATIENCE_SECONDS))
    check(b"apache.rocketmq.v2.MessagingService" in answer, f"{answer}")


class Consumer:
    """A push consumer as the server sees it: a Telemetry stream and calls."""

    def __init__(self, stage, client_id=None, expression="*"):
        self.client_id, self.stage, self.calls = client_id or f"raw-{stage.group}", stage, stub(stage)
        self.metadata = metadata(self.client_id)
        self.commands, self.wake, self.bodies = [], threading.Condition(), []
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
                self.bodies.append(command.verify_message_command.message.body)
            else:
                continue
            self.say(answer)

    def send(self, *bodies, **system):
        """The status of one request that sends a message for each body."""
        request = service_pb2.SendMessageRequest()
        for body in bodies:
            one = request.messages.add(body=body)
            one.topic.name, one.system_properties.message_id = self.stage.topic, f"{self.stage.group}{body.decode()}"
            one.system_properties.MergeFrom(definition_pb2.SystemProperties(**system))
        return self.calls.SendMessage(request, timeout=PATIENCE_SECONDS, metadata=self.metadata).status.code

    def request(self, seconds=5, **fields):
        request = service_pb2.ReceiveMessageRequest(**{"batch_size": 32, **fields})
        request.group.name, request.message_queue.topic.name = self.stage.group, self.stage.topic
        request.invisible_duration.seconds, request.long_polling_timeout.seconds = 300, seconds
        return self.calls.ReceiveMessage(request, timeout=PATIENCE_SECONDS, metadata=self.metadata)

    def receive(self, **fields):
        """The status of a receive and the messages; the time of the delivery ends it."""
        answers = list(self.request(**fields))
        equal("delivery_timestamp", answers[-1].WhichOneof("content"), "the end of a receive")
        return answers[0].status.code, [answer.message for answer in answers if answer.HasField("message")]

    def take(self, **fields):
        """The messages of the first receive that has any."""
        return eventually(lambda: self.receive(**fields)[1])


def operators(stage):
    """G97, and consumerConnection (203), producerConnection (204), consumerProgress (208), consumerStatus -s (307), direct consumption (309)."""
    consumer = Consumer(stage, expression="A")

    def ask(code, **fields):
        """The body of an answer. The broker asks the client before some answers and gives up by itself."""
        return eventually(lambda: topics.ask(BROKER, code, fields)[1], refused=topics.Refused)
    found = json.loads(ask(203, consumerGroup=stage.group))
    [connection] = found["connectionSet"]
    equal((consumer.client_id, "CPP"), (connection["clientId"], connection["language"]), "consumerConnection")
    check(connection["clientAddr"].startswith("127.0.0.1:"), f"{connection}")
    equal(("A", "CONSUME_PASSIVELY"), (found["subscriptionTable"][stage.topic]["subString"], found["consumeType"]), "subscription")
    equal(20000, consumer.send(b"direct", tag="A"), "send")
    producer, end = service_pb2.TelemetryCommand(), threading.Event()
    producer.settings.client_type = definition_pb2.PRODUCER
    producer.settings.publishing.topics.add().name = stage.topic
    stream = consumer.calls.Telemetry((item for item in [producer, end] if item is producer or end.wait()), metadata=metadata("producer"))
    equal(20000, next(stream).status.code, "settings of the producer")
    found = json.loads(ask(204, producerGroup=stage.topic, topic=stage.topic))
    equal(["producer"], [one["clientId"] for one in found["connectionSet"]], "producerConnection")
    [message] = consumer.take()
    acknowledge = service_pb2.AckMessageRequest()
    acknowledge.group.name, acknowledge.topic.name = stage.group, stage.topic
    acknowledge.entries.add().receipt_handle = message.system_properties.receipt_handle
    equal(20000, consumer.calls.AckMessage(acknowledge, metadata=consumer.metadata).status.code, "ack")
    # The keys of the table are objects, which is no JSON: the text is looked at.
    body = ask(208, consumerGroup=stage.group, topic=stage.topic)
    check(stage.topic.encode() in body and b"brokerOffset" in body, f"consumerProgress: {body}")
    found = json.loads(ask(307, consumerGroup=stage.group, clientId=consumer.client_id, jstackEnable="true"))
    equal("the stacks", found["jstack"], "consumerStatus -s")
    host, port = message.system_properties.store_host.split(":")
    handle = message.system_properties.receipt_handle.split(" ")
    message_id = (socket.inet_aton(host) + struct.pack(">iq", int(port), int(handle[8]))).hex().upper()
    found = json.loads(ask(309, consumerGroup=stage.group, clientId=consumer.client_id, msgId=message_id, brokerName=handle[5]))
    equal(("CR_SUCCESS", "from gRPC client", {b"direct"}), (found["consumeResult"], found["remark"], set(consumer.bodies)), "direct consumption")
    end.set()


def proxies(stage):
    """Consumers at a proxy without a broker: operators see its own and the consumers of another proxy, and brokers know none."""
    consumer, topic = Consumer(stage, expression="A"), "DefaultHeartBeatSyncerTopic"

    def asked(address, code, fields, body=b""):
        """The fields and the body of an answer; both empty if the request is refused."""
        try:
            return topics.ask(address, code, fields, body)
        except topics.Refused:
            return {}, b""

    def members():
        return json.loads(asked(PROXY, 203, {"consumerGroup": stage.group})[1] or b'{"connectionSet":[]}')["connectionSet"]
    [own] = members()
    equal((consumer.client_id, "CPP"), (own["clientId"], own["language"]), "its own consumer")
    equal(b"", asked(BROKER, 203, {"consumerGroup": stage.group})[1], "consumers that the broker knows")
    elsewhere = {"remoteProxyIp": "10.0.0.2", "remoteAddress": "10.0.0.9:41234", "localAddress": "10.0.0.2:8081", "type": "GRPC_V2", "extendAttribute": "{}"}
    heartbeat = {"heartbeatType": "REGISTER", "clientId": "elsewhere", "language": "GO", "version": 493, "lastUpdateTimestamp": 1, "group": stage.group,
                 "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING", "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
                 "localProxyId": "10.0.0.2%8080%8081", "channelData": json.dumps(elsewhere), "subscriptionDataSet": []}
    send = {"producerGroup": "PID", "topic": topic, "defaultTopic": "TBW102", "defaultTopicQueueNums": "1", "queueId": "0", "sysFlag": "0",
            "bornTimestamp": "1", "flag": "0", "properties": "", "reconsumeTimes": "0"}
    pull = {"consumerGroup": stage.group, "topic": topic, "queueId": "0", "queueOffset": "0", "maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0",
            "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0", "expressionType": "TAG"}
    read = []

    def is_complete():
        """Whether both consumers are known and the topic names the own consumer.

        A proxy reads the topic from its end at that time on, so heartbeats are repeated. Proxies of all clients write there.
        """
        fields, body = asked(BROKER, 11, pull)
        pull["queueOffset"] = fields.get("nextBeginOffset", pull["queueOffset"])
        read.append(consumer.client_id.encode() in body)
        asked(BROKER, 10, send, json.dumps(heartbeat).encode())
        request = service_pb2.HeartbeatRequest(group=definition_pb2.Resource(name=stage.group))
        equal(20000, consumer.calls.Heartbeat(request, metadata=consumer.metadata).status.code, "heartbeat")
        return any(read) and len(members()) == 2
    eventually(is_complete)
    equal((True, {consumer.client_id, "elsewhere"}), (any(read), {one["clientId"] for one in members()}), "consumers of both")


def settings(stage):
    """G24, G26: settings of a group with an illegal name, and of a producer without topics."""
    calls, illegal, empty = stub(stage), service_pb2.TelemetryCommand(), service_pb2.TelemetryCommand()
    illegal.settings.client_type, illegal.settings.subscription.group.name = definition_pb2.SIMPLE_CONSUMER, "a b"
    empty.settings.client_type = definition_pb2.PRODUCER
    empty.settings.publishing.SetInParent()
    text = failing(lambda: list(calls.Telemetry(iter([illegal]), metadata=metadata("illegal"))), grpc.StatusCode.INVALID_ARGUMENT, "G24")
    check(text.startswith("process client telemetryCommand failed. the specified group[a b]"), text)
    equal(20000, next(calls.Telemetry(iter([empty]), metadata=metadata("empty"))).status.code, "G26")


def receives(stage):
    """G71, G74, G75: an empty topic, batches of 100, a filter that cannot be read."""
    consumer, begin = Consumer(stage), time.monotonic()
    equal((40401, []), consumer.receive(), "of an empty topic")
    took = time.monotonic() - begin
    check(4 <= took, f"the empty answer took {took:.1f} s")
    sent = [str(index).encode() for index in range(100)]
    equal(20000, consumer.send(*sent), "a send of several messages")
    counts, found = [], []
    while len(found) < 100 and time.monotonic() < begin + PATIENCE_SECONDS:
        messages = consumer.receive(batch_size=100)[1]
        counts.append(len(messages))
        found += (message.body for message in messages)
    equal((sorted(sent), True), (sorted(found), max(counts) <= 32), f"G74: receives of {counts}")
    broken = definition_pb2.FilterExpression(type=definition_pb2.SQL, expression="a >")
    equal((50001, []), consumer.receive(filter_expression=broken), "G75")
    return f"(empty after {took:.1f} s)"


def times(stage):
    """G57: a time in the past, and a time that is too far away."""
    consumer, now = Consumer(stage), int(time.time())

    def send(at):
        return consumer.send(b"body", message_type=definition_pb2.DELAY, delivery_timestamp={"seconds": at})
    equal(20000, send(now - 100), "a time in the past")
    check(consumer.take(), "the message of a time in the past did not come")
    check(send(now + 25 * 3600) != 20000, "a delay of more than a day was accepted")


def blocked(stage):
    """G81: a queue in order with messages under way gives none, unless the same attempt asks again."""
    consumer, sent = Consumer(stage), [b"0", b"1", b"2"]
    for body in sent:
        equal(20000, consumer.send(body, message_group="one", message_type=definition_pb2.FIFO), "send")
    first = [one.body for one in consumer.take(attempt_id="first")]
    equal(sent[:len(first)], first, "the first receive")
    equal((40401, []), consumer.receive(attempt_id="second"), "another attempt")
    again = [one.body for one in consumer.take(attempt_id="first")]
    equal(sent[:max(len(first), len(again))], again, "the same attempt")


def stop(stage):
    """A receive that waits and a connection without calls, when the server stops: an answer and GOAWAY."""
    consumer, connection = Consumer(stage, "stopped"), Connection(stage.endpoint)
    connection.ping()
    waiting = consumer.request(seconds=20)
    # Calls of one connection reach the server in their order.
    route = service_pb2.QueryRouteRequest()
    route.topic.name = stage.topic
    consumer.calls.QueryRoute(route, timeout=PATIENCE_SECONDS, metadata=consumer.metadata)
    print("ready\n", end="", flush=True)
    equal(["status", "delivery_timestamp"], [one.WhichOneof("content") for one in waiting], "the receive that waited")
    connection.frame(GOAWAY)


CASES = {"pings": pings, "idle": idle, "reset-flood": reset_flood, "continuation-flood": continuation_flood, "long-headers": long_headers,
         "malformed": malformed, "large-requests": large_requests, "reflection": reflection, "operators": operators, "proxies": proxies,
         "settings": settings, "receives": receives, "times": times, "blocked": blocked, **imitations.CASES}

if __name__ == "__main__":
    scenarios.main("raw", scenarios.Stage, {**CASES, "stop": stop}, CASES)
