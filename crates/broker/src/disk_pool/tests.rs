//! Requests that are served by the disk pool.

use net::Service as _;
use wire::frame::{Command, Encoding};

use super::*;
use crate::dispatcher::Dispatcher;
use crate::testing::{ADDRESS, Fixture, answers};

fn peer() -> Arc<ConnectionHandle> {
    Arc::new(ConnectionHandle::detached(1, ADDRESS))
}

/// Sends a request without fields whose id is its code; returns code and id of the answers that are written at once.
fn ask(fixture: &Fixture, peer: &Arc<ConnectionHandle>, code: i32) -> Vec<(i32, i32)> {
    let mut bytes = Vec::new();
    Head::request(Encoding::Json, code, code).write(&mut bytes, b"");
    let dispatcher = Dispatcher { broker: fixture.broker.clone(), fast: false };
    let (mut read_batch, mut out) = (dispatcher.read_batch(), Vec::new());
    dispatcher.frame(&mut read_batch, peer, Command::decode(&mut bytes).unwrap(), &mut out);
    dispatcher.end(&mut read_batch, peer, &mut out);
    answers(out)
}

/// Requests of operators: queries by key, tables, figures of many queues.
const OPERATORS: [i32; 15] = [12, 21, 28, 43, 201, 202, 203, 208, 300, 303, 308, 309, 317, 321, 328];

/// Other requests that may wait for the disk: send-backs, searches, resets and clones of offsets.
const OTHERS: [i32; 10] = [25, 29, 32, 33, 36, 222, 314, 323, 401, request::PEEK_MESSAGE];

#[test]
fn no_connection_waits_for_the_disk_or_for_large_tables() {
    let fixture = Fixture::new();
    let peer = peer();
    let mut codes = [OPERATORS.as_slice(), &OTHERS].concat();
    codes.sort_unstable();
    for code in &codes {
        assert!(ask(&fixture, &peer, *code).is_empty(), "{code}");
    }
    fixture.broker.disk_pool.stop();
    let mut served: Vec<i32> = answers(peer.pushed()).into_iter().map(|(_, id)| id).collect();
    served.sort_unstable();
    assert_eq!(served, codes);
    assert_eq!(fixture.broker.disk_pool.waiting_bytes.load(Ordering::Relaxed), 0);
    assert_eq!(peer.unanswered(), 0);
}

#[test]
fn what_operators_ask_holds_up_no_consumer() {
    let fixture = Fixture::new();
    let peer = peer();
    fixture.broker.disk_pool.operators.stop();
    for code in OPERATORS {
        assert_eq!(ask(&fixture, &peer, code), [(response::SYSTEM_BUSY, code)]);
    }
    for code in OTHERS {
        assert!(ask(&fixture, &peer, code).is_empty(), "{code}");
    }
    fixture.broker.disk_pool.stop();
    assert_eq!(answers(peer.pushed()).len(), OTHERS.len());
}

#[test]
fn a_refusal_says_what_there_is_too_much_of() {
    let cases = [
        (request::PULL_MESSAGE, "too many pulls and pops wait for messages from the disk"),
        (request::CONSUMER_SEND_MSG_BACK, "too many requests wait for the disk"),
        (request::GET_ALL_TOPIC_CONFIG, "too many requests of operators and their tools wait for each other"),
    ];
    for (code, text) in cases {
        let Refusal { code, remark, .. } = too_many(code);
        assert_eq!(code, response::SYSTEM_BUSY);
        assert!(remark.ends_with(text), "{remark}");
    }
}

#[test]
fn who_went_away_is_told_nothing_but_what_he_asked_for_is_done() {
    let peer = peer();
    assert!(!is_moot(&peer, request::GET_BROKER_CONSUME_STATS));
    peer.abort();
    assert!(is_moot(&peer, request::GET_BROKER_CONSUME_STATS));
    assert!(!is_moot(&peer, request::CONSUMER_SEND_MSG_BACK));
    assert!(!is_moot(&peer, request::CLONE_GROUP_OFFSET));
}

#[test]
fn a_large_answer_waits_for_room_and_is_charged_until_then() {
    let peer = peer();
    give(&peer, vec![7; 2 * KEPT_BYTES]);
    assert_eq!(peer.unanswered(), 2 * KEPT_BYTES);
    assert_eq!((peer.pushed().len(), peer.unanswered()), (2 * KEPT_BYTES, 0));
}

#[test]
fn a_request_that_panics_takes_no_other_along() {
    let fixture = Fixture::new();
    let (broker, peer) = (&fixture.broker, peer());
    let pools = [&broker.disk_pool.consumers, &broker.disk_pool.requests, &broker.disk_pool.operators];
    for pool in pools {
        let panics = Job::new(broker, peer.clone(), Work::Panic);
        assert!(pool.send(panics).is_ok());
    }
    for code in [28, 36] {
        assert!(ask(&fixture, &peer, code).is_empty(), "{code}");
    }
    broker.disk_pool.stop();
    let mut served: Vec<i32> = answers(peer.pushed()).into_iter().map(|(_, id)| id).collect();
    served.sort_unstable();
    assert_eq!(served, [28, 36]);
    assert_eq!(peer.unanswered(), 0);
}

#[test]
fn a_connection_does_not_wait_for_the_locks_of_another() {
    let fixture = Fixture::new();
    let peer = peer();
    let entry = r#"{"brokerName":"b","queueId":0,"topic":"T"}"#;
    for (count, is_large) in [(10, false), (2000, true)] {
        let body = format!(
            r#"{{"clientId":"c","consumerGroup":"g","mqSet":[{}]}}"#,
            [entry].repeat(count).join(",")
        );
        let mut bytes = Vec::new();
        Head::request(Encoding::Json, request::LOCK_BATCH_MQ, 41).write(&mut bytes, body.as_bytes());
        let dispatcher = Dispatcher { broker: fixture.broker.clone(), fast: false };
        let (mut read_batch, mut out) = (dispatcher.read_batch(), Vec::new());
        dispatcher.frame(&mut read_batch, &peer, Command::decode(&mut bytes).unwrap(), &mut out);
        assert_eq!(out.is_empty(), is_large, "{count} queues");
    }
    fixture.broker.disk_pool.stop();
    // The large answer waits until the connection takes it.
    let mut late = peer.pushed();
    while let Some(work) = peer.take_work() {
        work(&peer, &mut late);
    }
    assert_eq!(answers(late), [(0, 41)]);
}
