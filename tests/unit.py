"""Builds and runs the Rust tests: unit tests of all crates and the whole-product tests of tests/.

    python3 -m tests.unit --build    builds all tests, the program and the tools of tests/tools, with planted bugs that are switched off
    python3 -m tests.unit            runs the tests that were built

The tests are run without cargo, which would wait for a lint in the same target directory. For one test, `cargo test` is the command.
"""
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.kit.paths import ROOT, TARGET

BUILD = ["cargo", "test", "--workspace", "--features", "vostok/planted-bugs", "--locked", "--no-run"]
LIST = TARGET / "tests" / "executables.json"
# A test waits for a server or for a disk much of its time.
THREADS = (os.cpu_count() or 2) * 2


def build():
    """Builds everything and notes the test programs with the folder that each runs in."""
    process = subprocess.Popen([*BUILD, "--message-format", "json-render-diagnostics"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    found = []
    for line in process.stdout:
        message = json.loads(line)
        if message.get("executable") and message["profile"]["test"]:
            found.append([message["executable"], str(Path(message["manifest_path"]).parent)])
    if process.wait() == 0:
        LIST.parent.mkdir(parents=True, exist_ok=True)
        LIST.write_text(json.dumps(found))
    return process.returncode


def run(executable):
    """Runs the tests of one program and prints its output."""
    file, folder = executable
    done = subprocess.run([file, "--show-output", "--test-threads", str(THREADS)], cwd=folder, env=os.environ | {"CARGO_MANIFEST_DIR": folder},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, errors="replace")
    print(f"== {Path(file).name}\n{done.stdout}", flush=True)
    if done.returncode != 0 and "\ntest result: " not in done.stdout:
        print(f"FAILED: {Path(file).name} ended with code {done.returncode} and without a result", flush=True)
    return done.returncode == 0


def main():
    if "--build" in sys.argv:
        return build()
    executables = json.loads(LIST.read_text())
    if not executables:
        print("FAILED: the build made no test programs")
        return 1
    with ThreadPoolExecutor(2) as pool:
        # Programs with the most tests come first, so that none is left alone at the end.
        results = list(pool.map(run, sorted(executables, key=lambda it: -Path(it[0]).stat().st_size)))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
