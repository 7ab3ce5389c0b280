"""One store directory through three brokers: written by one, continued by the other, given back."""
import re
import shutil
import subprocess
import threading
import time
from collections import Counter

from interop.store_compare import Ledger, changed_configuration, configuration, configured, differences, inventory, lost
from tests.kit.servers import SHORT_LIVED, SMALL_FILES, Java, Vostok
from tests.kit.waiting import eventually

OUR_TOPICS = {"Plain": 4, "Wide": 16, "Bodies": 2, "Batches": 2, "Delayed": 2, "Timers": 2, "DueLevels": 1, "DueTimers": 1, "Retried": 1,
              "Transactions": 2, "Inner": 2, "Fresh1": 2, "Fresh2": 2, "Fresh3": 2, "%DLQ%G_retry": 1, "%RETRY%G_retry": 1, "%RETRY%G_late": 1, "Load": 4}
# Asked about even before their queues have directories: Vostok makes those with the first checkpoint after a message.
SYSTEM_TOPICS = {"SCHEDULE_TOPIC_XXXX": 18, "RMQ_SYS_TRANS_HALF_TOPIC": 1, "RMQ_SYS_TRANS_OP_HALF_TOPIC": 1, "rmq_sys_wheel_timer": 1}
OFFSETS = [("G_first", "Plain", 4), ("G_second", "Wide", 16), ("G_resume", "Plain", 4)]
# Pending messages arrive in these while inventories are compared.
MOVING = {"DueLevels", "DueTimers", "%RETRY%G_late"}
KINDS = "delayed,timers,recalls,transactions,plain,wide,bodies,batches,inner,alone,retries,offsets".split(",")
# A RocketMQ broker passes single messages of a topic of batches over.
NEVER_IN_JAVA = {"alone"}
# Delay levels (from 1) all of whose messages are delivered when a fill ends.
SETTLED_LEVELS = (1, 2)
# Messages that are due so soon are awaited in the end.
AWAITED_MS = 200_000
OTHER = {"java": "vostok", "vostok": "java"}


def server(kind, directory, **options):
    return Java(directory, SMALL_FILES, level="INFO", **options) if kind == "java" else Vostok(directory, SMALL_FILES, **options)


class StoreCase:
    """A store that `first` writes, the other kind of broker continues and `first` gets back. With `crash` every broker is killed under load."""

    def __init__(self, first, crash, is_short, directory, class_path, case):
        self.order = [first, OTHER[first], first]
        self.crash, self.is_short, self.directory, self.class_path, self.case = crash, is_short, directory, class_path, case
        self.servers = {kind: server(kind, directory) for kind in OTHER}
        self.ledger, self.queues, self.moving = Ledger(), set(), MOVING | ({"Load"} if crash else set())

    def run(self):
        command = ["java", "-Xmx512m", *SHORT_LIVED, "-Dfile.encoding=UTF-8", "-Drocketmq.client.logLevel=WARN", f"-Duser.home={self.directory}",
                   "-cp", self.class_path, "storeways.Main"]
        with open(self.directory / "program.log", "wb") as log:
            self.java = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            self.pass_on()
        finally:
            self.java.kill()
            self.java.wait()

    def pass_on(self):
        """Gives the store from broker to broker."""
        with self.serve(1) as broker:
            written = self.work(broker)
            self.stop(broker, written)
        with self.serve(2) as broker:
            continued = self.go_on(broker, written, "opened")
            self.stop(broker, continued)
        if not self.crash:
            self.spoil_configuration(broker)
        with self.serve(3) as broker:
            self.go_on(broker, continued, "reopened")
            if not self.is_short:
                self.wait_for_due(broker)
            if not self.crash:
                wrong = self.refusal(broker)
                self.check(broker, f"{OTHER[broker.kind]} does not start on an open store", [wrong] if wrong else [], 1)

    def serve(self, number):
        self.number, broker = number, self.servers[self.order[number - 1]]
        self.said_before = len(broker.text())
        return broker

    def check(self, broker, title, rows, count):
        by = {1: f"{broker.kind} first", 2: f"then {broker.kind}", 3: f"{broker.kind} again"}[self.number]
        if rows:
            with open(self.directory / "wrong.txt", "a") as file:
                file.writelines(f"{by}\t{title}\t{row}\n" for row in rows)
        self.case.check(f"{by}: {title} ({count})", not rows, "\n    ".join([f"{len(rows)} wrong", *rows[:3]]))

    def program(self, broker, step):
        """Performs a step of the Java program; its words go to a log."""
        self.java.stdin.write(f"{broker.namesrv} {broker.broker} {step}\n")
        self.java.stdin.flush()
        # Logback prints lines of its own.
        if next((line for line in self.java.stdout if line.startswith("@")), None) != "@done\n":
            raise RuntimeError(f"{step} failed against {broker.kind}; see {self.directory}/program.log")

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

    def work(self, broker):
        """Sends messages of every kind and returns the inventory afterwards."""
        kinds = [kind for kind in KINDS if broker.kind == "vostok" or kind not in NEVER_IN_JAVA]
        file = self.directory / f"fill-{self.number}"
        self.program(broker, f"fill:{self.number}:{','.join(kinds)}:{file}")
        lines = self.ledger.read(file)
        self.check(broker, "takes every kind", [" ".join(line[1:]) for line in lines if line[0] == "refused"], len(kinds))
        found = self.take(broker, "sent")
        self.check(broker, "acknowledged messages are there", self.ledger.missing(found), len(self.ledger.of("acked")))
        self.check(broker, "committed offsets are there", self.ledger.offsets(found), len(self.ledger.of("offset")))
        self.check(broker, "delayed and sent back: delivered once", self.ledger.delivered(found), len(self.ledger.of("there")))
        return found

    def go_on(self, broker, before, label):
        """Compares the store with the inventory that the broker before took, and sends more."""
        self.look(broker, before, label)
        self.resumes(broker, before)
        after = self.work(broker)
        self.check(broker, "older messages after sending on", lost(before, after, self.moving), len(before["message"]))
        return after

    def stop(self, broker, found):
        self.configured = configuration(broker.store)
        if self.crash:
            if not eventually(lambda: self.positions_are_on_disk(broker.store, found)):
                raise RuntimeError("the positions of consumers, delays and timers are not on disk")
            self.kill_under_load(broker)
        else:
            broker.stop()
            rows = ["abort is still there after a clean stop"] if (broker.store / "abort").exists() else []
            self.check(broker, "stops cleanly", rows, 1)

    def positions_are_on_disk(self, store, found):
        """Whether the files of positions hold those of the inventory; a kill before that repeats deliveries."""
        offsets, delays = (configured(store, name, "offsetTable") for name in ("consumerOffset.json", "delayOffset.json"))
        ends = {key: int(value.split()[2].rstrip(",")) for key, value in found["queue"].items() if key.startswith("SCHEDULE_TOPIC_XXXX/")}
        last_timer = max(time for (topic, _), times in self.ledger.keyed(found).items() if topic == "Timers" for time in times)
        check = store / "config" / "timercheck"
        return (all(str(offsets.get(f"{topic}@{group}", {}).get(queue, 0)) == value for group, topic, queue, value in
                    (key.split("/") + [value] for key, value in found["offset"].items() if not value.startswith("code")))
                and all(delays.get(str(level)) == ends[f"SCHEDULE_TOPIC_XXXX/{level - 1}"] for level in SETTLED_LEVELS)
                and check.exists() and int.from_bytes(check.read_bytes()[:8], "big") > last_timer)

    def kill_under_load(self, broker):
        file = self.directory / f"load-{self.number}"
        load = threading.Thread(target=self.program, args=(broker, f"load:{file}"))
        load.start()
        eventually(lambda: file.exists() and file.stat().st_size > 1_000)
        broker.kill()
        load.join()
        lines = file.read_text().splitlines(keepends=True)
        self.ledger.lines += [line.split() for line in lines if line.endswith("\n")]
        self.check(broker, "acknowledged messages until the kill", [] if lines else ["none"], len(lines))

    def look(self, broker, before, label):
        """Compares the same store through another broker."""
        found = self.take(broker, label)
        for category, rows in differences(before, found, self.moving).items():
            self.check(broker, f"{label}, same {category}", rows, len(before.get(category, {})))
        self.check(broker, f"{label}, acknowledged messages are there", self.ledger.missing(found), len(self.ledger.of("acked")))
        self.check(broker, f"{label}, same topics and groups", changed_configuration(self.configured, configuration(broker.store)),
                   sum(len(table) for table in self.configured.values()))
        # Lines of the log from this start on.
        text = broker.text()[self.said_before:]
        clean = "last shutdown normally" in text if broker.kind == "java" else "after_crash=false" in text
        rows = [] if clean != self.crash else [f"the last shutdown was taken as {'clean' if clean else 'a crash'}"]
        self.check(broker, f"{label}, start taken as {'a crash' if self.crash else 'clean'}", rows, 1)
        # Java logs that for every end of a log; the check compares the position.
        ends = [int(end) for end in re.findall(r"processOffset\((\d+)\), truncate dirty", text)] if broker.kind == "java" else []
        last = max(int(value.split()[0][9:]) + int(value.split()[1][6:]) for value in before["message"].values())
        rows = [f"the log was cut at {end}, {last - end} bytes before the end of its last message" for end in ends if end < last]
        self.check(broker, f"{label}, nothing truncated", rows, 1)

    def resumes(self, broker, before):
        """Checks that a group goes on exactly at its offsets."""
        ends = {int(key.split("/")[1]): int(value.split()[2].rstrip(",")) for key, value in before["queue"].items() if key.startswith("Plain/")}
        starts = {int(key.split("/")[2]): int(value) for key, value in before["offset"].items() if key.startswith("G_resume/")}
        expected = Counter(f"Plain/{queue}/{offset}" for queue in ends for offset in range(starts.get(queue, 0), ends[queue]))
        file = self.directory / f"resumed-{self.number}"
        self.program(broker, f"resume:G_resume:Plain:{expected.total()}:{file}")
        got = Counter(file.read_text().splitlines())
        rows = [f"{place} came {got[place]} times, expected {expected[place]}" for place in sorted(expected | got) if got[place] != expected[place]]
        self.check(broker, "consumption resumes at the stored offsets", rows, expected.total())

    def wait_for_due(self, broker):
        awaited = self.ledger.pending(time.time() * 1000 + AWAITED_MS)
        time.sleep(max(0, max(awaited.values()) / 1000 - time.time()))

        def inventory_of_all():
            found = self.take(broker, "due")
            return found if self.ledger.keyed(found).keys() >= awaited.keys() else None

        found = eventually(inventory_of_all) or self.take(broker, "due")
        rows, late = self.ledger.due(found, awaited, self.crash)
        for kind in ("level", "timer"):
            mine = {line[0] for line in self.ledger.of("due") if line[4] == kind}
            self.check(broker, f"pending by {kind}: once and not early", [row for row in rows if row.split()[0] in mine], len(mine))
        print(f"{self.case.name}: a pending message came up to {late / 1000:.1f} s after it was due", flush=True)
        self.check(broker, "recalled: never delivered", self.ledger.delivered(found), len(self.ledger.of("never")))

    def refusal(self, first):
        """Starts a broker of the other kind on the directory of a broker that runs; returns why that is wrong, or None."""
        kind = OTHER[first.kind]
        directory = self.directory / f"second-{kind}"
        directory.mkdir()
        (directory / "store").symlink_to(first.store)
        # Vostok does not start beside a broker of its name at the same name server, whatever its store is.
        second = server(kind, directory, **({"only": "broker", "namesrv": first.namesrv} if kind == "java" else {}))
        try:
            second.start()
        except RuntimeError as failure:
            said = str(failure) + second.text()
            return None if re.search("lock failed|in use", said, re.IGNORECASE) else f"{kind} does not say that the store is locked: {said[-300:]}"
        finally:
            second.kill()
        return f"{kind} started on a store that {first.kind} has open"

    def spoil_configuration(self, broker):
        """Cuts every main file of the configuration; the .bak beside it has the whole content."""
        missing = []
        for name in ("topics.json", "subscriptionGroup.json", "consumerOffset.json", "delayOffset.json"):
            main = broker.store / "config" / name
            if not main.exists():
                missing.append(f"{name} was not written")
                continue
            shutil.copy(main, main.with_name(name + ".bak"))
            main.write_bytes(main.read_bytes()[:-20])
        self.check(broker, "configuration files spoiled, .bak left", missing, 4)
