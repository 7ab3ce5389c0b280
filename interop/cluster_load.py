"""Producers and a consumer that follow the master of a broker set, and the checks of programs that take masters away."""
import json
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from tests.kit.process import Process
from tests.kit.remoting import QUEUES, Client, body_of, number_of
from tests.kit.waiting import FAILURES, PATIENCE_SECONDS, eventually

NAME = "broker-a"
CLUSTER_INFO, SYNC_STATE = 106, 1006
PRODUCERS = 4
# Messages that each producer gets acknowledged before a fault.
LOAD = 300
# Seconds after which a client gives a request up, as clients of RocketMQ do.
REQUEST_SECONDS = 3


class Watched:
    """A broker set as its name server and its controller see it.

    `members` has a name and a process id for the address of each broker, `host:port`. The store of a broker is the folder of `data` with
    its name. `processes` are stopped in the end.
    """

    def master(self):
        """The master by the name server; `None` if there is none."""
        try:
            _, body = Client(self.namesrv, REQUEST_SECONDS).call(CLUSTER_INFO)
            # The keys are numbers without quotation marks, as Java writes them.
            addresses = json.loads(re.sub(rb"([{,])(\d+):", rb'\1"\2":', body))["brokerAddrTable"][NAME]["brokerAddrs"]
            return addresses["0"]
        except FAILURES:
            return None

    def set(self):
        """The living master and the living members of the in-sync set by the controller."""
        try:
            _, body = Client(self.controller, REQUEST_SECONDS).call(SYNC_STATE, body=json.dumps([NAME]).encode())
            return living(json.loads(body)["replicasInfoTable"][NAME])
        except FAILURES:
            return None, set()

    def is_whole(self):
        return self.set()[1] == set(self.members)

    def log_files(self, address):
        return log_files(self.data / self.members[address][0])

    def logs_agree(self):
        logs = [self.log_files(address) for address in self.members]
        return all(log == logs[0] for log in logs)

    def stop(self):
        """Stops all processes at the same time and returns their exit codes."""
        with ThreadPoolExecutor() as pool:
            return list(pool.map(lambda process: Process.stop(process, clean=False), self.processes))


def living(info):
    """Addresses of the living master and the living members of the in-sync set in an answer of a controller."""
    alive = {member["brokerAddress"]: member["brokerId"] for member in info["inSyncReplicas"] if member["alive"]}
    master = [address for address, number in alive.items() if number == info.get("masterBrokerId")]
    return (master[0] if master else None), set(alive)


def log_files(store):
    """Bytes of the log files of a store by name. Files made before they are needed hold zeros only and are left out."""
    return {file.name: text for file in (store / "commitlog").iterdir() if (text := file.read_bytes().rstrip(b"\0"))}


class Worker(threading.Thread):
    """A client that talks to the master, whichever that is, until it is stopped."""

    def __init__(self, cluster):
        super().__init__(daemon=True)
        self.cluster, self.goes_on, self.client = cluster, True, None
        self.start()

    def run(self):
        while self.goes_on:
            try:
                if self.client is None:
                    self.client = Client(self.master() or 0, REQUEST_SECONDS)
                self.step(self.client)
            except (*FAILURES, OverflowError):
                self.client = None
                time.sleep(0.02)

    def master(self):
        return self.cluster.master()

    def stop(self):
        self.goes_on = False
        self.join(PATIENCE_SECONDS)


class Producer(Worker):
    """A producer that sends one number after the other, each until it is acknowledged."""

    def __init__(self, cluster, first):
        self.number, self.acknowledged, self.times, self.last = first, [], [], None
        super().__init__(cluster)

    def master(self):
        """The last known master if the name server does not answer: a broker that is a slave by now refuses sends."""
        self.last = self.cluster.master() or self.last
        return self.last

    def step(self, client):
        client.send(self.number)
        self.acknowledged.append(self.number)
        self.times.append(time.monotonic())
        self.number += PRODUCERS

    def gap(self, since):
        """The longest time without an acknowledgement from shortly before `since` on."""
        times = [at for at in self.times if at > since - 1]
        return max((after - before for before, after in zip(times, times[1:])), default=float("inf"))


class Consumer(Worker):
    """A consumer that reads every queue and commits; it keeps each body and each step back."""

    def __init__(self, cluster):
        self.next, self.taken, self.read, self.wrong, self.committed = [0] * QUEUES, [0] * QUEUES, {}, [], []
        super().__init__(cluster)

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
            if self.next[queue] > self.taken[queue] and client.commit(queue, self.next[queue]) == 0:
                self.taken[queue] = self.next[queue]
            found += len(records)
        self.committed.append((time.monotonic(), list(self.taken)))
        time.sleep(0 if found else 0.01)

    def committed_before(self, moment):
        """Offsets that were committed by `moment`."""
        return next((offsets for at, offsets in reversed(self.committed) if at <= moment), [0] * QUEUES)


class Load:
    """The producers and the consumer of a broker set."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.producers, self.consumer = [Producer(cluster, first) for first in range(1, PRODUCERS + 1)], Consumer(cluster)

    def goes_on(self, count=2):
        """A function that tells whether every producer got `count` acknowledgements from now on; the first one may be older."""
        before = [len(producer.acknowledged) for producer in self.producers]
        return lambda: all(len(producer.acknowledged) >= then + count for producer, then in zip(self.producers, before))

    def steady(self):
        """Waits until the broker set is whole and every producer has sent some messages; returns the master."""
        is_loaded, members = self.goes_on(LOAD), set(self.cluster.members)

        def master():
            known, alive = self.cluster.set()
            return known if alive == members and is_loaded() and known == self.cluster.master() else None

        found = eventually(master)
        if found is None:
            raise RuntimeError(f"the broker set is not whole or takes no messages: {self.cluster.set()}, {self.cluster.master()}")
        return found

    def gap(self, since):
        return max(producer.gap(since) for producer in self.producers)

    def taken_over(self, case, fault, old, since):
        """Checks that another broker than `old` becomes master and has the offsets that were committed before `since`."""
        if case.eventually(f"{fault}: another broker becomes master", lambda: self.cluster.set()[0] not in (None, old), self.cluster.set):
            case.eventually(f"{fault}: the new master takes messages", self.goes_on(), self.cluster.set)
        wanted = self.consumer.committed_before(since)
        found = eventually(self.committed, refused=FAILURES)
        case.check(f"{fault}: committed offsets do not go back", found and all(map(int.__ge__, found, wanted)), (wanted, found))

    def committed(self):
        """Committed offsets at the master."""
        client = Client(self.cluster.set()[0] or 0)
        return [client.committed(queue) for queue in range(QUEUES)]

    def everything(self):
        return Client(self.cluster.master() or 0).messages()

    def finish(self, case):
        """Ends the load and the brokers. Checks that every acknowledged message is there as it was sent, at every broker, and that logs are equal."""
        cluster, consumer = self.cluster, self.consumer
        for producer in self.producers:
            producer.stop()
        acknowledged = {number for producer in self.producers for number in producer.acknowledged}
        found = {}

        def has_all():
            found.clear()
            found.update(self.everything())
            return acknowledged <= set(map(number_of, found.values()))

        case.eventually(f"all {len(acknowledged)} acknowledged messages are there", has_all, lambda: sorted(acknowledged - set(map(number_of, found.values())))[:9])
        case.eventually("the consumer reads all", lambda: found and len(consumer.read) >= len(found), lambda: (len(consumer.read), len(found)))
        consumer.stop()
        # A message may be there although its acknowledgement was lost.
        found = self.everything()
        numbers = [number_of(body) for body in found.values()]
        spoiled = [number for number, body in zip(numbers, found.values()) if body != body_of(number)]
        case.check("each is as it was sent", not spoiled, spoiled[:9])
        invented = set(numbers) - acknowledged - {producer.number for producer in self.producers}
        case.check("none was invented", not invented, sorted(invented)[:9])
        print(f"{len(numbers) - len(set(numbers))} messages are there twice: their answers were lost with a master, and they were sent again", flush=True)
        case.check("no offset went back for the consumer", not consumer.wrong, consumer.wrong[:3])
        changed = [at for at, body in consumer.read.items() if found.get(at) != body]
        case.check("messages that were read stay where they were", not changed, changed[:9])
        for address in sorted(set(cluster.members) - {cluster.master()}):
            case.eventually(f"{cluster.members[address][0]} serves the same", lambda: Client(address).messages() == self.everything(), len(found))
        eventually(cluster.logs_agree)
        codes = cluster.stop()
        case.check("all stop cleanly", not any(codes), codes)
        sizes = lambda: {name: {file: len(text) for file, text in cluster.log_files(address).items()} for address, (name, _) in cluster.members.items()}  # noqa: E731
        case.check("the logs are equal", cluster.logs_agree() and all(sizes().values()), sizes)
