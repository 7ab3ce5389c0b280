"""A master and its slaves on this machine, of either kind of server."""
import os
import signal
import subprocess

from bench import children, servers, stage
from tests.kit import ports


ROLES = {"async": "ASYNC_MASTER", "sync": "SYNC_MASTER"}
NAMES = ["brokerClusterName=DefaultCluster", "brokerName=broker-a", "brokerIP1=127.0.0.1", "brokerIP2=127.0.0.1"]


class Slave:
    """A slave of a running master, with a directory inside that of the master."""

    def __init__(self, master, number):
        self.master, self.number, self.process = master, number, None
        self.work = master.work / f"slave-{number}"
        self.work.mkdir()
        _, self.broker_port = ports.free_ports()

    def start(self, nice=0):
        conf = [*NAMES, f"brokerId={self.number}", "brokerRole=SLAVE", f"haListenPort={self.broker_port + 1}",
                *(["flushDiskType=SYNC_FLUSH"] if self.master.sync else []), *self.master.given]
        namesrv = self.master.namesrv_port
        if self.master.name == "java":
            self.java = servers.java(self.work, self.master.heap, conf=conf, only="broker", namesrv=f"127.0.0.1:{namesrv}", broker_port=self.broker_port)
            self.pid = self.java.start().pid
            os.setpriority(os.PRIO_PROCESS, self.pid, nice)
            return
        file, log = self.work / "broker.conf", self.work / "server.log"
        file.write_text("\n".join([*conf, f"namesrvAddr=127.0.0.1:{namesrv}"]) + "\n")
        with open(log, "wb") as out:
            self.process = children.start(["nice", "-n", str(nice), servers.VOSTOK, "serve", "--roles", "broker", "--data", self.work / "data", "--broker-port",
                                           str(self.broker_port), "-c", file], stdout=out, stderr=out, stdin=subprocess.DEVNULL)
        self.pid = self.process.pid
        children.await_ports(self.process, [self.broker_port], log)

    def end(self):
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        elif self.master.name == "java":
            self.java.kill()


class Group(stage.Kept):
    """A master with so many slaves."""

    def __init__(self, name, chosen, replication, sync, count):
        given = list(chosen.conf)
        super().__init__(name, chosen, sync, [*NAMES, f"brokerRole={ROLES[replication]}", *(["inSyncReplicas=2", "totalReplicas=2"] if replication == "sync" else [])])
        self.given, self.slaves = given, []
        if name == "vostok":
            self.conf = [*self.conf, f"haListenPort={self.broker_port + 1}"]
        self.count = count

    def start(self):
        super().start()
        for number in range(1, self.count + 1):
            self.slaves.append(Slave(self, number))
            self.slaves[-1].start()
        self.await_first(90)

    def await_first(self, seconds):
        """Sends until a message, which makes the topic, is acknowledged and has reached every slave."""
        end = stage.CLOCK() + seconds
        while not (stage.send(self.broker_port, "bench") and stage.log_end(self) > 0):
            if stage.CLOCK() > end:
                raise RuntimeError(f"{self.name}: nothing is acknowledged after {seconds} s")
        self.await_slaves(seconds)

    def await_slaves(self, seconds):
        """Seconds until every slave has all that the master has; raises when that takes longer than `seconds`."""
        began, end = stage.CLOCK(), stage.log_end(self)
        while any(stage.log_end(slave) < end for slave in self.slaves):
            if stage.CLOCK() - began > seconds:
                raise RuntimeError(f"{self.name}: the slaves are not where their master is ({end}) after {seconds} s: {[stage.log_end(one) for one in self.slaves]}")
        return stage.CLOCK() - began

    def remove(self):
        for slave in self.slaves:
            slave.end()
        super().remove()
