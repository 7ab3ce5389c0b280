"""What operators who look cost the messages: CPU per message of the server while its metrics are scraped each second, and while ten
browsers have the overview of its console open.

    python3 -m bench.watched --rounds 7 --seconds 10

One server is loaded all the time. Scraper and browsers are on the same machine, where they take processors and cache from the server whatever
they ask; operators look from elsewhere. So they look at this server and at another one without load in turn, round by round, and each
ratio is between these two. The console runs in the server's process, so that its own work counts too.
"""
import contextlib
import http.client
import statistics
import sys
import threading
import time

from bench import stage
from tests.kit import ports


BROWSERS = 10
TARGET = 1.02


class Lookers:
    """Asks for pages once a second over connections that stay, each of its own thread, until it is left."""

    def __init__(self, port, pages, count, stays):
        self.port, self.pages, self.stays = port, pages, stays
        self.left, self.answers, self.failed = threading.Event(), 0, []
        self.threads = [threading.Thread(target=self.look, args=(index / count,)) for index in range(count)]

    def look(self, late):
        try:
            self.ask(late)
        except (OSError, http.client.HTTPException) as error:
            self.failed.append(repr(error))

    def ask(self, late):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        due = time.monotonic() + late
        while not self.left.wait(max(0.0, due - time.monotonic())):
            due += 1
            for page in self.pages:
                connection.request("GET", page)
                answer = connection.getresponse()
                answer.read()
                self.answers += 1
                if answer.status != 200:
                    self.failed.append(f"{page}: {answer.status}")
            if not self.stays:
                connection.close()

    def __enter__(self):
        [thread.start() for thread in self.threads]
        return self

    def __exit__(self, *_):
        self.left.set()
        [thread.join() for thread in self.threads]


class Watched(stage.Kept):
    """A server with metrics and console."""

    def __init__(self, chosen, work):
        self.metrics, self.console = ports.free_ports()
        conf = ["metricsExporterType=PROM", f"metricsPromExporterPort={self.metrics}", "metricsPromExporterHost=127.0.0.1"]
        super().__init__("vostok", chosen, conf=conf, options=["--console", f"127.0.0.1:{self.console}"], work=work)

    def scraped(self):
        return Lookers(self.metrics, ["/metrics"], 1, stays=False)

    def open_in_browsers(self):
        return Lookers(self.console, ["/api/v1/live"], BROWSERS, stays=True)


def main():
    parser = stage.parser(__doc__)
    parser.set_defaults(servers="vostok")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--warm", type=float, default=3)
    parser.add_argument("-w", type=int, default=60, help="requests in flight (default: %(default)s)")
    parser.add_argument("-s", type=int, default=1024, help="body bytes (default: %(default)s)")
    chosen = parser.parse_args()
    stage.ready("scrapes and browsers beside the same at another server")
    with Watched(chosen, "data") as server, Watched(chosen, "idle") as other:
        server.start()
        other.start()
        browsers = f"{BROWSERS} browsers"
        lookers = {
            "nobody": (contextlib.nullcontext, None),
            "scrapes of another server": (other.scraped, "nobody"),
            "scrapes, one a second": (server.scraped, "scrapes of another server"),
            f"{browsers} at another server": (other.open_in_browsers, "nobody"),
            browsers: (server.open_in_browsers, f"{browsers} at another server"),
        }
        results, answers = {name: [] for name in lookers}, dict.fromkeys(lookers, 0)
        load = {"w": chosen.w, "s": chosen.s, "queues": 8}
        stage.warmed(server, chosen, chosen.warm, **load)
        for number in range(chosen.rounds):
            for name, (looking, _) in lookers.items():
                with looking() as looked:
                    results[name].append(stage.measured(server, **load, duration=chosen.seconds))
                if looked:
                    answers[name] += looked.answers
                    # Who was not answered did not look.
                    if looked.failed or looked.answers < 0.5 * len(looked.threads) * chosen.seconds:
                        sys.exit(f"{name}: {looked.answers} answers, {looked.failed[:3]}")
            print(f"round {number + 1} of {chosen.rounds}", flush=True)
    rows = []
    for name, ones in results.items():
        cpu = [one["cpu_us_per_message"] for one in ones]
        # The median of the ratios to the figure of `base` in the same round.
        base = lookers[name][1] or name
        ratio = statistics.median(one / other["cpu_us_per_message"] for one, other in zip(cpu, results[base]))
        outcome = "" if base in (name, "nobody") else "reached" if ratio <= TARGET else "MISSED"
        rows.append([name, f"{statistics.median(cpu):.2f}", f"{min(cpu):.2f}-{max(cpu):.2f}", base, f"{ratio:.3f}", f"{TARGET:.2f}", outcome,
                     f"{statistics.median(one['tps'] for one in ones):,.0f}", answers[name], sum(one["failures"] for one in ones)])
    print()
    stage.table(["who looks", "CPU us/msg", "min-max", "compared with", "ratio", "target", "", "TPS", "answers", "failed"], rows)
    stage.save("watched", rows)


if __name__ == "__main__":
    sys.exit(main())
