"""Sends with the credentials that a line on standard input names: `send ACCESSKEY SECRET TOPIC GROUP`, where "-" as access
key means no credentials. Answers each line with `ok`, or with what the client says of the refusal. Argument: the name server."""
import sys

from rocketmq.client import Message, Producer

for line in sys.stdin:
    _, access_key, secret, topic, group = line.split()
    producer = Producer(group, timeout=120_000)
    producer.set_namesrv_addr(sys.argv[1])
    if access_key != "-":
        producer.set_session_credentials(access_key, secret, "")
    said = "ok"
    try:
        producer.start()
        message = Message(topic)
        message.set_body("signed")
        producer.send_sync(message)
    except Exception as error:  # noqa: BLE001 (the client has exceptions of several kinds)
        said = " ".join(str(error).split())
    print("@@" + said, flush=True)
    # The C++ client waits for its threads when it is shut down; the process ends them all the same.
