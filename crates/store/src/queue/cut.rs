//! Cuts off the end of a queue when the log is truncated.

use super::{Extent, Queue};
use crate::error::Result;
use crate::wake::lock;
use std::sync::atomic::Ordering;
use wire::units::QueueOffset;

/// Units per read in the search for the last non-blank unit.
const STEP_UNITS: u64 = 4096;

/// Remainder of a queue when the log is truncated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueRemainder {
    /// Queue offset that the next message gets.
    end: u64,
    /// Log position of the last message that stays, or [`Extent::NONE`].
    last: u64,
}

/// Units that a truncation of the log removed from a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RemovedUnits {
    /// Number of units taken that were in no queue file yet.
    pub(crate) unwritten: u64,
    /// Range of queue offsets whose units must be wiped from the files.
    pub(crate) in_files: Option<(u64, u64)>,
}

impl Queue {
    /// Returns the remainder of the queue when the log ends at `to`, or `None` if the queue stays whole. Waits for
    /// the disk.
    pub(crate) fn cut_at(&self, to: u64) -> Result<Option<QueueRemainder>> {
        let newest = {
            let tail = lock(&self.tail);
            let held = tail.units.range(0, tail.units.len()).rev().find(|unit| !unit.is_blank());
            held.map_or(tail.last, |unit| unit.log_offset.get())
        };
        let (min, max) = (self.min().get(), self.max().get());
        if newest < to || min == max {
            return Ok(None);
        }
        // Finds the first message behind the position.
        let (mut low, mut high) = (min, max);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.next_message(QueueOffset::new(middle), QueueOffset::new(high))? {
                Some((at, unit)) if unit.log_offset.get() < to => low = at.get() + 1,
                _ => high = middle,
            }
        }
        // Blank units came together with the message behind them, and go with it.
        let mut units = Vec::new();
        while high > min {
            let from = high.saturating_sub(STEP_UNITS).max(min);
            units.clear();
            let count = usize::try_from(high - from).expect("a short step");
            self.units_blocking(QueueOffset::new(from), count, &mut units)?;
            if let Some(index) = units.iter().rposition(|unit| !unit.is_blank()) {
                let end = from + index as u64 + 1;
                return Ok((end < max).then_some(QueueRemainder { end, last: units[index].log_offset.get() }));
            }
            high = from;
        }
        Ok(Some(QueueRemainder { end: min, last: Extent::NONE }))
    }

    /// Cuts the queue off. The caller holds the appender's lock and excludes checkpoints.
    pub(crate) fn cut(&self, cut: QueueRemainder) -> RemovedUnits {
        let QueueRemainder { end, last } = cut;
        let mut tail = lock(&self.tail);
        let max = tail.first + tail.units.len() as u64;
        let unwritten = max - tail.written.max(end);
        let in_files = (tail.written > end).then_some((end, tail.written));
        let kept = usize::try_from(end.saturating_sub(tail.first)).expect("inside the tail");
        tail.units.truncate(kept);
        tail.first = tail.first.min(end);
        if tail.written > end {
            (tail.written, tail.last) = (end, last);
        }
        tail.journaled = tail.journaled.min(end);
        tail.counted = tail.counted.min(end);
        if tail.committed.max > end {
            tail.committed = Extent { min: tail.committed.min.min(end), max: end, last };
        }
        tail.lost =
            tail.lost.map(|(from, until)| (from, until.min(end))).filter(|(from, until)| from < until);
        self.next_unit.store(tail.units.next_place(), Ordering::Relaxed);
        self.max.store(end, Ordering::Release);
        self.next.store(end, Ordering::Relaxed);
        drop(tail);
        if let Some(batches) = &self.batches {
            // RocketMQ's files are compared with the queue and written anew where they hold more.
            *lock(batches) = None;
        }
        RemovedUnits { unwritten, in_files }
    }
}
