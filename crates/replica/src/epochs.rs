//! Epochs of a log: the mastership of each part of the log, as log offsets (`EpochFileCache`). Two brokers compare
//! their epochs to find the position up to which their logs are equal.
//!
//! The list lives in the file `epochFileCheckpoint` as text: the number of entries, their CRC-32, and a line
//! `epoch-start` for each entry. `epochFileCheckpoint.bak` holds the preceding version.

use std::fmt::Write;
use thiserror::Error;
use wire::ha::{Epoch, EpochStart};
use wire::units::LogOffset;

/// Two logs have no epoch in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("no epoch of this log is also in the master's")]
pub struct NoCommonEpoch;

/// A broker was made master with an epoch that its log has already passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("epoch {asked} is older than {last}, the last one of the log")]
pub struct StaleEpoch {
    /// The epoch of the role.
    pub asked: Epoch,
    /// The last epoch of the log.
    pub last: Epoch,
}

/// Errors of the text of an epoch file. The `.bak` file may still be good.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EpochFileError {
    /// The first two lines are not the number of entries and their checksum.
    #[error("epoch file without count and checksum")]
    Head,
    /// A line is not `epoch-start`.
    #[error("epoch file: expected `epoch-start`, found `{0}`")]
    Line(String),
    /// The number of entries differs from the number in the first line.
    #[error("epoch file: expected {expected} entries, found {found}")]
    Count {
        /// Entries announced.
        expected: usize,
        /// Entries there.
        found: usize,
    },
    /// The checksum does not match.
    #[error("epoch file: expected checksum {expected}, found {found}")]
    Checksum {
        /// The checksum written.
        expected: u32,
        /// The checksum of the entries.
        found: u32,
    },
    /// An entry does not lie behind the preceding entry.
    #[error("epoch file: epoch {0} does not lie behind the entry before it")]
    Order(Epoch),
}

/// The epochs of a log, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct EpochList {
    /// Invariant: epochs rise strictly and starts do not fall. Only the first epoch may begin at the start of the
    /// next epoch.
    entries: Vec<EpochStart>,
}

impl EpochList {
    /// Makes a list from ascending entries, such as `wire` checked in a frame. `None` if the entries are not
    /// ascending.
    pub fn new(entries: Vec<EpochStart>) -> Option<Self> {
        let rises = |pair: &[EpochStart]| pair[0].epoch < pair[1].epoch && pair[0].start <= pair[1].start;
        entries.windows(2).all(rises).then_some(Self { entries })
    }

    /// The entries, oldest first.
    pub fn entries(&self) -> &[EpochStart] {
        &self.entries
    }

    /// Returns the newest entry. Its epoch may be older than that of a master that has not written yet.
    pub fn last(&self) -> Option<EpochStart> {
        self.entries.last().copied()
    }

    /// Adds an entry if it lies behind the last entry (`appendEntry`). It replaces an entry without bytes. Returns whether
    /// the entry was added.
    pub fn append(&mut self, entry: EpochStart) -> bool {
        let is_behind = self.last().is_none_or(|last| last.epoch < entry.epoch && last.start <= entry.start);
        if is_behind {
            self.forget_empty(entry.start);
            self.entries.push(entry);
        }
        is_behind
    }

    /// Begins `epoch` at the end of the log, as its master (`AutoSwitchHAService.changeToMaster`).
    ///
    /// # Errors
    /// [`StaleEpoch`] when the log has a newer epoch; nothing changes.
    pub fn begin(&mut self, epoch: Epoch, end: LogOffset) -> Result<(), StaleEpoch> {
        if let Some(last) = self.last().filter(|last| epoch < last.epoch) {
            return Err(StaleEpoch { asked: epoch, last: last.epoch });
        }
        self.entries.retain(|entry| entry.epoch < epoch);
        self.forget_empty(end);
        self.append(EpochStart { epoch, start: end });
        Ok(())
    }

    /// Drops epochs without a byte in this log, which ends at `end`, such as the epoch of an election without a write.
    /// Otherwise the next bytes would get the label of such an epoch, and a log with other bytes of the epoch would
    /// count as equal. The first entry stays even without a byte. A Java slave has stored that entry with a heartbeat,
    /// and without the entry its list would have no epoch in common with this list.
    fn forget_empty(&mut self, end: LogOffset) {
        let mut is_first = true;
        self.entries.retain(|entry| std::mem::take(&mut is_first) || entry.start < end);
    }

    /// Returns the epoch of the byte at `offset`. Bytes before the first epoch (of a formerly classic log) belong to
    /// the first epoch. `None` for an empty list.
    pub fn at(&self, offset: LogOffset) -> Option<EpochStart> {
        let behind = self.entries.partition_point(|entry| entry.start <= offset);
        self.entries.get(behind.saturating_sub(1)).copied()
    }

    /// Returns the end of the epoch of the byte at `offset`, or `None` for the last epoch.
    pub fn end_at(&self, offset: LogOffset) -> Option<LogOffset> {
        let behind = self.entries.partition_point(|entry| entry.start <= offset).max(1);
        self.entries.get(behind).map(|entry| entry.start)
    }

    /// Drops the entries of a log that was cut to `end` (`truncateSuffixByOffset`).
    pub fn cut(&mut self, end: LogOffset) {
        self.entries.retain(|entry| entry.start < end);
    }

    /// Drops the entries below `minimum`, which retention deleted (`truncatePrefixByOffset`).
    pub fn drop_below(&mut self, minimum: LogOffset) {
        let gone = self.entries.windows(2).take_while(|pair| pair[1].start < minimum).count();
        self.entries.drain(..gone);
    }

    /// Returns the position up to which this log, which ends at `end`, equals the master's (`findConsistentPoint`).
    /// `None` if this list is empty. A new replica and a former classic replica have nothing to compare.
    ///
    /// # Errors
    /// [`NoCommonEpoch`] when no epoch of this list is in the master's with the same start, unless this log is empty.
    pub fn consistent_point(
        &self,
        end: LogOffset,
        master: &Self,
        master_end: LogOffset,
    ) -> Result<Option<LogOffset>, NoCommonEpoch> {
        // An epoch that begins behind the end says nothing about the log.
        let own: Vec<EpochStart> = self.entries.iter().copied().filter(|entry| entry.start <= end).collect();
        if own.is_empty() {
            return if self.entries.is_empty() { Ok(None) } else { Err(NoCommonEpoch) };
        }
        if end == LogOffset::ZERO {
            // In an epoch without a byte nothing was written that the master could lack.
            return Ok(Some(LogOffset::ZERO));
        }
        let common = own.iter().enumerate().rev().find(|(_, entry)| master.entries.contains(entry));
        let (index, entry) = common.ok_or(NoCommonEpoch)?;
        let own_end = own.get(index + 1).map_or(end, |next| next.start);
        let theirs = master.entries.iter().skip_while(|theirs| *theirs != entry).nth(1);
        let their_end = theirs.map_or(master_end, |next| next.start);
        Ok(Some(own_end.min(their_end)))
    }

    /// Returns the text of the epoch file. `None` for an empty list, for which the file and its `.bak` must be
    /// removed. A Java broker leaves the old file, which returns at the next start.
    pub fn to_file(&self) -> Option<String> {
        if self.entries.is_empty() {
            return None;
        }
        let mut lines = String::new();
        for entry in &self.entries {
            writeln!(lines, "{}-{}", entry.epoch, entry.start).expect("a string takes everything");
        }
        Some(format!("{}\n{}\n{lines}", self.entries.len(), wire::hash::crc32(lines.as_bytes())))
    }

    /// Reads the text of an epoch file (`CheckpointFile.read`).
    ///
    /// # Errors
    /// [`EpochFileError`] when count, checksum or order are wrong, or a line is no entry.
    pub fn from_file(text: &str) -> Result<Self, EpochFileError> {
        let mut parts = text.splitn(3, '\n');
        let mut head =
            || parts.next().and_then(|line| line.trim_end().parse::<u32>().ok()).ok_or(EpochFileError::Head);
        let expected_count = head()? as usize;
        let expected = head()?;
        let lines = parts.next().unwrap_or_default();
        let found = wire::hash::crc32(lines.as_bytes());
        if expected != 0 && expected != found {
            return Err(EpochFileError::Checksum { expected, found });
        }
        let mut list = Self::default();
        for line in lines.lines() {
            let entry = entry(line).ok_or_else(|| EpochFileError::Line(line.to_owned()))?;
            if !list.append(entry) {
                return Err(EpochFileError::Order(entry.epoch));
            }
        }
        let found = list.entries.len();
        if found != expected_count {
            return Err(EpochFileError::Count { expected: expected_count, found });
        }
        Ok(list)
    }
}

fn entry(line: &str) -> Option<EpochStart> {
    let (epoch, start) = line.split_once('-')?;
    let epoch = Epoch::from_i32(epoch.parse().ok()?)?;
    Some(EpochStart { epoch, start: LogOffset::from_i64(start.parse().ok()?)? })
}

#[cfg(test)]
mod tests;
