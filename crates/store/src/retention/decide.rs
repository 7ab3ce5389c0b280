//! Decides which commit log files to delete now: a pure function, without clock and disk
//! (`DefaultMessageStore.CleanCommitLogService`).

use super::RetentionSettings;
use super::usage_limit::Level;
use crate::disk::Usage;

/// Policy for messages that a consumer group has not consumed yet (`unconsumedDataPolicy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnconsumedPolicy {
    /// Unconsumed messages are kept beyond their age until the disk passes `diskSpaceCleanForciblyRatio`, or has no space for
    /// the log's next file.
    Protect,
    /// Unconsumed messages are deleted like consumed messages, as RocketMQ does.
    Drop,
    /// Unconsumed messages are never deleted; when the disk is full, appends are refused.
    Reject,
}

/// A commit log file that may be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogFile {
    /// Log position behind the file's last byte.
    pub end: u64,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Time of the last write in ms since the epoch.
    pub modified_ms: i64,
    /// [`Usage::device`] of the file's disk.
    pub device: u64,
}

/// The facts that the decision depends on.
#[derive(Clone, Debug)]
pub struct Situation<'a> {
    /// Wall clock in ms since the epoch.
    pub now_ms: i64,
    /// Hour of the local day, 0 to 23.
    pub hour: u8,
    /// Whether an operator asked to delete expired files at any hour.
    pub asked: bool,
    /// The files that may be deleted, oldest first.
    pub files: &'a [LogFile],
    /// Bytes in the whole log, including files that may not be deleted.
    pub log_bytes: u64,
    /// Usage of the disks of the log's writable directories.
    pub log_disks: &'a [Usage],
    /// Space in bytes that the log's next file needs on one of these disks. 0 if it is not needed yet, or exists.
    pub next_file_bytes: u64,
    /// Usage of the disk of the queues.
    pub queue_disk: Usage,
    /// Log position of the first message that a group has not consumed; `None` when there is none, or it was not determined.
    pub unconsumed_from: Option<u64>,
}

/// Reason for the deletion of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The file is older than `fileReservedTime`.
    Expired,
    /// The log holds more than `commitLogRetentionBytes`.
    Bytes,
    /// The disk is over `diskSpaceCleanForciblyRatio`, or has no space for the log's next file.
    Space,
}

/// Files that a round of retention deletes, and the reasons.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deletion {
    /// Usage level of the disks.
    pub level: Level,
    /// Reason for each file to delete, oldest file first.
    pub remove: Vec<Reason>,
    /// Log position where the log begins after the deletion; `None` when no file is deleted.
    pub below: Option<u64>,
    /// Whether a file that had to be deleted stays because a group has not consumed it.
    pub kept_for_consumers: bool,
    /// Whether files are deleted although a group has not consumed them.
    pub drops_unconsumed: bool,
}

/// Decides which of the oldest files to delete.
pub fn decide(settings: &RetentionSettings, situation: &Situation<'_>) -> Deletion {
    let mut disks = Disks { log: situation.log_disks.to_vec(), queue: situation.queue_disk };
    let level_of =
        |disks: &Disks| settings.level_with_next(&disks.log, &disks.queue, situation.next_file_bytes);
    let level = level_of(&disks);
    let mut verdict = Deletion { level, ..Deletion::default() };
    let is_hour = settings.delete_hours >> situation.hour.min(31) & 1 == 1;
    let expired_go = is_hour || situation.asked || level >= Level::Expire;
    let mut log_bytes = situation.log_bytes;
    for file in situation.files.iter().take(settings.batch_max) {
        // Judged as if the files before this one were deleted.
        let is_short = level_of(&disks) >= Level::Clean;
        let is_old = situation.now_ms.saturating_sub(file.modified_ms) >= settings.reserved_ms;
        let reason = if expired_go && is_old {
            Reason::Expired
        } else if settings.log_bytes_max > 0 && log_bytes > settings.log_bytes_max {
            Reason::Bytes
        } else if is_short && settings.cleans_forcibly {
            Reason::Space
        } else {
            break;
        };
        let is_unconsumed = situation.unconsumed_from.is_some_and(|from| from < file.end);
        let may_go = match settings.unconsumed {
            _ if !is_unconsumed => true,
            UnconsumedPolicy::Drop => true,
            UnconsumedPolicy::Protect => is_short,
            UnconsumedPolicy::Reject => false,
        };
        if !may_go {
            verdict.kept_for_consumers = true;
            break;
        }
        verdict.drops_unconsumed |= is_unconsumed;
        verdict.remove.push(reason);
        verdict.below = Some(file.end);
        log_bytes = log_bytes.saturating_sub(file.bytes);
        disks.add_free(file);
    }
    verdict
}

/// Usage of the disks after the decided deletions.
struct Disks {
    log: Vec<Usage>,
    queue: Usage,
}

impl Disks {
    fn add_free(&mut self, file: &LogFile) {
        for usage in self.log.iter_mut().chain([&mut self.queue]).filter(|usage| usage.device == file.device)
        {
            usage.add_free(file.bytes);
        }
    }
}

impl Usage {
    /// The usage after `bytes` more bytes become free.
    pub(super) fn add_free(&mut self, bytes: u64) {
        self.free = self.free.saturating_add(bytes).min(self.total);
        self.available = self.available.saturating_add(bytes).min(self.total);
    }
}

#[cfg(test)]
mod tests;
