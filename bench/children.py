"""Programs that end with the benchmark that started them, however it ends.

A signal becomes an exception, so that every `finally` and `with` of a benchmark runs: Java's servers are no children and are
stopped there. What is still running then ends with this process, because the kernel was asked to see to that.
"""
import ctypes
import os
import signal
import subprocess
import time

from tests.kit import ports

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)


def ended(number, _):
    # A second signal must not stop the first one's cleaning up.
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, signal.SIG_IGN)
    raise SystemExit(128 + number)


def watch_signals():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, ended)


def with_parent():
    """What the child does before it becomes another program: it ends with its parent."""
    parent = os.getpid()

    def bind():
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        # There is no signal when the parent ended before that.
        if os.getppid() != parent:
            os._exit(1)

    return bind


def start(arguments, **options):
    return subprocess.Popen(arguments, preexec_fn=with_parent(), **options)


def run(arguments, **options):
    return subprocess.run(arguments, preexec_fn=with_parent(), **options)


def await_ports(process, numbers, log, seconds=600):
    """Waits until every port answers; raises with the end of the log if the process ends first or time is up."""
    end = time.monotonic() + seconds
    while not all(map(ports.listening, numbers)):
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"no answer on ports {numbers} (exit code {process.poll()}):\n{log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.01)
