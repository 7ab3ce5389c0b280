"""The holes of Apache RocketMQ 5.5.0 in authentication and authorization, tried against both servers.

Each attack is a function that gets a running server and says what it got. `interop/auth` prints the outcome of both; a case of RocketMQ fails when the
hole is no longer there, a case of Vostok when it is.
"""
import base64
import hashlib
import hmac
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import local  # beside bench/run
from replica_client import Client

HERE = Path(__file__).resolve().parent
JARS = HERE / ".work" / "proxy-5.5.0"

ROOT, ALICE = ("root", "rootsecret"), ("alice", "alice-secret")
SEND, MAX_OFFSET, CREATE_TOPIC, CREATE_USER, GET_USER, LIST_USER, CREATE_ACL = 310, 30, 17, 3001, 3004, 3005, 3006
STRATEGY = "org.apache.rocketmq.auth.{}.strategy.Stateful{}Strategy"
PROXY_PROVIDER = "org.apache.rocketmq.proxy.auth.Proxy{}MetadataProvider"
STATEFUL = ["authenticationStrategy=" + STRATEGY.format("authentication", "Authentication"), f"authenticationWhitelist={MAX_OFFSET}"]
MESSAGE = {"a": "PG", "b": "orders", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1700000000000, "h": 0, "j": 0, "k": "false", "m": "false"}


def port(server):
    return int(server.broker.rsplit(":", 1)[1])


def ask(client, user, code, fields=None, body=b"", forged=False):
    """The code of the answer and its text or body; `forged` sends the user's name with a signature that is none of it."""
    name, secret = user
    fields = {**{key: str(value) for key, value in (fields or {}).items()}, "AccessKey": name}
    if forged:
        fields["Signature"] = "AAAAAAAAAAAAAAAAAAAAAAAAAAA="
    else:
        text = "".join(fields[key] for key in sorted(fields)).encode() + body
        fields["Signature"] = base64.b64encode(hmac.digest(secret.encode(), text, hashlib.sha1)).decode()
    answer, found = client.call(code, fields, body)
    return f"{answer['code']} {answer.get('remark') or ''} {found.decode(errors='replace')}".strip()


def prepare(server):
    """Makes a topic, and alice, who may send to one topic, read the cluster, and send to two topics from certain addresses."""
    client = Client(port(server))
    made = ask(client, ROOT, CREATE_USER, {"username": "alice"}, json.dumps({"username": "alice", "password": ALICE[1]}).encode())
    entry = {"resource": "Topic:orders", "actions": ["Pub"], "decision": "Allow"}
    acl = {"policies": [{"policyType": "Custom", "entries": [entry, {"resource": "Cluster:DefaultCluster", "actions": ["Get"], "decision": "Allow"},
                                                             {**entry, "resource": "Topic:near", "sourceIps": ["0.0.0.0/8"]},
                                                             {**entry, "resource": "Topic:far", "sourceIps": ["192.0.2.66"]}]}]}
    allowed = ask(client, ROOT, CREATE_ACL, {"subject": "User:alice"}, json.dumps(acl).encode())
    fields = {"topic": "far", "defaultTopic": "TBW102", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0,
              "order": "false"}
    topic = ask(client, ROOT, CREATE_TOPIC, fields)
    if (made[0], allowed[0], topic[0]) != ("0", "0", "0"):
        raise RuntimeError(f"alice and her topic cannot be made: {made}, {allowed}, {topic}")


class JavaProxy:
    """A proxy of RocketMQ in cluster mode, beside a running broker."""

    def __init__(self, directory, server, grpc_port):
        if not (JARS / ".complete").exists():
            subprocess.run(["mvn", "-q", "-B", "-f", HERE / "proxy" / "pom.xml", "dependency:copy-dependencies", "-DincludeScope=runtime",
                            f"-DoutputDirectory={JARS}"], check=True)
            (JARS / ".complete").touch()
        (directory / "conf").mkdir(parents=True)
        self.log, conf = directory / "proxy.log", directory / "conf" / "rmq-proxy.json"
        remoting, _ = local.free_ports()
        conf.write_text(json.dumps({
            "rocketMQClusterName": "DefaultCluster", "namesrvAddr": server.namesrv, "grpcServerPort": grpc_port, "remotingListenPort": remoting,
            "authenticationEnabled": True, "authenticationMetadataProvider": PROXY_PROVIDER.format("Authentication"), "authorizationEnabled": True,
            "authorizationMetadataProvider": PROXY_PROVIDER.format("Authorization"), "enableAclRpcHookForClusterMode": True,
            "innerClientAuthenticationCredentials": json.dumps({"accessKey": "inner", "secretKey": "innersecret"})}))
        (directory / "conf" / "log.xml").write_text("<configuration/>")
        with open(self.log, "ab") as file:
            self.process = subprocess.Popen(
                ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Duser.home={directory}", f"-Drocketmq.home.dir={directory}",
                 f"-Drmq.logback.configurationFile={directory}/conf/log.xml", "-cp", f"{JARS}/*", "org.apache.rocketmq.proxy.ProxyStartup", "-pc", conf,
                 "-pm", "CLUSTER"], stdout=file, stderr=file, stdin=subprocess.DEVNULL, env={**os.environ, "RMQ_PROXY_HOME": str(directory)})
        local.await_ports(self.process, [grpc_port], 60, self.log)

    def stop(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def route(grpc_port, **more):
    """What QueryRoute says to alice about the topic `far`, with further metadata."""
    signature = hmac.digest(ALICE[1].encode(), b"20240101T000000Z", hashlib.sha1).hex()
    credentials = f"MQv2-HMAC-SHA1 Credential=alice, SignedHeaders=x-mq-date-time, Signature={signature}"
    metadata = {"content-type": "application/grpc", "te": "trailers", "x-mq-client-id": "c", "x-mq-language": "JAVA", "x-mq-date-time": "20240101T000000Z",
                "authorization": credentials, **{key.replace("_", "-"): value for key, value in more.items()}}
    topic = b"\x0a\x05\x12\x03far"
    words = [word for key, value in metadata.items() for word in ("-H", f"{key}: {value}")]
    answer = subprocess.run(["curl", "-s", "--http2-prior-knowledge", "-m", "20", *words, "--data-binary", "@-",
                             f"http://127.0.0.1:{grpc_port}/apache.rocketmq.v2.MessagingService/QueryRoute"],
                            input=b"\0" + len(topic).to_bytes(4, "big") + topic, capture_output=True).stdout
    return "served: broker-a" if b"broker-a" in answer else "".join(chr(byte) for byte in answer if 32 <= byte < 127)


def reused(server):
    client = Client(port(server))
    first = ask(client, ALICE, SEND, MESSAGE, b"signed")
    return f"{first.split(' ')[0]}, then {ask(client, ALICE, SEND, MESSAGE, b'not signed', forged=True)}"


def opened(server):
    client = Client(port(server))
    ask(client, ROOT, MAX_OFFSET, {"topic": "orders", "queueId": 0}, forged=True)
    return ask(client, ROOT, GET_USER, {"username": "root"}, forged=True)


def passwords(server):
    client = Client(port(server))
    return f"{ask(client, ALICE, GET_USER, {'username': 'root'})}, {ask(client, ALICE, LIST_USER, {'filter': 'root'})}"


def ranges(server):
    return ask(Client(f"::1:{port(server)}"), ALICE, SEND, {**MESSAGE, "b": "near"}, b"from ::1")


def unverified(server):
    return ask(Client(port(server)), ROOT, GET_USER, {"username": "root"}, forged=True)


# What is tried, and what RocketMQ and Vostok answer.
ATTACKS = [
    ("stateful: a request behind a signed one needs no signature", reused, "^0, then 0", "^0, then 16 check signature failed"),
    ("stateful: a white-listed request opens the connection for its user", opened, '^0 .*"rootsecret"', "^16 check signature failed"),
    ("a normal user reads the passwords of super users (3004, 3005)", passwords, '^0 .*"rootsecret".*, 0 .*"rootsecret"', '^0 .*"root".*, 0 .*"root"'),
    ("a range of IPv4 lets IPv6 in", ranges, "^0", "^16 .*no permission .*near from ::1"),
]


def metadata(case, kinds, auth, directory):
    """What a client of gRPC says about itself."""
    for at, kind in enumerate(kinds):
        grpc_port, _ = local.free_ports()
        server, proxy = kind(directory / f"metadata-{at}", auth), None
        if at == 1:
            server.roles += ["--grpc-port", str(grpc_port)]
        server.start()
        try:
            prepare(server)
            if at == 0:
                proxy = JavaProxy(directory / "proxy", server, grpc_port)
            until = time.monotonic() + 60
            while "from 127.0.0.1" not in (refused := route(grpc_port)) and time.monotonic() < until:
                time.sleep(0.5)
            case(kind, "no metadata of a client, no way in", refused, "no permission to access Topic:far from 127.0.0.1")
            wanted = ("served", "no permission to access Topic:far from 127.0.0.1")[at]
            case(kind, "an address in the metadata", route(grpc_port, rpc_remote_address="192.0.2.66:1"), wanted)
            case(kind, "the name of a user in the metadata", route(grpc_port, x_mq_authorization_ak="root"), wanted)
        finally:
            if proxy:
                proxy.stop()
            server.stop()


def attacks(run, kinds, auth, directory):
    """`kinds` are RocketMQ and Vostok as classes of `interop/auth`, and `auth` are the settings of a server with users and acls."""
    def case(kind, title, text, wanted):
        is_ours = kind is kinds[1]
        print(f"    {'Vostok' if is_ours else 'RocketMQ'}: {text[:150]}", flush=True)
        run.case(f"attack on {'Vostok' if is_ours else 'RocketMQ'}: {title}", text, wanted, "rootsecret" if is_ours else None)

    for at, kind in enumerate(kinds):
        server = kind(directory / f"attacked-{at}", [*auth, *STATEFUL])
        server.start()
        try:
            prepare(server)
            for title, attack, *expected in ATTACKS:
                case(kind, title, attack(server), expected[at])
        finally:
            server.stop()
    metadata(case, kinds, auth, directory)
    title = "authorization without authentication: the name of a user is enough"
    settings = [line for line in auth if not line.startswith("authenticationEnabled")]
    java = kinds[0](directory / "unverified", settings)
    java.start()
    try:
        case(kinds[0], title, unverified(java), '^0 .*"rootsecret"')
    finally:
        java.stop()
    ours = kinds[1](directory / "refused", settings)
    ended = subprocess.run(ours.command(1, 1), capture_output=True, text=True, timeout=30)
    case(kinds[1], title, f"exit code {ended.returncode} {ended.stderr.strip()}", "authorizationEnabled needs authenticationEnabled")
