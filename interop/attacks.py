"""The holes of Apache RocketMQ 5.5.0 in authentication and authorization, tried against both servers.

Each attack is a function that gets a running server and returns its answer. `interop/auth.py` prints the answers of both; a case of RocketMQ fails when
the hole is no longer there, a case of Vostok when it is.
"""
import base64
import contextlib
import hashlib
import hmac
import json
import subprocess

from tests.kit import downloads, ports, servers
from tests.kit.process import Process
from tests.kit.remoting import Client
from tests.kit.waiting import PATIENCE_SECONDS

ROOT, ALICE = ("root", "rootsecret"), ("alice", "alice-secret")
SEND, MAX_OFFSET, CREATE_TOPIC, CREATE_USER, GET_USER, LIST_USER, CREATE_ACL = 310, 30, 17, 3001, 3004, 3005, 3006
STRATEGY = "org.apache.rocketmq.auth.{}.strategy.Stateful{}Strategy"
PROXY_PROVIDER = "org.apache.rocketmq.proxy.auth.Proxy{}MetadataProvider"
STATEFUL = {"authenticationStrategy": STRATEGY.format("authentication", "Authentication"), "authenticationWhitelist": MAX_OFFSET}
MESSAGE = {"a": "PG", "b": "orders", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1700000000000, "h": 0, "j": 0, "k": "false", "m": "false"}


def ask(client, user, code, fields=None, body=b"", forged=False):
    """Returns code and text or body of the answer. With `forged`, the request has the user's name and an invalid signature."""
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
    client = Client(server.broker)
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


def java_proxy(directory, server, grpc_port):
    """A proxy of RocketMQ in cluster mode, beside a running broker."""
    (directory / "conf").mkdir(parents=True)
    (directory / "conf" / "log.xml").write_text("<configuration/>")
    conf = directory / "conf" / "rmq-proxy.json"
    conf.write_text(json.dumps({
        "rocketMQClusterName": "DefaultCluster", "namesrvAddr": server.namesrv, "grpcServerPort": grpc_port, "remotingListenPort": ports.free_port(),
        "authenticationEnabled": True, "authenticationMetadataProvider": PROXY_PROVIDER.format("Authentication"), "authorizationEnabled": True,
        "authorizationMetadataProvider": PROXY_PROVIDER.format("Authorization"), "enableAclRpcHookForClusterMode": True,
        "innerClientAuthenticationCredentials": json.dumps({"accessKey": "inner", "secretKey": "innersecret"})}))
    command = ["java", "-Xmx512m", *servers.SHORT_LIVED, f"-Duser.home={directory}", f"-Drocketmq.home.dir={directory}",
               f"-Drmq.logback.configurationFile={directory}/conf/log.xml", "-cp", f"{downloads.rocketmq('proxy')}/*",
               "org.apache.rocketmq.proxy.ProxyStartup", "-pc", conf, "-pm", "CLUSTER"]
    return Process("proxy", directory, command, [grpc_port], {"RMQ_PROXY_HOME": str(directory)})


def route(grpc_port, **more):
    """Answer of QueryRoute to alice about the topic `far`, with further metadata."""
    signature = hmac.digest(ALICE[1].encode(), b"20240101T000000Z", hashlib.sha1).hex()
    credentials = f"MQv2-HMAC-SHA1 Credential=alice, SignedHeaders=x-mq-date-time, Signature={signature}"
    metadata = {"content-type": "application/grpc", "te": "trailers", "x-mq-client-id": "c", "x-mq-language": "JAVA", "x-mq-date-time": "20240101T000000Z",
                "authorization": credentials, **{key.replace("_", "-"): value for key, value in more.items()}}
    topic = b"\x0a\x05\x12\x03far"
    words = [word for key, value in metadata.items() for word in ("-H", f"{key}: {value}")]
    answer = subprocess.run([str(word) for word in ["curl", "-s", "--http2-prior-knowledge", "-m", PATIENCE_SECONDS, *words, "--data-binary", "@-",
                             f"http://127.0.0.1:{grpc_port}/apache.rocketmq.v2.MessagingService/QueryRoute"]],
                            input=b"\0" + len(topic).to_bytes(4, "big") + topic, capture_output=True).stdout
    return "served: broker-a" if b"broker-a" in answer else "".join(chr(byte) for byte in answer if 32 <= byte < 127)


def reused(server):
    client = Client(server.broker)
    first = ask(client, ALICE, SEND, MESSAGE, b"signed")
    return f"{first.split(' ')[0]}, then {ask(client, ALICE, SEND, MESSAGE, b'not signed', forged=True)}"


def opened(server):
    client = Client(server.broker)
    ask(client, ROOT, MAX_OFFSET, {"topic": "orders", "queueId": 0}, forged=True)
    return ask(client, ROOT, GET_USER, {"username": "root"}, forged=True)


def passwords(server):
    client = Client(server.broker)
    return f"{ask(client, ALICE, GET_USER, {'username': 'root'})}, {ask(client, ALICE, LIST_USER, {'filter': 'root'})}"


def ranges(server):
    return ask(Client(f"::1:{server.broker_port}"), ALICE, SEND, {**MESSAGE, "b": "near"}, b"from ::1")


def unverified(server):
    return ask(Client(server.broker), ROOT, GET_USER, {"username": "root"}, forged=True)


# Title, function, and the answers of RocketMQ and of Vostok.
ATTACKS = [
    ("stateful: a request behind a signed one needs no signature", reused, "^0, then 0", "^0, then 16 check signature failed"),
    ("stateful: a white-listed request opens the connection for its user", opened, '^0 .*"rootsecret"', "^16 check signature failed"),
    ("a normal user reads the passwords of super users (3004, 3005)", passwords, '^0 .*"rootsecret".*, 0 .*"rootsecret"', '^0 .*"root".*, 0 .*"root"'),
    ("a range of IPv4 lets IPv6 in", ranges, "^0", "^16 .*no permission .*near from ::1"),
]


KINDS = (servers.Java, servers.Vostok)


def metadata(case, auth, directory):
    """Addresses and users in the metadata that a client of gRPC sends."""
    for at, kind in enumerate(KINDS):
        grpc_port, home = ports.free_port(), directory / f"metadata-{at}"
        more = {"arguments": ["--grpc-port", grpc_port], "listens": [grpc_port]} if at == 1 else {}
        with contextlib.ExitStack() as running:
            server = running.enter_context(kind(home, auth, **more))
            prepare(server)
            if at == 0:
                running.enter_context(java_proxy(directory / "proxy", server, grpc_port))
            refused = "no permission to access Topic:far from 127.0.0.1"
            # The proxy of RocketMQ refuses with other texts until it knows the broker. Vostok gives its final answer at once.
            is_java = kind is servers.Java
            wanted, again = ("^served", {"again": ""}) if is_java else (refused, {})
            case(kind, "no metadata of a client, no way in", lambda: route(grpc_port), refused, **({"again": "^(?!served)"} if is_java else {}))
            case(kind, "an address in the metadata", lambda: route(grpc_port, rpc_remote_address="192.0.2.66:1"), wanted, **again)
            case(kind, "the name of a user in the metadata", lambda: route(grpc_port, x_mq_authorization_ak="root"), wanted, **again)


def attacks(run, auth, directory):
    """Attacks on RocketMQ, then on Vostok, counted by `run`; `auth` are the settings of a server with users and acls."""
    def case(kind, title, text, wanted, **more):
        is_ours = kind is servers.Vostok
        run.case(f"attack on {'Vostok' if is_ours else 'RocketMQ'}: {title}", text, wanted, "rootsecret" if is_ours else None, **more)

    for at, kind in enumerate(KINDS):
        with kind(directory / f"attacked-{at}", auth | STATEFUL) as server:
            prepare(server)
            for title, attack, *expected in ATTACKS:
                case(kind, title, attack(server), expected[at])
    metadata(case, auth, directory)
    title = "authorization without authentication: the name of a user is enough"
    settings = {key: value for key, value in auth.items() if key != "authenticationEnabled"}
    with servers.Java(directory / "unverified", settings) as java:
        case(servers.Java, title, unverified(java), '^0 .*"rootsecret"')
    ours = servers.Vostok(directory / "refused", settings)
    ended = subprocess.run(ours.command, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    case(servers.Vostok, title, f"exit code {ended.returncode} {ended.stderr.strip()}", "^exit code [1-9].*authorizationEnabled needs authenticationEnabled")
