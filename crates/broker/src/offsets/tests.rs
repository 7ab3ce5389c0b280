use std::collections::BTreeMap;

use proptest::prelude::*;
use wire::body::{ConsumerOffsetTable, MessageQueue};
use wire::json;

use super::changes::Changes;
use super::*;
use crate::Result;
use crate::groups::Groups;
use crate::testing::real_files;

const JAVA: &[u8] = include_bytes!("../golden/consumerOffset.json");

/// A broker with group g, and topic T of two queues that hold offsets 3 to 9.
struct Fixture {
    folder: tempfile::TempDir,
    offsets: Offsets,
    groups: Groups,
    young: bool,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let offsets = Offsets::load(&real_files(folder.path())).unwrap();
        let groups = Groups::load(real_files(folder.path()).file("subscriptionGroup.json")).unwrap();
        groups.make("g", 1).unwrap();
        Self { folder, offsets, groups, young: true }
    }

    fn reopened(&self) -> Offsets {
        Offsets::load(&real_files(self.folder.path())).unwrap()
    }

    fn query(&self, group: &str) -> String {
        self.query_with(group, true)
    }

    fn query_with(&self, group: &str, zero_if_missing: bool) -> String {
        let asked = QueryOffset { group, topic: "T", queue_id: 0, zero_if_missing };
        shown(query(&self.offsets, &asked, |_, _| self.young).map(|offset| offset.to_string()))
    }

    fn update(&self, offset: i64) -> String {
        self.update_with(CommitOffset { offset: Some(offset), ..COMMIT })
    }

    fn update_with(&self, wanted: CommitOffset<'_>) -> String {
        let queues = |topic: &str| (topic == "T").then_some(2);
        let exists = |group: &str| Ok(self.groups.find(group).is_some());
        let stored = commit(&self.offsets, &wanted, exists, queues, |_, _| false);
        shown(stored.map(|stored| if stored { "stored" } else { "reset before" }.to_owned()))
    }

    fn reset(&self, wanted: ResetOffset<'_>) -> Result<BTreeMap<MessageQueue, i64>, String> {
        let context = ResetContext {
            offsets: &self.offsets,
            groups: &self.groups,
            broker_name: "b",
            read_queues: &|topic| (topic == "T").then_some(2),
            bounds: &|_, _| (3, 9),
            search: &|_, queue, timestamp_ms| Ok(timestamp_ms + i64::from(queue)),
        };
        reset(&context, &wanted).map(|body| body.offset_table).map_err(|error| error.to_string())
    }
}

const COMMIT: CommitOffset<'_> = CommitOffset {
    group: "g",
    topic: "T",
    queue_id: Some(0),
    offset: Some(1),
    only_raises: false,
    begins_group: false,
};

const RESET: ResetOffset<'_> = ResetOffset {
    group: "g",
    topic: "T",
    queue_id: None,
    timestamp_ms: 4,
    offset: None,
    only_backwards: false,
    for_cpp: false,
};

/// A value, or a refusal in the form `code remark`.
fn shown(result: Result<String>) -> String {
    result.unwrap_or_else(|refusal| format!("{} {}", refusal.code, refusal.remark))
}

#[test]
fn a_new_group_on_a_young_queue_starts_from_the_beginning() {
    let mut fixture = Fixture::new();
    assert_eq!(fixture.query("new"), "0");
    assert_eq!(
        fixture.query_with("new", false),
        "22 Not found, do not set to zero, maybe this group boot first"
    );
    fixture.young = false;
    assert_eq!(fixture.query("new"), "22 Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first");
    assert_eq!(fixture.update(7), "stored");
    assert_eq!(fixture.query("g"), "7");
    assert_eq!(fixture.update(2), "stored");
    assert_eq!(fixture.query("g"), "2");
    for (offset, expected) in [(1, "2"), (5, "5")] {
        fixture.update_with(CommitOffset { offset: Some(offset), only_raises: true, ..COMMIT });
        assert_eq!(fixture.query("g"), expected);
    }
}

#[test]
fn updates_are_refused_with_the_texts_of_java() {
    let fixture = Fixture::new();
    let check = |wanted, expected: &str| assert_eq!(fixture.update_with(wanted), expected);
    check(CommitOffset { group: "h", ..COMMIT }, "26 Group h not exist!");
    check(CommitOffset { topic: "U", ..COMMIT }, "17 Topic U not exist!");
    check(CommitOffset { queue_id: None, ..COMMIT }, "29 QueueId is null, topic is T");
    check(CommitOffset { offset: None, ..COMMIT }, "29 Offset is null, topic is T");
    check(CommitOffset { queue_id: Some(2), ..COMMIT }, "29 QueueId is 2, topic T has 2 queues");
    check(CommitOffset { queue_id: Some(-1), ..COMMIT }, "29 QueueId is -1, topic T has 2 queues");
    check(CommitOffset { offset: Some(-1), ..COMMIT }, "29 Offset is -1, expected 0 or more, topic is T");
    assert!(fixture.offsets.table().offset_table.is_empty());
}

#[test]
fn a_reset_is_delivered_exactly_once_and_blocks_updates_until_then() {
    let fixture = Fixture::new();
    fixture.update(7);
    assert_eq!(fixture.offsets.take_reset("g", "T", 0), None);
    let moved = fixture.reset(ResetOffset { queue_id: Some(0), offset: Some(5), ..RESET }).unwrap();
    assert_eq!(moved, BTreeMap::from([(MessageQueue::new("T", "b", 0), 5)]));
    assert_eq!(fixture.query("g"), "5");
    assert_eq!(fixture.update(8), "reset before");
    assert!(!fixture.offsets.commit("g", "T", 0, 8) && fixture.offsets.commit("g", "T", 1, 8));
    assert_eq!(fixture.offsets.committed("g", "T", 0), Some(5), "it counts for a group that is offline");
    assert_eq!(fixture.offsets.take_reset("g", "T", 0), Some(5));
    assert_eq!(fixture.offsets.take_reset("g", "T", 0), None);
    assert_eq!(fixture.update(6), "stored");
    assert_eq!(fixture.query("g"), "6");
}

#[test]
fn resets_go_to_a_time_to_the_end_or_to_an_offset() {
    let fixture = Fixture::new();
    let queue = |id| MessageQueue::new("T", "b", id);
    let check = |wanted: ResetOffset<'_>, expected: Result<&[(i32, i64)], &str>| {
        let expected = expected.map(|all| all.iter().map(|(id, at)| (queue(*id), *at)).collect());
        assert_eq!(fixture.reset(wanted), expected.map_err(str::to_owned));
    };
    let to = |offset| ResetOffset { queue_id: Some(1), offset, ..RESET };
    check(RESET, Ok(&[(0, 4), (1, 5)]));
    check(ResetOffset { timestamp_ms: -1, ..RESET }, Ok(&[(0, 9), (1, 9)]));
    check(to(None), Ok(&[(1, 5)]));
    check(to(Some(10)), Ok(&[(1, 10)]));
    check(to(Some(11)), Err("1: Target offset 11 not in consume queue range [3-9]"));
    check(to(Some(2)), Err("1: Target offset 2 not in consume queue range [3-9]"));
    check(ResetOffset { queue_id: Some(2), ..RESET }, Err("29: QueueId is 2, topic T has 2 queues to read"));
    check(ResetOffset { topic: "U", ..RESET }, Err("17: Topic U does not exist"));
    check(ResetOffset { group: "h", ..RESET }, Err("26: Group h does not exist"));
}

#[test]
fn a_file_of_java_loads_and_survives_a_rewrite() {
    let fixture = Fixture::new();
    std::fs::write(fixture.folder.path().join("consumerOffset.json"), JAVA).unwrap();
    let offsets = fixture.reopened();
    assert_eq!(offsets.committed("GID_1", "TopicN", 1), Some(4));
    let java: ConsumerOffsetTable = json::from_slice(JAVA).unwrap();
    assert_eq!(offsets.table().offset_table, java.offset_table);
    assert_eq!(offsets.table().pull_offset_table, java.pull_offset_table);
    assert_eq!(offsets.table().extra, java.extra, "the topics by group are derived as in Java");
    offsets.commit("GID_1", "TopicN", 1, 9);
    offsets.save(77, || true).unwrap();
    let rewritten: ConsumerOffsetTable =
        real_files(fixture.folder.path()).file("consumerOffset.json").read().unwrap().unwrap();
    assert_eq!(rewritten.offset_table["TopicN@GID_1"], BTreeMap::from([(0, 4), (1, 9)]));
    assert_eq!((rewritten.data_version.counter, rewritten.data_version.timestamp), (1, 77));
}

#[test]
fn an_idle_broker_does_not_rewrite_its_file() {
    let fixture = Fixture::new();
    let path = fixture.folder.path().join("consumerOffset.json");
    fixture.offsets.save(1, || true).unwrap();
    assert!(!path.exists());
    fixture.offsets.commit("g", "T", 0, 5);
    fixture.offsets.save(2, || true).unwrap();
    std::fs::remove_file(&path).unwrap();
    fixture.offsets.commit("g", "T", 0, 5);
    fixture.offsets.note_pull(&fixture.offsets.reader("g", "T"), 1, 6, 1, 100);
    fixture.offsets.save(3, || true).unwrap();
    assert!(path.exists(), "a pull moved");
    std::fs::remove_file(&path).unwrap();
    fixture.offsets.commit("g", "T", 0, 5);
    fixture.offsets.note_pull(&fixture.offsets.reader("g", "T"), 1, 6, 1, 100);
    fixture.offsets.save(4, || true).unwrap();
    assert!(!path.exists());
}

#[test]
fn positions_wait_for_the_messages_they_speak_of() {
    let fixture = Fixture::new();
    fixture.offsets.commit("g", "T", 0, 5);
    fixture
        .offsets
        .save(1, || {
            fixture.offsets.commit("g", "T", 0, 6);
            false
        })
        .unwrap();
    assert_eq!(fixture.reopened().committed("g", "T", 0), None);
    fixture
        .offsets
        .save(2, || {
            fixture.offsets.commit("g", "T", 0, 7);
            true
        })
        .unwrap();
    assert_eq!(fixture.reopened().committed("g", "T", 0), Some(6), "7 may be ahead of what is on disk");
    fixture.offsets.save(3, || true).unwrap();
    assert_eq!(fixture.reopened().committed("g", "T", 0), Some(7));
}

#[test]
fn a_failed_save_is_tried_again() {
    let fixture = Fixture::new();
    let obstacle = fixture.folder.path().join("consumerOffset.json.tmp");
    std::fs::create_dir(&obstacle).unwrap();
    fixture.offsets.commit("g", "T", 0, 5);
    assert!(fixture.offsets.save(1, || true).unwrap_err().to_string().contains("consumerOffset.json.tmp"));
    std::fs::remove_dir(&obstacle).unwrap();
    fixture.offsets.save(2, || true).unwrap();
    assert_eq!(fixture.reopened().committed("g", "T", 0), Some(5));
}

#[test]
fn deleted_groups_and_topics_are_forgotten() {
    let fixture = Fixture::new();
    for (group, topic) in [("g", "T"), ("g", "U"), ("h", "T")] {
        fixture.offsets.set_reset(group, topic, 0, 5);
    }
    let check = |expected: &[&str]| {
        let table = fixture.offsets.table().offset_table;
        assert_eq!(table.keys().collect::<Vec<_>>(), expected);
    };
    check(&["T@g", "T@h", "U@g"]);
    fixture.offsets.forget_group("g");
    check(&["T@h"]);
    assert_eq!(fixture.offsets.take_reset("g", "U", 0), None);
    assert_eq!(fixture.offsets.pending_reset("h", "T", 0), Some(5));
    fixture.offsets.forget_topic("T");
    check(&[]);
    assert_eq!(fixture.offsets.resets.load(Ordering::Relaxed), 0);
    fixture.offsets.save(1, || true).unwrap();
    assert!(fixture.reopened().table().offset_table.is_empty());
}

#[derive(Clone, Debug)]
enum Step {
    Commit(u8, u8, i32, i64),
    Reset(u8, u8, i32, i64),
    Pull(u8, u8, i32),
    ForgetGroup(u8),
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let place = (0..3u8, 0..3u8, 0..3i32, 0..100i64);
    prop_oneof![
        4 => place.clone().prop_map(|(g, t, q, o)| Step::Commit(g, t, q, o)),
        1 => place.clone().prop_map(|(g, t, q, o)| Step::Reset(g, t, q, o)),
        2 => place.prop_map(|(g, t, q, _)| Step::Pull(g, t, q)),
        1 => (0..3u8).prop_map(Step::ForgetGroup),
        1 => Just(Step::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn positions_behave_like_two_maps(steps in prop::collection::vec(step(), 0..60)) {
        let fixture = Fixture::new();
        let mut offsets = fixture.reopened();
        let mut committed: BTreeMap<(u8, u8, i32), i64> = BTreeMap::new();
        let mut resets: BTreeMap<(u8, u8, i32), i64> = BTreeMap::new();
        let name = |prefix: char, number: u8| format!("{prefix}{number}");
        for (now_ms, step) in (0..).zip(steps) {
            match step {
                Step::Commit(g, t, q, o) => {
                    let stored = offsets.commit(&name('g', g), &name('t', t), q, o);
                    prop_assert_eq!(stored, !resets.contains_key(&(g, t, q)));
                    if stored {
                        committed.insert((g, t, q), o);
                    }
                }
                Step::Reset(g, t, q, o) => {
                    offsets.set_reset(&name('g', g), &name('t', t), q, o);
                    committed.insert((g, t, q), o);
                    resets.insert((g, t, q), o);
                }
                Step::Pull(g, t, q) => {
                    let taken = offsets.take_reset(&name('g', g), &name('t', t), q);
                    prop_assert_eq!(taken, resets.remove(&(g, t, q)));
                }
                Step::ForgetGroup(group) => {
                    offsets.forget_group(&name('g', group));
                    committed.retain(|(g, _, _), _| *g != group);
                    resets.retain(|(g, _, _), _| *g != group);
                }
                Step::Reopen => {
                    offsets.save(now_ms, || true).unwrap();
                    offsets = fixture.reopened();
                    resets.clear();
                }
            }
            for (g, t, q) in (0..3).flat_map(|g| (0..3).flat_map(move |t| (0..3).map(move |q| (g, t, q)))) {
                let found = offsets.committed(&name('g', g), &name('t', t), q);
                prop_assert_eq!(found, committed.get(&(g, t, q)).copied());
            }
        }
    }
}

#[test]
fn a_new_group_begins_with_the_first_message_of_a_new_queue_however_long_the_log_is() {
    let fixture = crate::testing::Fixture::new();
    let begins = |topic: &str| {
        let queue = fixture.queue(topic, 0);
        fixture.broker.tables.begins_within(&queue, 10_000)
    };
    assert!(begins("Old"), "it is empty");
    fixture.put("Old", 0, b"x", b"");
    assert!(begins("Old"), "the log is short");
    fixture.queue("Other", 0);
    (0..20).for_each(|_| fixture.put("Other", 0, &[0; 1000], b""));
    assert!(!begins("Old"));
    assert!(begins("New"), "it is empty");
    fixture.put("New", 0, b"x", b"");
    assert!(begins("New"));
}

#[test]
fn a_slave_gets_what_changed_after_what_it_has() {
    let directory = tempfile::tempdir().unwrap();
    let offsets = Offsets::load(&real_files(directory.path())).unwrap();
    let after = |generation| {
        let Changes { changed, generation, .. } = offsets.changed_after(generation, "", usize::MAX);
        (changed.table.offset_table.into_iter().collect::<Vec<_>>(), generation)
    };
    let entry = |topic: &str, queues: &[(i32, i64)]| (format!("{topic}@g"), queues.iter().copied().collect());
    offsets.commit("g", "T", 0, 5);
    offsets.commit("g", "T", 1, 6);
    let (all, first) = after(0);
    assert_eq!(all, [entry("T", &[(0, 5), (1, 6)])]);
    assert_eq!((offsets.newest(), after(first).0), (first, vec![]));
    offsets.commit("g", "T", 0, 5);
    assert_eq!(offsets.newest(), first, "the same offset again is no change");
    offsets.commit("g", "T", 1, 3);
    offsets.set_reset("g", "U", 2, 9);
    assert!(offsets.newest() > first);
    let (changed, second) = after(first);
    assert_eq!(changed, [entry("T", &[(1, 3)]), entry("U", &[(2, 9)])]);
    // Another slave, which has less, gets the same and what it lacks.
    assert_eq!(after(0).0.len(), 2);
    assert_eq!(after(second).0, []);
    let copy = Offsets::load(&real_files(&directory.path().join("copy"))).unwrap();
    copy.take_changes(offsets.changed_after(0, "", usize::MAX).changed, |_, _| false);
    assert_eq!(
        [("T", 0), ("T", 1), ("U", 2)].map(|(topic, queue)| copy.committed("g", topic, queue)),
        [Some(5), Some(3), Some(9)]
    );
}

#[test]
fn many_offsets_come_in_the_order_of_their_keys() {
    let directory = tempfile::tempdir().unwrap();
    let offsets = Offsets::load(&real_files(directory.path())).unwrap();
    (0..50).for_each(|number| assert!(offsets.commit(&format!("g{number}"), "T", 0, number)));
    for room in [0, 100, 1_000, 5_000] {
        let (mut keys, mut after, mut parts) = (Vec::new(), String::new(), 0);
        loop {
            let Changes { changed, more, .. } = offsets.changed_after(0, &after, room);
            keys.extend(changed.table.offset_table.into_keys());
            parts += 1;
            match more {
                Some(key) => after = key,
                None => break,
            }
        }
        assert!(keys.is_sorted() && keys.len() == 50, "{room}: {keys:?}");
        assert_eq!(parts > 1, room < 50 * 28, "{room}");
    }
}

#[test]
fn who_waits_for_a_change_is_woken_by_the_first_one() {
    let directory = tempfile::tempdir().unwrap();
    let offsets = Offsets::load(&real_files(directory.path())).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let waits = async { tokio::join!(offsets.wait_for_change(0), offsets.wait_for_change(0)) };
    let commits = async {
        tokio::task::yield_now().await;
        offsets.commit("g", "T", 0, 1);
    };
    runtime.block_on(async { tokio::join!(waits, commits) });
    let seen = offsets.newest();
    runtime.block_on(offsets.wait_for_change(seen - 1));
    assert_eq!(offsets.changed_after(0, "", usize::MAX).generation, seen);
    let waits = offsets.wait_for_change(seen);
    let commits = async {
        tokio::task::yield_now().await;
        offsets.commit("g", "T", 0, 2);
    };
    runtime.block_on(async { tokio::join!(waits, commits) });
}

#[test]
fn offsets_of_a_slave_as_new_as_the_masters_count_and_of_an_older_one_only_the_larger() {
    let table = |version: i64, offsets: &[(&str, i64)]| {
        let offset_table =
            offsets.iter().map(|(key, offset)| ((*key).to_owned(), BTreeMap::from([(0, *offset)])));
        let data_version = DataVersion { counter: version, ..DataVersion::default() };
        ConsumerOffsetTable {
            data_version,
            offset_table: offset_table.collect(),
            ..ConsumerOffsetTable::default()
        }
    };
    let own = [("T@g", 5), ("U@g", 5), ("T@CID_RMQ_SYS_TRANS", 5)];
    let theirs = [("T@g", 3), ("U@g", 8), ("T@h", 2), ("Gone@g", 1), ("T@CID_RMQ_SYS_TRANS", 3)];
    for (version, set_back) in [(6, 5), (7, 3), (8, 3)] {
        let offsets = Fixture::new().offsets;
        offsets.fill(table(7, &own));
        offsets.take_back(table(version, &theirs), |topic, _| topic != "Gone");
        let found = ["g", "h", "CID_RMQ_SYS_TRANS"].map(|group| offsets.committed(group, "T", 0));
        assert_eq!(found, [Some(set_back), Some(2), Some(5)], "{version}");
        assert_eq!((offsets.committed("g", "U", 0), offsets.committed("g", "Gone", 0)), (Some(8), None));
        assert_eq!(offsets.version().counter, version.max(7));
    }
}

#[test]
fn a_slave_that_acts_has_the_newest_table_and_knows_what_was_committed_since() {
    let master = Fixture::new().offsets;
    master.fill(ConsumerOffsetTable {
        data_version: DataVersion { counter: 41, ..DataVersion::default() },
        ..ConsumerOffsetTable::default()
    });
    master.commit("g", "T", 0, 5);
    let slave = Fixture::new().offsets;
    slave.take_changes(master.changed_after(0, "", usize::MAX).changed, |_, _| false);
    assert_eq!(slave.version(), master.version());
    let before = slave.begin_acting(1);
    assert!(slave.version() > master.version());
    assert!(slave.changed_after(before, "", usize::MAX).changed.table.offset_table.is_empty());
    slave.commit("g", "T", 1, 6);
    let since = slave.changed_after(before, "", usize::MAX).changed.table.offset_table;
    assert_eq!(since, BTreeMap::from([("T@g".to_owned(), BTreeMap::from([(1, 6)]))]));
}

/// A broker has hundreds of thousands of lite topics. With the two counters of an `Arc` an entry takes a block of 64 bytes.
#[test]
fn a_single_offset_is_small() {
    assert!(size_of::<Mutex<Topic>>() <= 40, "{}", size_of::<Mutex<Topic>>());
    assert!(size_of::<(std::sync::Arc<str>, topics::Entry)>() <= 24);
}

#[derive(Debug, Clone, Copy)]
enum Change {
    Commit(i32, i64),
    Pull(i32, i64),
    Reset(i32, i64),
    Take(i32),
}

fn change() -> impl Strategy<Value = Change> {
    let queue = 0..3i32;
    prop_oneof![
        (queue.clone(), 0..9i64).prop_map(|(queue, offset)| Change::Commit(queue, offset)),
        (queue.clone(), 0..9i64).prop_map(|(queue, offset)| Change::Pull(queue, offset)),
        (queue.clone(), 0..9i64).prop_map(|(queue, offset)| Change::Reset(queue, offset)),
        queue.prop_map(Change::Take),
    ]
}

proptest! {
    /// The forms for few and for many queues hold the positions of a plain map.
    #[test]
    fn positions_are_those_of_a_map(changes in proptest::collection::vec(change(), 0..20)) {
        let (mut positions, mut model) = (Positions::default(), BTreeMap::<i32, Position>::new());
        for (change, generation) in changes.into_iter().zip(1..) {
            let (Change::Commit(queue, _) | Change::Pull(queue, _) | Change::Reset(queue, _) | Change::Take(queue)) =
                change;
            let apply = |position: &mut Position| {
                position.generation = generation;
                match change {
                    Change::Commit(_, offset) => position.committed.replace(offset),
                    Change::Pull(_, offset) => position.pulled.replace(offset),
                    Change::Reset(_, offset) => position.reset.replace(offset),
                    Change::Take(_) => position.reset.take(),
                }
            };
            prop_assert_eq!(positions.change(queue, apply), apply(model.entry(queue).or_default()));
            prop_assert_eq!(positions.newest(), generation);
        }
        prop_assert!(positions.iter().eq(model.iter().map(|(queue, position)| (*queue, *position))));
        for queue in 0..3 {
            prop_assert!(positions.get(queue) == model.get(&queue).copied());
        }
    }
}
