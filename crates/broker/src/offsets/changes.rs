//! What changed in the table of offsets, for the slaves that copy it.
//!
//! Every change bears the *generation* of its moment. A slave asks for what changed after the generation up to which it has
//! everything; looking that up begins the next generation. So no list of changes is kept, and a commit costs two loads more.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::watch;
use wire::body::ConsumerOffsetTable;

use super::{Offsets, lock};

/// Counts how often changes were looked up. Zero is before the first change.
pub(crate) type Generation = u64;

/// The generation of the moment, and who waits for changes.
pub(super) struct Counter {
    current: AtomicU64,
    /// The generation of the latest change.
    newest: AtomicU64,
    /// Whether somebody waits for a change. A commit touches nothing shared for that as long as nobody does.
    is_awaited: AtomicBool,
    news: watch::Sender<()>,
}

/// What changed in the table.
#[derive(Debug)]
pub(crate) struct Changed {
    /// The changed offsets.
    pub table: ConsumerOffsetTable,
    /// Whoever has these has everything up to this generation.
    pub generation: Generation,
    /// How many entries of groups and topics were looked at.
    pub looked_at: usize,
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

    /// Notes that there is a change that bears this generation.
    pub(super) fn raise(&self, generation: Generation) {
        if self.newest.load(Ordering::Relaxed) < generation {
            self.newest.fetch_max(generation, Ordering::SeqCst);
        }
    }

    /// Wakes who waits for a change.
    pub(super) fn wake(&self) {
        if self.is_awaited.load(Ordering::SeqCst) && self.is_awaited.swap(false, Ordering::SeqCst) {
            self.news.send_replace(());
        }
    }
}

impl Offsets {
    /// The generation of the latest change. Who has everything up to it has the whole table.
    pub(crate) fn newest(&self) -> Generation {
        self.counter.newest.load(Ordering::SeqCst)
    }

    /// The generation of a group's offset in a queue; zero when it has none.
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

    /// The committed offsets that changed after `generation`.
    pub(crate) fn changed_after(&self, generation: Generation) -> Changed {
        // A commit reads the generation while its entry is locked. So one that this look finds not yet made bears a later
        // generation than `current`, and is found by the next look.
        let current = self.counter.current.fetch_add(1, Ordering::AcqRel);
        let mut table = ConsumerOffsetTable::default();
        let mut looked_at = 0;
        let groups = self.groups.read().unwrap_or_else(PoisonError::into_inner);
        for (group, topics) in groups.iter() {
            looked_at += topics.len();
            for (name, topic) in topics {
                let topic = lock(topic);
                if topic.newest <= generation {
                    continue;
                }
                let changed = topic.queues.iter().filter(|(_, position)| position.generation > generation);
                let changed: BTreeMap<i32, i64> =
                    changed.filter_map(|(queue, position)| Some((*queue, position.committed?))).collect();
                if !changed.is_empty() {
                    table.offset_table.insert(format!("{name}@{group}"), changed);
                }
            }
        }
        Changed { table, generation: current, looked_at }
    }
}
