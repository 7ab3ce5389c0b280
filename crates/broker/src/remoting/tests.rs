//! Which request codes are served.

use super::incoming::ParsedHeartbeat;
use super::*;
use crate::testing::Fixture;
use serde_json::{Value, json};
use wire::codes::{Language, request};

/// Request codes that a broker of Apache RocketMQ 5.5.0 answers with anything but code 3 (`AdminBrokerProcessor`,
/// `BrokerController.registerProcessor`).
const SERVED_BY_JAVA: [i32; 108] = [
    10, 11, 12, 14, 15, 17, 18, 21, 25, 26, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 41, 42, 43, 45, 46,
    60, 61, 200, 201, 202, 203, 204, 207, 208, 215, 222, 223, 225, 300, 303, 305, 306, 307, 308, 309, 310,
    314, 315, 316, 317, 320, 321, 323, 324, 325, 328, 329, 343, 345, 351, 352, 353, 354, 355, 361, 370, 400,
    401, 402, 513, 905, 906, 907, 908, 1007, 1008, 2001, 2002, 2003, 2004, 3001, 3002, 3003, 3004, 3005,
    3006, 3007, 3008, 3009, 3010, 5001, 200050, 200051, 200052, 200053, 200054, 200055, 200056, 200070,
    200071, 200074, 200075, 200076, 200077, 200078, 200079, 200151,
];

/// Request codes that are not served here, each with its reason in `docs/conformance.md`.
const LEFT_OUT: [i32; 6] = [60, 61, 354, 355, 513, 5001];

#[test]
fn every_request_of_javas_broker_is_served_or_left_out_with_a_reason() {
    let fixture = Fixture::new();
    let is_unknown = |code: &i32| fixture.ask(*code, &[], b"").0 == response::REQUEST_CODE_NOT_SUPPORTED;
    let unknown: Vec<i32> = SERVED_BY_JAVA.into_iter().filter(is_unknown).collect();
    assert_eq!(unknown, LEFT_OUT);
    let page = include_str!("../../../../docs/conformance.md");
    let (_, table) = page.split_once("answered with code 3 and their name").unwrap();
    let listed: Vec<&str> = table.split(|letter: char| !letter.is_ascii_digit()).collect();
    for code in LEFT_OUT {
        assert!(listed.contains(&code.to_string().as_str()), "{code} has no reason");
        assert!(request::name(code).is_some(), "{code} has no name");
    }
}

#[test]
fn what_rocketmq_does_not_need_may_be_missing() {
    let fixture = Fixture::new();
    fixture.broker.tables.groups.make("g", 1).unwrap();
    fixture.queue("T", 1);
    (0..2).for_each(|_| fixture.put("T", 0, b"body", b""));
    let ask = |code: i32, fields: &[(&str, &str)]| fixture.ask(code, fields, b"");
    let check = |code: i32, fields: &[(&str, &str)], expected: (i32, &str)| {
        let (found, remark, body) = ask(code, fields);
        let body = String::from_utf8(body).unwrap();
        assert_eq!((found, body.as_str()), expected, "{code} {fields:?} {remark}");
    };
    let (topic, group) = (("topic", "T"), ("consumerGroup", "g"));
    check(request::QUERY_CONSUMER_OFFSET, &[topic, ("queueId", "0")], (0, ""));
    let reset = ask(request::INVOKE_BROKER_TO_RESET_OFFSET, &[topic, ("group", "g"), ("isForce", "true")]);
    assert_eq!(reset.0, 0, "{}", reset.1);
    assert_eq!(["0", "1"].map(|queue| offset_of(&fixture, queue)), [Some(0), Some(0)]);
    let (code, _, spans) = ask(request::QUERY_CONSUME_TIME_SPAN, &[topic]);
    assert!(code == 0 && String::from_utf8(spans).unwrap().matches("messageQueue").count() == 2);
    check(request::QUERY_CORRECTION_OFFSET, &[topic], (0, r#"{"correctionOffsets":{0:0,1:0}}"#));
    let offline = [topic, ("destGroup", "g"), ("offline", "true")];
    check(request::CLONE_GROUP_OFFSET, &offline, (0, ""));
    check(request::CLONE_GROUP_OFFSET, &offline[..2], (1, ""));
    check(
        request::QUERY_CONSUME_QUEUE,
        &[topic],
        (0, r#"{"maxQueueIndex":2,"minQueueIndex":0,"queueData":[]}"#),
    );
    let forbidden = (0, r#"{"group":"g","readable":true}"#);
    check(request::UPDATE_AND_GET_GROUP_FORBIDDEN, &[("group", "g")], forbidden);
    for readable in ["true", "false"] {
        let fields = [("group", "g"), ("readable", readable)];
        check(request::UPDATE_AND_GET_GROUP_FORBIDDEN, &fields, (1, ""));
    }
    check(request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, &[], (0, ""));
    check(request::CHECK_CLIENT_CONFIG, &[], (0, ""));
    check(request::POP_MESSAGE, &[topic, group], (response::POLLING_TIMEOUT, ""));
    check(request::PEEK_MESSAGE, &[topic, group], (response::PULL_NOT_FOUND, ""));
    check(request::NOTIFICATION, &[topic, group], (0, ""));
    check(request::POLLING_INFO, &[topic, group], (0, ""));
    let handle = format!("0 {} 60000 0 0 b 0 0", fixture.broker.runtime.now_ms());
    let popped = [topic, ("queueId", "0"), ("offset", "0"), ("extraInfo", handle.as_str())];
    check(request::ACK_MESSAGE, &popped, (0, ""));
    let kept = [&popped[..], &[("invisibleTime", "60000")]].concat();
    check(request::CHANGE_MESSAGE_INVISIBLETIME, &kept, (0, ""));
    check(request::CHANGE_MESSAGE_INVISIBLETIME, &popped, (1, ""));
}

/// An empty element has three bytes of text and a hundred in memory.
#[test]
fn a_body_of_a_million_empty_elements_is_refused() {
    let fixture = Fixture::new();
    let refused = |code: i32, member: &str| {
        let body = format!(r#"{{"clientID":"c","{member}":[{}{{}}]}}"#, "{},".repeat(1_100_000));
        let (found, remark, _) = fixture.ask(code, &[], body.as_bytes());
        assert!(found != response::SUCCESS && remark.contains("too many"), "{code}: {found} {remark}");
    };
    refused(request::HEART_BEAT, "consumerDataSet");
    refused(request::LOCK_BATCH_MQ, "mqSet");
    refused(request::UPDATE_AND_CREATE_TOPIC_LIST, "topicConfigList");
    refused(request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, "groupConfigList");
}

/// A topic with fewer queues than before leaves the removed queues to clients that still read those queues.
#[test]
fn a_commit_for_a_queue_that_the_topic_lost_is_stored() {
    let fixture = Fixture::new();
    fixture.broker.tables.groups.make("g", 1).unwrap();
    fixture.put("T", 3, b"body", b"");
    fixture.broker.tables.topics.put(wire::body::TopicConfig::new("T", 2, 6), 1).unwrap();
    let commit = |queue: &str| {
        let fields = [("consumerGroup", "g"), ("topic", "T"), ("queueId", queue), ("commitOffset", "1")];
        fixture.ask(request::UPDATE_CONSUMER_OFFSET, &fields, b"").0
    };
    assert_eq!(
        ["1", "3", "7", "-1"].map(commit),
        [0, 0, response::INVALID_PARAMETER, response::INVALID_PARAMETER]
    );
    assert_eq!(["3", "7"].map(|queue| offset_of(&fixture, queue)), [Some(1), None]);
}

/// The committed offset of the group g in a queue of the topic T.
fn offset_of(fixture: &Fixture, queue: &str) -> Option<i64> {
    fixture.broker.tables.offsets.committed("g", "T", queue.parse().unwrap())
}

#[test]
fn the_filter_of_an_online_group_is_told_with_the_units_of_a_queue() {
    let fixture = Fixture::with(|config| {
        config.enable_property_filter = true;
        // The member would be told that it joined before the answer comes.
        config.notify_consumer_ids_changed_enable = false;
    });
    fixture.put("T", 0, b"body", b"");
    let subscribe = |group: &str, kind: &str, expression: &str| {
        let body = json!({"clientID": "c", "consumerDataSet": [{"groupName": group, "subscriptionDataSet": [
            {"topic": "T", "subString": expression, "expressionType": kind, "subVersion": 7},
        ]}]});
        let (code, remark, _) = fixture.ask(request::HEART_BEAT, &[], body.to_string().as_bytes());
        assert_eq!(code, 0, "{remark}");
    };
    subscribe("tags", "TAG", "A || B");
    subscribe("sql", "SQL92", "a = 1");
    let filter = |group: &str| {
        let fields = [("topic", "T"), ("queueId", "0"), ("count", "9"), ("consumerGroup", group)];
        let (code, remark, body) = fixture.ask(request::QUERY_CONSUME_QUEUE, &fields, b"");
        assert_eq!(code, 0, "{remark}");
        let body: Value = serde_json::from_slice(&body).unwrap();
        let filter: Value = serde_json::from_str(body["filterData"].as_str().unwrap()).unwrap();
        (filter, body["subscriptionData"]["subString"].clone())
    };
    assert_eq!(filter("tags"), (Value::Null, json!("A || B")));
    let expected = json!({
        "clientVersion": 7, "consumerGroup": "sql", "dead": false, "deadTime": 0, "expression": "a = 1",
        "expressionType": "SQL92", "topic": "T",
    });
    assert_eq!(filter("sql"), (expected, json!("a = 1")));
}

#[test]
fn a_heartbeat_is_answered_with_what_java_clients_look_for() {
    let fixture = Fixture::new();
    fixture.broker.tables.groups.make("g", 1).unwrap();
    fixture.broker.tables.topics.put(fixture.broker.tables.retry_topic_missing("g", 1).unwrap(), 1).unwrap();
    let mut bytes = Vec::new();
    let head = Head { language: Language::Rust, ..Head::request(Encoding::Json, request::HEART_BEAT, 1) };
    head.write(&mut bytes, br#"{"clientID":"c","consumerDataSet":[{"groupName":"g"}],"producerDataSet":[]}"#);
    let command = Command::decode(&mut bytes).unwrap();
    let peer = Arc::new(ConnectionHandle::detached(1, crate::testing::ADDRESS));
    let answer = clients::heartbeat(&Request {
        broker: &fixture.broker,
        peer: &peer,
        command: &command,
        heartbeat: &ParsedHeartbeat::default(),
        caller: &crate::testing::CALLER,
        port: &Port::Own,
        begin: std::time::Duration::ZERO,
        is_late: false,
    })
    .unwrap();
    let fields = [("IS_SUPPORT_HEART_BEAT_V2", "true"), ("IS_SUB_CHANGE", "true")];
    assert_eq!(answer.fields, fields.map(|(key, value)| (key, value.to_owned())));
    let connection = fixture.broker.sessions.clients.member("g", "c").unwrap().connection();
    assert_eq!((connection.language.as_str(), connection.version), ("RUST", wire::codes::VERSION));
}
