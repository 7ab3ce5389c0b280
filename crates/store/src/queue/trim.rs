//! Raises a queue's minimum offset as old messages are deleted. Only a single thread at a time does it.

use super::Queue;
use crate::error::Result;
use crate::wake::lock;
use std::io;
use std::sync::atomic::Ordering;
use wire::units::{LogOffset, QueueOffset};

impl Queue {
    /// Raises the minimum offset to the first message at or behind the log's start; reads the disk only when that may have
    /// changed.
    pub(crate) fn follow_log(&self, log_min: LogOffset) -> Result<()> {
        if self.first_at.load(Ordering::Relaxed) >= log_min.get() {
            return Ok(());
        }
        self.correct_min(log_min)?;
        let mut unit = Vec::with_capacity(1);
        self.units_blocking(self.min(), 1, &mut unit)?;
        // The next message of an empty queue will lie behind everything in the log.
        let first = unit.first().map_or(log_min, |unit| unit.log_offset);
        self.first_at.store(first.get(), Ordering::Relaxed);
        Ok(())
    }

    /// Raises the minimum offset; never lowers it, and never beyond the units in the files.
    pub(crate) fn raise_min(&self, target: QueueOffset) {
        let written = lock(&self.tail).written;
        self.min.fetch_max(target.get().min(written), Ordering::AcqRel);
        // The first message changed, so its log position is not known.
        self.first_at.store(0, Ordering::Relaxed);
    }

    /// Whether the queue table does not have the current minimum offset yet.
    pub(crate) fn has_new_min(&self) -> bool {
        lock(&self.tail).committed.min < self.min().get()
    }

    /// Removes the files whose units all lie before the minimum offset in the committed queue table. A file before a
    /// newer minimum stays: after a crash its absence would look like a lost file.
    pub(crate) fn remove_files_before_min(&self) -> io::Result<()> {
        let min = self.committed().min;
        if let Some(batches) = &self.batches
            && let Some(export) = &*lock(batches)
        {
            export.remove_before(min)?;
        }
        self.files.remove_before(min)
    }
}
