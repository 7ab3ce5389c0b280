//! Pop consumption: the broker hands out messages of all queues of a topic to the clients of a group and tracks their
//! acknowledgements (`PopMessageProcessor`, `AckMessageProcessor`, `PopBufferMergeService`, `PopReviveService`).
//!
//! | step | where |
//! |---|---|
//! | a pop reads messages of one or more queues | [`pick`] |
//! | for each queue a *checkpoint* of the messages is stored as a timed message, due when they are visible again | [`revive_records`] |
//! | the group's offset passes the popped messages once their checkpoint is on disk | [`crate::state::Pops`] |
//! | an acknowledgement is stored as a timed message as well | [`mod@ack`] |
//! | the timer delivers both to the revive topic, checkpoints one second before their acknowledgements | `crate::timer` |
//! | messages of a checkpoint that are not acknowledged go to the retry topic of group and topic | [`open_checkpoints`], [`revive`] |
//!
//! All state that must survive a restart lies in the log and in the groups' offsets, in the form that Java writes. So
//! a Java broker and Vostok can each continue the other's work. Messages whose state a crash loses are popped again,
//! or return through the retry topic.
//!
//! With `enablePopBufferMerge` checkpoints stay in memory for some seconds. If all messages of a checkpoint are
//! acknowledged in that time, nothing is appended for it. The group's offset does not pass a checkpoint in memory.
//!
//! An acting slave (`enableSlaveActingMaster`) appends nothing. Its checkpoints stay in memory until its master is
//! back, whatever `enablePopBufferMerge` says. The master takes over the offsets, which do not pass unacknowledged
//! messages, and pops those messages again. They do not return before.
//!
//! Ordered pops have no checkpoints. A queue is blocked until the last returned messages are acknowledged or visible
//! again ([`order`]).

mod ack;
mod open_checkpoints;
mod order;
mod peek;
mod pick;
mod request;
pub(crate) mod revive;
pub(crate) mod revive_records;
mod search;
mod serve;
#[cfg(test)]
mod tests;
mod time;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use wire::body::Checkpoint;
use wire::units::LogOffset;

use crate::parts::{PopParts, Replication, Runtime, Tables};
use crate::refusal::PutError;
use crate::state::{Cell, HeldCheckpoint, InFlightPatience, Pops};
pub use ack::{Invisible, InvisibleTimeChange, PoppedMessage};
pub(crate) use ack::{ack, acks, batch_ack, change_invisible_time};
pub(crate) use peek::{peek, polling};
pub use request::{Polling, PopRequest, PopTarget};
use revive_records::ReviveRecords;
pub(crate) use serve::{arrived, gone, notify, pop};
pub(crate) use time::due;

/// The group whose offsets record how far the revive engine has processed the revive topic (`PopAckConstants.REVIVE_GROUP`).
pub(crate) const REVIVE_GROUP: &str = "CID_RMQ_SYS_REVIVE_GROUP";

/// Longest time that a slave keeps checkpoints in memory, in milliseconds.
const ACTING_MS: i64 = 365 * 24 * 3_600_000;

/// Pause in milliseconds between checks of an in-flight queue whose group offset waits for the log to be flushed.
const FLUSH_LOOK_MS: i64 = 500;

impl Pops {
    /// Records that a checkpoint of the log is pending, because its messages may have to be revived. Ignores a
    /// missing group, which has no consumers for the messages.
    fn add_pending(&self, tables: &Tables, checkpoint: &Checkpoint, now_ms: i64) {
        let Checkpoint { group, topic, queue_id, .. } = checkpoint;
        if tables.groups.find(group).is_some() {
            let revived_ms = self.reviver.revived_ms.load(Ordering::Relaxed);
            self.in_flight_queues
                .make(group, topic, *queue_id)
                .in_flight()
                .add_pending(checkpoint, now_ms, revived_ms);
        }
    }

    /// Advances the groups' offsets past the pops that are settled and on disk, and writes the file of ordered pops.
    pub(crate) fn save(&self, parts: &PopParts) {
        let now_ms = parts.runtime.now_ms();
        for cell in self.in_flight_queues.all() {
            if !cell.in_flight().is_empty() {
                self.advance(parts, &cell, now_ms);
            }
        }
        if let Err(error) = self.save_order(parts.runtime.now_ms(), &parts.tables.files) {
            tracing::error!(%error, "the state of ordered pops could not be written; it is tried again");
        }
    }

    /// Appends all checkpoints in memory to the log. Called when the broker stops.
    pub(crate) fn store_all(&self, parts: &PopParts) {
        for cell in self.in_flight_queues.all() {
            let left = cell.in_flight().leave_all();
            self.store_left(parts, &cell, left);
        }
    }

    /// Whether a checkpoint stays in memory. An acting slave appends nothing and holds every checkpoint in memory. A
    /// slave that does not act holds none, because it would never store the checkpoint.
    fn may_hold(&self, parts: &PopParts, cell: &Cell, checkpoint: &Checkpoint, now_ms: i64) -> bool {
        let settings = &parts.runtime.config.pop;
        let keeps = if parts.replication.role.is_slave() {
            parts.replication.acting.is_acting()
        } else {
            settings.buffer_merge
        };
        keeps
            && patience(&parts.replication, &parts.runtime).holds(checkpoint, now_ms)
            && self.in_flight_queues.held.load(Ordering::Relaxed) < settings.held_max
            && cell.in_flight().len() < settings.in_flight_max
    }

    /// Advances the group's offset past the settled pops at the head of the in-flight queue, and sets the time of its next check.
    fn advance(&self, parts: &PopParts, cell: &Arc<Cell>, now_ms: i64) {
        let mut in_flight = cell.in_flight();
        if let Some(next) = in_flight.commit(parts.tables.store.flushed())
            && !in_flight.gone
        {
            // Under the lock of the in-flight queue, so that the offset does not go back.
            parts.tables.offsets.commit(&cell.group, &cell.topic, cell.queue_id, next);
        }
        if let Some(due_ms) =
            in_flight.due_ms(patience(&parts.replication, &parts.runtime), now_ms + FLUSH_LOOK_MS)
        {
            // A time that has passed means a checkpoint could not be stored in time; it is tried again.
            let due_ms = if due_ms <= now_ms { now_ms + FLUSH_LOOK_MS } else { due_ms };
            self.look_at(cell, &mut in_flight, due_ms);
        }
    }

    /// Appends checkpoints that were removed from an in-flight queue to the log. On failure, and on a slave, which
    /// appends nothing, they return to the queue.
    fn store_left(&self, parts: &PopParts, cell: &Arc<Cell>, left: Vec<HeldCheckpoint>) {
        if left.is_empty() {
            return;
        }
        let end = if parts.replication.role.is_slave() { None } else { append_left(parts, &left) };
        let mut in_flight = cell.in_flight();
        for held in left {
            let is_kept = in_flight.left(held, end) && end.is_none();
            if !is_kept {
                self.in_flight_queues.held.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

/// Appends checkpoints to the log and returns the log position behind them; `None` when they cannot be stored.
fn append_left(parts: &PopParts, left: &[HeldCheckpoint]) -> Option<LogOffset> {
    let now_ms = parts.runtime.now_ms();
    let mut records = ReviveRecords::new(&parts.tables.store);
    // The acknowledgements so far are stored within the checkpoint itself, so they need no records of their own.
    let pushed = left
        .iter()
        .try_for_each(|held| records.checkpoint(parts, held.revive_queue, &held.checkpoint, now_ms));
    let end = pushed.and_then(|()| records.append(&parts.tables.store, &parts.delivery, now_ms));
    let warn = |error: &PutError| {
        tracing::warn!(%error, "checkpoints of pops cannot be stored; it is tried again");
    };
    end.inspect_err(warn).ok()
}

/// Duration for which checkpoints stay in memory, by the broker's settings. A slave that acts, or has acted, keeps them until its master
/// is back.
fn patience(replication: &Replication, runtime: &Runtime) -> InFlightPatience {
    if replication.role.is_slave() {
        return InFlightPatience { stay_ms: ACTING_MS, rest_ms: -ACTING_MS };
    }
    let settings = &runtime.config.pop;
    InFlightPatience { stay_ms: settings.stay_ms, rest_ms: settings.rest_ms }
}
