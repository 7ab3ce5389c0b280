//! In-flight queue: a group's progress in popping a queue, and the pops in flight (`PopBufferMergeService`). Pure.
//!
//! | a pop in flight | settled when | the group's offset may pass it when |
//! |---|---|---|
//! | its checkpoint is in the log | at once | the log is on disk up to the end of the checkpoint |
//! | its checkpoint is in memory (`enablePopBufferMerge`), all acknowledged | at once | new checkpoints of messages are on disk |
//! | its checkpoint is in memory, not all acknowledged | it is appended with the acknowledgements so far | it is on disk |
//! | it found no message that matched | at once | at once |
//!
//! The group's offset passes pops only in the order they were made, so messages of pops that a crash makes the broker forget
//! are popped again.

use std::collections::{BTreeMap, VecDeque};

use wire::body::{Checkpoint, OrderState};
use wire::units::LogOffset;

/// An acknowledgement that comes less than this many milliseconds before its checkpoint must leave the memory ([`InFlightPatience`])
/// goes to the log.
const MARGIN_MS: i64 = 1500;

/// Pending checkpoints are recorded by time in steps of at least this many milliseconds, so that the table stays small.
const PENDING_STEP_MS: i64 = 10_000;

/// Time for which checkpoints stay in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InFlightPatience {
    /// `popCkStayBufferTime`: longest time in memory, counted from the pop.
    pub stay_ms: i64,
    /// `popCkStayBufferTimeOut`: a checkpoint leaves the memory at least this long before its messages are visible again.
    pub rest_ms: i64,
}

impl InFlightPatience {
    fn due_ms(self, checkpoint: &Checkpoint) -> i64 {
        let stay = checkpoint.pop_ms.saturating_add(self.stay_ms);
        stay.min(checkpoint.revive_ms().saturating_sub(self.rest_ms))
    }

    /// Whether a checkpoint may stay in memory long enough, counted from now, for that to be worth while.
    pub(crate) fn holds(self, checkpoint: &Checkpoint, now_ms: i64) -> bool {
        self.due_ms(checkpoint).saturating_sub(now_ms) >= MARGIN_MS
    }
}

/// Pop of the queue in flight: its messages are popped, and the group's offset has not passed them.
#[derive(Debug)]
struct InFlightPop {
    /// Queue offset behind the last message that the pop examined.
    next: i64,
    state: State,
}

#[derive(Debug)]
enum State {
    InMemory(HeldCheckpoint),
    /// The checkpoint was taken out of memory and is being appended to the log.
    Leaving {
        start: i64,
        pop_ms: i64,
    },
    /// The group's offset may pass the pop once the log is durable up to this position.
    Settled(LogOffset),
}

/// A checkpoint in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeldCheckpoint {
    /// Checkpoint with the acknowledgements so far.
    pub checkpoint: Checkpoint,
    /// Queue of the revive topic that gets the checkpoint when it is stored.
    pub revive_queue: i32,
    /// Log position that must be durable before the group's offset may pass this pop, because a message of the pop
    /// got a checkpoint of its own before it.
    pub after: LogOffset,
}

/// In-flight queue of a message queue and a group.
#[derive(Debug, Default)]
pub(crate) struct InFlightQueue {
    pops: VecDeque<InFlightPop>,
    /// State of the messages that the last ordered pop returned.
    pub order: Option<OrderState>,
    /// When this in-flight queue is checked next, in milliseconds since the epoch; `None` when no check is planned.
    pub alarm_ms: Option<i64>,
    /// Whether the group or the topic was deleted. Pops still in flight must then not move the group's offset, which may
    /// belong to a new group or topic with the same name.
    pub gone: bool,
    /// Checkpoints that were taken out by [`Self::clear`] and could not be stored yet.
    unstored: Vec<HeldCheckpoint>,
    /// Pending checkpoints in the log: the first message offset of each time step. The key is the time in
    /// milliseconds at which the revive engine has processed all checkpoints of that step.
    pending: BTreeMap<i64, i64>,
}

impl InFlightQueue {
    /// The queue offset at which the next pop reads, given the group's `committed` offset.
    pub(crate) fn position(&self, committed: i64) -> i64 {
        self.pops.back().map_or(committed, |pop| pop.next.max(committed))
    }

    /// Whether no pop is in flight and no checkpoint waits to be stored.
    pub(crate) fn is_empty(&self) -> bool {
        self.pops.is_empty() && self.unstored.is_empty()
    }

    /// Number of pops in flight.
    pub(crate) fn len(&self) -> usize {
        self.pops.len()
    }

    /// Adds a settled pop that read up to queue offset `next`. Its checkpoint ends at log offset `end`, which is zero
    /// without a checkpoint.
    pub(crate) fn settle(&mut self, next: i64, mut end: LogOffset) {
        let settled = |pop: &InFlightPop| matches!(pop.state, State::Settled(_));
        let mut last = self.pops.iter().rev();
        // The first of successive settled pops stays, so that the offset advances although more pops are added all
        // the time.
        let is_long = last.next().is_some_and(settled) && last.next().is_some_and(settled);
        if is_long && let Some(InFlightPop { state: State::Settled(before), .. }) = self.pops.pop_back() {
            // The merged pop waits for the flush that the replaced one waited for.
            end = end.max(before);
        }
        self.pops.push_back(InFlightPop { next, state: State::Settled(end) });
    }

    /// Records a checkpoint of the log as pending, because its messages may have to be revived, wherever the group's
    /// offset is. The revive engine has processed all checkpoints whose messages were visible again at `revived_ms`.
    pub(crate) fn add_pending(&mut self, checkpoint: &Checkpoint, now_ms: i64, revived_ms: i64) {
        self.forget_over(revived_ms);
        let revive_ms = checkpoint.revive_ms();
        // The further away the time is, the larger its step.
        let least_ms = (revive_ms.saturating_sub(now_ms) / 16).clamp(PENDING_STEP_MS, 1 << 40);
        let step_ms = least_ms.cast_unsigned().next_power_of_two().cast_signed();
        let over_ms = revive_ms.div_euclid(step_ms).saturating_add(1).saturating_mul(step_ms);
        let first = self.pending.entry(over_ms).or_insert(checkpoint.start_offset);
        *first = checkpoint.start_offset.min(*first);
    }

    /// Returns the offset of the first message that may have to be revived. The revive engine has processed all
    /// checkpoints whose messages were visible again at `revived_ms`.
    pub(crate) fn pending(&mut self, revived_ms: i64) -> Option<i64> {
        self.forget_over(revived_ms);
        self.pending.values().min().copied()
    }

    fn forget_over(&mut self, revived_ms: i64) {
        while self.pending.first_key_value().is_some_and(|(over_ms, _)| *over_ms <= revived_ms) {
            self.pending.pop_first();
        }
    }

    /// Adds a pop that read up to queue offset `next` and whose checkpoint stays in memory.
    pub(crate) fn hold(&mut self, held: HeldCheckpoint, next: i64) {
        self.pops.push_back(InFlightPop { next, state: State::InMemory(held) });
    }

    /// Acknowledges messages of the checkpoint in memory that began at offset `start` at time `pop_ms`. `after` is the log
    /// position behind the new checkpoints these messages got, or zero. Returns whether all messages of the checkpoint are
    /// acknowledged now; `None` when the acknowledgements must go to the log instead.
    pub(crate) fn ack(
        &mut self,
        (start, pop_ms): (i64, i64),
        (offsets, after): (&[i64], LogOffset),
        patience: InFlightPatience,
        now_ms: i64,
    ) -> Option<bool> {
        let index = self.find_held((start, pop_ms))?;
        let pop = &mut self.pops[index];
        let State::InMemory(HeldCheckpoint { checkpoint, after: passed, .. }) = &mut pop.state else {
            return None;
        };
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
            pop.state = State::Settled(end);
        }
        Some(is_done)
    }

    /// Adds the checkpoint in memory of a message whose invisible time changes. The message belongs to the checkpoint in memory that
    /// began at offset `start` at time `pop_ms`, and the caller acknowledges the message there. The group's offset does not pass the
    /// message before the new checkpoint is settled. Returns false, and adds nothing, if the old checkpoint is not in memory.
    pub(crate) fn renew(&mut self, name: (i64, i64), held: HeldCheckpoint) -> bool {
        let Some(index) = self.find_held(name) else { return false };
        let next = self.pops[index].next.min(name.0);
        self.pops.insert(index, InFlightPop { next, state: State::InMemory(held) });
        true
    }

    /// Index of the checkpoint in memory that began at offset `start` at time `pop_ms`.
    fn find_held(&self, (start, pop_ms): (i64, i64)) -> Option<usize> {
        self.pops.iter().rposition(|pop| {
            matches!(&pop.state, State::InMemory(held)
                if held.checkpoint.start_offset == start && held.checkpoint.pop_ms == pop_ms)
        })
    }

    /// Takes the checkpoints that must go to the log now. The caller reports the outcome of each with [`Self::left`].
    pub(crate) fn leave(&mut self, patience: InFlightPatience, now_ms: i64) -> Vec<HeldCheckpoint> {
        self.take(|checkpoint| patience.due_ms(checkpoint) <= now_ms)
    }

    /// Takes all checkpoints. Called when the broker stops.
    pub(crate) fn leave_all(&mut self) -> Vec<HeldCheckpoint> {
        self.take(|_| true)
    }

    /// Takes all checkpoints and drops all pops in flight. Called when the group's offset is reset or corrected.
    pub(crate) fn clear(&mut self) -> Vec<HeldCheckpoint> {
        let left = self.take(|_| true);
        self.pops.clear();
        self.order = None;
        left
    }

    /// Takes all checkpoints and ends the in-flight queue. Called when the group or the topic is deleted.
    pub(crate) fn end(&mut self) -> Vec<HeldCheckpoint> {
        self.gone = true;
        self.clear()
    }

    fn take(&mut self, is_due: impl Fn(&Checkpoint) -> bool) -> Vec<HeldCheckpoint> {
        let mut left = std::mem::take(&mut self.unstored);
        for pop in &mut self.pops {
            if let State::InMemory(HeldCheckpoint { checkpoint, .. }) = &pop.state
                && is_due(checkpoint)
            {
                let leaving = State::Leaving { start: checkpoint.start_offset, pop_ms: checkpoint.pop_ms };
                if let State::InMemory(held) = std::mem::replace(&mut pop.state, leaving) {
                    left.push(held);
                }
            }
        }
        left
    }

    /// Reports that a removed checkpoint is stored and ends at log offset `end`. With `None` the store failed, and
    /// the checkpoint returns to memory. Returns false if an unstored checkpoint is dropped, because the group or the
    /// topic was deleted.
    pub(crate) fn left(&mut self, held: HeldCheckpoint, end: Option<LogOffset>) -> bool {
        let (start_offset, taken_ms) = (held.checkpoint.start_offset, held.checkpoint.pop_ms);
        let found = self.pops.iter_mut().find(|pop| {
            matches!(pop.state, State::Leaving { start, pop_ms } if start == start_offset && pop_ms == taken_ms)
        });
        match (found, end) {
            (Some(pop), Some(end)) => pop.state = State::Settled(end),
            (Some(pop), None) => pop.state = State::InMemory(held),
            (None, None) if !self.gone => self.unstored.push(held),
            (None, _) => return end.is_some(),
        }
        true
    }

    /// Removes the settled pops at the head whose checkpoints are on disk, and returns the group's offset behind
    /// them. `None` without such pops.
    pub(crate) fn commit(&mut self, flushed: LogOffset) -> Option<i64> {
        let mut next = None;
        while let Some(InFlightPop { next: passed, state: State::Settled(end) }) = self.pops.front()
            && *end <= flushed
        {
            next = Some(*passed);
            self.pops.pop_front();
        }
        next
    }

    /// Returns the time of the next check of the in-flight queue, in milliseconds since the epoch. The time is
    /// `flush_ms` if the queue only waits for the disk. `None` without a pending time.
    pub(crate) fn due_ms(&self, patience: InFlightPatience, flush_ms: i64) -> Option<i64> {
        let due = |pop: &InFlightPop| match &pop.state {
            State::InMemory(held) => Some(patience.due_ms(&held.checkpoint)),
            _ => None,
        };
        let waits = self.pops.front().is_some_and(|pop| matches!(pop.state, State::Settled(_)))
            || !self.unstored.is_empty();
        self.pops.iter().filter_map(due).chain(waits.then_some(flush_ms)).min()
    }
}

#[cfg(test)]
mod tests;
