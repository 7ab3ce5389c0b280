"""Consumers of RocketMQ 5.x that only say they are there: a Telemetry stream, one waiting receive, and heartbeats over one connection each."""
import selectors
import ssl
import subprocess
import sys

from bench import grpc_requests, http2, stage
from tests.kit import servers as kit


TOPIC, POLL_S = "Idle", 20
# Addresses of this machine that clients come from: a server has bounds for each, such as that of TLS handshakes.
SOURCES = 100


def metadata(number):
    return [("user-agent", "grpc-java-netty/1.53.0"), ("x-mq-client-id", f"idle@{number}"), ("x-mq-language", "JAVA"), ("x-mq-protocol", "v2"),
            ("x-mq-client-version", "5.0.7")]


def certificate(directory):
    """Makes a certificate; the settings of a server that has it."""
    key, made = directory / "key.pem", directory / "certificate.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", key, "-out", made],
                   check=True, stderr=subprocess.DEVNULL)
    return [f"tls.server.certPath={made}", f"tls.server.keyPath={key}"]


def trusting():
    """TLS that trusts any certificate."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context


def make_topic(server, topic):
    """An empty topic: a group begins at the last message of a queue that has some."""
    fields = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": "8", "writeQueueNums": "8", "perm": "6", "topicFilterType": "SINGLE_TAG",
              "topicSysFlag": "0", "order": "false"}
    code, _, _ = stage.ask(server.broker_port, 17, fields)
    if code != 0:
        sys.exit(f"{server.name} did not make {topic}: code {code}")
    kit.await_route(f"127.0.0.1:{server.namesrv_port}", topic)


class Client:
    def __init__(self, number, group, endpoint, context):
        self.connection = http2.Connection(endpoint, context, f"127.0.0.{1 + number % SOURCES}")
        self.group, self.metadata, self.receiving = group, metadata(number), None
        telemetry = self.connection.call("Telemetry", grpc_requests.settings(grpc_requests.PUSH_CONSUMER, TOPIC, group), self.metadata, is_last=False)
        while (answer := self.connection.frame(http2.DATA))[2] != telemetry:
            pass
        status = grpc_requests.code(next(http2.messages(answer[3])))
        if status != grpc_requests.OK:
            sys.exit(f"the settings of a client were answered with {status}")
        self.connection.socket.setblocking(False)
        self.receive()

    def receive(self):
        message = grpc_requests.receive(TOPIC, self.group, poll_s=POLL_S)
        self.receiving = self.connection.call("ReceiveMessage", message, [*self.metadata, ("grpc-timeout", f"{POLL_S + 3}S")])

    def beat(self):
        self.connection.call("Heartbeat", grpc_requests.heartbeat(grpc_requests.PUSH_CONSUMER, self.group), [*self.metadata, ("grpc-timeout", "3S")])

    def read(self):
        """Takes what came; how many calls ended. A receive that ended without a message is repeated."""
        ended = 0
        for kind, flags, stream, payload in self.connection.frames():
            if kind in (http2.RST, http2.GOAWAY):
                sys.exit(f"the server ended a call or connection with frame {kind}: {payload}")
            if kind == http2.DATA:
                status = grpc_requests.code(next(http2.messages(payload)))
                expected = grpc_requests.MESSAGE_NOT_FOUND if stream == self.receiving else grpc_requests.OK
                if status != expected:
                    sys.exit(f"a call was answered with {status}, expected {expected}")
            if kind == http2.HEADERS and flags & http2.END_STREAM:
                ended += 1
                if stream == self.receiving:
                    self.receive()
        return ended


class GrpcClients:
    """So many consumers of as many groups as are asked for."""

    def __init__(self, port, count, groups, context=None):
        self.selector, self.clients, self.answered = selectors.EpollSelector(), [], 0
        for number in range(count):
            client = Client(number, f"idle_{number % groups}", f"127.0.0.1:{port}", context)
            self.selector.register(client.connection.socket, selectors.EVENT_READ, client)
            self.clients.append(client)
            if number % 100 == 0:
                self.read(0)

    def close(self):
        self.selector.close()
        for client in self.clients:
            client.connection.close()

    def read(self, seconds):
        for key, _ in self.selector.select(seconds):
            self.answered += key.data.read()

    def run(self, seconds, interval):
        """Every client beats once in each interval, evenly spread."""
        count, began, sent = len(self.clients), stage.CLOCK(), 0
        while (gone := stage.CLOCK() - began) < seconds:
            due = int(gone / interval * count)
            while sent < due:
                self.clients[sent % count].beat()
                sent += 1
            self.read(0.01)
        return sent
