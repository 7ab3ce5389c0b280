//! Heartbeats, groups, offsets and locks (§7 to §11, checklist 16 to 21).

use serde_json::Value;
use wire::codes::{request, response};

use crate::common::wire_client::{Arrived, Connection, send_header};
use crate::stage::{Stage, beat, eventually, heartbeat, make_group};

fn members(connection: &mut Connection, group: &str) -> Arrived {
    connection.call(request::GET_CONSUMER_LIST_BY_GROUP, |writer| writer.text("consumerGroup", group), &[])
}

fn ids(answer: &Arrived) -> Vec<String> {
    assert_eq!(answer.code, 0, "{answer:?}");
    let body: Value = serde_json::from_slice(&answer.body).expect("a list is JSON");
    let ids = body["consumerIdList"].as_array().expect("a list");
    let mut ids: Vec<String> = ids.iter().map(|id| id.as_str().expect("text").to_owned()).collect();
    ids.sort();
    ids
}

#[test]
fn members_of_a_group_hear_of_each_other() {
    let stage = Stage::start(&[]);
    let (mut first, mut second) = (stage.connect(), stage.connect());
    let answer = beat(&mut first, &heartbeat("c1", "CG", "T", "*", "", 1));
    assert_eq!(answer.field("IS_SUPPORT_HEART_BEAT_V2"), Some("true"), "{answer:?}");
    assert!(answer.field("IS_SUB_CHANGE").is_some(), "{answer:?}");
    assert!(answer.version >= 232, "{answer:?}");
    // Its own arrival is a change too.
    first.pushed(request::NOTIFY_CONSUMER_IDS_CHANGED);

    beat(&mut second, &heartbeat("c2", "CG", "T", "*", "", 1));
    let pushed = first.pushed(request::NOTIFY_CONSUMER_IDS_CHANGED);
    assert!(pushed.one_way && pushed.field("consumerGroup") == Some("CG"), "{pushed:?}");
    assert_eq!(ids(&members(&mut first, "CG")), ["c1", "c2"]);

    drop(second);
    first.pushed(request::NOTIFY_CONSUMER_IDS_CHANGED);
    assert_eq!(ids(&members(&mut first, "CG")), ["c1"]);
    let answer = members(&mut first, "Nobody");
    assert_eq!((answer.code, answer.remark()), (1, "no consumer for this group, Nobody"));
}

#[test]
fn a_member_that_unregisters_is_gone() {
    let stage = Stage::start(&[]);
    let (mut first, mut second) = (stage.connect(), stage.connect());
    beat(&mut first, &heartbeat("c1", "CG", "T", "*", "", 1));
    beat(&mut second, &heartbeat("c2", "CG", "T", "*", "", 1));
    // Of each arrival.
    (0..2).for_each(|_| _ = first.pushed(request::NOTIFY_CONSUMER_IDS_CHANGED));
    let answer = second.call(
        request::UNREGISTER_CLIENT,
        |writer| writer.text("clientID", "c2").text("consumerGroup", "CG").text("producerGroup", "PG"),
        &[],
    );
    assert_eq!(answer.code, 0, "{answer:?}");
    assert_eq!(ids(&members(&mut first, "CG")), ["c1"]);
    first.pushed(request::NOTIFY_CONSUMER_IDS_CHANGED);
}

#[test]
fn a_heartbeat_creates_the_retry_topic() {
    let stage = Stage::start(&[]);
    let mut connection = stage.connect();
    beat(&mut connection, &heartbeat("c1", "CG", "T", "*", "", 1));
    eventually("the retry topic has a route", || {
        let answer = stage.name_server().call(
            request::GET_ROUTEINFO_BY_TOPIC,
            |writer| writer.text("topic", "%RETRY%CG"),
            &[],
        );
        (answer.code == 0).then_some(())
    });
}

#[test]
fn broken_bodies_are_answered() {
    let stage = Stage::start(&[]);
    let mut connection = stage.connect();
    let deep = format!("{}{}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
    for code in
        [request::HEART_BEAT, request::LOCK_BATCH_MQ, request::UNLOCK_BATCH_MQ, request::CHECK_CLIENT_CONFIG]
    {
        for body in ["", "{", "[]", "\u{0}\u{1}", "{\"clientID\":{{}}", "null", deep.as_str()] {
            let answer = connection.call(code, |writer| writer, body.as_bytes());
            assert!(answer.response, "{code} with {} bytes: {answer:?}", body.len());
        }
    }
    beat(&mut connection, &heartbeat("c1", "CG", "T", "*", "", 1));
}

fn query(connection: &mut Connection, group: &str, zero: Option<bool>) -> Arrived {
    connection.call(
        request::QUERY_CONSUMER_OFFSET,
        |writer| {
            let writer = writer.text("consumerGroup", group).text("topic", "Committed").number("queueId", 0);
            match zero {
                Some(zero) => writer.flag("setZeroIfNotFound", zero),
                None => writer,
            }
        },
        &[],
    )
}

fn commit(connection: &mut Connection, topic: &str, offset: i64) -> Arrived {
    connection.call(
        request::UPDATE_CONSUMER_OFFSET,
        |writer| {
            writer
                .text("consumerGroup", "CG")
                .text("topic", topic)
                .number("queueId", 0)
                .number("commitOffset", offset)
        },
        &[],
    )
}

#[test]
fn offsets_are_kept() {
    let stage = Stage::start(&[]);
    let mut connection = stage.connect();
    for _ in 0..3 {
        connection.stored(&send_header("Committed", 0), b"x");
    }
    let young = query(&mut connection, "CG", None);
    assert_eq!((young.code, young.number("offset")), (0, 0), "{young:?}");
    let missing = query(&mut connection, "CG", Some(false));
    let remark = "Not found, do not set to zero, maybe this group boot first";
    assert_eq!((missing.code, missing.remark()), (response::QUERY_NOT_FOUND, remark));
    for (topic, queue_id) in [("Nowhere", 0), ("Committed", 77)] {
        let unknown = connection.call(
            request::QUERY_CONSUMER_OFFSET,
            |writer| writer.text("consumerGroup", "CG").text("topic", topic).number("queueId", queue_id),
            &[],
        );
        assert_eq!(unknown.code, response::QUERY_NOT_FOUND, "{topic} {queue_id}: {unknown:?}");
    }
    let nobody = commit(&mut connection, "Committed", 3);
    let not_there = (response::SUBSCRIPTION_GROUP_NOT_EXIST, "Group CG not exist!");
    assert_eq!((nobody.code, nobody.remark()), not_there, "a commit makes no group");
    make_group(&mut connection, "CG");
    for offset in [3, 1] {
        assert_eq!(commit(&mut connection, "Committed", offset).code, 0);
        assert_eq!(query(&mut connection, "CG", None).number("offset"), offset, "also backwards");
    }
    let unknown = commit(&mut connection, "Nowhere", 1);
    assert_eq!((unknown.code, unknown.remark()), (response::TOPIC_NOT_EXIST, "Topic Nowhere not exist!"));

    let stage = stage.restart(|server| assert!(server.terminate().success()));
    let mut connection = stage.connect();
    assert_eq!(query(&mut connection, "CG", None).number("offset"), 1, "after a clean stop");
}

#[test]
fn the_ends_of_a_queue_are_known() {
    let stage = Stage::start(&[]);
    let mut connection = stage.connect();
    let before =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64;
    for _ in 0..3 {
        connection.stored(&send_header("Ends", 0), b"x");
    }
    let mut ask = |code, topic: &str, timestamp: i64| {
        let answer = connection.call(
            code,
            |writer| writer.text("topic", topic).number("queueId", 0).number("timestamp", timestamp),
            &[],
        );
        assert_eq!(answer.code, 0, "{answer:?}");
        answer
    };
    assert_eq!(ask(request::GET_MAX_OFFSET, "Ends", 0).number("offset"), 3);
    assert_eq!(ask(request::GET_MIN_OFFSET, "Ends", 0).number("offset"), 0);
    assert_eq!(ask(request::GET_MAX_OFFSET, "Nowhere", 0).number("offset"), 0);
    assert_eq!(ask(request::GET_MIN_OFFSET, "Nowhere", 0).number("offset"), 0);
    assert!(ask(request::GET_EARLIEST_MSG_STORETIME, "Ends", 0).number("timestamp") >= before);
    assert_eq!(ask(request::GET_EARLIEST_MSG_STORETIME, "Nowhere", 0).number("timestamp"), -1);
    assert_eq!(ask(request::SEARCH_OFFSET_BY_TIMESTAMP, "Ends", before - 1000).number("offset"), 0);
    assert_eq!(ask(request::SEARCH_OFFSET_BY_TIMESTAMP, "Ends", before + 3_600_000).number("offset"), 3);
}

fn lock(connection: &mut Connection, code: i32, client: &str) -> Vec<Value> {
    let body = format!(
        "{{\"clientId\":\"{client}\",\"consumerGroup\":\"CG\",\"mqSet\":[{{\"brokerName\":\"broker-a\",\"queueId\":0,\"topic\":\"T\"}}],\"onlyThisBroker\":false}}"
    );
    let answer = connection.call(code, |writer| writer, body.as_bytes());
    assert_eq!(answer.code, 0, "{answer:?}");
    if answer.body.is_empty() {
        return Vec::new();
    }
    let body: Value = serde_json::from_slice(&answer.body).expect("a set is JSON");
    body["lockOKMQSet"].as_array().cloned().unwrap_or_default()
}

#[test]
fn a_queue_is_locked_by_one_client() {
    let stage = Stage::start(&[]);
    let mut connection = stage.connect();
    let held = lock(&mut connection, request::LOCK_BATCH_MQ, "c1");
    assert_eq!(held.len(), 1);
    assert_eq!((&held[0]["queueId"], &held[0]["topic"]), (&0.into(), &"T".into()));
    assert_eq!(lock(&mut connection, request::LOCK_BATCH_MQ, "c1").len(), 1, "again by its holder");
    assert_eq!(lock(&mut connection, request::LOCK_BATCH_MQ, "c2").len(), 0);
    lock(&mut connection, request::UNLOCK_BATCH_MQ, "c2");
    assert_eq!(lock(&mut connection, request::LOCK_BATCH_MQ, "c2").len(), 0, "not its lock to undo");
    lock(&mut connection, request::UNLOCK_BATCH_MQ, "c1");
    assert_eq!(lock(&mut connection, request::LOCK_BATCH_MQ, "c2").len(), 1);
}

#[test]
fn the_broker_is_in_the_cluster_soon_after_its_start() {
    let stage = Stage::start(&[]);
    let broker = stage.server.setup().broker().to_string();
    eventually("the broker is registered", || {
        let answer = stage.name_server().call(request::GET_BROKER_CLUSTER_INFO, |writer| writer, &[]);
        String::from_utf8_lossy(&answer.body).contains(&broker).then_some(())
    });
}

#[test]
fn a_topic_that_only_the_name_server_lost_comes_back() {
    let stage = Stage::start(&["registerNameServerPeriod=1000"]);
    let mut name_server = stage.name_server();
    let mut call = |code| name_server.call(code, |writer| writer.text("topic", "TBW102"), &[]).code;
    eventually("the topic has a route", || (call(request::GET_ROUTEINFO_BY_TOPIC) == 0).then_some(()));
    assert_eq!(call(request::DELETE_TOPIC_IN_NAMESRV), 0);
    eventually("it has one again", || (call(request::GET_ROUTEINFO_BY_TOPIC) == 0).then_some(()));
}

#[test]
fn an_order_configuration_reaches_the_broker() {
    let stage = Stage::start(&["registerNameServerPeriod=1000"]);
    let answer = stage.name_server().call(
        request::PUT_KV_CONFIG,
        |writer| {
            writer.text("namespace", "ORDER_TOPIC_CONFIG").text("key", "TBW102").text("value", "broker-a:4")
        },
        &[],
    );
    assert_eq!(answer.code, 0);
    let mut broker = stage.connect();
    eventually("the topic is ordered", || {
        let answer = broker.call(request::GET_TOPIC_CONFIG, |writer| writer.text("topic", "TBW102"), &[]);
        let config: Value = serde_json::from_slice(&answer.body).expect("a topic is JSON");
        (config["order"] == true).then_some(())
    });
}
