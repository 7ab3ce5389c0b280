//! Single faults, and the reports about them.

use crate::tool::{append, bodies, flush, message, messages_of, open, small_config};
use std::sync::Arc;
use store::inspect::{Decision, Repair, Survey, verify};
use store::{
    AppendError, Config, Disk, FakeDisk, FlushMode, FlushOutcome, Gap, OpenError, Read, ReadError, Space,
    Store,
};
use wire::units::LogOffset;

#[test]
fn without_space_for_a_file_nothing_is_written_and_the_store_goes_on_later() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let queue = store.queue("A", 0).unwrap();
    append(&store, &queue, &[1; 1000], 0);
    disk.faults(|faults| faults.space_left = Some(0));
    let mut batch = store.batch();
    for _ in 0..4 {
        batch.push(&queue, &message(&[2; 1000], b"")).unwrap();
    }
    let before = store.appended();
    assert!(matches!(store.append(&mut batch, 0), Err(AppendError::NoSpace(_))));
    assert_eq!((store.appended(), queue.max().get(), store.fenced()), (before, 1, None));
    disk.faults(|faults| faults.space_left = None);
    store.append(&mut batch, 0).unwrap();
    assert_eq!(bodies(&store, &queue, 0).len(), 5);
}

#[test]
fn without_file_descriptors_nothing_is_written_and_the_store_goes_on_later() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let queue = store.queue("A", 0).unwrap();
    append(&store, &queue, &[1; 1000], 0);
    store.checkpoint().unwrap();
    append(&store, &queue, &[1; 1000], 0);
    disk.faults(|faults| faults.no_descriptors = true);
    let mut batch = store.batch();
    for _ in 0..8 {
        batch.push(&queue, &message(&[2; 1000], b"")).unwrap();
    }
    assert!(matches!(store.append(&mut batch, 0), Err(AppendError::NoSpace(_))));
    assert!(store.checkpoint().is_err() && store.fenced().is_none(), "{:?}", store.fenced());
    disk.faults(|faults| faults.no_descriptors = false);
    store.append(&mut batch, 0).unwrap();
    store.checkpoint().unwrap();
    assert_eq!(bodies(&store, &queue, 0).len(), 10);
}

#[test]
fn a_failed_write_fences_until_reopened() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let queue = store.queue("A", 0).unwrap();
    append(&store, &queue, b"kept", 0);
    disk.faults(|faults| faults.writes_left = Some(0));
    let mut batch = store.batch();
    batch.push(&queue, &message(b"lost", b"")).unwrap();
    assert!(matches!(store.append(&mut batch, 0), Err(AppendError::Fenced(_))));
    disk.faults(|faults| faults.writes_left = None);
    let refused = store.append(&mut batch, 0).unwrap_err().to_string();
    assert!(refused.contains("injected write error"), "{refused}");
    assert!(matches!(flush(&store), FlushOutcome::Failed(_)));
    assert_eq!(bodies(&store, &queue, 0), [b"kept"]);
    assert!(store.close().is_err());
    let store = open(&disk);
    assert!(store.recovered().after_crash);
    let queue = store.queue("A", 0).unwrap();
    assert_eq!(bodies(&store, &queue, 0), [b"kept"]);
    assert_eq!(append(&store, &queue, b"next", 0), 1);
}

#[test]
fn a_failed_flush_fences_and_is_never_tried_again() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let queue = store.queue("A", 0).unwrap();
    append(&store, &queue, b"x", 0);
    disk.faults(|faults| faults.syncs_left = Some(0));
    assert!(matches!(flush(&store), FlushOutcome::Failed(_)));
    disk.faults(|faults| faults.syncs_left = None);
    // A second sync would succeed, as Linux forgets; the outcome stays.
    assert!(matches!(flush(&store), FlushOutcome::Failed(_)));
    assert_eq!(store.flushed(), LogOffset::ZERO);
    assert!(store.checkpoint().is_err());
    // Zeros in the log may now be pages that were not written, although the file system was never gone.
    drop(store);
    assert!(disk.open("/store/vostok/mounts".as_ref()).is_err());
}

#[test]
fn behind_the_fence_a_record_whose_page_the_kernel_dropped_is_not_served() {
    let disk = FakeDisk::new(512);
    let (store, ends) = ten_records(&disk);
    let queue = store.queue("A", 0).unwrap();
    disk.faults(|faults| faults.syncs_left = Some(0));
    assert!(matches!(flush(&store), FlushOutcome::Failed(_)));
    // The end of the third record lies on a page that the kernel failed to write, dropped, and read again as zeros.
    let end = ends[2];
    disk.open(FIRST_FILE.as_ref()).unwrap().write_at(&[0; 16], end - 16).unwrap();
    let messages = messages_of(&queue);
    let mut bytes = Vec::new();
    let read = store.read_messages(&queue, &messages, &mut bytes);
    assert!(
        matches!(&read, Err(ReadError::Damaged(damaged)) if damaged.len() == 1 && damaged[0].index == 2),
        "{read:?}"
    );
    // The messages beside it are served, and nothing waits for a rebuild of the queue.
    assert_eq!(store.read_messages(&queue, &messages[..2], &mut bytes).unwrap(), Read::Done);
    assert_eq!(store.read_messages(&queue, &messages[3..], &mut bytes).unwrap(), Read::Done);
}

#[test]
fn behind_the_fence_no_slave_gets_a_record_whose_page_the_kernel_dropped() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let queue = store.queue("A", 0).unwrap();
    // Two files, so that a blank record lies between the flushed log and its end.
    while store.appended().get() < small_config().segment_bytes {
        append(&store, &queue, &[1; 100], 0);
    }
    let (first, whole) = (store.appended().get(), |from, length| {
        let (mut bytes, mut blocking) = (Vec::new(), Vec::new());
        assert_eq!(store.read_log(LogOffset::new(from), length, &mut bytes).unwrap(), Read::Done);
        store.read_log_blocking(LogOffset::new(from), length, &mut blocking).unwrap();
        assert_eq!(bytes, blocking);
        bytes
    });
    let sent = || [whole(0, usize::MAX >> 1), whole(small_config().segment_bytes, usize::MAX >> 1)].concat();
    let before = sent();
    disk.faults(|faults| faults.syncs_left = Some(0));
    assert!(matches!(flush(&store), FlushOutcome::Failed(_)));
    assert_eq!(sent(), before);
    for at in (0..first).step_by(61) {
        let left = small_config().segment_bytes - at % small_config().segment_bytes;
        let length = left.min(97).min(first - at) as usize;
        assert_eq!(whole(at, length), before[at as usize..][..length], "a piece from {at}");
    }
    // The end of the third record lies on a page that the kernel failed to write, dropped, and read again as zeros.
    let record = whole(0, 4);
    let size = u64::from(u32::from_be_bytes(record.try_into().unwrap()));
    disk.open(FIRST_FILE.as_ref()).unwrap().write_at(&[0; 16], 3 * size - 16).unwrap();
    let mut bytes = Vec::new();
    for (from, length) in [(0, 4_000), (2 * size, 10), (3 * size - 1, 1)] {
        let read = store.read_log(LogOffset::new(from), length, &mut bytes);
        assert!(matches!(read, Err(ReadError::Damaged(_))), "from {from}: {read:?}");
    }
    assert!(bytes.is_empty());
    assert_eq!(whole(0, 2 * size as usize), before[..2 * size as usize]);
}

#[test]
fn before_a_flush_fails_no_slave_gets_a_record_that_came_from_the_disk_as_zeros() {
    let disk = FakeDisk::new(512);
    let (store, ends) = ten_records(&disk);
    // The end of the third record lies on a page that the kernel failed to write, dropped, and reads again as zeros.
    disk.open(FIRST_FILE.as_ref()).unwrap().write_at(&[0; 16], ends[2] - 16).unwrap();
    let mut bytes = Vec::new();
    disk.faults(|faults| faults.nothing_resident = true);
    let read = store.read_log_blocking(LogOffset::ZERO, 4_000, &mut bytes);
    assert!(matches!(read, Err(ReadError::Damaged(_))), "{read:?}");
    disk.faults(|faults| faults.nothing_resident = false);
    let read = store.read_log(LogOffset::ZERO, 4_000, &mut bytes);
    assert!(matches!(read, Err(ReadError::Damaged(_))), "{read:?}");
    assert!(bytes.is_empty() && store.fenced().is_none());
    assert_eq!(store.read_log(LogOffset::ZERO, ends[1] as usize, &mut bytes).unwrap(), Read::Done);
}

/// Makes ten records of a queue. Returns the end of each.
fn ten_records(disk: &FakeDisk) -> (Store, Vec<u64>) {
    let store = open(disk);
    let queue = store.queue("A", 0).unwrap();
    let mut ends = Vec::new();
    for number in 0..10 {
        append(&store, &queue, &[number; 100], 0);
        ends.push(store.appended().get());
    }
    (store, ends)
}

const FIRST_FILE: &str = "/store/commitlog/00000000000000000000";

#[test]
fn pages_that_a_power_cut_kept_from_the_disk_end_the_log_and_do_not_come_back() {
    let disk = FakeDisk::new(512);
    let (store, ends) = ten_records(&disk);
    assert_eq!(flush(&store), FlushOutcome::Flushed);
    let disk = disk.power_cut(1);
    // The second page was not among those that were written: it holds parts of the third to the sixth record.
    disk.open(FIRST_FILE.as_ref()).unwrap().zero(512, 512).unwrap();
    let store = open(&disk);
    let recovered = store.recovered();
    assert_eq!((recovered.end, recovered.records, recovered.lost_behind_cut), (ends[1], 2, 4));
    assert!(recovered.cut.is_some() && recovered.gaps.is_empty(), "{recovered:?}");
    // What was cut is kept, to the byte.
    let [copy] = &recovered.copies[..] else { panic!("{recovered:?}") };
    assert_eq!(copy.to_str(), Some(format!("/store/vostok/cut/{:020}.1", ends[1]).as_str()));
    assert_eq!(disk.open(copy).unwrap().length().unwrap(), ends[9] - ends[1]);
    // A new record of the same size ends exactly where the old fourth began.
    let queue = store.queue("A", 0).unwrap();
    append(&store, &queue, &[99; 100], 0);
    assert_eq!(store.appended().get(), ends[2]);
    let store = open(&disk.killed());
    assert_eq!((store.recovered().end, store.recovered().cut.clone()), (ends[2], None));
    assert_eq!(bodies(&store, &store.find_queue("A", 0).unwrap(), 2), [[99; 100]]);
}

#[test]
fn the_same_zeros_after_a_kill_are_damage() {
    let disk = FakeDisk::new(512);
    let (store, ends) = ten_records(&disk);
    let disk = disk.killed();
    disk.open(FIRST_FILE.as_ref()).unwrap().zero(512, 512).unwrap();
    drop(store);
    let store = open(&disk);
    let gap = Gap { at: ends[1], length: ends[5] - ends[1] };
    assert_eq!((store.recovered().gaps.clone(), store.recovered().end), (vec![gap], ends[9]));
    // What one opening kept the next one does not cut, whatever happened between.
    let store = open(&disk.power_cut(1));
    assert_eq!((store.recovered().gaps.clone(), store.recovered().end), (vec![gap], ends[9]));
    assert_eq!(store.find_queue("A", 0).unwrap().max().get(), 10);
}

#[test]
fn a_power_cut_that_nothing_tells_from_damage_refuses_the_start() {
    let disk = FakeDisk::new(512);
    let config = || Config { flush: FlushMode::Sync, ..small_config() };
    let store = Store::open(config(), Arc::new(disk.clone())).unwrap();
    let queue = store.queue("A", 0).unwrap();
    let mut ends = Vec::new();
    for number in 0..30 {
        // Longer than two flushes take, and not so long that the first of them must have been flushed.
        append(&store, &queue, &[number; 200], i64::from(number) * 700);
        ends.push(store.appended().get());
    }
    assert_eq!(flush(&store), FlushOutcome::Flushed);
    let disk = disk.power_cut(1);
    disk.open(FIRST_FILE.as_ref()).unwrap().zero(1024, 512).unwrap();
    let at = ends.iter().rev().find(|end| **end <= 1024).copied().unwrap();
    let before = disk.killed();
    let refusal = Store::open(config(), Arc::new(disk.clone())).err().unwrap().to_string();
    for part in [FIRST_FILE.to_owned(), format!("--data /store --keep-behind {at}"), format!("--cut-at {at}")]
    {
        assert!(refusal.contains(&part), "{refusal}");
    }
    let decide = |disk: &FakeDisk, decision| {
        let survey = Survey::of(Arc::new(disk.clone()), "/store".as_ref(), &[]).unwrap();
        let verified = verify(&survey, 1, &|_| {}).unwrap();
        assert!(Repair::deciding(&survey, &verified, Decision::CutAt(at + 1)).is_err());
        Repair::deciding(&survey, &verified, decision).unwrap().apply("/kept".as_ref()).unwrap();
        Store::open(config(), Arc::new(disk.clone())).unwrap()
    };
    // After the refusal as before it.
    for disk in [disk, before] {
        let other = disk.killed();
        let kept = decide(&disk, Decision::KeepBehind(at));
        assert_eq!((kept.recovered().end, kept.find_queue("A", 0).unwrap().max().get()), (ends[29], 30));
        assert_eq!(append(&kept, &kept.find_queue("A", 0).unwrap(), b"next", 0), 30);
        let cut = decide(&other, Decision::CutAt(at));
        assert_eq!((cut.recovered().end, cut.recovered().cut.clone()), (at, None));
        let left = ends.iter().filter(|end| **end <= at).count() as u64;
        assert_eq!(append(&cut, &cut.find_queue("A", 0).unwrap(), b"next", 0), left);
        let kept = |name: &str| other.open(&std::path::Path::new("/kept/commitlog").join(name)).is_ok();
        assert!(kept("00000000000000004096") && kept(&format!("00000000000000000000.{at}")));
    }
}

#[test]
fn a_full_disk_costs_the_copy_of_what_is_cut_and_not_the_start() {
    let disk = FakeDisk::new(512);
    let (store, ends) = ten_records(&disk);
    let disk = disk.killed();
    drop(store);
    // The end of the last record, with nothing behind it.
    disk.open(FIRST_FILE.as_ref()).unwrap().write_at(b"!", ends[9] - 30).unwrap();
    for is_full in [true, false] {
        let disk = disk.killed();
        // Enough for the crash mark.
        disk.faults(|faults| faults.space_left = is_full.then_some(100));
        let store = open(&disk);
        let recovered = store.recovered();
        assert_eq!((recovered.end, recovered.copies.len()), (ends[8], usize::from(!is_full)));
        assert!(recovered.cut.is_some());
    }
}

#[test]
fn files_of_another_size_are_refused_by_name() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let queue = store.queue("A", 0).unwrap();
    append(&store, &queue, b"x", 0);
    store.close().unwrap();
    drop(store);
    let refusal = |config: Config| match Store::open(config, Arc::new(disk.clone())) {
        Err(OpenError::FileSize { path, expected, found }) => (path.display().to_string(), expected, found),
        other => panic!("{:?}", other.map(|store| store.recovered().clone())),
    };
    let log = "/store/commitlog/00000000000000000000".to_owned();
    assert_eq!(refusal(Config { segment_bytes: 8192, ..small_config() }), (log, 8192, 4096));
    let queue = "/store/consumequeue/A/0/00000000000000000000".to_owned();
    assert_eq!(refusal(Config { queue_file_bytes: 200, ..small_config() }), (queue, 200, 160));
    disk.create("/store/commitlog/notes".as_ref(), 4096, Space::Sparse).unwrap();
    let other = Store::open(small_config(), Arc::new(disk.clone()));
    let text = other.map(drop).unwrap_err().to_string();
    let expected = "/store/commitlog/notes is no file of the commit log, whose names are start offsets of 20 digits: storePathCommitLog must";
    assert!(text.starts_with(expected), "{text}");
    disk.remove("/store/commitlog/notes".as_ref()).unwrap();
    disk.create("/store/commitlog/00000000000000008192".as_ref(), 4096, Space::Sparse).unwrap();
    let other = Store::open(small_config(), Arc::new(disk.clone()));
    assert!(matches!(other, Err(OpenError::Gap { expected: 4096, .. })));
    disk.remove("/store/commitlog/00000000000000008192".as_ref()).unwrap();
    // A zero-filled file behind the active one, and an empty last one, are what a crash may leave.
    disk.create("/store/commitlog/00000000000000004096".as_ref(), 4096, Space::Sparse).unwrap();
    disk.create("/store/commitlog/00000000000000008192".as_ref(), 0, Space::Sparse).unwrap();
    assert_eq!(bodies(&open(&disk), &open(&disk.killed()).find_queue("A", 0).unwrap(), 0), [b"x"]);
}

#[test]
fn two_log_files_of_one_number_are_named() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    append(&store, &store.queue("A", 0).unwrap(), b"x", 0);
    store.close().unwrap();
    drop(store);
    disk.create_dir_all("/more/log".as_ref()).unwrap();
    disk.create("/more/log/00000000000000000000".as_ref(), 4096, Space::Sparse).unwrap();
    let config = Config { commit_log_more: vec!["/more/log".into()], ..small_config() };
    let text = Store::open(config, Arc::new(disk.clone())).map(drop).unwrap_err().to_string();
    let files = ["/store/commitlog", "/more/log"].map(|it| format!("{it}/00000000000000000000"));
    assert!(files.iter().all(|file| text.contains(file)), "{text}");
    assert!(text.contains("are the same part of the commit log"), "{text}");
}

#[test]
fn a_deleted_queue_directory_is_rebuilt() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let queue = store.queue("A", 0).unwrap();
    for _ in 0..50 {
        append(&store, &queue, &[7; 200], 0);
    }
    store.close().unwrap();
    drop(store);
    for entry in disk.list("/store/consumequeue/A/0".as_ref()).unwrap() {
        disk.remove(format!("/store/consumequeue/A/0/{}", entry.name).as_ref()).unwrap();
    }
    let store = open(&disk);
    let queue = store.find_queue("A", 0).unwrap();
    assert_eq!((store.recovered().records, queue.max().get()), (0, 50));
    // Sending goes on meanwhile.
    assert_eq!(append(&store, &queue, &[8; 200], 0), 50);
    store.wait_healed();
    assert_eq!(bodies(&store, &queue, 0).len(), 51);
}

#[test]
fn a_queue_that_begins_in_the_middle_of_a_file_is_pre_blanked() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let queue = store.queue("TopicP", 0).unwrap();
    for _ in 0..40 {
        append(&store, &queue, &[7; 300], 0);
    }
    store.close().unwrap();
    drop(store);
    // The first commit log files expire and the queue files are lost.
    disk.remove("/store/commitlog/00000000000000000000".as_ref()).unwrap();
    for entry in disk.list("/store/consumequeue/TopicP/0".as_ref()).unwrap() {
        disk.remove(&std::path::Path::new("/store/consumequeue/TopicP/0").join(entry.name)).unwrap();
    }
    let store = open(&disk);
    store.wait_healed();
    let queue = store.find_queue("TopicP", 0).unwrap();
    let first = queue.min().get();
    assert_eq!((first, queue.max().get()), (10, 40));
    assert_eq!(bodies(&store, &queue, 10).len(), 30);
    store.close().unwrap();
    let file = disk.open("/store/consumequeue/TopicP/0/00000000000000000160".as_ref()).unwrap();
    let mut unit = [0; 20];
    file.read_at(&mut unit, 20).unwrap();
    assert_eq!(unit, *b"\0\0\0\0\0\0\0\0\x7f\xff\xff\xff\0\0\0\0\0\0\0\0");
    let store = open(&disk);
    let queue = store.find_queue("TopicP", 0).unwrap();
    assert_eq!((queue.min().get(), queue.max().get()), (10, 40));
    // With the queue files in place, the minimum follows the log as well.
    store.close().unwrap();
    drop(store);
    disk.remove("/store/commitlog/00000000000000004096".as_ref()).unwrap();
    let store = open(&disk);
    store.wait_healed();
    assert_eq!(store.find_queue("TopicP", 0).unwrap().min().get(), 20);
}

#[test]
fn a_checkpoint_that_claims_too_much_loses_nothing() {
    for claimed in [1u64, 700, 4000, 4096, 100_000, i64::MAX.unsigned_abs()] {
        let disk = FakeDisk::new(512);
        let store = open(&disk);
        let queue = store.queue("A", 0).unwrap();
        for _ in 0..20 {
            append(&store, &queue, &[7; 300], 0);
        }
        store.checkpoint().unwrap();
        for _ in 0..20 {
            append(&store, &queue, &[8; 300], 0);
        }
        let disk = disk.killed();
        disk.open("/store/checkpoint".as_ref()).unwrap().write_at(&claimed.to_be_bytes(), 40).unwrap();
        let store = open(&disk);
        assert_eq!(bodies(&store, &store.find_queue("A", 0).unwrap(), 0).len(), 40, "claimed {claimed}");
    }
}

#[test]
fn waiters_are_told_when_their_time_is_over() {
    let disk = FakeDisk::new(512);
    let timeout = std::time::Duration::ZERO;
    let config = Config { flush: FlushMode::Sync, flush_timeout: timeout, ..small_config() };
    let store = Store::open(config, Arc::new(disk)).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    // Nobody will ever append so much, so only the clock can answer.
    store.when_flushed(LogOffset::new(1 << 40), Box::new(move |outcome| sender.send(outcome).unwrap()));
    assert_eq!(receiver.recv().unwrap(), FlushOutcome::TimedOut);
}

/// Tests more queues than files that are synced singly, and more than the limit of open files.
#[test]
fn many_queues_are_durable_after_a_checkpoint() {
    let disk = FakeDisk::new(512);
    let config = || Config { open_queue_files: 8, ..small_config() };
    let store = Store::open(config(), Arc::new(disk.clone())).unwrap();
    for round in 0..12u8 {
        for number in 0..100 {
            append(&store, &store.queue("Many", number).unwrap(), &[round], 0);
        }
        store.checkpoint().unwrap();
        let store = Store::open(config(), Arc::new(disk.power_cut(u64::from(round)))).unwrap();
        assert_eq!((store.recovered().records, store.queues().len()), (0, 100));
        for queue in store.queues() {
            assert_eq!(bodies(&store, &queue, 0).len(), usize::from(round) + 1);
        }
    }
}

/// A checkpoint that ends early for lack of space takes no queue from later checkpoints.
#[test]
fn a_checkpoint_without_space_forgets_no_queue() {
    for space in (0..).step_by(100) {
        let disk = FakeDisk::new(512);
        let store = open(&disk);
        let queues = [0, 1, 2].map(|id| store.queue("Topic", id).unwrap());
        for queue in &queues {
            append(&store, queue, b"first", 0);
        }
        disk.faults(|faults| faults.space_left = Some(space));
        let is_done = store.checkpoint().is_ok();
        disk.faults(|faults| faults.space_left = None);
        for queue in &queues {
            append(&store, queue, b"second", 0);
        }
        store.checkpoint().unwrap();
        let store = open(&disk.power_cut(1));
        for id in 0..3 {
            let found = bodies(&store, &store.find_queue("Topic", id).unwrap(), 0);
            assert_eq!(found, [&b"first"[..], b"second"], "queue {id}, {space} bytes");
        }
        if is_done {
            break;
        }
    }
}
