"""How long a broker is away: from its start until both ports answer and a send is acknowledged, on a store of some size.

    python3 -m bench.restart                                   1 GB, 1,000 queues
    python3 -m bench.restart --gb 20 --queues 50000

Per server one store is filled; then it is stopped or killed under load and started again, with the page cache as it is and with
caches dropped (needs root). `down` is how long stopping took. Java's ports are counted from the start of its process too.
"""
import time

from bench import stage
from tests.kit import servers as kit


MODES = [("stop", False, False), ("kill -9", True, False), ("stop, cold", False, True), ("kill -9, cold", True, True)]


def fill(server, chosen):
    body = chosen.size
    load = {"t": "bench", "w": 200, "s": body, "queues": chosen.queues}
    stage.produce(server, **load, q=max(chosen.queues * 2, int(chosen.gb * 1e9 / (body + 250))))


def again(server, chosen, crash, cold):
    load = stage.Lab(server, "producer", t="bench", w=64, s=chosen.size, queues=chosen.queues, duration=60)
    time.sleep(chosen.load_seconds)
    if not crash:  # a clean stop is not measured under load: senders are turned away first
        load.stop()
    down = server.end(crash)
    if crash:
        load.process.kill()
        load.process.wait()
    if cold:
        stage.drop_caches()
    began = stage.CLOCK()
    ports = server.start()
    while not stage.send(server.broker_port, "bench"):
        time.sleep(0.002)
    sent = stage.CLOCK() - began
    while not kit.is_routed(f"127.0.0.1:{server.namesrv_port}", "bench"):
        time.sleep(0.002)
    return {"down": down, "ports": ports, "send": sent, "route": stage.CLOCK() - began, **stage.footprint(server)}


def main():
    parser = stage.parser(__doc__)
    parser.add_argument("--gb", type=float, default=1)
    parser.add_argument("--queues", type=int, default=1000)
    parser.add_argument("--size", type=int, default=4096, help="body bytes (default: %(default)s)")
    parser.add_argument("--load-seconds", type=float, default=3, help="of load before each end (default: %(default)s)")
    chosen = parser.parse_args()
    stage.ready(f"restart of {chosen.gb:g} GB in {chosen.queues:,} queues")
    stage.need_disk(chosen.gb * 1.3e9 + 4e9)
    results = []
    for name in chosen.servers.split(","):
        with stage.Kept(name, chosen) as server:
            server.start()
            fill(server, chosen)
            for label, crash, cold in MODES:
                one = {"server": name, "mode": label, **again(server, chosen, crash, cold)}
                results.append(one)
                print(f"{name}, {label}: serving {one['send']:.2f} s after the start", flush=True)
    print()
    stage.table(["server", "mode", "down s", "ports s", "send acknowledged s", "route s", "RSS MB", "fds"],
                [[one["server"], one["mode"], f"{one['down']:.2f}", f"{one['ports']:.2f}", f"{one['send']:.2f}", f"{one['route']:.2f}",
                  f"{one['rss']['VmRSS'] >> 20:,}", f"{one['fds']:,}"] for one in results])
    by = {(one["server"], one["mode"]): one for one in results}
    for label, _, _ in MODES:
        if ("java", label) in by and ("vostok", label) in by:
            print(f"{label}: java/vostok {stage.ratio(by['java', label]['send'], by['vostok', label]['send'], 1)}")
    stage.save("restart", results)


if __name__ == "__main__":
    main()
