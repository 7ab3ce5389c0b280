use super::current::{Current, LastMessage, read_header};
use super::layout::{Geometry, Header};
use super::load::StoreFacts;
use super::run::FillResult;
use super::{IndexState, KeyMatches, KeyQuery};
use crate::disk::{Disk, DiskFile, FakeDisk};
use crate::keys::KeyEntry;
use crate::keys::{KeyKind, hash_of, seed_of};
use crate::wake::lock;
use crate::{Config, Message, Store};
use std::path::Path;
use std::sync::Arc;

const GOLDEN: &[u8] = include_bytes!("golden/index-2keys-16slots-32idx.bin");
const SMALL: Geometry = Geometry { slots: 16, items: 32 };

fn entry(topic: &str, key: &str, offset: u64, time: i64) -> KeyEntry {
    KeyEntry { hash: hash_of(seed_of(topic.as_bytes()), KeyKind::Key, key.as_bytes()), offset, time }
}

fn content(file: &dyn DiskFile) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(SMALL.file_bytes()).unwrap()];
    file.read_at(&mut bytes, 0).unwrap();
    bytes
}

fn create(disk: &FakeDisk, header: Header) -> Current {
    Current::create(disk, Path::new("/index"), "1".to_owned(), SMALL, header).unwrap()
}

#[test]
fn two_keys_make_javas_bytes() {
    let mut current = create(&FakeDisk::new(512), Header::seeded(0, 0));
    let entries =
        [entry("TopicA", "k1", 0, 1_700_000_000_000), entry("TopicA", "k2", 200, 1_700_000_005_999)];
    assert_eq!(current.put(&entries), 2);
    current.finish().unwrap();
    assert_ne!(content(&*current.file), GOLDEN);
    let Header { end_time: time, end_offset: offset, .. } = current.header;
    current.write_header_end(LastMessage { time, offset }).unwrap();
    assert_eq!(content(&*current.file), GOLDEN);
    let header = read_header(&*current.file, SMALL).unwrap().unwrap();
    assert_eq!(header, current.header);
    let again = Current::resume("1", &current.file, header, SMALL).unwrap().unwrap();
    assert_eq!(again.newest_of(entries[1].hash), 2);
}

#[test]
fn the_second_item_of_a_key_points_to_the_first() {
    let mut current = create(&FakeDisk::new(512), Header::seeded(0, 0));
    current.put(&[entry("A", "k", 0, 1), entry("A", "other", 0, 1), entry("A", "k", 100, 2000)]);
    current.finish().unwrap();
    let third = SMALL.item_at(3) as usize;
    let item = &content(&*current.file)[third..third + 20];
    assert_eq!(item[4..], [0, 0, 0, 0, 0, 0, 0, 100, 0, 0, 0, 1, 0, 0, 0, 1]);
}

#[test]
fn rebuilding_writes_only_the_slots_that_differ() {
    const LARGE: Geometry = Geometry { slots: 1 << 20, items: 32 };
    let disk = FakeDisk::new(512);
    let mut first =
        Current::create(&disk, Path::new("/index"), "1".to_owned(), LARGE, Header::seeded(0, 0)).unwrap();
    let entries = [entry("A", "k1", 0, 1), entry("A", "k2", 100, 2)];
    first.put(&entries);
    first.finish().unwrap();
    let around = StoreFacts { after_crash: true, log_end: 200, log_min: 0, index_msg_timestamp: i64::MAX };
    first.file.write_at(&7_u32.to_be_bytes(), LARGE.slot_at(500_000)).unwrap();
    let mut again = Current::rebuild("1", &first.file, first.header, LARGE, (around, true)).unwrap();
    again.put(&[entry("A", "k1", 150, 3)]);
    // The new item, the header, one group of slots for it, and one for the slot that was wrong.
    disk.faults(|faults| faults.writes_left = Some(4));
    again.finish().unwrap();
    let again = Current::resume("1", &first.file, again.header, LARGE).unwrap().expect("slots match items");
    assert_eq!((again.newest_of(entries[0].hash), again.newest_of(entries[1].hash)), (3, 2));
}

#[test]
fn the_smallest_hash_counts_as_zero() {
    // This hash is `i32::MIN`.
    assert_eq!(hash_of(0, KeyKind::Key, b"polygenelubricants"), 0);
    assert_eq!(hash_of(seed_of(b"TopicA"), KeyKind::Key, b"k1"), 1_903_240_649);
    assert_eq!(
        hash_of(seed_of(b"TopicA"), KeyKind::Tag, b"x"),
        hash_of(seed_of(b"TopicA"), KeyKind::Key, b"T#x")
    );
    assert_eq!(seed_of("主题".as_bytes()), wire::hash::java_hash("主题#"));
}

#[test]
fn a_file_takes_one_item_less_than_it_has_places_and_the_next_counts_from_its_end() {
    let disk = FakeDisk::new(512);
    let mut first = create(&disk, Header::seeded(0, 0));
    let entries: Vec<_> =
        (0..40).map(|index| entry("A", &format!("k{index}"), index * 100, 5000 + index as i64)).collect();
    assert_eq!(first.put(&entries), 31);
    assert!(first.is_full());
    let seed = Header::seeded(first.header.end_time, first.header.end_offset);
    assert_eq!(
        (seed.begin_time, seed.end_time, seed.begin_offset, seed.end_offset),
        (5030, 5030, 3000, 3000)
    );
    let mut second = create(&disk, seed);
    second.put(&[KeyEntry { time: 8030, ..entries[31] }, KeyEntry { time: 9030, ..entries[32] }]);
    second.finish().unwrap();
    let bytes = content(&*second.file);
    // The first item's seconds count from the time in the new header, those of the second from the first.
    for (number, seconds) in [(1, 3u32), (2, 1)] {
        let at = SMALL.item_at(number) as usize;
        assert_eq!(bytes[at + 12..at + 16], seconds.to_be_bytes());
    }
    assert_eq!((second.header.begin_time, second.header.begin_offset), (8030, 3100));
}

fn config() -> Config {
    let hour = std::time::Duration::from_secs(3600);
    Config {
        segment_bytes: 4096,
        queue_file_bytes: 160,
        flush_interval: hour,
        checkpoint_interval: hour,
        key_index: true,
        index_slots: SMALL.slots,
        index_items: SMALL.items,
        ..Config::new("/store")
    }
}

fn open(disk: &FakeDisk) -> Store {
    Store::open(config(), Arc::new(disk.clone())).unwrap()
}

fn append(store: &Store, count: usize, properties: &str) {
    let queue = store.queue("A", 0).unwrap();
    let mut batch = store.batch();
    for _ in 0..count {
        let message = Message {
            body: b"body",
            properties: properties.as_bytes(),
            sys_flag: 0,
            flag: 0,
            born_timestamp: 1,
            born_host: "10.0.0.7:50001".parse().unwrap(),
            store_host: "10.0.0.9:10911".parse().unwrap(),
            reconsume_times: 0,
            prepared_transaction_offset: 0,
        };
        batch.push(&queue, &message).unwrap();
    }
    store.append(&mut batch, 1_700_000_000_000).unwrap();
}

fn search(store: &Store, key: &str) -> KeyMatches {
    let all = KeyQuery { topic: "A", key, kind: KeyKind::Key, max: 1000, begin_ms: 0, end_ms: i64::MAX };
    while store.indexed() < store.appended() {
        store.query(&all).unwrap();
    }
    store.query(&all).unwrap()
}

#[test]
fn what_does_not_fit_the_list_is_read_from_the_log() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    append(&store, 2, "KEYS\u{1}k\u{2}");
    // More keys at once than may be pending.
    append(&store, 30, "KEYS\u{1}k\u{2}");
    append(&store, 3, "KEYS\u{1}k\u{2}");
    assert_eq!(search(&store, "k").found.len(), 35);
    assert_eq!(store.indexed(), store.appended());
}

#[test]
fn after_an_error_of_the_disk_appends_go_on_and_the_index_catches_up() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    append(&store, 2, "KEYS\u{1}k\u{2}");
    assert_eq!(search(&store, "k").found.len(), 2);
    // The file being filled counts as broken, as after a disk error.
    let broken = std::io::Error::other("injected");
    store.parts.index.pause_after_error(&mut lock(&store.parts.index.filling), &broken);
    append(&store, 2, "KEYS\u{1}k\u{2}");
    let all = KeyQuery { topic: "A", key: "k", kind: KeyKind::Key, max: 1000, begin_ms: 0, end_ms: i64::MAX };
    assert!(store.query(&all).unwrap().found.is_empty());
    // The pause is over.
    lock(&store.parts.index.filling).stage = IndexState::Unloaded;
    assert_eq!(search(&store, "k").found.len(), 4);
}

#[test]
fn a_log_that_cannot_be_read_costs_no_index_file() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    append(&store, 2, "KEYS\u{1}k\u{2}");
    assert_eq!(search(&store, "k").found.len(), 2);
    let log = Path::new("/store/commitlog/00000000000000000000");
    disk.set_unreadable(log, 0..u64::MAX);
    // More keys than may be pending: they are read from the log.
    append(&store, 30, "KEYS\u{1}k\u{2}");
    assert!(matches!(store.parts.indexer().fill(), FillResult::Paused(_)));
    let mut filling = lock(&store.parts.index.filling);
    assert!(filling.damaged.is_none() && filling.current.is_some());
    disk.set_unreadable(log, 0..0);
    // The pause is over.
    filling.stage = IndexState::LogPause(std::time::Instant::now());
    drop(filling);
    assert_eq!(search(&store, "k").found.len(), 32);
}

#[test]
fn no_flipped_byte_makes_a_search_say_something_false() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    for number in 0..20 {
        append(&store, 1, &format!("KEYS\u{1}k{}\u{2}TAGS\u{1}t\u{2}", number % 3));
    }
    let expected: Vec<_> = ["k0", "k1", "k2"].map(|key| search(&store, key).found).into();
    store.close().unwrap();
    let name = disk.list(Path::new("/store/index")).unwrap()[0].name.clone();
    for at in 0..SMALL.file_bytes() {
        let disk = disk.killed();
        let file = disk.open(&Path::new("/store/index").join(&name)).unwrap();
        let mut byte = [0];
        file.read_at(&mut byte, at).unwrap();
        file.write_at(&[byte[0] ^ 0x41], at).unwrap();
        let store = open(&disk);
        for (key, expected) in ["k0", "k1", "k2"].into_iter().zip(&expected) {
            let found = search(&store, key).found;
            assert!(found.iter().all(|found| expected.contains(found)), "byte {at}");
        }
    }
}

#[test]
fn files_of_deleted_messages_go_and_the_newest_stays() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    append(&store, 100, "KEYS\u{1}k\u{2}");
    assert_eq!(search(&store, "k").found.len(), 100);
    let index = &store.parts.index;
    let count = || disk.list(Path::new("/store/index")).unwrap().len();
    let before = count();
    let filling = &mut *lock(&index.filling);
    let second = filling.finished[1].header;
    index.remove_below(filling, second.end_offset).unwrap();
    assert_eq!(count(), before - 1);
    index.remove_below(filling, u64::MAX).unwrap();
    assert_eq!(count(), 1);
}
