use wire::body::MessageQueue;

use super::*;

/// A request with these fields and this body.
fn request(code: i32, fields: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    let writer = FrameWriter::begin(&mut frame, Head::request(Encoding::Json, code, 7));
    fields.iter().fold(writer, |writer, (name, value)| writer.text(name, value)).finish(body);
    frame
}

fn forward(code: i32, fields: &[(&str, &str)], body: &[u8]) -> Result<Forward, Refusal> {
    let mut frame = request(code, fields, body);
    Forward::new(&Command::decode(&mut frame).unwrap(), None)
}

/// The fields that reach the broker.
fn passed(mut forward: Forward) -> String {
    let command = Command::decode_own(&mut forward.frame).unwrap();
    let text = |bytes| std::str::from_utf8(bytes).unwrap();
    let fields = command.fields.iter().map(|(name, value)| format!("{}={}", text(name), text(value)));
    fields.collect::<Vec<_>>().join(" ")
}

fn check_target(code: i32, fields: &[(&str, &str)], expected: Target) {
    assert_eq!(forward(code, fields, b"").unwrap().target, expected, "{code} {fields:?}");
}

#[test]
fn a_request_goes_to_the_broker_that_it_names() {
    let named = |broker: &str| Target::Named(broker.to_owned());
    let only = |topic: Option<&str>| Target::Only(topic.map(str::to_owned));
    check_target(request::SEND_MESSAGE_V2, &[("b", "T"), ("n", "A")], named("A"));
    check_target(request::SEND_BATCH_MESSAGE, &[("b", "T"), ("bname", "A")], named("A"));
    check_target(request::SEND_MESSAGE, &[("topic", "T"), ("bname", "A"), ("n", "B")], named("A"));
    check_target(request::PULL_MESSAGE, &[("topic", "T"), ("bname", "A")], named("A"));
    check_target(request::SEND_MESSAGE_V2, &[("b", "T")], only(Some("T")));
    check_target(request::CONSUMER_SEND_MSG_BACK, &[("originTopic", "T"), ("bname", "")], only(Some("T")));
    check_target(request::END_TRANSACTION, &[], only(None));
    check_target(request::CHECK_CLIENT_CONFIG, &[], Target::Any);
    let locks = LockBatchBody {
        mq_set: vec![MessageQueue::new("T", "A", 0), MessageQueue::new("T", "A", 1)],
        ..LockBatchBody::default()
    };
    let locked = forward(request::LOCK_BATCH_MQ, &[], &json::to_vec(&locks)).unwrap();
    assert_eq!(locked.target, named("A"));
    assert_eq!(forward(request::UNLOCK_BATCH_MQ, &[], b"{").unwrap_err().code, response::SYSTEM_ERROR);
}

#[test]
fn the_signature_of_a_client_stays_at_the_proxy() {
    let fields = [("topic", "T"), ("AccessKey", "a"), ("Signature", "s"), ("SecurityToken", "t"), ("x", "")];
    assert_eq!(passed(forward(request::GET_MAX_OFFSET, &fields, b"").unwrap()), "topic=T x=");
}

#[test]
fn no_field_reaches_a_broker_that_the_gate_has_not_seen() {
    let twice = [("topic", "allowed"), ("topic", "other")];
    let mut frame = request(request::GET_MAX_OFFSET, &twice, b"");
    let seen = Command::decode(&mut frame).unwrap().fields.text("topic").unwrap().to_owned();
    assert_eq!(passed(forward(request::GET_MAX_OFFSET, &twice, b"").unwrap()), format!("topic={seen}"));
    for name in ["x\\\":\\\"\\\",\\\"topic", "na\\\\me", "n\u{e4}me", "na me"] {
        let refused = forward(request::GET_MAX_OFFSET, &[(name, "v")], b"").unwrap_err();
        assert_eq!(refused.code, response::SYSTEM_ERROR, "{name}");
    }
    let many = vec![("topic", "T"); FIELDS_MAX + 1];
    assert_eq!(forward(request::GET_MAX_OFFSET, &many, b"").unwrap_err().code, response::SYSTEM_ERROR);
}

#[test]
fn a_request_may_take_as_long_as_it_waits_for_messages_and_some_more() {
    let check = |code, fields: &[(&str, &str)], seconds| {
        assert_eq!(forward(code, fields, b"").unwrap().timeout.as_secs(), seconds, "{code} {fields:?}");
    };
    check(request::PULL_MESSAGE, &[("suspendTimeoutMillis", "15000")], 25);
    check(request::LITE_PULL_MESSAGE, &[("suspendTimeoutMillis", "-1")], 10);
    check(request::POP_MESSAGE, &[("pollTime", "9223372036854775807")], 310);
    check(request::GET_MIN_OFFSET, &[("pollTime", "15000")], 3);
}

#[test]
fn a_pull_is_given_the_subscription_of_its_group() {
    let check = |flags: &str, expected: &str| {
        let mut frame = request(request::PULL_MESSAGE, &[("sysFlag", flags), ("subscription", "A")], b"");
        let command = Command::decode(&mut frame).unwrap();
        let known = SubscriptionData {
            sub_string: "B".to_owned(),
            sub_version: 9,
            expression_type: "TAG".to_owned(),
            ..Default::default()
        };
        let known = lacks_subscription(&command).then_some(known);
        assert_eq!(passed(Forward::new(&command, known.as_ref()).unwrap()), expected);
    };
    check("2", "sysFlag=6 subscription=B subVersion=9 expressionType=TAG");
    check("6", "sysFlag=6 subscription=A");
}

#[test]
fn requests_that_wait_for_messages_take_places_and_stop_no_others() {
    let config = crate::config::Config::default();
    let client = client::Client::start(client::Config::new("127.0.0.1:1")).unwrap();
    let cluster = Cluster::new(client, None, &config);
    let connection = Arc::new(ConnectionHandle::detached(1, ([10, 0, 0, 9], 1).into()));
    let take =
        |code| forward(code, &[("topic", "T"), ("bname", "A")], b"").unwrap().bound(&cluster, &connection);
    let places = cluster.held.available_permits();
    let held = take(request::POP_MESSAGE).unwrap();
    let other = take(request::GET_MAX_OFFSET).unwrap();
    assert_eq!(cluster.held.available_permits(), places - 1);
    drop((held, other));
    assert_eq!(cluster.held.available_permits(), places);
    cluster.held.forget_permits(places);
    assert_eq!(take(request::POP_MESSAGE).err().unwrap().code, response::POLLING_FULL);
    assert_eq!(take(request::PULL_MESSAGE).err().unwrap().code, response::SYSTEM_BUSY);
    assert!(take(request::GET_MAX_OFFSET).is_ok(), "other requests go on");
}
