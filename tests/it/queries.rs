//! Messages by key, tag, id and time (§11 and §12).

use std::time::Instant;

use wire::codes::{request, response};
use wire::frame::FrameWriter;
use wire::header::SendHeader;
use wire::id::OffsetId;
use wire::record::RecordView;

use crate::common::wire_client::{Arrived, Connection, send_header};
use crate::stage::{Stage, eventually, make_group, property, records};

/// What a query by key asks, beside topic and key.
#[derive(Clone, Copy)]
struct Asked<'a> {
    max: i64,
    begin: i64,
    end: i64,
    kind: Option<&'a str>,
    unique: Option<&'a str>,
}

const ALL: Asked<'_> = Asked { max: 64, begin: 0, end: i64::MAX, kind: None, unique: None };

/// Calls with these header fields.
fn call(connection: &mut Connection, code: i32, fields: &[(&str, &str)]) -> Arrived {
    connection.call(code, |writer| write_all(writer, fields), &[])
}

fn write_all<'a>(writer: FrameWriter<'a>, fields: &[(&str, &str)]) -> FrameWriter<'a> {
    fields.iter().fold(writer, |writer, (key, value)| writer.text(key, value))
}

fn query(connection: &mut Connection, topic: &str, key: &str, asked: Asked<'_>) -> Arrived {
    let [max, begin, end] = [asked.max, asked.begin, asked.end].map(|number| number.to_string());
    let mut fields = vec![("topic", topic), ("key", key), ("maxNum", &max)];
    fields.extend([("beginTimestamp", begin.as_str()), ("endTimestamp", &end)]);
    fields.extend(asked.kind.map(|kind| ("indexType", kind)));
    fields.extend(asked.unique.map(|flag| ("_UNIQUE_KEY_QUERY", flag)));
    call(connection, request::QUERY_MESSAGE, &fields)
}

fn view(connection: &mut Connection, offset: i64) -> Arrived {
    call(connection, request::VIEW_MESSAGE_BY_ID, &[("offset", &offset.to_string())])
}

fn store_time(answer: &Arrived) -> i64 {
    RecordView::parse(&answer.body).unwrap().store_timestamp()
}

fn bodies(answer: &Arrived) -> Vec<String> {
    records(answer).into_iter().map(|record| String::from_utf8(record.1).unwrap()).collect()
}

/// Sends a message and answers its offset id.
fn send(connection: &mut Connection, topic: &str, body: &str, properties: &str) -> OffsetId {
    let header = SendHeader { properties: properties.as_bytes(), ..send_header(topic, 0) };
    let answer = connection.send(&header, body.as_bytes());
    assert_eq!(answer.code, 0, "{answer:?}");
    OffsetId::parse(answer.field("msgId").unwrap()).unwrap()
}

#[test]
fn messages_are_found_by_key_unique_key_and_tag() {
    let stage = Stage::start(&[]);
    let mut connection = stage.connect();
    let unique = "7F00000100ABCD18B4AAC2000000000";
    for number in 0..3 {
        let properties =
            format!("KEYS\u{1}order-7 k{number}\u{2}UNIQ_KEY\u{1}{unique}{number}\u{2}TAGS\u{1}TagA\u{2}");
        send(&mut connection, "Keyed", &format!("m{number}"), &properties);
    }
    send(&mut connection, "Other", "other", "KEYS\u{1}order-7\u{2}");
    let mut find =
        |topic: &str, key: &str, asked: Asked<'_>| bodies(&query(&mut connection, topic, key, asked));
    assert_eq!(find("Keyed", "order-7", ALL), ["m0", "m1", "m2"]);
    assert_eq!(find("Keyed", "order-7", Asked { max: 2, ..ALL }), ["m1", "m2"]);
    assert_eq!(find("Keyed", "order-7", Asked { max: 2, unique: Some("true"), ..ALL }), ["m0", "m1", "m2"]);
    assert_eq!(find("Keyed", "k1", Asked { kind: Some("K"), ..ALL }), ["m1"]);
    assert_eq!(find("Keyed", &format!("{unique}2"), Asked { kind: Some("U"), ..ALL }), ["m2"]);
    assert_eq!(find("Keyed", "TagA", Asked { kind: Some("T"), ..ALL }), ["m0", "m1", "m2"]);
    assert_eq!(find("Keyed", "TagA", ALL), [""; 0]);
    assert_eq!(find("Other", "order-7", ALL), ["other"]);
}

#[test]
fn what_is_not_found_says_so_and_how_far_the_index_is() {
    let stage = Stage::start(&[]);
    let mut connection = stage.connect();
    let id = send(&mut connection, "Keyed", "m", "KEYS\u{1}k\u{2}");
    let answer = query(&mut connection, "Keyed", "k", ALL);
    let stored = store_time(&answer);
    assert_eq!(answer.number("indexLastUpdateTimestamp"), stored);
    assert_eq!(answer.number("indexLastUpdatePhyoffset"), id.log_offset.to_i64());
    let remark = "can not find message, maybe time range not correct";
    for (topic, key, asked) in [
        ("Keyed", "x", ALL),
        ("Unknown", "k", ALL),
        ("Keyed", "k", Asked { end: stored - 1001, ..ALL }),
        ("Keyed", "k", Asked { begin: stored + 1001, ..ALL }),
        ("Keyed", "k", Asked { max: 0, ..ALL }),
        ("Keyed", "k", Asked { max: -1, ..ALL }),
        ("Keyed", "k", Asked { begin: i64::MAX, end: i64::MIN, ..ALL }),
    ] {
        let answer = query(&mut connection, topic, key, asked);
        assert_eq!((answer.code, answer.remark()), (response::QUERY_NOT_FOUND, remark), "{answer:?}");
    }
    let missing = call(&mut connection, request::QUERY_MESSAGE, &[("topic", "Keyed")]);
    assert_eq!((missing.code, missing.body.len()), (response::SYSTEM_ERROR, 0), "{missing:?}");
}

#[test]
fn limits_are_those_that_are_set() {
    let stage = Stage::start(&["maxMsgsNumBatch=3", "defaultQueryMaxNum=2"]);
    let mut connection = stage.connect();
    for number in 0..5 {
        send(&mut connection, "Keyed", &format!("m{number}"), "KEYS\u{1}k\u{2}");
    }
    assert_eq!(bodies(&query(&mut connection, "Keyed", "k", ALL)), ["m2", "m3", "m4"]);
    let unique = Asked { unique: Some("true"), ..ALL };
    assert_eq!(bodies(&query(&mut connection, "Keyed", "k", unique)), ["m3", "m4"]);
}

#[test]
fn keys_are_found_after_a_stop_and_after_a_kill() {
    let small = ["maxHashSlotNum=100", "maxIndexNum=50"];
    let mut stage = Stage::start(&small);
    for round in 0..3 {
        let mut connection = stage.connect();
        for number in 0..30 {
            send(&mut connection, "Keyed", &format!("r{round}m{number}"), "KEYS\u{1}k\u{2}TAGS\u{1}t\u{2}");
        }
        stage = stage.restart(|server| match round {
            1 => server.kill9(),
            _ => assert!(server.terminate().success()),
        });
        // After a kill the newest keys are read from the log; each query reads on.
        let found = eventually("all keys are found", || {
            let answer = query(&mut stage.connect(), "Keyed", "k", ALL);
            let has_all = bodies(&answer).len() == (30 * (round + 1)).min(64);
            (answer.number("indexLastUpdatePhyoffset") > 0 && has_all).then(|| bodies(&answer))
        });
        assert_eq!(found.last().unwrap(), &format!("r{round}m29"));
    }
}

#[test]
fn an_index_that_is_turned_off_finds_nothing_new() {
    let stage = Stage::start(&["messageIndexEnable=false"]);
    let mut connection = stage.connect();
    send(&mut connection, "Keyed", "m", "KEYS\u{1}k\u{2}");
    assert_eq!(query(&mut connection, "Keyed", "k", ALL).code, response::QUERY_NOT_FOUND);
    assert!(!stage.home.path().join("data/store/index").exists());
}

#[test]
fn a_message_is_viewed_by_its_id() {
    let stage = Stage::start(&[]);
    let mut connection = stage.connect();
    let ids = ["a", "b"].map(|body| send(&mut connection, "Viewed", body, "KEYS\u{1}k\u{2}"));
    for (id, body) in ids.iter().zip(["a", "b"]) {
        let answer = view(&mut connection, id.log_offset.to_i64());
        assert_eq!((answer.code, bodies(&answer)), (0, vec![body.to_owned()]));
        assert_eq!(property(&records(&answer)[0].2, "KEYS"), Some("k"));
    }
    let second = ids[1].log_offset.to_i64();
    for offset in [-1, 1, second - 1, second + 1, second + 1000, i64::MAX, i64::MIN] {
        let answer = view(&mut connection, offset);
        let remark = format!("can not find message by the offset, {offset}");
        assert_eq!((answer.code, answer.remark()), (response::SYSTEM_ERROR, remark.as_str()), "{answer:?}");
    }
}

/// Asks for an offset without waiting for the answer.
fn ask_offset_at(
    connection: &mut Connection,
    topic: &str,
    queue: i32,
    time: i64,
    boundary: Option<&str>,
) -> i32 {
    let (queue, time) = (queue.to_string(), time.to_string());
    let mut fields = vec![("topic", topic), ("queueId", &queue), ("timestamp", &time)];
    fields.extend(boundary.map(|kind| ("boundaryType", kind)));
    let code = request::SEARCH_OFFSET_BY_TIMESTAMP;
    connection.ask(code, |writer| write_all(writer, &fields), &[]).unwrap()
}

fn offset_of(connection: &mut Connection, opaque: i32) -> i64 {
    let answer = connection.answer(opaque).unwrap();
    assert_eq!(answer.code, 0, "{answer:?}");
    answer.number("offset")
}

/// Messages that are searched by time.
const MESSAGES: usize = 80;

/// The table of §11; the clock of the server decides which messages have equal times.
#[test]
fn offsets_are_found_by_time() {
    let stage = Stage::start(&[]);
    let mut connection = stage.connect();
    let mut times = Vec::new();
    for _ in 0..MESSAGES {
        let id = send(&mut connection, "Timed", "m", "");
        times.push(store_time(&view(&mut connection, id.log_offset.to_i64())));
    }
    let (first, last) = (times[0], times[MESSAGES - 1]);
    let mut asked: Vec<i64> = times.iter().flat_map(|time| [time - 1, *time, time + 1]).collect();
    asked.extend([i64::MIN, -1, 0, first - 1000, last + 1000, i64::MAX]);
    asked.sort_unstable();
    asked.dedup();
    for time in asked {
        let lower = times.iter().position(|stored| *stored >= time).unwrap_or(MESSAGES) as i64;
        let upper = times.iter().rposition(|stored| *stored <= time).unwrap_or(0) as i64;
        let wanted = [(None, lower), (Some("LOWER"), lower), (Some("UPPER"), upper), (Some("upper"), upper)];
        let questions =
            wanted.map(|(boundary, _)| ask_offset_at(&mut connection, "Timed", 0, time, boundary));
        let found = questions.map(|opaque| offset_of(&mut connection, opaque));
        assert_eq!(found, wanted.map(|(_, expected)| expected), "{time}");
    }
    for (topic, queue) in [("Timed", 1), ("Timed", 99), ("Unknown", 0)] {
        for boundary in ["LOWER", "UPPER"] {
            let opaque = ask_offset_at(&mut connection, topic, queue, last, Some(boundary));
            assert_eq!(offset_of(&mut connection, opaque), 0);
        }
    }
}

#[test]
fn administrators_see_times_and_units_of_a_queue() {
    let stage = Stage::start(&[]);
    let (mut connection, began) = (stage.connect(), Instant::now());
    let ids = ["a", "b", "c"].map(|body| send(&mut connection, "Seen", body, "TAGS\u{1}TagA\u{2}"));
    make_group(&mut connection, "CG");
    let commit = [("consumerGroup", "CG"), ("topic", "Seen"), ("queueId", "0"), ("commitOffset", "2")];
    assert_eq!(call(&mut connection, request::UPDATE_CONSUMER_OFFSET, &commit).code, 0);
    let whose = [("topic", "Seen"), ("group", "CG")];
    let answer = call(&mut connection, request::QUERY_CONSUME_TIME_SPAN, &whose);
    let spans: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    let span = &spans["consumeTimeSpanSet"][0];
    let times =
        ids.map(|id| (id.log_offset.to_i64(), store_time(&view(&mut connection, id.log_offset.to_i64()))));
    assert_eq!(span["messageQueue"]["queueId"], 0);
    assert_eq!((&span["minTimeStamp"], &span["maxTimeStamp"]), (&times[0].1.into(), &times[2].1.into()));
    assert_eq!(span["consumeTimeStamp"], times[1].1);
    let since = i64::try_from(began.elapsed().as_millis()).unwrap();
    assert!((0..=since + 1).contains(&span["delayTime"].as_i64().unwrap()), "{span} after {since} ms");
    assert_eq!(spans["consumeTimeSpanSet"][1]["minTimeStamp"], -1);

    let mut units = |index: i64| {
        let index = index.to_string();
        let fields = [("topic", "Seen"), ("queueId", "0"), ("index", &index), ("count", "10")];
        call(&mut connection, request::QUERY_CONSUME_QUEUE, &fields)
    };
    let body: serde_json::Value = serde_json::from_slice(&units(1).body).unwrap();
    assert_eq!((&body["minQueueIndex"], &body["maxQueueIndex"]), (&0.into(), &3.into()));
    let data = body["queueData"].as_array().unwrap();
    assert_eq!((data.len(), &data[0]["tagsCode"]), (2, &0x27_a807.into()));
    assert_eq!(data[1]["physicOffset"], times[2].0);
    assert_eq!(units(3).remark(), "Index 3 of 0@Seen is not exist!");
}
