"""Failover of a whole cluster of Vostok as `vostok serve --cluster 1m2s` starts it: a controller and a broker set of three.

    python3 -m interop.cluster [--short | --rounds N] [--keep]

Producers and a consumer find the master by the name server, as clients do. In each round the master is killed with SIGKILL (in the last
one it is paused), another one has to take over, and the killed one is started again by hand and comes back into the in-sync set. Every
acknowledged message must be read exactly as it was sent; what was read at an offset stays there; no offset goes back; and in the end
the logs of all three are equal. `--short` is one kill and one pause. Service gaps are printed. Ends with `cluster: N passed, N failed, N skipped`.
"""
import argparse
import re
import signal
import statistics
import time

from interop.cluster_load import Load
from interop.local_cluster import Cluster
from tests.kit.cases import Case
from tests.kit.report import Report, scratch


def fail_over(cluster, fault, load, case):
    """Takes the master away under load and returns the seconds until every producer goes on."""
    old = load.steady()
    before = time.monotonic()
    cluster.signal(old, signal.SIGSTOP) if fault == "pause" else cluster.kill(old)
    load.taken_over(case, fault, old, before)
    gap = load.gap(before)
    print(f"{fault}: service gap {gap:.2f} s", flush=True)
    cluster.signal(old, signal.SIGCONT) if fault == "pause" else cluster.restart(old)
    case.eventually(f"{fault}: the old master comes back into the set", cluster.is_whole, cluster.set)
    return gap


def run(cluster, faults, case):
    case.eventually("all three come into the in-sync set", cluster.is_whole, cluster.set)
    load = Load(cluster)
    gaps = [fail_over(cluster, fault, load, case) for fault in faults]
    kills = [gap for gap, fault in zip(gaps, faults) if fault == "kill"]
    if len(kills) > 1:
        print(f"service gap of {len(kills)} kills: median {statistics.median(kills):.2f} s, longest {max(kills):.2f} s", flush=True)
    for name, pid in cluster.killed:
        ended = re.compile(rf"\b{re.escape(name)} \(process {pid}\) ended: signal: 9\b")
        case.eventually(f"the parent prints that {name} was killed", lambda: any(map(ended.search, cluster.said())), cluster.said)
    load.finish(case)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="one kill and one pause")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keep", action="store_true", help="keep the stores and logs")
    options = parser.parse_args()
    report = Report("cluster")
    with scratch(report, options.keep) as directory:
        cluster = Cluster(directory)
        try:
            run(cluster, ["kill"] * (1 if options.short else options.rounds - 1) + ["pause"], Case(report))
        finally:
            cluster.stop()
    report.close()


if __name__ == "__main__":
    main()
