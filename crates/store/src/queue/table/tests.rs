use super::*;
use crate::disk::FakeDisk;

const ROOT: &str = "/store";

fn extent(min: u64, max: u64) -> Extent {
    Extent { min, max, last: max * 100 }
}

fn rows(list: &[(&str, i32, u64, u64)]) -> Rows {
    let mut rows = Rows::new(4096, 160);
    list.iter().for_each(|(topic, id, min, max)| rows.add(topic, *id, extent(*min, *max)));
    rows
}

fn get(table: &QueueTable, topic: &str, id: i32) -> Option<Extent> {
    table.queues.get(topic)?.get(&id).copied()
}

/// A file with a base of two queues and two changes, and the position behind each record.
fn sample() -> (Vec<u8>, [u64; 3]) {
    let disk = FakeDisk::new(512);
    let base = rows(&[("A", 0, 0, 5), ("B", 7, 2, 3)]);
    let mut journal = TableFile::create(&disk, ROOT.as_ref(), 9, &base, 0).unwrap();
    let first = journal.at;
    assert!(journal.add(&rows(&[("A", 0, 1, 6)])).unwrap());
    let second = journal.at;
    assert!(journal.add(&rows(&[("A", 0, 1, 8), ("C", 0, 0, 1)])).unwrap());
    let bytes = load(&disk, ROOT.as_ref(), 9).unwrap().unwrap();
    (bytes, [first, second, journal.at])
}

#[test]
fn what_is_committed_counts_and_what_follows_is_intended() {
    let (bytes, at) = sample();
    let check = |committed, counted: [Option<Extent>; 3], intended: [Option<Extent>; 3]| {
        let (table, rest) = QueueTable::read(&bytes, 9, committed).unwrap();
        let found = |table: &QueueTable| [get(table, "A", 0), get(table, "B", 7), get(table, "C", 0)];
        assert_eq!((found(&table), found(&rest)), (counted, intended));
        assert_eq!((table.log_min, table.file_bytes), (4096, 160));
    };
    let (a, b, c) = (|min, max| Some(extent(min, max)), Some(extent(2, 3)), Some(extent(0, 1)));
    check(at[0], [a(0, 5), b, None], [a(1, 8), None, c]);
    check(at[1], [a(1, 6), b, None], [a(1, 8), None, c]);
    check(at[2], [a(1, 8), b, c], [None, None, None]);
}

#[test]
fn a_table_that_is_not_whole_does_not_count() {
    let (bytes, at) = sample();
    for position in [0, 1, at[0] - 1, at[0] + 1, at[2] + 1, u64::MAX] {
        assert_eq!(QueueTable::read(&bytes, 9, position), None, "committed at {position}");
    }
    assert_eq!(QueueTable::read(&bytes, 8, at[2]), None, "another generation");
    for index in 0..usize::try_from(at[2]).unwrap() {
        let mut bytes = bytes.clone();
        bytes[index] ^= 0x10;
        assert_eq!(QueueTable::read(&bytes, 9, at[2]), None, "byte {index}");
        assert_eq!(QueueTable::read(&bytes, 9, at[0]), None, "byte {index}");
    }
}

#[test]
fn removing_a_topic_takes_its_queues() {
    let disk = FakeDisk::new(512);
    let base = rows(&[("A", 0, 0, 5), ("A", 1, 0, 5), ("B", 0, 0, 5)]);
    let mut journal = TableFile::create(&disk, ROOT.as_ref(), 1, &base, 0).unwrap();
    let mut change = Rows::new(0, 160);
    change.add_removed("A", 777);
    change.add("A", 1, extent(0, 1));
    assert!(journal.add(&change).unwrap());
    let bytes = load(&disk, ROOT.as_ref(), 1).unwrap().unwrap();
    let (table, _) = QueueTable::read(&bytes, 1, journal.at).unwrap();
    assert_eq!(table.removed.get("A"), Some(&777));
    assert_eq!((get(&table, "A", 0), get(&table, "A", 1)), (None, Some(extent(0, 1))));
    assert_eq!(get(&table, "B", 0), Some(extent(0, 5)));
}

#[test]
fn a_full_file_takes_no_more() {
    let disk = FakeDisk::new(512);
    let mut journal = TableFile::create(&disk, ROOT.as_ref(), 1, &rows(&[]), 0).unwrap();
    let mut count = 0;
    while journal.add(&rows(&[("A", 0, 0, count)])).unwrap() {
        count += 1;
    }
    assert!(count > 100);
    let bytes = load(&disk, ROOT.as_ref(), 1).unwrap().unwrap();
    let (table, _) = QueueTable::read(&bytes, 1, journal.at).unwrap();
    assert_eq!(get(&table, "A", 0), Some(extent(0, count - 1)));
    remove_others(&disk, ROOT.as_ref(), 2).unwrap();
    assert_eq!(load(&disk, ROOT.as_ref(), 1).unwrap(), None);
}
