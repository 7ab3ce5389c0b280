//! Watches whether the disk finishes writes and flushes of the log.
//!
//! A disk that hangs or is very slow reports no error, so no other check notices the disk. In controller mode the
//! broker gives up the role of master after `diskStallTimeoutMillis`. Without controllers no other broker can take
//! the role, so the log and the status name the disk.

use std::time::Duration;

use parking_lot::Mutex;
use store::OperationsInFlight;

/// Pause in milliseconds between two checks.
pub(crate) const DISK_LOOK_MS: i64 = 500;

/// Longest time that counts between two checks. A stopped process (SIGSTOP, a frozen cgroup) does not know the disk's
/// state meanwhile.
const COUNTED_MAX: Duration = Duration::from_millis(2 * DISK_LOOK_MS as u64);

/// An operation that was unfinished at the last check, and the time for which checks have seen the operation.
#[derive(Clone, Copy, Default)]
struct Seen {
    number: Option<u64>,
    pending: Duration,
    is_logged: bool,
}

impl Seen {
    /// Records the operation that is unfinished `passed` after the last check.
    fn look(&mut self, passed: Duration, number: Option<u64>) {
        if self.number != number || number.is_none() {
            *self = Self { number, ..Self::default() };
        } else {
            self.pending += passed;
        }
    }

    /// Time for which the operation is pending; zero if another operation than `number` is unfinished now.
    fn pending(&self, number: Option<u64>) -> Duration {
        if self.number == number { self.pending } else { Duration::ZERO }
    }

    /// Whether an operation that takes at least `bound` is seen for the first time.
    fn is_new(&mut self, bound: Duration) -> bool {
        !bound.is_zero() && self.pending >= bound && !std::mem::replace(&mut self.is_logged, true)
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

#[derive(Default)]
struct Looks {
    last: Duration,
    write: Seen,
    flush: Seen,
}

/// Watch of a store's disk operations.
#[derive(Default)]
pub(crate) struct DiskWatch(Mutex<Looks>);

impl DiskWatch {
    /// Checks the unfinished operations at `now`. Returns an operation that has just become pending for `bound` or
    /// longer, if any.
    pub(crate) fn look(
        &self,
        now: Duration,
        unfinished: OperationsInFlight,
        bound: Duration,
    ) -> Option<&'static str> {
        let mut watch = self.0.lock();
        let passed = now.saturating_sub(std::mem::replace(&mut watch.last, now)).min(COUNTED_MAX);
        watch.write.look(passed, unfinished.write);
        watch.flush.look(passed, unfinished.flush);
        let is_flush = watch.flush.is_new(bound);
        watch.write.is_new(bound).then_some("write").or(is_flush.then_some("flush"))
    }

    /// Returns for how long each of the `unfinished` operations was pending at the last check.
    pub(crate) fn pending(&self, unfinished: OperationsInFlight) -> Pending {
        let watch = self.0.lock();
        Pending { write: watch.write.pending(unfinished.write), flush: watch.flush.pending(unfinished.flush) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch_at(
        watch: &DiskWatch,
        (ms, write, flush): (u64, Option<u64>, Option<u64>),
    ) -> (u128, u128, Option<&'static str>) {
        let unfinished = OperationsInFlight { write, flush };
        let what = watch.look(Duration::from_millis(ms), unfinished, Duration::from_secs(3));
        let pending = watch.pending(unfinished);
        (pending.write.as_millis(), pending.flush.as_millis(), what)
    }

    #[test]
    fn an_operation_is_pending_from_the_first_look_that_saw_it_until_another_one_is_seen() {
        let watch = DiskWatch::default();
        let at = |ms, write, flush| watch_at(&watch, (ms, write, flush));
        assert_eq!(at(1_000, None, Some(7)), (0, 0, None));
        assert_eq!(at(2_000, None, Some(7)), (0, 1_000, None));
        assert_eq!(at(2_900, None, Some(7)), (0, 1_900, None));
        assert_eq!(at(3_900, None, Some(7)), (0, 2_900, None));
        assert_eq!(at(4_000, None, Some(7)), (0, 3_000, Some("flush")));
        assert_eq!(at(5_000, Some(3), Some(7)), (0, 4_000, None), "it is told once");
        assert_eq!(at(6_000, Some(3), Some(9)), (1_000, 0, None), "another flush");
        assert_eq!(at(7_000, Some(3), None), (2_000, 0, None));
        assert_eq!(at(8_000, Some(3), None), (3_000, 0, Some("write")));
        assert_eq!(at(9_000, None, None), (0, 0, None));
    }

    #[test]
    fn a_process_that_was_stopped_has_no_slow_disk() {
        let watch = DiskWatch::default();
        let at = |ms, write, flush| watch_at(&watch, (ms, write, flush));
        assert_eq!(at(1_000, Some(3), Some(7)), (0, 0, None));
        assert_eq!(at(61_000, Some(3), Some(7)), (1_000, 1_000, None), "stopped for a minute");
        let now = OperationsInFlight { write: Some(5), flush: None };
        assert_eq!(watch.pending(now), Pending::default(), "both have ended since");
        assert_eq!(at(62_000, Some(3), Some(7)), (2_000, 2_000, None));
        assert_eq!(at(63_000, Some(3), Some(7)), (3_000, 3_000, Some("write")));
    }
}
