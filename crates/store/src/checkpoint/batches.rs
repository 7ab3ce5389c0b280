//! Keeps RocketMQ's batch consume queue files up to date with Vostok's; see [`crate::queue::batched`].

use super::Checkpointer;
use crate::error::{ReadError, Result};
use crate::queue::batched::export::Export;
use crate::queue::files::SyncList;
use crate::queue::{Extent, Queue};
use crate::state::Interruption;
use crate::wake::lock;
use std::io;
use wire::record::peek_store_timestamp;
use wire::units::{LogOffset, QueueOffset};

/// Units read in a step: more than a record can hold messages.
const STEP_UNITS: usize = 1 << 16;
/// Bytes at a record's start that contain its store time, for every size of the host fields.
const HEAD_BYTES: usize = 76;

impl Checkpointer<'_> {
    /// Updates RocketMQ's batch consume queue files from Vostok's and makes them durable, before the checkpoint
    /// commits.
    pub(crate) fn export_batches(&self) -> Result<(), Interruption> {
        // A later round makes the writes of an interrupted round durable.
        let touched = &mut *lock(&self.checkpoints.touched);
        for queue in self.state.queues.batched() {
            match self.export(&queue, touched) {
                // Exported again once the queue is rebuilt. A clean stop before that leaves the crash mark.
                Ok(()) | Err(ReadError::Rebuilding { .. }) => {}
                Err(ReadError::Io(error)) => {
                    return Err(self.state.failed("writing a queue of batches", error));
                }
                Err(error) => {
                    return Err(self.state.failed("writing a queue of batches", io::Error::other(error)));
                }
            }
        }
        self.sync_touched(touched)
    }

    fn export(&self, queue: &Queue, touched: &mut SyncList) -> Result<()> {
        let Some(export) = queue.exported() else { return Ok(()) };
        let export = &mut *lock(export);
        let export = match export {
            Some(export) => export,
            None => export.insert(Export::open(self.state.disk.clone(), &self.state.config, queue, touched)?),
        };
        let Extent { min, max, .. } = queue.in_files();
        export.next = export.next.max(min);
        let mut units = Vec::new();
        while export.next < max {
            units.clear();
            let count = usize::try_from(max - export.next).unwrap_or(STEP_UNITS).min(STEP_UNITS);
            queue.units_blocking(QueueOffset::new(export.next), count, &mut units)?;
            if export.next + (units.len() as u64) < max {
                // The last record may hold more messages than were read: leave it for the next step.
                let last = units.last().copied().ok_or_else(|| queue.rebuilding())?;
                let whole = units.iter().rposition(|unit| *unit != last).map_or(units.len(), |at| at + 1);
                units.truncate(whole);
            }
            export.add(&units, |at| self.store_time_at(at), touched)?;
        }
        Ok(())
    }

    /// Returns the store time in ms of the record at a log position, or zero if the record is deleted or unreadable.
    fn store_time_at(&self, at: LogOffset) -> Result<i64> {
        let mut head = Vec::with_capacity(HEAD_BYTES);
        match self.reader.read(at, HEAD_BYTES, &mut head, false) {
            Err(ReadError::Range { .. }) => Ok(0),
            Err(ReadError::Io(error)) => {
                tracing::warn!(%at, %error, "a record's time cannot be read; RocketMQ's unit of it has none");
                Ok(0)
            }
            done => done.map(|_| peek_store_timestamp(&head).unwrap_or(0)),
        }
    }
}
