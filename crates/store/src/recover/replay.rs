//! Replays the unit journal: the units that queues received between the last checkpoint and the journal's last entry.

use super::Recovery;
use super::known::NewestRecord;
use crate::error::OpenError;
use crate::queue::Unit;
use crate::queue::journal::{self, PreviousJournal, UnitGroup};
use crate::queue::table;
use crate::wake::lock;
use std::sync::atomic::Ordering;

/// Result of replaying the unit journal.
pub(super) enum ReplayResult {
    /// All queues are complete up to this log position; the newest record before it.
    To(u64, NewestRecord),
    /// The store has no usable journal.
    Nothing,
    /// The journal does not continue the queues, which hold a part of it now and must be loaded again.
    Broken,
}

impl Recovery<'_> {
    /// Adds the journal's units to the queues, which the queue table has loaded up to log position `committed`.
    pub(super) fn replay_journal(&self, committed: u64) -> Result<ReplayResult, OpenError> {
        let (disk, root) = (&*self.state.disk, &self.state.config.root);
        let found = match journal::find(disk, root, committed) {
            Ok(Some(found)) if self.fits_log(&found)? => found,
            Ok(_) => return Ok(ReplayResult::Nothing),
            Err(error) => {
                tracing::warn!(%error, "the unit journal cannot be read; reading the log instead");
                return Ok(ReplayResult::Nothing);
            }
        };
        let mut units = Vec::new();
        let mut count = 0;
        let taken = found.each_group(disk, root, |group| {
            let adopted = self.adopt(group, committed, &mut units);
            count += adopted.unwrap_or(0);
            adopted.is_some()
        });
        self.state.queues.unwritten_units.fetch_add(count, Ordering::Relaxed);
        match taken {
            Ok(true) => {}
            Ok(false) | Err(_) => {
                tracing::warn!("the unit journal does not continue the queues; reading the log instead");
                return Ok(ReplayResult::Broken);
            }
        }
        journal::remove_except(disk, root, &found.numbers())
            .map_err(OpenError::io(table::directory(root)))?;
        lock(&self.checkpointer.checkpoints.journaling).resume(&found);
        let newest = NewestRecord { at: found.end.last_record, store_timestamp: found.end.store_timestamp };
        Ok(ReplayResult::To(found.end.at, newest))
    }

    /// Whether the log holds the records that the journal refers to.
    fn fits_log(&self, found: &PreviousJournal) -> Result<bool, OpenError> {
        let end = found.end;
        let fits = end.at <= self.state.log.capacity_end()
            && self.record_ending_by(end.last_record, end.at)?.is_some()
            && self.is_plausible_start(end.at)?;
        if !fits {
            tracing::warn!(
                end = end.at,
                "the log does not hold what the unit journal speaks of; reading it instead"
            );
        }
        Ok(fits)
    }

    /// Adds a group of units to its queue. Returns the number of new units, or `None` if they do not continue the
    /// queue.
    fn adopt(&self, group: &UnitGroup<'_>, committed: u64, units: &mut Vec<Unit>) -> Option<u64> {
        units.clear();
        let is_old = |unit: &Unit| {
            let at = unit.log_offset.get();
            !unit.is_blank() && at < committed || self.state.queues.tombstones.covers(group.topic, at)
        };
        let mut first = group.first;
        for unit in group.units() {
            let unit = unit?;
            if units.is_empty() && is_old(&unit) {
                // The unit is in the queue table already, or its topic was removed since.
                first += 1;
                continue;
            }
            units.push(unit);
        }
        if units.is_empty() {
            return Some(0);
        }
        let queue = self.state.queues.find_or_create(group.topic, group.queue_id).ok()?;
        queue.adopt(first, units, &self.state.queues)
    }
}
