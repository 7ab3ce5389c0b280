//! Send-back, delay and dead letters (§4 and §14.1, checklist 8, 9 and 28).

use std::time::{Duration, Instant};

use wire::codes::request;
use wire::header::SendHeader;
use wire::id::OffsetId;

use crate::common::wire_client::{Arrived, Connection, pull_header, send_header};
use crate::stage::{Stage, beat, eventually, heartbeat, property, records};

/// Eighteen levels of one second: what a level is worth is not what these tests are about.
const FAST_LEVELS: &str = "messageDelayLevel=1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s";

/// Sends one message and gives it back; the answer and the message's id.
fn give_back(
    connection: &mut Connection,
    header: &SendHeader<'_>,
    level: i32,
    max: i32,
) -> (Arrived, String) {
    let sent = connection.send(header, b"hard");
    assert_eq!(sent.code, 0, "{sent:?}");
    let id = sent.field("msgId").expect("a success has an id").to_owned();
    let offset = OffsetId::parse(&id).expect("an offset id").log_offset.get();
    let answer = connection.call(
        request::CONSUMER_SEND_MSG_BACK,
        |writer| {
            writer
                .number("offset", offset)
                .text("group", "CG")
                .number("delayLevel", level)
                .text("originMsgId", &id)
                .text("originTopic", "Hard")
                .flag("unitMode", false)
                .number("maxReconsumeTimes", max)
        },
        &[],
    );
    (answer, id)
}

fn stage() -> (Stage, Connection) {
    let stage = Stage::start(&[FAST_LEVELS]);
    let mut connection = stage.connect();
    beat(&mut connection, &heartbeat("c1", "CG", "Hard", "*", "", 1));
    (stage, connection)
}

#[test]
fn a_message_given_back_comes_again_later() {
    let (_stage, mut connection) = stage();
    let asked = Instant::now();
    let header = SendHeader { properties: b"KEYS\x01k\x02", ..send_header("Hard", 0) };
    let (answer, id) = give_back(&mut connection, &header, 0, 16);
    assert_eq!(answer.code, 0, "{answer:?}");
    let (_, body, properties, times) = eventually("the message comes again", || {
        let answer = connection.pull(&pull_header("CG", "%RETRY%CG", 0, 0));
        records(&answer).into_iter().next()
    });
    assert!(asked.elapsed() >= Duration::from_secs(1), "early: {:?}", asked.elapsed());
    assert_eq!((body.as_slice(), times), (&b"hard"[..], 1));
    assert_eq!(property(&properties, "RETRY_TOPIC"), Some("Hard"));
    assert_eq!(property(&properties, "ORIGIN_MESSAGE_ID"), Some(id.as_str()));
    assert_eq!(property(&properties, "KEYS"), Some("k"));
    assert_eq!(property(&properties, "DELAY"), Some("3"), "level 3 is the first of a retry");
    assert_eq!(property(&properties, "WAIT"), Some("false"), "{properties:?}");
}

#[test]
fn the_last_attempt_ends_in_the_dead_letters_at_once() {
    let stage = Stage::start(&["messageDelayLevel=1h"]);
    let mut connection = stage.connect();
    beat(&mut connection, &heartbeat("c1", "CG", "Hard", "*", "", 1));
    let fresh = send_header("Hard", 0);
    let worn = SendHeader { reconsume_times: 16, ..fresh };
    for (header, level, max) in [(fresh, -1, 16), (worn, 0, 16), (fresh, 0, 0)] {
        let (answer, _) = give_back(&mut connection, &header, level, max);
        assert_eq!(answer.code, 0, "{answer:?}");
    }
    // They would come after an hour if they waited.
    let dead = eventually("three dead letters", || {
        let dead = records(&connection.pull(&pull_header("CG", "%DLQ%CG", 0, 0)));
        (dead.len() == 3).then_some(dead)
    });
    assert!(
        dead.iter().all(|record| record.1 == b"hard" && property(&record.2, "RETRY_TOPIC") == Some("Hard"))
    );
}

#[test]
fn giving_back_what_is_not_there_is_refused() {
    let (_stage, mut connection) = stage();
    let answer = connection.call(
        request::CONSUMER_SEND_MSG_BACK,
        |writer| writer.number("offset", 123_456_789).text("group", "CG").number("delayLevel", 0),
        &[],
    );
    assert_eq!((answer.code, answer.remark()), (1, "look message by offset failed, 123456789"));
}

/// Sends with delay level 1 and answers how long the message took.
fn delayed(connection: &mut Connection, topic: &str, offset: i64) -> Duration {
    let header = SendHeader { properties: b"DELAY\x011\x02KEYS\x01k\x02", ..send_header(topic, 3) };
    let sent = Instant::now();
    connection.stored(&header, b"later");
    let found = eventually("the delayed message arrives", || {
        let answer = connection.pull(&pull_header("CG", topic, 3, offset));
        records(&answer).into_iter().next()
    });
    let took = sent.elapsed();
    assert_eq!(found.1, b"later");
    assert_eq!(property(&found.2, "REAL_TOPIC"), Some(topic), "{}", found.2);
    assert_eq!(property(&found.2, "KEYS"), Some("k"));
    took
}

#[test]
fn a_delayed_message_is_never_early() {
    let stage = Stage::start(&[]);
    let mut connection = stage.connect();
    for offset in 0..2 {
        let took = delayed(&mut connection, "Later", offset);
        assert!(took >= Duration::from_secs(1), "{took:?}");
    }
}

#[test]
fn a_delay_survives_a_kill() {
    let stage = Stage::start(&["messageDelayLevel=2s"]);
    let mut connection = stage.connect();
    let header = SendHeader { properties: b"DELAY\x011\x02", ..send_header("Later", 3) };
    let sent = Instant::now();
    connection.stored(&header, b"later");
    let stage = stage.restart(|server| server.kill9());
    let mut connection = stage.connect();
    let find = |connection: &mut Connection| records(&connection.pull(&pull_header("CG", "Later", 3, 0)));
    eventually("the delayed message arrives", || (find(&mut connection).len() == 1).then_some(()));
    assert!(sent.elapsed() >= Duration::from_secs(2), "early: {:?}", sent.elapsed());
    let stage = stage.restart(|server| assert!(server.terminate().success()));
    let mut connection = stage.connect();
    connection.stored(&send_header("Later", 3), b"next");
    assert_eq!(find(&mut connection).len(), 2, "delivered once");
}
