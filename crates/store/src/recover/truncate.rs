//! Cuts the log at a position, with all data derived from the records behind it (`CommitLog.truncateDirtyFiles` at a
//! change of the master).
//!
//! First the position is written durably to the file `vostok/truncate`. From then on the cut is certain, because the
//! next opening completes it after a crash. The steps, in this order:
//! - The log behind the position is wiped and synced.
//! - The checkpoint moves back to the position, and its queue table becomes invalid.
//! - The file `vostok/truncate` is removed.
//! - Queues, digests, key index and unit journal follow in memory and in their files.
//! - A checkpoint makes these changes durable.
//!
//! A crash before the last step leaves queue files with more units than the log has records. Opening drops these
//! units, because the checkpoint does not cover them.

use super::Recovery;
use super::known::NewestRecord;
use super::window::{LogContent, Window, find, next_whole};
use crate::append::Appender;
use crate::checkpoint::{InvalidUnits, Rounds};
use crate::disk::write_beside;
use crate::error::{AppendError, FollowError, OpenError};
use crate::queue::{Queue, QueueRemainder, table};
use crate::state::Interruption;
use crate::wake::lock;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use wire::record::RecordView;
use wire::units::LogOffset;

/// Queue with messages behind the position, and its remainder.
type QueueCut = (Arc<Queue>, QueueRemainder);

/// Content of the file: the position and its CRC-32. A wrong position would cut off records that must stay.
fn note(to: u64) -> String {
    format!("{to} {:08x}\n", crc32fast::hash(&to.to_be_bytes()))
}

impl Recovery<'_> {
    /// Cuts the log off; see [`crate::Store::truncate`].
    pub(crate) fn truncate(&self, to: u64) -> Result<(), FollowError> {
        // Excludes checkpoints, journal entries, rebuilds that write, and the master's bytes.
        let mut rounds = lock(&self.checkpointer.checkpoints.rounds);
        let mut journal = lock(&self.checkpointer.checkpoints.journaling);
        let mut appender = lock(self.checkpointer.appender);
        if let Some(reason) = self.state.fence.reason() {
            return Err(AppendError::Fenced(reason).into());
        }
        if appender.closed {
            return Err(AppendError::Closed.into());
        }
        if appender.following.is_none() {
            return Err(FollowError::NotFollowing);
        }
        let (min, end) = (self.state.log.min(), self.state.appended.get());
        let refused = |what: String| FollowError::Truncate { to: LogOffset::new(to), what };
        if !(min..=end).contains(&to) {
            return Err(refused(format!("the log holds {min} to {end}")));
        }
        appender.keep_unfinished(Vec::new());
        if to == end {
            return Ok(());
        }
        let newest = self.newest_before(to).map_err(|error| refused(error.to_string()))?;
        let newest = newest.ok_or_else(|| refused("no record begins or ends there".to_owned()))?;
        let cuts = self.queue_cuts(to).map_err(|error| refused(error.to_string()))?;
        tracing::warn!(to, end, queues = cuts.len(), "truncating the log");
        let fenced = |error: io::Error| self.fence_truncation(to, &error);
        self.cut_log(&mut rounds, to, newest.at).map_err(fenced)?;
        journal.give_up(&*self.state.disk, &self.state.config.root, to);
        self.cut_derived(&mut appender, to).map_err(fenced)?;
        appender.cut_to(newest.at, newest.store_timestamp);
        self.cut_queues(&mut rounds, &cuts);
        self.checkpoint_cut(&mut rounds, to, newest).map_err(fenced)?;
        tracing::warn!(to, "the log was truncated");
        Ok(())
    }

    /// Fences the store after a failed cut, because memory is half cut. The next opening completes the cut.
    fn fence_truncation(&self, to: u64, error: &io::Error) -> FollowError {
        let reason = format!("truncating the log to {to}: {error}");
        self.state.put_up_fence(&reason);
        FollowError::Store(AppendError::Fenced(reason))
    }

    /// Cuts the log itself behind its record at `newest`. When this returns, no reader sees bytes behind `to`, and no
    /// crash restores them.
    fn cut_log(&self, rounds: &mut Rounds, to: u64, newest: u64) -> io::Result<()> {
        let path = self.truncation_path();
        write_beside(&*self.state.disk, &path, note(to).as_bytes())?;
        let flushing = lock(&self.checkpointer.flusher.flush.flushing);
        // Readers that began before compare this number when they are done: what they read may have been wiped meanwhile.
        self.state.truncations.fetch_add(1, Ordering::SeqCst);
        for watermark in self.state.watermarks() {
            watermark.lower(to);
        }
        drop(flushing);
        self.state
            .watermarks()
            .iter()
            .for_each(|watermark| watermark.fail(to, &format!("the log was truncated to {to}")));
        self.state.log.wipe_from(to)?;
        self.state.log.sync(self.state.flushed.get(), to)?;
        self.state.flushed.raise(to);
        self.state.flushed.answer();
        self.cut_checkpoint(to, newest)?;
        rounds.forget();
        self.forget_truncation()
    }

    /// Moves the checkpoint back to `to`, whose last record is at `newest`, and invalidates its queue table.
    fn cut_checkpoint(&self, to: u64, newest: u64) -> io::Result<()> {
        let mut page = lock(&self.state.page);
        let mut changed = *page;
        let (to_i64, newest) = (to.cast_signed(), newest.cast_signed());
        changed.logics_physical_offset = changed.logics_physical_offset.min(to_i64);
        if changed.newest_record() >= to_i64 {
            let is_confirm = changed.newest.is_some();
            changed.newest = is_confirm.then_some(newest);
            let confirmed = changed.confirm_phy_offset.min(to_i64);
            changed.confirm_phy_offset = if is_confirm { confirmed } else { newest };
        }
        changed.mark = None;
        changed.save(&*self.state.disk, &self.state.config.root.join("checkpoint"))?;
        *page = changed;
        drop(page);
        self.lower_durable(to)
    }

    /// Cuts digests, key index and tombstones.
    fn cut_derived(&self, appender: &mut Appender, to: u64) -> io::Result<()> {
        self.state.digests.stage(std::mem::take(&mut appender.fresh));
        self.state.digests.write(self.state.log.min());
        self.state.digests.cut(to)?;
        self.state.queues.tombstones.lower(to);
        self.checkpointer.indexer.index.truncate(to)
    }

    /// Returns the queues with messages behind `to`, and their remainders.
    fn queue_cuts(&self, to: u64) -> Result<Vec<QueueCut>, crate::ReadError> {
        let mut cuts = Vec::new();
        for queue in self.state.queues.all() {
            if let Some(cut) = queue.cut_at(to)? {
                cuts.push((queue, cut));
            }
        }
        Ok(cuts)
    }

    fn cut_queues(&self, rounds: &mut Rounds, cuts: &[QueueCut]) {
        for (queue, cut) in cuts {
            let gone = queue.cut(*cut);
            self.state.queues.unwritten_units.fetch_sub(gone.unwritten, Ordering::Relaxed);
            if let Some((from, until)) = gone.in_files {
                rounds.dirty.push(InvalidUnits { queue: queue.clone(), from, until });
            }
        }
        rounds.removed.iter_mut().for_each(|(_, before)| *before = (*before).min(self.state.appended.get()));
    }

    /// Makes the cut queues durable with a checkpoint.
    fn checkpoint_cut(&self, rounds: &mut Rounds, to: u64, newest: NewestRecord) -> io::Result<()> {
        let done = {
            let touched = &mut *lock(&self.checkpointer.checkpoints.touched);
            self.checkpointer
                .write_round(rounds, to, touched)
                .and_then(|_| self.checkpointer.sync_touched(touched))
        };
        let done = done.and_then(|()| self.checkpointer.export_batches());
        let done =
            done.and_then(|()| self.checkpointer.commit(rounds, (to, newest.store_timestamp, newest.at)));
        done.map_err(|interrupted| match interrupted {
            Interruption::NoSpace(error) => error,
            Interruption::Fenced => io::Error::other(self.state.fence.reason().unwrap_or_default()),
        })
    }

    /// The newest record before `to`; `None` when neither a record nor a file begins or ends at `to`.
    fn newest_before(&self, to: u64) -> io::Result<Option<NewestRecord>> {
        let mut newest = NewestRecord::default();
        let before = to.checked_sub(1).filter(|last| *last >= self.state.log.min());
        let Some(segment) = before.and_then(|last| self.state.log.segment_of(last)) else {
            return Ok(Some(newest));
        };
        let limit = to - segment.base;
        let base = segment.base;
        let mut window = Window::new(segment, self.state.log.segment_bytes);
        let mut at = 0;
        while at < limit {
            match find(&mut window, at)? {
                LogContent::Record(size) => {
                    let view = RecordView::parse(window.get(at, size)?).map_err(io::Error::other)?;
                    newest = NewestRecord { at: base + at, store_timestamp: view.store_timestamp() };
                    at += size as u64;
                }
                LogContent::Roll => at = self.state.log.segment_bytes,
                LogContent::Nothing | LogContent::Damage(_) => {
                    match next_whole(&mut window, at, self.state.log.segment_bytes)? {
                        Some(next) => at = next,
                        None => return Ok(None),
                    }
                }
            }
        }
        Ok((at == limit).then_some(newest))
    }

    fn truncation_path(&self) -> PathBuf {
        table::directory(&self.state.config.root).join("truncate")
    }

    fn forget_truncation(&self) -> io::Result<()> {
        self.state.disk.remove(&self.truncation_path())?;
        self.state.disk.sync_dir(&table::directory(&self.state.config.root))
    }

    /// Completes a cut that a crash interrupted. Runs once the log's files and the checkpoint are loaded.
    pub(super) fn complete_truncation(&self) -> Result<(), OpenError> {
        let path = self.truncation_path();
        let entries =
            self.state.disk.list(&table::directory(&self.state.config.root)).map_err(OpenError::io(&path))?;
        let Some(entry) = entries.iter().find(|entry| entry.name == "truncate") else { return Ok(()) };
        let mut text = vec![0; usize::try_from(entry.length.min(64)).unwrap_or(0)];
        let file = self.state.disk.open(&path).map_err(OpenError::io(&path))?;
        file.read_at(&mut text, 0).map_err(OpenError::io(&path))?;
        let text = std::str::from_utf8(&text).ok();
        let to = text.and_then(|text| text.split(' ').next()?.parse().ok().filter(|to| note(*to) == text));
        let invalid = || {
            let why = "expected a log offset and its checksum: remove the file, and the broker compares its log with its master's again";
            io::Error::new(io::ErrorKind::InvalidData, why)
        };
        let to = to.ok_or_else(invalid).map_err(OpenError::io(&path))?;
        tracing::warn!(to, "the log was being truncated when the store crashed; that is completed now");
        let done = self.state.log.wipe_from(to).and_then(|()| self.cut_checkpoint(to, to));
        done.and_then(|()| self.forget_truncation()).map_err(OpenError::io(path))
    }
}
