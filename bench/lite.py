"""Lite topics over remoting: memory of a lite topic and of subscriptions, time from send to receive, CPU per message beside an ordered pop.

    python3 -m bench.lite                                                                     2,000 lite topics, 50 clients
    python3 -m bench.lite --topics 200000 --clients 1000 --rate 5000 --seconds 60

Every lite topic has one subscriber. Each client waits with one pop and acknowledges each message by itself. The ordered pop beside it is
the same load on a topic with as many queues as there are clients. Sends, pops and acknowledgements share a few connections of one Python
process, which is what limits the rate.
"""
import asyncio
import json
import random
import statistics
import struct
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

    def __init__(self, server, chosen, peers, is_lite):
        self.server, self.chosen, self.peers, self.is_lite = server, chosen, peers, is_lite
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

    async def until(self, count):
        end = time.perf_counter() + 60
        while self.received < count and time.perf_counter() < end:
            await asyncio.sleep(0.05)

    async def beside_clients(self, waiting):
        """The figures of the load with all clients, after `waiting` messages came, and how many of these came."""
        clients = [asyncio.create_task(self.consume(client)) for client in range(self.chosen.clients)]
        run = asyncio.create_task(self.run(waiting))
        # A client ends with an exception only.
        done, _ = await asyncio.wait([run, *clients], return_when=asyncio.FIRST_COMPLETED)
        for client in clients:
            client.cancel()
        return done.pop().result()

    async def run(self, waiting):
        await self.until(waiting)
        drained = self.received
        await self.paced(self.chosen.warm)
        return await self.paced(self.chosen.seconds), drained

    async def paced(self, seconds):
        """The figures of so many seconds at the chosen rate."""
        self.received, self.latencies = 0, []
        count, before, begin, running = max(2, int(self.chosen.rate * seconds)), measure.cpu_us(self.server.pid), time.perf_counter(), []
        for number in range(count):
            running.append(asyncio.create_task(self.send(random.randrange(self.chosen.topics) if self.is_lite else number)))
            await asyncio.sleep(max(0, begin + (number + 1) / self.chosen.rate - time.perf_counter()))
        await asyncio.gather(*running)
        await self.until(count)
        cpu, hundredths = measure.cpu_us(self.server.pid) - before, statistics.quantiles(self.latencies, n=100)
        return {"messages": self.received, "missing": count - self.received, "cpu_us": cpu / max(1, self.received), "p50_ms": hundredths[49],
                "p99_ms": hundredths[98], "rate": self.received / (time.perf_counter() - begin), "failures": self.failures}


async def measured(server, chosen):
    broker = f"127.0.0.1:{server.broker_port}"
    for name, kind in ((LITE, "LITE"), (ORDERED, "FIFO")):
        queues = 4 if kind == "LITE" else chosen.clients
        topics.ask(broker, 17, {"topic": name, "defaultTopic": "TBW102", "readQueueNums": queues, "writeQueueNums": queues, "perm": 6,
                                "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false", "attributes": f"+message.type={kind}"})
        topics.group(broker, GROUP + name, consumeMessageOrderly=True, attributes={"+lite.bind.topic": name} if kind == "LITE" else {})
    peers = [await Peer().open(server.broker_port) for _ in range(CONNECTIONS)]
    lite, ordered = Load(server, chosen, peers, True), Load(server, chosen, peers, False)

    def anonymous():
        return measure.resident(server.pid)["RssAnon"]

    empty = anonymous()
    await lite.fill()
    filled = anonymous()
    seconds = await lite.subscribe()
    figures = {"topic_bytes": (filled - empty) / chosen.topics, "subscription_bytes": (anonymous() - filled) / chosen.topics, "subscribe_s": seconds}
    figures["lite"], figures["drained"] = await lite.beside_clients(chosen.topics)
    figures["ordered"], _ = await ordered.beside_clients(0)
    return figures


def main():
    parser = stage.parser(__doc__)
    parser.add_argument("--topics", type=int, default=2_000, help="lite topics (default: %(default)s)")
    parser.add_argument("--clients", type=int, default=50, help="clients, which share out the lite topics (default: %(default)s)")
    parser.add_argument("--rate", type=float, default=500, help="messages per second (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--warm", type=float, default=5, help="seconds of load before the figures (default: %(default)s)")
    parser.add_argument("--size", type=int, default=200, help="bytes of a body (default: %(default)s)")
    chosen = parser.parse_args()
    stage.ready(f"{chosen.topics} lite topics, {chosen.clients} clients")
    conf = ["enableLmq=true", "enableMultiDispatch=true", "brokerName=broker-a", f"maxLmqConsumeQueueNum={chosen.topics * 2 + 20_000}",
            f"maxLiteSubscriptionCount={chosen.topics * 2 + 100_000}"]
    rows, results = [], {}
    for name in chosen.servers.split(","):
        with stage.Kept(name, chosen, conf=conf) as server:
            server.start()
            found = results[name] = asyncio.run(measured(server, chosen))
        for load in ("lite", "ordered"):
            one = found[load]
            rows.append([name, load, f"{one['rate']:,.0f}", f"{one['p50_ms']:.2f}", f"{one['p99_ms']:.2f}", f"{one['cpu_us']:.0f}",
                         stage.ratio(one["cpu_us"], found["ordered"]["cpu_us"]), one["missing"], one["failures"]])
        print(f"{name}: {found['topic_bytes']:,.0f} bytes of a lite topic with its queue and a message, {found['subscription_bytes']:,.0f} of a subscription, "
              f"subscribed in {found['subscribe_s']:.1f} s, {found['drained']:,} of {chosen.topics:,} drained", flush=True)
    stage.table(["server", "load", "msg/s", "p50 ms", "p99 ms", "CPU us/msg", "of ordered", "missing", "failed"], rows)
    stage.save("lite", results)


if __name__ == "__main__":
    main()
