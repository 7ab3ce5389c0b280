//! Which files go now: a function of what is known, without clock and disk (`DefaultMessageStore.CleanCommitLogService`).

use super::RetentionSettings;
use super::watermark::Level;
use crate::disk::Usage;

/// What happens to messages a group has not consumed yet (`unconsumedDataPolicy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unconsumed {
    /// They are kept beyond their age until the disk passes `diskSpaceCleanForciblyRatio`, or has no room for the log's
    /// next file.
    Protect,
    /// Nobody asks, as in Java.
    Drop,
    /// They are never deleted; when the disk is full, appends are refused.
    Reject,
}

/// A file of the log that may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogFile {
    /// Behind its last byte.
    pub end: u64,
    /// Its size.
    pub bytes: u64,
    /// When it was written last, milliseconds since the epoch.
    pub modified_ms: i64,
    /// [`Usage::device`] of its disk.
    pub device: u64,
}

/// What a decision is made on.
#[derive(Clone, Debug)]
pub struct Situation<'a> {
    /// Wall clock in milliseconds.
    pub now_ms: i64,
    /// Hour of the local day.
    pub hour: u8,
    /// An operator asked for expired files to go, whatever the hour.
    pub asked: bool,
    /// The files that may go, oldest first.
    pub files: &'a [LogFile],
    /// Bytes the log holds, those of other files included.
    pub log_bytes: u64,
    /// The disks of the log's writable directories.
    pub log_disks: &'a [Usage],
    /// Bytes the log's next file takes on one of them; 0 as long as it is not needed, or when it is there.
    pub next_file_bytes: u64,
    /// The disk of the queues.
    pub queue_disk: Usage,
    /// Where the first message lies that a group has not consumed yet; `None` when there is none, or nobody looked.
    pub unconsumed_from: Option<u64>,
}

/// Why a file goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It is older than `fileReservedTime`.
    Expired,
    /// The log holds more than `commitLogRetentionBytes`.
    Bytes,
    /// The disk is over `diskSpaceCleanForciblyRatio`, or has no room for the log's next file.
    Space,
}

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// How full the disks are.
    pub level: Level,
    /// Why each of the oldest files goes; as many as this go.
    pub remove: Vec<Reason>,
    /// The log begins here afterwards; `None` when nothing goes.
    pub below: Option<u64>,
    /// The next file had to go, and stays because a group has not consumed it.
    pub kept_for_consumers: bool,
    /// Files go although a group has not consumed them.
    pub drops_unconsumed: bool,
}

/// Decides.
#[must_use]
pub fn decide(settings: &RetentionSettings, situation: &Situation<'_>) -> Verdict {
    let mut disks = Disks { log: situation.log_disks.to_vec(), queue: situation.queue_disk };
    let level_of =
        |disks: &Disks| settings.level_with_next(&disks.log, &disks.queue, situation.next_file_bytes);
    let level = level_of(&disks);
    let mut verdict = Verdict { level, ..Verdict::default() };
    let is_hour = settings.delete_hours >> situation.hour.min(31) & 1 == 1;
    let expired_go = is_hour || situation.asked || level >= Level::Expire;
    let mut log_bytes = situation.log_bytes;
    for file in situation.files.iter().take(settings.batch_max) {
        // As the files before it are gone.
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
            Unconsumed::Drop => true,
            Unconsumed::Protect => is_short,
            Unconsumed::Reject => false,
        };
        if !may_go {
            verdict.kept_for_consumers = true;
            break;
        }
        verdict.drops_unconsumed |= is_unconsumed;
        verdict.remove.push(reason);
        verdict.below = Some(file.end);
        log_bytes = log_bytes.saturating_sub(file.bytes);
        disks.give_back(file);
    }
    verdict
}

/// The disks as they will be.
struct Disks {
    log: Vec<Usage>,
    queue: Usage,
}

impl Disks {
    fn give_back(&mut self, file: &LogFile) {
        for usage in self.log.iter_mut().chain([&mut self.queue]).filter(|usage| usage.device == file.device)
        {
            usage.give_back(file.bytes);
        }
    }
}

impl Usage {
    /// The usage when so many bytes more are free.
    pub(super) fn give_back(&mut self, bytes: u64) {
        self.free = self.free.saturating_add(bytes).min(self.total);
        self.available = self.available.saturating_add(bytes).min(self.total);
    }
}

#[cfg(test)]
mod tests;
