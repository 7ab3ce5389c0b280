//! Messages that are delivered later than they were stored: delayed, timed, undecided and popped messages.

mod put;
mod wake;

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use super::{Figures, Replication, Tables};
use crate::clock::Clock;
use crate::names;
use crate::state::{DeliveryNotes, Pops, Schedule, TimerState, Transactions};
use crate::topics::Queue;

/// State of the engines that deliver messages later than they were stored.
pub(crate) struct Delivery {
    /// Positions of the delay levels.
    pub(crate) schedule: Schedule,
    pub(crate) timer: TimerState,
    /// Earlier positions of the delay levels and of the timer, each with the end of the log that has the delivered copies.
    pub(crate) delivery_notes: DeliveryNotes,
    pub(crate) transactions: Transactions,
    pub(crate) pops: Pops,
    /// Set once, before the broker serves its first request.
    pub(crate) arrivals: OnceLock<Arrivals>,
    pub(crate) clock: Clock,
    pub(crate) tables: Arc<Tables>,
    pub(crate) replication: Arc<Replication>,
    pub(crate) figures: Arc<Figures>,
}

/// Function that answers requests that wait at a queue.
pub(crate) type ArrivalHandler = Box<dyn Fn(&Arc<Queue>) + Send + Sync>;

/// Function that gives the messages of a lite queue to clients.
pub(crate) type LiteArrivalHandler = Box<dyn Fn(Option<&str>, &Arc<str>) + Send + Sync>;

/// Functions that run when a queue with waiting requests grows. The operations that answer these requests are above
/// the broker's state, which knows only these functions.
pub(crate) struct Arrivals {
    /// Runs the suspended pulls of the queue.
    pub pulls: ArrivalHandler,
    /// Runs suspended pops of the queue's topic.
    pub pops: ArrivalHandler,
    /// Gives the messages of a lite queue to clients of a group, or of all groups.
    pub lite: LiteArrivalHandler,
}

impl Delivery {
    /// Returns the timer's lag in seconds, the number of messages that are not in the wheel yet, and the number of
    /// messages in the wheel.
    pub(crate) fn timer_progress(&self, now_ms: i64) -> (i64, i64, i64) {
        let read_ms = self.timer.read_ms.load(Ordering::Relaxed);
        let end = self.tables.store.find_queue(names::TIMER_TOPIC, 0).map_or(0, |queue| queue.max().to_i64());
        (
            if read_ms > 0 { (now_ms - read_ms).max(0) / 1000 } else { 0 },
            (end - self.timer.queue_offset.load(Ordering::Relaxed)).max(0),
            self.timer.pending.load(Ordering::Relaxed),
        )
    }
}
