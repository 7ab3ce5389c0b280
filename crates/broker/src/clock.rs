//! The broker's clock, and pauses of its tasks. No other code of the broker asks the system for the time of day.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Clock: the system's clock, or a clock that is set by hand.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    /// The time of a clock that is set by hand, in milliseconds since 1970.
    set_ms: Option<Arc<AtomicI64>>,
    /// The moment from which [`Self::steady`] counts.
    origin: Instant,
}

impl Default for Clock {
    #[expect(clippy::disallowed_methods, reason = "the one place where the broker asks for the time of day")]
    fn default() -> Self {
        Self { set_ms: None, origin: Instant::now() }
    }
}

impl Clock {
    /// A clock that stands at `now_ms` until [`Self::set`] is called. Clones of it show the same time.
    #[cfg(test)]
    pub(crate) fn standing(now_ms: i64) -> Self {
        Self { set_ms: Some(Arc::new(AtomicI64::new(now_ms))), ..Self::default() }
    }

    /// Sets a clock that was made by [`Self::standing`].
    #[cfg(test)]
    pub(crate) fn set(&self, now_ms: i64) {
        self.set_ms.as_ref().unwrap().store(now_ms, Ordering::SeqCst);
    }

    /// The time in milliseconds since 1970.
    #[expect(clippy::disallowed_methods, reason = "the one place where the broker asks for the time of day")]
    pub(crate) fn now_ms(&self) -> i64 {
        if let Some(set_ms) = &self.set_ms {
            return set_ms.load(Ordering::SeqCst);
        }
        let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX)
    }

    /// Time since an arbitrary moment, for measuring durations. Changes of the system's clock do not affect
    /// it. A clock that is set by hand always returns the same duration.
    #[expect(clippy::disallowed_methods, reason = "the one place where the broker asks for the time of day")]
    pub(crate) fn steady(&self) -> Duration {
        match &self.set_ms {
            Some(set_ms) => Duration::from_millis(set_ms.load(Ordering::SeqCst).unsigned_abs()),
            None => self.origin.elapsed(),
        }
    }
}

/// Suspends a task for a while.
#[expect(clippy::disallowed_methods, reason = "the one place where a task of the broker sleeps")]
pub(crate) async fn pause(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// Waits for a future, at most for `patience`. Returns `None` after a longer time.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place where a task of the broker waits with a deadline"
)]
pub(crate) async fn within<F: Future>(patience: Duration, future: F) -> Option<F::Output> {
    tokio::time::timeout(patience, future).await.ok()
}
