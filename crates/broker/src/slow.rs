//! Log of operations that took longer than 100 ms, with the cause of the wait.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// Duration above which an operation is logged.
const SLOW: Duration = Duration::from_millis(100);

/// Shortest time between two lines about a cause, because a stall of a disk makes thousands of operations slow.
const LINE_INTERVAL_MS: i64 = 1000;

/// Cause of a slow operation's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitCause {
    /// The lock of the log, or writing the log to the page cache.
    Append,
    /// The flush of the log to the disk.
    Flush,
    /// Slaves that must have the log.
    Slaves,
    /// Messages that are in the page cache.
    MemoryRead,
    /// Reading from the disk, or the work of an operator's request.
    DiskRead,
    /// A thread of the disk pool.
    DiskPool,
    /// Metadata writer, which writes topics and groups, and registers topics with name servers.
    MetadataWriter,
}

/// Name of each cause in the log, in the order of [`WaitCause`].
const NAMES: [(WaitCause, &str); 7] = [
    (WaitCause::Append, "append to the log"),
    (WaitCause::Flush, "flush"),
    (WaitCause::Slaves, "slaves"),
    (WaitCause::MemoryRead, "read from memory"),
    (WaitCause::DiskRead, "read from disk"),
    (WaitCause::DiskPool, "a thread of the disk pool"),
    (WaitCause::MetadataWriter, "metadata writer"),
];

/// The slow operations that were not logged yet, by cause.
#[derive(Default)]
pub(crate) struct SlowOperations([Unlogged; NAMES.len()]);

#[derive(Default)]
struct Unlogged {
    /// Operations since the last line.
    count: AtomicU64,
    /// When the next line may be written, in milliseconds since the epoch.
    line_ms: AtomicI64,
}

impl SlowOperations {
    /// Logs a slow operation. Each cause gets at most one line a second, which includes the number of slow operations
    /// since the last line.
    pub(crate) fn note(
        &self,
        now_ms: impl FnOnce() -> i64,
        operation: &str,
        cause: WaitCause,
        took: Duration,
    ) {
        if took < SLOW {
            return;
        }
        if let Some(slow_operations) = self.due(now_ms(), cause) {
            let (took_ms, cause) = (took.as_millis(), NAMES[cause as usize].1);
            tracing::warn!(operation, cause, took_ms, slow_operations, "a slow operation");
        }
    }

    /// Counts a slow operation. How many there were since the last line, when a line is due.
    fn due(&self, now_ms: i64, cause: WaitCause) -> Option<u64> {
        let Unlogged { count, line_ms } = &self.0[cause as usize];
        count.fetch_add(1, Ordering::Relaxed);
        let due_ms = line_ms.load(Ordering::Relaxed);
        // A clock that was set back must not silence the log.
        if (due_ms - LINE_INTERVAL_MS..due_ms).contains(&now_ms) {
            return None;
        }
        let next_ms = now_ms + LINE_INTERVAL_MS;
        line_ms.compare_exchange(due_ms, next_ms, Ordering::Relaxed, Ordering::Relaxed).ok()?;
        Some(count.swap(0, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_its_name() {
        for (index, (cause, name)) in NAMES.into_iter().enumerate() {
            assert_eq!(cause as usize, index, "{name} stands where its cause does");
        }
    }

    #[test]
    fn one_line_a_second_tells_of_all_slow_operations_of_a_cause() {
        let slow = SlowOperations::default();
        let due = |now_ms| slow.due(now_ms, WaitCause::Flush);
        assert_eq!(due(10_000), Some(1));
        assert_eq!([due(10_000), due(10_999)], [None, None]);
        assert_eq!(slow.due(10_500, WaitCause::Append), Some(1), "causes do not silence each other");
        assert_eq!(due(11_000), Some(3));
        assert_eq!(due(11_001), None);
        assert_eq!(due(5_000), Some(2), "the clock was set back");
    }

    #[test]
    fn what_is_not_slow_is_not_counted() {
        let slow = SlowOperations::default();
        slow.note(|| 0, "SEND_MESSAGE", WaitCause::Append, SLOW - Duration::from_nanos(1));
        assert_eq!(slow.due(10_000, WaitCause::Append), Some(1));
    }
}
