//! Stores written by a RocketMQ 5.5.0 broker, opened unchanged. The archives are complete store roots.

use crate::tool::{append, bodies};
use flate2::read::GzDecoder;
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::{Config, Disk, FakeDisk, Space, Store, Unit};
use wire::properties::{self, key};
use wire::record::RecordView;
use wire::units::QueueOffset;

pub const CLEAN: &[u8] = include_bytes!("golden/store-clean-5.5.0.tar.gz");
pub const KILLED: &[u8] = include_bytes!("golden/store-killed-5.5.0.tar.gz");
pub const PLAIN: &[u8] = include_bytes!("golden/store-plain.tar.gz");

/// The files of an archive: plain ustar headers of 512 bytes, content padded to 512.
pub fn unpack(archive: &[u8]) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut bytes = Vec::new();
    GzDecoder::new(archive).read_to_end(&mut bytes).unwrap();
    let mut files = BTreeMap::new();
    let mut at = 0;
    let mut long_name = None;
    while bytes[at] != 0 {
        let header = &bytes[at..at + 512];
        let text = |field: &[u8]| {
            String::from_utf8(field.split(|byte| *byte == 0).next().unwrap().to_vec()).unwrap()
        };
        let size = usize::from_str_radix(text(&header[124..136]).trim(), 8).unwrap();
        let content = bytes[at + 512..at + 512 + size].to_vec();
        match header[156] {
            b'L' => long_name = Some(text(&content)),
            b'0' => {
                let name = long_name.take().unwrap_or_else(|| text(&header[..100]));
                files.insert(Path::new("/store").join(name.trim_start_matches("./")), content);
            }
            _ => long_name = None,
        }
        at += 512 + size.next_multiple_of(512);
    }
    files
}

/// A disk with these files, except those whose path contains `without`.
pub fn disk_with(files: &BTreeMap<PathBuf, Vec<u8>>, without: &[&str]) -> FakeDisk {
    let disk = FakeDisk::new(4096);
    for (path, content) in files {
        let name = path.to_string_lossy();
        // The wheel of timed messages is large and not the store's.
        if name.ends_with("timerwheel") || without.iter().any(|part| name.contains(part)) {
            continue;
        }
        disk.create_dir_all(path.parent().unwrap()).unwrap();
        disk.create(path, content.len() as u64, Space::Sparse).unwrap().write_at(content, 0).unwrap();
    }
    disk.syncer("/store".as_ref()).unwrap()().unwrap();
    disk
}

pub fn content(disk: &FakeDisk, path: &Path) -> Vec<u8> {
    let entries = disk.list(path.parent().unwrap()).unwrap();
    let name = path.file_name().unwrap().to_string_lossy();
    let length = entries.iter().find(|entry| entry.name == name).unwrap().length;
    let mut bytes = vec![0; usize::try_from(length).unwrap()];
    disk.open(path).unwrap().read_at(&mut bytes, 0).unwrap();
    bytes
}

fn broker_config() -> Config {
    Config { segment_bytes: 1 << 20, queue_file_bytes: 20_000, ..Config::new("/store") }
}

fn open(disk: &FakeDisk, config: Config) -> Store {
    Store::open(config, Arc::new(disk.clone())).unwrap()
}

const BROKER_QUEUES: [(&str, i32, u64); 7] = [
    ("TopicN", 0, 4),
    ("TopicN", 1, 4),
    ("RMQ_SYS_TRANS_HALF_TOPIC", 0, 5),
    ("RMQ_SYS_TRANS_OP_HALF_TOPIC", 0, 1),
    ("SCHEDULE_TOPIC_XXXX", 1, 1),
    ("rmq_sys_wheel_timer", 0, 2),
    ("TopicDelay", 0, 1),
];

fn check_broker_store(store: &Store) {
    assert_eq!(store.appended().get(), 5858);
    assert_eq!(store.queues().len(), BROKER_QUEUES.len());
    let mut records = 0;
    for (topic, queue_id, count) in BROKER_QUEUES {
        let queue = store.find_queue(topic, queue_id).unwrap();
        assert_eq!((queue.min().get(), queue.max().get()), (0, count), "{topic}/{queue_id}");
        let mut units: Vec<Unit> = Vec::new();
        queue.units_blocking(QueueOffset::ZERO, 100, &mut units).unwrap();
        for unit in &units {
            let mut bytes = Vec::new();
            store.record_at(unit.log_offset, &mut bytes).unwrap();
            let view = RecordView::parse(&bytes).unwrap();
            view.check_crc().unwrap();
            assert_eq!(view.topic_str(), Some(topic));
            if !topic.starts_with("SCHEDULE") {
                let tags = properties::get(view.properties(), key::TAGS);
                assert_eq!(unit.tags_code, wire::hash::tags_code(tags));
            }
        }
        records += units.len();
    }
    assert_eq!(records, 18);
}

#[test]
fn a_cleanly_stopped_broker_store_opens_and_goes_on() {
    let files = unpack(CLEAN);
    let disk = disk_with(&files, &[]);
    let store = open(&disk, broker_config());
    assert!(!store.recovered().after_crash && store.recovered().cut.is_none());
    check_broker_store(&store);
    let queue = store.queue("TopicN", 1).unwrap();
    assert_eq!(append(&store, &queue, b"one more", 1), 4);
    store.close().unwrap();
    // What Java wrote and we do not keep is as it was; what it wrote to the log and queues, too.
    for (path, before) in files.iter().filter(|(path, _)| !path.ends_with("timerwheel")) {
        let name = path.to_string_lossy();
        let after = content(&disk, path);
        if name.contains("/commitlog/") {
            assert_eq!(after[..5858], before[..5858]);
        } else if name.contains("TopicN/1/") {
            assert_eq!(after[..80], before[..80]);
        } else if !name.ends_with("checkpoint") {
            assert_eq!(&after, before, "{name}");
        }
    }
    let store = open(&disk, broker_config());
    assert_eq!(bodies(&store, &store.find_queue("TopicN", 1).unwrap(), 4), [b"one more"]);
}

#[test]
fn a_killed_broker_store_opens_the_same() {
    let disk = disk_with(&unpack(KILLED), &[]);
    let store = open(&disk, broker_config());
    assert!(store.recovered().after_crash && store.recovered().cut.is_none());
    check_broker_store(&store);
}

#[test]
fn queue_files_rebuilt_from_the_log_equal_javas() {
    for archive in [CLEAN, KILLED] {
        let files = unpack(archive);
        for without in
            [&["/consumequeue/"][..], &["/consumequeue/", "checkpoint", "/index/"], &["checkpoint", "abort"]]
        {
            let disk = disk_with(&files, without);
            let store = open(&disk, broker_config());
            check_broker_store(&store);
            store.close().unwrap();
            for (path, before) in
                files.iter().filter(|(path, _)| path.to_string_lossy().contains("/consumequeue/"))
            {
                assert_eq!(&content(&disk, path), before, "{} without {without:?}", path.display());
            }
        }
    }
}

#[test]
fn a_store_of_two_files_with_every_kind_of_record_opens() {
    let config = || Config { segment_bytes: 4096, queue_file_bytes: 160, ..Config::new("/store") };
    let files = unpack(PLAIN);
    for without in [&[][..], &["checkpoint"], &["/consumequeue/"]] {
        let disk = disk_with(&files, without);
        let store = open(&disk, config());
        assert!(store.recovered().cut.is_none());
        assert_eq!(store.appended().get(), 0x126a + 0x136);
        let count = |topic: &str, queue_id| store.find_queue(topic, queue_id).unwrap().max().get();
        assert_eq!((count("TopicA", 3), count("TopicB", 0)), (4, 12));
        assert_eq!((count("SCHEDULE_TOPIC_XXXX", 2), count("RMQ_SYS_TRANS_HALF_TOPIC", 0)), (1, 1));
        assert_eq!(bodies(&store, &store.find_queue("TopicB", 0).unwrap(), 7).len(), 5);
        store.close().unwrap();
        for (path, before) in &files {
            if path.to_string_lossy().contains("/consumequeue/") {
                assert_eq!(&content(&disk, path), before, "{} without {without:?}", path.display());
            }
        }
    }
}
