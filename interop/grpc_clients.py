"""Runs the official clients of RocketMQ 5.x (Java, Go, Python, Node.js, Rust) against Vostok's gRPC port, and compares the messages of
crates/grpc with the descriptors in the Python package.

    python3 -m interop.grpc_clients [--short] [--client NAME[,NAME]] [--only NAME[,NAME]] [--before vostok|java]
                                    [--masters] [--java VERSION] [--go VERSION] [--cap SECONDS] [--keep]

With --masters, three masters of one cluster have gRPC each at an address of its own, and the clients know only the first. With --before, gRPC is a process of its own (`--roles proxy -n ...`, cluster mode) before a broker of Vostok or Apache RocketMQ 5.5.0.

All clients run at the same time, each scenario on its own topic and group. A line per client and scenario is printed, then
`grpc: N passed, N failed, N skipped`. A client that cannot be built on this machine is named and counts as skipped.
"""
import argparse
import contextlib
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from tests.kit import downloads, ports, topics
from tests.kit.cases import side_by_side
from tests.kit.paths import ROOT, WORK
from tests.kit.report import Report, scratch
from tests.kit.servers import KINDS, Vostok
from tests.kit.waiting import eventually

INTEROP = ROOT / "interop"
# Both are off by default. Receives with SQL will not need the second setting any more.
PROPERTIES = {"recallMessageEnable": "true", "enablePropertyFilter": "true"}
# Time after which connections without calls end, in the full form; two minutes by default.
IDLE_MS = 10_000
# What scenarios need that is not a NORMAL topic and a group with defaults.
KINDS_OF_TOPICS = {"fifo": "FIFO", "blocked": "FIFO", "delay": "DELAY", "times": "DELAY", "transactions": "TRANSACTION"}
GROUPS = {"fifo": {"consumeMessageOrderly": True}, "blocked": {"consumeMessageOrderly": True}, "dead-letters": {"retryMaxTimes": 1}}
# Brokers do not know the consumers of a proxy in another process. That proxy answers operators itself.
BESIDE_BROKER, BEFORE_BROKER = {"operators"}, {"proxies"}
# Scenarios of --short, of every client that has them.
SHORT = {"simple", "tls", "push", "fifo", "delay", "transactions", "tags", "sql", "dead-letters", "large-bodies", "first-message", "statuses",
         "pings", "reset-flood", "continuation-flood", "long-headers", "malformed", "large-requests", "reflection", "settings", "stop"}
# The masters of --masters.
HOSTS = {"broker-a": "127.0.0.1", "broker-b": "127.0.0.2", "broker-c": "127.0.0.3"}
# Scenarios whose messages are on all masters.
SPREAD = {"simple", "push"}
# Scenarios of --masters, unless others are chosen.
OF_MASTERS = SPREAD | {"fifo", "transactions", "tags", "dead-letters"}
# Names of --only beside the scenarios of clients.
PARTS = {"descriptors", "first-message", "stop"}
JAVA, GO = "5.2.0", "5.1.4"


class Client:
    """A client library: its program with scenarios, and the command that runs its program of docs/start.md."""
    # Scenarios that an older version of the client cannot do.
    lacks = frozenset()
    program, hello, hello_directory = (), None, None
    # Names that the program prints for `list`.
    listed = ()

    def __init__(self, language, version):
        self.language, self.name = language, f"{language}-{version}"
        self.version, self.home = version, WORK / f"grpc-{language}-{version}"

    def runs(self, names):
        """The scenarios of each process."""
        return [names]


class Python(Client):
    file = "cases.py"

    def build(self):
        python = downloads.python(WORK / "grpc-python-5.1.2", "rocketmq-python-client==5.1.2")
        self.program, self.hello = [python, INTEROP / "grpc-python" / self.file], ("hello.py", [python])


class Raw(Python):
    """Bytes and calls by hand, with the interpreter of the Python client."""
    file = "raw.py"

    def build(self):
        super().build()
        self.hello = None


class Java(Client):
    main, sources = "Cases", ("grpc-java/Stage.java", "grpc-java/Cases.java")

    def build(self):
        jars = downloads.jars(WORK / f"{self.home.name}-jars", INTEROP / "grpc-java" / "pom.xml", grpc_version=self.version)
        classes = downloads.classes(WORK / f"{self.home.name}-{self.main}", jars, [INTEROP / source for source in self.sources])
        self.program = ["java", "-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Drocketmq.log.level=warn",
                        "-Drocketmq.client.logLevel=WARN", "-cp", f"{classes}:{jars}/*", self.main]
        # The program of docs/start.md is for the newest version.
        self.hello = ("Hello.java", ["java", "-cp", f"{jars}/*"]) if self.version == JAVA else None


class Go(Client):
    def build(self):
        source, module = INTEROP / "grpc-go", f"github.com/apache/rocketmq-clients/golang/v5@v{self.version}"
        if self.version == GO:
            self.hello, self.hello_directory = ("hello.go", ["go", "run"]), source
        else:
            # Another version has checksums of its own, which stay out of the repository. It receives no more than gRPC's 4 MiB.
            self.lacks = frozenset({"large-bodies"})
            source = shutil.copytree(source, WORK / f"source-{self.name}", dirs_exist_ok=True)
            downloads.run("go", "get", module, cwd=source, attempts=3)
        self.program = [downloads.go(self.home, source)]

    def runs(self, names):
        """Whether connections are encrypted is one setting of a process."""
        return [part for part in ([name for name in names if name != "tls"], [name for name in names if name == "tls"]) if part]


class Node(Client):
    def build(self):
        # Node looks for packages beside the program.
        home = downloads.node(self.home, f"rocketmq-client-nodejs@{self.version}")
        self.program = ["node", shutil.copy(INTEROP / "grpc-node" / "cases.js", home)]


class Rust(Client):
    def build(self):
        self.program = [downloads.cargo(INTEROP / "grpc-rust" / "Cargo.toml", self.home) / "cases"]


class Server:
    """The gRPC port of Vostok, with the brokers behind it. `others` are further masters by the address of each."""

    def __init__(self, directory, options):
        self.directory, self.before, self.certificate, key = directory, options.before, directory / "certificate.pem", directory / "key.pem"
        # The Rust client takes no certificate of an authority for that of a server.
        downloads.run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
                      f"subjectAltName={','.join(f'IP:{host}' for host in HOSTS.values())}", "-addext", "basicConstraints=critical,CA:FALSE", "-keyout", key, "-out", self.certificate)
        tls = {"tls.server.certPath": self.certificate, "tls.server.keyPath": key}
        port, remoting = ports.free_run(2)
        self.endpoint, arguments, self.others = f"127.0.0.1:{port}", ["--grpc-port", port], {}
        if not options.short:
            (directory / "rmq-proxy.json").write_text(json.dumps({"grpcClientIdleTimeMills": IDLE_MS}))
            arguments += ["--proxy-config", directory / "rmq-proxy.json"]
        if self.before is None:
            at = {"bindAddress": HOSTS["broker-a"]} if options.masters else {}
            self.brokers = self.vostok = Vostok(directory, PROPERTIES | tls | at, arguments=arguments, listens=[port])
            self.proxy = ""
            for name, host in list(HOSTS.items())[1:] if options.masters else ():
                conf = PROPERTIES | tls | {"brokerName": name, "brokerIP1": host, "bindAddress": host}
                other = Vostok(directory / name, conf, "broker", self.brokers.namesrv, arguments)
                # Readiness is asked of 127.0.0.1, where this broker does not listen; `topics.await_brokers` waits for its route.
                other.ports = []
                self.others[f"{host}:{other.broker_port}"] = other
        else:
            self.brokers = KINDS[self.before](directory / "brokers", PROPERTIES)
            self.vostok = Vostok(directory, tls, "proxy", self.brokers.namesrv, [*arguments, "--proxy-port", remoting], [port, remoting])
            self.proxy = f"127.0.0.1:{remoting}"

    def __enter__(self):
        self.brokers.start()
        if self.before is not None:
            self.vostok.start()
        for other in self.others.values():
            other.start()
        for broker in self.masters:
            eventually(lambda: topics.topic(broker, "Hello") is None, refused=OSError)
        topics.await_brokers(self.brokers.namesrv, "Hello", len(self.masters))
        return self

    @property
    def masters(self):
        return [self.brokers.broker, *self.others]

    def __exit__(self, *failure):
        try:
            for other in self.others.values():
                other.__exit__(*failure)
            self.vostok.__exit__(*failure)
        finally:
            self.brokers.__exit__(*failure)

    def environment(self, home):
        home.mkdir(exist_ok=True)
        return os.environ | {"HOME": str(home), "JAVA_TOOL_OPTIONS": f"-Duser.home={home}", "PYTHONPATH": str(ROOT),
                             "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(self.certificate), "SSL_CERT_FILE": str(self.certificate),
                             "VOSTOK_BROKER": self.brokers.broker, "VOSTOK_PROXY": self.proxy, "VOSTOK_IDLE_MS": str(IDLE_MS)}

    def prepare(self, client, run, names):
        """Makes the topics and the groups of scenarios."""
        for name in names:
            suffix = f"{client.language}_{name.replace('-', '_')}_{run}"
            for broker in self.masters:
                topics.topic(broker, f"T_{suffix}", KINDS_OF_TOPICS.get(name, "NORMAL"))
                topics.group(broker, f"G_{suffix}", **GROUPS.get(name, {}))
            topics.await_brokers(self.brokers.namesrv, f"T_{suffix}", len(self.masters))
            if name == "both-protocols":
                topics.pop_mode(self.brokers.broker, f"T_{suffix}", f"G_{suffix}")

    def counts(self, client, run, name):
        """The messages of a scenario's topic on each master."""
        topic = f"T_{client.language}_{name.replace('-', '_')}_{run}"
        return [sum(topics.end(broker, topic, queue) for queue in range(4)) for broker in self.masters]

    @contextlib.contextmanager
    def started(self, client, run, names):
        """A process that runs scenarios; its output is read from `stdout`."""
        home = self.directory / client.name
        environment = self.environment(home)
        with open(home / f"{names[0]}.log", "w") as log:
            arguments = [str(word) for word in (*client.program, self.endpoint, self.brokers.namesrv, run, *names)]
            process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=log, text=True, env=environment, cwd=home)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def perform(case, server, client, names, cap):
    """Runs scenarios in one process, which is ended after `cap` seconds, and counts their results."""
    run, missing = str(int(time.time()) % 100_000), set(names)
    server.prepare(client, run, names)
    with server.started(client, run, names) as process:
        # Java and Go print their threads, which tell why a scenario has no result.
        timers = [threading.Timer(cap, process.send_signal, [signal.SIGQUIT]), threading.Timer(cap + 10, process.kill)]
        for timer in timers:
            timer.start()
        others = []
        # Clients may take a minute to shut down, which is not waited for.
        while missing and (line := process.stdout.readline()):
            if line.startswith("@"):
                outcome, name, text = [*line.strip().split(" ", 2), ""][:3]
                missing.discard(name)
                is_good = outcome == "@ok"
                case.check(f"{name} {text}".strip() if is_good else name, is_good, text)
            else:
                others.append(line)
        for timer in timers:
            timer.cancel()
    if missing:
        (server.directory / client.name / f"{names[0]}.threads").write_text("".join(others))
    for name in missing:
        case.check(name, False, f"no result; other output is in {client.name}/{names[0]}.threads")
    for name in SPREAD.intersection(names) if server.others else ():
        counts = server.counts(client, run, name)
        case.check(f"{name}: each master has messages {counts}", all(counts), counts)


def is_late(output):
    """Whether a program ended because of a time limit.

    The Go client logs each failed attempt of a send without its error: 3 s between the last two are the limit of a request.
    """
    if re.search("(?i)deadline.?exceeded|timed out|timeout ?(error|exception)|40015", output):
        return True
    times = re.findall(r"^\d+-\d+-\d+T\d+:(\d+):(\d+\.\d+)Z.*failed to send message", output, re.MULTILINE)
    seconds = [60 * int(minutes) + float(rest) for minutes, rest in times[-2:]]
    return len(seconds) == 2 and (seconds[1] - seconds[0]) % 3600 >= 3 - 0.1


def first_message(case, server, client, cap):
    """Runs the program of docs/start.md as it stands there, but for the port.

    The program has the limits that clients have by default: 3 s for a request, and in Python a second until the server has its settings
    (40015 before). A program that ends because of such a limit is started again. A program that ends with code 0 must print the message.
    The program in Go panics without the error of a send, so the client prints its log, too.
    """
    file, words = client.hello
    english, chinese = ((ROOT / "docs" / page).read_text() for page in ("start.md", "start.zh-CN.md"))
    text = re.search(rf"^```{client.language}\n(.*?)^```$", english[english.index("(gRPC)"):], re.MULTILINE | re.DOTALL)[1]
    if text not in chinese:
        case.check("first-message", False, "the pages of both languages differ")
        return
    program = server.directory / file
    program.write_text(text.replace("127.0.0.1:8081", server.endpoint))
    for attempt in range(10):
        done = subprocess.run([str(word) for word in (*words, program)], cwd=client.hello_directory, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=cap, env=os.environ | {"mq.consoleAppender.enabled": "true"})
        is_good = done.returncode == 0 and "hello" in done.stdout.splitlines()
        if done.returncode == 0 or not is_late(done.stdout):
            break
    case.check(f"first-message (run {attempt + 1})", is_good, done.stdout[-2000:])


def test(case, server, client, options):
    """Builds a client and runs its scenarios."""
    client.build()

    def is_wanted(name):
        if options.masters and not options.only:
            return name in OF_MASTERS
        absent = client.lacks | (BESIDE_BROKER if options.before else BEFORE_BROKER)
        return name not in absent and (name in options.only if options.only else name in SHORT or not options.short)
    client.listed = subprocess.run([str(word) for word in (*client.program, "list")], stdout=subprocess.PIPE, text=True, check=True,
                                   env=server.environment(server.directory / client.name)).stdout.split()
    if not client.listed:
        raise RuntimeError("the program lists no scenario")
    names = list(filter(is_wanted, client.listed))
    with ThreadPoolExecutor(8) as pool:
        tasks = [pool.submit(perform, case, server, client, part, options.cap) for part in client.runs(names) if part]
        if client.hello and not options.masters and is_wanted("first-message"):
            tasks.append(pool.submit(first_message, case, server, client, options.cap))
    for task in tasks:
        task.result()


def check_names(report, clients, names):
    """Checks that every scenario of `names` exists. A client that is not built counts as skipped, and its scenarios are not known."""
    unknown = set(names) - PARTS - {name for client in clients for name in client.listed}
    if unknown and all(client.listed for client in clients):
        report.check("the chosen scenarios exist", False, f"no client lists {sorted(unknown)}")


def stop(report, server, client):
    """Stops the server while a receive waits."""
    server.prepare(client, "0", ["stop"])
    with server.started(client, "0", ["stop"]) as process:
        first = process.stdout.readline()
        begin = time.monotonic()
        server.vostok.stop()
        took = time.monotonic() - begin
        result = first if first.startswith("@") else process.stdout.readline()
    report.check(f"{client.name}: stop (the server ended within {took:.1f} s)", result.startswith("@ok"), result)


def descriptors(report, _, client):
    done = subprocess.run([client.program[0], INTEROP / "grpc-python" / "descriptors.py"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    report.check("descriptors", done.returncode == 0, f"\n{done.stdout}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="the scenarios of `make test`")
    parser.add_argument("--only", default="", help="scenarios to run, or descriptors, first-message, stop")
    parser.add_argument("--client", default="", help="clients to run: java, go, python, node, rust, raw")
    parser.add_argument("--java", default=JAVA, metavar="VERSION", help="version of the Java client, such as 5.0.3")
    parser.add_argument("--go", default=GO, metavar="VERSION", help="version of the Go client, such as 5.1.3")
    parser.add_argument("--before", choices=["vostok", "java"], help="the brokers of another process")
    parser.add_argument("--masters", action="store_true", help="three masters with gRPC each")
    parser.add_argument("--cap", type=int, default=900, metavar="SECONDS", help="time after which a client program is ended")
    parser.add_argument("--keep", action="store_true", help="keep the logs")
    options = parser.parse_args()
    options.only, wanted = ({name for name in text.split(",") if name} for text in (options.only, options.client))
    raw = Raw("raw", "1")
    clients = [Rust("rust", "5.0.0"), Java("java", options.java), Go("go", options.go), Node("node", "1.0.8"), Python("python", "5.1.2"), raw]
    if unknown := wanted - {client.language for client in clients}:
        parser.error(f"no client has the names {sorted(unknown)}")
    clients = [client for client in clients if not wanted or client.language in wanted]
    report = Report("grpc")
    with scratch(report, options.keep) as directory, Server(directory, options) as server:
        side_by_side(report, {client.name: functools.partial(test, server=server, client=client, options=options) for client in clients})
        check_names(report, clients, options.only or (SHORT if options.short and not wanted else ()))
        for part in () if options.masters else (descriptors, stop):
            if raw in clients and raw.program and (not options.only or part.__name__ in options.only):
                part(report, server, raw)
    report.close()


if __name__ == "__main__":
    main()
