"""Every page of the console in Chromium, and the work of an operator there by keyboard alone, on Vostok and on Apache RocketMQ.

    python3 -m interop.console [--short] [--against vostok,java] [--no-pages | --forms -1] [--shots DIR]

Pages are found by their links. Each is opened in English and Chinese, light and dark, and on a narrow screen; with `--short` once.
A page passes when Chromium's console has no error, axe-core finds nothing serious (not with `--short`), and only tables have to be
scrolled sideways. `--shots` keeps pictures. Prints a line for each page and task, and ends with
`console: N passed, N failed, N skipped`.
"""
import argparse
import base64
import contextlib
import json
import os
import re
import select
import shutil
import socket
import subprocess
from pathlib import Path
from urllib.parse import parse_qs, urljoin, urlsplit
from urllib.request import urlopen

from interop import metrics
from tests.kit import downloads, ports, servers, topics
from tests.kit.paths import VOSTOK, WORK
from tests.kit.process import Process
from tests.kit.report import Report, scratch
from tests.kit.waiting import PATIENCE_SECONDS, eventually

# Languages, themes and widths in which a page is opened; the first alone with --short.
WAYS = [(lang, theme, 1280) for lang in ("en", "zh") for theme in ("light", "dark")] + [("en", "light", 390), ("zh", "dark", 390)]
SERIOUS = """axe.run({resultTypes: ['violations']}).then(found => found.violations.filter(it => ['serious', 'critical'].includes(it.impact))
    .map(it => it.id + ' ' + it.nodes[0].html.slice(0, 160)))"""
WIDE = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
# Pages that links of the console lead to, at the least.
PAGES_MIN = 20
# Whether the page that is open was refreshed and is not grey.
REFRESHED = "document.getElementById('age').textContent !== '' && !document.querySelector('main.stale')"
# Texts of a page on which a server answered later than the five seconds that the console waits.
LATE = re.compile("no answer from|did not answer|cannot connect|no connection within")


class Wrong(Exception):
    """A page or task that does not pass, with the reason."""


class Browser:
    """Chromium without a window, driven over two pipes."""

    def __init__(self, profile):
        (to_browser, self.out), (self.into, from_browser) = os.pipe(), os.pipe()

        def place():
            # Chromium reads 3 and writes 4; both ends are moved out of the way first.
            reads, writes = os.dup(to_browser), os.dup(from_browser)
            os.dup2(reads, 3)
            os.dup2(writes, 4)

        words = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--remote-debugging-pipe",
                 f"--user-data-dir={profile}"]
        self.process = subprocess.Popen(words, close_fds=False, preexec_fn=place, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.number, self.buffer, self.session, self.errors, self.loaded = 0, b"", None, [], 0
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self):
        self.process.kill()
        self.process.wait()

    def message(self):
        while b"\0" not in self.buffer:
            if not select.select([self.into], [], [], PATIENCE_SECONDS)[0]:
                raise RuntimeError(f"Chromium has sent nothing for {PATIENCE_SECONDS} s")
            got = os.read(self.into, 1 << 20)
            if not got:
                raise RuntimeError("Chromium has ended")
            self.buffer += got
        text, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(text)

    def call(self, method, **parameters):
        self.number += 1
        asked = {"id": self.number, "method": method, "params": parameters} | ({"sessionId": self.session} if self.session else {})
        os.write(self.out, json.dumps(asked).encode() + b"\0")
        while (answer := self.message()).get("id") != self.number:
            self.note(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def note(self, event):
        method, said = event.get("method"), event.get("params", {})
        if method == "Page.loadEventFired":
            self.loaded += 1
        elif method == "Runtime.exceptionThrown":
            self.errors.append(said["exceptionDetails"].get("text", "") + str(said["exceptionDetails"].get("exception", {}).get("description", "")))
        elif method == "Log.entryAdded" and said["entry"]["level"] == "error":
            self.errors.append(said["entry"]["text"] + " " + said["entry"].get("url", ""))
        elif method == "Runtime.consoleAPICalled" and said["type"] in ("error", "assert"):
            self.errors.append(json.dumps(said["args"]))

    def value(self, script):
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{script[:80]}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def await_load(self, before):
        while self.loaded == before:
            self.note(self.message())

    def open(self, address):
        before = self.loaded
        error = self.call("Page.navigate", url=address).get("errorText")
        if error:
            raise RuntimeError(f"{address} does not load: {error}")
        self.await_load(before)

    def press(self, key, text=""):
        code = {"Tab": 9, "Enter": 13, " ": 32}.get(key) or ord(key)
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code={" ": "Space"}.get(key, key), windowsVirtualKeyCode=code, text=text if kind == "keyDown" else "")

    def reach(self, wanted):
        """Presses Tab until an element has the focus: `wanted` is a selector, or the words of a link or button."""
        is_there = f"(it => it.matches({json.dumps(wanted)}))" if wanted[0] in "[#." else f"(it => it.textContent.trim() === {json.dumps(wanted)})"
        for _ in range(400):
            self.press("Tab")
            if self.value(f"{is_there}(document.activeElement)"):
                if not self.value("document.activeElement.matches(':focus-visible')"):
                    raise Wrong(f"the focus of {wanted} is not visible")
                return
        raise Wrong(f"Tab does not come to {wanted} on {self.value('location.href')}")

    def follow(self, wanted):
        """Goes to a link or button and presses Enter."""
        self.reach(wanted)
        before = self.loaded
        self.press("Enter", "\r")
        self.await_load(before)

    def fill(self, **fields):
        for name, text in fields.items():
            self.reach(f"[name={json.dumps(name.replace('_', '-') if not name.startswith('_') else name)}]")
            self.call("Input.insertText", text=text)

    def shows(self, text):
        if text not in self.value("document.body.innerText"):
            raise Wrong(f"{self.value('location.href')} does not show {text!r}, but {self.value('document.querySelector(`main`).innerText')[:300]!r}")

    def has(self, selector):
        return self.value(f"document.querySelector({json.dumps(selector)}) !== null")

    def await_shown(self, selector):
        """Waits until the page that is open shows an element by itself."""
        if not eventually(lambda: self.has(selector)):
            raise Wrong(f"{self.value('location.href')} has no {selector}")

    def await_there(self, selector, address):
        """Opens a page again and again until it has an element."""
        if not eventually(lambda: self.open(address) or self.has(selector)):
            raise Wrong(f"{address} has no {selector}")


def case(report, browser, name, perform):
    """Performs a page or task and counts it. As a user would, performs a task again while a server is late."""
    reasons = []

    def ends():
        try:
            perform()
            reasons.clear()
        except (Wrong, RuntimeError) as reason:
            reasons[:] = [reason]
        return not reasons or isinstance(reasons[0], RuntimeError) or not LATE.search(browser.value("document.body.innerText"))

    eventually(ends)
    report.check(name, not reasons, *reasons)


def shape(address):
    """What addresses of one page have in common: its path, and the names in its query."""
    parts = urlsplit(address)
    return parts.path, tuple(sorted(parse_qs(parts.query, keep_blank_values=True)))


def look(browser, address, lang, theme, width, axe, shots):
    """Opens a page and returns what is wrong with it."""
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])

    def is_open():
        """Opens the page. Errors on a page that tells of a late server do not count."""
        browser.errors.clear()
        browser.open(address + ("&" if "?" in address else "?") + f"lang={lang}")
        return not browser.errors or not LATE.search(browser.value("document.body.innerText"))

    eventually(is_open)
    wrong = browser.errors + (["it has to be scrolled sideways"] if browser.value(WIDE) else [])
    if axe:
        browser.value(axe + ";0")
        wrong += browser.value(SERIOUS)
    if shots:
        path, names = shape(address)
        name = re.sub(r"[^a-z0-9]+", "-", "-".join([path, *names]).lower()).strip("-") or "overview"
        picture = browser.call("Page.captureScreenshot", format="png")["data"]
        (shots / f"{name}-{lang}-{theme}-{width}.png").write_bytes(base64.b64decode(picture))
    return [f"{lang} {theme} {width}: {it}" for it in wrong]


def pages(report, browser, root, server, options):
    """Every page that a link leads to. The forms of operations are all made in one way: so many are opened as are wanted."""
    # Of all topics, one is opened; the page of lite topics is linked from a topic of type LITE alone.
    waiting = [root, root + "lite?parent=Rooms", root + "lite?parent=Rooms&group=readers&lite=one"]
    known, forms, opened = {shape(address) for address in waiting}, options.forms, 0
    axe = None if options.short else (downloads.node(WORK / "axe-core-4.10.3", "axe-core@4.10.3") / "node_modules" / "axe-core" / "axe.min.js").read_text()

    def perform():
        wrong = [it for way in (WAYS[:1] if options.short else WAYS) for it in look(browser, address, *way, axe, options.shots)]
        if wrong:
            raise Wrong("; ".join(wrong)[:600])

    def download():
        with urlopen(address, timeout=PATIENCE_SECONDS) as answer:
            if "attachment" not in answer.headers.get("Content-Disposition", "") or not answer.read():
                raise Wrong(f"{address} is no file to download: {answer.headers}")

    while waiting:
        address = waiting.pop(0)
        if "/op/" in address:
            if forms == 0:
                continue
            forms -= 1
        opened += 1
        if re.search("/(export|body)$", urlsplit(address).path):
            case(report, browser, f"{server}: {urlsplit(address).path} is a file", download)
            continue
        case(report, browser, f"{server}: {urlsplit(address).path}", perform)
        for link in browser.value("[...document.querySelectorAll('main a[href], nav a[href]')].map(it => it.getAttribute('href'))"):
            found = urljoin(address, link).split("#")[0]
            is_page = found.startswith(root) and not re.match("/(api|static|language)/?", urlsplit(found).path)
            if is_page and shape(found) not in known:
                known.add(shape(found))
                waiting.append(found)
    report.check(f"{server}: links lead to {opened} pages", opened >= PAGES_MIN, f"expected at least {PAGES_MIN}")


def tasks(report, browser, root, server, load):
    """Work of operators, by keyboard alone. The first press of Tab on a page reaches its first link."""
    browser.call("Emulation.setDeviceMetricsOverride", width=1280, height=900, deviceScaleFactor=1, mobile=False)
    browser.open(root + "?lang=en")

    def operation(**fields):
        browser.fill(**fields)
        browser.follow("[value=go]")

    def create():
        browser.open(root)
        browser.follow("Topics")
        browser.follow("Create a topic")
        operation(topic="Typed", read_queues="1", write_queues="1")
        browser.await_there("[href='/topic?name=Typed']", root + "topics?q=Typed")

    def fifo():
        browser.open(root + "op/topic/create")
        browser.fill(topic="Ordered")
        browser.reach("[name=type]")
        browser.press("F", "F")
        browser.follow("[value=go]")
        browser.shows("✓ Done")
        browser.shows("message.type=FIFO")
        browser.shows("vostok admin topic create Ordered --type FIFO")

    def send():
        browser.open(root + "topics?q=Typed")
        browser.follow("Typed")
        browser.follow("Send a message")
        operation(body="by keyboard", keys="typed-1")
        browser.shows("SEND_OK")

    def find():
        browser.open(root)
        browser.follow("Messages")
        browser.fill(topic="Typed", value="typed-1")
        browser.follow("Find")
        browser.await_there("[href^='/message?']", browser.value("location.href"))
        browser.follow("[href^='/message?']")
        browser.shows("by keyboard")
        browser.shows("Who consumed it")

    def trace():
        browser.open(root + "op/message/trace")
        browser.fill(id=load.traced())
        browser.follow("Look")
        browser.await_there("table", browser.value("location.href"))
        browser.shows("Pub")

    def reset():
        browser.open(root)
        browser.follow("Groups")
        browser.follow("CG")
        browser.follow("Reset offsets")
        if browser.value("document.querySelector('[name=topic]').value") == "":
            browser.fill(topic="Normal")
        if browser.value("document.querySelector('[name=time]').value") != "":
            raise Wrong("a time is chosen before the operator chose one")
        # The segments of a field of times are typed in the order of the browser's language.
        browser.value("document.querySelector('[name=time]').value = '2020-01-31T12:00:00'")
        browser.follow("[value=preview]")
        for text in ("Current offset", "New offset", "Difference", "Nothing was changed", "2020-01-31T"):
            browser.shows(text)
        operation(_confirm="CG")
        browser.shows("✓ Done")

    def resend():
        browser.await_there("[href='/dlq?group=CG']", root + "dlq")
        browser.follow("[href='/dlq?group=CG']")
        browser.reach("#all")
        browser.press(" ")
        browser.follow("Resend what is chosen")
        count = browser.value("document.querySelector('main [role=status]').textContent")
        if not re.match("([1-9][0-9]*) / \\1 ", count):
            raise Wrong(f"not all letters were given to the group: {count}")

    def owner():
        browser.await_there("[href^='/client?']", root + "group?name=owners")
        browser.follow("[href^='/client?']")
        browser.shows("Owned")

    def live():
        browser.open(root)
        with load.lab("producer", "-t", "Fresh", "-w", "1", "-s", "64"):
            browser.await_shown("#topics [href$='/topic?name=Fresh']")

    def setting():
        browser.await_there("#brokers [href^='/broker?']", root)
        browser.follow("#brokers [href^='/broker?']")
        browser.follow("All settings")
        browser.fill(q="fileReservedTime")
        browser.follow("Search")
        browser.follow("[href*='key=fileReservedTime']")
        operation(value="48")
        browser.shows("✓ Done")

    def busiest():
        browser.open(root)
        browser.follow("Topics")
        browser.follow("In /s")
        if not browser.has("th[aria-sort=descending]"):
            raise Wrong("the topics are not sorted by their rates")
        browser.shows("Normal")

    def lag():
        browser.open(root)
        browser.follow("Groups")
        browser.follow("CG")
        browser.shows("Why it lags")
        if not browser.has("ul.findings li"):
            raise Wrong("the page has no reason")

    def behind():
        browser.open(root)
        browser.follow("Replication")
        browser.shows("Furthest behind")

    def due():
        load.remoting.send("Normal", TIMER_DELAY_SEC="3000")
        browser.open(root)
        browser.follow("Delays")
        browser.follow("Show timed messages")
        browser.await_there("[href^='/message?']", browser.value("location.href"))
        browser.follow("[href^='/message?']")
        browser.shows("Due")
        if not re.search(r"in [45]\d min", browser.value("document.querySelector('.cards').textContent")):
            raise Wrong(f"not due in 50 minutes: {browser.value('document.querySelector(`.cards`).textContent')}")

    def runs():
        browser.open(root)
        browser.follow("Lab runs")
        browser.follow("[href='/run?id=second']")
        browser.reach("[name=with]")
        browser.press("f", "f")
        browser.follow("Compare")
        browser.shows("Ratio")
        if browser.value("document.querySelector('td[data-label=Ratio]').textContent") != "1.5":
            raise Wrong("the runs are not compared")

    for name, task in [("create a topic", create), ("create a topic of type FIFO without naming a cluster", fifo), ("send a message", send), ("find it by its key", find), ("follow a traced message", trace),
                       ("reset offsets", reset), ("give a dead letter to its group", resend), ("who owns a queue", owner),
                       ("raise a setting", setting), ("find the busiest topic", busiest),
                       ("why a group lags", lag), ("how far slaves are behind", behind), ("when a timed message is due", due), ("compare two runs of the lab", runs)]:
        load.remoting.beat()
        case(report, browser, f"{server}, keyboard: {name}", task)
    case(report, browser, f"{server}: the overview shows a topic that begins to get messages", live)


class Load:
    """Contents of the pages: a group with a dead letter, a traced message, and a consumer that owns a queue."""

    def __init__(self, server, directory):
        self.namesrv, self.directory = server.namesrv, directory
        self.remoting = load = metrics.Load(server.broker)  # its connection stays open
        for topic in ("Normal", "Traced", "Owned"):
            load.topic(topic)
        for group in ("CG", "owners"):
            load.group(group)
        load.beat()
        log_offset, _, _, message_id = load.send("Normal")
        load.ask(36, {"offset": log_offset, "group": "CG", "delayLevel": -1, "originMsgId": message_id, "originTopic": "Normal", "unitMode": "false"})
        load.topic("Rooms", attributes="+message.type=LITE")
        topics.group(server.broker, "readers", attributes={"+lite.bind.topic": "Rooms"})
        load.send("Rooms", __LITE_TOPIC="one")
        servers.await_route(self.namesrv, "Owned")
        producer = self.lab("producer", "-t", "Traced", "-w", "1", "-s", "64", "-q", "1", "-m", "true").launch()
        if producer.process.wait(PATIENCE_SECONDS) != 0:
            raise RuntimeError(f"the traced message is not sent:\n{producer.text()}")

    def runs(self, home):
        """Two runs of the lab with a report of one cell each."""
        for number, name in enumerate(("first", "second")):
            (home / name).mkdir(parents=True)
            cell = {"name": "1 thread", "figures": {"tps": {"mean": 200.0 + 100 * number}, "latency": {"p99_us": 1500.0}}}
            (home / name / "run.json").write_text(json.dumps({"scenario": "matrix", "target": {"name": "vostok"}, "cells": [cell], "started_ms": 1700000000000 + number}))
            (home / name / "report.json").write_text(json.dumps({"verdict": [], "cells": [cell]}))

    def leave(self):
        """Ends the member of CG, which answers no question: a page about it is an error."""
        self.remoting.client.socket.shutdown(socket.SHUT_RDWR)

    def lab(self, *words):
        return Process(f"lab-{words[2]}", self.directory, [VOSTOK, "lab", *words, "-n", self.namesrv])

    def traced(self):
        """The id of the traced message."""
        words = [VOSTOK, "admin", "message", "print-topic", "Traced", "-n", self.namesrv, "-o", "json"]
        return json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout)[0]["message_id"]


def await_true(browser, script):
    """Waits until a script is true on the page that is open."""
    if not eventually(lambda: browser.value(script)):
        raise Wrong(f"not so: {script}")


def live(report, browser, root, kind, load):
    """Checks that pages which stay open show what happens and keep what a visitor does."""
    def lag():
        browser.errors.clear()
        browser.open(root + "group?name=CG&lang=en")
        shown = "document.querySelector('[data-figure=lag] output').textContent"
        await_true(browser, f"document.querySelector('.uplot canvas') && /^[0-9]+$/.test({shown})")
        before = int(browser.value(shown))
        for _ in range(3):
            load.remoting.send("Normal")
        await_true(browser, f"{shown} === '{before + 3}'")
        await_true(browser, f"[...document.querySelectorAll('main td, main dd, main output')].some(it => it.textContent === '{before + 3}')")
        if browser.errors:
            raise Wrong("; ".join(browser.errors)[:300])

    def kept():
        browser.open(root + "group?name=owners&lang=en")
        browser.value("link = document.querySelector('main a[href]'); link.focus(); document.querySelector('main details').open = true; scrollTo(0, 50)")
        browser.value("scrolled = scrollY; row = document.querySelector('main tbody tr:last-child'); heading = document.querySelector('main h2'); 0")
        shown = browser.value("before = heading.textContent; heading.textContent = 'changed'; before")
        await_true(browser, f"heading.textContent === {json.dumps(shown)}")
        kept = "document.activeElement === link && document.querySelector('main details').open && scrollY === scrolled && row.isConnected"
        if not browser.value(kept):
            raise Wrong(f"not so after a refresh: {kept}")

    def spans():
        browser.open(root + "?lang=en")
        await_true(browser, "document.querySelector('.uplot canvas') !== null")
        for ring, text in enumerate(["10 minutes", "6 hours", "7 days"]):
            browser.reach(text)
            browser.press("Enter", "\r")
            await_true(browser, f"document.querySelector('[data-ring=\"{ring}\"]').getAttribute('aria-pressed') === 'true'")

    case(report, browser, f"{kind}: an open page of a group shows new lag", lag)
    case(report, browser, f"{kind}: a refresh keeps focus, scroll position and open sections", kept)
    case(report, browser, f"{kind}: charts show three spans", spans)

def silent(report, browser, address, kind, console):
    """Checks that a page which stays open turns grey when its console is gone."""

    def perform():
        browser.open(address)
        await_true(browser, f"{REFRESHED} && document.querySelector('.uplot canvas') !== null")
        console.stop()
        await_true(browser, "document.querySelector('main.stale') && /does not answer.*s old/.test(document.getElementById('age').textContent)")
        # The page goes on asking the console that is gone; its errors are not those of the next page.
        browser.open("about:blank")

    case(report, browser, f"{kind}: an open page turns grey when the console is gone", perform)


def waiting(report, browser, address, kind, console):
    """Checks that an open page does not gather requests while its console stands still."""

    def perform():
        browser.open(address)
        await_true(browser, f"{REFRESHED} && document.querySelector('.uplot canvas') !== null")
        counts = "open = 0; most = 0; plain = window.fetch; window.fetch = (...given) => { most = Math.max(most, ++open); return plain(...given).finally(() => open--); }; 0"
        browser.value(counts)
        console.pause()
        try:
            await_true(browser, "document.querySelector('main.stale') !== null")
        finally:
            console.resume()
        most = browser.value("most")
        # The page, its charts, health.
        if not 1 <= most <= 3:
            raise Wrong(f"{most} requests at once")

    case(report, browser, f"{kind}: an open page gathers no requests while the console stands still", perform)


def verdict(report, browser, root, kind, server):
    """Checks that a page which stays open shows that the servers are gone."""
    taken = "Number(document.getElementById('verdict').dataset.taken)"

    def perform():
        browser.open(root)
        await_true(browser, taken)
        before = browser.value(taken)
        server.stop()
        await_true(browser, "document.getElementById('health').classList.contains('critical')")
        await_true(browser, "document.getElementById('verdict').textContent.includes('name-server-silent')")
        await_true(browser, f"document.title.startsWith('✗ ') && {taken} > {before}")

    case(report, browser, f"{kind}: an open page shows that the servers are gone", perform)


def run(kind, browser, report, options, directory):
    port, short = ports.free_port(), ports.free_port()
    with servers.KINDS[kind](directory / kind, {"traceTopicEnable": "true", "enableLmq": "true", "enableMultiDispatch": "true"}) as server:
        load = Load(server, directory / kind)

        def made(name, port):
            return Process(name, directory / kind, [VOSTOK, "serve", "--roles", "console", "-n", server.namesrv, "--data", directory / kind / name,
                                                    "--console", f"127.0.0.1:{port}"], [port])

        console = made("console", port)
        load.runs(directory / kind / "console" / "lab")
        with load.lab("consumer", "-t", "Owned", "-g", "owners"), console:
            tasks(report, browser, f"http://127.0.0.1:{port}/", kind, load)
            load.remoting.beat()
            live(report, browser, f"http://127.0.0.1:{port}/", kind, load)
            with made("short", short) as other:
                waiting(report, browser, f"http://127.0.0.1:{short}/?lang=en", kind, other)
                silent(report, browser, f"http://127.0.0.1:{short}/broker?name={server.broker}&lang=en", kind, other)
            load.leave()
            if options.pages:
                pages(report, browser, f"http://127.0.0.1:{port}/", kind, options)
            verdict(report, browser, f"http://127.0.0.1:{port}/", kind, server)
            report.check(f"{kind}: the console still runs", console.runs(), console.text()[-2000:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="each page once, in English, light and wide, and without axe-core")
    parser.add_argument("--against", default="vostok", help="servers, separated by commas (default: %(default)s)")
    parser.add_argument("--pages", action=argparse.BooleanOptionalAction, default=True, help="whether all pages are opened, or the work by keyboard is all")
    parser.add_argument("--forms", type=int, default=3, metavar="N", help="forms of operations that are opened; -1 for all (default: %(default)s)")
    parser.add_argument("--shots", type=Path, help="directory for pictures of all pages")
    parser.add_argument("--keep", action="store_true", help="keep the directory of the run")
    options, report = parser.parse_args(), Report("console")
    if options.shots:
        options.shots.mkdir(parents=True, exist_ok=True)
    if shutil.which("chromium") is None:
        report.skip("everything", "chromium is not installed")
        report.close()
    for kind in options.against.split(","):
        with scratch(report, options.keep) as directory, contextlib.closing(Browser(directory / "profile")) as browser:
            run(kind, browser, report, options, directory)
    report.close()


if __name__ == "__main__":
    main()
