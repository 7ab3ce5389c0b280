//! Adds a stored record to a queue at the record's queue offset, during recovery and while following a master.

use super::registry::Queues;
use super::{Queue, Unit};
use std::sync::Arc;
use wire::record::RECORD_BYTES_MIN;

/// Most queue offsets that a record may skip in addition to messages in missing bytes of the log. A record that skips
/// more has a damaged queue offset.
const GAP_MAX: u64 = 1 << 16;
/// Most messages in a record of a batch consume queue. The record's size sets no lower bound, because messages may be
/// compressed.
const BATCH_COUNT_MAX: u64 = i16::MAX as u64;

/// Number of units that a record added to a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AddedUnits {
    pub(crate) pushed: u64,
    /// Number of blank units among them, for skipped queue offsets.
    pub(crate) blanks: u64,
}

impl Queue {
    /// Whether a queue offset is too far ahead of the queue's end to be explained by missing messages.
    /// `missing_bytes` of the log may have held messages.
    pub(crate) fn is_far_ahead(&self, wanted: u64, missing_bytes: u64) -> bool {
        // Each missing message took at least this many bytes of the log.
        let records = missing_bytes / RECORD_BYTES_MIN as u64;
        let room = records.saturating_mul(if self.is_batched() { BATCH_COUNT_MAX } else { 1 });
        wanted.saturating_sub(self.max().get()) > room.saturating_add(GAP_MAX)
    }

    /// Adds the units of a record at the queue offsets from `first` on, behind blank units for skipped queue offsets.
    /// An empty queue begins at `first`. Existing units are left out. The caller holds the appender's lock, or is
    /// recovery.
    pub(crate) fn put(self: &Arc<Self>, unit: Unit, first: u64, count: u16, queues: &Queues) -> AddedUnits {
        let next = self.max().get();
        if first > next && self.min() == self.max() {
            self.start_at(first);
        }
        let next = self.max().get();
        let blanks = first.saturating_sub(next);
        if blanks > 0 {
            let offset = unit.log_offset;
            tracing::warn!(%offset, queue = ?self, first, "a queue misses messages; their places stay blank");
        }
        for _ in 0..blanks {
            self.take_next(1);
            self.push(Unit::PRE_BLANK, 1, queues);
        }
        let end = first + u64::from(count);
        let added = u16::try_from(end.saturating_sub(next + blanks)).unwrap_or(0);
        if added > 0 {
            self.take_next(added);
            self.push(unit, added, queues);
        }
        AddedUnits { pushed: blanks + u64::from(added), blanks }
    }
}
