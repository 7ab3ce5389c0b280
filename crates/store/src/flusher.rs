//! Flusher: makes the log durable and answers all callers that wait for it. While a caller waits, the flusher runs
//! without pause, so that a flush serves all calls that came during the previous flush (group commit).

use crate::planted::{self, Bug};
use crate::state::{Interruption, State};
use crate::wake::{Next, lock};
use crate::watermark::WaitOutcome;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::Instant;
use wire::units::LogOffset;

/// Outcome for a caller that waited until bytes of the log are durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlushOutcome {
    /// The bytes are durable.
    Flushed,
    /// The bytes are not durable after [`crate::Config::flush_timeout`]; they may still become so (`FLUSH_DISK_TIMEOUT`).
    TimedOut,
    /// The store is fenced or closed, and the bytes may or may not be durable. The text has the reason.
    Failed(String),
}

impl From<WaitOutcome> for FlushOutcome {
    fn from(outcome: WaitOutcome) -> Self {
        match outcome {
            WaitOutcome::Reached => Self::Flushed,
            // Flushes are never abandoned; the bytes may still become durable.
            WaitOutcome::TimedOut | WaitOutcome::Abandoned => Self::TimedOut,
            WaitOutcome::Failed(reason) => Self::Failed(reason),
        }
    }
}

impl From<FlushOutcome> for WaitOutcome {
    fn from(outcome: FlushOutcome) -> Self {
        match outcome {
            FlushOutcome::Flushed => Self::Reached,
            FlushOutcome::TimedOut => Self::TimedOut,
            FlushOutcome::Failed(reason) => Self::Failed(reason),
        }
    }
}

/// State of the flusher: the lock of a flush, and the number of flushes.
#[derive(Default)]
pub(crate) struct Flush {
    /// Lock of a flush, and of every other operation that moves the end of the log, except appends.
    pub(crate) flushing: Mutex<()>,
    flushes: AtomicU64,
}

/// The flusher and the parts of the store that it uses.
#[derive(Clone, Copy)]
pub(crate) struct Flusher<'a> {
    pub(crate) state: &'a State,
    pub(crate) flush: &'a Flush,
}

/// State that a round of the flusher passes to the next round.
pub(crate) struct FlushState {
    /// Log position up to which write-back was started.
    written_back: u64,
    /// Time of the first change that is not flushed yet.
    dirty_since: Option<Instant>,
}

impl FlushState {
    pub(crate) fn new(state: &State) -> Self {
        Self { written_back: state.flushed.get(), dirty_since: None }
    }
}

/// Counters of the flush thread since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flushes {
    /// Number of flushes.
    pub count: u64,
    /// Number of callers answered by these flushes; divided by `count` it is the mean size of a group commit.
    pub answered: u64,
}

impl Flusher<'_> {
    pub(crate) fn flush_counts(&self) -> Flushes {
        Flushes {
            count: self.flush.flushes.load(Ordering::Relaxed),
            answered: self.state.flushed.reached_count(),
        }
    }

    pub(crate) fn when_flushed(&self, end: LogOffset, done: Box<dyn FnOnce(FlushOutcome) + Send>) {
        if self.state.flushed.get() >= end.get() || planted::is(Bug::AnswerBeforeFlush) {
            return done(FlushOutcome::Flushed);
        }
        let done = Box::new(move |outcome: WaitOutcome| done(outcome.into()));
        if self.state.when(&self.state.flushed, end, self.state.config.flush_timeout, done) {
            self.state.signals.flush.wake();
        }
    }

    /// Makes the log durable if a caller waits, the flush interval is over, or the store closes.
    /// With synchronous flush the log is made durable in every round. Returns the time of the next
    /// round.
    pub(crate) fn flush_round(&self, state: &mut FlushState, now: Instant) -> Next {
        let stopping = self.state.signals.flusher_stops.load(Ordering::Acquire);
        let (flushed, appended) = (self.state.flushed.get(), self.state.appended.get());
        let reason = self.state.fence.reason();
        if let Some(reason) = &reason {
            self.state.watermarks().iter().for_each(|watermark| watermark.fail(0, reason));
        } else if flushed == appended {
            self.state.flushed.answer();
        }
        let is_done = reason.is_some() || flushed == appended;
        if stopping && is_done {
            self.state.watermarks().iter().for_each(|watermark| watermark.close("the store is closed"));
            return Next::Over;
        }
        if reason.is_some() {
            return Next::Woken;
        }
        if is_done {
            state.dirty_since = None;
            self.state.signals.flush_idle.store(true, Ordering::SeqCst);
            return if self.state.appended.get() == flushed { Next::Woken } else { Next::Now };
        }
        let due = *state.dirty_since.get_or_insert(now) + self.state.config.flush_interval;
        // With synchronous flush a caller is about to wait.
        let is_asked = self.state.writes_ahead() || self.state.flushed.is_awaited();
        if stopping || is_asked || now >= due {
            // Bytes appended from now on are dirty from now on, however long this flush takes.
            state.dirty_since = Some(now);
            state.written_back = self.flush_now();
            return Next::Now;
        }
        state.written_back = self.start_write_back(state.written_back, appended);
        Next::At(due)
    }

    /// Makes everything appended durable. Returns the log position up to which that was tried.
    pub(crate) fn flush_now(&self) -> u64 {
        let flushing = lock(&self.flush.flushing);
        let (flushed, end) = (self.state.flushed.get(), self.state.appended.get());
        if end <= flushed {
            return end;
        }
        let sync = || self.state.flushes.perform(|| self.state.log.sync(flushed, end));
        match sync().or_else(|error| if planted::is(Bug::RetryFlush) { sync() } else { Err(error) }) {
            Ok(()) => {
                self.state.flushed.set(end);
                self.flush.flushes.fetch_add(1, Ordering::Relaxed);
                drop(flushing);
                self.state.flushed.answer();
            }
            // Never retry a flush: a second one may succeed although the data is lost.
            Err(error) => {
                self.state.put_up_fence(&format!("flushing the commit log {flushed}..{end}: {error}"));
            }
        }
        end
    }

    /// Waits until the log is durable up to `end`.
    pub(crate) fn wait_flushed(&self, end: u64) -> Result<(), Interruption> {
        while self.state.flushed.get() < end {
            if !self.state.clock.has_threads() {
                if self.state.fence.is_up() {
                    return Err(Interruption::Fenced);
                }
                self.flush_now();
                continue;
            }
            let (sender, receiver) = mpsc::channel();
            self.when_flushed(LogOffset::new(end), Box::new(move |outcome| drop(sender.send(outcome))));
            match receiver.recv() {
                Ok(FlushOutcome::Flushed | FlushOutcome::TimedOut) => {}
                _ => return Err(Interruption::Fenced),
            }
        }
        Ok(())
    }

    /// Starts write-back of whole steps. The kernel then never holds so many dirty pages that it blocks writers.
    fn start_write_back(&self, from: u64, end: u64) -> u64 {
        // The log may have been truncated since.
        if end.saturating_sub(from) < self.state.config.write_back_bytes {
            return from.min(end);
        }
        for segment in self.state.log.segments_in(from, end) {
            let first = from.max(segment.base) - segment.base;
            let last = (end - segment.base).min(self.state.config.segment_bytes);
            segment.file.start_write_back(first, last - first);
        }
        end
    }

    /// Runs a round that answers callers whose timeout is over, even while a flush hangs in the disk.
    pub(crate) fn deadline_round(&self, now: Instant) -> Next {
        if self.state.signals.flusher_stops.load(Ordering::Acquire) {
            return Next::Over;
        }
        self.state.deadlines.looking();
        self.state.watermarks().iter().for_each(|watermark| watermark.expire(now));
        self.state
            .deadlines
            .next(|| self.state.watermarks().iter().filter_map(|watermark| watermark.next_deadline()).min())
    }
}
