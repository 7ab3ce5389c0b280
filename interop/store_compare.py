"""What two looks at one store must agree on, and what a broker owes for what it acknowledged."""
import json
import re
from collections import defaultdict

LATE_MS = 30_000  # how much later than due a message may come on a machine with other work


def inventory(file):
    """{category: {key: value}}"""
    found = defaultdict(dict)
    for line in file.read_text().splitlines():
        category, key, value = line.split("\t")
        found[category][key] = value
    return found


def topic_of(category, key):
    if category == "offset":
        return key.split("/")[1]
    return re.split("[/#]", key)[0]


def positions(value):
    """What a query by key found."""
    return {int(position) for position in re.findall(r"\d+", value)} if value and value.startswith("[") else set()


def agree(old, new):
    """Whether two answers say the same. Where one was full, only as far back as it reached: a Java broker that starts after a
    crash indexes the end of the log twice, so that its answers hold messages twice and reach less far."""
    if old == new or not (old and new and (old.endswith(" full") or new.endswith(" full"))):
        return old == new
    oldest = max(min(positions(value)) for value in (old, new) if value.endswith(" full"))
    return {at for at in positions(old) if at >= oldest} == {at for at in positions(new) if at >= oldest}


def differences(before, after, moving):
    """{category: [text]} of everything that is not as it was; topics in `moving` are left out."""
    wrong = {}
    for category in sorted(set(before) | set(after)):
        old, new = before.get(category, {}), after.get(category, {})
        wrong[category] = [f"{key}: {short(old.get(key))} became {short(new.get(key))}" for key in sorted(old.keys() | new.keys())
                           if topic_of(category, key) not in moving and not agree(old.get(key), new.get(key))]
    return wrong


def is_older_part(old, new):
    """Whether nothing is missing, except that the oldest give way to new ones where an answer is full."""
    missing = positions(old) - positions(new)
    return not missing or (new.endswith(" full") and max(missing) < min(positions(new)))


def lost(before, after, moving):
    """What cannot be found any more, or is another thing, although only new messages came since."""
    rows = []
    for category in ("message", "id", "key", "unique"):
        for key, old in before.get(category, {}).items():
            new = after.get(category, {}).get(key)
            more = category in ("key", "unique") and new and is_older_part(old, new)
            if old != new and not more and not old.startswith("code") and topic_of(category, key) not in moving:
                rows.append(f"{category} {key}: {short(old)} became {short(new)}")
    return rows


def short(value):
    return "nothing" if value is None else value if len(value) < 400 else value[:400] + "..."


class Ledger:
    """The lines of one or several fills."""

    def __init__(self):
        self.lines = []

    def read(self, file):
        lines = [line.split(" ") for line in file.read_text().splitlines()]
        self.lines += lines
        return lines

    def of(self, kind):
        return [line[1:] for line in self.lines if line[0] == kind]

    def missing(self, found):
        """Acknowledged messages that are not where the answer said they are, and offsets that are not what was committed last."""
        rows = []
        for topic, queue, offset, unique in self.of("acked"):
            message = found["message"].get(f"{topic}/{queue}/{offset}")
            if message is None or f"UNIQ_KEY={unique};" not in message.replace(" record=", "; record="):
                rows.append(f"{topic}/{queue}/{offset} {unique}: {short(message)}")
        return rows

    def offsets(self, found):
        last = {"/".join(line[:3]): line[3] for line in self.of("offset") if line[0] != "G_resume"}
        return [f"{key}: committed {value}, found {found['offset'].get(key)}" for key, value in last.items() if found["offset"].get(key) != value]

    def keyed(self, found):
        """{(topic, key): [store time]} of the messages in the inventory."""
        there = defaultdict(list)
        for place, text in found["message"].items():
            stored = re.search(r"stored=(\d+)@", text)
            for key in re.findall(r"KEYS=([^;]*?)(?:;| record=)", text):
                there[place.split("/")[0], key].append(int(stored[1]))
        return there

    def delivered(self, found):
        there = self.keyed(found)
        once = [f"{key} is {len(there[topic, key])} times in {topic}" for key, topic in self.of("there") if len(there[topic, key]) != 1]
        return once + [f"{key} is in {topic}, which it must never reach" for key, topic in self.of("never") if there[topic, key]]

    def due(self, found, windows, crashed, now_ms):
        """Pending messages by what became of them: exactly once, not early, not late while a broker served."""
        there, rows = self.keyed(found), []
        for key, topic, earliest, latest, kind in self.of("due"):
            times, earliest, latest = sorted(there[topic, key]), int(earliest), int(latest)
            if not times and now_ms < latest + LATE_MS:
                continue
            if not times or len(times) > 1 and not crashed:
                rows.append(f"{key} is {len(times)} times in {topic}, {now_ms - latest:.0f} ms after it was due")
            early = 1_000 if kind == "timer" else 0  # a wheel of seconds
            for time in times[:1]:
                # A broker that ends soon after leaves it to the next one.
                serving = next((since for since, until in windows if until is None or until > latest + LATE_MS), now_ms)
                if not earliest - early <= time <= max(latest, serving) + LATE_MS:
                    rows.append(f"{key} came to {topic} {time - latest:+.0f} ms from when it was due")
        return rows


def configuration(store):
    """Topics and groups as the broker wrote them; Java writes numbers as keys without quotes, and goes on with a .bak alone."""
    tables = {}
    for name, table in (("topics.json", "topicConfigTable"), ("subscriptionGroup.json", "subscriptionGroupTable")):
        main = store / "config" / name
        for path in (main, main.with_name(name + ".bak")):
            try:
                text = re.sub(r"([{,]\s*)(-?\d+)(\s*:)", r'\1"\2"\3', path.read_text())
                tables[name] = json.loads(text)[table]
                break
            except (OSError, ValueError, KeyError):
                tables[name] = {}
    return tables


def changed_configuration(before, after):
    rows = []
    for file, table in before.items():
        for name, old in table.items():
            new = after[file].get(name)
            if new is None:
                rows.append(f"{file}: {name} is gone")
                continue
            rows += [f"{file}: {name}.{field}: {value} became {new.get(field)}" for field, value in old.items()
                     if field in new and new[field] != value or field not in new and value not in (None, {}, [], False)]
    return rows
