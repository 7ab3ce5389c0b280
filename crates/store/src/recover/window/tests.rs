//! Tests of lost sectors, and of a window's treatment of unreadable sectors.

use super::*;
use wire::record::{RecordFields, encode};

fn record(body_len: usize, properties: &[u8]) -> Vec<u8> {
    record_of(&vec![7; body_len], properties)
}

fn record_of(body: &[u8], properties: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let host = "127.0.0.1:10911".parse().unwrap();
    let fields = RecordFields {
        topic: "T",
        queue_id: 0,
        flag: 0,
        sys_flag: 0,
        born_timestamp: 1,
        born_host: host,
        store_host: host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body,
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

/// A file of six pages: a record in the first, a record of zeros in the next three, another record in the fifth. The disk
/// cannot read the range `unreadable`.
fn unreadable(part: std::ops::Range<u64>) -> Window {
    let (disk, path) = (crate::FakeDisk::new(512), std::path::Path::new("/log"));
    let file = crate::Disk::create(&disk, path, 6 * PAGE_BYTES, crate::Space::Sparse).unwrap();
    let head = record(0, b"").len();
    for (page, pages, byte) in [(0, 1, 7), (1, 3, 0), (4, 1, 7)] {
        let mut bytes = record_of(&vec![byte; pages * PAGE_BYTES as usize - head], b"");
        let (queue_offset, log_offset) = (wire::units::QueueOffset::ZERO, LogOffset::new(page * PAGE_BYTES));
        let placement = wire::record::Placement { queue_offset, log_offset, store_timestamp: 1 };
        wire::record::place(&mut bytes, &placement);
        file.write_at(&bytes, page * PAGE_BYTES).unwrap();
    }
    disk.set_unreadable(path, part);
    let segment = Segment { base: 0, path: path.to_owned(), file, written_ahead: Default::default() };
    Window::new(Arc::new(segment), 6 * PAGE_BYTES)
}

#[test]
fn a_tolerant_reader_finds_the_record_behind_what_cannot_be_read() {
    // The second page of the record of zeros: the zeros put in its place would be right by chance.
    let part = 2 * PAGE_BYTES + 100..2 * PAGE_BYTES + 101;
    assert!(find(&mut unreadable(part.clone()), 0).is_err());
    let mut window = unreadable(part).tolerant(PAGE_BYTES);
    assert!(matches!(find(&mut window, 0), Ok(LogContent::Record(_))));
    let found = find(&mut window, PAGE_BYTES).unwrap();
    assert!(
        matches!(&found, LogContent::Damage(what) if what.starts_with("bytes 8192 to 12288 of the file cannot be read"))
    );
    let next = next_whole(&mut window, PAGE_BYTES, 6 * PAGE_BYTES).unwrap();
    assert_eq!(next, Some(4 * PAGE_BYTES));
    let places: Vec<_> = window.unreadable.iter().map(|part| (part.at, part.end)).collect();
    assert_eq!(places, [(2 * PAGE_BYTES, 3 * PAGE_BYTES)]);
}

#[test]
fn more_than_is_tolerated_is_an_error() {
    let mut window = unreadable(0..3 * PAGE_BYTES).tolerant(2 * PAGE_BYTES);
    assert_eq!(window.get(0, 8).unwrap_err().raw_os_error(), Some(5));
    let mut window = unreadable(0..2 * PAGE_BYTES).tolerant(2 * PAGE_BYTES);
    assert_eq!(next_whole(&mut window, 0, 6 * PAGE_BYTES).unwrap(), Some(4 * PAGE_BYTES));
}

#[test]
fn a_reader_that_gives_up_has_read_what_lies_before_and_takes_the_rest_for_unreadable() {
    let places =
        |window: &Window| window.unreadable.iter().map(|part| (part.at, part.end)).collect::<Vec<_>>();
    let mut window = unreadable(PAGE_BYTES..4 * PAGE_BYTES).giving_up_after(2 * PAGE_BYTES);
    assert!(matches!(find(&mut window, 0), Ok(LogContent::Record(_))));
    assert_eq!(places(&window), [(PAGE_BYTES, 6 * PAGE_BYTES)]);
    assert!(matches!(find(&mut window, 4 * PAGE_BYTES), Ok(LogContent::Damage(_))));
    assert_eq!(next_whole(&mut window, PAGE_BYTES, 6 * PAGE_BYTES).unwrap(), None);
    // The unreadable pages are not tried again, and no byte of an earlier position stays in the window.
    assert_eq!(window.get(5 * PAGE_BYTES, 8).unwrap(), [0; 8]);
    assert!(window.get(4 * PAGE_BYTES, 8).unwrap().iter().all(|byte| *byte == 0));
    assert_eq!(places(&window), [(PAGE_BYTES, 6 * PAGE_BYTES)]);
    let mut window = unreadable(PAGE_BYTES..3 * PAGE_BYTES).giving_up_after(2 * PAGE_BYTES);
    assert_eq!(next_whole(&mut window, PAGE_BYTES, 6 * PAGE_BYTES).unwrap(), Some(4 * PAGE_BYTES));
}

#[test]
fn unreadable_parts_are_in_order_whatever_the_order_they_are_met_in() {
    let mut window = unreadable(0..0).tolerant(u64::MAX);
    let failed = || io::Error::from_raw_os_error(5);
    for page in [3, 1, 2, 0, 5] {
        window.note(page * PAGE_BYTES, (page + 1) * PAGE_BYTES, failed()).unwrap();
    }
    let inside = |page: u64| window.unreadable_in(page * PAGE_BYTES, (page + 1) * PAGE_BYTES).count();
    assert_eq!([0, 1, 2, 3, 4, 5].map(inside), [1, 1, 1, 1, 0, 1]);
    assert!(window.unreadable.is_sorted_by_key(|part| part.at));
    assert_eq!(window.unreadable_bytes, 5 * PAGE_BYTES);
}
