"""The holes of Apache RocketMQ 5.5.0 in authentication and authorization (issue 17, point 9), tried against both servers.

Each attack is a function that gets a running server and says what it got. `interop/auth` prints the outcome of both; a case of RocketMQ fails when the
hole is no longer there, a case of Vostok when it is.
"""
import base64
import hashlib
import hmac
import json
import subprocess

from replica_client import Client

ROOT, ALICE = ("root", "rootsecret"), ("alice", "alice-secret")
SEND, MAX_OFFSET, CREATE_USER, GET_USER, LIST_USER, CREATE_ACL = 310, 30, 3001, 3004, 3005, 3006
STRATEGY = "org.apache.rocketmq.auth.{}.strategy.Stateful{}Strategy"
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
    """Makes alice, who may send to one topic, read the cluster, and from an IPv4 network send to another one."""
    client = Client(port(server))
    made = ask(client, ROOT, CREATE_USER, {"username": "alice"}, json.dumps({"username": "alice", "password": ALICE[1]}).encode())
    entry = {"resource": "Topic:orders", "actions": ["Pub"], "decision": "Allow"}
    acl = {"policies": [{"policyType": "Custom", "entries": [entry, {"resource": "Cluster:DefaultCluster", "actions": ["Get"], "decision": "Allow"},
                                                             {**entry, "resource": "Topic:near", "sourceIps": ["0.0.0.0/8"]}]}]}
    allowed = ask(client, ROOT, CREATE_ACL, {"subject": "User:alice"}, json.dumps(acl).encode())
    if (made[0], allowed[0]) != ("0", "0"):
        raise RuntimeError(f"alice cannot be made: {made}, {allowed}")


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
