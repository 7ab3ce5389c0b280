use net::ConnectionHandle;
use std::collections::BTreeSet;
use std::net::SocketAddr;

use wire::body::{ConsumerListByGroup, HeartbeatData, SubscriptionGroupConfig};
use wire::frame::{Command, Encoding, frame_length};
use wire::json;

use super::*;
use crate::Result;
use crate::groups::Groups;
use crate::remoting::Answer;
use crate::testing::settled;

/// Clients of a broker, with connections that record their notices.
struct Fixture {
    folder: tempfile::TempDir,
    clients: Clients,
    groups: Groups,
    auto_create: bool,
    now_ms: i64,
    retry_topics: Vec<(String, i32)>,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let groups =
            Groups::load(crate::testing::real_files(folder.path()).file("subscriptionGroup.json")).unwrap();
        let clients = Clients::default();
        Self { folder, clients, groups, auto_create: true, now_ms: 1_000_000, retry_topics: Vec::new() }
    }

    fn context(&self) -> RequestContext<'_> {
        RequestContext {
            clients: &self.clients,
            groups: &self.groups,
            auto_create_groups: self.auto_create,
            notify: true,
        }
    }

    /// Sends a heartbeat with this JSON; returns `IS_SUB_CHANGE`.
    fn heartbeat(&mut self, body: &str, peer: &Arc<ConnectionHandle>) -> Result<bool> {
        let mut retry_topics = Vec::new();
        let mut is_sub_change = false;
        let served = settled(&self.groups, self.now_ms, || {
            retry_topics.clear();
            let data: HeartbeatData = json::from_slice(body.as_bytes())?;
            let member = Member {
                client_id: data.client_id.clone(),
                language: Some(Language::Rust),
                version: wire::codes::VERSION,
                link: crate::remoting::link(peer),
                seen_ms: self.now_ms,
            };
            is_sub_change = heartbeat(&self.context(), &member, &data, |data, queues| {
                retry_topics.push((data.group_name.clone(), queues));
                None
            })?;
            Ok(Answer::success())
        });
        self.retry_topics = retry_topics;
        served.map(|_| is_sub_change)
    }

    /// Sends a heartbeat of a consumer group. Returns `IS_SUB_CHANGE`.
    fn beat(
        &mut self,
        peer: &Arc<ConnectionHandle>,
        group: &str,
        subscriptions: &[(&str, &str, i64)],
    ) -> bool {
        let topics: Vec<_> = subscriptions.iter().map(|s| subscription_json(*s)).collect();
        self.beat_with(peer, group, &topics.join(","), "CLUSTERING", "")
    }

    fn beat_with(
        &mut self,
        peer: &Arc<ConnectionHandle>,
        group: &str,
        subscriptions: &str,
        model: &str,
        more: &str,
    ) -> bool {
        let body = format!(
            r#"{{"clientID":"client-{}","consumerDataSet":[{{"groupName":"{group}","messageModel":"{model}",
            "subscriptionDataSet":[{subscriptions}]}}],"producerDataSet":[]{more}}}"#,
            peer.id()
        );
        self.heartbeat(&body, peer).unwrap()
    }

    fn list(&self, group: &str) -> Result<Vec<String>> {
        let body = consumer_list(&self.clients, group)?;
        Ok(json::from_slice::<ConsumerListByGroup>(&body).unwrap().consumer_id_list)
    }

    fn code_of(&self, group: &str, topic: &str, tag: &str) -> bool {
        let subscription = self.clients.subscription(group, topic).expect("a subscription");
        subscription.matches(wire::hash::tags_code(Some(tag.as_bytes())))
    }
}

fn subscription_json((topic, expression, version): (&str, &str, i64)) -> String {
    format!(
        r#"{{"topic":"{topic}","subString":"{expression}","subVersion":{version},"expressionType":"TAG"}}"#
    )
}

fn peer(id: u64) -> Arc<ConnectionHandle> {
    let remote: SocketAddr = "10.0.0.1:4242".parse().unwrap();
    Arc::new(ConnectionHandle::detached(id, remote))
}

/// Returns the groups of the notices that a client got since the last call. Checks that every frame is a one-way 40
/// with an id of its own.
fn told(peer: &Arc<ConnectionHandle>) -> Vec<String> {
    let mut bytes = peer.pushed();
    let mut rest = bytes.as_mut_slice();
    let mut groups = Vec::new();
    let mut ids = BTreeSet::new();
    while let Some(length) = frame_length(rest).unwrap() {
        let (frame, next) = rest.split_at_mut(length);
        let command = Command::decode(frame).unwrap();
        assert!(command.is_one_way() && !command.is_response() && command.body.is_empty());
        assert_eq!((command.code, command.encoding), (40, Encoding::Json));
        assert!(ids.insert(command.opaque));
        groups.push(command.fields.text("consumerGroup").unwrap().to_owned());
        rest = next;
    }
    groups
}

#[test]
fn every_membership_change_is_told_to_all_members_at_once() {
    let mut fixture = Fixture::new();
    let (first, second) = (peer(1), peer(2));
    fixture.beat(&first, "g", &[("T", "*", 1)]);
    assert_eq!(told(&first), ["g"]);
    fixture.beat(&second, "g", &[("T", "*", 1)]);
    assert_eq!((told(&first), told(&second)), (vec!["g".to_owned()], vec!["g".to_owned()]));
    fixture.beat(&first, "g", &[("T", "*", 1)]);
    fixture.beat(&second, "g", &[("T", "a", 2)]);
    assert_eq!(
        (told(&first), told(&second)),
        (vec![], vec![]),
        "a new expression is no change of membership"
    );
    fixture.beat(&second, "g", &[("T", "a", 2), ("U", "*", 2)]);
    assert_eq!((told(&first), told(&second)), (vec!["g".to_owned()], vec!["g".to_owned()]));
    notify(&fixture.groups, &fixture.clients.closed(2));
    assert_eq!((told(&first), told(&second)), (vec!["g".to_owned()], vec![]));
}

#[test]
fn the_list_names_the_clients_of_a_group() {
    let mut fixture = Fixture::new();
    fixture.beat(&peer(2), "g", &[]);
    fixture.beat(&peer(1), "g", &[]);
    assert_eq!(fixture.list("g").unwrap(), ["client-1", "client-2"]);
    let refusal = fixture.list("h").unwrap_err();
    assert_eq!((refusal.code, refusal.remark.as_ref()), (1, "no consumer for this group, h"));
    fixture.clients.closed(1);
    fixture.clients.closed(2);
    fixture.list("g").unwrap_err();
    assert!(fixture.clients.message_model("g").is_none() && fixture.clients.subscription("g", "T").is_none());
}

#[test]
fn heartbeats_are_answered_with_what_java_clients_look_for() {
    let mut fixture = Fixture::new();
    assert!(fixture.beat(&peer(1), "g", &[("T", "*", 1)]), "always true for heartbeats of the first kind");
    assert_eq!(fixture.retry_topics, [("g".to_owned(), 1)]);
    const { assert!(wire::codes::VERSION >= 232) };
}

#[test]
fn string_codes_of_the_go_client_are_the_right_codes() {
    let mut fixture = Fixture::new();
    let subscription = r#"{"topic":"T","subString":"TagA || TagB","codeSet":["2598919","2598920"],
        "tagsSet":["TagA","TagB"],"subVersion":1700000000000000000,"expressionType":"TAG"}"#;
    fixture.beat_with(&peer(1), "g", subscription, "CLUSTERING", "");
    assert!(
        fixture.code_of("g", "T", "TagA")
            && fixture.code_of("g", "T", "TagB")
            && !fixture.code_of("g", "T", "TagC")
    );
    assert_eq!(fixture.clients.subscription("g", "T").unwrap().sub_version, 1_700_000_000_000_000_000);
}

#[test]
fn the_newest_version_of_a_subscription_counts_and_missing_topics_go() {
    let mut fixture = Fixture::new();
    fixture.beat(&peer(1), "g", &[("T", "a", 5), ("U", "*", 5)]);
    fixture.beat(&peer(1), "g", &[("T", "b", 4), ("U", "*", 5)]);
    assert!(fixture.code_of("g", "T", "a") && !fixture.code_of("g", "T", "b"));
    fixture.beat(&peer(2), "g", &[("T", "b", 6)]);
    assert!(fixture.code_of("g", "T", "b") && !fixture.code_of("g", "T", "a"));
    assert!(fixture.clients.subscription("g", "U").is_none());
}

#[test]
fn groups_that_do_not_exist_are_skipped_silently() {
    let mut fixture = Fixture::new();
    fixture.auto_create = false;
    fixture.beat(&peer(1), "g", &[("T", "*", 1)]);
    fixture.list("g").unwrap_err();
    assert!(fixture.retry_topics.is_empty() && fixture.groups.find("g").is_none());
    fixture.auto_create = true;
    fixture.beat(&peer(1), "g", &[("T", "*", 1)]);
    assert_eq!(fixture.list("g").unwrap(), ["client-1"]);
}

#[test]
fn broadcasting_groups_and_groups_that_do_not_want_it_are_not_told() {
    let mut fixture = Fixture::new();
    fixture.groups.make("quiet", 1).unwrap();
    let quiet = SubscriptionGroupConfig {
        notify_consumer_ids_changed_enable: false,
        ..SubscriptionGroupConfig::new("quiet")
    };
    fixture.groups.put(quiet, 1).unwrap();
    let peer = peer(1);
    fixture.beat(&peer, "quiet", &[("T", "*", 1)]);
    fixture.beat_with(&peer, "wide", &subscription_json(("T", "*", 1)), "BROADCASTING", "");
    assert!(told(&peer).is_empty());
    assert_eq!(fixture.clients.message_model("wide"), Some(MessageModel::Broadcasting));
}

/// Sends a heartbeat with a fingerprint, with or without subscriptions.
fn second_kind(fixture: &mut Fixture, peer: &Arc<ConnectionHandle>, fingerprint: i32, without: bool) -> bool {
    let topics = if without { String::new() } else { subscription_json(("T", "*", 1)) };
    let more = format!(r#","heartbeatFingerprint":{fingerprint},"withoutSub":{without}"#);
    fixture.beat_with(peer, "g", &topics, "CLUSTERING", &more)
}

#[test]
fn heartbeats_without_subscriptions_keep_those_the_broker_has() {
    let mut fixture = Fixture::new();
    let client = peer(1);
    assert!(!second_kind(&mut fixture, &client, 7, false));
    assert!(!second_kind(&mut fixture, &client, 7, true));
    assert!(fixture.clients.subscription("g", "T").is_some());
    assert!(second_kind(&mut fixture, &client, 8, true), "another fingerprint asks for the subscriptions");
    assert!(!second_kind(&mut fixture, &client, 8, false));
    assert_eq!(told(&client), ["g"]);
    let other = peer(2);
    assert!(!second_kind(&mut fixture, &other, 8, true));
    assert_eq!((told(&client), told(&other)), (vec!["g".to_owned()], vec!["g".to_owned()]));
}

#[test]
fn after_a_restart_of_the_broker_subscriptions_are_asked_for() {
    let mut fixture = Fixture::new();
    assert!(second_kind(&mut fixture, &peer(1), 7, true));
    assert!(!second_kind(&mut fixture, &peer(1), 7, false));
    assert!(!second_kind(&mut fixture, &peer(1), 7, true));
}

#[test]
fn unregistering_removes_the_client_from_the_groups_it_names() {
    let mut fixture = Fixture::new();
    let (first, second) = (peer(1), peer(2));
    for peer in [&first, &second] {
        fixture.beat(peer, "g", &[("T", "*", 1)]);
    }
    let body = r#"{"clientID":"p","producerDataSet":[{"groupName":"pg"}]}"#;
    fixture.heartbeat(body, &first).unwrap();
    told(&first);
    told(&second);
    unregister(&fixture.context(), 1, Some("pg"), Some("g"));
    assert_eq!((told(&first), told(&second)), (vec![], vec!["g".to_owned()]));
    assert_eq!(fixture.list("g").unwrap(), ["client-2"]);
    assert!(fixture.clients.producers("pg").is_none());
    unregister(&fixture.context(), 1, Some("pg"), Some("g"));
    assert!(told(&second).is_empty(), "it had left already");
    assert!(!fixture.clients.tables.read().joined.contains_key(&1));
}

#[test]
fn silent_clients_are_forgotten_and_disconnected() {
    let mut fixture = Fixture::new();
    let (silent, alive) = (peer(1), peer(2));
    for peer in [&silent, &alive] {
        fixture.beat(peer, "g", &[("T", "*", 1)]);
        fixture.beat(peer, "once", &[]);
    }
    let start = fixture.now_ms;
    fixture.now_ms += 60_000;
    fixture.beat(&alive, "g", &[("T", "*", 1)]);
    told(&alive);
    assert!(fixture.clients.expire(start + SILENCE_MAX_MS).is_empty());
    notify(&fixture.groups, &fixture.clients.expire(start + SILENCE_MAX_MS + 1));
    assert!(silent.is_closing() && !alive.is_closing());
    assert_eq!(fixture.list("g").unwrap(), ["client-2"]);
    fixture.list("once").unwrap_err();
    assert!(told(&alive).contains(&"g".to_owned()));
}

#[test]
fn a_heartbeat_of_too_many_groups_is_refused_whole() {
    let mut fixture = Fixture::new();
    let named = |count: usize| {
        let groups: Vec<_> = (0..count).map(|n| format!(r#"{{"groupName":"p{n}"}}"#)).collect();
        format!(r#"{{"clientID":"c","producerDataSet":[{}]}}"#, groups.join(","))
    };
    let client = peer(1);
    fixture.heartbeat(&named(GROUPS_PER_CLIENT_MAX), &client).unwrap();
    fixture.heartbeat(&named(GROUPS_PER_CLIENT_MAX), &client).unwrap();
    let refusal = fixture.heartbeat(&named(GROUPS_PER_CLIENT_MAX + 1), &client).unwrap_err();
    assert!(refusal.remark.contains("names 4097 groups; one connection may be in 4096"), "{refusal}");
    let one_more = r#"{"clientID":"c","producerDataSet":[{"groupName":"another"}]}"#;
    fixture.heartbeat(one_more, &client).unwrap_err();
    fixture.heartbeat(one_more, &peer(2)).unwrap();
}

#[test]
fn connections_are_listed_for_operators() {
    let mut fixture = Fixture::new();
    fixture.beat(&peer(1), "g", &[("T", "a", 3)]);
    let body = r#"{"clientID":"p","producerDataSet":[{"groupName":"pg"}]}"#;
    fixture.heartbeat(body, &peer(1)).unwrap();
    let list = consumer_connections(&fixture.clients, "g").unwrap();
    assert_eq!(list.connection_set.len(), 1);
    let connection = &list.connection_set[0];
    assert_eq!(
        (connection.client_addr.as_str(), connection.client_id.as_str()),
        ("10.0.0.1:4242", "client-1")
    );
    assert_eq!((connection.language.as_str(), connection.version), ("RUST", wire::codes::VERSION));
    assert_eq!(list.subscription_table["T"].sub_string, "a");
    let list = producer_connections(&fixture.clients, "pg").unwrap();
    assert_eq!(list.connection_set[0].client_id, "p");
    let refusal = consumer_connections(&fixture.clients, "x").unwrap_err();
    assert_eq!((refusal.code, refusal.remark.as_ref()), (206, "the consumer group[x] not online"));
    let refusal = producer_connections(&fixture.clients, "x").unwrap_err();
    assert_eq!((refusal.code, refusal.remark.as_ref()), (1, "the producer group[x] not exist"));
    assert!(fixture.folder.path().join("subscriptionGroup.json").exists());
}

#[test]
fn clients_are_checked_before_they_start() {
    let check = |filters_properties, kind: &str, expression: &str| {
        let data = format!(r#"{{"expressionType":{kind},"subString":"{expression}"}}"#);
        let data: SubscriptionData = json::from_slice(data.as_bytes()).unwrap();
        check_client(&data, filters_properties).map_err(|refusal| refusal.to_string())
    };
    for tag in ["\"TAG\"", "\"\"", "null"] {
        assert_eq!(check(false, tag, "a"), Ok(()));
    }
    let remark = "1: The broker does not support consumer to filter message by SQL92";
    assert_eq!(check(false, "\"SQL92\"", "a > 1"), Err(remark.to_owned()));
    assert_eq!(check(true, "\"SQL92\"", "a > 1"), Ok(()));
    let refusal = check(true, "\"SQL92\"", "a >").unwrap_err();
    assert!(refusal.starts_with("23: the expression \"a >\" is no filter: at character 4"), "{refusal}");
    let refusal = check(true, "\"XYZ\"", "a").unwrap_err();
    assert_eq!(refusal, "23: the expression type is \"XYZ\", expected TAG or SQL92");
}

#[test]
fn damaged_heartbeats_change_nothing() {
    let mut fixture = Fixture::new();
    for body in ["", "{", "[]", r#"{"consumerDataSet":[{"groupName":"g"}"#] {
        let refusal = fixture.heartbeat(body, &peer(1)).unwrap_err();
        assert!(refusal.remark.starts_with("the request body is not the JSON expected"), "{refusal}");
    }
    fixture.list("g").unwrap_err();
}

#[test]
fn what_operators_and_clients_are_told_of_groups_has_one_order() {
    let mut fixture = Fixture::new();
    let topics: Vec<String> = (10..30).rev().map(|number| format!("T{number}")).collect();
    let subscriptions: Vec<_> = topics.iter().map(|topic| (topic.as_str(), "*", 1)).collect();
    let peers: Vec<_> = (1..=20).rev().map(peer).collect();
    for peer in &peers {
        for group in ["c", "a", "b"] {
            fixture.beat(peer, group, &subscriptions);
        }
    }
    let seen = fixture.clients.consumers("a").unwrap();
    assert!(seen.members.iter().map(|member| member.link.id()).eq(1..=20));
    assert!(seen.subscriptions.iter().map(|it| it.data().topic.as_str()).is_sorted());
    assert_eq!(fixture.clients.subscribers("T10"), ["a", "b", "c"]);
    let changes = fixture.clients.closed(7);
    assert!(changes.iter().map(|change| change.group.as_str()).eq(["a", "b", "c"]));
    let links: Vec<u64> = changes[0].links.iter().map(|link| link.id()).collect();
    assert!(links.len() == 19 && links.is_sorted());
    fixture.now_ms += SILENCE_MAX_MS + 1;
    fixture.beat(&peers[19], "c", &subscriptions);
    let groups: Vec<_> = fixture.clients.expire(fixture.now_ms).into_iter().map(|it| it.group).collect();
    assert_eq!(groups.len(), 18 * 3 + 2);
    assert!(groups[..54].chunks(3).all(|of_one| of_one.iter().is_sorted()), "{groups:?}");
    assert_eq!(groups[54..], ["a", "b"]);
}
