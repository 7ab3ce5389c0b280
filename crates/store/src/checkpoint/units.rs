//! Writes entries of the unit journal: between two checkpoints, units that wait for many queue files are made durable in one
//! file. See [`crate::queue::journal`] for its format.

use super::Interrupted;
use crate::error::is_lack;
use crate::queue::Queue;
use crate::queue::journal::{self, End, Journal, Part};
use crate::store::Shared;
use crate::wake::lock;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

impl Shared {
    /// Body of the journal thread: writes an entry every checkpoint interval while the last checkpoint is older than 1.5
    /// intervals.
    pub(crate) fn run_journal(&self) {
        let interval = self.config.checkpoint_interval;
        while !self.stopping.load(Ordering::Acquire) && !self.fence.is_up() {
            // While the checkpoint thread is idle it wakes this one when there is something to do again.
            let is_idle = self.checkpoint_idle.load(Ordering::SeqCst);
            self.journal_wake.sleep((!is_idle).then(|| Instant::now() + interval));
            if self.stopping.load(Ordering::Acquire) {
                break;
            }
            let is_old = lock(&self.checkpointed_at).elapsed() > interval * 3 / 2;
            if is_old && let Err(Interrupted::NoSpace(error)) = self.journal_now() {
                tracing::warn!(%error, "no space for the unit journal; starting after a crash will take longer");
            }
        }
    }

    /// Makes the units of everything appended so far durable in the unit journal.
    pub(crate) fn journal_now(&self) -> Result<(), Interrupted> {
        let mut journal = lock(&self.journaling);
        if self.fence.is_up() {
            return Err(Interrupted::Fenced);
        }
        let end = {
            let mut appender = lock(&self.appender);
            self.digests.stage(std::mem::take(&mut appender.fresh));
            let (last_record, store_timestamp) = (appender.last_record, appender.store_timestamp);
            End { at: self.appended.load(Ordering::Acquire), last_record, store_timestamp }
        };
        let page = *lock(&self.page);
        let committed = page.logics_physical_offset.unsigned_abs();
        // Without a queue table the next opening would not use the journal.
        if page.mark.is_none() || end.at <= journal.end().unwrap_or(0).max(committed) {
            return Ok(());
        }
        let added = self.add_entry(&mut journal, end, committed);
        let Err(error) = added else { return Ok(()) };
        journal.give_up(&*self.disk, &self.config.root, end.at);
        match error {
            Trouble::Fenced => Err(Interrupted::Fenced),
            Trouble::Io(error) if is_lack(&error) => Err(Interrupted::NoSpace(error)),
            Trouble::Io(error) => {
                tracing::warn!(%error, "the unit journal cannot be written; starting after a crash will take longer");
                Ok(())
            }
        }
    }

    fn add_entry(&self, journal: &mut Journal, end: End, committed: u64) -> Result<(), Trouble> {
        let (disk, root) = (&*self.disk, &self.config.root);
        if !journal.begin(disk, root, committed, self.config.queue_file_bytes * 4)? {
            return Ok(());
        }
        let mut part = Part::new();
        let mut queues = std::mem::take(&mut *lock(&self.queues.fresh)).into_iter();
        let mut added = Ok(());
        while added.is_ok()
            && let Some(queue) = queues.next()
        {
            queue.copy_fresh(end.at, &mut part, &self.queues);
            if part.is_full() {
                added = journal.add(disk, &mut part);
            }
        }
        // After an error the remaining queues are not lost: they stay listed for the next entry.
        lock(&self.queues.fresh).extend(queues);
        added?;
        journal.add(disk, &mut part)?;
        self.wait_flushed(end.at).map_err(|_| Trouble::Fenced)?;
        self.digests.write(self.log.min());
        journal.finish(disk, end)?;
        journal.remove_passed(disk, root, committed)?;
        Ok(())
    }

    /// Removes the unit journal: the queue files hold all its units, or the journal does not count.
    pub(crate) fn remove_journal(&self) -> io::Result<()> {
        *lock(&self.journaling) = Journal::default();
        journal::remove_except(&*self.disk, &self.config.root, &[])
    }
}

enum Trouble {
    Fenced,
    Io(io::Error),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Tells whether a checkpoint, which writes to a file per queue, is worth its cost now.
pub(super) struct Due {
    /// Number of queues with units to write.
    pub(super) queues: usize,
    pub(super) ripe: usize,
    pub(super) units: u64,
    pub(super) units_max: u64,
    /// Bytes of the log behind the last checkpoint, and the number from which a checkpoint is due.
    pub(super) bytes: u64,
    pub(super) bytes_max: u64,
}

impl Due {
    /// Up to so many queues a checkpoint is always due.
    const QUEUES_FEW: usize = 256;

    pub(super) fn is_now(&self) -> bool {
        self.queues <= Self::QUEUES_FEW
            || self.ripe * 2 >= self.queues
            || self.bytes >= self.bytes_max
            || self.is_urgent()
    }

    /// Whether a checkpoint cannot wait: appends are refused when twice as many units wait.
    pub(super) fn is_urgent(&self) -> bool {
        self.units > self.units_max
    }
}

impl Shared {
    pub(super) fn due(&self) -> Due {
        let page = lock(&self.page).logics_physical_offset.unsigned_abs();
        Due {
            queues: lock(&self.queues.unwritten).len(),
            ripe: self.queues.ripe.load(Ordering::Relaxed),
            units: self.queues.unwritten_units.load(Ordering::Relaxed),
            units_max: self.config.unwritten_units_max / 2,
            bytes: self.appended.load(Ordering::Acquire).saturating_sub(page),
            // RocketMQ reads its log again from the checkpoint, at most ten files.
            bytes_max: self.config.segment_bytes * 4,
        }
    }
}

/// Drops removed queues from the list of those with units for the journal.
pub(crate) fn forget_removed(fresh: &mut Vec<Arc<Queue>>) {
    fresh.retain(|queue| !queue.is_removed());
}
