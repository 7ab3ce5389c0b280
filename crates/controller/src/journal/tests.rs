use replica::consensus::{Entry, Snapshot, Vote};
use store::FakeDisk;

use super::*;

const HOME: &str = "/c";

fn entry(index: u64) -> Record {
    let data = vec![index as u8; (index as usize * 37) % 300];
    Record::Entry(Entry { index, term: 1, data })
}

fn open(disk: &FakeDisk) -> (Journal, Vec<Record>) {
    Journal::open(Arc::new(disk.clone()), Path::new(HOME)).unwrap()
}

#[test]
fn what_was_saved_survives_a_power_cut_and_nothing_else_appears() {
    for seed in 0..200 {
        let disk = FakeDisk::new(64);
        let (mut journal, saved) = open(&disk);
        assert_eq!(saved, []);
        let durable: Vec<Record> = (1..=5).map(entry).collect();
        durable.iter().for_each(|record| journal.save(std::slice::from_ref(record)).unwrap());
        // The next sync never happens.
        disk.faults(|faults| faults.syncs_left = Some(0));
        assert!(journal.save(&[entry(6), entry(7)]).is_err());
        assert!(journal.save(&[entry(8)]).is_err(), "after an error nothing more is taken");
        let disk = disk.power_cut(seed);
        let (mut journal, saved) = open(&disk);
        assert!(saved.starts_with(&durable) && saved.len() <= 7, "seed {seed}: {saved:?}");
        // What follows is not mixed up with the rest of what was torn.
        journal.save(&[entry(9)]).unwrap();
        drop(journal);
        let mut wanted = saved;
        wanted.push(entry(9));
        assert_eq!(open(&disk.power_cut(seed)).1, wanted, "seed {seed}");
    }
}

/// A disk that holds these bytes as the journal.
fn disk_with(bytes: &[u8]) -> FakeDisk {
    let disk = FakeDisk::new(64);
    disk.create_dir_all(Path::new(HOME)).unwrap();
    let path = Path::new("/c/journal");
    disk.create(path, bytes.len() as u64, Space::Sparse).unwrap().write_at(bytes, 0).unwrap();
    disk
}

/// Whether an open either refuses, or has all records.
fn loses_nothing(bytes: &[u8], records: &[Record]) -> bool {
    match Journal::open(Arc::new(disk_with(bytes)), Path::new(HOME)) {
        Err(JournalError::Damaged { .. } | JournalError::Foreign(_)) => true,
        Err(error) => panic!("{error}"),
        Ok((_, saved)) => saved == records,
    }
}

/// The records and the bytes of a journal after several saves; the last save has two records.
fn several_saves() -> (Vec<Record>, Vec<u8>) {
    let disk = FakeDisk::new(64);
    let (mut journal, _) = open(&disk);
    let records: Vec<Record> = (1..=4).map(entry).collect();
    records[..2].iter().for_each(|record| journal.save(std::slice::from_ref(record)).unwrap());
    journal.save(&records[2..]).unwrap();
    let bytes = disk.read(Path::new("/c/journal")).unwrap();
    (records, bytes)
}

#[test]
fn one_changed_byte_or_a_cut_file_never_drops_a_decision() {
    let (records, bytes) = several_saves();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    assert!(loses_nothing(&bytes, &records));
    for at in 0..end + 20 {
        for mask in [0x01, 0x80, 0xff] {
            let mut changed = bytes.clone();
            changed[at] ^= mask;
            assert!(loses_nothing(&changed, &records), "byte {at} ^ {mask:#x}");
        }
        assert!(loses_nothing(&bytes[..at], &records), "cut at {at}");
    }
}

#[test]
fn an_open_of_a_damaged_journal_names_the_command_and_changes_nothing() {
    let (_, mut bytes) = several_saves();
    bytes[30] ^= 1;
    let disk = disk_with(&bytes);
    let error = Journal::open(Arc::new(disk.clone()), Path::new(HOME)).map(drop).unwrap_err().to_string();
    assert!(
        error.contains("/c/journal is damaged at byte 8") && error.contains("controller rebuild"),
        "{error}"
    );
    assert_eq!(disk.read(Path::new("/c/journal")).unwrap(), bytes);
}

#[test]
fn journals_without_a_mark_are_read() {
    let records: Vec<Record> = (1..=3).map(entry).collect();
    let mut bytes = MAGIC_WITHOUT_MARK.to_vec();
    records.iter().for_each(|record| bytes.extend(frames(std::slice::from_ref(record))));
    bytes.extend([0; 64]);
    assert_eq!(open(&disk_with(&bytes)).1, records);
}

#[test]
fn a_replacement_is_whole_or_does_not_happen() {
    let old = [entry(1), entry(2)];
    let state = Snapshot { index: 2, term: 1, state: vec![7; 500] };
    let new = [Record::Snapshot(state), Record::Hard(Vote { term: 3, vote: 1, commit: 2 })];
    for changes in 0..8 {
        for seed in 0..20 {
            let disk = FakeDisk::new(64);
            let (mut journal, _) = open(&disk);
            journal.save(&old).unwrap();
            disk.faults(|faults| faults.killed_after = Some(changes));
            let is_done = journal.replace(&new).is_ok();
            let found = open(&disk.power_cut(seed)).1;
            let wanted: &[&[Record]] = if is_done { &[&new] } else { &[&old, &new] };
            assert!(wanted.contains(&found.as_slice()), "{changes} changes, seed {seed}: {found:?}");
        }
    }
}

#[test]
fn the_file_grows_beyond_its_room() {
    let disk = FakeDisk::new(4096);
    let (mut journal, _) = open(&disk);
    let large = |index| Record::Entry(Entry { index, term: 1, data: vec![1; 200 << 10] });
    let records: Vec<Record> = (1..=4).map(large).collect();
    records.iter().for_each(|record| journal.save(std::slice::from_ref(record)).unwrap());
    drop(journal);
    assert_eq!(open(&disk.power_cut(1)).1, records);
}

#[test]
fn directories_of_java_and_foreign_files_are_refused() {
    let disk = FakeDisk::new(64);
    disk.create_dir_all(Path::new("/c/dledger-n0/data")).unwrap();
    let error = Journal::open(Arc::new(disk), Path::new(HOME)).map(drop).unwrap_err().to_string();
    assert!(error.contains("dledger-n0") && error.contains("vostok controller import"), "{error}");
    let disk = FakeDisk::new(64);
    disk.create_dir_all(Path::new(HOME)).unwrap();
    disk.create(Path::new("/c/journal"), 5, Space::Sparse).unwrap();
    let error = Journal::open(Arc::new(disk), Path::new(HOME)).map(drop).unwrap_err();
    assert!(matches!(error, JournalError::Foreign(_)), "{error}");
}

#[test]
fn one_process_uses_a_directory() {
    let home = tempfile::tempdir().unwrap();
    let open = || Journal::open(Arc::new(store::RealDisk), home.path());
    let first = open().unwrap();
    assert!(matches!(open(), Err(JournalError::Disk { .. })));
    drop(first);
    assert!(open().is_ok());
}
