"""What a filter costs: server CPU per message that a pull looks at, by tag and by SQL92 over ten properties, beside Java.

    python3 -m bench.sql
    python3 -m bench.sql --messages 200000 --rounds 10

Messages have 1 KiB of body, a tag and ten properties. Pulls go through the queue from its beginning to its end, with filters that match
all messages or none. A message that does not match costs the filter alone; by tag that is a look at the index.
"""
import json
import socket
import struct

from bench import measure, stage, warm


TOPIC, WINDOW = "Filtered", 200
SUCCESS, SYSTEM_BUSY = 0, 2
PROPERTIES = {f"p{number}": str(number * 7) for number in range(8)} | {"color": "blue", "price": "17.5"}
# All ten are needed to decide; the last one decides.
ALL = " AND ".join(f"p{number} >= {number * 7}" for number in range(8)) + " AND color IN ('green', 'blue') AND price BETWEEN 10 AND 20"
NONE = ALL.replace("BETWEEN 10 AND 20", "> 20")
FILTERS = {"all, by tag": ("TAG", "*"), "none, by tag": ("TAG", "other"), "all, SQL92": ("SQL92", ALL), "none, SQL92": ("SQL92", NONE)}


class Connection:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), 30)
        self.answers = self.socket.makefile("rb", 1 << 20)

    @staticmethod
    def frame(code, fields, body=b""):
        header = json.dumps({"code": code, "language": "OTHER", "version": 475, "opaque": 1, "flag": 0, "extFields": fields}).encode()
        return struct.pack(">ii", 4 + len(header) + len(body), len(header)) + header + body

    def answer(self):
        total, length = struct.unpack(">ii", self.answers.read(8))
        head = json.loads(self.answers.read(length & 0xFFFFFF))
        rest = total - 4 - (length & 0xFFFFFF)
        if rest:
            self.answers.read(rest)
        return head


def fill(connection, count):
    properties = "".join(f"{key}\x01{value}\x02" for key, value in PROPERTIES.items()) + "TAGS\x01one\x02WAIT\x01true\x02"
    fields = {"producerGroup": "bench_sql", "topic": TOPIC, "defaultTopic": "TBW102", "defaultTopicQueueNums": 1, "queueId": 0, "sysFlag": 0,
              "bornTimestamp": 1_700_000_000_000, "flag": 0, "properties": properties, "reconsumeTimes": 0, "unitMode": False, "batch": False}
    frame = Connection.frame(10, {key: str(value) for key, value in fields.items()}, bytes(1024))
    missing = count
    while missing:
        window = min(missing, WINDOW)
        connection.socket.sendall(frame * window)
        codes = [connection.answer()["code"] for _ in range(window)]
        # Java refuses what waited for 200 ms; it is sent again.
        if not set(codes) <= {SUCCESS, SYSTEM_BUSY}:
            raise RuntimeError(f"a send was refused with codes {set(codes)}")
        missing -= codes.count(SUCCESS)


def walk(connection, kind, expression):
    """Pulls from the queue's beginning to its end; returns the messages looked at."""
    offset = 0
    while True:
        fields = {"consumerGroup": "bench_sql", "topic": TOPIC, "queueId": 0, "queueOffset": offset, "maxMsgNums": 32, "sysFlag": 4, "commitOffset": 0,
                  "suspendTimeoutMillis": 0, "subscription": expression, "subVersion": 1, "expressionType": kind}
        connection.socket.sendall(Connection.frame(11, {key: str(value) for key, value in fields.items()}))
        head = connection.answer()
        after = int(head.get("extFields", {}).get("nextBeginOffset", offset))
        if head["code"] not in (0, 19, 20, 21) or head["code"] == 0 and after <= offset:
            raise RuntimeError(f"a pull was refused: {head}")
        if after <= offset:
            return offset
        offset = after


def warmed(server, chosen, walked):
    """Walks before those that are measured: Java's broker until it is steady."""
    if server.name != "java":
        for _ in range(chosen.warm):
            walked()
        return None

    def window(seconds):
        before, looked, end = measure.cpu_us(server.pid), 0, stage.CLOCK() + seconds
        while stage.CLOCK() < end:
            looked += walked()
        return (measure.cpu_us(server.pid) - before) / max(1, looked)

    return warm.until_steady(server.name, window, chosen.warm_max)


def run(name, chosen):
    conf = ["enablePropertyFilter=true", "autoCreateSubscriptionGroup=true"]
    results = []
    with stage.Kept(name, chosen, conf=conf) as server:
        server.start()
        connection = Connection(server.broker_port)
        fill(connection, chosen.messages)
        for label, (kind, expression) in FILTERS.items():
            warming = warmed(server, chosen, lambda: walk(connection, kind, expression))
            before, looked = measure.cpu_us(server.pid), 0
            for _ in range(chosen.rounds):
                looked += walk(connection, kind, expression)
            cpu = measure.cpu_us(server.pid) - before
            results.append({"server": name, "filter": label, "looked": looked, "cpu_us": cpu / looked, "warming": warming})
    return results


def main():
    parser = stage.parser(__doc__)
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=4, help="walks through the queue that are measured (default: %(default)s)")
    parser.add_argument("--warm", type=int, default=1)
    chosen = parser.parse_args()
    stage.ready("filters")
    results = [one for name in chosen.servers.split(",") for one in run(name, chosen)]
    java = {one["filter"]: one["cpu_us"] for one in results if one["server"] == "java"}
    print()
    stage.table(["server", "matches", "looked at", "CPU us/msg", "messages per CPU s", "x of java"],
                [[one["server"], one["filter"], f"{one['looked']:,}", f"{one['cpu_us']:.3f}", f"{1e6 / max(one['cpu_us'], 1e-9):,.0f}",
                  stage.ratio(java.get(one["filter"], 0), one["cpu_us"], 1)] for one in results])
    stage.save("sql", results)


if __name__ == "__main__":
    main()
