"""Lite topics over remoting: memory of a lite topic and of subscriptions, time from send to receive, CPU per message beside an ordered pop.

    cargo build --release -p vostok-client --example lite_load
    python3 -m bench.lite                                                                     2,000 lite topics, 50 clients
    python3 -m bench.lite --topics 200000 --clients 1000 --rate 5000 --seconds 60
    python3 -m bench.lite --mode expiry --topics 100000        the expiry of all lite topics
    python3 -m bench.lite --mode wildcard --topics 200000      new lite topics of a wildcard group with full event sets

The load is `crates/client/examples/lite_load.rs`: every lite topic has one subscriber, each client waits with one pop and acknowledges each
message by itself. The ordered pop beside it is the same load on a topic with as many queues as there are clients. The load shares the machine
with the server.
"""
import json
import subprocess
import time
from pathlib import Path

from bench import children, measure, servers, stage
from tests.kit import topics

LITE, ORDERED, GROUP, WILDCARD = "bench_lite", "bench_ordered", "G_", "G_wildcard"
# Longest waits in seconds for the memory of the server to stay as it is, and for what expired lite topics leave to go.
SETTLE_S, CLEAN_S = 20, 60


class Load:
    """The load generator, one step at a time."""

    def __init__(self, server, chosen, **words):
        broker = {"broker": f"127.0.0.1:{server.broker_port}"}
        arguments = [str(word) for pair in (broker | words).items() for word in pair]
        self.log = open(stage.OUT / "lite-load.log", "ab")
        self.process = children.start([chosen.load, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True)

    def step(self, line):
        print(line, file=self.process.stdin, flush=True)
        result = self.process.stdout.readline()
        if not result:
            raise RuntimeError(f"the load ended at {line}: {(stage.OUT / 'lite-load.log').read_text(errors='replace')[-2000:]}")
        return json.loads(result)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(60)
        self.log.close()


def prepared(server, chosen):
    """Makes the topics and groups."""
    broker = f"127.0.0.1:{server.broker_port}"
    life = "+lite.topic.expiration=1," if chosen.mode == "expiry" else ""
    for name, queues, attributes in ((LITE, 4, f"{life}+message.type=LITE"), (ORDERED, chosen.clients, "+message.type=FIFO")):
        topics.ask(broker, 17, {"topic": name, "defaultTopic": "TBW102", "readQueueNums": queues, "writeQueueNums": queues, "perm": 6,
                                "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false", "attributes": attributes})
    topics.group(broker, GROUP + LITE, consumeMessageOrderly=True, attributes={"+lite.bind.topic": LITE})
    topics.group(broker, GROUP + ORDERED, consumeMessageOrderly=True)
    topics.group(broker, WILDCARD, consumeMessageOrderly=True,
                 attributes={"+lite.bind.topic": LITE, "+lite.sub.wildcard": "true", "+lite.sub.client.max.event.cnt": "10"})
    return {"topic": LITE, "group": GROUP + LITE, "kind": "lite", "topics": chosen.topics, "clients": chosen.clients, "rate": chosen.rate, "size": chosen.size,
            "quiet": chosen.quiet}


def anonymous(server):
    """Anonymous memory of the server, when it no longer changes."""
    # Work in the background of a load begins some seconds later.
    time.sleep(8)
    before, end = 0, time.monotonic() + SETTLE_S
    while (now := measure.resident(server.pid)["RssAnon"]) != before and time.monotonic() < end:
        before = now
        time.sleep(2)
    return now


def files(server):
    """Files of lite queues on disk. The queues of the parent topic, which have all messages as well, are not counted."""
    root = server.work / ("store" if server.name == "java" else "data") / "consumequeue"
    return sum(path.is_file() for path in root.glob("%LMQ%*/*/*"))


def named(server):
    """Number of times that lite topics stand in the files of offsets."""
    return sum(path.read_text().count(f"%LMQ%${LITE}$") for path in server.work.rglob("*onsumerOffset.json"))


def loaded(server, load, chosen):
    """The figures of a load."""
    drained = load.step("consume")
    load.step(f"load {chosen.warm}")
    idle, cpu, began = anonymous(server), measure.cpu_us(server.pid), time.perf_counter()
    found = load.step(f"load {chosen.seconds}")
    cpu, wall = measure.cpu_us(server.pid) - cpu, time.perf_counter() - began
    return found | {"drained": drained["received"], "idle": idle, "cpu_us": cpu / max(1, found["received"]), "rate": found["sent"] / found["seconds"],
                    "cpu_share": cpu / wall / 1e6, "missing": found["sent"] - found["received"]}


def measured(server, chosen):
    words = prepared(server, chosen)
    figures, empty = {}, anonymous(server)
    with Load(server, chosen, **words) as load:
        figures["filled"] = load.step("fill")
        filled = anonymous(server)
        figures["subscribed"] = load.step("subscribe")
        subscribed = anonymous(server)
        lite = loaded(server, load, chosen)
    with Load(server, chosen, **words | {"topic": ORDERED, "group": GROUP + ORDERED, "kind": "ordered"}) as load:
        ordered = loaded(server, load, chosen)
    sizes = {"topic": filled - empty, "subscription": subscribed - filled, "offset": lite["idle"] - subscribed}
    figures |= {f"{name}_bytes": size / chosen.topics for name, size in sizes.items()}
    print(f"{server.name}: bytes of an idle lite topic: {figures['topic_bytes']:,.0f} with queue and message; beside them "
          f"{figures['subscription_bytes']:,.0f} of the subscription and {figures['offset_bytes']:,.0f} of the offset. Filled in "
          f"{figures['filled']['seconds']:.1f} s, subscribed in {figures['subscribed']['seconds']:.1f} s, {lite['drained']:,} of {chosen.topics:,} drained",
          flush=True)
    for name, found in (("lite", lite), ("ordered", ordered)):
        times = found["times"]
        chosen.rows.append([server.name, name, f"{found['rate']:,.0f}", *(f"{times[key] or -1:.2f}" for key in ("p50", "p99", "p999", "max")),
                            f"{found['cpu_us']:.0f}", stage.ratio(found["cpu_us"], ordered["cpu_us"]), found["missing"], found["failures"]])
    return figures | {"lite": lite, "ordered": ordered}


def expired(server, chosen):
    """Times of sends to another topic while all lite topics expire, a minute after their messages. The group consumes all of them before."""
    words = prepared(server, chosen)
    with Load(server, chosen, **words) as load:
        load.step("fill")
        load.step("subscribe")
        drained = load.step("consume")["received"]
    with Load(server, chosen, **words | {"topic": ORDERED, "kind": "ordered", "expires": LITE}) as load:
        found = load.step("expire")
    # The next save of the offsets, and the removal of files in the background.
    end = time.monotonic() + CLEAN_S
    while (offsets := named(server)) + files(server) > 0 and time.monotonic() < end:
        time.sleep(1)
    during, before = found["times"], found["before"]
    print(f"{server.name}: {chosen.topics:,} lite topics ({drained:,} consumed) expired in {found['seconds']:.0f} s. Of {during['count']:,} sends meanwhile 99.9 % "
          f"took at most {during['p999']:.2f} ms, the longest {during['max']:.2f} ms; before, {before['p999']:.2f} ms and {before['max']:.2f} ms. "
          f"Left: {files(server):,} files of lite queues, {offsets} names in the files of offsets", flush=True)
    return found | {"files": files(server), "offsets": offsets}


def woken(server, chosen):
    """Time from send to receive of new lite topics, which a wildcard group with event sets of 10 gets."""
    words = prepared(server, chosen)
    with Load(server, chosen, **words | {"topics": chosen.topics}) as load:
        load.step("fill")
    with Load(server, chosen, **words | {"group": WILDCARD, "kind": "new", "clients": 2, "rate": chosen.rate, "burst": chosen.burst}) as load:
        drained = load.step("consume")
        load.step(f"load {chosen.warm}")
        found = load.step(f"load {chosen.seconds}")
    times = found["times"]
    print(f"{server.name}: {drained['received']:,} of {chosen.topics:,} lite topics before in {drained['seconds']:.1f} s; then {found['sent']:,} new ones, {chosen.burst} at once, "
          f"for two clients with 10 events each: p50 {times['p50']:.2f} ms, p99 {times['p99']:.2f} ms, longest {times['max']:.2f} ms, {times['above_100']} above 100 ms; "
          f"missing {found['sent'] - found['received']}", flush=True)
    return found


def main():
    parser = stage.parser(__doc__)
    parser.add_argument("--mode", default="load", choices=["load", "expiry", "wildcard"], help="what is measured (default: %(default)s)")
    parser.add_argument("--topics", type=int, default=2_000, help="lite topics (default: %(default)s)")
    parser.add_argument("--clients", type=int, default=50, help="clients, which share out the lite topics (default: %(default)s)")
    parser.add_argument("--rate", type=int, default=500, help="messages per second (default: %(default)s)")
    parser.add_argument("--burst", type=int, default=100, help="new lite topics at once with --mode wildcard (default: %(default)s)")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--warm", type=int, default=5, help="seconds of load before the figures (default: %(default)s)")
    parser.add_argument("--quiet", type=int, default=60, help="seconds without a message after which missing messages are given up (default: %(default)s)")
    parser.add_argument("--size", type=int, default=200, help="bytes of a body (default: %(default)s)")
    parser.add_argument("--load", type=Path, default=servers.VOSTOK.parent / "examples" / "lite_load", help="the load generator (default: %(default)s)")
    chosen = parser.parse_args()
    stage.ready(f"{chosen.topics} lite topics, {chosen.clients} clients")
    chosen.rows = []
    conf = ["enableLmq=true", "enableMultiDispatch=true", "brokerName=broker-a", f"maxLmqConsumeQueueNum={chosen.topics * 2 + 1_000_000}",
            f"maxLiteSubscriptionCount={chosen.topics * 2 + 100_000}"]
    conf += ["minLiteTTl=1000", "liteTtlCheckInterval=1000"] if chosen.mode == "expiry" else []
    run, results = {"load": measured, "expiry": expired, "wildcard": woken}[chosen.mode], {}
    for name in chosen.servers.split(","):
        with stage.Kept(name, chosen, conf=conf) as server:
            server.start()
            results[name] = run(server, chosen)
    if chosen.rows:
        stage.table(["server", "load", "msg/s", "p50 ms", "p99 ms", "p99.9 ms", "max ms", "CPU us/msg", "of ordered", "missing", "failed"], chosen.rows)
    stage.save(f"lite-{chosen.mode}", results)


if __name__ == "__main__":
    main()
