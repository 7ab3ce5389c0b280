//! Delivering timed messages that are due to their topics (`TimerMessageStore.dequeue`).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use store::timer::DueEntry;
use store::{AppendError, Message, Read, Unit};
use wire::record::RecordView;

use super::fetch::Job;
use super::scheduler::Scheduler;
use super::timed::{Timed, copy_properties};
use crate::names;
use crate::refusal::PutError;
use crate::schedule::target;
use crate::topics::Queue;

/// Most messages delivered by an append.
const BATCH_MAX: usize = 512;
/// Size in bytes at which no further messages are added to an append.
const BATCH_BYTES_MAX: usize = 1 << 20;
/// Pause in milliseconds after a failed read or append.
const RETRY_AFTER_MS: i64 = 1000;
/// Pause in milliseconds while the log is busy.
const BUSY_MS: i64 = 20;

/// Treatment of a due entry.
enum Fate {
    /// The copy of its message is in the batch, for this queue.
    Put(Arc<Queue>),
    /// The entry is tried again at this time, in milliseconds since the epoch.
    Later(i64),
    /// The record of the message must be read from the disk first.
    Fetch,
    /// The message was cancelled and is not delivered. It was subtracted from the count of pending messages at the
    /// cancellation.
    Cancelled,
    /// The message cancels another message or cannot be delivered at all.
    Done,
}

/// Entry whose copy is in the batch, and the target queue of the copy.
type Put = (DueEntry, Arc<Queue>);

/// Returns the change of the count of pending messages for an entry. A cancelling entry subtracts the cancelled
/// message.
fn counted(entry: &DueEntry) -> i64 {
    if entry.cancels { -1 } else { 1 }
}

impl Scheduler {
    /// Delivers the messages that are due at `now_ms`, and returns whether any entry was handled. `cancels` is the recall
    /// order's count of cancelling messages from before the timer queue was read.
    pub(super) fn deliver(&mut self, now_ms: i64, cancels: u64) -> bool {
        let mut due = Vec::new();
        self.due_entries.due(now_ms, BATCH_MAX, &mut due);
        self.batch.clear();
        let mut puts = Vec::with_capacity(due.len());
        let mut done = false;
        for entry in due {
            if self.barrier.holds(&entry, now_ms) || self.batch.size() > BATCH_BYTES_MAX {
                self.due_entries.later(entry, entry.due_ms);
                continue;
            }
            done = true;
            puts.extend(self.take(entry, now_ms));
        }
        if !puts.is_empty() {
            self.append(puts, now_ms, cancels);
        }
        done
    }

    /// Handles an entry that is due, and returns it when its copy was put into the batch.
    fn take(&mut self, entry: DueEntry, now_ms: i64) -> Option<Put> {
        let fate = self.prepare(&entry, now_ms);
        if matches!(fate, Fate::Put(..) | Fate::Cancelled | Fate::Done) {
            self.stuck.remove(&entry.at);
            self.barrier.release(&entry);
        }
        match fate {
            Fate::Put(queue) => {
                if entry.cancels {
                    self.barrier.hold(&entry, now_ms);
                }
                return Some((entry, queue));
            }
            Fate::Later(due_ms) => self.put_off(entry, due_ms),
            Fate::Fetch => {
                if entry.cancels {
                    self.barrier.hold(&entry, now_ms);
                }
                self.fetch.ask(Job::Touch(entry));
            }
            Fate::Cancelled | Fate::Done => {
                self.pending -= if matches!(fate, Fate::Done) { counted(&entry) } else { 0 };
                self.due_entries.done(&entry);
                self.changed = true;
            }
        }
        None
    }

    /// Schedules another attempt for an entry at `again_ms`. A cancelling entry that must be rolled stays
    /// before the entries that it holds up.
    fn put_off(&mut self, entry: DueEntry, again_ms: i64) {
        if entry.cancels {
            self.barrier.hold(&entry, again_ms);
            self.due_entries.later(entry, entry.due_ms);
        } else {
            self.due_entries.later(entry, again_ms);
        }
    }

    /// Reads the record of an entry's message and puts its copy into the batch.
    fn prepare(&mut self, entry: &DueEntry, now_ms: i64) -> Fate {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        let store = &self.parts.tables.store;
        let at = entry.log_offset;
        let unit = [Unit { log_offset: at, size: entry.size, tags_code: 0 }];
        let read = if self.touched.remove(&entry.at) {
            store.read_units_blocking(&unit, &mut bytes).map(|()| Read::Done)
        } else {
            store.read_units(&unit, &mut bytes)
        };
        let fate = match read {
            Ok(Read::Done) => self.decide(entry, &bytes, now_ms),
            Ok(Read::NotResident) => Fate::Fetch,
            Err(error) => self.failed(entry, &error.into(), now_ms),
        };
        self.bytes = bytes;
        fate
    }

    /// Decides whether an entry that cannot be delivered now is tried again or given up.
    fn failed(&mut self, entry: &DueEntry, error: &PutError, now_ms: i64) -> Fate {
        let at = entry.log_offset;
        if self.stuck.entry(entry.at).or_default().holds(0, error, now_ms) {
            tracing::warn!(%at, %error, "a timed message cannot be delivered; it is tried again");
            return Fate::Later(now_ms + RETRY_AFTER_MS);
        }
        tracing::error!(%at, %error, "a timed message cannot be delivered and is skipped");
        self.parts.runtime.retention.undelivered.fetch_add(1, Ordering::Relaxed);
        Fate::Done
    }

    fn decide(&mut self, entry: &DueEntry, bytes: &[u8], now_ms: i64) -> Fate {
        let precision_ms = self.files.config().precision_ms;
        let record =
            RecordView::parse(bytes).ok().filter(|record| record.log_offset() == Some(entry.log_offset));
        let timed =
            record.as_ref().ok_or("it is no record").and_then(|record| Timed::of(record, precision_ms));
        let (record, timed) = match (record, timed) {
            (Some(record), Ok(timed)) => (record, timed),
            (_, timed) => {
                let reason = timed.err().unwrap_or_default();
                tracing::error!(at = %entry.log_offset, reason, "a timed message cannot be delivered and is skipped");
                return Fate::Done;
            }
        };
        if !entry.rolls {
            if timed.due_ms > now_ms {
                return Fate::Later(timed.due_ms);
            }
            if timed.cancels.is_some() {
                return Fate::Done;
            }
            if self.is_cancelled(entry, &timed) {
                return Fate::Cancelled;
            }
            if timed.topic == names::HALF_TOPIC {
                tracing::error!(at = %entry.log_offset, "a timed half message is skipped");
                return Fate::Done;
            }
        }
        let (topic, queue_id) =
            if entry.rolls { (names::TIMER_TOPIC, 0) } else { (timed.topic, timed.queue_id) };
        self.properties.clear();
        let times = (entry.written_ms, now_ms);
        copy_properties(&mut self.properties, record.properties(), &timed, times, entry.rolls);
        let message = Message {
            properties: &self.properties,
            store_host: self.parts.identity.store_host,
            prepared_transaction_offset: 0,
            ..Message::of(&record)
        };
        // A message whose properties leave no room for the added ones is copied without them.
        let plain = Message { properties: record.properties(), ..message };
        let pushed =
            target(&self.parts.delivery, &self.parts.runtime, topic, queue_id, now_ms).and_then(|queue| {
                self.batch.push(&queue.index, &message).or_else(|_| self.batch.push(&queue.index, &plain))?;
                Ok(queue)
            });
        match pushed {
            Ok(queue) => Fate::Put(queue),
            Err(error) => self.failed(entry, &error, now_ms),
        }
    }

    /// Whether a cancelling message of the entry's slot names its message. Cancelling messages of Java 5.5 contain
    /// only the key of the message, those of Java 5.3 its topic before the key.
    fn is_cancelled(&self, entry: &DueEntry, timed: &Timed<'_>) -> bool {
        let Some(key) = timed.key.filter(|_| self.due_entries.has_deleted(entry.slot_ms)) else {
            return false;
        };
        let named = |separator: &[u8]| [timed.topic.as_bytes(), separator, key].concat();
        self.due_entries.is_deleted(entry.slot_ms, key)
            || self.due_entries.is_deleted(entry.slot_ms, &named(b"+"))
            || self.due_entries.is_deleted(entry.slot_ms, &named(b"_"))
    }

    fn append(&mut self, puts: Vec<Put>, now_ms: i64, cancels: u64) {
        let mut order = self.parts.delivery.timer.recall_order();
        if order.cancels != cancels {
            drop(order);
            // A recall may have cancelled one of these messages: the timer queue is read again first.
            puts.into_iter().for_each(|(entry, _)| self.due_entries.later(entry, entry.due_ms));
            return;
        }
        let done = self.parts.delivery.append_own(&mut self.batch, now_ms);
        order.delivered_ms = order.delivered_ms.max(now_ms);
        drop(order);
        match done {
            Ok(()) => self.appended(puts),
            Err(error) => self.not_appended(puts, &error, now_ms),
        }
    }

    fn not_appended(&mut self, puts: Vec<Put>, error: &AppendError, now_ms: i64) {
        if let AppendError::Removed { topic } = error {
            self.parts.tables.topics.reopen(topic);
        }
        let busy = matches!(error, AppendError::Busy { .. });
        if !busy {
            tracing::warn!(%error, messages = puts.len(), "timed messages cannot be delivered; it is tried again");
        }
        let again_ms = now_ms + if busy { BUSY_MS } else { RETRY_AFTER_MS };
        puts.into_iter().for_each(|(entry, _)| self.put_off(entry, again_ms));
    }

    fn appended(&mut self, puts: Vec<Put>) {
        self.changed = true;
        let mut queues: Vec<Arc<Queue>> = Vec::new();
        for (index, (entry, queue)) in puts.into_iter().enumerate() {
            self.due_entries.done(&entry);
            // A rolled message is counted again when its copy is read from the timer queue.
            self.pending -= counted(&entry);
            if entry.cancels {
                self.barrier.release(&entry);
                let placed = self.batch.append_result(index).queue_offset;
                self.rolled_end = self.rolled_end.max(placed.to_i64() + 1);
            }
            if !queues.iter().any(|other| Arc::ptr_eq(other, &queue)) {
                queues.push(queue);
            }
        }
        queues.extend(self.parts.tables.further_queues(&self.batch));
        self.parts.delivery.grown(self.batch.end(), queues);
    }
}
