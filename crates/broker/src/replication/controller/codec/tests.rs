use replica::roster::{AlterSet, Election, Registration};
use wire::codes::response;
use wire::frame::{Command, Encoding, Head};

use super::*;

/// Fields of the request as a controller reads them, and its body.
fn sent(request: &Request) -> (i32, Vec<String>, String) {
    let mut frame = Vec::new();
    write(request, "C", 77, FrameWriter::begin(&mut frame, Head::request(Encoding::Json, code(request), 1)));
    let command = Command::decode(&mut frame).unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut fields: Vec<String> =
        command.fields.iter().map(|(key, value)| format!("{}={}", text(key), text(value))).collect();
    fields.sort();
    (command.code, fields, text(command.body))
}

fn check(request: &Request, code: i32, fields: &str, body: &str) {
    let fields = fields.split(' ').map(str::to_owned).collect();
    assert_eq!(sent(request), (code, fields, body.to_owned()));
}

#[test]
fn requests_have_the_fields_that_java_reads() {
    let (name, broker) = ("B".to_owned(), BrokerId::new(2));
    check(&Request::NextId(name.clone()), 1012, "brokerName=B clusterName=C", "");
    let (cluster, check_code) = ("C".to_owned(), "h:1;5".to_owned());
    let apply = Request::ApplyId { cluster, name: name.clone(), broker, check_code };
    check(&apply, 1013, "appliedBrokerId=2 brokerName=B clusterName=C registerCheckCode=h:1;5", "");
    let registration = Registration {
        name: name.clone(),
        broker,
        address: "h:1".to_owned(),
        may_have_lost: true,
        log_epoch: Some(Epoch::new(6)),
        log_end: Some(LogOffset::new(70)),
    };
    check(
        &Request::Register(registration),
        1003,
        "brokerAddress=h:1 brokerId=2 brokerName=B clusterName=C invokeTime=77 logEnd=70 logEpoch=6 mayHaveLost=true",
        "",
    );
    let election = Election { name: name.clone(), broker: Some(broker), is_designated: false };
    check(
        &Request::Elect(election),
        1002,
        "brokerId=2 brokerName=B clusterName=C designateElect=false invokeTime=77",
        "",
    );
    check(&Request::ReplicaInfo(name.clone()), 1004, "brokerName=B", "");
    let alter = AlterSet {
        name,
        master: broker,
        master_epoch: Epoch::new(3),
        members: [BrokerId::new(1), broker].into(),
        epoch: SetEpoch(4),
    };
    check(
        &Request::AlterSet(alter),
        1001,
        "brokerName=B invokeTime=77 masterBrokerId=2 masterEpoch=3",
        r#"{"syncStateSet":[1,2],"syncStateSetEpoch":4}"#,
    );
}

fn reply(code: i32, fields: &[(&str, &str)], body: &str) -> Response {
    let fields = fields.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Response { code, fields, body: body.as_bytes().to_vec(), ..Response::default() }
}

fn set(members: &[u64], epoch: u32) -> CommittedSet {
    CommittedSet { members: members.iter().copied().map(BrokerId::new).collect(), epoch: SetEpoch(epoch) }
}

#[test]
fn who_is_master_is_read_from_every_answer_that_says_so() {
    let fields =
        [("masterBrokerId", "1"), ("masterAddress", "h:1"), ("masterEpoch", "3"), ("syncStateSetEpoch", "5")];
    let elected = reply(
        response::CONTROLLER_MASTER_STILL_EXIST,
        &fields,
        r#"{"brokerMemberGroup":{"brokerAddrs":{1:"h:1"}},"syncStateSet":[1,2]}"#,
    );
    let election = Election { name: "B".to_owned(), broker: None, is_designated: false };
    let Content::Master(told) = answer(&Request::Elect(election), &elected).content else {
        panic!("no master")
    };
    assert_eq!(told.master, Some((BrokerId::FIRST, Some("h:1".to_owned()))));
    assert_eq!((told.epoch, told.in_sync), (Epoch::new(3), set(&[1, 2], 5)));

    // The epoch of the set may be in the body alone, and there may be no master.
    let info = reply(0, &[("masterEpoch", "4")], r#"{"syncStateSet":[2],"syncStateSetEpoch":6}"#);
    let Content::Master(told) = answer(&Request::ReplicaInfo("B".to_owned()), &info).content else {
        panic!("no answer")
    };
    assert_eq!((told.master, told.epoch, told.in_sync), (None, Epoch::new(4), set(&[2], 6)));
}

#[test]
fn an_answer_without_a_set_is_no_empty_set() {
    let alter = Request::AlterSet(AlterSet {
        name: "B".to_owned(),
        master: BrokerId::FIRST,
        master_epoch: Epoch::new(1),
        members: [BrokerId::FIRST].into(),
        epoch: SetEpoch(1),
    });
    for body in ["", "{}", "[", r#"{"syncStateSet":[]}"#] {
        assert_eq!(answer(&alter, &reply(0, &[], body)).content, Content::None, "{body}");
    }
    let committed =
        reply(0, &[("newSyncStateSetEpoch", "2")], r#"{"syncStateSet":[1],"syncStateSetEpoch":2}"#);
    assert_eq!(answer(&alter, &committed).content, Content::Set(set(&[1], 2)));
}
