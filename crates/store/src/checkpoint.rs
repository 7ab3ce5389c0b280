//! The checkpoint: queue tails are written to their files, these files and the log become durable, and then the `checkpoint`
//! file says up to which log position everything is. Recovery reads the log only from there.

mod page;
mod round;
mod units;

pub use page::{Checkpoint, Mark};
pub(crate) use round::{Dirty, Rounds};
pub(crate) use units::forget_removed;

use crate::error::is_lack;
use crate::queue::Queue;
use crate::queue::files::Touched;
use crate::store::Shared;
use crate::wake::lock;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use wire::units::LogOffset;

/// Longest time between two checkpoints while there is something to write.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Why a checkpoint was not finished.
pub(crate) enum Interrupted {
    /// The disk is full; nothing is lost, the next round tries again.
    NoSpace(io::Error),
    /// The store is fenced.
    Fenced,
}

/// Bytes of the log dropped from the page cache in one step: about a millisecond of work.
const FORGOTTEN_BYTES: u64 = 4 << 20;

/// Pause between two steps of dropping the log from the page cache.
const FORGET_PAUSE: Duration = Duration::from_millis(1);

impl Shared {
    /// Body of the checkpoint thread.
    pub(crate) fn run_checkpoints(&self) {
        // Queues whose tails were written last: their readers can use the tail in memory for one more interval.
        let mut settled: Vec<Arc<Queue>> = Vec::new();
        // Nobody waits for this thread, so appends get the CPU first. Where lowering the priority is not permitted, it stays.
        let _ = rustix::process::nice(10);
        let (mut last, mut pause) = (Instant::now(), Duration::ZERO);
        let mut forgotten = self.flushed.load(Ordering::Acquire);
        while !self.stopping.load(Ordering::Acquire) && !self.fence.is_up() {
            self.sleep_for(self.config.checkpoint_interval);
            if self.stopping.load(Ordering::Acquire) {
                break;
            }
            settled.drain(..).for_each(|queue| queue.trim_tail());
            self.forget_old(&mut forgotten);
            if self.is_checkpointed() {
                self.checkpoint_idle.store(true, Ordering::SeqCst);
                // Checked again: the pauses above may have consumed the wake-up that asks this thread to stop.
                if self.is_checkpointed() && !self.stopping.load(Ordering::Acquire) {
                    self.checkpoint.sleep(None);
                }
                self.checkpoint_idle.store(false, Ordering::SeqCst);
                self.journal_wake.wake();
                last = Instant::now();
                continue;
            }
            let since = last.elapsed();
            let due = self.due();
            let is_due = due.is_now() && since >= pause || due.is_urgent() || since >= PAUSE_MAX;
            if !is_due {
                continue;
            }
            last = Instant::now();
            match self.checkpoint_now() {
                Ok(written) => settled = written,
                Err(Interrupted::NoSpace(error)) => {
                    tracing::warn!(%error, "no space for the queue files; they stay in memory until there is");
                }
                Err(Interrupted::Fenced) => break,
            }
            pause = (last.elapsed() * 5).min(PAUSE_MAX);
        }
    }

    /// Drops the log from the page cache, from `forgotten` up to the newest [`crate::Config::cached_bytes`] bytes.
    fn forget_old(&self, forgotten: &mut u64) {
        let end = self.flushed.load(Ordering::Acquire).saturating_sub(self.config.cached_bytes);
        if end <= *forgotten {
            return;
        }
        *forgotten = (*forgotten).max(self.log.min());
        while *forgotten < end && !self.stopping.load(Ordering::Acquire) {
            let Some(segment) = self.log.segment_of(*forgotten) else { break };
            let first = *forgotten - segment.base;
            let length = FORGOTTEN_BYTES.min(self.config.segment_bytes - first).min(end - *forgotten);
            segment.file.forget(first, length);
            *forgotten += length;
            // In small steps, because the kernel does this work on a CPU that appends need.
            self.sleep_for(FORGET_PAUSE);
        }
    }

    fn sleep_for(&self, pause: Duration) {
        self.checkpoint.sleep(Some(Instant::now() + pause));
    }

    fn is_checkpointed(&self) -> bool {
        let Checkpoint { logics_physical_offset: done, mark, .. } = *lock(&self.page);
        // Not idle after a failed round, or when files must be wiped or removed although nothing was appended. A store that
        // came without a queue table first gets one.
        let is_idle = lock(&self.checkpointing).is_idle() && lock(&self.queues.unwritten).is_empty();
        is_idle
            && mark.is_some()
            && done == self.appended.load(Ordering::SeqCst).cast_signed()
            && lock(&self.touched).is_empty()
    }

    /// Makes everything appended so far durable and records that in the `checkpoint` file. Returns the queues whose units
    /// were written.
    pub(crate) fn checkpoint_now(&self) -> Result<Vec<Arc<Queue>>, Interrupted> {
        let mut rounds = lock(&self.checkpointing);
        if self.fence.is_up() {
            return Err(Interrupted::Fenced);
        }
        let sampled = Instant::now();
        let (end, store_timestamp, last_record) = {
            let mut appender = lock(&self.appender);
            self.digests.stage(std::mem::take(&mut appender.fresh));
            (self.appended.load(Ordering::Acquire), appender.store_timestamp, appender.last_record)
        };
        let mut touched = lock(&self.touched);
        let written = self.write_round(&mut rounds, end, &mut touched)?;
        self.sync_touched(&mut touched)?;
        drop(touched);
        self.wait_flushed(end)?;
        self.digests.write(self.log.min());
        self.export_batches()?;
        self.settle_index(end);
        self.commit(&mut rounds, (end, store_timestamp, last_record))?;
        *lock(&self.checkpointed_at) = sampled;
        Ok(written)
    }

    pub(crate) fn sync_touched(&self, touched: &mut Touched) -> Result<(), Interrupted> {
        touched.sync(&*self.disk, &self.sync_all).map_err(|error| self.fatal("flushing queue files", &error))
    }

    pub(crate) fn wait_flushed(&self, end: u64) -> Result<(), Interrupted> {
        while self.flushed.load(Ordering::Acquire) < end {
            let (sender, receiver) = mpsc::channel();
            self.when_flushed(LogOffset::new(end), Box::new(move |outcome| drop(sender.send(outcome))));
            match receiver.recv() {
                Ok(crate::FlushOutcome::Flushed | crate::FlushOutcome::TimedOut) => {}
                _ => return Err(Interrupted::Fenced),
            }
        }
        Ok(())
    }

    /// The outcome of a failed write: lack of space may be retried, as the write does not count yet; any other error fences
    /// the store.
    pub(crate) fn failed(&self, what: &str, error: io::Error) -> Interrupted {
        if is_lack(&error) { Interrupted::NoSpace(error) } else { self.fatal(what, &error) }
    }

    fn fatal(&self, what: &str, error: &io::Error) -> Interrupted {
        self.put_up_fence(&format!("{what}: {error}"));
        Interrupted::Fenced
    }
}

#[cfg(test)]
mod tests;
