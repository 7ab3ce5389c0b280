"""A broker of either kind on one store directory, with the small files that make every boundary happen."""
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "bench"))
import local  # noqa: E402 (beside bench/run)

JAVA_BROKER = HERE.parent / "bench" / "java-broker"
VOSTOK = Path(os.environ.get("VOSTOK", HERE.parent / "target" / "release" / "vostok"))
READY_SECONDS = 240  # four Java brokers start at once on two cores

# Both brokers get these. Several files of every kind; what is not on disk at once is there half a second later, so
# that a kill costs no more; the checker of transactions does not touch half messages.
SETTINGS = {
    "mappedFileSizeCommitLog": 524_288, "mappedFileSizeConsumeQueue": 400, "mapperFileSizeBatchConsumeQueue": 460, "maxHashSlotNum": 200, "maxIndexNum": 400,
    "mappedFileSizeTimerLog": 1_070, "messageDelayLevel": "1s 2s 10s 30s 45s 100s 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
    "flushConsumerOffsetInterval": 500, "flushDelayOffsetInterval": 500, "transactionTimeOut": 86_400_000,
    "recallMessageEnable": "true", "waitTimeMillsInSendQueue": 20_000, "osPageCacheBusyTimeOutMills": 20_000,
    "waitTimeMillsInPullQueue": 20_000, "waitTimeMillsInTransactionQueue": 20_000, "waitTimeMillsInAdminBrokerQueue": 20_000,
}


class Running:
    """Where a broker listens, since when it serves, and how it ended."""

    def __init__(self, directory, ports, number):
        self.directory, self.number = directory, number
        self.namesrv_port, self.broker_port = ports
        self.store = directory / "store"
        self.namesrv, self.broker = (f"127.0.0.1:{port}" for port in ports)

    def __enter__(self):
        self.launch()
        self.since_ms = time.time() * 1000
        self.until_ms = None
        return self

    def __exit__(self, kind, *_):
        if self.until_ms is None:
            self.end(crash=True)

    def end(self, crash):
        self.until_ms = time.time() * 1000
        self.halt(crash)


class Vostok(Running):
    name = "vostok"

    def arguments(self):
        own = {"brokerClusterName": "DefaultCluster", "brokerName": "broker-a", "brokerIP1": "127.0.0.1"}
        conf = self.directory / f"vostok-{self.number}.conf"
        conf.write_text("".join(f"{key}={value}\n" for key, value in (own | SETTINGS).items()))
        return [VOSTOK, "serve", "--data", self.store, "--namesrv-port", str(self.namesrv_port),
                "--broker-port", str(self.broker_port), "-c", conf]

    def launch(self):
        self.log = self.directory / f"vostok-{self.number}.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(self.arguments(), stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        local.await_ports(self.process, [self.namesrv_port, self.broker_port], READY_SECONDS, self.log)
        local.await_route(self.namesrv_port, "TBW102", READY_SECONDS)

    def halt(self, crash):
        self.process.send_signal(signal.SIGKILL if crash else signal.SIGTERM)
        try:
            code = self.process.wait(90)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise RuntimeError("vostok did not end within 90 s of SIGTERM") from None
        if not crash and code != 0:
            raise RuntimeError(f"vostok ended with code {code}; see {self.log}")

    def text(self):
        return self.log.read_text(errors="replace")


class Java(Running):
    name = "java"

    def arguments(self):
        conf = [word for key, value in SETTINGS.items() for word in ("--conf", f"{key}={value}")]
        return [JAVA_BROKER, "start", "--dir", self.directory, "--namesrv-port", str(self.namesrv_port),
                "--broker-port", str(self.broker_port), "--heap", "512m", *conf]

    def launch(self):
        shutil.rmtree(self.directory / "logs", ignore_errors=True)
        subprocess.run(self.arguments(), check=True, stdout=subprocess.DEVNULL, env=os.environ | {"JAVA_BROKER_LOG": "INFO"})
        local.await_route(self.namesrv_port, "TBW102", READY_SECONDS)

    def halt(self, crash):
        subprocess.run([JAVA_BROKER, "stop", "--dir", self.directory, *(["--kill"] if crash else [])], check=True)
        kept = self.directory / f"java-{self.number}.log"
        shutil.copy(self.directory / "logs" / "broker.log", kept)

    def text(self):
        return (self.directory / "logs" / "broker.log").read_text(errors="replace")


KINDS = {"vostok": Vostok, "java": Java}


def refuses_second(first, kind):
    """Starts a broker of the other kind on the directory of one that runs; returns why that is wrong, or None."""
    directory = first.directory / f"second-{kind}"
    directory.mkdir()
    (directory / "store").symlink_to(first.store)
    second = KINDS[kind](directory, local.free_ports(), 0)
    done = subprocess.run(second.arguments(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=READY_SECONDS)
    subprocess.run([JAVA_BROKER, "stop", "--dir", directory, "--kill"], check=False)  # its name server
    said = done.stdout + "".join(file.read_text(errors="replace") for file in (directory / "logs").glob("broker.*"))
    if done.returncode == 0:
        return f"{kind} started on a store that {first.name} has open"
    return None if re.search("lock failed|in use", said, re.I) else f"{kind} did not say that the store is locked: {said[-300:]}"
