"""Each case of admin_cases.py with the real mqadmin of Apache RocketMQ 5.5.0 and then with `vostok mqadmin`, against one server.

    python3 -m interop.admin_twin [--against vostok|java] [--only TEXT] [--show] [--keep]

The output of `vostok mqadmin` must hold what the case expects, and be that of the real mqadmin except for times, rates and numbers that
grow. A command that it does not serve is a failure. Prints a line for each case and ends with `admin-twin: N passed, N failed, N skipped`.
"""
import os
import re
import subprocess

from interop import mqadmin
from tests.kit.paths import VOSTOK
from tests.kit.report import Report

# Commands whose second run says something else than the first.
SECOND = {
    "updateTopicPerm": "the second run finds the new permission already",
    "wipeWritePerm": "the second run finds fewer topics to change",
}
# Commands whose text differs for a reason; it must still hold what the case expects.
OTHER = {
    "printMsg": "the twin leaves out storeSize, bodyCRC and the bytes of the body",
    "consumeMessage": "the twin leaves out storeSize, bodyCRC and the bytes of the body",
    "allocateMQ": "the twin shares the queues out in their order, as consumers do; mqadmin in that of a hash table",
    "checkMsgSendRT": "times of sends",
    "clusterRT": "times of sends",
    "printMsgByQueue": "the twin leaves out storeSize, bodyCRC and the bytes of the body",
}
# What differs from moment to moment.
CHANGING = [
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(,\d{3})?", "TIME"),
    (r"\b1[67]\d{11}\b", "MS"),
    (r"\d+\.\d+", "N.N"),
    (r"(runtime *: ).*", r"\1N"),
    (r"(msgGetTotalTodayNow *: ).*", r"\1N"),
    (r"(InSeconds *: *)\d+", r"\1N"),
    (r"(Message Body Path:).*", ""),
    (r"(Message Body:).*", ""),
    (r"\b[0-9A-F]{32,56}\b", "ID"),
    (r"spentTimeMills=\d+", "spentTimeMills=N"),
    (r"rt=\d+ms", "rt=N"),
    (r"\d+ +SEND_OK", "QUEUE SEND_OK"),
    (r"queueId=\d+\], queueOffset=\d+", "PLACE"),
    (r"\b20\d{15}\b", "TIME"),
    (r"\d{13}/", "MS/"),
    (r"[ \t]+", " "),
]


def reason(case):
    return SECOND.get(case.words[0]) or OTHER.get(case.words[0])


def plain(text):
    """The lines of an output without what differs from moment to moment and without the order of Java's hash tables."""
    for pattern, word in CHANGING:
        text = re.sub(pattern, word, text)
    text = re.sub(r"\{([^{}]*)\}", lambda found: "{" + ", ".join(sorted(found.group(1).split(", "))) + "}", text)
    return sorted(line.strip() for line in text.splitlines() if line.strip())


class Twin:
    """`vostok mqadmin`, run in the way of mqadmin.Shell. `code` is the exit code of the last command, or none if it had to be ended."""

    def __init__(self, directory):
        self.directory, self.code = directory, None

    def run(self, words, seconds):
        try:
            done = subprocess.run([VOSTOK, "mqadmin", *words], capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL, cwd=self.directory)
        except subprocess.TimeoutExpired as ended:
            self.code = None
            return (ended.stdout or b"").decode()
        self.code = done.returncode
        return done.stdout + done.stderr


def difference(case, known, real, code, text):
    """Says what is wrong with the output of `vostok mqadmin`."""
    if case.words[0] in SECOND:
        return None if code == 0 else f"exit code {code}"
    why = mqadmin.wrong(text, case, known)
    if why or case.fails or reason(case):
        return why
    if code != 0:
        return f"exit code {code}"
    left, right = plain(real), plain(text)
    missing = [line for line in left if line not in right]
    more = [line for line in right if line not in left]
    return None if left == right else f"only the real one: {missing[:1]}, only the twin: {more[:1]}"


def main():
    os.environ["TZ"] = "UTC"
    options, report = mqadmin.arguments(__doc__), Report("admin-twin")

    def finish(case, real, why, known):
        if why:
            report.check(f"{case.title}: the real mqadmin", False, why)
        if why or case.words[0].startswith("!"):
            return
        twin = Twin(known["dir"])
        words = [word.format(**known) for word in case.words]
        text = mqadmin.hear(twin, words, lambda text: difference(case, known, real, twin.code, text) is None, case.seconds, case.patient)
        why = difference(case, known, real, twin.code, text)
        report.check(case.title + (f" ({reason(case)})" if reason(case) else ""), why is None, why)
        if why or options.show:
            print(mqadmin.quoted(real, "real ") + mqadmin.quoted(text, "twin "), end="", flush=True)

    mqadmin.run(report, options, finish)
    report.close()


if __name__ == "__main__":
    main()
