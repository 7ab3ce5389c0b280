//! Retention: deletes messages by age, space and number, and rejects appends before the disk is full.
//!
//! [`decide()`] decides what to delete, as a pure function of the clock, the files, the disks and the settings. A
//! retention round performs the decision in this order: The log's minimum position rises, so that everything before
//! it counts as deleted. The queues' minimum offsets follow. Log files are unlinked, then queue files. The space is
//! freed in small steps ([`crate::Store::free_space`]). So every offset at or above a queue's minimum stays readable,
//! and a crash at any point leaves a store that opens.
//!
//! Never deleted: the file being written, and files at or behind the checkpoint.

mod decide;
mod forecast;
mod round;
mod usage_limit;

pub use decide::{Deletion, LogFile, Reason, Situation, UnconsumedPolicy, decide};
pub use forecast::Forecast;
pub(crate) use round::Retention;
pub use round::{RetentionRound, RoundResult, SpaceView};
pub use usage_limit::{Level, UsageLimit, percent};

use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

/// Settings for old messages and full disks. Names in backticks are broker properties.
#[derive(Clone, Debug)]
pub struct RetentionSettings {
    /// `fileReservedTime` in ms: a file that was last written earlier has expired.
    pub reserved_ms: i64,
    /// `deleteWhen`: bit n allows deletion of expired files in hour n of the local day.
    pub delete_hours: u32,
    /// `diskMaxUsedSpaceRatio`: above it expired files are deleted at any hour.
    pub expire_at: UsageLimit,
    /// `diskSpaceCleanForciblyRatio`: above it the oldest files are deleted, expired or not.
    pub clean_at: UsageLimit,
    /// `diskSpaceWarningLevelRatio`: above it appends are refused.
    pub refuse_at: UsageLimit,
    /// `cleanFileForciblyEnable`: whether unexpired files may be deleted for lack of space.
    pub cleans_forcibly: bool,
    /// `deleteFileBatchMax`: most files deleted in a round.
    pub batch_max: usize,
    /// `commitLogRetentionBytes`: most bytes in the log; 0 for no limit.
    pub log_bytes_max: u64,
    /// `unconsumedDataPolicy`: policy for messages that a group has not consumed.
    pub unconsumed: UnconsumedPolicy,
}

impl Default for RetentionSettings {
    fn default() -> Self {
        Self {
            reserved_ms: 72 * 3_600_000,
            delete_hours: 1 << 4,
            expire_at: UsageLimit::Percent(75),
            clean_at: UsageLimit::Percent(85),
            refuse_at: UsageLimit::Percent(90),
            cleans_forcibly: true,
            batch_max: 10,
            log_bytes_max: 0,
            unconsumed: UnconsumedPolicy::Protect,
        }
    }
}

/// State of retention: the last measurement of the disks, and how far the queues follow the log.
#[derive(Default)]
pub(crate) struct DiskSpace {
    /// The last measurement of the disks.
    pub(crate) view: Mutex<SpaceView>,
    /// Log position up to which the queues' minimum offsets and files follow the log's minimum.
    pub(crate) trimmed: AtomicU64,
}
