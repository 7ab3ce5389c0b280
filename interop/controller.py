"""Java brokers of Apache RocketMQ 5.5.0 in controller mode at Vostok's controllers, and the real mqadmin.

    python3 -m interop.controller [--show] [--keep]

Three controllers, one of them inside a name server, and a broker set of two Java brokers. Its master is killed while messages are sent: the
other one must take over and have every acknowledged message; the killed one must come back into the in-sync set. Then the leading
controller is killed. Then all controllers lose their disks, and `vostok controller rebuild` restores the set from the Java brokers. Commands
of mqadmin run unmodified, and a new group takes over what the old one knows. Times are printed. Ends with
`controller: N passed, N failed, N skipped`.
"""
import argparse
import contextlib
import json
import re
import shutil
import subprocess
import time

from interop import mqadmin
from interop.cluster_load import NAME, SYNC_STATE, living
from tests.kit import ports
from tests.kit.cases import Case
from tests.kit.paths import VOSTOK
from tests.kit.process import Process
from tests.kit.remoting import Client, number_of
from tests.kit.report import Report, scratch
from tests.kit.servers import Java, Vostok, properties
from tests.kit.waiting import FAILURES, eventually

METADATA = 1005
# Settings of the Java brokers. Every member has what is acknowledged. Controllers learn that a broker was killed from the end of its
# connection, and a broker on a busy machine stays alive.
BROKER = {"enableControllerMode": "true", "brokerIP2": "127.0.0.1", "allAckInSyncStateSet": "true", "inSyncReplicas": 2, "minInSyncReplicas": 1,
          "controllerHeartBeatTimeoutMills": 240_000, "slaveTimeout": 30_000, "syncBrokerMetadataPeriod": 1000, "syncControllerMetadataPeriod": 1000,
          "checkSyncStateSetPeriod": 1000, "registerNameServerPeriod": 10_000, "mappedFileSizeCommitLog": 4_194_304, "slaveReadEnable": "true"}
QUERY = json.dumps([NAME]).encode()


def controller(directory, number, port, peers):
    """A controller; the first of a group is inside a name server, the others are alone."""
    settings = {"controllerDLegerGroup": "group1", "controllerDLegerPeers": peers, "controllerDLegerSelfId": f"n{number}",
                "controllerStorePath": directory / "controller"}
    if number == 0:
        server = Vostok(directory, {"enableControllerInNamesrv": "true"} | settings, roles="namesrv")
        server.ports.append(port)
        return server
    conf = properties(directory / "controller.conf", settings)
    return Process("vostok", directory, [VOSTOK, "serve", "--roles", "controller", "--data", directory, "-c", conf], [port])


def leads(port):
    """Whether a controller leads; false if it does not answer."""
    with contextlib.suppress(*FAILURES):
        return Client(port).call(METADATA)[0]["extFields"]["isLeader"] == "true"
    return False


class Cluster:
    """Three controllers and two Java brokers."""

    def __init__(self, directory):
        self.directory = directory
        self.ports = [ports.free_port() for _ in range(3)]
        self.addresses = [f"127.0.0.1:{port}" for port in self.ports]
        peers = ";".join(f"n{number}-{address}" for number, address in enumerate(self.addresses))
        self.controllers = {port: controller(directory / f"controller-{number}", number, port, peers) for number, port in enumerate(self.ports)}
        self.namesrv = self.controllers[self.ports[0]].namesrv
        conf = BROKER | {"controllerAddr": ";".join(self.addresses)}
        brokers = [Java(directory / f"broker-{number}", conf, only="broker", namesrv=self.namesrv, level="INFO") for number in range(2)]
        self.brokers = {server.broker: server for server in brokers}

    def leader(self):
        """Port of the leading controller, once one leads."""
        return eventually(lambda: next((port for port in self.ports if leads(port)), None))

    def sets(self):
        """The broker sets that the leading controller knows, by name."""
        return json.loads(Client(self.leader()).call(SYNC_STATE, body=QUERY)[1])["replicasInfoTable"]

    def info(self):
        """The broker set as the leading controller knows it."""
        return self.sets()[NAME]

    def state(self):
        """Addresses of the living master and of the living members of the in-sync set."""
        try:
            return living(self.info())
        except FAILURES:
            return None, set()

    def members(self):
        """Ids of all brokers of the set by address."""
        info = self.info()
        return {it["brokerAddress"]: it["brokerId"] for it in info["inSyncReplicas"] + info["notInSyncReplicas"]}


def send(address, numbers, acknowledged):
    """Sends messages, each until it is acknowledged: while the controllers elect, it is refused."""
    for number in numbers:
        if not eventually(lambda: Client(address).send(number) is None, refused=FAILURES):
            raise RuntimeError(f"message {number} is not taken")
        acknowledged.add(number)


def takes_messages(cluster, case, title, address, number, acknowledged):
    """Waits until a broker takes a message, as a check of the case."""
    case.eventually(title, lambda: Client(address).send(number) is None, cluster.state)
    acknowledged.add(number)


def replace(cluster, case, master, numbers, acknowledged):
    """Kills the master, sends messages to its successor, and starts the former master; returns the address of the new master."""
    both = set(cluster.brokers)
    (other,) = both - {master}
    cluster.brokers[master].kill()
    killed = time.monotonic()
    case.eventually("the other becomes master", lambda: cluster.state()[0] == other, cluster.state)
    elected = time.monotonic() - killed
    takes_messages(cluster, case, "it takes messages", other, numbers[0], acknowledged)
    print(f"after kill -9 of the master: elected after {elected:.2f} s, messages taken after {time.monotonic() - killed:.2f} s", flush=True)
    send(other, numbers[1:], acknowledged)
    served = lambda: set(map(number_of, Client(other).messages().values()))  # noqa: E731
    case.eventually("it has all acknowledged messages", lambda: acknowledged <= served(), lambda: sorted(acknowledged - served())[:9])
    cluster.brokers[master].launch()
    case.eventually("the killed one comes back into the set", lambda: cluster.state() == (other, both), cluster.state)
    return other


def failover(cluster, case, acknowledged):
    """Kills the master, then the leading controller; returns the address of the new master."""
    both = set(cluster.brokers)
    case.eventually("both Java brokers come into the set", lambda: cluster.state()[1] == both, cluster.state)
    master = eventually(lambda: cluster.state()[0])
    takes_messages(cluster, case, "the master takes messages", master, 0, acknowledged)
    send(master, range(1, 500), acknowledged)
    other = replace(cluster, case, master, range(500, 600), acknowledged)
    leader = cluster.leader()
    cluster.controllers[leader].kill()
    case.eventually("another controller leads", lambda: cluster.leader() not in (None, leader))
    case.eventually("it knows master and set", lambda: cluster.state() == (other, both), cluster.state)
    cluster.controllers[leader].start()
    send(other, range(600, 650), acknowledged)
    return other


def rebuild(cluster, master, case, acknowledged):
    """Lets all controllers lose their disks and restores the set from its brokers; returns the address of the master after another kill."""
    both = set(cluster.brokers)
    for number, server in enumerate(cluster.controllers.values()):
        server.kill()
        shutil.rmtree(cluster.directory / f"controller-{number}" / "controller")
    for server in cluster.controllers.values():
        server.launch()
    case.eventually("the controllers do not know the set", lambda: cluster.leader() and NAME not in cluster.sets())
    case.eventually("the master takes messages meanwhile", lambda: Client(master).send(650) is None)
    acknowledged.add(650)

    def command(brokers):
        words = [VOSTOK, "controller", "rebuild", "--to", cluster.addresses[0], "--brokers", ",".join(brokers)]
        done = subprocess.run(words, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    refused = command(both)
    case.check("a master without an id is refused", refused[0] != 0 and f"write ID@{master}" in refused[1], refused)
    ids = {address: (server.store / "brokerIdentity").read_text().rpartition("#")[2].strip() for address, server in cluster.brokers.items()}
    rebuilt = command(f"{ids[address]}@{address}" for address in both)
    case.check("vostok controller rebuild", rebuilt[0] == 0 and f"{master} is master" in rebuilt[1], rebuilt)
    case.eventually("both Java brokers come into the set again", lambda: cluster.state() == (master, both), cluster.state)
    case.check("they have their ids", {it: str(known) for it, known in cluster.members().items()} == ids, cluster.members)
    send(master, range(651, 700), acknowledged)
    return replace(cluster, case, master, range(700, 750), acknowledged)


def commands(cluster, shell, master, case, is_shown):
    """Runs the commands of mqadmin for controllers."""
    def run(title, words, *wants):
        # All of these commands may run twice: what is asked for stays the same.
        text = mqadmin.hear(shell, words, lambda text: all(re.search(want, text) for want in wants), patient=words[0].startswith("get"))
        if is_shown:
            print(f"$ mqadmin {' '.join(words)}\n{text}", flush=True)
        case.check(f"mqadmin {title}", all(re.search(want, text) for want in wants), text[-1500:])

    leader = f"127.0.0.1:{cluster.leader()}"
    any_leader = rf"#ControllerLeaderAddress\s+127\.0\.0\.1:(?:{'|'.join(map(str, cluster.ports))})\b"  # another one may lead by now
    follower = next(address for address in cluster.addresses if address != leader)
    run("getControllerMetaData", ["getControllerMetaData", "-a", follower], r"#ControllerGroup\s+group1", any_leader, r"#Peer:\s+n2:")
    run("getControllerConfig", ["getControllerConfig", "-a", leader], r"enableElectUncleanMaster\s+=\s+false", r"controllerDLegerGroup\s+=\s+group1")
    run("updateControllerConfig", ["updateControllerConfig", "-a", leader, "-k", "scanInactiveMasterInterval", "-v", "4000"], r"update controller config success")
    run("getControllerConfig after it", ["getControllerConfig", "-a", leader], r"scanInactiveMasterInterval\s+=\s+4000")
    run("getSyncStateSet", ["getSyncStateSet", "-a", follower, "-b", NAME], rf"#MasterAddr\s+{master}\b", r"#SyncStateSetNums\s+2")
    members = cluster.members()
    (target,) = set(members) - {master}
    run("electMaster", ["electMaster", "-a", leader, "-b", str(members[target]), "-bn", NAME, "-c", "DefaultCluster"],
        rf"#BrokerMasterAddr\s+{target}|old master {members[target]} is still alive")
    case.eventually("the elected one takes messages", lambda: cluster.state()[0] == target and Client(target).send(800) is None, cluster.state)
    cluster.brokers[master].kill()
    eventually(lambda: cluster.state()[1] == {target})
    run("cleanBrokerMetadata", ["cleanBrokerMetadata", "-a", leader, "-b", str(members[master]), "-bn", NAME, "-c", "DefaultCluster"], r"success")
    case.eventually("the removed broker is gone", lambda: cluster.members() == {target: members[target]}, cluster.members)


def imports(cluster, directory, case):
    """Lets a new group of controllers take over what the old one knows."""
    port, home = ports.free_port(), directory / "imported"
    with Process("vostok", home, [VOSTOK, "serve", "--roles", "controller", "--data", home, "--controller-port", port], [port]):
        eventually(lambda: leads(port))
        done = subprocess.run([VOSTOK, "controller", "import", "--from", cluster.addresses[0], "--to", f"127.0.0.1:{port}", "-n", cluster.namesrv],
                              capture_output=True, text=True)
        case.check("vostok controller import", done.returncode == 0, done.stdout + done.stderr)

        def known(info):
            brokers = sorted((it["brokerId"], it["brokerAddress"]) for it in info["inSyncReplicas"] + info["notInSyncReplicas"])
            return info["masterEpoch"], info["syncStateSetEpoch"], info.get("masterBrokerId"), brokers

        wanted, found = cluster.info(), json.loads(Client(port).call(SYNC_STATE, body=QUERY)[1])["replicasInfoTable"].get(NAME)
        case.check("the new group knows what the old one does", found and known(found) == known(wanted), (wanted, found))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", action="store_true", help="show what mqadmin prints")
    parser.add_argument("--keep", action="store_true", help="keep the stores and logs")
    options = parser.parse_args()
    report = Report("controller")
    with scratch(report, options.keep) as directory, contextlib.ExitStack() as running:
        cluster, case = Cluster(directory), Case(report)
        for servers in (cluster.controllers.values(), cluster.brokers.values()):
            for server in servers:
                running.callback(server.kill)
                server.launch()
            eventually(lambda: all(ports.listening(port) for server in servers for port in server.ports))
        shell = running.enter_context(mqadmin.Shell(directory, cluster.namesrv))
        acknowledged = set()
        master = failover(cluster, case, acknowledged)
        master = rebuild(cluster, master, Case(report, "rebuild"), acknowledged)
        commands(cluster, shell, master, case, options.show)
        imports(cluster, directory, case)
    report.close()


if __name__ == "__main__":
    main()
