//! The checkpoint. It writes queue tails to their files and makes these files and the log durable. Then it writes the
//! durable log position to the `checkpoint` file. Recovery reads the log only from there.

mod batches;
mod removal;
mod round;
mod units;

pub(crate) use round::{InvalidUnits, Rounds};
pub(crate) use units::{JournalState, forget_removed};

use crate::append::Appender;
use crate::checkpoint_file::Checkpoint;
use crate::disk::Syncer;
use crate::flusher::Flusher;
use crate::index::Indexer;
use crate::queue::Queue;
use crate::queue::files::SyncList;
use crate::queue::journal::UnitJournal;
use crate::read::Reader;
use crate::state::{Interruption, State};
use crate::wake::{Next, lock};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Longest time between two checkpoints while the store has changes.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// State of the checkpointer: its rounds, the unit journal, and the queue files to sync.
///
/// Order of the store's locks: `rounds`, `journaling`, the appender's, `touched`, the checkpoint page's, a queue's
/// tail, the lists of unwritten, fresh and grown queues. The key index's lock comes after the appender's.
pub(crate) struct Checkpoints {
    /// State of the checkpoint rounds; locked during a checkpoint.
    pub(crate) rounds: Mutex<Rounds>,
    /// When the last finished checkpoint read the log's end.
    pub(crate) checkpointed_at: Mutex<Instant>,
    /// The unit journal: a durable copy of units that are not in the queue files yet.
    pub(crate) journaling: Mutex<UnitJournal>,
    /// Queue files that must be synced before the next checkpoint.
    pub(crate) touched: Mutex<SyncList>,
    /// Makes the file system of the queue files durable (`syncfs`).
    pub(crate) sync_all: Syncer,
}

impl Checkpoints {
    pub(crate) fn new(sync_all: Syncer, now: Instant) -> Self {
        Self {
            rounds: Mutex::default(),
            checkpointed_at: Mutex::new(now),
            journaling: Mutex::default(),
            touched: Mutex::default(),
            sync_all,
        }
    }
}

/// The checkpointer and the parts of the store that it uses.
#[derive(Clone, Copy)]
pub(crate) struct Checkpointer<'a> {
    pub(crate) state: &'a State,
    pub(crate) checkpoints: &'a Checkpoints,
    pub(crate) appender: &'a Mutex<Appender>,
    pub(crate) flusher: Flusher<'a>,
    pub(crate) reader: Reader<'a>,
    pub(crate) indexer: Indexer<'a>,
}

/// State that a round of the checkpointer passes to the next round.
pub(crate) struct CheckpointState {
    stage: LastRound,
    /// Queues whose tails were written last. Their readers can use the tail in memory for another interval.
    settled: Vec<Arc<Queue>>,
    /// When the last checkpoint began, or when the checkpointer last stopped being idle.
    last: Instant,
    /// Shortest time from the start of a checkpoint to the next.
    pause: Duration,
    /// Log position up to which the log was dropped from the page cache.
    forgotten: u64,
}

/// Result of the last round of the checkpointer.
enum LastRound {
    Begins,
    Running,
    /// The store had no changes.
    Idle,
}

impl CheckpointState {
    pub(crate) fn new(state: &State) -> Self {
        let (last, forgotten) = (state.clock.now(), state.flushed.get());
        Self { stage: LastRound::Begins, settled: Vec::new(), last, pause: Duration::ZERO, forgotten }
    }
}

/// Bytes of the log dropped from the page cache in a step: about a millisecond of work.
const FORGOTTEN_BYTES: u64 = 4 << 20;

/// Pause between two steps of dropping the log from the page cache.
const FORGET_PAUSE: Duration = Duration::from_millis(1);

impl Checkpointer<'_> {
    pub(crate) fn checkpoint_round(&self, state: &mut CheckpointState, now: Instant) -> Next {
        let is_over = || self.state.signals.stopping.load(Ordering::Acquire) || self.state.fence.is_up();
        if is_over() {
            return Next::Over;
        }
        match std::mem::replace(&mut state.stage, LastRound::Running) {
            LastRound::Begins => return Next::At(now + self.state.config.checkpoint_interval),
            LastRound::Idle => return self.leave_idle(state, now),
            LastRound::Running => {}
        }
        state.settled.drain(..).for_each(|queue| queue.trim_tail());
        self.forget_old(&mut state.forgotten);
        if self.is_checkpointed() {
            self.state.signals.checkpoint_idle.store(true, Ordering::SeqCst);
            // Checked again: the pauses above may have consumed the wake-up that asks this engine to stop.
            if self.is_checkpointed() && !is_over() {
                state.stage = LastRound::Idle;
                return Next::Woken;
            }
            return self.leave_idle(state, now);
        }
        let since = now.saturating_duration_since(state.last);
        let backlog = self.backlog();
        if backlog.is_due() && since >= state.pause || backlog.is_urgent() || since >= PAUSE_MAX {
            state.last = now;
            match self.checkpoint_now() {
                Ok(written) => state.settled = written,
                Err(Interruption::NoSpace(error)) => {
                    tracing::warn!(%error, "no space for the queue files; they stay in memory until there is");
                }
                Err(Interruption::Fenced) => return Next::Over,
            }
            let length = self.state.clock.now().saturating_duration_since(now);
            state.pause = (length * 5).min(PAUSE_MAX);
        }
        Next::At(self.state.clock.now() + self.state.config.checkpoint_interval)
    }

    fn leave_idle(&self, state: &mut CheckpointState, now: Instant) -> Next {
        self.state.signals.checkpoint_idle.store(false, Ordering::SeqCst);
        self.state.signals.journal.wake();
        state.last = now;
        Next::At(now + self.state.config.checkpoint_interval)
    }

    /// Drops the log from the page cache, from `forgotten` up to the newest [`crate::Config::cached_bytes`] bytes.
    fn forget_old(&self, forgotten: &mut u64) {
        let end = self.state.flushed.get().saturating_sub(self.state.config.cached_bytes);
        if end <= *forgotten {
            return;
        }
        *forgotten = (*forgotten).max(self.state.log.min());
        while *forgotten < end && !self.state.signals.stopping.load(Ordering::Acquire) {
            let Some(segment) = self.state.log.segment_of(*forgotten) else { break };
            let first = *forgotten - segment.base;
            let length = FORGOTTEN_BYTES.min(self.state.config.segment_bytes - first).min(end - *forgotten);
            segment.file.forget(first, length);
            *forgotten += length;
            // In small steps, because the kernel does this work on a CPU that appends need.
            self.state.clock.pause(&self.state.signals.checkpoint, FORGET_PAUSE);
        }
    }

    fn is_checkpointed(&self) -> bool {
        let Checkpoint { logics_physical_offset: done, mark, confirm_phy_offset, .. } =
            *lock(&self.state.page);
        let is_confirmed = !self.state.config.controller_mode
            || confirm_phy_offset == self.state.confirmed.get().min(done.unsigned_abs()).cast_signed();
        // Not idle after a failed round, or when files must be wiped or removed although nothing was appended. A store that
        // came without a queue table first gets one.
        let is_idle =
            lock(&self.checkpoints.rounds).is_idle() && lock(&self.state.queues.unwritten).is_empty();
        is_idle
            && is_confirmed
            && mark.is_some()
            && done == self.state.appended.get().cast_signed()
            && lock(&self.checkpoints.touched).is_empty()
    }

    /// Makes all appended records durable and writes that to the `checkpoint` file. Returns the queues whose units
    /// were written.
    pub(crate) fn checkpoint_now(&self) -> Result<Vec<Arc<Queue>>, Interruption> {
        let mut rounds = lock(&self.checkpoints.rounds);
        if self.state.fence.is_up() {
            return Err(Interruption::Fenced);
        }
        let sampled = self.state.clock.now();
        let (end, store_timestamp, last_record) = {
            let mut appender = lock(self.appender);
            self.state.digests.stage(std::mem::take(&mut appender.fresh));
            (self.state.appended.get(), appender.store_timestamp, appender.last_record)
        };
        let mut touched = lock(&self.checkpoints.touched);
        let written = self.write_round(&mut rounds, end, &mut touched)?;
        self.sync_touched(&mut touched)?;
        drop(touched);
        self.flusher.wait_flushed(end)?;
        self.state.digests.write(self.state.log.min());
        self.export_batches()?;
        self.indexer.settle_index(end);
        self.commit(&mut rounds, (end, store_timestamp, last_record))?;
        *lock(&self.checkpoints.checkpointed_at) = sampled;
        Ok(written)
    }

    pub(crate) fn sync_touched(&self, touched: &mut SyncList) -> Result<(), Interruption> {
        touched
            .sync(&*self.state.disk, &self.checkpoints.sync_all)
            .map_err(|error| self.state.fatal("flushing queue files", &error))
    }
}
