"""A cluster of `vostok serve --cluster`, whose brokers can be killed and started again."""
import contextlib
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

from cluster_load import Watched
from store_brokers import VOSTOK, local


class Cluster(Watched):
    """`vostok serve --cluster KIND` and what was started by hand beside it."""

    def __init__(self, directory, kind="1m2s"):
        self.data, self.by_hand = directory / "data", {}
        self.namesrv, self.controller, broker = ports()
        conf = directory / "given.conf"
        # Other programs may fill the disk meanwhile; nothing may be deleted for that.
        conf.write_text("mappedFileSizeCommitLog=4194304\nslaveReadEnable=true\ndiskMaxUsedSpaceRatio=95\n")
        self.errors = directory / "errors.log"
        with open(self.errors, "wb") as errors:
            self.parent = subprocess.Popen(
                [VOSTOK, "serve", "--cluster", kind, "--data", self.data, "--namesrv-port", str(self.namesrv), "--broker-port", str(broker),
                 "--controller-port", str(self.controller), "-c", conf], stdout=subprocess.PIPE, stderr=errors, stdin=subprocess.DEVNULL, text=True)
        self.members, self.said = {}, []
        for line in self.parent.stdout:
            words = line.split()
            if words[0] == "Clients:":
                break
            if words[0].startswith("broker-"):
                self.members[words[2]] = [words[0], int(words[3])]
        else:
            raise RuntimeError(f"the cluster does not start: {self.errors.read_text()[-2000:]}")
        threading.Thread(target=lambda: self.said.extend(self.parent.stdout), daemon=True).start()

    def signal(self, address, number):
        os.kill(self.members[address][1], number)

    def kill(self, address):
        """Kills a broker and waits until it is gone."""
        self.signal(address, signal.SIGKILL)
        if address in self.by_hand:
            self.by_hand.pop(address).wait()
        while is_running(self.members[address][1]):
            time.sleep(0.002)

    def restart(self, address):
        """Starts a broker as the parent says that it is done."""
        name = self.members[address][0]
        with open(self.data / f"{name}.log", "ab") as log:
            process = subprocess.Popen([VOSTOK, "serve", "--roles", "broker", "--data", self.data / name, "-c", self.data / f"{name}.conf"],
                                       stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self.by_hand[address], self.members[address][1] = process, process.pid

    def stop(self):
        """Stops all of it cleanly; the exit codes."""
        everything = [*self.by_hand.values(), self.parent]
        for process in everything:
            process.terminate()
        try:
            return [process.wait(90) for process in everything]
        except subprocess.TimeoutExpired:
            return [process.kill() for process in everything]


def is_running(process):
    """Whether a process has a thread left: until then it may hold its locks, also when it is a zombie."""
    return any(state not in "ZX" for state in thread_states(process))


def thread_states(process):
    """A letter for each thread of a process (`T`: stopped, `Z` and `X`: ended); none when the process is gone."""
    try:
        threads = list(Path(f"/proc/{process}/task").iterdir())
    except OSError:
        return []
    states = []
    for thread in threads:
        with contextlib.suppress(OSError):  # it has ended meanwhile
            states.append((thread / "stat").read_text().rpartition(")")[2].split()[0])
    return states


def ports():
    """Free ports of a name server, a controller, and the first of the brokers, which are ten apart."""
    namesrv, controller, _, _, broker, *_ = local.free_run(36)
    return namesrv, controller, broker
