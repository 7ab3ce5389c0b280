//! Delivery of delayed messages (`ScheduleMessageService`).
//!
//! A message with delay level L waits in queue L-1 of `SCHEDULE_TOPIC_XXXX`; the tags code of its index unit is the
//! time it is due. Messages of one level are due in the order they were stored, so only the first of each queue is
//! looked at, and one timer serves all levels.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use store::{Message, Numbered, ReadError, Unit};
use tokio::sync::Notify;
use wire::body::offset::DelayOffsetTable;
use wire::json;
use wire::properties::{self, key};
use wire::record::RecordView;
use wire::units::{LogOffset, QueueOffset};

use crate::broker::{Broker, PutError};
use crate::names;
use crate::persist;
use crate::topics::Queue;

/// Messages delivered of one level before the others get their turn.
const STEP: usize = 64;

/// Wait after a failed delivery.
const RETRY_AFTER_MS: i64 = 1000;

/// Longest sleep, so that a clock that jumps is noticed.
const SLEEP_MAX_MS: i64 = 1000;

/// Positions of delivery, one per level.
pub(crate) struct Schedule {
    path: PathBuf,
    table: Mutex<Table>,
    /// Signalled when a message was put into a delay queue.
    pub(crate) added: Notify,
}

struct Table {
    file: DelayOffsetTable,
    offsets: BTreeMap<i32, i64>,
    dirty: bool,
    /// Positions at an earlier time and the end of the log then. They are written once the log is on disk that far:
    /// a position must not outlive the delivered copies before it.
    ready: Option<(BTreeMap<i32, i64>, LogOffset)>,
}

impl Schedule {
    /// Loads `delayOffset.json`, or starts empty.
    pub(crate) fn load(path: PathBuf) -> Result<Self, persist::Error> {
        let file: DelayOffsetTable = persist::read(&path)?.unwrap_or_default();
        let offsets = file.offset_table.clone();
        let table = Table { file, offsets, dirty: false, ready: None };
        Ok(Self { path, table: Mutex::new(table), added: Notify::new() })
    }

    /// Writes positions whose deliveries are all before `flushed`, and remembers today's until the log is on disk up to
    /// `appended`. A write that failed is repeated by the next call.
    pub(crate) fn save(
        &self,
        now_ms: i64,
        flushed: LogOffset,
        appended: LogOffset,
    ) -> Result<(), persist::Error> {
        let file = {
            let mut table = self.table();
            if table.dirty && (table.ready.is_none() || flushed >= appended) {
                table.dirty = false;
                table.ready = Some((table.offsets.clone(), appended));
            }
            match table.ready.take() {
                Some((offsets, end)) if end <= flushed => {
                    table.file.offset_table = offsets;
                    table.file.data_version.advance(0, now_ms);
                    // Positions may have moved on since they were remembered.
                    table.dirty = table.offsets != table.file.offset_table;
                    table.file.clone()
                }
                waiting => {
                    table.ready = waiting;
                    return Ok(());
                }
            }
        };
        let written = persist::write(&self.path, &json::to_vec(&file));
        if written.is_err() {
            self.table().dirty = true;
        }
        written
    }

    /// Position of the first message of a level that is not delivered yet.
    pub(crate) fn offset(&self, level: i32) -> i64 {
        self.table().offsets.get(&level).copied().unwrap_or(0)
    }

    fn set_offset(&self, level: i32, offset: i64) {
        let mut table = self.table();
        if table.offsets.insert(level, offset) != Some(offset) {
            table.dirty = true;
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Delivers until the broker stops.
pub(crate) async fn run(broker: std::sync::Arc<Broker>) {
    loop {
        let now_ms = broker.now_ms();
        let next_ms = deliver_due(&broker, now_ms).min(now_ms + SLEEP_MAX_MS);
        let wait_ms = u64::try_from(next_ms - now_ms).unwrap_or(0);
        let timer = tokio::time::sleep(Duration::from_millis(wait_ms));
        tokio::select! {
            () = timer => {}
            () = broker.schedule.added.notified() => {}
        }
    }
}

/// Delivers what is due in all levels; returns when to look again, in milliseconds since the epoch.
pub(crate) fn deliver_due(broker: &Broker, now_ms: i64) -> i64 {
    (1..=broker.delay_levels()).map(|level| deliver_level(broker, level, now_ms)).min().unwrap_or(i64::MAX)
}

fn deliver_level(broker: &Broker, level: i32, now_ms: i64) -> i64 {
    let Some(queue) = broker.log_queue(names::SCHEDULE_TOPIC, level - 1) else { return i64::MAX };
    let (min, max) = (queue.log.min().to_i64(), queue.log.max().to_i64());
    let mut offset = broker.schedule.offset(level).clamp(min, max);
    let mut units: Vec<Unit> = Vec::new();
    let from = QueueOffset::from_i64(offset).unwrap_or_default();
    if let Err(error) = queue.log.units_blocking(from, STEP, &mut units) {
        tracing::error!(level, %error, "the queue of delayed messages cannot be read");
        return now_ms + RETRY_AFTER_MS;
    }
    let longest = broker.delay_ms(level);
    let full = units.len() == STEP;
    for unit in units {
        // A due time further away than the level's delay means that the clock was set back.
        let due = unit.tags_code.min(now_ms + longest);
        if !unit.is_blank() && due > now_ms {
            broker.schedule.set_offset(level, offset);
            return due;
        }
        match if unit.is_blank() { Ok(()) } else { deliver(broker, &queue, offset, unit) } {
            Ok(()) => {}
            Err(error) if may_pass(&error) => {
                tracing::warn!(level, offset, %error, "a delayed message could not be delivered and is tried again");
                broker.schedule.set_offset(level, offset);
                return now_ms + RETRY_AFTER_MS;
            }
            Err(error) => {
                tracing::error!(level, offset, %error, "a delayed message cannot be delivered and is skipped");
            }
        }
        offset += 1;
    }
    broker.schedule.set_offset(level, offset);
    if full { now_ms } else { i64::MAX }
}

/// Whether a delivery may succeed later; a record that cannot be read never does, and must not hold up the others.
fn may_pass(error: &PutError) -> bool {
    match error {
        PutError::Append(_)
        | PutError::Topic(_)
        | PutError::Read(ReadError::Io(_) | ReadError::Rebuilding { .. }) => true,
        PutError::Push(_)
        | PutError::Read(ReadError::Range { .. } | ReadError::Record { .. } | ReadError::Damaged(_)) => false,
    }
}

fn deliver(broker: &Broker, queue: &Queue, offset: i64, unit: Unit) -> Result<(), PutError> {
    let mut bytes = Vec::new();
    let message = Numbered { offset: QueueOffset::from_i64(offset).unwrap_or_default(), unit };
    broker.store.read_messages_blocking(&queue.log, &[message], &mut bytes)?;
    let record = RecordView::parse(&bytes)
        .map_err(|source| store::ReadError::Record { at: unit.log_offset, source })?;
    let properties = record.properties();
    let topic = properties::get_str(properties, key::REAL_TOPIC);
    let queue_id = properties::get_str(properties, key::REAL_QUEUE_ID).and_then(|id| id.parse().ok());
    let (Some(topic), Some(queue_id)) = (topic, queue_id) else {
        tracing::error!(at = %unit.log_offset, "a delayed message names no real topic and queue; it is skipped");
        return Ok(());
    };
    if topic == names::HALF_TOPIC {
        tracing::error!(at = %unit.log_offset, "a delayed half message is skipped");
        return Ok(());
    }
    // The delay properties stay in the text, as in Java; only a put from a client delays.
    let mut kept = Vec::new();
    properties::rewrite(&mut kept, properties, &[key::WAIT_STORE_MSG_OK], &[]);
    let message = Message { properties: &kept, store_host: broker.store_host, ..Message::of(&record) };
    broker.put(topic, queue_id, &message)
}

#[cfg(test)]
mod tests;
