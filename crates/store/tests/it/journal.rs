//! Tests of the unit journal: units since the last checkpoint, without a read of the log.

use crate::tool::{append, bodies, flush, open, small_config};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::{Checkpoint, Disk, FakeDisk, FlushOutcome, Store};

const QUEUES: [(&str, i32); 3] = [("A", 0), ("A", 1), ("SCHEDULE_TOPIC_XXXX", 0)];

/// Appends `rounds` more messages to every queue.
fn fill(store: &Store, rounds: usize) {
    for _ in 0..rounds {
        for (topic, queue_id) in QUEUES {
            let queue = store.queue(topic, queue_id).unwrap();
            let next = queue.max().get();
            append(store, &queue, &next.to_be_bytes(), 0);
        }
    }
}

/// Checks that every queue has this many messages, in order, and continues behind them.
fn check(store: &Store, count: u64) {
    for (topic, queue_id) in QUEUES {
        let queue = store.queue(topic, queue_id).unwrap();
        let expected: Vec<_> = (0..count).map(|number| number.to_be_bytes().to_vec()).collect();
        assert_eq!(bodies(store, &queue, 0), expected, "{queue:?}");
    }
    fill(store, 1);
}

fn page(disk: &FakeDisk) -> Checkpoint {
    let mut bytes = vec![0; 4096];
    disk.open("/store/checkpoint".as_ref()).unwrap().read_at(&mut bytes, 0).unwrap();
    Checkpoint::from_bytes(&bytes)
}

fn files(disk: &FakeDisk) -> Vec<PathBuf> {
    let entries = disk.list("/store/vostok".as_ref()).unwrap();
    let names = entries.iter().map(|entry| &entry.name).filter(|name| name.starts_with("units."));
    names.map(|name| Path::new("/store/vostok").join(name)).collect()
}

#[test]
fn after_a_crash_the_log_is_read_from_the_journals_end() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    fill(&store, 3);
    store.checkpoint().unwrap();
    let committed = store.appended().get();
    fill(&store, 5);
    store.journal().unwrap();
    fill(&store, 2);
    store.journal().unwrap();
    let journaled = store.appended().get();
    fill(&store, 4);
    assert_eq!(flush(&store), FlushOutcome::Flushed);
    for disk in [disk.killed(), disk.power_cut(1), disk.power_cut(2)] {
        // RocketMQ reads the page: it speaks of the queue files only.
        assert_eq!(page(&disk).logics_physical_offset, committed.cast_signed());
        let store = open(&disk);
        let recovered = store.recovered();
        assert_eq!((recovered.from, recovered.records), (journaled, 12));
        check(&store, 14);
    }
}

#[test]
fn a_second_crash_finds_the_journal_of_both_runs() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    store.checkpoint().unwrap();
    fill(&store, 5);
    store.journal().unwrap();
    fill(&store, 1);
    let mut disk = disk.killed();
    for run in 0..6 {
        let store = open(&disk);
        // The message `check` appends is not journaled in every second run.
        check(&store, 6 + run);
        if run % 2 == 0 {
            store.journal().unwrap();
        }
        if run == 3 {
            store.checkpoint().unwrap();
        }
        assert_eq!(flush(&store), FlushOutcome::Flushed);
        disk = if run == 2 { disk.power_cut(run) } else { disk.killed() };
    }
    let store = open(&disk);
    check(&store, 12);
}

#[test]
fn without_the_journal_the_log_is_read_from_the_checkpoint() {
    for harm in 0..3 {
        let disk = FakeDisk::new(512);
        let store = open(&disk);
        fill(&store, 3);
        store.checkpoint().unwrap();
        let committed = store.appended().get();
        fill(&store, 30);
        store.journal().unwrap();
        let disk = disk.killed();
        let file = files(&disk)[0].clone();
        match harm {
            0 => disk.remove(&file).unwrap(),
            1 => drop(disk.create(&file, 40, store::Space::Sparse).unwrap()),
            _ => disk.open(&file).unwrap().zero(60, 20).unwrap(),
        }
        let store = open(&disk);
        assert_eq!(store.recovered().from, committed);
        check(&store, 33);
    }
}

#[test]
fn a_cut_log_voids_the_journal() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    fill(&store, 3);
    store.checkpoint().unwrap();
    let committed = store.appended().get();
    fill(&store, 3);
    store.journal().unwrap();
    let disk = disk.killed();
    // The last record, as `vostok store repair` cuts it.
    let log = disk.open("/store/commitlog/00000000000000000000".as_ref()).unwrap();
    let at = store.last_record().unwrap().get();
    log.zero(at, 4096 - at).unwrap();
    let store = open(&disk);
    assert_eq!(store.recovered().from, committed);
    let queue = store.find_queue(QUEUES[2].0, 0).unwrap();
    assert_eq!(bodies(&store, &queue, 0).len(), 5);
    assert_eq!(files(&disk), Vec::<PathBuf>::new());
}

#[test]
fn a_clean_stop_leaves_no_journal_and_whole_queue_files() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    store.checkpoint().unwrap();
    fill(&store, 8);
    store.journal().unwrap();
    assert!(!files(&disk).is_empty());
    assert!(disk.list("/store/consumequeue/A".as_ref()).unwrap().is_empty());
    store.close().unwrap();
    assert_eq!(files(&disk), Vec::<PathBuf>::new());
    assert_eq!(page(&disk).logics_physical_offset, store.appended().get().cast_signed());
    // Without our table and page: as RocketMQ reads it.
    let disk = disk.killed();
    for entry in disk.list("/store/vostok".as_ref()).unwrap() {
        disk.remove(&Path::new("/store/vostok").join(entry.name)).unwrap();
    }
    let store = open(&disk);
    assert_eq!(store.recovered().records, 0);
    check(&store, 8);
}

#[test]
fn a_removed_topic_does_not_come_back_from_the_journal() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    fill(&store, 3);
    store.checkpoint().unwrap();
    fill(&store, 3);
    store.journal().unwrap();
    assert_eq!(store.remove_topic("A").unwrap(), 2);
    let crashed = open(&disk.killed());
    assert!(crashed.find_queue("A", 0).is_none());
    assert_eq!(bodies(&crashed, &crashed.find_queue(QUEUES[2].0, 0).unwrap(), 0).len(), 6);
    // Made again, it begins at zero, in the journal as well.
    let queue = store.queue("A", 0).unwrap();
    append(&store, &queue, b"new", 0);
    store.journal().unwrap();
    let store = open(&disk.killed());
    assert_eq!(store.recovered().records, 0);
    assert_eq!(bodies(&store, &store.find_queue("A", 0).unwrap(), 0), [b"new"]);
    assert!(store.find_queue("A", 1).is_none());
}

#[test]
fn a_journal_that_cannot_be_written_harms_nobody() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    fill(&store, 3);
    store.checkpoint().unwrap();
    fill(&store, 3);
    assert_eq!(flush(&store), FlushOutcome::Flushed);
    disk.faults(|faults| faults.writes_left = Some(1));
    store.journal().unwrap();
    disk.faults(|faults| faults.writes_left = None);
    assert_eq!((store.fenced(), files(&disk)), (None, Vec::new()));
    fill(&store, 1);
    // Some units are in no journal: it waits for the next checkpoint.
    store.journal().unwrap();
    assert_eq!(files(&disk), Vec::<PathBuf>::new());
    check(&open(&disk.killed()), 7);
    store.checkpoint().unwrap();
    fill(&store, 1);
    store.journal().unwrap();
    let journaled = store.appended().get();
    let store = open(&disk.killed());
    assert_eq!(store.recovered().from, journaled);
    check(&store, 8);
}

#[test]
fn a_store_another_program_had_open_forgets_the_journal() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    fill(&store, 3);
    store.checkpoint().unwrap();
    fill(&store, 3);
    store.journal().unwrap();
    let disk = disk.killed();
    disk.open("/store/checkpoint".as_ref()).unwrap().write_at(&[0, 0, 1], 5).unwrap();
    let store = Store::open(small_config(), Arc::new(disk.clone())).unwrap();
    assert_eq!(files(&disk), Vec::<PathBuf>::new());
    check(&store, 6);
}
