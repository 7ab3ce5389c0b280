//! Messages for a point in time and their recall (§14.2, §14.3, checklist 28 and 29).

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use wire::codes::request;
use wire::header::SendHeader;
use wire::record::RecordView;

use crate::common::random::Random;
use crate::common::wire_client::{Arrived, Connection, pull_header, send_header};
use crate::stage::{Stage, eventually, property};

fn now_ms() -> i64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(elapsed.as_millis()).expect("for some more years")
}

fn send(connection: &mut Connection, properties: &str, body: &str) -> Arrived {
    let header = SendHeader { properties: properties.as_bytes(), ..send_header("Timed", 1) };
    connection.send(&header, body.as_bytes())
}

/// All messages of the queue: body, properties and store time.
fn all(connection: &mut Connection) -> Vec<(String, String, i64)> {
    let mut found = Vec::new();
    loop {
        let answer = connection.pull(&pull_header("CG", "Timed", 1, found.len() as i64));
        if answer.body.is_empty() {
            return found;
        }
        let mut rest = answer.body.as_slice();
        while !rest.is_empty() {
            let record = RecordView::parse(rest).expect("pull answers hold whole records");
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            found.push((text(record.body()), text(record.properties()), record.store_timestamp()));
            rest = &rest[record.size()..];
        }
    }
}

#[test]
fn messages_come_when_they_were_asked_for() {
    let stage = Stage::start(&[]);
    let mut connection = stage.connect();
    let mut random = Random::new(7);
    let mut due = BTreeMap::new();
    for number in 0..400 {
        let (delay, before) = (random.within(300, 3000).cast_signed(), now_ms());
        let (properties, asked_ms) = match number % 4 {
            0 => (format!("TIMER_DELIVER_MS\x01{}\x02", before + delay), before + delay),
            1 => (format!("TIMER_DELAY_SEC\x01{}\x02", 1 + number % 3), before + 1000 * (1 + number % 3)),
            _ => (format!("KEYS\x01k\x02TIMER_DELAY_MS\x01{delay}\x02"), before + delay),
        };
        let body = format!("message {number}");
        let sent = send(&mut connection, &properties, &body);
        assert_eq!((sent.code, sent.number("queueId")), (0, 1), "{sent:?}");
        due.insert(body, asked_ms);
    }
    let found = eventually("all messages", || {
        let found = all(&mut connection);
        (found.len() >= due.len()).then_some(found)
    });
    let mut waited = 0;
    for (body, properties, stored_ms) in &found {
        let asked_ms = due.remove(body).unwrap_or_else(|| panic!("{body} came twice or was never sent"));
        assert!(*stored_ms >= asked_ms, "{body} is {} ms early", asked_ms - stored_ms);
        // A message that was due when it was sent does not wait.
        let Some(out_ms) = property(properties, "TIMER_OUT_MS") else { continue };
        waited += 1;
        assert_eq!(out_ms.parse::<i64>().expect("a number") % 1000, 0);
        for name in ["REAL_TOPIC", "REAL_QID", "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS"] {
            assert!(property(properties, name).is_some(), "{name} in {properties}");
        }
    }
    // Only a point in time can be over before its message is sent.
    assert!(waited >= 300, "{waited}");
}

#[test]
fn what_cannot_wait_is_delivered_at_once_or_refused() {
    let stage = Stage::start(&[]);
    let mut connection = stage.connect();
    let past = send(&mut connection, &format!("TIMER_DELIVER_MS\x01{}\x02", now_ms() - 1), "past");
    assert_eq!((past.code, past.field("recallHandle")), (0, None), "{past:?}");
    let found = all(&mut connection);
    assert_eq!(found[0].0, "past");
    let far = send(&mut connection, "TIMER_DELAY_SEC\x01259201\x02", "far");
    assert_eq!(far.code, 13, "{far:?}");
    assert!(far.remark().starts_with(
        "timer message illegal, the delay time should not be bigger than the max delay 259200000ms;"
    ));
    let level = send(&mut connection, "DELAY\x011\x02TIMER_DELAY_SEC\x01200000\x02", "level");
    assert_eq!((level.code, level.field("recallHandle")), (0, None), "a level wins");
    let found = eventually("the message of the level", || {
        let found = all(&mut connection);
        (found.len() == 2).then_some(found)
    });
    assert_eq!(property(&found[1].1, "TIMER_DELAY_SEC"), None, "{}", found[1].1);
}

fn recall(connection: &mut Connection, topic: &str, handle: &str) -> Arrived {
    connection.call(
        request::RECALL_MESSAGE,
        |writer| writer.text("producerGroup", "PG").text("topic", topic).text("recallHandle", handle),
        &[],
    )
}

#[test]
fn a_recalled_message_never_comes() {
    let stage = Stage::start(&["recallMessageEnable=true", "brokerName=broker-a"]);
    let mut connection = stage.connect();
    // The body of a message that comes: every other one is recalled.
    let mut send_one = |number: usize| {
        let body = format!("{number}");
        let properties =
            format!("UNIQ_KEY\x01id{number}\x02TIMER_DELAY_MS\x01{}\x02", 1100 + 10 * (number % 40));
        let sent = send(&mut connection, &properties, &body);
        let handle = sent.field("recallHandle").unwrap_or_else(|| panic!("{sent:?}")).to_owned();
        if number % 2 == 1 {
            return Some(body);
        }
        let answer = recall(&mut connection, "Timed", &handle);
        if answer.code != 0 {
            // Its second may have begun by now.
            assert_eq!((answer.code, answer.remark()), (604, "recall failed, timestamp invalid"));
            return Some(body);
        }
        assert_eq!(answer.field("msgId"), Some(format!("id{number}").as_str()));
        None
    };
    let (mut expected, mut number) = (Vec::new(), 0);
    eventually("ten are recalled", || {
        expected.extend(send_one(number));
        number += 1;
        (number >= 40 && number - expected.len() >= 10).then_some(())
    });
    let stage = stage.restart(|server| server.kill9());
    let mut connection = stage.connect();
    send(&mut connection, "TIMER_DELAY_MS\x012500\x02", "last");
    let found = eventually("the last message", || {
        let found = all(&mut connection);
        found.iter().any(|(body, ..)| body == "last").then_some(found)
    });
    let mut bodies: Vec<_> = found.into_iter().map(|(body, ..)| body).filter(|body| body != "last").collect();
    bodies.sort();
    bodies.dedup();
    expected.sort();
    assert_eq!(bodies, expected);
}

#[test]
fn a_recall_is_refused_as_java_refuses_it() {
    let stage = Stage::start(&["recallMessageEnable=true", "brokerName=broker-a"]);
    let mut connection = stage.connect();
    connection.stored(&send_header("Timed", 1), b"topic");
    let handle = |topic: &str, broker: &str, time: i64| {
        let mut handle = Vec::new();
        wire::recall::RecallHandle::append(&mut handle, topic, broker, time, b"id");
        String::from_utf8(handle).expect("letters")
    };
    let soon = now_ms() + 3_600_000;
    for (topic, handle, code, remark) in [
        ("Nowhere", handle("Nowhere", "broker-a", soon), 17, "recall failed, the topic[Nowhere] not exist"),
        ("Timed", "nonsense".to_owned(), 604, "recall handle is invalid"),
        ("Timed", handle("Other", "broker-a", soon), 604, "recall failed, topic not match"),
        ("Timed", handle("Timed", "broker-b", soon), 604, "recall failed, broker service not available"),
        ("Timed", handle("Timed", "broker-a", now_ms()), 604, "recall failed, timestamp invalid"),
        (
            "Timed",
            handle("Timed", "broker-a", now_ms() + 259_300_000),
            604,
            "recall failed, timestamp invalid",
        ),
    ] {
        let answer = recall(&mut connection, topic, &handle);
        assert_eq!((answer.code, answer.remark()), (code, remark));
    }
    let stage = Stage::start(&[]);
    let answer = recall(&mut stage.connect(), "Timed", &handle("Timed", "broker-a", soon));
    assert_eq!((answer.code, answer.remark()), (16, "recall failed, operation is forbidden"));
}

#[test]
fn timers_survive_restarts_and_come_once_after_a_clean_one() {
    let mut stage = Stage::start(&[]);
    let mut connection = stage.connect();
    let mut expected = Vec::new();
    for number in 0..300 {
        let body = format!("{number:03}");
        send(&mut connection, &format!("TIMER_DELAY_MS\x01{}\x02", 100 + number * 15), &body);
        expected.push(body);
    }
    for few in [20, 60] {
        let mut connection = stage.connect();
        eventually("a few are delivered", || (all(&mut connection).len() >= few).then_some(()));
        stage = stage.restart(|server| assert!(server.terminate().success()));
    }
    let mut connection = stage.connect();
    let found = eventually("all messages", || {
        let found = all(&mut connection);
        (found.len() >= expected.len()).then_some(found)
    });
    let mut bodies: Vec<_> = found.into_iter().map(|(body, ..)| body).collect();
    bodies.sort();
    assert_eq!(bodies, expected, "each once");
    send(&mut connection, "TIMER_DELAY_MS\x011500\x02", "after");
    let stage = stage.restart(|server| server.kill9());
    let mut connection = stage.connect();
    eventually("what waited during a kill", || {
        // What was delivered just before the kill may come again.
        all(&mut connection).iter().any(|(body, ..)| body == "after").then_some(())
    });
}
