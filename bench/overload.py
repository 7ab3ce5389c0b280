"""More than the server can do: goodput, refusals by cause and memory at 150 % of its ceiling.

    python3 -m bench.overload                            the ceiling by a closed loop, then an open loop above it for 60 s
    python3 -m bench.overload --seconds 300 --share 1.5

The closed loop finds what the server can do with `-w` requests in flight. The open loop then sends on schedule, whatever the answers do,
over several connections with many requests in flight; what the server does not take waits in the sockets, so the latency of the
open loop, which counts from the schedule, grows as long as it runs. What the server itself makes others wait shows a probe: a
client beside it with one request in flight on a connection of its own. The server runs on one core and the load on the other, so
that the server is what is short.
"""
import threading

from bench import measure, stage



class Watch:
    """Looks at the memory of a process until it is stopped."""

    def __init__(self, pid):
        self.pid, self.most, self.series, self.ended = pid, 0, [], threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.ended.wait(0.5):
            anonymous = measure.resident(self.pid)["RssAnon"]
            self.most = max(self.most, anonymous)
            self.series.append(round(anonymous / 2**20))

    def stop(self):
        self.ended.set()
        self.thread.join()


def refusals(server):
    table = stage.ask(server.broker_port, 28)[1].get("table", {})
    return {key: int(value) for key, value in table.items() if key.startswith("refused")}


def probe(server, chosen, seconds):
    """A client with one request in flight."""
    return stage.Lab(server, "producer", t="probe", cores=1, s=chosen.size, queues=8, w=1, duration=seconds)


def milliseconds(result, quantile):
    return f"{result['latency_us'][quantile] / 1000:,.1f}"


def run(name, chosen):
    with stage.Kept(name, chosen) as server:
        server.start()
        load = {"s": chosen.size, "queues": 8}
        warming = stage.warmed(server, chosen, 2, **load, w=chosen.w)
        ceiling = stage.measured(server, **load, w=chosen.w, duration=chosen.ceiling_seconds)
        calm = measure.resident(server.pid)["RssAnon"]
        calm_probe = probe(server, chosen, chosen.ceiling_seconds).result()
        watch, before = Watch(server.pid), refusals(server)
        beside = probe(server, chosen, chosen.seconds)
        try:
            over = stage.measured(server, **load, w=chosen.backlog, connections=chosen.connections, rate=round(ceiling["tps"] * chosen.share),
                                  duration=chosen.seconds)
        finally:
            watch.stop()
        over_probe = beside.result()
        causes = {key: count - before.get(key, 0) for key, count in refusals(server).items() if count > before.get(key, 0)}
        after = stage.measured(server, **load, w=chosen.w, duration=chosen.ceiling_seconds)
    return {"server": name, "ceiling": ceiling, "over": over, "after": after, "calm_probe": calm_probe, "over_probe": over_probe, "anonymous": {"calm": calm, "most": watch.most, "series": watch.series},
            "refused": causes, "warming": warming}


def main():
    parser = stage.parser(__doc__)
    parser.set_defaults(pin=True, servers="vostok")
    parser.add_argument("--share", type=float, default=1.5, help="of the ceiling (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--ceiling-seconds", type=float, default=5)
    parser.add_argument("-w", type=int, default=200, help="requests in flight of the closed loop (default: %(default)s)")
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--backlog", type=int, default=4000, help="requests in flight of the open loop (default: %(default)s)")
    parser.add_argument("--size", type=int, default=1024, help="body bytes (default: %(default)s)")
    chosen = parser.parse_args()
    stage.ready("overload")
    results = [run(name, chosen) for name in chosen.servers.split(",")]
    print()
    stage.table(["server", "ceiling TPS", "offered", "goodput", "of ceiling", "worst s", "failed", "refused", "MB calm", "MB most", "TPS after",
                 "probe p50 ms", "p99.9", "beside p50", "p99.9"],
                [[one["server"], f"{one['ceiling']['tps']:,.0f}", f"{one['ceiling']['tps'] * chosen.share:,.0f}", f"{one['over']['tps']:,.0f}",
                  stage.ratio(one["over"]["tps"], one["ceiling"]["tps"]), f"{one['over']['worst_second']:,.0f}",
                  one["over"]["failures"],
                  one["refused"] or "-", f"{one['anonymous']['calm'] / 2**20:,.0f}", f"{one['anonymous']['most'] / 2**20:,.0f}",
                  f"{one['after']['tps']:,.0f}", *(milliseconds(one[which], quantile) for which in ("calm_probe", "over_probe") for quantile in ("p50", "p999"))]
                 for one in results])
    stage.save("overload", results)


if __name__ == "__main__":
    main()
