//! The healer's list of lost queues while it works.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::{Config, FakeDisk, Message, Store};

/// Opens a store with idle threads and `count` messages in queue 0 of topic `A`. Returns it with that queue.
fn store_with(count: usize) -> (Store, Arc<Queue>) {
    let hour = Duration::from_secs(3600);
    let config = Config {
        segment_bytes: 4096,
        queue_file_bytes: 160,
        flush_interval: hour,
        checkpoint_interval: hour,
        ..Config::new("/store")
    };
    let store = Store::open(config, Arc::new(FakeDisk::new(512))).unwrap();
    let queue = store.queue("A", 0).unwrap();
    let host = "10.0.0.9:10911".parse().unwrap();
    let message = Message {
        body: b"x",
        properties: b"",
        sys_flag: 0,
        flag: 0,
        born_timestamp: 1,
        born_host: host,
        store_host: host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
    };
    let mut batch = store.batch();
    for _ in 0..count {
        batch.push(&queue, &message).unwrap();
    }
    store.append(&mut batch, 0).unwrap();
    store.checkpoint().unwrap();
    store.wait_healed();
    (store, queue)
}

/// A rebuild that ends forgets, under the healer's lock, the queues that are whole again. No queue may become lost before it
/// is on the list.
#[test]
fn what_is_lost_is_known_to_be_lost_whenever_a_rebuild_ends() {
    let (store, queue) = store_with(1);
    let lost = &store.parts.lost;
    let work = lock(&lost.work);
    let has_begun = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            has_begun.store(true, Ordering::Release);
            lost.mark_lost(&queue, 0, 1);
        });
        while !has_begun.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        for _ in 0..10_000 {
            std::thread::yield_now();
            assert!(!queue.is_lost() || !work.lost.is_empty());
        }
        drop(work);
    });
    store.wait_healed();
    assert!(!queue.is_lost() && !lost.is_healing(&store.parts.state.queues));
}

/// A check that reads while a truncation changes the files may see apparent damage.
#[test]
fn a_queue_that_is_truncated_while_it_is_checked_is_not_lost() {
    let (store, queue) = store_with(5);
    let mut units = Vec::new();
    queue.units_blocking(QueueOffset::ZERO, 5, &mut units).unwrap();
    store.start_following().unwrap();
    let lost = &store.parts.lost;
    let looks = std::cell::Cell::new(0);
    store.parts.healer().look_at(&queue, |queue| {
        looks.set(looks.get() + 1);
        if looks.get() == 1 {
            store.truncate(units[2].log_offset).unwrap();
            return Ok(Some(0));
        }
        queue.first_bad()
    });
    assert_eq!((looks.get(), queue.is_lost(), lost.is_healing(&store.parts.state.queues)), (2, false, false));
}
