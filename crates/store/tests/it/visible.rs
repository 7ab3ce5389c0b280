//! Every message that a queue shows is readable at any moment.

use crate::tool::{append, small_config};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use store::{Config, Read, RealDisk, Store};
use wire::units::QueueOffset;

#[test]
fn a_message_in_the_queue_is_in_the_log() {
    let directory = tempfile::tempdir().unwrap();
    let config = Config {
        commit_log: directory.path().join("commitlog"),
        root: directory.path().to_owned(),
        segment_bytes: 16 << 20,
        unwritten_units_max: 1 << 20,
        ..small_config()
    };
    let store = Store::open(config, Arc::new(RealDisk)).unwrap();
    let queue = store.queue("TopicA", 0).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..20_000 {
                append(&store, &queue, b"body", 0);
            }
            done.store(true, Ordering::Release);
        });
        let (mut units, mut bytes, mut next) = (Vec::new(), Vec::new(), 0);
        while !done.load(Ordering::Acquire) {
            units.clear();
            bytes.clear();
            if queue.units(QueueOffset::new(next), 1 << 16, &mut units).unwrap() == Read::Done {
                // A range beyond the end of the log would be an error here.
                let _ = store.read_units(&units, &mut bytes).unwrap();
                next += units.len() as u64;
            }
        }
    });
    store.close().unwrap();
}
