"""Metrics of Vostok and of Apache RocketMQ 5.5.0 after the same work: names, types, labels and bounds.

    python3 -m interop.metrics [--short] [--show] [--keep]

Both brokers get the same requests: topics and groups are made; messages are sent (ordered, delayed, timed and half ones too), pulled, popped,
acknowledged, given back and given up. Then /metrics is read until nothing is missing. A difference between the two is a failure unless it is one of
EXCEPTIONS, each with its reason; an exception that no longer holds is a failure too. Vostok's metrics are also compared with the table of
docs/metrics.md. Prometheus scrapes Vostok, which has some traffic, and every query of ops/grafana-broker.json must find something.
`--short` needs neither Java nor Prometheus: it compares Vostok with the table alone and looks up the names of the queries.
Prints a line for each metric and query and ends with `metrics: N passed, N failed, N skipped`.
"""
import argparse
import contextlib
import json
import re
import shutil
import time
import urllib.parse
import urllib.request

from tests.kit import ports, servers
from tests.kit.paths import ROOT
from tests.kit.process import Process
from tests.kit.remoting import Client
from tests.kit.report import Report, scratch
from tests.kit.waiting import eventually

TABLE = ROOT / "docs" / "metrics.md"
DASHBOARD = ROOT / "ops" / "grafana-broker.json"
# Labels of every series of Vostok but that of target_info.
COMMON = {"cluster", "node_id", "node_type", "otel_scope_name"}

# Metrics of one of the two alone, and why.
EXCEPTIONS = {
    "rocketmq_pop_buffer_scan_time_consume_milliseconds": "Vostok scans no buffer of checkpoints: a pop is over when its last message is acknowledged",
    "rocketmq_pop_offset_buffer_size": "Vostok has no buffer of offsets: they are committed when a pop is over",
    "rocketmq_messages_out_total": "Java leaves is_retry out of what was popped; Vostok's series all have it",
    "rocketmq_throughput_out_total": "as rocketmq_messages_out_total",
    "rocketmq_delay_message_latency_seconds": "Vostok does not count how far ahead producers set delivery times",
    "rocketmq_half_messages": "Vostok knows undecided half messages by their position, not by topic",
    "rocketmq_pop_revive_in_message_total": "Vostok does not count checkpoints and acknowledgements that were stored",
    "rocketmq_pop_revive_out_message_total": "Vostok does not count checkpoints and acknowledgements that were read again",
    "rocketmq_pop_revive_retry_messages_total": "what is brought back counts as a message of its retry topic",
    "rocketmq_timer_dequeue_lag": "Vostok has no queue between reading timed messages and delivering them",
    "rocketmq_timer_dequeue_total": "Vostok does not count timed messages by topic",
    "rocketmq_timer_enqueue_total": "Vostok does not count timed messages by topic",
    "rocketmq_timer_message_snapshot": "Vostok counts the messages of a slot only while timerCongestNumEachSlot is set",
    "rocketmq_timing_messages": "Vostok does not count timed messages by topic",
    "target_info": "Java's has no labels; Vostok's tell the version",
}


def settings(port):
    return {"metricsExporterType": "PROM", "metricsPromExporterPort": port, "metricsPromExporterHost": "127.0.0.1", "messageDelayLevel": "1s 2s 3s",
            "traceTopicEnable": "true"}


def fetched(address):
    with urllib.request.urlopen(address, timeout=120) as answer:
        return answer.read().decode()


def scrape(port):
    return families(fetched(f"http://127.0.0.1:{port}/metrics"))


def families(text):
    """Type, labels and bounds of each metric by its name."""
    found, name = {}, ""
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            found[name] = {"type": kind, "labels": set(), "bounds": set()}
        elif line and not line.startswith("#"):
            labels = dict(re.findall(r'([a-zA-Z_]+)="((?:[^"\\]|\\.)*)"', line))
            if "le" in labels:
                found[name]["bounds"].add(labels.pop("le"))
            found[name]["labels"].add(tuple(sorted(labels)))
    return found


class Load:
    """The work that a broker gets."""

    def __init__(self, address):
        self.client, self.number = Client(address), 0

    def ask(self, code, fields=None, body=b"", wanted=(0,)):
        answer, found = self.client.call(code, fields, body)
        if answer["code"] not in wanted:
            raise RuntimeError(f"request {code} {fields}: {answer}")
        return answer, found

    def topic(self, name, wanted=(0,), **more):
        self.ask(17, {"topic": name, "defaultTopic": "TBW102", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6, "topicFilterType": "SINGLE_TAG",
                      "topicSysFlag": 0, "order": "false", **more}, wanted=wanted)

    def group(self, name):
        self.ask(200, body=json.dumps({"groupName": name, "consumeEnable": True, "consumeFromMinEnable": True, "consumeBroadcastEnable": True,
                                       "retryQueueNums": 1, "retryMaxTimes": 16, "brokerId": 0, "whichBrokerWhenConsumeSlowly": 1,
                                       "notifyConsumerIdsChangedEnable": True}).encode())

    def send(self, topic, **properties):
        """Log offset of the stored message, its key, its queue offset and its id."""
        self.number += 1
        properties = {"UNIQ_KEY": f"7F00000100012A139A55{self.number:012X}", "KEYS": f"k{self.number}", **properties}
        text = "".join(f"{key}\1{value}\2" for key, value in properties.items())
        system = 4 if "TRAN_MSG" in properties else 0
        answer, _ = self.ask(10, {"producerGroup": "PG", "topic": topic, "defaultTopic": "TBW102", "defaultTopicQueueNums": 1, "queueId": 0,
                                  "sysFlag": system, "bornTimestamp": int(time.time() * 1000), "flag": 0, "properties": text, "reconsumeTimes": 0,
                                  "unitMode": "false", "batch": "false", "maxReconsumeTimes": 16}, b"body")
        fields = answer["extFields"]
        return int(fields["msgId"][-16:], 16), properties["UNIQ_KEY"], int(fields["queueOffset"]), fields["msgId"]

    def pull(self, offset, wait_ms=0):
        return self.ask(11, {"consumerGroup": "CG", "topic": "Normal", "queueId": 0, "queueOffset": offset, "maxMsgNums": 32,
                             "sysFlag": 6 if wait_ms else 4, "commitOffset": 0, "suspendTimeoutMillis": wait_ms, "subscription": "*", "subVersion": 0,
                             "expressionType": "TAG"}, wanted=(0, 19, 20, 21))

    def pop(self, invisible_ms):
        return self.ask(200050, {"consumerGroup": "PopG", "topic": "Popped", "queueId": 0, "maxMsgNums": 1, "invisibleTime": invisible_ms, "pollTime": 0,
                                 "bornTime": int(time.time() * 1000), "initMode": 0, "expType": "TAG", "exp": "*", "order": "false"}, wanted=(0, 209, 210))[0]

    def perform(self):
        for topic, more in (("Normal", {}), ("Popped", {}), ("Timed", {"attributes": "+message.type=DELAY"}),
                            ("Half", {"attributes": "+message.type=TRANSACTION"})):
            self.topic(topic, **more)
        for group in ("CG", "PopG"):
            self.group(group)
        self.beat()
        messages = [self.send("Normal") for _ in range(3)]
        self.send("Normal", __SHARDINGKEY="k")
        self.send("Normal", DELAY=1)
        self.send("Timed", TIMER_DELAY_MS=1500)
        self.send("Timed", TIMER_DELAY_MS=3_600_000)
        for decision in (8, 12, None):
            self.half(decision)
        self.pull(0)
        self.ask(15, {"consumerGroup": "CG", "topic": "Normal", "queueId": 0, "commitOffset": 2})
        # A negative level sends the message to the dead letter topic.
        for (log_offset, _, _, message_id), level in zip(messages, (1, -1)):
            self.ask(36, {"offset": log_offset, "group": "CG", "delayLevel": level, "originMsgId": message_id, "originTopic": "Normal", "unitMode": "false"})
        end = int(self.ask(30, {"topic": "Normal", "queueId": 0})[0]["extFields"]["offset"])
        self.pull(end, wait_ms=1000)
        self.popped()
        self.topic("TBW102", wanted=(29, ))

    def beat(self):
        subscription = {"classFilterMode": False, "codeSet": [], "expressionType": "TAG", "subString": "*", "subVersion": 1, "tagsSet": [], "topic": "Normal"}
        consumer = {"consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "consumeType": "CONSUME_PASSIVELY", "groupName": "CG", "messageModel": "CLUSTERING",
                    "subscriptionDataSet": [subscription], "unitMode": False}
        self.ask(34, body=json.dumps({"clientID": "c@1", "consumerDataSet": [consumer], "producerDataSet": [{"groupName": "PG"}]}).encode())

    def half(self, decision):
        log_offset, key, queue_offset, message_id = self.send("Half", TRAN_MSG="true", PGROUP="PG")
        if decision is not None:
            self.ask(37, {"producerGroup": "PG", "tranStateTableOffset": queue_offset, "commitLogOffset": log_offset, "commitOrRollback": decision,
                          "fromTransactionCheck": "false", "msgId": key, "transactionId": key, "topic": "Half"})

    def go_on(self):
        """Sends a message and pulls messages, so that rates are above zero."""
        self.beat()
        self.send("Normal")
        self.pull(0)

    def popped(self):
        """Of three popped messages the first is acknowledged; the others come back."""
        for _ in range(3):
            self.send("Popped")
        for number in range(3):
            fields = eventually(lambda: (answer := self.pop(60_000 if number == 0 else 1000))["code"] == 0 and answer)["extFields"]
            if number > 0:
                continue
            start = fields["startOffsetInfo"].split(" ")
            handle = " ".join([start[2], fields["popTime"], fields["invisibleTime"], fields["reviveQid"], start[0], "broker-a", "0", start[2]])
            self.ask(200051, {"consumerGroup": "PopG", "topic": "Popped", "queueId": 0, "offset": start[2], "extraInfo": handle})


def difference(java, vostok):
    """Returns the first difference of two metrics in words, or `None` if they are equal."""
    if java is None or vostok is None:
        return f"only {'Vostok' if java is None else 'Java'} has it"
    for part in ("type", "bounds", "labels"):
        if java[part] != vostok[part]:
            shown = [sorted(it) if isinstance(it, set) else it for it in (java[part], vostok[part])]
            return f"{part}: Java {shown[0]}, Vostok {shown[1]}"
    return None


def compare(java, vostok):
    """Title, and what is wrong or `None`, of each metric that one of the two servers has."""
    for name in sorted(java.keys() | vostok.keys()):
        if not name.startswith("vostok_"):
            differs, why = difference(java.get(name), vostok.get(name)), EXCEPTIONS.get(name)
            wrong = f"nothing differs, but it is excepted: {why}" if why and not differs else differs if differs and not why else None
            yield f"{name} beside Java's" + (f" (excepted: {why})" if why else ""), wrong


def documented(vostok):
    """Title, and what is wrong or `None`, of each row of the table of docs/metrics.md."""
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| ([\w, -]+) \|", TABLE.read_text(), re.MULTILINE)
    for name, kind, labels in rows:
        expected, found = {"type": kind, "labels": set(re.findall(r"\w+", labels))}, vostok.get(name)
        if found:
            found = {"type": found["type"], "labels": {label for series in found["labels"] for label in series} - COMMON}
        yield f"{name} as docs/metrics.md says", None if found == expected else f"expected {expected}, found {found}"
    unknown = vostok.keys() - {name for name, _, _ in rows}
    yield "docs/metrics.md has every metric", f"without {sorted(unknown)}" if unknown else None


def queries():
    return [target["expr"] for panel in json.loads(DASHBOARD.read_text())["panels"] for target in panel.get("targets", [])]


def names(vostok):
    """Title, and what is wrong or `None`, of each query of the dashboard, by the metrics that it names."""
    for query in queries():
        missing = [name for name in re.findall(r"\b(?:rocketmq|vostok)_\w+", query) if name not in vostok and re.sub("_(bucket|count|sum)$", "", name) not in vostok]
        yield query, f"no metric {missing}" if missing else None


def dashboard(directory, port, load):
    """Title, and what is wrong or `None`, of each query of the dashboard, by Prometheus."""
    own, config = ports.free_port(), directory / "prometheus.yml"
    config.write_text(f"scrape_configs: [{{job_name: vostok, scrape_interval: 1s, static_configs: [{{targets: ['127.0.0.1:{port}']}}]}}]\n")

    def finds(query):
        """Whether a query has a series with a number."""
        query = urllib.parse.urlencode({"query": query.replace("$cluster", ".*").replace("$__rate_interval", "60s")})
        return any(series["value"][1] != "NaN" for series in json.loads(fetched(f"http://127.0.0.1:{own}/api/v1/query?{query}"))["data"]["result"])

    empty = queries()

    def all_found():
        load.go_on()
        empty[:] = [query for query in empty if not finds(query)]
        return not empty

    with Process("prometheus", directory, ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={directory / 'prometheus'}",
                                           f"--web.listen-address=127.0.0.1:{own}"], [own]):
        eventually(all_found, refused=OSError)
    return [(query, "finds nothing" if query in empty else None) for query in queries()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="Vostok alone")
    parser.add_argument("--show", action="store_true", help="print labels and bounds")
    parser.add_argument("--keep", action="store_true", help="keep the directory of the run")
    options, report = parser.parse_args(), Report("metrics")
    kinds = ["vostok"] if options.short or shutil.which("java") is None else ["vostok", "java"]
    with scratch(report, options.keep) as directory, contextlib.ExitStack() as running:
        found, ports_of, loads = {}, {}, []
        for kind in kinds:
            ports_of[kind] = ports.free_port()
            server = running.enter_context(servers.KINDS[kind](directory / kind, settings(ports_of[kind])))
            loads.append(Load(server.broker))  # kept, so that the connection stays
            loads[-1].perform()

        def outcome():
            for load in loads:
                load.beat()
            found.update({kind: scrape(port) for kind, port in ports_of.items()})
            return [*documented(found["vostok"]), *(names(found["vostok"]) if options.short else ()),
                    *(compare(found["java"], found["vostok"]) if "java" in found else ())]

        eventually(lambda: all(wrong is None for _, wrong in outcome()), refused=OSError)
        for title, wrong in outcome():
            report.check(title, wrong is None, wrong)
        if options.show:
            for kind, metrics in found.items():
                print("".join(f"{kind} {name} {family}\n" for name, family in metrics.items()), end="", flush=True)
        if not options.short and shutil.which("prometheus"):
            for title, wrong in dashboard(directory, ports_of["vostok"], loads[0]):
                report.check(title, wrong is None, wrong)
    if not options.short:
        for tool, part in (("java", "the comparison with Java"), ("prometheus", "the queries of the dashboard")):
            if shutil.which(tool) is None:
                report.skip(part, f"{tool} is not installed")
    report.close()


if __name__ == "__main__":
    main()
