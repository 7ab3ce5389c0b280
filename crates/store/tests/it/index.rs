//! The key index: Java's files and ours, and searches against a model.

use crate::java::{CLEAN, KILLED, PLAIN, content, disk_with, unpack};
use crate::tool::{message, small_config};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::{Config, Disk, FakeDisk, KeyKind, KeyQuery, Store};
use wire::record::RecordView;

fn config() -> Config {
    Config { key_index: true, index_slots: 16, index_items: 32, ..small_config() }
}

/// Times of messages; the index keeps none from before 1970.
const START: i64 = 1_700_000_000_000;

fn java_config() -> Config {
    Config {
        segment_bytes: 1 << 20,
        queue_file_bytes: 20_000,
        index_slots: 1000,
        index_items: 4000,
        ..config()
    }
}

fn open(disk: &FakeDisk, config: Config) -> Store {
    Store::open(config, Arc::new(disk.clone())).unwrap()
}

/// Contents of the index files in the order of their names.
fn index_files(disk: &FakeDisk) -> Vec<Vec<u8>> {
    let directory = Path::new("/store/index");
    disk.list(directory).unwrap().iter().map(|entry| content(disk, &directory.join(&entry.name))).collect()
}

fn javas(files: &BTreeMap<PathBuf, Vec<u8>>) -> Vec<Vec<u8>> {
    let is_index = |path: &Path| path.to_string_lossy().contains("/index/");
    files.iter().filter(|(path, _)| is_index(path)).map(|(_, content)| content.clone()).collect()
}

/// Returns the bodies of a search's results, after everything is indexed.
fn find(store: &Store, query: &KeyQuery<'_>) -> Vec<Vec<u8>> {
    while store.indexed() < store.appended() {
        // Each search reads a piece of the log.
        store.query(query).unwrap();
    }
    let matches = store.query(query).unwrap();
    let body = |record: &[u8]| RecordView::parse(record).unwrap().body().to_vec();
    matches.found.iter().map(|found| body(&found.record)).collect()
}

fn key<'a>(topic: &'a str, key: &'a str) -> KeyQuery<'a> {
    KeyQuery { topic, key, kind: KeyKind::Key, max: 64, begin_ms: 0, end_ms: i64::MAX }
}

fn tag<'a>(topic: &'a str, tag: &'a str) -> KeyQuery<'a> {
    KeyQuery { kind: KeyKind::Tag, ..key(topic, tag) }
}

fn append(store: &Store, topic: &str, body: &[u8], properties: &str, now_ms: i64) {
    let mut batch = store.batch();
    let queue = store.queue(topic, 0).unwrap();
    batch.push(&queue, &message(body, properties.as_bytes())).unwrap();
    store.append(&mut batch, now_ms).unwrap();
}

#[test]
fn files_made_from_the_log_equal_javas() {
    let plain = Config { segment_bytes: 4096, queue_file_bytes: 160, ..config() };
    for (archive, config) in [(PLAIN, plain), (CLEAN, java_config())] {
        let files = unpack(archive);
        for without in [&["/index/"][..], &["/index/", "/consumequeue/", "checkpoint"], &[]] {
            let disk = disk_with(&files, without);
            open(&disk, config.clone()).close().unwrap();
            assert_eq!(index_files(&disk), javas(&files), "without {without:?}");
        }
    }
}

#[test]
fn javas_files_are_searched_and_gone_on_with() {
    for archive in [CLEAN, KILLED] {
        let files = unpack(archive);
        let disk = disk_with(&files, &[]);
        let store = open(&disk, java_config());
        let before = find(&store, &tag("TopicN", "TagA"));
        assert!(!before.is_empty());
        append(&store, "TopicN", b"more", "TAGS\u{1}TagA\u{2}KEYS\u{1}k77\u{2}", 1_795_171_300_000);
        let mut expected = vec![b"more".to_vec()];
        assert_eq!(find(&store, &key("TopicN", "k77")), expected);
        expected.extend(before);
        assert_eq!(find(&store, &tag("TopicN", "TagA")), expected);
        store.close().unwrap();
        let (ours, theirs) = (index_files(&disk), javas(&files));
        assert_eq!(ours.len(), 1);
        // Items one behind the other, the new ones at the end.
        let items = 40 + 4000 + 20;
        assert_eq!(ours[0][items..items + 52 * 20], theirs[0][items..items + 52 * 20]);
        assert_eq!(ours[0][36..40], 55u32.to_be_bytes());
        let store = open(&disk, java_config());
        assert_eq!(find(&store, &tag("TopicN", "TagA")), expected);
    }
}

#[test]
fn keys_with_the_same_hash_are_told_apart() {
    let disk = FakeDisk::new(512);
    let store = open(&disk, config());
    append(&store, "A", b"1", "KEYS\u{1}Aa\u{2}", 1000);
    append(&store, "A", b"2", "KEYS\u{1}BB\u{2}", 1000);
    append(&store, "A", b"3", "UNIQ_KEY\u{1}BB\u{2}KEYS\u{1}AaAa BB  AaBB\u{2}", 1000);
    assert_eq!(find(&store, &key("A", "Aa")), [b"1"]);
    assert_eq!(find(&store, &key("A", "BB")), [b"3", b"2"]);
    assert_eq!(find(&store, &key("A", "AaBB")), [b"3"]);
    assert_eq!(find(&store, &key("A", "BBBB")), [b""; 0]);
    assert_eq!(find(&store, &key("A", "")), [b""; 0]);
    assert_eq!(find(&store, &tag("A", "Aa")), [b""; 0]);
}

#[test]
fn what_rolls_a_transaction_back_is_not_found_and_a_half_message_is() {
    let disk = FakeDisk::new(512);
    let store = open(&disk, config());
    let queue = store.queue("A", 0).unwrap();
    let mut batch = store.batch();
    for (flag, body) in [(4, b"half"), (8, b"done"), (12, b"back"), (0, b"none")] {
        let message = store::Message { sys_flag: flag, ..message(body, b"KEYS\x01k\x02") };
        batch.push(&queue, &message).unwrap();
    }
    store.append(&mut batch, 1).unwrap();
    assert_eq!(find(&store, &key("A", "k")), [b"none", b"done", b"half"]);
}

#[test]
fn a_message_whose_keys_straddle_two_files_is_found_by_all_of_them() {
    let disk = FakeDisk::new(512);
    let store = open(&disk, config());
    for number in 0..4 {
        let keys: Vec<_> = (0..10).map(|index| format!("k{number}-{index}")).collect();
        append(&store, "A", &[number], &format!("KEYS\u{1}{}\u{2}", keys.join(" ")), 1000);
    }
    store.close().unwrap();
    let files = index_files(&disk);
    assert_eq!(files.len(), 2);
    assert_eq!(
        (files[0][36..40].to_vec(), files[1][36..40].to_vec()),
        (vec![0, 0, 0, 32], vec![0, 0, 0, 10])
    );
    let store = open(&disk, config());
    for number in 0..4 {
        for index in 0..10 {
            assert_eq!(find(&store, &key("A", &format!("k{number}-{index}"))), [[number]]);
        }
    }
    // Nothing is there twice after opening again.
    assert_eq!(index_files(&disk), files);
}

#[test]
fn the_newest_of_many_are_found_and_times_are_kept_to() {
    let disk = FakeDisk::new(512);
    let store = open(&disk, config());
    for number in 0..100 {
        append(&store, "A", &[number], "TAGS\u{1}t\u{2}", START + 1000 * i64::from(number));
    }
    let numbers = |query: KeyQuery<'_>| find(&store, &query).iter().map(|body| body[0]).collect::<Vec<_>>();
    assert_eq!(numbers(KeyQuery { max: 3, ..tag("A", "t") }), [99, 98, 97]);
    assert_eq!(numbers(KeyQuery { max: 0, ..tag("A", "t") }), [0u8; 0]);
    assert_eq!(
        numbers(KeyQuery { begin_ms: START + 40_000, end_ms: START + 42_000, ..tag("A", "t") }),
        [42, 41, 40]
    );
    assert_eq!(numbers(KeyQuery { end_ms: START + 1_999, ..tag("A", "t") }), [1, 0]);
    // A part of a second counts, too, whichever way it is cut.
    assert_eq!(numbers(KeyQuery { begin_ms: START + 98_001, ..tag("A", "t") }), [99, 98]);
    assert_eq!(numbers(KeyQuery { begin_ms: 5000, end_ms: 4000, ..tag("A", "t") }), [0u8; 0]);
}

#[test]
fn full_files_are_announced_in_the_checkpoint() {
    let disk = FakeDisk::new(512);
    let store = open(&disk, config());
    for number in 0..40 {
        append(&store, "A", b"x", "TAGS\u{1}t\u{2}", 1000 + number);
    }
    store.close().unwrap();
    let page = content(&disk, Path::new("/store/checkpoint"));
    // Item 31 is the last of the full file, the message of 1030; the unfinished one may be announced as well.
    let announced = store::Checkpoint::from_bytes(&page).index_msg_timestamp;
    assert!((1030..1040).contains(&announced), "{announced}");
}

#[test]
fn files_lost_in_a_crash_are_made_again() {
    let disk = FakeDisk::new(512);
    let store = open(&disk, config());
    append(&store, "A", b"1", "TAGS\u{1}t\u{2}", 1000);
    assert_eq!(find(&store, &tag("A", "t")), [b"1"]);
    let directory = Path::new("/store/index");
    for entry in disk.list(directory).unwrap() {
        disk.remove(&directory.join(entry.name)).unwrap();
    }
    let store = {
        drop(store);
        open(&disk.killed(), config())
    };
    assert_eq!(find(&store, &tag("A", "t")), [b"1"]);
}

#[test]
fn messages_from_before_the_index_was_turned_on_are_found() {
    let disk = FakeDisk::new(512);
    let store = open(&disk, Config { key_index: false, ..config() });
    for number in 0..50 {
        append(&store, "A", &[number], "KEYS\u{1}k\u{2}", 1000);
    }
    assert!(store.query(&key("A", "k")).unwrap().found.is_empty());
    store.close().unwrap();
    let store = open(&disk, config());
    assert_eq!(find(&store, &KeyQuery { max: 100, ..key("A", "k") }).len(), 50);
}

const TOPICS: [&str; 2] = ["A", "%RETRY%g"];
/// The first four have the same hash.
const KEYS: [&str; 6] = ["AaAa", "BBBB", "AaBB", "BBAa", "k", "中文"];

#[derive(Clone, Debug)]
enum Op {
    /// Topic, unique key, keys, tag, and seconds since the message before.
    Append(usize, usize, Vec<usize>, bool, i64),
    Find(usize, usize, usize, i64, i64),
    Close,
    Kill,
    PowerCut(u64),
    /// Removes so many of the newest index files.
    Lose(usize),
    /// Cuts a file short.
    Shorten(usize),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let keys = prop::collection::vec(0..6usize, 0..4);
    let one = prop_oneof![
        12 => (0..2usize, 0..6usize, keys, any::<bool>(), 0..3i64).prop_map(|(a, b, c, d, e)| Op::Append(a, b, c, d, e)),
        4 => (0..2usize, 0..6usize, 0..20usize, 0..60i64, 0..60i64).prop_map(|(a, b, c, d, e)| Op::Find(a, b, c, d, e)),
        1 => Just(Op::Close),
        1 => Just(Op::Kill),
        1 => any::<u64>().prop_map(Op::PowerCut),
        1 => (1..3usize).prop_map(Op::Lose),
        1 => (0..3usize).prop_map(Op::Shorten),
    ];
    prop::collection::vec(one, 1..120)
}

struct Kept {
    topic: usize,
    keys: Vec<usize>,
    tag: bool,
    time: i64,
    body: Vec<u8>,
    end: u64,
}

struct Model {
    disk: FakeDisk,
    store: Store,
    log: Vec<Kept>,
    time: i64,
    count: u32,
}

impl Model {
    fn append(&mut self, topic: usize, unique: usize, keys: &[usize], tag: bool, seconds: i64) {
        self.time += 1000 * seconds;
        self.count += 1;
        let body = self.count.to_be_bytes().to_vec();
        let list: Vec<_> = keys.iter().map(|key| KEYS[*key]).collect();
        let tags = if tag { "TAGS\u{1}t\u{2}" } else { "" };
        let properties = format!("KEYS\u{1}{}\u{2}UNIQ_KEY\u{1}{}\u{2}{tags}", list.join(" "), KEYS[unique]);
        append(&self.store, TOPICS[topic], &body, &properties, self.time);
        let mut keys = keys.to_vec();
        keys.push(unique);
        self.log.push(Kept { topic, keys, tag, time: self.time, body, end: self.store.appended().get() });
    }

    fn check(&self, query: &KeyQuery<'_>) {
        let has = |kept: &&Kept| {
            TOPICS[kept.topic] == query.topic
                && (query.begin_ms..=query.end_ms).contains(&kept.time)
                && match query.kind {
                    KeyKind::Key => kept.keys.iter().any(|key| KEYS[*key] == query.key),
                    KeyKind::Tag => kept.tag && query.key == "t",
                }
        };
        let expected: Vec<_> =
            self.log.iter().rev().filter(has).take(query.max).map(|kept| kept.body.clone()).collect();
        assert_eq!(find(&self.store, query), expected, "{query:?}");
    }

    fn check_all(&self) {
        for topic in TOPICS {
            KEYS.iter().for_each(|name| self.check(&KeyQuery { max: 1000, ..key(topic, name) }));
            self.check(&KeyQuery { max: 1000, ..tag(topic, "t") });
        }
    }

    fn reopen(&mut self, disk: FakeDisk) {
        self.disk = disk;
        self.store = open(&self.disk, config());
        let end = self.store.appended().get();
        self.log.retain(|kept| kept.end <= end);
        self.check_all();
    }

    fn files(&self) -> Vec<PathBuf> {
        let directory = Path::new("/store/index");
        self.disk.list(directory).unwrap().iter().map(|entry| directory.join(&entry.name)).collect()
    }

    fn run(&mut self, op: &Op) {
        match op {
            Op::Append(topic, unique, keys, tag, seconds) => {
                self.append(*topic, *unique, keys, *tag, *seconds)
            }
            Op::Find(topic, name, max, begin, end) => {
                let (begin_ms, end_ms) = (START + 1000 * begin, START + 1000 * end);
                self.check(&KeyQuery { max: *max, begin_ms, end_ms, ..key(TOPICS[*topic], KEYS[*name]) });
            }
            Op::Close => {
                self.store.close().unwrap();
                self.reopen(self.disk.clone());
            }
            Op::Kill => self.reopen(self.disk.killed()),
            Op::PowerCut(seed) => self.reopen(self.disk.power_cut(*seed)),
            Op::Lose(count) => {
                self.store.close().unwrap();
                for path in self.files().iter().rev().take(*count) {
                    self.disk.remove(path).unwrap();
                }
                self.reopen(self.disk.clone());
            }
            Op::Shorten(index) => {
                self.store.close().unwrap();
                if let Some(path) = self.files().get(*index) {
                    self.disk.create(path, 700, store::Space::Sparse).unwrap();
                }
                self.reopen(self.disk.clone());
            }
        }
    }
}

#[test]
fn a_file_of_one_message_whose_end_was_never_told_is_found_by_time() {
    let disk = FakeDisk::new(512);
    let store = open(&disk, config());
    let mut model = Model { disk, store, log: Vec::new(), time: START, count: 0 };
    // Four items each in a file of 31; then one with twelve, of which nine begin the next file.
    (0..7).for_each(|_| model.append(0, 0, &[1, 2, 3], false, 1));
    model.append(1, 4, &[5; 11], false, 2);
    model.check_all();
    [Op::Kill, Op::Close, Op::Find(1, 5, 10, 9, 12), Op::Find(1, 5, 10, 8, 9)]
        .iter()
        .for_each(|op| model.run(op));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn searches_find_what_a_model_finds(list in ops()) {
        let disk = FakeDisk::new(512);
        let store = open(&disk, config());
        let mut model = Model { disk, store, log: Vec::new(), time: START, count: 0 };
        list.iter().for_each(|op| model.run(op));
        model.check_all();
        model.reopen(model.disk.power_cut(7));
    }
}
