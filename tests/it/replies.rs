//! Replies between applications (§17, checklist 39).

use wire::codes::{request, response};
use wire::header::{PullHeader, SendHeader};

use crate::common::wire_client::{Arrived, Connection, pull_header, send_header};
use crate::stage::{Stage, beat, eventually, property, records};

const TOPIC: &str = "DefaultCluster_REPLY_TOPIC";

/// The properties a replier copies from a request of `client`.
fn properties(client: &str) -> Vec<u8> {
    format!(
        "MSG_TYPE\u{1}reply\u{2}CORRELATION_ID\u{1}c-1\u{2}REPLY_TO_CLIENT\u{1}{client}\u{2}TTL\u{1}3000\u{2}"
    )
    .into_bytes()
}

fn header(properties: &[u8]) -> SendHeader<'_> {
    SendHeader { properties, flag: 5, producer_group: "Repliers", ..send_header(TOPIC, 0) }
}

/// A requester that is known to the broker.
fn requester(stage: &Stage, client: &str) -> Connection {
    let mut connection = stage.connect();
    let body =
        format!("{{\"clientID\":\"{client}\",\"producerDataSet\":[{{\"groupName\":\"Requesters\"}}]}}");
    beat(&mut connection, &body);
    connection
}

/// Sends a reply and returns the id of its request.
fn reply(connection: &mut Connection, code: i32, header: &SendHeader<'_>, body: &[u8]) -> i32 {
    let long = |writer: wire::frame::FrameWriter<'_>| {
        let SendHeader { producer_group, topic, default_topic, properties, .. } = *header;
        writer
            .text("producerGroup", producer_group)
            .text("topic", topic)
            .text("defaultTopic", default_topic)
            .number("defaultTopicQueueNums", header.default_topic_queue_nums)
            .number("queueId", header.queue_id)
            .number("sysFlag", header.sys_flag)
            .number("bornTimestamp", header.born_timestamp)
            .number("flag", header.flag)
            .bytes("properties", properties)
            .finish(body);
    };
    let opaque = connection.next_opaque();
    let mut out = Vec::new();
    let head = wire::frame::Head::request(connection.encoding, code, opaque);
    let writer = wire::frame::FrameWriter::begin(&mut out, head);
    if code == request::SEND_REPLY_MESSAGE {
        long(writer)
    } else {
        header.write(writer).finish(body)
    }
    connection.write(&out).expect("the request can be written");
    opaque
}

fn answer_push(connection: &mut Connection, push: &Arrived, code: i32) {
    let mut out = Vec::new();
    let head = wire::frame::Head::response(push.encoding, code, push.opaque);
    head.write(&mut out, b"");
    connection.write(&out).expect("the answer can be written");
}

fn stored(stage: &Stage) -> Vec<(i64, Vec<u8>, String, i32)> {
    let header = PullHeader { queue_offset: 0, ..pull_header("Readers", TOPIC, 0, 0) };
    records(&stage.connect().pull(&header))
}

#[test]
fn check_39_a_reply_reaches_the_client_that_asked_and_is_stored() {
    let stage = Stage::start(&[]);
    let mut requester = requester(&stage, "r@1");
    let mut replier = stage.connect();
    for (number, code) in
        [request::SEND_REPLY_MESSAGE, request::SEND_REPLY_MESSAGE_V2].into_iter().enumerate()
    {
        let text = properties("r@1");
        let opaque = reply(&mut replier, code, &header(&text), b"the answer");
        let push = requester.pushed(request::PUSH_REPLY_MESSAGE_TO_CLIENT);
        assert!(!push.one_way && push.body == b"the answer", "{push:?}");
        for (field, value) in [
            ("producerGroup", "Repliers"),
            ("topic", TOPIC),
            ("defaultTopic", "TBW102"),
            ("defaultTopicQueueNums", "4"),
            ("queueId", "0"),
            ("sysFlag", "0"),
            ("bornTimestamp", "1700000000000"),
            ("flag", "5"),
            ("reconsumeTimes", "0"),
            ("unitMode", "false"),
            ("bornHost", &replier.local().to_string()),
        ] {
            assert_eq!(push.field(field), Some(value), "{field}: {push:?}");
        }
        assert!(push.field("storeHost").is_some() && push.number("storeTimestamp") > 0, "{push:?}");
        let pushed = push.field("properties").expect("properties");
        assert_eq!(property(pushed, "CORRELATION_ID"), Some("c-1"));
        assert!(property(pushed, "PUSH_REPLY_TIME").is_some(), "{pushed:?}");
        let traced = [property(pushed, "MSG_REGION"), property(pushed, "TRACE_ON")];
        assert_eq!(traced, [Some("DefaultRegion"), Some("true")]);
        // The replier is answered after the requester.
        answer_push(&mut requester, &push, response::SUCCESS);
        let answer = replier.answer(opaque).expect("an answer");
        assert_eq!((answer.code, answer.remark()), (0, ""), "{answer:?}");
        assert_eq!((answer.number("queueId"), answer.number("queueOffset")), (0, number as i64));
        assert!(answer.field("msgId").is_some_and(|id| id.len() == 32), "{answer:?}");
        assert_eq!(answer.field("MSG_REGION"), Some("DefaultRegion"), "{answer:?}");
    }
    let stored = stored(&stage);
    assert_eq!(stored.len(), 2);
    assert_eq!(stored[0].1, b"the answer");
    assert_eq!(property(&stored[0].2, "PUSH_REPLY_TIME"), None, "stored as it came");
    assert_eq!(property(&stored[0].2, "TRACE_ON"), Some("true"));
    assert_eq!(property(&stored[0].2, "REPLY_TO_CLIENT"), Some("r@1"));
}

#[test]
fn check_39_a_replier_learns_that_the_requester_is_gone() {
    let stage = Stage::start(&["storeReplyMessageEnable=false"]);
    let mut replier = stage.connect();
    let mut ask = |text: &[u8]| {
        let opaque = reply(&mut replier, request::SEND_REPLY_MESSAGE_V2, &header(text), b"late");
        let answer = replier.answer(opaque).expect("an answer");
        assert_eq!(answer.field("TRACE_ON"), Some("true"), "{answer:?}");
        (answer.code, answer.remark().to_owned())
    };
    let absent = "push reply message fail, channel of <r@1> not found.";
    assert_eq!(ask(&properties("r@1")), (1, absent.to_owned()));
    let nobody = "reply message properties[REPLY_TO_CLIENT] is null";
    assert_eq!(ask(b"MSG_TYPE\x01reply\x02"), (1, nobody.to_owned()));
    let mut connection = requester(&stage, "r@1");
    let answer = connection.call(
        request::UNREGISTER_CLIENT,
        |writer| writer.text("clientID", "r@1").text("producerGroup", "Requesters"),
        b"",
    );
    assert_eq!(answer.code, 0);
    assert_eq!(ask(&properties("r@1")), (1, absent.to_owned()), "it left its group");
    assert!(stored(&stage).is_empty(), "storeReplyMessageEnable=false");
}

#[test]
fn a_requester_that_refuses_or_goes_away_is_told_of() {
    let stage = Stage::start(&[]);
    let mut replier = stage.connect();
    let text = properties("r@1");
    let failed = "push reply message to r@1fail.";
    let mut connection = requester(&stage, "r@1");
    let opaque = reply(&mut replier, request::SEND_REPLY_MESSAGE_V2, &header(&text), b"x");
    let push = connection.pushed(request::PUSH_REPLY_MESSAGE_TO_CLIENT);
    answer_push(&mut connection, &push, response::SYSTEM_ERROR);
    let answer = replier.answer(opaque).expect("an answer");
    assert_eq!((answer.code, answer.remark()), (1, failed));
    assert_eq!(answer.number("queueOffset"), 0, "it is stored all the same");
    let opaque = reply(&mut replier, request::SEND_REPLY_MESSAGE_V2, &header(&text), b"x");
    connection.pushed(request::PUSH_REPLY_MESSAGE_TO_CLIENT);
    drop(connection);
    let answer = replier.answer(opaque).expect("an answer");
    assert_eq!((answer.code, answer.remark()), (1, failed));
    // The Go client's own replies have no body, and are not stored.
    let mut connection = requester(&stage, "r@1");
    let opaque = reply(&mut replier, request::SEND_REPLY_MESSAGE, &header(&text), b"");
    let push = connection.pushed(request::PUSH_REPLY_MESSAGE_TO_CLIENT);
    answer_push(&mut connection, &push, response::SUCCESS);
    let answer = replier.answer(opaque).expect("an answer");
    assert_eq!((answer.code, answer.field("msgId")), (0, Some("0")), "{answer:?}");
    assert_eq!(stored(&stage).len(), 2);
    // The same checks as for a send.
    let elsewhere = SendHeader { queue_id: 9, ..header(&text) };
    let opaque = reply(&mut replier, request::SEND_REPLY_MESSAGE_V2, &elsewhere, b"x");
    assert_eq!(replier.answer(opaque).expect("an answer").code, response::INVALID_PARAMETER);
}

#[test]
fn the_trace_topic_exists_when_it_is_asked_for() {
    let route = |stage: &Stage, topic: &str| {
        let code = request::GET_ROUTEINFO_BY_TOPIC;
        stage.name_server().call(code, |writer| writer.text("topic", topic), b"").code
    };
    let is_routed = |stage: &Stage, topic: &str| {
        eventually(topic, || (route(stage, topic) == 0).then_some(()));
    };
    let stage = Stage::start(&["traceTopicEnable=true"]);
    is_routed(&stage, "RMQ_SYS_TRACE_TOPIC");
    let stage = Stage::start(&["traceTopicEnable=true", "msgTraceTopicName=Traces"]);
    is_routed(&stage, "Traces");
    assert_eq!(route(&stage, "RMQ_SYS_TRACE_TOPIC"), response::TOPIC_NOT_EXIST);
}
