//! Watermark: a log position that only rises and on which threads can wait. The store has `appended`, `flushed`,
//! `replicated` and `confirmed`.
//!
//! A publisher stores the new position first ([`Watermark::set`], [`Watermark::raise`]) and then answers the waiters
//! ([`Watermark::answer`]), which costs one atomic load without waiters. A waiter sets `is_awaited` and then reads
//! the position again. A publisher stores the position and then reads `is_awaited`. Both use sequentially consistent
//! order, so at least one of the two sees the other.

use crate::wake::{Next, Wake, lock};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// Outcome for a caller that waited until a watermark reached a log position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitOutcome {
    /// The watermark has reached the position.
    Reached,
    /// The watermark did not reach the position before the caller's deadline, but may reach it later.
    TimedOut,
    /// The watermark will not reach the position, because the store is fenced or closed, or its log was truncated
    /// before the position. The text has the reason.
    Failed(String),
    /// The store follows a master, so the watermark no longer moves. The position may or may not be reached on the
    /// master.
    Abandoned,
}

/// Position of a watermark without limit: every wait ends at once.
pub(crate) const UNLIMITED: u64 = u64::MAX;

/// Callback of a waiter. Called once, on the thread that moves the watermark or on a thread of the store, so it must
/// be quick.
pub(crate) type Callback = Box<dyn FnOnce(WaitOutcome) + Send>;

struct Waiter {
    end: u64,
    deadline: Option<Instant>,
    done: Callback,
}

/// A position of the log that only rises, except when the log is truncated, and the callers that wait for it.
#[derive(Default)]
pub(crate) struct Watermark {
    position: AtomicU64,
    /// Whether the list of waiters may be non-empty. Paired with `position`.
    is_awaited: AtomicBool,
    waiters: Mutex<Waiters>,
    reached: AtomicU64,
}

#[derive(Default)]
struct Waiters {
    /// The waiters, in the order in which they came.
    list: VecDeque<Waiter>,
    /// Reason why waits are rejected: the threads that answer them have ended.
    closed: Option<String>,
}

impl Watermark {
    /// A watermark that starts at a position.
    pub(crate) fn at(position: u64) -> Self {
        Self { position: AtomicU64::new(position), ..Self::default() }
    }

    /// The position. Sequentially consistent with the idle flags of the threads that sleep until it moves.
    pub(crate) fn get(&self) -> u64 {
        self.position.load(Ordering::SeqCst)
    }

    /// Moves the watermark without answering waiters. Only one thread at a time may call it.
    pub(crate) fn set(&self, position: u64) {
        self.position.store(position, Ordering::SeqCst);
    }

    /// Raises the watermark without answering waiters. Does nothing if the watermark is already as high. Several
    /// threads may call it.
    pub(crate) fn raise(&self, position: u64) {
        self.position.fetch_max(position, Ordering::SeqCst);
    }

    /// Lowers the watermark when the log is truncated, without answering waiters. A watermark without limit stays.
    pub(crate) fn lower(&self, position: u64) {
        let lower = |current: u64| (current != UNLIMITED).then_some(current.min(position));
        let _ = self.position.fetch_update(Ordering::SeqCst, Ordering::SeqCst, lower);
    }

    /// Number of waiters whose position was reached.
    pub(crate) fn reached_count(&self) -> u64 {
        self.reached.load(Ordering::Relaxed)
    }

    /// Whether the watermark has waiters.
    pub(crate) fn is_awaited(&self) -> bool {
        self.is_awaited.load(Ordering::SeqCst)
    }

    /// Answers all waiters whose position is reached. Costs one atomic load without waiters.
    pub(crate) fn answer(&self) {
        if self.is_awaited() {
            let position = self.get();
            let answered = self.answer_waiters(|waiter| waiter.end <= position, &WaitOutcome::Reached);
            self.reached.fetch_add(answered, Ordering::Relaxed);
        }
    }

    /// Calls `done` when the watermark reaches `end`, at `deadline`, or when it is certain that the watermark will
    /// not reach `end`. If the outcome is known, `done` runs at once on this thread. `refusal` returns a reason if
    /// waits are rejected now. Code that causes a refusal must call [`Self::fail`] afterwards. Returns whether the
    /// caller waits.
    pub(crate) fn when(
        &self,
        end: u64,
        deadline: Option<Instant>,
        refusal: impl FnOnce() -> Option<String>,
        done: Callback,
    ) -> bool {
        if self.get() >= end {
            done(WaitOutcome::Reached);
            return false;
        }
        let refused = {
            let mut waiters = lock(&self.waiters);
            match waiters.closed.clone().or_else(refusal) {
                Some(reason) => Some((done, reason)),
                None => {
                    waiters.list.push_back(Waiter { end, deadline, done });
                    self.is_awaited.store(true, Ordering::SeqCst);
                    None
                }
            }
        };
        if let Some((done, reason)) = refused {
            done(WaitOutcome::Failed(reason));
            return false;
        }
        if self.get() >= end {
            self.answer();
        }
        true
    }

    /// Answers all waiters whose deadline is at or before `now`.
    pub(crate) fn expire(&self, now: Instant) {
        let is_over = |waiter: &Waiter| waiter.deadline.is_some_and(|deadline| deadline <= now);
        self.answer_waiters(is_over, &WaitOutcome::TimedOut);
    }

    /// Returns the earliest deadline of the waiters.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        lock(&self.waiters).list.iter().filter_map(|waiter| waiter.deadline).min()
    }

    /// Answers all waiters for a position behind `beyond` that the watermark will not reach it.
    pub(crate) fn fail(&self, beyond: u64, reason: &str) {
        self.answer_waiters(|waiter| waiter.end > beyond, &WaitOutcome::Failed(reason.to_owned()));
    }

    /// Answers all waiters that the watermark no longer moves.
    pub(crate) fn abandon(&self) {
        self.answer();
        self.answer_waiters(|_| true, &WaitOutcome::Abandoned);
    }

    /// Answers all waiters for the last time and rejects later waits.
    pub(crate) fn close(&self, reason: &str) {
        lock(&self.waiters).closed = Some(reason.to_owned());
        self.answer();
        self.fail(0, reason);
    }

    /// Answers the waiters that `ready` selects. Returns their number.
    fn answer_waiters(&self, ready: impl Fn(&Waiter) -> bool, outcome: &WaitOutcome) -> u64 {
        let taken: VecDeque<Waiter> = {
            let mut waiters = lock(&self.waiters);
            let list = std::mem::take(&mut waiters.list);
            let (taken, kept) = if list.iter().all(&ready) {
                (list, VecDeque::new())
            } else {
                list.into_iter().partition(&ready)
            };
            self.is_awaited.store(!kept.is_empty(), Ordering::SeqCst);
            waiters.list = kept;
            taken
        };
        let count = taken.len() as u64;
        // Callbacks run without the lock: one may wait for the next position.
        taken.into_iter().for_each(|waiter| (waiter.done)(outcome.clone()));
        count
    }
}

/// Time at which the deadline thread next checks the waiters.
pub(crate) struct Deadlines {
    pub(crate) wake: Wake,
    /// Deadline until which the deadline thread sleeps, in ms since `origin`; zero while it is awake.
    sleeps_until_ms: AtomicU64,
    origin: Instant,
}

impl Deadlines {
    pub(crate) fn new(origin: Instant) -> Self {
        Self { wake: Wake::default(), sleeps_until_ms: AtomicU64::new(0), origin }
    }

    fn ms(&self, deadline: Option<Instant>) -> u64 {
        let since = deadline.map(|deadline| deadline.saturating_duration_since(self.origin).as_millis());
        since.and_then(|ms| u64::try_from(ms).ok()).unwrap_or(u64::MAX)
    }

    /// Wakes the thread if it would sleep longer than until this deadline of a new waiter.
    pub(crate) fn add(&self, deadline: Instant) {
        if self.ms(Some(deadline)) < self.sleeps_until_ms.load(Ordering::SeqCst) {
            self.wake.wake();
        }
    }

    /// Returns the time at which the thread must check the deadlines again. `earliest` finds the earliest
    /// deadline.
    pub(crate) fn next(&self, earliest: impl Fn() -> Option<Instant>) -> Next {
        let until = earliest();
        self.sleeps_until_ms.store(self.ms(until), Ordering::SeqCst);
        // A waiter that came after the call of `earliest` did not know yet until when the thread sleeps.
        let is_late = earliest().is_some_and(|earliest| until.is_none_or(|until| earliest < until));
        if is_late { Next::Now } else { until.map_or(Next::Woken, Next::At) }
    }

    /// Marks that the thread checks the deadlines now, so that no wake-up is needed.
    pub(crate) fn looking(&self) {
        self.sleeps_until_ms.store(0, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests;
