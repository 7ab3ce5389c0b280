//! Starts after the table of topics or groups was lost, or an older copy of it was read.

use super::*;
use crate::testing::Fixture;

const READ_WRITE: i32 = PERM_READ | PERM_WRITE;

/// A broker whose `topics.json` first contained `Old` with two queues, and then also `New` and more queues of `Old`.
fn grown() -> Fixture {
    let fixture = Fixture::new();
    let topics = &fixture.broker.tables.topics;
    topics.put(TopicConfig::new("Old", 2, PERM_READ), 1).unwrap();
    let before = std::fs::read(fixture.config_path("topics.json")).unwrap();
    topics.put(TopicConfig::new("Old", 6, PERM_READ), 2).unwrap();
    for (topic, queues) in [("New", 8), ("%RETRY%G", 1), ("%DLQ%G", 1), (names::CHECK_MAX_TIME_TOPIC, 1)] {
        topics.put(TopicConfig::new(topic, queues, READ_WRITE), 3).unwrap();
        fixture.put(topic, queues - 1, topic.as_bytes(), b"");
    }
    fixture.put("Old", 4, b"m", b"");
    std::fs::write(fixture.config_path("topics.json.bak"), before).unwrap();
    fixture
}

/// Number of read queues, number of write queues, and permissions of a topic.
fn found(fixture: &Fixture, topic: &str) -> Option<(i32, i32, i32)> {
    let config = fixture.broker.tables.topics.find(topic)?.config.clone();
    Some((config.read_queue_nums, config.write_queue_nums, config.perm))
}

/// Opens the broker again after `lose` damaged its table of topics, and checks that no queue with messages is missing.
fn check(lose: impl FnOnce(&std::path::Path), old: (i32, i32, i32)) {
    let fixture = grown();
    let path = fixture.config_path("topics.json");
    fixture.broker.store.close().unwrap();
    lose(&path);
    let fixture = fixture.killed();
    assert_eq!(found(&fixture, "New"), None);
    restore(&fixture.broker.tables, &fixture.broker.delivery, &fixture.broker.runtime).unwrap();
    assert_eq!(found(&fixture, "New"), Some((8, 8, READ_WRITE)));
    assert_eq!(found(&fixture, "%RETRY%G"), Some((1, 1, READ_WRITE)));
    assert_eq!(found(&fixture, "%DLQ%G"), Some((1, 1, READ_WRITE)));
    assert_eq!(found(&fixture, names::CHECK_MAX_TIME_TOPIC), Some((1, 1, READ_WRITE)));
    assert_eq!(found(&fixture, "Old"), Some(old));
    assert_eq!(fixture.messages("New", 7).len(), 1);
    assert_eq!(fixture.messages("Old", 4).len(), 1);
    // The restored table is on disk, and the next start reads it from there.
    let fixture = fixture.killed();
    assert_eq!(fixture.broker.tables.topics.source(), Source::File);
    assert_eq!(found(&fixture, "New"), Some((8, 8, READ_WRITE)));
}

#[test]
fn a_broken_table_hides_no_topic_that_has_messages() {
    check(|path| std::fs::write(path, "{").unwrap(), (5, 5, PERM_READ));
}

#[test]
fn an_empty_table_hides_no_topic_that_has_messages() {
    check(|path| std::fs::write(path, "").unwrap(), (5, 5, PERM_READ));
}

#[test]
fn a_missing_table_hides_no_topic_that_has_messages() {
    let copy = |path: &std::path::Path| path.with_extension("json.bak");
    check(|path| std::fs::remove_file(path).unwrap(), (5, 5, PERM_READ));
    let both = |path: &std::path::Path| {
        std::fs::remove_file(path).unwrap();
        std::fs::remove_file(copy(path)).unwrap();
    };
    check(both, (5, 5, READ_WRITE));
}

#[test]
fn a_deleted_topic_stays_deleted_as_long_as_the_table_is_whole() {
    let fixture = grown();
    fixture.broker.tables.topics.commit(vec![vec![TopicChange::Remove("New".to_owned())]], 4);
    let fixture = fixture.reopened();
    restore(&fixture.broker.tables, &fixture.broker.delivery, &fixture.broker.runtime).unwrap();
    assert_eq!(found(&fixture, "New"), None);
}

#[test]
fn a_new_store_gets_no_topics() {
    let fixture = Fixture::new();
    restore(&fixture.broker.tables, &fixture.broker.delivery, &fixture.broker.runtime).unwrap();
    assert!(fixture.broker.tables.topics.all().next().is_none());
    assert!(!fixture.config_path("topics.json").exists());
}

#[test]
fn a_topic_with_queues_of_batches_gets_such_again() {
    let fixture = Fixture::new();
    let batched = TopicConfig {
        attributes: BTreeMap::from([(QUEUE_TYPE.to_owned(), BATCHED.to_owned())]),
        ..TopicConfig::new("B", 2, READ_WRITE)
    };
    fixture.broker.tables.topics.commit(vec![vec![TopicChange::Ensure(batched)]], 1);
    fixture.put("B", 1, b"m", b"");
    fixture.broker.store.close().unwrap();
    std::fs::remove_file(fixture.config_path("topics.json")).unwrap();
    let fixture = fixture.killed();
    restore(&fixture.broker.tables, &fixture.broker.delivery, &fixture.broker.runtime).unwrap();
    let topic = fixture.broker.tables.topics.find("B").unwrap();
    assert!(topic.batched && topic.config.read_queue_nums == 2);
    assert_eq!(fixture.messages("B", 1).len(), 1);
}

#[test]
fn a_lost_table_of_groups_hides_no_group_that_has_offsets() {
    for copy in [false, true] {
        let fixture = Fixture::new();
        fixture.broker.tables.groups.make("Old", 1).unwrap();
        let before = std::fs::read(fixture.config_path("subscriptionGroup.json")).unwrap();
        fixture.broker.tables.groups.make("New", 2).unwrap();
        fixture.queue("T", 0);
        fixture.broker.tables.offsets.commit("New", "T", 0, 0);
        fixture.broker.tables.offsets.commit("CID_RMQ_SYS_X", "T", 0, 0);
        fixture.broker.store.close().unwrap();
        crate::save::save(&fixture.broker.delivery, &fixture.broker.runtime, &fixture.broker.pops);
        let path = fixture.config_path("subscriptionGroup.json");
        std::fs::write(fixture.config_path("subscriptionGroup.json.bak"), before).unwrap();
        if copy {
            std::fs::write(path, "{").unwrap();
        } else {
            std::fs::remove_file(path).unwrap();
        }
        let fixture = fixture.killed();
        assert!(fixture.broker.tables.groups.find("New").is_none());
        restore(&fixture.broker.tables, &fixture.broker.delivery, &fixture.broker.runtime).unwrap();
        assert!(
            fixture.broker.tables.groups.find("New").is_some()
                && fixture.broker.tables.groups.find("Old").is_some()
        );
        assert!(fixture.broker.tables.groups.find("CID_RMQ_SYS_X").is_none());
    }
}
