//! Requests that are served by the disk pool.

use net::Service as _;
use wire::codes::{request, response};

use super::*;
use crate::testing::{ADDRESS, Fixture, answers};
use wire::frame::{Encoding, Head};

fn peer() -> Arc<ConnectionHandle> {
    Arc::new(ConnectionHandle::detached(1, ADDRESS))
}

/// Sends a request without fields whose id is its code; returns code and id of the answers that are written at once.
fn ask(fixture: &Fixture, peer: &Arc<ConnectionHandle>, code: i32) -> Vec<(i32, i32)> {
    let mut bytes = Vec::new();
    Head::request(Encoding::Json, code, code).write(&mut bytes, b"");
    let dispatcher = Dispatcher::new(fixture.broker.clone(), Port::Own);
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
    fixture.stop_disk_pool();
    let mut served: Vec<i32> = answers(peer.pushed()).into_iter().map(|(_, id)| id).collect();
    served.sort_unstable();
    assert_eq!(served, codes);
    assert_eq!(fixture.broker.runtime.disk_pool.waiting_bytes(), 0);
    assert_eq!(peer.unanswered(), 0);
}

#[test]
fn what_operators_ask_holds_up_no_consumer() {
    let fixture = Fixture::new();
    let peer = peer();
    fixture.broker.runtime.disk_pool.close_operators();
    for code in OPERATORS {
        assert_eq!(ask(&fixture, &peer, code), [(response::SYSTEM_BUSY, code)]);
    }
    for code in OTHERS {
        assert!(ask(&fixture, &peer, code).is_empty(), "{code}");
    }
    fixture.stop_disk_pool();
    assert_eq!(answers(peer.pushed()).len(), OTHERS.len());
}

#[test]
fn who_went_away_is_told_nothing_but_what_he_asked_for_is_done() {
    let peer = peer();
    let is_moot = |code| {
        let mut bytes = Vec::new();
        Head::request(Encoding::Json, code, 1).write(&mut bytes, b"");
        let frame = RequestFrame::new(Command::decode(&mut bytes).unwrap());
        super::is_moot(&peer, &Detached::new(&frame, &crate::testing::CALLER, &Port::Own))
    };
    assert!(!is_moot(request::GET_BROKER_CONSUME_STATS));
    peer.abort();
    assert!(is_moot(request::GET_BROKER_CONSUME_STATS));
    assert!(!is_moot(request::CONSUMER_SEND_MSG_BACK));
    assert!(!is_moot(request::CLONE_GROUP_OFFSET));
}

#[test]
fn a_large_answer_waits_for_room_and_is_charged_until_then() {
    let peer = peer();
    give(&peer, vec![7; 2 * LARGE_BYTES]);
    assert_eq!(peer.unanswered(), 2 * LARGE_BYTES);
    assert_eq!((peer.pushed().len(), peer.unanswered()), (2 * LARGE_BYTES, 0));
}

#[test]
fn a_request_that_panics_takes_no_other_along() {
    let fixture = Fixture::new();
    let (broker, peer) = (&fixture.broker, peer());
    for kind in [Kind::Consumers, Kind::Requests, Kind::Operators] {
        let charge = peer.charge(1);
        let panics = move || {
            let _charge = charge;
            panic!("on purpose")
        };
        broker.runtime.disk_pool.reserve(kind, 0).unwrap().run(panics);
    }
    for code in [28, 36] {
        assert!(ask(&fixture, &peer, code).is_empty(), "{code}");
    }
    fixture.stop_disk_pool();
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
        let dispatcher = Dispatcher::new(fixture.broker.clone(), Port::Own);
        let (mut read_batch, mut out) = (dispatcher.read_batch(), Vec::new());
        dispatcher.frame(&mut read_batch, &peer, Command::decode(&mut bytes).unwrap(), &mut out);
        assert_eq!(out.is_empty(), is_large, "{count} queues");
    }
    fixture.stop_disk_pool();
    // The large answer waits until the connection takes it.
    let mut late = peer.pushed();
    while let Some(work) = peer.take_task() {
        work(&peer, &mut late);
    }
    assert_eq!(answers(late), [(0, 41)]);
}

#[test]
fn fields_that_are_empty_are_kept() {
    let text = br#"{"code":310,"opaque":7,"flag":0,"version":5,"language":"JAVA","extFields":{"a":"","b":"T\u0001"}}"#;
    let mut frame = Vec::new();
    frame.extend_from_slice(&(text.len() as u32 + 4 + 2).to_be_bytes());
    frame.extend_from_slice(&(text.len() as u32).to_be_bytes());
    frame.extend_from_slice(text);
    frame.extend_from_slice(b"hi");
    let received = RequestFrame::new(Command::decode(&mut frame).unwrap());
    let detached = Detached::new(&received, &crate::testing::CALLER, &Port::Fast);
    drop(received);
    frame.fill(0);
    let command = detached.command();
    assert_eq!((command.fields.text("a"), command.fields.text("b")), (Some(""), Some("T\u{1}")));
    let found = (command.code, command.opaque, command.encoding, command.body);
    assert_eq!(found, (310, 7, Encoding::Json, b"hi".as_slice()));
    assert_eq!(detached.port, Port::Fast);
}

/// A frame with a JSON header of these fields and without a body.
fn json_frame(code: i32, fields: &str) -> Vec<u8> {
    let text = format!(r#"{{"code":{code},"opaque":7,"flag":0,"extFields":{{{fields}}}}}"#);
    let mut frame = Vec::with_capacity(8 + text.len());
    frame.extend_from_slice(&(text.len() as u32 + 4).to_be_bytes());
    frame.extend_from_slice(&(text.len() as u32).to_be_bytes());
    frame.extend_from_slice(text.as_bytes());
    frame
}

#[test]
fn a_header_of_many_fields_a_large_code_and_a_key_with_a_quote_are_kept() {
    let fields = format!(r#"{}"a\"b":"\u0001""#, r#""a":1,"#.repeat(1000));
    let mut frame = json_frame(request::PEEK_MESSAGE, &fields);
    let received = RequestFrame::new(Command::decode(&mut frame).unwrap());
    let detached = Detached::new(&received, &crate::testing::CALLER, &Port::Own);
    let command = detached.command();
    assert_eq!((command.code, command.fields.len()), (request::PEEK_MESSAGE, 1001));
    assert_eq!(command.fields.text("a\"b"), Some("\u{1}"));
}

#[test]
fn a_request_is_looked_up_once_on_its_way_through_dispatch() {
    let fixture = Fixture::new();
    let dispatcher = Dispatcher::new(fixture.broker.clone(), Port::Own);
    let peer = peer();
    let lookups = || super::super::request_table::LOOKUPS.get();
    // Answered, for the disk pool, refused, without a row, and on the proxy's port only.
    for code in [request::GET_MAX_OFFSET, request::SEARCH_OFFSET_BY_TIMESTAMP, request::POP_MESSAGE, 7, 105] {
        let mut bytes = Vec::new();
        Head::request(Encoding::Json, code, 1).write(&mut bytes, b"");
        let before = lookups();
        let mut read_batch = dispatcher.read_batch();
        dispatcher.frame(&mut read_batch, &peer, Command::decode(&mut bytes).unwrap(), &mut Vec::new());
        assert_eq!(lookups() - before, 1, "{code}");
    }
    fixture.stop_disk_pool();
    assert_eq!(answers(peer.pushed()).len(), 1);
    // As a thread of the disk pool serves it.
    let mut bytes = Vec::new();
    Head::request(Encoding::Json, request::SEARCH_OFFSET_BY_TIMESTAMP, 1).write(&mut bytes, b"");
    let frame = RequestFrame::new(Command::decode(&mut bytes).unwrap());
    let detached = Detached::new(&frame, &crate::testing::CALLER, &Port::Own);
    let (before, mut out) = (lookups(), Vec::new());
    serve_again(&fixture.broker, &peer, detached, &mut out);
    assert_eq!((lookups() - before, answers(out).len()), (0, 1));
}
