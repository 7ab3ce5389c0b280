"""A small remoting client for tests of replication and failover: numbered messages, their bodies, and the queues' ends."""
import json
import socket
import struct
import time

QUEUES = 4
SEND, MAX_OFFSET, PULL, QUERY_OFFSET, COMMIT_OFFSET, NO_OFFSET = 10, 30, 11, 14, 15, 22
# Codes of pulls that find no message.
ENDS = (19, 20, 21)


class Client:
    """One remoting connection, to a port of this machine or to `host:port`."""

    def __init__(self, address, timeout=120):
        host, _, port = str(address).rpartition(":")
        self.socket = socket.create_connection((host or "127.0.0.1", int(port)), timeout)
        self.answers, self.opaque = self.socket.makefile("rb"), 0

    def call(self, code, fields=None, body=b""):
        self.opaque += 1
        head = {"code": code, "language": "OTHER", "version": 0, "opaque": self.opaque, "flag": 0,
                "extFields": {key: str(value) for key, value in (fields or {}).items()}}
        head = json.dumps(head).encode()
        self.socket.sendall(struct.pack(">ii", 4 + len(head) + len(body), len(head)) + head + body)
        while True:
            head = self.answers.read(8)
            if len(head) < 8:
                raise ConnectionError("the broker has ended the connection")
            size, length = struct.unpack(">ii", head)
            answer = json.loads(self.answers.read(length))
            body = self.answers.read(size - 4 - length)
            # What is no answer is a request of the broker, such as that the members of a group have changed.
            if answer["flag"] & 1:
                return answer, body

    def send(self, number, size=None):
        fields = {"producerGroup": "PG", "topic": "Copied", "defaultTopic": "TBW102", "defaultTopicQueueNums": QUEUES, "queueId": number % QUEUES,
                  "sysFlag": 0, "bornTimestamp": int(time.time() * 1000), "flag": 0, "properties": f"KEYS\1k{number}\2", "reconsumeTimes": 0,
                  "unitMode": "false", "batch": "false"}
        answer, _ = self.call(SEND, fields, body_of(number, size))
        if answer["code"] != 0:
            raise RuntimeError(f"message {number}: {answer}")

    def pull(self, queue, offset):
        """The answer, the messages as pairs of queue offset and body, and the offset to go on from."""
        answer, body = self.call(PULL, {"consumerGroup": "CG", "topic": "Copied", "queueId": queue, "queueOffset": offset, "maxMsgNums": 32, "sysFlag": 4,
                                        "commitOffset": 0, "suspendTimeoutMillis": 0, "subscription": "*", "subVersion": 0, "expressionType": "TAG"})
        following = answer.get("extFields", {}).get("nextBeginOffset")
        return answer, records(body) if answer["code"] == 0 else [], None if following is None else int(following)

    def messages(self):
        """Bodies of all messages that the broker serves, by queue and queue offset; raises if a pull is refused."""
        found = {}
        for queue in range(QUEUES):
            offset = 0
            while True:
                answer, messages, following = self.pull(queue, offset)
                if answer["code"] not in (0, *ENDS):
                    raise RuntimeError(f"queue {queue} at {offset}: {answer}")
                found |= {(queue, at): body for at, body in messages}
                if following is None or following <= offset:
                    break
                offset = following
        return found

    def commit(self, queue, offset):
        """Commits an offset of the group and returns the code of the answer."""
        return self.call(COMMIT_OFFSET, {"consumerGroup": "CG", "topic": "Copied", "queueId": queue, "commitOffset": offset})[0]["code"]

    def committed(self, queue):
        """The committed offset of the group, 0 if there is none; raises if the broker refuses to tell."""
        answer, _ = self.call(QUERY_OFFSET, {"consumerGroup": "CG", "topic": "Copied", "queueId": queue})
        if answer["code"] not in (0, NO_OFFSET):
            raise RuntimeError(f"queue {queue}: {answer}")
        return int(answer["extFields"]["offset"]) if answer["code"] == 0 else 0

    def ends(self):
        ends = []
        for queue in range(QUEUES):
            answer, _ = self.call(MAX_OFFSET, {"topic": "Copied", "queueId": queue, "committed": "true"})
            ends.append(int(answer["extFields"]["offset"]) if answer["code"] == 0 else None)
        return ends


def number_of(body):
    """The number that `body_of` was given."""
    return int(body.split(b" ")[0])


def body_of(number, size=None):
    """The body of the message with this number."""
    return (f"{number} " + "x" * (number % 700 if size is None else size)).encode()


def records(stored):
    """Queue offset and body of each record of the answer to a pull."""
    at, found = 0, []
    while at < len(stored):
        size, offset = int.from_bytes(stored[at:at + 4], "big"), int.from_bytes(stored[at + 20:at + 28], "big")
        body_at = at + 84  # the fixed part of a record with addresses of IPv4
        length = int.from_bytes(stored[body_at:body_at + 4], "big")
        found.append((offset, stored[body_at + 4:body_at + 4 + length]))
        at += size
    return found
