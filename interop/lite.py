"""Lite topics: the official Java client of RocketMQ 5.x in six arrangements of proxy and brokers, and the refusal of servers without lite topics.

    python3 -m interop.lite [--short] [--arrangement NAME[,NAME]] [--only NAME[,NAME]] [--keep]

| arrangement | proxy | brokers |
|---|---|---|
| serve | Vostok, in the process of the broker | one of Vostok |
| vostok | Vostok, `--roles proxy` | two of Vostok |
| before-java | Vostok, `--roles proxy` | two of Apache RocketMQ 5.5.0 |
| java-before | Apache RocketMQ 5.5.0 | two of Vostok |
| failover | Vostok, `--roles proxy` | a set of three of Vostok with a controller, whose master is killed under load |
| java | Apache RocketMQ 5.5.0 | two of Apache RocketMQ 5.5.0: proves the expectations, and runs only when it is named |

Programs: `lite-java/`. With --short some scenarios run at `serve` alone. A line per scenario is printed, then `lite: N passed, N failed,
N skipped`.
"""
import argparse
import contextlib
import json
import subprocess
import threading

from interop import grpc_clients
from interop.local_cluster import Cluster
from tests.kit import downloads, ports, topics
from tests.kit.process import Process
from tests.kit.report import Report, scratch
from tests.kit.servers import Java, Vostok
from tests.kit.waiting import eventually

# Settings of brokers of both kinds. The files of a broker of 5.5.0 are those of the default store.
LITE = {"enableLmq": "true", "enableMultiDispatch": "true", "maxLiteSubscriptionCount": 150}
# Whose proxy and brokers an arrangement has, and the number of brokers.
ARRANGEMENTS = {"serve": (None, Vostok, 1), "vostok": ("vostok", Vostok, 2), "before-java": ("vostok", Java, 2), "java-before": ("java", Vostok, 2),
                "java": ("java", Java, 2)}
ORDERED = {"across", "again", "dead-letters", "exclusive", "exclusive-back", "shared", "resubscribe", "offsets", "wildcard", "overflow", "wildcard-overflow", "restart"}
WILDCARD, FEW_EVENTS = {"+lite.sub.wildcard": "true"}, {"+lite.sub.client.max.event.cnt": "10"}
EXCLUSIVE = {"+lite.sub.model": "Exclusive"}
ATTRIBUTES = {"exclusive": EXCLUSIVE, "exclusive-back": EXCLUSIVE, "own-quota": {"+lite.sub.client.quota": "5"}, "wildcard": WILDCARD,
              "overflow": FEW_EVENTS, "wildcard-overflow": WILDCARD | FEW_EVENTS}
SHORT = {"across", "again", "exclusive", "offsets", "own-quota", "bound"}
# The proxy of RocketMQ delivers slow messages twice: it renews a message without the name of the lite topic.
FAILS = {"java-before": {"slow"}, "java": {"slow"}}
SECONDS = 1_800


def named(scenario):
    """The topic and the group of a scenario."""
    suffix = f"java_{scenario.replace('-', '_')}_1"
    return f"T_{suffix}", f"G_{suffix}"


class Client(grpc_clients.Java):
    """The Java client, with the scenarios of lite topics."""
    main, sources = "Lite", ("grpc-java/Stage.java", "lite-java/Lite.java")

    def run(self, report, home, endpoint, names, where="", restart=None):
        """Runs scenarios at a server of gRPC, restarts a broker when they ask, and looks in the client's log for the reasons of refusals."""
        home.mkdir()
        words = [self.program[0], f"-Duser.home={home}", *self.program[1:], endpoint, "none", "1", *names]
        results, expected = {}, []
        with open(home / "client.out", "w") as log, subprocess.Popen([str(word) for word in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                                                     stderr=log, text=True, cwd=home) as process:
            timer = threading.Timer(SECONDS, process.kill)
            timer.start()
            for line in process.stdout:
                outcome, name, text = [*line.rstrip("\n").split(" ", 2), "", ""][:3]
                if outcome == "@restart":
                    restart()
                    print(file=process.stdin, flush=True)
                elif outcome == "@logged":
                    expected.append((name, text))
                elif outcome.startswith("@"):
                    results.setdefault(name, (outcome == "@ok", text))
            timer.cancel()
        logs = "".join(log.read_text() for log in home.rglob("*.log"))
        for name, text in expected:
            if text not in logs:
                results[name] = False, f"not in the log of the client: {text}"
        for name in names:
            report.check(name + where, *results.get(name, (False, "no result")))


class Brokers:
    """Brokers with one name server."""

    def __init__(self, directory, kind, count, **more):
        self.all = [self._broker(kind, directory / "broker-a", {"brokerName": "broker-a"}, **more)]
        self.namesrv = self.all[0].namesrv
        if count == 2:
            self.all.append(self._broker(kind, directory / "broker-b", {"brokerName": "broker-b"}, self.namesrv))
        self.addresses = [server.broker for server in self.all]

    @staticmethod
    def _broker(kind, directory, conf, namesrv=None, **more):
        if kind is Java:
            return Java(directory, LITE | conf, only=namesrv and "broker", namesrv=namesrv)
        return Vostok(directory, LITE | conf, **({"roles": "broker", "namesrv": namesrv} if namesrv else {}), **more)

    def prepare(self, names):
        """Makes the topics and groups of scenarios on all brokers."""
        for name in names:
            topic, group = named(name)
            for broker in self.of(name):
                topics.topic(broker, topic, "LITE")
            for broker in self.addresses:
                topics.group(broker, group, retryMaxTimes=1 if name == "dead-letters" else 16, consumeMessageOrderly=name in ORDERED,
                             attributes={"+lite.bind.topic": topic, **ATTRIBUTES.get(name, {})})
                topics.group(broker, f"{group}_regular")
        # A proxy keeps a route for a while, so all brokers have to be in the route first.
        for name in names:
            topics.await_brokers(self.namesrv, named(name)[0], len(self.of(name)))

    def of(self, scenario):
        """The brokers of a scenario's topic. While one of two brokers is down, lite topics of it move to the other one, without order."""
        return self.addresses[-1:] if scenario == "restart" else self.addresses

    def restart(self):
        """Kills the last broker and starts it again."""
        self.all[-1].kill()
        self.all[-1].start()

    def lite_topics(self, topic):
        """The number of lite topics that each broker has of a topic (200075 GET_PARENT_TOPIC_INFO)."""
        return [json.loads(topics.ask(broker, 200075, {"topic": topic})[1])["liteTopicCount"] for broker in self.addresses]

    def dead_letters(self, group):
        """The number of dead letters of a group (30 GET_MAX_OFFSET)."""
        return sum(int(topics.ask(broker, 30, {"topic": f"%DLQ%{group}", "queueId": 0})[0]["offset"]) for broker in self.addresses)


def proxy(directory, namesrv, kind="vostok"):
    """A proxy before brokers, and the address of its gRPC port."""
    port, remoting = ports.free_run(2)
    if kind == "vostok":
        arguments = ["--grpc-port", port, "--proxy-port", remoting]
        return Vostok(directory, roles="proxy", namesrv=namesrv, arguments=arguments, listens=[port]), f"127.0.0.1:{port}"
    directory.mkdir()
    settings = {"namesrvAddr": namesrv, "rocketMQClusterName": "DefaultCluster", "grpcServerPort": port, "remotingListenPort": remoting}
    (directory / "rmq-proxy.json").write_text(json.dumps(settings))
    words = ["java", "-Xmx512m", f"-Duser.home={directory}", "-cp", f"{downloads.rocketmq('proxy')}/*", "org.apache.rocketmq.proxy.ProxyStartup",
             "-pm", "cluster", "-pc", directory / "rmq-proxy.json", "-n", namesrv]
    return Process("proxy", directory, words, [port], {"RMQ_PROXY_HOME": str(directory)}), f"127.0.0.1:{port}"


def scenarios(report, client, directory, names, arrangement):
    """Runs scenarios in one arrangement of servers."""
    front, kind, count = ARRANGEMENTS[arrangement]
    directory, where = directory / arrangement, f" ({arrangement})"
    directory.mkdir()
    with contextlib.ExitStack() as running:
        port = ports.free_port()
        own = {"arguments": ["--grpc-port", port], "listens": [port]} if front is None else {}
        brokers, endpoint = Brokers(directory, kind, count, **own), f"127.0.0.1:{port}"
        for server in brokers.all:
            running.enter_context(server)
        brokers.prepare(names)
        if front:
            server, endpoint = proxy(directory / "proxy", brokers.namesrv, front)
            running.enter_context(server)
        client.run(report, directory / "client", endpoint, names, where, brokers.restart)
        if "across" in names:
            counts = brokers.lite_topics(named("across")[0])
            report.check("all-brokers" + where, all(counts) and sum(counts) == 12, counts)
        if "dead-letters" in names:
            letters = brokers.dead_letters(named("dead-letters")[1])
            report.check("dead-letters-are-kept" + where, letters == 1, letters)


def failover(report, client, directory):
    """The load of the scenario `restart` at a broker set in controller mode, whose master is killed."""
    directory.mkdir()
    cluster = Cluster(directory, conf=LITE)

    def kill_master():
        former = cluster.master()
        cluster.kill(former)
        if not eventually(lambda: cluster.master() not in (None, former)):
            raise RuntimeError("no other broker becomes master")
        cluster.restart(former)

    try:
        if not eventually(lambda: cluster.set()[1] == set(cluster.members)):
            raise RuntimeError("the broker set does not become whole")
        topic, group = named("restart")
        topics.topic(cluster.master(), topic, "LITE")
        topics.group(cluster.master(), group, retryMaxTimes=16, consumeMessageOrderly=True, attributes={"+lite.bind.topic": topic})
        namesrv = f"127.0.0.1:{cluster.namesrv}"
        topics.await_brokers(namesrv, topic, 1)
        server, endpoint = proxy(directory / "proxy", namesrv)
        with server:
            client.run(report, directory / "client", endpoint, ["restart"], " (failover)", kill_master)
    finally:
        cluster.stop()


def refused(report, client, directory):
    """The refusal of servers that do not serve lite topics."""
    port = ports.free_port()
    with Vostok(directory / "vostok-without", arguments=["--grpc-port", port], listens=[port]) as vostok:
        topics.topic(vostok.broker, "T_java_refused_1", "LITE")
        topics.await_brokers(vostok.namesrv, "T_java_refused_1", 1)
        server, endpoint = proxy(directory / "proxy-before-vostok", vostok.namesrv)
        with server:
            client.run(report, directory / "client-of-broker", f"127.0.0.1:{port}", ["refused"], "-by-broker")
            client.run(report, directory / "client-of-proxy", endpoint, ["refused"], "-by-proxy")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="some scenarios, at `serve` alone")
    parser.add_argument("--arrangement", default="", help="arrangements to run")
    parser.add_argument("--only", default="", help="scenarios to run, or refused")
    parser.add_argument("--keep", action="store_true", help="keep the logs")
    options = parser.parse_args()
    report, client = Report("lite"), Client("java", grpc_clients.JAVA)
    usual = ["serve"] if options.short else [*(name for name in ARRANGEMENTS if name != "java"), "failover"]
    chosen = options.arrangement.split(",") if options.arrangement else usual
    only = {name for name in options.only.split(",") if name} or (SHORT if options.short else set())
    with scratch(report, options.keep) as directory:
        client.build()
        listed = subprocess.run([str(word) for word in (*client.program, "list")], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
        for arrangement in chosen:
            if arrangement == "failover":
                if not only or "restart" in only:
                    failover(report, client, directory / arrangement)
                continue
            names = [name for name in listed if (not only or name in only) and name not in FAILS.get(arrangement, ())]
            if names:
                scenarios(report, client, directory, names, arrangement)
        if "serve" in chosen and (not only or "refused" in only):
            refused(report, client, directory)
    report.close()


if __name__ == "__main__":
    main()
