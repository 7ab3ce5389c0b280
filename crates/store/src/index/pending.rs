//! Pending keys: passed by the appender, not yet written by the index thread.

use super::KeyIndex;
use crate::keys::KeyEntry;
use crate::wake::lock;
use std::sync::atomic::Ordering;

/// Most entries that may be pending: about half a second at the highest rate.
#[cfg(not(test))]
const ENTRIES_MAX: usize = 1 << 20;
#[cfg(test)]
const ENTRIES_MAX: usize = 24;
/// Number of entries at which the thread is woken even if it is not idle.
const ENTRIES_WAKE: usize = ENTRIES_MAX / 16;

/// The keys of all messages between two log positions.
#[derive(Default)]
pub(super) struct PendingKeys {
    pub(super) entries: Vec<KeyEntry>,
    /// Log position where the pending keys begin: earlier keys were written, or must be read from the log.
    pub(super) from: u64,
    /// Log position where the pending keys end.
    pub(super) end: u64,
}

impl KeyIndex {
    /// Sets the log's end when the store is opened. The appender passes the keys of later appends.
    pub(crate) fn begin_at(&self, end: u64, after_crash: bool) {
        self.after_crash.store(after_crash, Ordering::Relaxed);
        let mut pending = lock(&self.pending);
        (pending.from, pending.end) = (end, end);
    }

    /// Takes `count` keys of appended records, and the log position where these end. Called under the appender's lock, so that
    /// keys arrive in log order.
    pub(crate) fn hand_over(&self, end: u64, count: usize, entries: impl Iterator<Item = KeyEntry>) {
        if !self.is_on {
            return;
        }
        let mut pending = lock(&self.pending);
        pending.end = end;
        let before = pending.entries.len();
        if before + count > ENTRIES_MAX {
            // Too many: the thread will read these keys from the log.
            pending.entries.clear();
            pending.from = end;
        } else {
            pending.entries.reserve(count);
            pending.entries.extend(entries);
        }
        let many = before < ENTRIES_WAKE && pending.entries.len() >= ENTRIES_WAKE;
        drop(pending);
        if many || self.idle.load(Ordering::SeqCst) {
            self.idle.store(false, Ordering::Relaxed);
            self.wake.wake();
        }
    }

    /// Whether there are keys to write, or log to read.
    pub(super) fn is_behind(&self) -> bool {
        let pending = lock(&self.pending);
        self.indexed.load(Ordering::Acquire) < pending.end
    }

    /// Takes the pending entries and the log position where they end. `Err` holds a log position up to which the log must be
    /// read first.
    pub(super) fn take(&self, next: u64, scratch: Vec<KeyEntry>) -> Result<(Vec<KeyEntry>, u64), u64> {
        let mut pending = lock(&self.pending);
        if next < pending.from {
            return Err(pending.from);
        }
        pending.from = pending.end;
        Ok((std::mem::replace(&mut pending.entries, scratch), pending.end))
    }
}
