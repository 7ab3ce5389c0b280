//! The flush thread: makes the log durable and answers all callers that wait for it. While a caller waits it flushes without
//! pause, so that one flush serves all calls that came during the previous one (group commit).

use crate::planted::{self, Bug};
use crate::store::Shared;
use crate::wake::{Wake, lock};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
use wire::units::LogOffset;

/// Outcome for a caller that waited until bytes of the log are durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlushOutcome {
    /// The bytes are durable.
    Flushed,
    /// The bytes are not durable after [`crate::Config::flush_timeout`]; they may still become so (`FLUSH_DISK_TIMEOUT`).
    TimedOut,
    /// The store is fenced or closed; the bytes may or may not be durable. The text says why.
    Failed(String),
}

/// Callback of a waiter. Called once, on a thread of the store, so it must be quick.
type Done = Box<dyn FnOnce(FlushOutcome) + Send>;

struct Waiter {
    end: u64,
    deadline: Instant,
    done: Done,
}

/// The callers that wait for a flush, and the wake-ups of the threads that serve them.
#[derive(Default)]
pub(crate) struct Flush {
    pub(crate) wake: Wake,
    waiters: Mutex<Waiters>,
    pub(crate) deadline_wake: Wake,
    deadline_idle: AtomicBool,
    flushes: AtomicU64,
    answered: AtomicU64,
}

/// Counters of the flush thread since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flushes {
    /// Number of flushes.
    pub count: u64,
    /// Number of callers answered by these flushes; divided by `count` it is the mean size of a group commit.
    pub answered: u64,
}

#[derive(Default)]
struct Waiters {
    /// In order of arrival, and therefore of deadline.
    list: VecDeque<Waiter>,
    /// Whether the flush thread has ended and nobody would answer.
    closed: bool,
}

impl Flush {
    fn take(&self, ready: impl Fn(&Waiter) -> bool) -> Vec<Waiter> {
        let mut waiters = lock(&self.waiters);
        if waiters.list.iter().all(&ready) {
            return std::mem::take(&mut waiters.list).into();
        }
        let (taken, kept): (Vec<_>, _) =
            std::mem::take(&mut waiters.list).into_iter().partition(|waiter| ready(waiter));
        waiters.list = kept.into();
        taken
    }

    fn answer(&self, ready: impl Fn(&Waiter) -> bool, outcome: &FlushOutcome) {
        // Callbacks run without the lock: one may wait for another flush.
        let waiters = self.take(ready);
        if *outcome == FlushOutcome::Flushed {
            self.answered.fetch_add(waiters.len() as u64, Ordering::Relaxed);
        }
        for waiter in waiters {
            (waiter.done)(outcome.clone());
        }
    }

    pub(crate) fn counts(&self) -> Flushes {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Flushes { count: read(&self.flushes), answered: read(&self.answered) }
    }

    fn someone_waits(&self) -> bool {
        !lock(&self.waiters).list.is_empty()
    }
}

impl Shared {
    pub(crate) fn when_flushed(&self, end: LogOffset, done: Done) {
        if self.flushed.load(Ordering::Acquire) >= end.get() || planted::is(Bug::AnswerBeforeFlush) {
            return done(FlushOutcome::Flushed);
        }
        let refusal = {
            let mut waiters = lock(&self.flush.waiters);
            if waiters.closed {
                "the store is closed".to_owned()
            } else if let Some(reason) = self.fence.reason() {
                reason
            } else {
                let deadline = Instant::now() + self.config.flush_timeout;
                waiters.list.push_back(Waiter { end: end.get(), deadline, done });
                drop(waiters);
                self.flush.wake.wake();
                if self.flush.deadline_idle.swap(false, Ordering::AcqRel) {
                    self.flush.deadline_wake.wake();
                }
                return;
            }
        };
        done(FlushOutcome::Failed(refusal));
    }

    /// Body of the flush thread.
    pub(crate) fn run_flusher(&self) {
        let mut written_back = self.flushed.load(Ordering::Acquire);
        let mut dirty_since: Option<Instant> = None;
        loop {
            let stopping = self.flusher_stops.load(Ordering::Acquire);
            if let Some(reason) = self.fence.reason() {
                self.flush.answer(|_| true, &FlushOutcome::Failed(reason));
                if stopping {
                    break;
                }
                self.flush.wake.sleep(None);
                continue;
            }
            let (flushed, appended) =
                (self.flushed.load(Ordering::Acquire), self.appended.load(Ordering::SeqCst));
            if flushed == appended {
                self.flush.answer(|waiter| waiter.end <= flushed, &FlushOutcome::Flushed);
                if stopping {
                    break;
                }
                dirty_since = None;
                self.flush_idle.store(true, Ordering::SeqCst);
                if self.appended.load(Ordering::SeqCst) == flushed {
                    self.flush.wake.sleep(None);
                }
                continue;
            }
            let due = *dirty_since.get_or_insert_with(Instant::now) + self.config.flush_interval;
            // With synchronous flush a caller is about to wait.
            let is_asked = self.writes_ahead() || self.flush.someone_waits();
            if stopping || is_asked || Instant::now() >= due {
                // Bytes appended from now on are dirty from now on, however long this flush takes.
                dirty_since = Some(Instant::now());
                self.flush_to(flushed, appended);
                written_back = appended;
            } else {
                written_back = self.start_write_back(written_back, appended);
                self.flush.wake.sleep(Some(due));
            }
        }
        let left = {
            let mut waiters = lock(&self.flush.waiters);
            waiters.closed = true;
            std::mem::take(&mut waiters.list)
        };
        left.into_iter()
            .for_each(|waiter| (waiter.done)(FlushOutcome::Failed("the store is closed".to_owned())));
    }

    fn flush_to(&self, flushed: u64, end: u64) {
        let sync = || self.log.sync(flushed, end);
        match sync().or_else(|error| if planted::is(Bug::RetryFlush) { sync() } else { Err(error) }) {
            Ok(()) => {
                self.flushed.store(end, Ordering::Release);
                self.flush.flushes.fetch_add(1, Ordering::Relaxed);
                self.flush.answer(|waiter| waiter.end <= end, &FlushOutcome::Flushed);
            }
            // Never retry a flush: a second one may succeed although the data is lost.
            Err(error) => {
                self.put_up_fence(&format!("flushing the commit log {flushed}..{end}: {error}"));
            }
        }
    }

    /// Starts write-back of whole steps, so that the kernel never holds so many dirty pages that it blocks writers.
    fn start_write_back(&self, from: u64, end: u64) -> u64 {
        if end - from < self.config.write_back_bytes {
            return from;
        }
        for segment in self.log.segments_in(from, end) {
            let first = from.max(segment.base) - segment.base;
            let last = (end - segment.base).min(self.config.segment_bytes);
            segment.file.start_write_back(first, last - first);
        }
        end
    }

    /// Body of the thread that answers callers whose timeout has passed, also while the flush thread hangs in the disk.
    pub(crate) fn run_deadlines(&self) {
        while !self.flusher_stops.load(Ordering::Acquire) {
            let now = Instant::now();
            self.flush.answer(|waiter| waiter.deadline <= now, &FlushOutcome::TimedOut);
            self.flush.deadline_idle.store(true, Ordering::SeqCst);
            let next = lock(&self.flush.waiters).list.front().map(|waiter| waiter.deadline);
            if next.is_some() {
                self.flush.deadline_idle.store(false, Ordering::SeqCst);
            }
            self.flush.deadline_wake.sleep(next);
        }
    }

    /// Fences the store and wakes all who wait for something that will not happen. After a disk error written pages may be
    /// lost although the file system stays mounted, so the next opening must not rely on its mounts (`vostok/mounts`).
    pub(crate) fn put_up_fence(&self, reason: &str) {
        self.fence.put_up(reason);
        self.forget_mounts();
        self.log.publish_written_ahead(None);
        self.flush.wake.wake();
    }
}
