"""Programs in Java and Go of docs/start.md, as they stand there: compiled with the versions that the page names, and run.

The registries are needed for the first build only, so `build` runs before the network namespace of `tests.docs` is entered.
"""
import re
import shutil
import subprocess
import threading

from tests.kit import downloads
from tests.kit.paths import ROOT, WORK
from tests.kit.waiting import PATIENCE_SECONDS

PAGES = ("docs/start.md", "docs/start.zh-CN.md")
DEPENDENCY = re.compile(r"<dependency>.*?</dependency>", re.DOTALL)
# Headings as patterns; Chinese pages have parentheses of their own.
JAVA, GO, GRPC = r"Java \(remoting\)", r"Go \(remoting\)", "[(（]gRPC[)）]"
JAVA_REMOTING, JAVA_GRPC, GO_REMOTING = "Java (remoting)", "Java (gRPC)", "Go (remoting)"


def text_of(page, heading, language):
    """Returns the first block of a language below the heading that ends with the pattern `heading`."""
    text = (ROOT / page).read_text()
    begin = re.search(rf"^## .*{heading}$", text, re.MULTILINE).end()
    return re.search(rf"^```{language}\n(.*?)^```$", text[begin:], re.MULTILINE | re.DOTALL)[1]


def differing():
    """Returns the headings whose programs are not the same in both languages."""
    blocks = [(JAVA, "xml"), (JAVA, "java"), (GO, "go"), (GRPC, "xml"), (GRPC, "java")]
    texts = [(f"{heading} {language}", [text_of(page, heading, language) for page in PAGES]) for heading, language in blocks]
    return [name for name, (english, chinese) in texts if english != chinese]


def java(name, pom, program):
    """Compiles a program against the jars of a pom and returns the words that run it."""
    directory = WORK / f"docs-{name}"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "pom.xml").write_text(pom)
    (directory / "Hello.java").write_text(program)
    jars = downloads.jars(WORK / f"docs-{name}-jars", directory / "pom.xml")
    classes = downloads.classes(WORK / f"docs-{name}-classes", jars, [directory / "Hello.java"])
    return ["java", "-cp", f"{classes}:{jars}/*", "Hello"]


def build_java_remoting():
    page = PAGES[0]
    return java("remoting", text_of(page, JAVA, "xml"), text_of(page, JAVA, "java"))


def build_java_grpc():
    page = PAGES[0]
    pom = DEPENDENCY.sub(lambda _: text_of(page, GRPC, "xml"), text_of(page, JAVA, "xml"))
    return java("grpc", pom, text_of(page, GRPC, "java"))


def build_go_remoting():
    directory = WORK / "docs-go"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "hello.go").write_text(text_of(PAGES[0], GO, "go"))
    for file in ("go.mod", "go.sum"):
        shutil.copy(ROOT / "interop" / "go" / file, directory / file)
    return [downloads.go(WORK / "docs-go-hello", directory)]


BUILDS = {JAVA_REMOTING: build_java_remoting, JAVA_GRPC: build_java_grpc, GO_REMOTING: build_go_remoting}


def build():
    """Compiles every program. Returns words that run each, or the reason why there are none, with whether that is a fault."""
    built = {}
    for name, compile_it in BUILDS.items():
        try:
            built[name] = {"words": [str(word) for word in compile_it()]}
        except downloads.Unavailable as reason:
            built[name] = {"skip": str(reason)}
        except Exception as failure:  # the page's program does not compile
            built[name] = {"fail": str(failure)}
    return built


def check(report, built):
    """Reports each program: that it compiles, and for those of remoting that they print the message."""
    report.check("programs of docs/start.md are the same in both languages", not differing(), differing())
    for name, found in built.items():
        if "words" not in found:
            report.skip(name, found["skip"]) if "skip" in found else report.check(f"{name} compiles", False, found["fail"])
        elif name == JAVA_GRPC:
            # interop/grpc_clients.py runs it.
            report.check(f"{name} compiles", True)
        else:
            report.check(f"{name} prints the message", *receives(found["words"]))


def receives(words):
    """Runs a program until it prints the message, and returns whether it did, with its output."""
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    cap = threading.Timer(PATIENCE_SECONDS, process.kill)
    cap.start()
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.strip() == "hello":
            break
    cap.cancel()
    process.kill()
    process.wait()
    return bool(lines) and lines[-1].strip() == "hello", "".join(lines)[-2000:]
