"""How long an unmodified Java producer (client 5.5.0, defaults) waits when the master it sends to goes.

    python3 -m bench.failover                          10 rounds of each
    python3 -m bench.failover --rounds 100 --faults switch,restart

    switch     a broker set of three (`vostok serve --cluster 1m2s`): the controller is asked for another master
    restart    the same set: the master is killed and started again at once at its address, where it finds itself a slave
    gone       the same set: the master is killed, and started again only when the producer goes on; clients ask for routes each 30 s
    two-sets   two sets of a master and a slave (2m2s): a master is killed, the producer goes on at the other set

The producer sends one message after the other. A round is over when the cluster is whole again and the producer goes on; its gap is the
longest time without an acknowledgement that ended after the fault.
"""
import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from bench.stage import OUT
from interop.cluster_load import NAME
from interop.local_cluster import Cluster
from tests.kit import downloads
from tests.kit.paths import ROOT, VOSTOK, WORK
from tests.kit.remoting import Client
from tests.kit.waiting import eventually

HERE, JARS = Path(__file__).resolve().parent, WORK / "client-5.5.0"
TOPIC, KIND_OF = "Gap", {"switch": "1m2s", "restart": "1m2s", "gone": "1m2s", "two-sets": "2m2s"}
# Median and 99th percentile in ms; a client that knows one broker only finds another one by its next question for routes.
TARGETS = {"gone": (31_000, 33_000)}
TARGET = (1000, 3000)


class Producer:
    """The Java program, and the waits it has told."""

    def __init__(self, cluster, classes):
        self.process = subprocess.Popen(["java", "-Xmx256m", "-XX:+UseSerialGC", "-Drocketmq.client.logLevel=WARN", f"-Duser.home={classes}", "-cp",
                                         f"{classes}:{JARS}/*", "Gap", f"127.0.0.1:{cluster.namesrv}", TOPIC],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.waits, self.acknowledged_ms, self.end = [], 0, None
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            kind, *numbers = line.split()
            if kind == "waited":
                self.waits.append(tuple(map(int, numbers)))
            elif kind == "acknowledged":
                self.acknowledged_ms = int(numbers[0])
            elif kind == "sent":
                self.end = (int(numbers[0]), int(numbers[2]))

    def goes_on(self):
        """Whether a message was acknowledged just now."""
        self.process.stdin.write(".")
        self.process.stdin.flush()
        time.sleep(0.1)
        return self.acknowledged_ms > time.time() * 1000 - 1000

    def gap(self, since_ms):
        """The longest wait that ended later than that, in ms; 0 for less than the program tells."""
        return max((length for begin, length in self.waits if begin + length > since_ms), default=0)

    def stop(self):
        """Numbers of messages sent, and of sends that failed."""
        self.process.stdin.close()
        self.process.wait(30)
        self.reader.join(10)
        return self.end


def is_whole(cluster, kind):
    """Whether every broker serves again."""
    if kind == "1m2s":
        return cluster.set()[1] == set(cluster.members)
    try:
        return all(Client(address, 1).call(28)[0]["code"] == 0 for address in cluster.members)
    except OSError:
        return False


def inflict(cluster, fault, producer):
    """Takes the master away."""
    master, members = (cluster.master(), set()) if fault == "two-sets" else cluster.set()
    if fault != "switch":
        cluster.kill(master)
        if fault != "restart":
            time.sleep(3)
        if fault == "gone" and not eventually(producer.goes_on):
            raise RuntimeError("the producer does not find another master")
        cluster.restart(master)
        return
    other = sorted(members - {master})[0]
    _, body = Client(cluster.controller, 5).call(1006, body=json.dumps([NAME]).encode())
    ids = {it["brokerAddress"]: it["brokerId"] for it in json.loads(body)["replicasInfoTable"][NAME]["inSyncReplicas"]}
    subprocess.run([VOSTOK, "mqadmin", "electMaster", "-a", f"127.0.0.1:{cluster.controller}", "-b", str(ids[other]), "-bn", NAME, "-c", "DefaultCluster"],
                   check=True, stdout=subprocess.DEVNULL)


def rounds_of(fault, count, classes):
    """The gap of each round in ms, and what the producer sent."""
    kind, directory = KIND_OF[fault], Path(tempfile.mkdtemp(prefix="vostok-failover-"))
    cluster = Cluster(directory, kind)
    try:
        if not eventually(lambda: is_whole(cluster, kind)):
            raise RuntimeError("the cluster does not become whole")
        producer, gaps = Producer(cluster, classes), []
        time.sleep(3)
        if not eventually(producer.goes_on):
            raise RuntimeError("the producer does not begin")
        for number in range(count):
            since = time.time() * 1000
            inflict(cluster, fault, producer)
            # Until the controller knows.
            time.sleep(3)
            if not eventually(lambda: is_whole(cluster, kind) and producer.goes_on()):
                silent = time.time() * 1000 - producer.acknowledged_ms
                raise RuntimeError(f"{fault}: the cluster is not whole after round {number + 1}: master and living members are {cluster.set()}, the "
                                   f"producer was acknowledged {silent:.0f} ms ago; logs are in {directory}")
            gaps.append(producer.gap(since))
            print(f"{fault} {number + 1} of {count}: {gaps[-1]} ms", flush=True)
        sent = producer.stop()
    finally:
        cluster.stop()
    shutil.rmtree(directory)
    return gaps, sent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--faults", default=",".join(KIND_OF), help="which, comma-separated (default: %(default)s)")
    chosen = parser.parse_args()
    OUT.mkdir(exist_ok=True)
    downloads.jars(JARS, ROOT / "interop" / "java" / "pom.xml", client_group="org.apache.rocketmq", client_version="5.5.0")
    classes = OUT / "failover-classes"
    subprocess.run(["javac", "-nowarn", "--release", "17", "-cp", f"{JARS}/*", "-d", classes, HERE / "failover-java" / "Gap.java"], check=True)
    print(f"failover of a Java producer; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}", flush=True)
    results = {fault: rounds_of(fault, chosen.rounds, classes) for fault in chosen.faults.split(",")}
    for fault, (gaps, (sent, failed)) in results.items():
        median, p99 = statistics.median(gaps), sorted(gaps)[math.ceil(0.99 * len(gaps)) - 1]
        targets = TARGETS.get(fault, TARGET)
        outcome = "reached" if median <= targets[0] and p99 <= targets[1] else "MISSED "
        print(f"{outcome}  {fault}: median {median:.0f} ms, p99 {p99} ms, longest {max(gaps)} ms in {len(gaps)} rounds; {sent:,} sent, {failed} failed; "
              f"targets {targets[0]} and {targets[1]} ms")
    (OUT / "failover.json").write_text(json.dumps({fault: gaps for fault, (gaps, _) in results.items()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
