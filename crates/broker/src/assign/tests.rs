use std::sync::Arc;

use wire::body::{BrokerData, QueueData, TopicRouteData};

use super::share::{ShareRequest, Strategy};
use super::*;

fn queues(count: i32) -> Vec<MessageQueue> {
    let of = |broker: &'static str| move |id| MessageQueue::new("T", broker, id);
    (0..count / 2).map(of("b")).chain((0..count - count / 2).map(of("a"))).collect()
}

fn clients(count: usize) -> Vec<String> {
    (0..count).map(|index| format!("c{index}")).collect()
}

/// The queues as a text such as `a0 a1 b0`.
fn text(queues: Option<Vec<MessageQueue>>) -> String {
    let Some(queues) = queues else { return "-".to_owned() };
    queues
        .iter()
        .map(|queue| format!("{}{}", queue.broker_name, queue.queue_id))
        .collect::<Vec<_>>()
        .join(" ")
}

fn check_pull(strategy: Strategy, (queue_count, client_count): (i32, usize), expected: &[&str]) {
    let clients = clients(client_count);
    for (client, expected) in clients.iter().zip(expected) {
        let asked = ShareRequest { strategy, client, clients: &clients, queues: queues(queue_count) };
        assert_eq!(
            text(asked.pull()),
            *expected,
            "{strategy:?} {queue_count} for {client} of {client_count}"
        );
    }
}

#[test]
fn neighbouring_queues_go_to_one_client() {
    check_pull(Strategy::Average, (8, 2), &["a0 a1 a2 a3", "b0 b1 b2 b3"]);
    check_pull(Strategy::Average, (8, 3), &["a0 a1 a2", "a3 b0 b1", "b2 b3"]);
    check_pull(Strategy::Average, (2, 3), &["a0", "b0", ""]);
}

#[test]
fn queues_go_round() {
    check_pull(Strategy::Circle, (8, 3), &["a0 a3 b2", "a1 b0 b3", "a2 b1"]);
    check_pull(Strategy::Circle, (2, 3), &["a0", "b0", ""]);
}

fn check_pop(share: i32, (queue_count, client_count): (i32, usize), expected: &[&str]) {
    let clients = clients(client_count);
    for (client, expected) in clients.iter().zip(expected) {
        let asked = ShareRequest {
            strategy: Strategy::Average,
            client,
            clients: &clients,
            queues: queues(queue_count),
        };
        let mut found = asked.pop(share).unwrap();
        found.sort();
        found.dedup();
        assert_eq!(
            text(Some(found)),
            *expected,
            "share {share}, {queue_count} for {client} of {client_count}"
        );
    }
}

#[test]
fn popping_clients_share_queues() {
    check_pop(0, (8, 3), &["a-1 b-1"; 3]);
    check_pop(-1, (8, 3), &["a-1 b-1"; 3]);
    check_pop(2, (8, 3), &["a-1 b-1"; 3]);
    check_pop(1, (8, 3), &["a0 a1 a2 a3 b0 b1", "a3 b0 b1 b2 b3", "a0 a1 a2 b2 b3"]);
    check_pop(1, (2, 4), &["a0", "b0", "a0", "b0"]);
}

#[test]
fn strangers_get_nothing() {
    let known = clients(3);
    let asked = |client, clients, count| ShareRequest {
        strategy: Strategy::Average,
        client,
        clients,
        queues: queues(count),
    };
    assert_eq!(asked("x", &known, 8).pull(), Some(Vec::new()));
    assert_eq!(asked("x", &known, 8).pop(1), Some(Vec::new()));
    assert_eq!(asked("c0", &[], 8).pull(), None);
    assert_eq!(asked("c0", &[], 8).pop(0), None);
    assert_eq!(asked("c0", &known, 0).pull(), None);
    assert_eq!(asked("c0", &known, 0).pop(1), None);
    assert_eq!(Strategy::parse("MACHINE_ROOM_NEARBY"), None);
}

#[test]
fn while_no_name_server_answers_questions_are_answered_from_what_was_known() {
    let fixture = crate::testing::Fixture::new();
    let broker = &fixture.broker;
    let known = || {
        routes::find(&broker.tables, &broker.runtime, "T")
            .map(|queues| text(queues.map(|queues| queues.readable.clone())))
    };
    assert_eq!(known(), None, "a name server is asked");
    broker.tables.routes.keep(
        "T",
        broker.runtime.now_ms(),
        broker.tables.topics.generation(),
        Some(Arc::new(TopicQueues { readable: queues(4), ..TopicQueues::default() })),
    );
    assert_eq!(known().as_deref(), Some("b0 b1 a0 a1"));
    // A change of the broker's topics makes it ask the name server again.
    fixture.queue("U", 0);
    assert_eq!(known(), None);
    broker.tables.routes.no_answer(broker.runtime.now_ms());
    assert_eq!(known().as_deref(), Some("b0 b1 a0 a1"));
    assert_eq!(
        routes::find(&broker.tables, &broker.runtime, "unknown"),
        Some(None),
        "the client keeps what it has"
    );
}

#[test]
fn producers_write_queues_of_brokers_with_a_master_and_consumers_read_all() {
    let of = |broker: &str, perm| QueueData {
        broker_name: broker.to_owned(),
        perm,
        read_queue_nums: 2,
        write_queue_nums: 1,
        ..QueueData::default()
    };
    let broker = |name: &str, id| BrokerData {
        broker_name: name.to_owned(),
        broker_addrs: [(id, "h:1".to_owned())].into(),
        ..BrokerData::default()
    };
    let route = TopicRouteData {
        queue_datas: vec![of("a", 6), of("b", 6), of("c", 4)],
        broker_datas: vec![broker("a", 0), broker("b", 1), broker("c", 0)],
        ..TopicRouteData::default()
    };
    let TopicQueues { readable, writable } = routes::queues_of("T", &route);
    assert_eq!((text(Some(readable)), text(Some(writable))), ("a0 a1 b0 b1 c0 c1".into(), "a0".into()));
}
