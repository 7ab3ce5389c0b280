//! Store functions for replication: bytes of the log to send, bytes of a master's log to take, and the watermarks of
//! the replicas.

use super::Store;
use crate::disk::Read;
use crate::error::{AppendError, FollowError, ReadError};
use crate::watermark::{UNLIMITED, WaitOutcome, Watermark};
use std::ops::Range;
use std::time::Duration;
use wire::record::{MAGIC_V1, MAGIC_V2, RECORD_BYTES_MIN, RecordError, peek};
use wire::units::LogOffset;

/// Callback for the outcome of a wait. Called once; it must be quick.
type Callback = Box<dyn FnOnce(WaitOutcome) + Send>;

impl Store {
    /// Makes the store follow a master. Appends are then rejected with [`AppendError::Following`], and
    /// [`Self::follow`] takes the bytes of the master's log. Does nothing if the store follows already. A newly
    /// opened store does not follow.
    ///
    /// # Errors
    /// [`AppendError::Closed`] when the store is closed. [`AppendError::NoSpace`] or [`AppendError::Fenced`] when the
    /// disk could not record it.
    pub fn start_following(&self) -> Result<(), AppendError> {
        self.parts.follower().start_following()
    }

    /// Makes the store take appends again and returns the end of its log. Drops an unfinished record at the end. All
    /// other records are durable when this returns.
    ///
    /// # Errors
    /// [`AppendError::NoSpace`] or [`AppendError::Fenced`] when the log could not be made durable; the store still follows.
    pub fn stop_following(&self) -> Result<LogOffset, AppendError> {
        self.parts.follower().stop_following()
    }

    /// Drops an unfinished record at the end of the log of a store that follows, and returns where the log ends then.
    pub fn drop_unfinished(&self) -> LogOffset {
        self.parts.follower().drop_unfinished()
    }

    /// Appends bytes of the master's log unchanged. `offset` is their log position and must be [`Self::followed`]. An
    /// empty store begins wherever a commit log file can begin. The bytes may begin and end within a record and may
    /// reach into the next file. Every whole record is visible to readers when this returns. Blocks for a write to
    /// the page cache.
    ///
    /// Calls `restarted` for each topic that the master deleted and made again, before its queues begin at 0 again.
    /// The call may fail after that, and a repeated call does not report the topic again.
    ///
    /// # Errors
    /// See [`FollowError`]; ask [`Self::followed`] afterwards where the master's bytes must go on.
    pub fn follow(
        &self,
        offset: LogOffset,
        bytes: &[u8],
        restarted: &mut dyn FnMut(&str),
    ) -> Result<(), FollowError> {
        self.parts.follower().follow(offset, bytes, restarted)
    }

    /// Log position behind the last byte from the master. The slave reports it to the master. Equals
    /// [`Self::appended`] unless the last record is unfinished.
    pub fn followed(&self) -> LogOffset {
        self.parts.follower().followed()
    }

    /// Cuts the log at `to`, with all data derived from the records behind it: queue units, keys, checksums. The
    /// store must follow a master, and a record must begin or end at `to`. When this returns, the cut is durable.
    /// After a crash in between, the next opening completes it. Callers with log or queue offsets of their own
    /// (timers, positions of groups) must lower them too.
    ///
    /// # Errors
    /// [`FollowError::NotFollowing`]; [`FollowError::Truncate`] when no record begins or ends there, or while lost queues are
    /// rebuilt; [`FollowError::Store`] with [`AppendError::Fenced`] when a file could not be changed.
    pub fn truncate(&self, to: LogOffset) -> Result<(), FollowError> {
        self.parts.recovery().truncate(to.get())
    }

    /// Appends at most `length` bytes of the log from `from` on to `out`, from one commit log file, if they are in
    /// memory. A master sends these bytes. At the log's end the function appends no bytes.
    ///
    /// # Errors
    /// Errors of [`Self::read`], and [`ReadError::Damaged`] behind the fence for a record that is not flushed and not whole.
    pub fn read_log(&self, from: LogOffset, length: usize, out: &mut Vec<u8>) -> Result<Read, ReadError> {
        self.parts.reader().read_for_slave(from, self.parts.reader().sendable(from, length), out, true)
    }

    /// Like [`Self::read_log`], but waits for the disk. Bytes that are not in memory are read ahead, and dropped from the page
    /// cache behind the readers.
    ///
    /// # Errors
    /// Errors of [`Self::read`].
    pub fn read_log_blocking(
        &self,
        from: LogOffset,
        length: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), ReadError> {
        let length = self.parts.reader().sendable(from, length);
        if self.parts.reader().read_for_slave(from, length, out, true)? == Read::NotResident {
            self.parts.read_ahead.bring_in_range(&self.parts.state, from.get(), from.get() + length as u64);
            let _ = self.parts.reader().read_for_slave(from, length, out, false)?;
        }
        Ok(())
    }

    /// Returns the range of the newest record in the log, or `None` if the log has no records or retention deleted
    /// the newest. Blocks for the disk.
    ///
    /// # Errors
    /// Errors of [`Self::read`]; [`ReadError::Record`] when something else lies there.
    pub fn last_record_range(&self) -> Result<Option<Range<LogOffset>>, ReadError> {
        let Some(at) = self.last_record().filter(|at| *at >= self.min()) else { return Ok(None) };
        let (reader, mut head) = (self.parts.reader(), Vec::new());
        let _ = reader.read(at, reader.sendable(at, RECORD_BYTES_MIN), &mut head, false)?;
        match peek(&head) {
            Some((size, MAGIC_V1 | MAGIC_V2)) => Ok(Some(at..at + u64::from(size))),
            Some((_, found)) => Err(ReadError::Record { at, source: RecordError::Magic { found } }),
            None => {
                let source = RecordError::Truncated { needed: RECORD_BYTES_MIN, found: head.len() };
                Err(ReadError::Record { at, source })
            }
        }
    }

    /// Returns the first position at which the log differs from `bytes` at `at`, or `None` if it does not differ.
    /// Blocks for the disk.
    ///
    /// # Errors
    /// Errors of [`Self::read`], also where the log ends before `bytes`.
    pub fn first_difference(&self, at: LogOffset, bytes: &[u8]) -> Result<Option<LogOffset>, ReadError> {
        let mut own = Vec::with_capacity(bytes.len());
        let _ = self.parts.reader().read(at, bytes.len(), &mut own, false)?;
        let equal = own.iter().zip(bytes).take_while(|(own, other)| own == other).count();
        Ok((equal < bytes.len()).then(|| at + equal as u64))
    }

    /// Calls `done` when records are appended up to log position `end`, when that becomes impossible, or after
    /// `timeout`. If the outcome is known, `done` runs at once on this thread, otherwise on the appending thread or a
    /// thread of the store. `done` must be quick. So a sender to slaves follows the log without polling.
    pub fn when_appended(&self, end: LogOffset, timeout: Duration, done: Callback) {
        self.parts.state.when(&self.parts.state.appended, end, timeout, done);
    }

    /// Log position that enough replicas have; `None` when replicas do not matter.
    pub fn replicated(&self) -> Option<LogOffset> {
        position(&self.parts.state.replicated)
    }

    /// Raises the log position that enough replicas have. With `None`, replicas no longer matter. The
    /// position never falls, except when the log is truncated.
    pub fn set_replicated(&self, to: Option<LogOffset>) {
        set(&self.parts.state.replicated, to);
    }

    /// Calls `done` once enough replicas have the log up to `end`, when that becomes impossible, or after `timeout`; at once
    /// when replicas do not matter. As [`Self::when_appended`] otherwise.
    pub fn when_replicated(&self, end: LogOffset, timeout: Duration, done: Callback) {
        self.parts.state.when(&self.parts.state.replicated, end, timeout, done);
    }

    /// Ends all waits for replicas with [`WaitOutcome::Abandoned`], because this store is no longer a master. Later
    /// waits end at their timeout.
    pub fn abandon_replicated(&self) {
        self.parts.state.replicated.abandon();
    }

    /// Confirm offset: consumers see no messages behind it, because a new master might not have them. `None` if it
    /// does not limit consumers. With [`crate::Config::controller_mode`], an opened store has the confirm offset of
    /// its checkpoint.
    pub fn confirmed(&self) -> Option<LogOffset> {
        position(&self.parts.state.confirmed)
    }

    /// Raises the confirm offset, or removes its limit with `None`. The confirm offset never falls, except when the
    /// log is truncated.
    pub fn set_confirmed(&self, to: Option<LogOffset>) {
        set(&self.parts.state.confirmed, to);
        self.parts.state.wake_idle_checkpoint();
    }

    /// Calls `done` when the confirm offset reaches `end`, when that becomes impossible, or after `timeout`. Calls it
    /// at once if the confirm offset does not limit consumers. Otherwise like [`Self::when_appended`].
    pub fn when_confirmed(&self, end: LogOffset, timeout: Duration, done: Callback) {
        self.parts.state.when(&self.parts.state.confirmed, end, timeout, done);
    }

    /// Log position up to which consumers may see messages: the confirm offset, and with synchronous flush the
    /// flushed position.
    pub fn visible(&self) -> LogOffset {
        let parts = &self.parts;
        let durable =
            if parts.state.writes_ahead() { parts.state.flushed.get() } else { parts.state.appended.get() };
        LogOffset::new(durable.min(parts.state.confirmed.get()))
    }
}

fn position(watermark: &Watermark) -> Option<LogOffset> {
    Some(watermark.get()).filter(|position| *position != UNLIMITED).map(LogOffset::new)
}

fn set(watermark: &Watermark, to: Option<LogOffset>) {
    match to {
        None => watermark.set(UNLIMITED),
        Some(to) if watermark.get() == UNLIMITED => watermark.set(to.get()),
        Some(to) => watermark.raise(to.get()),
    }
    watermark.answer();
}
