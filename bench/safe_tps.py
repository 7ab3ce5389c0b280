"""`vostok lab safe-tps` against a server with a throttled disk, network or processor, and with a slow client.

Each situation has a server of its own. A fine ladder of closed loops (`vostok lab producer`) finds its ceiling first; then every
run of safe-tps must name the throttled resource and find that ceiling within 10 %. One wrong run in ten is allowed. Run it on
a machine that does nothing else. Ends with `safe-tps: N passed, N failed, N skipped`, a check being one situation.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.servers import VOSTOK
from tests.kit import packages, ports

TOOLS = ("mkfs.ext4:e2fsprogs", "losetup:mount", "nsenter:util-linux", "ip:iproute2", "tc:iproute2")
CGROUPS = Path("/sys/fs/cgroup")
IS_V1 = not (CGROUPS / "cgroup.controllers").exists()
LADDER = [15, 30, 60, 90, 120, 180, 240, 360, 480, 720, 960]
NEAR = 0.10
DISK_BYTES = 5_000_000
NETWORK_RATE = "40mbit"
SERVER_CORES, CLIENT_CORES = 0.25, 0.15


class Impossible(Exception):
    """This machine cannot make the situation."""


def call(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout.strip()


@contextmanager
def situation_made():
    """What fails in here is the machine's lack, not the lab's."""
    try:
        yield
    except (RuntimeError, OSError) as why:
        raise Impossible(str(why)) from why


class Group:
    """A control group with limits, of whichever version the machine has."""

    def __init__(self, stack, controller, name):
        self.path = CGROUPS / (controller if IS_V1 else "") / f"vostok-safe-tps-{name}-{os.getpid()}"
        try:
            if not IS_V1:
                (CGROUPS / "cgroup.subtree_control").write_text("+cpu +io")
            self.path.mkdir()
        except OSError as error:
            raise Impossible(f"control groups cannot be written: {error}")
        stack.callback(self.remove)

    def remove(self):
        for _ in range(100):
            try:
                return self.path.rmdir()
            except OSError:
                time.sleep(0.1)

    def set(self, file, text):
        try:
            (self.path / file).write_text(str(text))
        except OSError as error:
            raise Impossible(f"{self.path / file}: {error}")

    def cores(self, cores):
        period = 20_000
        if IS_V1:
            self.set("cpu.cfs_period_us", period)
            self.set("cpu.cfs_quota_us", int(period * cores))
        else:
            self.set("cpu.max", f"{int(period * cores)} {period}")

    def write_bytes(self, device, rate):
        if IS_V1:
            self.set("blkio.throttle.write_bps_device", f"{device} {rate}")
        else:
            self.set("io.max", f"{device} wbps={rate}")

    def enter(self):
        (self.path / "cgroup.procs").write_text(str(os.getpid()))


class Situation:
    """A server, a way to run the lab against it, and what must be named."""

    size, settings, server_group, lab_group, spaces = 1024, (), None, None, (None, None)
    host, extra = "127.0.0.1", ()

    def __init__(self, stack, work):
        self.stack, self.work, self.data = stack, work, work / "data"

    def start(self):
        with situation_made():
            self.prepare()
        self.namesrv, self.broker = ports.free_ports()
        self.data.mkdir(parents=True, exist_ok=True)
        lines = [f"brokerIP1={self.host}", *self.settings]
        (self.work / "broker.conf").write_text("\n".join(lines) + "\n")
        serve = [VOSTOK, "serve", "--data", self.data, "--namesrv-port", self.namesrv, "--broker-port", self.broker]
        self.spawn([*serve, "-c", self.work / "broker.conf"], self.server_group, self.spaces[0], "server.log")
        self.lab("producer", "-t", "Ladder", "-w", 1, "-q", 1, "--queues", 8)
        with situation_made():
            self.throttle()

    def spawn(self, command, group, space, log):
        process = subprocess.Popen(self.within(command, space), stdout=open(self.work / log, "wb"), stderr=subprocess.STDOUT,
                                   preexec_fn=group.enter if group else None)
        self.stack.callback(self.end, process)

    @staticmethod
    def within(command, space):
        # Not `ip netns exec`, which hides the control groups from the lab.
        inside = ["nsenter", f"--net=/run/netns/{space}"] if space else []
        return [str(word) for word in [*inside, *command]]

    @staticmethod
    def end(process):
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def lab(self, tool, *arguments):
        command = [VOSTOK, "lab", tool, "-n", f"{self.host}:{self.namesrv}", *arguments]
        group = self.lab_group
        for attempt in range(50):
            done = subprocess.run(self.within(command, self.spaces[1]), capture_output=True, text=True,
                                  preexec_fn=group.enter if group else None)
            if done.returncode == 0:
                return done.stdout
            if "connect" not in done.stderr:  # the server may only just be starting
                break
            time.sleep(0.2)
        raise RuntimeError(f"vostok lab {tool}: {done.stderr.strip()[-600:]}")

    def ceiling(self):
        rates = []
        for threads in LADDER:
            result = self.work / "ladder.json"
            self.lab("producer", "-t", "Ladder", "-w", threads, "-s", self.size, "--warmup", 1, "--duration", 3, "--json", result)
            rates.append(json.loads(result.read_text())["tps"])
        print(f"   ladder {' '.join(f'{threads}:{rate:.0f}' for threads, rate in zip(LADDER, rates))}", flush=True)
        # The highest of many is too high by its own luck: the middle of the upper half, which is the flat part of the ladder.
        return statistics.median(sorted(rates)[len(rates) // 2:])

    def search(self):
        """Runs safe-tps; returns what the report names, the ceiling found and the safe rate."""
        run = self.work / "run"
        # Server and lab have networks of their own on one machine, so that each takes the other for another program.
        told = self.lab("safe-tps", "--out", run, "--size", self.size, "--warmup", 1, "--duration", 4, "--confirm", 5,
                        "--no-selftest", "--free-min", 0, "--others-max", 100, *self.extra)
        (self.work / "run.txt").write_text(told)
        call(VOSTOK, "lab", "report", run)
        report = json.loads((run / "report.json").read_text())
        ceiling = next(float(line.split()[2].split("/")[0]) for line in told.splitlines() if line.startswith("closed loop: "))
        return report["bottleneck"], ceiling, (report["safe"] or {}).get("tps", {}).get("mean")

    def prepare(self):
        """Before the server starts."""

    def throttle(self):
        """When the server answers."""


class Disk(Situation):
    name, size = "disk", 4096
    # No new file is made ahead before the middle of the first: its zeros would share the throttled disk.
    settings = ("flushDiskType=SYNC_FLUSH", f"mappedFileSizeCommitLog={2_000_000 * 1024}")

    def prepare(self):
        self.server_group = Group(self.stack, "blkio", "disk")
        image = self.work / "disk.img"
        with open(image, "wb") as file:
            file.truncate(8 << 30)
        self.device = call("losetup", "--find", "--show", image)
        self.stack.callback(call, "losetup", "--detach", self.device)
        call("mkfs.ext4", "-q", "-E", "nodiscard", self.device)
        self.data.mkdir()
        call("mount", self.device, self.data)
        self.stack.callback(call, "umount", self.data)

    def throttle(self):
        def written():
            return (Path("/sys/class/block") / Path(self.device).name / "stat").read_text().split()[4]

        last, still = None, 0
        while still < 6:  # the server writes zeros ahead of its log first
            time.sleep(0.5)
            last, still = written(), still + 1 if written() == last else 0
        self.server_group.write_bytes((Path("/sys/class/block") / Path(self.device).name / "dev").read_text().strip(), DISK_BYTES)


class Network(Situation):
    name, host = "network", "10.231.77.1"

    def prepare(self):
        server, lab = (f"vst{os.getpid()}{end}" for end in "ab")
        for space in (server, lab):
            call("ip", "netns", "add", space)
            self.stack.callback(call, "ip", "netns", "delete", space)
            call("ip", "-n", space, "link", "set", "lo", "up")
        call("ip", "link", "add", "vst0", "netns", server, "type", "veth", "peer", "name", "vst1", "netns", lab)
        for space, link, address in ((server, "vst0", self.host), (lab, "vst1", "10.231.77.2")):
            call("ip", "-n", space, "address", "add", f"{address}/24", "dev", link)
            call("ip", "-n", space, "link", "set", link, "up")
        self.spaces = (server, lab)

    def throttle(self):
        call("tc", "-n", self.spaces[1], "qdisc", "add", "dev", "vst1", "root", "tbf", "rate", NETWORK_RATE, "burst", "32kb", "latency", "100ms")
        agent = f"{self.host}:{self.namesrv + 1}"
        self.spawn([VOSTOK, "lab", "agent", "--listen", agent, "--name", "server"], None, self.spaces[0], "agent.log")
        self.extra = ("--agents", agent)
        time.sleep(1)


class Cpu(Situation):
    name = "cpu"

    def prepare(self):
        self.server_group = Group(self.stack, "cpu", "server")
        self.server_group.cores(SERVER_CORES)


class Client(Situation):
    name = "client"

    def prepare(self):
        self.lab_group = Group(self.stack, "cpu", "lab")
        self.lab_group.cores(CLIENT_CORES)


def show(situation, runs, work):
    """Returns the wrong runs of a situation; each has a server of its own."""
    wrong = []
    for number in range(1, runs + 1):
        with ExitStack() as stack:
            place = situation(stack, work / str(number))
            place.work.mkdir()
            place.start()
            ceiling = place.ceiling()
            began = time.monotonic()
            bottleneck, found, safe = place.search()
            off = found / ceiling - 1
            is_right = bottleneck["resource"] == place.name and abs(off) <= NEAR
            print(f"   run {number}: {bottleneck['resource']}, ceiling {found:.0f}/s ({off:+.1%} of the fine ladder's {ceiling:.0f}), safe "
                  f"{'none' if safe is None else f'{safe:.0f}/s'}, {time.monotonic() - began:.0f} s: {bottleneck['evidence']['en']}", flush=True)
            if not is_right:
                wrong.append(number)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="disk,network,cpu,client")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="leaves the runs and their reports, and says where")
    flags = parser.parse_args()
    known = {situation.name for situation in (Disk, Network, Cpu, Client)}
    if not set(flags.only.split(",")) <= known:
        parser.error(f"--only {flags.only}: expected some of {', '.join(sorted(known))}")
    packages.need(*TOOLS)
    if not VOSTOK.exists():
        parser.error(f"{VOSTOK} does not exist; run `make build` first")
    work = Path(tempfile.mkdtemp(prefix="vostok-safe-tps-"))
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for situation in (Disk, Network, Cpu, Client):
        if situation.name not in flags.only.split(","):
            continue
        print(f"== {situation.name}", flush=True)
        try:
            (work / situation.name).mkdir()
            wrong = show(situation, flags.runs, work / situation.name)
            outcome = "passed" if len(wrong) <= flags.runs // 10 else "failed"
            print(f"{'ok' if outcome == 'passed' else 'FAILED'}: {situation.name}, {flags.runs - len(wrong)} of {flags.runs} runs right")
        except Impossible as why:
            outcome = "skipped"
            print(f"SKIPPED: {situation.name}: {why}")
        except Exception as failure:  # the others go on, and this one is shown as failed
            outcome = "failed"
            print(f"FAILED: {situation.name}: {type(failure).__name__}: {failure}")
        counts[outcome] += 1
    if flags.keep:
        print(f"kept in {work}")
    else:
        shutil.rmtree(work, ignore_errors=True)
    print("safe-tps: " + ", ".join(f"{count} {name}" for name, count in counts.items()))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
