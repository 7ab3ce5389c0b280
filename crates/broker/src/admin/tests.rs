//! Administrators' requests.

use wire::codes::request;

use crate::testing::Fixture;

/// Asks for a topic to be made or changed; the code and remark of the answer.
fn put_topic(fixture: &Fixture, name: &str, filter_type: &str) -> (i32, String) {
    let fields = [
        ("topic", name),
        ("readQueueNums", "1"),
        ("writeQueueNums", "1"),
        ("perm", "6"),
        ("topicFilterType", filter_type),
    ];
    let (code, remark, _) = fixture.ask(request::UPDATE_AND_CREATE_TOPIC, &fields, b"");
    (code, remark)
}

#[test]
fn topics_with_the_names_of_cluster_and_broker_are_the_brokers_own() {
    let fixture = Fixture::with(|config| {
        config.broker_cluster_name = "C".to_owned();
        config.broker_name = "b".to_owned();
        config.trace_topic_enable = true;
        config.trace_topic = "Traces".to_owned();
    });
    crate::system_topics::create_system_topics(
        &fixture.broker.tables,
        &fixture.broker.delivery,
        &fixture.broker.runtime,
    )
    .unwrap();
    let version = fixture.broker.tables.topics.version();
    for name in ["C", "b", "C_REPLY_TOPIC", "Traces", "TBW102"] {
        let refused = (29, format!("The topic[{name}] is conflict with system topic."));
        assert_eq!(put_topic(&fixture, name, "SINGLE_TAG"), refused);
        let list = format!(r#"{{"topicConfigList":[{{"topicName":"{name}"}}]}}"#);
        let (code, remark, _) = fixture.ask(request::UPDATE_AND_CREATE_TOPIC_LIST, &[], list.as_bytes());
        assert_eq!((code, remark), refused);
        let (code, remark, _) = fixture.ask(request::DELETE_TOPIC_IN_BROKER, &[("topic", name)], b"");
        assert_eq!((code, remark), refused);
    }
    assert_eq!(fixture.broker.tables.topics.version(), version);
    assert_eq!(put_topic(&fixture, "C_", "SINGLE_TAG").0, 0);
}

#[test]
fn a_topic_is_not_deleted_without_its_name() {
    let fixture = Fixture::new();
    for name in ["", " "] {
        let (code, remark, _) = fixture.ask(request::DELETE_TOPIC_IN_BROKER, &[("topic", name)], b"");
        assert_eq!((code, remark.as_str()), (29, "The specified topic is blank."));
    }
}

#[test]
fn a_filter_type_java_does_not_know_is_refused() {
    let fixture = Fixture::new();
    let refused = |text: &str| (1, format!("topicFilterType is {text:?}, expected SINGLE_TAG or MULTI_TAG"));
    for text in ["", "single_tag", "ANY\"}"] {
        assert_eq!(put_topic(&fixture, "T", text), refused(text));
    }
    let list = br#"{"topicConfigList":[{"topicName":"T"},{"topicName":"U","topicFilterType":"X"}]}"#;
    let (code, remark, _) = fixture.ask(request::UPDATE_AND_CREATE_TOPIC_LIST, &[], list);
    assert_eq!((code, remark), refused("X"));
    assert!(fixture.broker.tables.topics.find("T").is_none());
    assert_eq!(put_topic(&fixture, "T", "MULTI_TAG").0, 0);
    assert_eq!(fixture.broker.tables.topics.find("T").unwrap().config.topic_filter_type, "MULTI_TAG");
}

#[test]
fn bounds_of_cold_reads_are_accepted_without_effect() {
    let fixture = Fixture::new();
    let without_effect = "it has no effect: cold reads run apart from hot ones here";
    for (code, body) in [
        (request::UPDATE_COLD_DATA_FLOW_CTR_CONFIG, &b"G=1000\n"[..]),
        (request::REMOVE_COLD_DATA_FLOW_CTR_CONFIG, b"G"),
    ] {
        assert_eq!(fixture.ask(code, &[], body), (0, without_effect.to_owned(), Vec::new()));
    }
    let (code, _, body) = fixture.ask(request::GET_COLD_DATA_FLOW_CTR_INFO, &[], b"");
    let expected = serde_json::json!({
        "runtimeTable": {},
        "configTable": {},
        "cgColdReadThreshold": 3_145_728,
        "globalColdReadThreshold": 104_857_600,
        "globalAcc": 0,
    });
    assert_eq!((code, serde_json::from_slice::<serde_json::Value>(&body).unwrap()), (0, expected));
    let set = |mode| {
        let (code, remark, _) =
            fixture.ask(request::SET_COMMITLOG_READ_MODE, &[("READ_AHEAD_MODE", mode)], b"");
        (code, remark)
    };
    let done = format!("set commitlog readahead mode success, mode: 1; {without_effect}");
    assert_eq!(set("1"), (0, done));
    assert_eq!((set("2").0, set("x").0), (29, 1));
}

#[test]
fn the_modes_of_groups_are_read_whole() {
    let fixture = Fixture::new();
    fixture.queue("T", 0);
    fixture.broker.tables.groups.make("g", 1).unwrap();
    let mode = r#"{"consumerGroup":"g","mode":"POP","popShareQueueNum":1,"topic":"T"}"#;
    assert_eq!(fixture.ask(request::SET_MESSAGE_REQUEST_MODE, &[], mode.as_bytes()).0, 0);
    let (code, _, body) = fixture.ask(request::GET_ALL_MESSAGE_REQUEST_MODE, &[], b"");
    let expected = format!(r#"{{"messageRequestModeMap":{{"T":{{"g":{mode}}}}}}}"#);
    assert_eq!((code, String::from_utf8(body).unwrap()), (0, expected));
}

#[test]
fn a_changed_number_of_queues_counts_for_new_topics_and_a_start_keeps_the_stored_one() {
    let fixture = Fixture::new();
    let topics = &fixture.broker.tables.topics;
    topics.put(wire::body::topic::TopicConfig::new("TBW102", 4, 7), 1).unwrap();
    let queues = || {
        let config = topics.find("TBW102").unwrap().config.clone();
        (config.read_queue_nums, config.write_queue_nums, config.perm)
    };
    crate::system_topics::create_system_topics(
        &fixture.broker.tables,
        &fixture.broker.delivery,
        &fixture.broker.runtime,
    )
    .unwrap();
    assert_eq!(queues(), (4, 4, 7));
    let change = |text: &str| fixture.ask(request::UPDATE_BROKER_CONFIG, &[], text.as_bytes()).0;
    assert_eq!(change("defaultTopicQueueNums=16"), 0);
    assert_eq!(queues(), (16, 16, 7));
    crate::system_topics::create_system_topics(
        &fixture.broker.tables,
        &fixture.broker.delivery,
        &fixture.broker.runtime,
    )
    .unwrap();
    assert_eq!(queues(), (16, 16, 7));
}
