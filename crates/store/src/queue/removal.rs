//! Removes a topic's queues (`ConsumeQueueStore.destroy`, `DefaultMessageStore.deleteTopics`). The topic's records
//! stay in the log until its files are deleted. If the topic is created again, its queues begin at offset 0. A
//! *tombstone* in the queue table excludes the old records: all records before the log position of the removal.

use super::registry::Queues;
use super::{Queue, batched};
use crate::disk::Disk;
use crate::wake::lock;
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Directories with a subdirectory per topic and queue.
pub(crate) const DIRECTORIES: [&str; 4] =
    ["consumequeue", "consumequeue_ext", batched::JAVA_DIR, batched::VOSTOK_DIR];

/// Removed topics, with the log position of the removal. Records of a topic before that position are in no queue.
#[derive(Default)]
pub(crate) struct Tombstones {
    is_any: AtomicBool,
    by_topic: RwLock<HashMap<Box<str>, u64>>,
}

impl Tombstones {
    pub(crate) fn insert(&self, topic: &str, before: u64) {
        let mut by_topic = self.by_topic.write().unwrap_or_else(|poison| poison.into_inner());
        let known = by_topic.entry(topic.into()).or_default();
        *known = before.max(*known);
        self.is_any.store(true, Ordering::Release);
    }

    /// Whether a record of this topic at log position `at` precedes the topic's removal.
    pub(crate) fn covers(&self, topic: &str, at: u64) -> bool {
        self.is_any.load(Ordering::Acquire)
            && self
                .by_topic
                .read()
                .unwrap_or_else(|poison| poison.into_inner())
                .get(topic)
                .is_some_and(|before| at < *before)
    }

    /// Lowers tombstones to the log's end. Records that will be written behind the log's end do not belong to
    /// the removed topics.
    pub(crate) fn lower(&self, log_end: u64) {
        if self.is_any.load(Ordering::Acquire) {
            let mut by_topic = self.by_topic.write().unwrap_or_else(|poison| poison.into_inner());
            by_topic.values_mut().for_each(|before| *before = log_end.min(*before));
        }
    }

    /// Drops the tombstones without records in a log that begins at `log_min`.
    pub(crate) fn forget_below(&self, log_min: u64) {
        let mut by_topic = self.by_topic.write().unwrap_or_else(|poison| poison.into_inner());
        by_topic.retain(|_, before| *before > log_min);
        self.is_any.store(!by_topic.is_empty(), Ordering::Release);
    }

    /// The tombstones that still matter to a log that begins at `log_min`.
    pub(crate) fn all(&self, log_min: u64) -> Vec<(Box<str>, u64)> {
        let by_topic = self.by_topic.read().unwrap_or_else(|poison| poison.into_inner());
        let list = by_topic.iter().filter(|(_, before)| **before > log_min);
        list.map(|(topic, before)| (topic.clone(), *before)).collect()
    }
}

/// Deletes the files `<directory>/<number>/<number>`, and the directories that are then empty.
pub(crate) fn delete_numbered(disk: &dyn Disk, directory: &Path) -> io::Result<()> {
    let is_number = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    for queue in disk.list(directory)?.iter().filter(|entry| entry.is_dir && is_number(&entry.name)) {
        let directory = directory.join(&queue.name);
        for file in disk.list(&directory)?.iter().filter(|entry| !entry.is_dir && is_number(&entry.name)) {
            disk.remove(&directory.join(&file.name))?;
        }
        disk.remove_dir(&directory)?;
    }
    disk.remove_dir(directory)
}

impl Queue {
    /// Whether the topic was removed. The handle is then invalid, and the queue must be looked up again.
    pub fn is_removed(&self) -> bool {
        self.is_removed.load(Ordering::Acquire)
    }

    /// Invalidates the handle because the topic is removed.
    pub(crate) fn remove(&self) {
        self.is_removed.store(true, Ordering::Release);
    }

    /// Drops the units that were never written to a file, and returns their number.
    pub(crate) fn drop_unwritten(&self) -> u64 {
        let mut tail = lock(&self.tail);
        let count = tail.units.len() as u64 - tail.unwritten() as u64;
        tail.written += count;
        count
    }
}

impl Queues {
    pub(crate) fn take_topic(&self, topic: &str) -> Vec<Arc<Queue>> {
        let mut by_topic = self.by_topic.write().unwrap_or_else(|poison| poison.into_inner());
        by_topic.remove(topic).map(|queues| queues.into_values().collect()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Config, FakeDisk, Message, RetentionRound, RetentionSettings, Store};
    use std::sync::Arc;
    use std::time::Duration;
    use wire::units::QueueOffset;

    fn append(store: &Store, topic: &str) {
        let message = Message {
            body: &[7; 1000],
            properties: b"",
            sys_flag: 0,
            flag: 0,
            born_timestamp: 1,
            born_host: "10.0.0.7:50001".parse().unwrap(),
            store_host: "10.0.0.9:10911".parse().unwrap(),
            reconsume_times: 0,
            prepared_transaction_offset: 0,
        };
        let mut batch = store.batch();
        batch.push(&store.queue(topic, 0).unwrap(), &message).unwrap();
        store.append(&mut batch, 0).unwrap();
    }

    #[test]
    fn a_tombstone_goes_with_the_last_of_its_records() {
        let hour = Duration::from_secs(3600);
        let config = Config {
            segment_bytes: 4096,
            queue_file_bytes: 160,
            flush_interval: hour,
            checkpoint_interval: hour,
            ..Config::new("/store")
        };
        let store = Store::open(config, Arc::new(FakeDisk::new(512))).unwrap();
        append(&store, "Early");
        store.remove_topic("Early").unwrap();
        (0..9).for_each(|_| append(&store, "Busy"));
        append(&store, "Late");
        store.remove_topic("Late").unwrap();
        let tombstones = &store.parts.state.queues.tombstones;
        let topics = || -> Vec<String> {
            tombstones.by_topic.read().unwrap().keys().map(|topic| topic.to_string()).collect()
        };
        assert!(tombstones.covers("Early", 0) && topics().len() == 2);
        let settings = RetentionSettings { reserved_ms: 0, ..RetentionSettings::default() };
        let round = RetentionRound { now_ms: 1, hour: 4, asked: false, unconsumed_from: &|| None };
        assert!(store.retain(&settings, &round).unwrap().min.get() > 4096);
        assert_eq!(topics(), ["Late"]);
    }

    #[test]
    fn a_topic_that_got_messages_is_not_removed_as_ended() {
        let store = Store::open(Config::new("/store"), Arc::new(FakeDisk::new(512))).unwrap();
        ["Grown", "Ended", "Grown"].iter().for_each(|topic| append(&store, topic));
        let end = QueueOffset::new(1);
        let (removed, durable) =
            store.remove_ended_topics(&[("Grown", end), ("Ended", end), ("Missing", end)]);
        durable.unwrap();
        assert_eq!(removed, ["Ended"]);
        assert_eq!(store.find_queue("Grown", 0).unwrap().max().get(), 2);
        assert!(store.find_queue("Ended", 0).is_none());
    }
}
