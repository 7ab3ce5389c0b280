//! Writes entries of the unit journal. Between two checkpoints, units that wait for many queue files become durable
//! in a single file. See [`crate::queue::journal`] for its format.

use super::Checkpointer;
use crate::error::is_lack;
use crate::queue::Queue;
use crate::queue::journal::{self, GroupsRecord, JournalEnd, UnitJournal};
use crate::state::Interruption;
use crate::wake::{Next, lock};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// State that a round of the unit journal passes to the next round.
#[derive(Default)]
pub(crate) struct JournalState {
    began: bool,
}

impl Checkpointer<'_> {
    /// Runs a round of the unit journal. Writes an entry every checkpoint interval while the last checkpoint is older
    /// than 1.5 intervals.
    pub(crate) fn journal_round(&self, state: &mut JournalState, now: Instant) -> Next {
        let interval = self.state.config.checkpoint_interval;
        if self.state.signals.stopping.load(Ordering::Acquire) || self.state.fence.is_up() {
            return Next::Over;
        }
        let is_old =
            now.saturating_duration_since(*lock(&self.checkpoints.checkpointed_at)) > interval * 3 / 2;
        if std::mem::replace(&mut state.began, true)
            && is_old
            && let Err(Interruption::NoSpace(error)) = self.journal_now()
        {
            tracing::warn!(%error, "no space for the unit journal; starting after a crash will take longer");
        }
        // While the checkpointer is idle it wakes this engine when there is something to do again.
        let is_idle = self.state.signals.checkpoint_idle.load(Ordering::SeqCst);
        if is_idle { Next::Woken } else { Next::At(self.state.clock.now() + interval) }
    }

    /// Makes the units of all appended records durable in the unit journal. Does nothing if the
    /// journal would be of no use: without a queue table, or if units before the entry are missing.
    pub(crate) fn journal_now(&self) -> Result<(), Interruption> {
        let mut journal = lock(&self.checkpoints.journaling);
        if self.state.fence.is_up() {
            return Err(Interruption::Fenced);
        }
        let end = {
            let mut appender = lock(self.appender);
            self.state.digests.stage(std::mem::take(&mut appender.fresh));
            let (last_record, store_timestamp) = (appender.last_record, appender.store_timestamp);
            JournalEnd { at: self.state.appended.get(), last_record, store_timestamp }
        };
        let page = *lock(&self.state.page);
        let committed = page.logics_physical_offset.unsigned_abs();
        // Without a queue table the next opening would not use the journal.
        if page.mark.is_none() || end.at <= journal.end().unwrap_or(0).max(committed) {
            return Ok(());
        }
        let added = self.add_entry(&mut journal, end, committed);
        let Err(error) = added else { return Ok(()) };
        journal.give_up(&*self.state.disk, &self.state.config.root, end.at);
        match error {
            JournalError::Fenced => Err(Interruption::Fenced),
            JournalError::Io(error) if is_lack(&error) => Err(Interruption::NoSpace(error)),
            JournalError::Io(error) => {
                tracing::warn!(%error, "the unit journal cannot be written; starting after a crash will take longer");
                Ok(())
            }
        }
    }

    fn add_entry(
        &self,
        journal: &mut UnitJournal,
        end: JournalEnd,
        committed: u64,
    ) -> Result<(), JournalError> {
        let (disk, root) = (&*self.state.disk, &self.state.config.root);
        if !journal.begin(disk, root, committed, self.state.config.queue_file_bytes * 4)? {
            return Ok(());
        }
        let mut part = GroupsRecord::new();
        let mut queues = std::mem::take(&mut *lock(&self.state.queues.fresh)).into_iter();
        let mut added = Ok(());
        while added.is_ok()
            && let Some(queue) = queues.next()
        {
            queue.copy_fresh(end.at, &mut part, &self.state.queues);
            if part.is_full() {
                added = journal.add(disk, &mut part);
            }
        }
        // After an error the remaining queues are not lost: they stay listed for the next entry.
        lock(&self.state.queues.fresh).extend(queues);
        added?;
        journal.add(disk, &mut part)?;
        self.flusher.wait_flushed(end.at).map_err(|_| JournalError::Fenced)?;
        self.state.digests.write(self.state.log.min());
        journal.finish(disk, end)?;
        journal.remove_passed(disk, root, committed)?;
        Ok(())
    }

    /// Removes the unit journal. The queue files hold all its units, or it is invalid.
    pub(crate) fn remove_journal(&self) -> io::Result<()> {
        *lock(&self.checkpoints.journaling) = UnitJournal::default();
        journal::remove_except(&*self.state.disk, &self.state.config.root, &[])
    }
}

enum JournalError {
    Fenced,
    Io(io::Error),
}

impl From<io::Error> for JournalError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Queue units and log bytes that wait for a checkpoint. A checkpoint writes to a file per queue, so a small backlog can wait.
pub(super) struct CheckpointBacklog {
    /// Number of queues with units to write.
    pub(super) queues: usize,
    pub(super) ripe: usize,
    pub(super) units: u64,
    pub(super) units_max: u64,
    /// Bytes of the log behind the last checkpoint.
    pub(super) bytes: u64,
    /// Bytes of the log behind the last checkpoint from which a checkpoint is due.
    pub(super) bytes_max: u64,
}

impl CheckpointBacklog {
    /// Number of queues up to which a checkpoint is always due.
    const QUEUES_FEW: usize = 256;

    pub(super) fn is_due(&self) -> bool {
        self.queues <= Self::QUEUES_FEW
            || self.ripe * 2 >= self.queues
            || self.bytes >= self.bytes_max
            || self.is_urgent()
    }

    /// Whether more than `units_max` units wait, so that a checkpoint is due at once. Appends are
    /// refused when twice as many units wait as `units_max`.
    pub(super) fn is_urgent(&self) -> bool {
        self.units > self.units_max
    }
}

impl Checkpointer<'_> {
    pub(super) fn backlog(&self) -> CheckpointBacklog {
        let page = lock(&self.state.page).logics_physical_offset.unsigned_abs();
        CheckpointBacklog {
            queues: lock(&self.state.queues.unwritten).len(),
            ripe: self.state.queues.ripe.load(Ordering::Relaxed),
            units: self.state.queues.unwritten_units.load(Ordering::Relaxed),
            units_max: self.state.config.unwritten_units_max / 2,
            bytes: self.state.appended.get().saturating_sub(page),
            // RocketMQ reads its log again from the checkpoint, at most ten files.
            bytes_max: self.state.config.segment_bytes * 4,
        }
    }
}

/// Drops removed queues from the list of queues with units for the journal.
pub(crate) fn forget_removed(fresh: &mut Vec<Arc<Queue>>) {
    fresh.retain(|queue| !queue.is_removed());
}
