//! Behaviour of a Java broker with the key index of a killed Vostok store, after every single write.
//!
//! The model follows `IndexService.load`, `CommitLog.recoverAbnormally`, `IndexService.buildIndex`, `IndexFile.putKey` and
//! `IndexFile.selectPhyOffset` of 5.5.0.

use crate::java::content;
use crate::tool::{message, small_config};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use store::{Checkpoint, Config, Disk, FakeDisk, KeyKind, KeyQuery, Store};
use wire::hash::java_hash;
use wire::record::RecordView;

const SLOTS: u32 = 8;
const ITEMS: u32 = 24;
const START: i64 = 1_700_000_000_000;

fn config() -> Config {
    Config { key_index: true, index_slots: SLOTS, index_items: ITEMS, segment_bytes: 2048, ..small_config() }
}

/// Message of the log, and its index items.
struct Logged {
    offset: u64,
    time: i64,
    key: String,
}

fn log_of(disk: &FakeDisk) -> Vec<Logged> {
    let directory = Path::new("/store/commitlog");
    let mut found = Vec::new();
    for entry in disk.list(directory).unwrap() {
        let bytes = content(disk, &directory.join(&entry.name));
        let mut at = 0;
        while let Ok(view) = RecordView::parse(&bytes[at..]) {
            let offset = view.log_offset().unwrap().get();
            found.push(Logged {
                offset,
                time: view.store_timestamp(),
                key: String::from_utf8(view.body().into()).unwrap(),
            });
            at += view.size();
        }
    }
    found
}

/// An index file as Java has it in memory.
struct JavaFile(Vec<u8>);

impl JavaFile {
    fn int(&self, at: usize) -> i32 {
        i32::from_be_bytes(self.0[at..at + 4].try_into().unwrap())
    }

    fn long(&self, at: usize) -> i64 {
        i64::from_be_bytes(self.0[at..at + 8].try_into().unwrap())
    }

    fn count(&self) -> i32 {
        self.int(36).max(1)
    }

    fn is_full(&self) -> bool {
        self.count() >= ITEMS.cast_signed()
    }

    fn create(before: Option<&Self>) -> Self {
        let mut bytes = vec![0; 40 + 4 * SLOTS as usize + 20 * ITEMS as usize];
        if let Some(before) = before {
            bytes[..8].copy_from_slice(&before.0[8..16]);
            bytes[8..16].copy_from_slice(&before.0[8..16]);
            bytes[16..24].copy_from_slice(&before.0[24..32]);
            bytes[24..32].copy_from_slice(&before.0[24..32]);
        }
        Self(bytes)
    }

    fn slot_at(hash: i32) -> usize {
        40 + 4 * (hash % SLOTS.cast_signed()) as usize
    }

    fn item_at(number: i32) -> usize {
        40 + 4 * SLOTS as usize + 20 * number as usize
    }

    fn put(&mut self, hash: i32, message: &Logged) {
        let (slot_at, count) = (Self::slot_at(hash), self.count());
        let slot = self.int(slot_at);
        let slot = if slot <= 0 || slot > count { 0 } else { slot };
        let item = Self::item_at(count);
        self.0[item..item + 4].copy_from_slice(&hash.to_be_bytes());
        self.0[item + 4..item + 12].copy_from_slice(&message.offset.to_be_bytes());
        self.0[item + 12..item + 16].copy_from_slice(&[0; 4]);
        self.0[item + 16..item + 20].copy_from_slice(&slot.to_be_bytes());
        self.0[slot_at..slot_at + 4].copy_from_slice(&count.to_be_bytes());
        self.0[36..40].copy_from_slice(&(count + 1).to_be_bytes());
        self.0[8..16].copy_from_slice(&message.time.to_be_bytes());
        self.0[24..32].copy_from_slice(&message.offset.to_be_bytes());
    }

    fn search(&self, hash: i32, found: &mut BTreeSet<u64>) {
        let count = self.count();
        let mut number = self.int(Self::slot_at(hash));
        if number <= 0 || number > count || count <= 1 {
            return;
        }
        loop {
            let item = Self::item_at(number);
            if self.int(item + 12) < 0 {
                return;
            }
            if self.int(item) == hash {
                found.insert(self.long(item + 4).cast_unsigned());
            }
            let previous = self.int(item + 16);
            if previous <= 0 || previous > count || previous == number {
                return;
            }
            number = previous;
        }
    }
}

fn hash_of(key: &str) -> i32 {
    java_hash(&format!("A#{key}")).checked_abs().unwrap_or(0)
}

/// The files a Java broker has after it started on this disk.
fn started_by_java(disk: &FakeDisk, log: &[Logged]) -> Vec<JavaFile> {
    let exists = |path: &str| disk.open(path.as_ref()).is_ok();
    let page = match exists("/store/checkpoint") {
        true => Checkpoint::from_bytes(&content(disk, "/store/checkpoint".as_ref())),
        false => Checkpoint::default(),
    };
    let crashed = exists("/store/abort");
    let directory = Path::new("/store/index");
    let names = disk.list(directory).unwrap();
    let mut files: Vec<_> =
        names.iter().map(|entry| JavaFile(content(disk, &directory.join(&entry.name)))).collect();
    if !crashed {
        return files;
    }
    files.retain(|file| file.long(8) <= page.index_msg_timestamp);
    let first_of = |segment: u64| log.iter().find(|message| message.offset / 2048 == segment);
    let segments = (0..disk.list("/store/commitlog".as_ref()).unwrap().len() as u64).rev();
    let begin = segments
        .filter_map(first_of)
        .find(|first| first.offset <= page.logics_physical_offset.cast_unsigned())
        .map_or(0, |first| first.offset);
    for message in log.iter().filter(|message| message.offset >= begin) {
        if files.last().is_none_or(JavaFile::is_full) {
            files.push(JavaFile::create(files.last()));
        }
        let last = files.last_mut().unwrap();
        if message.offset.cast_signed() >= last.long(24) {
            last.put(hash_of(&message.key), message);
        }
    }
    files
}

fn check(disk: &FakeDisk, when: &str) {
    let log = log_of(disk);
    let files = started_by_java(disk, &log);
    for message in &log {
        let mut found = BTreeSet::new();
        files.iter().for_each(|file| file.search(hash_of(&message.key), &mut found));
        assert!(found.contains(&message.offset), "{when}: Java misses {} at {}", message.key, message.offset);
    }
}

/// Appends until the disk refuses; `false` when it did.
fn work(disk: &FakeDisk) -> bool {
    let mut number = 0;
    for round in 0..4 {
        let Ok(store) = Store::open(config(), Arc::new(disk.clone())) else { return false };
        for _ in 0..25 {
            number += 1;
            let queue = store.queue("A", 0).unwrap();
            let key = format!("k{number}");
            let mut batch = store.batch();
            batch.push(&queue, &message(key.as_bytes(), format!("KEYS\u{1}{key}\u{2}").as_bytes())).unwrap();
            let is_kept = store.append(&mut batch, START + 7 * number).is_ok();
            if !is_kept || number % 6 == 0 && store.checkpoint().is_err() {
                return false;
            }
        }
        // Once without a clean stop.
        if round != 1 && store.close().is_err() {
            return false;
        }
    }
    true
}

fn search_all(store: &Store, disk: &FakeDisk, when: &str) {
    for message in log_of(disk) {
        let query = KeyQuery {
            topic: "A",
            key: &message.key,
            kind: KeyKind::Key,
            max: 9,
            begin_ms: 0,
            end_ms: i64::MAX,
        };
        while store.indexed() < store.appended() {
            store.query(&query).unwrap();
        }
        assert_eq!(store.query(&query).unwrap().found.len(), 1, "{when}: {}", message.key);
    }
}

/// Checks Java's search results now, and after each step of Vostok.
fn follow(disk: FakeDisk, when: &str) {
    check(&disk, when);
    let store = Store::open(config(), Arc::new(disk.clone())).unwrap();
    check(&disk.killed(), &format!("{when}, opened and killed again"));
    search_all(&store, &disk, when);
    check(&disk.killed(), &format!("{when}, searched and killed again"));
    store.checkpoint().unwrap();
    check(&disk.killed(), &format!("{when}, gone on and killed again"));
    store.close().unwrap();
    check(&disk, &format!("{when}, opened and stopped"));
}

#[test]
fn java_finds_every_key_whenever_we_are_killed() {
    let mut writes = 0;
    loop {
        let disk = FakeDisk::new(512);
        disk.faults(|faults| faults.killed_after = Some(writes));
        let done = work(&disk);
        let when = format!("killed after {writes} writes");
        follow(disk.killed(), &when);
        follow(disk.power_cut(writes), &format!("{when}, without power"));
        if done {
            assert!(writes > 200, "{writes}");
            return;
        }
        writes += 1;
    }
}
