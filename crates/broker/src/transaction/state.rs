//! Which half messages are decided. Pure: no log, no clock.

use std::collections::{BTreeSet, HashMap, VecDeque};

use wire::units::LogOffset;

use crate::schedule::SetBack;

/// What is known of the half queue from `first` on.
#[derive(Debug, Default)]
pub(super) struct State {
    /// Everything before this half offset is decided.
    pub first: i64,
    /// Decided half offsets at or behind it.
    done: BTreeSet<i64>,
    /// Op records that still name such an offset or lie behind one that does: op offset and highest half offset.
    records: VecDeque<(i64, i64)>,
    /// Everything before this op offset is of no use any more.
    next_op: i64,
    /// From the offset a half message had to the one it got when it was checked, as long as it is undecided.
    moved: HashMap<i64, i64>,
    /// The former offsets of each undecided message that was checked.
    former: HashMap<i64, Vec<i64>>,
    /// Whether the clock is behind what is stored.
    pub set_back: SetBack,
    /// Positions at an earlier time and the end of the log then.
    waiting: Option<(i64, i64, LogOffset)>,
}

impl State {
    /// Begins at the positions of the other side of a restart.
    pub(super) fn new(first: i64, next_op: i64) -> Self {
        Self { first, next_op, ..Self::default() }
    }

    /// Takes an op record into account.
    pub(super) fn decided(&mut self, half: i64, op: i64) {
        if half >= self.first {
            self.done.insert(half);
        }
        self.records.push_back((op, half));
        for former in self.former.remove(&half).into_iter().flatten() {
            self.moved.remove(&former);
        }
        while self.done.remove(&self.first) {
            self.first += 1;
        }
        self.retire();
    }

    /// A half message lies at another offset now; [`Self::decided`] was called for the one before.
    pub(super) fn moved(&mut self, before: i64, former: Vec<i64>, now: i64) {
        let mut former = former;
        former.push(before);
        self.moved.extend(former.iter().map(|offset| (*offset, now)));
        self.former.insert(now, former);
    }

    /// The offsets an undecided message had before.
    pub(super) fn former(&self, half: i64) -> Vec<i64> {
        self.former.get(&half).cloned().unwrap_or_default()
    }

    /// Where the half message of this offset lies now; `None` when it is decided.
    pub(super) fn undecided(&self, half: i64) -> Option<i64> {
        let now = self.moved.get(&half).copied().unwrap_or(half);
        (now >= self.first && !self.done.contains(&now)).then_some(now)
    }

    /// The half queue begins here: what was before is gone from the log.
    pub(super) fn skip_to(&mut self, min: i64) {
        if min <= self.first {
            return;
        }
        self.first = min;
        self.done = self.done.split_off(&min);
        self.moved.retain(|_, now| *now >= min);
        self.former.retain(|now, _| *now >= min);
        while self.done.remove(&self.first) {
            self.first += 1;
        }
        self.retire();
    }

    fn retire(&mut self) {
        while let Some((op, _)) = self.records.pop_front_if(|(_, half)| *half < self.first) {
            self.next_op = op + 1;
        }
    }

    /// Half and op positions that everything on disk agrees with, if they may be told now.
    pub(super) fn positions(&mut self, flushed: LogOffset, appended: LogOffset) -> Option<(i64, i64)> {
        let ready = match self.waiting {
            Some((.., end)) if end > flushed => return None,
            Some((half, op, _)) => Some((half, op)),
            None => None,
        };
        self.waiting = Some((self.first, self.next_op, appended));
        if appended <= flushed {
            return Some((self.first, self.next_op));
        }
        ready
    }
}
