"""Vostok beside Apache RocketMQ and two limit servers, one after the other, under the same load of `vostok lab`.

    python3 -m bench.run                 threads 1 10 30 60 120 200, bodies of 1 and 2 KiB, 8 queues, sync flush, and a minute at half load
    python3 -m bench.run --quick         threads 1 60 200, 1 KiB, about 4 minutes

Prints a table, ratios and the targets; everything is also in bench/.out/latest.json. The limit servers speak the same
frames: `echo` only answers (what the network allows), `log-echo` checks the body's CRC, appends and answers.
"""
import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

from bench import children, measure, servers, table, warm


OUT = Path(__file__).resolve().parent / ".out"
KINDS = {"java": servers.Java, "vostok": servers.Vostok, "echo": servers.Echo, "log-echo": servers.LoggingEcho}


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--servers", default="java,vostok,echo,log-echo", help="which, in order")
    parser.add_argument("--threads", help="comma-separated requests in flight")
    parser.add_argument("--sizes", help="comma-separated body sizes in bytes")
    parser.add_argument("--seconds", type=float, help="per measured cell")
    parser.add_argument("--sync", action=argparse.BooleanOptionalAction, help="cells with sync flush too (default: unless --quick)")
    parser.add_argument("--steady", type=float, help="seconds of open-loop load at half of the best TPS (default: 60, with --quick 0)")
    parser.add_argument("--pin", action=argparse.BooleanOptionalAction, default=os.cpu_count() >= 2,
                        help="server on core 0, load on core 1")
    warm.add_option(parser)
    parser.add_argument("--no-touch", action="store_true", help="do not touch free memory first")
    chosen = parser.parse_args()
    quick = chosen.quick
    chosen.threads = [int(w) for w in (chosen.threads or ("1,60,200" if quick else "1,10,30,60,120,200")).split(",")]
    chosen.sizes = [int(size) for size in (chosen.sizes or ("1024" if quick else "1024,2048")).split(",")]
    chosen.seconds = chosen.seconds or (4 if quick else 10)
    chosen.sync = (not quick) if chosen.sync is None else chosen.sync
    chosen.steady = (0 if quick else 60) if chosen.steady is None else chosen.steady
    return chosen


class Bench:
    def __init__(self, chosen):
        self.chosen = chosen
        self.server_cpus, self.load_cpus = ("0", "1") if chosen.pin else ("", "")
        self.results = []
        # How each start of Java's broker got warm.
        self.warming = []

    def warm(self, server, cell):
        """A second is enough for what is compiled before it runs."""
        load = {"w": 60, "size": cell["size"]}
        if server.name != "java":
            return measure.load(server, load, 1, OUT, self.load_cpus)
        window = lambda seconds: measure.cost(server, load, seconds, OUT, self.load_cpus)
        self.warming.append(warm.until_steady(server.name, window, self.chosen.warm_max))

    def cells(self, name, sync, cells):
        """Measures the cells on one server; a fast server starts again for each."""
        server = KINDS[name](OUT / "data", self.server_cpus, sync)
        try:
            for number, cell in enumerate(cells):
                if number == 0 or server.fresh_per_cell:
                    server.stop()
                    server.start()
                    self.warm(server, cell)
                seconds = self.chosen.steady if "rate" in cell else self.chosen.seconds
                result = measure.measure(server, cell, seconds, OUT, self.load_cpus)
                self.results.append(result)
                print(table.row(result), flush=True)
        finally:
            server.stop()

    def run(self):
        chosen = self.chosen
        names = chosen.servers.split(",")
        everything = [{"w": w, "size": size} for size in chosen.sizes for w in chosen.threads]
        print(table.rows([])[0])
        for name in names:
            self.cells(name, False, everything)
        if chosen.sync:
            for name in (name for name in names if name in ("java", "vostok")):
                self.cells(name, True, [{"w": w, "size": 1024} for w in chosen.threads])
        if chosen.steady:
            for name in (name for name in names if name in ("java", "vostok")):
                best = max((one["tps"] for one in self.results if one["server"] == name and not one["sync"] and one["size"] == chosen.sizes[0]))
                self.cells(name, False, [{"w": 200, "size": chosen.sizes[0], "rate": round(best / 2)}])


def describe(chosen):
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=OUT.parent, capture_output=True, text=True).stdout.strip()
    processor = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
    return {"commit": commit, "processor": processor, "cores": os.cpu_count(), "kernel": platform.release(), "rocketmq": "5.5.0",
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "pinned": chosen.pin, "seconds_per_cell": chosen.seconds}


def main():
    children.watch_signals()
    chosen = options()
    if not servers.VOSTOK.exists():
        sys.exit(f"bench: {servers.VOSTOK} does not exist; run `make build` first")
    OUT.mkdir(exist_ok=True)
    started = time.monotonic()
    about = describe(chosen)
    print(", ".join(f"{key} {value}" for key, value in about.items()))
    if not chosen.no_touch:
        touched, seconds = measure.touch_memory(10 << 30 if chosen.quick else 1 << 50)
        print(f"touched {touched / 1e9:.1f} GB of free memory in {seconds:.1f} s")
    bench = Bench(chosen)
    bench.run()
    targets = table.targets(bench.results)
    about["total_seconds"] = round(time.monotonic() - started)
    text = json.dumps({"about": about, "warming": bench.warming, "results": bench.results, "targets": targets}, indent=1)
    for file in (OUT / f"{about['time'].replace(':', '')}.json", OUT / "latest.json"):
        file.write_text(text + "\n")
    print("", *table.ratios(bench.results), "", *targets, "", sep="\n")
    print(f"{about['total_seconds']} s in all; {OUT / 'latest.json'}")


if __name__ == "__main__":
    main()
