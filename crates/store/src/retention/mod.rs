//! Deleting what is too old or too much, and refusing appends before the disk is full.
//!
//! What to delete now is decided by [`decide`], a function of the clock, the files, the disks and the settings. A round
//! performs it: the start of the log moves up (what lies before it counts as gone), the queues' minima follow, the log
//! files lose their names, then the queue files do, and the space is given back bit by bit
//! ([`crate::Store::give_back`]). Consumers therefore never see an offset at or above a queue's minimum that cannot be
//! read, and a crash at any point leaves a store that opens.
//!
//! Never deleted: the file being written, and files the checkpoint has not passed.

mod decide;
mod forecast;
mod round;
mod watermark;

pub use decide::{LogFile, Reason, Situation, Unconsumed, Verdict, decide};
pub use forecast::Forecast;
pub use round::{Retained, Round, SpaceView};
pub use watermark::{Level, Watermark, percent};

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// What an operator decides about old messages and full disks.
#[derive(Clone, Debug)]
pub struct RetentionSettings {
    /// `fileReservedTime` in milliseconds: a file older than this has expired.
    pub reserved_ms: i64,
    /// `deleteWhen`: bit n stands for hour n of the local day, in which expired files go.
    pub delete_hours: u32,
    /// `diskMaxUsedSpaceRatio`: expired files go at any hour.
    pub expire_at: Watermark,
    /// `diskSpaceCleanForciblyRatio`: the oldest files go, expired or not.
    pub clean_at: Watermark,
    /// `diskSpaceWarningLevelRatio`: appends are refused.
    pub refuse_at: Watermark,
    /// `cleanFileForciblyEnable`.
    pub cleans_forcibly: bool,
    /// `deleteFileBatchMax`: most files of one round.
    pub batch_max: usize,
    /// `commitLogRetentionBytes`: most bytes the log holds; 0 for no limit.
    pub log_bytes_max: u64,
    /// `unconsumedDataPolicy`.
    pub unconsumed: Unconsumed,
}

impl Default for RetentionSettings {
    fn default() -> Self {
        Self {
            reserved_ms: 72 * 3_600_000,
            delete_hours: 1 << 4,
            expire_at: Watermark::Percent(75),
            clean_at: Watermark::Percent(85),
            refuse_at: Watermark::Percent(90),
            cleans_forcibly: true,
            batch_max: 10,
            log_bytes_max: 0,
            unconsumed: Unconsumed::Protect,
        }
    }
}

/// What appends and rounds share.
#[derive(Default)]
pub(crate) struct State {
    /// Appends are refused: the disk is over the warning level.
    pub(crate) refuses: AtomicBool,
    /// The last measurement.
    pub(crate) view: Mutex<SpaceView>,
    /// The queues' minima and files follow the log up to here.
    pub(crate) trimmed: AtomicU64,
}
