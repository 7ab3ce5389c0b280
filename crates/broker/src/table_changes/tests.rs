use std::collections::BTreeSet;

use replica::in_sync::{CommittedSet, SetEpoch};

use super::*;
use crate::testing::Fixture;

const SLAVE: BrokerId = BrokerId::new(2);

/// A broker of a set under controllers that is its master, with one slave in the in-sync set.
fn master() -> Fixture {
    let fixture = Fixture::with(|config| config.replication.controller.is_enabled = true);
    let broker = &fixture.broker;
    let members = BTreeSet::from([BrokerId::new(1), SLAVE]);
    broker.replicas.elected().own = 1;
    broker.replicas.elected().in_sync = CommittedSet { members, epoch: SetEpoch(1) };
    broker.table_copies.begin(broker.clock.steady());
    broker.role.lead();
    fixture
}

fn run<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.unwrap().block_on(future)
}

fn commit(fixture: &Fixture, offset: i64) -> TableVersions {
    fixture.broker.offsets.commit("g", "T", 0, offset);
    offsets_up_to(fixture.broker.offsets.generation_of("g", "T", 0))
}

#[test]
fn an_offset_waits_for_the_slaves_that_may_be_elected() {
    let fixture = master();
    let broker = &fixture.broker;
    let wanted = commit(&fixture, 7);
    assert!(broker.table_copies.note(SLAVE, TableVersions::default()));
    assert!(!are_copied(broker, &wanted));
    let slave = async {
        tokio::task::yield_now().await;
        let TableChanges { versions, offsets } = look(broker, SLAVE, TableVersions::default()).await;
        assert_eq!(offsets.offset_table["T@g"][&0], 7);
        assert!(!are_copied(broker, &wanted), "it was sent and may be lost");
        broker.table_copies.note(SLAVE, versions);
    };
    let (outcome, ()) = run(async { tokio::join!(wait(broker, wanted), slave) });
    assert_eq!(outcome, Ok(()));
    assert!(are_copied(broker, &wanted), "also what nobody changed since");
    let next = commit(&fixture, 8);
    assert!(!are_copied(broker, &next) && are_copied(broker, &wanted));
    // A set that may be committed counts before the master hears of it.
    broker.replicas.elected().proposed = BTreeSet::from([BrokerId::new(3)]);
    assert!(!are_copied(broker, &wanted));
}

#[test]
fn a_master_that_is_deposed_tells_nothing_of_its_tables() {
    let fixture = master();
    let broker = &fixture.broker;
    let wanted = commit(&fixture, 7);
    broker.table_copies.note(SLAVE, TableVersions { offsets: u64::MAX, topics: u64::MAX, groups: u64::MAX });
    assert!(are_copied(broker, &wanted));
    broker.role.follow(2);
    broker.replicas.elected().in_sync = CommittedSet::default();
    assert!(!are_copied(broker, &wanted), "nobody is in the set, which is that of another one now");
    let refusal = run(wait(broker, wanted)).unwrap_err();
    assert!(refusal.remark.contains("no longer the master"), "{refusal:?}");
    let refusal = changes_for(broker, SLAVE, TableVersions::default(), |_| panic!()).unwrap_err();
    assert_eq!(refusal.remark, NOT_MASTER);
}
