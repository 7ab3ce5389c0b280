//! Engines: parts of the broker that act without a request, such as the delivery of delayed messages. An engine has
//! no thread and no clock. Its runner ([`crate::shell`], or a test) calls [`Engine::round`] with the time. It calls
//! again at the time that the round returned, or when the engine is woken.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;

use parking_lot::Mutex;

/// Index of the task thread for tasks that must be on time.
pub(crate) const PUNCTUAL: usize = 0;

/// Index of the task thread for tasks that may wait for the disk.
pub(crate) const BLOCKING: usize = 1;

/// When an engine's next round is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Runs at this time in milliseconds since 1970, or earlier if the engine is woken. A past time means at once.
    At(i64),
    /// Runs only when the engine is woken.
    Woken,
}

impl Next {
    /// The earlier of two times.
    pub(crate) fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::At(one), Self::At(two)) => Self::At(one.min(two)),
            (Self::At(_), Self::Woken) => self,
            (Self::Woken, _) => other,
        }
    }
}

/// A part of the broker that acts by itself. Calls of [`Self::round`] before the time it asked for do no harm.
pub(crate) trait Engine: Send {
    /// Does the work that is due at `now_ms` (milliseconds since 1970) and returns the time of the next round.
    fn round(&mut self, now_ms: i64) -> Next;

    /// Does the remaining work when the broker stops. No round follows.
    fn stop(&mut self) {}
}

impl<F: FnMut(i64) -> Next + Send> Engine for F {
    fn round(&mut self, now_ms: i64) -> Next {
        self(now_ms)
    }
}

/// Wakes an engine on a thread before its time, and stops that thread.
#[derive(Debug, Default)]
pub(crate) struct Wakeup {
    thread: Mutex<Option<Thread>>,
    /// Set by wakers, cleared before each round. The token of [`Thread::unpark`] alone is not enough, because a wait
    /// within a round may take it.
    pending: AtomicBool,
    stopping: AtomicBool,
}

impl Wakeup {
    /// Makes the engine run a round at once. Does nothing for an engine without a thread.
    pub(crate) fn wake(&self) {
        self.pending.store(true, Ordering::Release);
        if let Some(thread) = &*self.thread.lock() {
            thread.unpark();
        }
    }

    /// Sets the thread to wake.
    pub(crate) fn attach(&self, thread: Thread) {
        *self.thread.lock() = Some(thread);
    }

    /// Prepares the engine for a new thread, after the former thread has ended.
    pub(crate) fn restart(&self) {
        *self.thread.lock() = None;
        self.stopping.store(false, Ordering::Release);
    }

    /// Stops the engine's thread.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake();
    }

    /// Begins a round. Later wake-ups cause another round.
    pub(crate) fn begin_round(&self) {
        // Swapped and not stored, so that the round sees what the waker did before.
        self.pending.swap(false, Ordering::AcqRel);
    }

    /// Whether the engine was woken since the round began.
    pub(crate) fn is_pending(&self) -> bool {
        self.pending.load(Ordering::Acquire)
    }

    /// Whether the engine's thread must end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}

/// An engine that does `work` at regular intervals, first an interval after its first round.
pub(crate) fn every<P: Send>(parts: P, interval_ms: fn(&P) -> u64, work: fn(&P, i64)) -> impl Engine {
    let mut every = Every::default();
    move |now_ms: i64| {
        let interval_ms = i64::try_from(interval_ms(&parts)).unwrap_or(i64::MAX);
        if every.is_due(now_ms, interval_ms) {
            work(&parts, now_ms);
        }
        every.next(interval_ms)
    }
}

/// Work that is due at regular intervals.
#[derive(Debug, Default)]
pub(crate) struct Every {
    /// When the work was last due, in milliseconds since 1970. `None` before the first call of [`Self::is_due`].
    last_ms: Option<i64>,
}

impl Every {
    /// Work that is due at the first call of [`Self::is_due`]. [`Every::default`] is due one interval after that call.
    pub(crate) fn at_once() -> Self {
        Self { last_ms: Some(i64::MIN) }
    }

    /// Whether the work is due. If so, it is due again an interval after its due time, or an interval from now if a
    /// whole interval was missed. A clock that is set back begins a new interval.
    pub(crate) fn is_due(&mut self, now_ms: i64, interval_ms: i64) -> bool {
        let last_ms = self.last_ms.get_or_insert(now_ms);
        *last_ms = (*last_ms).min(now_ms);
        let late_ms = now_ms.saturating_sub(*last_ms).saturating_sub(interval_ms);
        if late_ms < 0 {
            return false;
        }
        *last_ms = if late_ms < interval_ms { *last_ms + interval_ms } else { now_ms };
        true
    }

    /// When the work is due again. To be called after [`Self::is_due`].
    pub(crate) fn next(&self, interval_ms: i64) -> Next {
        Next::At(self.last_ms.unwrap_or(i64::MIN).saturating_add(interval_ms))
    }

    /// Begins a new interval at `now_ms`.
    pub(crate) fn restart(&mut self, now_ms: i64) {
        self.last_ms = Some(now_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earlier_time_counts() {
        assert_eq!(Next::At(3).or(Next::At(2)), Next::At(2));
        assert_eq!(Next::Woken.or(Next::At(2)), Next::At(2));
        assert_eq!(Next::At(2).or(Next::Woken), Next::At(2));
    }

    #[test]
    fn regular_work_keeps_its_beat_and_follows_a_clock_that_is_set_back() {
        let mut work = Every::default();
        let asked = [1000, 1099, 1100, 1110, 1205, 1299, 1300, 1900, 1950, 2000];
        let due = [false, false, true, false, true, false, true, true, false, true];
        assert_eq!(asked.map(|now_ms| work.is_due(now_ms, 100)), due);
        assert_eq!(work.next(100), Next::At(2100));
        assert_eq!([500, 599, 600].map(|now_ms| work.is_due(now_ms, 100)), [false, false, true]);
        assert!(work.is_due(650, 50), "a shorter interval counts at once");
        assert!(Every::at_once().is_due(1, 100));
    }
}
