"""A server process: start, ready, pause, stop and kill."""
import contextlib
import os
import signal
import subprocess
from pathlib import Path

from tests.kit import ports
from tests.kit.waiting import PATIENCE_SECONDS, eventually


class Process:
    """A process with a directory and a log. It is ready when `ready` says so and all of `ports` accept connections."""

    def __init__(self, name, directory, command, listens=(), environment=None):
        self.name, self.directory, self.command, self.ports = name, Path(directory), [str(word) for word in command], list(listens)
        self.environment, self.process = environment, None
        self.directory.mkdir(parents=True, exist_ok=True)
        self.log = self.directory / f"{name}.log"

    @property
    def pid(self):
        return self.process.pid

    def launch(self):
        """Starts the process without waiting for it. Its output is appended to the log."""
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.directory,
                                            env=None if self.environment is None else os.environ | self.environment)
        return self

    def await_ready(self, ready=lambda: True):
        """Waits until the process serves; raises with the end of its log if it ends first or never does."""
        serves = eventually(lambda: self.process.poll() is not None or all(map(ports.listening, self.ports)) and ready())
        if self.process.poll() is not None or not serves:
            code = self.process.poll()
            raise RuntimeError(f"{self.name} does not serve on {self.ports} (exit code {code}):\n{self.text()[-3000:]}")
        return self

    def start(self):
        return self.launch().await_ready()

    def stop(self, clean=True):
        """Ends the process with SIGTERM and returns its exit code; raises if that is not 0. Does nothing if it does not run."""
        self._end(signal.SIGTERM)
        code, self.process = (self.process.returncode if self.process else 0), None
        if clean and code not in (0, 143):
            raise RuntimeError(f"{self.name} ended with code {code}:\n{self.text()[-2000:]}")
        return code

    def kill(self):
        """Ends the process with SIGKILL and waits until it has no thread left."""
        self._end(signal.SIGKILL)
        self.process = None

    def _end(self, number):
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(number)
        try:
            self.process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise RuntimeError(f"{self.name} did not end within {PATIENCE_SECONDS} s of signal {number}") from None

    def pause(self):
        """Stops the process with SIGSTOP and waits until every thread of it stands still."""
        os.kill(self.pid, signal.SIGSTOP)
        eventually(lambda: all(state in "TZX" for state in thread_states(self.pid)))

    def resume(self):
        os.kill(self.pid, signal.SIGCONT)

    def runs(self):
        return self.process is not None and self.process.poll() is None

    def text(self):
        """Everything that the process printed."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.kill()
            raise

    def __exit__(self, *_):
        self.kill()


def is_running(pid):
    """Whether a process has a thread left. A zombie may have one, and holds its locks until then."""
    return any(state not in "ZX" for state in thread_states(pid))


def thread_states(pid):
    """A letter for each thread of a process (`T`: stopped, `Z` and `X`: ended); empty if the process is gone."""
    states = []
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):  # the thread has ended meanwhile
                states.append((thread / "stat").read_text().rpartition(")")[2].split()[0])
    return states
