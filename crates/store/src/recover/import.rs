//! Takes over batch consume queue files that a RocketMQ broker wrote.

use super::Recovery;
use super::known::has_crashed;
use crate::error::OpenError;
use crate::queue::Unit;
use crate::queue::batched::JAVA_DIR;
use crate::queue::batched::reader::BatchUnitReader;
use crate::queue::files::{QueueFiles, SyncList};
use crate::queue::removal::delete_numbered;
use crate::wake::lock;
use std::io;
use std::path::Path;

/// Units written at once.
const STEP_UNITS: usize = 1 << 16;
/// Missing queue offsets in a row beyond which the unit behind them counts as damaged.
const GAP_MAX: u64 = 1 << 20;

impl Recovery<'_> {
    /// Rebuilds Vostok's files of batch consume queues from RocketMQ's, durably. After a crash of Vostok its
    /// own files are newer, because Vostok may have crashed before it updated RocketMQ's files.
    pub(super) fn import_batches(&self) -> Result<(), OpenError> {
        let root = &self.state.config.root;
        let has_crashed = has_crashed(&*self.state.disk, root).map_err(OpenError::io(root))?;
        let touched = &mut *lock(&self.checkpointer.checkpoints.touched);
        for topic in self.state.queues.batched_topics() {
            let ours = self.state.queues.batched_directory.join(&*topic);
            if has_crashed && !self.state.disk.list(&ours).map_err(OpenError::io(&ours))?.is_empty() {
                continue;
            }
            // RocketMQ does not start when such a topic has ordinary consume queues.
            let ordinary = self.state.queues.directory.join(&*topic);
            delete_numbered(&*self.state.disk, &ordinary).map_err(OpenError::io(ordinary))?;
            let javas = self.state.config.root.join(JAVA_DIR).join(&*topic);
            let mut ids = Vec::new();
            for directory in [&ours, &javas] {
                let entries = self.state.disk.list(directory).map_err(OpenError::io(directory))?;
                let numbers = entries.iter().filter_map(|entry| entry.name.parse::<i32>().ok());
                ids.extend(numbers.filter(|id| *id >= 0));
            }
            ids.sort_unstable();
            ids.dedup();
            for id in ids {
                let files = self.state.queues.files_of(&topic, id);
                let directory = javas.join(id.to_string());
                self.import(&directory, &files, touched).map_err(OpenError::io(directory))?;
            }
        }
        let synced = touched.sync(&*self.state.disk, &self.checkpointer.checkpoints.sync_all);
        synced.map_err(OpenError::io(&self.state.queues.batched_directory))
    }

    fn import(&self, directory: &Path, files: &QueueFiles, touched: &mut SyncList) -> io::Result<()> {
        let mut reader = BatchUnitReader::of(
            self.state.disk.clone(),
            directory.to_owned(),
            self.state.config.batch_file_bytes,
        )?;
        // Cleared only now: where RocketMQ's files are missing, Vostok's are the only ones.
        files.clear(touched)?;
        let mut units = Vec::new();
        let (mut first, mut from) = (None, 0);
        while let Some(batch) = reader.next()? {
            let min = *first.get_or_insert_with(|| {
                from = batch.base;
                batch.base
            });
            // Missing queue offsets are those of messages that RocketMQ skips.
            let gap = batch.base - from - units.len() as u64;
            if gap > GAP_MAX {
                tracing::error!(directory = %directory.display(), ?batch, "a unit far ahead ends the queue");
                break;
            }
            units.resize(units.len() + usize::try_from(gap).map_err(io::Error::other)?, Unit::PRE_BLANK);
            units.resize(units.len() + usize::from(batch.count), batch.unit);
            if units.len() >= STEP_UNITS {
                files.write(from, &units, min, touched)?;
                from += units.len() as u64;
                units.clear();
            }
        }
        files.write(from, &units, first.unwrap_or(0), touched)
    }
}
