"""Ports on this machine, and whether a name server there knows a broker."""
import contextlib
import json
import random
import socket
import struct
import threading
import time


def listening(port):
    with socket.socket() as probe:
        probe.settimeout(0.2)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def await_ports(process, ports, seconds, log):
    """Waits until every port answers; raises with the end of the log if the process ends first or time is up."""
    end = time.monotonic() + seconds
    while not all(listening(port) for port in ports):
        if process.poll() is not None or time.monotonic() > end:
            tail = log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"no answer on ports {ports} (exit code {process.poll()}):\n{tail}")
        time.sleep(0.01)


# Ports that this process was given. Its threads start servers on them later, so that they still look free meanwhile.
GIVEN = set()
GIVING = threading.Lock()


def free_ports():
    """A port for the name server, and one for the broker whose neighbours (-2, +1) are free too. They lie below those that
    connections get, so that they stay free while a broker is down. No port is given twice."""
    with GIVING:
        while True:
            namesrv, broker = random.sample(range(10_000, 32_000), 2)
            ports = {namesrv, broker, broker - 2, broker + 1}
            if not ports & GIVEN and all_free(ports):
                GIVEN.update(ports)
                return namesrv, broker


def all_free(ports):
    with contextlib.ExitStack() as sockets:
        try:
            for port in ports:
                sockets.enter_context(socket.socket()).bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def routed(port, topic):
    """Asks a name server for a topic's route (code 105) and tells whether it has one."""
    header = json.dumps({"code": 105, "language": "OTHER", "version": 0, "opaque": 1, "flag": 0, "extFields": {"topic": topic}}).encode()
    try:
        with socket.create_connection(("127.0.0.1", port), 3) as connection:
            connection.sendall(struct.pack(">ii", 4 + len(header), len(header)) + header)
            answer = connection.makefile("rb")
            _, length = struct.unpack(">ii", answer.read(8))
            return json.loads(answer.read(length))["code"] == 0
    except (OSError, struct.error):
        return False


def await_route(port, topic, seconds):
    end = time.monotonic() + seconds
    while not routed(port, topic):
        if time.monotonic() > end:
            raise RuntimeError(f"the name server on port {port} has no route of {topic} after {seconds} s")
        time.sleep(0.1)
