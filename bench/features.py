"""What the parts that run beside the log cost: server CPU per message with everything on, with everything off, and before they were there.

    python3 -m bench.features --baseline-rev 1a84545           builds that commit in a worktree of its own (once) and measures it too
    python3 -m bench.features --baseline BINARY

The variants take turns, round by round, so that a machine that changes its speed changes it for all; the figures are medians.
Messages have a key and a tag, so that the index has something to do. Only CPU time is compared: TPS is for information.
"""
import statistics
import subprocess
import sys
from pathlib import Path

from bench import stage


# Settings a binary does not know are told and do nothing there.
OFF = ["messageIndexEnable=false", "timerWheelEnable=false", "cleanFileForciblyEnable=false", "deleteWhen=04", "flushIntervalConsumeQueue=60000"]
ON = ["messageIndexEnable=true", "timerWheelEnable=true", "fileReservedTime=72"]


def baseline(chosen):
    if chosen.baseline:
        return Path(chosen.baseline).resolve()
    if not chosen.baseline_rev:
        return None
    tree = stage.OUT / f"tree-{chosen.baseline_rev}"
    binary = tree / "target" / "release" / "vostok"
    if not binary.exists():
        if not tree.exists():
            subprocess.run(["git", "worktree", "add", "--detach", tree, chosen.baseline_rev], cwd=stage.OUT.parent, check=True)
        subprocess.run(["cargo", "build", "--release", "--locked"], cwd=tree, check=True)
    return binary


def measure(name, conf, binary, chosen, cell):
    with stage.Kept("java" if name == "java" else "vostok", chosen, conf=conf, binary=binary) as server:
        server.start()
        load = {"w": cell[0], "s": cell[1], "queues": 8, "k": "true", "l": 4}
        warming = stage.warmed(server, chosen, chosen.warm, **load)
        return stage.measured(server, **load, duration=chosen.seconds) | {"warming": warming}


def main():
    parser = stage.parser(__doc__)
    parser.add_argument("--baseline", help="another binary to compare with")
    parser.add_argument("--baseline-rev", help="a commit to build and compare with")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--warm", type=float, default=1)
    parser.add_argument("--cells", default="60x1024", help="requests in flight x body bytes, comma-separated (default: %(default)s)")
    chosen = parser.parse_args()
    stage.ready("everything on beside everything off")
    variants = {"on": (ON, None), "off": (OFF, None)}
    before = baseline(chosen)
    if before:
        if not before.exists():
            sys.exit(f"{before} does not exist")
        variants["baseline"] = ([], before)
    if "java" in chosen.servers.split(","):
        variants["java"] = (ON, None)
    cells = [tuple(int(word) for word in cell.split("x")) for cell in chosen.cells.split(",")]
    results = {(name, cell): [] for name in variants for cell in cells}
    for number in range(chosen.rounds):
        for cell in cells:
            for name, (conf, binary) in variants.items():
                if name == "java" and number:
                    continue  # one round is enough for the size of the difference
                results[name, cell].append(measure(name, conf, binary, chosen, cell))
        print(f"round {number + 1} of {chosen.rounds}", flush=True)
    rows = []
    for (name, cell), ones in results.items():
        median = {key: statistics.median(one[key] for one in ones) for key in ("cpu_us_per_message", "tps")}
        first = statistics.median(one["cpu_us_per_message"] for one in results[("baseline" if before else "off"), cell])
        spread = [one["cpu_us_per_message"] for one in ones]
        rows.append([name, cell[0], cell[1], f"{median['cpu_us_per_message']:.2f}", f"{min(spread):.2f}-{max(spread):.2f}",
                     stage.ratio(median["cpu_us_per_message"], first), f"{median['tps']:,.0f}",
                     f"{statistics.median(one['rss']['VmRSS'] for one in ones) / 2**20:,.0f}", sum(one["failures"] for one in ones)])
    print()
    stage.table(["variant", "w", "size", "CPU us/msg", "min-max", "of baseline" if before else "of off", "TPS", "RSS MB", "failed"], rows)
    stage.save("features", {f"{name} {w}x{size}": ones for (name, (w, size)), ones in results.items()})


if __name__ == "__main__":
    main()
