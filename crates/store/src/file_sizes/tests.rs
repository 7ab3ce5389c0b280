use super::*;
use crate::disk::{FakeDisk, Space};

/// A disk with these files, which begin with a few bytes that are not zero.
fn disk(files: &[(&str, u64)]) -> FakeDisk {
    let disk = FakeDisk::new(512);
    for (path, length) in files {
        let path = Path::new("/store").join(path);
        disk.create_dir_all(path.parent().unwrap()).unwrap();
        let file = disk.create(&path, *length, Space::Sparse).unwrap();
        file.write_at(&[7; 16][..16.min(*length as usize)], 0).unwrap();
    }
    disk
}

const FIRST: &str = "commitlog/00000000000000000000";
const AT_8192: &str = "commitlog/00000000000000008192";

fn check(files: &[(&str, u64)], expected: &[(&str, u64)]) {
    let mut config = Config { segment_bytes: 4096, queue_file_bytes: 190, ..Config::new("/store") };
    let disk = disk(files);
    let found = config.take_file_sizes(&disk).unwrap();
    let pairs: Vec<_> = found.iter().map(|it| (it.setting, it.found)).collect();
    assert_eq!(pairs, expected, "{files:?}");
    let size = |setting: &str| found.iter().find(|it| it.setting == setting).map(|it| it.found);
    assert_eq!(config.segment_bytes, size("mappedFileSizeCommitLog").unwrap_or(4096));
    assert_eq!(config.queue_file_bytes, size("mappedFileSizeConsumeQueue").unwrap_or(190));
}

#[test]
fn the_files_that_are_there_decide() {
    let log = |bytes| ("mappedFileSizeCommitLog", bytes);
    check(&[], &[]);
    check(&[(FIRST, 4096)], &[]);
    check(&[(FIRST, 8192)], &[log(8192)]);
    check(&[(FIRST, 8192), (AT_8192, 8192)], &[log(8192)]);
    check(&[(FIRST, 8192), (AT_8192, 0)], &[log(8192)]);
    // The queue files of RocketMQ hold whole units: 190 bytes are 200 there.
    let queue = |bytes| ("mappedFileSizeConsumeQueue", bytes);
    check(&[("consumequeue/T/0/00000000000000000000", 200)], &[]);
    check(&[("consumequeue/T/0/00000000000000000000", 300_000)], &[queue(300_000)]);
    let batches = "batchconsumequeue/T/0/00000000000000000000";
    check(&[(batches, 460)], &[("mapperFileSizeBatchConsumeQueue", 460)]);
    check(&[(batches, 13_800_000)], &[]);
}

#[test]
fn a_file_that_was_cut_off_does_not_decide() {
    // Whole files say the size.
    check(&[(FIRST, 8192), (AT_8192, 1000)], &[("mappedFileSizeCommitLog", 8192)]);
    check(&[(FIRST, 4096), ("commitlog/00000000000000004096", 1000)], &[]);
    // A single file that ends in a message does not, nor does a file of the log that ends inside a page.
    check(&[(FIRST, 16)], &[]);
    check(&[(FIRST, 7000)], &[]);
    check(&[(FIRST, 8192), ("commitlog/00000000000000016384", 5000)], &[]);
    check(&[("consumequeue/T/0/00000000000000000000", 30)], &[]);
}

#[test]
fn the_files_of_the_timer_log_decide() {
    let taken = |length: u64| {
        let disk = disk(&[("timerlog/00000000000000000000", length)]);
        let mut config = TimerConfig { log_file_bytes: 4096, ..TimerConfig::new("/store") };
        let found = config.take_file_size(&disk).unwrap();
        (config.log_file_bytes, found.map(|it| (it.configured, it.found)))
    };
    assert_eq!(taken(4096), (4096, None));
    assert_eq!(taken(5200), (5200, Some((4096, 5200))));
}
