//! Shared test code: a small configuration, messages, and reading a queue back.

use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{Config, CqUnit, FakeDisk, FlushMode, Message, Queue, Store};
use wire::record::RecordView;
use wire::units::QueueOffset;

/// A store that rolls its files quickly and does nothing by itself in the time of a test.
pub fn small_config() -> Config {
    let hour = Duration::from_secs(3600);
    Config {
        segment_bytes: 4096,
        queue_file_bytes: 160,
        flush: FlushMode::Async,
        flush_interval: hour,
        flush_timeout: hour,
        checkpoint_interval: hour,
        written_ahead_bytes: 2048,
        write_back_bytes: 1024,
        ..Config::new("/store")
    }
}

pub fn open(disk: &FakeDisk) -> Store {
    Store::open(small_config(), Arc::new(disk.clone())).unwrap()
}

pub fn message<'a>(body: &'a [u8], properties: &'a [u8]) -> Message<'a> {
    Message {
        body,
        properties,
        sys_flag: 0,
        flag: 7,
        born_timestamp: 1,
        born_host: "10.0.0.7:50001".parse().unwrap(),
        store_host: "10.0.0.9:10911".parse().unwrap(),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
    }
}

/// Appends a message and returns its queue offset.
pub fn append(store: &Store, queue: &Arc<Queue>, body: &[u8], now_ms: i64) -> u64 {
    let mut batch = store.batch();
    let index = batch.push(queue, &message(body, b"TAGS\x01TagA\x02")).unwrap();
    store.append(&mut batch, now_ms).unwrap();
    batch.append_result(index).queue_offset.get()
}

/// Waits for an outcome of another thread. Panics after two minutes.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(120);
    while !holds() {
        assert!(Instant::now() < end, "not within two minutes: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until everything appended is durable.
pub fn flush(store: &Store) -> store::FlushOutcome {
    let (sender, receiver) = std::sync::mpsc::channel();
    store.when_flushed(store.appended(), Box::new(move |outcome| sender.send(outcome).unwrap()));
    receiver.recv().unwrap()
}

/// Returns all messages of a queue.
pub fn messages_of(queue: &Queue) -> Vec<CqUnit> {
    let mut units = Vec::new();
    queue.units_blocking(QueueOffset::ZERO, usize::MAX >> 1, &mut units).unwrap();
    (0..).zip(units).map(|(at, unit)| CqUnit { offset: QueueOffset::new(at), unit }).collect()
}

/// Returns the bodies of the messages from an offset on. Checks all fields of the records.
pub fn bodies(store: &Store, queue: &Queue, from: u64) -> Vec<Vec<u8>> {
    let mut units = Vec::new();
    queue.units_blocking(QueueOffset::new(from), usize::MAX >> 1, &mut units).unwrap();
    let mut found = Vec::new();
    for (index, unit) in units.iter().enumerate() {
        let mut bytes = Vec::new();
        store.read_units_blocking(&[*unit], &mut bytes).unwrap();
        let view = RecordView::parse(&bytes).unwrap();
        view.check_crc().unwrap();
        assert_eq!(view.queue_offset().get(), from + index as u64);
        assert_eq!(view.log_offset(), Some(unit.log_offset));
        assert_eq!((view.topic_str(), view.queue_id()), (Some(queue.topic()), queue.queue_id()));
        found.push(view.body().to_vec());
    }
    found
}
