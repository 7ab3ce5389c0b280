"""What the benchmarks of the store share: options, servers that keep their data, runs of the lab, the disk's own rates."""
import argparse
import atexit
import json
import os
import re
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

from bench import children, measure, servers, warm
from tests.kit import ports


OUT = Path(__file__).resolve().parent / ".out"
CLOCK = time.monotonic
DISCARDED = OUT / "discarded"
atexit.register(shutil.rmtree, DISCARDED, ignore_errors=True)


def parser(text):
    made = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--servers", default="vostok,java", help="which, in order (default: %(default)s)")
    made.add_argument("--heap", default="4g", help="of Java's broker (default: %(default)s)")
    made.add_argument("--pin", action=argparse.BooleanOptionalAction, default=False, help="server on core 0, load on core 1")
    warm.add_option(made)
    made.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE", help="a setting of every server, may be repeated")
    return made


def discard(work):
    """Frees the space of a data directory; its many small files go when the script ends.

    ext4 steps over every inode that was deleted in the last minutes when it makes a file: after 100,000 deletions a new
    queue costs ten times as much, and the next cell would pay for the one before.
    """
    for directory, _, names in os.walk(work):
        for name in names:
            path = Path(directory, name)
            if path.stat().st_size > 1 << 20:
                path.unlink()
    if work.exists():
        DISCARDED.mkdir(parents=True, exist_ok=True)
        work.rename(DISCARDED / f"{os.getpid()}-{len(os.listdir(DISCARDED))}")


class Kept:
    """A server of `servers` whose data stays when it stops, until `remove`."""

    def __init__(self, name, chosen, sync=False, conf=(), binary=None, grpc=False, options=(), work="data"):
        self.name, self.sync, self.binary, self.options = name, sync, binary, options
        self.conf = [*chosen.conf, *conf]
        self.heap, self.cpus = chosen.heap, "0" if chosen.pin else ""
        self.load_cpus = "1" if chosen.pin else ""
        self.work = OUT / work
        self.process = self.java = None
        discard(self.work)
        self.work.mkdir(parents=True)
        self.namesrv_port, self.broker_port = ports.free_ports()
        # Java's proxy also takes the port below.
        self.grpc = ["--grpc-port", str(ports.free_ports()[1])] if grpc else []

    @property
    def commit_log(self):
        return self.work / ("store" if self.name == "java" else "data") / "commitlog"

    def start(self):
        """Starts it on what is there; returns the seconds until its ports answered."""
        began = CLOCK()
        pin = ["taskset", "-c", self.cpus] if self.cpus else []
        if self.name == "java":
            if self.java is None:
                grpc = int(self.grpc[1]) if self.grpc else None
                self.java = servers.java(self.work, self.heap, self.cpus, self.sync, self.conf, grpc_port=grpc,
                                         namesrv_port=self.namesrv_port, broker_port=self.broker_port)
            self.pid = self.java.start().pid
            return CLOCK() - began
        file, log = self.work / "broker.conf", self.work / "server.log"
        file.write_text("\n".join([*self.conf, *(["flushDiskType=SYNC_FLUSH"] if self.sync else [])]) + "\n")
        with open(log, "ab") as out:
            self.process = children.start(
                [*pin, self.binary or servers.VOSTOK, "serve", "--data", self.work / "data", "--namesrv-port", str(self.namesrv_port),
                 "--broker-port", str(self.broker_port), "-c", file, *self.grpc, *self.options], stdout=out, stderr=out, stdin=subprocess.DEVNULL)
        self.pid = self.process.pid
        children.await_ports(self.process, [self.namesrv_port, self.broker_port], log)
        return CLOCK() - began

    def end(self, crash):
        """Stops or kills it; returns the seconds that took."""
        began = CLOCK()
        if self.name == "java":
            self.java.kill() if crash else self.java.stop()
        else:
            self.process.send_signal(signal.SIGKILL if crash else signal.SIGTERM)
            self.process.wait(600)
        self.process = None
        return CLOCK() - began

    def remove(self):
        if self.process is not None or (self.java is not None and self.java.runs()):
            self.end(crash=True)
        discard(self.work)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()


class Lab:
    """One tool of the lab while it runs; its flags are the long or short names without dashes, and True for those without a value."""

    def __init__(self, server, tool, nice=0, **flags):
        self.file = OUT / f"lab-{tool}-{id(self)}.json"
        names = {key: f"-{key}" if len(key) == 1 else f"--{key}" for key in flags}
        words = [word for key, value in flags.items() for word in ([names[key]] if value is True else [names[key], str(value)])]
        pin = ["taskset", "-c", server.load_cpus] if server.load_cpus else []
        self.log = open(OUT / "lab.log", "wb")
        self.process = children.start([*pin, "nice", "-n", str(nice), servers.VOSTOK, "lab", tool, "-n", f"127.0.0.1:{server.namesrv_port}", *words, "--json", self.file],
                                        stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        return self.result()

    def result(self, seconds=3600):
        code = self.process.wait(seconds)
        self.log.close()
        if code != 0 or not self.file.exists():
            raise RuntimeError(f"the lab ended with code {code}:\n{(OUT / 'lab.log').read_text(errors='replace')[-2000:]}")
        result = json.loads(self.file.read_text())
        self.file.unlink()
        return result


def produce(server, **flags):
    return Lab(server, "producer", **{"t": "bench", "cores": 1} | flags).result()


def warmed(server, chosen, seconds, **flags):
    """Loads a server before it is measured: Java's until it is steady, others for so many seconds."""
    if server.name != "java":
        produce(server, **flags, duration=seconds)
        return None

    def window(length):
        before = measure.cpu_us(server.pid)
        messages = produce(server, **flags, duration=length)["messages"]
        return (measure.cpu_us(server.pid) - before) / max(1, messages)

    return warm.until_steady(server.name, window, chosen.warm_max)


def measured(server, **flags):
    """One run of the producer with the server's cost: adds CPU per message, worst second, memory, files, bytes in the log,
    and the share of the machine its hypervisor gave to others meanwhile."""
    before, log, machine = measure.cpu_us(server.pid), log_end(server), ticks()
    result = produce(server, **flags)
    cpu = measure.cpu_us(server.pid) - before
    passed = [end - start for end, start in zip(ticks(), machine)]
    result["stolen"] = passed[7] / max(1, sum(passed))
    whole = result["series"][1:-1] or result["series"] or [0]
    result["median_second"], result["worst_second"] = statistics.median(whole), min(whole)
    result["cpu_us_per_message"] = cpu / max(1, result["messages"])
    result["bytes_per_message"] = (log_end(server) - log) / max(1, result["messages"])
    return result | footprint(server)


def ticks():
    """Of all processors, by use: user, nice, system, idle, waiting, interrupts, soft interrupts, stolen."""
    return [int(count) for count in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]


def footprint(server):
    return {"rss": measure.resident(server.pid), "fds": len(os.listdir(f"/proc/{server.pid}/fd"))}


def log_end(server):
    """Roughly the end of the log: what its last files hold on disk is not known from outside, so by what the broker says."""
    table = ask(server.broker_port, 28)[1].get("table", {})
    for key in ("commitLogMaxOffset", "appended"):
        if key in table:
            return int(table[key])
    return 0


def ask(port, code, fields=None, body=b"", timeout=10):
    """One request over a connection of its own: (code, body as JSON or {}, header fields)."""
    header = json.dumps({"code": code, "language": "OTHER", "version": 0, "opaque": 1, "flag": 0, "extFields": fields or {}}).encode()
    with socket.create_connection(("127.0.0.1", port), timeout) as connection:
        connection.sendall(struct.pack(">ii", 4 + len(header) + len(body), len(header)) + header + body)
        answer = connection.makefile("rb")
        total, length = struct.unpack(">ii", answer.read(8))
        head = json.loads(answer.read(length & 0xFFFFFF))
        rest = answer.read(total - 4 - (length & 0xFFFFFF))
    try:
        parsed = json.loads(rest) if rest else {}
    except ValueError:
        # Java's maps have numbers without quotes as keys.
        parsed = json.loads(re.sub(rb"([{,])(\d+):", rb'\1"\2":', rest))
    return head["code"], parsed, head.get("extFields") or {}


def send(port, topic, timeout=10):
    """Sends one message; true if it was acknowledged."""
    fields = {"producerGroup": "bench_probe", "topic": topic, "defaultTopic": "TBW102", "defaultTopicQueueNums": 4, "queueId": 0, "sysFlag": 0,
              "bornTimestamp": int(time.time() * 1000), "flag": 0, "properties": "WAIT\x01true\x02", "reconsumeTimes": 0, "unitMode": False, "batch": False}
    try:
        return ask(port, 10, {key: str(value) for key, value in fields.items()}, b"probe", timeout)[0] == 0
    except (OSError, struct.error, ValueError):
        return False


def drop_caches():
    subprocess.run(["sync"], check=True)
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3\n")
        return True
    except OSError as reason:
        print(f"caches cannot be dropped here ({reason}); cold figures are warm", file=sys.stderr)
        return False


def sequential_read(file, bytes_max):
    """MB/s of one cold sequential read."""
    done = subprocess.run(["dd", f"if={file}", "of=/dev/null", "bs=1M", "iflag=direct", f"count={max(1, bytes_max >> 20)}"], stderr=subprocess.PIPE, text=True)
    found = re.search(r"(\d+) bytes.*copied, ([\d.e-]+) s", done.stderr)
    return int(found[1]) / float(found[2]) / 1e6 if found else 0.0


def loopback(seconds=1.0):
    """MB/s of one TCP stream on the loopback interface."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        target = socket.create_connection(listener.getsockname())
        source, _ = listener.accept()
    end, block = CLOCK() + seconds, bytes(1 << 20)

    def feed():
        try:
            while CLOCK() < end:
                source.sendall(block)
        finally:
            source.close()

    thread = threading.Thread(target=feed)
    began, count, buffer = CLOCK(), 0, bytearray(1 << 20)
    thread.start()
    while got := target.recv_into(buffer):
        count += got
    thread.join()
    target.close()
    return count / (CLOCK() - began) / 1e6


def need_disk(count):
    free = shutil.disk_usage(OUT).free
    if free < count:
        sys.exit(f"{count / 1e9:.1f} GB of disk are needed, {free / 1e9:.1f} GB are free")


def ready(text):
    """Checks what every benchmark needs, sees to its end, and says on what it runs."""
    children.watch_signals()
    OUT.mkdir(exist_ok=True)
    if not servers.VOSTOK.exists():
        sys.exit(f"{servers.VOSTOK} does not exist; run `make build` first")
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=OUT.parent, capture_output=True, text=True).stdout.strip()
    print(f"{text}; commit {commit}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}", flush=True)


def save(name, results):
    (OUT / f"{name}.json").write_text(json.dumps(results, indent=1) + "\n")
    print(f"{OUT / name}.json")


def table(head, rows):
    """Rows of text with right-aligned columns."""
    cells = [[str(cell) for cell in row] for row in [head, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    for row in cells:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths)), flush=True)


def ratio(a, b, places=2):
    return f"{a / b:.{places}f}" if b else "-"
