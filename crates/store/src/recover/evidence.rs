//! What a place in the log is where a record should begin and no whole one does: the log's end, or damage. A pure decision;
//! [`super::behind`] collects the facts. The cases are those of `docs/decisions/0004-cut-tail.md`.

use crate::config::{Config, FlushMode};
use std::time::Duration;

/// Longest time RocketMQ leaves appended bytes unflushed (`flushCommitLogThoroughInterval`), and what a flush may take.
const FLUSH_ALLOWANCE: Duration = Duration::from_secs(10);
/// With synchronous flush the flusher never rests while bytes are unflushed: two flushes on a slow disk.
const SYNC_FLUSH_ALLOWANCE: Duration = Duration::from_secs(5);
/// What was appended so much longer ago than the allowance was flushed, however slow the disk.
const CERTAINTY: Duration = Duration::from_secs(30);

/// What the bytes of the broken record are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// Sectors of zeros explain that no whole record is here: they may never have reached the disk.
    Zeros,
    /// Whatever sectors are lost, a record that was being written does not look like that.
    Altered,
}

/// The whole records behind a place in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Behind {
    /// How many there are.
    pub(super) records: u64,
    /// Those that go on from the records before the place: neither their store time nor their queue offset goes back.
    pub(super) fitting: u64,
    /// Store time of the first one in ms.
    pub(super) first_ms: i64,
    /// Newest store time in ms.
    pub(super) newest_ms: i64,
}

/// What is known of a place in the log where no whole record begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) broken: Broken,
    /// The place lies below the checkpoint's position: bytes of an earlier life of the log were overwritten there long ago.
    pub(super) is_checkpointed: bool,
    /// The checkpoint, or an earlier opening, said that everything up to behind this place is on the disk.
    pub(super) was_durable: bool,
    /// The store was stopped cleanly, or the file system was never gone since it was opened.
    pub(super) kept_pages: bool,
    pub(super) behind: Behind,
}

/// How long appended bytes may be unflushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unflushed {
    /// When everything goes as it should.
    usual_ms: i64,
    /// Whatever happens.
    longest_ms: i64,
}

impl Unflushed {
    pub(super) fn of(config: &Config) -> Self {
        let usual = match config.flush {
            FlushMode::Sync => SYNC_FLUSH_ALLOWANCE,
            FlushMode::Async => config.flush_interval + FLUSH_ALLOWANCE,
        };
        let ms = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        Self { usual_ms: ms(usual), longest_ms: ms(usual + CERTAINTY) }
    }
}

impl Behind {
    fn goes_on(&self) -> bool {
        self.fitting * 2 > self.records
    }

    /// How much longer ago than the newest record everything before the first one was appended.
    fn age_ms(&self) -> i64 {
        self.newest_ms.saturating_sub(self.first_ms)
    }

    /// Whether what lies before was flushed long before the newest record came; more records tell nothing else.
    pub(super) fn is_proof(&self, unflushed: Unflushed) -> bool {
        self.goes_on() && self.age_ms() > unflushed.longest_ms
    }
}

/// What the place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The log ends there: nothing that counts lies behind.
    End,
    /// The log ends there: a power cut kept pages from the disk, and what lies behind was written later.
    LostPages,
    /// Something that was written is gone. What lies behind is kept.
    Damage,
    /// Lost pages, or damage of what had been on the disk for long.
    Undecided,
}

/// Decides what a place is.
pub(super) fn judge(facts: &Facts, unflushed: Unflushed) -> Verdict {
    let Facts { broken, is_checkpointed, was_durable, kept_pages, behind } = *facts;
    if is_checkpointed && behind.records > 0 {
        return Verdict::Damage;
    }
    // What a broker cut off without wiping it goes back: in time, or to queue offsets that were given again since.
    if behind.records == 0 || !behind.goes_on() {
        return Verdict::End;
    }
    if was_durable || kept_pages || broken == Broken::Altered {
        return Verdict::Damage;
    }
    // The first record behind is younger than what is missing, so that was unflushed for longer than this if it was lost.
    if behind.is_proof(unflushed) {
        Verdict::Damage
    } else if behind.age_ms() > unflushed.usual_ms {
        Verdict::Undecided
    } else {
        Verdict::LostPages
    }
}

#[cfg(test)]
mod tests;
