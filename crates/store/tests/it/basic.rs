//! Appending, reading, flushing and closing without faults.

use crate::tool::{append, bodies, flush, message, open, small_config};
use std::sync::Arc;
use store::{
    AppendError, Boundary, Disk, FakeDisk, FlushMode, FlushOutcome, OpenError, PushError, Read, Store,
};
use wire::units::{LogOffset, QueueOffset};

#[test]
fn what_is_appended_is_read_in_order_and_after_reopening() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let queues =
        [store.queue("TopicA", 0).unwrap(), store.queue("TopicA", 1).unwrap(), store.queue("B", 0).unwrap()];
    let mut expected = vec![Vec::new(); 3];
    for number in 0..200usize {
        let body = format!("message {number}").into_bytes();
        assert_eq!(append(&store, &queues[number % 3], &body, 1000), (number / 3) as u64);
        expected[number % 3].push(body);
    }
    for (queue, expected) in queues.iter().zip(&expected) {
        assert_eq!(&bodies(&store, queue, 0), expected);
        assert_eq!(bodies(&store, queue, 60), expected[60..]);
    }
    store.checkpoint().unwrap();
    store.close().unwrap();
    assert!(matches!(store.append(&mut store.batch(), 0), Err(AppendError::Closed)));
    assert!(disk.list("/store".as_ref()).unwrap().iter().all(|entry| entry.name != "abort"));
    let store = open(&disk);
    assert_eq!((store.recovered().records, store.recovered().after_crash), (0, false));
    for (queue, expected) in queues.iter().zip(&expected) {
        let queue = store.find_queue(queue.topic(), queue.queue_id()).unwrap();
        assert_eq!(&bodies(&store, &queue, 0), expected);
    }
}

#[test]
fn a_batch_of_many_queues_is_placed_and_read_by_ranges() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let (a, b) = (store.queue("A", 0).unwrap(), store.queue("B", 0).unwrap());
    let mut batch = store.batch();
    for body in [b"one", b"two"] {
        batch.push(&a, &message(body, b"")).unwrap();
    }
    batch.push(&b, &message(b"three", b"TAGS\x01x\x02")).unwrap();
    batch.push(&a, &message(b"four", b"")).unwrap();
    store.append(&mut batch, 5).unwrap();
    let offsets: Vec<_> = (0..4).map(|index| batch.append_result(index).queue_offset.get()).collect();
    assert_eq!(offsets, [0, 1, 0, 2]);
    assert_eq!(batch.end(), store.appended());
    assert_eq!(batch.tags_code(2), i64::from(b'x'));
    let mut units = Vec::new();
    assert_eq!(a.units(QueueOffset::ZERO, 32, &mut units).unwrap(), Read::Done);
    let mut bytes = Vec::new();
    assert_eq!(store.read_units(&units, &mut bytes).unwrap(), Read::Done);
    assert_eq!(bytes.len(), units.iter().map(|unit| unit.size as usize).sum::<usize>());
    let mut record = Vec::new();
    store.record_at(batch.append_result(3).log_offset, &mut record).unwrap();
    assert!(bytes.ends_with(&record));
    assert!(store.record_at(batch.append_result(3).log_offset + 1, &mut record).is_err());
    assert!(store.record_at(store.appended(), &mut record).is_err());
    batch.clear();
    assert!(batch.is_empty());
}

#[test]
fn a_group_lies_in_one_file_with_consecutive_offsets() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let queue = store.queue("A", 0).unwrap();
    let body = vec![b'x'; 900];
    for round in 0..20 {
        append(&store, &queue, &body[..round * 37 % 800], 0);
        let mut batch = store.batch();
        let group = batch.push_group(&queue, (0..3).map(|_| message(&body, b""))).unwrap();
        store.append(&mut batch, 0).unwrap();
        let placed: Vec<_> = group.map(|index| batch.append_result(index)).collect();
        assert_eq!(placed[0].log_offset.get() / 4096, placed[2].log_offset.get() / 4096);
        for pair in placed.windows(2) {
            assert_eq!(pair[0].log_offset + u64::from(pair[0].size), pair[1].log_offset);
            assert_eq!(pair[0].queue_offset + 1, pair[1].queue_offset);
        }
    }
    assert_eq!(bodies(&store, &queue, 0).len(), 80);
    let mut batch = store.batch();
    let refused = batch.push_group(&queue, (0..5).map(|_| message(&body, b"")));
    assert!(matches!(refused, Err(PushError::TooLarge { limit: 4088, .. })));
    assert!(batch.is_empty() && batch.size() == 0);
}

/// A record that leaves exactly 8 bytes is written. A record that would leave 7 begins the next file.
#[test]
fn a_file_keeps_eight_bytes_for_its_blank_record() {
    for (left, expected_file) in [(8, 0), (7, 1)] {
        let disk = FakeDisk::new(512);
        let store = open(&disk);
        let queue = store.queue("A", 0).unwrap();
        // A record has 91 bytes, one of topic, ten of properties and the body.
        append(&store, &queue, &[0; 1898], 0);
        append(&store, &queue, &vec![0; 4096 - 2000 - 102 - left], 0);
        let mut units = Vec::new();
        let _ = queue.units(QueueOffset::ZERO, 2, &mut units).unwrap();
        assert_eq!(units[1].log_offset.get() / 4096, expected_file, "{left} bytes left");
        if expected_file == 1 {
            let mut blank = Vec::new();
            store.read_blocking(LogOffset::new(2000), 8, &mut blank).unwrap();
            assert_eq!(blank, wire::record::encode_blank(2096));
        }
    }
}

#[test]
fn names_that_cannot_be_directories_are_refused() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    for (topic, queue_id) in [("", 0), ("a/b", 0), ("..", 0), ("a", -1), ("a\0", 1)] {
        assert!(matches!(store.queue(topic, queue_id), Err(PushError::Queue { .. })), "{topic:?} {queue_id}");
    }
    assert!(store.find_queue("never", 0).is_none());
}

#[test]
fn half_and_rolled_back_messages_take_no_place_in_the_queue() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let queue = store.queue("A", 0).unwrap();
    let mut batch = store.batch();
    for sys_flag in [4, 8, 12, 0] {
        batch.push(&queue, &store::Message { sys_flag, ..message(b"x", b"") }).unwrap();
    }
    store.append(&mut batch, 0).unwrap();
    let offsets: Vec<_> = (0..4).map(|index| batch.append_result(index).queue_offset.get()).collect();
    assert_eq!((offsets, queue.max().get()), (vec![0, 0, 0, 1], 2));
}

#[test]
fn delayed_messages_carry_their_delivery_time() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let queue = store.queue("SCHEDULE_TOPIC_XXXX", 2).unwrap();
    let mut batch = store.batch();
    for properties in [&b"DELAY\x013\x02"[..], b"DELAY\x0199\x02", b"TAGS\x01TagA\x02"] {
        batch.push(&queue, &message(b"x", properties)).unwrap();
    }
    store.append(&mut batch, 1_000).unwrap();
    let mut units = Vec::new();
    let _ = queue.units(QueueOffset::ZERO, 9, &mut units).unwrap();
    let codes: Vec<_> = units.iter().map(|unit| unit.tags_code).collect();
    assert_eq!(codes, [11_000, 7_201_000, 0x27_a807]);
    // Rebuilt from the log they are the same.
    let store = Store::open(small_config(), Arc::new(disk.killed())).unwrap();
    let mut again = Vec::new();
    let queue = store.find_queue("SCHEDULE_TOPIC_XXXX", 2).unwrap();
    let _ = queue.units(QueueOffset::ZERO, 9, &mut again).unwrap();
    assert_eq!(again, units);
}

#[test]
fn store_times_never_go_back() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let queue = store.queue("A", 0).unwrap();
    for now in [100, 50, 200, 199] {
        append(&store, &queue, b"x", now);
    }
    let time = |offset| store.store_time(&queue, QueueOffset::new(offset)).unwrap();
    assert_eq!([0, 1, 2, 3, 4].map(time), [Some(100), Some(100), Some(200), Some(200), None]);
    store.close().unwrap();
    let store = open(&disk);
    let queue = store.queue("A", 0).unwrap();
    append(&store, &queue, b"x", 1);
    assert_eq!(store.store_time(&queue, QueueOffset::new(4)).unwrap(), Some(200));
}

#[test]
fn offsets_by_time() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let queue = store.queue("A", 0).unwrap();
    let find = |time, boundary| store.offset_by_time(&queue, time, boundary).unwrap().get();
    assert_eq!((find(5, Boundary::Lower), find(5, Boundary::Upper)), (0, 0));
    for now in [10, 20, 20, 20, 30] {
        append(&store, &queue, b"x", now);
    }
    let cases = [(5, 0, 0), (10, 0, 0), (15, 1, 0), (20, 1, 3), (25, 4, 3), (30, 4, 4), (31, 5, 4)];
    for (time, lower, upper) in cases {
        assert_eq!((find(time, Boundary::Lower), find(time, Boundary::Upper)), (lower, upper), "time {time}");
    }
}

#[test]
fn flushed_follows_appended_in_both_modes() {
    for mode in [FlushMode::Async, FlushMode::Sync] {
        let disk = FakeDisk::new(512);
        let store =
            Store::open(store::Config { flush: mode, ..small_config() }, Arc::new(disk.clone())).unwrap();
        let queue = store.queue("A", 0).unwrap();
        for round in 0..50 {
            append(&store, &queue, &[round; 300], 0);
            assert_eq!(flush(&store), FlushOutcome::Flushed);
            assert_eq!(store.flushed(), store.appended());
        }
        assert_eq!(bodies(&store, &queue, 0).len(), 50);
        store.close().unwrap();
        assert_eq!(flush(&store), FlushOutcome::Flushed);
    }
}

#[test]
fn a_second_store_on_the_same_files_is_refused() {
    let disk = FakeDisk::new(512);
    let first = open(&disk);
    assert!(matches!(Store::open(small_config(), Arc::new(disk.clone())), Err(OpenError::Locked { .. })));
    drop(first);
    open(&disk).close().unwrap();
}

#[test]
fn readers_are_told_when_the_disk_is_needed() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let queue = store.queue("A", 0).unwrap();
    append(&store, &queue, b"x", 0);
    let mut units = Vec::new();
    assert_eq!(queue.units(QueueOffset::ZERO, 9, &mut units).unwrap(), Read::Done);
    disk.faults(|faults| faults.nothing_resident = true);
    let mut bytes = b"kept".to_vec();
    assert_eq!(store.read_units(&units, &mut bytes).unwrap(), Read::NotResident);
    assert_eq!(bytes, b"kept");
    store.read_units_blocking(&units, &mut bytes).unwrap();
    assert_eq!(bytes.len(), 4 + units[0].size as usize);
    store.close().unwrap();
    let store = open(&disk);
    let queue = store.queue("A", 0).unwrap();
    units.clear();
    assert_eq!(queue.units(QueueOffset::ZERO, 9, &mut units).unwrap(), Read::NotResident);
    queue.units_blocking(QueueOffset::ZERO, 9, &mut units).unwrap();
    assert_eq!(units.len(), 1);
}

/// Returns the growth of each topic since the last call, sorted.
fn grown(store: &Store) -> Vec<(String, u64)> {
    let grown = store.take_grown().into_iter();
    let mut grown: Vec<_> = grown.map(|(queue, growth)| (queue.topic().to_owned(), growth)).collect();
    grown.sort_unstable();
    grown
}

#[test]
fn each_message_is_told_once_among_those_that_came() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let (a, b) = (store.queue("A", 0).unwrap(), store.queue("B", 0).unwrap());
    assert_eq!(grown(&store), []);
    (0..3).for_each(|_| assert!(append(&store, &a, b"x", 0) < 3));
    append(&store, &b, b"x", 0);
    assert_eq!(grown(&store), [("A".to_owned(), 3), ("B".to_owned(), 1)]);
    assert_eq!(grown(&store), []);
    append(&store, &a, b"x", 0);
    assert_eq!(grown(&store), [("A".to_owned(), 1)]);
    assert_eq!((store.topic_end("A"), store.topic_end("B"), store.topic_end("C")), (Some(4), Some(1), None));
    append(&store, &b, b"x", 0);
    // Opened again, after a crash and after a stop, what was there is not new.
    for is_stopped in [false, true] {
        let disk = disk.killed();
        let store = open(&disk);
        assert_eq!(grown(&store), []);
        append(&store, &store.find_queue("B", 0).unwrap(), b"x", 0);
        assert_eq!(grown(&store), [("B".to_owned(), 1)]);
        if is_stopped {
            store.close().unwrap();
            assert_eq!(grown(&open(&disk)), []);
        }
    }
    // A topic that is made again begins anew.
    store.remove_topic("A").unwrap();
    append(&store, &store.queue("A", 0).unwrap(), b"x", 0);
    assert_eq!(grown(&store), [("A".to_owned(), 1), ("B".to_owned(), 1)]);
}
