"""Sends with the credentials that a line on standard input names: `send ACCESSKEY SECRET TOPIC GROUP`, where "-" as access
key means no credentials. Answers each line with `ok`, or with code and text of the refusal. Argument: the name server."""
import os
import re
import sys
from pathlib import Path

from rocketmq.client import Message, Producer



def log():
    """Log of the C++ client. Exceptions of a send have one text for all causes; the log has code and text of the broker."""
    file = Path.home() / "logs" / "rocketmq-cpp" / f"{os.getpid()}_rocketmq-cpp.log.0"
    return file.read_text(errors="replace") if file.exists() else ""


for line in sys.stdin:
    _, access_key, secret, topic, group = line.split()
    producer = Producer(group, timeout=120_000)
    producer.set_namesrv_addr(sys.argv[1])
    if access_key != "-":
        producer.set_session_credentials(access_key, secret, "")
    said, before = "ok", len(log())
    try:
        producer.start()
        message = Message(topic)
        message.set_body("signed")
        producer.send_sync(message)
    except Exception as error:  # noqa: BLE001 (the client has exceptions of several kinds)
        refusals = re.findall(r"error remark:(.*?), error code:(\d+)", log()[before:])
        said = " ".join((" ".join(reversed(refusals[-1])) if refusals else str(error)).split())
    print("@@" + said, flush=True)
    # The C++ client waits for its threads when it is shut down; the process ends them all the same.
