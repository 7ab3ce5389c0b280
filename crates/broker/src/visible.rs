//! What consumers may see: under sync flush only what is on disk, so that no consumer ever holds an offset that a power cut
//! gives to another message.

use std::sync::Arc;

use store::{FlushOutcome, Unit};
use wire::units::{LogOffset, QueueOffset};

use crate::broker::Broker;
use crate::topics::Queue;

impl Broker {
    /// End of the queue as consumers see it.
    pub(crate) fn visible_end(&self, queue: &Queue) -> i64 {
        // In this order: what the queue shows was appended before the end of the log is read.
        let max = queue.log.max();
        if !self.flushes_before_answer() {
            return max.to_i64();
        }
        let flushed = self.store.flushed();
        if flushed >= self.store.appended() {
            return max.to_i64();
        }
        let mut units: Vec<Unit> = Vec::new();
        let mut on_disk = |end: u64| {
            units.clear();
            let read = queue.log.units_blocking(QueueOffset::new(end - 1), 1, &mut units);
            // A unit that is not on disk is in memory, where it can be read.
            read.is_err() || units.first().is_none_or(|unit| unit.end() <= flushed)
        };
        let mut low = queue.log.min().get();
        let mut high = max.get();
        if high <= low || on_disk(high) {
            return max.to_i64();
        }
        // Invariant: everything before `low` is on disk, the unit before `high` is not.
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            if on_disk(middle) {
                low = middle;
            } else {
                high = middle;
            }
        }
        low.cast_signed()
    }

    /// Wakes those who wait at `queues` once the log is on disk up to `end`, however long that takes.
    pub(crate) fn wake_when_flushed(self: Arc<Self>, end: LogOffset, queues: Vec<Arc<Queue>>) {
        let store = self.store.clone();
        store.when_flushed(end, Box::new(move |outcome| self.wake_flushed(end, queues, &outcome)));
    }

    /// Wakes those who wait at `queues` after a flush of the log up to `end`, or waits on when it takes longer.
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
