//! Typed headers: written headers can be read, and errors name the missing or wrong field.

use super::*;
use crate::codes::request;
use crate::fields::FieldError;
use crate::frame::{Command, Encoding, FrameWriter, Head};

fn decoded<T>(
    encoding: Encoding,
    write: impl FnOnce(FrameWriter<'_>) -> FrameWriter<'_>,
    check: impl FnOnce(&Command<'_>) -> T,
) -> T {
    let mut out = Vec::new();
    let writer = FrameWriter::begin(&mut out, Head::request(encoding, request::SEND_MESSAGE_V2, 1));
    write(writer).finish(b"");
    check(&Command::decode(&mut out).unwrap())
}

const SEND: SendHeader<'_> = SendHeader {
    producer_group: "g",
    topic: "t",
    default_topic: "TBW102",
    default_topic_queue_nums: 4,
    queue_id: -1,
    sys_flag: 0x101,
    born_timestamp: 1_700_000_000_123,
    flag: -7,
    properties: b"K\x01v\x02",
    reconsume_times: 2,
    unit_mode: true,
    max_reconsume_times: Some(16),
    batch: true,
    broker_name: "b",
};

#[test]
fn send_header_round_trips() {
    for encoding in [Encoding::Json, Encoding::Binary] {
        decoded(
            encoding,
            |writer| SEND.write(writer),
            |command| assert_eq!(SendHeader::decode(command.code, &command.fields), Ok(SEND)),
        );
    }
}

#[test]
fn long_names_are_read_for_code_10() {
    decoded(
        Encoding::Json,
        |writer| {
            writer
                .text("producerGroup", "g")
                .text("topic", "t")
                .text("defaultTopic", "d")
                .number("defaultTopicQueueNums", 8)
                .number("queueId", 3)
                .number("sysFlag", 0)
                .number("bornTimestamp", 5)
                .number("flag", 0)
                .text("bname", "b")
        },
        |command| {
            let header = SendHeader::decode(request::SEND_MESSAGE, &command.fields).unwrap();
            assert_eq!((header.topic, header.queue_id, header.broker_name), ("t", 3, "b"));
        },
    );
}

#[test]
fn missing_and_wrong_fields_are_named() {
    decoded(
        Encoding::Json,
        |writer| writer.text("a", "g").text("b", "t").text("c", "d"),
        |command| {
            let error = SendHeader::decode(request::SEND_MESSAGE_V2, &command.fields);
            assert_eq!(error, Err(FieldError::Missing("e")));
        },
    );
    decoded(
        Encoding::Json,
        |writer| SEND.write(writer).text("e", "many"),
        |command| {
            let error = SendHeader::decode(request::SEND_MESSAGE_V2, &command.fields).unwrap_err();
            assert_eq!(error.to_string(), "the request header field queueId is \"many\", expected i32");
        },
    );
    decoded(
        Encoding::Json,
        |writer| writer.text("topic", "t").text("consumerGroup", "g"),
        |command| assert_eq!(PullHeader::decode(&command.fields), Err(FieldError::Missing("queueId"))),
    );
}

#[test]
fn what_the_java_broker_does_not_need_may_be_missing() {
    decoded(
        Encoding::Json,
        |writer| writer.text("b", "t").number("e", 3).number("f", 0).number("g", 5).number("h", 1),
        |command| {
            let header = SendHeader::decode(request::SEND_MESSAGE_V2, &command.fields).unwrap();
            let expected =
                SendHeader { topic: "t", queue_id: 3, born_timestamp: 5, flag: 1, ..SendHeader::default() };
            assert_eq!(header, expected);
        },
    );
    let pull = PullHeader {
        consumer_group: "g",
        topic: "t",
        queue_offset: 9,
        max_messages: 32,
        ..PullHeader::default()
    };
    decoded(
        Encoding::Json,
        |writer| {
            let writer = writer.text("consumerGroup", "g").text("topic", "t").number("queueId", 0);
            writer.number("queueOffset", 9).number("maxMsgNums", 32).number("sysFlag", 0)
        },
        |command| assert_eq!(PullHeader::decode(&command.fields), Ok(pull)),
    );
}

#[test]
fn pull_header_and_reply_round_trip() {
    let header = PullHeader {
        consumer_group: "g",
        topic: "t",
        queue_id: 7,
        queue_offset: 1 << 40,
        max_messages: 32,
        sys_flag: pull_flag::SUSPEND | pull_flag::SUBSCRIPTION,
        commit_offset: 9,
        suspend_timeout_ms: 15_000,
        subscription: "a || b",
        sub_version: 77,
        expression_type: "TAG",
        max_bytes: None,
    };
    let reply =
        PullResponseHeader { next_offset: 5, min_offset: 1, max_offset: 9, ..PullResponseHeader::default() };
    for encoding in [Encoding::Json, Encoding::Binary] {
        decoded(
            encoding,
            |writer| header.write(writer),
            |command| assert_eq!(PullHeader::decode(&command.fields), Ok(header)),
        );
        decoded(
            encoding,
            |writer| reply.write(writer),
            |command| assert_eq!(PullResponseHeader::decode(&command.fields), Ok(reply)),
        );
    }
}
