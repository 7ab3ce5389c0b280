"""HTTP/2 as clients of gRPC speak it, frame by frame: for loads of very many connections, and for what no client does."""
import socket
import ssl
import struct
import time

DATA, HEADERS, RST, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS = 1, 1, 4
SERVICE = "/apache.rocketmq.v2.MessagingService/"
# Headers whose values are others with every call; libraries do not have the server keep them.
VARYING = {"authorization", "grpc-timeout", "x-mq-date-time", "x-mq-request-id"}
# Indices below this one are those of the static table of HPACK.
DYNAMIC = 62


def integer(value, bits, first):
    """An integer of HPACK in the low bits of its first byte and in further bytes."""
    most = (1 << bits) - 1
    if value < most:
        return bytes([first | value])
    rest, more = value - most, []
    while rest >= 128:
        more.append(rest % 128 + 128)
        rest //= 128
    return bytes([first | most, *more, rest])


def text(value):
    value = value.encode()
    return integer(len(value), 7, 0) + value


def field(name, value):
    """A header, neither indexed nor compressed."""
    return b"\0" + text(name) + text(value)


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def prefixed(message):
    """A message with the prefix of gRPC."""
    return struct.pack(">BI", 0, len(message)) + message


def messages(data):
    """The whole messages in the bytes of an answer."""
    at = 0
    while at + 5 <= len(data):
        length = int.from_bytes(data[at + 1:at + 5], "big")
        yield bytes(data[at + 5:at + 5 + length])
        at += 5 + length


class Connection:
    """One connection. Settings and pings of the server are answered; windows are so large that nothing of a test fills them."""

    def __init__(self, endpoint, context=None, source=None):
        host, port = endpoint.split(":")
        self.socket = socket.create_connection((host, int(port)), 10, source and (source, 0))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.scheme, self.authority = "http", endpoint
        if context is not None:
            self.socket, self.scheme = context.wrap_socket(self.socket, server_hostname="localhost"), "https"
        self.buffer, self.known, self.next_stream = bytearray(), {}, 1
        self.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0) + frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 30)))

    def send(self, kind, flags, stream, payload=b""):
        self.socket.sendall(frame(kind, flags, stream, payload))

    def header(self, name, value):
        """A header that the server keeps in its table from the first time on, as libraries of clients write it. The table has 4 KiB."""
        if name in VARYING:
            return field(name, value)
        count = len(self.known)
        at = self.known.setdefault((name, value), count)
        return integer(DYNAMIC + count - 1 - at, 7, 0x80) if at < count else b"\x40" + text(name) + text(value)

    def call(self, method, message, metadata, is_last=True):
        """Begins a call with a message; the number of its stream."""
        stream, self.next_stream = self.next_stream, self.next_stream + 2
        head = [(":method", "POST"), (":scheme", self.scheme), (":path", SERVICE + method), (":authority", self.authority),
                ("content-type", "application/grpc"), ("te", "trailers"), *metadata]
        block = b"".join(self.header(name, value) for name, value in head)
        self.socket.sendall(frame(HEADERS, END_HEADERS, stream, block) + frame(DATA, END_STREAM * is_last, stream, prefixed(message)))
        return stream

    def say(self, stream, message):
        """A further message of a call."""
        self.send(DATA, 0, stream, prefixed(message))

    def read(self):
        """Reads once; false when there is nothing on a socket that does not wait."""
        try:
            got = self.socket.recv(1 << 16)
        except (BlockingIOError, ssl.SSLWantReadError):
            return False
        if not got:
            raise ConnectionError("the server closed the connection")
        self.buffer += got
        return True

    def whole(self):
        """The next whole frame that was read: kind, flags, stream, payload; None when there is none."""
        if len(self.buffer) < 9:
            return None
        end = 9 + int.from_bytes(self.buffer[:3], "big")
        if len(self.buffer) < end:
            return None
        kind, flags, stream, payload = self.buffer[3], self.buffer[4], int.from_bytes(self.buffer[5:9], "big"), bytes(self.buffer[9:end])
        del self.buffer[:end]
        if kind in (SETTINGS, PING) and not flags & ACK:
            self.send(kind, ACK, 0, payload if kind == PING else b"")
        return kind, flags, stream, payload

    def frames(self):
        """The frames that are there, on a socket that does not wait."""
        while self.read():
            pass
        while found := self.whole():
            yield found

    def frame(self, *kinds, seconds=10):
        """Waits for the next frame of one of these kinds: kind, flags, stream, payload."""
        end = time.monotonic() + seconds
        while True:
            while found := self.whole():
                if found[0] in kinds:
                    return found
            self.socket.settimeout(max(0.01, end - time.monotonic()))
            self.read()

    def answer(self, stream, seconds=10):
        """Waits for the end of a call; the messages of its answer."""
        found = bytearray()
        while True:
            kind, flags, of, payload = self.frame(DATA, HEADERS, RST, GOAWAY, seconds=seconds)
            if kind == GOAWAY or (kind == RST and of == stream):
                raise ConnectionError(f"the call ended with frame {kind}: {payload}")
            if of == stream and kind == DATA:
                found += payload
            if of == stream and flags & END_STREAM:
                return list(messages(found))

    def ping(self, payload=b"12345678", seconds=10):
        """Sends a ping and waits for its answer; seconds that took."""
        begin = time.monotonic()
        self.send(PING, 0, 0, payload)
        while True:
            kind, flags, _, found = self.frame(PING, GOAWAY, seconds=seconds)
            if kind == GOAWAY:
                raise AssertionError(f"a ping was answered with GOAWAY {found}")
            if flags & ACK and found == payload:
                return time.monotonic() - begin

    def close(self):
        self.socket.close()
