use std::collections::BTreeMap;
use std::sync::Arc;

use net::ConnectionHandle;
use store::RealDisk;
use wire::codes::{request, response};
use wire::frame::{Command, Encoding, Head};

use super::super::incoming::{ParsedHeartbeat, Request};
use crate::clock::Clock;
use crate::testing::{ADDRESS, CALLER, Fixture};

const FILE: &str = "globalWhiteRemoteAddresses: [10.1.1.1]
accounts:
- {accessKey: root-key, secretKey: rootsecret, admin: true}
- {accessKey: old-account, secretKey: old-secret, defaultTopicPerm: SUB}
";

/// A broker with ACL 1.0, whose clock stands.
fn guarded() -> Fixture {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(directory.path().join("config")).unwrap();
    std::fs::write(directory.path().join("config/plain_acl.yml"), FILE).unwrap();
    Fixture::timed(Arc::new(RealDisk), Clock::standing(1_000_000), directory, |config| {
        assert!(config.auth.set("aclEnable", "true"));
    })
}

fn file(fixture: &Fixture) -> String {
    let path = fixture.broker.sessions.gate.plain().unwrap().main_file().to_owned();
    std::fs::read_to_string(path).unwrap()
}

fn ask(fixture: &Fixture, code: i32, fields: &[(&str, &str)]) -> (i32, String) {
    let (code, remark, body) = fixture.ask(code, fields, b"");
    assert_eq!(body, b"", "none of these answers has a body");
    (code, remark)
}

/// The fields of the answer to request 52.
fn versions(fixture: &Fixture) -> BTreeMap<&'static str, String> {
    let mut frame = Vec::new();
    Head::request(Encoding::Json, request::GET_BROKER_CLUSTER_ACL_INFO, 1).write(&mut frame, b"");
    let command = Command::decode(&mut frame).unwrap();
    let peer = Arc::new(ConnectionHandle::detached(1, ADDRESS));
    let broker = &fixture.broker;
    let request = Request {
        broker,
        peer: &peer,
        command: &command,
        heartbeat: &ParsedHeartbeat::default(),
        caller: &CALLER,
        port: &crate::remoting::Port::Own,
        begin: std::time::Duration::ZERO,
        is_late: false,
    };
    super::versions(&request).unwrap().fields.into_iter().collect()
}

#[test]
fn requests_50_to_53_change_the_rules_as_in_4_9_8() {
    let fixture = guarded();
    let done = (response::SUCCESS, String::new());
    let account = [
        ("accessKey", "new-account"),
        ("secretKey", "new-secret"),
        ("admin", "false"),
        ("whiteRemoteAddress", ""),
        ("topicPerms", "orders=PUB|SUB,secrets=DENY"),
        ("groupPerms", "billing=SUB"),
    ];
    assert_eq!(ask(&fixture, request::UPDATE_AND_CREATE_ACL_CONFIG, &account), done);
    for line in ["\"new-account\"", "\"orders=PUB|SUB\"", "\"secrets=DENY\"", "\"billing=SUB\"", "counter: 1"]
    {
        assert!(file(&fixture).contains(line), "{line} is not in {}", file(&fixture));
    }
    // What an update does not name stays.
    let other = [("accessKey", "old-account"), ("secretKey", "other-secret"), ("defaultGroupPerm", "PUB")];
    assert_eq!(ask(&fixture, request::UPDATE_AND_CREATE_ACL_CONFIG, &other), done);
    for line in ["\"other-secret\"", "defaultTopicPerm: SUB", "defaultGroupPerm: \"PUB\"", "counter: 2"] {
        assert!(file(&fixture).contains(line), "{line} is not in {}", file(&fixture));
    }
    let white = [("globalWhiteAddrs", "10.2.2.2,10.3.3.*")];
    assert_eq!(ask(&fixture, request::UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, &white), done);
    assert!(file(&fixture).contains("\"10.3.3.*\"") && !file(&fixture).contains("10.1.1.1"));
    assert_eq!(ask(&fixture, request::DELETE_ACL_CONFIG, &[("accessKey", "old-account")]), done);
    assert!(!file(&fixture).contains("old-account"));
    let fields = versions(&fixture);
    assert_eq!(fields["version"], r#"{"counter":4,"timestamp":1000000}"#);
    assert!(fields["allAclFileVersion"].contains(r#"config/plain_acl.yml":{"counter":4,"#));
    assert_eq!(fields["brokerName"], fixture.broker.runtime.config.broker_name);
}

#[test]
fn requests_50_to_53_that_fail_have_the_codes_of_4_9_8_and_change_nothing() {
    let fixture = guarded();
    let check = |code, fields: &[(&str, &str)], expected: (i32, &str)| {
        let (answered, remark) = ask(&fixture, code, fields);
        assert!((answered, remark.contains(expected.1)) == (expected.0, true), "{code} {answered} {remark}");
        assert!(!remark.contains("abc123"), "{remark}");
        assert_eq!(file(&fixture), FILE);
    };
    let (update, white) = (request::UPDATE_AND_CREATE_ACL_CONFIG, request::UPDATE_GLOBAL_WHITE_ADDRS_CONFIG);
    let named = ("accessKey", "new-account");
    check(update, &[], (209, "length should longer than 6"));
    check(update, &[named, ("secretKey", "abc123")], (209, "length should longer than 6"));
    let bad = [named, ("secretKey", "long-enough"), ("topicPerms", "a=b=c")];
    check(update, &bad, (209, "Parse resource permission failed for topic:a=b=c"));
    let unknown = "The accesskey[new-account] corresponding to accessConfig has been deleted failed.";
    check(request::DELETE_ACL_CONFIG, &[named], (210, unknown));
    check(white, &[], (211, "The globalWhiteAddresses[null] has been updated failed."));
    check(white, &[("globalWhiteAddrs", "x")], (211, "netaddress is x"));
    let elsewhere = [("globalWhiteAddrs", "1.1.1.1"), ("aclFileFullPath", "/etc/passwd")];
    check(white, &elsewhere, (211, "the file is not one of the rules"));
}

#[test]
fn without_acl_1_requests_50_to_53_say_so() {
    let fixture = Fixture::new();
    for (code, expected) in [(50, 209), (51, 210), (52, response::SYSTEM_ERROR), (53, 211)] {
        let (answered, remark) = ask(&fixture, code, &[]);
        assert_eq!((answered, remark.contains("expected aclEnable=true")), (expected, true), "{remark}");
    }
}
