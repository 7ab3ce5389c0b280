//! Calls beside other brokers, which a thread of the test acts for: it is the name server, and the master of each other group.

use std::net::TcpListener;

use wire::frame::Command;

use super::super::receive::{choose_broker, is_of_own};
use super::*;

/// The offset of a message that the thread took.
const STORED_AT: i64 = 77;

/// An answer of the thread: response code, header fields and body.
type Reply = (i32, &'static [(&'static str, &'static str)], String);

/// Starts the thread, which lives as long as the process. Returns its address.
fn others(groups: &'static [&'static str]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let own = address.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let own = own.clone();
            std::thread::spawn(move || serve(stream.unwrap(), |code| reply(groups, &own, code)));
        }
    });
    address
}

fn reply(groups: &[&str], own: &str, code: i32) -> Reply {
    let broker = |name: &&str| {
        format!(r#"{{"brokerName":"{name}","cluster":"C","brokerAddrs":{{"0":"{own}","1":"127.0.0.9:9"}}}}"#)
    };
    let brokers: Vec<String> = groups.iter().map(broker).collect();
    match code {
        request::GET_ROUTEINFO_BY_TOPIC => {
            let queues = |name: &&str| {
                format!(r#"{{"brokerName":"{name}","perm":6,"readQueueNums":4,"writeQueueNums":4}}"#)
            };
            let queues: Vec<String> = groups.iter().map(queues).collect();
            let (brokers, queues) = (brokers.join(","), queues.join(","));
            (0, &[], format!(r#"{{"brokerDatas":[{brokers}],"queueDatas":[{queues}]}}"#))
        }
        request::GET_BROKER_CLUSTER_INFO => {
            let named = groups.iter().zip(&brokers).map(|(name, broker)| format!(r#""{name}":{broker}"#));
            let named: Vec<String> = named.collect();
            (0, &[], format!(r#"{{"brokerAddrTable":{{{}}}}}"#, named.join(",")))
        }
        request::SEND_MESSAGE_V2 => {
            const SENT: &[(&str, &str)] =
                &[("msgId", "7F00000100002A9F0000000000000000"), ("queueId", "0"), ("queueOffset", "77")];
            (0, SENT, String::new())
        }
        request::END_TRANSACTION | request::CONSUMER_SEND_MSG_BACK => (0, &[], String::new()),
        request::RECALL_MESSAGE => (0, &[("msgId", "recalled")], String::new()),
        _ => (wire::codes::response::TOPIC_NOT_EXIST, &[], String::new()),
    }
}

/// Answers the requests of a connection until it is closed.
fn serve(mut stream: TcpStream, reply: impl Fn(i32) -> Reply) {
    loop {
        let mut bytes = vec![0; 4];
        if stream.read_exact(&mut bytes).is_err() {
            return;
        }
        let length = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
        bytes.resize(4 + length, 0);
        stream.read_exact(&mut bytes[4..]).unwrap();
        let asked = Command::decode(&mut bytes).unwrap();
        let (code, fields, body) = reply(asked.code);
        let mut out = Vec::new();
        let frame = FrameWriter::begin(&mut out, Head::response(asked.encoding, code, asked.opaque));
        let frame = fields.iter().fold(frame, |frame, (name, value)| frame.text(name, value));
        frame.finish(body.as_bytes());
        stream.write_all(&out).unwrap();
    }
}

fn sent(fixture: &Fixture, topic: &str, group: Option<&str>) -> i64 {
    let sent = fixture.run(send(fixture.call(), batch(topic, &[group]))).unwrap();
    assert_eq!(sent.status, Some(Status::ok()), "{sent:?}");
    sent.entries[0].offset
}

/// Returns a message group whose queue, among those of two brokers with four queues each, is on the first broker.
fn group_of_the_first() -> String {
    let groups = (0..).map(|number: i32| format!("g{number}"));
    groups.into_iter().find(|group| wire::hash::bucket(group, 8) < 4).unwrap()
}

#[test]
fn the_first_call_for_a_topic_of_another_broker_finds_it() {
    let fixture = Fixture::reaching(&others(&["a"]), "brokerName=b", |_| {});
    // The proxy would make the topic at the broker of the process.
    assert_eq!(sent(&fixture, "sent", None), STORED_AT);
    assert!(fixture.run(fixture.proxy.brokers.topic("other")).unwrap().is_some());
    let both = async {
        let brokers = &fixture.proxy.brokers;
        tokio::join!(brokers.topic("at once"), brokers.whole_topic("at once"))
    };
    let (topic, whole) = fixture.run(both);
    assert!(topic.unwrap().is_some() && whole.unwrap().is_some());
}

#[test]
fn the_first_message_of_a_group_has_the_queue_of_the_next() {
    let fixture = Fixture::reaching(&others(&["a"]), "brokerName=b", |_| {});
    let group = group_of_the_first();
    for topic in ["T", "U"] {
        fixture.send_again(topic, 0);
        assert_eq!(sent(&fixture, topic, Some(&group)), STORED_AT);
        assert_eq!(sent(&fixture, topic, Some(&group)), STORED_AT);
    }
}

#[test]
fn a_slave_passes_on_what_only_its_master_takes() {
    let fixture = Fixture::reaching(&others(&["b"]), "brokerName=b\nbrokerRole=SLAVE\nbrokerId=1", |_| {});
    let call = fixture.call();
    let (brokers, caller) = (&fixture.proxy.brokers, &call.caller);
    let topic = fixture.run(brokers.whole_topic("T")).unwrap().unwrap();
    assert!(topic.queues[0].is_writable() && topic.queues[0].host == "127.0.0.1", "{topic:?}");
    // The slave has this topic from the beginning.
    let topic = fixture.run(brokers.topic(wire::names::DEFAULT_TOPIC)).unwrap().unwrap();
    assert!(topic.queues[0].is_writable(), "{topic:?}");
    assert_eq!(sent(&fixture, "T", None), STORED_AT);
    let recall = broker::api::RecallRequest { producer_group: "T", topic: "T", handle: "" };
    assert_eq!(fixture.run(brokers.recall(caller, "b", &recall)).as_deref(), Ok("recalled"));
    let (half_offset, log_offset) = Default::default();
    let id = crate::transaction_id::TransactionId { message_id: "id", half_offset, log_offset, broker: "b" };
    let end = brokers.end_transaction((caller, &id), ("T", broker::api::Decision::Commit), false);
    assert_eq!(fixture.run(end), Ok(()));
    let (topic, group, handle) = ("T", "g", "");
    let message = broker::api::PoppedMessage { caller, topic, group, queue_id: 0, offset: 0, handle };
    let held = crate::receipt::PopRef { broker: "b", message, lite_topic: "" };
    assert_eq!(fixture.run(brokers.dead_letter(&held, log_offset)), Ok(()));
    assert_eq!(brokers.own_master(), None);
}

#[test]
fn a_topic_is_merged_once_for_all_sends() {
    let fixture = Fixture::reaching(&others(&["a"]), "brokerName=b", |_| {});
    fixture.send_again("T", 0);
    let whole = fixture.run(fixture.proxy.brokers.whole_topic("T")).unwrap().unwrap();
    assert_eq!(whole.queues.len(), 2);
    let next = fixture.run(fixture.proxy.brokers.topic("T")).unwrap().unwrap();
    assert!(Arc::ptr_eq(&whole, &next));
}

#[test]
fn a_receive_that_names_no_broker_can_be_cancelled_at_the_own_one() {
    let fixture = Fixture::reaching(&others(&["b"]), "brokerName=b", |_| {});
    fixture.send_again("T", 0);
    let (call, mut request) = (fixture.call(), Fixture::request());
    assert!(!is_of_own(&call, &request));
    fixture.run(choose_broker(&call, &mut request));
    assert!(is_of_own(&call, &request), "{request:?}");
    // Both brokers take turns.
    let fixture = Fixture::reaching(&others(&["a"]), "brokerName=b", |_| {});
    fixture.send_again("T", 0);
    let call = fixture.call();
    let chooses_own = || {
        let mut request = Fixture::request();
        fixture.run(choose_broker(&call, &mut request));
        is_of_own(&call, &request)
    };
    fixture.run(call.proxy.brokers.whole_topic("T")).unwrap();
    assert_ne!(chooses_own(), chooses_own());
}
