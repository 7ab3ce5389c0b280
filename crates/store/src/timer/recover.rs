//! Opening the timer's files after whatever happened to them (`TimerMessageStore.recover`).

use super::files::{Found, TimerFiles};
use super::slot::Slot;
use super::unit::{TimerUnit, magic};
use std::collections::HashSet;
use std::io;
use wire::units::LogOffset;

/// Slots of the past that are read when nothing tells where reading stopped, less than a turn of the wheel.
const SLOTS_FREE: i64 = 60;

/// Where to go on.
#[derive(Clone, Copy, Debug)]
pub struct TimerRecovered {
    /// First slot whose messages are not all delivered, ms.
    pub read_ms: i64,
    /// Position of the newest message that has a unit.
    pub newest: Option<LogOffset>,
    next: Next,
    /// Messages before this one and in slots before [`Self::read_ms`] were delivered, should they be read again.
    pub delivered_before: i64,
    /// Messages that wait, less those that cancel.
    pub pending: i64,
}

#[derive(Clone, Copy, Debug)]
enum Next {
    /// The message with this number.
    Number(i64),
    /// The one behind the newest that has a unit, not before this one.
    Behind(i64),
}

impl TimerRecovered {
    /// Next message of the queue to add, given the number of the newest one that has a unit, if it can be read.
    #[must_use]
    pub fn queue_offset(&self, newest_offset: Option<i64>) -> i64 {
        match (self.next, newest_offset) {
            (Next::Number(number), _) => number,
            (Next::Behind(least), Some(offset)) => least.max(offset + 1),
            (Next::Behind(_), None) => self.delivered_before,
        }
    }
}

impl TimerFiles {
    /// Puts the units behind the last save back into their slots. `log_end` is the end of the commit log: units of
    /// messages that did not survive are cut off.
    ///
    /// # Errors
    /// The disk's.
    pub fn recover(&mut self, log_end: LogOffset, now_ms: i64) -> io::Result<TimerRecovered> {
        let position = self.check.log_position.max(0).cast_unsigned();
        let now_slot = self.config.slot_of(now_ms);
        let span = (self.config.slots.cast_signed() - SLOTS_FREE).max(1) * self.config.precision_ms;
        let read_ms = match (self.found, self.log.capacity_end()) {
            (Found::Java | Found::Ours, _) => self.config.slot_of(self.check.read_ms),
            (Found::Nothing, 0) => now_slot,
            (Found::Nothing, _) => now_slot - span,
        };
        let mut suspects = Vec::new();
        let mut slots = 0;
        let mut pending = 0;
        self.wheel.for_each(read_ms, |slot| {
            slots += 1;
            pending += i64::from(slot.count);
            if slot.last >= Some(position) {
                suspects.push(slot);
            }
        })?;
        let checked = self.check.queue_offset.max(0);
        let is_whole = (self.log.min()..=self.log.capacity_end()).contains(&position);
        let mut newest = None;
        let next = if self.found == Found::Ours && is_whole {
            // What lies behind the check is made again from the queue.
            self.end = position;
            Next::Number(checked)
        } else {
            // Without slots all units are looked at; else those of the last file before the check, as Java does.
            let from =
                if slots == 0 || !is_whole { 0 } else { position.saturating_sub(self.log.file_bytes()) };
            let (added, found) = self.scan(from, log_end, read_ms)?;
            pending += added;
            newest = found;
            match newest {
                None if position > 0 => Next::Number(0),
                None => Next::Number(checked),
                // Java delivers a message that comes too late without a unit.
                Some(_) if self.end == position => Next::Behind(checked),
                Some(_) => Next::Behind(0),
            }
        };
        if self.end < position {
            tracing::warn!(
                "the timer log lost its end; the queue of timed messages is read again from there"
            );
        }
        self.log.cut(self.end)?;
        self.repair(&suspects, self.end)?;
        let read_ms = self.forget_future(read_ms, now_slot)?;
        Ok(TimerRecovered { read_ms, newest, next, delivered_before: checked, pending: pending.max(0) })
    }

    /// Puts the units from the file of `from` on into their slots. Answers what that changes in the number of waiting
    /// messages, and the newest message that has a unit.
    fn scan(&mut self, from: u64, log_end: LogOffset, read_ms: i64) -> io::Result<(i64, Option<LogOffset>)> {
        let log = self.log.clone();
        let mut newest = None::<LogOffset>;
        let mut added = 0;
        let mut trouble = Ok(());
        self.end = log.scan(from, |at, unit| {
            if unit.end() > log_end || unit.previous >= Some(at) {
                return false;
            }
            newest = newest.max(Some(unit.log_offset));
            match self.revise(at, &unit, read_ms) {
                Ok(more) => added += more,
                Err(error) => trouble = Err(error),
            }
            trouble.is_ok()
        })?;
        trouble.map(|()| (added, newest))
    }

    /// Makes a unit the newest of its slot unless the slot knows it or a newer one. Answers what that changes in the
    /// number of waiting messages.
    fn revise(&mut self, at: u64, unit: &TimerUnit, read_ms: i64) -> io::Result<i64> {
        let time_ms = self.config.slot_of(unit.time_ms());
        if time_ms < read_ms {
            return Ok(0);
        }
        let mut slot = self.wheel.slot(time_ms)?.unwrap_or(Slot { time_ms, ..Slot::default() });
        if slot.last >= Some(at) {
            return Ok(0);
        }
        let mut added = if unit.magic & magic::DELETE == 0 { 1 } else { -1 };
        if unit.previous.is_none() {
            // The chain begins anew, see `TimerFiles::replace`.
            added -= slot.count;
            slot.first = None;
        }
        slot.count += added;
        slot.first = slot.first.or(Some(at));
        slot.last = Some(at);
        self.wheel.put(slot)?;
        Ok(i64::from(added))
    }

    /// Slots that name units behind the end of the log get the chain of those that are there.
    fn repair(&mut self, suspects: &[Slot], end: u64) -> io::Result<()> {
        let mut broken = HashSet::new();
        let mut from = end;
        for suspect in suspects {
            if self.wheel.slot(suspect.time_ms)?.is_some_and(|slot| slot.last >= Some(end)) {
                self.wheel.put(Slot { time_ms: suspect.time_ms, ..Slot::default() })?;
                broken.insert(suspect.time_ms);
                from = from.min(suspect.first.unwrap_or(0));
            }
        }
        if broken.is_empty() {
            return Ok(());
        }
        tracing::warn!(slots = broken.len(), "the timer wheel is ahead of its log and follows it again");
        let log = self.log.clone();
        let mut trouble = Ok(());
        log.scan(from, |at, unit| {
            if at >= end {
                return false;
            }
            if broken.contains(&self.config.slot_of(unit.time_ms())) {
                trouble = self.revise(at, &unit, i64::MIN).map(drop);
            }
            trouble.is_ok()
        })?;
        trouble
    }

    /// When the clock went back, slots that were delivered lie ahead: they are emptied, so that new messages can use
    /// them and old ones do not come again. Answers the first slot that is not finished, given that it was `read_ms`.
    ///
    /// # Errors
    /// The disk's.
    pub fn forget_future(&mut self, read_ms: i64, now_slot: i64) -> io::Result<i64> {
        if read_ms <= now_slot {
            return Ok(read_ms);
        }
        let steps = 2 * self.config.slots.cast_signed();
        let from = now_slot.max(read_ms - steps * self.config.precision_ms);
        let mut time_ms = from;
        while time_ms < read_ms {
            if self.wheel.slot(time_ms)?.is_some_and(|slot| slot.last.is_some()) {
                self.wheel.put(Slot { time_ms, ..Slot::default() })?;
            }
            time_ms += self.config.precision_ms;
        }
        Ok(now_slot)
    }
}
