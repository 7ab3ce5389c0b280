use std::net::SocketAddr;
use std::sync::Arc;

use broker::api::{Caller, Subject};
use wire::body::SubscriptionData;
use wire::codes::Language;

use super::*;
use crate::config::Config;
use crate::registry::Registry;
use grpc::messages::{PubSub, Resource, Settings, Subscription};

/// A proxy that reaches no name server.
fn cluster() -> Arc<Cluster> {
    let reach = client::Client::start(client::Config::new("127.0.0.1:1")).unwrap();
    Cluster::new(reach, None, &Config::default())
}

/// Message of a proxy of Apache RocketMQ 5.5.0, without the settings of the client.
const OF_JAVA: &str = r#"{"channelData":"{\"localAddress\":\"10.0.0.2:8081\",\"remoteAddress\":\"10.0.0.9:41234\",\"remoteProxyIp\":\"10.0.0.2\",\"type\":\"GRPC_V2\",\"extendAttribute\":\"{}\"}","clientId":"c1","consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","consumeType":"CONSUME_PASSIVELY","group":"g","heartbeatType":"REGISTER","language":"GO","lastUpdateTimestamp":1700000000000,"localProxyId":"10.0.0.2%8080%8081","messageModel":"CLUSTERING","subscriptionDataSet":[{"classFilterMode":false,"codeSet":[],"expressionType":"TAG","subString":"*","subVersion":1700000000000,"tagsSet":[],"topic":"T"}],"version":493}"#;

#[test]
fn a_consumer_at_a_proxy_of_java_is_known_until_it_leaves() {
    let cluster = cluster();
    cluster.hear(OF_JAVA.as_bytes());
    let known = cluster.consumers.connections("g").unwrap();
    let found = &known.connection_set[0];
    assert_eq!(
        (found.client_addr.as_str(), found.client_id.as_str(), found.language.as_str(), found.version),
        ("10.0.0.9:41234", "c1", "GO", 493)
    );
    assert_eq!(known.subscription_table["T"].sub_string, "*");
    cluster.hear(b"no JSON");
    cluster.hear(OF_JAVA.replace("REGISTER", "UNREGISTER").as_bytes());
    assert_eq!(cluster.consumers.connections("g"), None);
    cluster.client.shutdown();
}

#[test]
fn other_proxies_hear_when_a_consumer_comes_and_goes() {
    let (told, hearing) = (cluster(), cluster());
    let remote: SocketAddr = "127.0.0.1:5".parse().unwrap();
    let caller = Caller { remote, version: 0, user: Subject::Off };
    let client = Registry::new(10, 1).enter("c", &caller).unwrap();
    let subscription = Subscription { group: Some(Resource::named("g")), ..Default::default() };
    let pub_sub = Some(PubSub::Subscription(subscription));
    let stated = ClientSettings { settings: Settings { pub_sub, ..Default::default() }, at_ms: 1 };
    client.set_settings(stated.clone(), &mpsc::channel(1).0);
    let subscribed = SubscriptionData { topic: "T".to_owned(), ..Default::default() };
    let consumer = ConsumerData {
        group_name: "g".to_owned(),
        subscription_data_set: vec![subscribed],
        ..ConsumerData::default()
    };
    let language = Some(Language::Go);
    let heartbeat = ConsumerHeartbeat { remote, stated: Some(&stated), client_id: "c", language, version: 9 };
    let mut sent = told.outbox.waiting.lock().take().unwrap();
    let mut pass = || {
        let body = sent.try_recv().unwrap().body;
        // What a proxy told itself it passes over.
        told.hear(&body);
        hearing.hear(&body);
        [&told, &hearing].map(|cluster| cluster.consumers.connections("g"))
    };
    told.consumer_heard(&heartbeat, &[consumer]);
    let [own, heard] = pass();
    assert_eq!(own, heard);
    let heard = heard.unwrap();
    assert_eq!(heard.connection_set[0].client_addr, "127.0.0.1:5");
    assert!(heard.subscription_table.contains_key("T"));
    told.client_left(&client, "g");
    assert_eq!(pass(), [None, None]);
    told.client.shutdown();
    hearing.client.shutdown();
}

#[test]
fn a_client_whose_calls_are_spread_is_heard_of_and_ended_by_any_proxy() {
    let (first, second) = (cluster(), cluster());
    let mut sent = second.outbox.waiting.lock().take().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let heard = |client: &str| runtime.block_on(second.record_remote_heartbeat("g", client));
    assert!(!heard("c1"), "no proxy told of the client");
    [&first, &second].iter().for_each(|cluster| assert_eq!(cluster.hear(OF_JAVA.as_bytes()), None));
    assert!(heard("c1") && !heard("c2"));
    assert_eq!(first.hear(&sent.try_recv().unwrap().body), None);
    // The first proxy had the last heartbeat when the client ends at the second.
    let last = second.consumers.get("g", "c1").unwrap();
    second.hear(&json::to_vec(&HeartbeatSyncerData { local_proxy_id: "p".to_owned(), ..last.clone() }));
    first.hear(&json::to_vec(&HeartbeatSyncerData { local_proxy_id: "p".to_owned(), ..last }));
    let caller = Caller { remote: "127.0.0.1:5".parse().unwrap(), version: 0, user: Subject::Off };
    let client = Registry::new(10, 1).enter("c1", &caller).unwrap();
    second.client_left(&client, "g");
    assert_eq!(second.consumers.get("g", "c1"), None);
    assert_eq!(first.hear(&sent.try_recv().unwrap().body), None);
    assert_eq!(first.hear(&sent.try_recv().unwrap().body).as_deref(), Some("c1"));
    assert_eq!(first.consumers.get("g", "c1"), None);
    [first, second].iter().for_each(|cluster| cluster.client.shutdown());
}
