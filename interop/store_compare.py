"""Comparison of two inventories of one store, and of an inventory with acknowledgements."""
import json
import re
from collections import defaultdict

# Unquoted numbers as keys, as Java writes them.
NUMBER_KEY = re.compile(r"([{,]\s*)(-?\d+)(\s*:)")


def inventory(file):
    """Content of an inventory as {category: {key: value}}."""
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
    """Positions in the answer to a query by key."""
    return {int(position) for position in re.findall(r"\d+", value)} if value and value.startswith("[") else set()


def agree(old, new):
    """Whether two answers are equal, as far back as a full answer reaches.

    A Java broker that starts after a crash indexes the end of the log twice, so that its answers hold messages twice and reach less far.
    """
    if old == new or not (old and new and (old.endswith(" full") or new.endswith(" full"))):
        return old == new
    oldest = max(min(positions(value)) for value in (old, new) if value.endswith(" full"))
    return {at for at in positions(old) if at >= oldest} == {at for at in positions(new) if at >= oldest}


def differences(before, after, moving):
    """Texts of all differences by category; topics in `moving` are left out."""
    wrong = {}
    for category in sorted(set(before) | set(after)):
        old, new = before.get(category, {}), after.get(category, {})
        wrong[category] = [f"{key}: {short(old.get(key))} became {short(new.get(key))}" for key in sorted(old.keys() | new.keys())
                           if topic_of(category, key) not in moving and not agree(old.get(key), new.get(key))]
    return wrong


def is_older_part(old, new):
    """Whether an answer still has every position, except that the oldest positions give way to new ones in a full answer."""
    missing = positions(old) - positions(new)
    return not missing or (new.endswith(" full") and max(missing) < min(positions(new)))


def lost(before, after, moving):
    """Texts of everything that is missing or has changed although only new messages came since."""
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
    """Lines of the program Fill: acknowledged messages and what the broker has to do for them."""

    def __init__(self):
        self.lines = []

    def read(self, file):
        lines = [line.split(" ") for line in file.read_text().splitlines()]
        self.lines += lines
        return lines

    def of(self, kind):
        return [line[1:] for line in self.lines if line[0] == kind]

    def missing(self, found):
        """Texts of acknowledged messages that are not at the offset of their acknowledgement."""
        rows = []
        for topic, queue, offset, unique in self.of("acked"):
            message = found["message"].get(f"{topic}/{queue}/{offset}")
            if message is None or f"UNIQ_KEY={unique};" not in message.replace(" record=", "; record="):
                rows.append(f"{topic}/{queue}/{offset} {unique}: {short(message)}")
        return rows

    def offsets(self, found):
        """Texts of committed offsets that are not the last ones."""
        last = {"/".join(line[:3]): line[3] for line in self.of("offset") if line[0] != "G_resume"}
        return [f"{key}: committed {value}, found {found['offset'].get(key)}" for key, value in last.items() if found["offset"].get(key) != value]

    def keyed(self, found):
        """Store times of the messages in the inventory by topic and key."""
        there = defaultdict(list)
        for place, text in found["message"].items():
            stored = re.search(r"stored=(\d+)@", text)
            for key in re.findall(r"KEYS=([^;]*?)(?:;| record=)", text):
                there[place.split("/")[0], key].append(int(stored[1]))
        return there

    def delivered(self, found):
        """Texts of messages that had to arrive by now and did not arrive once, and of messages that must never arrive and did."""
        there = self.keyed(found)
        once = [f"{key} is {len(there[topic, key])} times in {topic}" for key, topic in self.of("there") if len(there[topic, key]) != 1]
        return once + [f"{key} is in {topic}, which it must never reach" for key, topic in self.of("never") if there[topic, key]]

    def pending(self, until_ms):
        """Times by topic and key of the messages that are due before a time."""
        return {(topic, key): int(latest) for key, topic, _, latest, _ in self.of("due") if int(latest) < until_ms}

    def due(self, found, awaited, crashed):
        """Texts of pending messages that came early, that came twice, or that are `awaited` and did not come; and the greatest delay in ms."""
        there, rows, late = self.keyed(found), [], 0
        for key, topic, earliest, latest, kind in self.of("due"):
            times = sorted(there[topic, key])
            if not times and (topic, key) in awaited or len(times) > 1 and not crashed:
                rows.append(f"{key} is {len(times)} times in {topic}")
            if times:
                early = int(earliest) - times[0] - (1_000 if kind == "timer" else 0)  # a wheel of seconds
                late = max(late, times[0] - int(latest))
                if early > 0:
                    rows.append(f"{key} came to {topic} {early} ms early")
        return rows, late


def configured(store, name, table):
    """A table of a configuration file. Java goes on with the .bak beside it if it cannot read the file."""
    main = store / "config" / name
    for path in (main, main.with_name(name + ".bak")):
        try:
            return json.loads(NUMBER_KEY.sub(r'\1"\2"\3', path.read_text()))[table]
        except (OSError, ValueError, KeyError):
            pass
    return {}


def configuration(store):
    """Topics and groups as the broker wrote them."""
    return {name: configured(store, name, table) for name, table in
            (("topics.json", "topicConfigTable"), ("subscriptionGroup.json", "subscriptionGroupTable"))}


def changed_configuration(before, after):
    """Texts of topics and groups that are gone or have changed."""
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
