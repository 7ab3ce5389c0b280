//! Multi-dispatch and light queues.

use crate::tool::{append, message, small_config};
use std::sync::Arc;
use store::{AppendError, Config, Disk, FakeDisk, Message, PushError, Queue, Store, Unit};
use wire::properties::{self, key};
use wire::record::RecordView;
use wire::units::QueueOffset;

const JAVA: &[u8] = include_bytes!("golden/record-lmq.bin");
const TO_BOTH: &[u8] = b"INNER_MULTI_DISPATCH\x01%LMQ%dev1,%LMQ%dev2\x02TAGS\x01TagA\x02";

fn config() -> Config {
    Config { multi_dispatch: true, ..small_config() }
}

fn open(disk: &FakeDisk) -> Store {
    Store::open(config(), Arc::new(disk.clone())).unwrap()
}

/// Appends a message. Returns its record.
fn send(store: &Store, queue: &Arc<Queue>, message: &Message<'_>, now_ms: i64) -> Vec<u8> {
    let mut batch = store.batch();
    let index = batch.push(queue, message).unwrap();
    store.append(&mut batch, now_ms).unwrap();
    let mut record = Vec::new();
    store.record_at(batch.append_result(index).log_offset, &mut record).unwrap();
    record
}

fn offsets(record: &[u8]) -> String {
    let view = RecordView::parse(record).unwrap();
    view.check_crc().unwrap();
    properties::get_str(view.properties(), key::INNER_MULTI_QUEUE_OFFSET).unwrap_or("none").to_owned()
}

fn units(store: &Store, topic: &str, queue_id: i32) -> Vec<Unit> {
    let Some(queue) = store.find_queue(topic, queue_id) else { return Vec::new() };
    let mut units = Vec::new();
    queue.units_blocking(queue.min(), 1000, &mut units).unwrap();
    units
}

#[test]
fn a_light_record_is_byte_for_byte_the_one_of_java() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let java = RecordView::parse(JAVA).unwrap();
    let queue = store.queue("TopicL", 1).unwrap();
    let sent = Message { properties: TO_BOTH, ..Message::of(&java) };
    assert_eq!(send(&store, &queue, &sent, java.store_timestamp()), JAVA);
    let unit = units(&store, "TopicL", 1);
    assert_eq!(units(&store, "%LMQ%dev1", 0), unit);
    assert_eq!(units(&store, "%LMQ%dev2", 0), unit);
    let tag = 0x27_a807;
    assert_eq!((unit[0].log_offset.get(), unit[0].size, unit[0].tags_code), (0, 0xb9, tag));
}

#[test]
fn every_queue_counts_for_itself_inside_a_batch_and_across() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let queue = store.queue("T", 3).unwrap();
    let mut batch = store.batch();
    let to = |names: &str| format!("{}\u{1}{names}\u{2}", key::INNER_MULTI_DISPATCH).into_bytes();
    let all = ["%LMQ%a", "%LMQ%a,%LMQ%b", "Other,%LMQ%b", "%LMQ%a,%LMQ%a,T,a/b"].map(to);
    for properties in &all {
        batch.push(&queue, &message(b"x", properties)).unwrap();
        batch.push(&queue, &message(b"plain", b"")).unwrap();
    }
    store.append(&mut batch, 1).unwrap();
    let record = |index: usize| {
        let mut record = Vec::new();
        store.record_at(batch.append_result(index).log_offset, &mut record).unwrap();
        record
    };
    let found: Vec<_> = (0..8).step_by(2).map(|index| offsets(&record(index))).collect();
    // A queue named twice, or the message's own, has it once; what cannot be a queue has no place.
    assert_eq!(found, ["0", "1,0", "0,1", "2,2,6,0"]);
    assert_eq!(batch.multi_queues(6).map(|queue| queue.topic()).collect::<Vec<_>>(), ["%LMQ%a"]);
    let count = |topic, queue_id| units(&store, topic, queue_id).len();
    assert_eq!([count("%LMQ%a", 0), count("%LMQ%b", 0), count("Other", 3), count("T", 3)], [3, 2, 1, 8]);
    assert_eq!(offsets(&record(1)), "none");
    let mut unterminated = to("%LMQ%b,%LMQ%a");
    unterminated.pop();
    let next = send(&store, &queue, &message(b"y", &unterminated), 2);
    assert_eq!(offsets(&next), "2,3");
}

#[test]
fn light_queues_survive_a_stop_a_crash_and_the_loss_of_their_files() {
    let disk = FakeDisk::new(512);
    let mut store = open(&disk);
    for number in 0..60 {
        let queue = store.queue("T", number % 3).unwrap();
        let names = format!("INNER_MULTI_DISPATCH\u{1}%LMQ%{},%LMQ%all\u{2}", number % 7);
        let record = send(&store, &queue, &message(b"body", names.as_bytes()), 1);
        assert_eq!(offsets(&record), format!("{},{number}", number / 7));
        match number {
            10 => store.checkpoint().unwrap(),
            20 => {
                store.close().unwrap();
                store = open(&disk);
            }
            // As a crash leaves it.
            30 | 45 => {
                drop(store);
                store = open(&disk);
            }
            _ => {}
        }
    }
    let expected = units(&store, "%LMQ%all", 0);
    assert_eq!(expected.len(), 60);
    store.close().unwrap();
    for directory in ["/store/consumequeue", "/store/vostok"] {
        remove_all(&disk, directory.as_ref());
    }
    disk.remove("/store/checkpoint".as_ref()).unwrap();
    let store = open(&disk);
    assert_eq!(units(&store, "%LMQ%all", 0), expected);
    assert_eq!(units(&store, "%LMQ%6", 0).len(), 8);
    let record = send(&store, &store.queue("T", 0).unwrap(), &message(b"z", TO_BOTH), 1);
    assert_eq!(offsets(&record), "0,0");
}

fn remove_all(disk: &FakeDisk, directory: &std::path::Path) {
    for entry in disk.list(directory).unwrap() {
        let path = directory.join(&entry.name);
        if entry.is_dir { remove_all(disk, &path) } else { disk.remove(&path).unwrap() }
    }
}

#[test]
fn retry_and_system_topics_keep_their_messages_to_themselves() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    for topic in ["%RETRY%g", "rmq_sys_wheel_timer", "SCHEDULE_TOPIC_XXXX"] {
        let record = send(&store, &store.queue(topic, 0).unwrap(), &message(b"x", TO_BOTH), 1);
        assert_eq!(offsets(&record), "none", "{topic}");
    }
    assert!(store.find_queue("%LMQ%dev1", 0).is_none());
    // Half messages get no place anywhere.
    let half = Message { sys_flag: wire::record::sys_flag::TRANSACTION_PREPARED, ..message(b"x", TO_BOTH) };
    let record = send(&store, &store.queue("T", 0).unwrap(), &half, 1);
    assert_eq!(offsets(&record), "none");
}

#[test]
fn a_message_for_a_light_queue_that_was_removed_is_refused() {
    let disk = FakeDisk::new(512);
    let store = open(&disk);
    let queue = store.queue("T", 0).unwrap();
    let mut batch = store.batch();
    batch.push(&queue, &message(b"late", TO_BOTH)).unwrap();
    assert_eq!(store.remove_topic("%LMQ%dev1").unwrap(), 1);
    let refused = store.append(&mut batch, 1).unwrap_err();
    assert!(matches!(&refused, AppendError::Removed { topic } if topic == "%LMQ%dev1"), "{refused:?}");
    assert_eq!(queue.max(), QueueOffset::ZERO);
    // Pushed again, it is in a new queue.
    let record = send(&store, &queue, &message(b"again", TO_BOTH), 1);
    assert_eq!(offsets(&record), "0,0");
    assert_eq!((units(&store, "%LMQ%dev1", 0).len(), units(&store, "%LMQ%dev2", 0).len()), (1, 1));
}

#[test]
fn without_the_setting_nothing_is_looked_at() {
    let disk = FakeDisk::new(512);
    let store = Store::open(small_config(), Arc::new(disk)).unwrap();
    let record = send(&store, &store.queue("T", 0).unwrap(), &message(b"x", TO_BOTH), 1);
    assert_eq!(offsets(&record), "none");
    assert!(store.find_queue("%LMQ%dev1", 0).is_none());
}

#[test]
fn a_record_that_might_have_no_room_for_its_offsets_is_refused_when_it_is_pushed() {
    let disk = FakeDisk::new(512);
    let store = Store::open(Config { segment_bytes: 1 << 20, ..config() }, Arc::new(disk)).unwrap();
    let queue = store.queue("T", 0).unwrap();
    let mut batch = store.batch();
    let names = vec!["%LMQ%n"; 3000].join(",");
    let text = format!("INNER_MULTI_DISPATCH\u{1}{names}\u{2}");
    assert!(text.len() < properties::PROPERTIES_BYTES_MAX);
    let refused = batch.push(&queue, &message(b"x", text.as_bytes()));
    assert!(matches!(refused, Err(PushError::Encode(_))), "{refused:?}");
    assert!(batch.is_empty());
    drop(batch);
    assert_eq!(append(&store, &queue, b"next", 1), 0);
}

#[test]
fn the_checksum_of_the_whole_record_covers_the_offsets() {
    let disk = FakeDisk::new(512);
    let config = Config { crc_property: true, ..config() };
    let store = Store::open(config, Arc::new(disk)).unwrap();
    let queue = store.queue("T", 0).unwrap();
    for expected in ["0,0", "1,1"] {
        let record = send(&store, &queue, &message(b"x", TO_BOTH), 1);
        let view = RecordView::parse(&record).unwrap();
        view.check_crc_property().unwrap();
        assert_eq!(offsets(&record), expected);
    }
    assert_eq!(queue.max(), QueueOffset::new(2));
}
