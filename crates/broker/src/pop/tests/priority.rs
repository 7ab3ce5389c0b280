//! Topics whose queues stand for priorities (`message.type=PRIORITY`).

use std::collections::BTreeSet;

use super::*;
use crate::change::TopicChange;
use crate::config::Config;
use crate::topics::attributes;

/// A broker with the group `G` and the topic `T`, which has three queues that stand for priorities.
fn prioritized(change: impl FnOnce(&mut Config)) -> Fixture {
    let fixture = Fixture::with(change);
    fixture.broker.tables.groups.make("G", 1).unwrap();
    fixture.queue("T", 2);
    let alterations = attributes::parse("+message.type=PRIORITY").unwrap();
    let config = fixture.broker.tables.topics.find("T").unwrap().config.clone();
    fixture
        .broker
        .tables
        .topics
        .commit(vec![vec![TopicChange::Put(config, alterations)]], 1)
        .remove(0)
        .unwrap();
    fixture.queue(crate::names::TIMER_TOPIC, 0);
    fixture.queue(&fixture.broker.delivery.pops.revive_topic.clone(), 7);
    fixture
}

/// Returns for each message of a pop whether it is from a retry topic, and its queue id, in the pop's order. Each
/// queue gets a message before.
fn order(fixture: &Fixture) -> Vec<(i32, i32)> {
    (0..3).for_each(|queue_id| fixture.put("T", queue_id, b"m", b""));
    let queues = popped(fixture, 60_000).queues;
    queues.iter().map(|queue| (i32::from(queue.kind.number()), queue.queue_id)).collect()
}

#[test]
fn a_pop_takes_the_highest_priority_first_and_what_comes_back_last() {
    let fixture = prioritized(|_| {});
    fixture.queue("%RETRY%G_T", 0);
    for _ in 0..12 {
        fixture.put("%RETRY%G_T", 0, b"m", b"");
        assert_eq!(order(&fixture), [(0, 2), (0, 1), (0, 0), (1, 0)]);
    }
}

#[test]
fn the_lowest_number_may_be_the_highest_priority_and_what_comes_back_first() {
    let fixture = prioritized(|config| {
        config.pop.priority_ascends = false;
        config.pop.retry_probability_for_priority = 100;
    });
    fixture.queue("%RETRY%G_T", 0);
    for _ in 0..12 {
        fixture.put("%RETRY%G_T", 0, b"m", b"");
        assert_eq!(order(&fixture), [(1, 0), (0, 0), (0, 1), (0, 2)]);
    }
}

#[test]
fn a_changed_order_of_priorities_counts_for_the_next_pop() {
    let fixture = prioritized(|_| {});
    assert_eq!(order(&fixture), [(0, 2), (0, 1), (0, 0)]);
    let change = [("priorityOrderAsc".to_owned(), "false".to_owned())].into();
    crate::admin::update_config(
        &fixture.broker.delivery,
        &fixture.broker.runtime,
        crate::testing::ADDRESS,
        change,
        |_| {},
    )
    .unwrap();
    assert_eq!(order(&fixture), [(0, 0), (0, 1), (0, 2)]);
}

#[test]
fn a_group_may_pop_without_regard_to_priorities() {
    let fixture = prioritized(|_| {});
    let mut config = (*fixture.broker.tables.groups.find("G").unwrap()).clone();
    config.attributes.insert("priority.factor".to_owned(), "0".to_owned());
    fixture.broker.tables.groups.put(config, 1).unwrap();
    let first: BTreeSet<i32> = (0..12).map(|_| order(&fixture)[0].1).collect();
    assert_eq!(first, BTreeSet::from([0, 1, 2]));
}
