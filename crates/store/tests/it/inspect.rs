//! Stores examined from outside: Java's, Vostok's, and damaged stores that are repaired.

use crate::java::{CLEAN, KILLED, PLAIN, disk_with, unpack};
use crate::tool::{append, bodies, small_config};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::inspect::{DumpPart, Repair, Selection, Step, Survey, VerifyResult, verify};
use store::{Disk, FakeDisk, Store};

fn survey(disk: &FakeDisk) -> Survey {
    Survey::of(Arc::new(disk.clone()), Path::new("/store"), &[]).unwrap()
}

fn verified(disk: &FakeDisk) -> VerifyResult {
    verify(&survey(disk), 2, &|_| {}).unwrap()
}

fn rows(disk: &FakeDisk, part: DumpPart, wanted: &Selection) -> Vec<String> {
    let mut rows = Vec::new();
    survey(disk)
        .dump(part, wanted, &mut |row| {
            rows.push(row.to_string());
            ControlFlow::Continue(())
        })
        .unwrap();
    rows
}

/// Ours: 60 messages in two queues over several files, closed.
fn ours() -> FakeDisk {
    let disk = FakeDisk::new(4096);
    let store = Store::open(small_config(), Arc::new(disk.clone())).unwrap();
    for number in 0..60u32 {
        let queue = store.queue("TopicA", i32::try_from(number % 2).unwrap()).unwrap();
        append(&store, &queue, format!("body {number}").as_bytes(), 1000);
    }
    store.close().unwrap();
    disk
}

fn flip(disk: &FakeDisk, path: &str, at: u64) {
    let file = disk.open(Path::new(path)).unwrap();
    let mut byte = [0];
    file.read_at(&mut byte, at).unwrap();
    file.write_at(&[byte[0] ^ 0x40], at).unwrap();
}

const FIRST_FILE: &str = "/store/commitlog/00000000000000000000";
/// Name of the second file, which begins with the 20th record: message 9 of queue 1.
const SECOND_FILE: &str = "/store/commitlog/00000000000000004096";

#[test]
fn stores_of_java_and_ours_are_clean() {
    for (archive, records) in [(CLEAN, 18), (KILLED, 18), (PLAIN, 18)] {
        let found = verified(&disk_with(&unpack(archive), &[]));
        assert!(found.is_clean(), "{:?} {:?}", found.findings, found.lost);
        assert!(found.records >= records, "{}", found.records);
        assert_eq!(found.digests, 0);
        assert!(found.units > 0);
    }
    let found = verified(&ours());
    assert!(found.is_clean(), "{:?} {:?}", found.findings, found.lost);
    assert_eq!((found.records, found.digests, found.units), (60, 60, 60));
}

#[test]
fn what_is_damaged_is_named() {
    let cases: [(&str, u64, &str); 6] = [
        (SECOND_FILE, 90, "no whole record up to"),
        (SECOND_FILE, 17, "checksum of all but the body"),
        ("/store/consumequeue/TopicA/1/00000000000000000000", 67, "unit 3: it leads to"),
        ("/store/consumequeue/TopicA/1/00000000000000000000", 79, "unit 3: its tags code is"),
        ("/store/checkpoint", 32, "confirmPhyOffset is"),
        ("/store/commitlog/00000000000000000000", 4, "no whole record up to"),
    ];
    for (path, at, expected) in cases {
        let disk = ours();
        flip(&disk, path, at);
        let found = verified(&disk);
        let hits: Vec<_> = found.findings.iter().filter(|finding| finding.what.contains(expected)).collect();
        assert_eq!(hits.len(), 1, "{path} {at}: {:?}", found.findings);
        assert_eq!(hits[0].file, PathBuf::from(path));
    }
}

#[test]
fn only_damage_that_no_record_follows_counts_as_torn() {
    let torn = |files: &[&str]| {
        let disk = ours();
        // As after a crash.
        disk.create(Path::new("/store/abort"), 1, store::Space::Sparse).unwrap();
        for file in files {
            disk.open(Path::new(file)).unwrap().write_at(&[0xff; 3096], 1000).unwrap();
        }
        let found = verified(&disk);
        let of = |list: &[store::inspect::Finding]| -> Vec<PathBuf> {
            let torn = list.iter().filter(|finding| finding.what.contains("to the end of the file"));
            torn.map(|finding| finding.file.clone()).collect()
        };
        let blanks = Repair::of(&survey(&disk), &found)
            .steps()
            .iter()
            .filter(|step| matches!(step, Step::Blank(..)))
            .count();
        (of(&found.findings), of(&found.notes), blanks)
    };
    let (first, second) = (PathBuf::from(FIRST_FILE), PathBuf::from(SECOND_FILE));
    assert_eq!(torn(&[FIRST_FILE]), (vec![first.clone()], vec![], 1));
    assert_eq!(torn(&[SECOND_FILE]), (vec![], vec![second.clone()], 0));
    assert_eq!(torn(&[FIRST_FILE, SECOND_FILE]), (vec![first], vec![second], 1));
}

#[test]
fn damage_in_the_middle_of_the_log_is_filled_and_everything_else_is_served() {
    let disk = ours();
    flip(&disk, SECOND_FILE, 90);
    let before = disk.killed();
    let found = verified(&disk);
    assert_eq!(found.lost.len(), 1, "{:?}", found.lost);
    let survey = survey(&disk);
    let repair = Repair::of(&survey, &found);
    assert!(matches!(repair.steps(), [Step::Fill(4096, end)] if *end < 4096 + 300), "{:?}", repair.steps());
    assert_eq!(verified(&disk).findings, found.findings, "saying it changes nothing");
    repair.apply(Path::new("/kept")).unwrap();
    let after = verified(&disk);
    assert!(after.findings.is_empty(), "{:?}", after.findings);
    assert_eq!(after.lost, found.lost);
    // What was there is beside the store.
    let kept = disk.list(Path::new("/kept/commitlog")).unwrap();
    let mut old = vec![0; usize::try_from(kept[0].length).unwrap()];
    before.open(Path::new(SECOND_FILE)).unwrap().read_at(&mut old, 0).unwrap();
    let mut copy = vec![0; old.len()];
    disk.open(&Path::new("/kept/commitlog").join(&kept[0].name)).unwrap().read_at(&mut copy, 0).unwrap();
    assert_eq!(old, copy);
    // All queues can be made from the log again: nothing in it stops a reader.
    let lost = &found.lost[0];
    disk.remove(Path::new("/store/checkpoint")).unwrap();
    for queue in ["/store/consumequeue/TopicA/0", "/store/consumequeue/TopicA/1"].map(Path::new) {
        for entry in disk.list(queue).unwrap() {
            disk.remove(&queue.join(entry.name)).unwrap();
        }
    }
    let store = Store::open(small_config(), Arc::new(disk)).unwrap();
    store.wait_healed();
    let other = store.find_queue("TopicA", 1 - lost.queue_id).unwrap();
    assert_eq!(bodies(&store, &other, 0).len(), 30);
    assert_eq!(store.find_queue("TopicA", lost.queue_id).unwrap().max().get(), 30);
}

#[test]
fn a_dump_shows_what_is_there() {
    let disk = disk_with(&unpack(CLEAN), &[]);
    let all = rows(&disk, DumpPart::Log, &Selection::default());
    assert_eq!(all.len(), 18, "{all:?}");
    let topic = Selection { topic: Some("TopicN".to_owned()), queue_id: Some(1), ..Selection::default() };
    assert_eq!(rows(&disk, DumpPart::Log, &topic).len(), 4);
    let units = rows(&disk, DumpPart::Queues, &topic);
    assert_eq!(units.len(), 4);
    assert!(units[2].starts_with("unit topic=TopicN queue=1 offset=2 at="), "{}", units[2]);
    assert_eq!(rows(&disk, DumpPart::Checkpoint, &Selection::default()).len(), 1);
    assert!(
        rows(&disk, DumpPart::Config, &Selection::default()).iter().any(|row| row.contains("topics.json"))
    );
}

/// Ours with keys and small index files, closed.
fn indexed() -> FakeDisk {
    let disk = FakeDisk::new(4096);
    let config = store::Config { key_index: true, index_slots: 16, index_items: 32, ..small_config() };
    let store = Store::open(config, Arc::new(disk.clone())).unwrap();
    let queue = store.queue("TopicA", 0).unwrap();
    for number in 0..20 {
        let mut batch = store.batch();
        let properties = format!("KEYS\u{1}k{} shared\u{2}", number % 7);
        batch.push(&queue, &crate::tool::message(b"body", properties.as_bytes())).unwrap();
        store.append(&mut batch, 1_700_000_000_000 + 700 * number).unwrap();
    }
    store.close().unwrap();
    disk
}

fn indexed_survey(disk: &FakeDisk) -> Survey {
    survey(disk).with_index(16, 32)
}

#[test]
fn every_byte_of_an_index_file_that_counts_is_verified() {
    let disk = indexed();
    let found = verify(&indexed_survey(&disk), 2, &|_| {}).unwrap();
    assert!(found.is_clean(), "{:?}", found.findings);
    assert_eq!((found.index_items, found.unindexed), (40, 0));
    let items = rows_of(&indexed_survey(&disk), DumpPart::Index);
    assert_eq!(items.iter().filter(|row| row.starts_with("item ")).count(), 40, "{items:?}");
    let files: Vec<PathBuf> = disk
        .list(Path::new("/store/index"))
        .unwrap()
        .iter()
        .map(|entry| Path::new("/store/index").join(&entry.name))
        .collect();
    assert_eq!(files.len(), 2);
    // Every slot, and of every item hash, position and predecessor.
    let slots = 40..40 + 4 * 16;
    let items = (1..32).flat_map(|number| {
        let at = 40 + 4 * 16 + 20 * number;
        (at..at + 12).chain(at + 16..at + 20)
    });
    for at in slots.chain(items) {
        let disk = disk.killed();
        flip(&disk, files[0].to_str().unwrap(), at);
        let survey = indexed_survey(&disk);
        let found = verify(&survey, 2, &|_| {}).unwrap();
        assert!(
            found.findings.iter().any(|finding| finding.file == files[0]),
            "byte {at}: {:?}",
            found.findings
        );
        if at % 37 == 0 {
            let repair = Repair::of(&survey, &found);
            assert!(
                matches!(repair.steps(), [Step::RemoveIndex(bad)] if *bad == files),
                "{:?}",
                repair.steps()
            );
            repair.apply(Path::new("/kept")).unwrap();
            assert!(verify(&indexed_survey(&disk), 2, &|_| {}).unwrap().is_clean());
        }
    }
    let other = verify(&survey(&disk), 2, &|_| {}).unwrap();
    assert_eq!(other.unchecked.len(), 2, "{:?}", other.unchecked);
}

fn rows_of(survey: &Survey, part: DumpPart) -> Vec<String> {
    let mut rows = Vec::new();
    let give = &mut |row: store::inspect::Row| {
        rows.push(row.to_string());
        ControlFlow::Continue(())
    };
    survey.dump(part, &Selection::default(), give).unwrap();
    rows
}

#[test]
fn only_the_files_of_bad_queues_go_and_opening_makes_them_again() {
    let disk = ours();
    let bad = "/store/consumequeue/TopicA/1/00000000000000000000";
    flip(&disk, bad, 79);
    let before = verified(&disk);
    let looked = survey(&disk);
    let repair = Repair::of(&looked, &before);
    assert_eq!(repair.steps(), [Step::RebuildQueues(vec![("TopicA".to_owned(), 1)])]);
    repair.apply(Path::new("/kept")).unwrap();
    assert!(disk.list(Path::new("/store/consumequeue/TopicA/1")).unwrap().is_empty());
    assert!(!disk.list(Path::new("/store/consumequeue/TopicA/0")).unwrap().is_empty());
    let store = Store::open(small_config(), Arc::new(disk.clone())).unwrap();
    store.wait_healed();
    assert_eq!(bodies(&store, &store.find_queue("TopicA", 1).unwrap(), 0).len(), 30);
    store.close().unwrap();
    assert!(verified(&disk).is_clean());
    // Where nothing says what queues there are, all of them are made again.
    flip(&disk, bad, 79);
    disk.remove(Path::new("/store/checkpoint")).unwrap();
    let found = verified(&disk);
    assert!(matches!(Repair::of(&survey(&disk), &found).steps(), [Step::RebuildAllQueues(_)]));
}

#[test]
fn messages_lost_before_a_repair_are_told_from_damage() {
    let disk = ours();
    flip(&disk, SECOND_FILE, 90);
    let found = verified(&disk);
    assert!(found.lost.iter().all(|lost| !found.is_filled(lost)));
    Repair::of(&survey(&disk), &found).apply(Path::new("/kept")).unwrap();
    let after = verified(&disk);
    assert_eq!(after.lost, found.lost);
    assert!(after.findings.is_empty() && after.lost.iter().all(|lost| after.is_filled(lost)));
}

#[test]
fn timers_are_verified_and_dumped() {
    let mut files = unpack(CLEAN);
    let wheel = Path::new("/store/timerwheel");
    let content = files[wheel].clone();
    // Leave the other files as they are; the helper leaves the wheel out.
    files.retain(|path, _| path != wheel);
    let disk = disk_with(&files, &[]);
    disk.create(wheel, content.len() as u64, store::Space::Sparse).unwrap().write_at(&content, 0).unwrap();
    let found = verified(&disk);
    assert!(found.is_clean() && found.timer_units > 0, "{} {:?}", found.timer_units, found.findings);
    let rows = rows_of(&survey(&disk), DumpPart::Timers);
    assert_eq!(rows.iter().filter(|row| row.starts_with("timer ")).count() as u64, found.timer_units);
    let slot = content.chunks(32).position(|slot| slot != [0; 32] && slot[16] == 0).unwrap() as u64 * 32;
    let newest = u64::from_be_bytes(content[slot as usize + 16..slot as usize + 24].try_into().unwrap());
    let log = "/store/timerlog/00000000000000000000";
    // The slot's time and its newest unit; that unit's size, time and position in the log.
    for (path, at) in [
        ("/store/timerwheel", slot + 7),
        ("/store/timerwheel", slot + 22),
        (log, newest + 2),
        (log, newest + 20),
        (log, newest + 28),
    ] {
        let disk = disk.killed();
        flip(&disk, path, at);
        let found = verified(&disk);
        assert!(!found.is_clean(), "{path} {at}");
    }
}
