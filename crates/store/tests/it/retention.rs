//! Old messages go: files, minima, readers in the middle, disks that are full.

use crate::tool::{append, bodies, flush, message, small_config, until};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::{
    AppendError, Boundary, Config, Disk, FakeDisk, FlushOutcome, FreedSpace, Level, Queue, ReadError, Reason,
    RetentionRound, RetentionSettings, RoundResult, Store, UnconsumedPolicy, Usage, UsageLimit,
};
use wire::units::{LogOffset, QueueOffset};

pub const HOUR_MS: i64 = 3_600_000;

pub fn settings() -> RetentionSettings {
    RetentionSettings { reserved_ms: HOUR_MS, ..RetentionSettings::default() }
}

/// A round at four o'clock.
pub fn round(store: &Store, settings: &RetentionSettings, now_ms: i64) -> RoundResult {
    store
        .retain(settings, &RetentionRound { now_ms, hour: 4, asked: false, unconsumed_from: &|| None })
        .unwrap()
}

fn names(disk: &FakeDisk, directory: &str) -> Vec<String> {
    disk.list(directory.as_ref()).unwrap().into_iter().map(|entry| entry.name).collect()
}

fn log_files(disk: &FakeDisk) -> Vec<u64> {
    names(disk, "/store/commitlog").iter().map(|name| name.parse::<u64>().unwrap() / 4096).collect()
}

/// Fills so many files of the log, 14 messages each, and begins the next. A file of a queue holds eight units.
pub fn fill(store: &Store, disk: &FakeDisk, queue: &Arc<Queue>, files: u64, now_ms: i64) {
    disk.faults(|faults| faults.now_ms = now_ms);
    for _ in 0..=files * 14 {
        append(store, queue, &[7; 180], now_ms);
    }
    store.checkpoint().unwrap();
}

fn gives_back(store: &Store) -> bool {
    store.free_space().unwrap() != FreedSpace::Nothing
}

/// Every offset from the minimum on can be read, and nothing before it is promised.
fn check_readable(store: &Store, queue: &Queue) {
    let count = bodies(store, queue, queue.min().get()).len() as u64;
    assert_eq!(count, queue.max().get() - queue.min().get());
}

fn open_with(disk: &FakeDisk, config: Config) -> Store {
    Store::open(config, Arc::new(disk.clone())).unwrap()
}

fn open(disk: &FakeDisk) -> Store {
    open_with(disk, small_config())
}

#[test]
fn expired_files_go_oldest_first_and_minima_follow() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let (busy, quiet) = (store.queue("Busy", 0).unwrap(), store.queue("Quiet", 3).unwrap());
    append(&store, &quiet, b"alone", 0);
    fill(&store, &disk, &busy, 3, HOUR_MS);
    fill(&store, &disk, &busy, 3, 2 * HOUR_MS);
    assert_eq!(log_files(&disk), [0, 1, 2, 3, 4, 5, 6]);
    // An hour after the first ones were written; the last of them is also written to later.
    let done = round(&store, &settings(), 2 * HOUR_MS);
    assert_eq!((done.verdict.remove.len(), done.min.get()), (3, 3 * 4096));
    assert_eq!(log_files(&disk), [3, 4, 5, 6]);
    assert_eq!(store.min(), done.min);
    // A queue without messages keeps its end.
    assert_eq!((quiet.min().get(), quiet.max().get()), (1, 1));
    assert!(busy.min().get() > 40 && busy.min() < busy.max(), "{busy:?}");
    check_readable(&store, &busy);
    // Its files before the minimum are gone, the last one of the quiet queue stays.
    let first = busy.min().get() / 8 * 160;
    assert_eq!(names(&disk, "/store/consumequeue/Busy/0")[0], format!("{first:020}"));
    assert_eq!(names(&disk, "/store/consumequeue/Quiet/3").len(), 1);
    // Nothing more an hour later but the rest without the active file.
    assert_eq!(round(&store, &settings(), 2 * HOUR_MS + 1).verdict.remove.len(), 0);
    round(&store, &settings(), 9 * HOUR_MS);
    assert_eq!(log_files(&disk), [6]);
    check_readable(&store, &busy);
    assert_eq!((append(&store, &quiet, b"next", 0), append(&store, &busy, b"next", 0)), (1, 86));
    let (min, max) = (busy.min(), busy.max());
    for disk in [disk.killed(), disk.power_cut(3)] {
        let store = open(&disk);
        let busy = store.find_queue("Busy", 0).unwrap();
        assert_eq!(busy.min(), min);
        assert!(busy.max() <= max);
        check_readable(&store, &busy);
    }
    store.close().unwrap();
    drop(store);
    let store = open(&disk);
    let (busy, quiet) = (store.find_queue("Busy", 0).unwrap(), store.find_queue("Quiet", 3).unwrap());
    assert_eq!((busy.min(), busy.max(), quiet.min().get(), quiet.max().get()), (min, max, 1, 2));
}

/// Makes places of a queue's first file blank, as a rebuild does when the log has nothing for them.
fn make_blank(disk: &FakeDisk, path: &str, places: std::ops::Range<u64>) {
    let file = disk.open(path.as_ref()).unwrap();
    for place in places {
        file.write_at(b"\0\0\0\0\0\0\0\0\x7f\xff\xff\xff\0\0\0\0\0\0\0\0", place * 20).unwrap();
    }
}

#[test]
fn blank_places_in_a_queue_mislead_no_search() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let (queue, busy) = (store.queue("A", 0).unwrap(), store.queue("Busy", 0).unwrap());
    append(&store, &queue, b"old", 0);
    fill(&store, &disk, &busy, 2, 0);
    disk.faults(|faults| faults.now_ms = 9 * HOUR_MS);
    for number in 1..10 {
        append(&store, &queue, b"new", 9 * HOUR_MS + number);
    }
    store.close().unwrap();
    drop(store);
    make_blank(&disk, "/store/consumequeue/A/0/00000000000000000000", 4..7);
    let store = open(&disk);
    store.wait_healed();
    assert_eq!(round(&store, &settings(), 9 * HOUR_MS + 10).min.get(), 2 * 4096);
    let queue = store.find_queue("A", 0).unwrap();
    assert_eq!(queue.min().get(), 1);
    let find = |time, boundary| store.offset_by_time(&queue, 9 * HOUR_MS + time, boundary).unwrap().get();
    for (time, lower, upper) in
        [(0, 1, 1), (1, 1, 1), (2, 2, 2), (3, 3, 3), (5, 7, 3), (7, 7, 7), (9, 9, 9), (10, 10, 9)]
    {
        assert_eq!((find(time, Boundary::Lower), find(time, Boundary::Upper)), (lower, upper), "{time}");
    }
    // As from a store of another broker, where the ends are found in the files.
    store.close().unwrap();
    drop(store);
    for entry in disk.list("/store/vostok".as_ref()).unwrap().iter().filter(|entry| !entry.is_dir) {
        disk.remove(&Path::new("/store/vostok").join(&entry.name)).unwrap();
    }
    let queue = open(&disk).find_queue("A", 0).unwrap();
    assert_eq!((queue.min().get(), queue.max().get()), (1, 10));
}

#[test]
fn at_other_hours_only_when_asked() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    fill(&store, &disk, &store.queue("A", 0).unwrap(), 3, 0);
    let at_noon = |asked| RetentionRound { now_ms: 9 * HOUR_MS, hour: 12, asked, unconsumed_from: &|| None };
    assert_eq!(store.retain(&settings(), &at_noon(false)).unwrap().min, LogOffset::ZERO);
    assert_eq!(store.retain(&settings(), &at_noon(true)).unwrap().min.get(), 3 * 4096);
}

#[test]
fn what_the_checkpoint_has_not_passed_stays() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let queue = store.queue("A", 0).unwrap();
    fill(&store, &disk, &queue, 2, 0);
    for _ in 0..5 * 14 {
        append(&store, &queue, &[7; 180], 0);
    }
    assert_eq!(flush(&store), FlushOutcome::Flushed);
    assert_eq!(round(&store, &settings(), 9 * HOUR_MS).min.get(), 2 * 4096);
    let store = open(&disk.killed());
    check_readable(&store, &store.find_queue("A", 0).unwrap());
}

#[test]
fn a_reader_in_the_middle_finishes_and_the_next_is_told_where_the_log_begins() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let queue = store.queue("A", 0).unwrap();
    fill(&store, &disk, &queue, 4, 0);
    let mut units = Vec::new();
    queue.units_blocking(QueueOffset::ZERO, 1, &mut units).unwrap();
    round(&store, &settings(), 9 * HOUR_MS);
    let gone = store.read_units(&units, &mut Vec::new()).unwrap_err();
    let expected = (LogOffset::ZERO, LogOffset::new(4 * 4096));
    assert!(matches!(gone, ReadError::Range { from, min, .. } if (from, min) == expected), "{gone:?}");
    assert!(store.record_at(LogOffset::ZERO, &mut Vec::new()).is_err());
    assert_eq!(store.offset_by_time(&queue, 0, Boundary::Lower).unwrap(), queue.min());
    // One step per file of this size, as soon as no thread of the store looks at it any more; then nothing is left.
    for _ in 0..4 {
        until("a file is given back", || gives_back(&store));
    }
    assert!(!gives_back(&store));
}

#[test]
fn over_the_warning_level_sends_are_refused_until_there_is_space() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let queue = store.queue("A", 0).unwrap();
    fill(&store, &disk, &queue, 3, 0);
    let percent = |used: u64| {
        let free = (100 - used) * 4096;
        let usage = Usage { device: 0, total: 100 * 4096, free, available: free };
        disk.faults(|faults| faults.usage = vec![("/store".into(), usage)]);
    };
    let settings = RetentionSettings { reserved_ms: i64::MAX, ..settings() };
    let try_append = || {
        let mut batch = store.batch();
        batch.push(&queue, &message(b"x", b"")).unwrap();
        store.append(&mut batch, 0)
    };
    percent(91);
    try_append().unwrap();
    assert_eq!(store.watch_space(&settings).unwrap(), Level::Refuse);
    let (before, refused) = (store.appended(), try_append().unwrap_err());
    assert!(matches!(refused, AppendError::DiskFull { log_percent: 91, queue_percent: 91 }), "{refused:?}");
    assert_eq!((store.appended(), store.fenced()), (before, None));
    check_readable(&store, &queue);
    // A file is one percent; two are wanted and three may go.
    assert_eq!(round(&store, &RetentionSettings { batch_max: 2, ..settings.clone() }, 0).min.get(), 2 * 4096);
    percent(90);
    assert_eq!(store.watch_space(&settings).unwrap(), Level::Clean);
    try_append().unwrap();
    assert_eq!(store.space().log_percent(), 90);
    assert_eq!(store.space().room(&settings), 0);
}

#[test]
fn a_file_is_not_begun_on_a_disk_that_cannot_hold_it() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let queue = store.queue("A", 0).unwrap();
    // Less than half a file, so that the next one is not made ahead.
    append(&store, &queue, &[1; 1500], 0);
    let usage = |available| Usage { device: 0, total: 1 << 20, free: available, available };
    disk.faults(|faults| faults.usage = vec![("/store".into(), usage(4095))]);
    let mut batch = store.batch();
    batch.push(&queue, &message(&[2; 3000], b"")).unwrap();
    let refused = store.append(&mut batch, 0).unwrap_err();
    assert!(
        refused.to_string().contains("/store/commitlog has 4095 bytes left, a file takes 4096"),
        "{refused}"
    );
    assert_eq!((names(&disk, "/store/commitlog").len(), queue.max().get()), (1, 1));
    disk.faults(|faults| faults.usage = vec![("/store".into(), usage(4096))]);
    store.append(&mut batch, 0).unwrap();
    assert_eq!(bodies(&store, &queue, 0).len(), 2);
}

#[test]
fn a_disk_without_room_for_the_next_file_loses_the_oldest_before_sends_fail() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let queue = store.queue("A", 0).unwrap();
    fill(&store, &disk, &queue, 3, 0);
    let settings = RetentionSettings { reserved_ms: i64::MAX, ..settings() };
    let set_free = |free| {
        let usage = Usage { device: 0, total: 20_000, free, available: free };
        disk.faults(|faults| faults.usage = vec![("/store".into(), usage)]);
    };
    // 80 percent. The next file is not needed yet.
    set_free(4000);
    assert_eq!(store.watch_space(&settings).unwrap(), Level::Expire);
    assert!(round(&store, &settings, 0).verdict.remove.is_empty());
    for _ in 0..8 {
        append(&store, &queue, &[7; 180], 0);
    }
    assert_eq!(store.watch_space(&settings).unwrap(), Level::Clean);
    let done = round(&store, &settings, 0);
    assert_eq!((done.verdict.remove.as_slice(), done.min.get()), (&[Reason::Space][..], 4096));
    // That file is enough, although its space was not given back yet.
    assert!(round(&store, &settings, 0).verdict.remove.is_empty());
    set_free(8096);
    for _ in 0..8 {
        append(&store, &queue, &[7; 180], 0);
    }
    check_readable(&store, &queue);
}

#[test]
fn a_directory_without_room_is_passed_over_as_long_as_another_has_some() {
    let disk = FakeDisk::new(512);
    let full = Usage { device: 1, total: 20_000, free: 4095, available: 4095 };
    disk.faults(|faults| faults.usage = vec![("/a".into(), full)]);
    let config =
        Config { commit_log: "/b/log".into(), commit_log_more: vec!["/a/log".into()], ..small_config() };
    let store = open_with(&disk, config);
    let queue = store.queue("A", 0).unwrap();
    fill(&store, &disk, &queue, 2, 0);
    assert_eq!((names(&disk, "/a/log").len(), names(&disk, "/b/log").len()), (0, 3));
    assert_eq!(bodies(&store, &queue, 0).len(), 2 * 14 + 1);
}

#[test]
fn a_directory_for_reading_need_not_be_there() {
    let disk = FakeDisk::new(512);
    let store = open_with(&disk, Config { commit_log_read_only: vec!["/gone".into()], ..small_config() });
    fill(&store, &disk, &store.queue("A", 0).unwrap(), 3, 0);
    assert_eq!(round(&store, &settings(), 9 * HOUR_MS).min.get(), 3 * 4096);
}

#[test]
fn a_queue_that_cannot_be_read_keeps_only_its_own_files() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let (busy, broken) = (store.queue("Busy", 0).unwrap(), store.queue("Broken", 0).unwrap());
    for _ in 0..10 {
        append(&store, &broken, b"x", 0);
    }
    fill(&store, &disk, &busy, 3, 0);
    store.close().unwrap();
    drop(store);
    let store = open(&disk);
    store.wait_healed();
    let path = Path::new("/store/consumequeue/Broken/0/00000000000000000000");
    disk.set_unreadable(path, 0..u64::MAX);
    let late = RetentionRound { now_ms: 9 * HOUR_MS, hour: 4, asked: false, unconsumed_from: &|| None };
    let failed = store.retain(&settings(), &late).unwrap_err();
    assert!(failed.to_string().contains("queue Broken/0"), "{failed}");
    let busy = store.find_queue("Busy", 0).unwrap();
    assert!(busy.min().get() > 16 && log_files(&disk).len() == 1, "{busy:?}");
    let first = busy.min().get() / 8 * 160;
    assert_eq!(names(&disk, "/store/consumequeue/Busy/0")[0], format!("{first:020}"));
    assert_eq!(names(&disk, "/store/consumequeue/Broken/0").len(), 2);
    // It is tried again.
    disk.set_unreadable(path, 0..0);
    assert_eq!(store.retain(&settings(), &late).unwrap().min, store.min());
    assert_eq!(store.find_queue("Broken", 0).unwrap().min().get(), 10);
    assert_eq!(names(&disk, "/store/consumequeue/Broken/0").len(), 1);
}

#[test]
fn what_nobody_has_consumed_stays_until_the_disk_is_full() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let queue = store.queue("A", 0).unwrap();
    fill(&store, &disk, &queue, 5, 0);
    let unconsumed_from = || Some(LogOffset::new(2 * 4096 + 17));
    let at = |unconsumed, now_ms| {
        let round = RetentionRound { now_ms, hour: 4, asked: false, unconsumed_from: &unconsumed_from };
        store.retain(&RetentionSettings { unconsumed, ..settings() }, &round).unwrap()
    };
    let kept = at(UnconsumedPolicy::Protect, 9 * HOUR_MS);
    assert_eq!((kept.min.get(), kept.verdict.kept_for_consumers), (2 * 4096, true));
    let usage = Usage { device: 0, total: 100_000, free: 13_000, available: 13_000 };
    disk.faults(|faults| faults.usage = vec![("/store".into(), usage)]);
    assert_eq!(at(UnconsumedPolicy::Reject, 9 * HOUR_MS).min.get(), 2 * 4096);
    // 87 percent: one file gives back what two files of before still will.
    disk.faults(|faults| faults.usage[0].1.free = 1000);
    disk.faults(|faults| faults.usage[0].1.available = 1000);
    let dropped = at(UnconsumedPolicy::Protect, 9 * HOUR_MS);
    assert_eq!((dropped.min.get(), dropped.verdict.drops_unconsumed), (4 * 4096, true));
    check_readable(&store, &queue);
}

#[test]
fn by_bytes() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let queue = store.queue("A", 0).unwrap();
    fill(&store, &disk, &queue, 6, 0);
    let settings =
        RetentionSettings { log_bytes_max: 3 * 4096, delete_hours: 0, reserved_ms: i64::MAX, ..settings() };
    let done = round(&store, &settings, 0);
    assert!(store.appended().since(done.min) <= 3 * 4096);
    assert!(store.appended().since(done.min) > 2 * 4096);
    check_readable(&store, &queue);
}

#[test]
fn a_topic_may_keep_its_messages_for_a_shorter_time() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let (short, long) = (store.queue("Short", 0).unwrap(), store.queue("Long", 0).unwrap());
    for minute in 0..60 {
        append(&store, &short, b"s", minute * 60_000);
        append(&store, &long, b"l", minute * 60_000);
    }
    store.checkpoint().unwrap();
    let expire =
        |before_ms, at_most| store.expire_queue(&short, before_ms, QueueOffset::new(at_most)).unwrap().get();
    assert_eq!(expire(0, 100), 0);
    assert_eq!(expire(30 * 60_000, 20), 20);
    assert_eq!(expire(30 * 60_000 + 1, 100), 31);
    // Never down.
    assert_eq!(expire(10 * 60_000, 100), 31);
    assert_eq!(names(&disk, "/store/consumequeue/Short/0")[0], format!("{:020}", 24 * 20));
    assert_eq!(expire(i64::MAX, 100), 60);
    assert_eq!((long.min().get(), store.min().get()), (0, 0));
    check_readable(&store, &long);
    assert_eq!(append(&store, &short, b"s", 61 * 60_000), 60);
    check_readable(&store, &short);
}

#[test]
fn files_go_round_several_directories_and_are_found_in_all() {
    let disk = FakeDisk::new(512);
    let config = || Config {
        commit_log: "/b/log".into(),
        commit_log_more: vec!["/a/log".into()],
        commit_log_read_only: vec!["/old/log".into()],
        ..small_config()
    };
    let usage = |device, free| Usage { device, total: 1 << 20, free, available: free };
    let disks = |left: u64, right: u64| {
        disk.faults(|faults| {
            faults.usage = vec![("/a".into(), usage(1, left)), ("/b".into(), usage(2, right))];
        });
    };
    disks(1 << 20, 1 << 20);
    let store = open_with(&disk, config());
    let queue = store.queue("A", 0).unwrap();
    fill(&store, &disk, &queue, 4, 0);
    let file = |number: u64| format!("{:020}", number * 4096);
    assert_eq!(names(&disk, "/a/log"), [file(0), file(2), file(4)]);
    assert_eq!(names(&disk, "/b/log"), [file(1), file(3)]);
    // The disk of the second one is nearly full: the file after the next is made in the other.
    disks(1 << 20, 1 << 16);
    assert_eq!(
        round(&store, &RetentionSettings { delete_hours: 0, ..settings() }, 0).verdict.level,
        Level::Ample
    );
    fill(&store, &disk, &queue, 2, 0);
    assert_eq!(names(&disk, "/a/log"), [file(0), file(2), file(4), file(5), file(6)]);
    store.close().unwrap();
    drop(store);
    // An operator moves the oldest one to a directory for reading.
    let (source, target) = (PathBuf::from("/a/log").join(file(0)), Path::new("/old/log").join(file(0)));
    disk.create_dir_all("/old/log".as_ref()).unwrap();
    disk.rename(&source, &target).unwrap();
    let store = open_with(&disk, config());
    let queue = store.find_queue("A", 0).unwrap();
    assert_eq!(bodies(&store, &queue, 0).len(), 6 * 14 + 2);
    // It counts like the others, and goes like them.
    disks(1 << 20, 1 << 20);
    assert_eq!(round(&store, &settings(), 9 * HOUR_MS).verdict.remove.len(), 6);
    assert_eq!((names(&disk, "/old/log").len(), names(&disk, "/b/log").len()), (0, 0));
    check_readable(&store, &queue);
}

/// A power cut may keep the removal of a file and not of an older file on another file system.
#[test]
fn a_power_cut_while_files_go_leaves_no_gap() {
    for seed in 0..40 {
        let disk = FakeDisk::new(512);
        let config = || Config { commit_log_more: vec!["/more/log".into()], ..small_config() };
        let store = open_with(&disk, config());
        let queue = store.queue("A", 0).unwrap();
        fill(&store, &disk, &queue, 6, 0);
        round(
            &store,
            &RetentionSettings { batch_max: usize::from(seed as u8 % 6), ..settings() },
            9 * HOUR_MS,
        );
        while seed % 2 == 0 && gives_back(&store) {}
        let store = open_with(&disk.power_cut(seed), config());
        let again = store.find_queue("A", 0).unwrap();
        assert_eq!((again.min(), again.max()), (queue.min(), queue.max()), "seed {seed}");
        check_readable(&store, &again);
    }
}

#[test]
fn the_same_file_in_two_directories_is_refused_by_name() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    append(&store, &store.queue("A", 0).unwrap(), b"x", 0);
    store.close().unwrap();
    drop(store);
    let copy = "/copy/00000000000000000000";
    disk.create(copy.as_ref(), 4096, store::Space::Reserved).unwrap();
    let config = Config { commit_log_read_only: vec!["/copy".into()], ..small_config() };
    let refused = Store::open(config, Arc::new(disk)).map(drop).unwrap_err().to_string();
    assert!(refused.contains("00000000000000000000"), "{refused}");
}

#[test]
fn a_limit_in_free_bytes() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let settings = RetentionSettings { refuse_at: UsageLimit::FreeBytes(1 << 41), ..settings() };
    assert_eq!(store.watch_space(&settings).unwrap(), Level::Refuse);
}
