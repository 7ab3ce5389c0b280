//! The healer's list of lost queues while it works.

use super::*;
use crate::{Config, FakeDisk, Message, Store};

/// A rebuild that ends forgets, under the healer's lock, the queues that are whole again. No queue may become lost before it
/// is on the list.
#[test]
fn what_is_lost_is_known_to_be_lost_whenever_a_rebuild_ends() {
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
    batch.push(&queue, &message).unwrap();
    store.append(&mut batch, 0).unwrap();
    store.checkpoint().unwrap();
    store.wait_healed();
    let lost = &store.parts.lost;
    let work = lock(&lost.work);
    std::thread::scope(|scope| {
        scope.spawn(|| lost.lose(&queue, 0, 1));
        for _ in 0..10_000 {
            std::thread::yield_now();
            assert!(!queue.is_lost() || !work.lost.is_empty());
        }
        drop(work);
    });
    store.wait_healed();
    assert!(!queue.is_lost() && !lost.is_healing(&store.parts.state.queues));
}
