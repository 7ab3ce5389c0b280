//! What counts as a lost sector.

use super::*;
use wire::record::{Fields, encode};

fn record(body_len: usize, properties: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let host = "127.0.0.1:10911".parse().unwrap();
    let fields = Fields {
        topic: "T",
        queue_id: 0,
        flag: 0,
        sys_flag: 0,
        born_timestamp: 1,
        born_host: host,
        store_host: host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body: &vec![7; body_len],
        properties,
        crc_property: false,
    };
    encode(&fields, &mut out).unwrap();
    out
}

#[test]
fn a_whole_record_is_never_torn_wherever_it_lies() {
    for properties in [b"".as_slice(), b"a\x01b\x02", &[b'x'; 2000]] {
        let bytes = record(300, properties);
        let view = RecordView::parse(&bytes).unwrap();
        for at in 0..1024 {
            assert!(!is_torn(&view, at), "{} bytes of properties at {at}", properties.len());
        }
    }
}

#[test]
fn a_zeroed_sector_of_the_properties_is_seen() {
    let mut bytes = record(300, &[b'x'; 2000]);
    let start = bytes.len() - 2000;
    let first = start.next_multiple_of(512);
    bytes[first..first + 512].fill(0);
    assert!(is_torn(&RecordView::parse(&bytes).unwrap(), 0));
}

#[test]
fn a_write_that_failed_inside_the_properties_is_seen_wherever_it_ended() {
    let whole = record(300, b"DELAY\x012\x02TAGS\x01TagA\x02");
    for written in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[written..].fill(0);
        for at in 0..512 {
            let accepted =
                RecordView::parse(&bytes).is_ok_and(|view| view.check_crc().is_ok() && !is_torn(&view, at));
            assert!(!accepted, "{written} bytes written at {at}");
        }
    }
}

#[test]
fn a_lost_sector_is_seen_wherever_it_begins() {
    for properties in [1usize, 2, 100, 256, 512, 700] {
        let whole = record(300, &vec![b'x'; properties]);
        for at in 0..512u64 {
            let first = (512 - at as usize) % 512;
            for sector in (first..whole.len()).step_by(512) {
                let mut bytes = whole.clone();
                let end = (sector + 512).min(bytes.len());
                bytes[sector..end].fill(0);
                let accepted = RecordView::parse(&bytes)
                    .is_ok_and(|view| view.check_crc().is_ok() && !is_torn(&view, at));
                assert!(!accepted, "{properties} bytes of properties at {at}, sector at {sector}");
            }
        }
    }
}
