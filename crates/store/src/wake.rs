//! Sleep and wake-up of background threads: a thread sleeps until woken or until a deadline, and waking a busy thread costs
//! no system call.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// A wake-up channel: one sleeping thread and any number of wakers.
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

    /// Sleeps until woken, or until `deadline` if there is one. Must always be called by the same thread.
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

/// Locks a mutex, also a poisoned one: every holder in this crate leaves the data consistent at each step or fences the
/// store.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poison| poison.into_inner())
}
