"""A store directory between Apache RocketMQ 5.5.0 and Vostok: written by one, opened and continued by the other, given back.

    python3 -m interop.store_both_ways [--short] [--case NAME[,NAME]] [--keep]

Cases: java-stopped, java-killed, vostok-stopped, vostok-killed; the name says who writes first, and how every broker of the
case ends. A Java program takes the same inventory from each broker: every queue's ends, every message by offset with all its
bytes, by id, by key, by unique key, by tag, offsets by time, committed offsets. They must be equal. Pending delays and timers must
fire once and not early, whoever serves then. `--short` is vostok-stopped without the wait for pending messages.
Ends with `store-both-ways: N passed, N failed, N skipped`.
"""
import argparse
from functools import partial

from interop.store_case import StoreCase
from tests.kit import downloads
from tests.kit.cases import side_by_side
from tests.kit.paths import ROOT, WORK
from tests.kit.report import Report, scratch

CASES = ("java-stopped", "java-killed", "vostok-stopped", "vostok-killed")
SHORT = "vostok-stopped"


def run(name, is_short, directory, class_path, case):
    first, _, end = name.partition("-")
    StoreCase(first, end == "killed", is_short, directory / name, class_path, case).run()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="one case, without the wait for pending messages")
    parser.add_argument("--case", help="which, comma-separated")
    parser.add_argument("--keep", action="store_true", help="keep stores and logs even if all is well")
    options = parser.parse_args()
    names = options.case.split(",") if options.case else [SHORT] if options.short else CASES
    report = Report("store-both-ways")
    with scratch(report, options.keep) as directory:
        jars = downloads.rocketmq()
        classes = downloads.classes(WORK / "store-classes", jars, sorted((ROOT / "interop" / "store").glob("*.java")))
        side_by_side(report, {name: partial(run, name, options.short, directory, f"{classes}:{jars}/*") for name in names})
    report.close()


if __name__ == "__main__":
    main()
