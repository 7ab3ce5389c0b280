"""Clients of RocketMQ 5.x that no machine of these tests can build, C++, C# and PHP, as a server sees them: headers and credentials, pings, and
how long streams of settings last. Written from the bytes that these clients send."""
import datetime
import hashlib
import hmac
import os
import time
import uuid

from scenarios import equal

from bench import grpc_requests, http2
from tests.kit.waiting import PATIENCE_SECONDS

# Seconds between two pings of the C++ client, and after which the client opens its stream of settings anew. The C# client sends settings
# anew every five minutes. Real clients: 60 and 3600.
PING_S, REOPEN_S = int(os.environ.get("VOSTOK_PING_S", 2)), int(os.environ.get("VOSTOK_REOPEN_S", 30))
CANCEL = b"\0\0\0\x08"
ACCESS_KEY, SECRET_KEY = "imitation", "12345678"


class Connection(http2.Connection):
    """A connection whose waits all have the same cap."""

    def __init__(self, endpoint):
        super().__init__(endpoint)
        self.socket.settimeout(PATIENCE_SECONDS)

    def frame(self, *kinds, seconds=None):
        """Waits for the next frame of one of these kinds, whatever time the caller gives."""
        return super().frame(*kinds, seconds=PATIENCE_SECONDS)


class Client:
    """A client: a connection, and the metadata that its language writes into every call."""

    def __init__(self, stage, name, kind, metadata, credential, is_utc, language, version):
        self.stage, self.kind, self.own, self.credential, self.is_utc = stage, kind, metadata, credential, is_utc
        self.group = None if kind == grpc_requests.PRODUCER else stage.group
        self.client_id, self.settings = f"{name}-{stage.group}-{kind}", grpc_requests.settings(kind, stage.topic, self.group, language, version)
        self.connection, self.telemetry = Connection(stage.endpoint), None

    def metadata(self, deadline):
        now = datetime.datetime.now(datetime.timezone.utc if self.is_utc else None)
        date_time = now.strftime("%Y%m%dT%H%M%SZ")
        signature = hmac.new(SECRET_KEY.encode(), date_time.encode(), hashlib.sha1).hexdigest()
        authorization = f"MQv2-HMAC-SHA1 Credential={self.credential}, SignedHeaders=x-mq-date-time, Signature={signature}"
        return [*self.own, ("x-mq-client-id", self.client_id), ("x-mq-date-time", date_time), ("authorization", authorization),
                ("x-mq-request-id", str(uuid.uuid4())), ("grpc-timeout", deadline)]

    def call(self, method, message, deadline="60S"):
        """The messages of an answer; the first says that the call succeeded."""
        answers = self.connection.answer(self.connection.call(method, message, self.metadata(deadline)))
        equal(grpc_requests.OK, grpc_requests.code(answers[0]), method)
        return answers

    def open(self, deadline):
        """Opens the stream of settings."""
        self.telemetry = self.connection.call("Telemetry", self.settings, self.metadata(deadline), is_last=False)
        self.settled()

    def settled(self):
        """Waits for the answer to settings."""
        while (answer := self.connection.frame(http2.DATA))[2] != self.telemetry:
            pass
        equal(grpc_requests.OK, grpc_requests.code(next(http2.messages(answer[3]))), "settings")

    def start(self):
        self.call("QueryRoute", grpc_requests.query_route(self.stage.topic))
        if self.group is not None:
            self.call("QueryAssignment", grpc_requests.query_assignment(self.stage.topic, self.group))
        self.call("Heartbeat", grpc_requests.heartbeat(self.kind, self.group))

    def send(self, body):
        self.call("SendMessage", grpc_requests.send(self.stage.topic, f"01{uuid.uuid4().hex.upper()}", body))

    def receive(self, body):
        """Receives one message with this body and acknowledges it."""
        taken = grpc_requests.received(self.call("ReceiveMessage", grpc_requests.receive(self.stage.topic, self.group)))
        equal([body], [one[2] for one in taken], "received")
        self.call("AckMessage", grpc_requests.acknowledge(self.stage.topic, self.group, taken))

    def end(self):
        self.call("NotifyClientTermination", grpc_requests.terminate(self.group))
        self.connection.close()


def cpp(stage):
    """C++: pings every minute, also without a call; the stream of settings lasts an hour, then the client opens another one."""
    own = [("user-agent", "grpc-c++/1.46.3 grpc-c/24.0.0 (linux; chttp2)"), ("x-mq-language", "CPP"), ("x-mq-protocol", "v2"),
           ("x-mq-client-version", "5.0.4"), ("x-mq-namespace", "")]
    client = Client(stage, "cpp", grpc_requests.SIMPLE_CONSUMER, own, f"{ACCESS_KEY}//RocketMQ", True, 2, "5.0.4")

    def pings(seconds):
        for _ in range(max(1, int(seconds / PING_S))):
            time.sleep(PING_S)
            client.connection.ping()
    pings(PING_S)
    for body in (b"first hour", b"second hour"):
        client.open(f"{REOPEN_S}S")
        client.start()
        client.send(body)
        client.receive(body)
        pings(REOPEN_S)
        client.connection.send(http2.RST, 0, client.telemetry, CANCEL)
    client.end()


def csharp(stage):
    """C#: a stream of ten years, on which settings are sent again from time to time; times are local, whatever their Z says."""
    own = [("user-agent", "grpc-dotnet/2.49.0 (.NET 6.0.0; CLR 6.0.0; net5.0; linux; x64)"), ("x-mq-language", "DOTNET"), ("x-mq-protocol", "v2"),
           ("x-mq-client-version", "5.1.0")]
    producer, consumer = (Client(stage, "csharp", kind, own, ACCESS_KEY, False, 3, "5.1.0") for kind in (grpc_requests.PRODUCER, grpc_requests.SIMPLE_CONSUMER))
    for client in (producer, consumer):
        client.open("5256000M")
        client.start()
    for number in range(3):
        body = f"settings {number}".encode()
        producer.send(body)
        consumer.receive(body)
        time.sleep(REOPEN_S / 3)
        for client in (producer, consumer):
            client.connection.say(client.telemetry, client.settings)
            client.settled()
    producer.end()
    consumer.end()


def php(stage):
    """PHP: a script begins and ends with its connection, whether or not it says that it goes; one that only sends has no stream of settings."""
    own = [("user-agent", "grpc-php/1.57.0 grpc-c/34.0.0 (linux; chttp2)"), ("x-mq-language", "PHP"), ("x-mq-protocol", "v2"),
           ("x-mq-client-version", "5.0.0")]
    for number in range(3):
        body = f"script {number}".encode()
        producer, consumer = (Client(stage, f"php{number}", kind, own, f"{ACCESS_KEY}/region/service", False, 7, "5.0.0")
                              for kind in (grpc_requests.PRODUCER, grpc_requests.SIMPLE_CONSUMER))
        producer.call("QueryRoute", grpc_requests.query_route(stage.topic))
        producer.send(body)
        producer.connection.close()
        consumer.open("3600S")
        consumer.receive(body)
        if number == 0:
            consumer.connection.close()
        else:
            consumer.end()


CASES = {"cpp": cpp, "csharp": csharp, "php": php}
