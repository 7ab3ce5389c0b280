//! Topics: their creation by a send, their changes, and which of these survive a restart.

use store::FakeDisk;

use super::*;
use crate::testing::Fixture;

const READ_WRITE: i32 = PERM_READ | PERM_WRITE;

fn template(queue_nums: i32) -> Template<'static> {
    Template { default_topic: names::DEFAULT_TOPIC, queue_nums }
}

/// The topic of a send, created the way it is created while the send waits for it.
fn created(fixture: &Fixture, name: &str, template: &Template<'_>) -> Result<Arc<Topic>, Refusal> {
    let topics = &fixture.broker.tables.topics;
    let refusal = match topics.find_or_create(name, template) {
        Err(refusal) if refusal.later.is_some() => refusal,
        done => return done,
    };
    assert!(topics.find(name).is_none(), "nothing is visible before it is on disk");
    topics.commit(vec![refusal.later.unwrap().change.topics], 1).remove(0)?;
    topics.find_or_create(name, template)
}

fn with_default(fixture: &Fixture, perm: i32) {
    fixture.broker.tables.topics.put(TopicConfig::new(names::DEFAULT_TOPIC, 8, perm), 1).unwrap();
}

#[test]
fn a_send_creates_a_topic_with_the_smaller_queue_number() {
    let fixture = Fixture::new();
    with_default(&fixture, READ_WRITE | PERM_INHERIT);
    let created = created(&fixture, "New", &template(4)).unwrap();
    assert_eq!((created.config.read_queue_nums, created.config.write_queue_nums), (4, 4));
    assert_eq!(created.config.perm, READ_WRITE);
    assert_eq!(self::created(&fixture, "Wide", &template(64)).unwrap().config.write_queue_nums, 8);
}

#[test]
fn without_automatic_creation_the_topic_is_refused() {
    let fixture = Fixture::new();
    with_default(&fixture, READ_WRITE);
    let refusal = created(&fixture, "New", &template(4)).err().unwrap();
    assert_eq!(refusal.code, 17);
    assert_eq!(refusal.remark, format!("topic[New] not exist, apply first please!{FAQ}"));
    let retry = created(&fixture, "%RETRY%g", &template(4)).unwrap();
    assert_eq!((retry.config.read_queue_nums, retry.config.perm), (1, READ_WRITE));
}

#[test]
fn illegal_and_forbidden_names_are_refused_with_their_texts() {
    let fixture = Fixture::new();
    with_default(&fixture, READ_WRITE | PERM_INHERIT);
    let refused = |name| created(&fixture, name, &template(4)).err().unwrap();
    assert_eq!(refused("a b").code, 29);
    let forbidden = refused(names::CHECK_MAX_TIME_TOPIC);
    assert_eq!(forbidden.code, 16);
    assert_eq!(forbidden.remark, "Sending message to topic[TRANS_CHECK_MAX_TIME_TOPIC] is forbidden.");
}

#[test]
fn topics_survive_a_restart_and_every_change_raises_the_version() {
    let fixture = Fixture::new();
    let topics = &fixture.broker.tables.topics;
    topics.put(TopicConfig::new("A", 4, READ_WRITE), 5).unwrap();
    let (first, _) = topics.snapshot();
    topics.put(TopicConfig::new("A", 6, PERM_READ), 6).unwrap();
    let (second, _) = topics.snapshot();
    assert!(second.counter > first.counter);
    let fixture = fixture.reopened();
    let topic = fixture.broker.tables.topics.find("A").unwrap();
    assert_eq!((topic.config.read_queue_nums, topic.is_writable()), (6, false));
    assert_eq!(fixture.broker.tables.topics.snapshot().0, second);
}

#[test]
fn a_queue_is_the_same_before_and_after_a_change_of_its_topic() {
    let fixture = Fixture::new();
    let before = fixture.queue("A", 1);
    fixture.broker.tables.topics.put(TopicConfig::new("A", 8, READ_WRITE), 2).unwrap();
    assert!(Arc::ptr_eq(&before, &fixture.queue("A", 1)));
    assert!(fixture.broker.tables.log_queue("A", 8).is_none());
    assert!(fixture.broker.tables.log_queue("A", -1).is_none());
}

#[test]
fn name_servers_are_told_what_changed_since_they_last_heard() {
    // Thousands of changes, each of which is flushed.
    let fixture = Fixture::on(Arc::new(FakeDisk::new(512)), tempfile::tempdir().unwrap(), |_| {});
    let topics = &fixture.broker.tables.topics;
    topics.put(TopicConfig::new("A", 1, READ_WRITE), 1).unwrap();
    let heard = topics.generation();
    assert!(topics.changed_after(heard).unwrap().1.is_empty());
    topics.put(TopicConfig::new("B", 1, READ_WRITE), 1).unwrap();
    let (version, changed) = topics.changed_after(heard).unwrap();
    assert_eq!(changed.iter().map(|topic| topic.name()).collect::<Vec<_>>(), ["B"]);
    assert_eq!(version, topics.snapshot().0);
    for number in 0..=crate::change_log::CHANGES_KEPT {
        topics.put(TopicConfig::new("C", number as i32 % 7 + 1, READ_WRITE), 1).unwrap();
    }
    assert!(topics.changed_after(heard).is_none(), "too long ago: the whole table is due");
}
