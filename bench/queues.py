"""What many queues cost: TPS, worst second, CPU, memory and files, with the load of the MetaQ report's cases 7, 11 and 12.

    python3 -m bench.queues                                    8 and 1,024 queues, a few seconds each
    python3 -m bench.queues --queues 8,1024,10240,50000 --seconds 60
    python3 -m bench.queues --servers vostok --baseline BINARY --rounds 3      beside another binary, in turn; ends with the ratio of CPU per message

4 KiB bodies that compress to less than a tenth, 128 requests in flight, all queues in one topic and spread over up to
1,000 topics. Every queue gets messages before the measurement begins. Java needs a map per queue file: raise vm.max_map_count
for 50,000. A rate is compared with the one at the first number of queues of the same server and layout.
"""
import statistics
from pathlib import Path

from bench import stage



def layouts(queues, topics_max):
    """(name, topics, queues of each)"""
    yield "one topic", 1, queues
    topics = min(topics_max, queues)
    if topics > 8:
        yield f"{topics:,} topics", topics, queues // topics


def cell(server_name, chosen, layout, topics, queues_each):
    """One run; the server "baseline" is the other binary."""
    count = topics * queues_each
    load = {"w": chosen.w, "s": 4096, "c": "true", "repeat": 128, "queues": queues_each, "topics": topics, "t": f"q{topics}x{queues_each}"}
    kind, binary = ("vostok", chosen.baseline) if server_name == "baseline" else (server_name, None)
    with stage.Kept(kind, chosen, binary=binary) as server:
        server.start()
        fresh = stage.footprint(server)
        stage.produce(server, **load, q=max(3 * count, 50_000))
        warming = stage.warmed(server, chosen, chosen.warmup, **load)
        result = stage.measured(server, **load, duration=chosen.seconds)
    return {"server": server_name, "layout": layout, "queues": count, "fresh": fresh, "warming": warming, **result}


def row(one, first):
    return [one["server"], one["layout"], f"{one['queues']:,}", f"{one['tps']:,.0f}", stage.ratio(one["tps"], first["tps"]),
            stage.ratio(one["worst_second"], one["median_second"]), f"{one['cpu_us_per_message']:.2f}", f"{one['latency_us']['p999']:,.0f}",
            f"{one['rss']['VmRSS'] >> 20:,}", f"{one['rss'].get('RssAnon', 0) >> 20:,}", f"{one['fds']:,}", f"{one['bytes_per_message']:.0f}",
            f"{one['stolen']:.0%}", one["failures"]]


HEAD = ["server", "layout", "queues", "TPS", "of first", "worst/median s", "CPU us/msg", "p99.9 us", "RSS MB", "anon MB", "fds", "B/msg", "stolen", "failed"]


def order(chosen):
    """(server, queues): a baseline takes turns with the binary it is compared with."""
    counts = [int(count) for count in chosen.queues.split(",")]
    names = chosen.servers.split(",")
    if chosen.baseline:
        return [(name, count) for count in counts for _ in range(chosen.rounds) for name in [*names, "baseline"]]
    return [(name, count) for name in names for count in counts for _ in range(chosen.rounds)]


def beside_baseline(results):
    costs = {}
    for one in results:
        costs.setdefault((one["layout"], one["queues"]), {}).setdefault(one["server"], []).append(one["cpu_us_per_message"])
    rows = [[layout, f"{queues:,}", *(f"{statistics.median(of[name]):.2f}" for name in ("vostok", "baseline")),
             stage.ratio(statistics.median(of["vostok"]), statistics.median(of["baseline"]))] for (layout, queues), of in costs.items() if len(of.keys() & {"vostok", "baseline"}) == 2]
    if rows:
        print()
        stage.table(["layout", "queues", "CPU us/msg", "baseline", "of baseline"], rows)


def main():
    parser = stage.parser(__doc__)
    parser.add_argument("--queues", default="8,1024", help="numbers of queues (default: %(default)s)")
    parser.add_argument("--topics", type=int, default=1000, help="most topics of the spread layout; 0 leaves it out (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--warmup", type=float, default=2)
    parser.add_argument("-w", type=int, default=128, help="requests in flight (default: %(default)s)")
    parser.add_argument("--baseline", type=Path, help="another binary of vostok to measure beside this one")
    parser.add_argument("--rounds", type=int, default=1, help="runs of each cell (default: %(default)s)")
    chosen = parser.parse_args()
    stage.ready("many queues")
    results, firsts = [], {}
    for name, queues in order(chosen):
        for layout, topics, each in layouts(queues, chosen.topics):
            try:
                one = cell(name, chosen, layout, topics, each)
            except (RuntimeError, OSError, stage.subprocess.SubprocessError) as failure:
                print(f"{name}, {layout}, {queues} queues: {failure}", flush=True)
                continue
            first = firsts.setdefault((name, topics > 1), firsts.get((name, False), one))
            results.append(one)
            stage.table(HEAD, [row(one, first)])
    print()
    stage.table(HEAD, [row(one, firsts[one["server"], one["layout"] != "one topic"]) for one in results])
    pairs = [(one, other) for one in results for other in results if (one["server"], other["server"]) == ("vostok", "java")
             and (one["layout"], one["queues"]) == (other["layout"], other["queues"])]
    if pairs:
        print()
        stage.table(["layout", "queues", "TPS vostok/java", "CPU java/vostok", "RSS java/vostok", "p99.9 java/vostok"],
                    [[a["layout"], f"{a['queues']:,}", stage.ratio(a["tps"], b["tps"]), stage.ratio(b["cpu_us_per_message"], a["cpu_us_per_message"], 1),
                      stage.ratio(b["rss"]["VmRSS"], a["rss"]["VmRSS"], 1), stage.ratio(b["latency_us"]["p999"], a["latency_us"]["p999"], 1)] for a, b in pairs])
    beside_baseline(results)
    stage.save("queues", results)


if __name__ == "__main__":
    main()
