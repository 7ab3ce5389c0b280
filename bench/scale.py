"""What operators see of a very large cluster, and when: pages and searches of topics and groups, runtime figures, scrapes, the doctor,
the console; and what so many names cost a broker at its start, at rest and beside the messages that still flow.

    python3 -m bench.scale                                   a million topics with a message each, 10,000 groups; a scrape of 100,000 queues
    python3 -m bench.scale --topics 100000 --rounds 9        a smaller one
    python3 -m bench.scale --servers vostok,java --topics 0 --queues 0    the doctor at 1,000 topics and 2,300 groups alone

The tables are written before the start; then each topic gets a message, and the broker is killed and started once more. A figure is the median and
the 95th percentile of the rounds.
"""
import http.client
import json
import random
import socket
import statistics
import struct
import subprocess
import sys
import time

from bench import children, measure, servers, stage
from tests.kit import ports
from tests.kit import servers as kit


SEND = ('{"code":310,"language":"OTHER","version":0,"opaque":%d,"flag":0,"extFields":{"a":"bench_scale","b":"%s","c":"TBW102","d":"8",'
        '"e":"%d","f":"0","g":"%d","h":"0","i":"","j":"0","k":"false","l":"0","m":"false"}}')
PAGE, RUNTIME, TOPICS = 22094, 28, 21
PAGE_ROWS = 2000


def topic_name(number):
    return f"orders-{number:07}"


def group_name(number):
    return f"billing-{number:05}"


def write_tables(server, topics, queues, groups):
    """The files a broker reads at its start."""
    config = server.commit_log.parent / "config"
    config.mkdir(parents=True)
    version = '"dataVersion":{"counter":1,"stateVersion":0,"timestamp":1}'
    row = '"%s":{"attributes":{},"order":false,"perm":6,"readQueueNums":%d,"topicFilterType":"SINGLE_TAG","topicName":"%s","topicSysFlag":0,"writeQueueNums":%d}'
    with open(config / "topics.json", "w") as out:
        rows = (row % (name, queues, name, queues) for name in map(topic_name, range(topics)))
        out.write("{" + version + ',"topicConfigTable":{' + ",".join(rows) + "}}")
    with open(config / "subscriptionGroup.json", "w") as out:
        rows = ('"%s":{"groupName":"%s"}' % (name, name) for name in map(group_name, range(groups)))
        out.write("{" + version + ',"subscriptionGroupTable":{' + ",".join(rows) + "}}")
    with open(config / "consumerOffset.json", "w") as out:
        rows = ('"%s@%s":{0:0}' % (topic_name(number % topics), group_name(number)) for number in range(groups))
        out.write("{" + version + ',"offsetTable":{' + ",".join(rows) + "}}")


def frame(opaque, topic, queue, now_ms):
    header = (SEND % (opaque, topic, queue, now_ms)).encode()
    return struct.pack(">ii", 9 + len(header), len(header)) + header + b"probe"


class Producer:
    def __init__(self, port):
        self.connection = socket.create_connection(("127.0.0.1", port), 30)
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = bytearray()

    def send(self, places):
        """Sends a message to each topic and queue, all at once, and waits for the answers."""
        now_ms = int(time.time() * 1000)
        self.connection.sendall(b"".join(frame(index, *place, now_ms) for index, place in enumerate(places)))
        left, at = len(places), 0
        while left:
            while len(self.buffer) - at >= 4 and len(self.buffer) - at >= 4 + struct.unpack_from(">i", self.buffer, at)[0]:
                end = at + 4 + struct.unpack_from(">i", self.buffer, at)[0]
                if b'"code":0' not in self.buffer[at:end]:
                    raise RuntimeError(f"a send was refused: {bytes(self.buffer[at:end])!r}")
                left, at = left - 1, end
            del self.buffer[:at]
            at = 0
            if left:
                got = self.connection.recv(1 << 20)
                if not got:
                    raise RuntimeError("the broker closed the connection")
                self.buffer += got


def fill(port, topics, queues, at_once=1000):
    producer, began = Producer(port), time.monotonic()
    places = [(topic_name(topic), queue) for topic in range(topics) for queue in range(queues)]
    for first in range(0, len(places), at_once):
        producer.send(places[first:first + at_once])
    return len(places) / (time.monotonic() - began)


class Connection:
    """Requests over one connection, as tools make them."""

    def __init__(self, port):
        self.connection = socket.create_connection(("127.0.0.1", port), 20)
        self.answers = self.connection.makefile("rb")

    def ask(self, code, fields):
        header = json.dumps({"code": code, "language": "OTHER", "version": 0, "opaque": 1, "flag": 0, "extFields": {key: str(value) for key, value in fields.items()}}).encode()
        self.connection.sendall(struct.pack(">ii", 4 + len(header), len(header)) + header)
        total, length = struct.unpack(">ii", self.answers.read(8))
        head = json.loads(self.answers.read(length & 0xFFFFFF))
        body = self.answers.read(total - 4 - (length & 0xFFFFFF))
        if head["code"] != 0:
            raise RuntimeError(f"request {code} {fields} was refused: {head}")
        return body


def get(port, path, timeout=60):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    if answer.status != 200:
        raise RuntimeError(f"{path} was answered with {answer.status}: {body[:300]!r}")
    return body


def scrape(port):
    """The bytes of the metrics' page, which is read as quickly as Python can and not kept: a scrape has 26 MB."""
    with socket.create_connection(("127.0.0.1", port), 60) as connection:
        connection.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        buffer, size = bytearray(1 << 20), 0
        while got := connection.recv_into(buffer):
            if size == 0 and not buffer.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(f"a scrape was answered with {bytes(buffer[:300])!r}")
            size += got
    return size


class Results:
    def __init__(self, rounds):
        self.rounds, self.rows = rounds, []

    def time(self, name, target_ms, call, rounds=None, bytes_max=None):
        """Times a call that returns the number of bytes it got; each round is another one, so that nothing is cached."""
        took, sizes = [], []
        for number in range(rounds or self.rounds):
            began = time.monotonic()
            try:
                sizes.append(call(number))
            except TimeoutError:
                sizes.append(0)
            took.append((time.monotonic() - began) * 1000)
        took.sort()
        p95 = took[min(len(took) - 1, len(took) * 95 // 100)]
        is_reached = p95 <= target_ms and (bytes_max is None or max(sizes) <= bytes_max)
        self.add(name, f"{statistics.median(took):,.1f}", f"{p95:,.1f}", f"{max(took):,.1f}", f"{max(sizes):,}", f"{target_ms:,} ms" + (f", {bytes_max:,} B" if bytes_max else ""), is_reached)

    def add(self, name, median, p95="", most="", size="", target="", is_reached=None):
        self.rows.append([name, median, p95, most, size, target, "" if is_reached is None else "reached" if is_reached else "MISSED"])
        print(f"  {name}: {median} {p95}", flush=True)

    def show(self):
        stage.table(["what", "median ms", "p95", "max", "bytes", "target", ""], self.rows)


def search(connection, table, text, after=""):
    """All rounds of a search that finds a page or nothing; returns the bytes of all answers."""
    size = 0
    while after is not None:
        body = connection.ask(PAGE, {"table": table, "contains": text, "limit": PAGE_ROWS, "after": after})
        size, after = size + len(body), json.loads(body).get("next")
    return size


def requests(results, server, chosen):
    broker = Connection(server.broker_port)
    middle = lambda: topic_name(random.randrange(chosen.topics))
    ask = lambda table, **fields: len(broker.ask(PAGE, {"table": table, "limit": PAGE_ROWS} | fields))
    results.time("page of 2,000 topics, first", 100, lambda _: ask("topics"))
    results.time("page of 2,000 topics, anywhere", 100, lambda _: ask("topics", after=middle()))
    results.time("page of 2,000 groups", 100, lambda _: ask("groups"))
    results.time("2,000 topics with most messages", 100, lambda _: ask("topics", sort="messages"))
    results.time("100 groups with most lag", 100, lambda _: ask("groups", sort="lag", limit=100))
    results.time("search, one request of it", 100, lambda number: ask("topics", contains=f"absent{number}"))
    results.time("search without a match, whole", 300, lambda number: search(broker, "topics", f"absent{number}"))
    results.time("search for the last topic, whole", 300, lambda _: search(broker, "topics", topic_name(chosen.topics - 1)))
    results.time("page of 2,000 configurations (21)", 100, lambda _: len(broker.ask(TOPICS, {"topicSeq": random.randrange(chosen.topics), "maxTopicNum": PAGE_ROWS})))
    results.time("runtime figures (28)", 100, lambda _: len(broker.ask(RUNTIME, {})))


def stored(results, server, chosen):
    """How many messages the pages of all topics tell of."""
    broker, after, count = Connection(server.broker_port), "", 0
    while rows := json.loads(broker.ask(PAGE, {"table": "topics", "limit": PAGE_ROWS, "after": after}))["rows"]:
        count, after = count + sum(row["messages"] for row in rows if row["topic"].startswith("orders-")), rows[-1]["topic"]
    results.add("messages after the kill", f"{count:,}", target=f"{chosen.topics:,}", is_reached=count >= chosen.topics)


def console(results, server, chosen):
    port = ports.free_ports()[0]
    log = server.work / "console.log"
    with open(log, "wb") as out:
        process = children.start([servers.VOSTOK, "serve", "--roles", "console", "-n", f"127.0.0.1:{server.namesrv_port}", "--data", server.work / "console",
                                  "--console", f"127.0.0.1:{port}"], stdout=out, stderr=out, stdin=subprocess.DEVNULL)
    try:
        children.await_ports(process, [port], log)
        before = {pid: measure.resident(pid)["VmRSS"] for pid in (process.pid, server.pid)}
        page = lambda path: len(get(port, path))
        limits = {"rounds": max(20, results.rounds), "bytes_max": 200_000}
        results.time("console: list of topics", 300, lambda _: page("/topics"), **limits)
        results.time("console: list of topics, anywhere", 300, lambda _: page(f"/topics?after={topic_name(random.randrange(chosen.topics))}"), **limits)
        results.time("console: search for a topic", 300, lambda _: page(f"/topics?q={topic_name(random.randrange(chosen.topics))}"), **limits)
        results.time("console: search without a match", 300, lambda number: page(f"/topics?q=absent{number}"), **limits)
        results.time("console: list of groups", 300, lambda _: page(f"/groups?after={group_name(random.randrange(chosen.groups))}"), **limits)
        results.time("console: search for a group", 300, lambda number: page(f"/groups?q={group_name(random.randrange(chosen.groups))}"), **limits)
        results.time("console: overview", 300, lambda _: page("/"), **limits)
        for name, pid in (("console", process.pid), ("broker", server.pid)):
            grown = (measure.resident(pid)["VmRSS"] - before[pid]) / 1e6
            results.add(f"memory of the {name} by these pages", f"{grown:+,.1f} MB", target="50 MB", is_reached=grown < 50)
    finally:
        process.terminate()
        process.wait(30)


def doctor(results, server, name, *flags, target_ms=None):
    began = time.monotonic()
    done = children.run([servers.VOSTOK, "doctor", "-n", f"127.0.0.1:{server.namesrv_port}", *flags], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
    took = (time.monotonic() - began) * 1000
    (stage.OUT / f"scale-{name.replace(' ', '-').replace(',', '')}.txt").write_text(done.stdout)
    target = f"ends, code 0 or 1{f', {target_ms:,} ms' if target_ms else ''}"
    results.add(name, f"{took:,.0f}", size=f"{len(done.stdout):,}", target=target, is_reached=done.returncode in (0, 1) and took <= (target_ms or took))


def doctor_of_many(results, server):
    before = measure.resident(server.pid)["VmRSS"]
    doctor(results, server, "doctor", "--sample", "0")
    results.add("memory of the broker by the doctor", f"{(measure.resident(server.pid)['VmRSS'] - before) / 1e6:+,.1f} MB")


def doctors(results, chosen):
    """The doctor as it runs without flags at a cluster of ordinary size, whose groups have no members and a thousand of them a message to consume."""
    for name, target_ms in (("vostok", 10_000), ("java", 20_000)):
        if name in chosen.servers.split(","):
            with stage.Kept(name, chosen) as server:
                write_tables(server, 1000, 8, 2300)
                server.start()
                kit.await_route(f"127.0.0.1:{server.namesrv_port}", topic_name(999))
                fill(server.broker_port, 1000, 1, at_once=20)  # Java refuses many requests that wait
                for _ in range(3):
                    doctor(results, server, f"doctor of {name}, 1,000 topics, 2,300 groups", target_ms=target_ms)


def flow(results, server, seconds):
    """A message every ten milliseconds beside a broker that only clears up what a kill left in its queue files, and what both cost."""
    producer, took = Producer(server.broker_port), []
    cpu, end = measure.cpu_us(server.pid), time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.monotonic()
        producer.send([(topic_name(0), 0)])
        took.append((time.monotonic() - began) * 1000)
        time.sleep(0.01)
    took.sort()
    share = (measure.cpu_us(server.pid) - cpu) / seconds / 1e6
    results.add(f"a message each 10 ms, {seconds:.0f} s", f"{statistics.median(took):.2f}", f"{took[len(took) * 95 // 100]:.2f}", f"{took[-1]:,.1f}", target="100 ms at most", is_reached=took[-1] <= 100)
    results.add("processor meanwhile, after a kill", f"{share:.1%} of a core")


def start(results, server, chosen, name):
    began = time.monotonic()
    took = server.start()
    results.add(f"start {name}: ports answer", f"{took * 1000:,.0f}")
    kit.await_route(f"127.0.0.1:{server.namesrv_port}", topic_name(chosen.topics - 1))
    results.add(f"start {name}: the name server knows the last topic", f"{(time.monotonic() - began) * 1000:,.0f}")
    resident(results, server, f"memory after the start {name}")


def resident(results, server, name):
    results.add(name, f"{measure.resident(server.pid)['VmRSS'] / 1e6:,.0f} MB")


def scrapes(results, chosen):
    """Scrapes of a broker with very many queues, all of which got messages since its start."""
    for topics, queues in ((chosen.queues // 8, 8), (chosen.queues // 1000, 1000)):
        metrics = ports.free_ports()[0]
        with stage.Kept("vostok", chosen, conf=["metricsExporterType=PROM", f"metricsPromExporterPort={metrics}", "metricsPromExporterHost=127.0.0.1"]) as server:
            write_tables(server, topics, queues, 100)
            server.start()
            fill(server.broker_port, topics, queues)
            results.time(f"scrape, {topics:,} topics with {queues:,} queues each", 50, lambda _: scrape(metrics))


def main():
    parser = stage.parser(__doc__)
    parser.set_defaults(servers="vostok")
    parser.add_argument("--topics", type=int, default=1_000_000)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--queues", type=int, default=100_000, help="of a scrape; 0 for none (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=70, help="of messages beside a broker at rest (default: %(default)s)")
    chosen = parser.parse_args()
    stage.ready(f"{chosen.topics:,} topics, {chosen.groups:,} groups")
    results = Results(chosen.rounds)
    doctors(results, chosen)
    if chosen.queues:
        scrapes(results, chosen)
    if chosen.topics:
        with stage.Kept("vostok", chosen) as server:
            write_tables(server, chosen.topics, 8, chosen.groups)
            start(results, server, chosen, "with the tables alone")
            rate = fill(server.broker_port, chosen.topics, 1)
            results.add("filled", f"{rate:,.0f} messages/s")
            time.sleep(15)  # statistics have counted them
            resident(results, server, "memory after a message to each topic")
            results.time("runtime figures (28) after that", 100, lambda _: len(Connection(server.broker_port).ask(RUNTIME, {})))
            server.end(crash=True)  # a clean stop makes a directory and a file for each queue
            start(results, server, chosen, "with a message in each topic")
            stored(results, server, chosen)
            flow(results, server, chosen.seconds)
            requests(results, server, chosen)
            console(results, server, chosen)
            doctor_of_many(results, server)
            resident(results, server, "memory in the end")
    print()
    results.show()
    stage.save("scale", results.rows)


if __name__ == "__main__":
    sys.exit(main())
