use wire::body::RegisterBrokerBody;

use super::*;

#[test]
fn register_then_route_then_data_version() {
    let office = Office::new();
    let broker = Broker::new(0, "a:1");
    assert_eq!(
        office.register(&broker),
        Response { code: 0, remark: String::new(), fields: BTreeMap::new(), body: String::new() }
    );
    let expected = json!({
        "brokerDatas": [{"brokerAddrs": {"0": "a:1"}, "brokerName": "broker-a", "cluster": "C", "enableActingMaster": false}],
        "filterServerTable": {},
        "queueDatas": [{"brokerName": "broker-a", "perm": 6, "readQueueNums": 8, "topicSysFlag": 1, "writeQueueNums": 4}],
    });
    assert_eq!((office.route("T1"), office.route("T2")), (expected.clone(), expected.clone()));
    office.register(&broker);
    assert_eq!(office.route("T1"), expected);

    let version = broker.version().to_string();
    let response = office.ask(322, broker.fields(), &version);
    assert_eq!((response.fields["changed"].as_str(), response.body.as_str()), ("false", version.as_str()));
    let newer = Broker { counter: 2, ..broker.clone() };
    let response = office.ask(322, newer.fields(), &newer.version().to_string());
    assert_eq!((response.fields["changed"].as_str(), response.body.as_str()), ("true", version.as_str()));
    let stranger = Broker::new(0, "b:1");
    let response = office.ask(322, stranger.fields(), &version);
    assert_eq!((response.fields["changed"].as_str(), response.body.as_str()), ("true", ""));
}

#[test]
fn the_crc_of_the_body_is_verified() {
    let office = Office::new();
    let mut broker = Broker::new(0, "a:1");
    let crc = crc32fast::hash(broker.body().to_string().as_bytes()) & 0x7fff_ffff;
    broker.extra = json!({"bodyCrc32": (crc ^ 1).to_string()});
    let response = office.register(&broker);
    assert_eq!((response.code, response.remark.as_str()), (1, "crc32 not match"));
    assert_eq!(office.route("T1"), Value::Null);
    broker.extra = json!({"bodyCrc32": crc.to_string()});
    assert_eq!(office.register(&broker).code, 0);
    broker.extra = json!({"bodyCrc32": "0"});
    assert_eq!(office.register(&broker).code, 0);
}

#[test]
fn a_first_registration_has_no_or_several_topics() {
    let office = Office::new();
    let response = office.register(&Broker { topics: vec!["T1"], ..Broker::new(0, "a:1") });
    assert_eq!((response.code, response.remark.as_str()), (1, "register broker failed"));
    assert_eq!(office.ask(106, json!({}), "").body, r#"{"brokerAddrTable":{},"clusterAddrTable":{}}"#);
    assert_eq!(office.register(&Broker { topics: vec![], ..Broker::new(0, "a:1") }).code, 0);
    assert_eq!(office.register(&Broker { name: "broker-b", ..Broker::new(0, "b:1") }).code, 0);
}

#[test]
fn a_registration_of_one_topic_keeps_the_others() {
    let office = Office::new();
    let broker = Broker::new(0, "a:1");
    office.register(&broker);
    assert_eq!(office.register(&Broker { counter: 2, topics: vec!["T3"], ..broker }).code, 0);
    assert_eq!(office.ask(206, json!({}), "").body, r#"{"topicList":["T1","T2","T3"]}"#);
}

#[test]
fn topics_that_are_no_longer_named_go_if_the_configuration_says_so() {
    let office = Office::with("deleteTopicWithBrokerRegistration=true");
    let broker = Broker::new(0, "a:1");
    office.register(&broker);
    office.register(&Broker { counter: 2, topics: vec!["T2", "T3"], ..broker });
    assert_eq!(office.ask(206, json!({}), "").body, r#"{"topicList":["T2","T3"]}"#);
}

#[test]
fn topics_that_a_part_of_a_table_does_not_name_stay() {
    let office = Office::with("deleteTopicWithBrokerRegistration=true");
    let broker = Broker::new(0, "a:1");
    office.register(&broker);
    let part =
        Broker { counter: 2, topics: vec!["T3"], extra: json!({"partOfTable": "true"}), ..broker.clone() };
    office.register(&part);
    assert_eq!(office.ask(206, json!({}), "").body, r#"{"topicList":["T1","T2","T3"]}"#);
    let whole =
        Broker { counter: 2, topics: vec!["T1", "T3"], extra: json!({"partOfTable": "false"}), ..broker };
    office.register(&whole);
    assert_eq!(office.ask(206, json!({}), "").body, r#"{"topicList":["T1","T3"]}"#);
}

#[test]
fn an_unchanged_version_changes_no_queues_but_adds_missing_topics() {
    let office = Office::new();
    let broker = Broker::new(0, "a:1");
    office.register(&broker);
    office.ask(205, json!({"brokerName": "broker-a"}), "");
    office.register(&Broker { topics: vec!["T1", "T3"], ..broker.clone() });
    assert_eq!((office.perm("T1"), office.perm("T3")), (json!(4), json!(6)));
    office.register(&Broker { counter: 2, ..broker });
    assert_eq!(office.perm("T1"), json!(6));
}

#[test]
fn slaves_learn_their_master_while_it_is_live() {
    let office = Office::new();
    let (master, slave) = (Broker::new(0, "a:1"), Broker::new(1, "a:2"));
    assert_eq!(office.register(&slave).fields, BTreeMap::new());
    assert_eq!(office.register(&master).fields, BTreeMap::new());
    let fields = office.register(&slave).fields;
    let expected = [("haServerAddr", "ha-a:1"), ("masterAddr", "a:1")];
    assert_eq!(fields, expected.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
    office.unregister(&master);
    assert_eq!(office.register(&slave).fields, BTreeMap::new());
}

#[test]
fn a_broker_that_changes_its_id_leaves_the_old_one() {
    let office = Office::new();
    let slave = Broker::new(1, "a:1");
    office.register(&Broker { extra: json!({"enableActingMaster": "false"}), ..slave });
    assert_eq!(office.addresses("T1"), json!({"1": "a:1"}));
    office.register(&Broker::new(0, "a:1"));
    assert_eq!(office.addresses("T1"), json!({"0": "a:1"}));
}

#[test]
fn a_master_of_an_earlier_epoch_is_fenced() {
    let office = Office::new();
    office.register(&Broker { state_version: 5, ..Broker::new(0, "a:1") });
    let late = Broker { state_version: 4, ..Broker::new(0, "b:1") };
    let response = office.register(&late);
    assert_eq!((response.code, response.fields), (0, BTreeMap::new()));
    assert_eq!(office.addresses("T1"), json!({"0": "a:1"}));
    assert_eq!(office.ask(322, late.fields(), "{}").body, "");
    office.register(&Broker { state_version: 6, ..late });
    assert_eq!(office.addresses("T1"), json!({"0": "b:1"}));
}

#[test]
fn brokers_that_run_under_the_name_and_id_of_another_one_are_told_to_those_that_ask() {
    let mut office = Office::new();
    let ask = |office: &Office| {
        let response = office.ask(106, json!({"withReplacedBrokers": "true"}), "");
        serde_json::from_str::<Value>(&response.fields["replacedBrokers"]).unwrap()
    };
    let told = |address: &str, id: i64| json!([{"brokerAddr": address, "brokerId": id, "brokerName": "broker-a", "cluster": "C"}]);
    let one = Broker { connection: 5, ..Broker::new(0, "a:1") };
    let other = Broker { connection: 6, ..Broker::new(0, "b:1") };
    office.register(&one);
    assert_eq!(ask(&office), json!([]));
    // Both register within the same second, then the first one again.
    office.register(&other);
    assert_eq!((ask(&office), office.addresses("T1")), (told("a:1", 0), json!({"0": "b:1"})));
    assert_eq!(office.ask(106, json!({}), "").fields, BTreeMap::new(), "nobody asked");
    office.wait(30);
    office.register(&one);
    assert_eq!((ask(&office), office.addresses("T1")), (told("b:1", 0), json!({"0": "a:1"})));
    // A slave of the same name is another broker.
    office.register(&Broker { connection: 7, ..Broker::new(1, "b:2") });
    assert_eq!(ask(&office), told("b:1", 0));
    // One of them stops.
    office.handler.disconnected(6);
    office.handler.settle();
    assert_eq!((ask(&office), office.addresses("T1")), (json!([]), json!({"0": "a:1", "1": "b:2"})));
    // A broker that came back at another address does not register at its former one.
    office.register(&other);
    office.wait(100);
    office.register(&other);
    office.wait(21);
    office.handler.expire(office.now);
    office.handler.settle();
    assert_eq!((ask(&office), office.addresses("T1")), (json!([]), json!({"0": "b:1"})));
}

#[test]
fn a_lost_connection_removes_its_broker() {
    let office = Office::new();
    office.register(&Broker { connection: 5, ..Broker::new(0, "a:1") });
    assert!(!office.handler.disconnected(6));
    assert!(office.handler.disconnected(5));
    assert!(office.handler.is_unsettled());
    office.handler.settle();
    assert_eq!(office.route("T1"), Value::Null);
    assert!(!office.handler.is_unsettled());
}

#[test]
fn silence_removes_a_broker_after_its_timeout() {
    let mut office = Office::new();
    let patient = Broker { connection: 5, ..Broker::new(0, "a:1") };
    let hasty = Broker { name: "broker-b", connection: 6, topics: vec!["T3", "T4"], ..Broker::new(0, "b:1") };
    office.register(&patient);
    office.register(&Broker { extra: json!({"heartbeatTimeoutMillis": "10000"}), ..hasty });
    office.wait(10);
    assert!(office.handler.expire(office.now).is_empty());
    office.wait(1);
    assert_eq!(office.handler.expire(office.now), [6]);
    office.handler.settle();
    assert_eq!((office.route("T3"), office.addresses("T1")), (Value::Null, json!({"0": "a:1"})));
    office.wait(110);
    assert_eq!(office.handler.expire(office.now), [5]);
    office.handler.settle();
    assert_eq!(office.route("T1"), Value::Null);
}

#[test]
fn a_broker_that_came_back_on_another_connection_stays() {
    let office = Office::new();
    let broker = Broker { connection: 5, ..Broker::new(0, "a:1") };
    office.register(&broker);
    office.handler.disconnected(5);
    office.register(&Broker { connection: 6, ..broker });
    assert_eq!(office.addresses("T1"), json!({"0": "a:1"}));
}

#[test]
fn heartbeats_keep_known_brokers_and_create_none() {
    let mut office = Office::new();
    let broker = Broker::new(0, "a:1");
    assert_eq!(office.ask(904, broker.fields(), "").code, 0);
    assert_eq!(office.ask(106, json!({}), "").body, r#"{"brokerAddrTable":{},"clusterAddrTable":{}}"#);
    office.register(&broker);
    for code in [904, 322] {
        office.wait(100);
        assert_eq!(office.ask(code, broker.fields(), "").code, 0);
        assert!(office.handler.expire(office.now).is_empty());
    }
    office.wait(121);
    assert_eq!(office.handler.expire(office.now), [1]);
}

#[test]
fn the_last_address_takes_its_group_topics_and_cluster_along() {
    let office = Office::new();
    let (master, slave) = (Broker::new(0, "a:1"), Broker::new(1, "a:2"));
    let other = Broker { name: "broker-b", topics: vec!["T2", "T3"], ..Broker::new(0, "b:1") };
    for broker in [&master, &slave, &other] {
        office.register(broker);
    }
    office.unregister(&master);
    assert_eq!(office.addresses("T1"), json!({"1": "a:2"}));
    office.unregister(&slave);
    assert_eq!(office.ask(206, json!({}), "").body, r#"{"topicList":["T2","T3"]}"#);
    assert_eq!(office.route("T2")["queueDatas"].as_array().unwrap().len(), 1);
    assert!(office.ask(106, json!({}), "").body.ends_with(r#""clusterAddrTable":{"C":["broker-b"]}}"#));
    office.unregister(&other);
    assert_eq!(office.ask(206, json!({}), "").body, r#"{"topicList":[]}"#);
    assert_eq!(office.ask(106, json!({}), "").body, r#"{"brokerAddrTable":{},"clusterAddrTable":{}}"#);
}

#[test]
fn too_many_waiting_departures_are_refused() {
    let office = Office::with("unRegisterBrokerQueueCapacity=2");
    let broker = Broker::new(0, "a:1");
    let codes: Vec<_> = (0..3).map(|_| office.ask(104, broker.fields(), "").code).collect();
    assert_eq!(codes, [0, 0, 1]);
    assert_eq!(office.ask(104, broker.fields(), "").remark, "");
    office.handler.settle();
    assert_eq!(office.ask(104, broker.fields(), "").code, 0);
}

/// The packed body for a request of `version`, not compressed yet.
fn packed(body: &RegisterBrokerBody, version: i32) -> Vec<u8> {
    let wrapper = &body.topic_config_serialize_wrapper;
    let count = |count: usize| u32::try_from(count).unwrap().to_be_bytes().to_vec();
    let part = |part: &[u8]| [count(part.len()), part.to_vec()].concat();
    let (topics, mappings) = (&wrapper.topic_config_table, &wrapper.topic_queue_mapping_info_map);
    let mut packed = part(&wire::json::to_vec(&wrapper.data_version));
    packed.extend(count(topics.len()));
    packed.extend(topics.values().flat_map(|topic| part(topic.to_string().as_bytes())));
    packed.extend(part(&wire::json::to_vec(body.filter_server_list.as_deref().unwrap_or_default())));
    if version >= wire::body::MAPPING_VERSION_MIN {
        packed.extend(count(mappings.len()));
        packed.extend(mappings.values().flat_map(|mapping| part(&wire::json::to_vec(mapping))));
    }
    packed
}

#[test]
fn compressed_bodies_are_read_whatever_the_header_says() {
    for (version, compressed) in [(353, "true"), (V5_3_3, "true"), (V5_3_3, "false")] {
        let office = Office::new();
        let broker = Broker { extra: json!({"compressed": compressed}), ..Broker::new(0, "a:1") };
        let body: RegisterBrokerBody = wire::json::from_str(&broker.body().to_string()).unwrap();
        let body = zlib(&packed(&body, version));
        assert_eq!(office.ask_as(1, version, 103, broker.fields(), &body).code, 0);
        let queues = office.route("T1")["queueDatas"][0].clone();
        assert_eq!((&queues["readQueueNums"], &queues["writeQueueNums"]), (&json!(8), &json!(4)));
    }
    for broken in [&zlib(b"\0\0\0\x02{}\0\0\0\x01\0\0\0\x04T1 8")[..], b"x\x9cno zlib"] {
        let response = Office::new().ask_as(1, V5_3_3, 103, Broker::new(0, "a:1").fields(), broken);
        assert_eq!(response.code, 1);
        assert!(response.remark.starts_with("Failed to decode RegisterBrokerBody, "), "{}", response.remark);
    }
}

#[test]
fn a_body_that_inflates_beyond_the_bound_is_refused() {
    let office = Office::with("registrationBytesMax=100000");
    let bomb = zlib(&[0; 100_001]);
    let response = office.ask_as(1, V5_3_3, 103, Broker::new(0, "a:1").fields(), &bomb);
    assert!(
        response
            .remark
            .ends_with("expected at most 100000 bytes when inflated (registrationBytesMax), found more"),
        "{}",
        response.remark
    );
}

/// Names of `count` topics.
fn names(prefix: &str, count: usize) -> Vec<&'static str> {
    (0..count).map(|number| &*format!("{prefix}{number}").leak()).collect()
}

#[test]
fn the_topics_of_a_broker_have_a_bound() {
    let office = Office::with("topicsPerBrokerMax=10");
    let topics = |topics| Broker { topics, counter: 2, ..Broker::new(0, "a:1") };
    let response = office.register(&topics(names("a", 11)));
    let remark =
        "register broker failed: expected at most 10 topics of a broker (topicsPerBrokerMax), found 11";
    assert_eq!((response.code, response.remark.as_str()), (1, remark));
    // A refused registration leaves nothing behind.
    assert_eq!(office.ask(106, json!({}), "").body, r#"{"brokerAddrTable":{},"clusterAddrTable":{}}"#);
    assert_eq!(office.register(&topics(names("a", 10))).code, 0);
    assert_eq!(office.register(&topics(names("b", 1))).code, 1);
    office.ask(216, json!({"topic": "a3"}), "");
    assert_eq!(office.register(&topics(names("b", 1))).code, 0);
    // The bound is each broker's own.
    let other = Broker { name: "broker-b", ..Broker::new(0, "a:2") };
    assert_eq!(office.register(&Broker { topics: names("a", 10), ..other }).code, 0);
    // Bodies are not read beyond the bound.
    let text = format!(
        r#"{{"topicConfigSerializeWrapper":{{"topicConfigTable":{{{}}}}}}}"#,
        names("a", 100).iter().map(|name| format!(r#""{name}":{{}}"#)).collect::<Vec<_>>().join(",")
    );
    let body: RegisterBrokerBody = wire::json::from_str(&text).unwrap();
    for body in [text.into_bytes(), zlib(&packed(&body, V5_3_3))] {
        let response = office.ask_as(1, V5_3_3, 103, topics(Vec::new()).fields(), &body);
        assert_eq!(response.code, 1);
        assert!(
            response.remark.contains("topicsPerBrokerMax") && response.remark.contains("Failed to decode"),
            "{response:?}"
        );
    }
}

#[test]
fn brokers_have_a_bound() {
    let office = Office::with("brokersMax=2");
    let brokers = ["a:1", "a:2", "a:3"].map(|address| {
        let name: &'static str = format!("broker-{address}").leak();
        Broker { name, ..Broker::new(0, address) }
    });
    assert_eq!((office.register(&brokers[0]).code, office.register(&brokers[1]).code), (0, 0));
    let response = office.register(&brokers[2]);
    let remark = "register broker failed: expected at most 2 brokers (brokersMax), found 3";
    assert_eq!((response.code, response.remark.as_str()), (1, remark));
    assert_eq!(office.register(&brokers[1]).code, 0, "known ones register again");
    office.unregister(&brokers[0]);
    assert_eq!(office.register(&brokers[2]).code, 0);
    // A departure with the name of another broker leaves the address in its group; a cluster stays while its group has brokers.
    let office = Office::with("brokersMax=8");
    let codes = (0..20).map(|number| {
        let address: &'static str = format!("a:{number}").leak();
        let cluster = json!({"clusterName": format!("C{number}")});
        let code = office.register(&Broker { extra: cluster.clone(), ..Broker::new(number, address) }).code;
        office.unregister(&Broker { extra: cluster, name: "other", ..Broker::new(number, address) });
        code
    });
    assert!(codes.filter(|code| *code == 0).count() <= 8);
    let long = Broker { extra: json!({"haServerAddr": "x".repeat(2000)}), ..Broker::new(0, "a:1") };
    assert_eq!(Office::new().register(&long).code, 1);
}

#[test]
fn routes_have_a_bound() {
    let office = Office::with("routeBytesMax=10000");
    let broker = |name: &'static str, topics| Broker { name, topics, ..Broker::new(0, name) };
    assert_eq!(office.register(&broker("a:1", names("a", 40))).code, 0);
    let response = office.register(&broker("a:2", names("b", 40)));
    assert_eq!(response.code, 1);
    assert!(
        response.remark.starts_with("register broker failed: expected at most 10000 bytes of routes"),
        "{response:?}"
    );
    assert_eq!(office.register(&broker("a:2", names("a", 10))).code, 0, "topics of others take less");
    let route = json!({"queueDatas": [{"brokerName": "a:1"}]}).to_string();
    let codes = (0..100).map(|number| office.ask(217, json!({"topic": format!("new{number}")}), &route).code);
    let codes: Vec<_> = codes.collect();
    assert_eq!((codes[0], codes[99]), (0, 1));
    let servers =
        json!({"filterServerList": ["x".repeat(10_000)], "topicConfigSerializeWrapper": {}}).to_string();
    let fields = broker("a:2", Vec::new()).fields();
    assert_eq!(office.ask_as(1, V5_3_3, 103, fields, servers.as_bytes()).code, 1);
    // Room of a broker that left is free for further brokers.
    office.unregister(&broker("a:1", Vec::new()));
    assert_eq!(office.register(&broker("a:3", names("b", 40))).code, 0);
}

#[test]
fn bodies_of_every_age_are_read() {
    let office = Office::new();
    let broker = Broker::new(0, "a:1");
    let legacy = broker.body()["topicConfigSerializeWrapper"].to_string();
    assert_eq!(office.ask_as(1, 30, 103, broker.fields(), legacy.as_bytes()).code, 0);
    assert_eq!(office.addresses("T1"), json!({"0": "a:1"}));
    let response = office.ask(103, broker.fields(), "{\"topicConfigSerializeWrapper\":[]}");
    assert_eq!(
        response.remark,
        "Failed to decode RegisterBrokerBody, bad json at byte 31: expected an object, found `[`"
    );
    assert_eq!(office.ask(103, Broker { name: "broker-b", ..Broker::new(0, "b:1") }.fields(), "").code, 0);
}

#[test]
fn order_configurations_are_told_to_brokers() {
    let office = Office::new();
    let broker = Broker::new(0, "a:1");
    let namespace = "ORDER_TOPIC_CONFIG";
    office.ask(100, json!({"namespace": namespace, "key": "T1", "value": "broker-a:8"}), "");
    assert_eq!(office.register(&broker).body, r#"{"table":{"T1":"broker-a:8"}}"#);
    assert_eq!(office.ask(318, json!({}), "returnOrderTopicConfigToBroker=false").code, 0);
    assert_eq!(office.register(&broker).body, "");
}

#[test]
fn brokers_are_told_of_a_new_smallest_id() {
    let office = Office::with("notifyMinBrokerIdChanged=true");
    let (master, second, third) =
        (Broker::acting(0, "a:1"), Broker::acting(1, "a:2"), Broker::acting(2, "a:3"));
    let register = |broker: &Broker| {
        office.ask_as(1, V5_3_3, 103, broker.fields(), broker.body().to_string().as_bytes());
        office.handler.settle()
    };
    assert_eq!((register(&third), register(&third)), (vec![], vec![]));
    let notice =
        |id, address: &str, offline: Option<&str>, ha: Option<&str>, recipients: &[&str]| MinBrokerNotice {
            id,
            address: address.into(),
            offline_address: offline.map(Into::into),
            ha_address: ha.map(Into::into),
            recipients: recipients.iter().map(|recipient| (*recipient).into()).collect(),
        };
    assert_eq!(register(&second), [notice(1, "a:2", None, Some("ha-a:2"), &["a:3"])]);
    assert_eq!(register(&master), [notice(0, "a:1", None, Some("ha-a:1"), &["a:2", "a:3"])]);
    office.ask(104, third.fields(), "");
    assert_eq!(office.handler.settle(), []);
    office.ask(104, master.fields(), "");
    assert_eq!(office.handler.settle(), [notice(1, "a:2", Some("a:1"), None, &["a:2"])]);
    let plain = Broker { name: "broker-b", ..Broker::new(0, "b:1") };
    register(&plain);
    register(&Broker { id: 1, address: "b:2", ..plain.clone() });
    office.ask(104, plain.fields(), "");
    assert_eq!(office.handler.settle(), []);
}

#[test]
fn without_the_setting_nobody_is_told() {
    let office = Office::new();
    office.register(&Broker::acting(1, "a:2"));
    let master = Broker::acting(0, "a:1");
    office.ask(103, master.fields(), &master.body().to_string());
    assert!(!office.handler.is_unsettled());
}

#[test]
fn brokers_that_left_are_told_to_those_that_ask_until_they_come_back_or_are_forgotten() {
    let mut office = Office::new();
    let ask = |office: &Office| {
        let response = office.ask(106, json!({"withDepartedBrokers": "true"}), "");
        let rows: Vec<Value> = serde_json::from_str(&response.fields["departedBrokers"]).unwrap();
        let row = |row: &Value| {
            let end = if row["isUnregistered"] == true { "unregistered" } else { "lost" };
            format!("{} {} {end} {}", row["brokerAddr"], row["brokerId"], row["silentMs"]).replace('"', "")
        };
        rows.iter().map(row).collect::<Vec<_>>()
    };
    let master = Broker { connection: 5, ..Broker::new(0, "a:1") };
    let slave = Broker { connection: 6, ..Broker::new(1, "b:1") };
    office.register(&master);
    office.register(&slave);
    assert_eq!(ask(&office), [""; 0]);
    assert_eq!(office.ask(106, json!({}), "").fields, BTreeMap::new(), "nobody asked");
    office.wait(10);
    office.handler.disconnected(6);
    office.handler.settle();
    assert_eq!(ask(&office), ["b:1 1 lost 10000"]);
    // The slave comes back at another address, and is stopped.
    let moved = Broker { connection: 7, ..Broker::new(1, "b:2") };
    office.register(&moved);
    assert_eq!(ask(&office), [""; 0]);
    let leave = |broker: &str, id: i64| json!({"clusterName": "C", "brokerName": "broker-a", "brokerAddr": broker, "brokerId": id.to_string()});
    office.ask(104, leave("b:2", 1), "");
    office.handler.settle();
    assert_eq!(ask(&office), ["b:2 1 unregistered 0"]);
    // An operator forgets it.
    office.ask(104, leave("b:2", 1), "");
    office.handler.settle();
    assert_eq!(ask(&office), [""; 0]);
    for (id, address) in [(2, "c:1"), (3, "d:1"), (4, "e:1"), (5, "f:1")] {
        office.register(&Broker { connection: 7, ..Broker::new(id, address) });
        office.wait(1);
        office.ask(104, leave(address, id), "");
        office.handler.settle();
    }
    assert_eq!(ask(&office).len(), 3, "the oldest is dropped");
}
