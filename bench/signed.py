"""What authentication costs: signed sends beside unsigned ones, and sends of a user while another address guesses secrets.

    python3 -m bench.signed                              CPU per message: off, signed, and signed beside 5,000 bad logins a second
    python3 -m bench.signed --seconds 30 --servers vostok,java

Every cell has a server of its own. The bad logins come from 127.0.0.2, pipelined on connections that the server may end, so that only the
rate of requests counts; the load comes from 127.0.0.1. `of calm` is the TPS of the user beside them over that without them just before,
the median of the rounds.
"""
import json
import multiprocessing
import socket
import statistics
import struct
import time

from bench import measure, stage


PACKAGE = "org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider"
USER = {"username": "rocketmq2", "password": "12345678"}
AUTH = ["authenticationEnabled=true", f"authenticationMetadataProvider={PACKAGE}", f"initAuthenticationUser={json.dumps(USER)}"]
SIGNED = {"a": "true", "ak": USER["username"], "sk": USER["password"]}
ATTACKER = "127.0.0.2"
BATCH = 50


def bad_login():
    """The frame of a send with a wrong signature."""
    fields = {"AccessKey": USER["username"], "Signature": "AAAAAAAAAAAAAAAAAAAAAAAAAAA=", "a": "P", "b": "bench", "c": "TBW102", "d": "8",
              "e": "0", "f": "0", "g": "1700000000000", "h": "0", "j": "0", "k": "false", "m": "false"}
    header = json.dumps({"code": 310, "language": "OTHER", "version": 0, "opaque": 1, "flag": 0, "extFields": fields}).encode()
    return struct.pack(">ii", 4 + len(header), len(header)) + header


def guess(port, rate, count, ended):
    """Sends so many bad logins a second until it is told to end."""
    frames, connection, began = bad_login() * BATCH, None, time.monotonic()
    while not ended.is_set():
        pause = began + count.value / rate - time.monotonic()
        if pause > 0:
            time.sleep(pause)
        try:
            if connection is None:
                connection = socket.create_connection(("127.0.0.1", port), 5, (ATTACKER, 0))
            connection.sendall(frames)
            count.value += BATCH
        except OSError:
            connection = None


class Guessing:
    """A process that tries secrets, while it is entered."""

    def __init__(self, server, rate):
        self.count, self.ended = multiprocessing.Value("q", 0), multiprocessing.Event()
        self.process = multiprocessing.Process(target=guess, args=(server.broker_port, rate, self.count, self.ended), daemon=True)

    def __enter__(self):
        self.began = time.monotonic()
        self.process.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.rate = self.count.value / (time.monotonic() - self.began)
        self.process.join(10)
        if self.process.is_alive():
            self.process.kill()


def cell(name, chosen, conf, flags, rate):
    with stage.Kept(name, chosen, conf=conf) as server:
        server.start()
        load = {"s": chosen.size, "queues": 8, "w": chosen.w} | flags
        stage.warmed(server, chosen, 2, **load)
        before = measure.resident(server.pid)["RssAnon"]
        if not rate:
            calm = stage.measured(server, **load, duration=chosen.seconds)
            return calm | {"grown": measure.resident(server.pid)["RssAnon"] - before}
        shares, rates = [], []
        for _ in range(chosen.rounds):
            calm = stage.measured(server, **load, duration=chosen.seconds)
            with Guessing(server, rate) as guessing:
                beside = stage.measured(server, **load, duration=chosen.seconds)
            shares.append(beside["tps"] / calm["tps"])
            rates.append(guessing.rate)
        return beside | {"of_calm": shares, "guesses_per_second": statistics.median(rates),
                         "grown": measure.resident(server.pid)["RssAnon"] - before}


def main():
    parser = stage.parser(__doc__)
    parser.set_defaults(pin=True, servers="vostok")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rate", type=int, default=5000, help="bad logins a second (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="without and with bad logins in turn (default: %(default)s)")
    parser.add_argument("-w", type=int, default=60, help="requests in flight (default: %(default)s)")
    parser.add_argument("--size", type=int, default=1024, help="body bytes (default: %(default)s)")
    chosen = parser.parse_args()
    stage.ready("signed")
    results = {}
    for name in chosen.servers.split(","):
        for kind, conf, flags, rate in (("off", [], {}, 0), ("signed", AUTH, SIGNED, 0), ("beside guesses", AUTH, SIGNED, chosen.rate)):
            results[f"{name} {kind}"] = cell(name, chosen, conf, flags, rate)
    stage.table(["cell", "TPS", "us per message", "more than off", "p99 ms", "guesses/s", "of calm", "MB more"],
                [[key, f"{one['tps']:,.0f}", f"{one['cpu_us_per_message']:.2f}",
                  f"{one['cpu_us_per_message'] - results[key.split()[0] + ' off']['cpu_us_per_message']:.2f}",
                  f"{one['latency_us']['p99'] / 1000:.2f}", f"{one.get('guesses_per_second', 0):,.0f}",
                  f"{statistics.median(one['of_calm']):.2f}" if "of_calm" in one else "-", f"{one['grown'] / 2**20:,.0f}"]
                 for key, one in results.items()])
    stage.save("signed", results)


if __name__ == "__main__":
    main()
