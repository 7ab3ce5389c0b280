"""Faults of a cluster in an open page of the console: each is made, shown, mended and gone; healthy workloads show nothing.

    python3 -m interop.console_faults [--short] [--only NAME[,NAME]] [--minutes N] [--keep]

Faults: a slave, controllers, a proxy and a name server that are killed, a listener that hangs, a clock that is off, a full disk, a
certificate that ends soon or has ended. The overview is opened once and stays open. The seconds until it names the check of a fault, and until no page has
it any more, are printed in a table and not asserted. `--short` leaves out what needs Java. The full disk needs root, for a file system of its
own. Ends with `console-faults: N passed, N failed, N skipped`.
"""
import argparse
import contextlib
import json
import os
import shutil
import subprocess
import time
from urllib.request import urlopen

from interop.console import REFRESHED, Browser
from interop.controller import controller
from interop.doctor import MEANT_SECONDS, commit, doctor, send, workloads
from tests.kit import downloads, ports
from tests.kit.cases import side_by_side
from tests.kit.paths import ROOT, VOSTOK, WORK
from tests.kit.process import Process
from tests.kit.report import Report, scratch
from tests.kit.servers import Java, Vostok
from tests.kit.topics import await_brokers, group, topic
from tests.kit.waiting import eventually

# A library that moves the clock of a process by as many seconds as MOVED says.
CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, now);
    if (result == 0 && clock == CLOCK_REALTIME) now->tv_sec += atoi(getenv("MOVED"));
    return result;
}
time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
"""
# Checks of the machine, which is no part of the cluster.
MACHINE = {"open-files-limit", "open-files-used-up", "swap-in-use", "dirty-limits", "file-system", "clock-source", "control-group-memory",
           "control-group-processor"}
DISK_BYTES = 200 << 20
SMALL = {"mappedFileSizeCommitLog": 4_194_304, "maxHashSlotNum": 1000, "maxIndexNum": 4000}


class Page:
    """The overview of a console in a browser, which is never loaded again."""

    def __init__(self, running, directory, namesrv):
        port = ports.free_port()
        command = [VOSTOK, "serve", "--roles", "console", "-n", namesrv, "--data", directory / "console", "--console", f"127.0.0.1:{port}"]
        self.root, self.console = f"http://127.0.0.1:{port}/", running.enter_context(Process("console", directory, command, [port]))
        self.browser = running.enter_context(contextlib.closing(Browser(directory / "profile")))
        self.browser.open(self.root + "?lang=en")

    def shows(self, code):
        return self.browser.value(f"document.getElementById('verdict').textContent.includes({json.dumps(code)})")

    def text(self):
        return self.browser.value("document.getElementById('verdict').innerText")

    def is_judged(self):
        return self.browser.value(REFRESHED) and "passed" in self.text()

    def findings(self):
        """The findings that are no advice and concern the cluster, by the data of the page."""
        with urlopen(self.root + "api/v1/overview", timeout=120) as answer:
            doctor = json.load(answer)["doctor"] or {"findings": []}
        return {finding["code"]: finding for finding in doctor["findings"] if finding["severity"] != "advice" and finding["code"] not in MACHINE}


class Table:
    """Seconds after which each fault was shown and gone."""

    def __init__(self, case):
        self.case, self.rows = case, []

    def fault(self, page, name, code, make, mend):
        make()
        begin = time.monotonic()
        if not self.case.eventually(f"{name}: the page shows {code}", lambda: page.shows(code), page.text):
            mend()
            return
        shown = time.monotonic() - begin
        level = page.browser.value("document.getElementById('health').className")
        self.case.check(f"{name}: the health is not OK", "critical" in level or "warning" in level, level)
        mend()
        begin = time.monotonic()
        self.case.eventually(f"{name}: {code} is gone", lambda: not page.shows(code), page.text)
        self.rows.append((name, code, shown, time.monotonic() - begin))

    def print(self):
        print(f"\n{'fault':<28} {'check':<24} {'shown after s':>14} {'gone after s':>14}")
        for name, code, shown, gone in self.rows:
            late = f"  later than {MEANT_SECONDS} s" if max(shown, gone) > MEANT_SECONDS else ""
            print(f"{name:<28} {code:<24} {shown:>14.1f} {gone:>14.1f}{late}", flush=True)


def launched(running, server):
    """Starts a broker of several name servers."""
    running.callback(server.stop, clean=False)
    return server.launch()


def replicas(table, directory):
    """A broker set of two at three controllers, the first of which is in the name server."""
    with contextlib.ExitStack() as running:
        numbers = [ports.free_port() for _ in range(3)]
        peers = ";".join(f"n{number}-127.0.0.1:{port}" for number, port in enumerate(numbers))
        controllers = [controller(directory / f"controller-{number}", number, port, peers) for number, port in enumerate(numbers)]
        for server in controllers:
            running.callback(server.stop, clean=False)
            server.launch()
        namesrv = controllers[0].await_ready().namesrv
        conf = {"enableControllerMode": "true", "controllerAddr": ";".join(f"127.0.0.1:{port}" for port in numbers), "brokerIP2": "127.0.0.1", **SMALL}
        brokers = [running.enter_context(Vostok(directory / f"member-{number}", conf, roles="broker", namesrv=namesrv)) for number in range(2)]
        page = Page(running, directory, namesrv)
        table.case.eventually("the page of the broker set is refreshed", page.is_judged, page.text)
        slave = table.case.eventually("one member is a slave", lambda: slave_of(namesrv, brokers))
        if slave:
            table.fault(page, "slave killed", "replica-lost", slave.kill, slave.start)
        table.fault(page, "controller killed", "controller-silent", controllers[2].kill, controllers[2].start)

        def each(act):
            for server in controllers[1:]:
                act(server)
        table.fault(page, "controllers killed", "no-controller-leader", lambda: each(lambda it: it.kill()), lambda: each(lambda it: it.launch()))


def slave_of(namesrv, brokers):
    """The broker that is no master, once the set is complete."""
    done = subprocess.run([VOSTOK, "admin", "cluster", "list", "-n", namesrv, "-o", "json"], capture_output=True, text=True, check=False)
    rows = json.loads(done.stdout or "[]")
    slaves = {row["address"] for row in rows if row["id"] != 0}
    return next((broker for broker in brokers if broker.broker in slaves), None) if len(rows) == len(brokers) else None


def moved_clock(directory, seconds):
    """The environment of a process whose clock is moved."""
    library, source = directory / "clock.so", directory / "clock.c"
    if not library.exists():
        source.write_text(CLOCK)
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return {"LD_PRELOAD": str(library), "MOVED": str(seconds)}


def certificate(directory, days, environment=None):
    """Writes the certificate and the key of the broker, in this order, and returns their paths."""
    names = directory / "certificate.pem", directory / "key.pem"
    new = [directory / f"new-{path.name}" for path in names]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", str(days), "-subj", "/CN=localhost", "-keyout", new[1], "-out", new[0]],
                   check=True, capture_output=True, env=os.environ | (environment or {}))
    for path, made in zip(names, new):
        made.replace(path)
    return names


def certificates(table, page, directory):
    """A certificate that ends soon, and a certificate that ended five days ago."""
    def renew():
        certificate(directory, 90)
    table.fault(page, "certificate ends soon", "certificate-ends-soon", lambda: certificate(directory, 5), renew)
    past = moved_clock(directory, -10 * 86_400)
    table.fault(page, "certificate ended", "certificate-expired", lambda: certificate(directory, 5, past), renew)


@contextlib.contextmanager
def disk(directory, path):
    """A file system of its own at a path."""
    image = directory / "disk.img"
    with open(image, "wb") as file:
        file.truncate(DISK_BYTES)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", image], check=True, capture_output=True)
    path.mkdir(parents=True)
    subprocess.run(["mount", "-o", "loop", image, path], check=True, capture_output=True)
    # The shell unmounts at the end of its standard input, also if this program is killed.
    with subprocess.Popen(["sh", "-c", 'read line; umount -l "$0"', path], stdin=subprocess.PIPE, start_new_session=True):
        yield


def has_own_disk(table, directory, store, running):
    """Whether a directory could get a file system of its own; a machine that has none is noted as a skipped check."""
    try:
        running.enter_context(disk(directory, store))
    except (OSError, subprocess.CalledProcessError) as reason:
        table.case.report.skip("full disk", f"no file system of its own: {reason}")
        return False
    return True


def full_disk(table, page, directory, namesrv, running):
    store = directory / "third" / "store"
    if not has_own_disk(table, directory, store, running):
        return
    conf = {"brokerName": "broker-c", **SMALL}
    launched(running, Vostok(directory / "third", conf, roles="broker", namesrv=namesrv))
    table.case.eventually("the broker with a disk of its own is registered", lambda: doctor(namesrv)["brokers"] == 3)
    filler = store / "filler"

    def fill():
        with open(filler, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(store).free * 97 // 100)
    table.fault(page, "full disk", "disk-refuses", fill, filler.unlink)


def clock(table, page, directory, two):
    """A broker whose clock is two minutes ahead. Brokers start with the library and without it."""
    def started_with(environment):
        two.stop(clean=False)
        two.environment = environment
        two.launch()
    table.fault(page, "clock ahead", "clocks-differ", lambda: started_with(moved_clock(directory, 120)), lambda: started_with(None))


@contextlib.contextmanager
def consumer(directory, namesrv, topic_name, group_name, kind):
    """A consumer of Java, which is killed at the end of the block."""
    jars = downloads.jars(WORK / "client-5.5.0", ROOT / "interop" / "java" / "pom.xml", client_group="org.apache.rocketmq", client_version="5.5.0")
    words = ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Duser.home={directory}", "-cp", f"{jars}/*",
             ROOT / "interop" / "console-java" / "Consumer.java", namesrv, topic_name, group_name, kind]
    with open(directory / f"{group_name}.log", "wb") as log, \
            subprocess.Popen([str(word) for word in words], stdin=subprocess.PIPE, stdout=log, stderr=log) as client:
        try:
            yield client
        finally:
            client.kill()


def hanging(table, page, directory, one):
    """A listener that stands at its first messages."""
    topic(one.broker, "Hangs")
    await_brokers(one.namesrv, "Hangs", 1)
    group(one.broker, "standing")
    commit(one, "standing", "Hangs", 0)
    words = [VOSTOK, "admin", "client", "consumers", "standing", "-n", one.namesrv]
    with consumer(directory, one.namesrv, "Hangs", "standing", "hang") as client:
        eventually(lambda: subprocess.run(words, capture_output=True, check=False).returncode == 0)

        def let_go():
            client.stdin.write(b"\n")
            client.stdin.flush()
        table.fault(page, "listener hangs", "listener-hangs", lambda: send(one, "Hangs", 20), let_go)


def plain(table, directory, options):
    """Two broker sets without controllers, two name servers, and a proxy."""
    def is_wanted(name):
        return not options.only or name in options.only
    directory.mkdir()
    with contextlib.ExitStack() as running:
        names = certificate(directory, 90)
        conf = {"tls.server.certPath": names[0], "tls.server.keyPath": names[1], **SMALL}
        second = running.enter_context(Vostok(directory / "second", roles="namesrv", name="second"))
        grpc = ports.free_port()
        one = running.enter_context(Vostok(directory / "one", conf, roles="namesrv,broker,proxy",
                                           arguments=["--grpc-port", grpc, "-n", second.namesrv], listens=[grpc]))
        servers = f"{one.namesrv};{second.namesrv}"
        two = launched(running, Vostok(directory / "two", {"brokerName": "broker-b", **SMALL}, roles="broker", namesrv=servers, name="two"))
        page = Page(running, directory, servers)
        table.case.eventually("the page is refreshed and shows no finding of the cluster", lambda: page.is_judged() and not page.findings(), page.text)
        java = shutil.which("java") and not options.short
        if is_wanted("healthy"):
            with consumer(directory, one.namesrv, "Load", "everybody", "broadcast") if java else contextlib.nullcontext():
                workloads(table.case, one, directory, options.minutes, f"127.0.0.1:{grpc}", page.findings)
        faults = {
            "certificate": lambda: certificates(table, page, directory),
            "proxy": lambda: killed_proxy(table, page, directory, one, running),
            "namesrv": lambda: table.fault(page, "name server killed", "name-server-silent", second.kill, second.start),
            "clock": lambda: clock(table, page, directory, two),
            "disk": lambda: full_disk(table, page, directory, servers, running),
        }
        if java:
            faults["listener"] = lambda: hanging(table, page, directory, one)
        else:
            table.case.report.skip("listener hangs", "needs a client of Java")
        for name, make in faults.items():
            if is_wanted(name):
                make()


def healthy_java(table, directory, options):
    """Healthy workloads at a broker of Java with its proxy."""
    grpc = ports.free_run(2)[1]
    with contextlib.ExitStack() as running:
        one = running.enter_context(Java(directory, SMALL, grpc_port=grpc))
        page = Page(running, directory, one.namesrv)
        table.case.eventually("the page is refreshed", page.is_judged, page.text)
        workloads(table.case, one, directory, options.minutes, f"127.0.0.1:{grpc}", page.findings)


def killed_proxy(table, page, directory, one, running):
    """A proxy in cluster mode, which the console sees before the proxy is killed."""
    port = ports.free_port()
    proxy = running.enter_context(Vostok(directory / "proxy", roles="proxy", namesrv=one.namesrv, arguments=["--grpc-port", port], listens=[port]))

    def is_known():
        with urlopen(page.root + "api/v1/proxies", timeout=120) as answer:
            return json.load(answer)["members"]
    table.case.eventually("the console knows the proxy", is_known)
    # The doctor of the console has to look once more before the proxy is gone.
    taken = "Number(document.getElementById('verdict').dataset.taken)"
    before = page.browser.value(taken)
    eventually(lambda: page.browser.value(taken) > before)
    table.fault(page, "proxy killed", "proxy-lost", proxy.kill, proxy.start)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="without clients of Java")
    parser.add_argument("--only", default="", help="healthy, certificate, proxy, namesrv, clock, disk, listener, replicas, java")
    parser.add_argument("--minutes", type=float, default=0.5, help="time of the healthy workloads")
    parser.add_argument("--keep", action="store_true", help="keep the stores and logs")
    options = parser.parse_args()
    options.only = {name for name in options.only.split(",") if name}
    os.environ.pop("NAMESRV_ADDR", None)
    report, tables = Report("console-faults"), {}
    if shutil.which("chromium") is None:
        report.skip("everything", "chromium is not installed")
        report.close()

    def scenario(make, directory):
        def perform(case):
            tables[case.name] = Table(case)
            make(tables[case.name], directory)
        return perform
    with scratch(report, options.keep) as directory:
        cases = {"plain": scenario(lambda table, place: plain(table, place, options), directory / "plain"), "replicas": scenario(replicas, directory / "replicas")}
        if shutil.which("java") and not options.short:
            cases["java"] = scenario(lambda table, place: healthy_java(table, place, options), directory / "java")
        if options.only:
            # All faults but those of a case of their own are in the plain cluster.
            cases = {name: make for name, make in cases.items() if name in options.only or name == "plain" and options.only - {"replicas", "java"}}
        side_by_side(report, cases)
        for table in tables.values():
            table.print()
    report.close()


if __name__ == "__main__":
    main()
