//! Which messages consumers may see: with sync flush only those on disk, so that no consumer gets an offset that another
//! message would have after a power cut.

use std::sync::Arc;

use store::{FlushOutcome, Read, Unit};
use wire::units::{LogOffset, QueueOffset};

use crate::broker::Broker;
use crate::topics::Queue;

impl Broker {
    /// The end offset of a queue as consumers see it: the offset behind the last message they may read.
    pub(crate) fn visible_end(&self, queue: &Queue) -> i64 {
        // The order matters: everything before `max` was appended before the end of the log is read below.
        let max = queue.index.max();
        if !self.flushes_before_answer() {
            return max.to_i64();
        }
        let flushed = self.store.flushed();
        if flushed >= self.store.appended() {
            return max.to_i64();
        }
        let mut units: Vec<Unit> = Vec::new();
        let on_disk = |end: u64| {
            units.clear();
            // Index units of records that are not on disk are always in memory, so a unit that is not resident counts as on disk.
            let read = queue.index.units(QueueOffset::new(end - 1), 1, &mut units);
            !matches!(read, Ok(Read::Done))
                || units.first().is_none_or(|unit| unit.is_blank() || unit.end() <= flushed)
        };
        end_on_disk(queue.index.min().get(), max.get(), on_disk).cast_signed()
    }

    /// Wakes suspended pulls and pops of `queues` once the log is on disk up to `end`, however long that takes.
    pub(crate) fn wake_when_flushed(self: Arc<Self>, end: LogOffset, queues: Vec<Arc<Queue>>) {
        let store = self.store.clone();
        store.when_flushed(end, Box::new(move |outcome| self.wake_flushed(end, queues, &outcome)));
    }

    /// Wakes suspended pulls and pops of `queues` when the flush of the log up to `end` is over; waits on when it timed out.
    pub(crate) fn wake_flushed(
        self: Arc<Self>,
        end: LogOffset,
        queues: Vec<Arc<Queue>>,
        outcome: &FlushOutcome,
    ) {
        match outcome {
            FlushOutcome::TimedOut => self.wake_when_flushed(end, queues),
            FlushOutcome::Flushed | FlushOutcome::Failed(_) => {
                queues.iter().for_each(|queue| self.wake(queue))
            }
        }
    }
}

/// The largest end from `min` to `max` for which `on_disk` holds, or `min`. Only the newest few messages are not on disk, so
/// the search begins there, in steps that double.
fn end_on_disk(min: u64, max: u64, mut on_disk: impl FnMut(u64) -> bool) -> u64 {
    if max <= min || on_disk(max) {
        return max;
    }
    // Invariant: everything before `low` is on disk, the unit before `high` is not.
    let (mut high, mut step) = (max, 1);
    let mut low = loop {
        let low = high.saturating_sub(step).max(min);
        if low == min || on_disk(low) {
            break low;
        }
        (high, step) = (low, step * 2);
    };
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        if on_disk(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::end_on_disk;

    proptest! {
        #[test]
        fn the_end_on_disk_is_found_without_looking_far_back(min in 0_u64..100, old in 0_u64..1 << 40, new in 0_u64..5000) {
            let (durable, max) = (min + old, min + old + new);
            let mut farthest = max;
            let found = end_on_disk(min, max, |end| {
                farthest = farthest.min(end);
                end <= durable
            });
            prop_assert_eq!(found, durable);
            prop_assert!(max - farthest <= 2 * new, "{} units looked back for {new}", max - farthest);
        }
    }
}
