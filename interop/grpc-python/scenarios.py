"""Scenarios that run side by side, each with its own topic and group, and comparisons."""
import os
import sys
import threading
import traceback


class Stage:
    """Names for one scenario. The topic and the group exist: interop/grpc_clients.py makes them."""

    def __init__(self, client, endpoint, run, scenario):
        name = f"{client}_{scenario.replace('-', '_')}_{run}"
        self.endpoint, self.topic, self.group = endpoint, f"T_{name}", f"G_{name}"

    def close(self):
        """Shuts down the clients of the scenario."""


def check(holds, text):
    if not holds:
        raise AssertionError(text)


def equal(expected, found, what):
    check(expected == found, f"{what}: expected {expected!r:.300}, found {found!r:.300}")


def perform(stage, name, scenario):
    """Runs a scenario and prints "@ok NAME FIGURES" or "@fail NAME REASON". Figures are what the scenario returns."""
    try:
        line = f"@ok {name} {scenario(stage) or ''}"
    except Exception as error:
        traceback.print_exc()
        line = f"@fail {name} {type(error).__name__}: {error}".splitlines()[0]
    print(line + "\n", end="", flush=True)
    stage.close()


def main(client, stage, scenarios, listed):
    """Runs the scenarios of the command line: ENDPOINT NAMESRV RUN NAME...; or prints the names in `listed`."""
    if sys.argv[1:] == ["list"]:
        print("\n".join(listed))
        return
    endpoint, _, run, *names = sys.argv[1:]
    threads = [threading.Thread(target=perform, args=(stage(client, endpoint, run, name), name, scenarios[name])) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Threads of a client may outlive its shutdown.
    os._exit(0)
