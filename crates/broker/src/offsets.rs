//! Committed offsets of all groups, stored in `consumerOffset.json` (`ConsumerOffsetManager`).
//!
//! A commit for a known queue takes a read lock and the mutex of its group and topic for a short time, and allocates
//! nothing. Offsets are written to the file periodically ([`Offsets::save`]). A crash loses the commits since then,
//! and consumers get some messages again.
//!
//! An offset reset by an operator is *pending* until the next pull or pop of the queue. While it is pending, queries return
//! the new offset and commits are ignored. The next pull takes it and tells the client to continue there.

mod changes;
mod file;
mod group;
mod handlers;
mod positions;
mod text;
mod topics;
mod view;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock};
use store::Store;
use wire::body::{ConsumerOffsetTable, DataVersion, Extra};

use crate::names::is_light;
use crate::persist::{self, ConfigFile, ConfigFiles};
pub(crate) use changes::Generation;
use changes::{Counter, Removals};
pub(crate) use group::ONLY_RAISES;
pub(crate) use handlers::{
    CommitOffset, QueryOffset, ResetContext, ResetOffset, commit, no_group, query, reset, reset_targets,
};
use positions::{MaybeOffset, Positions};
use topics::{Entry, Topics};
pub(crate) use view::{GroupOffsets, Reader};

/// The offsets of all groups.
pub(crate) struct Offsets {
    file: ConfigFile,
    groups: RwLock<HashMap<String, Topics>>,
    /// Number of pending resets, so that pulls do not look for them.
    resets: AtomicUsize,
    /// Whether an offset changed since the file was written.
    changed: AtomicBool,
    /// Counts changes for the slaves that copy the table.
    counter: Counter,
    /// Groups and topics whose offsets were removed, for slaves that copy the table. Locked only under the lock of
    /// `groups`.
    removals: Mutex<Removals>,
    /// The store, if light queues are served. The file then has a separate table for light groups. Entries of light
    /// queues share the names of the store's queues.
    light: Option<Arc<Store>>,
    /// The version of the table, which slaves and masters compare.
    version: Mutex<DataVersion>,
    book: Mutex<Book>,
    /// Topics whose queues are being removed; see [`Offsets::begin_removal`].
    leaving: Mutex<Arc<HashSet<Box<str>>>>,
}

/// Offsets and counts of a group in a topic.
#[derive(Default)]
struct Topic {
    /// Offsets by queue id.
    queues: Positions,
    /// Counts of a topic that was pulled or popped. Pops of lite topics count for the parent topic.
    delivered: Option<Box<Delivered>>,
}

/// Number of messages of a topic that were delivered to a group since the broker started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delivered {
    pub messages: u64,
    pub bytes: u64,
    /// Number of pulls and pops that returned messages.
    pub found: u64,
    /// Number of pulls that returned none.
    pub missed: u64,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Position {
    /// The committed offset: that of the next message to consume.
    committed: MaybeOffset,
    /// Offset of the next message to pull, for statistics.
    pulled: MaybeOffset,
    /// The pending reset: the offset at which an operator wants the group to continue.
    reset: MaybeOffset,
    /// The generation in which the committed offset was set last.
    generation: Generation,
}

/// State for writing the file.
#[derive(Default)]
struct Book {
    /// Members of the file that this version does not know; they are written back unchanged.
    extra: Extra,
}

impl Offsets {
    /// Loads `consumerOffset.json`; starts empty when there is no such file.
    pub(crate) fn load(files: &ConfigFiles) -> Result<Self, persist::Error> {
        let file = files.file("consumerOffset.json");
        let table = file.read()?.unwrap_or_default();
        Ok(Self::of(file, table, None))
    }

    /// Loads `lmqConsumerOffset.json`. While light queues are served, this file replaces
    /// `consumerOffset.json`, which is loaded if this file does not exist yet.
    pub(crate) fn load_light(files: &ConfigFiles, store: Arc<Store>) -> Result<Self, persist::Error> {
        let file = files.file("lmqConsumerOffset.json");
        let table = match file.read()? {
            Some(table) => table,
            None => files.file("consumerOffset.json").read()?.unwrap_or_default(),
        };
        Ok(Self::of(file, table, Some(store)))
    }

    fn of(file: ConfigFile, table: ConsumerOffsetTable, light: Option<Arc<Store>>) -> Self {
        let offsets = Self {
            file,
            groups: RwLock::default(),
            resets: AtomicUsize::new(0),
            changed: AtomicBool::new(false),
            counter: Counter::default(),
            removals: Mutex::default(),
            light,
            version: Mutex::default(),
            book: Mutex::default(),
            leaving: Mutex::default(),
        };
        offsets.fill(table);
        offsets
    }

    /// Returns the group's committed offset in a queue, or `None` without a commit.
    pub(crate) fn committed(&self, group: &str, topic: &str, queue_id: i32) -> Option<i64> {
        self.position(group, topic, queue_id)?.committed.get().filter(|offset| *offset >= 0)
    }

    /// Commits an offset, which may be less than the preceding offset. Returns false and changes nothing if a reset
    /// is pending. The caller has checked that the queue exists, which bounds the number of entries.
    pub(crate) fn commit(&self, group: &str, topic: &str, queue_id: i32, offset: i64) -> bool {
        let mut is_pending = false;
        self.change(group, topic, queue_id, |position| {
            is_pending = position.reset.get().is_some();
            if !is_pending {
                position.committed.replace(offset);
            }
        });
        !is_pending
    }

    /// Makes a reset pending, to be delivered by the next pull. The new offset also counts as committed at once, for groups that
    /// are offline (`ConsumerOffsetManager.assignResetOffset`).
    pub(crate) fn set_reset(&self, group: &str, topic: &str, queue_id: i32, offset: i64) {
        let mut is_new = false;
        self.change(group, topic, queue_id, |position| {
            position.committed.replace(offset);
            is_new = position.reset.replace(offset).is_none();
        });
        if is_new {
            self.resets.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// The offset of the reset that is pending for a group and queue, if any.
    pub(crate) fn pending_reset(&self, group: &str, topic: &str, queue_id: i32) -> Option<i64> {
        if self.resets.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.position(group, topic, queue_id)?.reset.get()
    }

    /// Takes the offset of the pending reset, which is delivered only once (`ConsumerOffsetManager.queryThenEraseResetOffset`).
    pub(crate) fn take_reset(&self, group: &str, topic: &str, queue_id: i32) -> Option<i64> {
        if self.resets.load(Ordering::Acquire) == 0 {
            return None;
        }
        let topic = self.find(group, topic)?;
        let mut topic = topic.lock();
        topic.queues.get(queue_id)?;
        let taken = topic.queues.change(queue_id, |position| position.reset.take());
        if taken.is_some() {
            self.resets.fetch_sub(1, Ordering::AcqRel);
        }
        taken
    }

    /// Removes the offsets of a deleted group.
    pub(crate) fn forget_group(&self, group: &str) {
        let mut groups = self.groups.write();
        let removed = groups.remove(group);
        if removed.is_some() {
            self.note_removed(format!("@{group}"));
        }
        drop(groups);
        self.forgotten(removed.into_iter().flat_map(Topics::into_entries));
    }

    /// Removes the offsets of all groups in a deleted topic.
    pub(crate) fn forget_topic(&self, topic: &str) {
        let mut groups = self.groups.write();
        let removed: Vec<_> = groups.values_mut().filter_map(|topics| topics.remove(topic)).collect();
        groups.retain(|_, topics| !topics.is_empty());
        if !removed.is_empty() {
            self.note_removed(format!("{topic}@"));
        }
        drop(groups);
        self.forgotten(removed.into_iter());
    }

    /// Returns the groups of a topic to offset 0, because its queues begin again.
    pub(crate) fn restart_topic(&self, topic: &str) {
        let has_topic = |(name, topics): (&String, &Topics)| topics.get(topic).map(|_| name.clone());
        // The changes below take the lock again.
        let groups: Vec<String> = self.groups.read().iter().filter_map(has_topic).collect();
        for group in groups {
            for queue_id in self.places(&group, topic).into_keys() {
                self.change(&group, topic, queue_id, |position| _ = position.committed.replace(0));
            }
        }
    }

    fn forgotten(&self, topics: impl Iterator<Item = Entry>) {
        for topic in topics {
            // A commit that looked up the entry just before changes a copy that is no longer read.
            let queues = std::mem::take(&mut topic.lock().queues);
            let pending = queues.iter().filter(|(_, it)| it.reset.get().is_some()).count();
            self.resets.fetch_sub(pending, Ordering::AcqRel);
            self.changed.store(true, Ordering::Release);
        }
        self.counter.wake();
    }

    fn position(&self, group: &str, topic: &str, queue_id: i32) -> Option<Position> {
        self.find(group, topic)?.lock().queues.get(queue_id)
    }

    /// Changes the offsets of a group in a queue. If they differ, marks them for the file and the slaves.
    fn change(&self, group: &str, topic: &str, queue_id: i32, apply: impl FnOnce(&mut Position)) {
        let entry = self.find(group, topic).unwrap_or_else(|| self.make(group, topic));
        let mut topic = entry.lock();
        let changed = topic.queues.change(queue_id, |position| {
            let before = *position;
            apply(position);
            // Read while the entry is locked: see `Offsets::changed_after`.
            let generation = self.counter.current();
            (*position != before).then(|| {
                position.generation = generation;
                generation
            })
        });
        let Some(generation) = changed else { return };
        // Before the new offset is visible, so that every response with it includes its generation.
        self.counter.raise(generation);
        drop(topic);
        self.changed.store(true, Ordering::Release);
        self.counter.wake();
    }

    fn find(&self, group: &str, topic: &str) -> Option<Entry> {
        self.groups.read().get(group)?.get(topic).cloned()
    }

    fn make(&self, group: &str, topic: &str) -> Entry {
        let store = self.light.as_ref().filter(|_| is_light(topic));
        let queue = store.and_then(|store| store.find_queue(topic, 0));
        let topic = queue.map_or_else(|| topic.into(), |queue| queue.shared_topic());
        let mut groups = self.groups.write();
        groups.entry(group.to_owned()).or_default().make(topic)
    }
}

#[cfg(test)]
mod tests;
