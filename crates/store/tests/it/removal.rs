//! Topics that are removed, and made again.

use crate::tool::{append, bodies, message, open};
use store::{AppendError, Disk, FakeDisk, Store};
use wire::units::QueueOffset;

fn fill(store: &Store, topic: &str, count: u8, body: u8) {
    let queue = store.queue(topic, 0).unwrap();
    for _ in 0..count {
        append(store, &queue, &[body; 100], 0);
    }
}

fn check(store: &Store, count: u8) {
    let queue = store.find_queue("Again", 0).unwrap();
    assert_eq!((queue.min().get(), queue.max().get()), (0, u64::from(count)));
    store.wait_healed();
    assert_eq!(bodies(store, &queue, 0), vec![vec![2; 100]; usize::from(count)]);
    assert_eq!(bodies(store, &store.find_queue("Other", 0).unwrap(), 0).len(), 20);
}

#[test]
fn a_removed_topic_begins_at_zero_and_never_shows_its_old_messages() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    fill(&store, "Again", 30, 1);
    fill(&store, "Other", 20, 1);
    store.checkpoint().unwrap();
    fill(&store, "Again", 5, 1);
    let old = store.find_queue("Again", 0).unwrap();
    assert_eq!(store.remove_topic("Again").unwrap(), 1);
    assert_eq!(store.remove_topic("Again").unwrap(), 0);
    assert!(disk.list("/store/consumequeue/Again".as_ref()).unwrap().is_empty());
    let mut units = Vec::new();
    old.units_blocking(QueueOffset::ZERO, 10, &mut units).unwrap();
    assert!(units.is_empty() && store.find_queue("Again", 0).is_none());
    let mut batch = store.batch();
    batch.push(&old, &message(b"late", b"")).unwrap();
    assert!(matches!(store.append(&mut batch, 0), Err(AppendError::Removed { .. })));
    // Crashed at once, the topic stays away.
    for disk in [disk.killed(), disk.power_cut(1)] {
        let store = open(&disk);
        assert!(store.find_queue("Again", 0).is_none());
    }
    fill(&store, "Again", 7, 2);
    check(&store, 7);
    let flushed = crate::tool::flush(&store);
    assert_eq!(flushed, store::FlushOutcome::Flushed);
    check(&open(&disk.killed()), 7);
    check(&open(&disk.power_cut(2)), 7);
    store.checkpoint().unwrap();
    check(&open(&disk.power_cut(3)), 7);
    // All queue files lost, with the table and, as after another program, without it.
    store.close().unwrap();
    for void in [false, true] {
        let disk = disk.killed();
        for topic in ["Again", "Other"] {
            let directory = format!("/store/consumequeue/{topic}/0");
            for entry in disk.list(directory.as_ref()).unwrap() {
                disk.remove(&std::path::Path::new(&directory).join(entry.name)).unwrap();
            }
        }
        if void {
            disk.remove("/store/checkpoint".as_ref()).unwrap();
        }
        check(&open(&disk), 7);
    }
}

#[test]
fn a_topic_can_go_and_come_many_times() {
    let disk = FakeDisk::new(512);
    let mut store = open(&disk);
    for round in 0..20u64 {
        fill(&store, "Other", 1, 1);
        fill(&store, "Again", 7, 2);
        if round % 3 == 0 {
            store.checkpoint().unwrap();
        }
        check_round(&store);
        if round % 2 == 0 {
            store.remove_topic("Again").unwrap();
        } else {
            store.close().unwrap();
            store = open(&disk);
            check_round(&store);
            store.remove_topic("Again").unwrap();
        }
        if round % 5 == 4 {
            store = open(&disk.killed());
            assert!(store.find_queue("Again", 0).is_none());
            store = open(&disk);
        }
    }
}

fn check_round(store: &Store) {
    store.wait_healed();
    assert_eq!(bodies(store, &store.find_queue("Again", 0).unwrap(), 0), vec![vec![2; 100]; 7]);
}
