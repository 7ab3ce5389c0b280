//! Stores that come from another broker. RocketMQ up to 5.4 does not write the position up to which the queues are
//! durable, and leaves the position in the checkpoint unchanged.

use crate::retention::{HOUR_MS, fill, round, settings};
use crate::tool::{append, bodies, open, small_config};
use std::path::Path;
use std::sync::Arc;
use store::inspect::{Repair, Step, Survey, verify};
use store::{Config, CqUnit, Disk, FakeDisk, ReadError, RealDisk, Space, Store};
use wire::units::QueueOffset;

/// Position of `logicsPhysicalOffset` in the checkpoint.
const CLAIM_AT: u64 = 40;

fn remove_all(disk: &FakeDisk, directory: &Path) {
    for entry in disk.list(directory).unwrap() {
        let path = directory.join(&entry.name);
        if entry.is_dir { remove_all(disk, &path) } else { disk.remove(&path).unwrap() }
    }
}

/// Makes the store look as if another broker wrote it last: no file of Vostok, this position in the checkpoint, and a
/// crash mark.
pub fn from_elsewhere(disk: &FakeDisk, claimed: u64, crashed: bool) {
    remove_all(disk, "/store/vostok".as_ref());
    let page = disk.open("/store/checkpoint".as_ref()).unwrap();
    page.write_at(&claimed.to_be_bytes(), CLAIM_AT).unwrap();
    if crashed {
        disk.create("/store/abort".as_ref(), 4, Space::Sparse).unwrap().write_at(b"1234", 0).unwrap();
    }
}

/// Makes a closed store with a queue of ten messages that are all deleted from the log, and a busy queue. Returns the
/// start of the log and the busy queue's ends.
fn with_idle_queue() -> (FakeDisk, u64, (u64, u64)) {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let (idle, busy) = (store.queue("Idle", 0).unwrap(), store.queue("Busy", 0).unwrap());
    for _ in 0..10 {
        append(&store, &idle, b"body", 0);
    }
    fill(&store, &disk, &busy, 5, HOUR_MS);
    round(&store, &settings(), 9 * HOUR_MS);
    fill(&store, &disk, &busy, 3, 9 * HOUR_MS);
    assert_eq!((idle.min().get(), idle.max().get()), (10, 10));
    let found = (store.min().get(), (busy.min().get(), busy.max().get()));
    store.close().unwrap();
    (disk, found.0, found.1)
}

#[test]
fn a_queue_without_messages_keeps_its_end_whoever_had_the_store() {
    let (disk, log_min, ends) = with_idle_queue();
    assert!(log_min > 0);
    let log_end = open(&disk.killed()).appended().get();
    for claimed in [0, 1, log_min - 1, log_min, log_min + 5000, log_end] {
        for crashed in [false, true] {
            let disk = disk.killed();
            from_elsewhere(&disk, claimed, crashed);
            let store = open(&disk);
            let idle = store.find_queue("Idle", 0).unwrap();
            assert_eq!((idle.min().get(), idle.max().get()), (10, 10), "{claimed} {crashed}");
            let busy = store.find_queue("Busy", 0).unwrap();
            assert_eq!((busy.min().get(), busy.max().get()), ends, "{claimed} {crashed}");
            assert_eq!(bodies(&store, &busy, ends.0).len() as u64, ends.1 - ends.0);
            assert_eq!(append(&store, &idle, b"next", 0), 10);
            store.close().unwrap();
            let store = open(&disk);
            store.wait_healed();
            assert_eq!(bodies(&store, &store.find_queue("Idle", 0).unwrap(), 10), [b"next"]);
        }
    }
}

#[test]
fn a_queue_without_messages_keeps_its_end_when_all_queues_are_rebuilt() {
    // RocketMQ's queue files were ahead of a log that is flushed later, when the power went away.
    let (disk, _, ends) = with_idle_queue();
    let log_end = open(&disk.killed()).appended().get();
    from_elsewhere(&disk, log_end, true);
    let base = (log_end - 1) / 4096 * 4096;
    let path = format!("/store/commitlog/{base:020}");
    disk.open(path.as_ref()).unwrap().zero(0, 4096).unwrap();
    let store = open(&disk);
    let (idle, busy) = (store.find_queue("Idle", 0).unwrap(), store.find_queue("Busy", 0).unwrap());
    assert_eq!((idle.min().get(), idle.max().get()), (10, 10));
    assert!(store.appended().get() <= base && busy.max().get() < ends.1);
    assert_eq!(bodies(&store, &busy, ends.0).len() as u64, busy.max().get() - ends.0);
    assert_eq!(append(&store, &idle, b"next", 0), 10);
}

#[test]
fn a_queue_without_messages_keeps_its_end_when_a_repair_has_the_others_made_again() {
    let (disk, _, ends) = with_idle_queue();
    from_elsewhere(&disk, 0, false);
    let directory = Path::new("/store/consumequeue/Busy/0");
    let last = directory.join(&disk.list(directory).unwrap().last().unwrap().name);
    disk.open(&last).unwrap().write_at(b"!", 11).unwrap();
    let survey = Survey::of(Arc::new(disk.clone()), "/store".as_ref(), &[]).unwrap();
    let verified = verify(&survey, 1, &|_| {}).unwrap();
    let repair = Repair::of(&survey, &verified);
    assert!(matches!(repair.steps(), [Step::RebuildAllQueues(_)]), "{:?}", repair.steps());
    repair.apply("/kept".as_ref()).unwrap();
    let store = open(&disk);
    let (idle, busy) = (store.find_queue("Idle", 0).unwrap(), store.find_queue("Busy", 0).unwrap());
    assert_eq!((idle.min().get(), idle.max().get()), (10, 10));
    assert_eq!((busy.min().get(), busy.max().get()), ends);
    assert_eq!(bodies(&store, &busy, ends.0).len() as u64, ends.1 - ends.0);
}

/// Half of the queue files are gone, and the remaining files do not show that.
#[test]
fn a_repair_that_was_cut_short_hides_no_message() {
    let (disk, _, ends) = with_idle_queue();
    from_elsewhere(&disk, 0, false);
    let files = Path::new("/store/consumequeue/Busy/0");
    let names: Vec<_> = disk.list(files).unwrap().into_iter().map(|entry| entry.name).collect();
    assert!(names.len() > 1);
    disk.open(&files.join(&names[0])).unwrap().write_at(b"!", 7 * 20 + 11).unwrap();
    for killed_after in 0.. {
        let disk = disk.killed();
        let survey = Survey::of(Arc::new(disk.clone()), "/store".as_ref(), &[]).unwrap();
        let verified = verify(&survey, 1, &|_| {}).unwrap();
        let repair = Repair::of(&survey, &verified);
        assert!(matches!(repair.steps(), [Step::RebuildAllQueues(_)]), "{:?}", repair.steps());
        disk.faults(|faults| faults.killed_after = Some(killed_after));
        let is_whole = repair.apply("/kept".as_ref()).is_ok();
        for disk in [disk.killed(), disk.power_cut(killed_after)] {
            // Nothing was removed yet: the store is as it was.
            if names.iter().all(|name| disk.open(&files.join(name)).is_ok()) {
                continue;
            }
            let store = open(&disk);
            store.wait_healed();
            let (idle, busy) = (store.find_queue("Idle", 0).unwrap(), store.find_queue("Busy", 0).unwrap());
            assert_eq!((idle.max().get(), busy.max().get()), (10, ends.1), "killed after {killed_after}");
            assert_eq!(bodies(&store, &busy, ends.0).len() as u64, ends.1 - ends.0, "{killed_after}");
        }
        if is_whole {
            break;
        }
    }
}

#[test]
fn a_topic_that_was_made_again_is_as_it_was_after_a_clean_stop() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let put = |count: u8, body: u8| {
        let (again, other) = (store.queue("Again", 0).unwrap(), store.queue("Other", 0).unwrap());
        for _ in 0..count {
            append(&store, &again, &[body; 100], 0);
            append(&store, &other, &[body; 100], 0);
        }
    };
    put(30, 1);
    let claimed = store.appended().get() / 2;
    store.remove_topic("Again").unwrap();
    put(7, 2);
    store.close().unwrap();
    for claimed in [0, 1, claimed] {
        let disk = disk.killed();
        // RocketMQ has no tombstones.
        from_elsewhere(&disk, claimed, false);
        let store = open(&disk);
        let again = store.find_queue("Again", 0).unwrap();
        assert_eq!(bodies(&store, &again, 0), vec![vec![2; 100]; 7], "{claimed}");
        assert_eq!(append(&store, &again, b"next", 0), 7);
    }
}

/// Appends messages of equal bodies to queues 0 and 1 of a topic and to another topic, `counts` times. Removes the
/// topic before each count but the first.
pub fn remake(store: &Store, topic: &str, counts: &[usize]) {
    for (body, count) in counts.iter().enumerate() {
        if body > 0 {
            store.remove_topic(topic).unwrap();
        }
        let queues = [(topic, 0), (topic, 1), ("Other", 0)];
        let queues = queues.map(|(topic, queue_id)| store.queue(topic, queue_id).unwrap());
        for _ in 0..*count {
            for queue in &queues {
                append(store, queue, &[body as u8; 100], 0);
            }
        }
    }
}

/// Such a topic has the messages it was given last.
fn check_remade(store: &Store, topic: &str, counts: &[usize]) {
    let last = vec![vec![counts.len() as u8 - 1; 100]; *counts.last().unwrap()];
    for queue_id in [0, 1] {
        let queue = store.find_queue(topic, queue_id).unwrap();
        assert_eq!(bodies(store, &queue, 0), last, "{topic} {counts:?}");
    }
}

/// A store that RocketMQ up to 5.4 leaves after a kill: the queues are made from the log, which has the deleted
/// messages too.
#[test]
fn a_topic_that_was_made_again_is_as_it_was_after_a_crash() {
    let counts = [&[30, 7][..], &[7, 30], &[30, 1], &[1, 1], &[5, 9, 3], &[3, 9, 9, 20]];
    // Few units wait in memory, or all.
    for (counts, waiting) in counts.into_iter().flat_map(|counts| [(counts, 16), (counts, 1 << 20)]) {
        let config = || Config { unwritten_units_max: waiting, ..small_config() };
        let open_with = |disk: &FakeDisk| Store::open(config(), Arc::new(disk.clone())).unwrap();
        let disk = FakeDisk::new(512);
        let store = open(&disk);
        remake(&store, "Again", counts);
        store.close().unwrap();
        from_elsewhere(&disk, 0, true);
        let store = open_with(&disk);
        check_remade(&store, "Again", counts);
        let other = store.find_queue("Other", 0).unwrap();
        let count = counts.iter().sum::<usize>();
        assert_eq!(bodies(&store, &other, 0).len(), count);
        store.checkpoint().unwrap();
        append(&store, &other, b"next", 0);
        store.checkpoint().unwrap();
        let store = open_with(&disk.killed());
        store.wait_healed();
        check_remade(&store, "Again", counts);
        let other = store.find_queue("Other", 0).unwrap();
        assert_eq!(bodies(&store, &other, 0).len(), count + 1);
    }
}

/// Only the end of the log shows that the second topic was re-created. The first topic's queues are trusted until
/// everything is read.
#[test]
fn two_topics_that_were_made_again_at_different_times_are_as_they_were() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    remake(&store, "First", &[30, 7]);
    let claimed = store.appended().get();
    remake(&store, "Second", &[20, 6]);
    store.close().unwrap();
    from_elsewhere(&disk, claimed, true);
    let store = open(&disk);
    check_remade(&store, "First", &[30, 7]);
    check_remade(&store, "Second", &[20, 6]);
}

/// A record whose number was damaged to 0, in a log without checksums of Vostok, does not restart a queue.
#[test]
fn a_damaged_number_does_not_make_a_queue_begin_anew() {
    for damaged in [8, 19] {
        let disk = FakeDisk::new(512);
        let store = open(&disk);
        let queue = store.queue("T", 0).unwrap();
        let mut units = Vec::new();
        for number in 0..20 {
            append(&store, &queue, &[number; 100], 0);
        }
        queue.units_blocking(QueueOffset::ZERO, 20, &mut units).unwrap();
        store.close().unwrap();
        from_elsewhere(&disk, 0, true);
        let (at, segment_bytes) = (units[damaged].log_offset.get(), small_config().segment_bytes);
        let file = Path::new("/store/commitlog").join(format!("{:020}", at / segment_bytes * segment_bytes));
        // Where a record has its queue offset.
        disk.open(&file).unwrap().write_at(&0u64.to_be_bytes(), at % segment_bytes + 20).unwrap();
        let store = open(&disk);
        let mut found = Vec::new();
        store.find_queue("T", 0).unwrap().units_blocking(QueueOffset::ZERO, 20, &mut found).unwrap();
        // Its place leads to what is there, which is not the message.
        assert_eq!(found[damaged].log_offset, units[damaged].log_offset);
        let messages = [CqUnit { offset: QueueOffset::new(damaged as u64), unit: found[damaged] }];
        let read =
            store.read_messages_blocking(&store.find_queue("T", 0).unwrap(), &messages, &mut Vec::new());
        assert!(matches!(read, Err(ReadError::Damaged(_) | ReadError::Rebuilding { .. })), "{read:?}");
        found.truncate(damaged);
        assert_eq!(found, units[..damaged]);
    }
}

/// Blank places do not show the end of valid units, neither in the middle of a file nor at its start.
#[test]
fn blank_places_hide_no_units_that_do_not_count() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let queue = store.queue("T", 0).unwrap();
    for number in 0..20 {
        append(&store, &queue, &[number; 100], 0);
    }
    let mut units = Vec::new();
    queue.units_blocking(QueueOffset::ZERO, 20, &mut units).unwrap();
    store.close().unwrap();
    drop(store);
    for (blanks, claimed) in [4..7, 6..11, 8..16].into_iter().flat_map(|blanks| {
        let claims = units.iter().map(|unit| unit.log_offset.get());
        claims.map(move |claimed| (blanks.clone(), claimed)).collect::<Vec<_>>()
    }) {
        let disk = disk.killed();
        from_elsewhere(&disk, claimed, true);
        for place in blanks.clone() {
            let path = format!("/store/consumequeue/T/0/{:020}", place / 8 * 160);
            let blank = b"\0\0\0\0\0\0\0\0\x7f\xff\xff\xff\0\0\0\0\0\0\0\0";
            disk.open(path.as_ref()).unwrap().write_at(blank, place as u64 % 8 * 20).unwrap();
        }
        let store = open(&disk);
        let queue = store.find_queue("T", 0).unwrap();
        let mut found = Vec::new();
        queue.units_blocking(QueueOffset::ZERO, 30, &mut found).unwrap();
        assert_eq!(found.len(), 20, "{blanks:?} {claimed}");
        for (place, (found, unit)) in found.iter().zip(&units).enumerate() {
            let may_be_blank = blanks.contains(&place) && found.is_blank();
            assert!(found == unit || may_be_blank, "{place} {blanks:?} {claimed}");
        }
        // Before all of them nothing was kept.
        let is_before = claimed <= units[blanks.start - 1].log_offset.get();
        assert!(!is_before || found == units, "{blanks:?} {claimed}");
    }
}

/// Queues that were half rebuilt at a kill or power cut must not be trusted up to the checkpoint.
#[test]
fn a_rebuild_of_all_queues_that_was_cut_short_begins_again() {
    let config = || Config { unwritten_units_max: 16, ..small_config() };
    let open_with = |disk: &FakeDisk| Store::open(config(), Arc::new(disk.clone()));
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    for number in 0..40u8 {
        for queue_id in 0..3 {
            append(&store, &store.queue("T", queue_id).unwrap(), &[number; 150], 0);
        }
    }
    store.close().unwrap();
    for queue_id in 0..3 {
        remove_all(&disk, format!("/store/consumequeue/T/{queue_id}").as_ref());
    }
    remove_all(&disk, "/store/vostok".as_ref());
    let mut killed_after = 0;
    loop {
        let disk = disk.killed();
        disk.faults(|faults| faults.killed_after = Some(killed_after));
        let opened = open_with(&disk);
        let is_whole = opened.is_ok();
        drop(opened);
        for disk in [disk.killed(), disk.power_cut(killed_after)] {
            let store = open_with(&disk).unwrap();
            store.wait_healed();
            for queue_id in 0..3 {
                let queue = store.find_queue("T", queue_id).unwrap();
                assert_eq!(bodies(&store, &queue, 0).len(), 40, "killed after {killed_after} changes");
            }
        }
        if is_whole {
            break;
        }
        killed_after += 1;
    }
    assert!(killed_after > 20, "{killed_after}");
}

#[test]
fn a_file_among_the_topics_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("store");
    let open = || {
        let config = Config { commit_log: root.join("commitlog"), root: root.clone(), ..small_config() };
        Store::open(config, Arc::new(RealDisk)).unwrap()
    };
    let store = open();
    append(&store, &store.queue("T", 0).unwrap(), b"body", 0);
    store.close().unwrap();
    drop(store);
    let strays = [root.join("consumequeue/.DS_Store"), root.join("consumequeue/T/notes.txt")];
    strays.iter().for_each(|stray| std::fs::write(stray, b"kept").unwrap());
    // Nothing says what queues there are.
    std::fs::remove_dir_all(root.join("vostok")).unwrap();
    let store = open();
    assert_eq!(append(&store, &store.find_queue("T", 0).unwrap(), b"next", 0), 1);
    store.close().unwrap();
    strays.iter().for_each(|stray| assert_eq!(std::fs::read(stray).unwrap(), b"kept"));
}
