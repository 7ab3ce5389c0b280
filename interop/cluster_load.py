"""Producers and a consumer that follow the master of a broker set, and what must hold in the end. For the scripts that take masters away."""
import json
import re
import struct
import threading
import time

from replica_client import QUEUES, Client, body_of, eventually

NAME, GROUP = "broker-a", "CG"
CLUSTER_INFO, SYNC_STATE, COMMIT, COMMITTED = 106, 1006, 15, 14
NO_OFFSET, ENDS = 22, (19, 20, 21)
PRODUCERS = 4
FAILURES = (OSError, RuntimeError, ValueError, KeyError, struct.error)


class Watched:
    """A broker set as its name server and its controller see it. `members` has a name and a process for the address of each broker,
    `host:port`; the store of a broker is in `data`, in the directory of its name."""

    def master(self):
        """The master by the name server; `None` when there is none."""
        try:
            _, body = Client(self.namesrv, 1).call(CLUSTER_INFO)
            # The keys are numbers without quotation marks, as Java writes them.
            addresses = json.loads(re.sub(rb"([{,])(\d+):", rb'\1"\2":', body))["brokerAddrTable"][NAME]["brokerAddrs"]
            return addresses["0"]
        except FAILURES:
            return None

    def set(self):
        """The living master and the living members of the in-sync set by the controller."""
        try:
            _, body = Client(self.controller, 1).call(SYNC_STATE, body=json.dumps([NAME]).encode())
            info = json.loads(body)["replicasInfoTable"][NAME]
        except FAILURES:
            return None, set()
        alive = {it["brokerAddress"]: it["brokerId"] for it in info["inSyncReplicas"] if it["alive"]}
        master = [address for address, number in alive.items() if number == info.get("masterBrokerId")]
        return (master[0] if master else None), set(alive)

    def log_files(self, address):
        files = (self.data / self.members[address][0] / "commitlog").iterdir()
        # Files made before they are needed hold zeros only.
        return {file.name: text for file in files if (text := file.read_bytes().rstrip(b"\0"))}


class Worker(threading.Thread):
    """Talks to the master, whichever that is, until it is stopped."""

    def __init__(self, cluster):
        super().__init__(daemon=True)
        self.cluster, self.goes_on, self.client = cluster, True, None

    def run(self):
        while self.goes_on:
            try:
                if self.client is None:
                    self.client = Client(self.master() or 0, 1)
                self.step(self.client)
            except FAILURES + (OverflowError,):
                self.client = None
                time.sleep(0.02)

    def master(self):
        return self.cluster.master()

    def stop(self):
        self.goes_on = False
        self.join(30)


class Producer(Worker):
    """Sends one number after the other, each until it is acknowledged; knows when each was."""

    def __init__(self, cluster, first):
        super().__init__(cluster)
        self.number, self.acknowledged, self.times, self.last = first, [], [], None

    def master(self):
        """The last one known when the name server does not answer: a broker that is a slave by now refuses what is sent to it."""
        self.last = self.cluster.master() or self.last
        return self.last

    def step(self, client):
        client.send(self.number)
        self.acknowledged.append(self.number)
        self.times.append(time.monotonic())
        self.number += PRODUCERS

    def gap(self, since):
        """The longest time without an acknowledgement from shortly before `since` on."""
        times = [it for it in self.times if it > since - 1]
        return max((after - before for before, after in zip(times, times[1:])), default=float("inf"))


class Consumer(Worker):
    """Reads every queue, and commits what it has read; notes what was read where, and every step back."""

    def __init__(self, cluster):
        super().__init__(cluster)
        self.next, self.taken, self.read, self.wrong, self.committed = [0] * QUEUES, [0] * QUEUES, {}, [], []

    def step(self, client):
        found = 0
        for queue in range(QUEUES):
            answer, records, following = client.pull(queue, self.next[queue])
            for offset, body in records:
                if offset != self.next[queue]:
                    self.wrong.append(f"queue {queue}: {offset} instead of {self.next[queue]}")
                self.read[queue, offset] = body
                self.next[queue] = offset + 1
            if answer["code"] == 21 and following is not None and following < self.next[queue]:
                self.wrong.append(f"queue {queue}: sent back from {self.next[queue]} to {following}")
            if self.next[queue] > self.taken[queue]:
                commit = {"consumerGroup": GROUP, "topic": "Copied", "queueId": queue, "commitOffset": self.next[queue]}
                if client.call(COMMIT, commit)[0]["code"] == 0:
                    self.taken[queue] = self.next[queue]
            found += len(records)
        self.committed.append((time.monotonic(), list(self.taken)))
        time.sleep(0 if found else 0.01)

    def committed_before(self, moment):
        """Offsets that were committed when `moment` was."""
        return next((offsets for at, offsets in reversed(self.committed) if at <= moment), [0] * QUEUES)


def committed(master):
    """Committed offsets of the group, as the broker tells them that is master by then."""
    def told():
        client, offsets = Client(master() or 0, 30), []
        for queue in range(QUEUES):
            answer, _ = client.call(COMMITTED, {"consumerGroup": GROUP, "topic": "Copied", "queueId": queue})
            if answer["code"] not in (0, NO_OFFSET):
                raise RuntimeError(f"queue {queue}: {answer}")
            offsets.append(int(answer["extFields"]["offset"]) if answer["code"] == 0 else 0)
        return offsets
    return eventually(60, lambda: unless_refused(told))


def unless_refused(ask):
    """What is told, or `None` when nobody answers or the answer is a refusal, as while masters change."""
    try:
        return ask()
    except FAILURES:
        return None


def everything(address):
    """All messages that a broker serves: body by queue and offset."""
    client, found = Client(address, 30), {}
    for queue in range(QUEUES):
        offset = 0
        while True:
            answer, records, _ = client.pull(queue, offset)
            if answer["code"] not in (0, *ENDS):
                raise RuntimeError(f"queue {queue} at {offset}: {answer}")
            if not records:
                break
            found |= {(queue, at): body for at, body in records}
            offset = records[-1][0] + 1
    return found


def all_is_there(cluster, producers, consumer, check):
    """Checks that what was acknowledged is there once at least, as it was sent, and where it was read, at every broker of the set."""
    of_master = lambda: eventually(60, lambda: unless_refused(lambda: everything(cluster.master()))) or {}  # noqa: E731
    found = of_master()
    check("the consumer reads all", found and eventually(60, lambda: len(consumer.read) >= len(found)), (len(consumer.read), len(found)))
    consumer.stop()
    # The answers of the last messages may have come too late for their producers.
    found = of_master()
    acknowledged = {it for producer in producers for it in producer.acknowledged}
    numbers = [int(body.split(b" ")[0]) for body in found.values()]
    missing = acknowledged - set(numbers)
    check(f"all {len(acknowledged)} acknowledged messages are there", not missing and len(acknowledged) > 1_000, sorted(missing)[:9])
    spoiled = [number for number, body in zip(numbers, found.values()) if body != body_of(number)]
    check("each is as it was sent", not spoiled, spoiled[:9])
    invented = set(numbers) - acknowledged - {producer.number for producer in producers}
    check("none was invented", not invented, sorted(invented)[:9])
    print(f"{len(numbers) - len(set(numbers))} messages are there twice: their answers were lost with a master, and they were sent again")
    check("no offset went back for the consumer", not consumer.wrong, consumer.wrong[:3])
    changed = [at for at, body in consumer.read.items() if found.get(at) != body]
    check("what was read stays where it was", not changed, changed[:9])
    for address in sorted(set(cluster.members) - {cluster.master()}):
        same = lambda: unless_refused(lambda: everything(address) == everything(cluster.master()))  # noqa: E731
        check(f"{cluster.members[address][0]} serves the same", eventually(60, same), len(found))


def logs_are_equal(cluster, check):
    """Checks that the logs of the set are the same byte for byte. Its brokers have stopped."""
    logs = [cluster.log_files(address) for address in cluster.members]
    names = set().union(*logs)
    wrong = [name for name in names if len({log.get(name) for log in logs}) != 1]
    check("the logs are equal", not wrong and names, [(name, [len(log.get(name, b"")) for log in logs]) for name in wrong])

