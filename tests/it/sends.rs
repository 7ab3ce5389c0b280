//! Sending (§3, checklist 1 to 7).

use serde_json::Value;
use wire::batch::{self, Entry};
use wire::codes::{request, response};
use wire::frame::Encoding;
use wire::header::SendHeader;

use crate::common::wire_client::{Arrived, Connection, pull_header, send_header};
use crate::stage::{FAQ, Stage, eventually, property, records};

const UNIQ: &[u8] = b"UNIQ_KEY\x017F00000100012A139A55000000000000\x02";

fn carries_region_and_trace(answer: &Arrived) {
    assert_eq!(answer.field("MSG_REGION"), Some("DefaultRegion"), "{answer:?}");
    assert_eq!(answer.field("TRACE_ON"), Some("true"), "{answer:?}");
}

/// Sends what must be refused.
fn refused(stage: &Stage, header: &SendHeader<'_>, body: &[u8], code: i32, remark: &str) {
    let answer = stage.connect().send(header, body);
    assert_eq!((answer.code, answer.remark()), (code, remark), "{header:?}");
    carries_region_and_trace(&answer);
}

fn route(stage: &Stage, topic: &str) -> Option<Value> {
    let answer = stage.name_server().call(
        request::GET_ROUTEINFO_BY_TOPIC,
        |writer| writer.text("topic", topic).flag("acceptStandardJsonOnly", true),
        &[],
    );
    (answer.code == 0).then(|| serde_json::from_slice(&answer.body).expect("a route is JSON"))
}

#[test]
fn a_missing_topic_is_created_with_the_queues_asked_for() {
    let stage = Stage::start(&[]);
    assert!(route(&stage, "New").is_none());
    stage.connect().stored(&send_header("New", 0), b"first");
    let route = eventually("the route is known", || route(&stage, "New"));
    let queues = &route["queueDatas"][0];
    assert_eq!((&queues["readQueueNums"], &queues["writeQueueNums"]), (&4.into(), &4.into()), "{route}");
    assert_eq!(queues["perm"], 6, "{route}");
}

#[test]
fn a_missing_topic_is_refused_without_auto_creation() {
    let stage = Stage::start(&["autoCreateTopicEnable=false"]);
    let remark = format!("topic[New] not exist, apply first please!{FAQ}");
    refused(&stage, &send_header("New", 0), b"x", response::TOPIC_NOT_EXIST, &remark);
}

fn send_long_names(connection: &mut Connection, topic: &str, body: &[u8]) -> Arrived {
    connection.call(
        request::SEND_MESSAGE,
        |writer| {
            writer
                .text("producerGroup", "PG")
                .text("topic", topic)
                .text("defaultTopic", "TBW102")
                .number("defaultTopicQueueNums", 4)
                .number("queueId", 1)
                .number("sysFlag", 0)
                .number("bornTimestamp", 1_700_000_000_000_i64)
                .number("flag", 0)
                .bytes("properties", UNIQ)
                .flag("batch", false)
        },
        body,
    )
}

#[test]
fn all_three_codes_answer_where_the_message_is() {
    let stage = Stage::start(&[]);
    let mut connection = stage.connect();
    let header = SendHeader { properties: UNIQ, ..send_header("Codes", 1) };
    let long = send_long_names(&mut connection, "Codes", b"long names");
    let short = connection.send(&header, b"short names");
    connection.encoding = Encoding::Binary;
    let binary = connection.send(&header, b"binary header");
    for (offset, answer) in [long, short, binary].iter().enumerate() {
        assert_eq!(answer.code, 0, "{answer:?}");
        assert_eq!(answer.number("queueId"), 1);
        assert_eq!(answer.number("queueOffset"), offset as i64);
        assert_eq!(answer.field("transactionId"), Some("7F00000100012A139A55000000000000"));
        assert_eq!(answer.field("msgId").map(str::len), Some(32));
        carries_region_and_trace(answer);
    }
    let pulled = connection.pull(&pull_header("CG", "Codes", 1, 0));
    let bodies: Vec<_> = records(&pulled).into_iter().map(|record| record.1).collect();
    assert_eq!(bodies, [&b"long names"[..], b"short names", b"binary header"]);
    assert_eq!(property(&records(&pulled)[0].2, "UNIQ_KEY"), Some("7F00000100012A139A55000000000000"));
}

#[test]
fn a_batch_gets_consecutive_offsets() {
    let stage = Stage::start(&[]);
    let mut connection = stage.connect();
    let mut body = Vec::new();
    for text in ["one", "two", "three"] {
        let properties = format!("KEYS\u{1}{text}\u{2}");
        let entry = Entry { flag: 7, body: text.as_bytes(), properties: properties.as_bytes() };
        batch::append(&mut body, &entry).unwrap();
    }
    connection.stored(&send_header("Batch", 2), b"before");
    let header = SendHeader { batch: true, ..send_header("Batch", 2) };
    let answer = connection.call(request::SEND_BATCH_MESSAGE, |writer| header.write(writer), &body);
    assert_eq!((answer.code, answer.number("queueOffset")), (0, 1), "{answer:?}");
    assert_eq!(answer.field("msgId").map(|ids| ids.split(',').count()), Some(3), "{answer:?}");
    let found = records(&connection.pull(&pull_header("CG", "Batch", 2, 1)));
    let found: Vec<_> = found
        .iter()
        .map(|(offset, body, properties, _)| (*offset, body.as_slice(), property(properties, "KEYS")))
        .collect();
    assert_eq!(
        found,
        [(1, &b"one"[..], Some("one")), (2, &b"two"[..], Some("two")), (3, &b"three"[..], Some("three"))]
    );
}

#[test]
fn codec_6_a_message_without_a_unique_key_gets_one() {
    let stage = Stage::start(&[]);
    let mut connection = stage.connect();
    let answer = connection.send(&send_header("Keyless", 0), b"x");
    let id = answer.field("transactionId").expect("the key is told").to_owned();
    assert_eq!(id.len(), 32, "{answer:?}");
    let pulled = records(&connection.pull(&pull_header("CG", "Keyless", 0, 0)));
    assert_eq!(property(&pulled[0].2, "UNIQ_KEY"), Some(id.as_str()));
}

#[test]
fn codec_7_the_broker_adds_its_own_properties_and_drops_a_receipt() {
    let stage = Stage::start(&["brokerClusterName=Elsewhere", "regionId=North"]);
    let mut connection = stage.connect();
    let properties = "POP_CK\u{1}0 0 0 0 0 vm 0\u{2}KEYS\u{1}k\u{2}CLUSTER\u{1}forged\u{2}";
    let header = SendHeader { properties: properties.as_bytes(), ..send_header("Added", 0) };
    assert_eq!(connection.send(&header, b"x").field("MSG_REGION"), Some("North"));
    let pulled = records(&connection.pull(&pull_header("CG", "Added", 0, 0)));
    for (key, expected) in [
        ("POP_CK", None),
        ("KEYS", Some("k")),
        ("CLUSTER", Some("Elsewhere")),
        ("MSG_REGION", Some("North")),
        ("TRACE_ON", Some("true")),
    ] {
        assert_eq!(property(&pulled[0].2, key), expected, "{key}");
    }
}

#[test]
fn codec_11_a_batch_to_a_retry_topic_is_refused() {
    let stage = Stage::start(&[]);
    let mut body = Vec::new();
    batch::append(&mut body, &Entry { flag: 0, body: b"x", properties: b"" }).unwrap();
    let header = SendHeader { batch: true, ..send_header("%RETRY%CG", 0) };
    let answer = stage.connect().call(request::SEND_BATCH_MESSAGE, |writer| header.write(writer), &body);
    assert_eq!(
        (answer.code, answer.remark()),
        (response::MESSAGE_ILLEGAL, "batch request does not support retry group %RETRY%CG")
    );
}

#[test]
fn a_broken_batch_stores_nothing() {
    let stage = Stage::start(&[]);
    let mut connection = stage.connect();
    let header = SendHeader { batch: true, ..send_header("Broken", 0) };
    let mut body = Vec::new();
    batch::append(&mut body, &Entry { flag: 0, body: b"whole", properties: b"" }).unwrap();
    body.extend_from_slice(&[0, 0, 0, 99, 1, 2, 3]);
    let answer = connection.call(request::SEND_BATCH_MESSAGE, |writer| header.write(writer), &body);
    assert_eq!(answer.code, response::MESSAGE_ILLEGAL, "{answer:?}");
    let (_, offset) = connection.stored(&send_header("Broken", 0), b"next");
    assert_eq!(offset, 0);
}

#[test]
fn a_queue_that_does_not_exist_is_refused_and_a_negative_one_chosen() {
    let stage = Stage::start(&[]);
    let mut connection = stage.connect();
    connection.stored(&send_header("Queues", 0), b"x");
    let answer = connection.send(&send_header("Queues", 4), b"x");
    assert_eq!(answer.code, response::INVALID_PARAMETER, "{answer:?}");
    assert!(answer.remark().starts_with("request queueId[4] is illegal, "), "{answer:?}");
    carries_region_and_trace(&answer);
    for _ in 0..20 {
        let (queue, _) = connection.stored(&send_header("Queues", -1), b"x");
        assert!((0..4).contains(&queue));
    }
}

#[test]
fn names_that_are_not_allowed_are_refused() {
    let stage = Stage::start(&[]);
    let illegal =
        "The specified topic: bad.name, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$";
    refused(&stage, &send_header("bad.name", 0), b"x", response::INVALID_PARAMETER, illegal);
    refused(&stage, &send_header("", 0), b"x", response::INVALID_PARAMETER, "The specified topic is blank.");
    let long = "t".repeat(128);
    let remark = format!("The specified topic: {long}, is longer than topic max length: 127");
    refused(&stage, &send_header(&long, 0), b"x", response::INVALID_PARAMETER, &remark);
    for topic in ["SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "OFFSET_MOVED_EVENT"] {
        let remark = format!("Sending message to topic[{topic}] is forbidden.");
        refused(&stage, &send_header(topic, 0), b"x", response::NO_PERMISSION, &remark);
    }
}

#[test]
fn sizes_have_limits() {
    let stage = Stage::start(&[]);
    let remark = "the message is illegal, maybe msg body or properties length not matched. msg body length limit 4194304B, msg properties length limit 32KB.";
    let too_big = vec![b'x'; 4_194_305];
    refused(&stage, &send_header("Sizes", 0), &too_big, response::MESSAGE_ILLEGAL, remark);
    let properties = format!("K\u{1}{}\u{2}", "v".repeat(32_768));
    let header = SendHeader { properties: properties.as_bytes(), ..send_header("Sizes", 0) };
    let mut connection = stage.connect();
    let answer = connection.send(&header, b"x");
    assert_eq!(answer.code, response::MESSAGE_ILLEGAL, "{}", answer.remark());
    assert!(answer.remark().starts_with(remark), "{}", answer.remark());
    carries_region_and_trace(&answer);
    let (_, offset) = connection.stored(&send_header("Sizes", 0), &too_big[1..]);
    assert_eq!(offset, 0, "what was refused is not stored");
    let pulled = records(&connection.pull(&pull_header("CG", "Sizes", 0, 0)));
    assert_eq!(pulled[0].1.len(), 4_194_304);
}

#[test]
fn missing_and_malformed_fields_are_named() {
    let stage = Stage::start(&[]);
    let mut connection = stage.connect();
    let answer = connection.call(request::SEND_MESSAGE_V2, |writer| writer.text("b", "T"), b"x");
    assert_ne!(answer.code, 0, "{answer:?}");
    assert!(answer.remark().contains("field e"), "{answer:?}");
    let answer = connection.call(
        request::SEND_MESSAGE_V2,
        |writer| send_header("T", 0).write(writer).text("e", "many"),
        b"x",
    );
    assert_ne!(answer.code, 0, "{answer:?}");
    assert!(answer.remark().contains("queueId") && answer.remark().contains("many"), "{answer:?}");
}

#[test]
fn retry_topics_need_a_group_and_end_in_the_dead_letters() {
    let stage = Stage::start(&["autoCreateSubscriptionGroup=false"]);
    let remark = format!("subscription group not exist, Nobody {FAQ}");
    refused(&stage, &send_header("%RETRY%Nobody", 0), b"x", response::SUBSCRIPTION_GROUP_NOT_EXIST, &remark);

    let stage = Stage::start(&[]);
    let mut connection = stage.connect();
    let times = |reconsume_times| SendHeader {
        reconsume_times,
        max_reconsume_times: Some(3),
        ..send_header("%RETRY%Tired", 0)
    };
    connection.stored(&times(3), b"once more");
    connection.stored(&times(4), b"dead");
    let retry = connection.pull(&pull_header("Tired", "%RETRY%Tired", 0, 0));
    let dead = connection.pull(&pull_header("Tired", "%DLQ%Tired", 0, 0));
    assert_eq!(records(&retry).iter().map(|record| record.1.as_slice()).collect::<Vec<_>>(), [b"once more"]);
    assert_eq!(records(&dead).iter().map(|record| record.1.as_slice()).collect::<Vec<_>>(), [b"dead"]);
}

#[test]
fn a_one_way_send_is_stored_in_silence() {
    let stage = Stage::start(&[]);
    let mut connection = stage.connect();
    connection.stored(&send_header("Quiet", 0), b"first");
    let header = send_header("Quiet", 0);
    connection.tell(request::SEND_MESSAGE_V2, |writer| header.write(writer), b"quiet").unwrap();
    connection
        .tell(request::SEND_MESSAGE_V2, |writer| send_header("Quiet", 99).write(writer), b"bad")
        .unwrap();
    let (_, offset) = connection.stored(&header, b"third");
    assert_eq!(offset, 2, "the one-way message took its place");
    assert!(connection.others().is_empty(), "nobody asked for an answer: {:?}", connection.others());
}
