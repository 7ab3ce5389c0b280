//! A flipped byte in a store: every message is served as it was stored, or not at all. Other content, a new message
//! or another number never appear.
//!
//! The key index is walked as well: searches find nothing but stored messages with the key. All bytes of the small files and every 127th of the large ones; `VOSTOK_FLIP_STRIDE=1` walks them all.

use crate::tool::{message, small_config};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::{Config, CqUnit, Disk, FakeDisk, KeyKind, KeyQuery, Message, ReadError, Store, Unit};
use wire::properties;
use wire::record::RecordView;
use wire::units::QueueOffset;

const QUEUES: [(&str, i32); 5] = [("TopicA", 0), ("TopicA", 1), ("TopicB", 7), ("%RETRY%group", 0), ("Q", 0)];

/// Records by topic, queue id and number.
pub type Messages = BTreeMap<(String, i32, u64), Vec<u8>>;

fn config(digests: bool) -> Config {
    let index = Config { key_index: true, index_slots: 64, index_items: 400, ..small_config() };
    Config { segment_bytes: 32 << 10, queue_file_bytes: 1200, digests, ..index }
}

fn open(disk: &FakeDisk, digests: bool) -> Result<Store, store::OpenError> {
    Store::open(config(digests), Arc::new(disk.clone()))
}

/// A store of a few hundred messages, closed or killed.
fn written(closed: bool) -> FakeDisk {
    let disk = FakeDisk::new(4096);
    let store = open(&disk, true).unwrap();
    for number in 0..300u32 {
        let (topic, queue_id) = QUEUES[(number * number % 13) as usize % QUEUES.len()];
        let queue = store.queue(topic, queue_id).unwrap();
        let properties =
            format!("KEYS\u{1}k{number}\u{2}UNIQ_KEY\u{1}{number:032x}\u{2}TAGS\u{1}T{}\u{2}", number % 3);
        let body: Vec<u8> = (0..20 + number % 300).map(|index| (index * number) as u8).collect();
        let mut batch = store.batch();
        let base = message(&body, properties.as_bytes());
        let born_host =
            if number % 10 == 3 { "[2001:db8::7]:50001".parse().unwrap() } else { base.born_host };
        batch.push(&queue, &Message { flag: number.cast_signed(), born_host, ..base }).unwrap();
        store.append(&mut batch, 1_700_000_000_000 + i64::from(number)).unwrap();
        if number % 100 == 50 {
            store.checkpoint().unwrap();
        }
    }
    if closed {
        store.close().unwrap();
    } else {
        store.checkpoint().unwrap();
    }
    disk.killed()
}

/// Returns all messages that a consumer gets who continues behind damage, and the number of reports.
pub fn served(store: &Store) -> (Messages, usize) {
    let (mut found, mut reported) = (Messages::new(), 0);
    for queue in store.queues() {
        let mut units: Vec<Unit> = Vec::new();
        while queue.min().get() + (units.len() as u64) < queue.max().get() {
            let from = QueueOffset::new(queue.min().get() + units.len() as u64);
            if let Err(error) = queue.units_blocking(from, 1000, &mut units) {
                wait(store, &error);
            }
        }
        let first = queue.min().get();
        for (number, unit) in (first..).zip(units) {
            let mut bytes = Vec::new();
            let offset = QueueOffset::new(number);
            let mut read = store.read_messages_blocking(&queue, &[CqUnit { offset, unit }], &mut bytes);
            while let Err(error @ ReadError::Rebuilding { .. }) = read {
                wait(store, &error);
                let mut again = Vec::new();
                read = queue.units_blocking(offset, 1, &mut again).and_then(|()| {
                    store.read_messages_blocking(&queue, &[CqUnit { offset, unit: again[0] }], &mut bytes)
                });
            }
            match read {
                Ok(()) if bytes.is_empty() => {}
                Ok(()) => drop(found.insert((queue.topic().to_owned(), queue.queue_id(), number), bytes)),
                Err(ReadError::Damaged(list)) => reported += list.len(),
                Err(error) => panic!("{queue:?} {number}: {error}"),
            }
        }
    }
    (found, reported)
}

/// Returns results of searches by key that are not a stored message with that key.
fn wrongly_found(store: &Store, expected: &Messages) -> Vec<String> {
    let mut wrong = Vec::new();
    for (topic, number) in (0..300).step_by(7).flat_map(|number| QUEUES.map(|(topic, _)| (topic, number))) {
        let key = format!("k{number}");
        let query = KeyQuery { topic, key: &key, kind: KeyKind::Key, max: 9, begin_ms: 0, end_ms: i64::MAX };
        let is_stored = |record: &Vec<u8>| {
            let has_key = RecordView::parse(record)
                .is_ok_and(|view| properties::get_str(view.properties(), "KEYS") == Some(key.as_str()));
            has_key && expected.values().any(|stored| stored == record)
        };
        let found = store.query(&query).unwrap().found;
        wrong.extend(
            found.iter().filter(|found| !is_stored(&found.record)).map(|found| format!("{key}: {found:?}")),
        );
    }
    wrong
}

/// A queue that is being rebuilt is asked again.
fn wait(store: &Store, error: &ReadError) {
    assert!(matches!(error, ReadError::Rebuilding { .. }), "{error}");
    store.wait_healed();
}

fn files(disk: &FakeDisk, directory: &Path, found: &mut Vec<(PathBuf, u64)>) {
    for entry in disk.list(directory).unwrap() {
        let path = directory.join(&entry.name);
        if entry.is_dir { files(disk, &path, found) } else { found.push((path, entry.length)) }
    }
}

#[derive(Debug, Default)]
struct Outcome {
    flips: usize,
    refused: usize,
    reported: usize,
    missing: usize,
    wrong: Vec<String>,
}

fn walk(closed: bool, digests: bool, stride: u64, only: &str) -> BTreeMap<String, Outcome> {
    let disk = written(closed);
    let (expected, _) = served(&open(&disk.killed(), true).unwrap());
    assert_eq!(expected.len(), 300);
    let mut list = Vec::new();
    files(&disk, Path::new("/store"), &mut list);
    let mut outcomes: BTreeMap<String, Outcome> = BTreeMap::new();
    for (path, length) in list {
        let name = path.strip_prefix("/store").unwrap().to_str().unwrap();
        if !name.starts_with(only) {
            continue;
        }
        let kind = name.split('/').next().unwrap().to_owned();
        let stride = if length <= 4096 { stride.min(7) } else { stride };
        for at in (0..length).step_by(usize::try_from(stride).unwrap()) {
            let outcome = outcomes.entry(kind.clone()).or_default();
            let disk = disk.killed();
            let file = disk.open(&path).unwrap();
            let mut byte = [0];
            file.read_at(&mut byte, at).unwrap();
            let mask = [0x01, 0x80, 0x10, 0xff, 0x04][(at / stride) as usize % 5];
            file.write_at(&[byte[0] ^ mask], at).unwrap();
            outcome.flips += 1;
            let Ok(store) = open(&disk, digests) else {
                outcome.refused += 1;
                continue;
            };
            let (found, reported) = served(&store);
            outcome.reported += reported;
            let case = || format!("{name} byte {at} ^ {mask:#x}");
            if kind == "index" {
                outcome.wrong.extend(
                    wrongly_found(&store, &expected).iter().map(|what| format!("{}: {what}", case())),
                );
            }
            for (key, record) in &found {
                if expected.get(key) != Some(record) {
                    outcome.wrong.push(format!("{}: {key:?} is not what was stored", case()));
                }
            }
            let missing = expected.len() - found.len().min(expected.len());
            outcome.missing += missing;
            if missing > reported && (kind != "commitlog" || store.recovered().cut.is_none()) {
                let lost: Vec<_> = expected.keys().filter(|key| !found.contains_key(*key)).collect();
                let queues: Vec<String> = store.queues().iter().map(|queue| format!("{queue:?}")).collect();
                outcome.wrong.push(format!(
                    "{}: {missing} missing, {reported} reported: {lost:?} of {queues:?}",
                    case()
                ));
            }
        }
    }
    outcomes
}

#[test]
fn a_flipped_byte_never_serves_a_wrong_message() {
    let stride = std::env::var("VOSTOK_FLIP_STRIDE").ok().and_then(|text| text.parse().ok()).unwrap_or(127);
    for closed in [true, false] {
        for (kind, outcome) in walk(closed, true, stride, "") {
            let Outcome { flips, refused, reported, missing, wrong } = outcome;
            println!("{kind}: {flips} flips, {refused} refused, {reported} reported, {missing} missing");
            let shown = &wrong[..wrong.len().min(8)];
            assert!(
                flips > 0 && wrong.is_empty(),
                "{kind}, closed {closed}: {} wrong, {shown:#?}",
                wrong.len()
            );
            assert_eq!(refused, 0, "{kind}");
            // Only what the log holds can be lost; a torn end is cut and named by opening.
            let is_log = kind == "commitlog";
            assert_eq!(reported > 0, is_log, "{kind}");
            assert!(missing == 0 || is_log && missing - reported < 20, "{kind}: {missing} missing");
        }
    }
}

/// Check that cut or missing files of Vostok's own lose no message: such files are derived, or hints whose absence is safe.
#[test]
fn a_cut_or_missing_file_of_our_own_loses_no_message() {
    for closed in [true, false] {
        let disk = written(closed);
        let (expected, _) = served(&open(&disk.killed(), true).unwrap());
        let mut list = Vec::new();
        files(&disk, Path::new("/store/vostok"), &mut list);
        assert!(list.len() > 3, "{list:?}");
        for (path, length) in list {
            for left in [None, Some(0), Some(length / 2), Some(length.saturating_sub(1))] {
                let disk = disk.killed();
                let mut bytes = disk.read(&path).unwrap();
                disk.remove(&path).unwrap();
                if let Some(left) = left {
                    bytes.truncate(usize::try_from(left).unwrap());
                    let file = disk.create(&path, left, store::Space::Sparse).unwrap();
                    file.write_at(&bytes, 0).unwrap();
                }
                let store = open(&disk, true).unwrap();
                let (found, reported) = served(&store);
                let case = format!("{}, left {left:?}, closed {closed}", path.display());
                assert!(found == expected && reported == 0, "{case}: {} of {}", found.len(), expected.len());
            }
        }
    }
}

#[test]
fn without_digests_wrong_messages_are_served() {
    let outcomes = walk(true, false, 61, "commitlog");
    assert!(!outcomes["commitlog"].wrong.is_empty());
}
