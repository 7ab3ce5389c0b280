//! Whether the deletion of a commit log file of 1 GiB shows in the latency of synchronous sends. Three cases: no
//! deletion, a file unlinked at once, and a file given back in pieces as the store does it. Needs 5 GB below
//! `VOSTOK_BENCH_DIR` (default: the temporary directory), on a real file system.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use store::{Config, FlushMode, FreedSpace, Message, RealDisk, RetentionRound, RetentionSettings, Store};

const FILE_BYTES: u64 = 1 << 30;
const ROUNDS: usize = 3;

fn message(body: &[u8]) -> Message<'_> {
    Message {
        body,
        properties: b"",
        sys_flag: 0,
        flag: 0,
        born_timestamp: 1,
        born_host: "127.0.0.1:1".parse().expect("an address"),
        store_host: "127.0.0.1:2".parse().expect("an address"),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
    }
}

/// Appends until the log holds so many whole files.
fn fill(store: &Store, files: u64) {
    let queue = store.queue("Fill", 0).expect("a legal name");
    let body = vec![7; 1 << 20];
    let mut batch = store.batch();
    while store.appended().since(store.min()) < files * FILE_BYTES {
        batch.clear();
        batch.push(&queue, &message(&body)).expect("it fits");
        store.append(&mut batch, 1).expect("the disk has space");
    }
    store.checkpoint().expect("the disk has space");
}

/// Latencies of single synchronous sends while `during` runs, or for five seconds when it is shorter.
fn measure(store: &Store, during: impl FnOnce() + Send) -> Vec<Duration> {
    let queue = store.queue("Measured", 0).expect("a legal name");
    let body = [7; 1024];
    let mut batch = store.batch();
    let mut latencies = Vec::new();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            during();
            is_done.store(true, Ordering::Release);
        });
        let began = Instant::now();
        while !is_done.load(Ordering::Acquire) || began.elapsed() < Duration::from_secs(5) {
            batch.clear();
            batch.push(&queue, &message(&body)).expect("it fits");
            let sent = Instant::now();
            store.append(&mut batch, 1).expect("the disk has space");
            let (sender, receiver) = mpsc::channel();
            store.when_flushed(batch.end(), Box::new(move |outcome| drop(sender.send(outcome))));
            receiver.recv().expect("the store answers");
            latencies.push(sent.elapsed());
        }
    });
    latencies
}

fn report(what: &str, mut latencies: Vec<Duration>) {
    latencies.sort_unstable();
    let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize].as_micros();
    println!(
        "{what:<28} {:>6} sends  p50 {:>6} us  p99 {:>6} us  p99.9 {:>7} us  max {:>7} us",
        latencies.len(),
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0)
    );
}

/// Writes a file in the state of a full log file: on the disk, and in memory.
fn write_file(path: &Path) {
    let mut file = fs::File::create(path).expect("a file");
    for _ in 0..1024 {
        file.write_all(&[7; 1 << 20]).expect("the disk has space");
    }
    file.sync_all().expect("the disk has space");
}

fn main() {
    let directory = std::env::var_os("VOSTOK_BENCH_DIR").map_or_else(std::env::temp_dir, Into::into);
    let root = directory.join(format!("vostok-give-back-{}", std::process::id()));
    let config = Config { segment_bytes: FILE_BYTES, flush: FlushMode::Sync, ..Config::new(&root) };
    let store = Store::open(config, Arc::new(RealDisk)).expect("a new store");
    let settings = RetentionSettings { log_bytes_max: 1, ..RetentionSettings::default() };
    let round = RetentionRound { now_ms: 1, hour: 0, asked: false, unconsumed_from: &|| None };
    for _ in 0..ROUNDS {
        report("nothing deleted", measure(&store, || {}));
        let path = root.join("whole");
        write_file(&path);
        report("1 GiB unlinked at once", measure(&store, || fs::remove_file(&path).expect("it is there")));
        fill(&store, 2);
        let removed = store.retain(&settings, &round).expect("the disk works").verdict.remove.len();
        assert!(removed > 0, "there is a file to delete");
        let pieces = || {
            while store.free_space().expect("the disk works") != FreedSpace::Nothing {
                std::thread::sleep(Duration::from_millis(10));
            }
        };
        report(&format!("{removed} GiB in pieces"), measure(&store, pieces));
    }
    store.close().expect("the disk has space");
    fs::remove_dir_all(root).expect("it is ours");
}
