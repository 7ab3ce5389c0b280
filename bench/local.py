"""Ports on this machine, and whether a name server there knows a broker."""
import contextlib
import fcntl
import json
import os
import random
import socket
import struct
import tempfile
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


# Ports are taken from blocks that this process has locked; tests/common/server.rs has the same ones. They lie below the ports that
# connections get. So nobody else takes a port before a server of ours listens there, or while it is down.
PORTS_FROM, BLOCKS, PORTS_OF_BLOCK = 11_000, 40, 500
LOCKS, UNUSED = [], []
GIVING = threading.Lock()


def locked_block():
    """The ports of a block that no other process of the tests has."""
    for number in random.sample(range(BLOCKS), BLOCKS):
        with contextlib.suppress(OSError):
            lock = os.open(os.path.join(tempfile.gettempdir(), f"vostok-test-ports-{number}"), os.O_RDONLY | os.O_CREAT, 0o644)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(lock)
                raise
            LOCKS.append(lock)
            first = PORTS_FROM + number * PORTS_OF_BLOCK
            return list(range(first, first + PORTS_OF_BLOCK))
    raise RuntimeError(f"all {BLOCKS} blocks of ports from {PORTS_FROM} on are locked by other test programs, or their files cannot be opened")


def free_run(count):
    """Free ports in a row. No port is given twice."""
    with GIVING:
        while True:
            if len(UNUSED) < count:
                UNUSED[:] = locked_block()
            run, UNUSED[:count] = UNUSED[:count], []
            if all_free(run):
                return run


def free_ports():
    """A port for the name server, and one for the broker whose neighbours (-2, +1) are free too."""
    namesrv, _, _, broker, _ = free_run(5)
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
