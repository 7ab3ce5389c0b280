use super::*;

fn fails(found: Result<(), Failure>, code: Code, text: &str) {
    assert_eq!(found, Err(Failure::new(code, text)));
}

#[test]
fn names_of_topics() {
    let code = Code::IllegalTopic;
    assert_eq!(topic("%RETRY%g|a-Z_9"), Ok(()));
    fails(topic(" "), code, "The specified topic is blank");
    fails(topic(&"a".repeat(128)), code, "The specified topic is longer than topic max length 127.");
    let text = "The specified topic[a.b] contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$";
    fails(topic("a.b"), code, text);
    for system in ["TBW102", "BenchmarkTest", "rmq_sys_x"] {
        fails(topic(system), code, "cannot access system topic");
    }
}

#[test]
fn names_of_groups() {
    let code = Code::IllegalConsumerGroup;
    assert_eq!(group("g"), Ok(()));
    fails(group(""), code, "the specified group is blank");
    let long = "a".repeat(121);
    fails(group(&long), code, &format!("the specified group[{long}] is longer than group max length: 120."));
    let text = "the specified group[a b] contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$";
    fails(group("a b"), code, text);
    fails(group("CID_RMQ_SYS_x"), code, "cannot use system consumer group");
}

#[test]
fn tags_keys_and_message_groups() {
    assert_eq!((tag(""), key(""), message_group("")), (Ok(()), Ok(()), Ok(())));
    fails(tag(" "), Code::IllegalMessageTag, "tag cannot be the char sequence of whitespace");
    fails(tag("a|b"), Code::IllegalMessageTag, "tag cannot contain '|'");
    fails(tag("a\u{7f}"), Code::IllegalMessageTag, "tag cannot contain control character");
    fails(key("\t"), Code::IllegalMessageKey, "key cannot be the char sequence of whitespace");
    fails(key("a\u{1}"), Code::IllegalMessageKey, "key cannot contain control character");
    let code = Code::IllegalMessageGroup;
    fails(message_group(" "), code, "message group cannot be the char sequence of whitespace");
    fails(message_group(&"a".repeat(64)), code, "message group exceed the max size 64");
    fails(message_group("a\n"), code, "message group cannot contain control character");
    assert_eq!((lite_topic(&"a".repeat(64)), message_group(&"a".repeat(63))), (Ok(()), Ok(())));
    fails(lite_topic(&"a".repeat(65)), Code::IllegalLiteTopic, "lite topic exceed the max size 64");
}

#[test]
fn properties_of_the_system_are_reserved() {
    let code = Code::IllegalMessagePropertyKey;
    fails(user_property("UNIQ_KEY", "x"), code, "property is used by system: UNIQ_KEY");
    fails(user_property("a\u{1}", "x"), code, "the key of property cannot contain control character");
    fails(user_property("a", "\u{2}"), code, "the value of property cannot contain control character");
    for open in ["__SHARDINGKEY", "TRACE_CONTEXT", "__transactionId__", "CHECK_IMMUNITY_TIME_IN_SECONDS"] {
        assert_eq!(user_property(open, "x"), Ok(()));
    }
}

#[test]
fn invisible_times_have_bounds() {
    let code = Code::IllegalInvisibleTime;
    fails(invisible(9999, 10_000, 43_200_000), code, "the invisibleTime is too small. min is 10000");
    fails(invisible(43_200_001, 0, 43_200_000), code, "the invisibleTime is too large. max is 43200000");
    assert_eq!(invisible(10_000, 10_000, 43_200_000), Ok(()));
    assert_eq!([0, -1].map(|max_ms| invisible(43_200_001, 0, max_ms)), [Ok(()), Ok(())], "no maximum");
}
