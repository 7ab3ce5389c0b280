//! What holds up deliveries: an entry that rolls may be a message that cancels one due later, and so may a unit of a
//! chain that is not walked yet. Pure.

use std::collections::{BTreeMap, BTreeSet};

use store::timer::Entry;

/// An entry that rolls and is due.
struct Rolling {
    due_ms: i64,
    /// It is not looked at before.
    again_ms: i64,
}

/// What is due at or behind [`Self::first_ms`] is not delivered yet.
#[derive(Default)]
pub(super) struct Barrier {
    /// Those that may cancel others and are not in the timer queue again, by position of the unit.
    rolling: BTreeMap<u64, Rolling>,
    /// Slots whose chains are being walked.
    loading: BTreeSet<i64>,
}

impl Barrier {
    /// The first time that is held up.
    pub(super) fn first_ms(&self) -> i64 {
        let rolling = self.rolling.values().map(|rolling| rolling.due_ms).min();
        // A unit of a slot is due behind the slot's start.
        let loading = self.loading.first().map(|slot_ms| slot_ms + 1);
        rolling.into_iter().chain(loading).min().unwrap_or(i64::MAX)
    }

    /// An entry that rolls is not in the timer queue yet; it is looked at again at `again_ms`.
    pub(super) fn hold(&mut self, entry: &Entry, again_ms: i64) {
        let first = Rolling { due_ms: entry.due_ms, again_ms };
        self.rolling.entry(entry.at).or_insert(first).again_ms = again_ms;
    }

    /// Whether an entry that rolls is to be left alone now.
    pub(super) fn rests(&self, entry: &Entry, now_ms: i64) -> bool {
        self.rolling.get(&entry.at).is_some_and(|rolling| rolling.again_ms > now_ms)
    }

    /// An entry that rolls is in the timer queue again, cancels nothing, or was given up.
    pub(super) fn release(&mut self, entry: &Entry) {
        self.rolling.remove(&entry.at);
    }

    pub(super) fn walks(&mut self, slot_ms: i64) {
        self.loading.insert(slot_ms);
    }

    pub(super) fn walked(&mut self, slot_ms: i64) {
        self.loading.remove(&slot_ms);
    }
}
