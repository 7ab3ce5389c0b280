"""What a server process costs while the lab loads it."""
import json
import mmap
import os
import resource
import shutil
import subprocess
import threading
import time
from pathlib import Path

from bench import children
from bench.servers import VOSTOK

TICK_US = 1_000_000 / os.sysconf("SC_CLK_TCK")
DISK_BYTES_PER_SECOND = 2_000_000_000  # more than one core of load can have written


def touch_memory(limit):
    """First touch of guest memory costs 8 us per 4 KiB page on virtual machines, so it is done before anyone is measured."""
    started = time.monotonic()
    available = int(next(line.split()[1] for line in open("/proc/meminfo") if line.startswith("MemAvailable"))) << 10
    share = min(int(available * 0.85), limit) // 2 & ~0xFFFFF
    children = []
    for _ in range(2):
        child = os.fork()
        if child == 0:
            mmap.mmap(-1, share, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    return 2 * share, time.monotonic() - started


def cpu_us(pid):
    """User and system time of all threads, ended ones included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * TICK_US


def switches(pid):
    """Context switches by thread; a thread that ended is not in it."""
    counts = {}
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            lines = (thread / "status").read_text().splitlines()
        except OSError:
            continue  # the thread ended meanwhile
        counts[thread.name] = sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)
    return counts


def machine_busy_us():
    """Time in which any core of the machine did something."""
    fields = [int(field) for field in open("/proc/stat").readline().split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) * TICK_US  # without idle and waiting for the disk


def children_us():
    """CPU time of the lab's runs that ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (usage.ru_utime + usage.ru_stime) * 1e6


def resident(pid):
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    return {key: int(status[key].split()[0]) << 10 for key in ("VmRSS", "RssAnon", "RssFile") if key in status}


def load(server, cell, seconds, directory, cpus):
    """One run of the lab; returns its JSON result."""
    file = directory / "lab.json"
    file.unlink(missing_ok=True)
    pin = ["taskset", "-c", cpus] if cpus else []
    arguments = [*pin, VOSTOK, "lab", "producer", "-n", f"127.0.0.1:{server.namesrv_port}", "-t", cell.get("topic", "bench"),
                 "-w", str(cell["w"]), "-s", str(cell["size"]), "--queues", "8", "--duration", str(seconds), "--json", file]
    arguments += ["--rate", str(cell["rate"])] if "rate" in cell else []
    done = children.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds + 60)
    if done.returncode != 0 or not file.exists():
        raise RuntimeError(f"the lab failed against {server.name} with code {done.returncode}:\n{done.stdout[-2000:]}")
    return json.loads(file.read_text())


def cost(server, cell, seconds, directory, cpus):
    """CPU in us per message of one run of the lab."""
    before = cpu_us(server.pid)
    result = load(server, cell, seconds, directory, cpus)
    return (cpu_us(server.pid) - before) / max(1, result["messages"])


def measure(server, cell, seconds, directory, cpus):
    """A short run that is not counted, then the measured one."""
    needed = seconds * min(DISK_BYTES_PER_SECOND, cell.get("rate", 1e9) * cell["size"] * 1.5)
    free = shutil.disk_usage(directory).free
    if free < needed:
        raise RuntimeError(f"{needed / 1e9:.0f} GB of disk are needed for {seconds:.0f} s, {free / 1e9:.0f} GB are free")
    load(server, {key: value for key, value in cell.items() if key != "rate"}, 1, directory, cpus)
    before, cpu = switches(server.pid), cpu_us(server.pid)
    late = {}  # threads that end with their connection are read shortly before that
    timer = threading.Timer(seconds - 0.1, lambda: late.update(switches(server.pid)))
    timer.start()
    busy, ours = machine_busy_us(), children_us()
    started = time.monotonic()
    result = load(server, cell, seconds, directory, cpus)
    wall = time.monotonic() - started
    timer.join()
    cpu = cpu_us(server.pid) - cpu
    others = machine_busy_us() - busy - (children_us() - ours) - cpu
    after = late | switches(server.pid)
    messages = max(1, result["messages"])
    return {
        "server": server.name, "sync": server.sync, **cell, **result, "wall_seconds": wall,
        "cpu_us_per_message": cpu / messages,
        "others_share": max(0, others) / (wall * 1e6),
        "cpu_share": cpu / (wall * 1e6),
        "switches_per_message": sum(count - before.get(thread, 0) for thread, count in after.items()) / messages,
        "rss_bytes": resident(server.pid),
    }
