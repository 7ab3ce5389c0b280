"""Servers under test: Vostok, and Apache RocketMQ from Maven Central, with the same methods."""
import json
import os
import shutil
import socket
import struct

from tests.kit import downloads, ports
from tests.kit.paths import VOSTOK
from tests.kit.process import Process
from tests.kit.waiting import eventually

VERSION = "5.5.0"
# Settings of every broker, unless a test gives its own. The disk of the machine may be filled by other programs meanwhile.
BROKER = {"brokerClusterName": "DefaultCluster", "brokerName": "broker-a", "brokerIP1": "127.0.0.1", "diskMaxUsedSpaceRatio": 95}
# Java refuses requests that waited for 200 ms and sends that wait for memory, which both happen on a busy machine.
PATIENT = {"waitTimeMillsInSendQueue": 120_000, "waitTimeMillsInPullQueue": 120_000, "waitTimeMillsInTransactionQueue": 120_000,
           "waitTimeMillsInAdminBrokerQueue": 120_000, "osPageCacheBusyTimeOutMills": 120_000}
# Files so small that every kind of boundary is crossed. Positions are on disk soon, so that a kill costs nothing. The checker of
# transactions does not touch half messages.
SMALL_FILES = PATIENT | {
    "mappedFileSizeCommitLog": 524_288, "mappedFileSizeConsumeQueue": 400, "mapperFileSizeBatchConsumeQueue": 460, "maxHashSlotNum": 200, "maxIndexNum": 400,
    "mappedFileSizeTimerLog": 1_070, "messageDelayLevel": "1s 2s 10s 30s 45s 100s 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
    "flushConsumerOffsetInterval": 500, "flushDelayOffsetInterval": 500, "transactionTimeOut": 86_400_000, "recallMessageEnable": "true"}
OPENS = [*(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.lang", "java.nio", "sun.nio.ch")),
         "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED"]
# A JVM of a test lives for seconds: the compiler that takes less time is enough.
SHORT_LIVED = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData"]


def properties(file, settings):
    """Writes a properties file and returns its path."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return file


class Vostok(Process):
    """`vostok serve` with its data in `directory`/store.

    Without `roles` the process is name server and broker. `namesrv` (`host:port`) is the name server of a process that has none.
    `conf` are the lines of broker.conf. `arguments` are further arguments, with `listens` as their ports.
    """
    kind = "vostok"

    def __init__(self, directory, conf=None, roles="namesrv,broker", namesrv=None, arguments=(), listens=(), name="vostok", environment=None,
                 program=VOSTOK):
        self.namesrv_port, self.broker_port = ports.free_ports()
        has_namesrv, has_broker = "namesrv" in roles, "broker" in roles
        self.namesrv, self.broker = namesrv or f"127.0.0.1:{self.namesrv_port}", f"127.0.0.1:{self.broker_port}"
        self.store, self.is_routed = directory / "store", has_broker and (has_namesrv or namesrv is not None)
        self.conf = properties(directory / f"{name}.conf", (BROKER if has_broker else {}) | (conf or {}))
        command = [program, "serve", "--data", self.store, "--roles", roles, "-c", self.conf]
        command += ["--namesrv-port", self.namesrv_port] if has_namesrv else ["-n", namesrv] if namesrv else []
        command += ["--broker-port", self.broker_port] if has_broker else []
        own = [port for port, is_used in ((self.namesrv_port, has_namesrv), (self.broker_port, has_broker)) if is_used]
        super().__init__(name, directory, [*command, *arguments], [*own, *listens], environment)

    def start(self):
        """Starts the server and waits until its ports answer and, for a broker, until its name server knows it."""
        return self.launch().await_ready(lambda: not self.is_routed or is_routed(self.namesrv))

    def __exit__(self, failure, *_):
        """Stops the server; raises if it ends with an error or has panicked. After an exception, kills it."""
        if failure is not None:
            self.kill()
            return
        self.stop()
        if "panicked at" in self.text():
            raise RuntimeError(f"{self.name} panicked:\n{self.text()[-3000:]}")


class Java:
    """A name server and a broker of Apache RocketMQ, each in a JVM of its own, with their data in `directory`.

    `only` is `namesrv` or `broker` for one of them; a broker alone registers at `namesrv` (`host:port`). With `grpc_port` the broker
    is in the process of RocketMQ's proxy. `namesrv_conf` are lines of namesrv.conf, such as the settings of a controller. `base` are
    settings that `conf` may replace.
    """
    kind = "java"

    def __init__(self, directory, conf=None, namesrv_conf=None, only=None, namesrv=None, namesrv_port=None, broker_port=None, grpc_port=None,
                 version=VERSION, heap="512m", flags=SHORT_LIVED, level="WARN", prefix=(), base=BROKER | PATIENT):
        self.directory, self.only, self.grpc_port, self.version, self.level = directory, only, grpc_port, version, level
        free_namesrv, free_broker = ports.free_ports()
        self.namesrv_port, self.broker_port = namesrv_port or free_namesrv, broker_port or free_broker
        self.namesrv, self.broker = namesrv or f"127.0.0.1:{self.namesrv_port}", f"127.0.0.1:{self.broker_port}"
        self.store, self.log, self.heap, self.flags, self.prefix = directory / "store", directory / "logs" / "broker.log", heap, flags, prefix
        self.settings = base | {
            "brokerId": 0, "namesrvAddr": self.namesrv, "listenPort": self.broker_port, "haListenPort": self.broker_port + 1,
            "storePathRootDir": self.store, "storePathCommitLog": self.store / "commitlog", "autoCreateTopicEnable": "true",
            "autoCreateSubscriptionGroup": "true", "brokerRole": "ASYNC_MASTER", "flushDiskType": "ASYNC_FLUSH"} | (conf or {})
        self.namesrv_settings = {"listenPort": self.namesrv_port, "kvConfigPath": directory / "kvConfig.json",
                                 "configStorePath": directory / "namesrv.properties"} | (namesrv_conf or {})
        self.conf = directory / "conf" / "broker.conf"
        for part in ("conf", "logs", "store", "tmp"):
            (directory / part).mkdir(parents=True, exist_ok=True)
        properties(self.conf, self.settings)
        self.processes = {name: process for name, process in (("namesrv", self._namesrv()), ("broker", self._broker())) if only in (None, name)}

    @property
    def ports(self):
        return [port for process in self.processes.values() for port in process.ports]

    @property
    def pid(self):
        return self.processes["broker"].pid

    def _namesrv(self):
        conf = properties(self.directory / "conf" / "namesrv.conf", self.namesrv_settings)
        return self._jvm("namesrv", ["-Xms256m", "-Xmx256m"], ["org.apache.rocketmq.namesrv.NamesrvStartup", "-c", conf], [self.namesrv_port])

    def _broker(self):
        conf, heap = self.conf, [f"-Xms{self.heap}", f"-Xmx{self.heap}", "-XX:MaxDirectMemorySize=15g"]
        if self.grpc_port is None:
            return self._jvm("broker", heap, ["org.apache.rocketmq.broker.BrokerStartup", "-c", conf], [self.broker_port])
        # The remoting port of the proxy is not called and lies below that of gRPC.
        proxy = self.directory / "conf" / "rmq-proxy.json"
        proxy.write_text(json.dumps({"rocketMQClusterName": "DefaultCluster", "namesrvAddr": self.namesrv, "grpcServerPort": self.grpc_port,
                                     "remotingListenPort": self.grpc_port - 1}))
        words = ["org.apache.rocketmq.proxy.ProxyStartup", "-pm", "local", "-pc", proxy, "-n", self.namesrv, "-bc", conf]
        return self._jvm("broker", heap, words, [self.broker_port, self.grpc_port], "proxy", {"RMQ_PROXY_HOME": str(self.directory)})

    def _jvm(self, name, memory, main, listens, project="server", environment=None):
        jars, directory = downloads.rocketmq(project, self.version), self.directory
        # RocketMQ's own logging writes a dozen files below $HOME/logs. Versions before 5 look for the file in one place only.
        logging = (f'<configuration><appender name="file" class="ch.qos.logback.core.FileAppender"><file>{directory}/logs/{name}.log</file><encoder><pattern>'
                   f'%d{{HH:mm:ss.SSS}} %p %t %logger{{0}} - %m%n</pattern></encoder></appender><root level="{self.level}"><appender-ref ref="file"/>'
                   "</root></configuration>")
        for file in (f"{name}.xml", f"logback_{name}.xml"):
            (directory / "conf" / file).write_text(logging)
        command = [*self.prefix, "java", "-server", *memory, *self.flags, *OPENS, f"-Drmq.logback.configurationFile={directory}/conf/{name}.xml",
                   f"-Duser.home={directory}", f"-Drocketmq.home.dir={directory}", f"-Djava.io.tmpdir={directory}/tmp", "-cp", f"{jars}/*", *main]
        return Process(f"{name}-out", directory, command, listens,
                       {"HOME": str(directory), "ROCKETMQ_HOME": str(directory)} | (environment or {}))

    def launch(self):
        for process in self.processes.values():
            process.launch()
        return self

    def start(self):
        """Starts the JVMs at the same time and waits until they serve and, for a broker, until its name server knows it."""
        self.launch()
        for name, process in self.processes.items():
            process.await_ready(lambda: name == "namesrv" or is_routed(self.namesrv))  # noqa: B023 (called before the loop goes on)
        return self

    def stop(self):
        """Ends broker and name server with SIGTERM."""
        for process in reversed(self.processes.values()):
            process.stop()

    def kill(self):
        for process in reversed(self.processes.values()):
            process.kill()

    def pause(self):
        self.processes["broker"].pause()

    def resume(self):
        self.processes["broker"].resume()

    def runs(self):
        return all(process.runs() for process in self.processes.values())

    def text(self):
        """Log lines of the broker from `level` on."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def clear_log(self):
        shutil.rmtree(self.directory / "logs", ignore_errors=True)
        (self.directory / "logs").mkdir()

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.kill()
            raise

    def __exit__(self, *_):
        self.kill()


def is_routed(namesrv, topic="TBW102"):
    """Whether a name server (`host:port`) has a route of a topic (request 105). Every broker registers TBW102."""
    host, _, port = namesrv.rpartition(":")
    header = json.dumps({"code": 105, "language": "OTHER", "version": 0, "opaque": 1, "flag": 0, "extFields": {"topic": topic}}).encode()
    try:
        with socket.create_connection((host, int(port)), 20) as connection:
            connection.sendall(struct.pack(">ii", 4 + len(header), len(header)) + header)
            answer = connection.makefile("rb")
            _, length = struct.unpack(">ii", answer.read(8))
            return json.loads(answer.read(length))["code"] == 0
    except (OSError, struct.error):
        return False


def await_route(namesrv, topic="TBW102"):
    """Waits until a name server has a route of a topic."""
    if not eventually(lambda: is_routed(namesrv, topic)):
        raise RuntimeError(f"the name server {namesrv} has no route of {topic}")


KINDS = {"vostok": Vostok, "java": Java}


def environment_of(home):
    """Environment of a client program whose files go below `home`."""
    return os.environ | {"HOME": str(home)}
