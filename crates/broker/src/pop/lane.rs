//! How far a group has popped one queue, and what is in flight (`PopBufferMergeService`). Pure.
//!
//! | a pop in flight | settled when | the group's offset may pass it when |
//! |---|---|---|
//! | its checkpoint is in the log | at once | the log is on disk behind the checkpoint |
//! | its checkpoint is held in memory (`enablePopBufferMerge`) | all messages are acknowledged, or the checkpoint and the acknowledgements so far are in the log | the same |
//! | it found nothing that matched | at once | at once |
//!
//! The offset of the group passes pops in their order, so what a crash loses of this table is popped again.

use std::collections::{BTreeMap, VecDeque};

use wire::body::{Checkpoint, OrderState};
use wire::units::LogOffset;

/// Acknowledgements this close to the times of [`Patience`] go to the log.
const MARGIN_MS: i64 = 1500;

/// What may come back is noted by time in steps of at least this, so that there is little of it.
const OWED_STEP_MS: i64 = 10_000;

/// How long checkpoints are held.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// `popCkStayBufferTime`: after the pop.
    pub stay_ms: i64,
    /// `popCkStayBufferTimeOut`: before its messages are visible again.
    pub rest_ms: i64,
}

impl Patience {
    fn due_ms(self, checkpoint: &Checkpoint) -> i64 {
        let stay = checkpoint.pop_ms.saturating_add(self.stay_ms);
        stay.min(checkpoint.revive_ms().saturating_sub(self.rest_ms))
    }

    /// Whether a checkpoint made now is worth holding.
    pub(super) fn holds(self, checkpoint: &Checkpoint, now_ms: i64) -> bool {
        self.due_ms(checkpoint).saturating_sub(now_ms) >= MARGIN_MS
    }
}

/// One pop in flight.
#[derive(Debug)]
struct Flight {
    /// Offset behind what it looked at.
    next: i64,
    state: State,
}

#[derive(Debug)]
enum State {
    Held(Held),
    /// Its records are being appended.
    Leaving {
        start: i64,
        pop_ms: i64,
    },
    Settled(LogOffset),
}

/// A checkpoint in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    /// With the acknowledgements so far.
    pub checkpoint: Checkpoint,
    /// Queue of the revive topic.
    pub revive_queue: i32,
    /// The group's offset may pass it when the log is on disk up to here: a message of it has a checkpoint of its own there.
    pub after: LogOffset,
}

/// One queue as one group sees it.
#[derive(Debug, Default)]
pub(super) struct Lane {
    flights: VecDeque<Flight>,
    /// The messages popped in order last.
    pub order: Option<OrderState>,
    /// When the agenda looks at this lane next.
    pub alarm_ms: Option<i64>,
    /// The group or the topic was deleted: what is still in flight moves no offset, which would be that of another one
    /// with the same name.
    pub gone: bool,
    /// Checkpoints that were taken out by [`Self::clear`] and could not be stored.
    unstored: Vec<Held>,
    /// First messages of the checkpoints in the log, by the time at which all of them are over.
    owed: BTreeMap<i64, i64>,
}

impl Lane {
    /// Where the next pop reads, given the group's offset.
    pub(super) fn position(&self, committed: i64) -> i64 {
        self.flights.back().map_or(committed, |flight| flight.next.max(committed))
    }

    /// Whether nothing is in flight.
    pub(super) fn is_empty(&self) -> bool {
        self.flights.is_empty() && self.unstored.is_empty()
    }

    /// Number of pops in flight.
    pub(super) fn len(&self) -> usize {
        self.flights.len()
    }

    /// Adds a pop that read up to `next` and whose records lie before `end`; zero when it has none.
    pub(super) fn settle(&mut self, next: i64, mut end: LogOffset) {
        let settled = |flight: &Flight| matches!(flight.state, State::Settled(_));
        let mut last = self.flights.iter().rev();
        // The first of a run stays as it is, so that the offset moves on although more are added all the time.
        let is_long = last.next().is_some_and(settled) && last.next().is_some_and(settled);
        if is_long && let Some(Flight { state: State::Settled(before), .. }) = self.flights.pop_back() {
            // What it waited for is waited for still.
            end = end.max(before);
        }
        self.flights.push_back(Flight { next, state: State::Settled(end) });
    }

    /// Notes a checkpoint that goes to the log: its messages may have to come back, wherever the group's offset is.
    /// Everything is over that was to be until `revived_ms`.
    pub(super) fn owe(&mut self, checkpoint: &Checkpoint, now_ms: i64, revived_ms: i64) {
        self.forget_over(revived_ms);
        let revive_ms = checkpoint.revive_ms();
        // The further away, the coarser.
        let least_ms = (revive_ms.saturating_sub(now_ms) / 16).clamp(OWED_STEP_MS, 1 << 40);
        let step_ms = least_ms.cast_unsigned().next_power_of_two().cast_signed();
        let over_ms = revive_ms.div_euclid(step_ms).saturating_add(1).saturating_mul(step_ms);
        let first = self.owed.entry(over_ms).or_insert(checkpoint.start_offset);
        *first = checkpoint.start_offset.min(*first);
    }

    /// The first message that may have to come back.
    pub(super) fn owed(&mut self, revived_ms: i64) -> Option<i64> {
        self.forget_over(revived_ms);
        self.owed.values().min().copied()
    }

    fn forget_over(&mut self, revived_ms: i64) {
        while self.owed.first_key_value().is_some_and(|(over_ms, _)| *over_ms <= revived_ms) {
            self.owed.pop_first();
        }
    }

    /// Adds a pop whose checkpoint stays in memory.
    pub(super) fn hold(&mut self, held: Held, next: i64) {
        self.flights.push_back(Flight { next, state: State::Held(held) });
    }

    /// Acknowledges messages of a checkpoint in memory, whose own checkpoints end at `after`, and says whether it is settled;
    /// `None` when they must go to the log.
    pub(super) fn ack(
        &mut self,
        (start, pop_ms): (i64, i64),
        (offsets, after): (&[i64], LogOffset),
        patience: Patience,
        now_ms: i64,
    ) -> Option<bool> {
        let found = self.flights.iter_mut().rev().find_map(|flight| match &mut flight.state {
            State::Held(held)
                if held.checkpoint.start_offset == start && held.checkpoint.pop_ms == pop_ms =>
            {
                Some(flight)
            }
            _ => None,
        });
        let flight = found?;
        let State::Held(Held { checkpoint, after: passed, .. }) = &mut flight.state else { return None };
        if !patience.holds(checkpoint, now_ms) {
            return None;
        }
        for offset in offsets {
            if let Some(index) = checkpoint.index_of(*offset) {
                checkpoint.ack(index);
            }
        }
        *passed = after.max(*passed);
        let (is_done, end) = (checkpoint.is_done(), *passed);
        if is_done {
            flight.state = State::Settled(end);
        }
        Some(is_done)
    }

    /// Takes the checkpoints that must go to the log now; [`Self::left`] says what became of them.
    pub(super) fn leave(&mut self, patience: Patience, now_ms: i64) -> Vec<Held> {
        self.take(|checkpoint| patience.due_ms(checkpoint) <= now_ms)
    }

    /// Takes all checkpoints: the broker stops.
    pub(super) fn leave_all(&mut self) -> Vec<Held> {
        self.take(|_| true)
    }

    /// Takes all checkpoints and forgets what is in flight: the group goes elsewhere.
    pub(super) fn clear(&mut self) -> Vec<Held> {
        let left = self.take(|_| true);
        self.flights.clear();
        self.order = None;
        left
    }

    /// Takes everything out and ends the lane: the group or the topic was deleted.
    pub(super) fn end(&mut self) -> Vec<Held> {
        self.gone = true;
        self.clear()
    }

    fn take(&mut self, is_due: impl Fn(&Checkpoint) -> bool) -> Vec<Held> {
        let mut left = std::mem::take(&mut self.unstored);
        for flight in &mut self.flights {
            if let State::Held(Held { checkpoint, .. }) = &flight.state
                && is_due(checkpoint)
            {
                let leaving = State::Leaving { start: checkpoint.start_offset, pop_ms: checkpoint.pop_ms };
                if let State::Held(held) = std::mem::replace(&mut flight.state, leaving) {
                    left.push(held);
                }
            }
        }
        left
    }

    /// Notes that the records of a checkpoint that left lie before `end`; without, it is held again. False when nobody
    /// wants it any more.
    pub(super) fn left(&mut self, held: Held, end: Option<LogOffset>) -> bool {
        let (start_offset, taken_ms) = (held.checkpoint.start_offset, held.checkpoint.pop_ms);
        let found = self.flights.iter_mut().find(|flight| {
            matches!(flight.state, State::Leaving { start, pop_ms } if start == start_offset && pop_ms == taken_ms)
        });
        match (found, end) {
            (Some(flight), Some(end)) => flight.state = State::Settled(end),
            (Some(flight), None) => flight.state = State::Held(held),
            (None, None) if !self.gone => self.unstored.push(held),
            (None, _) => return end.is_some(),
        }
        true
    }

    /// Takes the offset of the group behind everything settled, given how much of the log is on disk.
    pub(super) fn commit(&mut self, flushed: LogOffset) -> Option<i64> {
        let mut next = None;
        while let Some(Flight { next: passed, state: State::Settled(end) }) = self.flights.front()
            && *end <= flushed
        {
            next = Some(*passed);
            self.flights.pop_front();
        }
        next
    }

    /// When to look at the flights again; `None` when nothing is in flight.
    pub(super) fn due_ms(&self, patience: Patience, flush_ms: i64) -> Option<i64> {
        let due = |flight: &Flight| match &flight.state {
            State::Held(held) => Some(patience.due_ms(&held.checkpoint)),
            _ => None,
        };
        let waits = self.flights.front().is_some_and(|flight| matches!(flight.state, State::Settled(_)))
            || !self.unstored.is_empty();
        self.flights.iter().filter_map(due).chain(waits.then_some(flush_ms)).min()
    }
}

#[cfg(test)]
mod tests;
