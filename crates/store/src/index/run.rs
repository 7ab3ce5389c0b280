//! Fills the key index.

use super::current::{Current, LastMessage};
use super::layout::Header;
use super::load::StoreFacts;
use super::{FullFile, IndexFiles, IndexState, Indexer, KeyIndex, PAUSE};
use crate::disk::local_digits;
use crate::keys::KeyEntry;
use crate::state::Interruption;
use crate::wake::{Next, lock};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Time for which the thread lets keys accumulate while more keys arrive.
const GATHER: Duration = Duration::from_millis(20);
/// Pause before the next attempt to record the index's progress in the checkpoint, while the log is
/// not durable as far.
const ANNOUNCE: Duration = Duration::from_millis(500);
/// Entries added between two writes.
const PUT_ENTRIES: usize = 1 << 14;
/// Most entries whose memory stays allocated.
const KEPT_ENTRIES: usize = 1 << 16;
/// Pieces of the log read in a row while the store waits for the index.
const ROUNDS_MAX: usize = 64;

/// Result of a round of filling.
pub(super) enum FillResult {
    /// More of the log is unread.
    More,
    /// The pending keys are written.
    Worked,
    /// No keys were pending.
    Idle,
    /// An error occurred; the next attempt is not before this time.
    Paused(Instant),
}

/// The error that ended a round of filling.
pub(super) enum FillError {
    /// An error of an index file.
    File(io::Error),
    /// An error of reading the log.
    Log(io::Error),
}

impl From<io::Error> for FillError {
    fn from(error: io::Error) -> Self {
        Self::File(error)
    }
}

impl Indexer<'_> {
    /// Runs a round of filling the key index.
    pub(crate) fn index_round(&self, now: Instant) -> Next {
        if self.state.signals.stopping.load(Ordering::Acquire) {
            return Next::Over;
        }
        let round = self.fill();
        let announced = self.announce_index();
        match round {
            FillResult::More => Next::Now,
            FillResult::Worked => Next::At(now + GATHER),
            FillResult::Paused(until) => Next::At(until),
            FillResult::Idle => {
                self.index.idle.store(true, Ordering::SeqCst);
                if self.index.is_behind() || self.state.signals.stopping.load(Ordering::SeqCst) {
                    self.index.idle.store(false, Ordering::Relaxed);
                    return Next::Now;
                }
                if announced { Next::Woken } else { Next::At(now + ANNOUNCE) }
            }
        }
    }

    /// Wakes the thread, which also removes files of messages that are deleted.
    pub(crate) fn wake_index(&self) {
        self.index.wake.wake();
    }

    /// Writes the pending keys, or reads a piece of the log.
    pub(super) fn fill(&self) -> FillResult {
        let filling = &mut *lock(&self.index.filling);
        match self.fill_some(filling) {
            Ok(round) => round,
            Err(stopped) => {
                match stopped {
                    FillError::File(error) => self.index.pause_after_error(filling, &error),
                    FillError::Log(error) => self.index.wait_for_log(filling, &error),
                }
                FillResult::Paused(self.state.clock.now() + filling.pause)
            }
        }
    }

    fn fill_some(&self, filling: &mut IndexFiles) -> Result<FillResult, FillError> {
        match filling.stage {
            IndexState::Ready => {}
            IndexState::FilePause(until) | IndexState::LogPause(until) if self.state.clock.now() < until => {
                return Ok(FillResult::Paused(until));
            }
            IndexState::LogPause(_) => filling.stage = IndexState::Ready,
            IndexState::FilePause(_) | IndexState::Unloaded => self.load_index(filling)?,
        }
        if !self.index.is_on {
            return Ok(FillResult::Idle);
        }
        self.index.remove_below(filling, self.state.log.min())?;
        let scratch = std::mem::take(&mut filling.scratch);
        let (mut entries, end) = match self.index.take(filling.next, scratch) {
            Ok(taken) => taken,
            Err(end) => return self.catch_up(filling, end).map(|()| FillResult::More),
        };
        let is_idle = entries.is_empty();
        self.put_all(filling, &entries)?;
        entries.clear();
        entries.shrink_to(KEPT_ENTRIES);
        filling.scratch = entries;
        filling.next = end;
        filling.pause = PAUSE;
        self.index.indexed.store(end, Ordering::Release);
        Ok(if is_idle { FillResult::Idle } else { FillResult::Worked })
    }

    fn load_index(&self, filling: &mut IndexFiles) -> io::Result<()> {
        let around = StoreFacts {
            after_crash: self.index.after_crash.swap(true, Ordering::Relaxed),
            log_end: self.state.appended.get(),
            log_min: self.state.log.min(),
            index_msg_timestamp: lock(&self.state.page).index_msg_timestamp,
        };
        self.index.load(filling, around)
    }

    /// Adds all entries, to as many files as needed.
    pub(super) fn put_all(&self, filling: &mut IndexFiles, entries: &[KeyEntry]) -> io::Result<()> {
        for mut rest in entries.chunks(PUT_ENTRIES) {
            while let Some(first) = rest.first() {
                let current = match &mut filling.current {
                    Some(current) => current,
                    None => {
                        let current = self.next_file(filling, first.time)?;
                        filling.current.insert(current)
                    }
                };
                let taken = current.put(rest);
                rest = &rest[taken..];
                if current.is_full() {
                    self.complete(filling)?;
                }
            }
            if let Some(current) = &mut filling.current {
                current.write()?;
                if current.wants_sync() {
                    self.index.finish(filling)?;
                }
            }
        }
        Ok(())
    }

    fn next_file(&self, filling: &IndexFiles, time: i64) -> io::Result<Current> {
        let index = &self.index;
        let newest = filling.finished.last();
        // As in RocketMQ the name is the local time, here of the first message. Files are sorted by name, so it must ascend
        // even where clocks and time zones do not.
        let name = newest.and_then(|newest| newest.name.parse::<u64>().ok()).unwrap_or(0) + 1;
        let name = format!("{:017}", name.max(local_digits(time)));
        let header = newest.map_or(Header::seeded(0, 0), |newest| {
            Header::seeded(newest.header.end_time, newest.header.end_offset)
        });
        Current::create(&*index.disk, &index.directory, name, index.geometry, header)
    }

    /// Makes the full file durable.
    fn complete(&self, filling: &mut IndexFiles) -> io::Result<()> {
        self.index.finish(filling)?;
        let Some(Current { name, file, header, .. }) = filling.current.take() else { return Ok(()) };
        filling.finished.push(Arc::new(FullFile { name, file, header }));
        filling.stale_headers.extend(filling.finished.last().cloned());
        Ok(())
    }

    /// Records the durable end of the index in the checkpoint after the log is durable, and then updates the file
    /// headers. Returns `false` if that must wait.
    fn announce_index(&self) -> bool {
        let end = {
            let mut filling = lock(&self.index.filling);
            let Some(end) = filling.unannounced else { return true };
            if self.state.flushed.get() <= end.offset {
                return false;
            }
            filling.unannounced = None;
            end
        };
        if self.note_indexed(end.time).is_ok() {
            let filling = &mut *lock(&self.index.filling);
            if let Err(error) = filling.write_header_end(end) {
                self.index.pause_after_error(filling, &error);
            }
        }
        true
    }

    /// Records that key index files up to this time are durable. Takes the maximum, because two threads may call it
    /// at once. RocketMQ removes an index file whose header names a later time than the checkpoint.
    fn note_indexed(&self, time_ms: i64) -> Result<(), Interruption> {
        self.state.save_page(|page| page.index_msg_timestamp = page.index_msg_timestamp.max(time_ms))
    }

    /// Finishes the index files before the checkpoint's position enters another log file. After a crash of Vostok, a
    /// RocketMQ broker indexes again from the start of the log file with that position. Does nothing if the index is
    /// far behind.
    pub(crate) fn settle_index(&self, position: u64) {
        let segment = self.state.config.segment_bytes;
        let settled = self.index.settled.load(Ordering::Relaxed);
        if !self.index.is_on || settled / segment == position / segment || !self.fill_all() {
            return;
        }
        let reached = {
            let filling = &mut *lock(&self.index.filling);
            if filling.next < position {
                return;
            }
            if let Err(error) = self.index.finish(filling) {
                return self.index.pause_after_error(filling, &error);
            }
            filling.next
        };
        if self.flusher.wait_flushed(reached).is_ok() && self.announce_index() {
            self.index.settled.store(reached, Ordering::Relaxed);
        }
    }

    /// Fills until no keys are pending, or [`ROUNDS_MAX`] times. Returns `false` after an error.
    fn fill_all(&self) -> bool {
        for _ in 0..ROUNDS_MAX {
            match self.fill() {
                FillResult::More | FillResult::Worked => {}
                FillResult::Idle => return true,
                FillResult::Paused(_) => return false,
            }
        }
        true
    }

    /// Writes the pending keys and finishes the current file at a clean stop. After an error the next opening catches up.
    pub(crate) fn close_index(&self) {
        if !self.index.is_on || !self.fill_all() {
            return;
        }
        {
            let filling = &mut *lock(&self.index.filling);
            if let Err(error) = self.index.finish(filling) {
                self.index.pause_after_error(filling, &error);
            }
        }
        self.announce_index();
    }
}

impl KeyIndex {
    /// Makes the items in the current file durable.
    pub(super) fn finish(&self, filling: &mut IndexFiles) -> io::Result<()> {
        let Some(current) = &mut filling.current else { return Ok(()) };
        current.finish()?;
        self.disk.sync_dir(&self.directory)?;
        if current.header.next > 1 {
            let Header { end_time: time, end_offset: offset, .. } = current.header;
            filling.unannounced = Some(LastMessage { time, offset });
        }
        Ok(())
    }
}
