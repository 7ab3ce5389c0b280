//! Damage of stored records is found before they are served, and a log that another program rewrote is not damage.

use crate::tool::{append, message, open, small_config};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{Config, CqUnit, Disk, FakeDisk, Queue, ReadError, Space, Store, Unit};
use wire::record::RecordView;
use wire::units::QueueOffset;

const SEGMENT: &str = "/store/commitlog/00000000000000000000";
const DIGESTS: &str = "/store/vostok/digest/00000000000000000000";

/// Makes a closed store with `count` messages in a queue.
fn closed(count: u32) -> FakeDisk {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let queue = store.queue("TopicA", 0).unwrap();
    for number in 0..count {
        append(&store, &queue, &number.to_be_bytes(), 1000 + i64::from(number));
    }
    store.close().unwrap();
    disk
}

fn flip(disk: &FakeDisk, path: &str, at: u64) {
    let file = disk.open(Path::new(path)).unwrap();
    let mut byte = [0];
    file.read_at(&mut byte, at).unwrap();
    file.write_at(&[byte[0] ^ 0x20], at).unwrap();
}

fn units(queue: &Queue) -> Vec<CqUnit> {
    let mut units: Vec<Unit> = Vec::new();
    queue.units_blocking(QueueOffset::ZERO, 10_000, &mut units).unwrap();
    let numbered = |(number, unit)| CqUnit { offset: QueueOffset::new(number), unit };
    (0..).zip(units).map(numbered).collect()
}

/// Returns the indexes of the messages that are not served, and the reason for the first.
fn damaged(store: &Store) -> (Vec<usize>, String) {
    let queue = store.find_queue("TopicA", 0).unwrap();
    match store.read_messages_blocking(&queue, &units(&queue), &mut Vec::new()) {
        Ok(()) => (Vec::new(), String::new()),
        Err(ReadError::Damaged(list)) => {
            (list.iter().map(|damage| damage.index).collect(), list[0].what.clone())
        }
        // The store asks the log whether the unit is to blame.
        Err(ReadError::Rebuilding { .. }) => {
            store.wait_healed();
            damaged(store)
        }
        Err(error) => panic!("{error}"),
    }
}

fn position(store: &Store, number: usize) -> u64 {
    units(&store.find_queue("TopicA", 0).unwrap())[number].unit.log_offset.get()
}

#[test]
fn a_flipped_flag_of_an_old_record_is_seen_by_all_readers() {
    let disk = closed(10);
    let store = open(&disk);
    assert_eq!(damaged(&store).0, [0usize; 0]);
    let at = position(&store, 4);
    drop(store);
    flip(&disk, SEGMENT, at + 17);
    let store = open(&disk);
    let queue = store.find_queue("TopicA", 0).unwrap();
    let (found, what) = damaged(&store);
    assert_eq!(found, [4]);
    assert!(what.contains("all but the body"), "{what}");
    // What is in memory was there before opening, so it is checked as well.
    let read = store.read_messages(&queue, &units(&queue)[3..6], &mut Vec::new());
    assert!(matches!(read, Err(ReadError::Damaged(list)) if list.len() == 1 && list[0].index == 1));
    let at = units(&queue)[4].unit.log_offset;
    assert!(matches!(store.record_at(at, &mut Vec::new()), Err(ReadError::Damaged(_))));
    // By queue and by position: two ways to meet it, each is told once.
    assert_eq!(store.damaged(), 2);
}

#[test]
fn a_unit_that_leads_to_another_message_is_seen_and_rebuilt() {
    let disk = closed(10);
    let queue_file = "/store/consumequeue/TopicA/0/00000000000000000000";
    // All records are equally long: unit 2 becomes unit 3.
    let file = disk.open(Path::new(queue_file)).unwrap();
    let mut unit = [0; 20];
    file.read_at(&mut unit, 60).unwrap();
    file.write_at(&unit, 40).unwrap();
    let store = open(&disk);
    let queue = store.find_queue("TopicA", 0).unwrap();
    let read = queue.units_blocking(QueueOffset::ZERO, 10, &mut Vec::new());
    assert!(matches!(read, Err(ReadError::Rebuilding { .. })), "{read:?}");
    store.wait_healed();
    assert_eq!((damaged(&store).0, units(&queue).len()), (vec![], 10));
}

#[test]
fn a_rebuild_that_found_no_space_is_tried_again() {
    let disk = closed(10);
    disk.remove(Path::new("/store/consumequeue/TopicA/0/00000000000000000000")).unwrap();
    disk.faults(|faults| faults.fails_below = Some("/store/consumequeue".into()));
    let (start, pause) = (Instant::now(), Duration::from_secs(60));
    let config = Config { rebuild_pause: pause, ..small_config() };
    let store = Store::open_without_threads(config, Arc::new(disk.clone()), start).unwrap();
    let queue = store.find_queue("TopicA", 0).unwrap();
    let is_lost = || {
        let read = queue.units_blocking(QueueOffset::ZERO, 10, &mut Vec::new());
        assert!(matches!(read, Ok(_) | Err(ReadError::Rebuilding { .. })), "{read:?}");
        read.is_err()
    };
    // The first try fails, and nobody waits for ever.
    store.wait_healed();
    assert!(is_lost());
    disk.faults(|faults| faults.fails_below = None);
    store.run_due(start + pause - Duration::from_millis(1));
    assert!(is_lost(), "the pause is not over");
    store.run_due(start + pause);
    assert!(!is_lost());
    assert_eq!(units(&queue).len(), 10);
}

#[test]
fn damaged_and_missing_digests_cost_nothing_but_the_check() {
    for at in [0, 5, 9, 14, 511] {
        let disk = closed(10);
        flip(&disk, DIGESTS, at);
        assert_eq!(damaged(&open(&disk)).0, [0usize; 0], "byte {at}");
    }
    let disk = closed(200);
    disk.remove(Path::new(DIGESTS)).unwrap();
    let store = open(&disk);
    assert_eq!(damaged(&store).0, [0usize; 0]);
    append(&store, &store.find_queue("TopicA", 0).unwrap(), b"goes on", 5000);
    store.close().unwrap();
    assert_eq!(damaged(&open(&disk)).0, [0usize; 0]);
}

#[test]
fn what_recovery_read_is_checked_from_then_on() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let queue = store.queue("TopicA", 0).unwrap();
    for number in 0..300u32 {
        append(&store, &queue, &number.to_be_bytes(), 1000);
        if number == 100 {
            store.checkpoint().unwrap();
        }
    }
    let disk = disk.killed();
    open(&disk).close().unwrap();
    for number in [0, 100, 101, 299] {
        let disk = disk.killed();
        let store = open(&disk);
        let at = position(&store, number);
        drop(store);
        flip(&disk, &format!("/store/commitlog/{:020}", at / 4096 * 4096), at % 4096 + 18);
        assert_eq!(damaged(&open(&disk)).0, [number]);
    }
}

/// Makes the store look as if a Java broker ran in between: it leaves no digests, and its process id or other times.
fn as_java(disk: &FakeDisk) {
    flip(disk, "/store/checkpoint", 7);
}

/// Writes other messages over the last messages, like a broker that cut the tail.
fn rewrite(disk: &FakeDisk, from: usize, count: usize) {
    let config = Config { digests: false, ..small_config() };
    let store = Store::open(config.clone(), Arc::new(disk.clone())).unwrap();
    let at = position(&store, from);
    drop(store);
    for path in ["/store/checkpoint", "/store/consumequeue/TopicA/0/00000000000000000000"] {
        disk.remove(Path::new(path)).unwrap();
    }
    for base in (0..64).map(|number| number * 4096u64) {
        let path = format!("/store/commitlog/{base:020}");
        if base > at {
            disk.remove(Path::new(&path)).unwrap();
        } else if at < base + 4096 {
            disk.open(Path::new(&path)).unwrap().zero(at - base, base + 4096 - at).unwrap();
        }
    }
    let digests = disk.killed();
    let store = Store::open(config, Arc::new(disk.clone())).unwrap();
    let queue = store.find_queue("TopicA", 0).unwrap();
    assert_eq!(queue.max().get(), from as u64);
    for _ in 0..count {
        let mut batch = store.batch();
        batch.push(&queue, &message(b"java", b"TAGS\x01TagA\x02")).unwrap();
        store.append(&mut batch, 9000).unwrap();
    }
    store.close().unwrap();
    // Our store took the digests of what it cut out; Java would not have.
    for entry in digests.list(Path::new("/store/vostok/digest")).unwrap() {
        let path = Path::new("/store/vostok/digest").join(&entry.name);
        let mut bytes = vec![0; usize::try_from(entry.length).unwrap()];
        digests.open(&path).unwrap().read_at(&mut bytes, 0).unwrap();
        let file = disk.create(&path, entry.length, Space::Sparse).unwrap();
        file.write_at(&bytes, 0).unwrap();
    }
}

#[test]
fn a_tail_that_another_broker_rewrote_is_not_damaged() {
    for (from, count) in [(90, 10), (99, 1), (5, 200), (20, 3), (64, 0)] {
        let disk = closed(100);
        rewrite(&disk, from, count);
        as_java(&disk);
        let store = open(&disk);
        assert_eq!(damaged(&store), (Vec::new(), String::new()), "from {from}, {count} written");
        append(&store, &store.find_queue("TopicA", 0).unwrap(), b"ours again", 10_000);
        store.close().unwrap();
        assert_eq!(damaged(&open(&disk)).0, [0usize; 0]);
        // What was not rewritten is still watched over.
        flip(&disk, SEGMENT, 17);
        assert_eq!(damaged(&open(&disk)).0, [0]);
    }
}

#[test]
fn the_rule_matters_a_store_that_seems_untouched_condemns_rewritten_records() {
    let disk = closed(100);
    rewrite(&disk, 90, 10);
    assert_eq!(damaged(&open(&disk)).0, (90..100).collect::<Vec<_>>());
}

#[test]
fn digests_follow_the_log_files() {
    let disk = closed(300);
    let names = |path: &str| -> Vec<String> {
        disk.list(Path::new(path)).unwrap().into_iter().map(|entry| entry.name).collect()
    };
    let before = names("/store/commitlog");
    assert!(before.len() > 5);
    assert_eq!(names("/store/vostok/digest"), before);
    disk.remove(Path::new(SEGMENT)).unwrap();
    open(&disk).close().unwrap();
    assert_eq!(names("/store/vostok/digest"), before[1..]);
}

#[test]
fn a_disk_that_cannot_keep_digests_keeps_messages() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let queue = store.queue("TopicA", 0).unwrap();
    append(&store, &queue, b"first", 1);
    store.checkpoint().unwrap();
    disk.remove(Path::new(DIGESTS)).unwrap();
    disk.faults(|faults| faults.fails_below = Some("/store/vostok".into()));
    append(&store, &queue, b"second", 1);
    store.checkpoint().unwrap();
    append(&store, &queue, b"third", 1);
    store.close().unwrap();
    disk.faults(|faults| faults.fails_below = None);
    let store = open(&disk);
    assert_eq!(damaged(&store).0, [0usize; 0]);
    assert_eq!(store.find_queue("TopicA", 0).unwrap().max().get(), 3);
}

#[test]
fn every_byte_of_a_record_is_watched_over() {
    let disk = closed(3);
    let store = open(&disk);
    let queue = store.find_queue("TopicA", 0).unwrap();
    let list = units(&queue);
    let mut bytes = Vec::new();
    store.read_messages_blocking(&queue, &list[1..2], &mut bytes).unwrap();
    assert_eq!(RecordView::parse(&bytes).unwrap().size(), bytes.len());
    drop(store);
    let at = list[1].unit.log_offset.get();
    for byte in 0..bytes.len() as u64 {
        let disk = disk.killed();
        flip(&disk, SEGMENT, at + byte);
        assert_eq!(damaged(&open(&disk)).0, [1], "byte {byte}");
    }
}
