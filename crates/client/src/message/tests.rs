//! Tests of decoding records into messages.

use super::*;
use crate::compress::{Compression, compress};
use wire::record::{RecordFields, encode};

fn record(body: &[u8], sys_flag: i32, properties: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let fields = RecordFields {
        topic: "T",
        queue_id: 3,
        flag: 9,
        sys_flag,
        born_timestamp: 11,
        born_host: "10.0.0.1:5".parse().unwrap(),
        store_host: "127.0.0.1:10911".parse().unwrap(),
        reconsume_times: 2,
        prepared_transaction_offset: 0,
        body,
        properties,
        crc_property: false,
    };
    encode(&fields, &mut out).unwrap();
    out
}

fn queue() -> MessageQueue {
    MessageQueue::new("T", "b", 3)
}

#[test]
fn records_are_read_in_order_and_decompressed() {
    let mut body = record(b"one", 0, b"TAGS\x01a\x02UNIQ_KEY\x01u\x02");
    for kind in [Compression::Zlib, Compression::Lz4, Compression::Zstd] {
        let packed = compress(kind, 5, b"a longer body").unwrap();
        body.extend_from_slice(&record(&packed, sys_flag::compressed_with(kind), b""));
    }
    let messages = decode(&body, &queue(), 0);
    assert_eq!(messages.len(), 4);
    assert_eq!((messages[0].tag(), messages[0].message_id().as_str()), (Some("a"), "u"));
    assert!(messages[1..].iter().all(|message| message.body == b"a longer body"));
    let first = &messages[0];
    assert_eq!((first.flag, first.reconsume_times, first.born_timestamp), (9, 2, 11));
    assert_eq!((&*first.queue, first.topic.as_str()), (&queue(), "T"));
    assert_eq!(messages[1].message_id(), "7F00000100002A9F0000000000000000");
}

#[test]
fn inner_batches_are_unwrapped() {
    let mut batch = Vec::new();
    for body in [&b"x"[..], b"y"] {
        let entry = wire::batch::Entry { flag: 1, body, properties: b"k\x01v\x02" };
        wire::batch::append(&mut batch, &entry).unwrap();
    }
    let messages = decode(&record(&batch, sys_flag::INNER_BATCH | sys_flag::NEED_UNWRAP, b""), &queue(), 0);
    let read: Vec<_> = messages.iter().map(|message| (message.queue_offset, &message.body[..])).collect();
    assert_eq!(read, [(0, &b"x"[..]), (1, b"y")]);
    assert_eq!(messages[1].property("k"), Some("v"));
}

#[test]
fn a_message_that_cannot_be_read_is_passed_over_and_reading_ends_where_records_do() {
    let mut body = record(b"one", 0, b"");
    body.extend_from_slice(&record(b"not zlib", sys_flag::COMPRESSED, b""));
    body.extend_from_slice(&record(b"no batch", sys_flag::INNER_BATCH | sys_flag::NEED_UNWRAP, b""));
    body.extend_from_slice(&record(b"two", 0, b""));
    body.extend_from_slice(&[0; 40]);
    body.extend_from_slice(&record(b"hidden", 0, b""));
    let bodies: Vec<_> = decode(&body, &queue(), 0).into_iter().map(|message| message.body).collect();
    assert_eq!(bodies, [b"one", b"two"]);
}
