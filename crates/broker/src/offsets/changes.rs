//! Changes in the table of offsets, for the slaves that copy it.
//!
//! Every change gets the current *generation*. A slave asks for the changes after the last generation that it has
//! completely. Each such query begins a new generation. So no list of changes is needed, and a commit costs two more
//! loads. Only removals are listed, because they leave no entry.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::watch;
use wire::body::{ConsumerOffsetTable, TableDelta};

use super::Offsets;

/// Number of removals stored for slaves. A slave that is further behind gets the whole table.
const REMOVALS_KEPT: usize = 4096;

/// Bytes that a queue and its offset take in a body.
const QUEUE_BYTES: usize = 28;

/// Number that grows with each search for changes. Zero is before the first change.
pub(crate) type Generation = u64;

/// Current generation, and the waiters for changes.
pub(super) struct Counter {
    current: AtomicU64,
    /// The generation of the latest change.
    newest: AtomicU64,
    /// Whether a query waits for a change. Without a waiter, a commit touches no shared memory for it.
    is_awaited: AtomicBool,
    news: watch::Sender<()>,
}

/// Changes in the table.
#[derive(Debug)]
pub(crate) struct Changes {
    /// The changed offsets.
    pub changed: TableDelta<ConsumerOffsetTable>,
    /// The key of the last entry, when there are more behind it.
    pub more: Option<String>,
    /// Generation up to which these changes are complete.
    pub generation: Generation,
    /// Number of examined entries of groups and topics.
    pub looked_at: usize,
}

/// Last removals.
#[derive(Default)]
pub(super) struct Removals {
    /// Generations, and `@group` or `topic@`.
    kept: VecDeque<(Generation, String)>,
    /// Newest generation of the dropped removals.
    dropped: Generation,
}

impl Default for Counter {
    fn default() -> Self {
        Self {
            current: AtomicU64::new(1),
            newest: AtomicU64::new(0),
            is_awaited: AtomicBool::new(false),
            news: watch::Sender::default(),
        }
    }
}

impl Counter {
    pub(super) fn current(&self) -> Generation {
        self.current.load(Ordering::Acquire)
    }

    /// Begins the next generation and returns the former generation. No later change gets the former number.
    pub(super) fn begin(&self) -> Generation {
        self.current.fetch_add(1, Ordering::AcqRel)
    }

    /// Records that a change got this generation.
    pub(super) fn raise(&self, generation: Generation) {
        if self.newest.load(Ordering::Relaxed) < generation {
            self.newest.fetch_max(generation, Ordering::SeqCst);
        }
    }

    /// Wakes the waiters for a change.
    pub(super) fn wake(&self) {
        if self.is_awaited.load(Ordering::SeqCst) && self.is_awaited.swap(false, Ordering::SeqCst) {
            self.news.send_replace(());
        }
    }
}

impl Offsets {
    /// Returns the generation of the latest change. A copy with all changes up to it is complete.
    pub(crate) fn newest(&self) -> Generation {
        self.counter.newest.load(Ordering::SeqCst)
    }

    /// Returns the generation of a group's offset in a queue, or zero without an offset.
    pub(crate) fn generation_of(&self, group: &str, topic: &str, queue_id: i32) -> Generation {
        self.position(group, topic, queue_id).map_or(0, |position| position.generation)
    }

    /// Waits until there is a change after `generation`.
    pub(crate) async fn wait_for_change(&self, generation: Generation) {
        let mut news = self.counter.news.subscribe();
        loop {
            self.counter.is_awaited.store(true, Ordering::SeqCst);
            if self.newest() > generation {
                return;
            }
            // Fails only when the sender is gone, which is part of this table.
            let _ = news.changed().await;
        }
    }

    /// Returns the committed offsets that changed after `generation`, in the order of their keys. They begin behind
    /// the key `after` and fit into about `room` bytes, but are at least one. Removals come before the first key.
    pub(crate) fn changed_after(&self, generation: Generation, after: &str, room: usize) -> Changes {
        // A commit reads the generation while its entry is locked. So a commit that this look-up does not find yet is
        // stamped with a later generation than `current`, and the next look-up finds it.
        let current = self.counter.begin();
        let mut table =
            ConsumerOffsetTable { data_version: self.version(), ..ConsumerOffsetTable::default() };
        let (mut looked_at, mut bytes, mut more) = (0, 0, None);
        let groups = self.groups.read();
        let removals = self.removals.lock();
        let is_whole = generation <= removals.dropped;
        let generation = if is_whole { 0 } else { generation };
        let listed = removals.kept.iter().filter(|(at, _)| after.is_empty() && *at > generation);
        let gone = listed.map(|(_, removed)| removed.clone()).collect();
        drop((removals, groups));
        self.each_part(None, |group, part| {
            looked_at += part.len();
            for (name, topic) in part {
                let topic = topic.lock();
                if topic.queues.newest() <= generation {
                    continue;
                }
                let key = format!("{name}@{group}");
                if key.as_str() <= after || more.as_ref().is_some_and(|last| key > *last) {
                    continue;
                }
                let changed = topic.queues.iter().filter(|(_, position)| position.generation > generation);
                let changed: BTreeMap<i32, i64> = changed
                    .filter_map(|(queue, position)| Some((queue, position.committed.get()?)))
                    .collect();
                if changed.is_empty() {
                    continue;
                }
                let size = |key: &str, queues: &BTreeMap<_, _>| key.len() + QUEUE_BYTES * (1 + queues.len());
                bytes += size(&key, &changed);
                if let Some(before) = table.offset_table.insert(key.clone(), changed) {
                    bytes -= size(&key, &before);
                }
                while bytes > room && table.offset_table.len() > 1 {
                    let (last, queues) = table.offset_table.pop_last().expect("there is more than one");
                    bytes -= size(&last, &queues);
                    more = table.offset_table.last_key_value().map(|(key, _)| key.clone());
                }
            }
        });
        Changes { changed: TableDelta { gone, is_whole, table }, more, generation: current, looked_at }
    }

    /// Records that `@group` or `topic@` was removed. The caller holds the lock of the groups.
    pub(super) fn note_removed(&self, removed: String) {
        let mut removals = self.removals.lock();
        let generation = self.counter.current();
        removals.kept.push_back((generation, removed));
        if removals.kept.len() > REMOVALS_KEPT {
            removals.dropped = removals.kept.pop_front().map_or(0, |(dropped, _)| dropped);
        }
        self.counter.raise(generation);
    }

    /// Applies changes that the master has made. For a whole table, offsets that the master does
    /// not have are removed unless `stays` returns true for their topic and group.
    pub(crate) fn take_changes(
        &self,
        changed: TableDelta<ConsumerOffsetTable>,
        stays: impl Fn(&str, &str) -> bool,
    ) {
        for removed in &changed.gone {
            match removed.split_once('@') {
                Some(("", group)) => self.forget_group(group),
                Some((topic, _)) => self.forget_topic(topic),
                None => tracing::warn!(removed, "removed offsets are neither @group nor topic@ and stay"),
            }
        }
        self.raise_version(changed.table.data_version);
        let table = changed.table.offset_table;
        if changed.is_whole {
            self.keep(|topic, group| table.contains_key(&format!("{topic}@{group}")) || stays(topic, group));
        }
        self.fill_table(table, |position, offset| _ = position.committed.replace(offset));
    }

    /// Removes the offsets of topics and groups that do not stay.
    fn keep(&self, stays: impl Fn(&str, &str) -> bool) {
        let mut removed = Vec::new();
        let mut groups = self.groups.write();
        groups.retain(|group, topics| {
            removed.extend(topics.extract(|topic| !stays(topic, group)));
            !topics.is_empty()
        });
        drop(groups);
        self.forgotten(removed.into_iter());
    }
}
