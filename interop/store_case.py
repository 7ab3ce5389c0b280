"""One store directory through three brokers: written by one, continued by the other, given back."""
import re
import shutil
import subprocess
import threading
import time

import store_brokers
from store_brokers import KINDS, local
from store_compare import LATE_MS, Ledger, changed_configuration, configuration, differences, inventory, lost

OUR_TOPICS = {"Plain": 4, "Wide": 16, "Bodies": 2, "Batches": 2, "Delayed": 2, "Timers": 2, "DueLevels": 1, "DueTimers": 1, "Retried": 1,
              "Transactions": 2, "Inner": 2, "Fresh1": 2, "Fresh2": 2, "Fresh3": 2, "%DLQ%G_retry": 1, "%RETRY%G_retry": 1, "Load": 4}
# Asked about even before their queues have directories: Vostok makes those with the first checkpoint after a message.
SYSTEM_TOPICS = {"SCHEDULE_TOPIC_XXXX": 18, "RMQ_SYS_TRANS_HALF_TOPIC": 1, "RMQ_SYS_TRANS_OP_HALF_TOPIC": 1, "rmq_sys_wheel_timer": 1}
OFFSETS = [("G_first", "Plain", 4), ("G_second", "Wide", 16), ("G_resume", "Plain", 4)]
# Pending messages arrive in these while other things are compared.
MOVING = {"DueLevels", "DueTimers", "%RETRY%G_retry"}
ALL = "delayed,timers,recalls,transactions,plain,wide,bodies,batches,inner,alone,retries,offsets".split(",")
# What Vostok does not do yet: kinds it is not asked to take, and answers that are not compared. Each is shown as skipped.
NOT_YET = set()
# A RocketMQ broker passes single messages of a topic of batches over.
NEVER_IN_JAVA = {"alone"}


class Case:
    def __init__(self, first, crash, directory, classpath, report):
        self.first, self.second = first, {"java": "vostok", "vostok": "java"}[first]
        self.crash = crash
        self.name = f"{first}-{'killed' if crash else 'stopped'}"
        self.directory, self.classpath, self.report = directory, classpath, report
        self.ports = local.free_ports()
        self.ledger, self.windows = Ledger(), []
        self.moving = MOVING | ({"Load"} if crash else set())

    def run(self):
        self.directory.mkdir(parents=True)
        self.queues = set()
        try:
            with self.serve(1, self.first) as broker:
                written = self.work(broker, 1)
                self.stop(broker)
            with self.serve(2, self.second) as broker:
                self.look(broker, written, "opened")
                self.resumes(broker, written)
                continued = self.work(broker, 2)
                self.older(broker, written, continued)
                self.stop(broker)
            if not self.crash:
                self.spoil_configuration(broker)
            with self.serve(3, self.first) as broker:
                self.look(broker, continued, "reopened")
                self.resumes(broker, continued)
                final = self.work(broker, 3)
                self.older(broker, continued, final)
                self.wait_for_due(broker)
                if not self.crash:
                    wrong = store_brokers.refuses_second(broker, self.second)
                    self.check(broker, f"{self.second} does not start on an open store", [wrong] if wrong else [], 1)
        except Exception as failure:  # the other cases go on, and this one is shown as failed
            self.report(self.name, "the whole case", [f"{type(failure).__name__}: {failure}"], 1)

    def serve(self, number, kind):
        self.number = number
        return KINDS[kind](self.directory, self.ports, number)

    def check(self, broker, what, rows, count):
        by = {1: f"{broker.name} first", 2: f"then {broker.name}", 3: f"{broker.name} again"}[self.number]
        self.report(self.name, f"{by}: {what}", rows, count)

    def program(self, broker, *steps, seconds=400):
        """The Java program with its steps; its words go to a log."""
        command = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Dfile.encoding=UTF-8",
                   "-Drocketmq.client.logLevel=WARN", f"-Duser.home={self.directory}", "-cp", self.classpath, "storeways.Main",
                   broker.namesrv, broker.broker, *map(str, steps)]
        with open(self.directory / f"program-{self.number}.log", "ab") as log:
            done = subprocess.run(command, stdout=log, stderr=log, timeout=seconds)
        if done.returncode != 0:
            raise RuntimeError(f"{steps} failed against {broker.name}; see {log.name}")

    def request(self, broker):
        """All queues that ever had a directory here, ours, and those of the broker."""
        self.queues |= {(directory.parent.name, int(directory.name)) for directory in (broker.store / "consumequeue").glob("*/*")}
        self.queues |= {(topic, queue) for topic, count in (OUR_TOPICS | SYSTEM_TOPICS).items() for queue in range(count)}
        file = self.directory / f"request-{self.number}"
        lines = [f"Q {topic} {queue}" for topic, queue in sorted(self.queues)]
        lines += [f"O {group} {topic} {queue}" for group, topic, count in OFFSETS for queue in range(count)]
        file.write_text("\n".join(lines) + "\n")
        return file

    def take(self, broker, label):
        file = self.directory / f"inventory-{self.number}-{label}"
        self.program(broker, f"inventory:{self.request(broker)}:{file}")
        return inventory(file)

    def work(self, broker, phase):
        """Sends on, in all kinds; returns what is there afterwards."""
        kinds = [kind for kind in ALL if kind not in (NEVER_IN_JAVA if broker.name == "java" else NOT_YET)]
        for kind in set(ALL) - set(kinds) - NEVER_IN_JAVA:
            self.check(broker, f"is not asked for {kind} yet", None, 0)
        file = self.directory / f"fill-{phase}"
        self.program(broker, f"fill:{phase}:{','.join(kinds)}:{file}")
        lines = self.ledger.read(file)
        self.check(broker, "takes every kind", [" ".join(line[1:]) for line in lines if line[0] == "refused"], len(kinds))
        found = self.take(broker, "sent")
        self.check(broker, "acknowledged messages are there", self.ledger.missing(found), len(self.ledger.of("acked")))
        self.check(broker, "committed offsets are there", self.ledger.offsets(found), len(self.ledger.of("offset")))
        self.check(broker, "delayed and sent back: delivered once", self.ledger.delivered(found), len(self.ledger.of("there")))
        return found

    def stop(self, broker):
        self.configured = configuration(broker.store)
        if self.crash:
            self.kill_under_load(broker)
        else:
            broker.end(crash=False)
            rows = [] if not (broker.store / "abort").exists() else ["abort is still there after a clean stop"]
            self.check(broker, "stops cleanly", rows, 1)
        self.windows.append((broker.since_ms, broker.until_ms))

    def kill_under_load(self, broker):
        file = self.directory / f"load-{self.number}"
        load = threading.Thread(target=self.program, args=(broker, f"load:{file}"))
        load.start()
        end = time.monotonic() + 90
        while not (file.exists() and file.stat().st_size > 1_000) and time.monotonic() < end:
            time.sleep(0.02)
        broker.end(crash=True)
        load.join()
        lines = file.read_text().splitlines(keepends=True)
        self.ledger.lines += [line.split() for line in lines if line.endswith("\n")]
        self.check(broker, "acknowledged messages until the kill", [] if lines else ["none"], len(lines))

    def look(self, broker, before, label):
        """The same store through another broker."""
        found = self.take(broker, label)
        for category, rows in differences(before, found, self.moving).items():
            self.check(broker, f"{label}, same {category}", None if category in NOT_YET else rows, len(before.get(category, {})))
        self.check(broker, f"{label}, acknowledged messages are there", self.ledger.missing(found), len(self.ledger.of("acked")))
        self.check(broker, f"{label}, same topics and groups", changed_configuration(self.configured, configuration(broker.store)),
                   sum(len(table) for table in self.configured.values()))
        self.start_up(broker, label, before)

    def older(self, broker, before, after):
        """What was there before more was sent is still there."""
        rows = lost({key: value for key, value in before.items() if key not in NOT_YET}, after, self.moving)
        self.check(broker, "older messages after sending on", rows, len(before["message"]))

    def start_up(self, broker, label, before):
        """What the broker said about the store while it started."""
        text = broker.text()
        clean = "last shutdown normally" in text if broker.name == "java" else "after_crash=false" in text
        rows = [] if clean != self.crash else [f"the last shutdown was taken as {'clean' if clean else 'a crash'}"]
        self.check(broker, f"{label}, start taken as {'a crash' if self.crash else 'clean'}", rows, 1)
        # Java says so of every end of a log; what counts is where it ends.
        ends = [int(end) for end in re.findall(r"processOffset\((\d+)\), truncate dirty", text)] if broker.name == "java" else []
        last = max(int(value.split()[0][9:]) + int(value.split()[1][6:]) for value in before["message"].values())
        rows = [f"the log was cut at {end}, {last - end} bytes before the end of its last message" for end in ends if end < last]
        self.check(broker, f"{label}, nothing truncated", rows, 1)

    def resumes(self, broker, before):
        """A group goes on exactly where its offsets say."""
        ends = {int(key.split("/")[1]): int(value.split()[2].rstrip(",")) for key, value in before["queue"].items() if key.startswith("Plain/")}
        starts = {int(key.split("/")[2]): int(value) for key, value in before["offset"].items() if key.startswith("G_resume/")}
        expected = sorted(f"Plain/{queue}/{offset}" for queue in ends for offset in range(starts.get(queue, 0), ends[queue]))
        file = self.directory / f"resumed-{self.number}"
        self.program(broker, f"resume:G_resume:Plain:{len(expected)}:60:{file}")
        got = file.read_text().splitlines()
        rows = [f"{one} came {got.count(one)} times, expected {expected.count(one)}" for one in sorted(set(expected) | set(got))
                if got.count(one) != expected.count(one)]
        self.check(broker, "consumption resumes at the stored offsets", rows, len(expected))

    def wait_for_due(self, broker):
        waiting = [line for line in self.ledger.of("due") if int(line[3]) - broker.since_ms < 200_000]
        end = max(int(line[3]) for line in waiting)
        time.sleep(max(0.0, end / 1000 + 6 - time.time()))
        while True:
            now = time.time() * 1000
            found = self.take(broker, "due")
            there = self.ledger.keyed(found)
            if all(there[topic, key] for key, topic, *_ in waiting) or now > end + LATE_MS:
                break
        rows = self.ledger.due(found, [*self.windows, (broker.since_ms, None)], self.crash, now)
        for kind in ("level", "timer"):
            mine = {line[0] for line in self.ledger.of("due") if line[4] == kind}
            rows_of = None if kind + "s" in NOT_YET else [row for row in rows if row.split()[0] in mine]
            self.check(broker, f"pending by {kind}: once and in time", rows_of, len(mine))
        self.check(broker, "recalled: never delivered", self.ledger.delivered(found), len(self.ledger.of("never")))

    def spoil_configuration(self, broker):
        """Every main file loses its end; the .bak beside it holds what it said."""
        missing = []
        for name in ("topics.json", "subscriptionGroup.json", "consumerOffset.json", "delayOffset.json"):
            main = broker.store / "config" / name
            backup = main.with_name(name + ".bak")
            if not main.exists():
                missing.append(f"{name} was not written")
                continue
            shutil.copy(main, backup)
            main.write_bytes(main.read_bytes()[:-20])
        self.check(broker, "configuration files spoiled, .bak left", missing, 4)
