"""Partitions of a broker set of three with its controllers.

    python3 -m interop.partition [--rounds N] [--keep]

Every member has a network namespace and an address of its own, and a bridge joins them. Under load from outside, in each round:

    isolated    the master reaches nobody, and nobody reaches it
    one-way     what the master says to slaves and controller is lost; it hears them, and clients reach it
    split       master and slaves do not reach each other; all of them reach the controller
    controller  nobody reaches the controller
    loss        one packet of five to and from the master is lost (needs the kernel's netem)

What must hold: isolated and one-way, another broker takes over; split, the slaves leave the in-sync set; without the controller and with
lost packets, the master goes on; and in every case the set is whole again after the end and every producer goes on. In the end every
acknowledged message is there as it was sent, nothing went back for the consumer, and the logs are equal. Times are printed. Needs root.
Ends with `partition: N passed, N failed, N skipped`.
"""
import argparse
import contextlib
import os
import subprocess
import time

from interop.cluster_load import NAME, Load, Watched
from tests.kit.cases import Case
from tests.kit.paths import VOSTOK
from tests.kit.process import Process
from tests.kit.report import Report, scratch
from tests.kit.servers import properties

FAULTS = ("isolated", "one-way", "split", "controller", "loss")
NAMESRV, CONTROLLER, BROKER = 9876, 9878, 10911
# Seconds that a fault lasts: longer than the controller waits for a heartbeat (2.5 s), and than answers wait for slaves (3 s).
DOWN = 8


def ip(*words):
    subprocess.run(["ip", *map(str, words)], check=True, capture_output=True)


class Network:
    """A bridge, and namespaces that it joins: number 0 for name server and controller, 1 to 3 for brokers."""

    def __init__(self):
        self.prefix, self.subnet = f"vp{os.getpid() % 100_000}", f"10.{60 + os.getpid() % 60}.{os.getpid() // 60 % 250}"
        ip("link", "add", self.bridge, "type", "bridge")
        ip("addr", "add", f"{self.subnet}.254/24", "dev", self.bridge)
        ip("link", "set", self.bridge, "up")
        for number in range(4):
            name = self.space(number)
            ip("netns", "add", name)
            ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("link", "set", name, "master", self.bridge, "up")
            ip("-n", name, "addr", "add", f"{self.address(number)}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "link", "set", "eth0", "up")

    @property
    def bridge(self):
        return f"{self.prefix}b"

    def space(self, number):
        return f"{self.prefix}{number}"

    def address(self, number):
        return f"{self.subnet}.{number + 10}"

    def plug(self, number, is_in):
        ip("link", "set", self.space(number), "up" if is_in else "down")

    def drop(self, one, others, is_lost):
        """What `one` sends to the others is lost from now on, or arrives again."""
        for other in others:
            ip("-n", self.space(one), "route", "add" if is_lost else "del", "blackhole", f"{self.address(other)}/32")

    def loss(self, number, is_on):
        """Whether the kernel can lose packets at random; then it does, or ends that."""
        sides = [["tc"], ["ip", "netns", "exec", self.space(number), "tc"]]
        for side, device in zip(sides, (self.space(number), "eth0")):
            what = ["qdisc", "add", "dev", device, "root", "netem", "loss", "20%"] if is_on else ["qdisc", "del", "dev", device, "root"]
            if subprocess.run([*side, *what], capture_output=True).returncode != 0:
                return False
        return True

    def remove(self):
        for number in range(4):
            subprocess.run(["ip", "netns", "del", self.space(number)], capture_output=True)
        subprocess.run(["ip", "link", "del", self.bridge], capture_output=True)


class Cluster(Watched):
    """A name server with a controller, and a broker set of three, each in a namespace."""

    def __init__(self, directory, network):
        """Names the addresses; `launch` starts the processes, so that a failed start can be ended by `stop`."""
        self.data, self.network, self.processes, self.members, self.numbers = directory, network, [], {}, {}
        self.namesrv, self.controller = f"{network.address(0)}:{NAMESRV}", f"{network.address(0)}:{CONTROLLER}"

    def launch(self):
        network = self.network
        self.start(0, "namesrv", "namesrv,controller",
                   {"bindAddress": "0.0.0.0", "controllerDLegerPeers": f"n0-{self.controller}", "controllerDLegerSelfId": "n0"})
        for number in (1, 2, 3):
            name, host = f"{NAME}-{number}", network.address(number)
            # Other programs may fill the disk meanwhile; nothing may be deleted for that.
            process = self.start(number, name, "broker", {
                "brokerName": NAME, "brokerIP1": host, "brokerIP2": host, "namesrvAddr": self.namesrv, "enableControllerMode": "true",
                "controllerAddr": self.controller, "allAckInSyncStateSet": "true", "inSyncReplicas": 2, "minInSyncReplicas": 2, "slaveReadEnable": "true",
                "mappedFileSizeCommitLog": 4_194_304, "diskMaxUsedSpaceRatio": 95})
            self.members[f"{host}:{BROKER}"], self.numbers[f"{host}:{BROKER}"] = [name, process.pid], number

    def start(self, number, name, roles, settings):
        conf = properties(self.data / f"{name}.conf", settings)
        command = ["ip", "netns", "exec", self.network.space(number), VOSTOK, "serve", "--roles", roles, "--data", self.data / name, "-c", conf]
        self.processes.append(Process(name, self.data, command).launch())
        return self.processes[-1]


def inflict(network, fault, master, is_on):
    """Begins or ends a fault at the master with this number; false if this machine cannot."""
    slaves = [number for number in (1, 2, 3) if number != master]
    match fault:
        case "isolated":
            network.plug(master, not is_on)
        case "one-way":
            network.drop(master, [0, *slaves], is_on)
        case "split":
            network.drop(master, slaves, is_on)
            for slave in slaves:
                network.drop(slave, [master], is_on)
        case "controller":
            network.plug(0, not is_on)
        case "loss":
            return network.loss(master, is_on)
    return True


def suffer(cluster, fault, load, case):
    """One fault under load."""
    old = load.steady()
    before = time.monotonic()
    if not inflict(cluster.network, fault, cluster.numbers[old], True):
        case.report.skip(fault, "the kernel has no netem")
        return
    if fault in ("isolated", "one-way"):
        load.taken_over(case, fault, old, before)
    if fault == "split":
        case.eventually("split: the slaves leave the in-sync set", lambda: cluster.set() == (old, {old}), cluster.set)
    time.sleep(max(0, before + DOWN - time.monotonic()))
    if fault in ("controller", "loss"):
        case.eventually(f"{fault}: the master goes on", load.goes_on(), cluster.set)
    inflict(cluster.network, fault, cluster.numbers[old], False)
    healed, goes_on = time.monotonic(), load.goes_on()
    case.eventually(f"{fault}: all is whole after the end", lambda: cluster.is_whole() and goes_on(), cluster.set)
    print(f"{fault}: whole {time.monotonic() - healed:.1f} s after the end; longest time of a producer without an acknowledgement {load.gap(before):.2f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1, help="how often each fault is made")
    parser.add_argument("--keep", action="store_true", help="keep the stores and logs")
    options = parser.parse_args()
    report = Report("partition")
    try:
        network = Network()
    except (OSError, subprocess.CalledProcessError) as error:
        report.skip("all partitions", f"no network namespaces here: {getattr(error, 'stderr', error)}")
        report.close()
    with contextlib.ExitStack() as running, scratch(report, options.keep) as directory:
        running.callback(network.remove)
        cluster, case = Cluster(directory, network), Case(report)
        try:
            cluster.launch()
            case.eventually("all three come into the in-sync set", cluster.is_whole, cluster.set)
            load = Load(cluster)
            for fault in FAULTS * options.rounds:
                suffer(cluster, fault, load, case)
            load.finish(case)
        finally:
            cluster.stop()
    report.close()


if __name__ == "__main__":
    main()
