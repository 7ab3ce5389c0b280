//! A store that follows a master: bytes cut anywhere, crashes at any point, and the same content in the end.

use crate::tool::{flush, message, small_config, until};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{
    AppendError, Config, Disk, FakeDisk, FlushMode, FlushOutcome, FollowError, KeyKind, KeyQuery, Message,
    Store, Unit, WaitOutcome,
};
use wire::record::RecordView;
use wire::units::{LogOffset, QueueOffset};

fn config(flush: FlushMode) -> Config {
    Config {
        flush,
        multi_dispatch: true,
        key_index: true,
        index_slots: 7,
        index_items: 12,
        batched_topics: vec!["Batches".to_owned()],
        ..small_config()
    }
}

/// Message of the master: its queue, size and kind.
#[derive(Clone, Debug)]
struct Sent {
    queue: usize,
    length: usize,
    kind: usize,
}

const QUEUES: [(&str, i32); 5] = [("A", 0), ("A", 1), ("SCHEDULE_TOPIC_XXXX", 0), ("B", 3), ("Batches", 0)];
const KEYS: [&str; 3] = ["red", "green", "blue"];

fn sent() -> impl Strategy<Value = Vec<Sent>> {
    let length = prop_oneof![8 => 0usize..300, 1 => 300usize..3000];
    let one =
        (0..QUEUES.len(), length, 0usize..8).prop_map(|(queue, length, kind)| Sent { queue, length, kind });
    prop::collection::vec(one, 5..60)
}

/// A master with these messages. Returns it with the log positions where records begin or end.
fn master(list: &[Sent]) -> (Store, Vec<u64>) {
    let store = Store::open(config(FlushMode::Async), Arc::new(FakeDisk::new(512))).unwrap();
    let mut bounds = vec![0];
    for (number, sent) in list.iter().enumerate() {
        append(&store, sent, number);
        bounds.push(store.appended().get());
    }
    (store, bounds)
}

fn append(store: &Store, sent: &Sent, number: usize) {
    let (topic, queue_id) = QUEUES[sent.queue];
    let mut properties =
        format!("KEYS\u{1}{}\u{2}TAGS\u{1}T{}\u{2}DELAY\u{1}2\u{2}", KEYS[number % 3], number % 4);
    if sent.kind == 1 && topic != "Batches" {
        properties.push_str("INNER_MULTI_DISPATCH\u{1}%LMQ%x,%LMQ%y\u{2}");
    }
    let body = vec![u8::try_from(number % 251).unwrap(); sent.length];
    let sys_flag = if sent.kind == 0 { 4 } else { 0 };
    let mut batch = store.batch();
    let message = Message { sys_flag, ..message(&body, properties.as_bytes()) };
    batch.push(&store.queue(topic, queue_id).unwrap(), &message).unwrap();
    // Hours pass on the master while a slave takes all of it in an instant.
    store.append(&mut batch, number as i64 * 3_600_000).unwrap();
}

/// Visible content of a store below a log position.
#[derive(Debug, PartialEq)]
struct Content {
    /// Length and checksum of the log.
    log: (usize, u32),
    queues: BTreeMap<(String, i32), (u64, u64, Vec<Unit>)>,
    keys: Vec<Vec<u64>>,
}

fn log_of(store: &Store, end: u64) -> Vec<u8> {
    let (mut log, mut at) = (Vec::new(), store.min().get());
    while at < end {
        let before = log.len();
        store.read_log_blocking(LogOffset::new(at), usize::try_from(end - at).unwrap(), &mut log).unwrap();
        at += (log.len() - before) as u64;
    }
    log
}

fn content(store: &Store) -> Content {
    let mut queues = BTreeMap::new();
    for queue in store.queues().iter().filter(|queue| queue.min() < queue.max()) {
        let mut units = Vec::new();
        queue.units_blocking(queue.min(), 10_000, &mut units).unwrap();
        let mut bytes = Vec::new();
        store.read_units_blocking(&units, &mut bytes).unwrap();
        let name = (queue.topic().to_owned(), queue.queue_id());
        queues.insert(name, (queue.min().get(), queue.max().get(), units));
    }
    let query = |key: &&str| {
        let query =
            KeyQuery { topic: "A", key, kind: KeyKind::Key, max: 1000, begin_ms: 0, end_ms: i64::MAX };
        store.query(&query).unwrap().found.iter().map(|found| found.at.get()).collect()
    };
    until("the log is indexed", || store.indexed() >= store.appended());
    let log = log_of(store, store.appended().get());
    Content { log: (log.len(), wire::hash::crc32(&log)), queues, keys: KEYS.iter().map(query).collect() }
}

/// The content of a store that took the master's log up to `end` and nothing else.
fn content_up_to(master: &Store, end: u64) -> Content {
    let store = Store::open(config(FlushMode::Async), Arc::new(FakeDisk::new(512))).unwrap();
    store.start_following().unwrap();
    store.follow(LogOffset::ZERO, &log_of(master, end), &mut |_| {}).unwrap();
    assert_eq!(store.appended().get(), end);
    content(&store)
}

#[derive(Clone, Debug)]
enum Op {
    /// The store takes this number of bytes of the master's log.
    Take(usize),
    Flush,
    Checkpoint,
    Journal,
    CloseAndOpen,
    Kill,
    PowerCut(u64),
    StopAndStart,
    /// The log is truncated at one of the records; the process is killed, or the power goes, after so many changes of the
    /// disk.
    Truncate(usize, Option<(u64, Option<u64>)>),
    /// Bytes that are no log come.
    Garbage(usize),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let crash = prop::option::weighted(0.8, (0u64..40, prop::option::of(any::<u64>())));
    let one = prop_oneof![
        12 => (1usize..3000).prop_map(Op::Take),
        4 => (1usize..40).prop_map(Op::Take),
        2 => Just(Op::Flush),
        2 => Just(Op::Checkpoint),
        2 => Just(Op::Journal),
        1 => Just(Op::CloseAndOpen),
        1 => Just(Op::Kill),
        2 => any::<u64>().prop_map(Op::PowerCut),
        1 => Just(Op::StopAndStart),
        3 => (any::<usize>(), crash).prop_map(|(which, crash)| Op::Truncate(which, crash)),
        1 => (8usize..200).prop_map(Op::Garbage),
    ];
    prop::collection::vec(one, 1..40)
}

struct Slave {
    disk: FakeDisk,
    config: Config,
    store: Store,
    /// Log position up to which the log was reported durable.
    durable: u64,
}

impl Slave {
    fn new(flush: FlushMode) -> Self {
        let (disk, config) = (FakeDisk::new(512), config(flush));
        let store = Store::open(config.clone(), Arc::new(disk.clone())).unwrap();
        store.start_following().unwrap();
        Self { disk, config, store, durable: 0 }
    }

    fn open(&mut self, disk: FakeDisk) {
        self.store = Store::open(self.config.clone(), Arc::new(disk.clone())).unwrap();
        self.disk = disk;
        assert!(
            self.store.appended().get() >= self.durable,
            "durable to {}: {:?}",
            self.durable,
            self.store.recovered()
        );
        assert_eq!(self.store.recovered().gaps, [], "what a crash took is no damage");
        self.store.start_following().unwrap();
    }

    fn take(&self, log: &[u8], length: usize) {
        let at = self.store.followed();
        let from = usize::try_from(at.get()).unwrap();
        let bytes = &log[from..log.len().min(from + length)];
        self.store.follow(at, bytes, &mut |_| {}).unwrap();
        assert_eq!(self.store.followed(), at + bytes.len() as u64);
    }

    fn run(&mut self, op: &Op, log: &[u8], bounds: &[u64]) {
        match op {
            Op::Take(length) => self.take(log, *length),
            Op::Flush => {
                let end = self.store.appended().get();
                assert_eq!(flush(&self.store), FlushOutcome::Flushed);
                self.durable = end;
            }
            Op::Checkpoint => {
                let end = self.store.appended().get();
                self.store.checkpoint().unwrap();
                self.durable = end;
            }
            Op::Journal => self.store.journal().unwrap(),
            Op::CloseAndOpen => {
                self.durable = self.store.appended().get();
                self.store.close().unwrap();
                self.open(self.disk.clone());
                assert_eq!(
                    (self.store.recovered().after_crash, self.store.recovered().cut.as_ref()),
                    (false, None)
                );
            }
            Op::Kill => {
                let end = self.store.appended().get();
                self.open(self.disk.killed());
                assert!(self.store.appended().get() >= end);
            }
            Op::PowerCut(seed) => self.open(self.disk.power_cut(*seed)),
            Op::StopAndStart => {
                let end = self.store.appended();
                assert_eq!(self.store.stop_following().unwrap(), end);
                assert_eq!(self.store.followed(), end);
                self.durable = end.get();
                self.store.start_following().unwrap();
            }
            Op::Truncate(which, crash) => self.truncate(bounds, *which, *crash),
            Op::Garbage(length) => {
                let end = self.store.appended();
                // Within a record any bytes may come.
                if self.store.followed() == end {
                    let refused = self.store.follow(end, &vec![7; *length], &mut |_| {});
                    assert!(matches!(refused, Err(FollowError::Record { .. })), "{refused:?}");
                    assert_eq!((self.store.appended(), self.store.followed()), (end, end));
                }
            }
        }
    }

    fn truncate(&mut self, bounds: &[u64], which: usize, crash: Option<(u64, Option<u64>)>) {
        let end = self.store.appended().get();
        let known: Vec<u64> = bounds.iter().copied().filter(|bound| *bound <= end).collect();
        let to = known[which % known.len()];
        let Some((changes, power)) = crash else {
            self.store.truncate(LogOffset::new(to)).unwrap();
            if to < end {
                self.durable = to;
            }
            assert_eq!((self.store.appended().get(), self.store.followed().get()), (to, to));
            return;
        };
        self.disk.faults(|faults| faults.killed_after = Some(changes));
        let done = self.store.truncate(LogOffset::new(to));
        self.durable = self.durable.min(to);
        let before = self.store.appended().get();
        let disk = power.map_or_else(|| self.disk.killed(), |seed| self.disk.power_cut(seed));
        self.open(disk);
        let after = self.store.appended().get();
        if done.is_ok() && to < end {
            assert_eq!((before, after), (to, to), "a cut that was reported is durable");
            self.durable = to;
        } else {
            // Whether the cut had begun for good, the crash decides.
            assert!(after == to || power.is_some() || after == end, "{to} {end} {after}");
        }
    }

    /// The last record lies where the master's does, and is compared with the master's.
    fn check_last_record(&self, log: &[u8], bounds: &[u64]) {
        let end = self.store.appended().get();
        let last = bounds.windows(2).take_while(|record| record[1] <= end).last().map(|record| {
            let file = (record[1] - 1) / self.config.segment_bytes * self.config.segment_bytes;
            LogOffset::new(record[0].max(file))..LogOffset::new(record[1])
        });
        assert_eq!(self.store.last_record_range().unwrap(), last);
        let Some(last) = last else { return };
        let mut bytes = log
            [usize::try_from(last.start.get()).unwrap()..usize::try_from(last.end.get()).unwrap()]
            .to_vec();
        assert_eq!(self.store.first_difference(last.start, &bytes).unwrap(), None);
        bytes[70] ^= 1;
        assert_eq!(self.store.first_difference(last.start, &bytes).unwrap(), Some(last.start + 70));
    }

    /// Compares with a store that took the same bytes at once.
    fn check(&self, master: &Store) {
        self.store.wait_healed();
        assert_eq!(content(&self.store), content_up_to(master, self.store.appended().get()));
    }
}

fn run(flush: FlushMode, list: &[Sent], ops: &[Op]) {
    let (master, bounds) = master(list);
    let log = log_of(&master, master.appended().get());
    let mut slave = Slave::new(flush);
    for op in ops {
        slave.run(op, &log, &bounds);
        slave.check_last_record(&log, &bounds);
    }
    slave.check(&master);
    slave.take(&log, log.len());
    assert_eq!(content(&slave.store), content(&master));
    // A crash of the complete slave, and what is rebuilt then, makes no difference.
    slave.store.checkpoint().unwrap();
    slave.durable = log.len() as u64;
    slave.open(slave.disk.power_cut(3));
    assert_eq!(content(&slave.store), content(&master));
    // And as a master it goes on where the old one ended.
    slave.store.stop_following().unwrap();
    let (one, next) = (Sent { queue: 0, length: 50, kind: 2 }, list.len());
    append(&slave.store, &one, next);
    append(&master, &one, next);
    assert_eq!(content(&slave.store), content(&master));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: ProptestConfig::default().cases / 4, ..ProptestConfig::default() })]

    #[test]
    fn a_slave_has_what_its_master_has_with_asynchronous_flush(list in sent(), ops in ops()) {
        run(FlushMode::Async, &list, &ops);
    }

    #[test]
    fn a_slave_has_what_its_master_has_with_synchronous_flush(list in sent(), ops in ops()) {
        run(FlushMode::Sync, &list, &ops);
    }
}

fn simple(queue: usize, length: usize) -> Sent {
    Sent { queue, length, kind: 2 }
}

#[test]
fn a_store_that_follows_takes_no_messages_and_one_that_does_not_takes_no_bytes() {
    let (master, _) = master(&[simple(0, 10)]);
    let log = log_of(&master, master.appended().get());
    let slave = Slave::new(FlushMode::Async).store;
    let mut batch = slave.batch();
    batch.push(&slave.queue("A", 0).unwrap(), &message(b"m", b"")).unwrap();
    assert!(matches!(slave.append(&mut batch, 1), Err(AppendError::Following)));
    slave.follow(LogOffset::ZERO, &log, &mut |_| {}).unwrap();
    slave.stop_following().unwrap();
    assert!(matches!(slave.follow(slave.followed(), &log, &mut |_| {}), Err(FollowError::NotFollowing)));
    assert!(matches!(slave.truncate(LogOffset::ZERO), Err(FollowError::NotFollowing)));
    slave.append(&mut batch, 1).unwrap();
    assert_eq!(batch.append_result(0).queue_offset, QueueOffset::new(1));
}

#[test]
fn bytes_of_another_place_or_of_no_log_are_refused_and_the_end_stays_known() {
    let (master, bounds) = master(&[simple(0, 10), simple(0, 20)]);
    let log = log_of(&master, master.appended().get());
    let slave = Slave::new(FlushMode::Async).store;
    let refused = slave.follow(LogOffset::new(8), &log, &mut |_| {}).unwrap_err().to_string();
    assert!(refused.contains("begins at 8") && refused.contains("4096"), "{refused}");
    slave.follow(LogOffset::ZERO, &log[..100], &mut |_| {}).unwrap();
    let refused = slave.follow(LogOffset::new(99), &log[99..], &mut |_| {}).unwrap_err().to_string();
    assert_eq!(refused, "bytes for log offset 99 came, expected 100");
    // The record breaks off with the wrong bytes: its beginning is sent again.
    let refused = slave.follow(LogOffset::new(100), &log[101..], &mut |_| {}).unwrap_err().to_string();
    assert!(refused.starts_with("no record of a master's log at log offset 0: "), "{refused}");
    assert_eq!(slave.followed(), LogOffset::ZERO);
    let mut flipped = log.clone();
    let body = usize::try_from(bounds[1]).unwrap() + 90;
    flipped[body] ^= 1;
    assert!(matches!(slave.follow(LogOffset::ZERO, &flipped, &mut |_| {}), Err(FollowError::Record { .. })));
    assert_eq!((slave.appended(), slave.followed()), (LogOffset::ZERO, LogOffset::ZERO));
    slave.follow(LogOffset::ZERO, &log, &mut |_| {}).unwrap();
    assert_eq!(content(&slave), content(&master));
}

#[test]
fn a_slave_whose_log_files_are_larger_than_its_master_s_is_told_so() {
    let (master, bounds) = master(&(0..60).map(|_| simple(0, 280)).collect::<Vec<_>>());
    let end = *bounds.last().unwrap();
    let large = Config { segment_bytes: 8 * small_config().segment_bytes, ..config(FlushMode::Async) };
    let store = Store::open(large, Arc::new(FakeDisk::new(512))).unwrap();
    store.start_following().unwrap();
    let refused = store.follow(LogOffset::ZERO, &log_of(&master, end), &mut |_| {}).unwrap_err().to_string();
    assert!(refused.contains("mappedFileSizeCommitLog must be the master's"), "{refused}");
    assert_eq!(store.followed(), LogOffset::ZERO, "nothing of it counts");
}

#[test]
fn an_empty_slave_begins_with_any_file_of_the_master() {
    let list: Vec<Sent> = (0..40).map(|number| simple(number % 2, 300)).collect();
    let (master, _) = master(&list);
    let log = log_of(&master, master.appended().get());
    let mut slave = Slave::new(FlushMode::Sync);
    slave.store.follow(LogOffset::new(8192), &[], &mut |_| {}).unwrap();
    assert_eq!(slave.store.followed(), LogOffset::ZERO, "a heartbeat begins nothing");
    slave.store.follow(LogOffset::new(8192), &log[8192..9000], &mut |_| {}).unwrap();
    assert_eq!((slave.store.min().get(), slave.store.followed().get()), (8192, 9000));
    for reopen in 0..3 {
        match reopen {
            0 => slave.open(slave.disk.killed()),
            1 => {
                slave.store.close().unwrap();
                slave.open(slave.disk.clone());
            }
            _ => slave.take(&log, log.len()),
        }
        assert_eq!(slave.store.min().get(), 8192);
    }
    assert_eq!(log_of(&slave.store, log.len() as u64), log[8192..]);
    for queue_id in 0..2 {
        let (mine, its) = (slave.store.queue("A", queue_id).unwrap(), master.queue("A", queue_id).unwrap());
        assert!(mine.min().get() > 0, "messages of earlier files are not there");
        let (mut units, mut expected) = (Vec::new(), Vec::new());
        mine.units_blocking(mine.min(), 100, &mut units).unwrap();
        its.units_blocking(mine.min(), 100, &mut expected).unwrap();
        assert_eq!((mine.max(), units), (its.max(), expected));
    }
}

#[test]
fn a_topic_that_the_master_deleted_and_made_again_begins_anew() {
    let (master, _) = master(&[simple(0, 10), simple(1, 10), simple(3, 10)]);
    master.remove_topic("A").unwrap();
    append(&master, &simple(0, 77), 3);
    append(&master, &simple(1, 78), 4);
    let log = log_of(&master, master.appended().get());
    let (slave, mut restarted) = (Slave::new(FlushMode::Async).store, Vec::new());
    slave.follow(LogOffset::ZERO, &log, &mut |topic| restarted.push(topic.to_owned())).unwrap();
    assert_eq!(restarted, ["A"]);
    assert_eq!(slave.followed(), master.appended());
    assert_eq!(content(&slave).queues, content(&master).queues);
    assert_eq!(slave.queue("A", 0).unwrap().max(), QueueOffset::new(1));
}

#[test]
fn a_truncation_is_refused_where_no_record_begins() {
    let (master, bounds) = master(&[simple(0, 10), simple(0, 20), simple(1, 3000), simple(1, 900)]);
    let log = log_of(&master, master.appended().get());
    let slave = Slave::new(FlushMode::Async).store;
    slave.follow(LogOffset::ZERO, &log, &mut |_| {}).unwrap();
    let before = content(&slave);
    for to in [bounds[1] - 1, bounds[2] + 9, 4090, log.len() as u64 + 1] {
        let refused = slave.truncate(LogOffset::new(to));
        assert!(matches!(refused, Err(FollowError::Truncate { .. })), "{to}: {refused:?}");
    }
    assert_eq!(content(&slave), before);
    // The blank record, and the file behind it, are ends as good as any.
    for to in [log.len() as u64, 4096, bounds[3], 0] {
        slave.truncate(LogOffset::new(to)).unwrap();
        assert_eq!(slave.followed().get(), to);
        slave.follow(LogOffset::new(to), &log[usize::try_from(to).unwrap()..], &mut |_| {}).unwrap();
        assert_eq!(content(&slave), before, "{to}");
    }
}

#[test]
fn after_a_truncation_no_message_counts_as_indexed_before_the_index_is_loaded_again() {
    let (master, bounds) = master(&[simple(0, 10), simple(0, 20), simple(1, 3000), simple(1, 900)]);
    let log = log_of(&master, master.appended().get());
    let (disk, start) = (FakeDisk::new(512), Instant::now());
    let slave = Store::open_without_threads(config(FlushMode::Sync), Arc::new(disk), start).unwrap();
    slave.start_following().unwrap();
    slave.follow(LogOffset::ZERO, &log, &mut |_| {}).unwrap();
    let mut now = start;
    while slave.indexed() < slave.appended() {
        now = slave.run_due(now).unwrap().max(now);
    }
    slave.truncate(LogOffset::new(bounds[3])).unwrap();
    assert_eq!(slave.indexed(), LogOffset::ZERO);
    while slave.indexed() < slave.appended() {
        now = slave.run_due(now).unwrap().max(now);
    }
    assert_eq!(content(&slave), content_up_to(&master, bounds[3]));
}

#[test]
fn records_that_were_checked_before_a_truncation_do_not_mislead_later_reads() {
    let (before, bounds) = master(&[simple(0, 10), simple(0, 20), simple(0, 30)]);
    let (after, ends) = master(&[simple(0, 10), simple(0, 40), simple(0, 50), simple(0, 60)]);
    let disk = FakeDisk::new(512);
    let slave = Store::open(config(FlushMode::Async), Arc::new(disk.clone())).unwrap();
    slave.start_following().unwrap();
    slave.follow(LogOffset::ZERO, &log_of(&before, bounds[3]), &mut |_| {}).unwrap();
    disk.faults(|faults| faults.nothing_resident = true);
    log_of(&slave, bounds[3]);
    slave.truncate(LogOffset::new(bounds[1])).unwrap();
    let log = log_of(&after, ends[4]);
    slave.follow(LogOffset::new(ends[1]), &log[ends[1] as usize..], &mut |_| {}).unwrap();
    let mut read = Vec::new();
    slave.read_log_blocking(LogOffset::new(ends[3]), 4_000, &mut read).unwrap();
    assert_eq!(read, &log[ends[3] as usize..]);
}

#[test]
fn who_waits_for_what_was_truncated_is_told() {
    let (master, bounds) = master(&[simple(0, 10), simple(0, 20)]);
    let log = log_of(&master, master.appended().get());
    let slave = Slave::new(FlushMode::Async).store;
    slave.set_confirmed(Some(LogOffset::ZERO));
    let waits = |end: u64| {
        let (sender, receiver) = std::sync::mpsc::channel();
        let done = Box::new(move |outcome| sender.send(outcome).unwrap());
        slave.when_confirmed(LogOffset::new(end), Duration::from_secs(3_600), done);
        receiver
    };
    let (sender, appended) = std::sync::mpsc::channel();
    let done = Box::new(move |outcome| sender.send(outcome).unwrap());
    slave.when_appended(LogOffset::new(bounds[1]), Duration::from_secs(3_600), done);
    slave.follow(LogOffset::ZERO, &log, &mut |_| {}).unwrap();
    assert_eq!(appended.recv().unwrap(), WaitOutcome::Reached);
    let (first, second) = (waits(bounds[1]), waits(bounds[2]));
    assert_eq!(slave.visible(), LogOffset::ZERO);
    slave.truncate(LogOffset::new(bounds[1])).unwrap();
    assert!(matches!(second.recv().unwrap(), WaitOutcome::Failed(_)));
    slave.set_confirmed(Some(LogOffset::new(bounds[1])));
    assert_eq!(first.recv().unwrap(), WaitOutcome::Reached);
    assert_eq!((slave.visible().get(), slave.confirmed().unwrap().get()), (bounds[1], bounds[1]));
    slave.set_confirmed(None);
    assert_eq!((slave.confirmed(), slave.replicated()), (None, None));
}

#[test]
fn the_confirm_offset_comes_back_in_controller_mode_and_says_nothing_of_durability() {
    let disk = FakeDisk::new(512);
    let config = Config { controller_mode: true, ..config(FlushMode::Async) };
    let store = Store::open(config.clone(), Arc::new(disk.clone())).unwrap();
    let bounds: Vec<u64> = (0..4)
        .map(|number| {
            append(&store, &simple(0, 30), number);
            store.appended().get()
        })
        .collect();
    store.set_confirmed(Some(LogOffset::new(bounds[1])));
    store.checkpoint().unwrap();
    drop(store);
    for closed in [false, true] {
        let store = Store::open(config.clone(), Arc::new(disk.clone())).unwrap();
        assert_eq!((store.recovered().records, store.appended().get()), (0, bounds[3]), "{closed}");
        assert_eq!(store.confirmed(), Some(LogOffset::new(bounds[1])));
        assert_eq!(store.last_record(), Some(LogOffset::new(bounds[2])));
        store.close().unwrap();
    }
    // Without the mode the same page is read as well.
    let store = Store::open(self::config(FlushMode::Async), Arc::new(disk.clone())).unwrap();
    assert_eq!((store.recovered().records, store.confirmed()), (0, None));
}

#[test]
fn a_record_of_the_master_is_checked_when_it_is_read_from_the_disk() {
    let (master, bounds) = master(&[simple(0, 10), simple(0, 20)]);
    let log = log_of(&master, master.appended().get());
    let mut slave = Slave::new(FlushMode::Async);
    slave.take(&log, log.len());
    slave.store.close().unwrap();
    let mut flipped = [0];
    let path = std::path::Path::new("/store/commitlog/00000000000000000000");
    let file = store::Disk::open(&slave.disk, path).unwrap();
    // The flag is covered by the digest only.
    file.read_at(&mut flipped, bounds[1] + 16).unwrap();
    file.write_at(&[flipped[0] ^ 1], bounds[1] + 16).unwrap();
    slave.open(slave.disk.clone());
    let mut bytes = Vec::new();
    slave.store.record_at(LogOffset::ZERO, &mut bytes).unwrap();
    RecordView::parse(&bytes).unwrap();
    assert!(slave.store.record_at(LogOffset::new(bounds[1]), &mut bytes).is_err());
}

#[test]
fn a_blank_record_whose_first_bytes_a_power_cut_took_is_no_damage() {
    let mut found = 0;
    for first in 0..512 {
        let (master, bounds) = master(&[simple(0, first), simple(1, 2500), simple(0, 1500)]);
        // The blank record begins three bytes before the end of a sector, and its size is not below 256.
        if bounds[2] % 512 != 509 || 4096 - bounds[2] < 256 {
            continue;
        }
        found += 1;
        let log = log_of(&master, master.appended().get());
        for seed in 0..64 {
            let mut slave = Slave::new(FlushMode::Async);
            slave.take(&log, usize::try_from(bounds[2]).unwrap());
            slave.run(&Op::Flush, &log, &bounds);
            slave.take(&log, log.len());
            slave.open(slave.disk.power_cut(seed));
            slave.take(&log, log.len());
            assert_eq!(content(&slave.store), content(&master), "{seed}");
        }
    }
    assert!(found > 0);
}

#[test]
fn a_truncation_that_is_killed_after_any_change_of_the_disk_happened_or_did_not() {
    let list: Vec<Sent> =
        (0..16).map(|number| Sent { queue: number % 5, length: 200, kind: number % 3 }).collect();
    let (master, bounds) = master(&list);
    let log = log_of(&master, master.appended().get());
    let to = bounds[7];
    let (whole, cut) = (content(&master), content_up_to(&master, to));
    let mut outcomes = std::collections::BTreeSet::new();
    for changes in 0.. {
        let mut slave = Slave::new(if changes % 2 == 0 { FlushMode::Async } else { FlushMode::Sync });
        slave.take(&log, log.len());
        // Files of the queues, and a unit journal, hold units that go.
        slave.run(&Op::Checkpoint, &log, &bounds);
        slave.disk.faults(|faults| faults.killed_after = Some(changes));
        let done = slave.store.truncate(LogOffset::new(to));
        slave.durable = to;
        for disk in [slave.disk.killed(), slave.disk.power_cut(changes)] {
            slave.open(disk);
            slave.store.wait_healed();
            let is_cut = slave.store.appended().get() == to;
            assert!(is_cut || done.is_err(), "{changes}");
            assert_eq!(&content(&slave.store), if is_cut { &cut } else { &whole }, "{changes}");
            slave.take(&log, log.len());
            assert_eq!(content(&slave.store), whole, "{changes}");
            outcomes.insert((is_cut, done.is_ok()));
        }
        if done.is_ok() {
            break;
        }
    }
    // Not at all; only when the store is opened again; and at once.
    assert_eq!(outcomes.into_iter().collect::<Vec<_>>(), [(false, false), (true, false), (true, true)]);
}

#[test]
fn a_damaged_note_of_a_truncation_never_cuts_anywhere_else() {
    let (master, bounds) = master(&[simple(4, 100), simple(4, 200), simple(0, 100), simple(4, 300)]);
    let log = log_of(&master, master.appended().get());
    let mut slave = Slave::new(FlushMode::Sync);
    slave.take(&log, log.len());
    let whole = slave.disk.killed();
    let note = Path::new("/store/vostok/truncate");
    let (disk, text) = (0..)
        .find_map(|changes| {
            slave.open(whole.killed());
            slave.disk.faults(|faults| faults.killed_after = Some(changes));
            let _ = slave.store.truncate(LogOffset::new(bounds[3]));
            let disk = slave.disk.killed();
            let text = disk.read(note).ok()?;
            Some((disk, text))
        })
        .unwrap();
    for (at, byte) in (0..).zip(text) {
        for mask in [1, 0x80] {
            let disk = disk.killed();
            disk.open(note).unwrap().write_at(&[byte ^ mask], at).unwrap();
            let error = Store::open(slave.config.clone(), Arc::new(disk)).map(drop).unwrap_err().to_string();
            assert!(error.contains("vostok/truncate") && error.contains("remove the file"), "{at}: {error}");
        }
    }
}

/// RocketMQ's files of a queue of batches go further than the queue after a cut that was killed, and are written anew. They are
/// not all there is of the queue meanwhile.
#[test]
fn a_queue_of_batches_survives_a_kill_while_the_files_of_rocketmq_are_written_anew() {
    let (master, bounds) = master(&[simple(4, 100), simple(4, 200), simple(0, 100), simple(4, 300)]);
    let log = log_of(&master, master.appended().get());
    let mut slave = Slave::new(FlushMode::Async);
    slave.take(&log, log.len());
    slave.run(&Op::Checkpoint, &log, &bounds);
    let whole = slave.disk.killed();
    let cut = (0..).find_map(|changes| {
        slave.open(whole.killed());
        slave.disk.faults(|faults| faults.killed_after = Some(changes));
        let _ = slave.store.truncate(LogOffset::new(bounds[3]));
        let disk = slave.disk.killed();
        slave.durable = bounds[3];
        slave.open(disk.killed());
        (slave.store.appended().get() == bounds[3]).then_some(disk)
    });
    for changes in 0.. {
        slave.open(cut.as_ref().unwrap().killed());
        slave.disk.faults(|faults| faults.killed_after = Some(changes));
        let is_done = slave.store.checkpoint().is_ok();
        slave.open(slave.disk.killed());
        let queue = slave.store.find_queue("Batches", 0).unwrap();
        assert_eq!((queue.min().get(), queue.max().get()), (0, 2), "{changes}");
        if is_done {
            break;
        }
    }
}
