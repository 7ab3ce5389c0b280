//! Stores looked at from outside: Java's, ours, and damaged ones that are mended.

use crate::java::{CLEAN, KILLED, PLAIN, disk_with, unpack};
use crate::tool::{append, bodies, small_config};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::inspect::{Part, Repair, Step, Survey, Verified, Wanted, verify};
use store::{Disk, FakeDisk, Store};

fn survey(disk: &FakeDisk) -> Survey {
    Survey::of(Arc::new(disk.clone()), Path::new("/store"), &[]).unwrap()
}

fn verified(disk: &FakeDisk) -> Verified {
    verify(&survey(disk), 2, &|_| {}).unwrap()
}

fn rows(disk: &FakeDisk, part: Part, wanted: &Wanted) -> Vec<String> {
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

/// Where the 20th record begins and how long it is: it is message 9 of queue 1.
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
    let all = rows(&disk, Part::Log, &Wanted::default());
    assert_eq!(all.len(), 18, "{all:?}");
    let topic = Wanted { topic: Some("TopicN".to_owned()), queue_id: Some(1), ..Wanted::default() };
    assert_eq!(rows(&disk, Part::Log, &topic).len(), 4);
    let units = rows(&disk, Part::Queues, &topic);
    assert_eq!(units.len(), 4);
    assert!(units[2].starts_with("unit topic=TopicN queue=1 offset=2 at="), "{}", units[2]);
    assert_eq!(rows(&disk, Part::Checkpoint, &Wanted::default()).len(), 1);
    assert!(rows(&disk, Part::Config, &Wanted::default()).iter().any(|row| row.contains("topics.json")));
}
