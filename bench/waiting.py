"""What consumers that wait for the next message cost its producer: latency of sends by the number of groups that wait.

    python3 -m bench.waiting                                 sends at a fixed rate, one in flight, to 0, 10 and 100 groups
    python3 -m bench.waiting --baseline BINARY --pops        beside another binary, and with pops instead of pulls

Every group has a connection of its own and always one request waiting at the topic's only queue; each message wakes all of them. The
variants take turns round by round; a figure is the median of the rounds.
"""
import json
import multiprocessing
import re
import selectors
import signal
import socket
import statistics
import struct
import time
from pathlib import Path

from bench import stage


TOPIC = "waiting"
NEXT = re.compile(rb'"nextBeginOffset":"?(\d+)')


def frame(code, opaque, fields):
    header = json.dumps({"code": code, "language": "OTHER", "version": 0, "opaque": opaque, "flag": 0, "extFields": {key: str(value) for key, value in fields.items()}}).encode()
    return struct.pack(">ii", 4 + len(header), len(header)) + header


def pull(group, offset):
    return frame(11, 1, {"consumerGroup": group, "topic": TOPIC, "queueId": 0, "queueOffset": offset, "maxMsgNums": 32, "sysFlag": 6, "commitOffset": 0,
                         "suspendTimeoutMillis": 30_000, "subscription": "*", "subVersion": 0})


def pop(group, _):
    return frame(200050, 1, {"consumerGroup": group, "topic": TOPIC, "queueId": -1, "maxMsgNums": 32, "invisibleTime": 300_000, "pollTime": 30_000,
                             "bornTime": int(time.time() * 1000), "initMode": 0, "expType": "TAG", "exp": "*", "order": "false"})


def wait(port, groups, make, answered):
    """Keeps a request of every group waiting, until it is ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    looked = selectors.DefaultSelector()
    for number in range(groups):
        connection = socket.create_connection(("127.0.0.1", port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        group = f"G{number}"
        connection.sendall(make(group, 0))
        looked.register(connection, selectors.EVENT_READ, [group, bytearray()])
    while True:
        for key, _ in looked.select():
            group, buffer = key.data
            buffer += key.fileobj.recv(1 << 20)
            while len(buffer) >= 8 and len(buffer) >= 4 + struct.unpack_from(">i", buffer)[0]:
                length = 4 + struct.unpack_from(">i", buffer)[0]
                found = NEXT.search(buffer, 0, length)
                offset = int(found[1]) if found else 0
                del buffer[:length]
                answered.value += 1
                key.fileobj.sendall(make(group, offset))


def run(binary, groups, chosen):
    make = pop if chosen.pops else pull
    with stage.Kept("vostok", chosen, binary=binary) as server:
        server.start()
        load = {"t": TOPIC, "queues": 1, "s": 1024, "w": 1}
        stage.produce(server, **load, duration=1)
        answered = multiprocessing.Value("q", 0, lock=False)
        waiting = multiprocessing.Process(target=wait, args=(server.broker_port, groups, make, answered), daemon=True)
        waiting.start()
        try:
            # Until the groups have read what the first sends left.
            stage.produce(server, **load, rate=chosen.rate, duration=2)
            before = answered.value
            result = stage.measured(server, **load, rate=chosen.rate, duration=chosen.seconds)
            result["answered"] = answered.value - before
        finally:
            waiting.kill()
            waiting.join()
    return result


def main():
    parser = stage.parser(__doc__)
    parser.add_argument("--baseline", help="another binary to compare with")
    parser.add_argument("--pops", action="store_true", help="pops instead of pulls")
    parser.add_argument("--groups", default="0,10,100", help="how many wait, comma-separated (default: %(default)s)")
    parser.add_argument("--rate", type=int, default=100, help="messages per second (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    stage.ready("groups that wait")
    variants = {"vostok": None} | ({"baseline": Path(chosen.baseline).resolve()} if chosen.baseline else {})
    counts = [int(count) for count in chosen.groups.split(",")]
    results = {(name, count): [] for count in counts for name in variants}
    for number in range(chosen.rounds):
        for name, count in results:
            results[name, count].append(run(variants[name], count, chosen))
        print(f"round {number + 1} of {chosen.rounds}", flush=True)
    rows = []
    for (name, count), ones in results.items():
        latency = [f"{statistics.median(one['latency_us'][key] for one in ones):,.0f}" for key in ("p50", "p99", "p999")]
        cpu = statistics.median(one["cpu_us_per_message"] for one in ones)
        rows.append([name, count, *latency, f"{cpu:,.1f}", sum(one["messages"] for one in ones), sum(one["answered"] for one in ones), sum(one["failures"] for one in ones)])
    print()
    stage.table(["variant", "groups", "p50 us", "p99", "p99.9", "CPU us/msg", "messages", "answered", "failed"], rows)
    stage.save("waiting", [{"variant": name, "groups": count, "rounds": ones} for (name, count), ones in results.items()])


if __name__ == "__main__":
    main()
