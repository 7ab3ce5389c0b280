"""Scenarios of the official clients of the remoting protocol, against Vostok or, to prove the scenarios, against Apache RocketMQ.

    python3 -m interop.remoting_clients [--short] [--against vostok|java] [--through-proxy] [--only NAME[,NAME]] [--client NAME[,NAME]] [--keep]

The programs in java/, java-old/, go/ and python/ take a name server, a broker, an id of the run and names of scenarios, and print `@ok NAME
SECONDS NOTE` or `@fail NAME SECONDS REASON`. A scenario that needs the broker restarted prints `@restart` or `@kill9` and waits for a line.
With --through-proxy the programs use the remoting port of `vostok serve --roles proxy` alone, and run the scenarios that its requests
suffice for.
"""
import argparse
import contextlib
import os
import queue
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tests.kit import downloads, ports
from tests.kit.paths import ROOT, WORK
from tests.kit.report import Report, scratch
from tests.kit.servers import Java, Vostok

HERE = ROOT / "interop"
APACHE = "org.apache.rocketmq"
# Property filters and traces are off by default; transactions are checked late.
SETTINGS = {"enablePropertyFilter": "true", "traceTopicEnable": "true", "transactionTimeOut": 6_000, "transactionCheckInterval": 1_000}
# Requests of these scenarios are served by proxies, which create no topics, find no messages by key, pass on no replies and know no
# earliest store time.
BY_PROXY = set("send-sync send-async send-oneway send-batch compression large-body tags sql volume long-polling broadcast transactions rebalance "
               "orderly retry-dlq lite-pull pull".split())
# A scenario may wait for several outcomes; the programs end each wait by themselves.
PHASE_SECONDS = 1200


@dataclass(frozen=True)
class Client:
    """A client library. `build` returns the words that start its program; `{home}` in them is a directory for its files."""
    name: str
    build: Callable[[], list]
    # Scenarios of --short; with a star those of --short --through-proxy.
    short: str = ""


def java(version, group=APACHE, old=False):
    """Builds the Java program for a version of the client."""
    jars = downloads.jars(WORK / f"client-{version}", HERE / "java" / "pom.xml", client_group=group, client_version=version)
    sources = [file for file in (HERE / "java").rglob("*.java") if not (version.startswith("4.") and "java5" in file.parts)]
    if old:
        sources = [WORK / f"source-{version}" / "Old.java"]
        sources[0].parent.mkdir(parents=True, exist_ok=True)
        sources[0].write_text((HERE / "java-old" / "Old.java").read_text().replace(APACHE, group))
    classes = downloads.classes(WORK / f"classes-{version}", jars, sources)
    return ["java", "-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Dfile.encoding=UTF-8", "-Drocketmq.client.logLevel=WARN",
            "-Duser.home={home}", "-Djava.io.tmpdir={home}", "-cp", f"{classes}:{jars}/*", "Old" if old else "interop.Main"]


CLIENTS = (
    Client("java-4.9.8", lambda: java("4.9.8")),
    Client("java-5.5.0", lambda: java("5.5.0"),
           "send-sync* send-async* send-oneway send-batch* compression tags* sql* offsets queries transactions* orderly* retry-dlq* requests broadcast "
           "lite-pull* pop-share pop-retry restart kill9 pop-restart"),
    Client("go-2.1.2", lambda: [downloads.go(WORK / "interop-go", HERE / "go")],
           "send-sync send-async send-oneway send-batch compression tags orderly retry-dlq requests broadcast pull restart kill9"),
    Client("python-0.4.4", lambda: [downloads.python(WORK / "python-0.4.4", "rocketmq==0.4.4"), HERE / "python" / "cases.py"],
           "send-sync send-async send-oneway compression tags orderly retry broadcast delay pull restart"),
    Client("java-3.2.6", lambda: java("3.2.6", "com.alibaba.rocketmq", old=True)),
    Client("java-4.0.0-incubating", lambda: java("4.0.0-incubating", old=True)),
)


class Phase:
    """A process for each client. The server goes down once, when all scenarios that are left ask for it."""

    def __init__(self, title, server, entry, environment, directory, report):
        self.title, self.server, self.report, self.directory = title, server, report, directory
        self.addresses, self.environment = [entry, server.broker], environment
        self.lines, self.processes, self.left, self.asking = queue.Queue(), {}, {}, Counter()

    def launch(self, client, words, names):
        """Starts a client's program in a directory of its own, with the names of its scenarios."""
        home = self.directory / client.name
        home.mkdir(parents=True)
        command = [*started(words, home), *self.addresses, f"{client.name.replace('.', '_')}_{int(time.time())}", *names]
        with open(home / "errors.log", "wb") as errors:
            self.processes[client.name] = process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, cwd=home,
                                                                     env=os.environ | self.environment | {"HOME": str(home)})
        self.left[client.name] = set(names)
        threading.Thread(target=self.follow, args=(client.name, process, home / "output.log"), daemon=True).start()

    def follow(self, client, process, log):
        """Passes the lines for the runner on, and None at the end. Other lines go to the log."""
        with open(log, "wb") as file:
            for line in process.stdout:
                if line.startswith(b"@"):
                    self.lines.put((client, line[1:].decode("utf-8", "replace").strip()))
                else:
                    file.write(line)
        self.lines.put((client, None))

    def perform(self):
        """Follows the programs until all have ended."""
        running, end = set(self.processes), time.monotonic() + PHASE_SECONDS
        while running and time.monotonic() < end:
            try:
                client, line = self.lines.get(timeout=1)
            except queue.Empty:
                continue
            if line is None:
                running.discard(client)
            elif line == self.title:
                self.asking[client] += 1
            else:
                self.result(client, line)
            if self.asking and self.asking.total() >= sum(len(self.left[name]) for name in running):
                self.interrupt()
        for client, process in self.processes.items():
            why = f"no result within {PHASE_SECONDS} s" if client in running else f"the program ended with code {process.wait()}"
            for name in sorted(self.left[client]):
                self.report.check(f"{client} {name}", False, f"{why}, see {self.directory / client}")

    def kill(self):
        """Ends the programs that still run."""
        for process in self.processes.values():
            process.kill()
            process.wait()

    def result(self, client, line):
        outcome, name, seconds, note = (line.split(" ", 3) + [""])[:4]
        self.left[client].discard(name)
        self.report.check(f"{client} {name}" + (f": {seconds} s, {note}" if outcome == "ok" else ""), outcome == "ok", note)

    def interrupt(self):
        """Stops or kills the server, starts it again and tells the scenarios."""
        began = time.monotonic()
        (self.server.stop if self.title == "restart" else self.server.kill)()
        ended = time.monotonic()
        self.server.start()
        print(f"{self.title}: down after {ended - began:.2f} s, back {time.monotonic() - ended:.2f} s later", flush=True)
        for client, count in self.asking.items():
            with contextlib.suppress(BrokenPipeError):  # a program that has ended is reported with its code
                self.processes[client].stdin.write(b"done\n" * count)
                self.processes[client].stdin.flush()
        self.asking = Counter()


def started(words, home):
    return [str(word).replace("{home}", str(home)) for word in words]


def build(client, options):
    """Builds a client. Returns the words that start its program, the scenarios that the program lists, and the chosen scenarios.

    Raises RuntimeError if the program ends with an error, lists no scenario, or lacks a scenario of `short`.
    """
    words = client.build()
    names = downloads.run(*started(words, WORK), "list", failure=RuntimeError).split()
    unknown = [name for name in client.short.replace("*", "").split() if name not in names]
    if unknown or not names:
        raise RuntimeError(f"the program lists {names}, without {unknown}")
    if options.only:
        chosen = options.only.split(",")
    elif options.short:
        chosen = [name.removesuffix("*") for name in client.short.split() if name.endswith("*") or not options.through_proxy]
    else:
        chosen = BY_PROXY if options.through_proxy else names
    return words, names, [name for name in names if name in chosen]


def build_all(clients, report, options):
    """Builds clients at the same time. Returns client, words and chosen scenarios of each; counts a client that cannot be built or run."""
    with ThreadPoolExecutor() as pool:
        tasks = [(client, pool.submit(build, client, options)) for client in clients]
    builds, listed, is_complete = [], set(), True
    for client, task in tasks:
        try:
            words, names, chosen = task.result()
        except downloads.Unavailable as reason:
            report.skip(f"all scenarios of {client.name}", reason)
            is_complete = False
        except RuntimeError as failure:
            report.check(f"{client.name}: the program starts and lists its scenarios", False, failure)
        else:
            listed.update(names)
            if chosen:
                builds.append((client, words, chosen))
    wanted = set(filter(None, options.only.split(",")))
    if is_complete and wanted - listed:
        report.check("the scenarios of --only exist", False, f"no client lists {sorted(wanted - listed)}")
    return builds


def run(directory, report, options):
    """Builds the clients, starts the servers and performs all phases."""
    names = set(filter(None, options.client.split(",")))
    if unknown := names - {client.name for client in CLIENTS}:
        raise RuntimeError(f"no client has the names {sorted(unknown)}")
    clients = [client for client in CLIENTS if client.name in names or not names and (not options.short or client.short)]
    builds = build_all(clients, report, options)
    server = (Vostok if options.against == "vostok" else Java)(directory / "server", conf=SETTINGS)
    entry, environment = server.namesrv, {}
    with contextlib.ExitStack() as running:
        running.enter_context(server)
        if options.through_proxy:
            grpc, port = ports.free_run(2)
            running.enter_context(Vostok(directory / "proxy", roles="proxy", namesrv=server.namesrv, listens=[grpc, port],
                                         arguments=["--grpc-port", grpc, "--proxy-port", port]))
            entry, environment = f"127.0.0.1:{port}", {"INTEROP_NAMESRV": server.namesrv}  # proxies create no topics
        for title in ("together", "restart", "kill9"):
            phase = Phase(title, server, entry, environment, directory / title, report)
            for client, words, scenarios in builds:
                # pop-restart and pop-kill9 need the same as restart and kill9.
                mine = [name for name in scenarios if title == (name.removeprefix("pop-") if name.endswith(("restart", "kill9")) else "together")]
                if mine:
                    phase.launch(client, words, mine)
            try:
                phase.perform()
            finally:
                phase.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="the scenarios of make test")
    parser.add_argument("--against", choices=["vostok", "java"], default="vostok")
    parser.add_argument("--through-proxy", action="store_true", help="clients connect to a proxy in a process of its own")
    parser.add_argument("--only", default="", help="scenarios, comma-separated")
    parser.add_argument("--client", default="", help="clients, comma-separated")
    parser.add_argument("--keep", action="store_true", help="keep the run's directory even if all is well")
    options = parser.parse_args()
    report = Report("interop-proxy" if options.through_proxy else "interop")
    with scratch(report, options.keep) as directory:
        run(directory, report, options)
    report.close()


if __name__ == "__main__":
    main()
