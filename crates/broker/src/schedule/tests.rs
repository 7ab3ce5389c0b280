//! Delayed messages are delivered in time and never early, and delivery continues after a restart where it stopped.

use wire::properties;
use wire::properties::key;

use super::*;
use crate::send::message::delayed;
use crate::testing::Fixture;

fn delay(fixture: &Fixture, level: i32, body: &[u8], queue_id: i32) {
    fixture.queue(names::SCHEDULE_TOPIC, 17);
    fixture.broker.tables.topics.ensure("Real", queue_id + 1, 1).unwrap();
    let mut text = Vec::new();
    properties::append(&mut text, key::TAGS, b"TagA");
    properties::append(&mut text, key::WAIT_STORE_MSG_OK, b"false");
    delayed(&mut text, level, "Real", queue_id);
    fixture.put(names::SCHEDULE_TOPIC, level - 1, body, &text);
}

fn bodies(fixture: &Fixture, queue_id: i32) -> Vec<Vec<u8>> {
    fixture.messages("Real", queue_id).into_iter().map(|(body, ..)| body).collect()
}

/// Due time of the first message of a level.
fn due(fixture: &Fixture, level: i32) -> i64 {
    let queue = fixture.queue(names::SCHEDULE_TOPIC, level - 1);
    let mut units = Vec::new();
    queue.index.units_blocking(queue.index.min(), 1, &mut units).unwrap();
    units[0].tags_code
}

#[test]
fn a_message_is_delivered_when_its_level_is_over_and_not_a_millisecond_before() {
    let fixture = Fixture::new();
    delay(&fixture, 1, b"one second", 0);
    delay(&fixture, 3, b"ten seconds", 0);
    let (first, second) = (due(&fixture, 1), due(&fixture, 3));
    assert_eq!(deliver_due(&fixture.broker.engines, first - 1), first);
    assert!(bodies(&fixture, 0).is_empty());
    assert_eq!(deliver_due(&fixture.broker.engines, first), second);
    assert_eq!(bodies(&fixture, 0), [b"one second".to_vec()]);
    deliver_due(&fixture.broker.engines, second);
    assert_eq!(bodies(&fixture, 0), [b"one second".to_vec(), b"ten seconds".to_vec()]);
}

#[test]
fn a_delivered_message_keeps_its_properties_and_is_not_delayed_again() {
    let fixture = Fixture::new();
    delay(&fixture, 2, b"x", 3);
    deliver_due(&fixture.broker.engines, due(&fixture, 2));
    let (_, text, _) = fixture.messages("Real", 3).remove(0);
    let value = |name| properties::get_str(&text, name).map(str::to_owned);
    assert_eq!(value(key::DELAY).as_deref(), Some("2"));
    assert_eq!(value(key::WAIT_STORE_MSG_OK).as_deref(), Some("false"));
    assert_eq!(value(key::REAL_TOPIC).as_deref(), Some("Real"));
    assert_eq!(value(key::REAL_QUEUE_ID).as_deref(), Some("3"));
    let queue = fixture.queue("Real", 3);
    let mut units = Vec::new();
    queue.index.units_blocking(queue.index.min(), 1, &mut units).unwrap();
    assert_eq!(units[0].tags_code, i64::from(wire::hash::java_hash("TagA")));
}

#[test]
fn many_due_messages_of_one_level_are_all_delivered_in_order() {
    let fixture = Fixture::new();
    for number in 0..150 {
        delay(&fixture, 1, format!("{number}").as_bytes(), 0);
    }
    let late = due(&fixture, 1) + 60_000;
    while deliver_due(&fixture.broker.engines, late) == late {}
    let expected: Vec<_> = (0..150).map(|number| format!("{number}").into_bytes()).collect();
    assert_eq!(bodies(&fixture, 0), expected);
}

#[test]
fn delivery_goes_on_where_it_stopped_before_a_restart() {
    let fixture = Fixture::new();
    delay(&fixture, 1, b"before", 0);
    let first = due(&fixture, 1);
    deliver_due(&fixture.broker.engines, first);
    delay(&fixture, 1, b"after", 0);
    let fixture = fixture.reopened();
    deliver_due(&fixture.broker.engines, first + 100_000);
    assert_eq!(bodies(&fixture, 0), [b"before".to_vec(), b"after".to_vec()]);
}

#[test]
fn a_clock_set_back_does_not_hold_messages_longer_than_their_level() {
    let fixture = Fixture::new();
    delay(&fixture, 1, b"x", 0);
    let before = due(&fixture, 1) - 3_600_000;
    let next = deliver_due(&fixture.broker.engines, before);
    assert_eq!(next, before + 1000, "looked at again after one delay of the level, not after an hour");
    delay(&fixture, 1, b"later", 0);
    assert_eq!(deliver_due(&fixture.broker.engines, before + 999), before + 1000);
    assert!(bodies(&fixture, 0).is_empty());
    assert_eq!(deliver_due(&fixture.broker.engines, before + 1000), before + 2000);
    assert_eq!(bodies(&fixture, 0), [b"x".to_vec()]);
    deliver_due(&fixture.broker.engines, before + 2000);
    assert_eq!(bodies(&fixture, 0), [b"x".to_vec(), b"later".to_vec()]);
}

#[test]
fn a_message_the_disk_does_not_give_holds_up_its_level_for_a_minute() {
    let fixture = Fixture::new();
    delay(&fixture, 1, b"lost", 0);
    fixture.lose_log_file();
    delay(&fixture, 1, b"next", 0);
    let late = due(&fixture, 1) + 60_000;
    for second in 0..60 {
        let now_ms = late + second * 1000;
        assert_eq!(deliver_due(&fixture.broker.engines, now_ms), now_ms + 1000);
    }
    assert!(bodies(&fixture, 0).is_empty());
    deliver_due(&fixture.broker.engines, late + 60_000);
    assert_eq!(bodies(&fixture, 0), [b"next".to_vec()]);
    assert_eq!(fixture.broker.runtime.retention.undelivered.load(Ordering::Relaxed), 1);
}

#[test]
fn a_topic_without_queues_has_its_messages_when_it_gets_some() {
    let fixture = Fixture::new();
    let set_queues =
        |queues| fixture.broker.tables.topics.put(TopicConfig::new("Real", queues, 6), 1).unwrap();
    set_queues(0);
    delay(&fixture, 1, b"x", 2);
    deliver_due(&fixture.broker.engines, due(&fixture, 1));
    assert_eq!(fixture.broker.delivery.schedule.offset(1), 1);
    set_queues(1);
    assert_eq!(bodies(&fixture, 0), [b"x".to_vec()]);
}

#[test]
fn a_message_for_a_deleted_topic_is_stored_and_makes_no_topic() {
    let fixture = Fixture::new();
    delay(&fixture, 1, b"x", 2);
    let delete = wire::codes::request::DELETE_TOPIC_IN_BROKER;
    assert_eq!(fixture.ask(delete, &[("topic", "Real")], b"").0, 0);
    deliver_due(&fixture.broker.engines, due(&fixture, 1));
    assert_eq!(fixture.broker.delivery.schedule.offset(1), 1);
    assert!(fixture.broker.tables.topics.find("Real").is_none());
    assert_eq!(fixture.broker.store.find_queue("Real", 2).unwrap().max().get(), 1);
    fixture.queue("Real", 2);
    assert_eq!(bodies(&fixture, 2), [b"x".to_vec()], "it is found when the topic is made again");
}

#[test]
fn queues_that_go_under_their_topic_hold_up_no_level() {
    let fixture = Fixture::new();
    delay(&fixture, 1, b"x", 0);
    fixture.queue("Real", 0);
    fixture.broker.store.remove_topic("Real").unwrap();
    let late = due(&fixture, 1);
    assert_eq!(deliver_due(&fixture.broker.engines, late), late + 1000);
    deliver_due(&fixture.broker.engines, late + 1000);
    assert_eq!(bodies(&fixture, 0), [b"x".to_vec()]);
}

#[test]
fn a_level_above_the_highest_is_the_highest() {
    let fixture = Fixture::new();
    assert_eq!(fixture.broker.runtime.delay_levels(), 18);
    assert_eq!((fixture.broker.runtime.delay_ms(1), fixture.broker.runtime.delay_ms(18)), (1000, 7_200_000));
}
