//! Event set of a client: names of lite queues with messages, first in, first out, each name once. Bounded. Pure.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

/// Most events of a client, whatever its group's attribute says.
pub(crate) const EVENTS_MAX: usize = 100_000;

/// Largest capacity of an empty set. Most clients are idle.
const IDLE_CAPACITY: usize = 8;

/// Events of a client.
#[derive(Debug, Default)]
pub(crate) struct Events {
    queue: VecDeque<Arc<str>>,
    /// The names in `queue`.
    known: HashSet<Arc<str>>,
}

impl Events {
    /// Number of events.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Events, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<str>> {
        self.queue.iter()
    }

    /// Whether the set has an event, or has room for it.
    pub(super) fn takes(&self, name: &str, max: usize) -> bool {
        self.queue.len() < max || self.known.contains(name)
    }

    /// Adds an event unless the set has it. Returns false if the set has `max` other events.
    pub(super) fn offer(&mut self, name: &Arc<str>, max: usize) -> bool {
        if self.known.contains(name) {
            return true;
        }
        if self.queue.len() >= max {
            return false;
        }
        self.known.insert(name.clone());
        self.queue.push_back(name.clone());
        true
    }

    /// Takes the oldest event.
    pub(super) fn take(&mut self) -> Option<Arc<str>> {
        let name = self.queue.pop_front()?;
        self.known.remove(&name);
        if self.queue.is_empty() && self.queue.capacity() > IDLE_CAPACITY {
            *self = Self::default();
        }
        Some(name)
    }

    /// Returns an event to the front. The set may hold one event more than its bound for a moment.
    pub(crate) fn put_back(&mut self, name: Arc<str>) {
        if self.known.insert(name.clone()) {
            self.queue.push_front(name);
        }
    }

    /// Takes all events.
    pub(super) fn take_all(&mut self) -> Vec<Arc<str>> {
        self.known = HashSet::new();
        std::mem::take(&mut self.queue).into()
    }

    /// Removes an event.
    pub(super) fn remove(&mut self, name: &str) {
        if self.known.remove(name) {
            self.queue.retain(|event| **event != *name);
        }
    }
}
