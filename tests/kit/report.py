"""Counting of checks, and the closing line that tests/run.py reads."""
import contextlib
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

from tests.kit.downloads import Unavailable
from tests.kit.paths import WORK


class Report:
    """Prints a line for each check and ends with `NAME: N passed, N failed, N skipped`."""

    def __init__(self, name):
        self.name, self.passed, self.failed, self.skipped = name, 0, 0, 0
        self.lock, self.began = threading.Lock(), time.monotonic()

    def check(self, title, is_good, found=""):
        """Counts a check and returns whether it holds. `found` is printed if it does not."""
        self._line("ok" if is_good else "FAIL", title, "" if is_good else f": {found}")
        return bool(is_good)

    def skip(self, title, reason):
        """Counts a check that this machine cannot run, and says why."""
        self._line("SKIP", title, f": {reason}")

    def _line(self, outcome, title, text):
        with self.lock:
            self.passed += outcome == "ok"
            self.failed += outcome == "FAIL"
            self.skipped += outcome == "SKIP"
            print(f"{outcome:<4} {title}{text} [{time.monotonic() - self.began:.1f} s]", flush=True)

    def close(self):
        """Prints the closing line and ends the program: code 0 if something passed or was skipped and nothing failed."""
        print(f"{self.name}: {self.passed} passed, {self.failed} failed, {self.skipped} skipped", flush=True)
        sys.exit(0 if self.failed == 0 and self.passed + self.skipped > 0 else 1)


@contextlib.contextmanager
def scratch(report, keep=False):
    """Yields a new directory below WORK, which is removed unless a check failed or `keep` is set.

    `Unavailable` in the block counts as a skipped check, and every other exception as a failed one.
    """
    WORK.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix=f"{report.name}-", dir=WORK))
    try:
        yield directory
    except Unavailable as reason:
        report.skip("what needs a client that cannot be built here", reason)
    except Exception as failure:  # the closing line still has to be printed
        report.check("runs to its end", False, f"{type(failure).__name__}: {failure}")
    if keep or report.failed:
        print(f"logs are in {directory}", flush=True)
    else:
        shutil.rmtree(directory, ignore_errors=True)
