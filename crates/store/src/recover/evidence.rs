//! Decides whether a broken position of the log is the log's end or damage. A position is broken if a record should
//! begin there and no whole record does. A pure decision: [`super::behind`] collects the facts. The cases are those
//! of `docs/decisions/0004-cut-tail.md`.

use crate::config::{Config, FlushMode};
use std::time::Duration;

/// Longest time RocketMQ leaves appended bytes unflushed (`flushCommitLogThoroughInterval`), plus the duration of a
/// flush.
const FLUSH_ALLOWANCE: Duration = Duration::from_secs(10);
/// Longest time bytes stay unflushed under synchronous flush: the flush thread never rests then, so two flushes on a slow
/// disk.
const SYNC_FLUSH_ALLOWANCE: Duration = Duration::from_secs(5);
/// Safety margin on the allowance: bytes appended longer ago than both together were flushed, however slow the disk.
const CERTAINTY: Duration = Duration::from_secs(30);

/// Classification of the bytes of the broken record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BrokenKind {
    /// Whole sectors are zeros: they may never have reached the disk.
    Zeros,
    /// No set of lost sectors explains the bytes: an unfinished write does not leave such bytes.
    Altered,
}

/// The whole records behind a broken position of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RecordsBehind {
    /// Number of these records.
    pub(super) records: u64,
    /// Number of records that continue the log before the position: neither store time nor queue offset goes back.
    pub(super) fitting: u64,
    /// Store time of the first record behind the position, in ms since the epoch.
    pub(super) first_ms: i64,
    /// Newest store time of the records behind the position, in ms since the epoch.
    pub(super) newest_ms: i64,
    /// Longest time in ms between two successive records by store time.
    pub(super) pause_ms: i64,
}

/// Facts about a broken position of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) broken: BrokenKind,
    /// Whether the position lies before the log position of the checkpoint or of a clean stop. Whole records behind
    /// such a position are no remains of an earlier cut.
    pub(super) is_checkpointed: bool,
    /// The checkpoint, or an earlier opening, proves that the log is on the disk up to a point behind this position.
    pub(super) was_durable: bool,
    /// Lost pages are impossible: the store was stopped cleanly, or the file system stayed mounted since the store
    /// was opened.
    pub(super) kept_pages: bool,
    pub(super) behind: RecordsBehind,
}

/// Time for which appended bytes may stay unflushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FlushDelay {
    /// Time in normal operation, in ms.
    usual_ms: i64,
    /// Time in the worst case, in ms.
    longest_ms: i64,
}

impl FlushDelay {
    /// Value for a log whose records' store times differ from their append times here.
    pub(super) const UNKNOWN: Self = Self { usual_ms: i64::MAX, longest_ms: i64::MAX };

    pub(super) fn of(config: &Config) -> Self {
        let usual = match config.flush {
            FlushMode::Sync => SYNC_FLUSH_ALLOWANCE,
            FlushMode::Async => config.flush_interval + FLUSH_ALLOWANCE,
        };
        let ms = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        Self { usual_ms: ms(usual), longest_ms: ms(usual + CERTAINTY) }
    }
}

impl RecordsBehind {
    fn goes_on(&self) -> bool {
        self.fitting * 2 > self.records
    }

    /// Time in ms from the first to the newest record behind the position by store time, without the longest pause
    /// between two records. A clock that was set forward looks like such a pause. The log before the position was
    /// appended at least as long before the newest record.
    pub(super) fn age_ms(&self) -> i64 {
        self.newest_ms.saturating_sub(self.first_ms).saturating_sub(self.pause_ms)
    }

    /// Whether these records prove that the log before the position was flushed long ago. Further records add no
    /// proof then.
    pub(super) fn is_proof(&self, unflushed: FlushDelay) -> bool {
        self.goes_on() && self.age_ms() > unflushed.longest_ms
    }
}

/// Meaning of a broken position of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The log's end: no whole record follows, or the following records do not continue the log.
    End,
    /// The log's end: a power cut kept pages from the disk, and the records behind the position were written later
    /// than those pages.
    LostPages,
    /// Damage: a record that was written is gone. The records behind it are kept.
    Damage,
    /// Either pages lost in a power cut, or damage of bytes that were on the disk for long. The facts do not
    /// decide which.
    Undecided,
}

/// Decides the meaning of a broken position of the log.
pub(super) fn judge(facts: &Facts, unflushed: FlushDelay) -> Meaning {
    let Facts { broken, is_checkpointed, was_durable, kept_pages, behind } = *facts;
    if is_checkpointed && behind.records > 0 {
        return Meaning::Damage;
    }
    // Records that an earlier broker cut off without wiping them go back: in store time, or to queue offsets that were
    // assigned again.
    if behind.records == 0 || !behind.goes_on() {
        return Meaning::End;
    }
    if was_durable || kept_pages || broken == BrokenKind::Altered {
        return Meaning::Damage;
    }
    // The first record behind is younger than the missing bytes: if these were lost, they had stayed unflushed for that age.
    if behind.is_proof(unflushed) {
        Meaning::Damage
    } else if behind.age_ms() > unflushed.usual_ms {
        Meaning::Undecided
    } else {
        Meaning::LostPages
    }
}

#[cfg(test)]
mod tests;
