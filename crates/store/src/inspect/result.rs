//! Result of a verification.

use super::survey::Finding;
use std::path::PathBuf;

/// Message in a queue that is missing in the log.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MissingMessage {
    /// The message's topic.
    pub topic: String,
    /// The message's queue id.
    pub queue_id: i32,
    /// The message's queue offset.
    pub number: u64,
    /// Log position of the message's record, if the queue has it.
    pub log_offset: Option<u64>,
}

impl std::fmt::Display for MissingMessage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { topic, queue_id, number, log_offset } = self;
        write!(f, "{topic} queue {queue_id} message {number}")?;
        log_offset.map_or(Ok(()), |at| write!(f, " (log offset {at})"))
    }
}

/// A range of log positions without a whole record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DamagedRange {
    pub(super) from: u64,
    pub(super) end: u64,
    /// Whether a whole record follows in the same file.
    pub(super) is_followed: bool,
}

/// Result of a verification.
#[derive(Debug, Default)]
pub struct VerifyResult {
    /// Defects.
    pub findings: Vec<Finding>,
    /// Number of further defects that are not listed, in queues with very many.
    pub unlisted: u64,
    /// Irregularities that the next opening repairs.
    pub notes: Vec<Finding>,
    /// Unchecked parts, with the reason.
    pub unchecked: Vec<Finding>,
    /// Messages that are in queues, but not in the log.
    pub lost: Vec<MissingMessage>,
    /// Number of whole records.
    pub records: u64,
    /// Number of records whose digest was compared.
    pub digests: u64,
    /// Number of queue units that agree with their records.
    pub units: u64,
    /// Number of key index items that agree with their records.
    pub index_items: u64,
    /// Number of keys of records that are in no index file.
    pub unindexed: u64,
    /// Number of units in the timer log.
    pub timer_units: u64,
    /// Log position of the log's end.
    pub log_end: u64,
    /// Bytes of the log that the disk cannot read.
    pub unreadable_bytes: u64,
    /// Ranges of log positions that a repair filled.
    pub filled: Vec<(u64, u64)>,
    /// Index files that do not agree with the log, and all newer index files.
    pub(super) bad_index: Vec<PathBuf>,
    pub(super) damages: Vec<DamagedRange>,
    /// Damage up to the end of a file, without a record behind it yet.
    pub(super) torn: Vec<(Finding, DamagedRange)>,
    /// Queues that do not agree with the log.
    pub(super) bad_queues: Vec<(String, i32)>,
}

impl VerifyResult {
    /// Whether no defect was found.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty() && self.lost.is_empty()
    }

    /// Whether a lost message's record was damaged and a repair overwrote it, so that no further repair is
    /// possible.
    pub fn is_filled(&self, lost: &MissingMessage) -> bool {
        let within = |at: u64| self.filled.iter().any(|(from, end)| (*from..*end).contains(&at));
        lost.log_offset.is_some_and(within)
    }
}
