//! Pops of a slave that acts for its master.

use super::*;
use crate::clock::Clock;
use crate::config::{Config, Role};
use crate::testing::CALLER;

const INVISIBLE_MS: i64 = 60_000;

/// A slave that acts for its master, whose clock is returned, with three messages of topic `T`.
fn acting() -> (Fixture, Clock) {
    acting_with(|_| {})
}

fn acting_with(change: impl FnOnce(&mut Config)) -> (Fixture, Clock) {
    let (clock, directory) = (Clock::standing(1_000_000), tempfile::tempdir().unwrap());
    let fixture = Fixture::timed(Arc::new(store::RealDisk), clock.clone(), directory, |config| {
        config.replication.role = Role::Slave;
        config.replication.acting.is_enabled = true;
        config.broker_id = 1;
        change(config);
    });
    fixture.broker.tables.groups.make("G", 1).unwrap();
    fixture.queue("T", 0);
    (0..3).for_each(|_| fixture.put("T", 0, b"m", b""));
    fixture.broker.replication.role.follow(1);
    fixture.broker.replication.role.agree();
    fixture.broker.replication.acting.set_acting(true);
    (fixture, clock)
}

fn acknowledge(fixture: &Fixture, found: &Popped, offset: i64) -> Result<(), crate::Refusal> {
    let handle = format!("0 {} {INVISIBLE_MS} {} 0 b 0 {offset}", found.pop_ms, found.revive_queue);
    let message =
        PoppedMessage { caller: &CALLER, group: "G", topic: "T", queue_id: 0, offset, handle: &handle };
    let mut records = ReviveRecords::new(&fixture.broker.store);
    let outcome = ack(&fixture.broker.pops, &mut records, &message);
    assert_eq!(records.len(), 0, "nothing is appended");
    outcome
}

#[test]
fn an_acting_slave_pops_and_acknowledges_from_memory() {
    let (fixture, clock) = acting();
    let broker = &fixture.broker;
    let end = broker.store.appended();
    let found = popped(&fixture, INVISIBLE_MS);
    assert_eq!(found.count, 3);
    assert_eq!(popped(&fixture, INVISIBLE_MS).count, 0, "the messages are invisible");
    (0..2).for_each(|offset| acknowledge(&fixture, &found, offset).unwrap());
    assert_eq!(broker.tables.offsets.committed("G", "T", 0), Some(0), "a message is not acknowledged");
    // The checkpoint does not leave the memory, however late it is.
    clock.set(1_000_000 + 2 * INVISIBLE_MS);
    due(&broker.pops, clock.now_ms());
    acknowledge(&fixture, &found, 2).unwrap();
    assert_eq!(broker.tables.offsets.committed("G", "T", 0), Some(3), "the master takes this offset over");
    assert_eq!(broker.store.appended(), end);
}

fn renew(fixture: &Fixture, (start, pop_ms): (i64, i64), offset: i64) -> Result<i64, crate::Refusal> {
    let handle = format!("{start} {pop_ms} {INVISIBLE_MS} 0 0 b 0 {offset}");
    let message =
        PoppedMessage { caller: &CALLER, group: "G", topic: "T", queue_id: 0, offset, handle: &handle };
    change_invisible_time(&fixture.broker.pops, &message, INVISIBLE_MS).map(|changed| changed.unwrap().pop_ms)
}

#[test]
fn an_acting_slave_changes_the_invisible_time_in_memory() {
    let (fixture, clock) = acting();
    let broker = &fixture.broker;
    let end = broker.store.appended();
    let found = popped(&fixture, INVISIBLE_MS);
    assert_eq!(found.revive_queue, 0);
    let committed = || broker.tables.offsets.committed("G", "T", 0);
    // The second message gets a new handle, and that one another handle.
    let first_ms = renew(&fixture, (0, found.pop_ms), 1).unwrap();
    clock.set(1_000_000 + INVISIBLE_MS / 2);
    let second_ms = renew(&fixture, (1, first_ms), 1).unwrap();
    assert!(found.pop_ms < first_ms && first_ms < second_ms);
    [0, 2].into_iter().for_each(|offset| acknowledge(&fixture, &found, offset).unwrap());
    assert_eq!(committed(), Some(0), "the second message is not acknowledged");
    let handle = format!("1 {second_ms} {INVISIBLE_MS} 0 0 b 0 1");
    let message =
        PoppedMessage { caller: &CALLER, group: "G", topic: "T", queue_id: 0, offset: 1, handle: &handle };
    ack(&broker.pops, &mut ReviveRecords::new(&broker.store), &message).unwrap();
    assert_eq!(committed(), Some(3));
    assert_eq!(broker.delivery.pops.in_flight_queues.held.load(Ordering::Relaxed), 0);
    assert_eq!(broker.store.appended(), end, "nothing is appended");
    // A handle of the master, whose checkpoint is not in memory here.
    let refusal = renew(&fixture, (0, 900_000), 1).unwrap_err();
    assert_eq!(refusal.code, wire::codes::response::SERVICE_NOT_AVAILABLE);
}

/// A slave that acted and stands by stores nothing and gives nothing up, because its sweep would fail every time.
#[test]
fn a_slave_that_stands_by_keeps_its_checkpoints() {
    let (fixture, clock) = acting();
    let broker = &fixture.broker;
    assert_eq!(popped(&fixture, INVISIBLE_MS).count, 3);
    broker.replication.acting.set_acting(false);
    clock.set(1_000_000 + 2 * INVISIBLE_MS);
    let cell = broker.delivery.pops.in_flight_queues.find("G", "T", 0).unwrap();
    broker.delivery.pops.advance(&broker.pops, &cell, clock.now_ms());
    let next = due(&broker.pops, clock.now_ms());
    let crate::engine::Next::At(next_ms) = next else { panic!("{next:?}") };
    assert!(next_ms > clock.now_ms() + 1_000_000, "{next_ms}");
    broker.delivery.pops.store_all(&broker.pops);
    assert!(broker.tables.log_queue(crate::names::TIMER_TOPIC, 0).is_none(), "no record is made");
    assert_eq!(broker.delivery.pops.in_flight_queues.held.load(Ordering::Relaxed), 1);
}

/// Pops at a slave that holds no checkpoint: the pop is refused, and leaves no trace.
fn is_refused(fixture: &Fixture) {
    let broker = &fixture.broker;
    let ask = ask(fixture, INVISIBLE_MS);
    let Want::Pop(pop) = &ask.want else { unreachable!() };
    let topic = broker.tables.topics.find("T").unwrap();
    let Err(Unpopped::NotStored(error)) = pick(&broker.pops, &topic, (&ask, pop), Source::Disk) else {
        panic!()
    };
    let refusal = crate::send::not_put(&broker.store, error);
    assert_eq!(refusal.code, wire::codes::response::SERVICE_NOT_AVAILABLE);
    assert!(broker.tables.topics.find(crate::names::TIMER_TOPIC).is_none(), "no topic is created");
    assert_eq!(broker.delivery.pops.pending(), []);
    let cell = broker.delivery.pops.in_flight_queues.find("G", "T", 0).unwrap();
    assert!(cell.in_flight().is_empty() && !cell.is_busy());
}

#[test]
fn a_pop_whose_checkpoint_an_acting_slave_cannot_hold_changes_nothing() {
    is_refused(&acting_with(|config| config.pop.held_max = 0).0);
}

#[test]
fn a_slave_that_does_not_act_holds_no_checkpoint() {
    let (fixture, _) = acting_with(|config| config.pop.buffer_merge = true);
    fixture.broker.replication.acting.set_acting(false);
    is_refused(&fixture);
}
