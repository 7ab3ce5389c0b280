use std::collections::BTreeSet;

use replica::in_sync::{CommittedSet, SetEpoch};

use store::RealDisk;
use wire::body::TopicConfig;

use super::*;
use crate::broker::Broker;
use crate::change::{Change, GroupChange, TopicChange};
use crate::clock::Clock;
use crate::testing::Fixture;

const SLAVE: BrokerId = BrokerId::new(2);

/// Makes a broker that is the master of a set under controllers, with a slave in the in-sync set.
fn master() -> Fixture {
    appointed(Fixture::with(|config| config.replication.controller.is_enabled = true))
}

fn appointed(fixture: Fixture) -> Fixture {
    let broker = &fixture.broker;
    let members = BTreeSet::from([BrokerId::new(1), SLAVE]);
    broker.replication.replicas.elected().own = 1;
    broker.replication.replicas.elected().in_sync = CommittedSet { members, epoch: SetEpoch(1) };
    broker.replication.table_copies.begin(broker.runtime.clock.steady());
    broker.replication.role.lead();
    fixture
}

fn run<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.unwrap().block_on(future)
}

fn commit(fixture: &Fixture, offset: i64) -> TableVersions {
    fixture.broker.tables.offsets.commit("g", "T", 0, offset);
    offsets_up_to(fixture.broker.tables.offsets.generation_of("g", "T", 0))
}

#[test]
fn an_offset_waits_for_the_slaves_that_may_be_elected() {
    let fixture = master();
    let broker = &fixture.broker;
    let wanted = commit(&fixture, 7);
    assert!(broker.replication.table_copies.note(SLAVE, TableVersions::default(), Duration::ZERO));
    assert!(!are_copied(&broker.replication, &broker.runtime, &wanted));
    let slave = async {
        tokio::task::yield_now().await;
        let (versions, changes) = look(
            &broker.tables,
            &broker.replication,
            &TableVersions::default(),
            AnswerPart::after(None).unwrap(),
        );
        assert_eq!(changes.offsets.unwrap().table.offset_table["T@g"][&0], 7);
        assert!(!are_copied(&broker.replication, &broker.runtime, &wanted), "it was sent and may be lost");
        broker.replication.table_copies.note(SLAVE, versions, Duration::ZERO);
    };
    let (outcome, ()) =
        run(async { tokio::join!(wait(&broker.replication, &broker.runtime, wanted), slave) });
    assert_eq!(outcome, Ok(()));
    assert!(are_copied(&broker.replication, &broker.runtime, &wanted), "also what nobody changed since");
    let next = commit(&fixture, 8);
    assert!(
        !are_copied(&broker.replication, &broker.runtime, &next)
            && are_copied(&broker.replication, &broker.runtime, &wanted)
    );
    // A set that may be committed counts before the master hears of it.
    broker.replication.replicas.elected().proposed = BTreeSet::from([BrokerId::new(3)]);
    assert!(!are_copied(&broker.replication, &broker.runtime, &wanted));
}

#[test]
fn a_slave_that_asks_no_more_is_told_to_whoever_leads_the_set() {
    let directory = tempfile::tempdir().unwrap();
    let clock = Clock::standing(1_000_000);
    let fixture = appointed(Fixture::timed(Arc::new(RealDisk), clock, directory, |config| {
        config.replication.controller.is_enabled = true;
    }));
    let broker = &fixture.broker;
    let mut silent = broker.replication.table_copies.silent();
    let wanted = commit(&fixture, 7);
    assert!(broker.replication.table_copies.note(SLAVE, TableVersions::default(), Duration::ZERO));
    let later = async {
        tokio::task::yield_now().await;
        broker.runtime.clock.set(broker.runtime.now_ms() + 2_000);
    };
    let (outcome, ()) =
        run(async { tokio::join!(wait(&broker.replication, &broker.runtime, wanted), later) });
    assert_eq!(outcome.unwrap_err().code, response::SYSTEM_BUSY);
    assert_eq!(*silent.borrow_and_update(), [SLAVE]);
}

#[test]
fn a_master_that_is_deposed_tells_nothing_of_its_tables() {
    let fixture = master();
    let broker = &fixture.broker;
    let wanted = commit(&fixture, 7);
    broker.replication.table_copies.note(
        SLAVE,
        TableVersions { offsets: u64::MAX, topics: u64::MAX, groups: u64::MAX },
        Duration::ZERO,
    );
    assert!(are_copied(&broker.replication, &broker.runtime, &wanted));
    broker.replication.role.follow(2);
    broker.replication.replicas.elected().in_sync = CommittedSet::default();
    assert!(
        !are_copied(&broker.replication, &broker.runtime, &wanted),
        "nobody is in the set, which is that of another one now"
    );
    let refusal = run(wait(&broker.replication, &broker.runtime, wanted)).unwrap_err();
    assert!(refusal.remark.contains("no longer the master"), "{refusal:?}");
    let question = Question { slave: SLAVE, has: TableVersions::default(), after: None };
    let refusal = changes_for(&broker.metadata_parts(), question, |_| panic!()).unwrap_err();
    assert_eq!(refusal.remark, NOT_MASTER);
}

/// Copies the changes at `master` after the slave's versions. Returns the new versions, the changes, and the number
/// of parts.
fn copy(master: &Broker, slave: &Broker, has: TableVersions) -> (TableVersions, TableChanges, usize) {
    let (versions, mut all) =
        look(&master.tables, &master.replication, &has, AnswerPart::after(None).unwrap());
    let mut parts = 1;
    while let Some(end) = all.more.clone() {
        let (_, part) =
            look(&master.tables, &master.replication, &has, AnswerPart::after(Some(&end)).unwrap());
        assert!(json::to_vec(&part).len() < 2 * PART_BYTES, "part {parts} is {part:?}");
        assert!(all.extend(part));
        parts += 1;
    }
    let changes: TableChanges = json::from_slice(&json::to_vec(&all)).unwrap();
    all.topics.map(|topics| slave.tables.topics.take_changes(topics)).transpose().unwrap();
    all.groups.map(|groups| slave.tables.groups.take_changes(groups)).transpose().unwrap();
    slave.tables.offsets.take_changes(all.offsets.unwrap(), |_, _| false);
    (versions, changes, parts)
}

fn assert_same(master: &Broker, slave: &Broker) {
    let topics = |broker: &Broker| {
        let (version, topics) = broker.tables.topics.snapshot();
        (version, topics.iter().map(|topic| topic.config.clone()).collect::<Vec<_>>())
    };
    assert_eq!(topics(slave), topics(master));
    let (groups, copied) = (master.tables.groups.snapshot(), slave.tables.groups.snapshot());
    assert_eq!((copied.data_version, copied.forbidden_table), (groups.data_version, groups.forbidden_table));
    assert_eq!(copied.subscription_group_table, groups.subscription_group_table);
    assert_eq!(slave.tables.offsets.table().offset_table, master.tables.offsets.table().offset_table);
}

fn change(broker: &Arc<Broker>, change: impl Into<crate::change::Change>) {
    let outcomes = broker.metadata_parts().store_changes(std::iter::once(change.into()));
    assert_eq!(outcomes, [Ok(())]);
}

#[test]
fn large_tables_come_in_parts_and_later_only_what_changed() {
    let (one, other) = (master(), Fixture::new());
    let (master, slave) = (&one.broker, &other.broker);
    let remove = |group: &str, clean_offsets| GroupChange::Remove { group: group.to_owned(), clean_offsets };
    slave.tables.offsets.commit("of-before", "T", 0, 1);
    for number in 0..100 {
        change(master, Change::ensure_topic(TopicConfig::new(format!("T{number}"), 4, 6)));
        change(master, GroupChange::Ensure(format!("g{number}")));
        (0..4).for_each(|queue| {
            assert!(master.tables.offsets.commit(&format!("g{number}"), "T1", queue, number))
        });
    }
    let (has, changes, parts) = copy(master, slave, TableVersions::default());
    assert!(parts > 10, "{parts}");
    assert!(changes.topics.unwrap().is_whole && changes.groups.unwrap().is_whole);
    assert_same(master, slave);

    change(master, Change::ensure_topic(TopicConfig::new("New", 4, 6)));
    change(master, TopicChange::Remove("T7".to_owned()));
    change(master, remove("g3", true));
    change(master, remove("g4", false));
    change(master, remove("g5", true));
    change(master, GroupChange::Ensure("g5".to_owned()));
    master.tables.offsets.commit("g5", "T1", 2, 77);
    let (topic, group) = ("T2".to_owned(), "g9".to_owned());
    change(master, GroupChange::Forbid { group, topic, readable: false });
    let (has, changes, parts) = copy(master, slave, has);
    let (topics, groups, offsets) =
        (changes.topics.unwrap(), changes.groups.unwrap(), changes.offsets.unwrap());
    assert_eq!((parts, topics.is_whole, groups.is_whole, offsets.is_whole), (1, false, false, false));
    assert_eq!(topics.table.topic_config_table.into_keys().collect::<Vec<_>>(), ["New"]);
    assert_eq!(groups.table.subscription_group_table.into_keys().collect::<Vec<_>>(), ["g5", "g9"]);
    assert_eq!((topics.gone, groups.gone), (vec!["T7".to_owned()], vec!["g3".to_owned(), "g4".to_owned()]));
    assert_eq!(offsets.gone, ["@g3", "@g5"]);
    let of_clients = offsets.table.offset_table.keys().filter(|key| !key.contains("RMQ_SYS"));
    assert_eq!(of_clients.collect::<Vec<_>>(), ["T1@g5"]);
    assert_same(master, slave);
    assert_eq!(
        slave.tables.offsets.places("g5", "T1"),
        [(2, 77)].into(),
        "of the group before only nothing is left"
    );

    let (_, changes, _) = copy(master, slave, has);
    assert_eq!((changes.topics, changes.groups), (None, None));
    let offsets = changes.offsets.unwrap();
    assert!(offsets.gone.is_empty() && offsets.table.offset_table.is_empty());
}

#[test]
fn a_slave_that_missed_more_than_is_kept_gets_the_whole_table() {
    let (one, other) = (master(), Fixture::new());
    let (master, slave) = (&one.broker, &other.broker);
    (0..2).for_each(|number| assert!(master.tables.offsets.commit(&format!("g{number}"), "T", 0, 1)));
    let (has, ..) = copy(master, slave, TableVersions::default());
    master.tables.offsets.forget_group("g0");
    for number in 0..5_000 {
        master.tables.offsets.commit("made-up", "T", 0, number);
        master.tables.offsets.forget_group("made-up");
        master.tables.offsets.changed_after(0, "", 0);
    }
    let (_, changes, _) = copy(master, slave, has);
    assert!(changes.offsets.unwrap().is_whole);
    assert_same(master, slave);
    assert_eq!(slave.tables.offsets.groups(), ["g1".to_owned()].into());
}

#[test]
fn a_part_begins_where_one_ended() {
    for end in ["", "topics", "queues T", "offsets"] {
        assert_eq!(AnswerPart::after(Some(end)).unwrap_err().code, response::INVALID_PARAMETER, "{end}");
    }
    assert_eq!(AnswerPart::after(Some("groups ")).unwrap().from, (1, String::new()));
}
