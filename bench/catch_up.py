"""How far slaves are behind under load, and how fast one that was away catches up: from the master's memory, and with cold caches.

    python3 -m bench.catch_up                                  Vostok and Java, 2 GB
    python3 -m bench.catch_up --gb 8 --servers vostok

Lag is a time: how long ago the master's log ended where the slave's ends, asked of both in turn at 70 % of the ceiling that master and slave
reach together, which is the messages of a full load by the time until the slave has them. While a slave catches up, producers send on at
`--share` of that ceiling, in an open loop; their p99 counts from the intended send time. The slave has a machine of its own elsewhere: here it
gets the processor time that master and producers leave. The disk's rate is that of `dd`, which reads the master's log directly and writes it
once more, as master and slave on one disk do. Cold needs root, to drop caches.
"""
import bisect
import os
import subprocess
import time

from bench import stage
from bench.groups import Group

LAG_LOAD, LAG_P99_MS, MEMORY_MB, DISK_SHARE, PRODUCER_P99 = 0.7, 5, 1000, 0.7, 1.1


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def position(positions, end):
    """When the log ended at `end` last, by (time, end) of the master; between two of them it grew evenly."""
    index = bisect.bisect_right(positions, end, key=lambda one: one[1])
    if index == 0 or index == len(positions):
        return None
    (before, low), (after, high) = positions[index - 1], positions[index]
    return before + (after - before) * (end - low) / (high - low)


def lags(group, lab):
    """Milliseconds the slave was behind, sampled until the load ends."""
    master, slave = [], []
    while lab.process.poll() is None:
        for server, found in ((group, master), (group.slaves[0], slave)):
            found.append((stage.CLOCK(), stage.log_end(server)))
        time.sleep(0.005)
    times = [(asked, position(master, end)) for asked, end in slave]
    return [max(0.0, asked - then) * 1000 for asked, then in times if then is not None]


def copied(group, limit):
    """MB/s at which the disk reads the log and writes it once more."""
    first, copy = min(group.commit_log.iterdir()), group.work / "copy"
    count = max(1, min(first.stat().st_size, limit) >> 20)
    began = stage.CLOCK()
    subprocess.run(["dd", f"if={first}", f"of={copy}", "bs=1M", f"count={count}", "iflag=direct", "oflag=direct"], check=True, stderr=subprocess.DEVNULL)
    seconds = stage.CLOCK() - began
    copy.unlink()
    return (count << 20) / seconds / 1e6


def caught_up(group, patience):
    """A slave comes back beside the load: MB/s from the first bytes it gets until it has what its master has."""
    [slave] = group.slaves
    slave.start(nice=10)
    begin = stage.log_end(slave)
    while stage.log_end(slave) == begin:
        time.sleep(0.001)
    began, begin = stage.CLOCK(), stage.log_end(slave)
    while (missing := stage.log_end(group) - (end := stage.log_end(slave))) > 1 << 20:
        if stage.CLOCK() - began > patience:
            raise RuntimeError(f"{group.name}: a slave lacks {missing} bytes after {patience} s")
        time.sleep(0.002)
    return (end - begin) / (stage.CLOCK() - began) / 1e6


def beside(group, chosen, ceiling, cold):
    """The producers' p99 alone and beside a slave that lacks so much, how fast that catches up, and the rate of the disk."""
    group.await_slaves(chosen.patience)
    group.slaves[0].end()
    stage.produce(group, s=chosen.size, queues=8, w=200, q=int(chosen.gb * 1e9 / ceiling["bytes_per_message"]))
    load = {"s": chosen.size, "queues": 8, "w": 2000, "rate": round(ceiling["tps"] * chosen.share)}
    disk = 0.0
    if cold:
        stage.drop_caches()
        disk = copied(group, int(chosen.gb * 1e9))
    alone = stage.produce(group, **load, duration=chosen.seconds)
    if cold:
        stage.drop_caches()
    producers = stage.Lab(group, "producer", t="bench", cores=1, **load)
    time.sleep(1)
    speed = caught_up(group, chosen.patience)
    during = producers.stop()
    return {"mb": speed, "disk": disk, "p99_alone": alone["latency_us"]["p99"], "p99_during": during["latency_us"]["p99"]}


def run(name, chosen):
    with Group(name, chosen, "async", False, 1) as group:
        group.start()
        load = {"s": chosen.size, "queues": 8, "w": 200}
        stage.warmed(group, chosen, 3, **load)
        group.await_slaves(chosen.patience)
        ceiling = stage.measured(group, **load, duration=5)
        ceiling["tps"] *= 5 / (5 + group.await_slaves(chosen.patience))
        rate = round(ceiling["tps"] * LAG_LOAD)
        # What the full load left in memory would have the kernel hold up both writers of this disk.
        os.sync()
        found = lags(group, stage.Lab(group, "producer", t="bench", cores=1, s=chosen.size, queues=8, w=2000, rate=rate, duration=chosen.seconds))
        memory = beside(group, chosen, ceiling, cold=False)
        cold = beside(group, chosen, ceiling, cold=True)
    return {"server": name, "rate": rate, "lag_p50_ms": percentile(found, 0.5), "lag_p99_ms": percentile(found, 0.99), "samples": len(found),
            "memory": memory, "cold": cold}


def main():
    parser = stage.parser(__doc__)
    parser.add_argument("--gb", type=float, default=2, help="of log that a slave lacks (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=10, help="of each load (default: %(default)s)")
    parser.add_argument("--size", type=int, default=1024, help="body bytes (default: %(default)s)")
    parser.add_argument("--share", type=float, default=0.2, help="of the ceiling, beside a slave that catches up (default: %(default)s)")
    parser.add_argument("--patience", type=float, default=600)
    chosen = parser.parse_args()
    stage.ready(f"lag, and catching up {chosen.gb:g} GB")
    stage.need_disk(chosen.gb * 5e9 + 8e9)
    results = [run(name, chosen) for name in chosen.servers.split(",")]
    rows = []
    for one in results:
        rows.append([one["server"], f"{one['rate']:,}", f"{one['lag_p50_ms']:.2f}", f"{one['lag_p99_ms']:.2f}"])
        for label in ("memory", "cold"):
            rows[-1] += [f"{one[label]['mb']:,.0f}", stage.ratio(one[label]["p99_during"], one[label]["p99_alone"])]
        rows[-1] += [f"{one['cold']['disk']:,.0f}", stage.ratio(one["cold"]["mb"], one["cold"]["disk"])]
    stage.table(["server", "rate", "lag p50 ms", "p99", "MB/s memory", "p99 of alone", "MB/s cold", "p99 of alone", "disk MB/s", "cold of disk"], rows)
    print(f"targets: lag p99 {LAG_P99_MS} ms, {MEMORY_MB} MB/s from memory, {DISK_SHARE} of the disk, producers' p99 {PRODUCER_P99} of alone")
    stage.save("catch-up", results)


if __name__ == "__main__":
    main()
