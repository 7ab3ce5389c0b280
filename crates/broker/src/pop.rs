//! Pop consumption: the broker hands out messages of all queues of a topic to the clients of a group and keeps track of
//! which are acknowledged (`PopMessageProcessor`, `AckMessageProcessor`, `PopBufferMergeService`, `PopReviveService`).
//!
//! | step | where |
//! |---|---|
//! | a pop reads messages of one or more queues | [`pick`] |
//! | for each queue a *checkpoint* of the messages is stored as a timed message, due when they are visible again | [`revive_records`] |
//! | the group's offset passes the popped messages once their checkpoint is on disk | [`in_flight`] |
//! | an acknowledgement is stored as a timed message as well | [`ack`] |
//! | the timer delivers both to the revive topic, checkpoints one second before their acknowledgements | `crate::timer` |
//! | messages of a checkpoint that are not acknowledged go to the retry topic of group and topic | [`open_checkpoints`], [`revive`] |
//!
//! All state that must survive a restart lies in the log and in the groups' offsets, in the form Java writes it, so a Java
//! broker and Vostok can each continue where the other stopped. Messages whose state a crash loses are popped again, or
//! come again through the retry topic.
//!
//! With `enablePopBufferMerge` checkpoints stay in memory for some seconds. If all messages of a checkpoint are
//! acknowledged in that time, nothing is appended for it. The group's offset does not pass a checkpoint in memory.
//!
//! Ordered pops have no checkpoints: a queue is blocked until the messages returned last are acknowledged or visible again
//! ([`order`]).

mod ack;
mod in_flight;
mod in_flight_queues;
mod open_checkpoints;
mod order;
mod peek;
mod pick;
mod request;
pub(crate) mod revive;
pub(crate) mod revive_records;
mod serve;
pub(crate) mod settings;
mod states;
#[cfg(test)]
mod tests;
mod time;
mod wait;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use wire::body::Checkpoint;

use crate::broker::Broker;
use crate::names;
pub(crate) use ack::{ack, batch_ack, change_invisible_time};
use in_flight::{HeldCheckpoint, InFlightQueue, Patience};
use in_flight_queues::{Cell, InFlightQueues};
pub(crate) use peek::{peek, polling, rollback};
pub(crate) use request::Ask;
use revive_records::ReviveRecords;
pub(crate) use serve::{arrived, gone, notify, pop, refuse, serve_cold};
use states::States;
pub(crate) use time::run;
use wait::PollTimeouts;
pub(crate) use wait::Waiters;

/// The group whose offsets record how far the revive thread has processed the revive topic (`PopAckConstants.REVIVE_GROUP`).
pub(crate) const REVIVE_GROUP: &str = "CID_RMQ_SYS_REVIVE_GROUP";

/// An in-flight queue whose group offset waits for the log to be flushed is checked again after this many milliseconds.
const FLUSH_LOOK_MS: i64 = 500;

/// The broker's state of pop consumption: queues with pops in flight, suspended requests, and the revive thread.
pub(crate) struct Pops {
    /// Name of the revive topic, to which the timer delivers checkpoints and acknowledgements.
    pub(crate) revive_topic: String,
    in_flight_queues: InFlightQueues,
    poll_timeouts: PollTimeouts,
    states: States,
    reviver: revive::Handle,
    revive_counter: AtomicU32,
}

impl Pops {
    /// Creates the empty state; the name of the revive topic ends in the name of the `cluster`.
    pub(crate) fn new(cluster: &str) -> Self {
        Self {
            revive_topic: format!("{}{cluster}", names::REVIVE_PREFIX),
            in_flight_queues: InFlightQueues::default(),
            poll_timeouts: PollTimeouts::default(),
            states: States::default(),
            reviver: revive::Handle::default(),
            revive_counter: AtomicU32::new(0),
        }
    }

    /// Wakes the revive thread, so that it reads what the timer delivered to the revive topic.
    pub(crate) fn wake_reviver(&self) {
        self.reviver.wake();
    }

    /// Drops the suspended pop requests of connection number `peer`, which has ended.
    pub(crate) fn closed(&self, peer: u64) {
        self.poll_timeouts.closed(peer);
    }

    /// Tells the revive thread to stop.
    pub(crate) fn stop(&self) {
        self.reviver.stop();
    }

    /// Removes the in-flight queues of a deleted group. Must be called before the group's offsets are removed.
    pub(crate) fn forget_group(&self, group: &str) {
        self.in_flight_queues.forget_group(group);
    }

    /// Removes the in-flight queues of a deleted topic. Must be called before the topic's offsets are removed.
    pub(crate) fn forget_topic(&self, topic: &str) {
        self.in_flight_queues.forget_topic(topic);
    }

    /// Records that a checkpoint that goes to the log is pending: messages of it may have to be brought back. Nothing is
    /// recorded for a group that does not exist, since nobody would get those messages.
    fn add_pending(&self, broker: &Broker, checkpoint: &Checkpoint, now_ms: i64) {
        let Checkpoint { group, topic, queue_id, .. } = checkpoint;
        if broker.groups.find(group).is_some() {
            let revived_ms = self.reviver.revived_ms.load(Ordering::Relaxed);
            self.in_flight_queues
                .make(group, topic, *queue_id)
                .in_flight()
                .add_pending(checkpoint, now_ms, revived_ms);
        }
    }

    /// For each queue, the first message that was popped since the broker started and may still have to be brought back:
    /// `topic@group` as in the table of offsets, queue id and queue offset.
    pub(crate) fn pending(&self) -> Vec<(String, i32, i64)> {
        let revived_ms = self.reviver.revived_ms.load(Ordering::Relaxed);
        let pending = |cell: Arc<Cell>| {
            let first = cell.in_flight().pending(revived_ms)?;
            Some((format!("{}@{}", cell.topic, cell.group), cell.queue_id, first))
        };
        self.in_flight_queues.all().into_iter().filter_map(pending).collect()
    }

    /// Advances the groups' offsets past the pops that are settled and on disk, and writes the file of ordered pops.
    pub(crate) fn save(&self, broker: &Broker) {
        let now_ms = broker.now_ms();
        for cell in self.in_flight_queues.all() {
            if !cell.in_flight().is_empty() {
                self.advance(broker, &cell, now_ms);
            }
        }
        if let Err(error) = self.states.save(broker) {
            tracing::error!(%error, "the state of ordered pops could not be written; it is tried again");
        }
    }

    /// Appends all checkpoints in memory to the log. Called when the broker stops.
    pub(crate) fn store_all(&self, broker: &Broker) {
        for cell in self.in_flight_queues.all() {
            let left = cell.in_flight().leave_all();
            self.store_left(broker, &cell, left);
        }
    }

    fn next_revive_queue(&self, queues: i32) -> i32 {
        let next = self.revive_counter.fetch_add(1, Ordering::Relaxed);
        (next % u32::try_from(queues).unwrap_or(1).max(1)) as i32
    }

    /// Has the in-flight queue checked at `due_ms` at the latest.
    fn look_at(&self, cell: &Arc<Cell>, in_flight: &mut InFlightQueue, due_ms: i64) {
        if self.in_flight_queues.set_alarm(cell, in_flight, due_ms) {
            self.poll_timeouts.earlier.notify_one();
        }
    }

    fn may_hold(&self, broker: &Broker, cell: &Cell, checkpoint: &Checkpoint, now_ms: i64) -> bool {
        let settings = &broker.config.pop;
        settings.buffer_merge
            && patience(broker).holds(checkpoint, now_ms)
            && self.in_flight_queues.held.load(Ordering::Relaxed) < settings.held_max
            && cell.in_flight().len() < settings.in_flight_max
    }

    /// Advances the group's offset past the settled pops at the head of the in-flight queue, and sets the time of its next check.
    fn advance(&self, broker: &Broker, cell: &Arc<Cell>, now_ms: i64) {
        let mut in_flight = cell.in_flight();
        if let Some(next) = in_flight.commit(broker.store.flushed())
            && !in_flight.gone
        {
            // Under the lock of the in-flight queue, so that the offset does not go back.
            broker.offsets.commit(&cell.group, &cell.topic, cell.queue_id, next);
        }
        if let Some(due_ms) = in_flight.due_ms(patience(broker), now_ms + FLUSH_LOOK_MS) {
            // A time that has passed means a checkpoint could not be stored in time; it is tried again.
            let due_ms = if due_ms <= now_ms { now_ms + FLUSH_LOOK_MS } else { due_ms };
            self.look_at(cell, &mut in_flight, due_ms);
        }
    }

    /// Appends checkpoints that were taken out of an in-flight queue to the log; on failure they are put back into it.
    fn store_left(&self, broker: &Broker, cell: &Arc<Cell>, left: Vec<HeldCheckpoint>) {
        if left.is_empty() {
            return;
        }
        let now_ms = broker.now_ms();
        let mut records = ReviveRecords::new(&broker.store);
        // The acknowledgements so far are stored within the checkpoint itself, so they need no records of their own.
        let pushed = left
            .iter()
            .try_for_each(|held| records.checkpoint(broker, held.revive_queue, &held.checkpoint, now_ms));
        let end = pushed.and_then(|()| records.append(broker, now_ms));
        if let Err(error) = &end {
            tracing::warn!(%error, "checkpoints of pops cannot be stored; it is tried again");
        }
        let end = end.ok();
        let mut in_flight = cell.in_flight();
        for held in left {
            let is_kept = in_flight.left(held, end) && end.is_none();
            if !is_kept {
                self.in_flight_queues.held.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

/// How long checkpoints are kept in memory, by the broker's settings.
fn patience(broker: &Broker) -> Patience {
    let settings = &broker.config.pop;
    Patience { stay_ms: settings.stay_ms, rest_ms: settings.rest_ms }
}
