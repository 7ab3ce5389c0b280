use std::collections::BTreeMap;

use super::*;
use crate::attributes::altered;

/// Checks the attributes after a request changes those in `known`, or the remark of its refusal.
fn check(known: Option<&str>, request: &str, expected: Result<&str, &str>) {
    let table = |text: &str| {
        let pairs = text.split(' ').filter_map(|pair| pair.split_once('='));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect::<BTreeMap<_, _>>()
    };
    let known = known.map(table);
    let found = parse(request).and_then(|alterations| altered(&ATTRIBUTES, known.as_ref(), &alterations));
    match (found, expected) {
        (Ok(found), Ok(expected)) => assert_eq!(found, table(expected), "{request}"),
        (Err(refusal), Err(part)) => assert!(refusal.remark.contains(part), "{request}: {}", refusal.remark),
        (found, expected) => panic!("{request}: found {found:?}, expected {expected:?}"),
    }
}

#[test]
fn a_new_topic_gets_attributes() {
    check(None, "", Ok(""));
    check(None, "+message.type=FIFO", Ok("message.type=FIFO"));
    check(
        None,
        "+queue.type=SimpleCQ,+cleanup.policy=DELETE",
        Ok("queue.type=SimpleCQ cleanup.policy=DELETE"),
    );
    check(None, "+queue.type=BatchCQ", Ok("queue.type=BatchCQ"));
    check(None, "+reserve.time=86400", Ok("reserve.time=86400"));
}

#[test]
fn attributes_of_a_topic_are_changed_and_removed() {
    check(Some("message.type=FIFO"), "+message.type=NORMAL", Ok("message.type=NORMAL"));
    check(Some("message.type=FIFO reserve.time=5"), "-message.type", Ok("reserve.time=5"));
    check(Some("message.type=FIFO"), "", Ok("message.type=FIFO"));
    check(Some(""), "+message.type=DELAY", Ok("message.type=DELAY"));
}

#[test]
fn what_java_refuses_is_refused_with_its_text() {
    check(
        None,
        "-message.type",
        Err("only add attribute is supported while creating topic. key: message.type"),
    );
    check(None, "+what=1", Err("unsupported key: what"));
    check(Some(""), "-message.type", Err("attempt to delete a nonexistent key: message.type"));
    check(
        Some(""),
        "+message.type=FIFO,+message.type=NORMAL",
        Err("alter duplication key. key: message.type"),
    );
    let fixed = Err("attempt to update an unchangeable attribute. key: queue.type");
    check(Some("queue.type=BatchCQ"), "+queue.type=SimpleCQ", fixed);
    check(Some("queue.type=BatchCQ"), "-queue.type", fixed);
    check(None, "queue.type=BatchCQ", Err("kv string format wrong."));
    check(None, "+queue.type", Err("kv string format wrong."));
    check(None, "+queue.type=Tree", Err("value is not in set"));
    check(None, "+reserve.time=long", Err("value is not in range"));
    check(None, "+message.type=MIXED", Err("MIXED message type is not supported."));
}
