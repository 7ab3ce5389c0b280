use crate::remoting::{Port, needs_of_request};
use std::collections::BTreeMap;
use std::net::SocketAddr;

use auth::{Action, Actions, Permission};
use client::{Credentials, SignedRequest};
use net::Service;
use store::RealDisk;
use wire::codes::{request, response};
use wire::frame::{Command, Encoding, FrameWriter, Head};
use wire::seal::{SEAL, Seal};

use super::*;
use crate::clock::Clock;
use crate::config::Config;
use crate::disk_pool::Kind;
use crate::engine::Next;
use crate::gate::Verified;
use crate::testing::{ADDRESS, Fixture};

const AUTH: &[(&str, &str)] = &[
    ("authenticationEnabled", "true"),
    (
        "authenticationMetadataProvider",
        "org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider",
    ),
    ("initAuthenticationUser", r#"{"username":"root","password":"rootsecret"}"#),
];
const ACLS: &[(&str, &str)] = &[
    ("authorizationEnabled", "true"),
    (
        "authorizationMetadataProvider",
        "org.apache.rocketmq.auth.authorization.provider.LocalAuthorizationMetadataProvider",
    ),
];

fn set(config: &mut Config, settings: &[(&str, &str)]) {
    settings.iter().for_each(|(key, value)| assert!(config.auth.set(key, value), "{key}"));
}

/// A broker with users, on which requests come as frames.
struct Guarded {
    fixture: Fixture,
    clock: Clock,
}

type Fields<'a> = &'a [(&'a str, &'a str)];

impl Guarded {
    fn new(settings: &[&[(&str, &str)]]) -> Self {
        Self::with(settings, "")
    }

    /// Makes a fixture with a file of ACL 1.0.
    fn with(settings: &[&[(&str, &str)]], plain: &str) -> Self {
        Self::made(settings, plain, |_| {})
    }

    fn made(settings: &[&[(&str, &str)]], plain: &str, change: impl FnOnce(&mut Config)) -> Self {
        let (clock, directory) = (Clock::standing(1_000_000), tempfile::tempdir().unwrap());
        let conf = directory.path().join("config");
        std::fs::create_dir_all(&conf).unwrap();
        std::fs::write(conf.join("plain_acl.yml"), plain).unwrap();
        let fixture = Fixture::timed(Arc::new(RealDisk), clock.clone(), directory, |config| {
            settings.iter().for_each(|settings| set(config, settings));
            change(config);
        });
        crate::system_topics::create_system_topics(
            &fixture.broker.tables,
            &fixture.broker.delivery,
            &fixture.broker.runtime,
        )
        .unwrap();
        Self { fixture, clock }
    }

    /// Makes the user alice, with acls written as `Topic:a Pub,Sub`.
    fn with_alice(self, acls: &[&str]) -> Self {
        let auth = self.fixture.broker.sessions.gate.auth();
        let password = wire::body::UserInfo { password: Some("secret".into()), ..Default::default() };
        auth.create_user(&Subject::User("root".into()), "alice", &password).unwrap();
        self.allow(acls);
        self
    }

    fn allow(&self, acls: &[&str]) {
        let entry = |text: &&str| {
            let (resource, actions) = text.split_once(' ').unwrap();
            wire::body::PolicyEntryInfo {
                resource: Some(resource.to_owned()),
                actions: Some(actions.split(',').map(str::to_owned).collect()),
                decision: Some("Allow".to_owned()),
                source_ips: None,
            }
        };
        let auth = self.fixture.broker.sessions.gate.auth();
        if auth.acl("User:alice").unwrap().is_some() {
            auth.delete_acl("User:alice", "", "").unwrap();
        }
        if !acls.is_empty() {
            let policy =
                wire::body::PolicyInfo { entries: Some(acls.iter().map(entry).collect()), policy_type: None };
            let acl = wire::body::AclInfo { policies: Some(vec![policy]), subject: None };
            auth.change_acl("User:alice", &acl).unwrap();
        }
    }

    /// Delivers a frame. Returns the immediate response and all later output of its connection.
    fn come(&self, frame: &mut [u8], peer: &Arc<ConnectionHandle>) -> Vec<u8> {
        let dispatcher = Dispatcher::new(self.fixture.broker.clone(), Port::Own);
        let (mut batch, mut out) = (dispatcher.read_batch(), Vec::new());
        dispatcher.frame(&mut batch, peer, Command::decode(frame).unwrap(), &mut out);
        dispatcher.end(&mut batch, peer, &mut out);
        dispatcher.answered(&mut batch);
        for kind in [Kind::Requests, Kind::Operators] {
            // The pool's thread of this kind takes one job after the other.
            let (done, is_done) = std::sync::mpsc::channel();
            let place = self.fixture.broker.runtime.disk_pool.reserve(kind, 0).unwrap();
            place.run(move || done.send(()).unwrap());
            is_done.recv().unwrap();
        }
        self.fixture.broker.metadata_parts().settle();
        out.extend(peer.pushed());
        out
    }

    fn ask(&self, user: Option<(&str, &str)>, code: i32, fields: Fields<'_>, body: &[u8]) -> (i32, String) {
        answer(&mut self.come(&mut frame(user, code, fields, body), &peer()))
    }

    fn alice(&self, code: i32, fields: Fields<'_>, body: &[u8]) -> (i32, String) {
        self.ask(ALICE, code, fields, body)
    }
}

const ALICE: Option<(&str, &str)> = Some(("alice", "secret"));
const ROOT: Option<(&str, &str)> = Some(("root", "rootsecret"));

fn peer() -> Arc<ConnectionHandle> {
    Arc::new(ConnectionHandle::detached(1, ADDRESS))
}

fn frame(user: Option<(&str, &str)>, code: i32, fields: Fields<'_>, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let writer = FrameWriter::begin(&mut bytes, Head::request(Encoding::Json, code, 7));
    let write = |writer: FrameWriter<'_>| {
        fields.iter().fold(writer, |writer, (key, value)| writer.text(key, value)).finish(body);
    };
    match user {
        Some((name, secret)) => SignedRequest::new(&Credentials::new(name, secret), write).write(writer),
        None => write(writer),
    }
    bytes
}

fn answer(bytes: &mut [u8]) -> (i32, String) {
    let command = Command::decode(bytes).unwrap();
    (command.code, command.remark.unwrap_or_default().to_owned())
}

const SEND: Fields<'_> = &[
    ("a", "PG"),
    ("b", "T"),
    ("c", "TBW102"),
    ("d", "4"),
    ("e", "0"),
    ("f", "0"),
    ("g", "1700000000000"),
    ("h", "0"),
    ("j", "0"),
    ("k", "false"),
    ("m", "false"),
];

#[test]
fn who_is_not_a_user_gets_code_16_and_nothing_is_stored() {
    let guarded = Guarded::new(&[AUTH]).with_alice(&[]);
    guarded.fixture.queue("T", 0);
    let stored = || guarded.fixture.messages("T", 0).len();
    for (user, expected) in [
        (None, "username cannot be null."),
        (Some(("mallory", "secret")), "User:mallory is not found."),
        (Some(("alice", "wrong")), "check signature failed."),
    ] {
        // So that no answer waits.
        guarded.clock.set(guarded.fixture.broker.runtime.now_ms() + auth::WINDOW_MS);
        let refused = (response::NO_PERMISSION, expected.to_owned());
        assert_eq!(guarded.ask(user, request::SEND_MESSAGE_V2, SEND, b"Hello"), refused);
        for code in [request::GET_BROKER_CONFIG, request::QUERY_MESSAGE, request::AUTH_LIST_USER, 99_999] {
            assert_eq!(guarded.ask(user, code, &[], b""), refused, "{code}");
        }
    }
    assert_eq!(stored(), 0);
    assert_eq!(guarded.alice(request::SEND_MESSAGE_V2, SEND, b"Hello").0, response::SUCCESS);
    assert_eq!(stored(), 1);
    assert_eq!(guarded.alice(99_999, &[], b"").0, response::REQUEST_CODE_NOT_SUPPORTED);
}

#[test]
fn a_byte_that_changes_on_the_way_is_refused() {
    let guarded = Guarded::new(&[AUTH]).with_alice(&[]);
    let mut bytes = frame(ALICE, request::SEND_MESSAGE_V2, SEND, b"Hello");
    *bytes.last_mut().unwrap() = b'a';
    let refused = (response::NO_PERMISSION, "check signature failed.".to_owned());
    assert_eq!(answer(&mut guarded.come(&mut bytes, &peer())), refused);
}

#[test]
fn white_lists_let_requests_in_without_a_user() {
    let white: &[(&str, &str)] = &[("authenticationWhitelist", "26"), ("authorizationWhitelist", "215")];
    let guarded = Guarded::new(&[AUTH, ACLS, white]).with_alice(&[]);
    assert_eq!(guarded.ask(None, request::GET_BROKER_CONFIG, &[], b"").0, response::SUCCESS);
    assert_eq!(guarded.ask(None, request::GET_BROKER_RUNTIME_INFO, &[], b"").0, response::NO_PERMISSION);
    assert_eq!(guarded.alice(request::DELETE_TOPIC_IN_BROKER, &[("topic", "T")], b"").0, response::SUCCESS);
}

fn owned((one, other): (&str, &str)) -> (String, String) {
    (one.to_owned(), other.to_owned())
}

/// Returns the fields that name resources in all rows of the route table, and a body for the rows that read a body.
fn sample(code: i32) -> (Vec<(&'static str, &'static str)>, &'static [u8]) {
    let body: &[u8] = match code {
        request::HEART_BEAT => {
            br#"{"clientID":"c","consumerDataSet":[{"groupName":"g","subscriptionDataSet":[{"topic":"t"},{"topic":"%RETRY%g"}]}],"producerDataSet":[{"groupName":"p"}]}"#
        }
        request::LOCK_BATCH_MQ | request::UNLOCK_BATCH_MQ => {
            br#"{"clientId":"c","consumerGroup":"g","mqSet":[{"topic":"t","brokerName":"b","queueId":0}]}"#
        }
        request::QUERY_ASSIGNMENT => br#"{"clientId":"c","consumerGroup":"g","topic":"t"}"#,
        request::BATCH_ACK_MESSAGE => br#"{"acks":[{"c":"g","t":"t"},{"c":"g","t":"t"}],"brokerName":"b"}"#,
        request::LITE_SUBSCRIPTION_CTL => {
            br#"{"subscriptionSet":[{"action":"PARTIAL_ADD","clientId":"c","group":"g","topic":"t"}]}"#
        }
        request::UPDATE_AND_CREATE_TOPIC_LIST => br#"{"topicConfigList":[{"topicName":"t"}]}"#,
        request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP => br#"{"groupName":"g"}"#,
        request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST => br#"{"groupConfigList":[{"groupName":"g"}]}"#,
        _ => b"",
    };
    let names = [
        ("topic", "t"),
        ("parentTopic", "t"),
        ("b", "t"),
        ("topicList", "t;t"),
        ("consumerGroup", "g"),
        ("group", "g"),
        ("groupName", "g"),
        ("destGroup", "g"),
        ("filterGroups", "g,g"),
        ("compareGroup", "g"),
    ];
    (names.to_vec(), body)
}

/// Each row of the table with exactly the grants that its needs name, and with each of them missing.
#[test]
fn every_request_needs_its_grants_and_no_more() {
    let strict: &[(&str, &str)] = &[("authorizationStrict", "true")];
    let guarded = Guarded::new(&[AUTH, ACLS, strict]).with_alice(&[]);
    let lax = Guarded::new(&[AUTH, ACLS]).with_alice(&[]);
    let is_refused = |guarded: &Guarded, code: i32| {
        let (fields, body) = sample(code);
        let mut bytes = frame(ALICE, code, &fields, body);
        let command = Command::decode(&mut bytes).unwrap();
        let mut out = Vec::new();
        let dispatcher = Dispatcher::new(guarded.fixture.broker.clone(), Port::Own);
        let refused = dispatcher.admit(&peer(), &RequestFrame::new(command), &mut out).is_none();
        assert!(!refused || answer(&mut out).0 == response::NO_PERMISSION, "{code}");
        refused
    };
    for route in &super::super::request_table::ROUTES {
        let (code, needs) = (route.code, &route.needs);
        let (fields, body) = sample(code);
        let mut bytes = frame(None, code, &fields, body);
        let command = Command::decode(&mut bytes).unwrap();
        let needed = needs_of_request(&command, "DefaultCluster", true).unwrap();
        let grants: BTreeMap<String, String> =
            needed.iter().filter_map(|need| need.to_string().rsplit_once(' ').map(owned)).collect();
        assert!(!grants.is_empty(), "{code} needs something");
        for action in needs.actions.iter() {
            let all: Vec<_> = grants.keys().map(|resource| format!("{resource} {action}")).collect();
            let texts: Vec<&str> = all.iter().map(String::as_str).collect();
            guarded.allow(&texts);
            assert!(!is_refused(&guarded, code), "{code} with {texts:?}");
            for missing in 0..texts.len() {
                let mut fewer = texts.clone();
                fewer.remove(missing);
                guarded.allow(&fewer);
                assert!(is_refused(&guarded, code), "{code} with {fewer:?} only");
            }
        }
        assert_eq!(is_refused(&lax, code), !needs.only_if_strict, "{code} without authorizationStrict");
    }
    guarded.allow(&["Cluster:* Get"]);
    assert!(is_refused(&guarded, 99_999), "a code without a row needs to update the cluster");
    assert!(!is_refused(&lax, 99_999));
}

/// Compares the table with RocketMQ's rules for a sample of rows.
#[test]
fn what_requests_need_is_what_rocketmq_asks_for() {
    let check = |code: i32, fields: Fields<'_>, expected: &str| {
        let (_, body) = sample(code);
        let mut bytes = frame(None, code, fields, body);
        let command = Command::decode(&mut bytes).unwrap();
        let needed = needs_of_request(&command, "C", false).unwrap();
        let texts: Vec<_> = needed.iter().map(ToString::to_string).collect();
        assert_eq!(texts.join("; "), expected, "{code}");
    };
    check(request::SEND_MESSAGE, &[("topic", "t"), ("b", "other")], "Topic:t Pub");
    check(request::SEND_MESSAGE_V2, &[("b", "t"), ("topic", "other")], "Topic:t Pub");
    check(request::SEND_BATCH_MESSAGE, &[("b", "t")], "Topic:t Pub");
    check(request::SEND_MESSAGE_V2, &[("b", "%RETRY%g")], "Group:g Sub");
    check(request::SEND_MESSAGE_V2, &[("b", "mine"), ("b", "other")], "Topic:other Pub");
    check(request::SEND_REPLY_MESSAGE_V2, &[("b", "t")], "");
    check(request::PULL_MESSAGE, &[("topic", "t"), ("consumerGroup", "g")], "Topic:t Sub; Group:g Sub");
    check(request::PULL_MESSAGE, &[("topic", "%RETRY%x"), ("consumerGroup", "g")], "Group:g Sub");
    check(
        request::UPDATE_CONSUMER_OFFSET,
        &[("topic", "t"), ("consumerGroup", "g")],
        "Topic:t Sub,Update; Group:g Sub,Update",
    );
    check(request::HEART_BEAT, &[("x", "y")], "Group:g Sub; Topic:t Sub");
    check(request::END_TRANSACTION, &[("topic", "")], "");
    check(request::UNREGISTER_CLIENT, &[("producerGroup", "p")], "");
    check(
        request::GET_CONSUME_STATS,
        &[("consumerGroup", "g"), ("topicList", "a;b")],
        "Group:g Get; Topic:a Get; Topic:b Get",
    );
    check(request::POP_MESSAGE, &[("topic", "%RETRY%g"), ("consumerGroup", "g")], "Group:g Sub; Group:g Sub");
    check(request::AUTH_CREATE_USER, &[("username", "u")], "Cluster:C Update");
    check(request::AUTH_CREATE_USER, &[], "");
    check(request::UPDATE_BROKER_CONFIG, &[("x", "y")], "");
}

const STRICT: &[(&str, &str)] = &[("authorizationStrict", "true")];

#[test]
fn strictly_the_retry_topic_of_another_group_is_that_group() {
    let check = |code: i32, fields: Fields<'_>, body: &str, expected: &str| {
        let mut bytes = frame(None, code, fields, body.as_bytes());
        let command = Command::decode(&mut bytes).unwrap();
        let needed = needs_of_request(&command, "C", true).unwrap();
        let texts: Vec<_> = needed.iter().map(ToString::to_string).collect();
        assert_eq!(texts.join("; "), expected, "{code}");
    };
    let other = [("topic", "%RETRY%other"), ("consumerGroup", "g")];
    check(request::PULL_MESSAGE, &other, "", "Group:other Sub; Group:g Sub");
    check(request::QUERY_CONSUMER_OFFSET, &other, "", "Group:other Sub,Get; Group:g Sub,Get");
    let body = r#"{"consumerGroup":"g","mqSet":[{"topic":"%RETRY%other","brokerName":"b","queueId":0}]}"#;
    check(request::LOCK_BATCH_MQ, &[], body, "Group:g Sub; Group:other Sub");
    let body = r#"{"consumerDataSet":[{"groupName":"g","subscriptionDataSet":[{"topic":"%RETRY%other"}]}]}"#;
    check(request::HEART_BEAT, &[], body, "Group:g Sub; Group:other Sub");
}

#[test]
fn strictly_a_message_named_by_its_place_needs_its_own_topic() {
    for (settings, is_strict) in [(vec![AUTH, ACLS, STRICT], true), (vec![AUTH, ACLS], false)] {
        let guarded = Guarded::new(&settings).with_alice(&["Topic:mine All", "Group:g Sub"]);
        let broker = &guarded.fixture.broker;
        broker.tables.groups.make("g", 1).unwrap();
        broker.tables.topics.put(broker.tables.retry_topic_missing("g", 1).unwrap(), 1).unwrap();
        let place = || broker.store.appended().to_i64().to_string();
        let message = place();
        guarded.fixture.put("secrets", 0, b"hidden", b"");
        let half = place();
        let properties = b"REAL_TOPIC\x01secrets\x02REAL_QID\x010\x02PGROUP\x01PG\x02";
        guarded.fixture.put("RMQ_SYS_TRANS_HALF_TOPIC", 0, b"hidden", properties);
        let own = place();
        guarded.fixture.put("mine", 0, b"known", b"");
        let check = |code, fields: Fields<'_>, is_refused: bool| {
            let (answered, remark) = guarded.alice(code, fields, b"");
            let text = "User:alice has no permission to access Topic:secrets from 127.0.0.1";
            let found = (answered == response::NO_PERMISSION, remark.starts_with(text));
            assert_eq!(found, (is_refused, is_refused), "{code} {fields:?} {answered} {remark}");
        };
        let view = |at| [("offset", at), ("topic", "mine")];
        check(request::VIEW_MESSAGE_BY_ID, &view(&message), is_strict);
        check(request::VIEW_MESSAGE_BY_ID, &view(&message)[..1], is_strict);
        check(request::VIEW_MESSAGE_BY_ID, &view(&own)[..1], false);
        let back = |at| [("group", "g"), ("offset", at), ("delayLevel", "0"), ("originTopic", "mine")];
        check(request::CONSUMER_SEND_MSG_BACK, &back(&message), is_strict);
        check(request::CONSUMER_SEND_MSG_BACK, &back(&own), false);
        let end = [
            ("producerGroup", "PG"),
            ("tranStateTableOffset", "0"),
            ("commitLogOffset", half.as_str()),
            ("commitOrRollback", "12"),
        ];
        check(request::END_TRANSACTION, &end, is_strict);
        check(request::END_TRANSACTION, &[&end[..], &[("topic", "mine")]].concat(), is_strict);
    }
}

#[test]
fn strictly_the_topics_that_a_message_names_besides_its_own_need_permission_too() {
    let several = |config: &mut Config| config.store.multi_dispatch = true;
    let strict = Guarded::made(&[AUTH, ACLS, STRICT], "", several).with_alice(&["Topic:T Pub"]);
    let lax = Guarded::made(&[AUTH, ACLS], "", several).with_alice(&["Topic:T Pub"]);
    let send = |guarded: &Guarded, names: &str| {
        let properties = format!("INNER_MULTI_DISPATCH\u{1}{names}\u{2}");
        let fields = [SEND, &[("i", properties.as_str())]].concat();
        guarded.alice(request::SEND_MESSAGE_V2, &fields, b"Hello")
    };
    for guarded in [&strict, &lax] {
        guarded.fixture.queue("T", 0);
        guarded.fixture.queue("secret", 0);
        assert_eq!(send(guarded, "%LMQ%mine,T").0, response::SUCCESS);
    }
    let (code, text) = send(&strict, "%LMQ%mine,secret");
    assert!(code == response::NO_PERMISSION && text.contains("to access Topic:secret "), "{code} {text}");
    assert!(strict.fixture.messages("secret", 0).is_empty());
    assert_eq!(send(&lax, "secret").0, response::SUCCESS, "as RocketMQ");
    strict.allow(&["Topic:T Pub", "Topic:secret Pub"]);
    assert_eq!(send(&strict, "secret").0, response::SUCCESS);
}

#[test]
fn a_body_that_cannot_be_read_is_refused_before_it_is_served() {
    let guarded = Guarded::new(&[AUTH, ACLS]).with_alice(&["Group:* Sub"]);
    let refused = (response::NO_PERMISSION, "parse authorization context error.".to_owned());
    assert_eq!(guarded.alice(request::HEART_BEAT, &[], b"{"), refused);
    let log = std::fs::read_to_string(guarded.fixture.config_path("../logs/auth_audit.log")).unwrap();
    assert!(
        log.contains("[AUTHORIZATION] Subject = User:alice is Deny ")
            && log.contains(" for request = 34. ")
            && log.contains("rule = parse authorization context error."),
        "{log}"
    );
}

/// Requests that run on another thread or again keep their sender, although their frame is not the signed frame.
#[test]
fn the_caller_goes_with_a_request_that_is_kept() {
    let guarded =
        Guarded::new(&[AUTH, ACLS]).with_alice(&["Cluster:* Get,Update", "Topic:* All", "Group:* All"]);
    assert!(guarded.alice(request::AUTH_LIST_USER, &[("filter", "")], b"").0 == 0);
    let listed = |user| {
        let mut out =
            guarded.come(&mut frame(user, request::AUTH_LIST_USER, &[("filter", "alice")], b""), &peer());
        String::from_utf8(Command::decode(&mut out).unwrap().body.to_vec()).unwrap()
    };
    assert!(listed(ROOT).contains("secret"), "{}", listed(ROOT));
    assert!(!listed(ALICE).contains("secret"), "{}", listed(ALICE));
    let make = [("username", "eve")];
    let as_super = br#"{"password":"x","userType":"Super"}"#;
    let text = "The super user can only be create by super user";
    assert_eq!(guarded.alice(request::AUTH_CREATE_USER, &make, as_super), (1, text.to_owned()));
    assert_eq!(guarded.ask(ROOT, request::AUTH_CREATE_USER, &make, as_super).0, 0);
    // The topic does not exist yet, so that the send waits for the metadata writer and is served again.
    assert_eq!(guarded.alice(request::SEND_MESSAGE_V2, SEND, b"Hello").0, response::SUCCESS);
}

#[test]
fn passwords_are_hidden_from_requests_without_a_seal_where_the_setting_says_so() {
    let hidden: &[(&str, &str)] = &[("authenticationHidesPasswords", "true")];
    for (settings, shows_unsealed) in [(&[AUTH, ACLS][..], true), (&[AUTH, ACLS, hidden][..], false)] {
        let guarded = Guarded::new(settings).with_alice(&["Cluster:* Get"]);
        for code in [request::AUTH_GET_USER, request::AUTH_LIST_USER] {
            let fields = [("username", "alice"), ("filter", "alice")];
            let shows = |mut request: Vec<u8>| {
                let mut out = guarded.come(&mut request, &peer());
                let answer = Command::decode(&mut out).unwrap();
                assert_eq!(answer.code, response::SUCCESS, "{:?}", answer.remark);
                String::from_utf8_lossy(answer.body).contains("secret")
            };
            let sealed = |user: Option<(&str, &str)>| {
                let (name, secret) = user.unwrap();
                let write = |writer: FrameWriter<'_>| {
                    fields.iter().fold(writer, |writer, (key, value)| writer.text(key, value)).finish(b"");
                };
                let mut bytes = Vec::new();
                let writer = FrameWriter::begin(&mut bytes, Head::request(Encoding::Json, code, 7));
                SignedRequest::sealed(&Credentials::new(name, secret), code, "h:1", write).write(writer);
                let mut copy = bytes.clone();
                let seal = Command::decode(&mut copy).unwrap().fields.text(SEAL).unwrap().to_owned();
                guarded.clock.set(Seal::parse(&seal).unwrap().time_ms);
                bytes
            };
            assert_eq!(shows(frame(ROOT, code, &fields, b"")), shows_unsealed, "{code}");
            assert!(shows(sealed(ROOT)), "{code} {shows_unsealed}");
            assert!(!shows(sealed(ALICE)), "{code} {shows_unsealed}");
        }
    }
}

#[test]
fn a_change_counts_for_the_next_request() {
    let guarded = Guarded::new(&[AUTH, ACLS]).with_alice(&["Topic:T Pub"]);
    let send = || guarded.alice(request::SEND_MESSAGE_V2, SEND, b"Hello");
    assert_eq!(send().0, response::SUCCESS);
    guarded.allow(&["Topic:T Sub"]);
    let text = "User:alice has no permission to access Topic:T from 127.0.0.1, no matched policies.";
    assert_eq!(send(), (response::NO_PERMISSION, text.to_owned()));
    let disable = br#"{"userStatus":"disable"}"#;
    assert_eq!(guarded.ask(ROOT, request::AUTH_UPDATE_USER, &[("username", "alice")], disable).0, 0);
    assert_eq!(send(), (response::NO_PERMISSION, "User:alice is disabled.".to_owned()));
}

#[test]
fn an_address_that_fails_often_is_answered_later_and_then_not_at_all() {
    let guarded = Guarded::new(&[AUTH]).with_alice(&[]);
    let (broker, peer) = (&guarded.fixture.broker, peer());
    let wrong =
        || guarded.come(&mut frame(Some(("alice", "x")), request::GET_BROKER_CONFIG, &[], b""), &peer);
    for _ in 0..auth::FREE_FAILURES {
        assert!(!wrong().is_empty());
    }
    assert!(wrong().is_empty(), "the answer waits");
    assert_eq!(broker.sessions.gate.delays.due(1_000_999), Next::At(1_001_000));
    assert!(peer.pushed().is_empty());
    assert_eq!(broker.sessions.gate.delays.due(1_001_000), Next::Woken);
    assert_eq!(answer(&mut peer.pushed()).0, response::NO_PERMISSION);
    for _ in 0..100 {
        assert!(wrong().is_empty());
    }
    assert!(peer.is_closing(), "too many answers wait");
    guarded.clock.set(1_000_000 + auth::WINDOW_MS * 3);
    assert!(!wrong().is_empty());
}

/// An attacker who guesses on new connections learns of a right guess no sooner than of a wrong guess.
#[test]
fn guesses_on_new_connections_are_answered_one_a_second_whether_right_or_wrong() {
    let guarded = Guarded::new(&[AUTH]).with_alice(&[]);
    let broker = &guarded.fixture.broker;
    let config = |user, peer: &_| guarded.come(&mut frame(user, request::GET_BROKER_CONFIG, &[], b""), peer);
    let earlier = peer();
    assert_eq!(answer(&mut config(ALICE, &earlier)).0, 0);
    for _ in 0..auth::FREE_FAILURES {
        assert_eq!(answer(&mut config(Some(("alice", "guess")), &peer())).0, response::NO_PERMISSION);
    }
    let [wrong, right] = [Some(("alice", "guess")), ALICE].map(|user| {
        let peer = peer();
        assert!(config(user, &peer).is_empty(), "the answer waits");
        peer
    });
    assert_eq!(answer(&mut config(ALICE, &earlier)).0, 0, "a connection of alice from before does not wait");
    assert_eq!(answer(&mut config(ROOT, &peer())).0, 0, "nor does a user whose name did not fail");
    assert_eq!(broker.sessions.gate.delays.due(1_001_000), Next::At(1_002_000));
    assert_eq!(answer(&mut wrong.pushed()).0, response::NO_PERMISSION);
    assert!(right.pushed().is_empty());
    broker.sessions.gate.delays.due(1_002_000);
    assert_eq!(answer(&mut right.pushed()).0, response::SYSTEM_BUSY);
    assert_eq!(answer(&mut config(ALICE, &right)).0, 0, "from now on this is a connection of alice");
    // Where too many wait, right and wrong guesses lose their connections alike.
    for user in [Some(("alice", "guess")), ALICE].into_iter().cycle().take(120) {
        config(user, &peer());
    }
    for user in [Some(("alice", "guess")), ALICE] {
        let peer = peer();
        assert!(config(user, &peer).is_empty() && peer.is_closing(), "{user:?}");
    }
}

#[test]
fn a_connection_of_a_user_is_not_one_for_guesses() {
    let guarded = Guarded::new(&[AUTH]).with_alice(&[]);
    let config = |user, peer: &_| guarded.come(&mut frame(user, request::GET_BROKER_CONFIG, &[], b""), peer);
    let of_root = peer();
    assert_eq!(answer(&mut config(ROOT, &of_root)).0, 0);
    for _ in 0..auth::FREE_FAILURES {
        config(Some(("alice", "guess")), &of_root);
    }
    assert!(config(ALICE, &of_root).is_empty(), "the right guess waits");
    let of_alice = peer();
    guarded.clock.set(1_000_000 + auth::WINDOW_MS * 3);
    assert_eq!(answer(&mut config(ALICE, &of_alice)).0, 0);
    // One more, because the first turn of a second is at once.
    for _ in 0..=auth::FREE_FAILURES {
        config(Some(("alice", "old-secret")), &of_alice);
    }
    assert!(config(ALICE, &of_alice).is_empty(), "who failed as the user of the connection waits, too");
}

const PLAIN: &str = "
accounts:
- accessKey: alice-key
  secretKey: alice-secret
  defaultTopicPerm: DENY
  topicPerms: [T=PUB]
- accessKey: admin-key
  secretKey: admin-secret
  admin: true
";

/// The former master forwards requests to the present master, which decides about the address of the client.
#[test]
fn a_forwarded_request_counts_as_one_of_the_address_that_a_broker_names() {
    let inner = |secret: &str| format!(r#"{{"accessKey":"inner","secretKey":"{secret}"}}"#);
    let (same, other) = (inner("inner-secret"), inner("guessed"));
    let guarded = |inner: &str| {
        Guarded::new(&[AUTH, ACLS, &[("innerClientAuthenticationCredentials", inner)]]).with_alice(&[])
    };
    let (master, stranger) = (guarded(&same), guarded(&other));
    let client: SocketAddr = "10.0.0.9:4711".parse().unwrap();
    let asked = |queue| frame(ALICE, request::GET_MAX_OFFSET, &[("topic", "T"), ("queueId", queue)], b"");
    // The answer of the master to a request with the remark that another broker makes for it, which is changed on its way.
    let refused_of = |mut bytes: Vec<u8>, from: &Guarded, change: &dyn Fn(String) -> String| {
        let command = Command::decode(&mut bytes).unwrap();
        let remark = change(forward::source::remark(&from.fixture.broker, &command, client));
        let mut forwarded = Vec::new();
        let head = Head::request(Encoding::Json, command.code, 7).remark(&remark);
        forward::copy(&command, FrameWriter::begin(&mut forwarded, head));
        answer(&mut master.come(&mut forwarded, &peer())).1
    };
    let refused = |from: &Guarded, change: &dyn Fn(String) -> String| refused_of(asked("0"), from, change);
    let of_client = "User:alice has no permission to access Topic:T from 10.0.0.9, no matched policies.";
    let of_broker = of_client.replace("10.0.0.9", &ADDRESS.ip().to_string());
    assert_eq!(refused(&master, &|remark| remark), of_client);
    assert_eq!(refused(&master, &|remark| remark + forward::AGAIN), of_client);
    assert_eq!(refused(&master, &|remark| remark.replace("10.0.0.9", "10.0.0.8")), of_broker);
    assert_eq!(refused(&master, &|remark| remark + "="), of_broker);
    assert_eq!(refused(&stranger, &|remark| remark), of_broker, "other credentials");
    assert_eq!(refused(&Guarded::new(&[AUTH]), &|remark| remark), of_broker, "no credentials");
    // The remark of one request says nothing about another one.
    let mut bytes = asked("0");
    let of_other =
        forward::source::remark(&master.fixture.broker, &Command::decode(&mut bytes).unwrap(), client);
    assert_eq!(refused_of(asked("0"), &master, &|_| of_other.clone()), of_client);
    assert_eq!(refused_of(asked("1"), &master, &|_| of_other.clone()), of_broker);
}

#[test]
fn acl_1_is_enforced_where_requests_arrive() {
    let guarded = Guarded::with(&[&[("aclEnable", "true")]], PLAIN);
    let (alice, admin) = (Some(("alice-key", "alice-secret")), Some(("admin-key", "admin-secret")));
    let check = |user, code, fields: Fields<'_>, expected: &str| {
        let (code, remark) = guarded.ask(user, code, fields, b"x");
        assert_eq!(if code == 0 { String::new() } else { format!("{code} {remark}") }, expected);
    };
    let mut other = SEND.to_vec();
    other[1] = ("b", "Other");
    let (topic, send) = ([("topic", "T")], request::SEND_MESSAGE_V2);
    check(None, send, SEND, "16 No accessKey is configured");
    check(Some(("nobody-key", "alice-secret")), send, SEND, "16 No acl config for nobody-key");
    check(
        Some(("alice-key", "wrong-secret")),
        send,
        SEND,
        "16 Check signature failed for accessKey=alice-key",
    );
    check(alice, send, SEND, "");
    check(alice, send, &other, "16 No default permission for topic:Other");
    check(
        alice,
        request::DELETE_TOPIC_IN_BROKER,
        &topic,
        "16 Need admin permission for request code=215, but accessKey=alice-key is not",
    );
    check(admin, request::DELETE_TOPIC_IN_BROKER, &topic, "");
}

#[test]
fn changed_rules_of_acl_1_count_within_five_seconds_and_broken_ones_do_not() {
    use crate::engine::Engine as _;
    let guarded = Guarded::with(&[&[("aclEnable", "true")]], PLAIN);
    let path = guarded.fixture.config_path("plain_acl.yml");
    let mut rereading = crate::housekeeping::rereading(guarded.fixture.broker.housekeeping_parts());
    let bob = || guarded.ask(Some(("bob-key-1", "bob-secret")), request::GET_BROKER_CONFIG, &[], b"").0;
    assert_eq!(rereading.round(0), Next::At(5000));
    std::fs::write(&path, "accounts: [{accessKey: bob-key-1, secretKey: bob-secret}]").unwrap();
    assert_eq!(bob(), response::NO_PERMISSION);
    rereading.round(5000);
    assert_eq!(bob(), response::SUCCESS);
    std::fs::write(&path, "accounts: [").unwrap();
    rereading.round(10_000);
    assert_eq!(bob(), response::SUCCESS);
}

#[test]
fn acl_1_demands_what_4_9_8_does_of_its_requests_and_a_signature_of_all_others() {
    let of_kind = |is_of_kind: &dyn Fn(Plain) -> bool| {
        let rows = super::super::request_table::ROUTES.iter().filter(|route| is_of_kind(route.plain));
        rows.map(|route| route.code).collect::<Vec<_>>()
    };
    let administration = [
        17, 18, 25, 50, 51, 52, 53, 200, 207, 215, 225, 3001, 3002, 3003, 3004, 3005, 3006, 3007, 3008, 3009,
        3010,
    ];
    assert_eq!(of_kind(&|plain| matches!(plain, Plain::Administrator)), administration);
    let is_checked = |plain| !matches!(plain, Plain::Administrator | Plain::Signature);
    assert_eq!(of_kind(&is_checked), [10, 11, 12, 15, 34, 35, 36, 38, 310]);
}

#[test]
fn a_heartbeat_is_parsed_once_for_its_needs_and_its_handler() {
    let guarded = Guarded::new(&[AUTH, ACLS]).with_alice(&["Group:g Sub", "Topic:t Sub"]);
    let plain = Guarded::with(
        &[&[("aclEnable", "true")]],
        "accounts: [{accessKey: alice-key, secretKey: secret-of-alice, admin: true}]",
    );
    let (_, body) = sample(request::HEART_BEAT);
    let parses = || super::super::incoming::PARSES.get();
    for (guarded, user) in [(&guarded, ALICE), (&plain, Some(("alice-key", "secret-of-alice")))] {
        let broker = &guarded.fixture.broker;
        broker.tables.groups.make("g", 1).unwrap();
        broker.tables.topics.put(broker.tables.retry_topic_missing("g", 1).unwrap(), 1).unwrap();
        let before = parses();
        let (code, remark) = guarded.ask(user, request::HEART_BEAT, &[("x", "y")], body);
        assert_eq!((code, remark.as_str(), parses() - before), (response::SUCCESS, "", 1));
    }
}

#[test]
fn the_audit_log_names_who_was_refused_and_no_secret() {
    let guarded = Guarded::new(&[AUTH, ACLS]).with_alice(&[]);
    guarded.ask(Some(("mallory", "guess")), request::SEND_MESSAGE_V2, SEND, b"");
    guarded.alice(request::SEND_MESSAGE_V2, SEND, b"Hello");
    let log = std::fs::read_to_string(guarded.fixture.config_path("../logs/auth_audit.log")).unwrap();
    let lines: Vec<_> = log.lines().collect();
    assert_eq!(lines.len(), 2, "{log}");
    assert!(lines[0].contains("[AUTHENTICATION] User:mallory is authenticated failed with Signature = ***."));
    assert!(lines[1].contains(
        "[AUTHORIZATION] Subject = User:alice is Deny Action = Pub from sourceIp = 127.0.0.1 on resource = Topic:T for request = 310."
    ));
}

#[test]
fn a_refusal_has_one_audit_line_about_the_resource_that_decided() {
    let guarded = Guarded::new(&[AUTH, ACLS]).with_alice(&["Topic:a Sub"]);
    let sub = |name| Permission::new(auth::Resource::topic(name), Actions::of(&[Action::Sub]));
    let ask = |user: &str| {
        let request = (&Subject::User(user.into()), Request::Code(11));
        let auth = guarded.fixture.broker.sessions.gate.auth();
        let needs = || Ok(["a", "b", "c"].map(sub).to_vec());
        auth.authorize(0, request, Origin::new(ADDRESS, 1), needs).unwrap_err();
        let path = guarded.fixture.config_path("../logs/auth_audit.log");
        let log = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, "").unwrap();
        let resource = |line: &str| line.split(" resource = ").nth(1)?.split(' ').next().map(str::to_owned);
        log.lines().filter_map(resource).collect::<Vec<_>>()
    };
    assert_eq!(ask("alice"), ["Topic:b"]);
    // Nobody of this name may do anything, so the first resource decides.
    assert_eq!(ask("mallory"), ["Topic:a"]);
}

#[test]
fn every_action_of_the_table_can_be_granted() {
    let all = super::super::request_table::ROUTES.iter().flat_map(|route| route.needs.actions.iter());
    assert!(all.into_iter().all(|action| action != Action::All));
}

#[test]
fn a_name_of_a_mebibyte_ends_the_connection_without_an_answer() {
    let guarded = Guarded::new(&[AUTH]);
    let peer = peer();
    let name = "x".repeat(1 << 20);
    let mut bytes = frame(Some((&name, "secret")), request::SEND_MESSAGE_V2, SEND, b"Hello");
    assert!(guarded.come(&mut bytes, &peer).is_empty());
    assert!(peer.is_closing());
    // A name that is too long for a user, but not absurd, is one that nobody has.
    let name = "x".repeat(auth::USER_NAME_BYTES_MAX + 1);
    let (code, remark) = guarded.ask(Some((&name, "secret")), request::SEND_MESSAGE_V2, SEND, b"");
    assert_eq!(code, response::NO_PERMISSION);
    assert!(remark.ends_with(" is not found.") && remark.len() < 300, "{remark}");
}

#[test]
fn a_client_that_is_not_known_sends_no_longer_frame_than_a_message_needs() {
    let guarded = Guarded::new(&[AUTH]).with_alice(&[]);
    let opened = |guarded: &Guarded| {
        let (peer, mut out) = (peer(), Vec::new());
        let broker = guarded.fixture.broker.clone();
        Dispatcher::new(broker, Port::Own).opened(&peer, &mut out);
        peer
    };
    let peer = opened(&guarded);
    assert_eq!(peer.frame_bytes_max(), guarded.fixture.broker.runtime.config.max_message_size + (64 << 10));
    let come = |user| guarded.come(&mut frame(user, request::GET_BROKER_CONFIG, &[], b""), &peer);
    come(Some(("alice", "wrong")));
    assert!(peer.frame_bytes_max() < FRAME_BYTES_MAX, "a request that is refused makes nobody known");
    come(ALICE);
    assert_eq!(peer.frame_bytes_max(), FRAME_BYTES_MAX);
    assert_eq!(opened(&Guarded::new(&[])).frame_bytes_max(), FRAME_BYTES_MAX, "without authentication");
}

#[test]
fn requests_of_the_broker_itself_are_signed() {
    let inner =
        [("innerClientAuthenticationCredentials", r#"{"accessKey":"inner","secretKey":"innersecret"}"#)];
    let guarded = Guarded::new(&[AUTH, &inner]);
    let (broker, peer) = (&guarded.fixture.broker, peer());
    broker
        .sessions
        .send_one_way(&peer, request::BROKER_HEARTBEAT, |writer| writer.text("brokerName", "b").finish(b"x"))
        .unwrap();
    let mut told = peer.pushed();
    let command = Command::decode(&mut told).unwrap();
    assert!(command.is_one_way() && command.code == request::BROKER_HEARTBEAT);
    let origin = Origin { address: ADDRESS.ip(), connection: 1 };
    let verified =
        broker.sessions.gate.verify(1_000_000, &auth::Signable::from(&command), origin, peer.mark()).unwrap();
    assert!(matches!(verified, Verified::User(Subject::User(name)) if &*name == "inner"));
}

#[test]
fn what_is_explained_is_needed_by_every_row() {
    let named = crate::Named { topic: Some("t"), group: Some("g"), cluster: "DefaultCluster" };
    let sorted = |needs: Vec<Permission<'_>>| {
        let mut texts: Vec<_> = needs.iter().map(ToString::to_string).collect();
        texts.sort_unstable();
        texts.dedup();
        texts
    };
    for route in &super::super::request_table::ROUTES {
        let (fields, body) = sample(route.code);
        let mut bytes = frame(None, route.code, &fields, body);
        let command = Command::decode(&mut bytes).unwrap();
        for is_strict in [false, true] {
            let needed = needs_of_request(&command, named.cluster, is_strict).unwrap();
            let explained = crate::needs_of_code(route.code, named, is_strict);
            assert_eq!(sorted(explained), sorted(needed), "{} {is_strict}", route.code);
        }
    }
}
