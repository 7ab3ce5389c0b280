//! Cost of appends: nanoseconds of this thread and CPU nanoseconds of the process per 1 KiB message. Batches of
//! several sizes go to 8 queues, and the messages are read back. `cargo bench -p vostok-store`.
// A bench is a test in all but name.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use store::{Config, CqUnit, FlushMode, Message, RealDisk, Store, Unit};
use wire::units::{LogOffset, QueueOffset};

const PROPERTIES: &[u8] = b"KEYS\x01order-1234567\x02UNIQ_KEY\x017F00000100ABCD18B4AAC20000000000\x02WAIT\x01true\x02TAGS\x01TagA\x02MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02CLUSTER\x01DefaultCluster\x02";

fn message(body: &[u8]) -> Message<'_> {
    Message {
        body,
        properties: PROPERTIES,
        sys_flag: 0,
        flag: 0,
        born_timestamp: 1_700_000_000_000,
        born_host: (std::net::Ipv4Addr::new(10, 0, 0, 7), 50001).into(),
        store_host: (std::net::Ipv4Addr::new(10, 0, 0, 9), 10911).into(),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
    }
}

/// Properties with a unique key and a key that vary like those of real messages.
fn keyed(number: u32) -> String {
    format!(
        "KEYS\u{1}order-{number}\u{2}UNIQ_KEY\u{1}7F00000100ABCD18B4AAC2{number:010}\u{2}WAIT\u{1}true\u{2}TAGS\u{1}TagA\u{2}MSG_REGION\u{1}DefaultRegion\u{2}TRACE_ON\u{1}true\u{2}CLUSTER\u{1}DefaultCluster\u{2}"
    )
}

fn open(flush: FlushMode) -> (tempfile::TempDir, Store) {
    open_with(flush, true)
}

fn open_with(flush: FlushMode, digests: bool) -> (tempfile::TempDir, Store) {
    let directory = tempfile::tempdir_in(std::env::var("BENCH_DIR").unwrap_or(".".to_owned())).unwrap();
    let store =
        Store::open(Config { flush, digests, ..Config::new(directory.path()) }, Arc::new(RealDisk)).unwrap();
    (directory, store)
}

/// CPU time of the whole process.
fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
}

fn appends(batch_messages: u32, digests: bool) {
    let (directory, store) = open_with(FlushMode::Async, digests);
    let queues: Vec<_> = (0..8).map(|id| store.queue("TopicTest", id).unwrap()).collect();
    let body = vec![b'x'; 1024];
    let mut batch = store.batch();
    let mut slowest = Duration::ZERO;
    let mut run = |rounds: u32| {
        for round in 0..rounds {
            let began = Instant::now();
            for index in 0..batch_messages {
                let queue = &queues[usize::try_from((round + index) % 8).unwrap()];
                batch.push(queue, &message(&body)).unwrap();
            }
            store.append(&mut batch, 1_700_000_000_000).unwrap();
            batch.clear();
            slowest = slowest.max(began.elapsed());
        }
    };
    run(1000);
    let rounds = 400_000 / batch_messages;
    let (began, cpu_before) = (Instant::now(), cpu());
    run(rounds);
    let (wall, used) = (began.elapsed(), cpu() - cpu_before);
    let per = |time: Duration| time.as_nanos() / u128::from(rounds * batch_messages);
    println!(
        "append, {batch_messages:3} in a batch, digests {digests:5}: {:5} ns wall, {:5} ns process CPU per message, slowest batch {slowest:?}",
        per(wall),
        per(used)
    );
    if batch_messages == 64 {
        reads(&store, &queues, "not");
    }
    let began = Instant::now();
    store.close().unwrap();
    println!("  close: {:?}", began.elapsed());
    drop(store);
    if batch_messages == 64 {
        // What was there before opening is checked.
        let config = Config { digests, ..Config::new(directory.path()) };
        let store = Store::open(config, Arc::new(RealDisk)).unwrap();
        reads(&store, &store.queues(), if digests { "all" } else { "but no digest" });
    }
}

fn reads(store: &Store, queues: &[Arc<store::Queue>], checked: &str) {
    let (mut units, mut bytes) = (Vec::new(), Vec::new());
    let mut count = 0u32;
    let began = Instant::now();
    for queue in queues {
        for from in (0..queue.max().get()).step_by(32) {
            units.clear();
            bytes.clear();
            let _ = queue.units(QueueOffset::new(from), 32, &mut units).unwrap();
            let numbered =
                |(index, unit): (u64, &Unit)| CqUnit { offset: QueueOffset::new(from + index), unit: *unit };
            let messages: Vec<CqUnit> = (0..).zip(&units).map(numbered).collect();
            let _ = store.read_messages(queue, &messages, &mut bytes).unwrap();
            count += u32::try_from(units.len()).unwrap();
        }
    }
    println!(
        "read, 32 in a pull, {checked} checked: {:5} ns per message",
        (began.elapsed() / count).as_nanos()
    );
}

fn encodes() {
    let (_directory, store) = open(FlushMode::Async);
    let queue = store.queue("TopicTest", 0).unwrap();
    let body = vec![b'x'; 1024];
    let mut batch = store.batch();
    let began = Instant::now();
    for _ in 0..10_000 {
        for _ in 0..64 {
            batch.push(&queue, &message(&body)).unwrap();
        }
        batch.clear();
    }
    println!("encode: {:5} ns per message", (began.elapsed() / 640_000).as_nanos());
}

/// Measures a slave's thread with a master's frames of 32 KiB, which begin and end within records.
fn follows() {
    const MESSAGES: u32 = 200_000;
    let (_directory, master) = open(FlushMode::Async);
    let queues: Vec<_> = (0..8).map(|id| master.queue("TopicTest", id).unwrap()).collect();
    let body = vec![b'x'; 1024];
    let mut batch = master.batch();
    for number in 0..MESSAGES {
        let properties = keyed(number);
        let message = Message { properties: properties.as_bytes(), ..message(&body) };
        batch.push(&queues[(number % 8) as usize], &message).unwrap();
        if batch.len() == 16 {
            master.append(&mut batch, 1_700_000_000_000).unwrap();
            batch.clear();
        }
    }
    let (mut log, end) = (Vec::new(), master.appended());
    master.read_log_blocking(LogOffset::ZERO, usize::try_from(end.get()).unwrap(), &mut log).unwrap();
    assert_eq!(log.len() as u64, end.get());
    drop(master);
    let (_directory, slave) = open(FlushMode::Async);
    slave.start_following().unwrap();
    let (began, cpu_before) = (Instant::now(), cpu());
    for frame in log.chunks(32 << 10) {
        slave.follow(slave.followed(), frame, &mut |_| {}).unwrap();
    }
    let (wall, used) = (began.elapsed() / MESSAGES, (cpu() - cpu_before) / MESSAGES);
    println!("follow: {:5} ns wall, {:5} ns process CPU per message", wall.as_nanos(), used.as_nanos());
}

/// Keeps `waiting` messages in flight, each its own append. The next message leaves when the flush of an earlier
/// message is reported.
fn synchronous(waiting: u64) {
    let (_directory, store) = open(FlushMode::Sync);
    let queues: Vec<_> = (0..8).map(|id| store.queue("TopicTest", id).unwrap()).collect();
    let body = vec![b'x'; 1024];
    let mut batch = store.batch();
    let done = Arc::new((AtomicU64::new(0), Mutex::new(()), Condvar::new()));
    let total = 20_000 + 2000 * waiting;
    let (began, cpu_before) = (Instant::now(), cpu());
    let mut sent = 0;
    while sent < total {
        let room = waiting - (sent - done.0.load(Ordering::Acquire));
        if room == 0 {
            let guard = done.1.lock().unwrap();
            if sent - done.0.load(Ordering::Acquire) == waiting {
                drop(done.2.wait(guard).unwrap());
            }
            continue;
        }
        for index in 0..room {
            batch.push(&queues[usize::try_from(index % 8).unwrap()], &message(&body)).unwrap();
        }
        store.append(&mut batch, 1_700_000_000_000).unwrap();
        sent += room;
        let answer = done.clone();
        store.when_flushed(
            batch.end(),
            Box::new(move |outcome| {
                assert_eq!(outcome, store::FlushOutcome::Flushed);
                answer.0.fetch_add(room, Ordering::AcqRel);
                drop(answer.1.lock().unwrap());
                answer.2.notify_one();
            }),
        );
        batch.clear();
    }
    let (wall, used) = (began.elapsed(), cpu() - cpu_before);
    println!(
        "synchronous, {waiting:3} in flight: {:7.0} messages/s, {:6.0} ns process CPU per message",
        total as f64 / wall.as_secs_f64(),
        used.as_nanos() as f64 / total as f64
    );
    store.close().unwrap();
}

/// Measures the cost of three keys per message: the same appends with and without the key index in turn. The figure
/// is CPU time of the process with all threads of the store, from opening to the end of closing.
fn keys() {
    const ROUNDS: u32 = 5;
    const MESSAGES: u32 = 500_000;
    let measure = |key_index: bool| {
        let root = tempfile::tempdir_in(std::env::var("BENCH_DIR").unwrap_or(".".to_owned())).unwrap();
        let config = Config { key_index, ..Config::new(root.path()) };
        let cpu_before = cpu();
        let store = Store::open(config, Arc::new(RealDisk)).unwrap();
        let queues: Vec<_> = (0..8).map(|id| store.queue("TopicTest", id).unwrap()).collect();
        let body = vec![b'x'; 1024];
        let mut batch = store.batch();
        for number in 0..MESSAGES {
            let properties = keyed(number);
            let message = Message { properties: properties.as_bytes(), ..message(&body) };
            batch.push(&queues[(number % 8) as usize], &message).unwrap();
            if batch.len() == 16 {
                store.append(&mut batch, 1_700_000_000_000).unwrap();
                batch.clear();
            }
        }
        store.close().unwrap();
        (cpu() - cpu_before).as_nanos() as f64 / f64::from(MESSAGES)
    };
    measure(true);
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        without.push(measure(false));
        with.push(measure(true));
    }
    let median = |mut list: Vec<f64>| {
        list.sort_by(f64::total_cmp);
        list[list.len() / 2]
    };
    let (with, without) = (median(with), median(without));
    println!(
        "key index, 3 keys a message: {with:5.0} ns process CPU per message, without {without:5.0} ns, {:+.0} ns",
        with - without
    );
}

fn main() {
    if std::env::args().any(|argument| argument == "keys") {
        return keys();
    }
    if std::env::args().any(|argument| argument == "follow") {
        return (0..5).for_each(|_| follows());
    }
    encodes();
    // In turns, three times: other load on the machine comes and goes.
    for batch_messages in [1, 16, 64].repeat(3) {
        appends(batch_messages, true);
        appends(batch_messages, false);
    }
    follows();
    [1, 30, 200].into_iter().for_each(synchronous);
}
