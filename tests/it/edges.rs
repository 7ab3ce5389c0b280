//! Numbers and flags at their ends: a code and a remark, or a sane effect; never a lost connection.

use wire::batch::{self, Entry};
use wire::codes::request;
use wire::header::{PullHeader, SendHeader, pull_flag};
use wire::id::OffsetId;

use crate::common::wire_client::{Arrived, Connection, pull_header, send_header};
use crate::stage::{Stage, beat, eventually, heartbeat, records};

/// Bodies from `offset` on.
fn bodies(connection: &mut Connection, topic: &str, offset: i64) -> Vec<String> {
    let answer = connection.pull(&pull_header("CG", topic, 0, offset));
    records(&answer).into_iter().map(|record| String::from_utf8_lossy(&record.1).into_owned()).collect()
}

#[test]
fn pulls_take_any_numbers() {
    let stage = Stage::start(&[]);
    let mut connection = stage.connect();
    connection.stored(&send_header("Numbers", 0), b"x");
    let ends = [i64::MIN, -1, 0, 1, i64::MAX];
    for number in ends {
        let small = number.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32;
        let header = pull_header("CG", "Numbers", 0, 0);
        for header in [
            PullHeader { queue_offset: number, ..header },
            PullHeader { max_messages: small, ..header },
            PullHeader {
                commit_offset: number,
                sys_flag: header.sys_flag | pull_flag::COMMIT_OFFSET,
                ..header
            },
            PullHeader { sub_version: number, ..header },
            PullHeader { queue_id: small, ..header },
            PullHeader {
                suspend_timeout_ms: number,
                sys_flag: header.sys_flag | pull_flag::SUSPEND,
                ..header
            },
            PullHeader { sys_flag: small | pull_flag::SUBSCRIPTION & !pull_flag::SUSPEND, ..header },
        ] {
            let answer = connection.pull(&header);
            assert!(answer.response, "{header:?} {answer:?}");
        }
    }
    // Held until the end of time, unless a message comes.
    let header = PullHeader {
        suspend_timeout_ms: i64::MAX,
        sys_flag: pull_flag::SUBSCRIPTION | pull_flag::SUSPEND,
        ..pull_header("CG", "Numbers", 0, 1)
    };
    let held = connection.ask(request::PULL_MESSAGE, |writer| header.write(writer), &[]).unwrap();
    connection.stored(&send_header("Numbers", 0), b"y");
    assert_eq!(connection.answer(held).unwrap().code, 0);
}

#[test]
fn sends_take_any_numbers() {
    let stage = Stage::start(&[]);
    let mut connection = stage.connect();
    for number in [i32::MIN, -1, 0, 1, i32::MAX] {
        let header = send_header("Numbers", 0);
        for header in [
            SendHeader { queue_id: number, ..header },
            SendHeader { default_topic_queue_nums: number, topic: "Other", ..header },
            SendHeader { flag: number, ..header },
            SendHeader { born_timestamp: i64::from(number) << 32, ..header },
            SendHeader { reconsume_times: number, max_reconsume_times: Some(number), ..header },
            SendHeader { reconsume_times: number, topic: "%RETRY%CG", ..header },
        ] {
            let answer = connection.send(&header, b"x");
            assert!(answer.response, "{header:?} {answer:?}");
        }
    }
    for delay in ["0", "-1", "99", "2147483648", "x", ""] {
        let properties = format!("DELAY\u{1}{delay}\u{2}");
        let header = SendHeader { properties: properties.as_bytes(), ..send_header("Numbers", 0) };
        assert!(connection.send(&header, b"x").response);
    }
}

/// Bits of the record's layout are the broker's business, whatever a client claims.
#[test]
fn flags_of_a_client_do_not_break_the_log() {
    let stage = Stage::start(&[]);
    let mut connection = stage.connect();
    connection.stored(&send_header("Flags", 0), b"first");
    for bit in 0..31 {
        let header = SendHeader { sys_flag: 1 << bit, ..send_header("Flags", 0) };
        assert!(connection.send(&header, format!("bit {bit}").as_bytes()).response);
    }
    let (_, last) = connection.stored(&send_header("Flags", 0), b"last");
    let all = |connection: &mut Connection| {
        let mut found = bodies(connection, "Flags", 0);
        while found.len() < last as usize + 1 {
            let more = bodies(connection, "Flags", found.len() as i64);
            assert!(!more.is_empty(), "{found:?}");
            found.extend(more);
        }
        found
    };
    let before = all(&mut connection);
    assert_eq!(
        (before.first().map(String::as_str), before.last().map(String::as_str)),
        (Some("first"), Some("last"))
    );
    let stage = stage.restart(|server| server.kill9());
    let mut connection = stage.connect();
    assert_eq!(all(&mut connection), before, "the same after a crash");
    assert_eq!(connection.stored(&send_header("Flags", 0), b"next").1, last + 1);
}

fn give_back(connection: &mut Connection, offset: i64, level: i32, max: i32) -> Arrived {
    connection.call(
        request::CONSUMER_SEND_MSG_BACK,
        |writer| {
            writer
                .number("offset", offset)
                .text("group", "CG")
                .number("delayLevel", level)
                .number("maxReconsumeTimes", max)
        },
        &[],
    )
}

#[test]
fn giving_back_takes_any_numbers() {
    let stage = Stage::start(&[]);
    let mut connection = stage.connect();
    for times in [i32::MIN, -1, 0, i32::MAX - 1, i32::MAX] {
        let header = SendHeader { reconsume_times: times, ..send_header("Back", 0) };
        let sent = connection.send(&header, b"x");
        let id = OffsetId::parse(sent.field("msgId").expect("stored")).expect("an id");
        let offset = id.log_offset.get() as i64;
        for level in [i32::MIN, -1, 0, 1, i32::MAX] {
            for max in [i32::MIN, 0, i32::MAX] {
                let answer = give_back(&mut connection, offset, level, max);
                assert_eq!(answer.code, 0, "{times} {level} {max}: {answer:?}");
            }
        }
        for wrong in [i64::MIN, -1, offset + 1, offset + 40, i64::MAX] {
            assert_eq!(give_back(&mut connection, wrong, 0, 16).code, 1);
            let view =
                connection.call(request::VIEW_MESSAGE_BY_ID, |writer| writer.number("offset", wrong), &[]);
            assert_eq!(view.code, 1, "{view:?}");
        }
    }
}

#[test]
fn topics_with_senseless_numbers_are_refused_or_small() {
    let stage = Stage::start(&[]);
    let mut connection = stage.connect();
    let before = stage.server.resident_kb();
    for (read, write, perm) in
        [(i32::MAX, i32::MAX, 6), (-1, -1, 6), (0, 0, 6), (4, 4, 99), (i32::MIN, 4, -1), (100_000_000, 8, 6)]
    {
        let answer = connection.call(
            request::UPDATE_AND_CREATE_TOPIC,
            |writer| {
                writer
                    .text("topic", "Odd")
                    .text("defaultTopic", "TBW102")
                    .number("readQueueNums", read)
                    .number("writeQueueNums", write)
                    .number("perm", perm)
                    .text("topicFilterType", "SINGLE_TAG")
                    .number("topicSysFlag", 0)
                    .flag("order", false)
            },
            &[],
        );
        assert!(answer.response, "{answer:?}");
        for queue in [0, -1, 7, i32::MAX - 1] {
            assert!(connection.send(&send_header("Odd", queue), b"x").response);
        }
    }
    let after = stage.server.resident_kb();
    assert!(after < before + 100 * 1024, "{before} kB grew to {after} kB");
    let stage = stage.restart(|server| server.kill9());
    stage.connect().stored(&send_header("Even", 0), b"x");
}

#[test]
fn a_batch_of_very_many_is_all_or_nothing() {
    let stage = Stage::start(&[]);
    let mut connection = stage.connect();
    let mut body = Vec::new();
    for _ in 0..100_000 {
        batch::append(&mut body, &Entry { flag: 0, body: b"m", properties: b"" }).unwrap();
    }
    let header = SendHeader { batch: true, ..send_header("Crowd", 0) };
    let answer = connection.call(request::SEND_BATCH_MESSAGE, |writer| header.write(writer), &body);
    let (_, next) = connection.stored(&send_header("Crowd", 0), b"next");
    assert_eq!(next, if answer.code == 0 { 100_000 } else { 0 }, "{} {}", answer.code, answer.remark());
}

#[test]
fn held_pulls_and_groups_are_bounded() {
    let stage = Stage::start(&[]);
    let mut connection = stage.connect();
    connection.stored(&send_header("Crowd", 0), b"x");
    let before = stage.server.resident_kb();
    let header = PullHeader {
        suspend_timeout_ms: 60_000,
        sys_flag: pull_flag::SUBSCRIPTION | pull_flag::SUSPEND,
        ..pull_header("CG", "Crowd", 0, 1)
    };
    let mut flood = stage.connect();
    for _ in 0..50_000 {
        flood.ask(request::PULL_MESSAGE, |writer| header.write(writer), &[]).unwrap();
    }
    let mut groups = stage.connect();
    for group in 0..100 {
        beat(&mut groups, &heartbeat("c1", &format!("G{group}"), "Crowd", "*", "", 1));
    }
    let after = stage.server.resident_kb();
    assert!(after < before + 150 * 1024, "{before} kB grew to {after} kB");
    drop(flood);
    eventually("others go on", || connection.send(&send_header("Crowd", 0), b"y").response.then_some(()));
}
