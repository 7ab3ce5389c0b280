//! Revive engine: revives popped messages that are not acknowledged (`PopReviveService`). One engine serves all
//! revive queues.
//!
//! The timer delivers checkpoints and acknowledgements in the order of the times at which messages are visible again.
//! A checkpoint is due when that time is [`GRACE_MS`] ago and the timer has delivered everything stored with it until
//! then. No acknowledgement made in time can arrive later. The messages that are not acknowledged are appended to the
//! retry topic, and the progress of the revive queue advances when these copies are on disk.

mod back;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use store::{CqUnit, ReadError, Unit};
use wire::body::{Acks, Checkpoint};
use wire::json;
use wire::pop::normal_topic;
use wire::properties::{self, key};
use wire::record::RecordView;
use wire::units::{LogOffset, QueueOffset};

use super::open_checkpoints::OpenCheckpoints;
use super::revive_records::{ACK_TAG, ACKS_TAG, CHECKPOINT_TAG};
use super::{REVIVE_GROUP, serve};
use crate::engine::{Engine, Next};
use crate::names;
use crate::parts::PopParts;
use crate::position_writer::wait_flushed;
use crate::refusal::PutError;
use crate::state::UnreadableSince;
use crate::topics::Queue;

/// Messages are brought back at least this many milliseconds after they are visible again, so that
/// acknowledgements in flight still count.
const GRACE_MS: i64 = 1000;
/// Most records of a revive queue read in a step.
const STEP: usize = 256;
/// Shortest pause in milliseconds before a round without a wake-up.
const PAUSE_MS: i64 = 20;
/// Pause in milliseconds after a failure.
const RETRY_AFTER_MS: i64 = 1000;

/// Revive queue and its open checkpoints.
struct ReviveQueue {
    queue: Arc<Queue>,
    open_checkpoints: OpenCheckpoints,
    unreadable_since: UnreadableSince,
    /// Progress that waits for the disk: pairs of a log position and a revive offset, which is committed once the log is flushed
    /// up to that position.
    waits: VecDeque<(LogOffset, i64)>,
}

/// The engine that brings popped messages back that were not acknowledged in time.
pub(crate) struct Reviver {
    parts: Arc<PopParts>,
    queues: Vec<ReviveQueue>,
    /// End offset of the timer queue, and the time in milliseconds at which it was read. All messages timed until
    /// then lie before it.
    mark: Option<(i64, i64)>,
    /// All timed messages that were stored and due until this time (milliseconds since the epoch) are delivered and visible.
    known_ms: i64,
    /// The next value of `known_ms`, which counts once consumers may see the log up to the position beside it.
    unseen: Option<(i64, LogOffset)>,
    failed_ms: i64,
    bytes: Vec<u8>,
}

impl Reviver {
    /// Continues at the committed offsets of [`REVIVE_GROUP`].
    pub(crate) fn new(parts: Arc<PopParts>) -> Self {
        let topic = parts.delivery.pops.revive_topic.clone();
        let count = parts.tables.topics.find(&topic).map_or(0, |topic| topic.queue_count());
        let queue = |queue_id| {
            let queue = parts.tables.log_queue(&topic, queue_id)?;
            let done = parts.tables.offsets.committed(REVIVE_GROUP, &topic, queue_id).unwrap_or(-1);
            let done = done.clamp(queue.index.min().to_i64() - 1, queue.index.max().to_i64() - 1);
            let (open_checkpoints, unreadable_since) =
                (OpenCheckpoints::behind(done), UnreadableSince::default());
            Some(ReviveQueue { queue, open_checkpoints, unreadable_since, waits: VecDeque::new() })
        };
        let queues = (0..count).filter_map(queue).collect();
        Self { queues, mark: None, known_ms: 0, unseen: None, failed_ms: 0, bytes: Vec::new(), parts }
    }

    /// Reads new revive records and brings back the messages of all checkpoints that are due.
    fn revive_due(&mut self, now_ms: i64) {
        self.meet_timer(now_ms);
        let until_ms = self.known_ms.min(now_ms - GRACE_MS);
        let mut is_done = true;
        for index in 0..self.queues.len() {
            if let Err(error) = self.read(index, now_ms) {
                tracing::error!(%error, "the revive topic cannot be read; it is tried again");
                self.failed_ms = now_ms;
                is_done = false;
                continue;
            }
            is_done &= !self.queues[index].open_checkpoints.is_full();
            while let Some((offset, checkpoint)) = self.queues[index].open_checkpoints.due(until_ms) {
                let checkpoint = checkpoint.clone();
                let end = match self.revive(&checkpoint, now_ms) {
                    Err(error) if self.queues[index].unreadable_since.holds(offset, &error, now_ms) => {
                        tracing::warn!(%error, "messages cannot be brought back; it is tried again");
                        self.failed_ms = now_ms;
                        is_done = false;
                        break;
                    }
                    Err(error) => {
                        tracing::error!(topic = checkpoint.topic, offset, %error, "messages cannot be brought back and are given up");
                        self.give_up(u64::from(checkpoint.count));
                        LogOffset::ZERO
                    }
                    Ok(end) => end,
                };
                self.close(index, offset, end);
            }
        }
        if is_done {
            self.parts.delivery.pops.reviver.revived_ms.store(until_ms, Ordering::Relaxed);
        }
        self.commit();
    }

    fn give_up(&self, messages: u64) {
        self.parts.runtime.retention.undelivered.fetch_add(messages, Ordering::Relaxed);
    }

    /// When the next round is due, in milliseconds since the epoch.
    fn next_ms(&self, now_ms: i64) -> i64 {
        let first = self.queues.iter().filter_map(|queue| queue.open_checkpoints.first_ms()).min();
        let waits = self.queues.iter().any(|queue| !queue.waits.is_empty());
        let due_ms = first.map_or(i64::MAX, |first_ms| first_ms.saturating_add(GRACE_MS));
        if self.failed_ms == now_ms {
            return now_ms + RETRY_AFTER_MS;
        }
        // A checkpoint that is due and still open waits for the timer, which advances in steps.
        let due_ms = if due_ms <= now_ms { now_ms + 100 } else { due_ms };
        if waits { due_ms.min(now_ms + 500) } else { due_ms }
    }

    /// Updates `known_ms` from the timer's reading and delivery progress.
    fn meet_timer(&mut self, now_ms: i64) {
        if self.known_ms > now_ms {
            // The clock was set back: messages timed from now on are due before `known_ms`.
            (self.known_ms, self.mark, self.unseen) = (0, None, None);
        }
        let (timer, store) = (&self.parts.delivery.timer, &self.parts.tables.store);
        let end = || {
            self.parts.tables.log_queue(names::TIMER_TOPIC, 0).map_or(0, |queue| queue.index.max().to_i64())
        };
        let (taken, delivered_ms) =
            (timer.queue_offset.load(Ordering::Acquire), timer.read_ms.load(Ordering::Acquire));
        let (end, asked_ms) = *self.mark.get_or_insert_with(|| (end(), now_ms));
        if taken >= end {
            // The order matters: `delivered_ms` was read after `taken`, and what was delivered lies before the end of the log.
            self.unseen.get_or_insert_with(|| (asked_ms.min(delivered_ms), store.appended()));
            if delivered_ms >= asked_ms - GRACE_MS {
                self.mark = None;
            }
        }
        let is_visible = |end| self.parts.replication.durability.reaches(end);
        if let Some((known_ms, _)) = self.unseen.take_if(|(_, end)| is_visible(*end)) {
            self.known_ms = self.known_ms.max(known_ms);
        }
    }

    /// Reads the new records of a revive queue and applies them to its open checkpoints.
    fn read(&mut self, index: usize, now_ms: i64) -> Result<(), PutError> {
        let ReviveQueue { queue, open_checkpoints, unreadable_since, .. } = &mut self.queues[index];
        let store = &self.parts.tables.store;
        let mut units: Vec<Unit> = Vec::new();
        open_checkpoints.next = open_checkpoints.next.max(queue.index.min().to_i64());
        while open_checkpoints.next < self.parts.replication.visible_end(queue) && !open_checkpoints.is_full()
        {
            units.clear();
            let from = QueueOffset::from_i64(open_checkpoints.next).unwrap_or_default();
            let count =
                (self.parts.replication.visible_end(queue) - open_checkpoints.next).min(STEP as i64) as usize;
            queue.index.units_blocking(from, count, &mut units)?;
            if units.is_empty() {
                break;
            }
            for unit in &units {
                let offset = open_checkpoints.next;
                self.bytes.clear();
                let message =
                    CqUnit { offset: QueueOffset::from_i64(offset).unwrap_or_default(), unit: *unit };
                if !unit.is_blank()
                    && let Err(error) =
                        store.read_messages_blocking(&queue.index, &[message], &mut self.bytes)
                {
                    let error = error.into();
                    if unreadable_since.holds(offset, &error, now_ms) {
                        return Err(error);
                    }
                    tracing::error!(offset, %error, "a record of the revive topic is passed over");
                }
                enter(open_checkpoints, offset, &self.bytes, &self.parts.runtime.config.broker_name);
            }
        }
        Ok(())
    }

    /// Appends the unacknowledged messages of a checkpoint to the retry topic. Returns the log position behind the
    /// copies, or zero without copies.
    fn revive(&mut self, checkpoint: &Checkpoint, now_ms: i64) -> Result<LogOffset, PutError> {
        let parts = self.parts.clone();
        let open: Vec<i64> = (0..usize::from(checkpoint.count))
            .filter(|index| !checkpoint.is_acked(*index))
            .map(|index| checkpoint.offset(index))
            .collect();
        let topic = normal_topic(&checkpoint.topic, &checkpoint.group);
        let is_wanted = parts.tables.topics.find(topic).is_some()
            && parts.tables.groups.find(&checkpoint.group).is_some();
        if open.is_empty() || !is_wanted {
            return Ok(LogOffset::ZERO);
        }
        let target = back::retry_topic(&parts.runtime, checkpoint);
        let retry =
            back::make_retry_topic(&parts.delivery, &parts.runtime, &target, &checkpoint.group, now_ms)?;
        let mut batch = parts.tables.store.batch();
        let mut put_off_end = LogOffset::ZERO;
        let mut gone = 0;
        for offset in open {
            match self.read_message(checkpoint, offset) {
                Ok(true) => back::push_copy(&parts, &mut batch, &retry, &self.bytes, checkpoint)?,
                Ok(false) => gone += 1,
                Err(error) => {
                    tracing::warn!(topic = checkpoint.topic, offset, %error, "a message cannot be brought back yet");
                    put_off_end = put_off_end.max(back::put_off(&parts, checkpoint, offset, now_ms)?);
                }
            }
        }
        let mut end = put_off_end;
        if !batch.is_empty() {
            parts.delivery.append_own(&mut batch, now_ms)?;
            end = batch.end();
            parts.delivery.grown(end, vec![retry]);
            wake(&parts, topic, &checkpoint.group, end);
        }
        if gone > 0 {
            let Checkpoint { topic, group, queue_id, start_offset, .. } = checkpoint;
            tracing::error!(
                topic,
                group,
                queue_id,
                start_offset,
                messages = gone,
                "messages that were popped and not acknowledged are gone from the log and do not come back"
            );
            self.give_up(gone);
        }
        Ok(end)
    }

    /// Reads a popped message into `self.bytes`. False when the message is deleted or damaged.
    fn read_message(&mut self, checkpoint: &Checkpoint, offset: i64) -> Result<bool, ReadError> {
        self.bytes.clear();
        // Looked up in the store, because the topic may have fewer queues by now.
        let Some(queue) = self.parts.tables.store.find_queue(&checkpoint.topic, checkpoint.queue_id) else {
            return Ok(false);
        };
        let at = QueueOffset::from_i64(offset).filter(|at| (queue.min()..queue.max()).contains(at));
        let Some(at) = at else { return Ok(false) };
        let mut units: Vec<Unit> = Vec::with_capacity(1);
        queue.units_blocking(at, 1, &mut units)?;
        let Some(&unit) = units.first().filter(|unit| !unit.is_blank()) else { return Ok(false) };
        let message = CqUnit { offset: at, unit };
        match self.parts.tables.store.read_messages_blocking(&queue, &[message], &mut self.bytes) {
            Ok(()) => Ok(true),
            Err(error @ (ReadError::Io(_) | ReadError::Rebuilding { .. })) => Err(error),
            Err(error) => {
                tracing::error!(topic = checkpoint.topic, offset, %error, "a message is not whole any more");
                Ok(false)
            }
        }
    }

    fn close(&mut self, index: usize, offset: i64, end: LogOffset) {
        let queue = &mut self.queues[index];
        queue.open_checkpoints.close(offset);
        if end > LogOffset::ZERO {
            let done = queue.open_checkpoints.done();
            // The first progress that waits keeps its own log position, so that it is committed soon; all later ones are merged.
            if queue.waits.len() > 1 {
                queue.waits.pop_back();
            }
            queue.waits.push_back((end, done));
        }
    }

    /// Commits the progress whose copies are on disk as the offsets of [`REVIVE_GROUP`].
    fn commit(&mut self) {
        let topic = &self.parts.delivery.pops.revive_topic;
        let flushed = self.parts.tables.store.flushed();
        for revive_queue in &mut self.queues {
            let mut done = None;
            while let Some((_, passed)) = revive_queue.waits.front().filter(|(end, _)| *end <= flushed) {
                done = Some(*passed);
                revive_queue.waits.pop_front();
            }
            if revive_queue.waits.is_empty() {
                done = Some(revive_queue.open_checkpoints.done());
            }
            let queue_id = revive_queue.queue.index.queue_id();
            let before = self.parts.tables.offsets.committed(REVIVE_GROUP, topic, queue_id).unwrap_or(-1);
            if let Some(done) = done.filter(|done| *done > before) {
                self.parts.tables.offsets.commit(REVIVE_GROUP, topic, queue_id, done);
            }
        }
    }
}

impl Engine for Reviver {
    fn round(&mut self, now_ms: i64) -> Next {
        self.revive_due(now_ms);
        Next::At(self.next_ms(now_ms).max(now_ms + PAUSE_MS))
    }

    /// Commits all progress, so that no message is brought back twice.
    fn stop(&mut self) {
        let store = &self.parts.tables.store;
        if wait_flushed(store, store.appended()) {
            self.commit();
        }
    }
}

/// Applies a record of the revive topic to the open checkpoints of its queue.
fn enter(open_checkpoints: &mut OpenCheckpoints, offset: i64, bytes: &[u8], own_broker: &str) {
    let Ok(record) = RecordView::parse(bytes) else { return open_checkpoints.skip(offset) };
    let bad = |error: &json::JsonError| {
        tracing::error!(offset, %error, "a record of the revive topic is not readable and is passed over");
    };
    match properties::get_str(record.properties(), key::TAGS) {
        Some(CHECKPOINT_TAG) => match json::from_slice::<Checkpoint>(record.body()).inspect_err(bad) {
            Ok(checkpoint) if !checkpoint.topic.is_empty() => {
                return open_checkpoints.open(offset, checkpoint);
            }
            _ => {}
        },
        Some(ACK_TAG | ACKS_TAG) => {
            if let Ok(acks) = json::from_slice::<Acks>(record.body()).inspect_err(bad) {
                return open_checkpoints.ack(offset, &acks, own_broker);
            }
        }
        _ => {}
    }
    open_checkpoints.skip(offset);
}

/// Wakes the pops of the group that wait for messages of the topic, once consumers may see the log up to `end`.
fn wake(parts: &Arc<PopParts>, topic: &str, group: &str, end: LogOffset) {
    let Some(topic) = parts.tables.topics.find(topic) else { return };
    if !parts.replication.durability.waits_for_flush() {
        return serve::came_back(parts, &topic, group);
    }
    let (parts, group) = (parts.clone(), group.to_owned());
    let store = parts.tables.store.clone();
    store.when_flushed(end, Box::new(move |_| serve::came_back(&parts, &topic, &group)));
}
