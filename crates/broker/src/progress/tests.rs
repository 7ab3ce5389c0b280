use wire::body::{ConsumeStatsList, CorrectionOffsets};
use wire::codes::request;

use super::*;
use crate::testing::Fixture;

/// A topic of two queues with three messages in the first one, and a group that consumed two of them.
fn fixture() -> Fixture {
    let fixture = Fixture::new();
    fixture.broker.tables.topics.put(TopicConfig::new("T", 2, 6), 0).unwrap();
    fixture.broker.tables.groups.make("g", 0).unwrap();
    for _ in 0..3 {
        fixture.put("T", 0, b"body", b"");
    }
    fixture.broker.tables.offsets.commit("g", "T", 0, 2);
    fixture
}

fn json(answer: (i32, String, Vec<u8>)) -> serde_json::Value {
    assert_eq!(answer.0, 0, "{}", answer.1);
    serde_json::from_slice(&answer.2).unwrap()
}

#[test]
fn a_topics_queues_are_told_with_the_time_of_the_last_message() {
    let fixture = fixture();
    let (code, _, body) = fixture.ask(request::GET_TOPIC_STATS_INFO, &[("topic", "T")], b"");
    let stats: TopicStats = wire::json::from_slice(&body).unwrap();
    assert_eq!((code, stats.offset_table.len()), (0, 2));
    let first = &stats.offset_table[&fixture.broker.runtime.message_queue("T", 0)];
    assert_eq!((first.min_offset, first.max_offset), (0, 3));
    assert!(fixture.broker.runtime.now_ms() - first.last_update_timestamp < 60_000);
    assert_eq!(stats.offset_table[&fixture.broker.runtime.message_queue("T", 1)], TopicOffset::default());
    let missing = fixture.ask(request::GET_TOPIC_STATS_INFO, &[("topic", "U")], b"");
    assert_eq!((missing.0, missing.1.as_str()), (17, "topic[U] not exist"));
}

/// The broker, consumer and pull offset that 208 `GET_CONSUME_STATS` returns for the first queue of `T`, if any.
fn stats(fixture: &Fixture, fields: &[(&str, &str)]) -> Option<(i64, i64, i64)> {
    let (code, remark, body) = fixture.ask(request::GET_CONSUME_STATS, fields, b"");
    assert_eq!(code, 0, "{remark}");
    let stats: ConsumeStats = wire::json::from_slice(&body).unwrap();
    let queue = stats.offset_table.get(&fixture.broker.runtime.message_queue("T", 0))?;
    assert_eq!(queue.last_timestamp > 0, queue.consumer_offset > 0);
    Some((queue.broker_offset, queue.consumer_offset, queue.pull_offset))
}

#[test]
fn a_group_is_found_by_its_offsets_by_a_topic_and_by_a_list() {
    let fixture = fixture();
    let expected = Some((3, 2, 2));
    assert_eq!(stats(&fixture, &[("consumerGroup", "g")]), expected);
    assert_eq!(stats(&fixture, &[("consumerGroup", "g"), ("topic", "T")]), expected);
    assert_eq!(stats(&fixture, &[("consumerGroup", "g"), ("topicList", "U;T;")]), expected);
    assert_eq!(stats(&fixture, &[("consumerGroup", "g"), ("topic", "U")]), None);
    assert_eq!(stats(&fixture, &[("consumerGroup", "h")]), None, "it committed nothing");
    assert_eq!(stats(&fixture, &[("consumerGroup", "h"), ("topic", "T")]), Some((3, 0, 0)));
    let reader = fixture.broker.tables.offsets.reader("g", "T");
    fixture.broker.tables.offsets.note_pull(&reader, 0, 3, 1, 100);
    assert_eq!(stats(&fixture, &[("consumerGroup", "g")]), Some((3, 2, 3)), "one is on its way");
}

#[test]
fn all_groups_are_told_with_the_sum_of_what_is_behind() {
    let fixture = fixture();
    let (_, _, body) = fixture.ask(request::GET_BROKER_CONSUME_STATS, &[("isOrder", "false")], b"");
    let list: ConsumeStatsList = wire::json::from_slice(&body).unwrap();
    assert_eq!((list.total_diff, list.total_inflight_diff), (1, 0));
    let of = |group: &str| list.consume_stats_list.iter().find_map(|map| map.get(group)).unwrap();
    assert_eq!(of("g").len(), 1);
    assert!(of("TOOLS_CONSUMER").is_empty());
    let (_, _, body) = fixture.ask(request::GET_BROKER_CONSUME_STATS, &[("isOrder", "true")], b"");
    let list: ConsumeStatsList = wire::json::from_slice(&body).unwrap();
    assert_eq!(list.total_diff, 0, "the topic is not ordered");
}

#[test]
fn groups_and_topics_are_told_of_each_other() {
    let fixture = fixture();
    let groups = json(fixture.ask(request::QUERY_TOPIC_CONSUME_BY_WHO, &[("topic", "T")], b""));
    assert_eq!(groups["groupList"], serde_json::json!(["g"]));
    let topics = json(fixture.ask(request::QUERY_TOPICS_BY_CONSUMER, &[("group", "g")], b""));
    assert_eq!(topics["topicList"], serde_json::json!(["T"]));
    assert_eq!(topics["brokerAddr"], "127.0.0.1:10911");
}

#[test]
fn a_clone_takes_over_offsets_of_one_topic_or_all() {
    let fixture = fixture();
    for group in ["one", "all", "no"] {
        fixture.broker.tables.groups.make(group, 0).unwrap();
    }
    let ask = |fields: &[(&str, &str)]| fixture.ask(request::CLONE_GROUP_OFFSET, fields, b"").0;
    assert_eq!(ask(&[("srcGroup", "g"), ("destGroup", "one"), ("topic", "T"), ("offline", "true")]), 0);
    assert_eq!(fixture.broker.tables.offsets.committed("one", "T", 0), Some(2));
    assert_eq!(ask(&[("srcGroup", "g"), ("destGroup", "all")]), 0);
    assert_eq!(fixture.broker.tables.offsets.committed("all", "T", 0), Some(2));
    assert_eq!(ask(&[("srcGroup", "g"), ("destGroup", "no"), ("topic", "U")]), 0);
    assert_eq!(fixture.broker.tables.offsets.topics_of("no").len(), 0);
}

#[test]
fn a_clone_that_was_answered_outlives_a_kill() {
    let fixture = fixture();
    fixture.broker.tables.groups.make("h", 0).unwrap();
    let fields = [("srcGroup", "g"), ("destGroup", "h"), ("offline", "true")];
    assert_eq!(fixture.ask(request::CLONE_GROUP_OFFSET, &fields, b"").0, 0);
    let fixture = fixture.killed();
    assert_eq!(fixture.broker.tables.offsets.committed("h", "T", 0), Some(2));
}

#[test]
fn a_reset_that_was_answered_outlives_a_kill() {
    let fixture = fixture();
    let fields = [("group", "g"), ("topic", "T"), ("timestamp", "0"), ("queueId", "0"), ("offset", "1")];
    let (code, remark, _) = fixture.ask(request::INVOKE_BROKER_TO_RESET_OFFSET, &fields, b"");
    assert_eq!(code, 0, "{remark}");
    let fixture = fixture.killed();
    assert_eq!(fixture.broker.tables.offsets.committed("g", "T", 0), Some(1));
}

#[test]
fn the_correction_is_the_smallest_offset_or_nothing_for_who_is_behind_it() {
    let fixture = fixture();
    fixture.broker.tables.groups.make("h", 0).unwrap();
    fixture.broker.tables.offsets.commit("h", "T", 0, 1);
    let ask = |compared: &str, filtered: &str| {
        let fields = [("topic", "T"), ("compareGroup", compared), ("filterGroups", filtered)];
        let (_, _, body) = fixture.ask(request::QUERY_CORRECTION_OFFSET, &fields, b"");
        wire::json::from_slice::<CorrectionOffsets>(&body).unwrap().correction_offsets
    };
    assert_eq!(ask("g", ""), BTreeMap::from([(0, 1)]));
    assert_eq!(ask("h", ""), BTreeMap::from([(0, 1)]));
    assert_eq!(ask("h", "h"), BTreeMap::from([(0, i64::MAX)]));
    assert_eq!(
        fixture.broker.tables.offsets.committed("h", "T", 0),
        Some(1),
        "a filtered group keeps its offsets"
    );
}
