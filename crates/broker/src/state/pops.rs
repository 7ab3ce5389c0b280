//! The broker's state of pop consumption.

mod in_flight;
mod in_flight_queues;
mod order_file;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicUsize, Ordering};

use tokio::sync::Notify;

use crate::engine::Wakeup;
use crate::long_polling::{Ask, PopTimeouts};
use crate::names;
pub(crate) use in_flight::{HeldCheckpoint, InFlightPatience, InFlightQueue};
pub(crate) use in_flight_queues::{Busy, Cell, InFlightQueues};
use order_file::OrderFile;

/// Handle of the revive engine: its progress, and its wake-up.
#[derive(Default)]
pub(crate) struct ReviverHandle {
    /// Wakes the engine.
    pub wakeup: Arc<Wakeup>,
    /// Time up to which all checkpoints with messages visible again have been processed (milliseconds since the
    /// epoch).
    pub revived_ms: AtomicI64,
}

/// The broker's state of pop consumption: queues with pops in flight, suspended requests, and the revive engine.
pub(crate) struct Pops {
    /// Name of the revive topic, to which the timer delivers checkpoints and acknowledgements.
    pub(crate) revive_topic: String,
    /// The in-flight queues of all groups.
    pub(crate) in_flight_queues: InFlightQueues,
    /// When suspended pops time out.
    pub(crate) poll_timeouts: PopTimeouts,
    /// State for writing the file of ordered pops.
    pub(crate) order_file: OrderFile,
    /// Handle of the revive engine.
    pub(crate) reviver: ReviverHandle,
    /// Number of pops in the disk pool that search through messages that do not match.
    pub(crate) searches: Arc<AtomicUsize>,
    revive_counter: AtomicU32,
}

impl Pops {
    /// Creates the empty state; the name of the revive topic ends in the name of the `cluster`.
    pub(crate) fn new(cluster: &str) -> Self {
        Self {
            revive_topic: format!("{}{cluster}", names::REVIVE_PREFIX),
            in_flight_queues: InFlightQueues::default(),
            poll_timeouts: PopTimeouts::default(),
            order_file: OrderFile::default(),
            reviver: ReviverHandle::default(),
            searches: Arc::default(),
            revive_counter: AtomicU32::new(0),
        }
    }

    /// Returns the wake-up of the revive engine, which reads the timer's deliveries in the revive topic.
    pub(crate) fn reviver_wakeup(&self) -> &Arc<Wakeup> {
        &self.reviver.wakeup
    }

    /// Returns the signal that the earliest timeout of a suspended pop, or the earliest check of an in-flight queue, has
    /// become earlier.
    pub(crate) fn earlier(&self) -> &Notify {
        &self.poll_timeouts.earlier
    }

    /// Drops and returns the suspended pop requests of connection number `peer`, which has ended.
    pub(crate) fn closed(&self, peer: u64) -> Vec<Arc<Ask>> {
        self.poll_timeouts.closed(peer)
    }

    /// Removes the in-flight queues of a deleted group. Must be called before the group's offsets are removed.
    pub(crate) fn forget_group(&self, group: &str) {
        self.in_flight_queues.forget_group(group);
    }

    /// Removes the in-flight queues of a deleted topic. Must be called before the topic's offsets are removed.
    pub(crate) fn forget_topic(&self, topic: &str) {
        self.in_flight_queues.forget_topic(topic);
    }

    /// Removes all in-flight queues, without storing checkpoints in memory. This broker is no longer master, and the
    /// new master delivers those messages again.
    pub(crate) fn forget_all(&self) {
        self.in_flight_queues.forget_all();
    }

    /// Returns the first message of each queue that was popped since the broker started and may still need a revival:
    /// `topic@group` as in the table of offsets, queue id and queue offset.
    pub(crate) fn pending(&self) -> Vec<(String, i32, i64)> {
        let revived_ms = self.reviver.revived_ms.load(Ordering::Relaxed);
        let pending = |cell: Arc<Cell>| {
            let first = cell.in_flight().pending(revived_ms)?;
            Some((format!("{}@{}", cell.topic, cell.group), cell.queue_id, first))
        };
        self.in_flight_queues.all().into_iter().filter_map(pending).collect()
    }

    /// A revive queue out of `queues`, taken in turn.
    pub(crate) fn next_revive_queue(&self, queues: i32) -> i32 {
        let next = self.revive_counter.fetch_add(1, Ordering::Relaxed);
        (next % u32::try_from(queues).unwrap_or(1).max(1)) as i32
    }

    /// Schedules a check of the in-flight queue at `due_ms` at the latest.
    pub(crate) fn look_at(&self, cell: &Arc<Cell>, in_flight: &mut InFlightQueue, due_ms: i64) {
        if self.in_flight_queues.set_alarm(cell, in_flight, due_ms) {
            self.poll_timeouts.earlier.notify_one();
        }
    }
}
