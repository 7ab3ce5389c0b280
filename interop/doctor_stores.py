"""Faults of stores, disks, Java brokers and machines that the doctor of an open console finds on real clusters.

    python3 -m interop.doctor_stores [--only NAME[,NAME]] [--keep]

Scenarios: name servers without brokers, old messages (brokers whose clock was behind), damaged files, disks that stand still, refuse or are
full (own file systems, needs root), lost controllers, brokers of Java, limits of processes and kernel settings (a console whose mounts
hide the machine's own files). Faults are made, found, mended and gone as in `interop.doctor_faults`.
Ends with `doctor-stores: N passed, N failed, N skipped`.
"""
import contextlib
import fcntl
import json
import os
import resource
import shutil
import struct
import subprocess
import threading
import time
from pathlib import Path

from interop.console_faults import SMALL, has_own_disk, moved_clock
from interop.controller import controller
from interop.doctor import admin, commit, send
from interop.doctor_faults import Console, Table, drive, other
from tests.kit import ports
from tests.kit.paths import VOSTOK
from tests.kit.servers import Java, Vostok, is_routed
from tests.kit.topics import Refused, ask, end, group, topic
from tests.kit.waiting import eventually

PULL, POP_LITE, LITE_SUBSCRIPTION = 11, 200070, 200071
# Open files that a broker needs.
FILES = 65_536
# FS_IOC_SHUTDOWN, and its argument: nothing more is written.
SHUTDOWN, NO_FLUSH = 0x8004587D, struct.pack("I", 2)


def pull(topic_name):
    """Fields of a pull from the beginning of a queue."""
    return {"consumerGroup": "Any", "topic": topic_name, "queueId": 0, "queueOffset": 0, "maxMsgNums": 32, "sysFlag": 4, "commitOffset": 0,
            "suspendTimeoutMillis": 0, "subscription": "*", "subVersion": 0, "expressionType": "TAG"}


class Sender(contextlib.AbstractContextManager):
    """Threads that send messages until the end of the block, whatever is answered, with a pause in seconds between the messages."""

    def __init__(self, broker, topic_name, count, body=b"x", pause=0.01):
        self.broker, self.topic, self.body, self.pause, self.goes_on = broker, topic_name, body, pause, True
        self.threads = [threading.Thread(target=self.run, daemon=True) for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def run(self):
        while self.goes_on:
            with contextlib.suppress(Refused, OSError, struct.error):
                send(self, self.topic, 1, self.body)
            time.sleep(self.pause)

    def __exit__(self, *_):
        self.goes_on = False
        for thread in self.threads:
            thread.join()


def first(servers):
    """The first of the name servers."""
    return servers.partition(";")[0]


def forget(servers, broker, name, number=0):
    """Stops a broker in order, so that it is not missed."""
    if isinstance(broker, Java):
        broker.stop()
    else:
        broker.stop(clean=False)
    admin(servers, "namesrv", "forget", name, "--cluster", "DefaultCluster", "--address", broker.broker, "--id", number)


def reach(table, directory, servers, running):
    """A name server without brokers, and a broker of Java among brokers of Vostok."""
    bare = Vostok(directory / "bare", roles="namesrv", name="bare")
    running.callback(bare.stop, clean=False)
    own = Table(table.case, Console(running, directory / "bare", bare.namesrv))
    broker = other(directory, "first", {"brokerName": "broker-a"}, bare.namesrv)
    running.callback(broker.stop, clean=False)
    own.fault("no-broker", lambda: bare.launch().await_ready(), broker.launch, bare.namesrv)
    table.rows.extend(own.rows)
    java = Java(directory / "java", {"brokerName": "broker-b"}, only="broker", namesrv=first(servers))
    running.callback(java.kill)
    table.fault("mixed-versions", java.start, lambda: forget(servers, java, "broker-b"), "broker-b")


def behind(directory, name, hours, prepare):
    """A broker that stored what `prepare` sends while its clock was some hours behind; it is not started again."""
    conf = SMALL | {"brokerName": name, "transactionTimeOut": 1000, "transactionCheckInterval": 1000, "enableLmq": "true", "enableMultiDispatch": "true",
                    "cleanResourceInterval": 1000}
    with Vostok(directory / name, conf, environment=moved_clock(directory, -hours * 3600)) as past:
        prepare(past)
    return conf


def old(table, directory, servers):
    """Messages that have waited for hours."""
    def prepare(past):
        topic(past.broker, "Old")
        group(past.broker, "Slow")
        send(past, "Old", 5)
        commit(past, "Slow", "Old", 1)
    conf = behind(directory, "broker-c", 71, prepare)
    now = other(directory, "broker-c", conf, servers)
    table.fault("group-lag-expires", now.launch, lambda: commit(now, "Slow", "Old", 5), "Slow")
    forget(servers, now, "broker-c")


def held(table, directory, servers):
    """Files that have expired and are kept for a group."""
    def prepare(past):
        topic(past.broker, "Kept")
        group(past.broker, "Keeper")
        send(past, "Kept", 12, b"x" * (1 << 20))
        commit(past, "Keeper", "Kept", 1)
    conf = behind(directory, "broker-d", 80, prepare)
    now = other(directory, "broker-d", conf, servers)
    # The time of the last change of a file decides whether the file has expired.
    for file in (now.store / "commitlog").iterdir():
        os.utime(file, (time.time() - 80 * 3600,) * 2)

    def make():
        now.launch().await_ready(lambda: is_routed(first(servers), "Kept"))
        admin(servers, "broker", "clean-log", "--broker", now.broker)
    table.fault("retention-held", make, lambda: commit(now, "Keeper", "Kept", 12), "Keeper")
    forget(servers, now, "broker-d")


def lite(table, directory, servers):
    """A subscribed lite topic whose message waits."""
    def subscribe(broker, action="PARTIAL_ADD"):
        change = {"action": action, "clientId": "reader@1", "group": "LiteReaders", "topic": "Parent", "liteTopicSet": ["room"], "version": 0}
        ask(broker, LITE_SUBSCRIPTION, {}, json.dumps({"subscriptionSet": [change]}).encode())

    def prepare(past):
        topic(past.broker, "Parent", "LITE")
        group(past.broker, "LiteReaders", attributes={"+lite.bind.topic": "Parent"})
        subscribe(past.broker)
        send(past, "Parent", 1, properties="__LITE_TOPIC\1room\2")
        # A group has an offset in a lite topic from its first pop on.
        ask(past.broker, POP_LITE, {"topic": "Parent", "consumerGroup": "LiteReaders", "clientId": "reader@1", "maxMsgNum": 8, "invisibleTime": 60_000,
                                    "pollTime": 0})
    conf = behind(directory, "broker-e", 1, prepare)
    now = other(directory, "broker-e", conf, servers)

    def make():
        now.launch().await_ready()
        subscribe(now.broker)
    table.fault("lite-topic-stuck", make, lambda: subscribe(now.broker, "PARTIAL_REMOVE"), "room")
    forget(servers, now, "broker-e")


def halves(table, directory, servers):
    """A transaction that is given up after one check."""
    conf = {"brokerName": "broker-f", "transactionTimeOut": 1000, "transactionCheckInterval": 1000, "transactionCheckMax": 1}
    broker = other(directory, "broker-f", conf, servers).launch().await_ready()
    topic(broker.broker, "Halves", "TRANSACTION")
    fields = {"producerGroup": "Deciders", "topic": "Halves", "defaultTopic": "TBW102", "defaultTopicQueueNums": 4, "queueId": 0, "sysFlag": 4,
              "bornTimestamp": int(time.time() * 1000) - 600_000, "flag": 0, "reconsumeTimes": 0, "unitMode": "false", "batch": "false",
              "properties": "TRAN_MSG\1true\2PGROUP\1Deciders\2UNIQ_KEY\1A1\2"}

    def give_up():
        ask(broker.broker, 10, fields, b"half")
        eventually(lambda: end(broker.broker, "TRANS_CHECK_MAX_TIME_TOPIC", 0), refused=Refused)
    table.fault("halves-given-up", give_up, lambda: forget(servers, broker, "broker-f"), "broker-f")


def damaged(table, directory, servers):
    """A damaged message, and a damaged delayed message."""
    broker = other(directory, "broker-g", {"brokerName": "broker-g"}, servers).launch().await_ready()
    for name in ("Damaged", "Later"):
        topic(broker.broker, name)
    send(broker, "Damaged", 1, b"damaged body")
    send(broker, "Later", 1, b"delayed body", "DELAY\0014\2")
    due = time.monotonic() + 31
    # A start checks the last files of the log, and cuts a damaged end off.
    send(broker, "Damaged", 12, b"x" * (1 << 20))
    log = min((broker.store / "commitlog").iterdir())
    content = log.read_bytes()

    def restart(text):
        broker.stop()
        log.write_bytes(text)
        broker.launch().await_ready()

    def damage():
        restart(content.replace(b"damaged body", b"Damaged body").replace(b"delayed body", b"Delayed body"))
        with contextlib.suppress(Refused):
            ask(broker.broker, PULL, pull("Damaged"))
        eventually(lambda: time.monotonic() > due)
    table.fault("messages-damaged messages-undelivered", damage, lambda: restart(content), "broker-g")
    forget(servers, broker, "broker-g")


def rebuilt(table, directory, servers):
    """A large log whose queues have to be rebuilt."""
    broker = other(directory, "broker-h", {"brokerName": "broker-h", "mappedFileSizeCommitLog": 1 << 27}, servers).launch().await_ready()
    topic(broker.broker, "Large")
    send(broker, "Large", 250, b"x" * (1 << 20))
    broker.stop()
    shutil.rmtree(broker.store / "consumequeue")
    # The rebuild is the mend.
    table.fault("queues-lost", broker.launch, lambda: None, "broker-h")
    forget(servers, broker, "broker-h")


class Disk:
    """A broker whose store has a file system of its own."""

    def __init__(self, table, directory, servers, running, name):
        self.store = directory / name / "store"
        (directory / name).mkdir()
        self.is_there = has_own_disk(table, directory / name, self.store, running)
        if self.is_there:
            self.broker = other(directory, name, {"brokerName": name}, servers)
            running.callback(self.broker.kill)
            running.callback(self.thaw)

    def freeze(self):
        subprocess.run(["fsfreeze", "-f", self.store], check=True)

    def thaw(self):
        subprocess.run(["fsfreeze", "-u", self.store], check=False, stderr=subprocess.DEVNULL)

    def fill(self, percent):
        usage = shutil.disk_usage(self.store)
        with open(self.store / "filler", "wb") as file:
            os.posix_fallocate(file.fileno(), 0, usage.total * percent // 100 - (usage.total - usage.free))

    def clear(self):
        (self.store / "filler").unlink()


def disks(table, directory, servers, running):
    """Disks that are nearly full, stand still, or are gone."""
    disk = Disk(table, directory, servers, running, "broker-i")
    if not disk.is_there:
        return
    broker = disk.broker.launch().await_ready()
    topic(broker.broker, "Disk")
    table.fault("disk-deletes-unexpired", lambda: disk.fill(88), disk.clear, "broker-i")
    with contextlib.ExitStack() as sending:
        def stall():
            disk.freeze()
            sending.enter_context(Sender(broker.broker, "Disk", 1))
        table.fault("disk-stalled", stall, disk.thaw, "broker-i")

        def stall_for_a_minute():
            began = time.monotonic()
            send(broker, "Disk", 1, properties="DELAY\0012\2")
            send(broker, "Disk", 1, properties=f"TIMER_DELIVER_MS\1{int(time.time() * 1000) + 4000}\2")
            disk.freeze()
            eventually(lambda: time.monotonic() > began + 62)
        table.fault("delay-level-behind timer-behind", stall_for_a_minute, disk.thaw, "broker-i")

        def lose():
            with open(disk.store / "lock", "rb") as file:
                fcntl.ioctl(file.fileno(), SHUTDOWN, NO_FLUSH)

        def mount():
            broker.kill()
            subprocess.run(["umount", "-l", disk.store], check=True)
            subprocess.run(["mount", "-o", "loop", directory / "broker-i" / "disk.img", disk.store], check=True)
            running.callback(subprocess.run, ["umount", "-l", disk.store], check=False)
            broker.launch().await_ready()
        table.fault("refused-fenced", lose, mount, "broker-i")

        def grow():
            eventually(lambda: forecast(servers, broker))
        table.fault("disk-full-soon", grow, lambda: forget(servers, broker, "broker-i"), "broker-i")


def forecast(servers, broker):
    words = [VOSTOK, "admin", "broker", "status", "--broker", broker.broker, "-n", servers, "-o", "json"]
    return b"commitLogDiskFullInSeconds" in subprocess.run(words, capture_output=True, check=False).stdout


def controllers(table, directory, running):
    """Controllers that lost their disks."""
    port = ports.free_port()
    server = controller(directory / "controller-0", 0, port, f"n0-127.0.0.1:{port}")
    running.callback(server.stop, clean=False)
    server.launch().await_ready()
    conf = SMALL | {"enableControllerMode": "true", "controllerAddr": f"127.0.0.1:{port}", "brokerIP2": "127.0.0.1", "brokerName": "broker-k"}
    broker = running.enter_context(Vostok(directory / "broker-k", conf, roles="broker", namesrv=server.namesrv))
    own = Table(table.case, Console(running, directory / "controller-0", server.namesrv))
    known = json.loads(subprocess.run([VOSTOK, "admin", "cluster", "list", "-n", server.namesrv, "-o", "json"], capture_output=True, check=True).stdout)
    table.case.check("the set has a broker", known, known)

    def lose():
        server.kill()
        shutil.rmtree(directory / "controller-0" / "controller")
        server.start()

    def rebuild():
        number = (broker.store / "brokerIdentity").read_text().rpartition("#")[2].strip()
        words = [VOSTOK, "controller", "rebuild", "--to", f"127.0.0.1:{port}", "--brokers", f"{number}@{broker.broker}"]
        subprocess.run(words, check=True, capture_output=True)
    own.fault("unknown-to-controllers", lose, rebuild, "broker-k")
    table.rows.extend(own.rows)


def java(table, directory, servers, running):
    """A broker of Java that refuses messages."""
    # A broker of Java whose disk stands still answers no request, so that the doctor names it silent.
    broker = Java(directory / "broker-l", {"brokerName": "broker-l"} | SMALL, only="broker", namesrv=first(servers))
    running.callback(broker.kill)
    broker.start()
    topic(broker.broker, "Java")
    too_long = contextlib.ExitStack()
    table.fault("puts-failed", lambda: too_long.enter_context(Sender(broker.broker, "Java", 1, b"x" * (5 << 20), 1)), too_long.close, "broker-l")

    def restart(pool):
        broker.kill()
        text = broker.conf.read_text().replace("transientStorePoolEnable=true\n", "")
        broker.conf.write_text(text + ("transientStorePoolEnable=true\ntransientStorePoolSize=1\n" if pool else ""))
        broker.launch()
        eventually(lambda: topic(broker.broker, "Java") is None, refused=(Refused, OSError, struct.error))
        with contextlib.suppress(Refused):
            send(broker, "Java", 1)
    table.fault("buffers-used-up", lambda: restart(True), lambda: restart(False), "broker-l")
    forget(servers, broker, "broker-l")


# A healthy machine: the files that the doctor reads, and what they contain.
HEALTHY = {
    "/proc/meminfo": "MemTotal: 8000000 kB\nSwapTotal: 1000 kB\nSwapFree: 1000 kB\n",
    "/proc/sys/vm/swappiness": "1\n", "/proc/sys/vm/dirty_ratio": "20\n", "/proc/sys/vm/dirty_writeback_centisecs": "500\n",
    "/proc/sys/vm/max_map_count": "655360\n", "/sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "/sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n"}
GROUP = {"memory.max": "8000000000\n", "memory.events": "oom_kill 3\n", "cpu.max": "100000 100000\n", "cpu.stat": "nr_periods 1000\nnr_throttled 900\n"}
KERNEL = {
    "swap-in-use": ("/proc/meminfo", "MemTotal: 8000000 kB\nSwapTotal: 1000 kB\nSwapFree: 4 kB\n", "996 KiB"),
    "swappiness": ("/proc/sys/vm/swappiness", "60\n", "60"),
    "dirty-limits": ("/proc/sys/vm/dirty_ratio", "80\n", "80"),
    "write-back-rare": ("/proc/sys/vm/dirty_writeback_centisecs", "0\n", "never"),
    "huge-pages-always": ("/sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n", "always"),
    "clock-source": ("/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n", "hpet"),
    "maps-limit": ("/proc/sys/vm/max_map_count", "65530\n", "65530")}


def machine(table, directory, servers, running, one):
    """Limits of a process, a store in memory, and files of the kernel that a console sees instead of those of this machine."""
    limits = resource.prlimit(one.pid, resource.RLIMIT_NOFILE)
    used = len(os.listdir(f"/proc/{one.pid}/fd"))

    def limit(files):
        return lambda: resource.prlimit(one.pid, resource.RLIMIT_NOFILE, (files, limits[1]))
    if limits[1] >= FILES:
        limit(FILES)()
        table.fault("open-files-limit", limit(used * 4), limit(FILES), str(one.pid))
    else:
        table.case.eventually(f"open-files-limit is found: {limits}", lambda: [it for it in table.console.findings("open-files-limit") if str(one.pid) in it])
    table.fault("open-files-used-up", limit(used + 2), limit(limits[1]), str(one.pid))
    with contextlib.ExitStack() as memory:
        place = Path("/dev/shm") / f"doctor-{os.getpid()}"
        memory.callback(shutil.rmtree, place, ignore_errors=True)
        broker = other(place, "broker-m", {"brokerName": "broker-m"}, servers)
        table.fault("file-system", broker.launch, lambda: forget(servers, broker, "broker-m"), "tmpfs")
    files = directory / "kernel"
    (files / "group").mkdir(parents=True)
    for name, text in GROUP.items():
        (files / "group" / name).write_text(text)
    device = subprocess.run(["findmnt", "-no", "SOURCE", "-T", directory], capture_output=True, text=True, check=True).stdout.strip()
    queue = f"/sys/class/block/{device.removeprefix('/dev/')}/queue"
    healthy = HEALTHY | {f"{queue}/rotational": "0\n", f"{queue}/scheduler": "[none] bfq\n"}
    faults = KERNEL | {"io-scheduler": (f"{queue}/scheduler", "none [bfq]\n", "bfq")}
    places = {path: files / str(number) for number, path in enumerate(healthy) if Path(path).exists()}
    for path, place in places.items():
        place.write_text(healthy[path])
    mounts = [f"mount --bind {place} {path}" for path, place in (places | {"/sys/fs/cgroup": files / "group"}).items()]
    prefix = ["unshare", "--mount", "sh", "-c", " && ".join([*mounts, 'exec "$@"']), "sh"]
    jvm = Java(directory / "java-machine", {"brokerName": "broker-n"}, only="broker", namesrv=first(servers))
    running.callback(jvm.kill)
    jvm.start()
    own = Table(table.case, Console(running, directory / "kernel", servers, prefix))
    for code, (path, text, names) in faults.items():
        if path not in places:
            table.case.report.skip(code, f"this kernel has no {path}")
            continue
        own.fault(code, lambda path=path, text=text: places[path].write_text(text), lambda path=path: places[path].write_text(healthy[path]), names)
    group_file = files / "group"

    def throttle():
        (group_file / "cpu.stat").write_text("nr_periods 1100\nnr_throttled 950\n")
    own.fault("control-group-processor", throttle, lambda: None, "50 of 100 periods")
    limit_file = group_file / "memory.max"
    own.fault("control-group-memory", lambda: limit_file.write_text("100000000\n"), lambda: limit_file.write_text(GROUP["memory.max"]), "95 MiB")
    # A killed process is a finding for an hour; a count that is smaller again ends it.
    events = group_file / "memory.events"
    own.fault("control-group-memory", lambda: events.write_text("oom_kill 4\n"), lambda: events.write_text(GROUP["memory.events"]), "1 processes")
    table.rows.extend(own.rows)
    jvm.kill()


def main():
    drive("doctor-stores", __doc__, lambda table, directory, servers, running, one, second: {
        "reach": lambda: reach(table, directory, servers, running),
        "old": lambda: old(table, directory, servers),
        "held": lambda: held(table, directory, servers),
        "lite": lambda: lite(table, directory, servers),
        "halves": lambda: halves(table, directory, servers),
        "damaged": lambda: damaged(table, directory, servers),
        "rebuilt": lambda: rebuilt(table, directory, servers),
        "disks": lambda: disks(table, directory, servers, running),
        "controllers": lambda: controllers(table, directory, running),
        "java": lambda: java(table, directory, servers, running),
        "machine": lambda: machine(table, directory, servers, running, one),
    })


if __name__ == "__main__":
    main()
