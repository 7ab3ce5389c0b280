//! Reading the log, and searching in it.

use super::Store;
use crate::disk::Read;
use crate::error::Result;
use crate::index::{KeyMatches, KeyQuery};
use crate::queue::{Queue, Unit};
use crate::read::{Boundary, CqUnit};
use wire::units::{LogOffset, QueueOffset};

impl Store {
    /// Appends `length` bytes of the log to `out` if they are in memory. The range must lie in a single commit log
    /// file.
    ///
    /// # Errors
    /// [`ReadError::Range`] when the log does not hold the range; [`ReadError::Io`] when reading fails. `out` is then
    /// unchanged.
    pub fn read(&self, from: LogOffset, length: usize, out: &mut Vec<u8>) -> Result<Read> {
        self.parts.reader().read(from, length, out, true)
    }

    /// Like [`Self::read`], but waits for the disk.
    ///
    /// # Errors
    /// Errors of [`Self::read`].
    pub fn read_blocking(&self, from: LogOffset, length: usize, out: &mut Vec<u8>) -> Result<()> {
        self.parts.reader().read(from, length, out, false).map(|_| ())
    }

    /// Appends the records of these units to `out`, adjacent as in the response to a pull, if all are in memory.
    /// Blank units are skipped.
    ///
    /// # Errors
    /// Errors of [`Self::read`].
    pub fn read_units(&self, units: &[Unit], out: &mut Vec<u8>) -> Result<Read> {
        self.parts.reader().read_units(units, out, true)
    }

    /// Like [`Self::read_units`], but waits for the disk.
    ///
    /// # Errors
    /// Errors of [`Self::read`].
    pub fn read_units_blocking(&self, units: &[Unit], out: &mut Vec<u8>) -> Result<()> {
        self.parts.reader().read_units(units, out, false).map(|_| ())
    }

    /// Appends the records of these messages of a queue to `out`, adjacent as in the response to a pull, if all are
    /// in memory. Blank units are skipped. Records that may come from the disk are checked.
    ///
    /// # Errors
    /// Errors of [`Self::read`], and [`ReadError::Damaged`] with all messages that cannot be served.
    pub fn read_messages(&self, queue: &Queue, messages: &[CqUnit], out: &mut Vec<u8>) -> Result<Read> {
        self.parts.reader().read_messages(queue, messages, out, true)
    }

    /// Like [`Self::read_messages`], but waits for the disk.
    ///
    /// # Errors
    /// Errors of [`Self::read_messages`].
    pub fn read_messages_blocking(
        &self,
        queue: &Queue,
        messages: &[CqUnit],
        out: &mut Vec<u8>,
    ) -> Result<()> {
        self.parts.reader().read_messages(queue, messages, out, false).map(|_| ())
    }

    /// Number of damaged messages found since the store was opened, at most 4,096.
    pub fn damaged(&self) -> u64 {
        self.parts.damaged.count()
    }

    /// Appends the record that begins at log position `at` to `out`. Waits for the disk.
    ///
    /// # Errors
    /// Errors of [`Self::read`]; [`ReadError::Record`] when no record begins there; [`ReadError::Damaged`] when it is damaged.
    pub fn record_at(&self, at: LogOffset, out: &mut Vec<u8>) -> Result<()> {
        self.parts.reader().record_at(at, out, false).map(|_| ())
    }

    /// Returns the store time in ms since the epoch of the message at a queue offset, or `None` if the message was
    /// deleted or is damaged. Waits for the disk.
    ///
    /// # Errors
    /// Errors of [`Self::read`].
    pub fn store_time(&self, queue: &Queue, offset: QueueOffset) -> Result<Option<i64>> {
        self.parts.reader().store_time(queue, offset)
    }

    /// The queue offset for a store time, between the queue's minimum and maximum offset, as RocketMQ's
    /// `SEARCH_OFFSET_BY_TIMESTAMP` defines it. Waits for the disk.
    ///
    /// # Errors
    /// Errors of [`Self::read`].
    pub fn offset_by_time(&self, queue: &Queue, time_ms: i64, boundary: Boundary) -> Result<QueueOffset> {
        self.parts.reader().offset_by_time(queue, time_ms, boundary)
    }

    /// Returns messages with a key or tag, newest first. Waits for the disk. Finds all messages appended before the
    /// call, unless the key index is still catching up after a crash. [`KeyMatches`] contains the index's progress.
    ///
    /// # Errors
    /// [`ReadError::Io`] when the key index or the log cannot be read.
    pub fn query(&self, query: &KeyQuery<'_>) -> Result<KeyMatches> {
        self.parts.indexer().query(query)
    }

    /// Whether the log at this position was read ahead for readers far behind its end.
    pub fn is_read_ahead(&self, at: LogOffset) -> bool {
        self.parts.read_ahead.has(at)
    }

    /// Log position up to which the key index is complete.
    pub fn indexed(&self) -> LogOffset {
        LogOffset::new(self.parts.index.indexed())
    }
}
