//! Tests of a store without threads, under a clock that only the test moves.

use crate::tool::{append, bodies, message, small_config};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use store::{Config, FakeDisk, FlushMode, FlushOutcome, KeyKind, KeyQuery, Store};
use wire::units::LogOffset;

fn config(flush: FlushMode) -> Config {
    Config {
        flush,
        flush_interval: Duration::from_millis(500),
        checkpoint_interval: Duration::from_secs(1),
        key_index: true,
        index_slots: 7,
        index_items: 12,
        ..small_config()
    }
}

fn after(start: Instant, ms: u64) -> Instant {
    start + Duration::from_millis(ms)
}

/// The outcomes of waiting for a flush of everything appended, as they come.
fn wait(store: &Store) -> Arc<Mutex<Vec<FlushOutcome>>> {
    let outcomes: Arc<Mutex<Vec<FlushOutcome>>> = Arc::default();
    let told = outcomes.clone();
    store.when_flushed(store.appended(), Box::new(move |outcome| told.lock().unwrap().push(outcome)));
    outcomes
}

#[test]
fn everything_happens_at_its_time_and_not_by_itself() {
    let (start, disk) = (Instant::now(), FakeDisk::new(512));
    let store = Store::open_without_threads(config(FlushMode::Async), Arc::new(disk.clone()), start).unwrap();
    let queue = store.queue("A", 0).unwrap();
    while store.run_due(start).is_some_and(|next| next <= start) {}
    append(&store, &queue, b"first", 1);
    let next = store.run_due(start).unwrap();
    assert!(start < next && next <= after(start, 500), "nobody waits, so the flush has time");
    assert_eq!(store.flushed(), LogOffset::ZERO);
    store.run_due(after(start, 500)).unwrap();
    assert_eq!(store.flushed(), store.appended());
    // Who waits is answered by the next round.
    append(&store, &queue, b"second", 2);
    let outcomes = wait(&store);
    assert_eq!(outcomes.lock().unwrap().len(), 0);
    store.run_due(after(start, 501));
    assert_eq!(*outcomes.lock().unwrap(), [FlushOutcome::Flushed]);
    // A checkpoint a second after there was something to write; then all of it sleeps.
    let is_written = || store::Disk::list(&disk, "/store/consumequeue/A/0".as_ref()).unwrap().len() == 1;
    assert!(!is_written());
    let mut now = after(start, 501);
    for _ in 0..20 {
        let Some(next) = store.run_due(now) else { break };
        now = next.max(now);
    }
    assert!(is_written() && now < after(start, 5_000), "{:?}", now - start);
    assert_eq!((store.run_due(now), store.indexed()), (None, store.appended()));
    let query = KeyQuery { topic: "A", key: "TagA", kind: KeyKind::Tag, max: 9, begin_ms: 0, end_ms: 9 };
    assert_eq!(store.query(&query).unwrap().found.len(), 2);
    store.close().unwrap();
    let store = Store::open(config(FlushMode::Async), Arc::new(disk)).unwrap();
    assert_eq!((store.recovered().after_crash, store.recovered().records), (false, 0));
    assert_eq!(bodies(&store, &store.queue("A", 0).unwrap(), 0).len(), 2);
}

#[test]
fn what_must_wait_for_the_disk_does_so_on_the_thread_that_asks() {
    let (start, disk) = (Instant::now(), FakeDisk::new(512));
    let store = Store::open_without_threads(config(FlushMode::Sync), Arc::new(disk.clone()), start).unwrap();
    let queue = store.queue("A", 0).unwrap();
    // Files are made and filled with zeros by the appends themselves.
    let body = [7; 700];
    (0..12).for_each(|number| {
        append(&store, &queue, &body, number);
    });
    store.checkpoint().unwrap();
    assert_eq!(store.flushed(), store.appended());
    (0..3).for_each(|number| {
        append(&store, &queue, &body, number);
    });
    store.journal().unwrap();
    store.start_following().unwrap();
    store.truncate(LogOffset::new(4096)).unwrap();
    assert_eq!(store.stop_following().unwrap(), LogOffset::new(4096));
    drop(store);
    let store =
        Store::open_without_threads(config(FlushMode::Sync), Arc::new(disk.power_cut(1)), start).unwrap();
    store.wait_healed();
    let queue = store.queue("A", 0).unwrap();
    assert_eq!((store.appended().get(), bodies(&store, &queue, 0).len()), (4096, 5));
}

#[test]
fn who_waits_too_long_is_told_so_by_the_clock_alone() {
    let (start, disk) = (Instant::now(), FakeDisk::new(512));
    let config = Config { flush_timeout: Duration::from_secs(5), ..config(FlushMode::Async) };
    let store = Store::open_without_threads(config, Arc::new(disk), start).unwrap();
    let told = Arc::new(AtomicU32::new(0));
    let count = told.clone();
    let wait = Duration::from_secs(3);
    store.when_appended(
        LogOffset::new(1),
        wait,
        Box::new(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
        }),
    );
    let at = |ms| {
        store.run_due(after(start, ms));
        told.load(Ordering::Relaxed)
    };
    assert_eq!((at(0), at(2_999), at(3_000)), (0, 0, 1));
}

/// Two runs of equal calls at equal times leave equal disks.
#[test]
fn two_runs_do_the_same() {
    let run = || {
        let (start, disk) = (Instant::now(), FakeDisk::new(512));
        let store =
            Store::open_without_threads(config(FlushMode::Async), Arc::new(disk.clone()), start).unwrap();
        let mut ends = Vec::new();
        for step in 0..60u64 {
            let queue = store.queue("T", i32::try_from(step % 3).unwrap()).unwrap();
            let mut batch = store.batch();
            batch
                .push(&queue, &message(&vec![1; usize::try_from(step * 7 % 400).unwrap()], b"KEYS\x01k\x02"))
                .unwrap();
            store.append(&mut batch, 1_000).unwrap();
            let next = store.run_due(after(start, step * 100));
            ends.push((store.flushed(), store.indexed(), next.map(|next| next - start)));
        }
        let disk = disk.killed();
        let files: Vec<_> = ["/store", "/store/vostok", "/store/consumequeue/T/1", "/store/commitlog"]
            .iter()
            .flat_map(|directory| store::Disk::list(&disk, directory.as_ref()).unwrap())
            .map(|entry| (entry.name, entry.length))
            .collect();
        (ends, files)
    };
    assert_eq!(run(), run());
}
