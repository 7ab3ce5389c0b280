"""Clients that only say they are there: memory and CPU of the server with many connections and heartbeats.

    python3 -m bench.idle                                10,000 clients of 100 consumer groups, a heartbeat every 30 s from each
    python3 -m bench.idle --clients 2000 --seconds 30
    python3 -m bench.idle --grpc [--tls]                 consumers of RocketMQ 5.x, a heartbeat every 10 s from each and one receive that waits

Every client is a producer and a consumer of one group, as the Java client says it in a heartbeat, and asks for its group's members
now and then, as rebalancing does. Over gRPC every client also has its stream of settings. Needs `ulimit -n` of a little more than the clients.
"""
import json
import resource
import selectors
import socket
import struct
import sys

from bench import grpc_clients, measure, stage, warm



def frame(opaque, code, fields, body=b""):
    header = json.dumps({"code": code, "language": "JAVA", "version": 475, "opaque": opaque, "flag": 0, "extFields": fields}).encode()
    return struct.pack(">ii", 4 + len(header) + len(body), len(header)) + header + body


def heartbeat(number, groups):
    group = f"idle_{number % groups}"
    subscription = {"classFilterMode": False, "topic": "Idle", "subString": "*", "tagsSet": [], "codeSet": [], "subVersion": 1, "expressionType": "TAG"}
    data = {"clientID": f"127.0.0.1@{number}", "producerDataSet": [{"groupName": f"idle_producer_{number % groups}"}],
            "consumerDataSet": [{"groupName": group, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
                                 "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "subscriptionDataSet": [subscription], "unitMode": False}]}
    return frame(number, 34, {}, json.dumps(data).encode()) + frame(number, 38, {"consumerGroup": group})


class Clients:
    """So many connections; answers are read and thrown away."""

    def __init__(self, port, count, groups):
        self.selector, self.answered = selectors.EpollSelector(), 0
        self.sockets, self.words = [], [heartbeat(number, groups) for number in range(count)]
        for number in range(count):
            connection = socket.create_connection(("127.0.0.1", port), 10)
            connection.setblocking(False)
            self.selector.register(connection, selectors.EVENT_READ)
            self.sockets.append(connection)
            if number % 100 == 0:
                self.read(0)

    def close(self):
        self.selector.close()
        for connection in self.sockets:
            connection.close()

    def beat(self, number):
        self.sockets[number].send(self.words[number])

    def read(self, seconds):
        for key, _ in self.selector.select(seconds):
            got = key.fileobj.recv(1 << 16)
            if not got:
                sys.exit("the server closed a connection")
            self.answered += 1

    def run(self, seconds, interval):
        """Every client beats once in each interval, evenly spread."""
        count, began, sent = len(self.sockets), stage.CLOCK(), 0
        while (gone := stage.CLOCK() - began) < seconds:
            due = int(gone / interval * count)
            while sent < due:
                self.beat(sent % count)
                sent += 1
            self.read(0.01)
        return sent


def warmed(server, chosen, clients):
    """Heartbeats until Java's broker is steady; others need none."""
    if server.name != "java":
        return None

    def window(seconds):
        before = measure.cpu_us(server.pid)
        beats = clients.run(seconds, chosen.interval)
        return (measure.cpu_us(server.pid) - before) / max(1, beats)

    return warm.until_steady(server.name, window, chosen.warm_max)


def main():
    parser = stage.parser(__doc__)
    parser.add_argument("--clients", type=int, default=10_000)
    parser.add_argument("--groups", type=int, default=100)
    parser.add_argument("--interval", type=float, help="seconds between two heartbeats of a client (default: 30, with --grpc 10)")
    parser.add_argument("--seconds", type=float, default=60, help="measured (default: %(default)s)")
    parser.add_argument("--grpc", action="store_true", help="clients of gRPC")
    parser.add_argument("--tls", action="store_true", help="with --grpc: over TLS")
    parser.set_defaults(servers=None)
    chosen = parser.parse_args()
    if chosen.tls and not chosen.grpc:
        parser.error("--tls needs --grpc")
    chosen.servers = chosen.servers or ("vostok" if chosen.grpc else "vostok,java")
    chosen.interval = chosen.interval or (10 if chosen.grpc else 30)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, chosen.clients + 1000), hard))
    stage.ready("idle clients")
    rows, results, context = [], [], None
    if chosen.tls:
        chosen.conf, context = [*chosen.conf, *grpc_clients.certificate(stage.OUT)], grpc_clients.trusting()
    for name in chosen.servers.split(","):
        with stage.Kept(name, chosen, grpc=chosen.grpc) as server:
            server.start()
            if chosen.grpc:
                grpc_clients.make_topic(server, grpc_clients.TOPIC)
            empty = measure.resident(server.pid)
            if chosen.grpc:
                clients = grpc_clients.GrpcClients(server.grpc[1], chosen.clients, chosen.groups, context)
            else:
                clients = Clients(server.broker_port, chosen.clients, chosen.groups)
            clients.run(chosen.interval / 3, chosen.interval / 3)  # everybody is known
            warming = warmed(server, chosen, clients)
            before = measure.cpu_us(server.pid)
            beats = clients.run(chosen.seconds, chosen.interval)
            cpu = (measure.cpu_us(server.pid) - before) / 1e6 / chosen.seconds
            full = measure.resident(server.pid)
            clients.close()
        results.append({"server": name, "clients": chosen.clients, "beats": beats, "cores": cpu, "rss": full, "rss_before": empty, "warming": warming})
        rows.append([name, f"{chosen.clients:,}", f"{beats / chosen.seconds:,.0f}", f"{100 * cpu:.1f} %", f"{empty['VmRSS'] / 2**20:,.0f}",
                     f"{full['VmRSS'] / 2**20:,.0f}", f"{(full['VmRSS'] - empty['VmRSS']) / chosen.clients / 1024:.1f}", f"{clients.answered:,}"])
    print()
    stage.table(["server", "clients", "heartbeats/s", "of a core", "RSS MB empty", "RSS MB", "KB per client", "answers read"], rows)
    for one in (one for one in results if chosen.grpc and one["server"] == "vostok"):
        kib, most = (one["rss"]["VmRSS"] - one["rss_before"]["VmRSS"]) / one["clients"] / 1024, 80 if chosen.tls else 40
        print(f"{'reached' if kib <= most else 'MISSED ':<8} {kib:.1f} KiB per client, target {most}")
        print(f"{'reached' if one['cores'] <= 0.15 else 'MISSED ':<8} {100 * one['cores']:.1f} % of a core, target 15 %")
    stage.save("idle-grpc-tls" if chosen.tls else "idle-grpc" if chosen.grpc else "idle", results)


if __name__ == "__main__":
    main()
