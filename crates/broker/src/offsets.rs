//! How far groups have consumed, kept in `consumerOffset.json` (`ConsumerOffsetManager`).
//!
//! A commit on a known queue takes a read lock, a short mutex of its (group, topic) and no allocation. Positions are
//! written to the file from time to time ([`Offsets::save`]); a crash loses the commits since, and consumers see some
//! messages again.
//!
//! An operator's reset waits as *pending*: it is what queries return, commits are ignored, and the next pull takes it
//! and tells the client to go there.

mod file;
mod handlers;
mod view;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use wire::body::{ConsumerOffsetTable, DataVersion, Extra};

use crate::persist;
pub(crate) use handlers::{ResetDesk, query, reset, reset_targets, update};
pub(crate) use view::Reader;

/// The positions of all groups.
pub(crate) struct Offsets {
    path: PathBuf,
    groups: RwLock<HashMap<String, Topics>>,
    /// Number of pending resets, so that pulls do not look for them.
    resets: AtomicUsize,
    /// Something changed since the file was written.
    changed: AtomicBool,
    /// The file has a table of its own for light groups.
    light: bool,
    book: Mutex<Book>,
}

/// Positions of a group by topic.
type Topics = HashMap<String, Arc<Mutex<Topic>>>;

/// A group and a topic.
#[derive(Default)]
struct Topic {
    /// Positions in its queues.
    queues: BTreeMap<i32, Position>,
    delivered: Delivered,
}

/// What a group was given of a topic since the broker started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delivered {
    pub messages: u64,
    pub bytes: u64,
    /// Pulls that found something.
    pub found: u64,
    /// Pulls that did not.
    pub missed: u64,
}

#[derive(Clone, Copy, Default)]
struct Position {
    /// Next offset to consume.
    committed: Option<i64>,
    /// Next offset to pull, for statistics.
    pulled: Option<i64>,
    /// Where an operator wants the group to go.
    reset: Option<i64>,
}

/// What only the writer of the file needs.
#[derive(Default)]
struct Book {
    version: DataVersion,
    /// Members of the file this version does not know.
    extra: Extra,
}

impl Offsets {
    /// Loads `consumerOffset.json` from `path`, or starts empty.
    pub(crate) fn load(path: PathBuf) -> Result<Self, persist::Error> {
        let file = persist::read(&path)?.unwrap_or_default();
        Ok(Self::of(path, file, false))
    }

    /// Loads `lmqConsumerOffset.json` of a directory, which takes the other's place while light queues are served, or
    /// `consumerOffset.json` when that is not there yet.
    pub(crate) fn load_light(config: &Path) -> Result<Self, persist::Error> {
        let path = config.join("lmqConsumerOffset.json");
        let file = match persist::read(&path)? {
            Some(file) => file,
            None => persist::read(&config.join("consumerOffset.json"))?.unwrap_or_default(),
        };
        Ok(Self::of(path, file, true))
    }

    fn of(path: PathBuf, file: ConsumerOffsetTable, light: bool) -> Self {
        let offsets = Self {
            path,
            groups: RwLock::default(),
            resets: AtomicUsize::new(0),
            changed: AtomicBool::new(false),
            light,
            book: Mutex::default(),
        };
        offsets.fill(file);
        offsets
    }

    /// The offset committed; `None` when there is none.
    pub(crate) fn committed(&self, group: &str, topic: &str, queue_id: i32) -> Option<i64> {
        self.position(group, topic, queue_id)?.committed.filter(|offset| *offset >= 0)
    }

    /// Commits an offset, which may go backwards. False when a reset is pending; then nothing is stored. The caller
    /// knows that the queue exists: positions are bounded by queues and groups.
    pub(crate) fn commit(&self, group: &str, topic: &str, queue_id: i32, offset: i64) -> bool {
        let committed = self.change(group, topic, queue_id, |position| {
            if position.reset.is_some() {
                return None;
            }
            Some(position.committed.replace(offset) != Some(offset))
        });
        if committed == Some(true) {
            self.changed.store(true, Ordering::Release);
        }
        committed.is_some()
    }

    /// Leaves a reset for the next pull; it counts as committed at once, for groups that are offline
    /// (`ConsumerOffsetManager.assignResetOffset`).
    pub(crate) fn set_reset(&self, group: &str, topic: &str, queue_id: i32, offset: i64) {
        let is_new = self.change(group, topic, queue_id, |position| {
            position.committed = Some(offset);
            position.reset.replace(offset).is_none()
        });
        if is_new {
            self.resets.fetch_add(1, Ordering::AcqRel);
        }
        self.changed.store(true, Ordering::Release);
    }

    /// The pending reset.
    pub(crate) fn pending_reset(&self, group: &str, topic: &str, queue_id: i32) -> Option<i64> {
        if self.resets.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.position(group, topic, queue_id)?.reset
    }

    /// Takes the pending reset: it is delivered once (`ConsumerOffsetManager.queryThenEraseResetOffset`).
    pub(crate) fn take_reset(&self, group: &str, topic: &str, queue_id: i32) -> Option<i64> {
        if self.resets.load(Ordering::Acquire) == 0 {
            return None;
        }
        let topic = self.find(group, topic)?;
        let taken = lock(&topic).queues.get_mut(&queue_id)?.reset.take();
        if taken.is_some() {
            self.resets.fetch_sub(1, Ordering::AcqRel);
        }
        taken
    }

    /// Forgets a deleted group.
    pub(crate) fn forget_group(&self, group: &str) {
        let removed = self.groups.write().unwrap_or_else(PoisonError::into_inner).remove(group);
        self.forgotten(removed.into_iter().flat_map(HashMap::into_values));
    }

    /// Forgets a deleted topic.
    pub(crate) fn forget_topic(&self, topic: &str) {
        let mut groups = self.groups.write().unwrap_or_else(PoisonError::into_inner);
        let removed: Vec<_> = groups.values_mut().filter_map(|topics| topics.remove(topic)).collect();
        groups.retain(|_, topics| !topics.is_empty());
        drop(groups);
        self.forgotten(removed.into_iter());
    }

    fn forgotten(&self, topics: impl Iterator<Item = Arc<Mutex<Topic>>>) {
        for topic in topics {
            // A commit that found the topic just before writes to what nobody reads any more.
            let queues = std::mem::take(&mut lock(&topic).queues);
            let pending = queues.values().filter(|it| it.reset.is_some()).count();
            self.resets.fetch_sub(pending, Ordering::AcqRel);
            self.changed.store(true, Ordering::Release);
        }
    }

    fn position(&self, group: &str, topic: &str, queue_id: i32) -> Option<Position> {
        lock(&*self.find(group, topic)?).queues.get(&queue_id).copied()
    }

    fn change<R>(
        &self,
        group: &str,
        topic: &str,
        queue_id: i32,
        apply: impl FnOnce(&mut Position) -> R,
    ) -> R {
        let topic = self.find(group, topic).unwrap_or_else(|| self.make(group, topic));
        apply(lock(&topic).queues.entry(queue_id).or_default())
    }

    fn find(&self, group: &str, topic: &str) -> Option<Arc<Mutex<Topic>>> {
        self.groups.read().unwrap_or_else(PoisonError::into_inner).get(group)?.get(topic).cloned()
    }

    fn make(&self, group: &str, topic: &str) -> Arc<Mutex<Topic>> {
        let mut groups = self.groups.write().unwrap_or_else(PoisonError::into_inner);
        groups.entry(group.to_owned()).or_default().entry(topic.to_owned()).or_default().clone()
    }
}

fn lock(topic: &Mutex<Topic>) -> MutexGuard<'_, Topic> {
    topic.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
