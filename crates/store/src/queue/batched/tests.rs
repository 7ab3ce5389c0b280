use super::*;
use wire::units::LogOffset;

/// Two units written by a broker of Apache RocketMQ 5.5.0.
const JAVAS_BYTES: [[u8; 46]; 2] = [
    *b"\0\0\0\0\0\0\0\0\0\0\0\x94\0\0\0\0\0\x27\xa8\x07\0\0\x01\xa1\xf8\x85\x84\xa2\0\0\0\0\0\0\0\0\0\x03\xff\xff\xff\xff\0\0\0\0",
    *b"\0\0\0\0\0\0\0\x94\0\0\0\x94\0\0\0\0\0\x27\xa8\x07\0\0\x01\xa1\xf8\x85\x84\xa6\0\0\0\0\0\0\0\x03\0\x02\xff\xff\xff\xff\0\0\0\0",
];

fn unit(at: u64, size: u32) -> Unit {
    Unit { log_offset: LogOffset::new(at), size, tags_code: 2_598_919 }
}

#[test]
fn a_unit_of_javas_is_read_and_written() {
    let first = BatchUnit { unit: unit(0, 148), store_time: 1_795_170_862_242, base: 0, count: 3 };
    let second = BatchUnit { unit: unit(148, 148), store_time: 1_795_170_862_246, base: 3, count: 2 };
    for (bytes, expected) in JAVAS_BYTES.iter().zip([first, second]) {
        assert_eq!(BatchUnit::from_bytes(bytes), Some(expected));
        assert_eq!(expected.to_bytes(), *bytes);
    }
    assert_eq!(second.end(), 5);
}

#[test]
fn a_place_without_a_unit_is_seen() {
    let change = |at: usize, byte: u8| {
        let mut bytes = JAVAS_BYTES[1];
        bytes[at] = byte;
        BatchUnit::from_bytes(&bytes)
    };
    assert_eq!(BatchUnit::from_bytes(&[0; 46]), None);
    // A negative log position, no size, a negative size, a negative base, no messages, a negative number of messages.
    for (at, byte) in [(0, 0x80), (11, 0), (8, 0x80), (28, 0x80), (37, 0), (36, 0x80)] {
        assert_eq!(change(at, byte), None, "byte {at}");
    }
    assert!(change(45, 1).is_some(), "what is reserved is not looked at");
}

#[test]
fn a_record_says_which_messages_it_is() {
    let check = |stored: &[u8], expected| assert_eq!(place_in(stored), expected, "{stored:?}");
    check(b"INNER_BASE\x010\x02TAGS\x01TagA\x02INNER_NUM\x013\x02", Some((0, 3)));
    check(b"INNER_NUM\x011\x02INNER_BASE\x010000000000000000042\x02", Some((42, 1)));
    check(b"INNER_NUM\x013\x02", None);
    check(b"INNER_BASE\x013\x02", None);
    check(b"INNER_NUM\x010\x02INNER_BASE\x010\x02", None);
    check(b"INNER_NUM\x0132768\x02INNER_BASE\x010\x02", None);
    check(b"INNER_NUM\x013\x02INNER_BASE\x01-1\x02", None);
}

#[test]
fn properties_of_a_record_are_completed() {
    let check = |sent: &[u8], flags, expected: (u64, u16)| {
        let (mut stored, count) = number(sent, flags).unwrap();
        let at = stored.len() - missing_base();
        put_base(&mut stored, at, expected.0);
        assert_eq!((place_in(&stored), count), (Some(expected), expected.1), "{stored:?}");
        assert_eq!(properties::get(&stored, key::TAGS), Some(&b"TagA"[..]));
    };
    check(
        b"TAGS\x01TagA\x02INNER_NUM\x013\x02INNER_BASE\x019\x02",
        sys_flag::INNER_BATCH,
        (4_000_000_000, 3),
    );
    check(b"TAGS\x01TagA\x02INNER_NUM\x0132767", sys_flag::INNER_BATCH, (i64::MAX.unsigned_abs(), 32_767));
    check(b"TAGS\x01TagA\x02INNER_NUM\x01x\x02", sys_flag::INNER_BATCH, (7, 1));
    // Without `INNER_BATCH` in the flags the property does not count.
    check(b"TAGS\x01TagA\x02INNER_NUM\x013\x02", 0, (0, 1));
    let long = format!("TAGS\x01{}\x02", "x".repeat(PROPERTIES_BYTES_MAX - 20));
    assert!(number(long.as_bytes(), 0).is_err());
}

#[test]
fn units_are_grouped_by_their_records() {
    let units = [unit(0, 9), unit(0, 9), Unit::PRE_BLANK, unit(9, 9), unit(18, 9), unit(18, 9)];
    let groups: Vec<_> =
        group(5, &units).iter().map(|it| (it.base, it.count, it.unit.log_offset.get())).collect();
    assert_eq!(groups, [(5, 2, 0), (8, 1, 9), (9, 2, 18)]);
}
