use super::*;

const PLAIN: &str = r#""brokerAddrs":{0:"a:1",1:"a:2"}"#;
const STANDARD: &str = r#""brokerAddrs":{"0":"a:1","1":"a:2"}"#;

#[test]
fn the_dialect_follows_version_and_flag() {
    let office = Office::new();
    office.register(&Broker::new(0, "a:1"));
    office.register(&Broker::new(1, "a:2"));
    let ask = |version, fields| office.ask_as(1, version, 105, fields, b"").body;
    let whole = |addresses| {
        format!(
            "{{\"brokerDatas\":[{{{addresses},\"brokerName\":\"broker-a\",\"cluster\":\"C\",\"enableActingMaster\":false}}],\
             \"filterServerTable\":{{}},\"queueDatas\":[{{\"brokerName\":\"broker-a\",\"perm\":6,\"readQueueNums\":8,\
             \"topicSysFlag\":1,\"writeQueueNums\":4}}]}}"
        )
    };
    for version in [317, V4_4_0, 400] {
        assert_eq!(ask(version, json!({"topic": "T1"})), whole(PLAIN));
    }
    assert_eq!(ask(317, json!({"topic": "T1", "acceptStandardJsonOnly": "true"})), whole(STANDARD));
    for version in [401, V5_3_3] {
        assert_eq!(ask(version, json!({"topic": "T1"})), whole(STANDARD));
    }
}

#[test]
fn unknown_topics_have_javas_remark() {
    let response = Office::new().ask(105, json!({"topic": "中"}), "");
    let remark = "No topic route info in name server for the topic: 中\n\
                  See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details.";
    assert_eq!((response.code, response.remark.as_str()), (17, remark));
}

#[test]
fn a_slave_acts_as_master() {
    let office = Office::with("supportActingMaster=true");
    let topics = vec!["T1", "rmq_sys_SYNC_BROKER_MEMBER_broker-a"];
    for (id, address) in [(0, "a:0"), (1, "a:1"), (2, "a:2")] {
        office.register(&Broker { topics: topics.clone(), ..Broker::acting(id, address) });
    }
    assert_eq!(office.perm("T1"), json!(6));
    office.unregister(&Broker::acting(0, "a:0"));
    assert_eq!(office.perm("T1"), json!(4));
    assert_eq!(office.addresses("T1"), json!({"0": "a:1", "2": "a:2"}));
    assert_eq!(office.addresses("rmq_sys_SYNC_BROKER_MEMBER_broker-a"), json!({"1": "a:1", "2": "a:2"}));
    office.register(&Broker { counter: 9, topics, ..Broker::acting(1, "a:1") });
    assert_eq!(office.perm("T1"), json!(4));
    assert_eq!(office.ask(318, json!({}), "supportActingMaster=false").code, 0);
    assert_eq!(office.addresses("T1"), json!({"1": "a:1", "2": "a:2"}));
}

#[test]
fn slaves_without_acting_master_change_no_permission() {
    let office = Office::with("supportActingMaster=true");
    office.register(&Broker::new(0, "a:0"));
    office.register(&Broker::new(1, "a:1"));
    office.unregister(&Broker::new(0, "a:0"));
    assert_eq!((office.perm("T1"), office.addresses("T1")), (json!(6), json!({"1": "a:1"})));
}

#[test]
fn topics_come_from_masters_and_prime_slaves_only() {
    let office = Office::new();
    office.register(&Broker::new(1, "a:1"));
    assert_eq!(office.route("T1"), Value::Null);
    office.register(&Broker::acting(2, "a:2"));
    assert_eq!(office.route("T1"), Value::Null);
    office.register(&Broker::acting(1, "a:1"));
    assert_eq!(office.perm("T1"), json!(4));
}

#[test]
fn zones_keep_their_own_and_masterless_groups() {
    let office = Office::new();
    let zone = |name, zone, id, address| Broker {
        name,
        extra: json!({"__ZONE_NAME": zone, "enableActingMaster": "true"}),
        ..Broker::new(id, address)
    };
    office.register(&zone("near", "z1", 0, "n:1"));
    office.register(&zone("far", "z2", 0, "f:1"));
    office.register(&zone("headless", "z2", 1, "h:1"));
    let ask = |fields| {
        let body = office.ask(105, fields, "").body;
        let route = wire::body::TopicRouteData::decode(body.as_bytes()).unwrap();
        let brokers: Vec<_> = route.broker_datas.iter().map(|broker| broker.broker_name.clone()).collect();
        let queues: Vec<_> = route.queue_datas.iter().map(|queues| queues.broker_name.clone()).collect();
        assert_eq!(brokers, queues);
        (brokers, body.contains("{0:"))
    };
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let near = (names(&["headless", "near"]), true);
    assert_eq!(ask(json!({"topic": "T1", "__ZONE_MODE": "true", "__ZONE_NAME": "Z1"})), near);
    let all = (names(&["far", "headless", "near"]), false);
    assert_eq!(ask(json!({"topic": "T1", "__ZONE_MODE": "false", "__ZONE_NAME": "z1"})), all);
    assert_eq!(ask(json!({"topic": "T1", "__ZONE_MODE": "true", "__ZONE_NAME": " "})), all);
}

#[test]
fn write_permission_can_be_taken_and_given() {
    let office = Office::new();
    office.register(&Broker::new(0, "a:1"));
    let response = office.ask(205, json!({"brokerName": "broker-a"}), "");
    assert_eq!((response.fields["wipeTopicCount"].as_str(), office.perm("T1")), ("2", json!(4)));
    let response = office.ask(327, json!({"brokerName": "broker-a"}), "");
    assert_eq!((response.fields["addTopicCount"].as_str(), office.perm("T1")), ("2", json!(6)));
    assert_eq!(office.ask(205, json!({"brokerName": "other"}), "").fields["wipeTopicCount"], "0");
}

#[test]
fn topic_lists_can_be_disabled() {
    let office = Office::with("enableAllTopicList=false\nenableTopicList=false");
    for code in [206, 224, 311, 312, 313] {
        let response = office.ask(code, json!({"cluster": "C"}), "");
        assert_eq!((response.code, response.remark.as_str()), (1, "disable"), "{code}");
    }
    assert_eq!(office.ask(304, json!({}), "").code, 0, "that of system topics is always answered");
}

#[test]
fn cluster_and_members_are_in_the_plain_dialect() {
    let office = Office::new();
    office.register(&Broker::new(0, "a:1"));
    let expected = r#"{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"a:1"},"brokerName":"broker-a","cluster":"C","enableActingMaster":false}},"clusterAddrTable":{"C":["broker-a"]}}"#;
    assert_eq!(office.ask(106, json!({}), "").body, expected);
    let members = |broker| office.ask(901, json!({"clusterName": "X", "brokerName": broker}), "").body;
    assert_eq!(
        members("broker-a"),
        r#"{"brokerMemberGroup":{"brokerAddrs":{0:"a:1"},"brokerName":"broker-a","cluster":"X"}}"#
    );
    assert_eq!(
        members("new"),
        r#"{"brokerMemberGroup":{"brokerAddrs":{},"brokerName":"new","cluster":"X"}}"#
    );
}

#[test]
fn topic_lists_name_what_they_should() {
    let office = Office::new();
    let mut body = Broker::new(0, "a:1").body();
    for (topic, flag) in [("plain", 0), ("unit", 1), ("sub", 2), ("both", 3)] {
        let table = &mut body["topicConfigSerializeWrapper"]["topicConfigTable"];
        table[topic] = json!({"topicName": topic, "topicSysFlag": flag});
    }
    for topic in ["T1", "T2"] {
        body["topicConfigSerializeWrapper"]["topicConfigTable"].as_object_mut().unwrap().remove(topic);
    }
    office.ask(103, Broker::new(0, "a:1").fields(), &body.to_string());
    let list = |code, fields| office.ask(code, fields, "").body;
    assert_eq!(list(311, json!({})), r#"{"topicList":["both","unit"]}"#);
    assert_eq!(list(312, json!({})), r#"{"topicList":["both","sub"]}"#);
    assert_eq!(list(313, json!({})), r#"{"topicList":["sub"]}"#);
    assert_eq!(list(224, json!({"cluster": "C"})), r#"{"topicList":["both","plain","sub","unit"]}"#);
    assert_eq!(list(224, json!({"cluster": "X"})), r#"{"topicList":[]}"#);
    assert_eq!(list(224, json!({})), r#"{"topicList":[]}"#, "as RocketMQ's name server");
    assert_eq!(list(304, json!({})), r#"{"brokerAddr":"a:1","topicList":["C","broker-a"]}"#);
}

#[test]
fn topics_are_deleted_from_one_cluster_or_all() {
    let office = Office::new();
    office.register(&Broker::new(0, "a:1"));
    office.ask(216, json!({"topic": "T1", "clusterName": "X"}), "");
    assert_eq!(office.perm("T1"), json!(6));
    office.ask(216, json!({"topic": "T1", "clusterName": "C"}), "");
    office.ask(216, json!({"topic": "T2"}), "");
    assert_eq!(office.ask(206, json!({}), "").body, r#"{"topicList":[]}"#);
    assert_eq!(office.ask(216, json!({"topic": "T2"}), "").code, 0);
}

#[test]
fn topics_are_placed_by_hand_up_to_the_first_unknown_broker() {
    let office = Office::new();
    office.register(&Broker::new(0, "a:1"));
    let queues = |broker, perm| json!({"brokerName": broker, "readQueueNums": 3, "writeQueueNums": 3, "perm": perm, "topicSynFlag": 1});
    let place = |topic, queues: Value| {
        office.ask(217, json!({"topic": topic}), &json!({"queueDatas": queues}).to_string())
    };
    assert_eq!(place("N", json!([queues("broker-a", 4), queues("x", 4)])).code, 0);
    assert_eq!(office.route("N"), Value::Null);
    place("N", json!([]));
    assert_eq!(office.route("N"), Value::Null);
    place("N", json!([queues("broker-a", 4)]));
    assert_eq!(
        (office.perm("N"), office.route("N")["queueDatas"][0]["topicSysFlag"].clone()),
        (json!(4), json!(1))
    );
    place("T1", json!([queues("broker-a", 2), queues("x", 4), queues("broker-a", 1)]));
    assert_eq!(office.perm("T1"), json!(2));
}

#[test]
fn order_configurations_are_shown_in_routes_if_enabled() {
    let office = Office::with("orderMessageEnable=true");
    office.register(&Broker::new(0, "a:1"));
    office.ask(100, json!({"namespace": "ORDER_TOPIC_CONFIG", "key": "T1", "value": "broker-a:4"}), "");
    assert_eq!(office.route("T1")["orderTopicConf"], json!("broker-a:4"));
    assert_eq!(office.route("T2").get("orderTopicConf"), None);
    office.ask(318, json!({}), "orderMessageEnable=false");
    assert_eq!(office.route("T1").get("orderTopicConf"), None);
}

#[test]
fn static_topics_and_filter_servers_are_shown() {
    let office = Office::new();
    let broker = Broker::new(0, "a:1");
    let mut body = broker.body();
    body["filterServerList"] = json!(["f:1"]);
    body["topicConfigSerializeWrapper"]["topicQueueMappingInfoMap"] = json!({"T1": {"bname": "broker-a", "currIdMap": {"0": 0}, "epoch": 1, "scope": "__global__", "topic": "T1", "totalQueues": 8}});
    office.ask(103, broker.fields(), &body.to_string());
    let plain = office.ask_as(1, V4_4_0, 105, json!({"topic": "T1"}), b"").body;
    assert!(plain.contains(r#""filterServerTable":{"a:1":["f:1"]}"#), "{plain}");
    let mapping = r#""topicQueueMappingByBroker":{"broker-a":{"bname":"broker-a","currIdMap":{0:0},"dirty":false,"epoch":1,"scope":"__global__","topic":"T1","totalQueues":8}}}"#;
    assert!(plain.ends_with(mapping), "{plain}");
    assert_eq!(office.route("T1")["topicQueueMappingByBroker"]["broker-a"]["currIdMap"], json!({"0": 0}));
    assert_eq!(office.route("T2").get("topicQueueMappingByBroker"), None);
    office.register(&broker);
    assert_eq!(office.route("T1")["filterServerTable"], json!({}));
}

#[test]
fn routes_wait_until_brokers_had_time_to_register() {
    let mut office = Office::with("needWaitForService=true");
    office.register(&Broker::new(0, "a:1"));
    office.wait(44);
    let response = office.ask(105, json!({"topic": "T1"}), "");
    assert_eq!((response.code, response.remark.as_str()), (1, "name server not ready"));
    office.wait(1);
    assert_eq!(office.perm("T1"), json!(6));
}

#[test]
fn sixty_thousand_topics_are_registered_and_gone() {
    let office = Office::new();
    let broker = Broker::new(0, "a:1");
    let mut body = broker.body();
    let table = body["topicConfigSerializeWrapper"]["topicConfigTable"].as_object_mut().unwrap();
    for number in 0..60_000 {
        table.insert(format!("topic-{number}"), json!({"readQueueNums": 1, "writeQueueNums": 1, "perm": 6}));
    }
    let body = body.to_string();
    assert_eq!(office.ask(103, broker.fields(), &body).code, 0);
    for number in 0..60_000 {
        assert_eq!(office.ask(105, json!({"topic": format!("topic-{number}")}), "").code, 0);
    }
    office.unregister(&broker);
    assert_eq!(office.ask(206, json!({}), "").body, r#"{"topicList":[]}"#);
}
