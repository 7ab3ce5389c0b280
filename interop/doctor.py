"""Checks of `vostok doctor` on real clusters: each fault is made, found, mended and gone; healthy workloads have no finding.

    python3 -m interop.doctor [--short] [--minutes N] [--keep]

Faults: servers killed with SIGKILL, permissions and settings changed, disks over a limit, groups without members, dead letters. A fault
counts as found when the doctor's JSON has its check, and as gone when no finding of the check is left. The seconds are printed in a table and
not asserted. Workloads run for `--minutes` (default 0.5). `--short` leaves out clusters with controllers. Ends with
`doctor: N passed, N failed, N skipped`.
"""
import argparse
import json
import os
import shutil
import subprocess
import time

from interop.local_cluster import Cluster
from tests.kit import ports
from tests.kit.cases import Case
from tests.kit.paths import VOSTOK
from tests.kit.process import Process
from tests.kit.report import Report, scratch
from tests.kit.servers import Vostok, is_routed
from tests.kit.topics import ask, await_brokers, group, topic
from tests.kit.waiting import eventually

SEND, COMMIT = 10, 15
# Time within which a fault should be found, and gone after it is mended.
MEANT_SECONDS = 10


def doctor(namesrv):
    """Returns the doctor's verdict as data."""
    command = [VOSTOK, "doctor", "-n", namesrv, "-o", "json", "--sample", "0", "--host", "no", "--lang", "en"]
    done = subprocess.run(command, capture_output=True, check=False)
    return json.loads(done.stdout)


def found(namesrv, code):
    """Returns the first finding of a check."""
    return next((finding for finding in doctor(namesrv)["findings"] if finding["code"] == code), None)


def admin(namesrv, *words):
    done = subprocess.run([VOSTOK, "admin", "-n", namesrv, "--yes", *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{words}: {done.stderr}")


class Table:
    """Seconds after which each fault was found and gone."""

    def __init__(self, case):
        self.case, self.rows = case, []

    def fault(self, namesrv, code, make, mend, names=""):
        """Makes a fault, waits until the doctor finds it and names the culprit, mends it, and waits until it is gone."""
        make()
        begin = time.monotonic()
        finding = self.case.eventually(f"{code} is found", lambda: found(namesrv, code), lambda: doctor(namesrv)["findings"])
        seconds = time.monotonic() - begin
        if not finding:
            return
        self.case.check(f"{code} names {names}", names in finding["subject"] + finding["figure"], finding)
        mend()
        begin = time.monotonic()
        self.case.eventually(f"{code} is gone", lambda: found(namesrv, code) is None, lambda: found(namesrv, code))
        self.rows.append((code, seconds, time.monotonic() - begin))

    def print(self):
        print(f"\n{'check':<28} {'found after s':>14} {'gone after s':>14}")
        for code, found_after, gone_after in self.rows:
            late = "  later than 10 s" if max(found_after, gone_after) > MEANT_SECONDS else ""
            print(f"{code:<28} {found_after:>14.1f} {gone_after:>14.1f}{late}", flush=True)


def send(server, topic_name, count, body=None, properties=""):
    for number in range(count):
        fields = {"producerGroup": "P", "topic": topic_name, "defaultTopic": "TBW102", "defaultTopicQueueNums": 4, "queueId": 0, "sysFlag": 0,
                  "bornTimestamp": int(time.time() * 1000), "flag": 0, "properties": properties, "reconsumeTimes": 0, "unitMode": "false",
                  "batch": "false"}
        ask(server.broker, SEND, fields, body or f"message {number}".encode())


def commit(server, group_name, topic_name, offset):
    ask(server.broker, COMMIT, {"consumerGroup": group_name, "topic": topic_name, "queueId": 0, "commitOffset": offset})


def setting(table, server, code, key, value, normal):
    """A fault that is a value of a setting of a broker."""
    def change(to):
        admin(server.namesrv, "broker", "set", key, to, "--broker", server.broker)
    table.fault(server.namesrv, code, lambda: change(value), lambda: change(normal), key)


def groups(table, one):
    """Faults of groups and topics."""
    namesrv = one.namesrv
    topic(one.broker, "Waiting")
    await_brokers(namesrv, "Waiting", 1)
    group(one.broker, "Away")
    send(one, "Waiting", 5)
    table.fault(namesrv, "group-offline-with-lag", lambda: commit(one, "Away", "Waiting", 1), lambda: commit(one, "Away", "Waiting", 5), "Away")

    def disable():
        commit(one, "Away", "Waiting", 1)
        group(one.broker, "Away", consumeEnable=False)

    def enable():
        group(one.broker, "Away")
        commit(one, "Away", "Waiting", 5)
    table.fault(namesrv, "group-disabled", disable, enable, "Away")
    table.fault(namesrv, "group-offset-outside", lambda: commit(one, "Away", "Waiting", 99), lambda: commit(one, "Away", "Waiting", 5), "99")
    topic(one.broker, "%DLQ%Away")
    table.fault(namesrv, "group-dead-letters", lambda: send(one, "%DLQ%Away", 2),
                lambda: admin(namesrv, "topic", "delete", "%DLQ%Away", "--cluster", "DefaultCluster"), "Away")
    topic(one.broker, "%RETRY%Away")

    def storm():
        send(one, "%RETRY%Away", 1005)
        commit(one, "Away", "%RETRY%Away", 1)
    table.fault(namesrv, "group-retry-storm", storm, lambda: commit(one, "Away", "%RETRY%Away", 1005), "Away")


def permissions(table, one, servers):
    """Faults of settings and permissions of a broker, and of its disk."""
    namesrv = one.namesrv
    setting(table, one, "broker-permission", "brokerPermission", "4", "6")
    setting(table, one, "settings-differ", "fileReservedTime", "24", "72")
    table.fault(servers, "write-permission-wiped", lambda: admin(servers, "namesrv", "wipe-write-perm", "broker-a"),
                lambda: admin(servers, "namesrv", "add-write-perm", "broker-a"), "broker-a")
    usage = shutil.disk_usage(one.store)
    percent = 100 - 100 * usage.free / usage.total
    for code, key, least, normal in (("disk-deletes-early", "diskMaxUsedSpaceRatio", 10, 95), ("disk-refuses", "diskSpaceWarningLevelRatio", 35, 90)):
        if least + 3 < percent < 85:
            setting(table, one, code, key, str(least), str(normal))
        else:
            table.case.report.skip(code, f"{percent:.0f} % of the disk are in use; the check needs {least} to 85 %")


def kills(table, one, two, second):
    """Servers that are killed."""
    servers = f"{one.namesrv};{second.namesrv}"
    table.fault(servers, "name-server-silent", second.kill, second.start, second.namesrv)
    eventually(lambda: is_routed(second.namesrv))
    table.fault(servers, "broker-lost", two.kill, two.launch, two.broker)
    table.fault(servers, "set-lost", two.kill, two.launch, "broker-b")
    two.pause()
    table.fault(servers, "broker-silent", lambda: None, two.resume, two.broker)


def stopped_on_purpose(case, one, two):
    """A broker that is stopped in order is no critical finding, and an operator can have it forgotten."""
    two.stop()
    finding = case.eventually("a stopped broker is found", lambda: found(one.namesrv, "broker-lost"))
    health = doctor(one.namesrv)["health"]
    case.check("a stopped broker is not critical", health["critical"] == 0, health)
    admin(one.namesrv, "namesrv", "forget", "broker-b", "--cluster", "DefaultCluster", "--address", two.broker, "--id", 0)
    case.eventually("a stopped broker is forgotten", lambda: found(one.namesrv, "broker-lost") is None, finding)


def workloads(case, one, directory, minutes, endpoint, shown=lambda: {}):
    """Healthy workloads, during which the doctor finds nothing. `endpoint` is the gRPC port, `shown` tells findings of another front."""
    namesrv, seconds = one.namesrv, int(minutes * 60)
    # Other programs may fill the disk of this machine, which is no fault of a workload.
    usage = shutil.disk_usage(one.store)
    percent = 100 - 100 * usage.free / usage.total
    is_full = percent > 75
    expected = {"disk-deletes-early", "disk-deletes-unexpired", "disk-refuses", "sends-refused-for-space", "disk-full-soon"} if is_full else set()
    if is_full:
        case.report.skip("disks of healthy workloads", f"{percent:.0f} % of the disk of this machine are in use")
    lab, expression = [VOSTOK, "lab"], directory / "expression"
    expression.write_text("tag3")
    common = ["-n", namesrv, "--duration", str(seconds)]
    commands = {
        "producer": [*lab, "producer", *common, "-t", "Load", "-w", "2", "--rate", "50", "-l", "10"],
        "filtered": [*lab, "consumer", *common, "-t", "Load", "-g", "Filtered", "-f", "TAG", "-e", expression],
        "popping": [*lab, "consumer", *common, "-t", "Load", "-g", "Popping", "--grpc", endpoint],
        "consumer": [*lab, "consumer", *common, "-t", "Load", "-g", "Readers"],
        "ordered": [*lab, "consumer", *common, "-t", "Load", "-g", "Ordered", "--orderly"],
        "transactions": [*lab, "tproducer", *common, "-t", "Decided", "-w", "1", "-i", "100"],
        "delayed": [*lab, "producer", *common, "-t", "Later", "-w", "1", "--rate", "5", "-d", "true", "-e", "2"],
    }
    for name in ("Load", "Decided", "Later"):
        topic(one.broker, name)
        await_brokers(namesrv, name, 1)
    for name in ("Idle", "Popping"):
        group(one.broker, name)
    running = [Process(name, directory, command).launch() for name, command in commands.items()]
    seen, looks, end = {}, 0, time.monotonic() + seconds
    while time.monotonic() < end:
        findings = [finding for finding in doctor(namesrv)["findings"] if finding["severity"] != "advice" and finding["code"] not in expected]
        seen |= {finding["code"]: finding for finding in findings} | {code: finding for code, finding in shown().items() if code not in expected}
        looks += 1
        # A long run need not look as often.
        time.sleep(max(2, minutes / 3))
    case.check(f"{looks} looks at producers, readers, filters, ordered and popping readers, delays, transactions and an idle group find nothing", not seen, list(seen.values()))
    for process in running:
        process.stop(clean=False)
    # A killed reader may leave messages behind, which is no fault of the checks that follow.
    for name in ("Filtered", "Popping", "Readers", "Ordered"):
        admin(namesrv, "group", "delete", name, "--cluster", "DefaultCluster")


def plain(case, table, directory, minutes):
    """Two broker sets without controllers, and two name servers."""
    grpc = ports.free_port()
    serving = {"roles": "namesrv,broker,proxy", "arguments": ["--grpc-port", grpc], "listens": [grpc]}
    with Vostok(directory / "second", roles="namesrv", name="second") as second, Vostok(directory / "one", **serving) as one:
        servers = f"{one.namesrv};{second.namesrv}"
        admin(one.namesrv, "broker", "set", "namesrvAddr", servers, "--broker", one.broker)
        conf = {"brokerName": "broker-b"}
        two = Vostok(directory / "two", conf, roles="broker", namesrv=servers, name="two").launch()
        case.eventually("both sets are known to both name servers",
                        lambda: not found(servers, "name-servers-disagree") and doctor(servers)["brokers"] == 2)
        try:
            workloads(case, one, directory, minutes, f"127.0.0.1:{grpc}")
            groups(table, one)
            permissions(table, one, servers)
            kills(table, one, two, second)
            stopped_on_purpose(case, one, two)
        finally:
            two.stop(clean=False)


def controlled(case, table, directory):
    """A broker set of three with a controller."""
    cluster = Cluster(directory)
    namesrv = f"127.0.0.1:{cluster.namesrv}"
    try:
        case.eventually("all three come into the in-sync set", cluster.is_whole, cluster.set)
        one, two = (address for address in cluster.members if address != cluster.set()[0])
        table.fault(namesrv, "replica-lost", lambda: cluster.kill(one), lambda: cluster.restart(one), one)
        case.eventually("the slave comes back", cluster.is_whole, cluster.set)

        def kill_both():
            cluster.kill(one)
            cluster.kill(two)

        def restart_both():
            cluster.restart(one)
            cluster.restart(two)
        table.fault(namesrv, "too-few-in-sync", kill_both, restart_both, "sends are refused")
    finally:
        cluster.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="without controllers")
    parser.add_argument("--minutes", type=float, default=0.5, help="time of the healthy workloads")
    parser.add_argument("--keep", action="store_true", help="keep the stores and logs")
    options = parser.parse_args()
    os.environ.pop("NAMESRV_ADDR", None)
    report = Report("doctor")
    with scratch(report, options.keep) as directory:
        case = Case(report)
        table = Table(case)
        plain(case, table, directory, options.minutes)
        if not options.short:
            controlled(case, table, directory / "cluster")
        table.print()
    report.close()


if __name__ == "__main__":
    main()
