//! Pops on a broker without connections. Time is an argument, and messages with an invisible time of 0 need no timer.

mod acting;
mod ordered;
mod priority;
mod search;

use std::sync::atomic::Ordering;

use wire::pop::{Handle, Kind, QueueOffsets};

use super::pick::{Unpopped, pick};

use super::request::current_topic;
use super::revive::Reviver;
use super::revive_records::ReviveRecords;
use super::*;
use crate::broker::Broker;
use crate::clients::Subscription;
use crate::engine::Engine;
use crate::long_polling::{Ask, Bounds, Pop, Want};
use crate::pull::Source;
use crate::remoting::Call;
use crate::reply_sink::{PopSink, Popped};
use crate::supervisor::SupervisedWork;
use crate::testing::Fixture;

fn ask(fixture: &Fixture, invisible_ms: i64) -> Ask {
    let filter = Arc::new(Subscription::parse("T", "*", 0).unwrap());
    Ask {
        want: Want::Pop(Pop { count_max: 32, invisible_ms, from_end: false, filter }),
        topic: "T".to_owned(),
        waiters: fixture.broker.tables.topics.find("T").unwrap().waiters.clone(),
        group: "G".into(),
        queue_id: -1,
        ordered: false,
        lite: None,
        attempt_id: None,
        wait_until_ms: None,
        deadline_ms: 0,
    }
}

fn fixture(messages: usize) -> Fixture {
    let fixture = Fixture::new();
    fixture.broker.tables.groups.make("G", 1).unwrap();
    fixture.queue("T", 0);
    fixture.queue(crate::names::TIMER_TOPIC, 0);
    fixture.queue(&fixture.broker.delivery.pops.revive_topic.clone(), 7);
    for number in 0..messages {
        fixture.put("T", 0, format!("m{number}").as_bytes(), b"TAGS\x01A\x02");
    }
    fixture
}

/// The sink of a pop on this connection.
fn sink(peer: &Arc<net::ConnectionHandle>) -> Arc<dyn PopSink> {
    Call::first().later(peer, &Arc::default())
}

/// Kind, queue id and queue offsets of the popped messages.
fn places(popped: &Popped) -> Vec<(Kind, i32, Vec<i64>)> {
    let place = |queue: &QueueOffsets| (queue.kind, queue.queue_id, queue.offsets.clone());
    popped.queues.iter().map(place).collect()
}

fn popped(fixture: &Fixture, invisible_ms: i64) -> Popped {
    let ask = ask(fixture, invisible_ms);
    let Want::Pop(pop) = &ask.want else { unreachable!() };
    let topic = fixture.broker.tables.topics.find("T").unwrap();
    pick(&fixture.broker.pops, &topic, (&ask, pop), Source::Disk).ok().unwrap().popped
}

/// Runs rounds of a new revive engine's state, at a time when all checkpoints are due.
fn revive(fixture: &Fixture) {
    let broker = &fixture.broker;
    let now_ms = broker.runtime.now_ms() + 60_000;
    let timer = broker.tables.log_queue(crate::names::TIMER_TOPIC, 0).unwrap();
    broker.delivery.timer.read_ms.store(now_ms, Ordering::Relaxed);
    broker.delivery.timer.queue_offset.store(timer.index.max().to_i64(), Ordering::Relaxed);
    let mut reviver = Reviver::new(broker.pops.clone());
    reviver.round(now_ms);
    crate::position_writer::wait_flushed(&broker.store, broker.store.appended());
    reviver.round(now_ms);
}

fn bodies(fixture: &Fixture, topic: &str) -> Vec<(String, i32)> {
    let text = |body: Vec<u8>| String::from_utf8(body).unwrap();
    fixture.messages(topic, 0).into_iter().map(|(body, _, times)| (text(body), times)).collect()
}

#[test]
fn what_is_over_goes_to_the_retry_topic_once() {
    let fixture = fixture(3);
    let first = popped(&fixture, 0);
    assert_eq!((first.count, places(&first)), (3, vec![(Kind::Normal, 0, vec![0, 1, 2])]));
    let mut notes = ReviveRecords::new(&fixture.broker.store);
    let acks = wire::body::Acks {
        offset: 1,
        group: "G".to_owned(),
        topic: "T".to_owned(),
        pop_ms: first.pop_ms,
        ..wire::body::Acks::default()
    };
    notes.acks(&fixture.broker.pops, first.revive_queue, &acks, (0, 1)).unwrap();
    notes.append(&fixture.broker.store, &fixture.broker.delivery, 1).unwrap();
    revive(&fixture);
    let expected = [("m0".to_owned(), 1), ("m2".to_owned(), 1)];
    assert_eq!(bodies(&fixture, "%RETRY%G_T"), expected);
    revive(&fixture);
    assert_eq!(bodies(&fixture, "%RETRY%G_T"), expected, "progress is kept in the offsets of the group");
    let again = popped(&fixture, 0);
    assert_eq!((again.count, places(&again)), (2, vec![(Kind::RetryV1, 0, vec![0, 1])]));
    revive(&fixture);
    let times: Vec<i32> = bodies(&fixture, "%RETRY%G_T").into_iter().map(|(_, times)| times).collect();
    assert_eq!(times, [1, 1, 2, 2]);
}

#[test]
fn what_nobody_wants_any_more_does_not_come_back() {
    let fixture = fixture(1);
    popped(&fixture, 0);
    let change = crate::change::GroupChange::Remove { group: "G".to_owned(), clean_offsets: false };
    fixture.broker.tables.groups.commit(vec![vec![change]], 1);
    revive(&fixture);
    assert_eq!(bodies(&fixture, "%RETRY%G_T"), []);
}

#[test]
fn a_pop_that_cannot_be_stored_returns_nothing() {
    let fixture = fixture(2);
    fixture.broker.store.close().unwrap();
    let ask = ask(&fixture, 60_000);
    let Want::Pop(pop) = &ask.want else { unreachable!() };
    let topic = fixture.broker.tables.topics.find("T").unwrap();
    assert!(pick(&fixture.broker.pops, &topic, (&ask, pop), Source::Disk).is_err());
    let cell = fixture.broker.delivery.pops.in_flight_queues.make("G", "T", 0);
    assert!(cell.in_flight().is_empty() && !cell.is_busy());
}

#[test]
fn the_offset_follows_the_disk() {
    let fixture = fixture(2);
    popped(&fixture, 60_000);
    assert_eq!(popped(&fixture, 60_000).count, 0, "nobody gets a message twice");
    crate::position_writer::wait_flushed(&fixture.broker.store, fixture.broker.store.appended());
    crate::save::save(&fixture.broker.delivery, &fixture.broker.runtime, &fixture.broker.pops);
    assert_eq!(fixture.broker.tables.offsets.committed("G", "T", 0), Some(2));
}

#[test]
fn a_queue_that_is_popped_is_passed_over() {
    let fixture = fixture(2);
    let cell = fixture.broker.delivery.pops.in_flight_queues.make("G", "T", 0);
    let busy = cell.occupy().unwrap();
    let nothing = popped(&fixture, 60_000);
    assert_eq!((nothing.count, nothing.rest), (0, 2));
    drop(busy);
    assert_eq!(popped(&fixture, 60_000).count, 2);
}

#[test]
fn messages_of_a_retry_topic_carry_their_handle() {
    let fixture = fixture(0);
    fixture.put("%RETRY%G_T", 0, b"again", b"KEYS\x01k\x02");
    let found = popped(&fixture, 60_000);
    let record = wire::record::RecordView::parse(&found.body).unwrap();
    assert_eq!((record.topic(), record.body()), (&b"T"[..], &b"again"[..]));
    let text = wire::properties::get_str(record.properties(), "POP_CK").unwrap();
    let handle = Handle::parse(text).unwrap();
    assert_eq!(
        (handle.kind, handle.offset, handle.pop_ms),
        (wire::pop::Kind::RetryV1, Some(0), found.pop_ms)
    );
    assert_eq!(wire::properties::get_str(record.properties(), "KEYS"), Some("k"));
}

/// Pops, then deletes the group or topic with `forget` while the pop is in flight. The offsets left afterwards must be those
/// the broker has after a restart.
fn deleted_in_flight(forget: impl Fn(&Broker)) -> Fixture {
    let fixture = fixture(2);
    let broker = &fixture.broker;
    assert_eq!(popped(&fixture, 60_000).count, 2);
    let cell = broker.delivery.pops.in_flight_queues.find("G", "T", 0).unwrap();
    forget(broker);
    crate::position_writer::wait_flushed(&broker.store, broker.store.appended());
    // A thread that still has a handle of the in-flight queue.
    broker.delivery.pops.advance(&broker.pops, &cell, broker.runtime.now_ms());
    cell.commit(&broker.tables.offsets, 2);
    crate::save::save(&broker.delivery, &broker.runtime, &broker.pops);
    assert!(cell.in_flight().is_empty());
    assert_eq!(broker.tables.offsets.committed("G", "T", 0), None);
    fixture
}

#[test]
fn a_group_that_was_deleted_and_made_again_begins_anew() {
    let fixture = deleted_in_flight(|broker| {
        let change = crate::change::GroupChange::Remove { group: "G".to_owned(), clean_offsets: false };
        broker.tables.groups.commit(vec![vec![change]], 1);
        broker.delivery.pops.forget_group("G");
        broker.tables.offsets.forget_group("G");
    });
    assert_eq!(popped(&fixture, 60_000).count, 0, "nobody pops for a group that is gone");
    assert_eq!(fixture.broker.tables.offsets.committed("G", "T", 0), None);
    fixture.broker.tables.groups.make("G", 2).unwrap();
    assert_eq!(popped(&fixture, 60_000).count, 2);
}

#[test]
fn a_topic_that_was_deleted_and_made_again_is_not_popped_by_those_who_waited_for_the_old_one() {
    let old = std::cell::RefCell::new(None);
    let fixture = deleted_in_flight(|broker| {
        *old.borrow_mut() = broker.tables.topics.find("T");
        broker.tables.topics.commit(vec![vec![crate::change::TopicChange::Remove("T".to_owned())]], 1);
        broker.delivery.pops.forget_topic("T");
        broker.tables.offsets.forget_topic("T");
    });
    fixture.queue("T", 0);
    let old = old.take().unwrap();
    let ask = Ask { waiters: old.waiters.clone(), ..ask(&fixture, 60_000) };
    let Want::Pop(pop) = &ask.want else { unreachable!() };
    assert_eq!(pick(&fixture.broker.pops, &old, (&ask, pop), Source::Disk).ok().unwrap().popped.count, 0);
    assert_eq!(fixture.broker.tables.offsets.committed("G", "T", 0), None);
    let refusal = current_topic(&fixture.broker.tables, &ask).err().unwrap();
    assert_eq!(refusal.code, wire::codes::response::TOPIC_NOT_EXIST);
}

#[test]
fn checkpoints_in_memory_of_a_deleted_group_are_not_counted_any_more() {
    let fixture = Fixture::with(|config| config.pop.buffer_merge = true);
    fixture.broker.tables.groups.make("G", 1).unwrap();
    fixture.queue("T", 0);
    fixture.put("T", 0, b"m", b"");
    assert_eq!(popped(&fixture, 60_000).count, 1);
    let held = || fixture.broker.delivery.pops.in_flight_queues.held.load(Ordering::Relaxed);
    assert_eq!(held(), 1);
    fixture.broker.delivery.pops.forget_group("G");
    assert_eq!(held(), 0);
}

#[test]
fn what_a_connection_waits_for_ends_with_it() {
    let fixture = fixture(0);
    let broker = &fixture.broker;
    let peer = |id| Arc::new(net::ConnectionHandle::detached(id, crate::testing::ADDRESS));
    let (one, two) = (peer(1), peer(2));
    let bounds = Bounds { all: 10, list: 10 };
    for deadline_ms in 1..=3 {
        let ask = Arc::new(Ask { deadline_ms, ..ask(&fixture, 60_000) });
        broker.delivery.pops.poll_timeouts.hold(&sink(&one), &ask, bounds).ok().unwrap();
        broker.delivery.pops.poll_timeouts.hold(&sink(&two), &ask, bounds).ok().unwrap();
    }
    let waiting = || broker.tables.topics.find("T").unwrap().waiters.count_of("G", -1);
    assert_eq!(waiting(), 6);
    broker.delivery.closed(1);
    assert_eq!(waiting(), 3);
    assert_eq!(broker.delivery.pops.poll_timeouts.expired(2).len(), 2, "the others keep their deadlines");
    broker.delivery.closed(2);
    assert_eq!((waiting(), broker.delivery.pops.poll_timeouts.earliest()), (0, None));
    assert!(!broker.tables.topics.find("T").unwrap().waiters.has_count());
}

/// Two connections whose pops wait for any queue of `T`.
fn waiting_pops(fixture: &Fixture) -> [Arc<net::ConnectionHandle>; 2] {
    let bounds = Bounds { all: 10, list: 10 };
    [1, 2].map(|id| {
        let peer = Arc::new(net::ConnectionHandle::detached(id, crate::testing::ADDRESS));
        let deadline_ms = fixture.broker.runtime.now_ms() + 60_000 * i64::try_from(id).unwrap();
        let ask = Arc::new(Ask { deadline_ms, wait_until_ms: Some(deadline_ms), ..ask(fixture, 60_000) });
        fixture.broker.delivery.pops.poll_timeouts.hold(&sink(&peer), &ask, bounds).ok().unwrap();
        peer
    })
}

#[test]
fn a_pop_that_waits_runs_on_its_own_connection() {
    let fixture = fixture(0);
    let [one, two] = waiting_pops(&fixture);
    fixture.put("T", 0, b"m", b"");
    let cell = fixture.broker.delivery.pops.in_flight_queues.make("G", "T", 0);
    assert!(cell.in_flight().is_empty(), "whoever stores a message pops for nobody");
    assert_eq!(crate::testing::answers(one.pushed()), [(0, 1)]);
    assert!(two.pushed().is_empty());
}

#[test]
fn a_message_that_came_for_a_connection_that_ended_goes_to_the_next() {
    let fixture = fixture(0);
    let [one, two] = waiting_pops(&fixture);
    fixture.put("T", 0, b"m", b"");
    one.abort();
    assert_eq!(crate::testing::answers(two.pushed()), [(0, 1)]);
    assert_eq!(fixture.broker.delivery.pops.poll_timeouts.earliest(), None);
}

#[test]
fn what_pops_return_is_counted_for_their_group() {
    let fixture = fixture(3);
    let bytes = popped(&fixture, 60_000).body.len() as u64;
    popped(&fixture, 60_000);
    let delivered = fixture.broker.tables.offsets.delivered();
    let (key, counted) = delivered.iter().next().unwrap();
    assert_eq!((key.as_str(), counted.messages, counted.bytes, counted.found), ("T@G", 3, bytes, 1));
}

#[test]
fn an_acknowledgement_on_its_way_to_the_disk_counts() {
    let fixture = Fixture::with(|config| config.store.flush_interval = std::time::Duration::from_secs(3600));
    let broker = &fixture.broker;
    broker.tables.groups.make("G", 1).unwrap();
    fixture.queue(crate::names::TIMER_TOPIC, 0);
    fixture.queue(&broker.delivery.pops.revive_topic, 7);
    fixture.put("T", 0, b"m", b"");
    let (done, changed) = std::sync::mpsc::channel();
    broker.replication.durability.set_mode(store::FlushMode::Sync, move || done.send(()).unwrap());
    changed.recv().unwrap();
    let found = popped(&fixture, 0);
    assert_eq!(found.count, 1);
    crate::position_writer::wait_flushed(&broker.store, broker.store.appended());
    let acks = wire::body::Acks {
        group: "G".to_owned(),
        topic: "T".to_owned(),
        pop_ms: found.pop_ms,
        ..wire::body::Acks::default()
    };
    // The acknowledgement is appended as the timer delivers it, and nobody waits for the flush.
    let queue = broker.tables.log_queue(&broker.delivery.pops.revive_topic, found.revive_queue).unwrap();
    let mut batch = broker.store.batch();
    let body = wire::json::to_vec(&acks);
    batch.push(&queue.index, &crate::testing::message(&body, b"TAGS\x01ack\x02")).unwrap();
    broker.store.append(&mut batch, broker.runtime.now_ms()).unwrap();
    revive(&fixture);
    assert_eq!(bodies(&fixture, "%RETRY%G_T"), []);
}

#[test]
fn messages_that_may_have_to_come_back_are_kept() {
    let fixture = fixture(0);
    let broker = &fixture.broker;
    for _ in 0..25 {
        fixture.put("T", 0, &[7; 100_000], b"");
    }
    let mut count = 0;
    while count < 12 {
        count += popped(&fixture, 0).count;
    }
    crate::position_writer::wait_flushed(&broker.store, broker.store.appended());
    crate::save::save(&broker.delivery, &broker.runtime, &broker.pops);
    assert_eq!(broker.tables.offsets.committed("G", "T", 0), Some(count.into()));
    broker.store.checkpoint().unwrap();
    let clean = || crate::retention::clean(&broker.retention_parts(), 4_000_000_000_000, 4);
    let min = || broker.tables.log_queue("T", 0).unwrap().index.min().get();
    clean();
    assert_eq!(min(), 0);
    revive(&fixture);
    assert_eq!(bodies(&fixture, "%RETRY%G_T").len(), count as usize);
    clean();
    assert!(min() >= 10, "they are in the retry topic now");
}

#[test]
fn messages_that_are_gone_when_they_should_come_back_are_counted() {
    let fixture = fixture(3);
    popped(&fixture, 0);
    let broker = &fixture.broker;
    broker.store.remove_topic("T").unwrap();
    revive(&fixture);
    assert_eq!(bodies(&fixture, "%RETRY%G_T"), []);
    assert_eq!(broker.runtime.retention.undelivered.load(Ordering::Relaxed), 3);
}

#[test]
fn a_record_the_disk_does_not_give_holds_up_the_others_for_a_minute() {
    let fixture = fixture(1);
    let broker = &fixture.broker;
    let first = popped(&fixture, 0);
    fixture.lose_log_file();
    fixture.put("T", 0, b"later", b"");
    // Moves the counter on, so that the checkpoint of the next pop goes to the same revive queue.
    while broker.delivery.pops.next_revive_queue(8) != (first.revive_queue + 7) % 8 {}
    let second = popped(&fixture, 0);
    assert_eq!((second.count, second.revive_queue), (1, first.revive_queue));
    let start = broker.runtime.now_ms() + 60_000;
    broker.delivery.timer.read_ms.store(start + 100_000, Ordering::Relaxed);
    let mut reviver = Reviver::new(broker.pops.clone());
    for second in 0..60 {
        reviver.round(start + second * 1000);
    }
    assert_eq!(bodies(&fixture, "%RETRY%G_T"), []);
    reviver.round(start + 60_000);
    assert_eq!(bodies(&fixture, "%RETRY%G_T"), [("later".to_owned(), 1)]);
}

#[test]
fn a_message_without_room_for_more_properties_comes_back_as_it_is() {
    let fixture = fixture(0);
    let full = format!("FULL\x01{}\x02", "x".repeat(32_755));
    fixture.put("T", 0, b"m", full.as_bytes());
    popped(&fixture, 0);
    revive(&fixture);
    assert_eq!(bodies(&fixture, "%RETRY%G_T"), [("m".to_owned(), 1)]);
}

#[test]
fn an_acknowledgement_is_answered_when_it_is_stored() {
    let fixture = fixture(2);
    let found = popped(&fixture, 60_000);
    let ack = |offset: &str| {
        let (pop_ms, revive_queue) = (found.pop_ms, found.revive_queue);
        let handle = format!("0 {pop_ms} 60000 {revive_queue} 0 broker 0 {offset}");
        let fields = [
            ("topic", "T"),
            ("queueId", "0"),
            ("offset", offset),
            ("extraInfo", &handle),
            ("consumerGroup", "G"),
        ];
        fixture.ask(200_051, &fields, b"").0
    };
    assert_eq!(ack("0"), 0);
    fixture.broker.store.close().unwrap();
    assert_eq!(ack("1"), wire::codes::response::SERVICE_NOT_AVAILABLE);
}

#[test]
fn nothing_is_popped_that_nobody_would_bring_back() {
    for duty in [SupervisedWork::Timer, SupervisedWork::Revive] {
        let fixture = fixture(1);
        let check = || request::check_invisible(&fixture.broker.runtime, 60_000);
        assert_eq!(check(), Ok(()));
        fixture
            .broker
            .runtime
            .supervisor
            .spawn(duty, "a thread", || panic!("on purpose"))
            .unwrap()
            .join()
            .unwrap();
        assert_eq!(check().unwrap_err().code, wire::codes::response::SERVICE_NOT_AVAILABLE);
    }
}
