"""The servers that are measured; each is started fresh on its own ports and directory."""
import os
import shutil
import signal
import subprocess
from pathlib import Path

from bench import children
from tests.kit import ports
from tests.kit import servers as kit
from tests.kit.paths import TARGET


HERE = Path(__file__).resolve().parent
VOSTOK = Path(os.environ.get("VOSTOK", TARGET / "release" / "vostok"))
# Settings of the collector in RocketMQ's own runbroker.sh; only the size of the heap is an option of the benchmarks.
COLLECTOR = ["-XX:-UsePerfData", "-XX:+UseG1GC", "-XX:G1HeapRegionSize=16m", "-XX:G1ReservePercent=25", "-XX:InitiatingHeapOccupancyPercent=30",
             "-XX:SoftRefLRUPolicyMSPerMB=0", "-XX:-OmitStackTraceInFastThrow", "-XX:-UseLargePages"]
NAMES = {"brokerClusterName": "DefaultCluster", "brokerName": "broker-a", "brokerIP1": "127.0.0.1"}


def java(work, heap="4g", cpus="", sync=False, conf=(), **options):
    """A broker of Apache RocketMQ with a name server (tests.kit.servers.Java), with RocketMQ's own defaults. `conf` are lines KEY=VALUE."""
    settings = dict(line.split("=", 1) for line in conf) | ({"flushDiskType": "SYNC_FLUSH"} if sync else {})
    flags = [*COLLECTOR, *(["-XX:+AlwaysPreTouch"] if heap == "4g" else [])]
    return kit.Java(work, settings, base=NAMES, heap=heap, flags=flags, prefix=["taskset", "-c", cpus] if cpus else [], **options)


class Server:
    # A fast server fills the disk, so its data is thrown away after every cell; Java keeps running to stay warm.
    fresh_per_cell = True

    def __init__(self, work, cpus, sync=False):
        self.work, self.cpus, self.sync = work, cpus, sync
        self.process = None

    def start(self):
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        self.namesrv_port, self.broker_port = ports.free_ports()
        self.launch()

    def spawn(self, arguments, ports):
        pin = ["taskset", "-c", self.cpus] if self.cpus else []
        log = self.work / "server.log"
        with open(log, "wb") as file:
            self.process = children.start([*pin, *arguments], stdout=file, stderr=file, stdin=subprocess.DEVNULL)
        self.pid = self.process.pid  # taskset becomes the server
        children.await_ports(self.process, ports, log)

    def stop(self):
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None
        shutil.rmtree(self.work, ignore_errors=True)


class Vostok(Server):
    name = "vostok"

    def launch(self):
        conf = []
        if self.sync:
            file = self.work / "broker.conf"
            file.write_text("flushDiskType=SYNC_FLUSH\n")
            conf = ["-c", file]
        self.spawn([VOSTOK, "serve", "--data", self.work / "data", "--namesrv-port", str(self.namesrv_port),
                    "--broker-port", str(self.broker_port), *conf], [self.namesrv_port, self.broker_port])


class Echo(Server):
    name = "echo"

    def launch(self):
        self.spawn([VOSTOK, "lab", "echo", "--port", str(self.namesrv_port)], [self.namesrv_port])


class GrpcEcho(Server):
    """The limit of gRPC: its port is that of the broker."""
    name = "echo"

    def launch(self):
        self.grpc = ["--grpc-port", str(self.broker_port)]
        self.spawn([VOSTOK, "lab", "echo", "--port", str(self.namesrv_port), *self.grpc], [self.namesrv_port, self.broker_port])


class LoggingEcho(Server):
    name = "log-echo"

    def launch(self):
        self.spawn([VOSTOK, "lab", "echo", "--port", str(self.namesrv_port), "--log", self.work / "log"], [self.namesrv_port])


class Java(Server):
    name = "java"
    fresh_per_cell = False

    def launch(self):
        self.java = java(self.work, cpus=self.cpus, sync=self.sync).start()
        self.namesrv_port, self.broker_port, self.pid = self.java.namesrv_port, self.java.broker_port, self.java.pid

    def stop(self):
        if self.work.exists():  # a clean stop takes 15 s, and no data is kept
            self.java.kill()
        shutil.rmtree(self.work, ignore_errors=True)
