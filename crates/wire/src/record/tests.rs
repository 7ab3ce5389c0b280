use super::*;
use crate::properties;
use proptest::prelude::*;

macro_rules! golden {
    ($name:literal) => {
        include_bytes!(concat!("golden/", $name)).as_slice()
    };
}

fn fields_of<'a>(view: &RecordView<'a>, crc_property: bool) -> RecordFields<'a> {
    let mut stored = view.properties();
    if crc_property {
        stored = &stored[..stored.len() - CRC_PROPERTY_BYTES];
    }
    RecordFields {
        topic: view.topic_str().unwrap(),
        queue_id: view.queue_id(),
        flag: view.flag(),
        sys_flag: view.sys_flag(),
        born_timestamp: view.born_timestamp(),
        born_host: view.born_host(),
        store_host: view.store_host(),
        reconsume_times: view.reconsume_times(),
        prepared_transaction_offset: view.prepared_transaction_offset(),
        body: view.body(),
        properties: stored,
        crc_property,
    }
}

fn encode_again(view: &RecordView<'_>, crc_property: bool) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&fields_of(view, crc_property), &mut out).unwrap();
    place(
        &mut out,
        &Placement {
            queue_offset: view.queue_offset(),
            log_offset: view.log_offset().unwrap(),
            store_timestamp: view.store_timestamp(),
        },
    );
    if crc_property {
        seal_crc_property(&mut out);
    }
    out
}

/// Every record of a piece of the log is parsed and written again byte for byte.
fn check_all(mut bytes: &[u8], records: usize) {
    for _ in 0..records {
        let view = RecordView::parse(bytes).unwrap();
        view.check_crc().unwrap();
        let crc_property = properties::get(view.properties(), properties::key::CRC32).is_some();
        view.check_crc_property().unwrap();
        assert_eq!([view.head(), view.body(), view.behind_body()].concat(), view.bytes());
        assert_eq!(encode_again(&view, crc_property), view.bytes());
        assert_eq!(peek_store_timestamp(bytes), Some(view.store_timestamp()));
        bytes = &bytes[view.size()..];
    }
    assert!(bytes.iter().all(|byte| *byte == 0), "bytes behind the last record");
}

#[test]
fn java_records_read_and_write_back() {
    check_all(golden!("record-v1.bin"), 1);
    check_all(golden!("record-v1-ipv6.bin"), 1);
    check_all(golden!("record-v2-longtopic.bin"), 1);
    check_all(golden!("record-prepared.bin"), 1);
    check_all(golden!("record-delay.bin"), 1);
    check_all(golden!("record-batch2.bin"), 2);
    check_all(golden!("record-innerbatch.bin"), 1);
    check_all(golden!("record-lmq.bin"), 1);
    check_all(golden!("record-v1-propcrc.bin"), 1);
    check_all(golden!("record-v1-propcrc-noprops.bin"), 1);
}

#[test]
fn the_log_of_a_java_broker_reads_and_writes_back() {
    let log = golden!("commitlog-head-6144.bin");
    check_all(log, 18);
    let mut at = 0;
    while let Ok(view) = RecordView::parse(&log[at..]) {
        assert_eq!(view.log_offset(), Some(LogOffset::new(at as u64)));
        at += view.size();
    }
    assert_eq!(at, 5858);
    assert_eq!(RecordView::parse(&log[at..]).unwrap_err(), RecordError::Magic { found: 0 });
}

#[test]
fn every_field_of_the_first_vector() {
    let view = RecordView::parse(golden!("record-v1.bin")).unwrap();
    assert_eq!((view.size(), view.magic(), view.body_crc()), (174, MAGIC_V1, 0x7330_7b09));
    assert_eq!((view.queue_id(), view.flag(), view.sys_flag()), (3, 0x1122_3344, 0));
    assert_eq!((view.queue_offset(), view.log_offset()), (QueueOffset::ZERO, Some(LogOffset::ZERO)));
    assert_eq!(view.born_timestamp(), 1_700_000_000_123);
    assert_eq!(view.born_host(), "10.0.0.7:50001".parse().unwrap());
    assert_eq!(view.store_host(), "10.0.0.9:10911".parse().unwrap());
    assert_eq!((view.reconsume_times(), view.prepared_transaction_offset()), (0, 0));
    assert_eq!((view.body(), view.topic_str()), (&b"hello rocketmq"[..], Some("TopicA")));
    assert_eq!(properties::get_str(view.properties(), "KEYS"), Some("k1 k2"));
    let v6 = RecordView::parse(golden!("record-v1-ipv6.bin")).unwrap();
    assert_eq!(v6.born_host(), "[2001:db8::7]:50001".parse().unwrap());
    assert_eq!(v6.store_host(), "[2001:db8::9]:10911".parse().unwrap());
    let v2 = RecordView::parse(golden!("record-v2-longtopic.bin")).unwrap();
    assert_eq!((v2.magic(), v2.topic().len()), (MAGIC_V2, 137));
}

#[test]
fn the_version_follows_the_topic_length() {
    let view = RecordView::parse(golden!("record-v1.bin")).unwrap();
    for (length, magic) in [(127, MAGIC_V1), (128, MAGIC_V2)] {
        let topic = "t".repeat(length);
        let mut out = Vec::new();
        let fields = RecordFields { topic: &topic, ..fields_of(&view, false) };
        assert_eq!(encode(&fields, &mut out).unwrap(), size_of(&fields));
        let again = RecordView::parse(&out).unwrap();
        assert_eq!((again.magic(), again.topic_str()), (magic, Some(topic.as_str())));
    }
}

#[test]
fn properties_of_32767_bytes_fit_and_one_more_is_refused() {
    let view = RecordView::parse(golden!("record-v1.bin")).unwrap();
    let long = vec![2u8; 32768];
    let mut out = b"kept".to_vec();
    let fields = RecordFields { properties: &long, ..fields_of(&view, false) };
    assert_eq!(encode(&fields, &mut out), Err(EncodeError::Properties { found: 32768 }));
    assert_eq!(out, b"kept");
    let fields = RecordFields { properties: &long[1..], ..fields_of(&view, false) };
    encode(&fields, &mut out).unwrap();
    assert_eq!(RecordView::parse(&out[4..]).unwrap().properties(), &long[1..]);
}

#[test]
fn the_blank_record_matches_java() {
    assert_eq!(encode_blank(47), golden!("blank-record.bin"));
    assert_eq!(RecordView::parse(golden!("blank-record.bin")).unwrap_err(), RecordError::Blank { size: 47 });
}

#[test]
fn a_flipped_byte_never_panics_and_a_cut_is_seen() {
    for record in
        [golden!("record-v1.bin"), golden!("record-v1-ipv6.bin"), golden!("record-v2-longtopic.bin")]
    {
        for cut in 0..record.len() {
            assert!(matches!(
                RecordView::parse(&record[..cut]),
                Err(RecordError::Truncated { found, .. }) if found == cut
            ));
        }
        for at in 0..record.len() {
            for bit in 0..8 {
                let mut damaged = record.to_vec();
                damaged[at] ^= 1 << bit;
                if let Ok(view) = RecordView::parse(&damaged) {
                    let _ = (view.check_crc(), view.body(), view.topic_str(), view.properties());
                    let _ = (view.store_host(), view.prepared_transaction_offset(), view.log_offset());
                }
            }
        }
    }
}

#[test]
fn compression_types() {
    use sys_flag::{Compression, compressed_with, compression};
    let cases = [
        (0x0, None),
        (0x100, None),
        (0x1, Some(Ok(Compression::Zlib))),
        (0x101, Some(Ok(Compression::Lz4))),
        (0x201, Some(Ok(Compression::Zstd))),
        (0x301, Some(Ok(Compression::Zlib))),
        (0x401, Some(Err(4))),
    ];
    for (flag, expected) in cases {
        assert_eq!(compression(flag), expected, "{flag:#x}");
    }
    assert_eq!(compressed_with(Compression::Zstd), 0x201);
}

fn any_host() -> impl Strategy<Value = SocketAddr> {
    (any::<IpAddr>(), any::<u16>()).prop_map(|(ip, port)| SocketAddr::new(ip, port))
}

proptest! {
    #[test]
    fn records_round_trip(
        topic in "[a-zA-Z%_-]{1,200}",
        numbers in any::<(i32, i32, i32, i32, i64, i64)>(),
        hosts in (any_host(), any_host()),
        parts in any::<(Vec<u8>, Vec<u8>, bool)>(),
        placed in (0..i64::MAX, 0..i64::MAX, any::<i64>()),
    ) {
        let (queue_id, flag, sys_flag, reconsume_times, born_timestamp, prepared_transaction_offset) = numbers;
        let (body, properties, crc_property) = parts;
        let fields = RecordFields {
            topic: &topic, queue_id, flag, sys_flag, born_timestamp, born_host: hosts.0, store_host: hosts.1,
            reconsume_times, prepared_transaction_offset, body: &body, properties: &properties, crc_property,
        };
        let mut out = Vec::new();
        let size = encode(&fields, &mut out).unwrap();
        let placement = Placement {
            queue_offset: QueueOffset::from_i64(placed.0).unwrap(),
            log_offset: LogOffset::from_i64(placed.1).unwrap(),
            store_timestamp: placed.2,
        };
        place(&mut out, &placement);
        if crc_property {
            seal_crc_property(&mut out);
        }
        let view = RecordView::parse(&out).unwrap();
        prop_assert_eq!(view.size(), size);
        view.check_crc().unwrap();
        prop_assert_eq!((view.queue_id(), view.flag(), view.reconsume_times()), (queue_id, flag, reconsume_times));
        prop_assert_eq!((view.born_host(), view.store_host()), hosts);
        prop_assert_eq!(view.store_timestamp(), placed.2);
        prop_assert_eq!((view.queue_offset(), view.log_offset()), (placement.queue_offset, Some(placement.log_offset)));
        prop_assert_eq!((view.body(), view.topic_str()), (&body[..], Some(topic.as_str())));
        prop_assert!(view.properties().starts_with(&properties));
        if !crc_property {
            prop_assert_eq!(encode_again(&view, false), view.bytes());
        }
    }

    #[test]
    fn any_bytes_are_survived(mut bytes in prop::collection::vec(any::<u8>(), 0..300), magic in any::<bool>(), size in 0u32..300) {
        if bytes.len() >= 8 {
            bytes[..4].copy_from_slice(&size.to_be_bytes());
            bytes[4..8].copy_from_slice(&if magic { MAGIC_V1 } else { MAGIC_V2 }.to_be_bytes());
        }
        if let Ok(view) = RecordView::parse(&bytes) {
            let _ = (view.check_crc(), view.topic(), view.properties());
        }
    }
}

#[test]
fn a_flip_anywhere_before_the_checksum_property_is_seen() {
    let record = golden!("record-v1-propcrc.bin");
    for at in 0..record.len() - CRC_PROPERTY_BYTES {
        let mut flipped = record.to_vec();
        flipped[at] ^= 4;
        // Where a length changes, the property is not found at its place, or the bytes are no record.
        let seen = RecordView::parse(&flipped).and_then(|view| view.check_crc_property());
        assert!(seen.is_err(), "byte {at}");
    }
    let mut flipped = record.to_vec();
    let digit = record.len() - 2;
    flipped[digit] ^= 1;
    assert!(RecordView::parse(&flipped).unwrap().check_crc_property().is_err());
}
