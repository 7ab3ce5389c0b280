"""The load of RocketMQ's own benchmark: its producer, and its producer beside its push consumer, against Vostok, Java's broker and the echo.

    python3 -m bench.java_client                               1, 60 and 200 threads, 1 KiB
    python3 -m bench.java_client --servers vostok,echo -w 60 --modes produce

The clients are org.apache.rocketmq.example.benchmark.Producer and Consumer of 5.5.0 from Maven Central, with their defaults but for
threads, size and topic: a thread sends one message and waits for its answer, and the client writes every request by itself. So
requests arrive one by one, and a server reads and writes for each message; `vostok lab` gathers requests, which is cheaper for all.
What the echo needs for the same arrivals is the floor: it reads, answers and does nothing else.

TPS is what the producer prints every 10 s, over its last 9 s; the server's CPU is taken from /proc over the same 9 s. A cell is
measured when two such windows in a row differ by less than 5 % in CPU per message, for every server: the client compiles as well.
"""
import contextlib
import os
import re
import subprocess
import threading

from bench import children, measure, servers, stage, warm
from tests.kit import downloads
from tests.kit import servers as kit
from tests.kit.paths import WORK


JARS = WORK / "example-5.5.0"
PACKAGE = "org.apache.rocketmq.example.benchmark"
QUEUES = 8
# Of its snapshots, one a second, the client shows the last ten.
SHOWN_SECONDS = 9
SILENCE_SECONDS = 40
PRODUCED = re.compile(r"Send TPS: (\d+) \| Max RT\(ms\): (\d+) \| Average RT\(ms\): +([\d.NaN]+) \| Send Failed: (\d+) \| Response Failed: (\d+)")
CONSUMED = re.compile(r"Consume TPS: (\d+) ")


class CpuClock:
    """CPU time of a process, twice a second, to be asked for by time."""

    def __init__(self, pid):
        self.pid, self.samples, self.ended = pid, [], threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.ended.is_set():
            with contextlib.suppress(OSError):
                ticks = stage.ticks()
                self.samples.append((stage.CLOCK(), measure.cpu_us(self.pid), ticks[7], sum(ticks)))
            self.ended.wait(0.5)

    def over(self, end, seconds):
        """Between the samples next to both times: the server's share of a core, and the share of the machine that was stolen."""
        last = min(self.samples, key=lambda sample: abs(sample[0] - end))
        first = min(self.samples, key=lambda sample: abs(sample[0] - (end - seconds)))
        cores = (last[1] - first[1]) / max(1, (last[0] - first[0]) * 1e6)
        return cores, (last[2] - first[2]) / max(1, last[3] - first[3])

    def stop(self):
        self.ended.set()
        self.thread.join()


class Client:
    """One of the two programs; what it prints is kept with the time of each line."""

    def __init__(self, name, server, topic, *words):
        home = stage.OUT / "java-client"
        home.mkdir(parents=True, exist_ok=True)
        pin = ["taskset", "-c", server.load_cpus] if server.load_cpus else []
        self.lines, self.news = [], threading.Condition()
        # The heap of RocketMQ's own runclass.sh.
        self.process = children.start(
            [*pin, "java", "-Xms1g", "-Xmx1g", "-XX:-UsePerfData", f"-Duser.home={home}", f"-Djava.io.tmpdir={home}", "-Drocketmq.client.logLevel=WARN",
             "-cp", f"{JARS}/*", f"{PACKAGE}.{name}", "-n", f"127.0.0.1:{server.namesrv_port}", "-t", topic, *words],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, cwd=home)
        threading.Thread(target=self.follow, daemon=True).start()

    def follow(self):
        for line in self.process.stdout:
            with self.news:
                self.lines.append((stage.CLOCK(), line.rstrip()))
                self.news.notify_all()
        with self.news:
            self.lines.append((stage.CLOCK(), None))
            self.news.notify_all()

    def next(self, pattern, after):
        """The first line behind number `after` that has the pattern: (its number, its time, the match)."""
        until = stage.CLOCK() + SILENCE_SECONDS
        with self.news:
            while True:
                for number in range(after, len(self.lines)):
                    at, text = self.lines[number]
                    if text is None:
                        said = "\n".join(line for _, line in self.lines[-21:-1])
                        raise RuntimeError(f"the client ended with code {self.process.wait()}:\n{said}")
                    if found := pattern.search(text):
                        return number, at, found
                after = len(self.lines)
                if stage.CLOCK() > until:
                    raise RuntimeError(f"the client said nothing of {pattern.pattern!r} for {SILENCE_SECONDS} s")
                self.news.wait(1)

    def last(self, pattern):
        with self.news:
            found = [match for _, text in self.lines if text and (match := pattern.search(text))]
        return found[-1] if found else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def started(name, chosen):
    """A server on an empty disk."""
    if name == "echo":
        server = servers.Echo(stage.OUT / "echo", "0" if chosen.pin else "")
        server.load_cpus = "1" if chosen.pin else ""
        server.start()
        try:
            yield server
        finally:
            server.stop()
        return
    with stage.Kept(name, chosen) as server:
        server.start()
        yield server


def make_topic(server, topic):
    """Every topic exists at the echo, with the queues it was started with: 8."""
    if server.name == "echo":
        return
    fields = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": QUEUES, "writeQueueNums": QUEUES, "perm": 6, "topicFilterType": "SINGLE_TAG",
              "topicSysFlag": 0, "order": False}
    code, _, _ = stage.ask(server.broker_port, 17, {key: str(value) for key, value in fields.items()})
    if code != 0:
        raise RuntimeError(f"{server.name} did not make {topic}: code {code}")
    kit.await_route(f"127.0.0.1:{server.namesrv_port}", topic)


def cell(server, chosen, mode, w):
    # What was sent before, with no consumer, is none of this consumer's business.
    topic = f"Benchmark_{mode}_{w}"
    make_topic(server, topic)
    with contextlib.ExitStack() as stack:
        consumer = stack.enter_context(Client("Consumer", server, topic, "-g", f"consumers_of_{topic}")) if mode == "both" else None
        if consumer:
            consumer.next(re.compile("Consumer Started"), 0)
        clock = CpuClock(server.pid)
        stack.callback(clock.stop)
        producer = stack.enter_context(Client("Producer", server, topic, "-w", str(w), "-s", str(chosen.size)))
        place, windows = 0, []

        def window(_):
            nonlocal place
            number, at, found = producer.next(PRODUCED, place)
            place = number + 1
            tps, longest, mean, *failed = found.groups()
            cores, stolen = clock.over(at, SHOWN_SECONDS)
            windows.append({"tps": int(tps), "max_ms": int(longest), "mean_ms": float(mean), "failures": sum(map(int, failed)), "cores": cores, "stolen": stolen})
            return cores * 1e6 / max(1, int(tps))

        warming = warm.until_steady(f"{server.name}, {mode}, w = {w}", window, chosen.warm_max)
        measured = windows[-2:]
        seen = consumer and consumer.last(CONSUMED)
    mean = {key: sum(one[key] for one in measured) / len(measured) for key in measured[0]}
    return mean | {"server": server.name, "mode": mode, "w": w, "cpu_us": mean["cores"] * 1e6 / max(1, mean["tps"]), "failures": measured[-1]["failures"],
                   "max_ms": measured[-1]["max_ms"], "consumed": int(seen[1]) if seen else None, "warming": warming}


def run(name, chosen):
    """Java's broker serves all cells, so that it stays warm; others, which fill the disk faster, begin every cell with an empty one."""
    cells = [(mode, int(w)) for mode in chosen.modes.split(",") for w in chosen.w.split(",") if name != "echo" or mode == "produce"]
    for group in [cells] if name == "java" else [[one] for one in cells]:
        with started(name, chosen) as server:
            for mode, w in group:
                yield cell(server, chosen, mode, w)


HEAD = ["server", "mode", "w", "TPS", "consumed/s", "CPU us/msg", "of echo", "cores", "mean ms", "max ms", "failed", "stolen", "steady"]


def row(one, by):
    # The echo keeps nothing that could be consumed: its floor is of the sends alone.
    floor = by.get(("echo", "produce", one["w"])) if one["mode"] == "produce" else None
    return [one["server"], one["mode"], one["w"], f"{one['tps']:,.0f}", "-" if one["consumed"] is None else f"{one['consumed']:,}", f"{one['cpu_us']:.1f}",
            stage.ratio(one["cpu_us"], floor["cpu_us"]) if floor else "-", f"{one['cores']:.2f}", f"{one['mean_ms']:.3f}", one["max_ms"], one["failures"],
            f"{one['stolen']:.0%}", "yes" if one["warming"]["steady"] else "NO"]


def compare(by):
    rows = []
    for (name, mode, w), one in by.items():
        java = by.get(("java", mode, w))
        if name != "vostok" or java is None:
            continue
        echo = by.get(("echo", mode, w))
        rows.append([mode, w, stage.ratio(one["tps"], java["tps"]), stage.ratio(java["cpu_us"], one["cpu_us"], 1),
                     stage.ratio(java["cpu_us"], echo["cpu_us"], 1) if echo else "-"])
    if rows:
        print()
        stage.table(["mode", "w", "TPS vostok/java", "CPU java/vostok", "CPU java/echo"], rows)


def main():
    parser = stage.parser(__doc__)
    parser.set_defaults(pin=(os.cpu_count() or 1) >= 2, servers="java,vostok,echo", warm_max=90)
    parser.add_argument("-w", default="1,60,200", help="threads of the producer (default: %(default)s)")
    parser.add_argument("--modes", default="produce,both", help="with and without the consumer (default: %(default)s)")
    parser.add_argument("--size", type=int, default=1024, help="body bytes (default: %(default)s)")
    chosen = parser.parse_args()
    stage.ready("RocketMQ's own benchmark clients")
    stage.need_disk(20e9)
    downloads.jars(JARS, servers.HERE / "rocketmq" / "example.xml")
    results = [one for name in chosen.servers.split(",") for one in run(name, chosen)]
    by = {(one["server"], one["mode"], one["w"]): one for one in results}
    print()
    stage.table(HEAD, [row(one, by) for one in results])
    compare(by)
    stage.save("java-client", results)


if __name__ == "__main__":
    main()
