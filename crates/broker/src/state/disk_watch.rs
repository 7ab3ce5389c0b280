//! Watches whether the disk finishes writes and flushes of the log.
//!
//! A disk that hangs or is very slow reports no error, so no other check notices the disk. In controller mode the broker gives up
//! the role of master after `diskStallTimeoutMillis`. Without controllers no other broker can take the role: the log and the status
//! name the disk.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use store::Unfinished;

/// An operation that was unfinished at the last check, and the time of its first check.
#[derive(Clone, Copy, Default)]
struct Seen {
    number: Option<u64>,
    since: Duration,
    is_logged: bool,
}

impl Seen {
    /// Notes the unfinished operation, and returns the time since the operation was first seen.
    fn look(&mut self, now: Duration, number: Option<u64>) -> Duration {
        if self.number != number {
            *self = Self { number, since: now, is_logged: false };
        }
        if number.is_some() { now.saturating_sub(self.since) } else { Duration::ZERO }
    }

    /// Whether an operation that takes at least `bound` is seen for the first time.
    fn is_new(&mut self, pending: Duration, bound: Duration) -> bool {
        !bound.is_zero() && pending >= bound && !std::mem::replace(&mut self.is_logged, true)
    }
}

/// Times for which operations on the log are pending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pending {
    /// Time of the write of an append.
    pub write: Duration,
    /// Time of the flush.
    pub flush: Duration,
}

/// The watch of one store.
#[derive(Default)]
pub(crate) struct DiskWatch(Mutex<(Seen, Seen, Pending)>);

impl DiskWatch {
    /// Checks the unfinished operations at `now`. Returns an operation that has just become pending for `bound` or longer, if there
    /// is such an operation.
    pub(crate) fn look(
        &self,
        now: Duration,
        unfinished: Unfinished,
        bound: Duration,
    ) -> Option<&'static str> {
        let mut watch = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (write, flush, pending) = &mut *watch;
        pending.write = write.look(now, unfinished.write);
        pending.flush = flush.look(now, unfinished.flush);
        let is_flush = flush.is_new(pending.flush, bound);
        write.is_new(pending.write, bound).then_some("write").or(is_flush.then_some("flush"))
    }

    /// Times for which operations were pending at the last look.
    pub(crate) fn pending(&self) -> Pending {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_pending_from_the_first_look_that_saw_it_until_another_one_is_seen() {
        let (watch, bound) = (DiskWatch::default(), Duration::from_secs(3));
        let at = |ms, write, flush| {
            let what = watch.look(Duration::from_millis(ms), Unfinished { write, flush }, bound);
            let pending = watch.pending();
            (pending.write.as_millis(), pending.flush.as_millis(), what)
        };
        assert_eq!(at(1_000, None, Some(7)), (0, 0, None));
        assert_eq!(at(3_900, None, Some(7)), (0, 2_900, None));
        assert_eq!(at(4_000, None, Some(7)), (0, 3_000, Some("flush")));
        assert_eq!(at(5_000, Some(3), Some(7)), (0, 4_000, None), "it is told once");
        assert_eq!(at(6_000, Some(3), Some(9)), (1_000, 0, None), "another flush");
        assert_eq!(at(8_000, Some(3), None), (3_000, 0, Some("write")));
        assert_eq!(at(9_000, None, None), (0, 0, None));
    }
}
