"""Lite topics over remoting: memory of a lite topic and of subscriptions, time from send to receive, CPU per message beside an ordered pop.

    python3 -m bench.lite                                                                     2,000 lite topics, 50 clients
    python3 -m bench.lite --topics 200000 --clients 1000 --rate 5000 --seconds 60 --processes 4
    python3 -m bench.lite --expire --topics 100000        the expiry of all lite topics

Every lite topic has one subscriber. Each client waits with one pop and acknowledges each message by itself. The ordered pop beside it is
the same load on a topic with as many queues as there are clients. Sends, pops and acknowledgements share a few connections of each Python
process. The processes share the machine with the server, which limits the rate.
"""
import asyncio
import json
import multiprocessing
import random
import statistics
import struct
import threading
import time

from bench import measure, stage
from tests.kit import topics

LITE, ORDERED, GROUP = "bench_lite", "bench_ordered", "G_"
# Offset of the length of the body in a record with IPv4 addresses, and places of the queue id and the queue offset.
BODY, QUEUE_ID, QUEUE_OFFSET = 84, 12, 20
WINDOW, CONNECTIONS, POLL_MS, INVISIBLE_MS = 64, 8, 15_000, 60_000


class Peer:
    """A connection with many requests in flight."""

    async def open(self, port):
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
        self.waiting, self.opaque = {}, 0
        self.task = asyncio.create_task(self._read())
        return self

    def call(self, code, fields, body=b""):
        self.opaque += 1
        head = {"code": code, "language": "OTHER", "version": 0, "opaque": self.opaque, "flag": 0,
                "extFields": {key: str(value) for key, value in fields.items()}}
        head = json.dumps(head).encode()
        self.writer.write(struct.pack(">ii", 4 + len(head) + len(body), len(head)) + head + body)
        self.waiting[self.opaque] = answer = asyncio.get_running_loop().create_future()
        return answer

    async def _read(self):
        while True:
            size, length = struct.unpack(">ii", await self.reader.readexactly(8))
            frame = await self.reader.readexactly(size - 4)
            head = json.loads(frame[:length & 0xFFFFFF])
            waiting = self.waiting.pop(head["opaque"], None)
            if waiting and not waiting.done():
                waiting.set_result((head["code"], head.get("extFields") or {}, frame[length & 0xFFFFFF:]))


def records(body):
    """Queue id, queue offset, body and properties of each record."""
    at = 0
    while at < len(body):
        size = struct.unpack_from(">i", body, at)[0]
        queue, (offset,) = struct.unpack_from(">i", body, at + QUEUE_ID)[0], struct.unpack_from(">q", body, at + QUEUE_OFFSET)
        length = struct.unpack_from(">i", body, at + BODY)[0]
        after = at + BODY + 4 + length
        properties = body[after + 1 + body[after] + 2:at + size].decode()
        yield queue, offset, body[at + BODY + 4:after], dict(pair.split("\1") for pair in properties.split("\2") if pair)
        at += size


class Load:
    """Clients that wait, receive and acknowledge, and a producer."""

    def __init__(self, chosen, peers, is_lite):
        self.chosen, self.peers, self.is_lite = chosen, peers, is_lite
        self.topic = LITE if is_lite else ORDERED
        self.group = GROUP + self.topic
        self.received, self.latencies, self.failures = 0, [], 0

    def peer(self, client):
        return self.peers[client % CONNECTIONS]

    async def send(self, number):
        properties, queue = f"UNIQ_KEY\1{number:032X}\2", random.randrange(self.chosen.clients)
        if self.is_lite:
            properties, queue = properties + f"__LITE_TOPIC\1s{number % self.chosen.topics}\2", 0
        fields = {"producerGroup": "PG", "topic": self.topic, "defaultTopic": "TBW102", "defaultTopicQueueNums": 4, "queueId": queue, "sysFlag": 0,
                  "bornTimestamp": int(time.time() * 1000), "flag": 0, "properties": properties, "reconsumeTimes": 0, "unitMode": "false",
                  "batch": "false"}
        body = struct.pack(">q", time.perf_counter_ns()) + bytes(self.chosen.size)
        # A busy broker refuses. The time until the message is stored is part of its latency.
        while (await self.peer(number).call(10, fields, body))[0] != 0:
            self.failures += 1
            await asyncio.sleep(0.05)

    async def consume(self, client):
        """Receives and acknowledges for ever."""
        fields = {"consumerGroup": self.group, "topic": self.topic, "invisibleTime": INVISIBLE_MS, "pollTime": POLL_MS}
        fields |= {"clientId": f"c{client}", "maxMsgNum": 32} if self.is_lite else {
            "queueId": -1, "maxMsgNums": 32, "initMode": 0, "expType": "TAG", "exp": "*", "order": "true"}
        while True:
            now_ms = int(time.time() * 1000)
            code, head, body = await self.peer(client).call(200070 if self.is_lite else 200050, fields | {"bornTime": now_ms})
            if code != 0:
                await asyncio.sleep(0 if code == 210 else 0.1)
                continue
            arrived = time.perf_counter_ns()
            starts = dict(entry.split(" ")[1:3] for entry in head.get("startOffsetInfo", "").split(";") if entry)
            for queue, offset, content, properties in records(body):
                self.received += 1
                self.latencies.append((arrived - struct.unpack_from(">q", content)[0]) / 1e6)
                named = {}
                if self.is_lite:
                    queue, offset, named = 0, int(properties["INNER_MULTI_QUEUE_OFFSET"]), {"liteTopic": properties["__LITE_TOPIC"]}
                handle = f"{starts.get(str(queue), 0)} {head['popTime']} {head['invisibleTime']} {head['reviveQid']} 0 broker-a {queue} {offset}"
                acked, _, _ = await self.peer(client).call(200051, {"consumerGroup": self.group, "topic": self.topic, "queueId": queue,
                                                                    "extraInfo": handle, "offset": offset} | named)
                self.failures += acked != 0

    async def subscribe(self):
        """Seconds that the subscriptions of all clients take."""
        begin = time.perf_counter()
        for client in range(self.chosen.clients):
            names = [f"s{number}" for number in range(client, self.chosen.topics, self.chosen.clients)]
            change = {"action": "COMPLETE_ADD", "clientId": f"c{client}", "group": self.group, "topic": self.topic, "liteTopicSet": names, "version": 1}
            code, _, _ = await self.peer(client).call(200071, {}, json.dumps({"subscriptionSet": [change]}).encode())
            self.failures += code != 0
        return time.perf_counter() - begin

    async def fill(self):
        """Sends one message to every lite topic."""
        for first in range(0, self.chosen.topics, WINDOW):
            await asyncio.gather(*(self.send(number) for number in range(first, min(first + WINDOW, self.chosen.topics))))

    async def quiet(self):
        """Waits until no message has come for two seconds."""
        before = -1
        while before < self.received:
            before = self.received
            await asyncio.sleep(2)

    async def part(self, index, meet):
        """The share of one process: its clients, and its part of the rate. `meet` waits for the other processes and for the measurement."""
        clients = [asyncio.create_task(self.consume(client)) for client in range(index, self.chosen.clients, self.chosen.processes)]
        run = asyncio.create_task(self.run(meet))
        # A client ends with an exception only.
        done, _ = await asyncio.wait([run, *clients], return_when=asyncio.FIRST_COMPLETED)
        for client in clients:
            client.cancel()
        return done.pop().result()

    async def run(self, meet):
        await self.quiet()
        drained = self.received
        await self.send_paced(self.chosen.warm)
        await meet()
        self.received, self.latencies, self.failures = 0, [], 0
        sent = await self.send_paced(self.chosen.seconds)
        await self.quiet()
        await meet()
        return {"drained": drained, "sent": sent, "received": self.received, "latencies": self.latencies, "failures": self.failures}

    async def send_paced(self, seconds):
        """Sends for so many seconds at the rate of this process, and returns the number of messages."""
        rate = self.chosen.rate / self.chosen.processes
        count, begin, running = max(2, int(rate * seconds)), time.perf_counter(), []
        for number in range(count):
            running.append(asyncio.create_task(self.send(random.randrange(self.chosen.topics) if self.is_lite else number)))
            await asyncio.sleep(max(0, begin + (number + 1) / rate - time.perf_counter()))
        await asyncio.gather(*running)
        return count


def work(port, chosen, index, is_lite, barrier, results):
    """Body of a process of the load."""
    async def run():
        peers = [await Peer().open(port) for _ in range(CONNECTIONS)]
        meet = asyncio.get_running_loop().run_in_executor
        return await Load(chosen, peers, is_lite).part(index, lambda: meet(None, barrier.wait))

    try:
        results.put(asyncio.run(run()))
    except BaseException as failure:
        barrier.abort()
        results.put({"failure": repr(failure)})


def loaded(server, chosen, is_lite):
    """The figures of the load, and how many of the waiting messages came."""
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(chosen.processes + 1), context.Queue()
    processes = [context.Process(target=work, args=(server.broker_port, chosen, index, is_lite, barrier, results)) for index in range(chosen.processes)]
    for process in processes:
        process.start()
    try:
        barrier.wait()
        before, begin = measure.cpu_us(server.pid), time.perf_counter()
        barrier.wait()
        cpu, seconds = measure.cpu_us(server.pid) - before, time.perf_counter() - begin
    except threading.BrokenBarrierError:
        cpu, seconds = 0, 1
    parts = [results.get() for _ in processes]
    for process in processes:
        process.join()
    failures = [part["failure"] for part in parts if "failure" in part]
    if failures:
        raise RuntimeError(failures)
    total = {key: sum(part[key] for part in parts) for key in ("drained", "sent", "received", "failures")}
    hundredths = statistics.quantiles([latency for part in parts for latency in part["latencies"]], n=100)
    # Two seconds without messages end the load.
    rate = total["received"] / max(1, seconds - 2)
    return {"messages": total["received"], "missing": total["sent"] - total["received"], "cpu_us": cpu / max(1, total["received"]),
            "p50_ms": hundredths[49], "p99_ms": hundredths[98], "rate": rate, "failures": total["failures"]}, total["drained"]


async def expired(server, chosen):
    """Times of sends to another topic while all lite topics expire, a minute after their messages."""
    broker = f"127.0.0.1:{server.broker_port}"
    for name, attributes in ((LITE, "+message.type=LITE,+lite.topic.expiration=1"), (ORDERED, "+message.type=NORMAL")):
        topics.ask(broker, 17, {"topic": name, "defaultTopic": "TBW102", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6,
                                "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false", "attributes": attributes})
    lite = Load(chosen, [await Peer().open(server.broker_port) for _ in range(CONNECTIONS)], True)
    await lite.fill()
    producer, asking, times, counts = Load(chosen, [await Peer().open(server.broker_port)] * CONNECTIONS, False), lite.peer(0), [], []

    async def count():
        _, _, body = await asking.call(200075, {"topic": LITE})
        return json.loads(body)["liteTopicCount"]

    async def send():
        while True:
            begin = time.perf_counter()
            await producer.send(0)
            times.append((begin, (time.perf_counter() - begin) * 1000))
            await asyncio.sleep(0.001)

    sending = asyncio.create_task(send())
    while not counts or counts[-1][1]:
        await asyncio.sleep(1)
        counts.append((time.perf_counter(), await count()))
    sending.cancel()
    begin = max(at for at, left in counts if left == counts[0][1])
    during, before = ([took for at, took in times if (at >= begin) == wanted] for wanted in (True, False))
    return {"seconds": counts[-1][0] - begin, "sends": len(during), "p999_ms": statistics.quantiles(during, n=1000)[998], "max_ms": max(during),
            "before_p999_ms": statistics.quantiles(before, n=1000)[998], "failures": producer.failures}


async def measured(server, chosen):
    broker = f"127.0.0.1:{server.broker_port}"
    for name, kind in ((LITE, "LITE"), (ORDERED, "FIFO")):
        queues = 4 if kind == "LITE" else chosen.clients
        topics.ask(broker, 17, {"topic": name, "defaultTopic": "TBW102", "readQueueNums": queues, "writeQueueNums": queues, "perm": 6,
                                "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false", "attributes": f"+message.type={kind}"})
        topics.group(broker, GROUP + name, consumeMessageOrderly=True, attributes={"+lite.bind.topic": name} if kind == "LITE" else {})
    peers = [await Peer().open(server.broker_port) for _ in range(CONNECTIONS)]
    lite = Load(chosen, peers, True)

    def anonymous():
        return measure.resident(server.pid)["RssAnon"]

    empty = anonymous()
    await lite.fill()
    filled = anonymous()
    seconds = await lite.subscribe()
    figures = {"topic_bytes": (filled - empty) / chosen.topics, "subscription_bytes": (anonymous() - filled) / chosen.topics, "subscribe_s": seconds}
    subscribed = anonymous()
    figures["lite"], figures["drained"] = loaded(server, chosen, True)
    figures["offset_bytes"] = (anonymous() - subscribed) / chosen.topics
    figures["ordered"], _ = loaded(server, chosen, False)
    return figures


def main():
    parser = stage.parser(__doc__)
    parser.add_argument("--topics", type=int, default=2_000, help="lite topics (default: %(default)s)")
    parser.add_argument("--clients", type=int, default=50, help="clients, which share out the lite topics (default: %(default)s)")
    parser.add_argument("--rate", type=float, default=500, help="messages per second (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--processes", type=int, default=1, help="processes of the load (default: %(default)s)")
    parser.add_argument("--warm", type=float, default=5, help="seconds of load before the figures (default: %(default)s)")
    parser.add_argument("--size", type=int, default=200, help="bytes of a body (default: %(default)s)")
    parser.add_argument("--expire", action="store_true", help="instead, times of sends while all lite topics expire")
    chosen = parser.parse_args()
    stage.ready(f"{chosen.topics} lite topics, {chosen.clients} clients")
    conf = ["enableLmq=true", "enableMultiDispatch=true", "brokerName=broker-a", f"maxLmqConsumeQueueNum={chosen.topics * 2 + 20_000}",
            f"maxLiteSubscriptionCount={chosen.topics * 2 + 100_000}"]
    conf += ["minLiteTTl=1000", "liteTtlCheckInterval=1000"] if chosen.expire else []
    rows, results = [], {}
    for name in chosen.servers.split(","):
        with stage.Kept(name, chosen, conf=conf) as server:
            server.start()
            if chosen.expire:
                found = results[name] = asyncio.run(expired(server, chosen))
                print(f"{name}: {chosen.topics:,} lite topics expired in {found['seconds']:.0f} s. Of {found['sends']:,} sends meanwhile 99.9 % took at "
                      f"most {found['p999_ms']:.2f} ms, the longest {found['max_ms']:.2f} ms; before, 99.9 % took {found['before_p999_ms']:.2f} ms")
                continue
            found = results[name] = asyncio.run(measured(server, chosen))
        for load in ("lite", "ordered"):
            one = found[load]
            rows.append([name, load, f"{one['rate']:,.0f}", f"{one['p50_ms']:.2f}", f"{one['p99_ms']:.2f}", f"{one['cpu_us']:.0f}",
                         stage.ratio(one["cpu_us"], found["ordered"]["cpu_us"]), one["missing"], one["failures"]])
        print(f"{name}: {found['topic_bytes']:,.0f} bytes of a lite topic with its queue and a message, {found['subscription_bytes']:,.0f} of a subscription, "
              f"{found['offset_bytes']:,.0f} more after the load, "
              f"subscribed in {found['subscribe_s']:.1f} s, {found['drained']:,} of {chosen.topics:,} drained", flush=True)
    if chosen.expire:
        return
    stage.table(["server", "load", "msg/s", "p50 ms", "p99 ms", "CPU us/msg", "of ordered", "missing", "failed"], rows)
    stage.save("lite", results)


if __name__ == "__main__":
    main()
