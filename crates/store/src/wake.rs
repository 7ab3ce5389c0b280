//! Sleep and wake-up of background threads: a thread sleeps until woken or until a deadline, and waking a busy thread costs
//! no system call.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// Wake-up channel with a single sleeping thread and any number of wakers.
#[derive(Default)]
pub(crate) struct Wake {
    /// Set by wakers, cleared by the sleeper before it looks for work. Both swap it after the sleeper has registered itself,
    /// so either the waker finds the thread, or the sleeper finds the flag before it sleeps.
    pending: AtomicBool,
    sleeper: OnceLock<Thread>,
}

impl Wake {
    /// Wakes the sleeper, or makes its next sleep return at once. Costs a system call only when the thread sleeps.
    pub(crate) fn wake(&self) {
        if !self.pending.swap(true, Ordering::AcqRel)
            && let Some(sleeper) = self.sleeper.get()
        {
            sleeper.unpark();
        }
    }

    /// Whether the sleeper was woken since the last call, for an engine without a thread.
    pub(crate) fn take(&self) -> bool {
        self.pending.swap(false, Ordering::AcqRel)
    }

    /// Sleeps until woken, or until `deadline` if there is one. The same thread must call it always.
    #[expect(clippy::disallowed_methods, reason = "the one place where a thread of the store sleeps")]
    pub(crate) fn sleep(&self, deadline: Option<Instant>) {
        let sleeper = self.sleeper.get_or_init(thread::current);
        debug_assert_eq!(sleeper.id(), thread::current().id(), "another thread sleeps here");
        while !self.pending.swap(false, Ordering::AcqRel) {
            let Some(deadline) = deadline else {
                thread::park();
                continue;
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                return;
            }
            thread::park_timeout(left);
        }
    }
}

/// Signals between the appender and the engines of a store: wake-ups and stop requests.
#[derive(Default)]
pub(crate) struct Signals {
    pub(crate) flush: Wake,
    pub(crate) checkpoint: Wake,
    pub(crate) journal: Wake,
    pub(crate) preallocation: Wake,
    /// Whether the flush thread sleeps without work. Set by that thread, cleared by threads that wake it, and paired
    /// with the watermark `appended`.
    pub(crate) flush_idle: AtomicBool,
    /// Whether the checkpoint thread sleeps without work. Set by that thread, cleared by threads that wake it, and
    /// paired with the watermark `appended`.
    pub(crate) checkpoint_idle: AtomicBool,
    /// Whether all engines except the flusher must end.
    pub(crate) stopping: AtomicBool,
    pub(crate) flusher_stops: AtomicBool,
}

/// When an engine wants its next round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// At once.
    Now,
    /// At this time, or earlier when the engine is woken.
    At(Instant),
    /// When the engine is woken.
    Woken,
    /// Never: the store is closed, or fenced and the engine has no further work.
    Over,
}

/// Clock of a store: the machine's clock, or a time that the caller sets when the store has no threads.
pub(crate) struct Clock(Option<Mutex<Instant>>);

impl Clock {
    /// Makes a machine clock, or a clock that stands at `fixed`.
    pub(crate) fn new(fixed: Option<Instant>) -> Self {
        Self(fixed.map(Mutex::new))
    }

    #[expect(clippy::disallowed_methods, reason = "the one place where the store asks for the time")]
    pub(crate) fn now(&self) -> Instant {
        self.0.as_ref().map_or_else(Instant::now, |now| *lock(now))
    }

    /// Whether the store has threads, and with them the machine's clock.
    pub(crate) fn has_threads(&self) -> bool {
        self.0.is_none()
    }

    /// Sets the clock of a store without threads; `false` when the store has threads.
    pub(crate) fn set(&self, now: Instant) -> bool {
        self.0.as_ref().is_some_and(|clock| {
            *lock(clock) = now;
            true
        })
    }

    /// Lets other threads run first for a while. Does nothing in a store without threads.
    pub(crate) fn pause(&self, wake: &Wake, length: Duration) {
        if self.has_threads() {
            wake.sleep(Some(self.now() + length));
        }
    }
}

/// Locks a mutex, even if poisoned: every holder in this crate leaves the data consistent at each step or fences the
/// store.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poison| poison.into_inner())
}
