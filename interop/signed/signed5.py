"""The same as signed.py with the Python client of RocketMQ 5.x, over gRPC. Argument: the endpoint."""
import sys

from rocketmq import ClientConfiguration, Credentials, Message, Producer

for line in sys.stdin:
    _, access_key, secret, topic, _ = line.split()
    credentials = Credentials() if access_key == "-" else Credentials(access_key, secret)
    said, producer = "ok", Producer(ClientConfiguration(sys.argv[1], credentials, "", 120), (topic,))
    try:
        producer.startup()
        message = Message()
        message.topic, message.body = topic, b"signed"
        producer.send(message)
        producer.shutdown()
    except Exception as error:  # noqa: BLE001 (the client has exceptions of several kinds)
        said = " ".join(str(error).split()) or type(error).__name__
    print("@@" + said, flush=True)
