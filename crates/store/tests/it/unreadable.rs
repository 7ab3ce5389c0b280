//! A sector of the log that the disk gives an error for.

use crate::tool::{append, message, small_config};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::inspect::{DumpPart, Repair, Selection, Survey, verify};
use store::{Config, Disk, FakeDisk, Store, Unit};
use wire::units::QueueOffset;

const FIRST_FILE: &str = "/store/commitlog/00000000000000000000";
const SEGMENT_BYTES: u64 = 1 << 16;
/// Sector in the middle of a page of the first file.
const SECTOR: std::ops::Range<u64> = 18_432..18_944;
const PAGE: std::ops::Range<u64> = 16_384..20_480;

fn open(disk: &FakeDisk, rebuild_pause: Duration) -> Store {
    let config = Config { segment_bytes: SEGMENT_BYTES, rebuild_pause, ..small_config() };
    Store::open(config, Arc::new(disk.clone())).unwrap()
}

/// Opens a store whose clock stands at `now` until [`Store::run_due`] moves it.
fn open_without_threads(disk: &FakeDisk, now: Instant) -> Store {
    let config = Config { segment_bytes: SEGMENT_BYTES, ..small_config() };
    Store::open_without_threads(config, Arc::new(disk.clone()), now).unwrap()
}

/// Moves the clock of a store from `now` on until its queues are rebuilt, whatever pauses lie between the attempts.
fn heal(store: &Store, mut now: Instant) {
    for _ in 0..100 {
        store.run_due(now);
        if store.progress().lost_queues == 0 {
            return;
        }
        now += store.config().rebuild_pause;
    }
    panic!("it is not rebuilt");
}

fn units_of(store: &Store, queue_id: i32) -> Vec<Unit> {
    let mut units = Vec::new();
    let queue = store.find_queue("Topic", queue_id).unwrap();
    queue.units_blocking(QueueOffset::ZERO, 1000, &mut units).unwrap();
    units
}

/// Makes a closed store with messages in three queues, and later messages in a fourth queue. Returns the units of the
/// second queue.
fn closed() -> (FakeDisk, Vec<Unit>) {
    let disk = FakeDisk::new(512);
    let store = open(&disk, Duration::ZERO);
    for number in 0..120 {
        append(&store, &store.queue("Topic", number % 3).unwrap(), &[1; 900], 0);
    }
    for _ in 0..20 {
        append(&store, &store.queue("Topic", 3).unwrap(), &[1; 900], 0);
    }
    let units = units_of(&store, 1);
    store.close().unwrap();
    (disk, units)
}

fn is_hidden(unit: &Unit, page: &std::ops::Range<u64>) -> bool {
    unit.log_offset.get() < page.end && page.start < unit.end().get()
}

fn lose_queue(disk: &FakeDisk) {
    let directory = Path::new("/store/consumequeue/Topic/1");
    for entry in disk.list(directory).unwrap() {
        disk.remove(&directory.join(entry.name)).unwrap();
    }
}

#[test]
fn a_sector_that_cannot_be_read_is_named_and_the_rest_is_verified() {
    let (disk, _) = closed();
    disk.set_unreadable(FIRST_FILE.as_ref(), SECTOR);
    let survey = Survey::of(Arc::new(disk), "/store".as_ref(), &[]).unwrap();
    let found = verify(&survey, 2, &|_| {}).unwrap();
    let named: Vec<_> =
        found.findings.iter().filter(|finding| finding.what.contains("cannot be read: ")).collect();
    assert_eq!((named[0].file.as_path(), named[0].at), (Path::new(FIRST_FILE), Some(PAGE.start)));
    assert!(named[0].what.starts_with("4096 bytes cannot be read: "), "{}", named[0]);
    assert_eq!((found.unreadable_bytes, found.is_clean()), (4096, false));
    assert!((4..7).contains(&found.lost.len()), "{:?}", found.lost);
    assert_eq!(found.records + found.lost.len() as u64, 140);
    assert_eq!(found.units, found.records);
    // Nothing may be written over what the disk may give again.
    assert!(Repair::of(&survey, &found).steps().is_empty());
    let mut rows = Vec::new();
    let mut give = |row: store::inspect::Row| {
        rows.push(row.to_string());
        ControlFlow::Continue(())
    };
    survey.dump(DumpPart::Log, &Selection::default(), &mut give).unwrap();
    let of = |kind: &str| rows.iter().filter(|row| row.starts_with(kind)).count();
    assert_eq!((of("unreadable at=16384 end=20480"), of("damage ")), (1, 1));
    assert_eq!(of("record ") as u64, found.records);
}

#[test]
fn a_sector_behind_the_end_of_the_log_is_named() {
    let (disk, _) = closed();
    let last = disk.list("/store/commitlog".as_ref()).unwrap().pop().unwrap();
    let path = Path::new("/store/commitlog").join(last.name);
    disk.set_unreadable(&path, SEGMENT_BYTES - 1..SEGMENT_BYTES);
    let survey = Survey::of(Arc::new(disk), "/store".as_ref(), &[]).unwrap();
    let found = verify(&survey, 2, &|_| {}).unwrap();
    assert_eq!((found.findings.len(), found.records), (1, 140), "{:?}", found.findings);
    assert_eq!((found.findings[0].file.clone(), found.findings[0].at), (path, Some(SEGMENT_BYTES - 4096)));
}

#[test]
fn a_queue_is_rebuilt_around_a_sector_that_cannot_be_read() {
    let (disk, units) = closed();
    let last = units.last().unwrap().log_offset.get();
    let sectors =
        [(0, SECTOR), (last / SEGMENT_BYTES * SEGMENT_BYTES, last % SEGMENT_BYTES..last % SEGMENT_BYTES + 1)];
    for (base, sector) in sectors {
        let disk = disk.killed();
        let path = format!("/store/commitlog/{base:020}");
        disk.set_unreadable(path.as_ref(), sector.clone());
        lose_queue(&disk);
        let start = Instant::now();
        let store = open_without_threads(&disk, start);
        heal(&store, start);
        let pages = base + sector.start / 4096 * 4096..base + sector.end.next_multiple_of(4096);
        let found = units_of(&store, 1);
        assert_eq!(found.len(), units.len());
        let hidden = units.iter().filter(|unit| is_hidden(unit, &pages)).count();
        assert!(hidden > 0);
        for (number, (unit, found)) in units.iter().zip(&found).enumerate() {
            match is_hidden(unit, &pages) {
                true if number + 1 == units.len() => assert_eq!(found.log_offset, unit.log_offset),
                is_blank => assert_eq!((found == unit, found.is_blank()), (!is_blank, is_blank), "{number}"),
            }
        }
        assert_eq!(append(&store, &store.find_queue("Topic", 1).unwrap(), b"next", 0), 40);
    }
}

#[test]
fn an_error_of_the_disk_that_passes_costs_a_rebuilt_queue_no_message() {
    let (disk, units) = closed();
    disk.set_unreadable(FIRST_FILE.as_ref(), SECTOR);
    lose_queue(&disk);
    let store = open(&disk, Duration::from_secs(3600));
    store.wait_healed();
    assert_eq!(store.progress().lost_queues, 1);
    disk.set_unreadable(FIRST_FILE.as_ref(), 0..0);
    // Whatever else is lost has it tried again at once.
    store.rebuild(&store.find_queue("Topic", 0).unwrap(), QueueOffset::ZERO..QueueOffset::new(1));
    store.wait_healed();
    assert_eq!(units_of(&store, 1), units);
    let mut batch = store.batch();
    batch.push(&store.find_queue("Topic", 1).unwrap(), &message(b"next", b"")).unwrap();
    store.append(&mut batch, 0).unwrap();
}

#[test]
fn a_rebuild_that_failed_for_want_of_space_does_not_pass_over_an_error_the_next_one_meets_first() {
    let (disk, units) = closed();
    lose_queue(&disk);
    disk.faults(|faults| faults.fails_below = Some("/store/consumequeue/Topic/1".into()));
    let start = Instant::now();
    let store = open_without_threads(&disk, start);
    store.wait_healed();
    assert_eq!(store.progress().lost_queues, 1);
    disk.set_unreadable(FIRST_FILE.as_ref(), SECTOR);
    disk.faults(|faults| {
        // As many as one attempt needs to meet the error and to take it for granted.
        faults.failing_reads_left = Some(2);
        faults.fails_below = None;
    });
    heal(&store, start);
    disk.faults(|faults| assert_eq!(faults.failing_reads_left, Some(0)));
    assert_eq!(units_of(&store, 1), units);
}
