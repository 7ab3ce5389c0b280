use super::*;
use crate::retention::UsageLimit;

const HOUR_MS: i64 = 3_600_000;
/// Noon, five days after the epoch.
const NOW_MS: i64 = 132 * HOUR_MS;
const FILE_BYTES: u64 = 10;

/// Makes a file per age in hours, all on disk 1.
fn files(ages: &[i64]) -> Vec<LogFile> {
    let file = |(index, age): (usize, &i64)| LogFile {
        end: (index as u64 + 1) * FILE_BYTES,
        bytes: FILE_BYTES,
        modified_ms: NOW_MS - age * HOUR_MS,
        device: 1,
    };
    ages.iter().enumerate().map(file).collect()
}

/// A disk of 1,000 bytes, `used_percent` of which are in use.
fn disk(device: u64, used_percent: u64) -> Usage {
    let free = 1000 - used_percent * 10;
    Usage { device, total: 1000, free, available: free }
}

struct Case<'a> {
    ages: &'a [i64],
    hour: u8,
    asked: bool,
    used_percent: u64,
    queue_percent: u64,
    log_bytes: u64,
    next_file_bytes: u64,
    unconsumed_from: Option<u64>,
}

/// Old files, at noon, on a disk with enough space.
const CASE: Case<'_> = Case {
    ages: &[100, 80, 73, 71, 1],
    hour: 12,
    asked: false,
    used_percent: 50,
    queue_percent: 50,
    log_bytes: 60,
    next_file_bytes: 0,
    unconsumed_from: None,
};

fn verdict(settings: &RetentionSettings, case: &Case<'_>) -> Deletion {
    let files = files(case.ages);
    // The log is on the queues' disk when both are equally full.
    let queue_device = if case.used_percent == case.queue_percent { 1 } else { 2 };
    decide(
        settings,
        &Situation {
            now_ms: NOW_MS,
            hour: case.hour,
            asked: case.asked,
            files: &files,
            log_bytes: case.log_bytes,
            log_disks: &[disk(1, case.used_percent)],
            next_file_bytes: case.next_file_bytes,
            queue_disk: disk(queue_device, case.queue_percent),
            unconsumed_from: case.unconsumed_from,
        },
    )
}

#[track_caller]
fn check(settings: &RetentionSettings, case: &Case<'_>, level: Level, remove: &[Reason]) {
    let verdict = verdict(settings, case);
    assert_eq!((verdict.level, verdict.remove.as_slice()), (level, remove));
    assert_eq!(verdict.below, (!remove.is_empty()).then_some(remove.len() as u64 * FILE_BYTES));
}

use Reason::{Bytes, Expired, Space};

#[test]
fn expired_files_go_at_their_hour_only() {
    let settings = RetentionSettings::default();
    check(&settings, &CASE, Level::Ample, &[]);
    check(&settings, &Case { hour: 4, ..CASE }, Level::Ample, &[Expired; 3]);
    check(&settings, &Case { hour: 3, ..CASE }, Level::Ample, &[]);
    check(&settings, &Case { hour: 5, ..CASE }, Level::Ample, &[]);
    check(&settings, &Case { asked: true, ..CASE }, Level::Ample, &[Expired; 3]);
    let twice = RetentionSettings { delete_hours: 1 << 2 | 1 << 14, ..settings };
    for (hour, count) in [(2, 3), (14, 3), (4, 0), (12, 0), (0, 0), (23, 0)] {
        check(&twice, &Case { hour, ..CASE }, Level::Ample, &vec![Expired; count]);
    }
}

#[test]
fn age_counts_to_the_millisecond_and_the_first_young_file_ends_it() {
    let settings = RetentionSettings::default();
    check(&settings, &Case { hour: 4, ages: &[72, 71, 100], ..CASE }, Level::Ample, &[Expired]);
    check(&settings, &Case { hour: 4, ages: &[71, 100], ..CASE }, Level::Ample, &[]);
    check(&settings, &Case { hour: 4, ages: &[], ..CASE }, Level::Ample, &[]);
    // The clock was set back.
    check(&settings, &Case { hour: 4, ages: &[-5], ..CASE }, Level::Ample, &[]);
    let at_once = RetentionSettings { reserved_ms: 0, ..settings };
    check(&at_once, &Case { hour: 4, ages: &[0], ..CASE }, Level::Ample, &[Expired]);
}

#[test]
fn a_fuller_disk_takes_away_more() {
    let settings = RetentionSettings::default();
    let at = |used_percent| Case { used_percent, queue_percent: used_percent, ..CASE };
    check(&settings, &at(75), Level::Ample, &[]);
    check(&settings, &at(76), Level::Expire, &[Expired; 3]);
    check(&settings, &at(85), Level::Expire, &[Expired; 3]);
    // At 86 percent one file is enough, but expired files are deleted anyway.
    check(&settings, &at(86), Level::Clean, &[Expired; 3]);
    check(&settings, &Case { ages: &[5, 4, 3], ..at(86) }, Level::Clean, &[Space]);
    check(&settings, &Case { ages: &[5, 4, 3], ..at(87) }, Level::Clean, &[Space, Space]);
    check(&settings, &at(90), Level::Clean, &[Expired, Expired, Expired, Space, Space]);
    check(&settings, &at(91), Level::Refuse, &[Expired, Expired, Expired, Space, Space]);
    check(&settings, &at(100), Level::Refuse, &[Expired, Expired, Expired, Space, Space]);
}

#[test]
fn without_force_only_expired_files_go() {
    let settings = RetentionSettings { cleans_forcibly: false, ..RetentionSettings::default() };
    let full = Case { used_percent: 95, queue_percent: 95, ..CASE };
    check(&settings, &full, Level::Refuse, &[Expired; 3]);
    check(&settings, &Case { ages: &[5, 4], ..full }, Level::Refuse, &[]);
}

#[test]
fn a_full_disk_of_the_queues_takes_away_a_batch() {
    let settings = RetentionSettings { batch_max: 4, ..RetentionSettings::default() };
    check(&settings, &Case { queue_percent: 76, ..CASE }, Level::Expire, &[Expired; 3]);
    check(&settings, &Case { queue_percent: 86, ages: &[5; 9], ..CASE }, Level::Clean, &[Space; 4]);
    check(&settings, &Case { queue_percent: 91, ages: &[5; 2], ..CASE }, Level::Refuse, &[Space; 2]);
}

#[test]
fn a_disk_without_room_for_the_next_file_takes_away_the_oldest() {
    let settings = RetentionSettings::default();
    let young = Case { ages: &[5; 4], ..CASE };
    // 500 bytes are free.
    check(&settings, &Case { next_file_bytes: 500, ..young }, Level::Ample, &[]);
    check(&settings, &Case { next_file_bytes: 501, ..young }, Level::Clean, &[Space]);
    check(&settings, &Case { next_file_bytes: 511, ..young }, Level::Clean, &[Space; 2]);
    // Expired files are deleted at any hour then.
    check(&settings, &Case { next_file_bytes: 501, ..CASE }, Level::Clean, &[Expired; 3]);
    let full = Case { used_percent: 95, queue_percent: 95, ..young };
    check(&settings, &Case { next_file_bytes: 501, ..full }, Level::Refuse, &[Space; 4]);
    let without_force = RetentionSettings { cleans_forcibly: false, ..settings };
    check(&without_force, &Case { next_file_bytes: 501, ..young }, Level::Clean, &[]);
}

#[test]
fn one_round_takes_a_batch_at_most() {
    let settings = RetentionSettings::default();
    check(&settings, &Case { hour: 4, ages: &[100; 30], ..CASE }, Level::Ample, &[Expired; 10]);
    let small = RetentionSettings { batch_max: 2, ..settings };
    check(&small, &Case { hour: 4, ages: &[100; 30], ..CASE }, Level::Ample, &[Expired; 2]);
}

#[test]
fn the_log_is_kept_below_its_most_bytes_at_any_hour() {
    let settings = RetentionSettings { log_bytes_max: 30, ..RetentionSettings::default() };
    let young = Case { ages: &[5; 5], ..CASE };
    check(&settings, &Case { log_bytes: 30, ..young }, Level::Ample, &[]);
    check(&settings, &Case { log_bytes: 31, ..young }, Level::Ample, &[Bytes]);
    check(&settings, &Case { log_bytes: 55, ..young }, Level::Ample, &[Bytes; 3]);
    check(&settings, &Case { log_bytes: 55, hour: 4, ..CASE }, Level::Ample, &[Expired; 3]);
}

#[test]
fn limits_in_free_bytes_count_as_well() {
    let settings = RetentionSettings { clean_at: UsageLimit::FreeBytes(500), ..RetentionSettings::default() };
    let young = Case { ages: &[5; 5], ..CASE };
    check(&settings, &young, Level::Ample, &[]);
    check(&settings, &Case { used_percent: 51, queue_percent: 51, ..young }, Level::Clean, &[Space]);
}

#[track_caller]
fn check_unconsumed(policy: UnconsumedPolicy, case: &Case<'_>, removed: usize, kept: bool, dropped: bool) {
    let settings = RetentionSettings { unconsumed: policy, ..RetentionSettings::default() };
    let verdict = verdict(&settings, case);
    let found = (verdict.remove.len(), verdict.kept_for_consumers, verdict.drops_unconsumed);
    assert_eq!(found, (removed, kept, dropped), "{policy:?}");
}

#[test]
fn what_a_group_has_not_consumed() {
    use UnconsumedPolicy::{Drop, Protect, Reject};
    // The second file holds the first unconsumed message.
    let expired = Case { hour: 4, unconsumed_from: Some(15), ..CASE };
    check_unconsumed(Protect, &expired, 1, true, false);
    check_unconsumed(Reject, &expired, 1, true, false);
    check_unconsumed(Drop, &expired, 3, false, true);
    // The first unconsumed message lies behind all files to delete.
    let far = Case { unconsumed_from: Some(30), ..expired };
    for policy in [Protect, Reject, Drop] {
        check_unconsumed(policy, &far, 3, false, false);
    }
    // The end of a file is the start of the next one.
    check_unconsumed(Protect, &Case { unconsumed_from: Some(10), ..expired }, 1, true, false);
    check_unconsumed(Protect, &Case { unconsumed_from: Some(9), ..expired }, 0, true, false);
    // Over the first watermark expired files still wait for their consumers, over the second they do not.
    let at = |used_percent| Case { used_percent, queue_percent: used_percent, ..expired };
    check_unconsumed(Protect, &at(80), 1, true, false);
    // 87 percent: after two files there is enough space, so the third one stays.
    check_unconsumed(Protect, &at(87), 2, true, true);
    check_unconsumed(Protect, &at(95), 5, false, true);
    check_unconsumed(Reject, &at(95), 1, true, false);
    check_unconsumed(Drop, &at(95), 5, false, true);
}

#[test]
fn of_several_disks_the_one_with_most_space_decides() {
    let settings = RetentionSettings::default();
    let mut list = files(&[5; 4]);
    list[0].device = 2;
    let situation = |log_disks: [Usage; 2], next_file_bytes| {
        let verdict = decide(
            &settings,
            &Situation {
                now_ms: NOW_MS,
                hour: 12,
                asked: false,
                files: &list,
                log_bytes: 40,
                log_disks: &log_disks,
                next_file_bytes,
                queue_disk: disk(3, 10),
                unconsumed_from: None,
            },
        );
        (verdict.level, verdict.remove.len())
    };
    assert_eq!(situation([disk(1, 95), disk(2, 50)], 0), (Level::Ample, 0));
    // One of the disks has space for the next file, or none has.
    assert_eq!(situation([disk(1, 60), disk(2, 50)], 500), (Level::Ample, 0));
    assert_eq!(situation([disk(1, 60), disk(2, 50)], 501), (Level::Clean, 1));
    // The first file is on the second disk, which has enough space without it.
    assert_eq!(situation([disk(1, 95), disk(2, 86)], 0), (Level::Clean, 1));
    // The first file is followed by one that frees space on the first disk.
    assert_eq!(situation([disk(1, 86), disk(2, 95)], 0), (Level::Clean, 2));
}
