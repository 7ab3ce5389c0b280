//! Stores whose log holds messages that have left their queue. They have no fault.

use crate::elsewhere::{from_elsewhere, remake};
use crate::tool::{append, open, small_config};
use std::path::Path;
use std::sync::Arc;
use store::inspect::{Repair, Step, Survey, VerifyResult, verify};
use store::{Disk, FakeDisk};
use wire::units::QueueOffset;

fn survey(disk: &FakeDisk) -> Survey {
    Survey::of(Arc::new(disk.clone()), "/store".as_ref(), &[]).unwrap()
}

fn verified(disk: &FakeDisk) -> VerifyResult {
    verify(&survey(disk), 2, &|_| {}).unwrap()
}

pub fn check_clean(disk: &FakeDisk, what: &str) {
    let survey = survey(disk);
    let found = verify(&survey, 2, &|_| {}).unwrap();
    assert!(found.is_clean(), "{what}: {:?} {:?}", found.findings, found.lost);
    assert_eq!(Repair::of(&survey, &found).steps(), [], "{what}");
}

/// Makes the checkpoint look as RocketMQ leaves it: the queue table is invalid, but still exists.
fn void_table(disk: &FakeDisk) {
    disk.open("/store/checkpoint".as_ref()).unwrap().write_at(b"anything", 8).unwrap();
}

#[test]
fn a_topic_that_was_removed_is_not_missed() {
    for remade in [0, 1, 7, 40] {
        let disk = FakeDisk::new(512);
        let store = open(&disk);
        remake(&store, "Again", &[30, remade]);
        store.checkpoint().unwrap();
        check_clean(&disk.killed(), "open");
        store.close().unwrap();
        check_clean(&disk, "closed");
        let before = disk.killed();
        void_table(&disk);
        check_clean(&disk, "without the table");
        // What is there again must be.
        if remade > 0 {
            before.remove("/store/consumequeue/Again/1/00000000000000000000".as_ref()).unwrap();
            let survey = survey(&before);
            let found = verify(&survey, 2, &|_| {}).unwrap();
            let bad = vec![("Again".to_owned(), 1)];
            assert_eq!(Repair::of(&survey, &found).steps(), [Step::RebuildQueues(bad)]);
        }
    }
}

#[test]
fn a_removal_that_was_cut_short_is_no_damage() {
    for killed_after in 0.. {
        let disk = FakeDisk::new(512);
        let store = open(&disk);
        remake(&store, "Again", &[30]);
        store.checkpoint().unwrap();
        disk.faults(|faults| faults.killed_after = Some(killed_after));
        let is_whole = store.remove_topic("Again").is_ok();
        check_clean(&disk.killed(), &format!("killed after {killed_after}"));
        if is_whole {
            assert!(killed_after > 5, "{killed_after}");
            break;
        }
    }
}

#[test]
fn a_queue_that_was_shortened_is_whole() {
    for kept_from in [1, 7, 8, 25, 39, 40] {
        let disk = FakeDisk::new(512);
        let store = open(&disk);
        let (queue, other) = (store.queue("Short", 0).unwrap(), store.queue("Other", 0).unwrap());
        for number in 0..40 {
            append(&store, &queue, &[1; 100], number);
            append(&store, &other, &[1; 100], number);
        }
        store.checkpoint().unwrap();
        let min = store.expire_queue(&queue, i64::MAX, QueueOffset::new(kept_from)).unwrap();
        assert_eq!(min.get(), kept_from);
        check_clean(&disk.killed(), "open");
        store.close().unwrap();
        check_clean(&disk, "closed");
        let before = disk.killed();
        void_table(&disk);
        check_clean(&disk, "without the table");
        // From there on everything is compared.
        if kept_from < 40 {
            let path = format!("/store/consumequeue/Short/0/{:020}", kept_from / 8 * 160);
            let unit = before.open(Path::new(&path)).unwrap();
            unit.write_at(b"!", kept_from % 8 * 20 + 11).unwrap();
            assert_eq!(verified(&before).findings.len(), 1, "{kept_from}");
        }
    }
}

/// RocketMQ up to 5.4 leaves no trace of a deleted topic.
#[test]
fn a_topic_that_another_broker_made_again_is_whole() {
    for counts in [&[30, 7][..], &[7, 30], &[30, 1], &[1, 1], &[5, 9, 3], &[3, 9, 9, 20]] {
        let disk = FakeDisk::new(512);
        let store = open(&disk);
        remake(&store, "Again", counts);
        store.close().unwrap();
        from_elsewhere(&disk, 0, false);
        check_clean(&disk, &format!("{counts:?}"));
        // The last one's queues are compared.
        let file = disk.open("/store/consumequeue/Again/1/00000000000000000000".as_ref()).unwrap();
        file.write_at(b"!", 11).unwrap();
        assert_eq!(verified(&disk).findings.len(), 1, "{counts:?}");
    }
}

#[test]
fn a_damaged_number_that_looks_like_a_beginning_is_told() {
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
        from_elsewhere(&disk, 0, false);
        let (at, segment_bytes) = (units[damaged].log_offset.get(), small_config().segment_bytes);
        let path = format!("/store/commitlog/{:020}", at / segment_bytes * segment_bytes);
        // Where a record has its queue offset.
        disk.open(path.as_ref()).unwrap().write_at(&[0; 8], at % segment_bytes + 20).unwrap();
        let found = verified(&disk);
        assert!(found.findings.iter().any(|finding| finding.what.contains("has number 0")), "{damaged}");
        let lost: Vec<_> = found.lost.iter().map(|lost| lost.number).collect();
        assert_eq!(lost, [damaged as u64]);
    }
}
