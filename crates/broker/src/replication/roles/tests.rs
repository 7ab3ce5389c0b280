use super::*;
use crate::durability::Outcome;
use crate::role::BrokerRole;
use crate::testing::{Fixture, until};
use wire::units::LogOffset;

#[test]
fn a_broker_that_cannot_write_its_epoch_does_not_lead() {
    let fixture = Fixture::new();
    let broker = &fixture.broker;
    std::fs::create_dir(broker.runtime.config.store.root.join("epochFileCheckpoint.tmp")).unwrap();
    let (proposals, _) = mpsc::unbounded_channel();
    let mut roles = Roles::new(broker.group_parts(), proposals);
    let committed = CommittedSet { members: [BrokerId::FIRST].into(), ..CommittedSet::default() };
    let order = Order::Lead { own: BrokerId::FIRST, epoch: Epoch::new(1), committed };
    let refused = roles.perform(order).unwrap_err();
    assert!(matches!(refused, RoleError::EpochFile(_)), "{refused}");
    assert!(broker.replication.replicas.elected().epochs.last().is_none(), "the next try writes the epoch");
}

#[test]
fn a_winner_that_cannot_become_master_counts_as_dead_until_it_can() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let fixture = Fixture::with(|config| config.replication.port = taken.local_addr().unwrap().port());
    let broker = &fixture.broker;
    let in_the_way = broker.runtime.config.store.root.join("epochFileCheckpoint.tmp");
    std::fs::create_dir(&in_the_way).unwrap();
    let (proposals, _) = mpsc::unbounded_channel();
    let roles = Roles::new(broker.group_parts(), proposals);
    let (sender, orders) = std::sync::mpsc::channel();
    let committed = CommittedSet { members: [BrokerId::FIRST].into(), ..CommittedSet::default() };
    sender.send(Order::Lead { own: BrokerId::FIRST, epoch: Epoch::new(1), committed }).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || roles.run(&orders));
        until("it cannot lead", || broker.replication.replicas.elected().lead_failed);
        std::fs::remove_dir(&in_the_way).unwrap();
        until("it leads", || !broker.replication.replicas.elected().lead_failed);
        assert_eq!(broker.replication.role.current(), BrokerRole::Master);
        sender.send(Order::Stop).unwrap();
    });
}

#[test]
fn a_broker_whose_role_nobody_changes_any_more_is_fenced() {
    let fixture = Fixture::new();
    let broker = fixture.broker.clone();
    assert_eq!(broker.replication.role.current(), BrokerRole::Master);
    let panics = move || {
        let _fenced_by_panic = FencedByPanic(broker.group_parts());
        panic!("on purpose");
    };
    let thread = fixture.broker.runtime.supervisor.spawn(SupervisedWork::Role, "role", panics).unwrap();
    thread.join().unwrap();
    assert_eq!(fixture.broker.replication.role.current(), BrokerRole::Fenced);
    assert_eq!(fixture.broker.runtime.supervisor.names(), ["role"]);
}

#[test]
fn who_waits_for_slaves_is_answered_when_the_broker_becomes_slave() {
    let fixture = Fixture::new();
    let broker = &fixture.broker;
    broker.replication.durability.wait_for_slaves();
    fixture.put("T", 0, b"body", b"");
    let (sender, outcomes) = std::sync::mpsc::channel();
    broker.replication.durability.when(broker.store.appended(), move |outcome| sender.send(outcome).unwrap());
    assert!(outcomes.try_recv().is_err());
    let (proposals, _) = mpsc::unbounded_channel();
    let mut roles = Roles::new(broker.group_parts(), proposals);
    let master = "127.0.0.1:1".to_owned();
    let order = Order::Follow { own: BrokerId::FIRST, epoch: Epoch::new(1), master };
    roles.perform(order).unwrap();
    let outcome = outcomes.try_recv().unwrap();
    assert_eq!(outcome, Outcome::Deposed);
    let refusal = crate::Refusal::not_durable(&outcome).unwrap();
    assert_eq!(refusal.code, wire::codes::response::SERVICE_NOT_AVAILABLE, "{refusal}");
    roles.end_role();
}

#[test]
fn a_master_alone_in_its_set_shows_its_whole_log_from_the_first_request_on() {
    // The thread of the master waits for its port, so that it confirms nothing.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let fixture = Fixture::with(|config| {
        config.replication.controller.is_all_ack = true;
        config.replication.port = taken.local_addr().unwrap().port();
    });
    let broker = &fixture.broker;
    fixture.put("T", 0, b"body", b"");
    let end = broker.store.appended();
    let (proposals, _) = mpsc::unbounded_channel();
    let mut roles = Roles::new(broker.group_parts(), proposals);
    let other = BrokerId::new(2);
    for (members, confirmed) in
        [(vec![BrokerId::FIRST, other], LogOffset::ZERO), (vec![BrokerId::FIRST], end)]
    {
        broker.store.set_confirmed(Some(LogOffset::ZERO));
        let committed = CommittedSet { members: members.into_iter().collect(), ..CommittedSet::default() };
        let order = Order::Lead { own: BrokerId::FIRST, epoch: Epoch::new(1), committed };
        roles.perform(order).unwrap();
        assert_eq!(broker.store.confirmed(), Some(confirmed));
        roles.end_role();
    }
}

#[test]
fn a_master_forgets_the_heirs_of_its_earlier_mastership() {
    // The thread of the master waits for its port, so that it publishes no heirs.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let fixture = Fixture::with(|config| config.replication.port = taken.local_addr().unwrap().port());
    let broker = &fixture.broker;
    let other = BrokerId::new(2);
    broker.replication.replicas.elected().heirs = vec![(other, LogOffset::ZERO)];
    let (proposals, _) = mpsc::unbounded_channel();
    let mut roles = Roles::new(broker.group_parts(), proposals);
    let committed = CommittedSet { members: [BrokerId::FIRST, other].into(), ..CommittedSet::default() };
    roles.perform(Order::Lead { own: BrokerId::FIRST, epoch: Epoch::new(1), committed }).unwrap();
    assert_eq!(broker.replication.replicas.elected().heirs, []);
    roles.end_role();
}
