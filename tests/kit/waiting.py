"""Waiting for an outcome. Every wait has one cap, long enough for a machine whose processors are all busy."""
import struct
import time

PATIENCE_SECONDS = 240
# Exceptions of a request to a server that is down, ends the connection or refuses.
FAILURES = (OSError, RuntimeError, ValueError, LookupError, struct.error)


def eventually(ask, seconds=PATIENCE_SECONDS, refused=()):
    """Calls `ask` until it returns a true value and returns that value; the last value after `seconds`.

    An exception of the types in `refused` counts as a false value, as while a server is down.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            value = ask()
        except refused:
            value = None
        if value or time.monotonic() > end:
            return value
        time.sleep(0.1)
