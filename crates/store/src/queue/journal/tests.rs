use super::{GroupsRecord, JournalEnd, UnitJournal, find, numbers, path_of, remove_except};
use crate::disk::{Disk, FakeDisk};
use crate::queue::Unit;
use std::path::Path;
use wire::units::LogOffset;

const ROOT: &str = "/store";

fn root() -> &'static Path {
    Path::new(ROOT)
}

fn disk() -> FakeDisk {
    let disk = FakeDisk::new(512);
    disk.create_dir_all(root()).unwrap();
    disk
}

fn unit(at: u64) -> Unit {
    Unit { log_offset: LogOffset::new(at), size: 100, tags_code: 7 }
}

/// Adds an entry up to log position `end`, with a unit per hundred bytes of the log.
fn add(journal: &mut UnitJournal, disk: &FakeDisk, committed: u64, end: u64) {
    let from = journal.end().unwrap_or(committed).max(committed);
    assert!(journal.begin(disk, root(), committed, 400).unwrap());
    let mut part = GroupsRecord::new();
    part.add("TopicA", 3, from / 100, (from / 100..end / 100).map(|number| unit(number * 100)));
    journal.add(disk, &mut part).unwrap();
    journal.finish(disk, JournalEnd { at: end, last_record: end - 100, store_timestamp: 9 }).unwrap();
    journal.remove_passed(disk, root(), committed).unwrap();
}

/// The queue offsets in the journal behind the checkpoint's position `committed`, and the journal's end.
fn read(disk: &FakeDisk, committed: u64) -> Option<(Vec<u64>, u64)> {
    let found = find(disk, root(), committed).unwrap()?;
    let mut offsets = Vec::new();
    let all = found.each_group(disk, root(), |group| {
        assert_eq!((group.topic, group.queue_id), ("TopicA", 3));
        for (place, read) in group.units().enumerate() {
            let offset = group.first + place as u64;
            assert_eq!(read, Some(unit(offset * 100)));
            offsets.push(offset);
        }
        true
    });
    assert!(all.unwrap());
    Some((offsets, found.end.at))
}

#[test]
fn entries_come_back_over_several_files() {
    let (disk, mut journal) = (disk(), UnitJournal::default());
    for end in [300, 900, 1000, 1700, 2500] {
        add(&mut journal, &disk, 0, end);
    }
    assert!(numbers(&disk, root()).unwrap().len() > 1, "files are small here");
    assert_eq!(read(&disk, 0), Some(((0..25).collect(), 2500)));
    // The checkpoint may be further than the journal's start.
    assert_eq!(read(&disk, 2400).unwrap().1, 2500);
    assert_eq!(read(&disk, 2500), None);
}

#[test]
fn files_the_page_has_passed_go() {
    let (disk, mut journal) = (disk(), UnitJournal::default());
    for end in [900, 1700, 2500] {
        add(&mut journal, &disk, 0, end);
    }
    let before = numbers(&disk, root()).unwrap();
    add(&mut journal, &disk, 2000, 2600);
    let (offsets, end) = read(&disk, 2000).unwrap();
    assert!(numbers(&disk, root()).unwrap()[0] > before[0]);
    assert!(offsets[0] <= 20 && *offsets.last().unwrap() == 25 && end == 2600);
    journal.remove_passed(&disk, root(), 2600).unwrap();
    assert_eq!(numbers(&disk, root()).unwrap(), Vec::<u64>::new());
}

#[test]
fn the_journal_begins_anew_behind_the_page() {
    let (disk, mut journal) = (disk(), UnitJournal::default());
    add(&mut journal, &disk, 0, 300);
    // The checkpoint passed the gap, so the missing entries are not needed.
    add(&mut journal, &disk, 1000, 1300);
    assert_eq!(read(&disk, 1000), Some(((10..13).collect(), 1300)));
    // With an older checkpoint the journal does not continue the queues.
    assert_eq!(read(&disk, 200), None);
}

#[test]
fn behind_a_failure_it_waits_for_the_page() {
    let (disk, mut journal) = (disk(), UnitJournal::default());
    add(&mut journal, &disk, 0, 300);
    journal.give_up(&disk, root(), 500);
    assert!(!journal.begin(&disk, root(), 400, 400).unwrap());
    assert_eq!(read(&disk, 0), None);
    add(&mut journal, &disk, 500, 700);
    assert_eq!(read(&disk, 500), Some((vec![5, 6], 700)));
}

#[test]
fn a_later_run_goes_on() {
    let (disk, mut journal) = (disk(), UnitJournal::default());
    add(&mut journal, &disk, 0, 300);
    add(&mut journal, &disk, 0, 800);
    let found = find(&disk, root(), 0).unwrap().unwrap();
    let mut journal = UnitJournal::default();
    journal.resume(&found);
    remove_except(&disk, root(), &found.numbers()).unwrap();
    add(&mut journal, &disk, 0, 1100);
    assert_eq!(read(&disk, 0), Some(((0..11).collect(), 1100)));
    journal.remove_passed(&disk, root(), 1100).unwrap();
    assert_eq!(numbers(&disk, root()).unwrap(), Vec::<u64>::new());
}

#[test]
fn whatever_byte_flips_only_whole_entries_count() {
    let (disk, mut journal) = (disk(), UnitJournal::default());
    let ends = [300, 900, 1000, 1700];
    ends.iter().for_each(|end| add(&mut journal, &disk, 0, *end));
    for number in numbers(&disk, root()).unwrap() {
        let length = disk.open(&path_of(root(), number)).unwrap().length().unwrap().min(1200);
        for at in 0..length {
            let harmed = disk.killed();
            let file = harmed.open(&path_of(root(), number)).unwrap();
            let mut byte = [0];
            file.read_at(&mut byte, at).unwrap();
            file.write_at(&[byte[0] ^ 16], at).unwrap();
            if let Some((offsets, end)) = read(&harmed, 0) {
                assert!(ends.contains(&end));
                assert_eq!(offsets, (0..end / 100).collect::<Vec<_>>());
            }
        }
    }
}

#[test]
fn whatever_a_power_cut_leaves_only_whole_entries_count() {
    for seed in 0..300 {
        let (disk, mut journal) = (disk(), UnitJournal::default());
        add(&mut journal, &disk, 0, 300);
        add(&mut journal, &disk, 0, 800);
        // An entry that is not finished.
        journal.begin(&disk, root(), 0, 4000).unwrap();
        let mut part = GroupsRecord::new();
        part.add("TopicA", 3, 8, (8..80).map(|number| unit(number * 100)));
        journal.add(&disk, &mut part).unwrap();
        assert_eq!(read(&disk.power_cut(seed), 0), Some(((0..8).collect(), 800)));
    }
}
