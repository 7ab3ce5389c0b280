//! Topics with `queue.type=BatchCQ`: a record may be many messages.

use crate::tool::{flush, message, small_config};
use std::path::Path;
use std::sync::Arc;
use store::inspect::{DumpPart, Repair, Selection, Survey, VerifyResult, verify};
use store::{
    Boundary, Config, CqUnit, Disk, FakeDisk, PushError, Queue, ReadError, RetentionRound, RetentionSettings,
    Store, Unit,
};
use wire::properties::{self, key};
use wire::record::{RecordView, sys_flag};
use wire::units::QueueOffset;

const INNER: i32 = sys_flag::INNER_BATCH | sys_flag::NEED_UNWRAP;
const JAVAS: &str = "/store/batchconsumequeue/Batches/0";
const OURS: &str = "/store/vostok/batched/Batches/0";
/// Numbers of messages of the records in turn. 1 is a message that is sent alone.
const COUNTS: [u16; 5] = [3, 1, 2, 7, 1];

/// A file of RocketMQ's holds four units, of ours eight.
fn config() -> Config {
    Config { batch_file_bytes: 4 * 46, batched_topics: vec!["Batches".to_owned()], ..small_config() }
}

fn open(disk: &FakeDisk) -> Store {
    Store::open(config(), Arc::new(disk.clone())).unwrap()
}

/// Appends a record that is so many messages; answers the number of the first.
fn put(store: &Store, queue: &Arc<Queue>, count: u16, now_ms: i64) -> u64 {
    let text = format!("TAGS\x01TagA\x02INNER_NUM\x01{count}\x02");
    let body = vec![b'a'; 40 + 13 * usize::from(count)];
    let mut batch = store.batch();
    let sent = match count {
        1 => message(&body, b"TAGS\x01TagA\x02"),
        _ => store::Message { sys_flag: INNER, ..message(&body, text.as_bytes()) },
    };
    let index = batch.push(queue, &sent).unwrap();
    store.append(&mut batch, now_ms).unwrap();
    batch.append_result(index).queue_offset.get()
}

/// Appends `records` records with store times of ten times their number. Returns the number behind the last message.
fn fill(store: &Store, records: usize) -> u64 {
    let queue = store.queue("Batches", 0).unwrap();
    for number in 0..records {
        let next = queue.max().get();
        let now_ms = 10 * i64::try_from(number).unwrap();
        assert_eq!(put(store, &queue, COUNTS[number % 5], now_ms), next);
    }
    queue.max().get()
}

/// Checks that every message from the minimum on leads to its record, and is readable.
fn check(store: &Store, max: u64) -> Arc<Queue> {
    let queue = store.find_queue("Batches", 0).unwrap();
    assert!(queue.is_batched());
    assert_eq!(queue.max().get(), max);
    let mut units: Vec<Unit> = Vec::new();
    queue.units_blocking(queue.min(), 1 << 20, &mut units).unwrap();
    assert_eq!(queue.min().get() + units.len() as u64, max);
    for (number, unit) in (queue.min().get()..).zip(units) {
        let mut bytes = Vec::new();
        let one = CqUnit { offset: QueueOffset::new(number), unit };
        store.read_messages_blocking(&queue, &[one], &mut bytes).unwrap();
        let view = RecordView::parse(&bytes).unwrap();
        let get = |name| properties::get_str(view.properties(), name).unwrap().parse::<u64>().unwrap();
        let (base, count) = (get(key::INNER_BASE), get(key::INNER_NUM));
        assert_eq!(view.queue_offset().get(), base);
        assert!((base..base + count).contains(&number), "{number} is not in {base}+{count}");
        let bad = CqUnit { offset: QueueOffset::new(base + count), unit };
        let refused = store.read_messages_blocking(&queue, &[bad], &mut bytes);
        assert!(matches!(refused, Err(ReadError::Damaged(_) | ReadError::Rebuilding { .. })), "{refused:?}");
        store.wait_healed();
    }
    queue
}

fn names(disk: &FakeDisk, directory: &str) -> Vec<String> {
    disk.list(directory.as_ref()).unwrap().into_iter().map(|entry| entry.name).collect()
}

fn remove_all(disk: &FakeDisk, directory: &Path) {
    for entry in disk.list(directory).unwrap() {
        let path = directory.join(&entry.name);
        if !entry.is_dir {
            disk.remove(&path).unwrap();
            continue;
        }
        remove_all(disk, &path);
        disk.remove_dir(&path).unwrap();
    }
}

/// RocketMQ's units, each as position, size, base and number of messages, and the store time.
fn javas(disk: &FakeDisk) -> Vec<(u64, u64, u64, u64, u64)> {
    let mut units = Vec::new();
    for name in names(disk, JAVAS) {
        let mut bytes = vec![0; 4 * 46];
        disk.open(&Path::new(JAVAS).join(name)).unwrap().read_at(&mut bytes, 0).unwrap();
        for unit in bytes.chunks_exact(46).filter(|unit| unit.iter().any(|byte| *byte != 0)) {
            let number = |from: usize, to: usize| {
                unit[from..to].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
            };
            assert_eq!((number(12, 20), number(38, 46)), (2_598_919, 0xffff_ffff << 32));
            units.push((number(0, 8), number(8, 12), number(28, 36), number(36, 38), number(20, 28)));
        }
    }
    units
}

/// RocketMQ's units after [`fill`] in an empty store.
fn expected(records: u64) -> Vec<(u64, u64, u64)> {
    let counts = COUNTS.iter().cycle().map(|count| u64::from(*count));
    let mut base = 0;
    let rows = (0..records).zip(counts).map(|(number, count)| {
        base += count;
        (base - count, count, number * 10)
    });
    rows.collect()
}

fn short(units: &[(u64, u64, u64, u64, u64)]) -> Vec<(u64, u64, u64)> {
    units.iter().map(|unit| (unit.2, unit.3, unit.4)).collect()
}

fn verified(disk: &FakeDisk) -> VerifyResult {
    verify(&survey(disk), 2, &|_| {}).unwrap()
}

fn survey(disk: &FakeDisk) -> Survey {
    Survey::of(Arc::new(disk.clone()), Path::new("/store"), &[]).unwrap()
}

fn assert_clean(disk: &FakeDisk) {
    let found = verified(disk);
    assert!(found.is_clean(), "{:?} {:?}", found.findings, found.lost);
}

#[test]
fn a_record_of_three_takes_three_offsets_and_one_unit_of_javas() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    assert_eq!(fill(&store, 50), 140);
    check(&store, 140);
    store.checkpoint().unwrap();
    assert_eq!(short(&javas(&disk)), expected(50));
    // Positions and sizes are those of the records.
    let queue = store.find_queue("Batches", 0).unwrap();
    for (at, size, base, count, _) in javas(&disk) {
        let mut units = Vec::new();
        queue.units_blocking(QueueOffset::new(base), usize::try_from(count).unwrap(), &mut units).unwrap();
        assert!(units.iter().all(|unit| (unit.log_offset.get(), u64::from(unit.size)) == (at, size)));
    }
    assert_eq!(names(&disk, JAVAS).len(), 13);
    assert_eq!(names(&disk, JAVAS)[1], "00000000000000000184");
    assert!(names(&disk, "/store/consumequeue").is_empty());
    assert_eq!(fill(&store, 3), 146);
    store.close().unwrap();
    assert_clean(&disk);
    let store = open(&disk);
    assert_eq!(store.recovered().records, 0);
    check(&store, 146);
    assert_eq!(javas(&disk).len(), 53);
}

#[test]
fn an_inner_batch_is_refused_by_other_topics() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let queue = store.queue("Plain", 0).unwrap();
    let sent = store::Message { sys_flag: INNER, ..message(b"x", b"INNER_NUM\x013\x02") };
    let refused = store.batch().push(&queue, &sent);
    assert_eq!(refused, Err(PushError::InnerBatch { topic: "Plain".to_owned() }));
    assert!(!queue.is_batched());
}

#[test]
fn a_topic_made_while_the_store_is_open_has_queues_of_batches_after_a_crash_as_well() {
    let disk = FakeDisk::new(512);
    let store = Store::open(small_config(), Arc::new(disk.clone())).unwrap();
    store.add_batched_topic("Batches");
    let max = fill(&store, 20);
    check(&store, max);
    check(&open(&disk.killed()), max);
}

#[test]
fn nothing_is_lost_by_kills_and_power_cuts() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    fill(&store, 12);
    store.checkpoint().unwrap();
    fill(&store, 7);
    store.journal().unwrap();
    let max = fill(&store, 9);
    assert_eq!(flush(&store), store::FlushOutcome::Flushed);
    for (seed, disk) in (1..9).map(|seed| (seed, disk.power_cut(seed))).chain([(0, disk.killed())]) {
        let mut next = max;
        for run in 0..2 {
            let store = open(&disk);
            store.wait_healed();
            check(&store, next);
            next = fill(&store, 6);
            if run == 1 {
                store.close().unwrap();
            } else {
                assert_eq!(flush(&store), store::FlushOutcome::Flushed);
            }
        }
        assert_clean(&disk);
        let units = javas(&disk);
        assert_eq!(units.len(), 40, "seed {seed}");
        assert!(units.windows(2).all(|pair| pair[0].2 + pair[0].3 == pair[1].2), "seed {seed}");
    }
}

#[test]
fn whatever_derived_file_is_lost_comes_back() {
    let lost: [&[&str]; 6] = [
        &[OURS],
        &[JAVAS],
        &["/store/vostok"],
        &[OURS, JAVAS],
        &["/store/vostok", "/store/batchconsumequeue", "/store/checkpoint"],
        &["/store/checkpoint"],
    ];
    for directories in lost {
        let disk = FakeDisk::new(512);
        let store = open(&disk);
        let max = fill(&store, 40);
        store.close().unwrap();
        drop(store);
        for directory in directories {
            match directory.ends_with("checkpoint") {
                true => disk.remove(directory.as_ref()).unwrap(),
                false => remove_all(&disk, directory.as_ref()),
            }
        }
        let store = open(&disk);
        store.wait_healed();
        check(&store, max);
        assert_eq!(fill(&store, 5), max + 14);
        store.wait_healed();
        store.close().unwrap();
        assert_eq!(javas(&disk).len(), 45, "{directories:?}");
        assert_eq!(short(&javas(&disk))[..40], expected(40), "{directories:?}");
        assert_clean(&disk);
    }
}

/// A store as RocketMQ leaves it: RocketMQ's files and the log, no file of Vostok.
#[test]
fn a_store_of_javas_opens_with_numbers_nobody_has() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    fill(&store, 6);
    store.close().unwrap();
    drop(store);
    remove_all(&disk, "/store/vostok".as_ref());
    // The second unit is the message sent alone: RocketMQ stores such ones without the two properties, and passes them over.
    let path = Path::new(JAVAS).join("00000000000000000000");
    let file = disk.open(&path).unwrap();
    let mut bytes = vec![0; 3 * 46];
    file.read_at(&mut bytes[..46], 0).unwrap();
    file.read_at(&mut bytes[46..], 2 * 46).unwrap();
    file.write_at(&bytes, 0).unwrap();
    let mut tail = vec![0; 4 * 46];
    let next = Path::new(JAVAS).join("00000000000000000184");
    disk.open(&next).unwrap().read_at(&mut tail, 0).unwrap();
    file.write_at(&tail[..46], 3 * 46).unwrap();
    disk.open(&next).unwrap().write_at(&tail[46..92], 0).unwrap();
    disk.open(&next).unwrap().zero(46, 46).unwrap();
    let before = javas(&disk);
    let store = open(&disk);
    let queue = store.find_queue("Batches", 0).unwrap();
    assert_eq!((queue.min().get(), queue.max().get()), (0, 17));
    let mut units = Vec::new();
    queue.units_blocking(QueueOffset::ZERO, 20, &mut units).unwrap();
    assert_eq!(units.len(), 17);
    assert_eq!(units.iter().position(Unit::is_blank), Some(3));
    store.close().unwrap();
    assert_eq!(javas(&disk), before);
}

#[test]
fn queues_an_older_version_left_alone_are_found() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let max = fill(&store, 20);
    store.close().unwrap();
    drop(store);
    remove_all(&disk, "/store/vostok".as_ref());
    // It does not know the topic's kind, keeps a table without it, and passes its records over.
    let older = Store::open(small_config(), Arc::new(disk.clone())).unwrap();
    older.close().unwrap();
    drop(older);
    assert_eq!(names(&disk, "/store/consumequeue"), ["Batches"]);
    check(&open(&disk), max);
    // RocketMQ would not start with it.
    assert!(names(&disk, "/store/consumequeue/Batches").is_empty());
}

#[test]
fn old_files_go_and_the_minimum_follows() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    disk.faults(|faults| faults.now_ms = 1000);
    fill(&store, 60);
    store.checkpoint().unwrap();
    disk.faults(|faults| faults.now_ms = 5_000_000);
    let max = fill(&store, 30);
    store.checkpoint().unwrap();
    let settings = RetentionSettings { reserved_ms: 3_600_000, ..RetentionSettings::default() };
    let round = RetentionRound { now_ms: 5_000_000, hour: 4, asked: false, unconsumed_from: &|| None };
    let done = store.retain(&settings, &round).unwrap();
    assert!(!done.verdict.remove.is_empty());
    let queue = check(&store, max);
    let min = queue.min().get();
    assert!(min > 100);
    let units = javas(&disk);
    assert!(units[0].2 > 50 && units.iter().any(|unit| unit.2 == min), "{units:?}");
    assert_eq!(units[4].2.min(min), min.min(units[4].2));
    for disk in [disk.killed(), disk.power_cut(2)] {
        let store = open(&disk);
        store.wait_healed();
        assert_eq!(check(&store, max).min().get(), min);
        store.close().unwrap();
        assert_clean(&disk);
        // And without anything of ours.
        remove_all(&disk, "/store/vostok".as_ref());
        assert_eq!(check(&open(&disk), max).min().get(), min);
    }
}

#[test]
fn a_time_leads_to_the_first_message_of_a_record() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let queue = store.queue("Batches", 0).unwrap();
    let search = |time, boundary| store.offset_by_time(&queue, time, boundary).unwrap().get();
    assert_eq!(search(5, Boundary::Lower), 0);
    for (count, now_ms) in [(3, 10), (2, 20), (4, 20), (1, 20), (5, 30), (2, 30)] {
        put(&store, &queue, count, now_ms);
    }
    for (time, lower, upper) in
        [(5, 0, 0), (10, 0, 0), (15, 3, 0), (20, 3, 9), (25, 10, 9), (30, 15, 15), (99, 15, 15)]
    {
        assert_eq!((search(time, Boundary::Lower), search(time, Boundary::Upper)), (lower, upper), "{time}");
    }
}

#[test]
fn a_damaged_last_record_misleads_no_search_by_time() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let queue = store.queue("Batches", 0).unwrap();
    for (count, now_ms) in [(3, 10), (2, 20), (4, 30), (2, 40)] {
        put(&store, &queue, count, now_ms);
    }
    store.close().unwrap();
    let at = javas(&disk)[3].0;
    // Where a record has its store time.
    let log = disk.open("/store/commitlog/00000000000000000000".as_ref()).unwrap();
    log.write_at(&[0; 8], at + 56).unwrap();
    drop(store);
    let store = open(&disk);
    let queue = store.find_queue("Batches", 0).unwrap();
    let search = |time, boundary| store.offset_by_time(&queue, time, boundary).unwrap().get();
    for (time, lower, upper) in [(5, 0, 0), (15, 3, 0), (25, 5, 3), (30, 5, 5), (99, 9, 5)] {
        assert_eq!((search(time, Boundary::Lower), search(time, Boundary::Upper)), (lower, upper), "{time}");
    }
}

#[test]
fn what_was_removed_or_has_expired_is_not_missed() {
    for kept_from in [3, 20, 53, 55] {
        let disk = FakeDisk::new(512);
        let store = open(&disk);
        assert_eq!(fill(&store, 20), 56);
        store.checkpoint().unwrap();
        let queue = store.find_queue("Batches", 0).unwrap();
        let min = store.expire_queue(&queue, i64::MAX, QueueOffset::new(kept_from)).unwrap();
        assert_eq!(min.get(), kept_from);
        store.close().unwrap();
        assert_clean(&disk);
        drop(store);
        let store = open(&disk);
        store.remove_topic("Batches").unwrap();
        store.add_batched_topic("Batches");
        fill(&store, 5);
        store.close().unwrap();
        assert_clean(&disk);
    }
}

#[test]
fn a_removed_topic_leaves_nothing_and_may_come_back_as_another_kind() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    fill(&store, 30);
    store.checkpoint().unwrap();
    assert_eq!(store.remove_topic("Batches").unwrap(), 1);
    for directory in ["/store/batchconsumequeue/Batches", "/store/vostok/batched/Batches"] {
        assert!(disk.list(directory.as_ref()).unwrap().is_empty(), "{directory}");
    }
    let queue = store.queue("Batches", 0).unwrap();
    assert!(!queue.is_batched());
    assert_eq!(crate::tool::append(&store, &queue, b"alone", 0), 0);
    store.close().unwrap();
    let store = Store::open(small_config(), Arc::new(disk.clone())).unwrap();
    assert_eq!(crate::tool::bodies(&store, &store.queue("Batches", 0).unwrap(), 0), [b"alone"]);
}

#[test]
fn damage_is_named_and_mended() {
    let cases: [(&str, u64, &str); 4] = [
        ("/store/batchconsumequeue/Batches/0/00000000000000000184", 50, "expected BatchUnit"),
        ("/store/batchconsumequeue/Batches/0/00000000000000000184", 37, "expected BatchUnit"),
        ("/store/batchconsumequeue/Batches/0/00000000000000000184", 27, "expected BatchUnit"),
        ("/store/vostok/batched/Batches/0/00000000000000000160", 27, "it leads to"),
    ];
    for (path, at, words) in cases {
        let disk = FakeDisk::new(512);
        let store = open(&disk);
        let max = fill(&store, 20);
        store.close().unwrap();
        drop(store);
        let before = javas(&disk);
        let file = disk.open(path.as_ref()).unwrap();
        let mut byte = [0];
        file.read_at(&mut byte, at).unwrap();
        file.write_at(&[byte[0] ^ 0x10], at).unwrap();
        let found = verified(&disk);
        assert!(
            found.findings.iter().any(|finding| finding.what.contains(words)),
            "{at}: {:?}",
            found.findings
        );
        let survey = survey(&disk);
        Repair::of(&survey, &found).apply(Path::new("/kept")).unwrap();
        let store = open(&disk);
        store.wait_healed();
        check(&store, max);
        store.close().unwrap();
        assert_eq!(javas(&disk), before);
        assert_clean(&disk);
    }
}

#[test]
fn a_dump_shows_the_units_as_rocketmq_has_them() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    fill(&store, 8);
    store.close().unwrap();
    let mut rows = Vec::new();
    let wanted = Selection { topic: Some("Batches".to_owned()), queue_from: 4, ..Selection::default() };
    let mut give = |row: store::inspect::Row| {
        rows.push(row.to_string());
        std::ops::ControlFlow::Continue(())
    };
    survey(&disk).dump(DumpPart::Queues, &wanted, &mut give).unwrap();
    assert_eq!(rows.len(), 6);
    assert!(rows[0].contains("batch-unit") && rows[0].contains("storeTime"), "{}", rows[0]);
    assert!(rows[0].contains("offset=4") || rows[0].contains("\"offset\":4"), "{}", rows[0]);
}

/// Thousands of compressed messages take no more room in the log than a single message.
#[test]
fn a_queue_of_large_batches_is_rebuilt_from_a_log_that_begins_later() {
    let config = || Config { queue_file_bytes: 1 << 20, ..config() };
    let disk = FakeDisk::new(512);
    let store = Store::open(config(), Arc::new(disk.clone())).unwrap();
    let queue = store.queue("Batches", 0).unwrap();
    let append = |store: &Store, queue: &Arc<Queue>| {
        let sent = store::Message { sys_flag: INNER, ..message(&[7; 200], b"INNER_NUM\x0130000\x02") };
        let mut batch = store.batch();
        let index = batch.push(queue, &sent).unwrap();
        store.append(&mut batch, 0).unwrap();
        batch.append_result(index).queue_offset.get() / 30_000
    };
    (0..15).for_each(|number| assert_eq!(append(&store, &queue), number));
    store.close().unwrap();
    drop(store);
    disk.remove("/store/commitlog/00000000000000000000".as_ref()).unwrap();
    disk.remove("/store/checkpoint".as_ref()).unwrap();
    for directory in ["/store/vostok", "/store/batchconsumequeue"] {
        remove_all(&disk, directory.as_ref());
    }
    let store = Store::open(config(), Arc::new(disk.clone())).unwrap();
    let queue = store.find_queue("Batches", 0).unwrap();
    let first = queue.min().get() / 30_000;
    assert!(first > 5 && first < 15, "{queue:?}");
    assert_eq!((queue.min().get(), queue.max().get()), (first * 30_000, 15 * 30_000));
    assert_eq!(append(&store, &queue), 15);
}
