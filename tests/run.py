"""Runs the parts of the tests and sums them up. `make test` and `make test-all` call this program.

    python3 -m tests.run                     the parts of `make test`
    python3 -m tests.run --all               every part in its full form
    python3 -m tests.run --only grpc-clients,unit    some parts; with --all in their full form
    python3 -m tests.run --list              the parts, their commands and the sizes they exist in
    python3 -m tests.run --history           how often each check failed in the runs of this checkout

`format` and `build` come first. The other parts run in parallel while the sum of their `load` is at most 1.5 times the number of
processors, because no part asserts anything about time. The output of a part is in target/tests and is printed if the part fails.
Each part ends with lines `NAME: N passed, N failed, N skipped` or `test result: ...`, which are added up. A part without an end after
an hour is killed and has failed.
"""
import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass

from tests.kit import packages
from tests.kit.paths import ROOT, TARGET

OUT = TARGET / "tests"
RESULTS = OUT / "results.jsonl"
# Brokers of both kinds delete messages when 85 % of a disk are in use, and refuse sends from 90 % on.
DISK_PERCENT_MAX = 75
PYTHON = f"{sys.executable} -m"
TOOLS = TARGET / "debug" / "examples"
CLOSING = re.compile(r"^([a-z0-9-]+): (\d+) passed, (\d+) failed, (\d+) skipped$", re.MULTILINE)
RUST_CLOSING = re.compile(r"^test result: .*? (\d+) passed; (\d+) failed; (\d+) ignored", re.MULTILINE)
# No part takes a tenth of this time.
PART_SECONDS_MAX = 3_600
# A failed or skipped check: `FAIL name`, `FAILED: name`, `test name ... FAILED`, `SKIPPED: why`.
BAD = re.compile(r"^(?:test .* \.\.\. FAILED|(?:FAIL|FAILED|SKIP|SKIPPED)\b.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Part:
    """A command in the form of `make test` (None: the part is not in it) and of `make test-all`, and what it needs."""
    name: str
    short: str | None
    full: str
    # Processors that the command keeps busy.
    load: float = 1.0
    # Debian packages as PROGRAM:PACKAGE, installed where that is possible.
    packages: tuple = ()
    # Whether the command counts checks. The exit code of another command is its one check.
    counts: bool = True


FORMAT = "cargo fmt --all --check && cargo tree --locked --manifest-path fuzz/Cargo.toml >/dev/null"
LINT = "nice -n 10 cargo clippy --quiet --workspace --all-targets --all-features --locked -- -D warnings"
# The target directory of the lint is in use meanwhile, so examples in doc comments are compiled here.
DOC_TESTS = "nice -n 10 cargo test --quiet --doc --workspace --features vostok/planted-bugs --locked"
FILE_SYSTEMS = ("mkfs.ext4:e2fsprogs", "mkfs.xfs:xfsprogs", "losetup:mount", "unshare:util-linux")
DISK_FAULTS = (*FILE_SYSTEMS, "nbdkit:nbdkit", "nbdfuse:libnbd-bin", "fsfreeze:util-linux", "prlimit:util-linux")
# Mounts in a namespace of their own, so that no other namespace keeps a file system that was shut down.
MOUNTS = "$(unshare --mount true 2>/dev/null && echo unshare --mount)"
# Random inputs are the same in each `make test`, so that a red run is red again. `make test-all` tries new ones: fresh seeds of the
# simulator and of property tests.
SIM = f"nice -n 10 {TARGET}/debug/vostok-sim"
SEQUENTIAL = ("format", "build")
RELEASE = "nice -n 10 cargo build --quiet --release --locked && ! grep -q VOSTOK_PLANTED target/release/vostok"
DENY = """cargo deny --version >/dev/null 2>&1 || {
    echo "SKIPPED, LOUDLY: advisories need cargo-deny (cargo install cargo-deny); licences are checked by the part unit"
    echo "deny: 0 passed, 0 failed, 1 skipped"
    exit 0
}
cargo deny --offline check"""


def program(name, short="--short", full="", load=1.0, needs=()):
    """A part that is a Python module of interop/ or tests/. `short` is None if the part is in the full form only."""
    command = f"{PYTHON} {name}"
    return Part(name.rpartition(".")[2].replace("_", "-"), None if short is None else f"{command} {short}", f"{command} {full}", load, needs)


PARTS = (
    Part("format", FORMAT, FORMAT, counts=False),
    Part("build", f"{PYTHON} tests.unit --build", f"{PYTHON} tests.unit --build", 2, counts=False),
    Part("unit", f"PROPTEST_RNG_SEED=1 {PYTHON} tests.unit", f"{PYTHON} tests.unit", 1.5, ("promtool:prometheus", "ip:iproute2")),
    Part("lint", LINT, LINT, 0.75, counts=False),
    Part("sim", f"{SIM} --seeds 0..120 --planted", f"{SIM} --seconds 120 --planted", 0.75),
    program("interop.remoting_clients", load=1.5),
    program("interop.grpc_clients", load=1.5, needs=("openssl:openssl",)),
    Part("grpc-masters", None, f"{PYTHON} interop.grpc_clients --masters --client java,go", 1.5, ("openssl:openssl",)),
    program("interop.mqadmin", load=0.7),
    program("interop.console", load=0.7, needs=("chromium:chromium",)),
    program("interop.store_both_ways"),
    program("interop.auth", needs=("curl:curl",)),
    Part("powercut", f"{MOUNTS} {TOOLS}/crash powercut --cuts 10", f"{MOUNTS} {TOOLS}/crash powercut --cuts 100", 1, FILE_SYSTEMS),
    Part("kill9", f"{TOOLS}/crash kill9 --rounds 4", f"{TOOLS}/crash kill9 --rounds 20"),
    program("interop.cluster"),
    program("interop.doctor", None, load=0.7),
    program("interop.doctor_faults", None, load=0.7),
    program("interop.doctor_stores", None, load=0.7, needs=("gcc:gcc",)),
    program("interop.console_faults", None, load=0.7, needs=("chromium:chromium", "gcc:gcc", "openssl:openssl")),
    program("tests.docs"),
    Part("faults", None, f"{TOOLS}/faults", 1, DISK_FAULTS),
    Part("churn", None, f"{TOOLS}/apps churn"),
    Part("transactions", None, f"{TOOLS}/apps transactions"),
    program("interop.metrics", needs=("prometheus:prometheus",)),
    Part("proxy-port", f"{PYTHON} interop.remoting_clients --through-proxy --short", f"{PYTHON} interop.remoting_clients --through-proxy"),
    program("interop.lite"),
    program("interop.ha", None),
    program("interop.controller", None),
    program("interop.switch", None),
    program("interop.partition", None, needs=("ip:iproute2", "tc:iproute2")),
    program("interop.admin_twin", None, load=0.7),
    Part("book", "ops/book/build --check", "ops/book/build --check", 0.2),
    Part("doc-tests", None, DOC_TESTS),
    Part("release", None, RELEASE, 1.5, counts=False),
    Part("deny", None, DENY, 0.2, counts=False),
)


def rust_failures(text):
    """Outputs of the failed Rust tests, each with its first line and its end, which has the panic. Empty for other programs."""
    blocks = (re.search(rf"^---- {re.escape(name)} stdout ----\n.*?(?=^---- |\n\n(?:successes|failures):|\Z)", text, re.MULTILINE | re.DOTALL)
              for name in re.findall(r"^test (\S+) \.\.\. FAILED", text, re.MULTILINE))
    texts = (block[0] for block in blocks if block)
    return "\n".join(text if len(text) < 8_000 else text.split("\n", 1)[0] + "\n[...]\n" + text[-8_000:] for text in texts)


class Run:
    """A part while it runs and when it has ended."""

    def __init__(self, part, command):
        self.part, self.began, self.file = part, time.monotonic(), OUT / f"{part.name}.log"
        with open(self.file, "wb") as out:
            self.process = subprocess.Popen(["bash", "-c", command], stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=ROOT,
                                            start_new_session=True)
        self.passed = self.failed = self.skipped = 0
        self.bad = []

    def close(self):
        """Ends the processes that the part left behind, and reads its result."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.seconds, text = time.monotonic() - self.began, self.file.read_text(errors="replace")
        code = self.process.wait()
        closing = [line[1:] for line in CLOSING.findall(text)] + RUST_CLOSING.findall(text)
        self.passed, self.failed, self.skipped = (sum(int(line[at]) for line in closing) for at in range(3))
        self.bad = [line[0].strip()[:400] for line in BAD.finditer(text)]
        # A unit test that cannot run on this machine says so and passes.
        self.skipped += len(re.findall(r"^SKIPPED\b", text, re.MULTILINE)) if RUST_CLOSING.search(text) else 0
        if not self.part.counts and not closing and code == 0:
            self.passed = 1
        if (code != 0 and self.failed == 0) or self.passed + self.failed + self.skipped == 0:
            self.failed, self.bad = 1, [*self.bad, f"FAILED: {self.part.name} ended with code {code}"]
        print(f"{'ok  ' if self.failed == 0 else 'FAIL'} {self.part.name:<18} {self.seconds:>5.0f} s  "
              f"{self.passed:>5} passed {self.failed:>3} failed {self.skipped:>3} skipped", flush=True)
        for line in re.findall(r"^(?:[a-z0-9-]+: \d+ passed, .*|test result: .*)$", text, re.MULTILINE):
            print(f"         {line}", flush=True)
        if self.failed:
            shown = rust_failures(text) or (text if len(text) < 60_000 else text[:5_000] + "\n[...]\n" + text[-55_000:])
            print(f"---- output of {self.part.name}\n{shown}\n---- end of the output of {self.part.name}", flush=True)

    def has_ended(self):
        """Whether the process has ended. Kills a process that does not end."""
        if time.monotonic() - self.began > PART_SECONDS_MAX:
            os.killpg(self.process.pid, signal.SIGKILL)
        return self.process.poll() is not None

    def interrupt(self):
        """Ends the part with SIGINT, so that it removes its mounts and namespaces, and kills whatever is left of it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(30)
            os.killpg(self.process.pid, signal.SIGKILL)


def perform(parts, commands, most):
    """Runs the parts and returns their results. Stops if `format` or `build` fails."""
    done, running, waiting = [], [], list(parts)
    try:
        while waiting or running:
            for run in [run for run in running if run.has_ended()]:
                running.remove(run)
                run.close()
                done.append(run)
                if run.failed and run.part.name in SEQUENTIAL:
                    return done
            load = sum(run.part.load for run in running)
            is_alone = any(run.part.name in SEQUENTIAL for run in running)
            for part in list(waiting):
                if is_alone or (running and (part.name in SEQUENTIAL or load + part.load > most)):
                    if part.name in SEQUENTIAL:
                        break
                    continue
                waiting.remove(part)
                running.append(Run(part, commands[part.name]))
                load += part.load
                is_alone = part.name in SEQUENTIAL
            time.sleep(0.2)
    finally:
        for run in running:
            run.interrupt()
    return done


def history():
    """Prints how often each check failed, most frequent first."""
    runs = [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []
    parts = [part for run in runs for part in run["parts"]]
    times = Counter(part["name"] for part in parts)
    # The name of a check stands before the first colon or bracket behind its outcome; seeds, times and values differ from run to run.
    name = re.compile(r"^(?:FAIL|FAILED:?)\s+([^:\[(]*)|^test (\S+)")
    failures = Counter((part["name"], next(filter(None, found.groups()), "").strip())
                       for part in parts for line in part["bad"] if (found := name.match(line)))
    print(f"{len(runs)} runs")
    for (part, check), count in failures.most_common():
        print(f"{count:>4} of {times[part]}  {part}: {check}")


def record(done, suite):
    """Appends the run to the file of results."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=ROOT).stdout.strip()
    parts = [{"name": run.part.name, "seconds": round(run.seconds), "passed": run.passed, "failed": run.failed, "skipped": run.skipped, "bad": run.bad}
             for run in done]
    with open(RESULTS, "a") as out:
        out.write(json.dumps({"at": time.strftime("%Y-%m-%dT%H:%M:%S"), "commit": commit, "suite": suite, "parts": parts}) + "\n")


def chosen(options):
    """The parts to run and the command of each."""
    commands = {part.name: part.full if options.all else part.short for part in PARTS}
    if options.only:
        names = options.only.split(",")
        unknown = set(names) - set(commands)
        if unknown:
            sys.exit(f"no part {', '.join(sorted(unknown))}; the parts are {', '.join(commands)}")
        commands = {part.name: commands[part.name] or part.full for part in PARTS if part.name in {"build", *names}}
    return [part for part in PARTS if commands.get(part.name)], commands


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="every part in its full form")
    parser.add_argument("--only", default="", help="names of parts, comma-separated")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--history", action="store_true")
    options = parser.parse_args()
    if options.history:
        return history()
    parts, commands = chosen(options)
    if options.list:
        for part in PARTS:
            print(f"{part.name:<18} {'test, test-all' if part.short else 'test-all':<15} {part.short or part.full}")
        return None
    usage = shutil.disk_usage(ROOT)
    # The percentage that df prints.
    in_use = 100 - 100 * usage.free // (usage.used + usage.free)
    if in_use > DISK_PERCENT_MAX:
        sys.exit(f"{in_use} % of the disk of {ROOT} are in use, and brokers delete messages from 85 % on: free some")
    OUT.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    # Packages are installed beside the build, which needs none of them.
    installing = threading.Thread(target=packages.need, args=[pair for part in parts for pair in part.packages], daemon=True)
    installing.start()
    first = [part for part in parts if part.name in SEQUENTIAL]
    done = perform(first, commands, 1)
    installing.join()
    if not any(run.failed for run in done):
        done += perform([part for part in parts if part not in first], commands, (os.cpu_count() or 2) * 1.5)
    record(done, "test-all" if options.all else "test")
    bad = [f"{run.part.name}: {line}" for run in done for line in run.bad]
    if bad:
        print("== failed and skipped checks", *bad, sep="\n")
    passed, failed, skipped = (sum(getattr(run, name) for run in done) for name in ("passed", "failed", "skipped"))
    print(f"== {len(done)} parts in {time.monotonic() - began:.0f} s; outputs are in {OUT}")
    print(f"total: {passed} passed, {failed} failed, {skipped} skipped")
    return failed > 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
