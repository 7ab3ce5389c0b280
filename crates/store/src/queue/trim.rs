//! The beginning of a queue as old messages go. Only one thread at a time does it.

use super::Queue;
use crate::error::ReadError;
use crate::wake::lock;
use std::io;
use std::sync::atomic::Ordering;
use wire::units::{LogOffset, QueueOffset};

impl Queue {
    /// Moves the minimum to the first message at or behind the start of the log, but asks the disk only when that may be
    /// another one than last time.
    pub(crate) fn follow_log(&self, log_min: LogOffset) -> Result<(), ReadError> {
        if self.first_at.load(Ordering::Relaxed) >= log_min.get() {
            return Ok(());
        }
        self.correct_min(log_min)?;
        let mut unit = Vec::with_capacity(1);
        self.units_blocking(self.min(), 1, &mut unit)?;
        // Of an empty queue the next message will lie behind everything there is now.
        let first = unit.first().map_or(log_min, |unit| unit.log_offset);
        self.first_at.store(first.get(), Ordering::Relaxed);
        Ok(())
    }

    /// Moves the minimum up; never down, and never behind what is in the files.
    pub(crate) fn raise_min(&self, target: QueueOffset) {
        let written = lock(&self.tail).written;
        self.min.fetch_max(target.get().min(written), Ordering::AcqRel);
        // The first message is another one now.
        self.first_at.store(0, Ordering::Relaxed);
    }

    /// Whether the queue table does not know the minimum yet.
    pub(crate) fn has_new_min(&self) -> bool {
        lock(&self.tail).committed.min < self.min().get()
    }

    /// Removes the files that hold nothing from the minimum on, as far as the queue table knows it: otherwise they would be
    /// missed after a crash, and rebuilt.
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
