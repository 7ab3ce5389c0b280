//! Adding messages of the timer queue to the wheel (`TimerMessageStore.enqueue`).

use std::io;
use std::sync::atomic::Ordering;

use store::timer::{DueEntry, TimerUnit, magic, slot_start};
use store::{CqUnit, Read, Unit};
use wire::hash::java_hash;
use wire::record::RecordView;
use wire::units::QueueOffset;

use super::scheduler::Scheduler;
use super::timed::Timed;
use crate::refusal::PutError;

/// Most messages read at once.
const UNITS_MAX: usize = 512;
/// Most bytes read at once, except for a single larger message.
const BYTES_MAX: u64 = 4 << 20;

impl Scheduler {
    /// Adds all messages the timer queue holds now. False when a file cannot be read or written; the call is then repeated later.
    pub(super) fn enqueue(&mut self, now_ms: i64) -> bool {
        let end = self.queue.index.max().to_i64();
        self.next = self.next.max(self.queue.index.min().to_i64()).min(end);
        let mut added = false;
        while self.next < end {
            if let Err(error) = self.enqueue_some(now_ms) {
                tracing::error!(%error, next = self.next, "timed messages cannot be added to the wheel; it is tried again");
                return false;
            }
            added = true;
        }
        if added {
            self.changed = true;
            if let Err(error) = self.files.write() {
                tracing::error!(%error, "units of the timer log cannot be written; it is tried again");
                return false;
            }
        }
        true
    }

    fn enqueue_some(&mut self, now_ms: i64) -> io::Result<()> {
        let mut units: Vec<Unit> = Vec::with_capacity(UNITS_MAX);
        let from = QueueOffset::from_i64(self.next).unwrap_or_default();
        self.queue.index.units_blocking(from, UNITS_MAX, &mut units).map_err(io::Error::other)?;
        let mut sum = 0;
        let fits = units.iter().take_while(|unit| {
            sum += u64::from(unit.size);
            unit.is_blank() || sum <= BYTES_MAX
        });
        units.truncate(fits.count().max(1));
        if units.is_empty() {
            return Err(io::Error::other("the queue of timed messages shows nothing at its next place"));
        }
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        // Messages that were just sent are in memory.
        let store = self.parts.tables.store.clone();
        let resident = matches!(store.read_units(&units, &mut bytes), Ok(Read::Done));
        let whole = resident || store.read_units_blocking(&units, &mut bytes).is_ok();
        let mut start = 0;
        let mut done = Ok(());
        for unit in &units {
            if !unit.is_blank() {
                if !whole {
                    bytes.clear();
                    start = 0;
                    let offset = QueueOffset::from_i64(self.next).unwrap_or_default();
                    let message = CqUnit { offset, unit: *unit };
                    if let Err(error) =
                        store.read_messages_blocking(&self.queue.index, &[message], &mut bytes)
                    {
                        let error = PutError::from(error);
                        if self.patience.holds(self.next, &error, now_ms) {
                            done = Err(io::Error::other(error));
                            break;
                        }
                        self.parts.runtime.retention.undelivered.fetch_add(1, Ordering::Relaxed);
                        tracing::error!(at = %unit.log_offset, %error, "a timed message cannot be read and is skipped");
                        self.next += 1;
                        continue;
                    }
                }
                let end = start + unit.size as usize;
                done = self.add(unit, &bytes[start..end], now_ms);
                start = end;
                if done.is_err() {
                    break;
                }
            }
            self.next += 1;
        }
        self.bytes = bytes;
        done
    }

    /// Adds a message of the timer queue to the wheel.
    fn add(&mut self, unit: &Unit, bytes: &[u8], now_ms: i64) -> io::Result<()> {
        let config = self.files.config();
        let precision_ms = config.precision_ms;
        let skip = |reason: &str| {
            tracing::error!(at = %unit.log_offset, reason, "a message in the timer queue is skipped");
            Ok(())
        };
        let Ok(record) = RecordView::parse(bytes) else { return skip("it is no record") };
        let timed = match Timed::of(&record, precision_ms) {
            Ok(timed) => timed,
            Err(reason) => return skip(reason),
        };
        if self.next < self.delivered_before && timed.out_ms < self.first_read_ms {
            return Ok(());
        }
        let own_ms = config.slot_of(timed.out_ms);
        let (window_ms, base_ms) = (self.window_ms(), config.slot_of(now_ms));
        let mut bits = magic::DEFAULT | if timed.cancels.is_some() { magic::DELETE } else { 0 };
        let far_ms = own_ms - base_ms - window_ms;
        let (mut slot_ms, mut time_ms) = if far_ms >= 0 {
            bits |= magic::ROLL;
            // The message is due soon after the window: rolled after half the window, it has enough time left for its last roll.
            let third_ms = slot_start(window_ms / 3, precision_ms);
            let half_ms = slot_start(window_ms / 2, precision_ms);
            let slot_ms = base_ms + if far_ms < third_ms { half_ms } else { window_ms };
            (slot_ms, slot_ms)
        } else {
            let slot_ms = self.due_entries.slot_for(own_ms);
            (slot_ms, if slot_ms == own_ms { timed.due_ms - 1 } else { slot_ms })
        };
        if self.files.is_taken(slot_ms, self.due_entries.read_ms())? {
            // The slot still holds units of the wheel's previous turn, which must come first: this message is rolled soon.
            bits |= magic::ROLL;
            slot_ms = self.due_entries.slot_for(base_ms);
            time_ms = slot_ms;
        }
        let added = TimerUnit {
            previous: None,
            magic: bits,
            written_ms: now_ms,
            delay_ms: i32::try_from(time_ms - now_ms).unwrap_or(i32::MIN),
            log_offset: unit.log_offset,
            size: unit.size,
            topic_hash: java_hash(timed.topic),
        };
        let at = self.files.add(added)?;
        if own_ms < self.due_entries.read_ms() {
            self.note_late(slot_ms);
        }
        let cancels = timed.cancels.filter(|_| !added.rolls()).map(Into::into);
        // A cancelling message counts -1: the message it cancels is not subtracted when it is skipped.
        self.pending += if timed.cancels.is_some() { -1 } else { 1 };
        if self.parts.runtime.config.timers.congest_num != i32::MAX {
            *self.parts.delivery.timer.counts().entry(own_ms).or_default() += 1;
        }
        let timer = &self.parts.delivery.timer;
        timer.window_ms.fetch_max(window_ms, Ordering::AcqRel);
        timer.last_ms.fetch_max(slot_ms, Ordering::AcqRel);
        self.due_entries.arrived(DueEntry::of(at, &added, slot_ms), cancels);
        Ok(())
    }
}
