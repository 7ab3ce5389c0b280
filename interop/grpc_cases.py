"""Runs scenarios on the official Python client of RocketMQ 5.x. Arguments: gRPC endpoint, broker address, run id, scenario
names; or `list`. Results go to standard output as "@ok NAME SECONDS" or "@fail NAME SECONDS REASON"."""
import os
import socket
import sys
import threading
import time
import traceback

import grpc
import grpc_topics
from rocketmq.grpc_protocol import service_pb2, service_pb2_grpc

from rocketmq import (ClientConfiguration, ConsumeResult, Credentials, FilterExpression, Message, MessageListener, Producer,
                      PushConsumer, SimpleConsumer, TransactionChecker, TransactionResolution)

INVISIBLE_S = 60


def check(holds, text):
    if not holds:
        raise AssertionError(text)


def equal(expected, found, what):
    check(expected == found, f"{what}: expected {expected!r:.300}, found {found!r:.300}")


class Stage:
    """What one scenario works with: names of its own, and clients that are shut down at its end."""

    tls = False

    def __init__(self, endpoint, broker, scenario, run):
        self.configuration = lambda: ClientConfiguration(endpoint, Credentials(), "", 20)
        self.endpoint, self.broker, self.name, self.clients = endpoint, broker, f"{scenario.replace('-', '_')}_{run}", []

    def topic(self, kind="NORMAL", suffix=""):
        return grpc_topics.topic(self.broker, f"T_{self.name}{suffix}", kind)

    def group(self, **settings):
        return grpc_topics.group(self.broker, f"G_{self.name}", **settings)

    def started(self, client):
        client.startup()
        self.clients.append(client)
        return client

    def producer(self, *topics, checker=None):
        return self.started(Producer(self.configuration(), list(topics), checker, tls_enable=self.tls))

    def consumer(self, topic, group, expression=None, poll_s=5):
        return self.started(SimpleConsumer(self.configuration(), group, {topic: expression or FilterExpression()}, poll_s,
                                           tls_enable=self.tls))

    def close(self):
        for client in reversed(self.clients):
            try:
                client.shutdown()
            except Exception as error:  # what it did before counts
                print(f"shutdown: {error}", file=sys.stderr)


def message(topic, body, **fields):
    made = Message()
    made.topic, made.body = topic, body.encode()
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def take(consumer):
    """Receives once. This client does not wait until the server has its settings, without which a receive is refused."""
    end = time.monotonic() + 30
    while True:
        try:
            return consumer.receive(32, INVISIBLE_S) or []
        except Exception as error:
            if getattr(error, "code", None) != 40015 or time.monotonic() > end:
                raise
            time.sleep(0.1)


def receive(consumer, count, seconds=20, ack=True):
    """Receives until `count` messages came or time is up."""
    found, end = [], time.monotonic() + seconds
    while len(found) < count and time.monotonic() < end:
        for one in take(consumer):
            found.append(one)
            if ack:
                consumer.ack(one)
    return found


def nothing(consumer, what):
    found = take(consumer)
    equal([], [one.body for one in found], what)


def send_receive_ack(stage):
    topic, group = stage.topic(), stage.group()
    producer, consumer = stage.producer(topic), stage.consumer(topic, group)
    sent = {}
    for index in range(20):
        one = message(topic, f"body {index}", tag="A", keys=f"k{index}")
        one.add_property("color", "red")
        receipt = producer.send(one)
        sent[receipt.message_id] = f"body {index}"
    found = receive(consumer, 20)
    equal(sent, {one.message_id: one.body.decode() for one in found}, "messages by id")
    for one in found:
        equal(("A", "red", 1, False), (one.tag, one.properties["color"], one.delivery_attempt, one.corrupted), "fields")
        equal({f"k{one.body.decode().split()[1]}"}, set(one.keys), "keys")
    nothing(consumer, "after all were acknowledged")


def tls(stage):
    """The runner names the server's certificate as the one that gRPC trusts."""
    stage.tls = True
    send_receive_ack(stage)


def proxy_preamble(stage):
    """A PROXY preamble of version 1 before plain HTTP/2: the server answers with its settings frame (type 4)."""
    host, port = stage.endpoint.split(":")
    with socket.create_connection((host, int(port)), 30) as connection:
        preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
        connection.sendall(b"PROXY TCP4 10.1.2.3 10.1.2.4 5 6\r\n" + preface)
        equal(4, connection.makefile("rb").read(9)[3], "type of the first frame")


def stub(stage, client_id):
    """The calls themselves, without the client, and their metadata."""
    channel = grpc.insecure_channel(stage.endpoint)
    metadata = [("x-mq-client-id", client_id), ("x-mq-language", "PYTHON"), ("x-mq-client-version", "5.0.4")]
    return service_pb2_grpc.MessagingServiceStub(channel), metadata


def cancelled(stage):
    """A receive that is cancelled while it waits takes no message."""
    topic, group = stage.topic(), stage.group()
    producer, consumer = stage.producer(topic), stage.consumer(topic, group)
    calls, metadata = stub(stage, consumer.client_id)
    request = service_pb2.ReceiveMessageRequest(batch_size=32)
    request.group.name, request.message_queue.topic.name = group, topic
    request.invisible_duration.seconds, request.long_polling_timeout.seconds = 60, 20
    route = service_pb2.QueryRouteRequest()
    route.topic.name = topic
    take(consumer)
    for index in range(5):
        waiting = calls.ReceiveMessage(request, timeout=30, metadata=metadata)
        time.sleep(0.2)
        waiting.cancel()
        # Its frames come after the cancellation.
        calls.QueryRoute(route, timeout=20, metadata=metadata)
        time.sleep(1)
        producer.send(message(topic, str(index)))
        equal([str(index)], [one.body.decode() for one in receive(consumer, 1)], "bodies")


def statuses(stage):
    """G04, G10, G12, G70: answers of calls without the client."""
    topic = stage.topic()
    calls, metadata = stub(stage, "raw")
    try:
        list(calls.PullMessage(service_pb2.PullMessageRequest(), metadata=metadata))
        raise AssertionError("PullMessage is served")
    except grpc.RpcError as error:
        equal(grpc.StatusCode.UNIMPLEMENTED, error.code(), "PullMessage")
    request = service_pb2.QueryRouteRequest()
    request.topic.name = topic
    status = calls.QueryRoute(request).status
    equal((40017, "client id cannot be empty"), (status.code, status.message), "no client id")
    answer = calls.QueryRoute(request, metadata=[("x-mq-client-id", "raw"), ("x-mq-language", "KLINGON")])
    equal((20000, "OK", 4), (answer.status.code, answer.status.message, len(answer.message_queues)), "route")
    answers = list(calls.ReceiveMessage(service_pb2.ReceiveMessageRequest(), timeout=30, metadata=metadata))
    equal(["status", "delivery_timestamp"], [one.WhichOneof("content") for one in answers], "a receive without settings")
    equal(40015, answers[0].status.code, "its status")
    stream = calls.Telemetry(iter([service_pb2.TelemetryCommand(settings={})]), metadata=metadata)
    try:
        list(stream)
        raise AssertionError("settings of neither side were accepted")
    except grpc.RpcError as error:
        equal((grpc.StatusCode.INVALID_ARGUMENT, "there is no publishing or subscription data in settings"),
              (error.code(), error.details()), "G23")


def tags(stage):
    topic, group = stage.topic(), stage.group()
    producer, consumer = stage.producer(topic), stage.consumer(topic, group, FilterExpression("A||B"))
    for tag in ("A", "B", "C", "A"):
        producer.send(message(topic, tag, tag=tag))
    equal(["A", "A", "B"], sorted(one.body.decode() for one in receive(consumer, 3)), "bodies")
    nothing(consumer, "of the other tag")


def long_polling(stage):
    topic, group = stage.topic(), stage.group()
    producer, consumer, times = stage.producer(topic), stage.consumer(topic, group, poll_s=20), []
    nothing(consumer, "of an empty topic")
    for index in range(10):
        timer = threading.Timer(0.3, lambda: producer.send(message(topic, str(index))))
        timer.start()
        begin = time.monotonic()
        found = take(consumer)
        times.append(time.monotonic() - begin)
        timer.join()
        equal([str(index)], [one.body.decode() for one in found], "bodies")
        consumer.ack(found[0])
    check(min(times) < 2 and max(times) < 15, f"waiting receives took {times} s")


def redelivery(stage):
    topic, group = stage.topic(), stage.group()
    producer, consumer = stage.producer(topic), stage.consumer(topic, group)
    producer.send(message(topic, "once more"))
    [first] = receive(consumer, 1, ack=False)
    before = first.receipt_handle
    consumer.change_invisible_duration(first, 3)
    check(before != first.receipt_handle, "the handle changed")
    [second] = receive(consumer, 1, seconds=30)
    equal((first.message_id, "once more", 2), (second.message_id, second.body.decode(), second.delivery_attempt), "second delivery")
    nothing(consumer, "after it was acknowledged")


def fifo(stage):
    topic, group = stage.topic("FIFO"), stage.group(consumeMessageOrderly=True)
    producer, consumer = stage.producer(topic), stage.consumer(topic, group)
    for index in range(12):
        producer.send(message(topic, f"{index % 3} {index}", message_group=f"g{index % 3}"))
    found = [one.body.decode().split() for one in receive(consumer, 12)]
    equal(12, len(found), "number of messages")
    for part in "012":
        numbers = [int(number) for one, number in found if one == part]
        equal(sorted(numbers), numbers, f"order of group {part}")


def delay_and_recall(stage):
    topic, group = stage.topic("DELAY"), stage.group()
    producer, consumer = stage.producer(topic), stage.consumer(topic, group)
    begin = time.time()
    producer.send(message(topic, "late", delivery_timestamp=int(begin) + 4))
    receipt = producer.send(message(topic, "recalled", delivery_timestamp=int(begin) + 10))
    check(receipt.recall_handle, "a delayed message has a recall handle")
    equal(receipt.message_id, producer.recall_message(topic, receipt.recall_handle), "recalled id")
    found = receive(consumer, 1, seconds=15)
    equal(["late"], [one.body.decode() for one in found], "bodies")
    check(time.time() >= int(begin) + 4, "the message came before its time")
    found = receive(consumer, 1, seconds=10)
    equal([], [one.body.decode() for one in found], "what was recalled")


class Checker(TransactionChecker):
    def check(self, message):
        return TransactionResolution.COMMIT if message.body == b"asked for" else TransactionResolution.UNKNOWN


def transactions(stage):
    topic, group = stage.topic("TRANSACTION"), stage.group()
    producer, consumer = stage.producer(topic, checker=Checker()), stage.consumer(topic, group)
    for body, end in (("committed", "commit"), ("rolled back", "rollback"), ("committed too", "commit")):
        transaction = producer.begin_transaction()
        producer.send(message(topic, body), transaction)
        nothing(consumer, "undecided") if body == "committed" else None
        getattr(transaction, end)()
    found = receive(consumer, 2)
    equal(["committed", "committed too"], sorted(one.body.decode() for one in found), "bodies")
    nothing(consumer, "rolled back")


def orphaned_transaction(stage):
    topic, group = stage.topic("TRANSACTION"), stage.group()
    producer, consumer = stage.producer(topic, checker=Checker()), stage.consumer(topic, group)
    producer.send(message(topic, "asked for"), producer.begin_transaction())
    found = receive(consumer, 1, seconds=60)
    equal(["asked for"], [one.body.decode() for one in found], "bodies")


class Listener(MessageListener):
    def __init__(self):
        self.found, self.fails = [], set()

    def consume(self, message):
        body = message.body.decode()
        self.found.append((body, message.delivery_attempt))
        if body in self.fails:
            self.fails.remove(body)
            return ConsumeResult.FAILURE
        return ConsumeResult.SUCCESS


def push(stage):
    topic, group = stage.topic(), stage.group()
    listener = Listener()
    listener.fails.add("7")
    stage.started(PushConsumer(stage.configuration(), group, listener, {topic: FilterExpression()}))
    producer = stage.producer(topic)
    for index in range(50):
        producer.send(message(topic, str(index)))
    end = time.monotonic() + 60
    while len(listener.found) < 51 and time.monotonic() < end:
        time.sleep(0.1)
    expected = [(str(index), 1) for index in range(50)] + [("7", 2)]
    equal(sorted(expected), sorted(listener.found), "deliveries")


def refusals(stage):
    try:
        stage.producer().send(message("T_missing_" + stage.name, "nowhere"))
        raise AssertionError("a message was sent to a missing topic")
    except AssertionError:
        raise
    except Exception as error:
        check("route" in str(error), f"{error}")
    topic = stage.topic("FIFO")
    try:
        stage.producer(topic).send(message(topic, "no group"))
        raise AssertionError("a message of another type was sent")
    except AssertionError:
        raise
    except Exception as error:
        check("type" in str(error), f"{error}")


CASES = {"send-receive-ack": send_receive_ack, "tags": tags, "long-polling": long_polling, "redelivery": redelivery, "fifo": fifo,
         "delay-and-recall": delay_and_recall, "transactions": transactions, "orphaned-transaction": orphaned_transaction,
         "push": push, "refusals": refusals, "tls": tls, "cancelled": cancelled, "statuses": statuses, "proxy-preamble": proxy_preamble}


def run(endpoint, broker, run_id, name):
    begin, stage = time.monotonic(), Stage(endpoint, broker, name, run_id)
    try:
        CASES[name](stage)
        # Cases run at the same time: a line and its end are written at once.
        print(f"@ok {name} {time.monotonic() - begin:.1f}\n", end="", flush=True)
    except Exception as error:
        traceback.print_exc()
        print(f"@fail {name} {time.monotonic() - begin:.1f} {str(error).splitlines()[0] if str(error) else type(error).__name__}\n", end="", flush=True)
    finally:
        stage.close()


if __name__ == "__main__":
    if sys.argv[1:] == ["list"]:
        print("\n".join(CASES))
        sys.exit(0)
    threads = [threading.Thread(target=run, args=(*sys.argv[1:4], name), daemon=True) for name in sys.argv[4:]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(230)
    sys.stdout.flush()
    # Threads of the client may hang in a shutdown; nothing more is to be told.
    os._exit(0)
