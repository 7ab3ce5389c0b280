"""More faults that the doctor of an open console finds on real clusters: each is made, found, mended and gone.

    python3 -m interop.doctor_faults [--only NAME[,NAME]] [--keep]

Scenarios: members of a consumer group (a client of this file, which reports any state of itself), routes, settings, replicas, addresses,
access, transactions, a full disk (needs root). A console without a browser runs the doctor as for an open page. The seconds until the
overview's data has the check of a fault, and until no finding of the check names the culprit, are printed in a table and not asserted.
Ends with `doctor-faults: N passed, N failed, N skipped`.
"""
import argparse
import contextlib
import json
import os
import select
import shutil
import socket
import struct
import subprocess
import threading
import time
from urllib.request import urlopen

from interop.auth import AUTH
from interop.console_faults import SMALL, has_own_disk
from interop.doctor import MEANT_SECONDS, SEND, admin, commit, send
from tests.kit import ports
from tests.kit.cases import side_by_side
from tests.kit.paths import VOSTOK
from tests.kit.process import Process
from tests.kit.report import Report, scratch
from tests.kit.servers import Vostok
from tests.kit.topics import Refused, ask, await_brokers, group, topic
from tests.kit.waiting import eventually

HEARTBEAT, RUNNING_INFO, END_TRANSACTION, LOCK, UNLOCK, DELETE_AT_NAMESRV = 34, 307, 37, 41, 42, 216
TOPIC, GROUP = "Watched", "Watching"
# Age in ms of a last pull or call of a listener that the doctor takes for a member that stands still.
OLD_MS = 120_000


class Console:
    """A console whose doctor runs as for an open page. `prefix` are words before the command of the console."""

    def __init__(self, running, directory, servers, prefix=()):
        port = ports.free_port()
        command = [*prefix, VOSTOK, "serve", "--roles", "console", "-n", servers, "--data", directory / "console", "--console", f"127.0.0.1:{port}"]
        self.address = f"http://127.0.0.1:{port}/api/v1/overview"
        running.enter_context(Process("console", directory, command, [port]))

    def findings(self, code):
        with urlopen(self.address, timeout=120) as answer:
            verdict = json.load(answer)["doctor"] or {"findings": []}
        return [f"{finding['subject']}: {finding['figure']}" for finding in verdict["findings"] if finding["code"] == code]


class Table:
    """Seconds after which each fault was found and gone."""

    def __init__(self, case, console):
        self.case, self.console, self.rows = case, console, []

    def fault(self, codes, make, mend, names=""):
        """A fault that checks find, whose names are separated by spaces; each names the culprit."""
        def found(code):
            return [text for text in self.console.findings(code) if names in text]
        for code in codes.split():
            self.case.check(f"{code}: {names} is no finding before", not found(code), lambda: found(code))  # noqa: B023 (called at once)
        make()
        begin, shown = time.monotonic(), {}
        for code in codes.split():
            if self.case.eventually(f"{code} is found and names {names}", lambda: found(code), lambda: self.console.findings(code)):  # noqa: B023
                shown[code] = time.monotonic() - begin
        mend()
        begin = time.monotonic()
        for code, seconds in shown.items():
            self.case.eventually(f"{code} is gone", lambda: not found(code), lambda: found(code))  # noqa: B023
            self.rows.append((code, seconds, time.monotonic() - begin))


class Member:
    """A member of a group, which tells the broker what its attributes say."""

    def __init__(self, broker, client_id, queues=(), group_name=GROUP):
        self.broker, self.client_id, self.group = broker, client_id, group_name
        self.queues, self.expression, self.failed, self.answers = list(queues), "*", 0.0, True
        self.cached, self.pulled_ms, self.consumed_ms = 0, 0, 0
        host, _, port = broker.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), 120)
        self.is_open = True
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.is_open = False
        self.thread.join()
        self.socket.close()

    def write(self, head, body=b""):
        head = json.dumps({"language": "JAVA", "version": 435, **head}).encode()
        self.socket.sendall(struct.pack(">ii", 4 + len(head) + len(body), len(head)) + head + body)

    def subscriptions(self):
        return [{"topic": TOPIC, "subString": self.expression, "tagsSet": [], "codeSet": [], "subVersion": 1, "expressionType": "TAG", "classFilterMode": False}]

    def heartbeat(self):
        own = {"groupName": self.group, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING", "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
               "subscriptionDataSet": self.subscriptions(), "unitMode": False}
        self.write({"code": HEARTBEAT, "opaque": 1, "flag": 0}, json.dumps({"clientID": self.client_id, "producerDataSet": [], "consumerDataSet": [own]}).encode())

    def report(self):
        """ConsumerRunningInfo, whose queues are keys of a map, as fastjson writes them."""
        now_ms = int(time.time() * 1000)
        state = json.dumps({"commitOffset": 0, "cachedMsgCount": self.cached, "lastPullTimestamp": now_ms - self.pulled_ms,
                            "lastConsumeTimestamp": now_ms - self.consumed_ms, "locked": False, "droped": False})
        queues = ",".join(f'{json.dumps({"brokerName": "broker-a", "queueId": queue, "topic": TOPIC})}:{state}' for queue in self.queues)
        status = {TOPIC: {"pullRT": 1.0, "pullTPS": 1.0, "consumeRT": 1.0, "consumeOKTPS": 1.0, "consumeFailedTPS": self.failed, "consumeFailedMsgs": 0}}
        return (f'{{"mqTable":{{{queues}}},"statusTable":{json.dumps(status)},"subscriptionSet":{json.dumps(self.subscriptions())},'
                '"properties":{"PROP_CONSUME_TYPE":"CONSUME_PASSIVELY"},"jstack":""}').encode()

    def serve(self):
        answers, beat = self.socket.makefile("rb"), 0.0
        while self.is_open:
            if time.monotonic() > beat:
                self.heartbeat()
                beat = time.monotonic() + 1
            if not select.select([self.socket], [], [], 0.1)[0]:
                continue
            size, length = struct.unpack(">ii", answers.read(8))
            head = json.loads(answers.read(length))
            answers.read(size - 4 - length)
            if head["code"] == RUNNING_INFO and not head["flag"] & 1 and self.answers:
                self.write({"code": 0, "opaque": head["opaque"], "flag": 1}, self.report())


def changed(thing, name, value):
    """A function that gives an attribute another value."""
    return lambda: setattr(thing, name, value)


def members(table, running, one):
    """Members whose state is wrong."""
    topic(one.broker, TOPIC)
    await_brokers(one.namesrv, TOPIC, 1)
    group(one.broker, GROUP)
    first = running.enter_context(Member(one.broker, "first@1", range(4)))
    second = running.enter_context(Member(one.broker, "second@2"))
    table.fault("queue-without-owner", changed(first, "queues", [0, 1, 2]), changed(first, "queues", range(4)), GROUP)
    table.fault("queue-with-two-owners", changed(second, "queues", [0]), changed(second, "queues", []), "second@2")
    table.fault("subscriptions-conflict", changed(second, "expression", "TagA"), changed(second, "expression", "*"), GROUP)
    table.fault("listener-fails", changed(first, "failed", 2.5), changed(first, "failed", 0.0), "2.50")
    table.fault("member-silent", changed(second, "answers", False), changed(second, "answers", True), "second@2")
    more = contextlib.ExitStack()
    table.fault("members-beyond-queues", lambda: [more.enter_context(Member(one.broker, f"more@{number}")) for number in range(3)], more.close, "5 members")
    twin = contextlib.ExitStack()
    table.fault("client-ids-equal", lambda: twin.enter_context(Member(one.broker, "second@2")), twin.close, "second@2")
    send(one, TOPIC, 5)
    commit(one, GROUP, TOPIC, 1)
    table.fault("owner-does-not-pull", changed(first, "pulled_ms", OLD_MS), changed(first, "pulled_ms", 0), "first@1")

    def hold(count, age_ms):
        first.cached, first.consumed_ms = count, age_ms
    table.fault("owner-does-not-consume", lambda: hold(4, OLD_MS), lambda: hold(4, 0), "first@1")
    locked = json.dumps({"consumerGroup": GROUP, "clientId": "gone@9", "onlyThisBroker": True,
                         "mqSet": [{"topic": TOPIC, "brokerName": "broker-a", "queueId": 0}]}).encode()
    table.fault("lock-held-idle", lambda: ask(one.broker, LOCK, {}, locked), lambda: ask(one.broker, UNLOCK, {}, locked), "gone@9")
    hold(0, 0)
    commit(one, GROUP, TOPIC, 5)
    table.fault("group-not-moving", lambda: commit(one, GROUP, TOPIC, 1), lambda: commit(one, GROUP, TOPIC, 5), GROUP)


def transactions(table, one):
    """A half message whose producer does not answer."""
    topic(one.broker, "Halves", "TRANSACTION")
    sent = {}
    fields = {"producerGroup": "Deciders", "topic": "Halves", "defaultTopic": "TBW102", "defaultTopicQueueNums": 4, "queueId": 0, "sysFlag": 4,
              "bornTimestamp": int(time.time() * 1000) - 600_000, "flag": 0, "reconsumeTimes": 0, "unitMode": "false", "batch": "false",
              "properties": "TRAN_MSG\1true\2PGROUP\1Deciders\2UNIQ_KEY\1A1\2"}

    def half():
        sent.update(ask(one.broker, SEND, fields, b"half")[0])

    def decide():
        ask(one.broker, END_TRANSACTION, {"producerGroup": "Deciders", "tranStateTableOffset": sent["queueOffset"], "fromTransactionCheck": "false",
                                          "commitLogOffset": int(sent["msgId"][16:], 16), "commitOrRollback": 12, "msgId": "A1", "transactionId": "A1"})
    table.fault("halves-undecided", half, decide, "Deciders")


def other(directory, name, conf, namesrv):
    """A further broker, which is killed or stopped and forgotten."""
    return Vostok(directory / name, SMALL | conf, roles="broker", namesrv=namesrv, name=name)


def routes(table, directory, one, second):
    """Name servers that know different things, and brokers in each other's place."""
    servers = f"{one.namesrv};{second.namesrv}"
    topic(one.broker, TOPIC)
    await_brokers(one.namesrv, TOPIC, 1)
    await_brokers(second.namesrv, TOPIC, 1)
    three = other(directory, "three", {"brokerName": "broker-c"}, one.namesrv)

    def forget(broker, name, number=0):
        broker.stop(clean=False)
        admin(servers, "namesrv", "forget", name, "--cluster", "DefaultCluster", "--address", broker.broker, "--id", number)
    table.fault("name-servers-disagree", three.launch, lambda: forget(three, "broker-c"), "broker-c")
    # Any new topic makes the broker register with all of its topics.
    table.fault("routes-disagree", lambda: ask(second.namesrv, DELETE_AT_NAMESRV, {"topic": TOPIC}), lambda: topic(one.broker, "Another"), TOPIC)
    alone = other(directory, "alone", {"brokerName": "broker-d", "brokerId": 1, "brokerRole": "SLAVE"}, servers)
    table.fault("no-master", alone.launch, lambda: forget(alone, "broker-d", 1), "broker-d")
    # A broker does not start while another broker answers under its name and id.
    for code, role in (("two-masters", {}), ("two-slaves", {"brokerId": 1, "brokerRole": "SLAVE"})):
        number = role.get("brokerId", 0)
        pair = [other(directory, f"{code}-{place}", {"brokerName": "broker-n"} | role, servers) for place in range(2)]
        pair[0].launch().await_ready()

        def make(pair=pair):
            pair[0].pause()
            pair[1].launch().await_ready()
            pair[0].resume()

        def mend(pair=pair, number=number):
            for broker in pair:
                forget(broker, "broker-n", number)
        table.fault(code, make, mend, pair[1].broker)


def addresses(table, directory, servers):
    """Brokers that tell clients addresses of no use."""
    def forget(broker, name, address):
        broker.stop(clean=False)
        admin(servers, "namesrv", "forget", name, "--cluster", "DefaultCluster", "--address", address, "--id", 0)
    bridge = other(directory, "bridge", {"brokerName": "broker-e", "brokerIP1": "172.17.200.1"}, servers)
    at = f"172.17.200.1:{bridge.broker_port}"
    table.fault("address-bridge", bridge.launch, lambda: forget(bridge, "broker-e", at), at)
    own = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=False).stdout.split()
    if not own or own[0].startswith("172.17."):
        table.case.report.skip("address-loopback, open-to-everybody", "this machine has no address of a network")
        return
    wide = other(directory, "wide", {"brokerName": "broker-f", "brokerIP1": own[0]}, servers)
    at = f"{own[0]}:{wide.broker_port}"
    for code, names in (("open-to-everybody", at), ("address-loopback", "127.0.0.1")):
        table.fault(code, wide.launch, lambda: forget(wide, "broker-f", at), names)


def settings(table, directory, servers):
    """Brokers whose settings are wrong."""
    for code, name, conf, names in (
            ("settings-without-effect", "broker-g", {"noSuchSetting": 1}, "noSuchSetting"),
            ("master-flushes-alone", "broker-h", {"brokerRole": "SYNC_MASTER"}, "broker-h"),
            ("too-few-acks", "broker-i", {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2}, "broker-i"),
            ("too-few-in-sync", "broker-j", {"brokerRole": "SYNC_MASTER", "minInSyncReplicas": 2, "inSyncReplicas": 2}, "broker-j"),
            ("look-refused", "broker-k", AUTH | {"authorizationEnabled": "true"}, "broker-k")):
        broker = other(directory, name, conf | {"brokerName": name}, servers)

        def mend(broker=broker, name=name):
            broker.stop(clean=False)
            admin(servers, "namesrv", "forget", name, "--cluster", "DefaultCluster", "--address", broker.broker, "--id", 0)
        table.fault(code, broker.launch, mend, names)


def replicas(table, directory, servers):
    """A slave of a master with a small gap, which is cut off, paused and elsewhere."""
    master = other(directory, "master", {"brokerName": "broker-l", "haMaxGapNotInSync": 1000, "brokerIP2": "127.0.0.1"}, servers).launch()
    conf = {"brokerName": "broker-l", "brokerId": 1, "brokerRole": "SLAVE"}
    lost = other(directory, "lost", conf | {"haMasterAddress": "127.0.0.1:1", "brokerIP1": "127.0.0.2"}, servers)
    table.fault("slave-not-connected", lost.launch, lambda: lost.stop(clean=False), "127.0.0.2")
    slave = other(directory, "slave", conf | {"brokerIP1": "127.0.0.2"}, servers)
    table.fault("replication-address", slave.launch, lambda: slave.stop(clean=False), "127.0.0.2")
    near = other(directory, "near", conf, servers).launch()
    topic(master.broker, "Copied")
    table.case.eventually("the slave copies", lambda: near.broker in "".join(connected(servers, master)))

    def pause():
        near.pause()
        send(master, "Copied", 50)
    table.fault("slave-not-in-sync", pause, near.resume, near.broker)
    for broker in (near, master):
        broker.stop(clean=False)


    master = other(directory, "ahead", {"brokerName": "broker-p", "brokerIP2": "127.0.0.1"}, servers).launch().await_ready()
    near = other(directory, "behind", {"brokerName": "broker-p", "brokerId": 1, "brokerRole": "SLAVE"}, servers).launch()
    topic(master.broker, "Copied")
    table.case.eventually("the slave copies", lambda: near.broker in "".join(connected(servers, master)))

    def fall_behind():
        near.pause()
        send(master, "Copied", 70, b"x" * (1 << 20))
    table.fault("slave-behind", fall_behind, near.resume, near.broker)
    for broker in (near, master):
        broker.stop(clean=False)


def connected(servers, master):
    words = [VOSTOK, "admin", "broker", "replication", "--broker", master.broker, "-n", servers, "-o", "json"]
    rows = json.loads(subprocess.run(words, capture_output=True, check=False).stdout or "[]")
    table = json.loads(subprocess.run([VOSTOK, "admin", "cluster", "list", "-n", servers, "-o", "json"], capture_output=True, check=False).stdout or "[]")
    return [row["address"] for row in table] if any(row["slave"] for row in rows) else []


def full(table, directory, servers, running):
    """A disk that refuses messages."""
    store = directory / "full" / "store"
    if not has_own_disk(table, directory, store, running):
        return
    broker = other(directory, "full", {"brokerName": "broker-m"}, servers).launch()
    running.callback(broker.stop, clean=False)
    table.case.eventually("the broker with a disk of its own has a topic", lambda: topic(broker.broker, "Filled") is None)
    filler = store / "filler"

    def fill():
        with open(filler, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(store).free * 97 // 100)

    def is_refused():
        try:
            send(broker, "Filled", 1)
        except Refused:
            return True
        return False

    def refuse():
        fill()
        eventually(is_refused)
    table.fault("sends-refused-for-space", fill, filler.unlink, "broker-m")
    table.fault("refused-disk-full", refuse, filler.unlink, "broker-m")


def drive(name, description, scenarios):
    """Runs the scenarios of a program one after the other. `scenarios` makes functions by name, for a table, a directory, the name servers, a block
    whose end stops servers, and the two servers."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="names of scenarios")
    parser.add_argument("--keep", action="store_true", help="keep the stores and logs")
    options = parser.parse_args()
    wanted = {scenario for scenario in options.only.split(",") if scenario}
    os.environ.pop("NAMESRV_ADDR", None)
    report, tables = Report(name), []

    def perform(case, directory):
        directory.mkdir()
        with contextlib.ExitStack() as running:
            second = running.enter_context(Vostok(directory / "second", roles="namesrv", name="second"))
            # The broker asks the producers of half messages at once.
            conf = SMALL | {"transactionTimeOut": 1000, "transactionCheckInterval": 1000, "transactionCheckMax": 1000}
            one = running.enter_context(Vostok(directory / "one", conf, arguments=["-n", second.namesrv]))
            servers = f"{one.namesrv};{second.namesrv}"
            table = Table(case, Console(running, directory, servers))
            tables.append(table)
            for scenario, make in scenarios(table, directory, servers, running, one, second).items():
                if not wanted or scenario in wanted:
                    make()
    with scratch(report, options.keep) as directory:
        side_by_side(report, {"faults": lambda case: perform(case, directory / "faults")})
    print(f"\n{'check':<28} {'found after s':>14} {'gone after s':>14}")
    for code, shown, gone in (row for table in tables for row in table.rows):
        late = f"  later than {MEANT_SECONDS} s" if max(shown, gone) > MEANT_SECONDS else ""
        print(f"{code:<28} {shown:>14.1f} {gone:>14.1f}{late}", flush=True)
    report.close()


def main():
    drive("doctor-faults", __doc__, lambda table, directory, servers, running, one, second: {
        "members": lambda: members(table, running, one),
        "transactions": lambda: transactions(table, one),
        "routes": lambda: routes(table, directory, one, second),
        "settings": lambda: settings(table, directory, servers),
        "addresses": lambda: addresses(table, directory, servers),
        "replicas": lambda: replicas(table, directory, servers),
        "full": lambda: full(table, directory, servers, running),
    })


if __name__ == "__main__":
    main()
