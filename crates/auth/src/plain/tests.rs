use super::address::WhiteList;
use super::*;
use crate::error::Result;
use crate::names::{Action, Actions};
use crate::resource::{Permission, Resource};
use crate::testing::{Fixture, VECTOR, group, ip, topic, with_request};
use proptest::prelude::*;
use std::net::IpAddr;
use wire::frame::Encoding;
use wire::names::TRACE_TOPIC;

const FILE: &str = "# rules
globalWhiteRemoteAddresses:
- 10.10.103.*
- 192.168.0.*

accounts:
- accessKey: RocketMQ
  secretKey: 12345678
  whiteRemoteAddress:
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms:
  - topicA=DENY
  - topicB=PUB|SUB
  - topicC=SUB
  groupPerms:
  # the group should convert to retry topic
  - groupA=DENY
  - groupB=PUB|SUB
  - groupC=SUB

- accessKey: rocketmq2
  secretKey: \"12345678\"
  whiteRemoteAddress: 192.168.1.*
  # if it is admin, it could access all resources
  admin: true
";

fn open(fixture: &Fixture, text: &str) -> PlainAcl {
    std::fs::write(fixture.path("plain_acl.yml"), text).unwrap();
    PlainAcl::open(fixture.plain()).unwrap()
}

fn verify(acl: &PlainAcl, from: &str, fields: &[(&'static str, &str)]) -> Result<Option<String>, String> {
    with_request(Encoding::Json, fields, b"", |signed| acl.verify(&signed, ip(from)))
        .map(|it| it.access_key().map(str::to_owned))
        .map_err(|error| {
            assert_eq!(error.code(), 16);
            error.to_string()
        })
}

#[test]
fn white_lists_come_before_keys_and_keys_before_signatures() {
    let fixture = Fixture::new();
    let acl = open(&fixture, FILE);
    let check = |from: &str, fields: &[(&'static str, &str)], expected: Result<Option<&str>, &str>| {
        let found = verify(&acl, from, fields);
        let expected = expected.map(|name| name.map(str::to_owned)).map_err(str::to_owned);
        assert_eq!(found, expected, "{from} {fields:?}");
    };
    check("10.10.103.7", &[], Ok(None));
    check("::ffff:10.10.103.7", &[], Ok(None));
    check("10.0.0.1", &[], Err("No accessKey is configured"));
    check("10.0.0.1", &[("AccessKey", "other")], Err("No acl config for other"));
    check("192.168.1.9", &VECTOR[..2], Ok(None));
    check("10.0.0.1", &VECTOR[..2], Err("Check signature failed for accessKey=rocketmq2"));
    check("10.0.0.1", &VECTOR, Ok(Some("rocketmq2")));
    let added = [&VECTOR[..], &[("_UNIQUE_KEY_QUERY", "true")]].concat();
    check("10.0.0.1", &added, Ok(Some("rocketmq2")));
}

fn printable(decided: Result<()>) -> String {
    decided.map_or_else(|error| error.to_string(), |()| "served".to_owned())
}

fn decide(acl: &PlainAcl, name: &str, needed: &[Permission<'_>]) -> String {
    printable(acl.decide(&PlainSubject(acl.rules().accounts.get(name).cloned()), needed))
}

#[test]
fn permissions_decide_as_in_4_9_8() {
    let fixture = Fixture::new();
    let acl = open(&fixture, FILE);
    let check = |needed: Permission<'_>, expected: &str| {
        assert_eq!(decide(&acl, "RocketMQ", std::slice::from_ref(&needed)), expected, "{needed:?}");
    };
    let (publish, subscribe) = ([Action::Pub], [Action::Sub]);
    check(topic("topicB", &publish), "served");
    check(topic("topicC", &subscribe), "served");
    check(topic("topicC", &publish), "No default permission for topic:topicC");
    check(topic("topicA", &subscribe), "No default permission for topic:topicA");
    check(topic("other", &publish), "No default permission for topic:other");
    check(group("other", &subscribe), "served");
    check(group("groupA", &subscribe), "No default permission for group:groupA");
    check(topic("%RETRY%groupA", &subscribe), "No default permission for group:groupA");
    check(topic("%RETRY%groupC", &subscribe), "served");
    check(topic(TRACE_TOPIC, &publish), "served");
    check(topic(TRACE_TOPIC, &subscribe), &format!("No default permission for topic:{TRACE_TOPIC}"));
    let both = [topic("topicB", &publish), topic("topicA", &publish)];
    assert_eq!(decide(&acl, "RocketMQ", &both), "No default permission for topic:topicA");
    assert_eq!(decide(&acl, "nobody", &both), "served", "a caller on a white list");
}

#[test]
fn administration_is_for_administrators() {
    let fixture = Fixture::new();
    let acl = open(&fixture, FILE);
    let check = |acl: &PlainAcl, name: &str| {
        printable(acl.check_administrator(&PlainSubject(acl.rules().accounts.get(name).cloned()), 17))
    };
    let expected = "Need admin permission for request code=17, but accessKey=RocketMQ is not";
    assert_eq!(check(&acl, "RocketMQ"), expected);
    assert_eq!(check(&acl, "rocketmq2"), "served");
    assert_eq!(check(&acl, "nobody"), "served", "a caller on a white list");
    let text = "accounts:\n- {accessKey: rocketmq2, secretKey: 12345678, admin: yes, topicPerms: [a=PUB]}";
    let acl = open(&fixture, text);
    assert_eq!(check(&acl, "rocketmq2"), "served");
    let refused = "No default permission for topic:b";
    assert_eq!(decide(&acl, "rocketmq2", &[topic("b", &[Action::Pub])]), refused);
}

#[test]
fn every_text_but_four_is_deny() {
    for (text, expected) in [
        ("PUB", "Pub"),
        ("SUB", "Sub"),
        ("PUB|SUB", "Pub,Sub"),
        (" SUB|PUB ", "Pub,Sub"),
        ("DENY", ""),
        ("ANY", ""),
        ("pub", ""),
        ("", ""),
    ] {
        assert_eq!(files::permitted(text).to_string(), expected, "{text}");
    }
}

#[test]
fn addresses_are_read_in_all_forms() {
    let check = |text: &str, inside: &[&str], outside: &[&str]| {
        let addresses = WhiteList::parse(text).unwrap();
        inside.iter().for_each(|it| assert!(addresses.contain(ip(it)), "{text} {it}"));
        outside.iter().for_each(|it| assert!(!addresses.contain(ip(it)), "{text} {it}"));
    };
    check("", &[], &["1.2.3.4", "::1"]);
    check("*", &["1.2.3.4", "::1"], &[]);
    check("*.*.*.*", &["1.2.3.4"], &[]);
    check("1.2.3.4", &["1.2.3.4"], &["1.2.3.5", "::1"]);
    check("1.2.3.4,::1", &["1.2.3.4", "::1"], &["1.2.3.5"]);
    check("1.2.3.{4,5}", &["1.2.3.4", "1.2.3.5"], &["1.2.3.6"]);
    check("1.2.3.*", &["1.2.3.0", "1.2.3.255"], &["1.2.4.0"]);
    check("1.2.*.*", &["1.2.3.0"], &["1.3.3.0", "::1"]);
    check("1.2.1-10.*", &["1.2.10.7"], &["1.2.11.7", "1.2.0.7"]);
    check("1.2.3.1-100", &["1.2.3.100"], &["1.2.3.101"]);
    check("1.1-10.5.6", &["1.2.5.6"], &["1.2.5.7"]);
    check("5::7:6:1-20:*", &["5::7:6:1f:9"], &["5::7:6:21:9", "1.2.3.4"]);
    check("1:2:3:4:5:6:7:{8,A}", &["1:2:3:4:5:6:7:a"], &["1:2:3:4:5:6:7:b"]);
    for text in [
        "a",
        "1.2.3",
        "1.2.3.256",
        "1.2.3.9-1",
        "1.2.*",
        "1.2.3.{4",
        "1.2.3.{4,x}",
        "1.2.3.-4",
        "1:*",
        "::1::*",
        "1.2.3.0-300",
        "1.2.3.4}",
    ] {
        assert!(WhiteList::parse(text).is_err(), "{text}");
    }
}

#[test]
fn what_is_wrong_with_a_file_is_named_without_secrets() {
    let check = |text: &str, expected: &str| {
        let fixture = Fixture::new();
        std::fs::write(fixture.path("plain_acl.yml"), text).unwrap();
        let error = PlainAcl::open(fixture.plain()).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("plain_acl.yml"), "{text}: {error}");
        assert!(!error.contains("secret-x"), "{error}");
    };
    check("accounts: [", "");
    check("- a", "the document is not a mapping");
    check("accounts: a", "accounts is not a list");
    check("accounts: [a]", "an account is not a mapping");
    check("accounts: [{accessKey: RocketMQ}]", "length should longer than 6");
    check("accounts: [{accessKey: abc, secretKey: secret-x}]", "The accessKey=abc and secretKey=***");
    check("accounts: [{accessKey: RocketMQ, secretKey: [secret-x]}]", "secretKey is not a text");
    let account =
        |member: &str| format!("accounts: [{{accessKey: RocketMQ, secretKey: secret-x, {member}}}]");
    check(&account("topicPerms: a=PUB"), "topicPerms is not a list");
    check(&account("topicPerms: [a]"), "Parse resource permission failed for topic:a");
    check(&account("groupPerms: [a=b=c]"), "Parse resource permission failed for group:a=b=c");
    check(&account("whiteRemoteAddress: 1.2.3"), "netaddress is 1.2.3");
    check("globalWhiteRemoteAddresses: [1.2.3]", "netaddress is 1.2.3");
    check("a: &x [1]\nb: *x", "aliases are not accepted");
    check("a: 1\n---\nb: 2", "second document");
    check(&"[".repeat(100), "");
}

#[test]
fn several_files_are_one_set_of_rules() {
    let fixture = Fixture::new();
    std::fs::create_dir_all(fixture.path("acl/deep")).unwrap();
    let account = |name: &str| format!("accounts: [{{accessKey: {name}, secretKey: 12345678}}]");
    std::fs::write(fixture.path("acl/b.yaml"), account("account-b")).unwrap();
    std::fs::write(fixture.path("acl/deep/c.yml"), account("account-c")).unwrap();
    std::fs::write(fixture.path("acl/d.txt"), "[").unwrap();
    std::fs::write(fixture.path("acl/e.yml"), "").unwrap();
    let acl = open(&fixture, &account("account-b"));
    let rules = acl.rules();
    let mut names: Vec<_> = rules.accounts.keys().map(|it| it.to_string()).collect();
    names.sort();
    assert_eq!(names, ["account-b", "account-c"]);
    assert!(rules.accounts["account-b"].path.ends_with("acl/b.yaml"));
    assert_eq!(acl.versions().len(), 3);
}

#[test]
fn changes_count_with_the_next_look_and_broken_files_do_not() {
    let fixture = Fixture::new();
    let acl = PlainAcl::open(fixture.plain()).unwrap();
    let refused = Err("No acl config for rocketmq2".to_owned());
    assert_eq!(verify(&acl, "10.0.0.1", &VECTOR), refused);
    assert!(!acl.reload().unwrap());
    std::fs::write(fixture.path("plain_acl.yml"), FILE).unwrap();
    assert!(acl.reload().unwrap());
    assert!(verify(&acl, "10.0.0.1", &VECTOR).is_ok());
    std::fs::write(fixture.path("plain_acl.yml"), "accounts: [").unwrap();
    assert!(matches!(acl.reload(), Err(PlainError::Content { .. })));
    assert!(!acl.reload().unwrap(), "a broken file is reported once");
    assert!(verify(&acl, "10.0.0.1", &VECTOR).is_ok());
    std::fs::write(fixture.path("plain_acl.yml"), "").unwrap();
    assert!(acl.reload().unwrap());
    assert_eq!(verify(&acl, "10.0.0.1", &VECTOR), refused);
}

#[test]
fn requests_change_the_files_and_count_at_once() {
    let fixture = Fixture::new();
    let acl = open(&fixture, FILE);
    let account = PlainAccount {
        access_key: "newaccount".to_owned(),
        secret_key: "a \"secret\": \\ # \u{e9}\n\u{7}".to_owned(),
        topic_perms: Some(vec!["t=PUB".to_owned()]),
        ..PlainAccount::default()
    };
    acl.update_account(&account, 1_700_000_000_000).unwrap();
    let permitted = [topic("t", &[Action::Pub])];
    assert_eq!(decide(&acl, "newaccount", &permitted), "served");
    let version = PlainVersion { timestamp: 1_700_000_000_000, counter: 1 };
    assert_eq!(acl.versions(), [(fixture.path("plain_acl.yml"), version)]);
    let changed = PlainAccount {
        default_topic_perm: Some("SUB".to_owned()),
        topic_perms: Some(Vec::new()),
        admin: Some(true),
        ..account.clone()
    };
    acl.update_account(&changed, 5).unwrap();
    assert_eq!(acl.versions()[0].1.counter, 2);
    let changed_account = PlainSubject(acl.rules().accounts.get("newaccount").cloned());
    assert_eq!(acl.check_administrator(&changed_account, 17), Ok(()));
    acl.update_white_list(&["7.7.7.7".to_owned()], None, 6).unwrap();
    assert_eq!(verify(&acl, "7.7.7.7", &[]), Ok(None));
    assert_eq!(verify(&acl, "10.10.103.7", &[]), Err("No accessKey is configured".to_owned()));
    assert!(acl.delete_account("RocketMQ", 7).unwrap());
    assert!(!acl.delete_account("RocketMQ", 7).unwrap());
    // Whoever reads the files later finds the same rules.
    let acl = PlainAcl::open(fixture.plain()).unwrap();
    assert_eq!(acl.rules().accounts["newaccount"].written, changed);
    assert!(verify(&acl, "192.168.1.9", &VECTOR[..2]).is_ok());
    assert_eq!(acl.rules().accounts.len(), 2);
}

#[test]
fn requests_that_would_break_the_rules_change_nothing() {
    let fixture = Fixture::new();
    let acl = open(&fixture, FILE);
    let check = |result: Result<(), PlainError>, expected: &str| {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(std::fs::read_to_string(fixture.path("plain_acl.yml")).unwrap(), FILE);
    };
    let account = |secret: &str, address: &str| PlainAccount {
        access_key: "newaccount".to_owned(),
        secret_key: secret.to_owned(),
        white_remote_address: Some(address.to_owned()),
        ..PlainAccount::default()
    };
    check(acl.update_account(&account("short", ""), 1), "length should longer than 6");
    check(acl.update_account(&account("long-enough", "1.2"), 1), "netaddress is 1.2");
    check(acl.update_white_list(&["x".to_owned()], None, 1), "netaddress is x");
    let other = fixture.path("../elsewhere.yml");
    check(acl.update_white_list(&[], Some(&other), 1), "not one of the rules");
    assert!(!other.exists());
}

#[test]
fn a_file_that_became_something_else_is_not_replaced_by_a_request() {
    let fixture = Fixture::new();
    for (other, found) in [("- a list\n", "found a list"), ("a text\n", "found a text")] {
        let acl = open(&fixture, FILE);
        std::fs::write(fixture.path("plain_acl.yml"), other).unwrap();
        let account = PlainAccount {
            access_key: "newaccount".to_owned(),
            secret_key: "long-enough".to_owned(),
            ..PlainAccount::default()
        };
        let refusals = [
            acl.update_account(&account, 1),
            acl.delete_account("RocketMQ", 1).map(drop),
            acl.update_white_list(&[], None, 1),
        ];
        for refusal in refusals {
            let error = refusal.unwrap_err().to_string();
            assert!(
                error.contains("the document is not a mapping: expected") && error.contains(found),
                "{error}"
            );
            assert_eq!(std::fs::read_to_string(fixture.path("plain_acl.yml")).unwrap(), other);
        }
    }
}

#[test]
fn a_directory_named_like_a_file_is_passed_over() {
    let fixture = Fixture::new();
    std::fs::create_dir_all(fixture.path("acl/old.yml")).unwrap();
    assert!(verify(&open(&fixture, FILE), "10.0.0.1", &VECTOR).is_ok());
}

/// Every entry of `acl/` that must not be read: without the check, reading the FIFO never ends.
#[test]
fn entries_that_are_no_regular_files_are_passed_over_and_changes_go_on_counting() {
    let fixture = Fixture::new();
    let acl = fixture.path("acl");
    std::fs::create_dir_all(&acl).unwrap();
    let made = std::process::Command::new("mkfifo").arg(acl.join("a.yml")).status().unwrap();
    assert!(made.success());
    for (name, target) in [("b.yml", "/dev/zero"), ("c.yaml", "c.yaml")] {
        std::os::unix::fs::symlink(target, acl.join(name)).unwrap();
    }
    // As large as all files together may be, without taking space.
    std::fs::File::create(acl.join("d.yml")).unwrap().set_len(1 << 40).unwrap();
    std::fs::write(fixture.path("plain_acl.yml"), FILE).unwrap();
    let (done, outcome) = std::sync::mpsc::channel();
    let (main, files) = (fixture.path("plain_acl.yml"), fixture.plain());
    std::thread::spawn(move || {
        let acl = PlainAcl::open(files).unwrap();
        let found = |acl: &PlainAcl| acl.versions().len();
        let before = (found(&acl), acl.reload().unwrap());
        std::fs::write(&main, FILE.replace("rocketmq2", "another")).unwrap();
        let changed = acl.reload().unwrap();
        done.send((before, changed, acl.rules().accounts.contains_key("another"))).unwrap();
    });
    let outcome = outcome.recv_timeout(std::time::Duration::from_secs(120)).expect("reading ends");
    assert_eq!(outcome, ((1, false), true, true));
    // A link to a regular file counts, as Kubernetes mounts files.
    let target = fixture.path("elsewhere.yml");
    std::fs::write(&target, "accounts:\n- accessKey: linkeduser\n  secretKey: 12345678\n").unwrap();
    std::os::unix::fs::symlink(target, acl.join("e.yml")).unwrap();
    let rules = PlainAcl::open(fixture.plain()).unwrap();
    assert!(rules.rules().accounts.contains_key("linkeduser"));
}

#[test]
fn more_directories_than_are_looked_into_are_noticed() {
    let fixture = Fixture::new();
    let is_all = || fixture.plain().listed().unwrap().1;
    for (name, expected) in [("a", true), ("b", true), ("c", false)] {
        std::fs::create_dir_all(fixture.path("acl").join(name)).unwrap();
        assert_eq!(is_all(), expected, "{name}");
    }
}

fn nodes() -> impl Strategy<Value = Node> {
    let text = prop_oneof![
        "[a-z0-9_.]{0,6}",
        "\\PC{0,8}",
        "[\\x00-\\x7f\u{85}\u{2028}]{0,6}",
        "(null|~|true|- |: |#|\"|')"
    ];
    let leaf = text.prop_map(|text| Node::text(&text));
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Node::List),
            proptest::collection::btree_map("\\PC{0,6}", inner, 0..4)
                .prop_map(|members| Node::Map(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read(node in nodes()) {
        let root = Node::Map(vec![("root".to_owned(), node)]);
        prop_assert_eq!(Node::parse(&root.write()).map_err(|error| format!("{error} {}", root.write())), Ok(Some(root)));
    }

    #[test]
    fn no_file_panics(text in prop_oneof![
        "\\PC{0,80}",
        "(accounts|accessKey|secretKey|admin|topicPerms|globalWhiteRemoteAddresses|[:\\-\\[\\]{}&*!|>'\"%@`#?,=\n\t ]|RocketMQ|a=PUB|10\\.0\\.0\\.\\*){0,40}",
    ]) {
        let _ = PlainRules::parse(&[("f".into(), text.into_bytes())]);
    }

    #[test]
    fn a_damaged_file_does_not_panic(at in 0..FILE.len(), byte in any::<u8>(), until in 0..FILE.len()) {
        let mut text = FILE.as_bytes().to_vec();
        text[at] = byte;
        let _ = PlainRules::parse(&[("f".into(), text.clone())]);
        text.truncate(until);
        let _ = PlainRules::parse(&[("f".into(), text)]);
    }

    #[test]
    fn no_address_panics(text in "[0-9a-f.:*{},\\- ]{0,24}", caller in any::<u128>()) {
        if let Ok(addresses) = WhiteList::parse(&text) {
            addresses.contain(IpAddr::from(std::net::Ipv6Addr::from_bits(caller)));
        }
    }
}

#[test]
fn the_trace_topic_is_known_by_its_one_action() {
    let needed = Permission::new(Resource::topic(TRACE_TOPIC), Actions::of(&[Action::Pub]));
    let fixture = Fixture::new();
    let acl = open(&fixture, FILE);
    // The whole check is skipped, as in 4.9.8, also for what else the request needs.
    assert_eq!(decide(&acl, "RocketMQ", &[topic("topicA", &[Action::Pub]), needed]), "served");
}
