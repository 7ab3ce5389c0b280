//! Pulling (§5 and §6, checklist 10 to 15).

use std::time::{Duration, Instant};

use wire::codes::{request, response};
use wire::hash::java_hash;
use wire::header::{PullHeader, SendHeader, pull_flag};

use crate::common::wire_client::{Arrived, Connection, pull_header, pull_reply, send_header};
use crate::stage::{FAQ, Stage, beat, eventually, heartbeat, records};

/// Checks code, remark and next offset of an answer, and that it carries all four offsets.
fn check(answer: &Arrived, code: i32, remark: &str, next: i64) {
    assert_eq!((answer.code, answer.remark()), (code, remark), "{answer:?}");
    let reply = pull_reply(answer);
    assert_eq!(reply.next_offset, next, "{answer:?}");
    assert_eq!(reply.suggest_broker_id, 0, "{answer:?}");
}

fn fill(connection: &mut Connection, topic: &str, count: usize, properties: &[u8]) {
    for _ in 0..count {
        connection.stored(&SendHeader { properties, ..send_header(topic, 0) }, b"body");
    }
}

fn committed(connection: &mut Connection, topic: &str) -> i64 {
    committed_by(connection, "CG", topic)
}

fn committed_by(connection: &mut Connection, group: &str, topic: &str) -> i64 {
    let answer = connection.call(
        request::QUERY_CONSUMER_OFFSET,
        |writer| writer.text("consumerGroup", group).text("topic", topic).number("queueId", 0),
        &[],
    );
    answer.number("offset")
}

/// Asks with a pull that finds nothing, and returns when the broker holds it: `other` sees the offset that it commits.
fn hold(consumer: &mut Connection, other: &mut Connection, pull: &PullHeader<'_>) -> i32 {
    let sys_flag = pull.sys_flag | pull_flag::SUSPEND | pull_flag::COMMIT_OFFSET;
    let pull = PullHeader { sys_flag, suspend_timeout_ms: 600_000, commit_offset: 1, ..*pull };
    let held = consumer.ask(request::PULL_MESSAGE, |writer| pull.write(writer), &[]).unwrap();
    eventually("the pull commits", || {
        (committed_by(other, pull.consumer_group, pull.topic) == 1).then_some(())
    });
    consumer.call(9999, |writer| writer, &[]);
    assert!(consumer.others().is_empty(), "nothing to answer yet: {:?}", consumer.others());
    held
}

/// Sends a message with tag B and waits until it wakes a pull of another group. Pulls of a connection wake in the order in which they
/// came, so the ones before it have been woken by then, too.
fn send_b(consumer: &mut Connection, producer: &mut Connection, topic: &str) {
    let marker = PullHeader { subscription: "B", ..pull_header("Marker", topic, 0, 1) };
    let marker = hold(consumer, producer, &marker);
    fill(producer, topic, 1, b"TAGS\x01B\x02");
    assert_eq!(consumer.answer(marker).unwrap().code, response::SUCCESS);
    assert!(consumer.others().is_empty(), "another tag wakes nobody: {:?}", consumer.others());
}

#[test]
fn every_offset_has_its_answer() {
    let stage = Stage::start(&[]);
    let mut connection = stage.connect();
    fill(&mut connection, "Offsets", 3, b"");
    let mut pull = |queue, offset| connection.pull(&pull_header("CG", "Offsets", queue, offset));
    check(&pull(0, 0), response::SUCCESS, "FOUND", 3);
    check(&pull(0, 2), response::SUCCESS, "FOUND", 3);
    check(&pull(0, 3), response::PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE", 3);
    check(&pull(0, 4), response::PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY", 3);
    check(&pull(0, i64::MAX), response::PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY", 3);
    check(&pull(0, -1), response::PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL", 0);
    let empty = pull(1, 0);
    assert_eq!((empty.code, pull_reply(&empty).next_offset), (response::PULL_NOT_FOUND, 0), "{empty:?}");
    let beyond = pull(1, 5);
    assert_eq!(
        (beyond.code, pull_reply(&beyond).next_offset),
        (response::PULL_OFFSET_MOVED, 0),
        "{beyond:?}"
    );
}

#[test]
fn pulls_return_no_more_than_asked() {
    let stage = Stage::start(&[]);
    let mut connection = stage.connect();
    fill(&mut connection, "Some", 5, b"");
    let answer = connection.pull(&PullHeader { max_messages: 2, ..pull_header("CG", "Some", 0, 1) });
    let offsets: Vec<_> = records(&answer).iter().map(|record| record.0).collect();
    assert_eq!((offsets, pull_reply(&answer).next_offset), (vec![1, 2], 3));
}

#[test]
fn a_filter_that_matches_nothing_moves_on() {
    let stage = Stage::start(&[]);
    let mut connection = stage.connect();
    fill(&mut connection, "Tags", 4, b"TAGS\x01A\x02");
    fill(&mut connection, "Tags", 1, b"TAGS\x01B\x02");
    let filtered = |subscription| PullHeader { subscription, ..pull_header("CG", "Tags", 0, 0) };
    check(&connection.pull(&filtered("C")), response::PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE", 5);
    let answer = connection.pull(&filtered("B || C"));
    check(&answer, response::SUCCESS, "FOUND", 5);
    assert_eq!(records(&answer).iter().map(|record| record.0).collect::<Vec<_>>(), [4]);
}

#[test]
fn what_is_missing_is_named() {
    let stage = Stage::start(&["autoCreateSubscriptionGroup=false"]);
    let mut connection = stage.connect();
    fill(&mut connection, "Named", 1, b"");
    let answer = connection.pull(&pull_header("Nobody", "Named", 0, 0));
    let remark = format!("subscription group [Nobody] does not exist, {FAQ}");
    assert_eq!((answer.code, answer.remark()), (response::SUBSCRIPTION_GROUP_NOT_EXIST, remark.as_str()));

    let stage = Stage::start(&[]);
    let mut connection = stage.connect();
    fill(&mut connection, "Named", 1, b"");
    let answer = connection.pull(&pull_header("CG", "Missing", 0, 0));
    let remark = format!("topic[Missing] not exist, apply first please! {FAQ}");
    assert_eq!((answer.code, answer.remark()), (response::TOPIC_NOT_EXIST, remark.as_str()));
    assert_eq!(answer.field("nextBeginOffset"), None, "nobody is to go on at an offset that is none");
    let answer = connection.pull(&pull_header("CG", "Named", 77, 0));
    assert_eq!(answer.code, response::INVALID_PARAMETER, "{answer:?}");
    assert!(answer.remark().contains("77"), "{answer:?}");
    let answer = connection.pull(&PullHeader { sys_flag: 0, ..pull_header("CG", "Named", 0, 0) });
    let remark = format!("the consumer's group info not exist{FAQ}");
    assert_eq!((answer.code, answer.remark()), (response::SUBSCRIPTION_NOT_EXIST, remark.as_str()));
}

#[test]
fn a_heartbeat_brings_the_subscription() {
    let stage = Stage::start(&[]);
    let mut connection = stage.connect();
    fill(&mut connection, "Known", 1, b"TAGS\x01A\x02");
    fill(&mut connection, "Known", 1, b"TAGS\x01B\x02");
    // The Go client writes tag hashes as strings.
    let codes = format!("\"{}\"", java_hash("B"));
    beat(&mut connection, &heartbeat("c1", "CG", "Known", "B", &codes, 10));
    let header = PullHeader { sys_flag: 0, sub_version: 10, ..pull_header("CG", "Known", 0, 0) };
    let answer = connection.pull(&header);
    assert_eq!(records(&answer).iter().map(|record| record.0).collect::<Vec<_>>(), [1], "{answer:?}");
    let answer = connection.pull(&PullHeader { sub_version: 11, ..header });
    let remark = "the consumer's subscription not latest";
    assert_eq!((answer.code, answer.remark()), (response::SUBSCRIPTION_NOT_LATEST, remark));
}

#[test]
fn a_held_pull_is_answered_by_the_message_it_waits_for() {
    let stage = Stage::start(&[]);
    let (mut producer, mut consumer) = (stage.connect(), stage.connect());
    fill(&mut producer, "Held", 1, b"TAGS\x01A\x02");
    let header = PullHeader { subscription: "A", ..pull_header("CG", "Held", 0, 1) };
    let held = hold(&mut consumer, &mut producer, &header);
    send_b(&mut consumer, &mut producer, "Held");
    fill(&mut producer, "Held", 1, b"TAGS\x01A\x02");
    // Long before the pull has waited for its time.
    let answer = consumer.answer(held).unwrap();
    check(&answer, response::SUCCESS, "FOUND", 3);
    assert_eq!(records(&answer).iter().map(|record| record.0).collect::<Vec<_>>(), [2]);
}

#[test]
fn a_held_pull_takes_the_filter_its_group_has_by_now() {
    let stage = Stage::start(&[]);
    let (mut producer, mut consumer, mut member) = (stage.connect(), stage.connect(), stage.connect());
    fill(&mut producer, "Again", 1, b"TAGS\x01A\x02");
    let wanting = |tags: &str, version| {
        let codes = tags.split(" || ").map(|tag| java_hash(tag).to_string()).collect::<Vec<_>>().join(",");
        heartbeat("c1", "CG", "Again", tags, &codes, version)
    };
    beat(&mut member, &wanting("A", 10));
    let header = PullHeader { sys_flag: 0, sub_version: 10, ..pull_header("CG", "Again", 0, 1) };
    let held = hold(&mut consumer, &mut producer, &header);
    send_b(&mut consumer, &mut producer, "Again");
    beat(&mut member, &wanting("A || B", 11));
    fill(&mut producer, "Again", 1, b"TAGS\x01B\x02");
    let answer = consumer.answer(held).unwrap();
    let offsets: Vec<_> = records(&answer).iter().map(|record| record.0).collect();
    // Either message may have woken it.
    assert_eq!((answer.code, offsets.first()), (response::SUCCESS, Some(&1)), "from where the pull began");
}

#[test]
fn a_held_pull_of_a_group_that_may_no_longer_consume_is_asked_again() {
    let stage = Stage::start(&[]);
    let (mut producer, mut consumer) = (stage.connect(), stage.connect());
    fill(&mut producer, "Stopped", 1, b"");
    let header = pull_header("CG", "Stopped", 0, 1);
    let held = hold(&mut consumer, &mut producer, &header);
    let group = br#"{"groupName":"CG","consumeEnable":false}"#;
    let changed = producer.call(request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, |writer| writer, group);
    assert_eq!(changed.code, response::SUCCESS, "{changed:?}");
    fill(&mut producer, "Stopped", 1, b"");
    check(&consumer.answer(held).unwrap(), response::PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE", 1);
    assert_eq!(consumer.pull(&header).code, response::NO_PERMISSION);
}

#[test]
fn a_held_pull_ends_with_its_time() {
    let stage = Stage::start(&[]);
    let mut connection = stage.connect();
    fill(&mut connection, "Late", 1, b"");
    let asked = Instant::now();
    let answer = connection.pull(&PullHeader {
        sys_flag: pull_flag::SUBSCRIPTION | pull_flag::SUSPEND,
        suspend_timeout_ms: 300,
        ..pull_header("CG", "Late", 0, 1)
    });
    let waited = asked.elapsed();
    check(&answer, response::PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE", 1);
    assert!(waited >= Duration::from_millis(300), "{waited:?}");
}

#[test]
fn a_held_pull_commits_once() {
    let stage = Stage::start(&[]);
    let (mut producer, mut consumer) = (stage.connect(), stage.connect());
    fill(&mut producer, "Once", 2, b"");
    let held = hold(&mut consumer, &mut producer, &pull_header("CG", "Once", 0, 2));
    let answer = producer.call(
        request::UPDATE_CONSUMER_OFFSET,
        |writer| {
            writer
                .text("consumerGroup", "CG")
                .text("topic", "Once")
                .number("queueId", 0)
                .number("commitOffset", 2)
        },
        &[],
    );
    assert_eq!(answer.code, 0, "{answer:?}");
    fill(&mut producer, "Once", 1, b"");
    assert_eq!(consumer.answer(held).unwrap().code, 0);
    assert_eq!(committed(&mut producer, "Once"), 2, "the woken pull must not commit again");
}

#[test]
fn a_held_pull_of_a_lost_connection_is_forgotten() {
    let stage = Stage::start(&[]);
    let mut producer = stage.connect();
    fill(&mut producer, "Gone", 1, b"");
    let header = PullHeader {
        sys_flag: pull_flag::SUBSCRIPTION | pull_flag::SUSPEND,
        suspend_timeout_ms: 600_000,
        ..pull_header("CG", "Gone", 0, 1)
    };
    for _ in 0..50 {
        let mut consumer = stage.connect();
        consumer.ask(request::PULL_MESSAGE, |writer| header.write(writer), &[]).unwrap();
    }
    fill(&mut producer, "Gone", 3, b"");
    let answer = producer.pull(&pull_header("CG", "Gone", 0, 0));
    assert_eq!(records(&answer).len(), 4);
}
