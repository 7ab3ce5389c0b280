"""Scenarios of the native Python client (RocketMQ's C++ client inside), several at a time, each with its own topic and groups.

Arguments and output are those of `interop/remoting_clients.py`; `list` prints the names of the scenarios.
"""
import os
import random
import sys
import threading
import time
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from rocketmq.client import Message, Producer, PullConsumer, PushConsumer, RecvMessage, SendStatus
from rocketmq.exceptions import RocketMQException
from rocketmq.ffi import MessageModel, _CConsumeStatus, dll

AT_ONCE = 6
PATIENCE_SECONDS = 240


def check(holds, text):
    if not holds:
        raise AssertionError(text)


def equal(expected, found, what):
    check(expected == found, f"{what}: expected {expected!r:.200}, found {found!r:.200}")


def wait_for(what, holds, progress):
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        check(time.monotonic() < end, f"waited {PATIENCE_SECONDS} s for {what}; found {progress()!r:.300}")
        time.sleep(0.02)


def answered(send):
    """Sends a message and returns the answer. The client refuses a send, without a request, while it looks for the route."""
    answers, refusals = [], []

    def is_sent():
        try:
            answers.append(send())
        except RocketMQException as refusal:
            check("route" in str(refusal), refusal)
            refusals.append(refusal)
        return answers

    wait_for("a send", is_sent, lambda: refusals[-1:])
    equal(SendStatus.OK, answers[0].status, "status")
    return answers[0]


class Got:
    """Fields of a delivery; the client's own message is gone after the callback."""

    def __init__(self, message):
        self.topic, self.id, self.queue, self.offset = message.topic, message.id, message.queue_id, message.queue_offset
        self.body, self.tags, self.keys = message.body, message.tags, message.keys
        self.color, self.times, self.at = message.get_property("color"), message.reconsume_times, time.monotonic()


class Inbox:
    def __init__(self):
        self.lock, self.messages = threading.Lock(), []

    def take(self, message):
        with self.lock:
            self.messages.append(Got(message))

    def bodies(self):
        with self.lock:
            return [one.body for one in self.messages]


class Stage:
    """Topic, group and clients of one scenario. A consumer of a topic that does not exist yet looks for it every 30 s."""

    def __init__(self, namesrv, scenario, run):
        self.namesrv, self.topic, self.group = namesrv, f"T_{scenario}_{run}", f"G_{scenario}_{run}"
        self.clients = []

    def started(self, client, *setup):
        client.set_namesrv_addr(self.namesrv)
        for step in setup:
            step(client)
        client.start()
        self.clients.append(client)
        return client

    def producer(self, timeout=PATIENCE_SECONDS * 1000, **options):
        """A producer with connections of its own, because the client locks shared connections while one of its scenarios connects."""
        name = f"{self.group}_P{len(self.clients)}"
        return self.started(Producer(name, timeout=timeout, **options), lambda one: dll.SetProducerInstanceName(one._handle, name.encode()))

    def push(self, inbox, expression="*", name="c", **options):
        """A push consumer that puts what it gets into `inbox`."""
        return self.started(PushConsumer(self.group, **options), lambda one: one.set_instance_name(f"{self.group}-{name}"),
                            lambda one: one.subscribe(self.topic, inbox.take, expression))

    def message(self, body, tag=None, key=None, color=None, delay_level=None):
        made = Message(self.topic)
        made.set_body(body)
        if tag:
            made.set_tags(tag)
        if key:
            made.set_keys(key)
        if color:
            made.set_property("color", color)
        if delay_level:
            made.set_delay_time_level(delay_level)
        return made

    def send(self, producer, body, **fields):
        return answered(lambda: producer.send_sync(self.message(body, **fields)))

    def receive(self, inbox, count):
        wait_for(f"{count} messages", lambda: len(inbox.bodies()) >= count, lambda: Counter(inbox.bodies()))
        equal(count, len(inbox.bodies()), "messages")
        return inbox.messages

    def close(self):
        for client in reversed(self.clients):
            client.shutdown()


def texts(count, prefix="message"):
    return [f"{prefix} {number}".encode() for number in range(count)]


def send_sync(stage):
    producer, inbox = stage.producer(), Inbox()
    sent = {body: stage.send(producer, body, tag="T", key=f"k-{body.decode()}", color="blau-蓝") for body in texts(40)}
    stage.push(inbox)
    for one in stage.receive(inbox, 40):
        equal((sent[one.body].msg_id, sent[one.body].offset), (one.id, one.offset), "id and offset")
        found = (one.topic, one.tags.decode(), one.keys.decode(), one.color.decode(), one.times)
        equal((stage.topic, "T", f"k-{one.body.decode()}", "blau-蓝", 0), found, "fields")
    equal(set(sent), set(inbox.bodies()), "bodies")
    return f"40 messages in {len({one.queue for one in inbox.messages})} queues"


def send_async(stage):
    producer, inbox, answers, wrong = stage.producer(), Inbox(), [], []
    stage.send(producer, b"first")
    for body in texts(100):
        producer.send_async(stage.message(body), answers.append, wrong.append)
    wait_for("100 answers", lambda: len(answers) + len(wrong) == 100, lambda: (len(answers), wrong))
    equal([], wrong, "failures")
    equal({SendStatus.OK}, {one.status for one in answers}, "status")
    stage.push(inbox)
    stage.receive(inbox, 101)
    equal({b"first", *texts(100)}, set(inbox.bodies()), "bodies")
    return "100 answers"


def send_oneway(stage):
    producer, inbox = stage.producer(), Inbox()
    stage.send(producer, b"first")
    for body in texts(50):
        producer.send_oneway(stage.message(body))
    stage.push(inbox)
    stage.receive(inbox, 51)
    equal({b"first", *texts(50)}, set(inbox.bodies()), "bodies")
    return "50 messages"


def compression(stage):
    producer, inbox = stage.producer(compress_level=5), Inbox()
    bodies = [(b"%d " % number) * 20_000 for number in range(5)] + [bytes(random.Random(1).choices(range(1, 256), k=100_000))]  # texts in C: no zero bytes
    for body in bodies:
        stage.send(producer, body)
    stage.push(inbox)
    stage.receive(inbox, len(bodies))
    check(sorted(bodies) == sorted(inbox.bodies()), "a body is not what was sent")
    return f"{sum(map(len, bodies)):,} bytes read back"


def tags(stage):
    producer, inbox = stage.producer(), Inbox()
    for number in range(60):
        stage.send(producer, b"%d" % number, tag="ABC"[number % 3])
    stage.push(inbox, "A || C")
    for one in stage.receive(inbox, 40):
        check(one.tags in (b"A", b"C"), f"tag {one.tags}")
    return "40 of 60"


def orderly(stage):
    producer, inbox = stage.producer(), Inbox()
    answered(lambda: producer.send_orderly(stage.message(b"0 0"), 0))
    stage.push(inbox, orderly=True)
    for number in range(1, 200):
        answered(lambda: producer.send_orderly(stage.message(b"%d %d" % (number % 8, number)), number % 8))
    stage.receive(inbox, 200)
    last = {}
    for one in inbox.messages:
        key, number = map(int, one.body.split())
        check(last.get(key, -1) < number, f"{number} of {key} after {last.get(key)}")
        last[key] = number
    equal(8, len(last), "keys")
    return "8 keys of 25 messages in order"


def broadcast(stage):
    producer, inboxes = stage.producer(), [Inbox(), Inbox()]
    stage.send(producer, b"before")
    for number, inbox in enumerate(inboxes):
        stage.push(inbox, name=f"member{number}", message_model=MessageModel.BROADCASTING)
    rounds = 0

    def is_complete():
        """Sends a round and tells whether both members got all of it: each gets all messages from some message on."""
        nonlocal rounds
        rounds += 1
        sent = {stage.send(producer, body) and body for body in texts(10, f"round {rounds}")}
        time.sleep(1)
        return all(sent <= set(inbox.bodies()) for inbox in inboxes)

    wait_for("a round at both members", is_complete, lambda: [len(inbox.bodies()) for inbox in inboxes])
    for inbox in inboxes:
        equal(1, max(Counter(inbox.bodies()).values()), "deliveries of a message")
    return f"two members got the same after {rounds} rounds"


def pull(stage):
    producer = stage.producer()
    for body in texts(100):
        stage.send(producer, body)
    puller = stage.started(PullConsumer(stage.group))
    for expected in (texts(100), [b"one more"]):
        found = []
        wait_for(f"{len(expected)} messages", lambda: found.extend(one.body for one in puller.pull(stage.topic)) or len(found) >= len(expected),
                 lambda: len(found))
        equal(sorted(expected), sorted(found), "bodies from where the last pull ended")
        stage.send(producer, b"one more")
    return "101 messages"


def delay(stage):
    producer, inbox = stage.producer(), Inbox()
    stage.send(producer, b"now")
    stage.push(inbox)
    sent = {level: (time.monotonic(), stage.send(producer, b"%d" % level, delay_level=level)) for level in (1, 2)}
    for one in stage.receive(inbox, 3):
        if one.body != b"now":
            level = int(one.body)
            took = one.at - sent[level][0]
            check(took >= {1: 1, 2: 5}[level], f"level {level} came after {took:.3f} s")
    return "levels 1 and 2"


def retry(stage):
    """Refuses one message in each queue: of more messages the client gives back only the first. The callback answers by itself, because
    the client's `subscribe` makes a success of an exception."""
    producer, inbox = stage.producer(), Inbox()

    def refuse_once(_, handle):
        message = RecvMessage(handle)
        inbox.take(message)
        done = message.reconsume_times > 0
        return (_CConsumeStatus.CONSUME_SUCCESS if done else _CConsumeStatus.RECONSUME_LATER).value

    stage.send(producer, texts(4)[0], key="again")
    stage.started(PushConsumer(stage.group), lambda one: one.set_instance_name(stage.group),
                  lambda one: one.subscribe(stage.topic, inbox.take), lambda one: one._register_callback(refuse_once))
    for body in texts(4)[1:]:
        stage.send(producer, body, key="again")
    stage.receive(inbox, 8)
    for body in texts(4):
        first, second = [one for one in inbox.messages if one.body == body]
        equal((0, 1, b"again"), (first.times, second.times, second.keys), "deliveries before this one, and keys")
        check(second.at - first.at >= 9.9, f"again after {second.at - first.at:.2f} s")
    return "4 messages refused once"


def ask(request):
    """Asks the runner for a restart and waits until the server is back."""
    print(f"@{request}\n", end="", flush=True)
    sys.stdin.readline()


def go_on(stage, request):
    producer, inbox, sent = stage.producer(20_000), Inbox(), []

    def send(count):
        for _ in range(count):
            body = b"%d" % len(sent)
            stage.send(producer, body)
            sent.append(body)

    send(50)
    stage.push(inbox)
    wait_for("50 messages", lambda: set(sent) <= set(inbox.bodies()), lambda: len(inbox.bodies()))
    ask(request)
    failures = []

    def is_sent():
        try:
            send(100 - len(sent))
        except (RocketMQException, AssertionError) as failure:
            failures.append(failure)
        return len(sent) == 100

    wait_for("100 answers", is_sent, lambda: failures[-1:])
    wait_for("all messages", lambda: set(sent) <= set(inbox.bodies()), lambda: len(set(inbox.bodies())))
    twice = len(inbox.bodies()) - len(set(inbox.bodies()))
    return f"100 messages, {twice} of them twice"


SCENARIOS = {
    "retry": retry, "broadcast": broadcast, "delay": delay, "send-sync": send_sync, "send-async": send_async,
    "send-oneway": send_oneway, "compression": compression, "tags": tags, "orderly": orderly,
    "pull": pull, "restart": lambda stage: go_on(stage, "restart"), "kill9": lambda stage: go_on(stage, "kill9"),
}


STAGES = []


def perform(name):
    begun = time.monotonic()
    stage = Stage(sys.argv[1], name, sys.argv[3])
    STAGES.append(stage)
    try:
        outcome, text = "ok", SCENARIOS[name](stage)
    except Exception as error:  # whatever it is, the others go on
        traceback.print_exc()
        outcome, text = "fail", f"{type(error).__name__}: {' '.join(str(error).split())}"
    # The end of line is in the text, because other threads print too.
    print(f"@{outcome} {name} {time.monotonic() - begun:.1f} {text}\n", end="", flush=True)


if sys.argv[1:] == ["list"]:
    print("\n".join(SCENARIOS))
else:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(perform, sys.argv[4:]))
    # A consumer that shuts down destroys a mutex that another thread of the client may be about to lock. Clients are kept until all results
    # are printed, and the process ends without Python's own clean-up, because threads of the client do not always end.
    for stage in STAGES:
        stage.close()
    os._exit(0)
