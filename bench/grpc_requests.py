"""Requests of clients of RocketMQ 5.x as bytes of Protocol Buffers, and a look into the answers."""

OK, MESSAGE_NOT_FOUND = 20000, 40401
PRODUCER, PUSH_CONSUMER, SIMPLE_CONSUMER = 1, 2, 3


def varint(value):
    out = bytearray()
    while value >= 128:
        out.append(value % 128 + 128)
        value //= 128
    return bytes([*out, value])


def part(number, value):
    """A field: a number, a text, or the bytes of a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def parts(data):
    """The fields of a message that are numbers or have a length: their number and value."""
    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte, at = data[at], at + 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
    at = 0
    while at < len(data):
        key = number()
        if key & 7 == 0:
            yield key >> 3, number()
        elif key & 7 == 2:
            length = number()
            yield key >> 3, data[at:at + length]
            at += length
        else:
            at += 8 if key & 7 == 1 else 4


def find(data, *path):
    """The first value at a path of field numbers; None when there is none."""
    for number, value in parts(data):
        if number == path[0]:
            return value if len(path) == 1 else find(value, *path[1:])
    return None


def code(answer):
    """The code in the status of an answer, which is its first field."""
    return find(answer, 1, 1)


def resource(name):
    return part(2, name)


def expression(tags="*"):
    return part(1, 1) + part(2, tags)


def settings(kind, topic, group=None, language=1, version="5.0.7"):
    """The first command on a Telemetry stream."""
    named = part(5, part(1, resource(topic)))
    if group is not None:
        named = part(6, part(1, resource(group)) + part(2, part(1, resource(topic)) + part(2, expression())))
    return part(2, part(1, kind) + part(4, part(1, 3)) + named + part(7, part(1, language) + part(2, version)))


def heartbeat(kind, group=None):
    return (part(1, resource(group)) if group is not None else b"") + part(2, kind)


def query_route(topic):
    return part(1, resource(topic))


def query_assignment(topic, group):
    return part(1, resource(topic)) + part(2, resource(group))


def send(topic, message_id, body):
    """A request of one message."""
    return part(1, part(1, resource(topic)) + part(3, part(3, message_id) + part(5, 1) + part(6, 1)) + part(4, body))


def receive(topic, group, batch=32, poll_s=20, invisible_s=60):
    return (part(1, resource(group)) + part(2, part(1, resource(topic))) + part(3, expression()) + part(4, batch)
            + part(5, part(1, invisible_s)) + part(7, part(1, poll_s)))


def received(answers):
    """The messages of a receive: id, receipt handle and body."""
    found = [one for one in (find(answer, 2) for answer in answers) if one is not None]
    return [(find(one, 3, 3).decode(), find(one, 3, 12).decode(), find(one, 4)) for one in found]


def acknowledge(topic, group, taken):
    entries = b"".join(part(3, part(1, message_id) + part(2, handle)) for message_id, handle, _ in taken)
    return part(1, resource(group)) + part(2, resource(topic)) + entries


def terminate(group=None):
    return part(1, resource(group)) if group is not None else b""
