"""Sync flush: TPS, flushes and how many messages share one, beside what the disk reaches for the same writes.

    python3 -m bench.sync                                      1, 30 and 200 requests in flight
    python3 -m bench.sync --seconds 30

`flushes` are calls of fdatasync (msync for Java), counted by the broker where it says so and by strace where that is installed.
The yardstick writes groups of the same bytes into a file that was written before, one fdatasync each, with fio where that is
installed: what it reaches times the size of a group is the TPS the disk allows. With one request in flight the disk waits
for the round trip of the request and the other way round: then the yardstick is one flush and one round trip to the bare echo.
"""
import json
import os
import re
import shutil
import signal
import subprocess

from bench import children, servers, stage


CALLS = "fdatasync,fsync,msync,sync_file_range"


def runtime(server):
    table = stage.ask(server.broker_port, 28)[1].get("table", {})
    return int(table["flushes"]) if "flushes" in table else None


def traced(server, seconds):
    """Starts counting the flush calls of a process for so long; strace slows exactly those down, so it has a run of its own."""
    if shutil.which("strace") is None:
        return None
    return children.start(["strace", "-f", "-c", "-e", f"trace={CALLS}", "-p", str(server.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def calls(tracer):
    tracer.send_signal(signal.SIGINT)
    _, text = tracer.communicate(timeout=30)
    counts = {line.split()[-1]: int(line.split()[3]) for line in text.splitlines() if re.search(r"(fdatasync|fsync|msync|sync_file_range)$", line)}
    return counts


def disk(bytes_each, seconds):
    """Groups per second of this size that reach the disk one by one."""
    file = stage.OUT / "sync.probe"
    size = max(64 << 20, bytes_each * 64)
    with open(file, "wb") as out:
        for _ in range(size >> 20):
            out.write(bytes(1 << 20))
        os.fsync(out.fileno())
    try:
        return fio(file, bytes_each, size, seconds) if shutil.which("fio") else plain(file, bytes_each, size, seconds)
    finally:
        file.unlink()


def fio(file, bytes_each, size, seconds):
    done = subprocess.run(["fio", "--name=groups", f"--filename={file}", "--rw=write", f"--bs={bytes_each}", f"--size={size // bytes_each * bytes_each}",
                           "--overwrite=1", "--fdatasync=1", "--ioengine=psync", "--time_based", f"--runtime={seconds}", "--output-format=json"],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    return json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]["write"]["iops"]


def plain(file, bytes_each, size, seconds):
    block, count, at = bytes(bytes_each), 0, 0
    with open(file, "r+b", buffering=0) as out:
        began = stage.CLOCK()
        while stage.CLOCK() - began < seconds:
            os.pwrite(out.fileno(), block, at)
            os.fdatasync(out.fileno())
            count, at = count + 1, at + bytes_each if at + 2 * bytes_each <= size else 0
        return count / (stage.CLOCK() - began)


def round_trips(chosen):
    """Requests per second of this size that the bare echo answers one by one."""
    echo = servers.Echo(stage.OUT / "echo", "")
    echo.load_cpus = ""
    echo.start()
    try:
        return stage.produce(echo, s=chosen.size, queues=8, w=1, duration=chosen.seconds)["tps"]
    finally:
        echo.stop()


def cell(server, chosen, w):
    load = {"s": chosen.size, "queues": 8, "w": w}
    warming = stage.warmed(server, chosen, chosen.warm, **load)
    before = runtime(server)
    result = stage.measured(server, **load, duration=chosen.seconds)
    after = runtime(server)
    flushes = after - before if before is not None else None
    tracer = traced(server, chosen.seconds)
    if tracer:
        under = stage.produce(server, **load, duration=chosen.seconds)
        result["calls"] = calls(tracer)
        if flushes is None:  # as many per message as under strace
            flushes = sum(result["calls"].values()) / max(1, under["messages"]) * result["messages"]
    group = result["messages"] / flushes if flushes else 0
    result |= {"server": server.name, "w": w, "flushes": flushes, "group": group, "warming": warming}
    if group:
        # A group per flush; the broker's own overhead is not in the yardstick's bytes.
        result["disk_flushes"] = disk(max(512, round(group * result["bytes_per_message"])), chosen.seconds)
        result["disk_tps"] = result["disk_flushes"] * group
    return result


HEAD = ["server", "w", "TPS", "p50 us", "p99.9 us", "flushes/s", "group", "disk flushes/s", "disk TPS", "of disk", "CPU us/msg", "calls under strace"]


def row(one):
    per_second = (one["flushes"] or 0) / one["seconds"]
    called = ", ".join(f"{name} {count:,}" for name, count in one.get("calls", {}).items())
    return [one["server"], one["w"], f"{one['tps']:,.0f}", f"{one['latency_us']['p50']:,.0f}", f"{one['latency_us']['p999']:,.0f}", f"{per_second:,.0f}",
            f"{one['group']:.1f}", f"{one.get('disk_flushes', 0):,.0f}", f"{one.get('disk_tps', 0):,.0f}", stage.ratio(one["tps"], one.get("disk_tps")),
            f"{one['cpu_us_per_message']:.2f}", called]


def main():
    parser = stage.parser(__doc__)
    parser.add_argument("-w", default="1,30,200", help="requests in flight (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--warm", type=float, default=3)
    parser.add_argument("--size", type=int, default=1024, help="body bytes (default: %(default)s)")
    chosen = parser.parse_args()
    stage.ready("sync flush")
    results = []
    for name in chosen.servers.split(","):
        with stage.Kept(name, chosen, sync=True) as server:
            server.start()
            for w in (int(word) for word in chosen.w.split(",")):
                results.append(cell(server, chosen, w))
                if w == 1 and "disk_tps" in results[-1]:
                    results[-1]["echo_tps"] = round_trips(chosen)
                print(f"{name}, w = {w}: {results[-1]['tps']:,.0f}", flush=True)
    print()
    stage.table(HEAD, [row(one) for one in results])
    for one in (one for one in results if "echo_tps" in one):
        both = 1 / (1 / one["disk_tps"] + 1 / one["echo_tps"])
        print(f"{one['server']}, w = 1: the echo's round trip takes {1e6 / one['echo_tps']:,.0f} us, a flush {1e6 / one['disk_tps']:,.0f}; "
              f"{stage.ratio(one['tps'], both)} of both after each other")
    by = {(one["server"], one["w"]): one for one in results}
    print(*(f"w = {w}: TPS vostok/java {stage.ratio(one['tps'], by['java', w]['tps'], 1)}" for (name, w), one in by.items()
            if name == "vostok" and ("java", w) in by), sep="\n")
    stage.save("sync", results)


if __name__ == "__main__":
    main()
