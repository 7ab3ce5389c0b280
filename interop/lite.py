"""Lite topics: the official Java client of RocketMQ 5.x at a proxy of Vostok (`--roles proxy -n ...`) before two brokers of Apache RocketMQ
5.5.0, and the refusal of servers that do not serve lite topics: Vostok's broker, and a proxy before that broker.

    python3 -m interop.lite [--against vostok|java] [--only NAME[,NAME]] [--keep]

Programs: `lite-java/`. With --against java the proxy is that of Apache RocketMQ 5.5.0, which proves the expectations. A line per scenario
is printed, then `lite: N passed, N failed, N skipped`. There is no short form, because two brokers of Java are needed.
"""
import argparse
import contextlib
import json
import subprocess

from interop import grpc_clients
from tests.kit import downloads, ports, topics
from tests.kit.process import Process
from tests.kit.report import Report, scratch
from tests.kit.servers import Java, Vostok

# Settings that a broker of 5.5.0 needs for lite topics. Its files are those of the default store.
LITE = {"enableLmq": "true", "enableMultiDispatch": "true", "maxLiteSubscriptionCount": 100}
EXCLUSIVE, ORDERED = {"+lite.sub.model": "Exclusive"}, {"across", "again", "dead-letters"}
# The proxy of RocketMQ delivers slow messages twice: it renews a message without the name of the lite topic.
JAVA_FAILS = {"slow"}
SECONDS = 900


class Client(grpc_clients.Java):
    """The Java client, with the scenarios of lite topics."""
    main, sources = "Lite", ("grpc-java/Stage.java", "lite-java/Lite.java")

    def run(self, report, home, endpoint, names, where=""):
        """Runs scenarios at a server of gRPC, and looks in the log of the client for the reasons of refusals."""
        home.mkdir()
        words = [self.program[0], f"-Duser.home={home}", *self.program[1:], endpoint, "none", "1", *names]
        with open(home / "client.out", "w") as log:
            done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=log, text=True, timeout=SECONDS, cwd=home)
        results, logs = {}, "".join(log.read_text() for log in home.rglob("*.log"))
        for outcome, name, text in ([*line.split(" ", 2), ""][:3] for line in done.stdout.splitlines() if line.startswith("@")):
            if outcome != "@logged":
                results.setdefault(name, (outcome == "@ok", text))
            elif text not in logs:
                results[name] = False, f"not in the log of the client: {text}"
        for name in names:
            report.check(name + where, *results.get(name, (False, "no result")))


class Brokers:
    """Two brokers of Apache RocketMQ with one name server."""

    def __init__(self, directory):
        self.first = Java(directory / "broker-a", LITE | {"brokerName": "broker-a"})
        self.second = Java(directory / "broker-b", LITE | {"brokerName": "broker-b"}, only="broker", namesrv=self.first.namesrv)
        self.addresses = [self.first.broker, self.second.broker]

    def prepare(self, names):
        """Makes the topics and groups of scenarios on both brokers."""
        for name in names:
            suffix = f"java_{name.replace('-', '_')}_1"
            topic, group = f"T_{suffix}", f"G_{suffix}"
            attributes = {"+lite.bind.topic": topic, **(EXCLUSIVE if name == "exclusive" else {})}
            for broker in self.addresses:
                topics.topic(broker, topic, "LITE")
                topics.group(broker, group, retryMaxTimes=1, consumeMessageOrderly=name in ORDERED, attributes=attributes)
                topics.group(broker, f"{group}_regular")
        # A proxy keeps a route for a while, so both brokers have to be in the route first.
        for name in names:
            topics.await_brokers(self.first.namesrv, f"T_java_{name.replace('-', '_')}_1", 2)

    def lite_topics(self, topic):
        """The number of lite topics that each broker has of a topic (200075 GET_PARENT_TOPIC_INFO)."""
        return [json.loads(topics.ask(broker, 200075, {"topic": topic})[1])["liteTopicCount"] for broker in self.addresses]

    def dead_letters(self, group):
        """The number of dead letters of a group (30 GET_MAX_OFFSET)."""
        return sum(int(topics.ask(broker, 30, {"topic": f"%DLQ%{group}", "queueId": 0})[0]["offset"]) for broker in self.addresses)


def proxy(directory, namesrv, against="vostok"):
    """A proxy before brokers, and the address of its gRPC port."""
    port, remoting = ports.free_run(2)
    if against == "vostok":
        arguments = ["--grpc-port", port, "--proxy-port", remoting]
        return Vostok(directory, roles="proxy", namesrv=namesrv, arguments=arguments, listens=[port]), f"127.0.0.1:{port}"
    directory.mkdir()
    settings = {"namesrvAddr": namesrv, "rocketMQClusterName": "DefaultCluster", "grpcServerPort": port, "remotingListenPort": remoting}
    (directory / "rmq-proxy.json").write_text(json.dumps(settings))
    words = ["java", "-Xmx512m", f"-Duser.home={directory}", "-cp", f"{downloads.rocketmq('proxy')}/*", "org.apache.rocketmq.proxy.ProxyStartup",
             "-pm", "cluster", "-pc", directory / "rmq-proxy.json", "-n", namesrv]
    return Process("proxy", directory, words, [port], {"RMQ_PROXY_HOME": str(directory)}), f"127.0.0.1:{port}"


def scenarios(report, client, directory, names, against):
    with contextlib.ExitStack() as running:
        brokers = Brokers(directory)
        running.enter_context(brokers.first)
        running.enter_context(brokers.second)
        brokers.prepare(names)
        server, endpoint = proxy(directory / "proxy", brokers.first.namesrv, against)
        running.enter_context(server)
        client.run(report, directory / "client", endpoint, names)
        if "across" in names:
            counts = brokers.lite_topics("T_java_across_1")
            report.check("both-brokers", all(counts) and sum(counts) == 12, counts)
        if "dead-letters" in names:
            count = brokers.dead_letters("G_java_dead_letters_1")
            report.check("dead-letters-are-kept", count == 1, count)


def refused(report, client, directory):
    """The refusal of servers that do not serve lite topics."""
    port = ports.free_port()
    with Vostok(directory / "vostok", arguments=["--grpc-port", port], listens=[port]) as vostok:
        topics.topic(vostok.broker, "T_java_refused_1", "LITE")
        topics.await_brokers(vostok.namesrv, "T_java_refused_1", 1)
        server, endpoint = proxy(directory / "proxy-before-vostok", vostok.namesrv)
        with server:
            client.run(report, directory / "client-of-broker", f"127.0.0.1:{port}", ["refused"], "-by-broker")
            client.run(report, directory / "client-of-proxy", endpoint, ["refused"], "-by-proxy")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", choices=["vostok", "java"], default="vostok", help="whose proxy is before the brokers")
    parser.add_argument("--only", default="", help="scenarios to run, or refused")
    parser.add_argument("--keep", action="store_true", help="keep the logs")
    options = parser.parse_args()
    report, client = Report("lite"), Client("java", grpc_clients.JAVA)
    only = {name for name in options.only.split(",") if name}
    with scratch(report, options.keep) as directory:
        client.build()
        listed = subprocess.run([str(word) for word in (*client.program, "list")], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
        names = [name for name in listed if (not only or name in only) and not (options.against == "java" and name in JAVA_FAILS)]
        if names:
            scenarios(report, client, directory, names, options.against)
        if options.against == "vostok" and (not only or "refused" in only):
            refused(report, client, directory)
    report.close()


if __name__ == "__main__":
    main()
