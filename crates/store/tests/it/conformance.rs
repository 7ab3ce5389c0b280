//! Lines of the project's description of the store that no other test shows; `docs/conformance.md` names them.

use crate::tool::{append, bodies, message, open, small_config};
use std::path::Path;
use std::sync::Arc;
use store::{Disk, FakeDisk, Space, Store, Unit};
use wire::units::QueueOffset;

const LOG: &str = "/store/commitlog/00000000000000000000";

fn read(disk: &FakeDisk, path: &str, at: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    disk.open(path.as_ref()).unwrap().read_at(&mut bytes, at).unwrap();
    bytes
}

fn remove_all(disk: &FakeDisk, directory: &Path) {
    for entry in disk.list(directory).unwrap() {
        let path = directory.join(&entry.name);
        if entry.is_dir { remove_all(disk, &path) } else { disk.remove(&path).unwrap() }
    }
}

#[test]
fn a_negative_hash_of_a_tag_keeps_its_sign() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let queue = store.queue("T", 0).unwrap();
    let mut batch = store.batch();
    batch.push(&queue, &message(b"x", b"TAGS\x01polygenelubricants\x02")).unwrap();
    store.append(&mut batch, 1).unwrap();
    store.close().unwrap();
    let code = read(&disk, "/store/consumequeue/T/0/00000000000000000000", 12, 8);
    assert_eq!(code, 0xffff_ffff_8000_0000_u64.to_be_bytes());
}

#[test]
fn a_queue_that_begins_at_8_has_no_blank_unit_and_one_that_begins_at_9_has_one() {
    // So long that 8 or 9 records fill the first file of the log.
    for (body, first) in [(400, 8), (330, 9)] {
        let disk = FakeDisk::new(512);
        let store = open(&disk);
        let queue = store.queue("TopicP", 0).unwrap();
        for _ in 0..12 {
            append(&store, &queue, &vec![7; body], 0);
        }
        store.close().unwrap();
        drop(store);
        disk.remove(LOG.as_ref()).unwrap();
        // As a store from elsewhere: nothing says that the queue once began at 0.
        remove_all(&disk, "/store/consumequeue/TopicP".as_ref());
        remove_all(&disk, "/store/vostok".as_ref());
        let store = open(&disk);
        store.wait_healed();
        let queue = store.find_queue("TopicP", 0).unwrap();
        assert_eq!((queue.min().get(), queue.max().get()), (first, 12));
        store.close().unwrap();
        let names: Vec<_> = disk.list("/store/consumequeue/TopicP/0".as_ref()).unwrap();
        assert_eq!(names.iter().map(|entry| &*entry.name).collect::<Vec<_>>(), ["00000000000000000160"]);
        let head = read(&disk, "/store/consumequeue/TopicP/0/00000000000000000160", 0, 20);
        let is_blank = head == *b"\0\0\0\0\0\0\0\0\x7f\xff\xff\xff\0\0\0\0\0\0\0\0";
        assert_eq!(is_blank, first == 9, "{head:x?}");
    }
}

#[test]
fn a_checkpoint_of_an_older_broker_is_enough() {
    for crashed in [false, true] {
        let disk = FakeDisk::new(512);
        let store = open(&disk);
        let queue = store.queue("T", 0).unwrap();
        for number in 0..60 {
            append(&store, &queue, &[number; 100], 0);
        }
        store.checkpoint().unwrap();
        append(&store, &queue, &[60; 100], 0);
        let disk = if crashed { disk.killed() } else { disk.clone() };
        store.close().unwrap();
        drop(store);
        assert_eq!(disk.open("/store/checkpoint".as_ref()).unwrap().length().unwrap(), 4096);
        // Releases before 5.5.0 write five fields, and know nothing of our own files.
        disk.open("/store/checkpoint".as_ref()).unwrap().write_at(&[0; 8], 40).unwrap();
        remove_all(&disk, "/store/vostok".as_ref());
        let store = open(&disk);
        store.wait_healed();
        let queue = store.find_queue("T", 0).unwrap();
        assert_eq!(bodies(&store, &queue, 0), (0..=60).map(|number| [number; 100]).collect::<Vec<_>>());
        assert_eq!(append(&store, &queue, b"next", 0), 61);
    }
}

#[test]
fn a_file_of_zeros_behind_the_last_one_is_used_or_removed() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let queue = store.queue("T", 0).unwrap();
    append(&store, &queue, b"first", 0);
    let disk = disk.killed();
    drop(store);
    for name in ["00000000000000004096", "00000000000000008192"] {
        let path = Path::new("/store/commitlog").join(name);
        if !disk.list("/store/commitlog".as_ref()).unwrap().iter().any(|entry| entry.name == name) {
            disk.create(&path, 4096, Space::Reserved).unwrap();
        }
    }
    let store = open(&disk);
    let queue = store.find_queue("T", 0).unwrap();
    for number in 0..30 {
        append(&store, &queue, &[number; 300], 0);
    }
    assert_eq!(bodies(&store, &queue, 0).len(), 31);
    store.close().unwrap();
    let store = open(&disk);
    assert_eq!(bodies(&store, &store.find_queue("T", 0).unwrap(), 0).len(), 31);
}

#[test]
fn producers_at_the_same_queue_get_offsets_in_the_order_of_the_log() {
    let disk = FakeDisk::new(512);
    let store = Arc::new(Store::open(small_config(), Arc::new(disk)).unwrap());
    let queue = store.queue("T", 0).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..300 {
                    append(&store, &queue, b"body", 0);
                }
            });
        }
    });
    let mut units: Vec<Unit> = Vec::new();
    queue.units_blocking(QueueOffset::ZERO, 1000, &mut units).unwrap();
    assert_eq!(units.len(), 600);
    assert!(units.windows(2).all(|pair| pair[0].end() <= pair[1].log_offset));
    assert_eq!(bodies(&store, &queue, 0).len(), 600);
}

#[test]
fn a_log_that_ends_inside_its_last_record_ends_before_it() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let queue = store.queue("T", 0).unwrap();
    append(&store, &queue, b"kept", 0);
    let start = store.appended().get();
    append(&store, &queue, b"body of the record that is cut", 0);
    let end = store.appended().get();
    let disk = disk.killed();
    drop(store);
    // What lies behind the end of the body is not under its checksum: there a whole lost sector is seen, which is
    // what a power cut leaves, and a record that lost less is served as it is.
    let properties = b"TAGS\x01TagA\x02".len() as u64;
    for cut in start..end - properties {
        let disk = disk.killed();
        let log = disk.open(LOG.as_ref()).unwrap();
        log.zero(cut, 4096 - cut).unwrap();
        let store = open(&disk);
        assert_eq!(store.recovered().end, start, "cut at {cut} of {start}..{end}");
        let queue = store.find_queue("T", 0).unwrap();
        assert_eq!(bodies(&store, &queue, 0), [b"kept"]);
        assert_eq!(append(&store, &queue, b"next", 0), 1);
    }
}

#[test]
fn units_that_hold_an_address_of_the_extension_have_no_tags_code() {
    let java = include_bytes!("golden/consumequeue-ext");
    let codes = java.chunks(20).take(2).map(|unit| i64::from_be_bytes(unit[12..].try_into().unwrap()));
    let unit = |tags_code| Unit { log_offset: wire::units::LogOffset::ZERO, size: 110, tags_code };
    assert_eq!(codes.clone().collect::<Vec<_>>(), [i64::MIN, i64::MIN + 0x14]);
    assert!(codes.map(unit).all(|unit| !unit.has_tags_code()));
    // Hashes keep their sign, and the last address lies just below the smallest.
    assert!([0, i64::from(i32::MIN), i64::MAX].map(unit).iter().all(Unit::has_tags_code));
    assert!(!unit(-2_147_483_649).has_tags_code());
}

#[test]
fn a_tags_code_in_the_extension_is_found_by_its_address() {
    let units = include_bytes!("golden/consumequeue-ext");
    let entries = include_bytes!("golden/consumequeue_ext-entries");
    for has_extension in [true, false] {
        let disk = FakeDisk::new(512);
        let store = open(&disk);
        let queue = store.queue("TopicE", 0).unwrap();
        for _ in 0..3 {
            append(&store, &queue, b"body", 1);
        }
        store.close().unwrap();
        // As a Java broker with enableConsumeQueueExt leaves the first two.
        let file = disk.open("/store/consumequeue/TopicE/0/00000000000000000000".as_ref()).unwrap();
        for (at, unit) in [(12, &units[12..20]), (32, &units[32..40])] {
            file.write_at(unit, at).unwrap();
        }
        if has_extension {
            let directory = Path::new("/store/consumequeue_ext/TopicE/0");
            disk.create_dir_all(directory).unwrap();
            let path = directory.join("00000000000000000000");
            disk.create(&path, 1024, Space::Sparse).unwrap().write_at(entries, 0).unwrap();
        }
        let store = open(&disk);
        let queue = store.find_queue("TopicE", 0).unwrap();
        let mut found = Vec::new();
        queue.units_blocking(QueueOffset::ZERO, 10, &mut found).unwrap();
        assert_eq!(
            found.iter().map(Unit::has_tags_code).collect::<Vec<_>>(),
            [has_extension, has_extension, true]
        );
        if has_extension {
            let codes: Vec<_> = found.iter().map(|unit| unit.tags_code).collect();
            assert_eq!(codes, [0x27_a807, 0x27_a808, 0x27_a807]);
            found.clear();
            // Now that the files are known, without waiting for the disk.
            assert_eq!(queue.units(QueueOffset::ZERO, 10, &mut found).unwrap(), store::Read::Done);
            assert_eq!(found.len(), 3);
        }
    }
}
