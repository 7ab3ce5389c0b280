//! Barrier to deliveries: a cancelling message that rolls may cancel a message that is due later. Pure.

use std::collections::BTreeMap;

use store::timer::{DueEntry, DueKey};

/// Cancelling messages that must be rolled and whose copy is not in the timer queue yet. Messages that are due behind
/// the first of them are not delivered.
#[derive(Default)]
pub(super) struct Barrier {
    /// When each of these messages is tried again, in milliseconds since the epoch.
    rolling: BTreeMap<DueKey, i64>,
}

impl Barrier {
    /// Whether an entry is not to be delivered or rolled now.
    pub(super) fn holds(&self, entry: &DueEntry, now_ms: i64) -> bool {
        if entry.cancels {
            return self.rolling.get(&entry.key()).is_some_and(|again_ms| *again_ms > now_ms);
        }
        self.rolling.first_key_value().is_some_and(|(first, _)| entry.key() > *first)
    }

    /// Adds a cancelling entry that must be rolled and whose copy is not in the timer queue yet. It is tried again at
    /// `again_ms` (milliseconds since the epoch).
    pub(super) fn hold(&mut self, entry: &DueEntry, again_ms: i64) {
        self.rolling.insert(entry.key(), again_ms);
    }

    /// Removes an entry whose copy is in the timer queue, or that was given up.
    pub(super) fn release(&mut self, entry: &DueEntry) {
        self.rolling.remove(&entry.key());
    }

    /// Makes all entries due at once. Runs after the clock was set back.
    pub(super) fn wake(&mut self) {
        self.rolling.values_mut().for_each(|again_ms| *again_ms = i64::MIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::units::LogOffset;

    fn entry(due_ms: i64, at: u64, rolls: bool) -> DueEntry {
        let log_offset = LogOffset::new(at);
        DueEntry { due_ms, at, slot_ms: 0, log_offset, size: 1, written_ms: 0, rolls, cancels: rolls }
    }

    #[test]
    fn what_is_due_behind_one_that_cancels_waits_and_nothing_before_it() {
        let mut barrier = Barrier::default();
        let (before, first, last) = (entry(5, 8, false), entry(5, 9, true), entry(7, 1, true));
        assert!(!barrier.holds(&entry(9, 0, false), 0));
        barrier.hold(&last, 0);
        barrier.hold(&first, 100);
        assert!(!barrier.holds(&before, 10), "as many as are due at that time come before it");
        assert!(barrier.holds(&entry(5, 10, false), 10));
        assert!(barrier.holds(&first, 99) && !barrier.holds(&first, 100));
        barrier.wake();
        assert!(!barrier.holds(&first, i64::MIN + 1));
        barrier.release(&first);
        assert!(!barrier.holds(&entry(5, 10, false), 10) && barrier.holds(&entry(7, 2, false), 10));
        barrier.release(&last);
        assert!(!barrier.holds(&entry(i64::MAX, 0, false), 10));
    }
}
