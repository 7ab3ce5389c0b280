"""Compares the messages of crates/grpc with the descriptors in the official Python package: names, numbers, types, labels,
oneofs and enumerations. Run by interop/grpc_clients.py with the interpreter that has the package."""
import re
import sys
from pathlib import Path

from rocketmq.grpc_protocol import definition_pb2, service_pb2

SOURCES = Path(__file__).resolve().parents[2] / "crates" / "grpc" / "src" / "messages"
TYPES = {1: "double", 2: "float", 3: "int64", 5: "int32", 8: "bool", 9: "string", 12: "bytes"}
FIELD = re.compile(r"#\[(?:prost\()?(.*?)\)?\]\s*(?:pub )?(?:r#)?(\w+)(?::|\()\s*([\w:<>, ]+)", re.S)


def items(text, kind):
    """Name and body of every item of a kind."""
    return re.findall(rf"pub {kind} (\w+) {{\n(.*?)\n}}", text, re.S)


def snake(name):
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def own():
    """The messages of the crate: name to {field name: (number, type, label, oneof)}; and enumerations: name to {number: name}."""
    text = "\n".join(path.read_text() for path in sorted(SOURCES.glob("*.rs")) if path.name != "tests.rs")
    enums, oneofs, messages = {}, {}, {}
    for name, body in items(text, "enum"):
        values = re.findall(r"^\s+(\w+) = (\d+),", body, re.M)
        if values:
            enums[name] = {int(number): value.lower().replace("_", "") for value, number in values}
        else:
            oneofs[name] = [parsed(attribute, snake(field), rust) for attribute, field, rust in FIELD.findall(body)]
    for name, body in items(text, "struct"):
        fields = {}
        for attribute, field, rust in FIELD.findall(body):
            oneof = re.match(r'oneof = "(\w+)"', attribute)
            if oneof:
                for inner, number, kind, _ in oneofs[oneof[1]]:
                    fields[inner] = (number, kind, "optional", field)
            else:
                inner, number, kind, label = parsed(attribute, field, rust)
                fields[inner] = (number, kind, label, None)
        messages[name] = fields
    return messages, enums


def parsed(attribute, field, rust):
    number = int(re.search(r'tag = "(\d+)"', attribute)[1])
    kind = re.match(r"\w+", attribute)[0]
    rust = re.sub(r"^(?:Option|Vec)<(.*)>$", r"\1", rust.strip().rstrip(","))
    if kind == "message":
        kind = rust
    elif kind == "enumeration":
        kind = re.search(r'enumeration = "(\w+)"', attribute)[1]
    label = "repeated" if "repeated" in attribute or kind == "btree_map" else "optional" if "optional" in attribute else "plain"
    return field, number, kind, label


def official(descriptor):
    """The fields of a message of the package, as own() has them."""
    fields = {}
    for field in descriptor.fields:
        kind = TYPES.get(field.type) or (field.message_type or field.enum_type).name
        if field.message_type and field.message_type.GetOptions().map_entry:
            kind = "btree_map"
        oneof = field.containing_oneof
        synthetic = oneof is not None and len(oneof.fields) == 1 and oneof.name == f"_{field.name}"
        repeated = field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED
        # A field that is a message has presence; `optional` adds nothing to the bytes.
        optional = field.has_presence if hasattr(field, "has_presence") else field.type == field.TYPE_MESSAGE or oneof is not None
        label = "repeated" if repeated else "optional" if optional else "plain"
        fields[field.name] = (field.number, kind, label, oneof.name if oneof is not None and not synthetic else None)
    return fields


def differences():
    messages, enums = own()
    found, compared = [], 0
    for module in (definition_pb2, service_pb2):
        for name, descriptor in module.DESCRIPTOR.message_types_by_name.items():
            if name not in messages:
                continue
            # Fields that the package is too old or too new for are named, not passed over.
            mine, theirs = messages.pop(name), official(descriptor)
            compared += 1
            for field in sorted(mine.keys() | theirs.keys()):
                if mine.get(field) != theirs.get(field):
                    found.append(f"{name}.{field}: the crate has {mine.get(field)}, the package {theirs.get(field)}")
        nested = [it for message in module.DESCRIPTOR.message_types_by_name.values() for it in message.enum_types_by_name.items()]
        for name, descriptor in [*module.DESCRIPTOR.enum_types_by_name.items(), *nested]:
            if name not in enums:
                continue
            mine = enums.pop(name)
            compared += 1
            prefixes = [re.sub(r"(?<!^)(?=[A-Z])", "_", name).replace("_", "").lower(), "source"]
            for value in descriptor.values:
                theirs = value.name.lower().replace("_", "")
                names = {theirs} | {theirs.removeprefix(prefix) for prefix in prefixes}
                if mine.get(value.number) not in names:
                    found.append(f"{name} {value.number}: the crate has {mine.get(value.number)}, the package {value.name}")
    for name in sorted((messages.keys() | enums.keys()) - {"Timestamp", "Duration"}):
        found.append(f"{name}: the package has no such message")
    if compared < 40:
        found.append(f"only {compared} messages and enumerations were compared")
    return found


if __name__ == "__main__":
    lines = differences()
    print("\n".join(lines))
    sys.exit(1 if lines else 0)
