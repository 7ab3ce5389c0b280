"""Does a backlog cost the producers anything: two groups drain it cold while producers go on at a fixed rate.

    python3 -m bench.backlog                                   1 GB, 10 s before and after
    python3 -m bench.backlog --gb 20 --seconds 60

Per server: the ceiling is found (closed loop), then the backlog is filled, caches are dropped (needs root), and producers send at
half the ceiling in an open loop - before, while two groups drain everything, and after. Latency counts from the intended send
time. Beside it: the disk's sequential read rate (dd of the same log, direct) and one TCP stream over loopback, in the same run.
The drain's rate is stored bytes of both groups' messages up to the moment each had the backlog; `disk MB/s` is what that needs when
the log is read once for both.
"""
import time

from bench import stage


GROUPS = ("drain_a", "drain_b")


def newest_pull_end(server, queues):
    return sum(int(stage.ask(server.broker_port, 30, {"topic": "bench", "queueId": str(queue)})[2]["offset"]) for queue in range(queues))


def consumed(server, group, queues):
    """Messages behind the group's stored offsets."""
    total = 0
    for queue in range(queues):
        code, _, fields = stage.ask(server.broker_port, 14, {"consumerGroup": group, "topic": "bench", "queueId": str(queue)})
        total += int(fields["offset"]) if code == 0 else 0
    return total


def drain(server, chosen, backlog):
    """Two consumers until both have what was there; returns the seconds and the consumers' results."""
    # New groups of a large log begin at its end, so that these say where they begin.
    for group in GROUPS:
        for queue in range(chosen.queues):
            stage.ask(server.broker_port, 15, {"consumerGroup": group, "topic": "bench", "queueId": str(queue), "commitOffset": "0"})
    # Consumers have machines of their own; here they only get the processor time that server and producers leave.
    tools = [stage.Lab(server, "consumer", nice=10, t="bench", g=group, w=4) for group in GROUPS]
    began, peak = stage.CLOCK(), 0
    while any(consumed(server, group, chosen.queues) < backlog for group in GROUPS):
        peak = max(peak, stage.footprint(server)["rss"]["VmRSS"])
        time.sleep(0.5)
        if stage.CLOCK() - began > chosen.patience:
            raise RuntimeError(f"{server.name} did not drain {backlog:,} messages within {chosen.patience} s")
    results = [tool.stop() for tool in tools]
    return results, peak, stage.CLOCK() - began


def drained_after(series, backlog):
    """Seconds until so many messages were received, from the counts of every second."""
    count = 0
    for second, received in enumerate(series):
        if count + received >= backlog:
            return second + (backlog - count) / max(1, received)
        count += received
    return float(len(series))


def phase(server, chosen, rate, seconds):
    return stage.measured(server, s=chosen.size, queues=chosen.queues, w=2000, rate=rate, duration=seconds)


def run(name, chosen):
    with stage.Kept(name, chosen) as server:
        server.start()
        load = {"s": chosen.size, "queues": chosen.queues, "w": 200}
        warming = stage.warmed(server, chosen, chosen.warm, **load)
        ceiling = stage.measured(server, **load, duration=5)
        stored = ceiling["bytes_per_message"]
        stage.produce(server, **load, q=max(1, int(chosen.gb * 1e9 / stored)))
        rate = chosen.rate or round(ceiling["tps"] / 2)
        stage.drop_caches()
        first = min(server.commit_log.iterdir())
        disk = stage.sequential_read(first, min(first.stat().st_size, int(chosen.gb * 1e9)))
        stage.drop_caches()
        before = phase(server, chosen, rate, chosen.seconds)
        backlog = newest_pull_end(server, chosen.queues)
        stage.drop_caches()
        cpu = stage.measure.cpu_us(server.pid)
        producers = stage.Lab(server, "producer", t="bench", s=chosen.size, queues=chosen.queues, w=2000, rate=rate)
        consumers, peak, seconds = drain(server, chosen, backlog)
        during = producers.stop()
        cpu = stage.measure.cpu_us(server.pid) - cpu
        after = phase(server, chosen, rate, chosen.seconds)
    last = max(drained_after(one["series"], backlog) for one in consumers)
    return {"server": name, "ceiling": ceiling["tps"], "rate": rate, "before": before, "during": during, "after": after, "backlog": backlog,
            "stored": stored, "seconds": last, "group_mb": backlog * stored / last / 1e6, "disk": disk, "loopback": stage.loopback(), "peak_rss": peak,
            "drain_cores": cpu / 1e6 / seconds, "warming": warming}


def main():
    parser = stage.parser(__doc__)
    parser.add_argument("--gb", type=float, default=1)
    parser.add_argument("--seconds", type=float, default=10, help="of the phases before and after")
    parser.add_argument("--size", type=int, default=1024, help="body bytes (default: %(default)s)")
    parser.add_argument("--queues", type=int, default=16)
    parser.add_argument("--rate", type=float, help="messages per second instead of half the ceiling")
    parser.add_argument("--warm", type=float, default=5)
    parser.add_argument("--patience", type=float, default=3600)
    chosen = parser.parse_args()
    stage.ready(f"backlog of {chosen.gb:g} GB")
    stage.need_disk(chosen.gb * 2.5e9 + 8e9)
    results = []
    for name in chosen.servers.split(","):
        results.append(run(name, chosen))
        print(f"{name}: {results[-1]['backlog']:,} messages for two groups in {results[-1]['seconds']:.1f} s", flush=True)
    print()
    rows = []
    for one in results:
        for label in ("before", "during", "after"):
            result = one[label]
            rows.append([one["server"], label, f"{one['rate']:,.0f}", f"{result['tps']:,.0f}", stage.ratio(result["tps"], one["before"]["tps"]),
                         f"{result['latency_us']['p50']:,.0f}", f"{result['latency_us']['p999']:,.0f}",
                         stage.ratio(result["latency_us"]["p999"], one["before"]["latency_us"]["p999"]), result["failures"]])
    stage.table(["server", "phase", "rate", "TPS", "of before", "p50 us", "p99.9 us", "of before", "failed"], rows)
    print()
    stage.table(["server", "ceiling TPS", "backlog", "s", "MB/s each group", "MB/s sent", "disk MB/s", "of disk", "loopback MB/s", "peak RSS MB", "cores"],
                [[one["server"], f"{one['ceiling']:,.0f}", f"{one['backlog']:,}", f"{one['seconds']:.1f}", f"{one['group_mb']:,.0f}", f"{2 * one['group_mb']:,.0f}",
                  f"{one['disk']:,.0f}", stage.ratio(one["group_mb"], one["disk"]), f"{one['loopback']:,.0f}", f"{one['peak_rss'] >> 20:,}", f"{one['drain_cores']:.2f}"]
                 for one in results])
    stage.save("backlog", results)


if __name__ == "__main__":
    main()
