use wire::frame::{Encoding, FrameWriter, Head};

use super::*;

/// Checks the parsed request with these fields.
fn check(code: i32, fields: &[(&str, &str)], body: &[u8], expected: Result<ClientRequest, (i32, &str)>) {
    for encoding in [Encoding::Json, Encoding::Binary] {
        let mut bytes = Vec::new();
        let frame = FrameWriter::begin(&mut bytes, Head::request(encoding, code, 1));
        fields.iter().fold(frame, |frame, (key, value)| frame.text(key, value)).finish(body);
        let command = Command::decode(&mut bytes).unwrap();
        let found = read(&command, 7, "group1");
        let wrong = |refusal: &Refusal| (refusal.code, refusal.remark.clone());
        match &expected {
            Ok(wanted) => assert_eq!(found.as_ref().ok(), Some(wanted), "{code} {:?}", found.as_ref().err()),
            Err((code, text)) => {
                let (found, remark) = wrong(&found.unwrap_err());
                assert!(found == *code && remark.contains(text), "{found} {remark}");
            }
        }
    }
}

fn id(number: u64) -> BrokerId {
    BrokerId::new(number)
}

fn ask(code: i32, request: Request) -> Result<ClientRequest, (i32, &'static str)> {
    let (cluster, name) = ("c".to_owned(), "a".to_owned());
    Ok(ClientRequest::Ask(Echo { code, cluster, name }, request))
}

const SET: [(&str, &str); 2] = [("clusterName", "c"), ("brokerName", "a")];

#[test]
fn fields_of_java_are_read() {
    let with = |more: &[(&'static str, &'static str)]| [&SET[..], more].concat();
    let code = request::CONTROLLER_GET_NEXT_BROKER_ID;
    check(code, &SET, b"", ask(code, Request::NextId("a".to_owned())));
    let code = request::CONTROLLER_ELECT_MASTER;
    let elect =
        |broker, is_designated| Request::Elect(Election { name: "a".to_owned(), broker, is_designated });
    check(code, &with(&[("brokerId", "-1")]), b"", ask(code, elect(None, false)));
    let designated = with(&[("brokerId", "2"), ("designateElect", "true"), ("invokeTime", "5")]);
    check(code, &designated, b"", ask(code, elect(Some(id(2)), true)));
    let code = request::CONTROLLER_REGISTER_BROKER;
    let register = |may_have_lost, log_epoch: Option<u32>, log_end: Option<u64>| {
        let (name, address, log_epoch) = ("a".to_owned(), "h:1".to_owned(), log_epoch.map(Epoch::new));
        let log_end = log_end.map(LogOffset::new);
        Request::Register(Registration { name, broker: id(1), address, may_have_lost, log_epoch, log_end })
    };
    let java = with(&[("brokerId", "1"), ("brokerAddress", "h:1")]);
    check(code, &java, b"", ask(code, register(false, None, None)));
    let own = [&java[..], &[("mayHaveLost", "true"), ("logEpoch", "6"), ("logEnd", "70")]].concat();
    check(code, &own, b"", ask(code, register(true, Some(6), Some(70))));
    let code = request::CONTROLLER_ALTER_SYNC_STATE_SET;
    let alter = AlterSet {
        name: "a".to_owned(),
        master: id(1),
        master_epoch: Epoch::new(3),
        members: [id(1), id(2)].into(),
        epoch: SetEpoch(4),
    };
    let fields = with(&[("masterBrokerId", "1"), ("masterEpoch", "3")]);
    let body = br#"{"syncStateSet":[2,1],"syncStateSetEpoch":4}"#;
    check(code, &fields, body, ask(code, Request::AlterSet(alter)));
    let code = request::CLEAN_BROKER_DATA;
    let clean = Clean { name: "a".to_owned(), ids: "1;2".to_owned(), is_forced: true };
    let fields = with(&[("brokerControllerIdsToClean", "1;2"), ("isCleanLivingBroker", "true")]);
    check(code, &fields, b"", ask(code, Request::Clean(clean)));
}

#[test]
fn heartbeats_have_defaults_as_in_java() {
    let heartbeat = Heartbeat {
        name: "a".to_owned(),
        broker: id(2),
        connection: ConnectionId(7),
        timeout_ms: 10_000,
        epoch: None,
        end: LogOffset::ZERO,
        kept: None,
        priority: i32::MAX,
    };
    let code = request::BROKER_HEARTBEAT;
    check(
        code,
        &[("brokerName", "a"), ("brokerId", "2")],
        b"",
        Ok(ClientRequest::Heartbeat(heartbeat.clone())),
    );
    let fields = [
        ("brokerName", "a"),
        ("brokerId", "2"),
        ("epoch", "3"),
        ("maxOffset", "99"),
        ("heartbeatTimeoutMills", "2500"),
        ("electionPriority", "4"),
        ("keptOffset", "98"),
    ];
    let (epoch, end) = (Some(Epoch::new(3)), LogOffset::new(99));
    let kept = Some(LogOffset::new(98));
    let told = Heartbeat { timeout_ms: 2_500, epoch, end, kept, priority: 4, ..heartbeat };
    check(code, &fields, b"", Ok(ClientRequest::Heartbeat(told)));
    let invalid = (response::CONTROLLER_INVALID_REQUEST, "Heart beat with empty brokerId");
    check(code, &[("brokerName", "a")], b"", Err(invalid));
}

#[test]
fn what_a_java_controller_tells_of_a_set_is_taken_over() {
    let body = br#"{"replicasInfoTable":{"a":{"inSyncReplicas":[{"alive":true,"brokerAddress":"h1","brokerId":1,"brokerName":"a"}],
        "masterAddress":"h1","masterBrokerId":1,"masterEpoch":7,"notInSyncReplicas":[{"alive":false,"brokerAddress":"h2","brokerId":2,
        "brokerName":"a"}],"syncStateSetEpoch":12}}}"#;
    let broker = |address: &str| Broker { address: address.to_owned(), check_code: String::new() };
    let set = BrokerSet {
        cluster: "c".to_owned(),
        brokers: [(id(1), broker("h1")), (id(2), broker("h2"))].into(),
        next_id: id(3),
        master: Some(id(1)),
        master_epoch: Epoch::new(7),
        in_sync: CommittedSet { members: [id(1)].into(), epoch: SetEpoch(12) },
        former: None,
    };
    let code = request::VOSTOK_CONTROLLER_IMPORT;
    check(code, &SET, body, ask(code, Request::Import("a".to_owned(), set)));
    check(code, &SET, b"{}", Err((response::SYSTEM_ERROR, "a is not in it")));
    for (known, huge) in [
        (r#""masterEpoch":7"#, r#""masterEpoch":2147483647"#),
        (r#""brokerId":2"#, r#""brokerId":9223372036854775807"#),
    ] {
        // Elections and ids could not count on.
        let body = std::str::from_utf8(body).unwrap().replace(known, huge);
        check(code, &SET, body.as_bytes(), Err((response::SYSTEM_ERROR, "up to 1073741824")));
    }
}

#[test]
fn bad_requests_are_refused_with_a_reason() {
    let error = response::SYSTEM_ERROR;
    check(request::CONTROLLER_GET_NEXT_BROKER_ID, &[], b"", Err((error, "brokerName")));
    let fields = [("brokerName", "a"), ("masterBrokerId", "1"), ("masterEpoch", "1")];
    check(request::CONTROLLER_ALTER_SYNC_STATE_SET, &fields, b"{", Err((error, "cannot be read")));
    let body = br#"{"syncStateSet":[-1]}"#;
    check(request::CONTROLLER_ALTER_SYNC_STATE_SET, &fields, body, Err((error, "negative")));
    let fields = [("brokerName", "a"), ("brokerId", "-3"), ("brokerAddress", "h:1")];
    check(request::CONTROLLER_REGISTER_BROKER, &fields, b"", Err((error, "an id of 0 or more")));
    check(request::CONTROLLER_GET_SYNC_STATE_DATA, &[], b"", Err((error, "not set any response code")));
    let unsupported = (response::REQUEST_CODE_NOT_SUPPORTED, " request type 10 not supported");
    check(request::SEND_MESSAGE, &[], b"", Err(unsupported));
    let foreign = (response::CONTROLLER_INVALID_REQUEST, "belongs to the group group1, not group2");
    check(request::VOSTOK_CONTROLLER_MESSAGE, &[("group", "group2"), ("from", "1")], b"", Err(foreign));
}
