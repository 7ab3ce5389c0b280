//! Deleting old messages, and watching the disks.

use super::Store;
use crate::error::Result;
use crate::log::FreedSpace;
use crate::queue::Queue;
use crate::retention::{Level, RetentionRound, RetentionSettings, RoundResult, SpaceView};
use crate::wake::lock;
use std::io;
use wire::units::QueueOffset;

impl Store {
    /// Measures the disks. From then on the warning level decides whether appends are rejected.
    ///
    /// # Errors
    /// The error of asking a file system for its usage; then nothing changes.
    pub fn watch_space(&self, settings: &RetentionSettings) -> io::Result<Level> {
        self.parts.retention().watch_space(settings)
    }

    /// Disk usage as [`Self::watch_space`] last measured it.
    pub fn space(&self) -> SpaceView {
        lock(&self.parts.space.view).clone()
    }

    /// Deletes the files that [`crate::decide`] names. Only one thread may call it at a time.
    ///
    /// # Errors
    /// The error of the failed file operation or checkpoint. Finished steps stay, and the next call continues.
    pub fn retain(
        &self,
        settings: &RetentionSettings,
        round: &RetentionRound<'_>,
    ) -> io::Result<RoundResult> {
        self.parts.retention().retain(settings, round)
    }

    /// Frees a part of the space of deleted log files. Callers pause between calls. The parts are small so that
    /// flushes run between them.
    ///
    /// # Errors
    /// The error of truncating the file, whose remaining space is then freed when the store is closed.
    pub fn free_space(&self) -> io::Result<FreedSpace> {
        self.parts.state.log.cut_removed()
    }

    /// Number of deleted log files whose space is not freed yet.
    pub fn files_to_free(&self) -> u32 {
        u32::try_from(self.parts.state.log.uncut_files()).unwrap_or(u32::MAX)
    }

    /// Raises a queue's minimum offset to its first message stored at or after `before_ms` (ms since the epoch), but
    /// at most to `at_most`. Removes the queue files before it. The messages stay in the log until its files are
    /// deleted. Returns the new minimum offset.
    ///
    /// # Errors
    /// [`ReadError::Rebuilding`] while the healer rebuilds the queue; [`ReadError::Io`] when queue or log cannot be read.
    pub fn expire_queue(&self, queue: &Queue, before_ms: i64, at_most: QueueOffset) -> Result<QueueOffset> {
        self.parts.retention().expire_queue(queue, before_ms, at_most)
    }
}
