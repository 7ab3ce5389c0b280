//! Outcomes of sends: codes, remarks, and when they are answered.

use net::Service as _;
use store::FlushMode;
use wire::codes::request;
use wire::frame::{FrameWriter, Head, frame_length};

use super::*;
use crate::front::Front;
use crate::testing::{ADDRESS, Fixture};

fn check(error: &AppendError, code: i32, begins: &str) {
    let fixture = Fixture::new();
    let refusal = not_stored(&fixture.broker, error);
    assert_eq!(refusal.code, code, "{error}");
    assert!(refusal.remark.starts_with(begins), "{}", refusal.remark);
}

#[test]
fn behaviour_1_appends_that_fail_have_the_codes_and_texts_of_java() {
    let gone = "service not available now. It may be caused by one of the following reasons: the broker's disk is full [CL: ";
    check(&AppendError::Closed, 14, gone);
    check(&AppendError::Fenced("x".to_owned()), 14, gone);
    check(&AppendError::NoSpace(std::io::ErrorKind::StorageFull.into()), 14, gone);
    check(&AppendError::DiskFull { log_percent: 91, queue_percent: 5 }, 14, gone);
    let busy = "[PC_SYNCHRONIZED]broker busy, start flow control for a while";
    check(&AppendError::Busy { waiting: 9, limit: 8 }, 2, busy);
    let fixture = Fixture::new();
    assert_eq!(
        illegal(&fixture.broker),
        Refusal::new(
            13,
            "the message is illegal, maybe msg body or properties length not matched. msg body length limit 4194304B, msg properties length limit 32KB."
        )
    );
}

#[test]
fn behaviour_7_an_answer_that_came_too_late_keeps_where_the_message_is() {
    for encoding in [Encoding::Json, Encoding::Binary] {
        let mut answers = Vec::new();
        for opaque in 0..2 {
            let head = Head::response(encoding, response::SUCCESS, opaque);
            let writer =
                FrameWriter::begin(&mut answers, head).text("msgId", "0A000009").number("queueId", 3);
            writer.number("queueOffset", 7).finish(b"");
        }
        reply::recode(&mut answers, response::FLUSH_DISK_TIMEOUT);
        let mut rest = answers.as_mut_slice();
        for opaque in 0..2 {
            let length = frame_length(rest).unwrap().unwrap();
            let (frame, next) = rest.split_at_mut(length);
            let answer = Command::decode(frame).unwrap();
            assert_eq!((answer.code, answer.opaque), (10, opaque));
            assert_eq!(answer.fields.text("msgId"), Some("0A000009"));
            assert_eq!(answer.fields.text("queueOffset"), Some("7"));
            rest = next;
        }
        assert!(rest.is_empty());
    }
}

/// Sends a message; true when it was answered without waiting for the disk.
fn answered_at_once(fixture: &Fixture, properties: &[u8]) -> bool {
    let header = SendHeader { producer_group: "PG", topic: "T", properties, ..SendHeader::default() };
    let mut bytes = Vec::new();
    let head = Head::request(Encoding::Json, request::SEND_MESSAGE_V2, 1);
    header.write(FrameWriter::begin(&mut bytes, head)).finish(b"body");
    let front = Front { broker: fixture.broker.clone(), fast: false };
    let peer = Arc::new(Peer::detached(1, ADDRESS));
    let (mut turn, mut out) = (front.turn(), Vec::new());
    front.frame(&mut turn, &peer, Command::decode(&mut bytes).unwrap(), &mut out);
    front.end(&mut turn, &peer, &mut out);
    if out.is_empty() {
        // It comes once the disk has the message.
        let (sender, receiver) = std::sync::mpsc::channel();
        let end = fixture.broker.store.appended();
        fixture.broker.store.when_flushed(end, Box::new(move |_| sender.send(()).unwrap()));
        receiver.recv().unwrap();
        out = peer.pushed();
    } else {
        assert_eq!(Command::decode(&mut out).unwrap().code, 0);
        return true;
    }
    assert!(out.is_empty() || Command::decode(&mut out).unwrap().code == 0);
    false
}

#[test]
fn behaviour_8_a_send_that_does_not_wait_for_the_disk_is_answered_at_once() {
    let fixture = Fixture::with(|config| config.store.flush = FlushMode::Sync);
    fixture.queue("T", 0);
    assert!(answered_at_once(&fixture, b"WAIT\x01false\x02"));
    assert!(!answered_at_once(&fixture, b"WAIT\x01true\x02"));
    assert!(!answered_at_once(&fixture, b""));
}

#[test]
fn behaviour_24_the_flush_mode_changes_while_sends_go_on() {
    let fixture = Fixture::new();
    fixture.queue("T", 0);
    let switch = |value: &str| {
        let mut bytes = Vec::new();
        let head = Head::request(Encoding::Json, request::UPDATE_BROKER_CONFIG, 1);
        head.write(&mut bytes, value.as_bytes());
        let front = Front { broker: fixture.broker.clone(), fast: false };
        let peer = Arc::new(Peer::detached(1, ADDRESS));
        let (mut turn, mut out) = (front.turn(), Vec::new());
        front.frame(&mut turn, &peer, Command::decode(&mut bytes).unwrap(), &mut out);
        while out.is_empty() {
            out = peer.pushed();
            std::thread::yield_now();
        }
        Command::decode(&mut out).unwrap().code
    };
    assert!(answered_at_once(&fixture, b""));
    assert_eq!(switch("flushDiskType=SYNC_FLUSH"), 0);
    assert!(!answered_at_once(&fixture, b""));
    let shown = String::from_utf8(crate::admin::config(&fixture.broker).unwrap().body).unwrap();
    assert!(shown.contains("flushDiskType=SYNC_FLUSH"));
    assert_eq!(switch("flushDiskType=ASYNC_FLUSH"), 0);
    assert!(answered_at_once(&fixture, b""));
    assert_eq!(switch("flushDiskType=SOMETIMES"), response::INVALID_PARAMETER);
    assert_eq!(switch("brokerName=other"), response::NO_PERMISSION);
    assert_eq!(switch("configBlackList=x"), response::NO_PERMISSION);
    assert_eq!(fixture.messages("T", 0).len(), 3);
}

#[test]
fn topics_of_batches_from_java_are_refused_both_ways_with_the_reason() {
    let fixture = Fixture::new();
    fixture.queue("T", 0);
    let text = r#"{"topicConfigTable":{"B":{"attributes":{"queue.type":"BatchCQ"},"topicName":"B"}}}"#;
    std::fs::write(fixture.config_path("topics.json"), text).unwrap();
    let fixture = fixture.reopened();
    let peer = Arc::new(Peer::detached(1, ADDRESS));
    let front = Front { broker: fixture.broker.clone(), fast: false };
    let ask = |code: i32, fields: &[(&str, &str)]| {
        let mut bytes = Vec::new();
        let writer = FrameWriter::begin(&mut bytes, Head::request(Encoding::Json, code, 1));
        fields.iter().fold(writer, |writer, (key, value)| writer.text(key, value)).finish(b"body");
        let mut out = Vec::new();
        fixture.broker.groups.make("g", 1).unwrap();
        front.frame(&mut front.turn(), &peer, Command::decode(&mut bytes).unwrap(), &mut out);
        let answer = Command::decode(&mut out).unwrap();
        (answer.code, answer.remark.unwrap_or_default().to_owned())
    };
    let send = [
        ("a", "PG"),
        ("b", "B"),
        ("c", "TBW102"),
        ("d", "4"),
        ("e", "0"),
        ("f", "0"),
        ("g", "1"),
        ("h", "0"),
    ];
    let pull = [
        ("consumerGroup", "g"),
        ("topic", "B"),
        ("queueId", "0"),
        ("queueOffset", "0"),
        ("maxMsgNums", "32"),
        ("sysFlag", "4"),
        ("commitOffset", "0"),
        ("suspendTimeoutMillis", "0"),
        ("subscription", "*"),
        ("subVersion", "0"),
    ];
    for (code, remark) in [ask(request::SEND_MESSAGE_V2, &send), ask(request::PULL_MESSAGE, &pull)] {
        assert_eq!(code, response::NO_PERMISSION, "{remark}");
        assert!(remark.contains("queue.type=BatchCQ, which is not served"), "{remark}");
    }
}
