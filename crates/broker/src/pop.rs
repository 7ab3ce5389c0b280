//! Pop consumption: the broker hands out messages of all queues of a topic to the clients of a group and keeps track of
//! which are acknowledged (`PopMessageProcessor`, `AckMessageProcessor`, `PopBufferMergeService`, `PopReviveService`).
//!
//! | step | where |
//! |---|---|
//! | a pop reads messages of one or more queues | [`pick`] |
//! | for each queue a *checkpoint* of what it read is appended to the timer, for the time the messages are visible again | [`notes`] |
//! | the group's offset passes the messages once the checkpoint is on disk | [`lane`] |
//! | an acknowledgement is appended to the timer as well | [`ack`] |
//! | the timer delivers both to the revive topic, checkpoints a second before their acknowledgements | `crate::timer` |
//! | what is not acknowledged of a checkpoint goes to the retry topic of group and topic | [`ledger`], [`revive`] |
//!
//! All state that must survive lies in the log and in the offsets of the groups, in the form Java writes it, so either
//! broker continues where the other stopped. What a crash loses is popped again, or comes again through the retry topic.
//!
//! With `enablePopBufferMerge` checkpoints stay in memory for some seconds, and what is acknowledged until then costs no
//! append at all; the group's offset waits for them.
//!
//! Pops in order have no checkpoints: a queue is blocked until what was returned last is settled ([`order`]).

mod ack;
mod lane;
mod lanes;
mod ledger;
pub(crate) mod notes;
mod order;
mod peek;
mod pick;
mod request;
pub(crate) mod revive;
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
use lane::{Held, Lane, Patience};
use lanes::{Cell, Lanes};
use notes::Notes;
pub(crate) use peek::{peek, polling, rollback};
pub(crate) use request::Ask;
pub(crate) use serve::{arrived, gone, notify, pop, refuse, serve_cold};
use states::States;
pub(crate) use time::run;
use wait::Deadlines;
pub(crate) use wait::Waiters;

/// The group whose offsets are the progress in the revive topic (`PopAckConstants.REVIVE_GROUP`).
pub(crate) const REVIVE_GROUP: &str = "CID_RMQ_SYS_REVIVE_GROUP";

/// A lane whose offset waits for the disk is looked at again after this time.
const FLUSH_LOOK_MS: i64 = 500;

/// What is known of pops.
pub(crate) struct Pops {
    /// Where checkpoints and acknowledgements are delivered.
    pub(crate) revive_topic: String,
    lanes: Lanes,
    deadlines: Deadlines,
    states: States,
    reviver: revive::Handle,
    revive_counter: AtomicU32,
}

impl Pops {
    /// Of a cluster.
    pub(crate) fn new(cluster: &str) -> Self {
        Self {
            revive_topic: format!("{}{cluster}", names::REVIVE_PREFIX),
            lanes: Lanes::default(),
            deadlines: Deadlines::default(),
            states: States::default(),
            reviver: revive::Handle::default(),
            revive_counter: AtomicU32::new(0),
        }
    }

    /// Lets the reviver look at what the timer delivered.
    pub(crate) fn wake_reviver(&self) {
        self.reviver.wake();
    }

    /// Forgets the requests of a connection that ended.
    pub(crate) fn closed(&self, peer: u64) {
        self.deadlines.closed(peer);
    }

    /// Ends the reviver.
    pub(crate) fn stop(&self) {
        self.reviver.stop();
    }

    /// Forgets a deleted group, before its offsets are forgotten.
    pub(crate) fn forget_group(&self, group: &str) {
        self.lanes.forget_group(group);
    }

    /// Forgets a deleted topic, before its offsets are forgotten.
    pub(crate) fn forget_topic(&self, topic: &str) {
        self.lanes.forget_topic(topic);
    }

    /// Notes a checkpoint that goes to the log, unless nobody would get its messages.
    fn owe(&self, broker: &Broker, checkpoint: &Checkpoint, now_ms: i64) {
        let Checkpoint { group, topic, queue_id, .. } = checkpoint;
        if broker.groups.find(group).is_some() {
            let revived_ms = self.reviver.revived_ms.load(Ordering::Relaxed);
            self.lanes.make(group, topic, *queue_id).lane().owe(checkpoint, now_ms, revived_ms);
        }
    }

    /// The first messages that were popped since the start and may have to come back: topic and group as in the table of
    /// offsets, queue, offset.
    pub(crate) fn owed(&self) -> Vec<(String, i32, i64)> {
        let revived_ms = self.reviver.revived_ms.load(Ordering::Relaxed);
        let owed = |cell: Arc<Cell>| {
            let first = cell.lane().owed(revived_ms)?;
            Some((format!("{}@{}", cell.topic, cell.group), cell.queue_id, first))
        };
        self.lanes.all().into_iter().filter_map(owed).collect()
    }

    /// Moves the offsets of groups behind what is settled and on disk, and writes the file of ordered pops.
    pub(crate) fn save(&self, broker: &Broker) {
        let now_ms = broker.now_ms();
        for cell in self.lanes.all() {
            if !cell.lane().is_empty() {
                self.advance(broker, &cell, now_ms);
            }
        }
        if let Err(error) = self.states.save(broker) {
            tracing::error!(%error, "the state of ordered pops could not be written; it is tried again");
        }
    }

    /// Stores all checkpoints in memory: the broker stops.
    pub(crate) fn store_all(&self, broker: &Broker) {
        for cell in self.lanes.all() {
            let left = cell.lane().leave_all();
            self.store_left(broker, &cell, left);
        }
    }

    fn next_revive_queue(&self, queues: i32) -> i32 {
        let next = self.revive_counter.fetch_add(1, Ordering::Relaxed);
        (next % u32::try_from(queues).unwrap_or(1).max(1)) as i32
    }

    /// Has the lane looked at, at `due_ms` at the latest.
    fn look_at(&self, cell: &Arc<Cell>, lane: &mut Lane, due_ms: i64) {
        if self.lanes.set_alarm(cell, lane, due_ms) {
            self.deadlines.earlier.notify_one();
        }
    }

    fn may_hold(&self, broker: &Broker, cell: &Cell, checkpoint: &Checkpoint, now_ms: i64) -> bool {
        let settings = &broker.config.pop;
        settings.buffer_merge
            && patience(broker).holds(checkpoint, now_ms)
            && self.lanes.held.load(Ordering::Relaxed) < settings.held_max
            && cell.lane().len() < settings.lane_held_max
    }

    /// Moves the group's offset behind what is settled.
    fn advance(&self, broker: &Broker, cell: &Arc<Cell>, now_ms: i64) {
        let mut lane = cell.lane();
        if let Some(next) = lane.commit(broker.store.flushed())
            && !lane.gone
        {
            // Under the lane's lock, so that the offset does not go back.
            broker.offsets.commit(&cell.group, &cell.topic, cell.queue_id, next);
        }
        if let Some(due_ms) = lane.due_ms(patience(broker), now_ms + FLUSH_LOOK_MS) {
            // What could not be stored in time is tried again.
            let due_ms = if due_ms <= now_ms { now_ms + FLUSH_LOOK_MS } else { due_ms };
            self.look_at(cell, &mut lane, due_ms);
        }
    }

    /// Stores checkpoints that were taken out of a lane.
    fn store_left(&self, broker: &Broker, cell: &Arc<Cell>, left: Vec<Held>) {
        if left.is_empty() {
            return;
        }
        let now_ms = broker.now_ms();
        let mut notes = Notes::new(&broker.store);
        // What is acknowledged stands in the checkpoint itself.
        let pushed = left
            .iter()
            .try_for_each(|held| notes.checkpoint(broker, held.revive_queue, &held.checkpoint, now_ms));
        let end = pushed.and_then(|()| notes.append(broker, now_ms));
        if let Err(error) = &end {
            tracing::warn!(%error, "checkpoints of pops cannot be stored; it is tried again");
        }
        let end = end.ok();
        let mut lane = cell.lane();
        for held in left {
            let is_kept = lane.left(held, end) && end.is_none();
            if !is_kept {
                self.lanes.held.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

/// How long checkpoints are held.
fn patience(broker: &Broker) -> Patience {
    let settings = &broker.config.pop;
    Patience { stay_ms: settings.stay_ms, rest_ms: settings.rest_ms }
}
