//! Wake-ups of requests that wait at queues whose messages consumers do not see yet.

use std::sync::Arc;
use std::time::Duration;

use store::{FlushOutcome, WaitOutcome};
use wire::units::LogOffset;

use super::Delivery;
use crate::topics::Queue;

/// Duration of a wait for the confirm offset, after which the wait is repeated.
const CONFIRM_WAIT: Duration = Duration::from_secs(600);

impl Delivery {
    /// Wakes suspended pulls and pops of `queues` once consumers may see the log up to `end`, however long that takes.
    pub(crate) fn wake_when_visible(self: &Arc<Self>, end: LogOffset, queues: Vec<Arc<Queue>>) {
        if !self.replication.durability.waits_for_flush() {
            return self.wake_when_confirmed(end, queues);
        }
        let delivery = self.clone();
        let flushed = move |outcome| delivery.wake_flushed(end, queues, &outcome);
        self.tables.store.when_flushed(end, Box::new(flushed));
    }

    /// Continues with [`Self::wake_when_visible`] after the flush of the log up to `end`. Waits again after a
    /// timeout.
    pub(crate) fn wake_flushed(
        self: &Arc<Self>,
        end: LogOffset,
        queues: Vec<Arc<Queue>>,
        outcome: &FlushOutcome,
    ) {
        match outcome {
            FlushOutcome::TimedOut => self.wake_when_visible(end, queues),
            FlushOutcome::Flushed | FlushOutcome::Failed(_) => self.wake_when_confirmed(end, queues),
        }
    }

    fn wake_when_confirmed(self: &Arc<Self>, end: LogOffset, queues: Vec<Arc<Queue>>) {
        let delivery = self.clone();
        let done = move |outcome| match outcome {
            WaitOutcome::TimedOut => delivery.wake_when_confirmed(end, queues),
            WaitOutcome::Reached | WaitOutcome::Failed(_) | WaitOutcome::Abandoned => {
                queues.iter().for_each(|queue| delivery.wake(queue))
            }
        };
        self.tables.store.when_confirmed(end, CONFIRM_WAIT, Box::new(done));
    }
}
