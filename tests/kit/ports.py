"""Free ports of this machine, reserved among all test programs that run at the same time.

Ports come from blocks that a process locks; tests/common/server.rs takes the same locks. The blocks lie below the range that the
kernel gives to outgoing connections, so that a port stays free while its server is down.
"""
import contextlib
import fcntl
import os
import random
import socket
import tempfile
import threading

PORTS_FROM, BLOCKS, PORTS_OF_BLOCK = 11_000, 40, 500
_locks, _unused = [], []
_giving = threading.Lock()


def free_run(count):
    """Returns `count` free ports in a row. No port is returned twice."""
    with _giving:
        while True:
            if len(_unused) < count:
                _unused[:] = _locked_block()
            run, _unused[:count] = _unused[:count], []
            if _all_free(run):
                return run


def free_ports():
    """Returns a port for a name server and a port for a broker whose neighbours (-2 and +1) are free too."""
    namesrv, _, _, broker, _ = free_run(5)
    return namesrv, broker


def free_port():
    """Returns one free port."""
    return free_run(1)[0]


def listening(port):
    """Whether a connection to the port is accepted."""
    with socket.socket() as probe:
        probe.settimeout(2)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _locked_block():
    """Locks a block that no other process holds and returns its ports."""
    for number in random.sample(range(BLOCKS), BLOCKS):
        with contextlib.suppress(OSError):
            lock = _opened(os.path.join(tempfile.gettempdir(), f"vostok-test-ports-{number}"))
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(lock)
                raise
            _locks.append(lock)
            first = PORTS_FROM + number * PORTS_OF_BLOCK
            return list(range(first, first + PORTS_OF_BLOCK))
    raise RuntimeError(f"all {BLOCKS} blocks of ports from {PORTS_FROM} on are locked by other test programs, or their files cannot be opened")


def _opened(path):
    """Opens a lock file, and creates the file if it is missing.

    With `fs.protected_regular`, O_CREAT fails for a file of another user in a sticky directory such as /tmp. A lock needs no right to write.
    """
    try:
        return os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):
            return os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL, 0o644)
        return os.open(path, os.O_RDONLY)


def _all_free(ports):
    with contextlib.ExitStack() as sockets:
        try:
            for port in ports:
                sockets.enter_context(socket.socket()).bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
