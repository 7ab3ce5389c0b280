"""The real mqadmin of Apache RocketMQ 5.5.0 against Vostok, or against Apache RocketMQ to prove the expectations.

    python3 -m interop.mqadmin [--short] [--against vostok|java] [--only TEXT] [--show] [--keep]

Each case of admin_cases.py is one command of mqadmin and what its output must hold; clients of both kinds are connected meanwhile.
The run takes half a minute, so `--short` is the same. Prints a line for each case and ends with `mqadmin: N passed, N failed, N skipped`.
"""
import argparse
import re
import subprocess

from interop.admin_cases import cases
from tests.kit import downloads, servers
from tests.kit.paths import ROOT, WORK
from tests.kit.report import Report, scratch
from tests.kit.waiting import PATIENCE_SECONDS, eventually

# Exceptions of a command whose answer came later than the five seconds that mqadmin waits.
LATE = re.compile("Remoting(Timeout|Connect|SendRequest)Exception")


class Shell:
    """A JVM that runs commands of mqadmin, one after the other. `directory`/conf/tools.yml may hold credentials."""

    def __init__(self, directory, namesrv):
        self.directory, self.namesrv = directory, namesrv
        self.start()

    def start(self):
        jars = downloads.jars(WORK / "mqadmin-5.5.0", ROOT / "interop" / "admin" / "pom.xml")
        classes = downloads.classes(WORK / "admin-classes", jars, [ROOT / "interop" / "admin" / "Shell.java"])
        home = self.directory / "home"
        home.mkdir(exist_ok=True)
        with open(self.directory / "shell.err", "ab") as errors:
            self.process = subprocess.Popen(
                ["java", "-Xmx512m", *servers.SHORT_LIVED, f"-Duser.home={home}", f"-Djava.io.tmpdir={home}", "-Drocketmq.client.logLevel=WARN",
                 "-cp", f"{classes}:{jars}/*", "Shell", self.namesrv], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
                cwd=self.directory, env=servers.environment_of(home) | {"ROCKETMQ_HOME": str(self.directory)})

    def run(self, words, seconds=PATIENCE_SECONDS):
        """Returns the output of a command, which is interrupted after `seconds`."""
        self.process.stdin.write("\t".join([str(seconds), *words]) + "\n")
        self.process.stdin.flush()
        output = []
        for line in self.process.stdout:
            if line.startswith("@@"):
                return "".join(output) + ("(no end in time)" if line.strip() == "@@timeout" else "")
            output.append(line)
        raise RuntimeError(f"mqadmin ended the JVM after {' '.join(words)}:\n{''.join(output)}")

    def stop(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def hear(shell, words, is_right, seconds=PATIENCE_SECONDS, patient=False):
    """Returns the last output of a command.

    A command runs again while its output is wrong because an answer was late, and with `patient` while its output is wrong. A command
    that never ends gets more time in each run.
    """
    outputs = []

    def ends():
        outputs.append(shell.run(words, min(seconds * (len(outputs) + 1), PATIENCE_SECONDS)))
        return is_right(outputs[-1]) or not patient and not LATE.search(outputs[-1])

    eventually(ends)
    return outputs[-1]


def wrong(text, case, known, runs=1):
    """Says which pattern an output lacks, or has and must not have."""
    if runs > 1 and case.again and case.again in text:
        return None
    for wanted in case.wants:
        pattern = re.sub(r"\{([a-z_]+)\}", lambda found: re.escape(known[found.group(1)]), wanted)
        if not re.search(pattern, text, re.MULTILINE):
            return f"expected /{wanted}/"
    for pattern in [*case.lacks, *([] if case.fails else [r"Exception"])]:
        found = re.search(pattern, text, re.MULTILINE)
        if found:
            return f"not expected: {found.group(0)}"
    return None


def perform(shell, case, known):
    """Runs a case, adds what its output teaches to `known`, and returns what is wrong and the output."""
    verdicts = []

    def is_right(text):
        verdicts.append(wrong(text, case, known, len(verdicts) + 1))
        return verdicts[-1] is None

    try:
        text = hear(shell, [word.format(**known) for word in case.words], is_right, case.seconds, case.patient)
    except RuntimeError as error:
        shell.start()
        return str(error), ""
    why = verdicts[-1]
    if why is None and case.learn:
        known.update(case.learn(text))
    if why is None and case.check:
        why = case.check(text, known)
    return why, text


def arguments(description):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="all the same")
    parser.add_argument("--against", choices=servers.KINDS, default="vostok")
    parser.add_argument("--only", default="", help="only cases whose title has this text; the cases they need run too")
    parser.add_argument("--show", action="store_true", help="print every output")
    parser.add_argument("--keep", action="store_true", help="keep the directory of the run")
    return parser.parse_args()


def run(report, options, finish):
    """Starts a server, performs the cases, and calls `finish` with each case, its output, what is wrong with it, and what is known."""
    kind = servers.KINDS[options.against]
    with scratch(report, options.keep) as directory:
        comment = "# a comment that stays" if options.against == "vostok" else ""
        conf = {comment: ""} if comment else {"brokerConfigPath": directory / "conf" / "broker.conf", "traceTopicEnable": "true"}
        conf |= {"enableLmq": "true", "enableMultiDispatch": "true"}
        with kind(directory, conf) as server, Shell(directory, server.namesrv) as shell:
            known = {"n": server.namesrv, "b": server.broker, "dir": str(directory), "conf": str(server.conf), "comment": comment}
            for case in cases():
                if not server.runs():
                    raise RuntimeError(f"the server has ended:\n{server.text()[-2000:]}")
                if case.only in ("", options.against) and (case.needed or options.only in case.title):
                    why, text = perform(shell, case, known)
                    finish(case, text, why, known)


def quoted(text, title=""):
    return "".join(f"    {title}| {line}\n" for line in text.splitlines() if line.strip())


def main():
    options, report = arguments(__doc__), Report("mqadmin")

    def finish(case, text, why, _):
        report.check(case.title, why is None, why)
        if why or options.show:
            print(quoted(text), end="", flush=True)

    run(report, options, finish)
    report.close()


if __name__ == "__main__":
    main()
