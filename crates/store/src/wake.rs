//! How background threads sleep: until woken or until a time, with wake-ups that cost nothing while the
//! thread is busy anyway.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// One sleeper and any number of wakers.
#[derive(Default)]
pub(crate) struct Wake {
    /// Set by wakers, cleared by the sleeper when it goes to look for work.
    pending: AtomicBool,
    lock: Mutex<()>,
    condition: Condvar,
}

impl Wake {
    /// Wakes the sleeper, or lets its next sleep end at once. Only the first call since the sleeper last
    /// looked costs more than one atomic operation.
    pub(crate) fn wake(&self) {
        if !self.pending.swap(true, Ordering::AcqRel) {
            drop(lock(&self.lock));
            self.condition.notify_one();
        }
    }

    /// Sleeps until woken or, if there is one, until the deadline.
    pub(crate) fn sleep(&self, deadline: Option<Instant>) {
        let mut guard = lock(&self.lock);
        while !self.pending.swap(false, Ordering::AcqRel) {
            let Some(deadline) = deadline else {
                guard = self.condition.wait(guard).unwrap_or_else(|poison| poison.into_inner());
                continue;
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                return;
            }
            guard = self.condition.wait_timeout(guard, left).unwrap_or_else(|poison| poison.into_inner()).0;
        }
    }
}

/// Locks a mutex; a panic of another holder does not make its data unusable here, because every holder in
/// this crate leaves it consistent at each step or fences the store.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poison| poison.into_inner())
}
