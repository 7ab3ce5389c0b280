use replica::in_sync::SetEpoch;
use wire::codes::response;
use wire::frame::{Command, Encoding};
use wire::ha::{BrokerId, Epoch};

use super::*;

/// The fields and the body of the answer to a request for the set `a`.
fn check(code: i32, content: Content, fields: &str, body: &str) {
    let asked = Echo { code, cluster: "c".to_owned(), name: "a".to_owned() };
    let answer = ControllerResponse { code: response::SUCCESS, remark: None, content };
    let mut bytes = Vec::new();
    write(&mut bytes, Head::response(Encoding::Json, answer.code, 7), &asked, &answer);
    expect(&mut bytes, fields, body);
}

fn expect(bytes: &mut [u8], fields: &str, body: &str) {
    let command = Command::decode(bytes).unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let found: Vec<String> =
        command.fields.iter().map(|(key, value)| format!("{}={}", text(key), text(value))).collect();
    assert_eq!(found.join(" "), fields);
    assert_eq!(text(command.body), body);
}

fn mastership(master: Option<u64>) -> Mastership {
    let members = [(1, "h1"), (2, "h2")].map(|(id, address)| (BrokerId::new(id), address.to_owned()));
    Mastership {
        master: master.map(|id| (BrokerId::new(id), Some(format!("h{id}")))),
        epoch: Epoch::new(3),
        in_sync: set(),
        members: members.into(),
    }
}

fn set() -> CommittedSet {
    CommittedSet { members: [1, 2].map(BrokerId::new).into(), epoch: SetEpoch(5) }
}

const SET: &str = r#"{"syncStateSet":[1,2],"syncStateSetEpoch":5}"#;

#[test]
fn answers_have_the_fields_and_bodies_of_java() {
    let told = |master| Content::Master(mastership(master));
    check(
        request::CONTROLLER_GET_NEXT_BROKER_ID,
        Content::NextId(BrokerId::new(3)),
        "clusterName=c brokerName=a nextBrokerId=3",
        "",
    );
    check(request::CONTROLLER_APPLY_BROKER_ID, Content::None, "clusterName=c brokerName=a", "");
    check(
        request::CONTROLLER_REGISTER_BROKER,
        told(Some(1)),
        "clusterName=c brokerName=a masterBrokerId=1 masterAddress=h1 masterEpoch=3 syncStateSetEpoch=5",
        SET,
    );
    check(
        request::CONTROLLER_REGISTER_BROKER,
        told(None),
        "clusterName=c brokerName=a masterEpoch=3 syncStateSetEpoch=5",
        SET,
    );
    check(
        request::CONTROLLER_GET_REPLICA_INFO,
        told(Some(2)),
        "masterBrokerId=2 masterAddress=h2 masterEpoch=3",
        SET,
    );
    check(
        request::CONTROLLER_ELECT_MASTER,
        told(Some(1)),
        "masterBrokerId=1 masterAddress=h1 masterEpoch=3 syncStateSetEpoch=5",
        r#"{"brokerMemberGroup":{"brokerAddrs":{"1":"h1","2":"h2"},"brokerName":"a","cluster":"c"},"syncStateSet":[1,2]}"#,
    );
    check(request::CONTROLLER_ALTER_SYNC_STATE_SET, Content::Set(set()), "newSyncStateSetEpoch=5", SET);
    check(request::CLEAN_BROKER_DATA, Content::None, "", "");
}

#[test]
fn operators_are_told_who_is_in_sync() {
    let status = |id, is_in_sync| ReplicaStatus {
        broker: BrokerId::new(id),
        address: format!("h{id}"),
        is_alive: is_in_sync,
        silent_ms: (!is_in_sync).then_some(12_000),
        is_in_sync,
    };
    let brokers = vec![status(1, true), status(2, false)];
    let sets = BTreeMap::from([("a".to_owned(), (mastership(Some(1)), brokers))]);
    check(
        request::CONTROLLER_GET_SYNC_STATE_DATA,
        Content::Replicas(sets),
        "",
        r#"{"replicasInfoTable":{"a":{"inSyncReplicas":[{"alive":true,"brokerAddress":"h1","brokerId":1,"brokerName":"a"}],"masterAddress":"h1","masterBrokerId":1,"masterEpoch":3,"notInSyncReplicas":[{"alive":false,"brokerAddress":"h2","brokerId":2,"brokerName":"a","silentMs":12000}],"syncStateSetEpoch":5}}}"#,
    );
}

#[test]
fn brokers_are_told_of_a_new_master() {
    let mut bytes = Vec::new();
    let head = Head::one_way(Encoding::Json, request::NOTIFY_BROKER_ROLE_CHANGED, 1);
    write_notice(&mut bytes, head, &mastership(Some(2)));
    expect(&mut bytes, "masterBrokerId=2 masterAddress=h2 masterEpoch=3 syncStateSetEpoch=5", SET);
}
