use super::*;

fn check(result: Result<(), Refusal>, expected: &str) {
    let found = result.err().map_or("ok".to_owned(), |refusal| {
        assert_eq!(refusal.code, 29);
        refusal.remark.into_owned()
    });
    assert_eq!(found, expected);
}

#[test]
fn topic_names_are_checked_with_the_remarks_of_java() {
    let long = "a".repeat(128);
    let retry = format!("%RETRY%{}", "a".repeat(249));
    for legal in ["T", "a-B_0%|", "%RETRY%g", &long[..127], &retry[..255], "%DLQ%g%x"] {
        check(check_topic(legal), "ok");
    }
    let illegal = ", contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$";
    check(check_topic(""), "The specified topic is blank.");
    check(check_topic(" \t"), "The specified topic is blank.");
    check(check_topic("a b"), &format!("The specified topic: a b{illegal}"));
    check(check_topic("主题"), &format!("The specified topic: 主题{illegal}"));
    check(check_topic("a.b"), &format!("The specified topic: a.b{illegal}"));
    check(check_topic(&long), &format!("The specified topic: {long}, is longer than topic max length: 127"));
    let remark = format!(
        "The specified topic is DLQ or Retry topic: {retry}, and it's longer than topic max length: 255"
    );
    check(check_topic(&retry), &remark);
}

#[test]
fn group_names_are_checked_with_the_remarks_of_java() {
    let long = "g".repeat(121);
    check(check_group(&long[..120]), "ok");
    check(check_group(""), "The specified group is blank.");
    check(check_group(&long), &format!("The specified group: {long}, is longer than group max length: 120"));
    let remark = "The specified group: a@b, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$";
    check(check_group("a@b"), remark);
}

#[test]
fn remarks_about_huge_names_stay_small() {
    let refusal = check_topic(&"文".repeat(100_000)).unwrap_err();
    assert!(refusal.remark.len() < 2_000);
}

#[test]
fn derived_names_lead_back_to_their_group() {
    assert_eq!(retry_topic("g"), "%RETRY%g");
    assert_eq!(dlq_topic("g"), "%DLQ%g");
    assert!(is_dlq_topic("%DLQ%g") && !is_retry_topic("%DLQ%g"));
}

#[test]
fn only_the_topics_of_the_list_are_closed_to_clients() {
    for topic in ["SCHEDULE_TOPIC_XXXX", "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT", "RMQ_SYS_TRANS_HALF_TOPIC"]
    {
        assert!(is_forbidden_to_send(topic) && is_system_topic(topic), "{topic}");
    }
    for topic in ["TBW102", "BenchmarkTest", "RMQ_SYS_TRACE_TOPIC", "rmq_sys_wheel_timer"] {
        assert!(!is_forbidden_to_send(topic) && is_system_topic(topic), "{topic}");
    }
    assert!(!is_system_topic("%RETRY%g") && !is_system_topic("T"));
    assert!(is_system_group("CID_RMQ_SYS_TRANS") && !is_system_group("CID_ONSAPI_PULL"));
}
