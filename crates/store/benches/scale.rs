//! Cost of 50,000 queues, and duration of opening after a crash. `cargo bench -p vostok-store --bench scale`.
// A bench is a test in all but name.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{Config, Message, RealDisk, Store};

/// `BENCH_QUEUES` makes it fewer on a busy machine.
fn queue_count() -> i32 {
    std::env::var("BENCH_QUEUES").ok().and_then(|text| text.parse().ok()).unwrap_or(50_000)
}

fn message(body: &[u8]) -> Message<'_> {
    Message {
        body,
        properties: b"TAGS\x01TagA\x02",
        sys_flag: 0,
        flag: 0,
        born_timestamp: 1_700_000_000_000,
        born_host: (std::net::Ipv4Addr::new(10, 0, 0, 7), 50001).into(),
        store_host: (std::net::Ipv4Addr::new(10, 0, 0, 9), 10911).into(),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
    }
}

/// Anonymous memory of the process in MiB.
fn anonymous_mib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() / 1024
}

fn fill(store: &Store, queues: &[Arc<store::Queue>], rounds: usize, body: &[u8]) {
    let mut batch = store.batch();
    for _ in 0..rounds {
        for part in queues.chunks(64) {
            for queue in part {
                batch.push(queue, &message(body)).unwrap();
            }
            store.append(&mut batch, 1_700_000_000_000).unwrap();
            batch.clear();
        }
    }
}

fn config(root: &std::path::Path, checkpoint_interval: Duration) -> Config {
    Config { checkpoint_interval, ..Config::new(root) }
}

fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let result = work();
    println!("{what}: {:?}, {} MiB anonymous", began.elapsed(), anonymous_mib());
    result
}

fn main() {
    let base = std::env::var("BENCH_DIR").unwrap_or(".".to_owned());
    let second = Duration::from_secs(1);
    let hour = Duration::from_secs(3600);
    let directory = tempfile::tempdir_in(&base).unwrap();
    let count = queue_count();
    println!("{count} queues");
    let store = Store::open(config(directory.path(), second), Arc::new(RealDisk)).unwrap();
    let queues = timed("  handles", || {
        let make = |id| store.queue(&format!("Topic{}", id / 100), id % 100).unwrap();
        (0..count).map(make).collect::<Vec<_>>()
    });
    timed("  4 messages of 1 KiB for each", || fill(&store, &queues, 4, &[b'x'; 1024]));
    timed("  checkpoint with new files", || store.checkpoint().unwrap());
    timed("  4 more", || fill(&store, &queues, 4, &[b'x'; 1024]));
    timed("  checkpoint", || store.checkpoint().unwrap());
    timed("  close", || store.close().unwrap());
    drop((store, queues));
    let store = timed("  open", || Store::open(config(directory.path(), hour), Arc::new(RealDisk)).unwrap());
    drop(store);
    let store = timed("  open after a crash", || {
        Store::open(config(directory.path(), hour), Arc::new(RealDisk)).unwrap()
    });
    timed("  check of all queue files, in the background", || store.wait_healed());
    drop(store);
    // As another program leaves it: all queues are loaded from their files.
    std::fs::remove_dir_all(directory.path().join("vostok")).unwrap();
    let store = timed("  open after a crash without the queue table", || {
        Store::open(config(directory.path(), hour), Arc::new(RealDisk)).unwrap()
    });
    drop(store);
    drop(directory);

    let directory = tempfile::tempdir_in(&base).unwrap();
    println!("8 queues, 1 GiB not checkpointed");
    let store = Store::open(config(directory.path(), hour), Arc::new(RealDisk)).unwrap();
    let queues: Vec<_> = (0..8).map(|id| store.queue("TopicTest", id).unwrap()).collect();
    fill(&store, &queues, (1 << 30) / 1136 / 8, &[b'x'; 1024]);
    drop((store, queues));
    let store = timed("  open after a crash", || {
        Store::open(config(directory.path(), hour), Arc::new(RealDisk)).unwrap()
    });
    println!("  {} records read", store.recovered().records);
}
