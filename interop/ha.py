"""Classic replication between Apache RocketMQ and Vostok: either as master of the other.

    python3 -m interop.ha [--case NAME[,NAME]] [--java VERSION[,VERSION]] [--keep]

Cases: java-master, vostok-master, each with every version of RocketMQ (5.5.0 and 4.9.7). Messages of several log files go to the master
while the slave is killed and started again; then the ends of the queues, the tables and the bytes of the logs must be equal.
acting-java-master, acting-vostok-master, with versions from 5 on: the slave acts for the master that is killed
(enableSlaveActingMaster), and the master that returns serves with the offset that was committed there.
Ends with `ha: N passed, N failed, N skipped`.
"""
import argparse
import json
import re
from functools import partial
from itertools import product

from interop.cluster_load import log_files
from tests.kit.cases import side_by_side
from tests.kit.remoting import Client
from tests.kit.report import Report, scratch
from tests.kit.servers import SMALL_FILES, Java, Vostok
from tests.kit.waiting import FAILURES, eventually

MESSAGES = 3_000
OFFSETS, TOPICS, GROUPS, MEMBERS, HA_STATUS = 43, 21, 201, 901, 907
OTHER = {"java": "vostok", "vostok": "java"}
SLAVE = {"brokerRole": "SLAVE", "brokerId": 1, "slaveReadEnable": "true"}


def broker(kind, version, directory, conf, namesrv=None):
    """A broker of either kind, with a name server of its own unless `namesrv` is given."""
    conf = SMALL_FILES | {"registerNameServerPeriod": 1000} | conf
    if kind == "java":
        return Java(directory, conf, only=namesrv and "broker", namesrv=namesrv, version=version, level="INFO")
    return Vostok(directory, conf, roles="broker" if namesrv else "namesrv,broker", namesrv=namesrv)


def tables(server):
    """Names of topics and groups, and the committed offset of the test's group."""
    client = Client(server.broker)
    topics = json.loads(client.call(TOPICS)[1])["topicConfigTable"]
    groups = json.loads(client.call(GROUPS)[1])["subscriptionGroupTable"]
    return sorted(topics), sorted(groups), client.committed(1)


def ends(server):
    return Client(server.broker).ends()


def is_copied(master, slave):
    """Whether the log of the slave is that of the master. The master may store something of its own on its way down."""
    one, two = log_files(master.store), log_files(slave.store)
    return bool(two) and all(name in two and text.startswith(two[name]) for name, text in one.items()) and two.keys() <= one.keys()


def replicate(kind, version, directory, case):
    """A slave copies a log of several files and the tables while it is killed once."""
    master = broker(kind, version, directory / "master", {})
    slave = broker(OTHER[kind], version, directory / "slave", SLAVE, master.namesrv)
    with master, slave:
        client = Client(master.broker)
        if kind == "vostok" or not version.startswith("4."):  # 4.9 has no request 907
            case.eventually("the slave connects", lambda: json.loads(Client(master.broker).call(HA_STATUS)[1])["haConnectionInfo"])
        client.send(0)
        # A slave without data starts at the newest log file: it must have begun before there is a second file.
        case.eventually("the slave takes the first message", lambda: log_files(slave.store))
        for number in range(1, MESSAGES):
            client.send(number)
            if number == MESSAGES // 2:
                if slave.kind == "java":
                    # A Java slave that is killed while it copies a message may take it for whole although its properties end in zeros: its
                    # checksum covers the body alone.
                    eventually(lambda: log_files(slave.store) == log_files(master.store))
                slave.kill()
                slave.start()
                client = Client(master.broker)  # Java ends connections on which nothing comes for two minutes
        client.pull(1, 0)
        client.commit(1, 7)
        case.eventually("the master has all", lambda: sum(ends(master)) == MESSAGES, lambda: ends(master))
        wanted = ends(master)
        # A Java slave takes the tables once a minute.
        case.eventually("the slave's tables are the master's", lambda: tables(slave) == tables(master), lambda: (tables(master), tables(slave)))
        case.eventually("the slave's queues end where the master's do", lambda: ends(slave) == wanted, lambda: (wanted, ends(slave)))
        case.eventually("the slave serves the last message", lambda: Client(slave.broker).pull(2, wanted[2] - 1)[0]["code"] == 0)
        eventually(lambda: is_copied(master, slave))
        master.stop()
        slave.stop()
    sizes = {server.directory.name: {name: len(text) for name, text in log_files(server.store).items()} for server in (master, slave)}
    case.check("the logs are equal", is_copied(master, slave) and len(sizes["slave"]) > 1, sizes)


def offset_at(server, queue=1):
    """The committed offset in the table of a broker; `None` if it has none or does not answer."""
    try:
        body = Client(server.broker).call(OFFSETS)[1].decode()
        # RocketMQ writes the ids of queues without quotes.
        return json.loads(re.sub(r"([{,])(\d+):", r'\1"\2":', body))["offsetTable"].get("Copied@CG", {}).get(str(queue))
    except FAILURES:
        return None


def act(kind, version, directory, case):
    """A slave acts for a master that is killed and comes back."""
    name_server = Vostok(directory / "namesrv", {"supportActingMaster": "true", "notifyMinBrokerIdChanged": "true"}, roles="namesrv")
    namesrv = name_server.namesrv
    # A Java master waits for a connection for the log from the address that its slave is registered with.
    group = {"enableSlaveActingMaster": "true", "totalReplicas": 2, "brokerIP2": "127.0.0.1"}
    master = broker(kind, version, directory / "master", group, namesrv)
    slave = broker(OTHER[kind], version, directory / "slave", group | SLAVE, namesrv)

    def members():
        body = Client(namesrv).call(MEMBERS, {"clusterName": "DefaultCluster", "brokerName": "broker-a"})[1].decode()
        # The ids are numbers without quotes.
        return sorted(int(number) for number in re.findall(r'[{,]"?(\d+)"?:"', body))

    def commit(server, offset, queue=1):
        return Client(server.broker).commit(queue, offset) == 0 and offset_at(server, queue) == offset

    def follows():
        return ends(slave) == ends(master)

    def both(queue):
        return offset_at(master, queue), offset_at(slave, queue)

    with name_server, master:
        case.eventually("the master is registered", lambda: members() == [0], members)
        with slave:
            case.eventually("the slave is registered", lambda: members() == [0, 1], members)
            client = Client(master.broker)
            for number in range(100):
                client.send(number)
            client.pull(1, 0)
            case.check("an offset is committed at the master", commit(master, 7))
            case.eventually("the slave has the messages", follows, lambda: ends(slave))
            # A Java slave takes the tables once a minute, and no offsets of a group that it does not know.
            case.eventually("the slave has the offset", lambda: offset_at(slave) == 7, lambda: offset_at(slave))
            case.eventually("the slave has the group", lambda: "CG" in tables(slave)[1], lambda: tables(slave))
            master.kill()
            case.eventually("name servers know the slave alone", lambda: members() == [1], members)
            case.eventually("a later offset is committed at the slave", lambda: commit(slave, 9), lambda: offset_at(slave))
            case.eventually("the slave serves messages", lambda: Client(slave.broker).pull(1, 9)[0]["code"] == 0)
            master.start()
            case.eventually("the master is back", lambda: members() == [0, 1], members)
            case.check("it serves with the slave's offset", offset_at(master) == 9, lambda: offset_at(master))
            client = Client(master.broker)
            for number in range(100, 200):
                client.send(number)
            case.eventually("the slave goes on following", follows, lambda: (ends(master), ends(slave)))
            # The slave has taken the table of offsets once more when it has an offset that was committed after the return.
            case.check("an offset is committed at the master that is back", commit(master, 5, 2))
            case.eventually("the slave has that offset", lambda: offset_at(slave, 2) == 5, lambda: both(2))
            case.check("no offset goes back at either", both(1) == (9, 9), lambda: both(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", default="java-master,vostok-master,acting-java-master,acting-vostok-master")
    parser.add_argument("--java", metavar="VERSION[,VERSION]", default="5.5.0,4.9.7", help="versions of Apache RocketMQ")
    parser.add_argument("--keep", action="store_true", help="keep the stores and logs")
    options = parser.parse_args()
    report, cases = Report("ha"), {}
    with scratch(report, options.keep) as directory:
        for name, version in product(options.case.split(","), options.java.split(",")):
            is_acting = name.startswith("acting-")
            if not (is_acting and version < "5"):  # versions before 5 have no acting masters
                kind = name.removeprefix("acting-").removesuffix("-master")
                cases[f"{name} {version}"] = partial(act if is_acting else replicate, kind, version, directory / f"{name}-{version}")
        side_by_side(report, cases)
    report.close()


if __name__ == "__main__":
    main()
