//! Damage of files that were durable: of derived files, and in the middle of the log.

use crate::tool::{append, bodies, flush, message, messages_of, open, small_config};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::inspect::{Repair, Survey, verify};
use store::{
    Boundary, Config, CqUnit, Disk, FakeDisk, FlushOutcome, Gap, OpenError, ReadError, Space, Store,
};
use wire::units::QueueOffset;

/// A closed store: `count` messages in each of three queues, round about; answers as well where each record begins.
fn closed(count: u8) -> (FakeDisk, Vec<u64>) {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let mut starts = Vec::new();
    for number in 0..count {
        for queue_id in 0..3 {
            let queue = store.queue("Topic", queue_id).unwrap();
            append(&store, &queue, &[number; 150], 0);
            let mut units = Vec::new();
            queue.units_blocking(QueueOffset::new(u64::from(number)), 1, &mut units).unwrap();
            starts.push(units[0].log_offset.get());
        }
    }
    store.close().unwrap();
    (disk, starts)
}

fn files_of(disk: &FakeDisk, directory: &str) -> Vec<PathBuf> {
    let entries = disk.list(directory.as_ref()).unwrap();
    entries.iter().filter(|entry| !entry.is_dir).map(|entry| Path::new(directory).join(&entry.name)).collect()
}

fn remove_all(disk: &FakeDisk, directory: &str) {
    files_of(disk, directory).iter().for_each(|path| disk.remove(path).unwrap());
}

fn content(disk: &FakeDisk, path: &Path) -> Vec<u8> {
    let file = disk.open(path).unwrap();
    let mut bytes = vec![0; usize::try_from(file.length().unwrap()).unwrap()];
    file.read_at(&mut bytes, 0).unwrap();
    bytes
}

fn check_whole(store: &Store, count: usize) {
    for queue_id in 0..3 {
        assert_eq!(bodies(store, &store.find_queue("Topic", queue_id).unwrap(), 0).len(), count);
    }
}

/// Damages a queue file, opens, sends at once, and afterwards everything is as it was, to the byte.
fn heals(what: &str, harm: impl Fn(&FakeDisk, &Path)) {
    let (disk, _) = closed(30);
    let files = files_of(&disk, "/store/consumequeue/Topic/1");
    let before: Vec<_> = files.iter().map(|path| content(&disk, path)).collect();
    assert!(files.len() > 3);
    for path in &files {
        let disk = disk.killed();
        harm(&disk, path);
        let store = open(&disk);
        assert_eq!(store.recovered().records, 0, "{what}");
        let queue = store.find_queue("Topic", 1).unwrap();
        assert_eq!(append(&store, &queue, b"next", 0), 30, "{what}");
        let read = queue.units_blocking(QueueOffset::ZERO, 30, &mut Vec::new());
        assert!(matches!(read, Ok(()) | Err(ReadError::Rebuilding { .. })), "{what}: {read:?}");
        store.wait_healed();
        assert_eq!(bodies(&store, &queue, 0).len(), 31, "{what}");
        assert_eq!(store.progress(), store::HealProgress::default(), "{what}");
        store.close().unwrap();
        for (path, before) in files.iter().zip(&before).take(files.len() - 1) {
            assert_eq!(&content(&disk, path), before, "{what}: {}", path.display());
        }
        let last = content(&disk, &files[files.len() - 1]);
        assert_eq!(last[..6 * 20], before[files.len() - 1][..6 * 20], "{what}");
        let store = open(&disk);
        assert!(!store.recovered().after_crash, "{what}");
        store.wait_healed();
    }
}

#[test]
fn a_deleted_truncated_emptied_or_flipped_queue_file_is_rebuilt_while_serving() {
    heals("deleted", |disk, path| disk.remove(path).unwrap());
    heals("truncated", |disk, path| drop(disk.create(path, 70, Space::Sparse).unwrap()));
    heals("empty", |disk, path| drop(disk.create(path, 0, Space::Sparse).unwrap()));
    heals("zeroed", |disk, path| disk.open(path).unwrap().zero(0, 160).unwrap());
    heals("a hole", |disk, path| disk.open(path).unwrap().zero(40, 20).unwrap());
    heals("out of order", |disk, path| disk.open(path).unwrap().write_at(&[0x40], 43).unwrap());
}

#[test]
fn all_queue_files_can_go_and_no_offset_is_given_out_twice() {
    let (disk, _) = closed(30);
    for queue_id in 0..3 {
        remove_all(&disk, &format!("/store/consumequeue/Topic/{queue_id}"));
    }
    let store = open(&disk);
    for queue_id in 0..3 {
        assert_eq!(append(&store, &store.find_queue("Topic", queue_id).unwrap(), b"next", 0), 30);
    }
    store.wait_healed();
    check_whole(&store, 31);
    // Once more, and killed before anything was written again.
    drop(store);
    let store = open(&disk.killed());
    store.wait_healed();
    check_whole(&store, 31);
}

#[test]
fn a_store_closed_before_it_healed_counts_as_crashed() {
    let (disk, _) = closed(30);
    disk.remove("/store/consumequeue/Topic/1/00000000000000000000".as_ref()).unwrap();
    let store = open(&disk);
    let queue = store.find_queue("Topic", 1).unwrap();
    store.rebuild(&queue, QueueOffset::ZERO..QueueOffset::new(30));
    store.close().unwrap();
    let healed = !disk.list("/store".as_ref()).unwrap().iter().any(|entry| entry.name == "abort");
    let store = open(&disk);
    assert_eq!(store.recovered().after_crash, !healed);
    store.wait_healed();
    check_whole(&store, 30);
}

/// Removes the table, so that the store looks as a Java broker leaves it.
fn as_from_elsewhere(disk: &FakeDisk, without: &[&str]) {
    remove_all(disk, "/store/vostok");
    without.iter().for_each(|path| remove_all(disk, path));
}

const QUEUES: [&str; 3] =
    ["/store/consumequeue/Topic/0", "/store/consumequeue/Topic/1", "/store/consumequeue/Topic/2"];

#[test]
fn damage_in_the_middle_of_the_log_is_confined() {
    let (disk, starts) = closed(30);
    // A body, a head, the head of the first record of a file, and the length of another.
    let first_of_file = starts.iter().position(|start| *start == 4096).unwrap();
    for (index, at) in [(10, 100), (20, 4), (first_of_file, 5), (40, 1)] {
        let disk = disk.killed();
        as_from_elsewhere(&disk, &QUEUES);
        let start = starts[index];
        let path = format!("/store/commitlog/{:020}", start / 4096 * 4096);
        disk.open(path.as_ref()).unwrap().write_at(b"!", start % 4096 + at).unwrap();
        let store = open(&disk);
        let recovered = store.recovered();
        assert_eq!((recovered.cut.clone(), recovered.records), (None, 89), "record {index}");
        let next = starts[index + 1];
        assert_eq!(recovered.gaps, [Gap { at: start, length: next - start }]);
        // Its place stays empty, and all others keep theirs.
        let (queue_id, place) = (index % 3, index / 3);
        for number in 0..3 {
            let queue = store.find_queue("Topic", i32::try_from(number).unwrap()).unwrap();
            assert_eq!(queue.max().get(), 30);
            let mut units = Vec::new();
            queue.units_blocking(QueueOffset::ZERO, 30, &mut units).unwrap();
            let blank: Vec<_> = (0..30).filter(|place| units[*place].is_blank()).collect();
            assert_eq!(blank, if number == queue_id { vec![place] } else { vec![] });
            assert_eq!(append(&store, &queue, b"next", 0), 30);
        }
        // Nothing of the damaged file was touched.
        assert_eq!(content(&disk, path.as_ref())[usize::try_from(start % 4096 + at).unwrap()], b'!');
    }
}

#[test]
fn a_zeroed_stretch_over_two_files_is_confined() {
    let (disk, starts) = closed(60);
    as_from_elsewhere(&disk, &QUEUES);
    let segment = |base: u64| disk.open(format!("/store/commitlog/{base:020}").as_ref()).unwrap();
    segment(4096).zero(3000, 1096).unwrap();
    segment(8192).zero(0, 500).unwrap();
    let store = open(&disk);
    let (first, last) = (4096 + 3000, 8192 + 500);
    let at = *starts.iter().rev().find(|start| **start <= first).unwrap();
    let next = *starts.iter().find(|start| **start >= last).unwrap();
    let gaps = &store.recovered().gaps;
    assert_eq!((gaps[0].at, gaps.iter().map(|gap| gap.length).sum::<u64>()), (at, next - at));
    for queue_id in 0..3 {
        assert_eq!(store.find_queue("Topic", queue_id).unwrap().max().get(), 60);
    }
    assert_eq!(store.recovered().cut, None);
}

#[test]
fn damage_at_the_end_of_the_log_is_cut() {
    let (disk, starts) = closed(30);
    as_from_elsewhere(&disk, &QUEUES);
    let start = starts[89];
    let path = format!("/store/commitlog/{:020}", start / 4096 * 4096);
    disk.open(path.as_ref()).unwrap().write_at(b"!", start % 4096 + 100).unwrap();
    let store = open(&disk);
    assert_eq!((store.recovered().end, store.recovered().records), (start, 89));
    assert!(store.recovered().cut.is_some() && store.recovered().gaps.is_empty());
}

#[test]
fn a_hostile_queue_offset_makes_no_queue_leap() {
    for claimed in [1u64 << 20, 1 << 40, i64::MAX.unsigned_abs()] {
        let disk = FakeDisk::new(512);
        let store = open(&disk);
        let (first, second) = (store.queue("First", 0).unwrap(), store.queue("Second", 0).unwrap());
        append(&store, &first, b"of an empty queue", 0);
        append(&store, &second, b"0", 0);
        let at = store.appended().get();
        append(&store, &second, b"1", 0);
        append(&store, &second, b"2", 0);
        let disk = disk.killed();
        let log = disk.open("/store/commitlog/00000000000000000000".as_ref()).unwrap();
        for start in [0, at] {
            log.write_at(&claimed.to_be_bytes(), start + 20).unwrap();
        }
        let store = open(&disk);
        assert_eq!(store.recovered().records, 4);
        assert!(store.find_queue("First", 0).is_none_or(|queue| queue.max().get() == 0));
        let queue = store.find_queue("Second", 0).unwrap();
        let mut units = Vec::new();
        queue.units_blocking(QueueOffset::ZERO, 10, &mut units).unwrap();
        // The place in between leads to what is there, which says another number.
        assert_eq!((queue.max().get(), units[1].log_offset.get()), (3, at), "{claimed}");
    }
}

#[test]
fn many_files_are_read_ahead_and_give_the_same_queues() {
    let disk = FakeDisk::new(512);
    let config = || Config { segment_bytes: 1024, ..small_config() };
    let store = Store::open(config(), Arc::new(disk.clone())).unwrap();
    let queues: Vec<_> = (0..7).map(|id| store.queue("Topic", id).unwrap()).collect();
    for number in 0..2000usize {
        let mut batch = store.batch();
        batch.push(&queues[number % 7], &message(&[7; 60], b"TAGS\x01TagA\x02")).unwrap();
        store.append(&mut batch, 0).unwrap();
    }
    store.close().unwrap();
    let path = |id| format!("/store/consumequeue/Topic/{id}");
    let all = |disk: &FakeDisk| -> Vec<_> {
        (0..7).flat_map(|id| files_of(disk, &path(id))).map(|path| content(disk, &path)).collect()
    };
    let before = all(&disk);
    as_from_elsewhere(&disk, &[]);
    (0..7).for_each(|id| remove_all(&disk, &path(id)));
    let store = Store::open(config(), Arc::new(disk.clone())).unwrap();
    assert_eq!(store.recovered().records, 2000);
    store.close().unwrap();
    assert_eq!(all(&disk), before);
}

#[test]
fn another_programs_messages_void_the_table() {
    let (disk, _) = closed(10);
    // A Java broker opened the store, stored one more message, and stopped: another checkpoint, no crash mark.
    let elsewhere = disk.killed();
    remove_all(&elsewhere, "/store/vostok");
    let store = open(&elsewhere);
    append(&store, &store.find_queue("Topic", 1).unwrap(), b"from elsewhere", 0);
    store.close().unwrap();
    let numbers = content(&elsewhere, "/store/checkpoint".as_ref());
    let mixed = elsewhere.killed();
    remove_all(&mixed, "/store/vostok");
    for path in files_of(&disk, "/store/vostok") {
        let table = content(&disk, &path);
        let file = mixed.create(&path, table.len() as u64, Space::Sparse).unwrap();
        file.write_at(&table, 0).unwrap();
    }
    let page = content(&disk, "/store/checkpoint".as_ref());
    let file = mixed.open("/store/checkpoint".as_ref()).unwrap();
    file.write_at(&page, 0).unwrap();
    file.write_at(&numbers[..48], 0).unwrap();
    let store = open(&mixed);
    assert_eq!(store.find_queue("Topic", 1).unwrap().max().get(), 11);
    assert_eq!(append(&store, &store.find_queue("Topic", 1).unwrap(), b"here again", 0), 11);
    // One that was killed before it wrote a checkpoint is told by its crash mark.
    let killed = disk.killed();
    let file = killed.create("/store/abort".as_ref(), 5, Space::Sparse).unwrap();
    file.write_at(b"12345", 0).unwrap();
    let records = |disk: FakeDisk| {
        let store = open(&disk);
        check_whole(&store, 10);
        assert!(store.recovered().after_crash);
    };
    records(killed);
}

#[test]
fn a_unit_that_leads_elsewhere_is_told_and_rebuilt() {
    // All in order, so that only reading the message tells.
    for (what, at, mask) in [("position", 7, 0x04u8), ("size", 11, 0x02)] {
        let (disk, _) = closed(30);
        let path = Path::new("/store/consumequeue/Topic/1/00000000000000000000");
        let before = content(&disk, path);
        let mut bytes = before.clone();
        bytes[60 + at] ^= mask;
        disk.open(path).unwrap().write_at(&bytes, 0).unwrap();
        let store = open(&disk);
        store.wait_healed();
        let queue = store.find_queue("Topic", 1).unwrap();
        let read = store.read_messages_blocking(&queue, &messages_of(&queue), &mut Vec::new());
        assert!(matches!(&read, Err(ReadError::Rebuilding { .. })), "{what}: {read:?}");
        store.wait_healed();
        store.read_messages_blocking(&queue, &messages_of(&queue), &mut Vec::new()).unwrap();
        assert_eq!(content(&disk, path), before, "{what}");
    }
}

#[test]
fn a_damaged_record_misleads_no_search_by_time() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let queue = store.queue("T", 0).unwrap();
    for number in 0..10 {
        append(&store, &queue, b"body", 1000 + number);
    }
    let mut units = Vec::new();
    queue.units_blocking(QueueOffset::ZERO, 10, &mut units).unwrap();
    store.close().unwrap();
    drop(store);
    // Message 5, where a search begins: too late a store time, too early a one, a length that leads out of the file.
    for (at, bytes) in [(56, &i64::MAX.to_be_bytes()[..]), (56, &[0; 8][..]), (0, &[0, 0, 0x20, 0][..])] {
        let disk = disk.killed();
        let log = disk.open("/store/commitlog/00000000000000000000".as_ref()).unwrap();
        log.write_at(bytes, units[5].log_offset.get() + at).unwrap();
        let store = open(&disk);
        let queue = store.find_queue("T", 0).unwrap();
        let find = |time, boundary| store.offset_by_time(&queue, time, boundary).unwrap().get();
        assert_eq!(store.store_time(&queue, QueueOffset::new(5)).unwrap(), None, "{at} {bytes:?}");
        for number in 0..10 {
            let time = 1000 + i64::try_from(number).unwrap();
            let (first, last) = if number == 5 { (6, 4) } else { (number, number) };
            let found = (find(time, Boundary::Lower), find(time, Boundary::Upper));
            assert_eq!(found, (first, last), "{at} {bytes:?} {number}");
        }
    }
}

/// RocketMQ takes the indexed end of the log from the last unit of a queue. A blank unit reads as 2 GiB, and hides
/// later messages.
#[test]
fn a_queue_rebuilt_without_its_last_message_ends_where_that_was() {
    for is_filled in [false, true] {
        let (disk, starts) = closed(30);
        let lost = starts[29 * 3 + 1];
        let path = format!("/store/commitlog/{:020}", lost / 4096 * 4096);
        disk.open(path.as_ref()).unwrap().write_at(b"!", lost % 4096 + 100).unwrap();
        if is_filled {
            let survey = Survey::of(Arc::new(disk.clone()), "/store".as_ref(), &[]).unwrap();
            Repair::of(&survey, &verify(&survey, 1, &|_| {}).unwrap()).apply("/kept".as_ref()).unwrap();
        }
        remove_all(&disk, QUEUES[1]);
        let store = open(&disk);
        store.wait_healed();
        let queue = store.find_queue("Topic", 1).unwrap();
        let mut units = Vec::new();
        queue.units_blocking(QueueOffset::ZERO, 30, &mut units).unwrap();
        assert_eq!((queue.max().get(), units.len()), (30, 30));
        let size = starts[29 * 3 + 2] - lost;
        assert_eq!((units[29].log_offset.get(), u64::from(units[29].size)), (lost, size), "{is_filled}");
        // It is missed, and all others are served.
        let messages = |range: std::ops::Range<usize>| -> Vec<CqUnit> {
            let number = |at| QueueOffset::new(at as u64);
            range.map(|at| CqUnit { offset: number(at), unit: units[at] }).collect()
        };
        store.read_messages_blocking(&queue, &messages(0..29), &mut Vec::new()).unwrap();
        let read = || store.read_messages_blocking(&queue, &messages(29..30), &mut Vec::new());
        let first = read();
        assert!(matches!(first, Err(ReadError::Damaged(_) | ReadError::Rebuilding { .. })), "{first:?}");
        store.wait_healed();
        let again = read();
        assert!(matches!(again, Err(ReadError::Damaged(_))), "healed once: {again:?}");
        assert_eq!(append(&store, &queue, b"next", 0), 30);
        store.close().unwrap();
        as_from_elsewhere(&disk, &[]);
        let store = open(&disk);
        let queue = store.find_queue("Topic", 1).unwrap();
        let mut again = Vec::new();
        queue.units_blocking(QueueOffset::ZERO, 40, &mut again).unwrap();
        assert_eq!((&again[..30], again.len()), (&units[..], 31));
    }
}

/// Makes a store of 30 messages in each of three queues, closed and opened again. Each queue then got another message
/// before a kill. Also returns the starts of the last three records.
fn killed_behind_the_checkpoint() -> (FakeDisk, Vec<u64>) {
    let (disk, _) = closed(30);
    let store = open(&disk);
    let mut starts = Vec::new();
    for queue_id in 0..3 {
        let queue = store.queue("Topic", queue_id).unwrap();
        append(&store, &queue, &[30; 150], 0);
        let mut units = Vec::new();
        queue.units_blocking(QueueOffset::new(30), 1, &mut units).unwrap();
        starts.push(units[0].log_offset.get());
    }
    let disk = disk.killed();
    drop(store);
    (disk, starts)
}

#[test]
fn the_offset_of_a_message_that_a_repair_replaced_is_not_given_out_again() {
    let (disk, starts) = killed_behind_the_checkpoint();
    let lost = starts[1];
    let path = format!("/store/commitlog/{:020}", lost / 4096 * 4096);
    disk.open(path.as_ref()).unwrap().write_at(b"!", lost % 4096 + 100).unwrap();
    let survey = Survey::of(Arc::new(disk.clone()), "/store".as_ref(), &[]).unwrap();
    Repair::of(&survey, &verify(&survey, 1, &|_| {}).unwrap()).apply("/kept".as_ref()).unwrap();
    let store = open(&disk);
    let next = |queue_id: i32| append(&store, &store.find_queue("Topic", queue_id).unwrap(), b"next", 0);
    assert_eq!(next(2), 31, "its message lies behind the repair");
    assert!(next(1) > 30, "number 30 was acknowledged and destroyed");
}

/// The previous broker was stopped cleanly and left no checkpoint. Zeros in its log are damage, also when the start that notes
/// this is killed.
#[test]
fn a_killed_start_does_not_make_the_next_one_forget_a_clean_stop() {
    let (disk, starts) = closed(30);
    as_from_elsewhere(&disk, &QUEUES);
    disk.remove("/store/checkpoint".as_ref()).unwrap();
    let damaged = starts[40].next_multiple_of(512);
    let path = format!("/store/commitlog/{:020}", damaged / 4096 * 4096);
    disk.open(path.as_ref()).unwrap().zero(damaged % 4096, 512).unwrap();
    for killed_after in 0.. {
        let disk = disk.killed();
        disk.faults(|faults| faults.killed_after = Some(killed_after));
        let is_whole = Store::open(small_config(), Arc::new(disk.clone())).is_ok();
        let store = open(&disk.killed());
        let found = store.recovered();
        assert_eq!((&found.cut, found.gaps.len()), (&None, 1), "killed after {killed_after} changes");
        if is_whole {
            break;
        }
    }
}

#[test]
fn the_last_record_of_a_file_whose_first_bytes_a_power_cut_took_is_no_damage() {
    let size_of = |length: usize| {
        let store = open(&FakeDisk::new(512));
        append(&store, &store.queue("Topic", 0).unwrap(), &vec![1; length], 0);
        usize::try_from(store.appended().get()).unwrap()
    };
    let around = size_of(0);
    let mut shorter = 0;
    for seed in 0..64 {
        let disk = FakeDisk::new(512);
        let store = open(&disk);
        let queue = store.queue("Topic", 0).unwrap();
        // The second record begins three bytes before the end of a sector. Its size is not below 256, and the third one finds
        // no room behind it in the file.
        append(&store, &queue, &vec![1; 3581 - around], 0);
        assert_eq!(flush(&store), FlushOutcome::Flushed);
        append(&store, &queue, &vec![2; 300 - around], 0);
        append(&store, &queue, &vec![3; 300 - around], 0);
        assert_eq!(store.appended().get(), 4096 + 300);
        let store = open(&disk.power_cut(seed));
        assert_eq!((&store.recovered().gaps[..], store.fenced()), (&[][..], None), "{seed}");
        let left = bodies(&store, &store.find_queue("Topic", 0).unwrap(), 0).len();
        assert_eq!(store.find_queue("Topic", 0).unwrap().max().get(), left as u64, "{seed}");
        shorter += usize::from(left == 1);
    }
    assert!(shorter > 0);
}

#[test]
fn a_short_record_at_the_end_of_a_sector_that_was_altered_is_damage() {
    let around = {
        let store = open(&FakeDisk::new(512));
        append(&store, &store.queue("Topic", 0).unwrap(), &[], 0);
        usize::try_from(store.appended().get()).unwrap()
    };
    for follower in [200, 3300] {
        let disk = FakeDisk::new(512);
        let store = open(&disk);
        let queue = store.queue("Topic", 0).unwrap();
        // The second record begins two bytes before the end of a sector, and zeros are all that its size has there. The third one
        // lies behind it or in the next file.
        for length in [1022 - around, 200 - around, follower - around] {
            append(&store, &queue, &vec![7; length], 0);
        }
        // Nobody knows whether pages were lost.
        let disk = disk.killed().without_mounts();
        let file = disk.open("/store/commitlog/00000000000000000000".as_ref()).unwrap();
        // The record says that it lies elsewhere.
        file.write_at(&[9; 8], 1022 + 28).unwrap();
        let store = open(&disk);
        assert_eq!(store.recovered().gaps.len(), 1, "{follower}");
        assert_eq!(store.find_queue("Topic", 0).unwrap().max().get(), 3, "{follower}");
    }
}

/// An unmounted directory looks like an empty directory.
#[test]
fn a_store_without_its_commit_log_is_refused_until_its_queues_are_gone_too() {
    let (disk, _) = closed(30);
    let aside = disk.clone().killed();
    remove_all(&disk, "/store/commitlog");
    let refused = Store::open(small_config(), Arc::new(disk.clone())).err().expect("refused");
    assert!(matches!(refused, OpenError::NoLog { .. }), "{refused}");
    check_whole(&open(&aside), 30);
    for queue_id in 0..3 {
        remove_all(&disk, &format!("/store/consumequeue/Topic/{queue_id}"));
        disk.remove_dir(format!("/store/consumequeue/Topic/{queue_id}").as_ref()).unwrap();
    }
    disk.remove_dir("/store/consumequeue/Topic".as_ref()).unwrap();
    assert_eq!(open(&disk).appended().get(), 0);
}
