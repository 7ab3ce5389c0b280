"""Scenarios on the official Python client of RocketMQ 5.x, and calls without it. Arguments: see scenarios.main."""
import os
import socket
import sys
import threading
import time

import grpc
import scenarios
from rocketmq.grpc_protocol import service_pb2, service_pb2_grpc
from rocketmq.v5.exception import IllegalStateException
from scenarios import check, equal

from rocketmq import (ClientConfiguration, ConsumeResult, Credentials, FilterExpression, Message, MessageListener, Producer,
                      PushConsumer, SimpleConsumer, TransactionChecker, TransactionResolution)
from tests.kit.waiting import PATIENCE_SECONDS, eventually

INVISIBLE_S, REQUEST_S = 300, 60
METADATA = [("x-mq-client-id", "raw"), ("x-mq-language", "PYTHON"), ("x-mq-client-version", "5.0.4")]


class Stage(scenarios.Stage):
    """Names of a scenario, and its clients."""
    has_tls = False

    def __init__(self, *names):
        super().__init__(*names)
        self.configuration, self.clients = ClientConfiguration(self.endpoint, Credentials(), "", REQUEST_S), []

    def started(self, client):
        client.startup()
        self.clients.append(client)
        return client

    def producer(self, checker=None):
        return self.started(Producer(self.configuration, [self.topic], checker, tls_enable=self.has_tls))

    def consumer(self, expression=None, poll_s=5):
        return self.started(SimpleConsumer(self.configuration, self.group, {self.topic: expression or FilterExpression()}, poll_s,
                                           tls_enable=self.has_tls))

    def message(self, body, **fields):
        made = Message()
        made.topic, made.body = self.topic, body.encode()
        for name, value in fields.items():
            setattr(made, name, value)
        return made

    def stub(self):
        """The calls themselves, without the client."""
        return service_pb2_grpc.MessagingServiceStub(grpc.insecure_channel(self.endpoint))

    def close(self):
        for client in reversed(self.clients):
            try:
                client.shutdown()
            except Exception as error:  # the scenario counts, not the shutdown
                print(f"shutdown: {error}", file=sys.stderr)


def take(consumer):
    """Receives once. This client does not wait until the server has its settings, without which a receive of an unknown group is refused (40015)."""
    def receive():
        try:
            return [consumer.receive(32, INVISIBLE_S) or []]
        except Exception as error:
            if getattr(error, "code", None) != 40015:
                raise
    return eventually(receive)[0]


def receive(consumer, count):
    """Receives and acknowledges until `count` messages came."""
    found, end = [], time.monotonic() + PATIENCE_SECONDS
    while len(found) < count and time.monotonic() < end:
        for one in take(consumer):
            consumer.ack(one)
            found.append(one)
    return found


def bodies(messages):
    return sorted(one.body.decode() for one in messages)


def nothing(consumer, what):
    equal([], bodies(take(consumer)), what)


def simple(stage):
    producer, consumer, sent = stage.producer(), stage.consumer(), {}
    for index in range(20):
        one = stage.message(f"body {index}", tag="A", keys=f"k{index}")
        one.add_property("color", "red")
        sent[producer.send(one).message_id] = f"body {index}"
    found = receive(consumer, 20)
    equal(sent, {one.message_id: one.body.decode() for one in found}, "messages by id")
    for one in found:
        equal(("A", "red", 1, False), (one.tag, one.properties["color"], one.delivery_attempt, one.corrupted), "fields")
        equal({f"k{one.body.decode().split()[1]}"}, set(one.keys), "keys")
    nothing(consumer, "after all were acknowledged")


def tls(stage):
    """The runner names the server's certificate as the one that gRPC trusts."""
    stage.has_tls = True
    simple(stage)


def proxy_preamble(stage):
    """A PROXY preamble of version 1 before plain HTTP/2: the server answers with its settings frame (type 4)."""
    host, port = stage.endpoint.split(":")
    with socket.create_connection((host, int(port)), PATIENCE_SECONDS) as connection:
        preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
        connection.sendall(b"PROXY TCP4 10.1.2.3 10.1.2.4 5 6\r\n" + preface)
        equal(4, connection.makefile("rb").read(9)[3], "type of the first frame")


def cancelled(stage):
    """A receive that is cancelled while it waits takes no message.

    A message that reaches the receive before its cancellation is given back long before its invisible time is over. That is rare, except at a
    proxy before brokers, which cannot take a waiting pop back.
    """
    producer, consumer, calls = stage.producer(), stage.consumer(), stage.stub()
    metadata = [("x-mq-client-id", consumer.client_id), *METADATA[1:]]
    request = service_pb2.ReceiveMessageRequest(batch_size=32)
    request.group.name, request.message_queue.topic.name = stage.group, stage.topic
    request.invisible_duration.seconds, request.long_polling_timeout.seconds = INVISIBLE_S, 20
    route = service_pb2.QueryRouteRequest()
    route.topic.name = stage.topic
    take(consumer)
    attempts = []
    for index in range(5):
        waiting = calls.ReceiveMessage(request, timeout=REQUEST_S, metadata=metadata)
        # Calls of one connection reach the server in their order: the receive and its end are there when the answers are.
        calls.QueryRoute(route, timeout=REQUEST_S, metadata=metadata)
        waiting.cancel()
        calls.QueryRoute(route, timeout=REQUEST_S, metadata=metadata)
        producer.send(stage.message(str(index)))
        [one] = receive(consumer, 1)
        equal(str(index), one.body.decode(), "body")
        attempts.append(one.delivery_attempt)
    check(attempts.count(1) >= 3 or os.environ["VOSTOK_PROXY"], f"deliveries: {attempts}")


def statuses(stage):
    """G04, G10, G12, G70, G23: answers of calls without the client."""
    calls = stage.stub()
    try:
        list(calls.PullMessage(service_pb2.PullMessageRequest(), metadata=METADATA))
        raise AssertionError("PullMessage is served")
    except grpc.RpcError as error:
        equal(grpc.StatusCode.UNIMPLEMENTED, error.code(), "PullMessage")
    request = service_pb2.QueryRouteRequest()
    request.topic.name = stage.topic
    status = calls.QueryRoute(request).status
    equal((40017, "client id cannot be empty"), (status.code, status.message), "no client id")
    answer = calls.QueryRoute(request, metadata=[("x-mq-client-id", "raw"), ("x-mq-language", "KLINGON")])
    equal((20000, "OK", 4), (answer.status.code, answer.status.message, len(answer.message_queues)), "route")
    answers = list(calls.ReceiveMessage(service_pb2.ReceiveMessageRequest(), timeout=REQUEST_S, metadata=METADATA))
    equal(["status", "delivery_timestamp"], [one.WhichOneof("content") for one in answers], "a receive without settings")
    equal(40015, answers[0].status.code, "its status")
    try:
        list(calls.Telemetry(iter([service_pb2.TelemetryCommand(settings={})]), metadata=METADATA))
        raise AssertionError("settings of neither side were accepted")
    except grpc.RpcError as error:
        equal((grpc.StatusCode.INVALID_ARGUMENT, "there is no publishing or subscription data in settings"),
              (error.code(), error.details()), "G23")


def tags(stage):
    producer, consumer = stage.producer(), stage.consumer(FilterExpression("A||B"))
    for tag in ("A", "B", "C", "A"):
        producer.send(stage.message(tag, tag=tag))
    equal(["A", "A", "B"], bodies(receive(consumer, 3)), "bodies")
    nothing(consumer, "messages of another tag")


def long_polling(stage):
    """Messages that are sent while a receive waits. The result names the times between a send and the end of its receive."""
    producer, consumer, seconds = stage.producer(), stage.consumer(poll_s=20), []
    nothing(consumer, "of an empty topic")
    for index in range(10):
        sent = []
        timer = threading.Timer(0.3, lambda: sent.append((producer.send(stage.message(str(index))), time.monotonic())))
        timer.start()
        equal([str(index)], bodies(receive(consumer, 1)), "bodies")
        timer.join()
        seconds.append(time.monotonic() - sent[0][1])
    return f"(woken within {min(seconds):.3f} to {max(seconds):.3f} s)"


def redelivery(stage):
    producer, consumer = stage.producer(), stage.consumer()
    producer.send(stage.message("once more"))
    [first] = eventually(lambda: take(consumer))
    before = first.receipt_handle
    consumer.change_invisible_duration(first, 3)
    check(before != first.receipt_handle, "the handle did not change")
    [second] = receive(consumer, 1)
    equal((first.message_id, "once more", 2), (second.message_id, second.body.decode(), second.delivery_attempt), "second delivery")
    nothing(consumer, "after it was acknowledged")


def fifo(stage):
    producer, consumer = stage.producer(), stage.consumer()
    for index in range(12):
        producer.send(stage.message(f"{index % 3} {index}", message_group=f"g{index % 3}"))
    found = [one.body.decode().split() for one in receive(consumer, 12)]
    equal(12, len(found), "number of messages")
    for part in "012":
        numbers = [int(number) for one, number in found if one == part]
        equal(sorted(numbers), numbers, f"order of group {part}")


def delay(stage):
    """The recalled message would come before the other one."""
    producer, consumer, due = stage.producer(), stage.consumer(), int(time.time()) + 30
    receipt = producer.send(stage.message("recalled", delivery_timestamp=due))
    producer.send(stage.message("late", delivery_timestamp=due + 1))
    equal(receipt.message_id, producer.recall_message(stage.topic, receipt.recall_handle), "id of the recalled message")
    equal(["late"], bodies(receive(consumer, 1)), "bodies")
    check(time.time() >= due, "the message came before its time")
    nothing(consumer, "the recalled message")


class Checker(TransactionChecker):
    """Decides only about the message that the producer leaves alone: a second decision would deliver a message twice."""

    def check(self, message):
        return TransactionResolution.COMMIT if message.body == b"asked for" else TransactionResolution.UNKNOWN


def transactions(stage):
    producer, consumer = stage.producer(Checker()), stage.consumer()
    transaction = producer.begin_transaction()
    producer.send(stage.message("rolled back"), transaction)
    nothing(consumer, "undecided")
    transaction.rollback()
    transaction = producer.begin_transaction()
    producer.send(stage.message("committed"), transaction)
    transaction.commit()
    producer.send(stage.message("asked for"), producer.begin_transaction())
    equal(["asked for", "committed"], bodies(receive(consumer, 2)), "bodies")
    nothing(consumer, "rolled back")


class Listener(MessageListener):
    """Fails at the first delivery of message 7."""

    def __init__(self):
        self.found = []

    def consume(self, message):
        self.found.append((message.body.decode(), message.delivery_attempt))
        return ConsumeResult.FAILURE if self.found[-1] == ("7", 1) else ConsumeResult.SUCCESS


def push(stage):
    listener, producer = Listener(), stage.producer()
    # This client gives up when it has no settings after 10 s.
    eventually(lambda: stage.started(PushConsumer(stage.configuration, stage.group, listener, {stage.topic: FilterExpression()})),
               refused=IllegalStateException)
    for index in range(50):
        producer.send(stage.message(str(index)))
    eventually(lambda: len(listener.found) >= 51)
    equal(sorted([(str(index), 1) for index in range(50)] + [("7", 2)]), sorted(listener.found), "deliveries")


def refusals(stage):
    missing, wrong = stage.message("nowhere"), stage.message("of another type", message_group="g")
    missing.topic = f"{stage.topic}_missing"
    for message, text in ((missing, "route"), (wrong, "type")):
        try:
            stage.producer().send(message)
        except Exception as error:
            check(text in str(error), f"{error}")
        else:
            raise AssertionError(f"{message.body} was sent")


CASES = {"simple": simple, "tags": tags, "long-polling": long_polling, "redelivery": redelivery, "fifo": fifo, "delay": delay,
         "transactions": transactions, "push": push, "refusals": refusals, "tls": tls, "cancelled": cancelled, "statuses": statuses,
         "proxy-preamble": proxy_preamble}

if __name__ == "__main__":
    scenarios.main("python", Stage, CASES, CASES)
