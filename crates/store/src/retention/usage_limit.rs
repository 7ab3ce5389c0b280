//! Limits of disk usage, and the levels that follow from the limits.

use super::RetentionSettings;
use crate::disk::Usage;

/// A limit of a disk's usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageLimit {
    /// Passed when a higher percentage of the disk is in use.
    Percent(u64),
    /// Passed when fewer bytes are available.
    FreeBytes(u64),
}

/// Percentage of a disk in use, rounded up (`UtilAll.getDiskPartitionSpaceUsedPercent`).
pub fn percent(usage: &Usage) -> u64 {
    let (used, all) = used_of(usage);
    if all == 0 {
        0
    } else {
        u64::try_from((u128::from(used) * 100).div_ceil(u128::from(all))).unwrap_or(100)
    }
}

/// Bytes in use, and their sum with the bytes available to this process.
fn used_of(usage: &Usage) -> (u64, u64) {
    let used = usage.total.saturating_sub(usage.free);
    (used, used.saturating_add(usage.available))
}

impl UsageLimit {
    /// Whether the disk's usage is over the limit.
    pub fn is_passed(self, usage: &Usage) -> bool {
        match self {
            Self::Percent(limit) => percent(usage) > limit,
            Self::FreeBytes(limit) => usage.total > 0 && usage.available < limit,
        }
    }

    /// Bytes that can still be written before the limit is passed.
    pub fn room(self, usage: &Usage) -> u64 {
        let (used, all) = used_of(usage);
        match self {
            Self::Percent(limit) => {
                let allowed = u64::try_from(u128::from(all) * u128::from(limit) / 100).unwrap_or(u64::MAX);
                allowed.saturating_sub(used)
            }
            Self::FreeBytes(limit) => usage.available.saturating_sub(limit),
        }
    }
}

/// Level of disk usage, and the measures that retention takes at that level. Levels ascend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Expired files are deleted at the configured hours.
    #[default]
    Ample,
    /// Expired files are deleted at any hour.
    Expire,
    /// The oldest files are deleted, expired or not.
    Clean,
    /// The oldest files are deleted, and appends are refused.
    Refuse,
}

impl RetentionSettings {
    /// Returns the level of a disk.
    pub fn level_of(&self, usage: &Usage) -> Level {
        let marks =
            [(self.refuse_at, Level::Refuse), (self.clean_at, Level::Clean), (self.expire_at, Level::Expire)];
        marks.into_iter().find(|(mark, _)| mark.is_passed(usage)).map_or(Level::Ample, |(_, level)| level)
    }

    /// Returns the level of a store. The emptiest disk of the log decides, because the next file is created there.
    pub fn level(&self, log: &[Usage], queues: &Usage) -> Level {
        let log = log.iter().map(|usage| self.level_of(usage)).min().unwrap_or_default();
        log.max(self.level_of(queues))
    }

    /// Level that includes the log's next file: at least [`Level::Clean`] if no disk has space for the file,
    /// independent of the percentages.
    pub(super) fn level_with_next(&self, log: &[Usage], queues: &Usage, next_file_bytes: u64) -> Level {
        let level = self.level(log, queues);
        let most = log.iter().map(|usage| if usage.total > 0 { usage.available } else { u64::MAX }).max();
        if most.is_some_and(|most| most < next_file_bytes) { level.max(Level::Clean) } else { level }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(total: u64, free: u64, available: u64) -> Usage {
        Usage { device: 1, total, free, available }
    }

    #[test]
    fn percent_is_rounded_up_and_leaves_out_what_is_reserved() {
        for (usage, expected) in [
            (disk(1000, 1000, 1000), 0),
            (disk(1000, 999, 999), 1),
            (disk(1000, 250, 250), 75),
            (disk(1000, 249, 249), 76),
            // 50 of 1,000 bytes are reserved for the system: 750 of 950 are in use.
            (disk(1000, 250, 200), 79),
            (disk(1000, 50, 0), 100),
            (disk(0, 0, 0), 0),
            (disk(u64::MAX, 0, 0), 100),
        ] {
            assert_eq!(percent(&usage), expected, "{usage:?}");
        }
    }

    #[test]
    fn levels_of_one_disk() {
        let settings = RetentionSettings::default();
        for (free, level) in [
            (1000, Level::Ample),
            (250, Level::Ample),
            (249, Level::Expire),
            (150, Level::Expire),
            (149, Level::Clean),
            (100, Level::Clean),
            (99, Level::Refuse),
            (0, Level::Refuse),
        ] {
            assert_eq!(settings.level_of(&disk(1000, free, free)), level, "{free}");
        }
    }

    #[test]
    fn limits_in_bytes() {
        let settings =
            RetentionSettings { refuse_at: UsageLimit::FreeBytes(500), ..RetentionSettings::default() };
        assert_eq!(settings.level_of(&disk(1000, 500, 500)), Level::Ample);
        assert_eq!(settings.level_of(&disk(1000, 600, 499)), Level::Refuse);
        assert_eq!(UsageLimit::FreeBytes(500).room(&disk(1000, 800, 700)), 200);
        assert_eq!(UsageLimit::Percent(90).room(&disk(1000, 400, 400)), 300);
        assert_eq!(UsageLimit::Percent(90).room(&disk(1000, 10, 10)), 0);
    }

    #[test]
    fn the_emptiest_log_disk_decides_and_the_queues_disk_alone_suffices() {
        let settings = RetentionSettings::default();
        let (full, half, ample) = (disk(1000, 50, 50), disk(1000, 140, 140), disk(1000, 900, 900));
        assert_eq!(settings.level(&[full, ample], &ample), Level::Ample);
        assert_eq!(settings.level(&[full, half], &ample), Level::Clean);
        assert_eq!(settings.level(&[full, full], &ample), Level::Refuse);
        assert_eq!(settings.level(&[ample], &full), Level::Refuse);
    }
}
