//! Tests of the answers of the limit servers.

use super::answer::Answers;
use wire::body::{ClusterInfo, TopicRouteData};
use wire::codes::request;
use wire::frame::{Command, Encoding, FrameWriter, Head};
use wire::header::SendResponseHeader;

fn answers() -> Answers {
    Answers::new("127.0.0.1:5".parse().unwrap(), 8)
}

fn ask<T>(code: i32, encoding: Encoding, check: impl FnOnce(&Command<'_>) -> T) -> T {
    let mut frame = Vec::new();
    let writer = FrameWriter::begin(&mut frame, Head::request(encoding, code, 77));
    writer.text("topic", "a topic long enough").finish(b"");
    let mut out = Vec::new();
    answers().append(&mut frame, &mut out).unwrap();
    let command = Command::decode(&mut out).unwrap();
    assert!(command.is_response());
    assert_eq!((command.opaque, command.encoding), (77, encoding));
    check(&command)
}

#[test]
fn sends_succeed_in_both_encodings() {
    for encoding in [Encoding::Json, Encoding::Binary] {
        for code in [request::SEND_MESSAGE, request::SEND_MESSAGE_V2, request::SEND_BATCH_MESSAGE] {
            ask(code, encoding, |command| {
                let reply = SendResponseHeader::decode(&command.fields).unwrap();
                assert_eq!((command.code, reply.queue_offset), (0, 12_345));
                assert_eq!(command.fields.text("MSG_REGION"), Some("DefaultRegion"));
            });
        }
    }
}

#[test]
fn routes_lead_back() {
    ask(request::GET_ROUTEINFO_BY_TOPIC, Encoding::Json, |command| {
        let route = TopicRouteData::decode(command.body).unwrap();
        assert_eq!(route.broker_datas[0].broker_addrs[&0], "127.0.0.1:5");
        assert_eq!(route.queue_datas[0].write_queue_nums, 8);
    });
    ask(request::GET_BROKER_CLUSTER_INFO, Encoding::Json, |command| {
        let info: ClusterInfo = wire::json::from_slice(command.body).unwrap();
        assert_eq!(info.broker_addr_table["echo"].broker_addrs[&0], "127.0.0.1:5");
    });
}

#[test]
fn anything_else_is_refused_and_one_way_is_silent() {
    ask(request::PULL_MESSAGE, Encoding::Binary, |command| assert_eq!(command.code, 3));
    for code in [request::SEND_MESSAGE_V2, request::PULL_MESSAGE] {
        for encoding in [Encoding::Json, Encoding::Binary] {
            let mut frame = Vec::new();
            Head::one_way(encoding, code, 1).write(&mut frame, b"body");
            let mut out = Vec::new();
            answers().append(&mut frame, &mut out).unwrap();
            assert!(out.is_empty(), "{code} {encoding:?}");
        }
    }
}
