//! Revive records: checkpoints and acknowledgements. They are stored as timed messages, and the timer delivers them
//! to the revive topic when the popped messages are visible again. So the revive topic holds them in the order of
//! those times.

use std::sync::Arc;

use store::timer::wheel_time;
use store::{Batch, Message, Store};
use wire::body::{Acks, Checkpoint};
use wire::json;
use wire::properties::{self, key};
use wire::units::LogOffset;

use crate::names;
use crate::parts::{Delivery, PopParts};
use crate::refusal::PutError;
use crate::topics::Queue;

/// A checkpoint is delivered this many milliseconds before its messages are visible again (`PopAckConstants.ackTimeInterval`).
const AHEAD_MS: i64 = 1000;

/// Tag of a checkpoint (`PopAckConstants`).
pub(super) const CHECKPOINT_TAG: &str = "ck";
/// Tag of the acknowledgement of a message.
pub(super) const ACK_TAG: &str = "ack";
/// Tag of the acknowledgement of several messages of a checkpoint.
pub(super) const ACKS_TAG: &str = "bAck";

/// A batch of revive records that are appended together.
pub(crate) struct ReviveRecords {
    batch: Batch,
    queues: Vec<Arc<Queue>>,
}

/// Revive queue and due time of a revive record.
struct Target<'a> {
    revive_queue: i32,
    tag: &'static str,
    unique: &'a str,
    deliver_ms: i64,
}

impl ReviveRecords {
    /// Creates an empty batch of revive records.
    pub(crate) fn new(store: &Store) -> Self {
        Self { batch: store.batch(), queues: Vec::new() }
    }

    /// Number of records in the batch.
    pub(crate) fn len(&self) -> usize {
        self.batch.len()
    }

    /// Adds a checkpoint, to be delivered shortly before its messages are visible again, and records it as pending.
    pub(super) fn checkpoint(
        &mut self,
        parts: &PopParts,
        revive_queue: i32,
        checkpoint: &Checkpoint,
        now_ms: i64,
    ) -> Result<(), PutError> {
        let Checkpoint { topic, queue_id, start_offset, group, pop_ms, broker_name, .. } = checkpoint;
        let unique =
            format!("{topic}@{queue_id}@{start_offset}@{group}@{pop_ms}@{broker_name}@{CHECKPOINT_TAG}");
        let deliver_ms = checkpoint.revive_ms().saturating_sub(AHEAD_MS);
        let target = Target { revive_queue, tag: CHECKPOINT_TAG, unique: &unique, deliver_ms };
        self.push(parts, &target, &json::to_vec(checkpoint), now_ms)?;
        // Before the checkpoint is appended: from then on the group's offset may pass its messages.
        parts.delivery.pops.add_pending(&parts.tables, checkpoint, now_ms);
        Ok(())
    }

    /// Adds acknowledgements, to be delivered at `deliver_ms`, when the messages are visible again.
    pub(super) fn acks(
        &mut self,
        parts: &PopParts,
        revive_queue: i32,
        acks: &Acks,
        (deliver_ms, now_ms): (i64, i64),
    ) -> Result<(), PutError> {
        let Acks { topic, queue_id, offset, group, pop_ms, broker_name, .. } = acks;
        let unique = format!("{topic}@{queue_id}@{offset}@{group}@{pop_ms}@{broker_name}@{ACK_TAG}");
        let tag = if acks.offsets.is_empty() { ACK_TAG } else { ACKS_TAG };
        let target = Target { revive_queue, tag, unique: &unique, deliver_ms };
        self.push(parts, &target, &json::to_vec(acks), now_ms)
    }

    fn push(
        &mut self,
        parts: &PopParts,
        target: &Target<'_>,
        body: &[u8],
        now_ms: i64,
    ) -> Result<(), PutError> {
        let mut text = Vec::with_capacity(256);
        properties::append(&mut text, key::TAGS, target.tag.as_bytes());
        properties::append(&mut text, key::UNIQ_KEY, target.unique.as_bytes());
        let mut digits = itoa::Buffer::new();
        properties::append(&mut text, key::TIMER_DELIVER_MS, digits.format(target.deliver_ms).as_bytes());
        let topic = &parts.delivery.pops.revive_topic;
        let queue = if target.deliver_ms <= now_ms {
            parts.tables.put_queue(topic, target.revive_queue, now_ms)?
        } else {
            let out_ms = wheel_time(target.deliver_ms, parts.runtime.config.timers.precision_ms);
            crate::timer::delivery_time::timed(&mut text, out_ms, topic, target.revive_queue);
            parts.tables.put_queue(names::TIMER_TOPIC, 0, now_ms)?
        };
        let message = Message {
            body,
            properties: &text,
            sys_flag: 0,
            flag: 0,
            born_timestamp: now_ms,
            born_host: parts.identity.store_host,
            store_host: parts.identity.store_host,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
        };
        self.batch.push(&queue.index, &message)?;
        if !self.queues.iter().any(|other| Arc::ptr_eq(other, &queue)) {
            self.queues.push(queue);
        }
        Ok(())
    }

    /// Appends the batch to the log and returns the log position behind it, zero when the batch is empty.
    pub(crate) fn append(
        &mut self,
        store: &Store,
        delivery: &Arc<Delivery>,
        now_ms: i64,
    ) -> Result<LogOffset, PutError> {
        if self.batch.is_empty() {
            return Ok(LogOffset::ZERO);
        }
        let appended = store.append(&mut self.batch, now_ms);
        let queues = std::mem::take(&mut self.queues);
        let end = match appended {
            Ok(()) => self.batch.end(),
            Err(error) => {
                self.batch.clear();
                return Err(error.into());
            }
        };
        self.batch.clear();
        delivery.grown(end, queues);
        Ok(end)
    }
}
