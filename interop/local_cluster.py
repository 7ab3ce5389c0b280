"""A cluster of `vostok serve --cluster`, whose brokers can be killed and started again."""
import os
import signal

from interop.cluster_load import Watched
from tests.kit import ports
from tests.kit.paths import VOSTOK
from tests.kit.process import Process, is_running
from tests.kit.servers import properties
from tests.kit.waiting import eventually


class Cluster(Watched):
    """`vostok serve --cluster KIND` and the brokers that were started by hand beside it."""

    def __init__(self, directory, kind="1m2s", conf=None):
        # `killed` has name and process id of each killed broker that the parent had started.
        self.data, self.by_hand, self.killed = directory / "data", {}, []
        # The ports of the brokers are ten apart.
        self.namesrv, self.controller, _, _, broker, *_ = ports.free_run(36)
        # Other programs may fill the disk meanwhile; nothing may be deleted for that.
        conf = properties(directory / "given.conf", {"mappedFileSizeCommitLog": 4_194_304, "slaveReadEnable": "true", "diskMaxUsedSpaceRatio": 95,
                                                      **(conf or {})})
        self.parent = Process("parent", directory, [VOSTOK, "serve", "--cluster", kind, "--data", self.data, "--namesrv-port", self.namesrv,
                                                    "--broker-port", broker, "--controller-port", self.controller, "-c", conf])
        try:
            self.parent.launch().await_ready(lambda: "\nClients:" in self.parent.text())
        except BaseException:
            # The parent stops its brokers.
            self.parent.stop(clean=False)
            raise
        table = [line.split() for line in self.parent.text().partition("\nClients:")[0].splitlines() if line.startswith("broker-")]
        self.members = {address: [name, int(pid)] for name, _, address, pid, *_ in table}

    @property
    def processes(self):
        return [*self.by_hand.values(), self.parent]

    def signal(self, address, number):
        os.kill(self.members[address][1], number)

    def kill(self, address):
        """Kills a broker and waits until it is gone."""
        if address in self.by_hand:
            self.by_hand.pop(address).kill()
        else:
            self.killed.append(tuple(self.members[address]))
            self.signal(address, signal.SIGKILL)
            eventually(lambda: not is_running(self.members[address][1]))

    def restart(self, address):
        """Starts a broker with the command that the parent prints."""
        name = self.members[address][0]
        command = [VOSTOK, "serve", "--roles", "broker", "--data", self.data / name, "-c", self.data / f"{name}.conf"]
        self.by_hand[address] = Process(f"{name}-by-hand", self.data, command).launch()
        self.members[address][1] = self.by_hand[address].pid

    def said(self):
        """Lines that the parent printed after the start."""
        return self.parent.text().partition("\nClients:")[2].splitlines()
