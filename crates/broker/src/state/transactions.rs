//! Which half messages are decided. Pure: no log, no clock.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use parking_lot::{Mutex, MutexGuard};
use wire::units::LogOffset;

use super::ClockSetBack;

/// Most half messages whose end is remembered. The oldest is forgotten first.
const ENDS_MAX: usize = 1 << 16;

/// Decision of a producer about its half message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Consumers get the message.
    Commit,
    /// The message is discarded.
    Rollback,
}

/// End of a half message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The producer decided.
    Decided(Decision),
    /// The producer did not decide in time, and the message is in `TRANS_CHECK_MAX_TIME_TOPIC`. Holds its last half
    /// offset.
    GivenUp(i64),
}

/// Ends of the newest half messages since the broker started, by half offset.
#[derive(Debug, Default)]
struct Ends {
    by_half: HashMap<i64, End>,
    /// The half offsets in the order in which the messages ended.
    order: VecDeque<i64>,
}

impl Ends {
    fn note(&mut self, half: i64, end: End) {
        if self.by_half.insert(half, end).is_none() {
            self.order.push_back(half);
        }
        if self.order.len() > ENDS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_half.remove(&oldest);
        }
    }
}

/// The half messages of the broker.
#[derive(Default)]
pub(crate) struct Transactions {
    half_messages: Mutex<HalfMessages>,
}

impl Transactions {
    /// Locks the state. The lock is held during an append, so that a half message is decided only once.
    pub(crate) fn lock(&self) -> MutexGuard<'_, HalfMessages> {
        self.half_messages.lock()
    }
}

/// The state of the half messages from half offset `first` on.
#[derive(Debug, Default)]
pub(crate) struct HalfMessages {
    /// All half messages before this half offset are decided.
    pub first: i64,
    /// Half offsets at or behind `first` that are decided.
    done: BTreeSet<i64>,
    /// Valid op records: each decides a message at or behind `first`, or lies behind such a record. Pairs of op
    /// offset and half offset.
    records: VecDeque<(i64, i64)>,
    /// Op records before this op offset are no longer needed.
    next_op: i64,
    /// Present half offset of checked undecided messages, by each former half offset.
    moved: HashMap<i64, i64>,
    /// All former half offsets of checked undecided messages, by the present half offset.
    former: HashMap<i64, Vec<i64>>,
    /// Ends of messages, by every half offset that their producers may name. Messages that were given up are
    /// separate, because they may be committed long after.
    decided: Ends,
    given_up: Ends,
    /// Whether the clock was set back behind the store times of half messages.
    pub set_back: ClockSetBack,
    /// Decisions of producers since the broker started, by topic.
    decisions: HashMap<String, Decisions>,
    /// Half and op position at an earlier time, and the end of the log then, which must be flushed before they are committed.
    waiting: Option<(i64, i64, LogOffset)>,
}

/// Upper bounds in seconds of the ranges in which commits are counted by the age of their message
/// (`BrokerMetricsManager.initTransactionMetrics`); a last range has no bound.
pub(crate) const FINISH_BOUNDS_S: [u64; 6] = [5, 60, 600, 3600, 43_200, 86_400];

/// Decisions of producers about the messages of a topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decisions {
    pub rollbacks: u64,
    /// Commits by the age of their message, in the ranges of [`FINISH_BOUNDS_S`].
    pub commits: [u64; FINISH_BOUNDS_S.len() + 1],
    /// Sum of these ages in seconds.
    pub ages_s: u64,
}

impl HalfMessages {
    /// Begins at the positions that were committed before a restart.
    pub(crate) fn new(first: i64, next_op: i64) -> Self {
        Self { first, next_op, ..Self::default() }
    }

    /// Applies the decision about half offset `half` in the op record at offset `op`.
    pub(crate) fn decided(&mut self, half: i64, op: i64) {
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

    /// Records that a half message was stored again at half offset `now`. [`Self::decided`] was called for the offset `before`.
    pub(crate) fn moved(&mut self, before: i64, former: Vec<i64>, now: i64) {
        let mut former = former;
        former.push(before);
        self.moved.extend(former.iter().map(|offset| (*offset, now)));
        self.former.insert(now, former);
    }

    /// Records the end of the message with these present or former half offsets.
    pub(crate) fn note_end(&mut self, halves: impl IntoIterator<Item = i64>, end: End) {
        let ends = match end {
            End::Decided(_) => &mut self.decided,
            End::GivenUp(_) => &mut self.given_up,
        };
        halves.into_iter().for_each(|half| ends.note(half, end));
    }

    /// Returns the end of the message with this present or former half offset, if it is remembered.
    pub(crate) fn end_of(&self, half: i64) -> Option<End> {
        let decided = |half| self.decided.by_half.get(&half).copied();
        let given_up = self.given_up.by_half.get(&half).copied();
        decided(half).or_else(|| match given_up {
            Some(End::GivenUp(last)) => decided(last).or(given_up),
            other => other,
        })
    }

    /// Counts the commit of a message of `topic` that its producer made `age_s` seconds ago.
    pub(crate) fn count_commit(&mut self, topic: &str, age_s: u64) {
        let decisions = self.decisions_of(topic);
        decisions.commits[FINISH_BOUNDS_S.partition_point(|bound| *bound < age_s)] += 1;
        decisions.ages_s += age_s;
    }

    /// Counts the rollback of a message of `topic`.
    pub(crate) fn count_rollback(&mut self, topic: &str) {
        self.decisions_of(topic).rollbacks += 1;
    }

    fn decisions_of(&mut self, topic: &str) -> &mut Decisions {
        if !self.decisions.contains_key(topic) {
            self.decisions.insert(topic.to_owned(), Decisions::default());
        }
        self.decisions.get_mut(topic).expect("inserted above when it was missing")
    }

    /// Removes the decisions about messages of a deleted topic.
    pub(crate) fn forget_topic(&mut self, topic: &str) {
        self.decisions.remove(topic);
    }

    /// Returns the decisions of producers since the broker started, by topic.
    pub(crate) fn decisions(&self) -> BTreeMap<String, Decisions> {
        self.decisions.iter().map(|(topic, decisions)| (topic.clone(), *decisions)).collect()
    }

    /// The half offsets an undecided message had before.
    pub(crate) fn former(&self, half: i64) -> Vec<i64> {
        self.former.get(&half).cloned().unwrap_or_default()
    }

    /// Returns the present half offset of the message with this present or former half offset, or `None` if the
    /// message is decided.
    pub(crate) fn undecided(&self, half: i64) -> Option<i64> {
        let now = self.moved.get(&half).copied().unwrap_or(half);
        (now >= self.first && !self.done.contains(&now)).then_some(now)
    }

    /// Skips half offsets before `min`, at which the half queue now begins because older messages were deleted.
    pub(crate) fn skip_to(&mut self, min: i64) {
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

    /// The half and op position that may be committed, because all records they depend on are on disk; `None` when there is none.
    pub(crate) fn positions(&mut self, flushed: LogOffset, appended: LogOffset) -> Option<(i64, i64)> {
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
