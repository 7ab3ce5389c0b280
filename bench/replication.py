"""What replication costs: a master without, with one and with two slaves, {async, sync} replication x {async, sync} flush.

    python3 -m bench.replication                                   Vostok and Java, one request in flight, 30 and 200
    python3 -m bench.replication --servers vostok -w 60 --slaves 0,1,2 --modes async-async

All servers and the load share the processors of this machine, so that a slave costs its master TPS by its own CPU time as well; the
CPU time per message is that of the process named. `behind` is what a slave lacked when the load ended, and how long it took for it.
"""
import json

from bench import measure, stage
from bench.groups import Group


def cells(name, mode, count, chosen):
    """The figures of each number of requests in flight at one such group."""
    replication, flush = mode.split("-")
    with Group(name, chosen, replication, flush == "sync", count) as group:
        group.start()
        warming = stage.warmed(group, chosen, 2, w=60, s=chosen.size, queues=8)
        for w in map(int, chosen.w.split(",")):
            group.await_slaves(120)
            before = [measure.cpu_us(slave.pid) for slave in group.slaves]
            result = stage.measured(group, w=w, s=chosen.size, queues=8, duration=chosen.seconds)
            end = stage.log_end(group)
            result["behind_bytes"] = max((end - stage.log_end(slave) for slave in group.slaves), default=0)
            result["behind_seconds"] = group.await_slaves(120)
            costs = [(measure.cpu_us(slave.pid) - start) / max(1, result["messages"]) for slave, start in zip(group.slaves, before)]
            yield w, result | {"slave_cpu_us_per_message": costs, "warming": warming}


def main():
    parser = stage.parser(__doc__)
    parser.set_defaults(servers="java,vostok", heap="2g")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("-w", default="1,30,200", help="requests in flight, comma-separated (default: %(default)s)")
    parser.add_argument("--size", type=int, default=1024, help="body bytes (default: %(default)s)")
    parser.add_argument("--slaves", default="1", help="how many slaves, comma-separated (default: %(default)s)")
    parser.add_argument("--modes", default="async-async,sync-async,async-sync,sync-sync", help="REPLICATION-FLUSH, comma-separated (default: %(default)s)")
    chosen = parser.parse_args()
    stage.ready("replication")
    results = {}
    for name in chosen.servers.split(","):
        for mode in chosen.modes.split(","):
            for count in map(int, chosen.slaves.split(",")):
                for w, result in cells(name, mode, count, chosen):
                    results[f"{name} {mode} {count} {w}"] = result
                    print(json.dumps({"cell": f"{name} {mode} {count} {w}", "tps": result["tps"]}), flush=True)
    rows = []
    for key, one in results.items():
        name, mode, count, w = key.split()
        java, alone = results.get(f"java {mode} {count} {w}"), results.get(f"{name} {mode} 0 {w}")
        rows.append([name, mode, count, w, f"{one['tps']:,.0f}", stage.ratio(one["tps"], java["tps"]) if java else "-", f"{one['latency_us']['p50']:,.0f}",
                     f"{one['latency_us']['p99']:,.0f}", f"{one['cpu_us_per_message']:.2f}",
                     stage.ratio(one["cpu_us_per_message"], alone["cpu_us_per_message"]) if alone else "-",
                     " ".join(f"{cost:.2f}" for cost in one["slave_cpu_us_per_message"]) or "-", f"{one['behind_bytes'] / 1e6:.2f}", f"{one['behind_seconds'] * 1000:.0f}"])
    stage.table(["server", "repl-flush", "slaves", "w", "TPS", "of Java", "p50 us", "p99 us", "master us", "of 0 slaves", "slave us", "MB behind", "ms"], rows)
    stage.save("replication", results)


if __name__ == "__main__":
    main()
