//! Frames: encodings, pipelining, unknown requests, the VIP port.

use std::io::Read;

use wire::codes::{request, response};
use wire::frame::{Encoding, FrameWriter, Head, frame_length};
use wire::header::{PullHeader, pull_flag};

use crate::common::wire_client::{pull_header, send_header};
use crate::stage::{Stage, open};

#[test]
fn unknown_requests_are_answered_with_their_code() {
    let stage = Stage::start(&[]);
    for mut connection in [stage.connect(), stage.name_server()] {
        for code in [9999, 40_000, -5] {
            let answer = connection.call(code, |writer| writer, &[]);
            let remark = format!(" request type {code} not supported");
            assert_eq!(
                (answer.code, answer.remark()),
                (response::REQUEST_CODE_NOT_SUPPORTED, remark.as_str())
            );
        }
        connection.tell(9999, |writer| writer, &[]).unwrap();
        connection.call(9998, |writer| writer, &[]);
        assert!(connection.others().is_empty(), "one way is silent: {:?}", connection.others());
    }
}

#[test]
fn wire_9_every_answer_says_language_and_version() {
    let stage = Stage::start(&[]);
    for mut connection in [stage.connect(), stage.name_server()] {
        connection.call(9999, |writer| writer, &[]);
        let mut out = Vec::new();
        Head::request(Encoding::Json, 9999, 100).write(&mut out, b"");
        connection.write(&out).unwrap();
        let mut frame = vec![0; 4];
        connection.stream().read_exact(&mut frame).unwrap();
        frame.resize(frame_length(&frame).unwrap().unwrap(), 0);
        connection.stream().read_exact(&mut frame[4..]).unwrap();
        let header: serde_json::Value = serde_json::from_slice(&frame[8..]).unwrap();
        assert!(header["language"].is_string(), "{header}");
        assert!(header["version"].as_i64().unwrap() >= 232, "{header}");
    }
}

#[test]
fn responses_nobody_waits_for_are_dropped() {
    let stage = Stage::start(&[]);
    for mut connection in [stage.connect(), stage.name_server()] {
        let mut out = Vec::new();
        Head::response(Encoding::Json, 0, 77).write(&mut out, b"what");
        connection.write(&out).unwrap();
        assert_eq!(connection.call(9999, |writer| writer, &[]).code, response::REQUEST_CODE_NOT_SUPPORTED);
    }
}

#[test]
fn an_answer_uses_the_encoding_of_its_request() {
    let stage = Stage::start(&[]);
    for mut connection in [stage.connect(), stage.name_server()] {
        for encoding in [Encoding::Json, Encoding::Binary, Encoding::Json] {
            connection.encoding = encoding;
            assert_eq!(connection.call(9999, |writer| writer, &[]).encoding, encoding);
        }
    }
}

#[test]
fn a_request_that_waits_holds_up_nobody() {
    let stage = Stage::start(&[]);
    let mut connection = stage.connect();
    connection.stored(&send_header("Pipe", 0), b"x");
    let header = PullHeader {
        sys_flag: pull_flag::SUBSCRIPTION | pull_flag::SUSPEND,
        suspend_timeout_ms: 600_000,
        ..pull_header("CG", "Pipe", 0, 1)
    };
    let held = connection.ask(request::PULL_MESSAGE, |writer| header.write(writer), &[]).unwrap();
    let other = connection.ask(9999, |writer| writer, &[]).unwrap();
    assert_eq!(connection.receive().unwrap().opaque, other, "the answer to the later request comes first");
    let send = connection
        .ask(request::SEND_MESSAGE_V2, |writer| send_header("Pipe", 0).write(writer), b"wakes")
        .unwrap();
    let mut answered = [connection.receive().unwrap().opaque, connection.receive().unwrap().opaque];
    answered.sort_unstable();
    assert_eq!(answered, [held, send]);
}

/// Two hundred sends, both encodings in turn.
fn requests() -> Vec<u8> {
    let mut out = Vec::new();
    for opaque in 0..200 {
        let encoding = if opaque % 2 == 0 { Encoding::Json } else { Encoding::Binary };
        let head = Head::request(encoding, request::SEND_MESSAGE_V2, opaque);
        send_header("Many", 0).write(FrameWriter::begin(&mut out, head)).finish(b"body");
    }
    out
}

#[test]
fn frames_may_arrive_in_any_pieces() {
    let stage = Stage::start(&[]);
    // Sends that wait for a topic to be made may be overtaken.
    stage.connect().stored(&send_header("Many", 0), b"first");
    let bytes = requests();
    for piece in [1, 7, 1000, bytes.len()] {
        let mut connection = stage.connect();
        for part in bytes.chunks(piece) {
            connection.write(part).unwrap();
        }
        let mut offsets = Vec::new();
        for opaque in 0..200 {
            let answer = connection.answer(opaque).unwrap();
            assert_eq!(answer.code, 0, "{answer:?}");
            offsets.push(answer.number("queueOffset"));
        }
        assert!(offsets.windows(2).all(|pair| pair[0] + 1 == pair[1]), "one connection's order is kept");
    }
}

#[test]
fn the_vip_port_sends_and_does_not_pull() {
    let stage = Stage::start(&[]);
    let mut connection = open(stage.server.setup().vip());
    connection.stored(&send_header("Vip", 0), b"x");
    let answer = connection.pull(&pull_header("CG", "Vip", 0, 0));
    assert_eq!(answer.code, response::REQUEST_CODE_NOT_SUPPORTED, "{answer:?}");
    assert!(answer.remark().starts_with(" request type 11 not supported"), "{answer:?}");
    assert_eq!(stage.connect().pull(&pull_header("CG", "Vip", 0, 0)).code, 0);
}
