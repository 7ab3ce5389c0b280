"""Checks that wait for an outcome, and cases that run side by side."""
from concurrent.futures import ThreadPoolExecutor

from tests.kit.downloads import Unavailable
from tests.kit.waiting import FAILURES, eventually


class Case:
    """Checks of one case of a report. The name of the case comes before each title."""

    def __init__(self, report, name=""):
        self.report, self.name, self.prefix = report, name, f"{name}: " if name else ""

    def check(self, title, is_good, found=""):
        """Counts a check. `found` is printed if the check fails; a function is called only then."""
        if not is_good and callable(found):
            try:
                found = found()
            except FAILURES as failure:
                found = repr(failure)
        return self.report.check(self.prefix + title, is_good, found)

    def eventually(self, title, ask, found=""):
        """Waits until `ask` returns a true value, counts that as a check and returns the value."""
        value = eventually(ask, refused=FAILURES)
        self.check(title, value, found)
        return value


def side_by_side(report, cases):
    """Runs functions at the same time, each with a `Case` as its argument. `cases` has them by name; a failure ends its case alone."""
    def perform(name):
        case = Case(report, name)
        try:
            cases[name](case)
        except Unavailable as reason:
            report.skip(name, reason)
        except Exception as failure:  # the other cases go on
            case.check("runs to its end", False, f"{type(failure).__name__}: {failure}")

    with ThreadPoolExecutor(max(1, len(cases))) as pool:
        list(pool.map(perform, cases))
