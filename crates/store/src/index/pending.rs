//! Keys between the appender and the thread that writes them.

use super::KeyIndex;
use super::current::Entry;
use crate::batch::Batch;
use crate::wake::lock;
use std::sync::atomic::Ordering;

/// Entries that may wait. About half a second of the highest rate.
#[cfg(not(test))]
const ENTRIES_MAX: usize = 1 << 20;
#[cfg(test)]
const ENTRIES_MAX: usize = 24;
/// Entries after which the thread is woken although it is not idle.
const ENTRIES_WAKE: usize = ENTRIES_MAX / 16;

/// The keys of all messages of the log between two positions.
#[derive(Default)]
pub(super) struct Pending {
    pub(super) entries: Vec<Entry>,
    /// Where they begin: what lies before was written, or must be read from the log.
    pub(super) from: u64,
    /// Where they end.
    pub(super) end: u64,
}

impl KeyIndex {
    /// Where the log ends when the store is opened: keys of what is appended from here on will be handed over.
    pub(crate) fn begin_at(&self, end: u64, after_crash: bool) {
        self.after_crash.store(after_crash, Ordering::Relaxed);
        let mut pending = lock(&self.pending);
        (pending.from, pending.end) = (end, end);
    }

    /// Takes over the keys of an appended batch. Called under the appender's lock, so that they come in log order.
    pub(crate) fn hand_over(&self, batch: &Batch, end: u64) {
        if !self.is_on {
            return;
        }
        let mut pending = lock(&self.pending);
        pending.end = end;
        let before = pending.entries.len();
        if before + batch.hashes.len() > ENTRIES_MAX {
            // The thread finds them in the log.
            pending.entries.clear();
            pending.from = end;
        } else {
            let time = batch.store_timestamp;
            let mut first = 0;
            for item in &batch.items {
                let offset = item.log_offset.get();
                let hashes = &batch.hashes[first..item.keys_end];
                pending.entries.extend(hashes.iter().map(|hash| Entry { hash: *hash, offset, time }));
                first = item.keys_end;
            }
        }
        let many = before < ENTRIES_WAKE && pending.entries.len() >= ENTRIES_WAKE;
        drop(pending);
        if many || self.idle.load(Ordering::SeqCst) {
            self.idle.store(false, Ordering::Relaxed);
            self.wake.wake();
        }
    }

    /// Whether something waits to be written or read.
    pub(super) fn is_behind(&self) -> bool {
        let pending = lock(&self.pending);
        self.indexed.load(Ordering::Acquire) < pending.end
    }

    /// Takes out what waits, and where it ends; `None` when the log must be read up to a position first.
    pub(super) fn take(&self, next: u64, scratch: Vec<Entry>) -> Result<(Vec<Entry>, u64), u64> {
        let mut pending = lock(&self.pending);
        if next < pending.from {
            return Err(pending.from);
        }
        pending.from = pending.end;
        Ok((std::mem::replace(&mut pending.entries, scratch), pending.end))
    }
}
