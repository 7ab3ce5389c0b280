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
    crate::topics::create_system_topics(&fixture.broker).unwrap();
    let version = fixture.broker.topics.version();
    for name in ["C", "b", "C_REPLY_TOPIC", "Traces", "TBW102"] {
        let refused = (29, format!("The topic[{name}] is conflict with system topic."));
        assert_eq!(put_topic(&fixture, name, "SINGLE_TAG"), refused);
        let list = format!(r#"{{"topicConfigList":[{{"topicName":"{name}"}}]}}"#);
        let (code, remark, _) = fixture.ask(request::UPDATE_AND_CREATE_TOPIC_LIST, &[], list.as_bytes());
        assert_eq!((code, remark), refused);
        let (code, remark, _) = fixture.ask(request::DELETE_TOPIC_IN_BROKER, &[("topic", name)], b"");
        assert_eq!((code, remark), refused);
    }
    assert_eq!(fixture.broker.topics.version(), version);
    assert_eq!(put_topic(&fixture, "C_", "SINGLE_TAG").0, 0);
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
    assert!(fixture.broker.topics.find("T").is_none());
    assert_eq!(put_topic(&fixture, "T", "MULTI_TAG").0, 0);
    assert_eq!(fixture.broker.topics.find("T").unwrap().config.topic_filter_type, "MULTI_TAG");
}
