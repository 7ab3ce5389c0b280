//! Clients of remoting at the port of a proxy in a process of its own (cluster mode).

use wire::body::{ConsumerListByGroup, TopicRouteData};
use wire::codes::{request, response};
use wire::header::{PullHeader, SendHeader, pull_flag};

use crate::common::wire_client::{Arrived, Connection, pull_header, send_header};
use crate::guarded_routes::ask;
use crate::proxy::{Proxy, USERS, guarded, guarded_proxy, topic};
use crate::stage::{Stage, beat, eventually, heartbeat, open, records};

const REMOTING: &str = r#"{"remotingListenPort":0}"#;

/// A pull that waits for messages, and leaves its subscription to the heartbeat.
fn waiting(queue_id: i32) -> PullHeader<'static> {
    PullHeader {
        sys_flag: pull_flag::SUSPEND,
        suspend_timeout_ms: 600_000,
        ..pull_header("G", "T", queue_id, 0)
    }
}

fn pull(connection: &mut Connection, header: &PullHeader<'_>) -> i32 {
    connection
        .ask(request::PULL_MESSAGE, |writer| header.write(writer).text("bname", "broker-a"), &[])
        .unwrap()
}

fn max_offset(connection: &mut Connection, broker: Option<&str>) -> Arrived {
    let code = request::GET_MAX_OFFSET;
    connection.call(code, |writer| writer.text("topic", "T").number("queueId", 0).maybe("bname", broker), b"")
}

fn send_to_broker<'a>(queue_id: i32) -> SendHeader<'a> {
    SendHeader { broker_name: "broker-a", ..send_header("T", queue_id) }
}

#[test]
fn g03_requests_go_to_the_broker_that_they_name_and_do_not_wait_for_each_other() {
    let stage = Stage::start(&["brokerName=broker-a"]);
    topic(&stage, "T", "NORMAL");
    let proxy = Proxy::start(&stage, "proxy", REMOTING);
    let mut client = open(proxy.remoting());

    let route = client.call(request::GET_ROUTEINFO_BY_TOPIC, |writer| writer.text("topic", "T"), b"");
    let route = TopicRouteData::decode(&route.body).unwrap();
    assert_eq!(route.broker_datas[0].broker_addrs[&0], proxy.remoting().to_string());
    let missing = client.call(request::GET_ROUTEINFO_BY_TOPIC, |writer| writer.text("topic", "X"), b"");
    assert_eq!(missing.code, response::TOPIC_NOT_EXIST);

    let unknown = pull(&mut client, &waiting(0));
    assert_eq!(client.answer(unknown).unwrap().code, response::SUBSCRIPTION_NOT_LATEST);
    beat(&mut client, &heartbeat("c", "G", "T", "*", "", 1));
    let held = [0, 1].map(|queue| pull(&mut client, &waiting(queue)));
    // The same connection, and the same connection of the proxy to the broker.
    assert_eq!(max_offset(&mut client, Some("broker-a")).field("offset"), Some("0"));
    for (queue, held) in held.into_iter().enumerate().rev() {
        client.stored(&send_to_broker(queue as i32), b"body");
        let found = client.answer(held).unwrap();
        assert_eq!((found.code, records(&found)[0].1.as_slice()), (0, b"body".as_slice()));
    }

    // Clients in Go name no broker.
    assert_eq!(max_offset(&mut client, None).field("offset"), Some("1"));
    let nowhere = max_offset(&mut client, Some("broker-x"));
    let text = "the broker broker-x is not known to the name servers";
    assert_eq!((nowhere.code, nowhere.remark()), (response::SYSTEM_ERROR, text));
    let refused = client.call(request::DELETE_TOPIC_IN_BROKER, |writer| writer.text("topic", "T"), b"");
    assert_eq!(refused.code, response::REQUEST_CODE_NOT_SUPPORTED);
    assert!(refused.remark().contains("not served by a proxy without a broker"), "{refused:?}");
}

#[test]
fn members_of_a_group_hear_who_joins_and_leaves_at_any_proxy() {
    let stage = Stage::start(&["brokerName=broker-a"]);
    topic(&stage, "T", "NORMAL");
    let [one, other] = ["one", "other"].map(|name| Proxy::start(&stage, name, REMOTING));
    let mut first = open(one.remoting());
    beat(&mut first, &heartbeat("c1", "G", "T", "*", "", 1));
    let ids = |connection: &mut Connection| {
        let code = request::GET_CONSUMER_LIST_BY_GROUP;
        let answer = connection.call(code, |writer| writer.text("consumerGroup", "G"), b"");
        wire::json::from_slice::<ConsumerListByGroup>(&answer.body).unwrap().consumer_id_list
    };
    let mut second = open(other.remoting());
    eventually("both are members at both proxies", || {
        // A proxy that does not listen yet hears of a consumer with a later heartbeat.
        beat(&mut first, &heartbeat("c1", "G", "T", "*", "", 1));
        beat(&mut second, &heartbeat("c2", "G", "T", "*", "", 1));
        (ids(&mut first) == ["c1", "c2"] && ids(&mut second) == ["c1", "c2"]).then_some(())
    });
    let changed = request::NOTIFY_CONSUMER_IDS_CHANGED;
    // Every change is told, that of the first member itself too.
    let told = first.pushed(changed);
    assert_eq!(told.field("consumerGroup"), Some("G"));
    drop(second);
    while ids(&mut first) != ["c1"] {
        first.pushed(changed);
    }
}

#[test]
fn a_producer_of_remoting_is_asked_for_its_decision_by_a_proxy() {
    let times = ["transactionTimeOut=1000", "transactionCheckInterval=1000"];
    let stage = Stage::start(&["brokerName=broker-a", times[0], times[1]]);
    topic(&stage, "T", "TRANSACTION");
    let proxy = Proxy::start(&stage, "proxy", REMOTING);
    let mut producer = open(proxy.remoting());
    let properties = "TRAN_MSG\u{1}true\u{2}PGROUP\u{1}PG\u{2}UNIQ_KEY\u{1}id-1\u{2}";
    // An old half message is not asked about.
    let born_timestamp = client::now_ms();
    let half =
        SendHeader { sys_flag: 4, properties: properties.as_bytes(), born_timestamp, ..send_to_broker(0) };
    producer.stored(&half, b"body");
    let asked = producer.pushed(request::CHECK_TRANSACTION_STATE);
    assert_eq!((asked.field("bname"), asked.field("transactionId")), (Some("broker-a"), Some("id-1")));
    let echoed =
        ["tranStateTableOffset", "commitLogOffset", "bname"].map(|name| (name, asked.field(name).unwrap()));
    let code = request::END_TRANSACTION;
    producer
        .tell(
            code,
            |writer| {
                let writer = echoed.iter().fold(writer, |writer, (name, value)| writer.text(name, value));
                let writer = writer.text("producerGroup", "PG").number("commitOrRollback", 8);
                writer.flag("fromTransactionCheck", true).text("msgId", "id-1").text("transactionId", "id-1")
            },
            b"",
        )
        .unwrap();
    beat(&mut producer, &heartbeat("c", "G", "T", "*", "", 1));
    let held = pull(&mut producer, &waiting(0));
    assert_eq!(records(&producer.answer(held).unwrap())[0].1, b"body");
}

#[test]
fn a40_remoting_clients_of_a_proxy_need_what_they_need_at_a_broker() {
    let (setup, home) = guarded(USERS, &["brokerName=broker-a"]);
    let stage = Stage { server: setup.start().unwrap(), home };
    topic(&stage, "T", "NORMAL");
    topic(&stage, "U", "NORMAL");
    let proxy = guarded_proxy(&stage);
    let send = |(user, secret): (&str, &str), topic: &str| {
        let fields = [
            ("a", "PG"),
            ("b", topic),
            ("c", "TBW102"),
            ("d", "4"),
            ("e", "0"),
            ("f", "0"),
            ("g", "1"),
            ("h", "0"),
            ("i", ""),
            ("n", "broker-a"),
        ];
        let answer = ask(proxy.remoting(), (user, secret), request::SEND_MESSAGE_V2, &fields);
        (answer.code, answer.remark().to_owned())
    };
    let alice = ("alice", "alice-secret");
    // The broker, which serves users only as well, refuses a message without a body.
    let is_passed_on = || (send(alice, "T").0 == response::MESSAGE_ILLEGAL).then_some(());
    eventually("the proxy knows the users", is_passed_on);
    for (user, topic, expected) in [
        (("alice", "wrong"), "T", "check signature failed."),
        (("nobody", "secret"), "T", "User:nobody is not found."),
        (alice, "U", "no matched policies."),
    ] {
        let (code, text) = send(user, topic);
        assert!(
            code == response::NO_PERMISSION && text.contains(expected),
            "{user:?} to {topic}: {code} {text}"
        );
    }
    let fields = [("consumerGroup", "G"), ("topic", "T"), ("queueId", "0"), ("bname", "broker-a")];
    let answer = ask(proxy.remoting(), alice, request::QUERY_CONSUMER_OFFSET, &fields);
    assert_eq!(answer.code, response::NO_PERMISSION, "{answer:?}");
}
