"""The servers that are measured; each is started fresh on its own ports and directory."""
import os
import shutil
import signal
import subprocess
from pathlib import Path

import children
import local

HERE = Path(__file__).resolve().parent
VOSTOK = Path(os.environ.get("VOSTOK", HERE.parent / "target" / "release" / "vostok"))


class Server:
    # A fast server fills the disk, so its data is thrown away after every cell; Java keeps running to stay warm.
    fresh_per_cell = True

    def __init__(self, work, cpus, sync=False):
        self.work, self.cpus, self.sync = work, cpus, sync
        self.process = None

    def start(self):
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        self.namesrv_port, self.broker_port = local.free_ports()
        self.launch()

    def spawn(self, arguments, ports):
        pin = ["taskset", "-c", self.cpus] if self.cpus else []
        log = self.work / "server.log"
        with open(log, "wb") as file:
            self.process = children.start([*pin, *arguments], stdout=file, stderr=file, stdin=subprocess.DEVNULL)
        self.pid = self.process.pid  # taskset becomes the server
        local.await_ports(self.process, ports, 20, log)

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
        arguments = [HERE / "java-broker", "start", "--dir", self.work, "--namesrv-port", str(self.namesrv_port),
                     "--broker-port", str(self.broker_port)]
        arguments += ["--cpus", self.cpus] if self.cpus else []
        arguments += ["--sync"] if self.sync else []
        printed = subprocess.run(arguments, check=True, stdout=subprocess.PIPE, text=True).stdout
        self.pid = int(dict(line.split() for line in printed.splitlines())["broker"])

    def stop(self):
        if self.work.exists():  # its clean stop takes 15 s and nothing of it is kept
            subprocess.run([HERE / "java-broker", "stop", "--dir", self.work, "--kill"], check=False)
        shutil.rmtree(self.work, ignore_errors=True)
