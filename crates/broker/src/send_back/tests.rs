use std::collections::BTreeMap;

use wire::codes::request;

use super::*;
use crate::testing::Fixture;

/// Stores a message, gives it back for the group `g` with a delay level, and returns the properties of the copy in a queue.
fn copied(of: (&str, &str), level: i32, queue: (&str, i32)) -> BTreeMap<String, String> {
    let fixture = Fixture::new();
    fixture.broker.tables.groups.make("g", 1).unwrap();
    for topic in ["T", "%RETRY%g", "%DLQ%g"] {
        fixture.queue(topic, 0);
    }
    fixture.queue(names::SCHEDULE_TOPIC, 17);
    let (topic, properties) = of;
    fixture.put(topic, 0, b"x", properties.replace('=', "\u{1}").replace(' ', "\u{2}").as_bytes());
    let fields = [("group", "g"), ("offset", "0"), ("delayLevel", &level.to_string())];
    let (code, remark, _) = fixture.ask(request::CONSUMER_SEND_MSG_BACK, &fields, b"");
    assert_eq!((code, remark.as_str()), (0, ""));
    let (_, copied, times) = fixture.messages(queue.0, queue.1).remove(0);
    assert_eq!(times, 1);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    properties::pairs(&copied).map(|(name, value)| (text(name), text(value))).collect()
}

fn pairs(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Properties of a message that was sent back once and came again.
const CAME_AGAIN: &str =
    "KEYS=k RETRY_TOPIC=T ORIGIN_MESSAGE_ID=first WAIT=true DELAY=3 REAL_TOPIC=%RETRY%g REAL_QID=7 ";

#[test]
fn a_message_that_is_sent_back_has_the_properties_that_java_stores() {
    let timed = "KEYS=k WAIT=true TIMER_DELIVER_MS=5 TIMER_DELAY_SEC=1 TIMER_DELAY_MS=1 ";
    let id = "7F00000100002A9F0000000000000000";
    let expected = [
        ("KEYS", "k"),
        ("RETRY_TOPIC", "T"),
        ("ORIGIN_MESSAGE_ID", id),
        ("WAIT", "false"),
        ("DELAY", "2"),
        ("REAL_TOPIC", "%RETRY%g"),
        ("REAL_QID", "0"),
    ];
    assert_eq!(copied(("T", timed), 2, (names::SCHEDULE_TOPIC, 1)), pairs(&expected));
    let again = copied(("%RETRY%g", CAME_AGAIN), 4, (names::SCHEDULE_TOPIC, 3));
    assert_eq!((again["ORIGIN_MESSAGE_ID"].as_str(), again["REAL_QID"].as_str()), ("first", "0"));
}

#[test]
fn a_dead_letter_has_the_properties_that_java_stores() {
    let expected = [
        ("KEYS", "k"),
        ("RETRY_TOPIC", "T"),
        ("ORIGIN_MESSAGE_ID", "first"),
        ("WAIT", "false"),
        ("DELAY", "0"),
        ("REAL_TOPIC", "%RETRY%g"),
        ("REAL_QID", "7"),
    ];
    assert_eq!(copied(("%RETRY%g", CAME_AGAIN), -1, ("%DLQ%g", 0)), pairs(&expected));
}
