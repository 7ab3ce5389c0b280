//! How background threads sleep: until woken or until a time, with wake-ups that cost nothing while the
//! thread is busy anyway.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// One sleeping thread and any number of wakers.
#[derive(Default)]
pub(crate) struct Wake {
    /// Set by wakers, cleared by the sleeper when it goes to look for work. Both swap it after the sleeper has made itself
    /// known, so that a waker either finds the thread, or its mark is found before the thread sleeps.
    pending: AtomicBool,
    sleeper: OnceLock<Thread>,
}

impl Wake {
    /// Wakes the sleeper, or lets its next sleep end at once. Costs a system call only when it sleeps.
    pub(crate) fn wake(&self) {
        if !self.pending.swap(true, Ordering::AcqRel)
            && let Some(sleeper) = self.sleeper.get()
        {
            sleeper.unpark();
        }
    }

    /// Sleeps until woken or, if there is one, until the deadline. Always called by the same thread.
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

/// Locks a mutex; a panic of another holder does not make its data unusable here, because every holder in
/// this crate leaves it consistent at each step or fences the store.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poison| poison.into_inner())
}
