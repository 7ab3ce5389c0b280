"""Client libraries and programs from the public registries, and what is compiled against them.

Each function builds into a directory of `interop/.work` once and returns the path of the result. If two programs ask for the same directory
at the same time, a lock file makes the second program wait. `Unavailable` is raised if a client cannot be built on this machine.
"""
import contextlib
import fcntl
import hashlib
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.kit.paths import ROOT, WORK

POMS = {"server": ROOT / "bench" / "rocketmq" / "pom.xml", "proxy": ROOT / "interop" / "proxy" / "pom.xml"}


class Unavailable(Exception):
    """A program cannot be built here; the text says why."""


def run(*words, attempts=1, failure=Unavailable, **options):
    """Runs a command and returns its output, or raises `failure`. A download is tried `attempts` times."""
    words = [str(word) for word in words]
    for attempt in range(attempts):
        try:
            done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, **options)
        except FileNotFoundError as missing:
            raise Unavailable(f"{missing.filename} is not installed") from missing
        if done.returncode == 0:
            return done.stdout
        if attempt + 1 < attempts:
            time.sleep(10)
    raise failure(f"{' '.join(words[:6])} ... failed:\n{done.stdout[-3000:]}")


@contextlib.contextmanager
def built_once(directory, *inputs):
    """Yields whether `directory` has to be built from `inputs` (texts and files), and marks it as built afterwards."""
    digest = hashlib.sha256()
    for part in inputs:
        digest.update(part.read_bytes() if isinstance(part, Path) else str(part).encode())
    WORK.mkdir(parents=True, exist_ok=True)
    with open(directory.with_name(directory.name + ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        mark = directory / ".built-from"
        if mark.exists() and mark.read_text() == digest.hexdigest():
            yield False
            return
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        yield True
        mark.write_text(digest.hexdigest())


def jars(directory, pom, **variables):
    """Jars of a Maven project and its dependencies; the class path is `{directory}/*`."""
    with built_once(directory, pom, sorted(variables.items())) as is_needed:
        if is_needed:
            run("mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={directory}",
                *(f"-D{name.replace('_', '.')}={value}" for name, value in variables.items()), attempts=3)
    return directory


def rocketmq(project="server", version="5.5.0"):
    """Jars of Apache RocketMQ: `server` (name server and broker) or `proxy`."""
    return jars(WORK / f"rocketmq-{project}-{version}", POMS[project], rocketmq_version=version)


def classes(directory, class_path, sources, release="17"):
    """Classes of Java sources that need the jars in `class_path`."""
    with built_once(directory, str(class_path), *sorted(sources)) as is_needed:
        if is_needed:
            run("javac", "-nowarn", "-encoding", "UTF-8", "--release", release, "-cp", f"{class_path}/*", "-d", directory, *sources, failure=RuntimeError)
    return directory


def go(program, source, package="."):
    """A Go program below WORK; Go itself knows whether it is up to date."""
    program.parent.mkdir(parents=True, exist_ok=True)
    run("go", "mod", "download", cwd=source, attempts=3)
    run("go", "build", "-o", program, package, cwd=source, failure=RuntimeError)
    return program


def python(directory, package):
    """The interpreter of a virtual environment that has `package`."""
    with built_once(directory, package) as is_needed:
        if is_needed:
            run(sys.executable, "-m", "venv", "--clear", directory)
            run(directory / "bin" / "pip", "-q", "install", package, attempts=3)
    return directory / "bin" / "python"


def node(directory, *packages):
    """A directory whose node_modules has `packages`."""
    with built_once(directory, *packages) as is_needed:
        if is_needed:
            run("npm", "install", "--silent", "--no-fund", "--no-audit", "--prefix", directory, *packages, attempts=3)
    return directory


def cargo(manifest, target):
    """Builds a Rust program with its own Cargo.lock into the target directory `target`."""
    run("cargo", "fetch", "--quiet", "--locked", "--manifest-path", manifest, attempts=3)
    run("cargo", "build", "--quiet", "--locked", "--offline", "--manifest-path", manifest, "--target-dir", target, failure=RuntimeError)
    return target / "debug"
