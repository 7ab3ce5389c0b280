"""Official clients and the real mqadmin with right, wrong and no credentials, against Vostok or Apache RocketMQ 5.5.0.

    python3 -m interop.auth [--short] [--against vostok|java] [--only users|names|rules|starts|attacks] [--client TEXT] [--show] [--keep]

Vostok runs with users and acls (Auth 2.0) and with plain_acl.yml (ACL 1.0), which 5.5.0 no longer has. `--short` takes the Java clients
alone and leaves out guarded name servers and attacks. Prints a line for each case and ends with `auth: N passed, N failed, N skipped`.
"""
import argparse
import contextlib
import json
import re
import shutil
import subprocess
from dataclasses import dataclass

from interop import mqadmin
from interop.attacks import MESSAGE, ROOT as SUPER, SEND, ask, attacks
from tests.kit import downloads, ports, servers
from tests.kit.paths import ROOT, VOSTOK, WORK
from tests.kit.remoting import Client
from tests.kit.report import Report, scratch
from tests.kit.waiting import PATIENCE_SECONDS, eventually

# Texts of a request that got no answer, because the server was late or the connection was lost. A refusal has none of them.
LATE = (r"(?i)time[d ]*out|deadline|Remoting(Connect|SendRequest|TooMuchRequest)Exception|connect(ion)? (failed|refused|reset|closed|lost)"
        r"|connect to .* failed|cannot connect|broken pipe|unavailable|no answer|did not answer|no connection|\bEOF\b|^$")
# Texts of a client whose name server was late, or has no route yet.
NO_ROUTE = r"no route info|route info not found"
SIGNED = ROOT / "interop" / "signed"
OLD = "4.9.8"
ROUTE, DELETE_TOPIC = 105, 216
PROVIDER = "org.apache.rocketmq.auth.{}.provider.Local{}MetadataProvider"
AUTH = {"authenticationEnabled": "true", "authenticationMetadataProvider": PROVIDER.format("authentication", "Authentication"),
        "authorizationEnabled": "true", "authorizationMetadataProvider": PROVIDER.format("authorization", "Authorization"),
        "initAuthenticationUser": '{"username":"root","password":"rootsecret"}',
        "innerClientAuthenticationCredentials": '{"accessKey":"inner","secretKey":"innersecret"}'}
PLAIN = """globalWhiteRemoteAddresses: []
accounts:
- accessKey: alice-key
  secretKey: alice-secret
  defaultTopicPerm: DENY
  defaultGroupPerm: DENY
  topicPerms: [orders=PUB|SUB]
  groupPerms: [billing=SUB]
- accessKey: carol-key
  secretKey: carol-secret
- accessKey: root-key
  secretKey: rootsecret
  admin: true
"""


@dataclass
class Signed:
    """A client program that sends with the credentials of each line of its input."""
    name: str
    # Words before the address of the server.
    command: list
    # Whether the client pulls, too.
    pulls: bool = False
    # Whether the client prints code and text of a refusal.
    codes: bool = False
    grpc: bool = False


def java(version, artifact):
    """Signed.java on a version of the Java client. Only 4.9.8 has the calls of Rules.java, which change ACL 1.0."""
    jars = downloads.jars(WORK / f"signed-{version}", SIGNED / "pom.xml", client_version=version, signing_artifact=artifact)
    sources = [SIGNED / f"{name}.java" for name in (("Signed", "Rules") if version == OLD else ("Signed",))]
    classes = downloads.classes(WORK / f"signed-classes-{version}", jars, sources)
    return ["java", "-Xmx256m", *servers.SHORT_LIVED, f"-Duser.home={WORK}", "-Drocketmq.client.logLevel=WARN", "-cp", f"{classes}:{jars}/*"]


CLIENTS = {
    f"java-{OLD}": lambda: Signed(f"java-{OLD}", [*java(OLD, "rocketmq-acl"), "Signed"], pulls=True, codes=True),
    "java-5.5.0": lambda: Signed("java-5.5.0", [*java("5.5.0", "rocketmq-common"), "Signed"], pulls=True, codes=True),
    "go-2.1.2": lambda: Signed("go-2.1.2", [downloads.go(WORK / "signed-go", ROOT / "interop" / "go", "./signed")]),
    "python-0.4.4": lambda: Signed("python-0.4.4", [downloads.python(WORK / "python-0.4.4", "rocketmq==0.4.4"), SIGNED / "signed.py"], codes=True),
    "grpc-python-5.1.2": lambda: Signed("grpc-python-5.1.2", [downloads.python(WORK / "grpc-python-5.1.2", "rocketmq-python-client==5.1.2"),
                                                              SIGNED / "signed5.py"], grpc=True),
}


def program(*words):
    """Output of a program that ends by itself."""
    ended = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True,
                           timeout=PATIENCE_SECONDS)
    return f"exit code {ended.returncode}\n{ended.stdout}"


class Run:
    """Cases that are counted and printed."""

    def __init__(self, report, show):
        self.report, self.show = report, show

    def case(self, title, text, wanted, lacks=None, again=LATE):
        """Checks that a text has the pattern `wanted` and lacks the pattern `lacks`.

        A function is called again while its text is wrong and has the pattern `again`. An outcome that takes time has an empty pattern.
        """
        texts = []

        def is_right():
            texts.append(text() if callable(text) else text)
            return re.search(wanted, texts[-1]) is not None and (lacks is None or re.search(lacks, texts[-1]) is None)

        verdicts = []

        def ends():
            verdicts.append(is_right())
            return verdicts[-1] or not re.search(again, texts[-1])

        if callable(text):
            eventually(ends)
        good = verdicts[-1] if verdicts else is_right()
        self.report.check(title, good, f"expected /{wanted}/" + (f" and not /{lacks}/" if lacks else ""))
        if not good or self.show:
            print(mqadmin.quoted(texts[-1]), end="", flush=True)

    def clients(self, label, clients, server, directory, names, is_told=True, grpc=None):
        """Runs every client with right, wrong and no credentials.

        `names` are user, secret, patterns of the texts of refusals, an unknown user, and a user whose secret is guessed. After a wrong
        secret the server delays all requests of that user. `is_told` is whether clients print the text of a refusal. A client that the
        name server refuses prints only that the topic has no route.
        """
        for client in clients:
            self.client(label, client, grpc if client.grpc else server.namesrv, directory, names, is_told)

    def client(self, label, client, address, directory, names, is_told):
        user, secret, none, unknown, wrong, other, nobody, guessed = names
        title, home = f"{label} {client.name}:", directory / f"{label}-{client.name}".replace(" ", "-")
        home.mkdir()
        with open(home / "err", "wb") as errors:
            process = subprocess.Popen([*client.command, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=home,
                                       env=servers.environment_of(home))

        def check(what, words, wanted, lacks=None, again=LATE):
            def text():
                process.stdin.write(words + "\n")
                process.stdin.flush()
                for line in process.stdout:
                    if line.startswith("@@"):
                        return line[2:].strip()
                raise RuntimeError(f"{title} the client ended: {(home / 'err').read_text(errors='replace')[-1000:]}")
            self.case(f"{title} {what}", text, wanted, lacks, again)

        def refused(what, words, text):
            """Checks a refusal. The text of a client without codes must be neither ok nor that of a late answer."""
            late = f"{LATE}|{NO_ROUTE}" if is_told else LATE
            if client.codes and is_told:
                check(what, words, f"16 .*{text}", again=late)
            else:
                check(what, words, r"^(?!ok$).+", lacks=late, again=late)

        try:
            check("a user sends what it may", f"send {user} {secret} orders billing", "^ok$", again=f"{LATE}|{NO_ROUTE}")
            refused("another topic is refused", f"send {user} {secret} secrets billing", other)
            refused("a wrong secret is refused", f"send {guessed} guessed-it orders billing", wrong)
            refused("no credentials are refused", "send - - orders billing", none)
            if client.pulls:
                refused("an unknown user is refused", f"send {nobody} {secret} orders billing", unknown)
                check("a group pulls what it may", f"pull {user} {secret} orders billing", "^ok$", again=f"{LATE}|{NO_ROUTE}")
                check("another group is refused", f"pull {user} {secret} orders spies", r"16 .*(Group|group):spies")
        finally:
            process.kill()
            process.wait()


def tools(directory, access_key=None, secret=None):
    """Writes the credentials that mqadmin reads before each command."""
    (directory / "conf").mkdir(exist_ok=True)
    (directory / "conf" / "tools.yml").write_text(f"accessKey: {access_key}\nsecretKey: {secret}\n" if access_key else "")


def administration(run, server, other, directory, is_guarded=False):
    """Users and acls by mqadmin; leaves alice with her grants. A guarded name server answers only users that it knows."""
    tools(directory, *SUPER)
    broker = ["-b", server.broker]
    with mqadmin.Shell(directory, server.namesrv) as shell:
        def case(title, words, wanted, lacks=r"Exception"):
            outputs = []

            def is_right(text):
                outputs.append(text)
                return re.search(wanted, text) is not None

            text = mqadmin.hear(shell, words, is_right)
            # An earlier run may have created what it got no answer about.
            if len(outputs) > 1 and words[0].startswith("create") and "is existed" in text:
                wanted, lacks = "is existed", None
            run.case(f"mqadmin: {title}", text, wanted, lacks)

        case("updateTopic", ["updateTopic", *broker, "-t", "orders", "-a", "+message.type=NORMAL"], "success")
        case("createUser", ["createUser", *broker, "-u", "alice", "-p", "secret"], "success")
        case("createUser of a user that exists", ["createUser", *broker, "-u", "alice", "-p", "x"], "The user is existed", None)
        case("listUser", ["listUser", *broker], r"alice\s+(\S+\s+)?Normal\s+enable")
        case("updateUser", ["updateUser", *broker, "-u", "alice", "-p", "alice-secret"], "success")
        case("getUser", ["getUser", *broker, "-u", "alice"], "alice")
        case("createAcl", ["createAcl", *broker, "-s", "User:alice", "-r", "Topic:orders,Group:billing", "-a", "Pub,Sub", "-d", "Allow"], "success")
        case("getAcl", ["getAcl", *broker, "-s", "User:alice"], r"Topic:orders")
        case("updateAcl", ["updateAcl", *broker, "-s", "User:alice", "-r", "Topic:old*", "-a", "Sub", "-d", "Deny"], "success")
        case("listAcl", ["listAcl", *broker], r"(?s)Topic:old\*.*Deny")
        case("deleteAcl of one resource", ["deleteAcl", *broker, "-s", "User:alice", "-r", "Topic:old*"], "success")
        case("getAcl shows what is left", ["getAcl", *broker, "-s", "User:alice"], "Group:billing", r"Topic:old|Exception")
        if other:
            both = ["-f", server.broker, "-t", other.broker]
            case("copyUser", ["copyUser", *both, "-u", "alice"], "success")
            case("copyAcl", ["copyAcl", *both, "-s", "User:alice"], "success")
            case("the other broker has the user", ["listUser", "-b", other.broker], "alice")
            case("the other broker has the acl", ["getAcl", "-b", other.broker, "-s", "User:alice"], "Topic:orders")
            case("deleteUser", ["deleteUser", "-b", other.broker, "-u", "alice"], "success")
            case("its acl is gone, too", ["getAcl", "-b", other.broker, "-s", "User:alice"], "The subject is not exist", None)
        case("a command that needs the cluster", ["getBrokerConfig", *broker], "brokerName")
        tools(directory, "alice", "alice-secret")
        case("users are not for everybody", ["listUser", *broker], "User:alice has no permission to access Cluster:DefaultCluster", None)
        if not is_guarded:
            case("deleteTopic is not for everybody", ["deleteTopic", "-c", "DefaultCluster", "-t", "orders"], "User:alice has no permission to access Topic:orders", None)
        tools(directory)
        case("no credentials", ["listUser", *broker], "username cannot be null", None)


def moved(run, server, directory):
    """Users and acls from the running broker into files, and back."""
    def auth(*words):
        return program(VOSTOK, "auth", *words, "--ak", SUPER[0], "--sk", SUPER[1])

    def files(name):
        return {file: json.loads((directory / name / file).read_text()) for file in ("users.json", "acls.json") if (directory / name / file).exists()}

    run.case("vostok auth import", auth("import", "--from", server.broker, "--out", directory / "imported"), r"3 users and the acls of 1 of them are in ")
    found = files("imported")
    run.case("vostok auth import: users", json.dumps(found.get("users.json")), r'"alice-secret".*"Normal".*"rootsecret".*"Super"')
    run.case("vostok auth import: acls", json.dumps(found.get("acls.json")), r'Topic:orders.*User:alice')
    run.case("vostok auth export", lambda: auth("export", "--to", server.broker, "--in", directory / "imported"),
             r"3 users and the acls of 1 of them were written to ")
    run.case("vostok auth import of what was exported", auth("import", "--from", server.broker, "--out", directory / "again"), r"3 users and the acls of 1 of them")
    run.report.check("users and acls are as they were", found and found == files("again"), found)


def users(run, clients, kind, directory):
    """Auth 2.0."""
    texts = ("alice", "alice-secret", "username cannot be null.", "User:nobody is not found.", "check signature failed.",
             "User:alice has no permission to access Topic:secrets", "nobody", "inner")
    is_vostok = kind is servers.Vostok
    grpc = ports.free_port()
    with contextlib.ExitStack() as running:
        if is_vostok:
            server = running.enter_context(kind(directory / "one", AUTH, arguments=["--grpc-port", grpc], listens=[grpc]))
            other = running.enter_context(kind(directory / "two", AUTH | {"authorizationStrict": "true"}))
        else:
            server, other = running.enter_context(kind(directory / "one", AUTH)), None
        administration(run, server, other, directory)
        moved(run, server, directory)
        run.clients("auth-2.0", [client for client in clients if is_vostok or not client.grpc], server, directory, texts, grpc=f"127.0.0.1:{grpc}")
        if is_vostok:
            file = server.store / "config" / "users.json"
            run.case("users.json is for its owner", oct(file.stat().st_mode & 0o777), "^0o600$")
            run.case("the audit log names the refused and no secret", (server.store / "logs" / "auth_audit.log").read_text(),
                     r"Subject = User:alice is Deny Action = Pub .* resource = Topic:secrets", "alice-secret|rootsecret")
            run.case("the users of the settings exist", " ".join(sorted(user["username"] for user in json.loads(file.read_text()))), "^alice inner root$")


@contextlib.contextmanager
def apart(directory):
    """A name server that asks for users, and a broker in a process of its own."""
    names = servers.Vostok(directory / "names", AUTH, roles="namesrv", name="namesrv")
    broker = servers.Vostok(directory / "broker", AUTH, roles="broker", namesrv=names.namesrv)
    with contextlib.ExitStack() as running:
        running.push(names)
        names.launch().await_ready()
        # The name server does not answer requests without a signature, so that `start` would wait for the route.
        running.push(broker)
        broker.launch().await_ready()
        if not eventually(lambda: ask(Client(names.namesrv), SUPER, ROUTE, {"topic": "TBW102"}).startswith("0 ")):
            raise RuntimeError("the broker does not register at the guarded name server")
        yield names, broker


def names(run, clients, directory):
    """A name server that asks for users, which RocketMQ's does not: official clients sign their requests for routes as well."""
    alice = ("alice", "alice-secret")
    texts = (*alice, "username cannot be null.", "User:nobody is not found.", "check signature failed.", "User:alice has no permission", "nobody", "inner")
    with apart(directory / "apart") as (namesrv, server):
        administration(run, server, None, directory, is_guarded=True)
        file = namesrv.store / "namesrv" / "users.json"
        shutil.copy(server.store / "config" / "users.json", file.with_suffix(".new"))
        file.with_suffix(".new").rename(file)
        # Requests that fail meanwhile would make the name server throttle this address.
        run.case("guarded namesrv: changed users count", namesrv.text, "the users of the name server have changed", again="")
        run.case("guarded namesrv: a user of the broker", lambda: ask(Client(server.namesrv), alice, ROUTE, {"topic": "orders"}), "^0 ")
        run.clients("guarded namesrv", [client for client in clients if not client.grpc], server, directory, texts, is_told=False)
        answer, _ = Client(server.namesrv).call(ROUTE, {"topic": "orders"}, b"")
        run.case("guarded namesrv: no signature", f"{answer['code']} {answer.get('remark')}", r"^16 username cannot be null\.$")
        run.case("guarded namesrv: a normal user changes nothing", ask(Client(server.namesrv), alice, DELETE_TOPIC, {"topic": "orders"}),
                 "^16 User:alice has no permission to access Cluster:")
        with mqadmin.Shell(directory, server.namesrv) as shell:
            for user, wanted, lacks in [(SUPER, "broker-a", "Exception"), ((), "username cannot be null", "broker-a")]:
                tools(directory, *user)
                run.case(f"guarded namesrv: mqadmin clusterList of {user[0] if user else 'nobody'}", lambda: shell.run(["clusterList"]), wanted, lacks)


def rules(run, clients, directory):
    """ACL 1.0: rules that are changed while the broker runs."""
    server = servers.Vostok(directory / "plain", {"aclEnable": "true"})
    file = server.conf.parent / "plain_acl.yml"
    # Without credentials, the C++ client below the Python client sends an empty access key.
    texts = ("alice-key", "alice-secret", "(No accessKey is configured|No acl config for$)", "No acl config for nobody-key",
             "Check signature failed for accessKey=carol-key", "No default permission for topic:secrets", "nobody-key", "carol-key")

    def write(text):
        file.with_suffix(".new").write_text(text)
        file.with_suffix(".new").rename(file)

    def sent():
        return ask(Client(server.broker), ("alice-key", "alice-secret"), SEND, MESSAGE, b"signed")

    write(PLAIN.replace("orders=PUB|SUB", "orders=DENY"))
    with server:
        run.case("acl-1.0: the rules of the start count", sent(), "^(?!0)")
        write(PLAIN)
        run.case("acl-1.0: changed rules count", sent, "^0", again="")
        run.clients("acl-1.0", [client for client in clients if not client.grpc], server, directory, texts)
        for client in clients:
            if client.name == f"java-{OLD}":
                changes(run, [*client.command[:-1], "Rules", server.namesrv, server.broker], file)
        write("accounts: [")
        run.case("acl-1.0: a broken file is reported", server.text, "the rules of ACL 1.0 stay as they were", again="")
        run.case("acl-1.0: a broken file leaves the rules", sent, "^0")
    run.case("acl-1.0: a broken file stops the start", program(*server.command), "(?s)^exit code [1-9].*plain_acl.yml is not usable")


def changes(run, rules_of, file):
    """Rules that the calls of mqadmin 4.9.8 change."""
    run.case("acl-1.0: only administrators change rules", lambda: program(*rules_of, "alice-key", "alice-secret"),
             "updateAclConfig: 16 Need admin permission for request code=50, but accessKey=alice-key is not", ": ok")
    output = program(*rules_of, "root-key", "rootsecret")
    for title, wanted in [
        ("updateAclConfig", "updateAclConfig: ok"),
        ("updateAclConfig with a short secret", "updateAclConfig short: 209 .*length should longer than 6"),
        ("updateGlobalWhiteAddr", "updateGlobalWhiteAddr: ok"),
        ("clusterAclConfigVersion", r"clusterAclConfigVersion: ok \{.*plain_acl.yml=DataVersion\[timestamp=\d{13}, counter=2\]"),
        ("deleteAclConfig", "deleteAclConfig: ok"),
        ("deleteAclConfig of nobody", r"deleteAclConfig again: 210 The accesskey\[bob-the-second\] corresponding"),
    ]:
        run.case(f"acl-1.0: {title} of 4.9.8", output, wanted)
    run.case("acl-1.0: the file has what was changed", file.read_text(), r"10\.8\.8\.\*", "bob")


def refused_starts(run, directory):
    """Settings that would let everybody in."""
    for title, settings, wanted in [
        ("authorization without authentication", {"authorizationEnabled": "true"}, "authorizationEnabled needs authenticationEnabled"),
        ("both generations", AUTH | {"aclEnable": "true"}, "are both on"),
        ("a class that does not exist", AUTH | {"authenticationStrategy": "com.example.Mine"}, "com.example.Mine, which does not exist"),
    ]:
        server = servers.Vostok(directory / title.replace(" ", "-"), settings)
        run.case(f"refused at start: {title}", program(*server.command), f"(?s)^exit code [1-9].*{wanted}", "rootsecret|innersecret")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="only Java clients and the settings of most clusters")
    parser.add_argument("--against", choices=servers.KINDS, default="vostok")
    parser.add_argument("--only", choices=["users", "names", "rules", "starts", "attacks"], help="one part of the cases")
    parser.add_argument("--client", default="", help="only clients whose name has this text")
    parser.add_argument("--show", action="store_true", help="print every output")
    parser.add_argument("--keep", action="store_true", help="keep the directory of the run")
    options = parser.parse_args()
    report, clients = Report("auth"), []
    run = Run(report, options.show)
    for name, build in CLIENTS.items():
        if options.client in name and not (options.short and "java" not in name):
            try:
                clients.append(build())
            except downloads.Unavailable as why:
                report.skip(f"everything with {name}", why)
    of_version = {name: [client for client in clients if not options.short or client.name == name] for name in CLIENTS}
    parts = {"users": lambda: users(run, of_version["java-5.5.0"], servers.KINDS[options.against], directory)}
    if options.against == "vostok":
        parts |= {"rules": lambda: rules(run, of_version[f"java-{OLD}"], directory), "starts": lambda: refused_starts(run, directory)}
        if not options.short:
            parts |= {"names": lambda: names(run, clients, directory), "attacks": lambda: attacks(run, AUTH, directory)}
    with scratch(report, options.keep) as directory:
        for name, part in parts.items():
            if options.only in (None, name):
                part()
    report.close()


if __name__ == "__main__":
    main()
