"""How long a message takes to a receive that waits for it over gRPC, from the begin of its send to the bytes of the receive's answer.

    python3 -m bench.woken                               2,000 messages, one after the other, to one group
    python3 -m bench.woken --messages 20000 --servers vostok,java

Consumer and producer are one process with a connection each. The receive waits for some milliseconds before the message is sent. The
round trip of a heartbeat on the same connection, measured in between, is what socket, library and this script cost.
"""
import json
import os
import random
import time

from bench import grpc_clients, grpc_requests, http2, stage


TOPIC, GROUP = "woken", "woken_group"
P99_MS = 2


def open_client(server, kind, number):
    """A connection that has told its settings, and its metadata."""
    connection, who = http2.Connection(f"127.0.0.1:{server.grpc[1]}"), grpc_clients.metadata(number)
    connection.call("Telemetry", grpc_requests.settings(kind, TOPIC, GROUP if kind != grpc_requests.PRODUCER else None), who, is_last=False)
    status = grpc_requests.code(next(http2.messages(connection.frame(http2.DATA)[3])))
    if status != grpc_requests.OK:
        raise RuntimeError(f"the settings were answered with {status}")
    return connection, who


class Pair:
    """A consumer and a producer."""

    def __init__(self, server):
        self.consumer, self.who = open_client(server, grpc_requests.SIMPLE_CONSUMER, 0)
        self.producer, self.sender = open_client(server, grpc_requests.PRODUCER, 1)

    def receive(self, poll_s):
        return self.consumer.call("ReceiveMessage", grpc_requests.receive(TOPIC, GROUP, 1, poll_s), [*self.who, ("grpc-timeout", f"{poll_s + 3}S")])

    def acknowledge(self, taken):
        answer = self.consumer.answer(self.consumer.call("AckMessage", grpc_requests.acknowledge(TOPIC, GROUP, taken), self.who))
        if grpc_requests.code(answer[0]) != grpc_requests.OK:
            raise RuntimeError(f"an acknowledgement was answered with {grpc_requests.code(answer[0])}")

    def heartbeat(self):
        """Microseconds of its round trip."""
        begin = time.perf_counter_ns()
        self.consumer.answer(self.consumer.call("Heartbeat", grpc_requests.heartbeat(grpc_requests.SIMPLE_CONSUMER, GROUP), self.who))
        return (time.perf_counter_ns() - begin) / 1000

    def woken(self, number, body):
        """Microseconds from the send of a message to its receive, which waits."""
        stream = self.receive(20)
        time.sleep(random.uniform(0.003, 0.010))
        begin = time.perf_counter_ns()
        sent = self.producer.call("SendMessage", grpc_requests.send(TOPIC, f"01{number:032X}", body), self.sender)
        kind, _, of, payload = self.consumer.frame(http2.DATA)
        took = (time.perf_counter_ns() - begin) / 1000
        if of != stream:
            raise RuntimeError("an answer of another call came")
        taken = grpc_requests.received([*http2.messages(payload), *self.consumer.answer(stream)])
        stored = self.producer.answer(sent)
        if grpc_requests.code(stored[0]) != grpc_requests.OK or [one[2] for one in taken] != [body]:
            raise RuntimeError(f"message {number} was answered with {grpc_requests.code(stored[0])}, and {len(taken)} messages were received")
        self.acknowledge(taken)
        return took


def quantiles(values):
    values = sorted(values)
    return {name: values[min(len(values) - 1, int(len(values) * share))] for name, share in (("p50", 0.5), ("p99", 0.99), ("p999", 0.999), ("max", 1))}


def run(name, chosen):
    with stage.Kept(name, chosen, grpc=True) as server:
        server.start()
        grpc_clients.make_topic(server, TOPIC)
        # RocketMQ's proxy refuses a group that does not exist.
        group = {"groupName": GROUP, "consumeEnable": True, "consumeFromMinEnable": True, "retryQueueNums": 1, "retryMaxTimes": 16, "brokerId": 0,
                 "whichBrokerWhenConsumeSlowly": 1, "notifyConsumerIdsChangedEnable": True}
        stage.ask(server.broker_port, 200, {}, json.dumps(group).encode())
        pair = Pair(server)
        body = random.randbytes(chosen.size)
        for number in range(chosen.warm):
            pair.woken(number, body)
        took, trips = [], []
        for number in range(chosen.messages):
            trips.append(pair.heartbeat())
            took.append(pair.woken(chosen.warm + number, body))
        return {"server": name, "messages": chosen.messages, "woken_us": quantiles(took), "heartbeat_us": quantiles(trips)}


def main():
    parser = stage.parser(__doc__)
    parser.set_defaults(servers="vostok", pin=(os.cpu_count() or 1) >= 2)
    parser.add_argument("--messages", type=int, default=2000, help="measured (default: %(default)s)")
    parser.add_argument("--warm", type=int, default=200, help="before that (default: %(default)s)")
    parser.add_argument("--size", type=int, default=1024, help="bytes of a body (default: %(default)s)")
    chosen = parser.parse_args()
    stage.ready("receives that wait")
    if chosen.pin:
        os.sched_setaffinity(0, {1})
    results = [run(name, chosen) for name in chosen.servers.split(",")]
    rows = [[one["server"], what, *(f"{one[key][at] / 1000:.3f}" for at in ("p50", "p99", "p999", "max"))]
            for one in results for what, key in (("woken receive", "woken_us"), ("heartbeat", "heartbeat_us"))]
    stage.table(["server", "ms", "p50", "p99", "p99.9", "max"], rows)
    for one in (one for one in results if one["server"] == "vostok"):
        p99 = one["woken_us"]["p99"] / 1000
        print(f"{'reached' if p99 <= P99_MS else 'MISSED ':<8} p99 of a woken receive {p99:.2f} ms, target {P99_MS} ms")
    stage.save("woken", results)


if __name__ == "__main__":
    main()
