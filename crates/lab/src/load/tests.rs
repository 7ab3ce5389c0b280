//! Templates, slots and schedules.

use super::*;
use wire::codes::request;
use wire::frame::{Command, Encoding};
use wire::header::SendHeader;
use wire::properties;

fn message() -> Message {
    Message {
        group: "g".to_owned(),
        topic: "T".to_owned(),
        body: body(100, 1),
        sys_flag: 0x301,
        keys: true,
        tags: 3,
        property_size: 5,
        delay_level: 2,
        key_prefix: [127, 0, 0, 1, 1, 2, 3, 4, 5, 6],
        batch: 0,
        is_half: false,
        is_one_way: false,
    }
}

fn targets() -> Vec<Target> {
    (0..12).map(|queue_id| Target { broker: "broker-a".to_owned(), topic: None, queue_id }).collect()
}

const STAMP: Stamp = Stamp {
    opaque: 1_000_000_777,
    epoch_ms: 1_700_000_000_123,
    month_ms: 0x0102_0304,
    counter: 0xfffe,
    sequence: 0,
    floor: 0,
    since_us: 0,
};

#[test]
fn patched_requests_decode() {
    for encoding in [Encoding::Json, Encoding::Binary] {
        let template = Template::single(&message(), &targets(), encoding);
        assert_eq!((template.queues(), template.keys()), (12, 1));
        let mut out = Vec::new();
        for queue in [11, 0] {
            out.clear();
            template.append(&mut out, queue, &STAMP);
            let command = Command::decode(&mut out).unwrap();
            assert_eq!((command.code, command.opaque), (request::SEND_MESSAGE_V2, STAMP.opaque));
            assert_eq!((command.encoding, command.body), (encoding, &message().body[..]));
            assert!(!command.is_one_way());
            let header = SendHeader::decode(command.code, &command.fields).unwrap();
            assert_eq!((header.queue_id, header.broker_name), (queue as i32, "broker-a"));
            assert_eq!((header.born_timestamp, header.sys_flag), (1_700_000_000_123, 0x301));
            let get = |name| properties::get_str(header.properties, name).unwrap();
            assert_eq!(get("UNIQ_KEY"), "7F00000101020304050601020304FFFE");
            assert_eq!((get("KEYS"), get("TAGS")), ("1700000000", "tag2"));
            assert_eq!((get("DELAY"), get("WAIT"), get("aaa")), ("2", "true", "aaaaa"));
        }
    }
}

#[test]
fn one_way_requests_say_so() {
    for encoding in [Encoding::Json, Encoding::Binary] {
        let template = Template::single(&Message { is_one_way: true, ..message() }, &targets(), encoding);
        let mut out = Vec::new();
        template.append(&mut out, 0, &STAMP);
        let command = Command::decode(&mut out).unwrap();
        assert_eq!((command.is_one_way(), command.opaque), (true, STAMP.opaque), "{encoding:?}");
    }
}

#[test]
fn batches_have_a_key_per_message() {
    let message = Message { batch: 4, ..message() };
    for encoding in [Encoding::Json, Encoding::Binary] {
        let template = Template::batch(&message, 4, &targets(), encoding);
        assert_eq!(template.keys(), 4);
        let mut out = Vec::new();
        template.append(&mut out, 3, &STAMP);
        let command = Command::decode(&mut out).unwrap();
        assert_eq!(command.code, request::SEND_BATCH_MESSAGE);
        let header = SendHeader::decode(command.code, &command.fields).unwrap();
        assert!(header.batch && header.properties.is_empty() && header.queue_id == 3);
        let entries: Vec<_> = wire::batch::entries(command.body).map(Result::unwrap).collect();
        let get = |index: usize, name| properties::get_str(entries[index].properties, name).unwrap();
        assert_eq!(entries.len(), 4);
        assert!(entries.iter().all(|entry| entry.body == message.body));
        let ends: Vec<_> = (0..4).map(|index| &get(index, "UNIQ_KEY")[28..]).collect();
        assert_eq!(ends, ["FFFE", "FFFF", "0000", "0001"]);
        assert_eq!((get(0, "TAGS"), get(3, "TAGS"), get(3, "KEYS")), ("tag0", "tag0", "1700000000"));
    }
}

#[test]
fn bodies_are_printable_and_repeatable() {
    assert_eq!(body(64, 7), body(64, 7));
    assert_ne!(body(64, 7), body(64, 8));
    assert!(body(1000, 7).iter().all(u8::is_ascii_alphanumeric));
}

fn since(flight: Option<Flight>) -> Option<u64> {
    flight.map(|flight| flight.since_ns)
}

#[test]
fn slots_are_found_by_id() {
    let mut slots = Slots::new(3);
    let ids: Vec<_> = (0..3).map(|time| slots.take(time, time, 0).unwrap()).collect();
    assert_eq!((slots.take(3, 3, 0), slots.in_flight()), (None, 3));
    assert_eq!(since(slots.answer(ids[1])), Some(1));
    assert_eq!(slots.answer(ids[1]), None, "only once");
    let fresh = slots.take(9, 9, 0).unwrap();
    assert_ne!(fresh, ids[1]);
    assert_eq!(slots.answer(ids[1]), None, "an answer to the request before");
    assert_eq!(since(slots.answer(fresh)), Some(9));
    assert_eq!((slots.answer(0), slots.answer(-5), slots.answer(1_000_000_003)), (None, None, None));
}

#[test]
fn ids_stay_in_range_and_differ_while_they_wrap() {
    let mut slots = Slots::new(65_536);
    let mut seen = std::collections::HashSet::new();
    for round in 0..40_000 {
        let id = slots.take(0, 0, 0).unwrap();
        assert!((1_000_000_000..2_100_000_000).contains(&id), "{id}");
        assert_eq!(seen.insert(id), round < 1 << 14, "a place has 2^30 / 65536 ids");
        assert_eq!(since(slots.answer(id)), Some(0));
    }
}

#[test]
fn refused_places_rest_and_lost_ones_return() {
    let mut slots = Slots::new(2);
    let first = slots.take(0, 0, 0).unwrap();
    assert_eq!(since(slots.refuse(first, 100)), Some(0));
    slots.wake(99);
    let second = slots.take(10, 10, 0).unwrap();
    assert_eq!(slots.take(10, 10, 0), None);
    slots.wake(100);
    assert!(slots.take(100, 100, 0).is_some());
    assert_eq!(slots.expire(WAIT_NS + 9).len(), 0);
    assert_eq!(slots.expire(WAIT_NS + 10).len(), 1);
    assert_eq!((slots.answer(second), slots.in_flight()), (None, 1));
    assert_eq!((slots.abandon().len(), slots.in_flight()), (1, 0));
    assert!(slots.take(0, 0, 0).is_some() && slots.take(0, WAIT_NS, 0).is_some());
    assert_eq!(
        slots.expire(WAIT_NS + 1).len(),
        1,
        "the limit counts from sending, not from the intended time"
    );
}

#[test]
fn a_schedule_does_not_drift() {
    let mut pace = Pace::new(1000.0);
    assert_eq!(pace.take(0), Some(0));
    assert_eq!(pace.take(999_999), None);
    assert_eq!(pace.take(1_000_000), Some(1_000_000));
    let late: Vec<_> = std::iter::from_fn(|| pace.take(10_000_000_000)).collect();
    assert_eq!(late.len(), 9_999, "everything missed is due, at the time it was due");
    assert_eq!((late[0], late[9_998]), (2_000_000, 10_000_000_000));
    let mut fast = Pace::new(1_000_000.0);
    let due = std::iter::from_fn(|| fast.take(50_000)).count();
    assert_eq!(due, 51);
}

#[test]
fn a_ramp_ends_at_its_last_rate() {
    let mut pace = Pace::ramp(0.0, 1000.0, 10.0).starting(7_000_000_000);
    let mut until = |second: u64| std::iter::from_fn(|| pace.take((7 + second) * 1_000_000_000)).count();
    assert_eq!(until(0), 1);
    assert!(until(5).abs_diff(1250) <= 1, "half the way, a quarter of the area");
    assert!(until(10).abs_diff(3750) <= 1);
    assert!(until(12).abs_diff(2000) <= 1, "the rate stays");
    let mut falling = Pace::ramp(1000.0, 500.0, 10.0);
    assert_eq!(std::iter::from_fn(|| falling.take(9_999_000_000)).count(), 7500);
    assert!(falling.due_ns().abs_diff(10_000_000_000) < 1_000_000);
}
