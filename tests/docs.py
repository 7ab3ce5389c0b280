"""Shell blocks (```sh) of the pages for users, run in the order of a reader against one real server.

    python3 -m tests.docs [--short]

The commands run in a network namespace of their own, because the pages name RocketMQ's ports, and with `./data` and `./run` in a scratch
directory. The program under test stands for `./target/release/vostok` and is the server that `make run` starts. A block that two pages
have, such as the page in the other language, runs once. Each block must end with code 0 and print something. A block that sends a message
and consumes it must print the body. The programs in Java and Go of docs/start.md are compiled and run as they stand (tests/doc_programs.py).
"""
import argparse
import array
import fcntl
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys

from tests import doc_programs
from tests.kit.paths import ROOT, VOSTOK
from tests.kit.process import Process
from tests.kit.report import Report, scratch

INSIDE = "VOSTOK_DOCS_NAMESPACE"
SHORT = ("README.md", "README.zh-CN.md", "docs/start.md", "docs/start.zh-CN.md")
SERVED = (*SHORT, "docs/lab.md", "docs/lab.zh-CN.md")
# Pages whose commands need a server that does not run.
STOPPED = ("docs/operate.md", "docs/operate.zh-CN.md", "docs/repair.md", "docs/repair.zh-CN.md", "docs/migrate.md", "docs/migrate.zh-CN.md")
START = "make run"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCK_SECONDS = 600
# A message that a block sends and consumes afterwards; the group is its body.
CONSUMED = re.compile(r"message send \S+ .*?--body (\S+)(?=.*message consume)", re.DOTALL)


def enter_namespace(report):
    """Starts this program again in a network namespace. Returns only if that is not possible."""
    namespace = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--net", "--map-root-user"]
    if not shutil.which("unshare") or subprocess.run([*namespace, "true"], capture_output=True).returncode:
        report.skip("all blocks", "their ports need a network namespace (unshare of util-linux)")
        report.close()
    # Registries are out of reach in the namespace.
    built = json.dumps(doc_programs.build())
    os.execvpe(namespace[0], [*namespace, sys.executable, "-m", "tests.docs", *sys.argv[1:]], os.environ | {INSIDE: built})


def raise_loopback():
    get_flags, set_flags, is_up = 0x8913, 0x8914, 1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = array.array("b", struct.pack("16sH14s", b"lo", 0, b""))
        fcntl.ioctl(any_socket, get_flags, request, True)
        name, flags, rest = struct.unpack("16sH14s", request)
        fcntl.ioctl(any_socket, set_flags, struct.pack("16sH14s", name, flags | is_up, rest))


def blocks(pages):
    """Yields place and text of each block that no earlier page has; comments, which are translated, do not count."""
    seen = {START}
    for page in pages:
        text = (ROOT / page).read_text()
        for found in BLOCK.finditer(text):
            block = found.group(1).strip()
            commands = re.sub(r"(^|\s+)#.*$", "", block, flags=re.MULTILINE)
            if commands not in seen:
                seen.add(commands)
                yield f"{page}:{text.count(chr(10), 0, found.start()) + 1}", block


def run(report, place, block, directory):
    script = re.sub(r"\./(data|run)\b", lambda found: str(directory / found.group(1)), block).replace("./target/release/vostok", str(VOSTOK))
    shutil.rmtree(directory / "run", ignore_errors=True)
    try:
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=ROOT, text=True, timeout=BLOCK_SECONDS,
                              env=os.environ | {"PATH": f"{VOSTOK.parent}:{os.environ['PATH']}"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        code, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        code, output = f"none within {BLOCK_SECONDS} s", str(late.stdout)
    bodies = CONSUMED.findall(block)
    lacking = [body for body in bodies if not re.search(rf"\b{re.escape(body)}\b", output)]
    wrong = f"exit code {code}" if code != 0 else f"the output lacks {lacking}" if lacking else "no output" if not output.strip() else None
    report.check(place, wrong is None, f"{wrong}\n{block}\n{output[-2000:]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="README.md and docs/start.md alone")
    options = parser.parse_args()
    report = Report("docs")
    if INSIDE not in os.environ:
        enter_namespace(report)
    raise_loopback()
    served = SHORT if options.short else SERVED
    with scratch(report) as directory:
        server = Process("vostok", directory, [VOSTOK, "serve", "--data", directory / "data"], listens=[9876, 10911])
        every = list(blocks(served if options.short else served + STOPPED))
        is_first = any(place.startswith("README.md:") and CONSUMED.search(block) for place, block in every)
        report.check("README.md has a block that sends and consumes the first message", is_first, [place for place, _ in every])
        # While the server runs, and the topic of the pages exists.
        programs_after = next((place for place, block in reversed(every) if place.startswith(SHORT)), None)
        with server:
            for place, block in every:
                if place.startswith(STOPPED) and server.runs():
                    server.stop()
                run(report, place, block, directory)
                if place == programs_after:
                    doc_programs.check(report, json.loads(os.environ[INSIDE]))
            server.stop()
    report.close()


if __name__ == "__main__":
    main()
