"""Failover by Apache RocketMQ's controller 5.5.0: groups of two brokers, of Vostok alone and of Vostok and Java.

    python3 -m interop.switch [--case NAME[,NAME]] [--keep]

Cases: vostok-vostok, java-vostok (the first one is master first). The master is killed under load: the other becomes master and has
all that was acknowledged. Then it gets messages that the slave never gets, and is killed again: when it comes back as slave, they are
cut off, and the logs are equal. Times are printed. Ends with `switch: N passed, N failed, N skipped`.
"""
import argparse
import json
import threading
import time
from functools import partial

from interop.cluster_load import NAME, SYNC_STATE, log_files
from tests.kit import ports
from tests.kit.cases import side_by_side
from tests.kit.remoting import Client, number_of
from tests.kit.report import Report, scratch
from tests.kit.servers import SMALL_FILES, Java, Vostok
from tests.kit.waiting import FAILURES, PATIENCE_SECONDS, eventually

BEFORE, UNDER_LOAD, AFTER = 400, 1_500, 200
LOST, LOST_BYTES = 80, 300_000  # more than the sockets of a connection hold
LOST_FROM = 500_000
METADATA, HA_STATUS, EPOCHS = 1005, 907, 1007
LATE_MS = 1_000_000
SETTINGS = SMALL_FILES | {
    "enableControllerMode": "true", "allAckInSyncStateSet": "true", "inSyncReplicas": 2, "minInSyncReplicas": 1, "slaveReadEnable": "true",
    "syncBrokerMetadataPeriod": 1000, "checkSyncStateSetPeriod": 1000, "haSendHeartbeatInterval": 1000, "registerNameServerPeriod": 1000,
    # A slave that stands still stays in the set, however long that takes. The end of a connection shows that a broker was killed.
    "slaveTimeout": LATE_MS, "controllerHeartBeatTimeoutMills": LATE_MS, "haMaxTimeSlaveNotCatchup": LATE_MS, "haHousekeepingInterval": LATE_MS}


class Controller:
    """A Java name server with a controller in it."""

    def __init__(self, directory):
        self.port = ports.free_port()
        self.server = Java(directory, only="namesrv", level="INFO", namesrv_conf={
            "enableControllerInNamesrv": "true", "controllerDLegerGroup": "group", "controllerDLegerSelfId": "n0",
            "controllerDLegerPeers": f"n0-127.0.0.1:{self.port}", "controllerStorePath": directory / "controller"})

    def leads(self):
        return Client(self.port).call(METADATA)[0]["extFields"].get("controllerLeaderAddress")

    def group(self):
        """Address of the master, addresses in the in-sync set."""
        try:
            table = json.loads(Client(self.port).call(SYNC_STATE, {}, json.dumps([NAME]).encode())[1])["replicasInfoTable"][NAME]
        except FAILURES:
            return None, set()
        return table.get("masterAddress"), {broker["brokerAddress"] for broker in table.get("inSyncReplicas", [])}


def broker(kind, directory, controller):
    namesrv, conf = controller.server.namesrv, SETTINGS | {"controllerAddr": f"127.0.0.1:{controller.port}"}
    if kind == "java":
        return Java(directory, conf, only="broker", namesrv=namesrv, level="INFO")
    return Vostok(directory, conf, roles="broker", namesrv=namesrv)


def is_master(server):
    """Whether a broker acts as master and takes message 0. A broker without a role from the controller answers that it is no master."""
    try:
        client = Client(server.broker)
        if json.loads(client.call(HA_STATUS)[1]).get("master"):
            client.send(0)
            return True
    except FAILURES:
        pass
    return False


def numbers(server):
    """Numbers of all messages that a broker serves, sorted."""
    return sorted(map(number_of, Client(server.broker).messages().values()))


def epochs(server):
    return [(entry["epoch"], entry["startOffset"]) for entry in json.loads(Client(server.broker).call(EPOCHS)[1])["epochList"]]


def log_bytes(server):
    return sum(map(len, log_files(server.store).values()))


class Load(threading.Thread):
    """Sends messages to one broker until that fails; knows which were acknowledged."""

    def __init__(self, server, first, count, size=None):
        super().__init__(daemon=True)
        self.server, self.numbers, self.size, self.acknowledged = server, range(first, first + count), size, []
        self.start()

    def run(self):
        try:
            client = Client(self.server.broker, LATE_MS / 1000)
            for number in self.numbers:
                client.send(number, self.size)
                self.acknowledged.append(number)
        except FAILURES:
            pass  # the broker was killed


def bytes_under_way(port):
    """Bytes of the server on a port that its clients have not read: those that its sockets send and that the sockets of the clients hold."""
    total = 0
    for file in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(file) as table:
            for line in table.readlines()[1:]:
                _, local, remote, _, queues, *_ = line.split()
                sent, received = (int(size, 16) for size in queues.split(":"))
                total += sent * local.endswith(f":{port:04X}") + received * remote.endswith(f":{port:04X}")
    return total


def drain(slave, master):
    """Lets a slave that stood still append what the sockets hold, while its master stands still.

    A Java slave that becomes master while it still appends may end with a part of a message and wait for ever until that is
    dispatched (AutoSwitchHAService.changeToMaster).
    """
    master.pause()
    sizes = [log_bytes(slave)]
    slave.resume()

    def stands():
        sizes.append(log_bytes(slave))
        # Five looks in a row, since the last bytes may be read from the socket and not be in the log yet.
        return bytes_under_way(master.broker_port + 1) == 0 and len(set(sizes[-5:])) == 1 and sizes[-1] > sizes[0] or time.sleep(0.5)

    eventually(stands)


def both_in_set(case, title, controller, one, two):
    case.eventually(f"{title}: both are in the in-sync set", lambda: controller.group()[1] == {one.broker, two.broker}, controller.group)


def kill_under_load(case, controller, one, two):
    """Kills the master `one` under load and starts it again; returns the acknowledged messages."""
    load = Load(one, 10_000, UNDER_LOAD * 100)
    eventually(lambda: len(load.acknowledged) > UNDER_LOAD)
    one.kill()
    begin = time.monotonic()
    case.eventually("kill under load: the slave becomes master", lambda: is_master(two), controller.group)
    print(f"{case.name}: kill under load: messages taken after {time.monotonic() - begin:.1f} s", flush=True)
    load.join(PATIENCE_SECONDS)
    has_all = lambda: set(load.acknowledged) <= set(numbers(two))  # noqa: E731
    case.eventually("kill under load: all that was acknowledged is there", has_all, lambda: (len(numbers(two)), len(load.acknowledged)))
    one.start()
    both_in_set(case, "return", controller, one, two)
    return load.acknowledged


def lose_the_tail(case, controller, one, two):
    """Gives the master `two` messages that its slave `one` never gets, and kills it; returns the acknowledged messages of the new master."""
    one.pause()
    before = log_bytes(two)
    for index in range(LOST):
        Load(two, LOST_FROM + index, 1, LOST_BYTES)
    eventually(lambda: log_bytes(two) > before + LOST * LOST_BYTES)
    shown = numbers(two)
    case.check("messages that only the master has are not shown", shown[-1] < LOST_FROM, shown[-3:])
    full = log_bytes(two)
    if one.kind == "java":
        drain(one, two)
    two.kill()
    one.resume()
    # A Java slave that becomes master waits up to 90 s for the end of its client of the old master (AutoSwitchHAService.changeToMaster).
    case.eventually("tail: the other becomes master again", lambda: is_master(one), controller.group)
    load = Load(one, 600_000, AFTER)
    load.join(PATIENCE_SECONDS)
    case.check("tail: messages are taken", len(load.acknowledged) == AFTER, len(load.acknowledged))
    two.start()
    both_in_set(case, "tail", controller, one, two)
    # What the sockets held may be in the log of the new master too.
    case.eventually("tail: what the master does not have was cut", lambda: log_bytes(two) < full - LOST_BYTES, lambda: (full, log_bytes(two)))
    case.eventually("tail: the slave has what the master has", lambda: numbers(two) == numbers(one), lambda: (len(numbers(two)), len(numbers(one))))
    return load.acknowledged


def run(kinds, directory, case):
    controller = Controller(directory / "controller")
    one, two = (broker(kind, directory / name, controller) for kind, name in zip(kinds, ("one", "two")))
    with controller.server:
        eventually(controller.leads, refused=FAILURES)
        with one:
            case.eventually("the first broker becomes master", lambda: is_master(one), controller.group)
            with two:
                both_in_set(case, "start", controller, one, two)
                load = Load(one, 1, BEFORE)
                load.join(PATIENCE_SECONDS)
                acknowledged = set(load.acknowledged)
                case.check("messages are taken", len(acknowledged) == BEFORE, len(acknowledged))
                numbers(one)  # makes the group, which slaves take from the master
                case.eventually("the slave shows what is confirmed", lambda: acknowledged <= set(numbers(two)), lambda: len(numbers(two)))
                acknowledged |= set(kill_under_load(case, controller, one, two))
                acknowledged |= set(lose_the_tail(case, controller, one, two))
                eventually(lambda: acknowledged <= set(numbers(one)), refused=FAILURES)
                found = [number for number in numbers(one) if number]
                case.check("nothing is lost or doubled", acknowledged <= set(found) and len(set(found)) == len(found),
                           (len(acknowledged), len(found), sorted(acknowledged - set(found))[:5]))
                if "java" not in kinds:  # a Java slave may lack an older entry
                    case.eventually("the epochs are the same", lambda: epochs(one) == epochs(two), lambda: (epochs(one), epochs(two)))
                eventually(lambda: log_files(two.store) == log_files(one.store))
                two.stop()
                one.stop()
    first, second = log_files(one.store), log_files(two.store)
    # A master may store something of its own on its way down.
    is_equal = first.keys() == second.keys() and all(text.startswith(second[name]) for name, text in first.items())
    case.check("the logs are equal", first and is_equal, [{name: len(text) for name, text in log.items()} for log in (first, second)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", default="vostok-vostok,java-vostok")
    parser.add_argument("--keep", action="store_true", help="keep the stores and logs")
    options = parser.parse_args()
    report = Report("switch")
    with scratch(report, options.keep) as directory:
        side_by_side(report, {name: partial(run, name.split("-"), directory / name) for name in options.case.split(",")})
    report.close()


if __name__ == "__main__":
    main()
