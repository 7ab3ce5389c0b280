//! Delivery of delayed messages (`ScheduleMessageService`).
//!
//! A message with delay level L waits in queue L-1 of `SCHEDULE_TOPIC_XXXX`. The tags code of its index unit is its
//! due time. Messages of a level are due in the order in which they were stored. So only the first message of each
//! queue needs a check, and one engine serves all levels. The due messages of a level are appended with one write.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use store::{AppendError, Batch, CqUnit, Message, PushError, Unit};
use wire::body::topic::{PERM_READ, PERM_WRITE, TopicConfig};
use wire::properties::{self, key};
use wire::record::RecordView;
use wire::units::{LogOffset, QueueOffset};

use crate::engine::{Engine, Every, Next};
use crate::names;
use crate::parts::{Delivery, DeliveryParts, Runtime};
use crate::position_writer::{self, PositionWriter, wait_flushed};
use crate::refusal::PutError;
use crate::system_topics::is_system_topic;
use crate::topics::{Queue, Topic};

/// Most messages of a level that are delivered before the other levels are served.
const STEP: usize = 256;

/// Size in bytes at which no further messages are added to an append.
const BATCH_BYTES_MAX: usize = 1 << 20;

/// Pause in milliseconds after a failed delivery.
const RETRY_AFTER_MS: i64 = 1000;

/// Interval in milliseconds at which changed positions are written.
const SAVE_MS: i64 = 1000;

/// The engine that delivers delayed messages of all levels.
pub(crate) struct DelayLevels {
    parts: Arc<DeliveryParts>,
    position_writer: PositionWriter,
    /// Disconnected once the positions that the position writer was given last are on disk.
    saving: Option<Receiver<()>>,
    saved: Every,
}

impl DelayLevels {
    /// Continues at the delivery positions of [`Schedule`](crate::state::Schedule), which are saved by `position_writer`.
    pub(crate) fn new(parts: Arc<DeliveryParts>, position_writer: PositionWriter) -> Self {
        Self { parts, position_writer, saving: None, saved: Every::default() }
    }
}

impl Engine for DelayLevels {
    fn round(&mut self, now_ms: i64) -> Next {
        let next_ms = deliver_due(&self.parts, now_ms);
        let under_way = self.saving.as_ref().is_some_and(|done| done.try_recv() == Err(TryRecvError::Empty));
        if !under_way && self.saved.is_due(now_ms, SAVE_MS) {
            self.saving = save(&self.parts, &self.position_writer, now_ms);
        }
        Next::At(next_ms).or(Next::At(now_ms + SAVE_MS))
    }
}

/// Queues a write of changed positions after the preceding copies are on disk. The returned receiver is disconnected
/// when the write is done. `None` if no position changed.
fn save(parts: &Arc<DeliveryParts>, position_writer: &PositionWriter, now_ms: i64) -> Option<Receiver<()>> {
    let offsets = parts.delivery.schedule.changed()?;
    let note = position_writer::delivered(&parts.tables.store, &parts.delivery, now_ms);
    let (sender, done) = channel();
    let parts = parts.clone();
    position_writer.run(move || {
        let _sender = sender;
        if !wait_flushed(&parts.tables.store, LogOffset::new(note.end)) {
            return;
        }
        if let Err(error) = parts.delivery.schedule.write(offsets, parts.runtime.now_ms()) {
            tracing::error!(%error, "positions of delayed messages could not be written; it is tried again");
        }
        position_writer::keep(&parts.delivery, &parts.runtime, note);
    });
    Some(done)
}

/// Delivers the messages that are due, of all levels. Returns when to check again, in milliseconds since the epoch.
pub(crate) fn deliver_due(parts: &DeliveryParts, now_ms: i64) -> i64 {
    let mut batch = parts.tables.store.batch();
    let level = |level| deliver_level(parts, level, now_ms, &mut batch);
    (1..=parts.runtime.delay_levels()).map(level).min().unwrap_or(i64::MAX)
}

/// Returns the due time of a message, in milliseconds since the epoch: the tags code of its index unit. If the code
/// is unknown, the due time is the store time plus the delay of the level.
fn due(store: &store::Store, queue: &Queue, offset: i64, unit: &Unit, delay_ms: i64) -> i64 {
    if unit.has_tags_code() {
        return unit.tags_code;
    }
    let stored =
        QueueOffset::from_i64(offset).and_then(|at| store.store_time(&queue.index, at).ok().flatten());
    stored.unwrap_or_default().saturating_add(delay_ms)
}

fn deliver_level(parts: &DeliveryParts, level: i32, now_ms: i64, batch: &mut Batch) -> i64 {
    let Some(queue) = parts.tables.log_queue(names::SCHEDULE_TOPIC, level - 1) else { return i64::MAX };
    let (min, max) = (queue.index.min().to_i64(), queue.index.max().to_i64());
    let first = parts.delivery.schedule.offset(level).clamp(min, max);
    let mut units: Vec<Unit> = Vec::new();
    let from = QueueOffset::from_i64(first).unwrap_or_default();
    if let Err(error) = queue.index.units_blocking(from, STEP, &mut units) {
        tracing::error!(level, %error, "the queue of delayed messages cannot be read");
        return now_ms + RETRY_AFTER_MS;
    }
    let longest = parts.runtime.delay_ms(level);
    let mut next_ms = if units.len() == STEP { now_ms } else { i64::MAX };
    let mut offset = first;
    let mut queues: Vec<Arc<Queue>> = Vec::new();
    batch.clear();
    for unit in units {
        let mut due_ms =
            if unit.is_blank() { now_ms } else { due(&parts.tables.store, &queue, offset, &unit, longest) };
        if due_ms > now_ms + longest {
            due_ms = longest
                + parts
                    .delivery
                    .schedule
                    .with_head(level, |head| head.set_back.stored_ms(offset, max, now_ms));
        }
        if batch.size() > BATCH_BYTES_MAX || due_ms > now_ms {
            next_ms = due_ms.max(now_ms);
            break;
        }
        match if unit.is_blank() { Ok(None) } else { prepare(parts, &queue, offset, unit, batch) } {
            Ok(Some(target)) if !queues.iter().any(|known| Arc::ptr_eq(known, &target)) => {
                queues.push(target)
            }
            Ok(_) => {}
            Err(error)
                if parts
                    .delivery
                    .schedule
                    .with_head(level, |head| head.patience.holds(offset, &error, now_ms)) =>
            {
                tracing::warn!(level, offset, %error, "a delayed message could not be delivered and is tried again");
                next_ms = now_ms + RETRY_AFTER_MS;
                break;
            }
            Err(error) => {
                tracing::error!(level, offset, %error, "a delayed message cannot be delivered and is skipped");
                parts.runtime.retention.undelivered.fetch_add(1, Ordering::Relaxed);
            }
        }
        offset += 1;
    }
    if !batch.is_empty() {
        if let Err(error) = parts.delivery.append_own(batch, now_ms) {
            if let AppendError::Removed { topic } = &error {
                parts.tables.topics.reopen(topic);
            }
            tracing::warn!(level, offset = first, %error, "delayed messages could not be delivered and are tried again");
            return now_ms + RETRY_AFTER_MS;
        }
        queues.extend(parts.tables.further_queues(batch));
        parts.delivery.grown(batch.end(), queues);
    }
    parts.delivery.schedule.set_offset(level, offset);
    next_ms
}

/// Returns the queue for the copy of a delayed, timed or popped message. As in Java (`EscapeBridge.putMessage`), a
/// copy creates no topic. The copy for a deleted topic is stored in a queue without a topic. The copy for a topic
/// without queues is stored in queue 0, where consumers find it after the topic gets queues again.
pub(crate) fn target(
    delivery: &Delivery,
    runtime: &Runtime,
    topic: &str,
    queue_id: i32,
    now_ms: i64,
) -> Result<Arc<Queue>, PutError> {
    let found = match delivery.tables.topic(topic) {
        Some(found) => found,
        None if is_system_topic(delivery, runtime, topic) => {
            return delivery.tables.put_queue(topic, queue_id, now_ms);
        }
        None => {
            let queues = queue_id.max(0).saturating_add(1);
            Arc::new(Topic::new(TopicConfig::new(topic, queues, PERM_READ | PERM_WRITE), None))
        }
    };
    let queue =
        found.queue(&delivery.tables.store, queue_id).or_else(|| found.queue(&delivery.tables.store, 0));
    if let Some(queue) = queue {
        return Ok(queue.clone());
    }
    let config = TopicConfig { write_queue_nums: 1, ..found.config.clone() };
    let first = Topic::new(config, Some(&found)).queue(&delivery.tables.store, 0).cloned();
    Ok(first.ok_or_else(|| PushError::Queue { topic: topic.to_owned(), queue_id })?)
}

/// Adds the copy of a delayed message to the batch. Returns the queue of the copy, or `None` if the message is
/// skipped.
fn prepare(
    parts: &DeliveryParts,
    queue: &Queue,
    offset: i64,
    unit: Unit,
    batch: &mut Batch,
) -> Result<Option<Arc<Queue>>, PutError> {
    let mut bytes = Vec::new();
    let message = CqUnit { offset: QueueOffset::from_i64(offset).unwrap_or_default(), unit };
    parts.tables.store.read_messages_blocking(&queue.index, &[message], &mut bytes)?;
    let record = RecordView::parse(&bytes)
        .map_err(|source| store::ReadError::Record { at: unit.log_offset, source })?;
    let properties = record.properties();
    let topic = properties::get_str(properties, key::REAL_TOPIC);
    let queue_id = properties::get_str(properties, key::REAL_QUEUE_ID).and_then(|id| id.parse().ok());
    let (Some(topic), Some(queue_id)) = (topic, queue_id) else {
        tracing::error!(at = %unit.log_offset, "a delayed message names no real topic and queue; it is skipped");
        return Ok(None);
    };
    if topic == names::HALF_TOPIC {
        tracing::error!(at = %unit.log_offset, "a delayed half message is skipped");
        return Ok(None);
    }
    // As in Java (`ScheduleMessageService.messageTimeUp`) the copy keeps all properties; a delay level only delays messages of clients.
    let message = Message { store_host: parts.identity.store_host, ..Message::of(&record) };
    let target = target(&parts.delivery, &parts.runtime, topic, queue_id, parts.runtime.now_ms())?;
    batch.push(&target.index, &message)?;
    Ok(Some(target))
}

#[cfg(test)]
mod tests;
