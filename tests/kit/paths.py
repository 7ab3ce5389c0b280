"""Paths of the repository and of the programs under test."""
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
# Downloads, compiled client programs and the logs of failed runs; not in git.
WORK = ROOT / "interop" / ".work"
# The build of the unit tests is the server under test, unless VOSTOK names another program.
VOSTOK = Path(os.environ.get("VOSTOK", TARGET / "debug" / "vostok"))
