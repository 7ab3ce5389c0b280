"""gRPC, the protocol of 5.x clients: Vostok beside `mqproxy -pm local` of Apache RocketMQ, proxy and broker in one process each.

    python3 -m bench.grpc                                w = 1, 60, 200 with 1 KiB, then receives of 32 messages with their acknowledgements
    python3 -m bench.grpc --seconds 30 --fill 1000000
    python3 -m bench.grpc --servers vostok,echo          beside the limit server alone

Sends are calls of one message on one connection, as many at a time as `w`. What is received was sent over remoting before, so that every
receive finds 32 messages; CPU is that of receives and acknowledgements alone. Sends at w = 60 over TLS are Vostok's alone: their targets
are shares of its own plain ones. `echo` is the limit server: it decodes the same requests with the same library, and answers.
"""
import contextlib
import json
import statistics

from bench import grpc_clients, measure, servers, stage, warm


GROUP = "bench_grpc"
CPU_RATIO, TPS_RATIO, TAIL_MS, ECHO_SHARE, TLS_RATIO = 6, 4, 10, 0.5, 1.5


@contextlib.contextmanager
def started(name, chosen):
    """A server on an empty disk."""
    if name == "echo":
        server = servers.GrpcEcho(stage.OUT / "echo", "0" if chosen.pin else "")
        server.load_cpus = "1" if chosen.pin else ""
        server.start()
        try:
            yield server
        finally:
            server.stop()
        return
    with stage.Kept(name, chosen, grpc=True) as server:
        if name == "vostok":
            server.conf += grpc_clients.certificate(stage.OUT)
        server.start()
        yield server


def sends(server, chosen, **load):
    """A cell of sends: rate, latency, CPU per message."""
    if server.name != "echo":
        stage.warmed(server, chosen, 2, **load)
        return stage.measured(server, **load, duration=chosen.seconds)
    stage.produce(server, **load, duration=2)
    before = measure.cpu_us(server.pid)
    result = stage.produce(server, **load, duration=chosen.seconds)
    return result | {"cpu_us_per_message": (measure.cpu_us(server.pid) - before) / max(1, result["messages"])}


def fill(server, topic, count):
    """Sends over remoting what is to be received."""
    stage.produce(server, t=topic, s=1024, w=200, queues=8, q=count)


def drain(server, where, topic, seconds):
    """Receives for so long; CPU per message, and the rate of the seconds in which there was enough."""
    before = measure.cpu_us(server.pid)
    result = stage.Lab(server, "consumer", **where, t=topic, g=GROUP, w=8, duration=seconds).result()
    cpu = measure.cpu_us(server.pid) - before
    whole = [count for count in result["series"][1:-1] if count] or result["series"] or [0]
    return {"messages": result["messages"], "failures": result["failures"], "tps": statistics.median(whole),
            "cpu_us_per_message": cpu / max(1, result["messages"])}


def receiving(server, where, chosen):
    """A group that is there before the messages begins at the first one."""
    topic = "received"
    # RocketMQ's proxy refuses a group that does not exist.
    group = {"groupName": GROUP, "consumeEnable": True, "consumeFromMinEnable": True, "retryQueueNums": 1, "retryMaxTimes": 16, "brokerId": 0,
             "whichBrokerWhenConsumeSlowly": 1, "notifyConsumerIdsChangedEnable": True}
    stage.ask(server.broker_port, 200, {}, json.dumps(group).encode())
    stage.produce(server, t=topic, s=1024, w=1, queues=8, q=8)
    drain(server, where, topic, 3)

    def window(seconds):
        fill(server, topic, chosen.fill)
        return drain(server, where, topic, seconds)["cpu_us_per_message"]

    if server.name == "java":
        warm.until_steady("java, receives", window, chosen.warm_max)
    fill(server, topic, chosen.fill)
    return drain(server, where, topic, chosen.seconds)


def cells(name, chosen):
    with started(name, chosen) as server:
        where = {"grpc": f"127.0.0.1:{server.grpc[1]}"}
        loads = {f"w {w}": {"w": int(w)} for w in chosen.w.split(",")}
        if name == "vostok" and "w 60" in loads:
            loads["w 60 tls"] = {"w": 60, "tls": True}
        found = {}
        for cell, load in loads.items():
            found[cell] = sends(server, chosen, **{"s": 1024, "queues": 8} | load | where)
            print(f"{name}, {cell}: {found[cell]['tps']:,.0f} TPS", flush=True)
        if name != "echo" and chosen.fill:
            found["receive"] = receiving(server, where, chosen)
        return found


def row(name, cell, one):
    latency = one.get("latency_us")
    return [name, cell, f"{one['tps']:,.0f}", f"{one['cpu_us_per_message']:.2f}", f"{latency['p999'] / 1000:.2f}" if latency else "-",
            f"{one['failures']:,}"]


def targets(ours, java, echo):
    """What each target is, and what came out."""
    for cell, one in ours.items():
        if their := java.get(cell):
            cpu, tps = their["cpu_us_per_message"] / max(1e-9, one["cpu_us_per_message"]), one["tps"] / max(1, their["tps"])
            yield cpu >= CPU_RATIO, f"{cell}: CPU per message 1/{cpu:.1f} of Java, target 1/{CPU_RATIO}"
            if cell != "receive":
                yield tps >= TPS_RATIO, f"{cell}: TPS {tps:.1f} x Java, target {TPS_RATIO} x"
        if limit := echo.get(cell):
            share = one["tps"] / max(1, limit["tps"])
            yield share >= ECHO_SHARE, f"{cell}: TPS {share:.0%} of the limit server, target {ECHO_SHARE:.0%}"
    if "w 60" in ours:
        tail = ours["w 60"]["latency_us"]["p999"] / 1000
        yield tail <= TAIL_MS, f"w 60: p99.9 {tail:.2f} ms, target {TAIL_MS} ms"
        tls = ours["w 60 tls"]["cpu_us_per_message"] / max(1e-9, ours["w 60"]["cpu_us_per_message"])
        yield tls <= TLS_RATIO, f"w 60: CPU per message {tls:.2f} x as much over TLS, target {TLS_RATIO} x"


def main():
    parser = stage.parser(__doc__)
    parser.set_defaults(pin=True, servers="vostok,java,echo")
    parser.add_argument("--seconds", type=float, default=10, help="per cell (default: %(default)s)")
    parser.add_argument("-w", default="1,60,200", help="calls at a time, a list (default: %(default)s)")
    parser.add_argument("--fill", type=int, default=300_000, help="messages to receive, 0 for none (default: %(default)s)")
    chosen = parser.parse_args()
    stage.ready("grpc")
    results = {name: cells(name, chosen) for name in chosen.servers.split(",")}
    stage.table(["server", "cell", "TPS", "us per message", "p99.9 ms", "failed"],
                [row(name, cell, one) for name, found in results.items() for cell, one in found.items()])
    for reached, text in targets(results.get("vostok", {}), results.get("java", {}), results.get("echo", {})):
        print(f"{'reached' if reached else 'MISSED ':<8} {text}", flush=True)
    stage.save("grpc", results)


if __name__ == "__main__":
    main()
