//! Tests of the store on the operating system's files.

use crate::tool::{append, bodies, flush, small_config};
use std::sync::Arc;
use store::{Config, Disk, FlushMode, FlushOutcome, OpenError, Read, RealDisk, Store};
use wire::units::QueueOffset;

fn config(root: &std::path::Path, flush: FlushMode) -> Config {
    Config {
        flush,
        commit_log: root.join("commitlog"),
        root: root.to_owned(),
        segment_bytes: 1 << 20,
        queue_file_bytes: 6000,
        written_ahead_bytes: 256 << 10,
        ..small_config()
    }
}

#[test]
fn appended_read_closed_and_reopened_in_both_modes() {
    for mode in [FlushMode::Async, FlushMode::Sync] {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(config(directory.path(), mode), Arc::new(RealDisk)).unwrap();
        let queue = store.queue("TopicA", 3).unwrap();
        for number in 0..1500u32 {
            append(&store, &queue, &[u8::try_from(number % 250).unwrap(); 1000], 0);
        }
        assert_eq!(flush(&store), FlushOutcome::Flushed);
        store.checkpoint().unwrap();
        let mut units = Vec::new();
        assert_eq!(queue.units(QueueOffset::new(1400), 32, &mut units).unwrap(), Read::Done);
        let mut bytes = Vec::new();
        assert_eq!(store.read_units(&units, &mut bytes).unwrap(), Read::Done);
        assert_eq!(bodies(&store, &queue, 0).len(), 1500);
        // As after a kill: the process ends without closing.
        drop(store);
        let store = Store::open(config(directory.path(), mode), Arc::new(RealDisk)).unwrap();
        assert!(store.recovered().after_crash);
        let queue = store.find_queue("TopicA", 3).unwrap();
        assert_eq!(bodies(&store, &queue, 0).len(), 1500);
        append(&store, &queue, b"last", 0);
        store.close().unwrap();
        let names = |path: &str| -> Vec<String> {
            let entries = RealDisk.list(&directory.path().join(path)).unwrap();
            entries.into_iter().map(|entry| entry.name).collect()
        };
        assert_eq!(names(""), ["checkpoint", "commitlog", "consumequeue", "lock", "vostok"]);
        assert_eq!(names("vostok/digest"), names("commitlog"));
        assert_eq!(names("commitlog"), ["00000000000000000000", "00000000000001048576"]);
        assert_eq!(names("consumequeue/TopicA/3").len(), 6);
    }
}

/// Zeroes a sector in files that are filled with zeros ahead, and in sparse files. Later records are found and kept,
/// because the file system stayed mounted.
#[test]
fn zeros_in_the_middle_are_damage_after_a_kill() {
    for mode in [FlushMode::Async, FlushMode::Sync] {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(config(directory.path(), mode), Arc::new(RealDisk)).unwrap();
        let queue = store.queue("TopicA", 3).unwrap();
        for number in 0..1500u32 {
            append(&store, &queue, &[u8::try_from(number % 250).unwrap(); 1000], 0);
        }
        drop(store);
        let names_mounts = RealDisk.mount(directory.path()).unwrap().is_some();
        let log = directory.path().join("commitlog/00000000000000000000");
        let zeros = |at| RealDisk.open(&log).unwrap().write_at(&[0; 512], at).unwrap();
        zeros(512 << 10);
        let store = Store::open(config(directory.path(), mode), Arc::new(RealDisk)).unwrap();
        let recovered = store.recovered().clone();
        if !names_mounts {
            // An older kernel cannot name its mounts: then it may have been a power cut.
            assert!(recovered.lost_behind_cut > 900, "{recovered:?}");
            continue;
        }
        assert_eq!((recovered.cut, recovered.gaps.len()), (None, 1));
        assert!((1498..1500).contains(&recovered.records), "{}", recovered.records);
        assert_eq!(store.find_queue("TopicA", 3).unwrap().max().get(), 1500);
    }
}

#[test]
fn a_mount_has_one_name_and_a_copy_of_a_directory_another() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let name = |directory: &tempfile::TempDir| RealDisk.mount(directory.path()).unwrap();
    assert_eq!(name(&first), name(&first));
    assert!(name(&first).is_none() || name(&first) != name(&second));
    let path = first.path().join("file");
    let file = RealDisk.create(&path, 1 << 20, store::Space::Sparse).unwrap();
    file.write_at(b"!", 700_000).unwrap();
    assert!(file.next_data(0).unwrap() <= 700_000);
    assert_eq!(file.next_data(800_000).unwrap().min(1 << 20), file.next_data(800_000).unwrap());
}

#[test]
fn a_second_store_is_refused_with_the_holder_named() {
    let directory = tempfile::tempdir().unwrap();
    let first = Store::open(config(directory.path(), FlushMode::Async), Arc::new(RealDisk)).unwrap();
    match Store::open(config(directory.path(), FlushMode::Async), Arc::new(RealDisk)) {
        Err(OpenError::Locked { holder, .. }) => assert!(holder.contains(&std::process::id().to_string())),
        other => panic!("{:?}", other.map(|store| store.recovered().clone())),
    }
    let abort = std::fs::read_to_string(directory.path().join("abort")).unwrap();
    assert_eq!(abort, format!("{} 1 vostok", std::process::id()));
    first.close().unwrap();
    drop(Store::open(config(directory.path(), FlushMode::Async), Arc::new(RealDisk)).unwrap());
}

#[test]
fn unknown_directories_are_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["rocksdbstore", "dledger-n0/data", "compaction", "consumequeue/TopicA/notes"] {
        std::fs::create_dir_all(directory.path().join(name)).unwrap();
        std::fs::write(directory.path().join(name).join("file"), b"as it was").unwrap();
    }
    let store = Store::open(config(directory.path(), FlushMode::Async), Arc::new(RealDisk)).unwrap();
    append(&store, &store.queue("TopicA", 0).unwrap(), b"x", 0);
    store.close().unwrap();
    for name in ["rocksdbstore", "dledger-n0/data", "compaction", "consumequeue/TopicA/notes"] {
        assert_eq!(std::fs::read(directory.path().join(name).join("file")).unwrap(), b"as it was");
    }
}

#[test]
fn files_removed_while_their_directory_is_listed_are_no_error() {
    let directory = tempfile::tempdir().unwrap();
    let paths: Vec<_> = (0..500).map(|number| directory.path().join(number.to_string())).collect();
    for _ in 0..40 {
        paths.iter().for_each(|path| std::fs::write(path, b"x").unwrap());
        std::thread::scope(|scope| {
            let removing =
                scope.spawn(|| paths.iter().rev().for_each(|path| std::fs::remove_file(path).unwrap()));
            while !removing.is_finished() {
                assert!(RealDisk.list(directory.path()).is_ok());
            }
        });
    }
}

#[test]
fn a_root_that_is_the_log_directory_is_refused_without_advice_to_move_its_lock() {
    let root = tempfile::tempdir().unwrap();
    let config = Config { commit_log: root.path().to_owned(), ..Config::new(root.path()) };
    for _ in 0..2 {
        let text = Store::open(config.clone(), Arc::new(RealDisk)).map(drop).unwrap_err().to_string();
        let log = root.path().join("commitlog");
        let advice = format!("expected another directory in storePathCommitLog, such as {}", log.display());
        assert!(text.contains(&advice) && !text.contains("lock"), "{text}");
    }
}
