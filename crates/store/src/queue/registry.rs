//! All queues of a store, by topic and queue id.

use super::files::{OpenFiles, QueueFiles};
use super::removal::Tombstones;
use super::{Extent, Queue, batched};
use crate::error::PushError;
use crate::wake::lock;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};

type ByTopic = HashMap<Arc<str>, BTreeMap<i32, Arc<Queue>>>;

/// All queues, and lists of queues with units to write.
pub(crate) struct Queues {
    pub(crate) directory: PathBuf,
    /// Directory of the units of batch consume queues.
    pub(crate) batched_directory: PathBuf,
    /// Topics with batch consume queues.
    batched: RwLock<BTreeSet<Box<str>>>,
    /// Whether `batched` ever had a topic. While it is false, lookups take no lock.
    has_batched: AtomicBool,
    pub(crate) file_bytes: u64,
    pub(crate) open: Arc<OpenFiles>,
    pub(super) by_topic: RwLock<ByTopic>,
    pub(crate) tombstones: Tombstones,
    pub(crate) unwritten: Mutex<Vec<Arc<Queue>>>,
    /// Number of units in memory that are in no queue file.
    pub(crate) unwritten_units: AtomicU64,
    /// Number of queues with [`super::RIPE_UNITS`] or more unwritten units.
    pub(crate) ripe: AtomicUsize,
    /// Queues with units that are not in the journal.
    pub(crate) fresh: Mutex<Vec<Arc<Queue>>>,
    /// Queues that grew since the list was taken.
    pub(crate) grown: Mutex<Vec<Arc<Queue>>>,
}

/// Whether topic and queue id are valid directory names. RocketMQ's own rule for topics is stricter.
fn is_path_name(topic: &str, queue_id: i32) -> bool {
    let plain = !topic.is_empty() && topic.len() <= 255 && !topic.contains(['/', '\0']);
    plain && topic != "." && topic != ".." && queue_id >= 0
}

/// The queues of a topic, and the topic's name, which all of them share.
fn entry<'a>(by_topic: &'a mut ByTopic, topic: &str) -> (Arc<str>, &'a mut BTreeMap<i32, Arc<Queue>>) {
    let name = by_topic.get_key_value(topic).map_or_else(|| topic.into(), |(name, _)| name.clone());
    let queues = by_topic.entry(name.clone()).or_default();
    (name, queues)
}

impl Queues {
    pub(crate) fn new(root: &Path, file_bytes: u64, open: Arc<OpenFiles>) -> Self {
        Self {
            directory: root.join("consumequeue"),
            batched_directory: root.join(batched::VOSTOK_DIR),
            batched: RwLock::default(),
            has_batched: AtomicBool::new(false),
            file_bytes,
            open,
            by_topic: RwLock::default(),
            tombstones: Tombstones::default(),
            unwritten: Mutex::default(),
            unwritten_units: AtomicU64::new(0),
            ripe: AtomicUsize::new(0),
            fresh: Mutex::default(),
            grown: Mutex::default(),
        }
    }

    /// Makes a topic's queues batch consume queues. Must be called before the topic has queues.
    pub(crate) fn add_batched(&self, topic: &str) {
        self.batched.write().unwrap_or_else(|poison| poison.into_inner()).insert(topic.into());
        self.has_batched.store(true, Ordering::Release);
    }

    /// Removes a topic from the topics with batch consume queues. A topic that is created again has ordinary queues
    /// by default.
    pub(crate) fn forget_batched(&self, topic: &str) {
        self.batched.write().unwrap_or_else(|poison| poison.into_inner()).remove(topic);
    }

    pub(crate) fn is_batched(&self, topic: &str) -> bool {
        self.has_batched.load(Ordering::Acquire)
            && self.batched.read().unwrap_or_else(|poison| poison.into_inner()).contains(topic)
    }

    /// Topics with batch consume queues.
    pub(crate) fn batched_topics(&self) -> Vec<Box<str>> {
        self.batched.read().unwrap_or_else(|poison| poison.into_inner()).iter().cloned().collect()
    }

    /// The queues of all topics with batch consume queues.
    pub(crate) fn batched(&self) -> Vec<Arc<Queue>> {
        let topics = self.batched_topics();
        let by_topic = self.by_topic.read().unwrap_or_else(|poison| poison.into_inner());
        let queues = topics.iter().filter_map(|topic| by_topic.get(&**topic));
        queues.flat_map(BTreeMap::values).cloned().collect()
    }

    pub(crate) fn find(&self, topic: &str, queue_id: i32) -> Option<Arc<Queue>> {
        let by_topic = self.by_topic.read().unwrap_or_else(|poison| poison.into_inner());
        by_topic.get(topic)?.get(&queue_id).cloned()
    }

    /// Returns the sum of the ends of a topic's queues, or `None` if the topic has no queues.
    pub(crate) fn topic_end(&self, topic: &str) -> Option<u64> {
        let by_topic = self.by_topic.read().unwrap_or_else(|poison| poison.into_inner());
        let queues = by_topic.get(topic).filter(|queues| !queues.is_empty())?;
        Some(queues.values().map(|queue| queue.max().get()).sum())
    }

    pub(crate) fn find_or_create(&self, topic: &str, queue_id: i32) -> Result<Arc<Queue>, PushError> {
        if let Some(queue) = self.find(topic, queue_id) {
            // The queue is of a deleted topic, left by a crash, and of another kind: messages would not get queue offsets of
            // their own.
            let fits = queue.is_batched() == self.is_batched(topic);
            return if fits { Ok(queue) } else { Err(PushError::Kind { topic: topic.to_owned() }) };
        }
        if !is_path_name(topic, queue_id) {
            return Err(PushError::Queue { topic: topic.to_owned(), queue_id });
        }
        let mut by_topic = self.by_topic.write().unwrap_or_else(|poison| poison.into_inner());
        let (name, queues) = entry(&mut by_topic, topic);
        let make = || Arc::new(self.make(&name, queue_id, Extent::default()));
        Ok(queues.entry(queue_id).or_insert_with(make).clone())
    }

    fn make(&self, topic: &Arc<str>, queue_id: i32, extent: Extent) -> Queue {
        let make = if self.is_batched(topic) { Queue::of_batches } else { Queue::new };
        make(topic, queue_id, self.files_of(topic, queue_id), extent)
    }

    pub(crate) fn files_of(&self, topic: &str, queue_id: i32) -> QueueFiles {
        let below = |kind: &Path| kind.join(topic).join(queue_id.to_string());
        if self.is_batched(topic) {
            return QueueFiles::of_batches(
                below(&self.batched_directory),
                self.file_bytes,
                self.open.clone(),
            );
        }
        QueueFiles::new(below(&self.directory), self.file_bytes, self.open.clone())
    }

    /// Adds a queue whose extent was loaded from its files or from the queue table.
    pub(crate) fn insert(&self, topic: &str, queue_id: i32, extent: Extent) -> Arc<Queue> {
        let mut by_topic = self.by_topic.write().unwrap_or_else(|poison| poison.into_inner());
        let (name, queues) = entry(&mut by_topic, topic);
        let queue = Arc::new(self.make(&name, queue_id, extent));
        queues.insert(queue_id, queue.clone());
        queue
    }

    /// Adds the queues of a queue table.
    pub(crate) fn insert_all<'a>(
        &self,
        queues: impl Iterator<Item = (&'a Box<str>, &'a BTreeMap<i32, Extent>)>,
    ) {
        let mut by_topic = self.by_topic.write().unwrap_or_else(|poison| poison.into_inner());
        by_topic.reserve(queues.size_hint().1.unwrap_or(0));
        for (topic, queues) in queues.filter(|(topic, _)| is_path_name(topic, 0)) {
            let name = Arc::from(&**topic);
            let made = queues.iter().map(|(id, extent)| (*id, Arc::new(self.make(&name, *id, *extent))));
            let made = made.collect();
            by_topic.insert(name, made);
        }
    }

    /// Removes all queues, before they are loaded again.
    pub(crate) fn forget_all(&self) {
        self.by_topic.write().unwrap_or_else(|poison| poison.into_inner()).clear();
        self.take_unwritten();
        lock(&self.fresh).clear();
        lock(&self.grown).clear();
        self.unwritten_units.store(0, Ordering::Relaxed);
    }

    /// All queues of the store, in no particular order.
    pub(crate) fn all(&self) -> Vec<Arc<Queue>> {
        let by_topic = self.by_topic.read().unwrap_or_else(|poison| poison.into_inner());
        by_topic.values().flat_map(BTreeMap::values).cloned().collect()
    }

    /// Takes the list of queues that grew, and by how much each did since it was taken last.
    pub(crate) fn take_grown(&self) -> Vec<(Arc<Queue>, u64)> {
        let grown = std::mem::take(&mut *lock(&self.grown));
        grown
            .into_iter()
            .map(|queue| {
                let growth = queue.take_growth();
                (queue, growth)
            })
            .collect()
    }

    /// Takes the list of queues with unwritten units.
    pub(crate) fn take_unwritten(&self) -> Vec<Arc<Queue>> {
        self.ripe.store(0, Ordering::Relaxed);
        let taken = std::mem::take(&mut *lock(&self.unwritten));
        taken.iter().for_each(|queue| queue.unlist());
        taken
    }
}
