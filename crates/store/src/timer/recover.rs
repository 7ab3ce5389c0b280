//! Opens the timer's files after a crash or damage (`TimerMessageStore.recover`).

use super::files::{CheckWriter, TimerFiles};
use super::slot::Slot;
use super::unit::{TimerUnit, UNIT_BYTES, magic};
use std::collections::HashSet;
use std::io;
use std::ops::Range;
use wire::units::LogOffset;

/// Slots of the wheel left out when the read time is unknown and reading restarts as far in the past as the wheel
/// reaches.
const SLOTS_FREE: i64 = 60;

/// Position at which the timer continues after recovery.
#[derive(Clone, Copy, Debug)]
pub struct TimerRecovery {
    /// Start of the first slot with undelivered messages, ms since the epoch.
    pub read_ms: i64,
    /// Log position of the newest message with a unit. `None` if recovery accepted or read no unit.
    pub newest: Option<LogOffset>,
    next: ResumePoint,
    /// Queue offset: earlier messages in slots before [`Self::read_ms`] were delivered, and are skipped if they are read
    /// again.
    pub delivered_before: i64,
    /// Number of waiting messages, minus the cancelling messages.
    pub pending: i64,
}

/// Message of the timer queue at which the timer continues.
#[derive(Clone, Copy, Debug)]
enum ResumePoint {
    /// The message at this queue offset.
    Number(i64),
    /// The message after the newest message with a unit, but at least queue offset `least`. Queue
    /// offset `unknown` if the queue offset of the newest message cannot be read.
    Behind { least: i64, unknown: i64 },
}

/// State of the wheel before any change.
#[derive(Default)]
struct WheelSurvey {
    /// Number of slots that are not over.
    slots: u64,
    /// Number of messages in the slots, minus the cancelling messages.
    pending: i64,
    /// Slots whose chains begin before the timer log does.
    headless: Vec<Slot>,
}

impl TimerRecovery {
    /// Queue offset of the next message to process; `newest_offset` is that of the newest message with a unit, if it can be
    /// read.
    pub fn queue_offset(&self, newest_offset: Option<i64>) -> i64 {
        match (self.next, newest_offset) {
            (ResumePoint::Number(number), _) => number,
            (ResumePoint::Behind { least, .. }, Some(offset)) => least.max(offset + 1),
            (ResumePoint::Behind { unknown, .. }, None) => unknown,
        }
    }
}

impl TimerFiles {
    /// Puts the units behind the last save back into their slots, or all units if the wheel was missing. `log_end` is
    /// the commit log's end. Units of lost messages behind it are cut off.
    ///
    /// # Errors
    /// The error of the failed file operation.
    pub fn recover(&mut self, log_end: LogOffset, now_ms: i64) -> io::Result<TimerRecovery> {
        let now_slot = self.config.slot_of(now_ms);
        let read_ms = self.first_slot(now_slot);
        let survey = self.survey(read_ms)?;
        let mut pending = survey.pending;
        // Vostok's `retire` leaves whole chains. RocketMQ removes units together with their records, whatever their slots.
        if self.log.has_gap() || (self.writer == CheckWriter::Ours && !survey.headless.is_empty()) {
            tracing::error!(
                slots = survey.headless.len(),
                "files of the timer log are missing; the queue of timed messages is read again from its beginning"
            );
            self.log.clear()?;
        } else {
            pending += self.shorten(&survey.headless)?;
        }
        let (next, newest, added) = self.follow(survey.slots, log_end, read_ms)?;
        if self.end < self.position() {
            tracing::warn!(
                "the timer log lost its end; the queue of timed messages is read again from there"
            );
        }
        self.log.cut(self.end)?;
        pending += added + self.repair(read_ms)?;
        let read_ms = self.forget_future(read_ms, now_slot)?;
        self.wheel.settle(&*self.disk)?;
        let delivered_before = self.checked().max(self.check.master_queue_offset);
        Ok(TimerRecovery { read_ms, newest, next, delivered_before, pending: pending.max(0) })
    }

    /// Position up to which the `timercheck` file relies on units.
    fn position(&self) -> u64 {
        self.check.log_position.max(0).cast_unsigned()
    }

    /// Queue offset up to which the `timercheck` file relies on messages.
    fn checked(&self) -> i64 {
        self.check.queue_offset.max(0)
    }

    /// The first slot that may hold undelivered messages.
    fn first_slot(&self, now_slot: i64) -> i64 {
        let span = (self.config.slots.cast_signed() - SLOTS_FREE).max(1) * self.config.precision_ms;
        match (self.writer, self.log.capacity_end()) {
            (CheckWriter::Java | CheckWriter::Ours, _) => self.config.slot_of(self.check.read_ms),
            (CheckWriter::Nothing, 0) => now_slot,
            (CheckWriter::Nothing, _) => now_slot - span,
        }
    }

    fn survey(&self, read_ms: i64) -> io::Result<WheelSurvey> {
        let min = self.log.min();
        let mut survey = WheelSurvey::default();
        self.wheel.for_each(read_ms, |slot| {
            survey.slots += 1;
            survey.pending += i64::from(slot.count);
            if [slot.first, slot.last].into_iter().flatten().any(|at| at < min) {
                survey.headless.push(slot);
            }
        })?;
        Ok(survey)
    }

    /// Shortens the chains of slots whose first units are deleted, so that the chains do not count as damaged later.
    /// Returns the change in the number of waiting messages.
    fn shorten(&mut self, headless: &[Slot]) -> io::Result<i64> {
        let min = self.log.min();
        let mut changed = 0;
        for slot in headless {
            if slot.last >= Some(min) {
                self.wheel.put(Slot { first: Some(min), ..*slot })?;
            } else {
                self.wheel.put(Slot { time_ms: slot.time_ms, ..Slot::default() })?;
                changed -= i64::from(slot.count);
            }
        }
        Ok(changed)
    }

    /// Finds the end of the timer log, and reads the part of it that may be missing in the wheel. Returns the
    /// continuation in the queue, the newest message with a unit, and the change in the number of waiting messages.
    fn follow(
        &mut self,
        slots: u64,
        log_end: LogOffset,
        read_ms: i64,
    ) -> io::Result<(ResumePoint, Option<LogOffset>, i64)> {
        let (position, checked) = (self.position(), self.checked());
        let is_ours = self.writer == CheckWriter::Ours;
        let is_whole = (self.log.min()..=self.log.capacity_end()).contains(&position);
        if is_ours && is_whole && !self.wheel.is_new() {
            // Units behind the saved position are made again from the timer queue.
            self.end = position;
            return Ok((ResumePoint::Number(checked), None, 0));
        }
        // Without slots all units are read; otherwise those from the last file before the saved position on, as RocketMQ
        // does.
        let from = if slots == 0 || !is_whole { 0 } else { position.saturating_sub(self.log.file_bytes()) };
        let end = if is_ours { position } else { u64::MAX };
        let (mut added, mut newest) = self.scan(from..end, log_end, read_ms)?;
        if is_ours && self.end < position {
            self.wheel.forget();
            if is_whole {
                // Files that stay would count as complete after a crash before the next save.
                tracing::error!("the timer log has no units where its check counts on them; it begins anew");
                self.log.clear()?;
            }
            // Units that a clean stop added again behind the newest message may be a partial chain: only those before count.
            let end = newest.map_or(0, |(_, end)| end);
            (added, newest) = self.scan(from..end, log_end, read_ms)?;
        }
        let newest = newest.map(|(message, _)| message);
        let unknown = if self.end < position { 0 } else { checked };
        let next = match newest {
            _ if is_ours && self.end == position => ResumePoint::Number(checked),
            None if position > 0 => ResumePoint::Number(0),
            None => ResumePoint::Number(checked),
            // RocketMQ delivers a message that comes too late without a unit.
            Some(_) if self.end == position => ResumePoint::Behind { least: checked, unknown },
            Some(_) => ResumePoint::Behind { least: 0, unknown },
        };
        Ok((next, newest, added))
    }

    /// Puts the units from the file of `range.start` on into their slots. Returns the change in the number of waiting
    /// messages. Also returns the newest message with a unit, and the position behind its first unit.
    fn scan(
        &mut self,
        range: Range<u64>,
        log_end: LogOffset,
        read_ms: i64,
    ) -> io::Result<(i64, Option<(LogOffset, u64)>)> {
        let log = self.log.clone();
        let mut newest = None::<(LogOffset, u64)>;
        let mut added = 0;
        let mut trouble = Ok(());
        self.end = log.scan(range.start, |at, unit| {
            if at >= range.end || unit.end() > log_end || unit.previous >= Some(at) {
                return false;
            }
            if newest.is_none_or(|(message, _)| unit.log_offset > message) {
                newest = Some((unit.log_offset, at + UNIT_BYTES));
            }
            match self.revise(at, &unit, read_ms) {
                Ok(more) => added += more,
                Err(error) => trouble = Err(error),
            }
            trouble.is_ok()
        })?;
        trouble.map(|()| (added, newest))
    }

    /// Makes a unit the newest unit of its slot, unless the slot has it or a newer unit. Returns the change in the
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
            // The chain begins again here, and the slot keeps the first unit of the old one, see `TimerFiles::replace`.
            added -= slot.count;
        }
        slot.count += added;
        slot.first = slot.first.or(Some(at));
        slot.last = Some(at);
        self.wheel.put(slot)?;
        Ok(i64::from(added))
    }

    /// Repairs slots that refer to units behind the timer log's end: they get the chain of the existing units.
    /// Returns the change in the number of waiting messages.
    fn repair(&mut self, read_ms: i64) -> io::Result<i64> {
        let end = self.end;
        // Slots changed since the file was read refer to units before the end: the file shows all slots to repair.
        let mut ahead = Vec::new();
        self.wheel.for_each(read_ms, |slot| {
            if slot.last >= Some(end) {
                ahead.push(slot);
            }
        })?;
        if ahead.is_empty() {
            return Ok(0);
        }
        tracing::warn!(slots = ahead.len(), "the timer wheel is ahead of its log and follows it again");
        let mut changed = 0;
        for slot in &ahead {
            self.wheel.put(Slot { time_ms: slot.time_ms, ..Slot::default() })?;
            changed -= i64::from(slot.count);
        }
        let from = ahead.iter().map(|slot| slot.first.unwrap_or(0)).min().unwrap_or(0);
        let broken: HashSet<i64> = ahead.iter().map(|slot| slot.time_ms).collect();
        let log = self.log.clone();
        let mut trouble = Ok(());
        log.scan(from, |at, unit| {
            if at >= end {
                return false;
            }
            if broken.contains(&self.config.slot_of(unit.time_ms())) {
                match self.revise(at, &unit, i64::MIN) {
                    Ok(more) => changed += more,
                    Err(error) => trouble = Err(error),
                }
            }
            trouble.is_ok()
        })?;
        trouble.map(|()| changed)
    }

    /// Empties slots in the future that were delivered before the clock was set back. New messages can use them then,
    /// and old messages are not delivered again. Returns the first unfinished slot, which was `read_ms` before.
    ///
    /// # Errors
    /// The error of reading or changing the wheel.
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
