//! Tests of templates, slots and schedules.

use super::*;
use crate::load::Tally;
use grpc::messages::SendMessageRequest;
use net::{ConnectionHandle, Service};
use std::sync::Arc;
use std::time::Duration;
use wire::codes::{request, response};
use wire::frame::{Command, Encoding};
use wire::header::SendHeader;
use wire::properties;

/// Time after which requests of these tests are given up.
const TIMEOUT_NS: u64 = 1_000_000_000;

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
        credentials: None,
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
    since_us: 1_699_999_999_000_777,
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
            // An open loop that is a second late: the message has the intended send time.
            assert_eq!((header.born_timestamp, header.sys_flag), (1_699_999_999_000, 0x301));
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
fn every_request_is_signed_as_it_is_sent() {
    let credentials = client::Credentials::new("user", "secret");
    let message = Message { credentials: Some(credentials.clone()), ..message() };
    for encoding in [Encoding::Json, Encoding::Binary] {
        let single = Template::single(&message, &targets(), encoding);
        let batch = Template::batch(&Message { batch: 4, ..message.clone() }, 4, &targets(), encoding);
        for template in [single, batch] {
            let mut out = b"the request before".to_vec();
            let begin = out.len();
            template.append_filled(&mut out, 11, &STAMP, |body| body[50] = b'#');
            let command = Command::decode(&mut out[begin..]).unwrap();
            assert_eq!((command.body[50], command.fields.text("AccessKey")), (b'#', Some("user")));
            let values = client::signed_fields(&command.fields).into_iter().map(|(_, value)| value);
            let expected = credentials.sign(values.chain([command.body]));
            assert_eq!(command.fields.bytes("Signature"), Some(&expected[..]), "{encoding:?}");
        }
    }
}

#[test]
fn every_send_over_grpc_is_a_message_with_its_own_body() {
    let template = GrpcTemplate::new(message(), &targets());
    let mut out = Vec::new();
    for fill in [b'#', b'+'] {
        template.append_filled(&mut out, 11, &STAMP, |body| body[50] = fill);
    }
    let sent: Vec<_> = requests(&mut out).collect();
    assert!(sent.iter().all(|(opaque, _)| *opaque == STAMP.opaque));
    let bodies = sent.iter().map(|(_, framed)| {
        let request: SendMessageRequest = prost::Message::decode(&framed[5..]).unwrap();
        assert_eq!(request.messages[0].user_properties["aaa"], "aaaaa");
        (request.messages.len(), request.messages[0].body[50], request.messages[0].body.len())
    });
    let bytes = message().body.len();
    assert_eq!(bodies.collect::<Vec<_>>(), [(1, b'#', bytes), (1, b'+', bytes)]);
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
    let mut slots = Slots::new(3, TIMEOUT_NS);
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
    let mut slots = Slots::new(65_536, TIMEOUT_NS);
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
    let mut slots = Slots::new(2, TIMEOUT_NS);
    let first = slots.take(0, 0, 0).unwrap();
    assert_eq!(since(slots.refuse(first, 100)), Some(0));
    slots.wake(99);
    let second = slots.take(10, 10, 0).unwrap();
    assert_eq!(slots.take(10, 10, 0), None);
    slots.wake(100);
    assert!(slots.take(100, 100, 0).is_some());
    assert_eq!(slots.expire(TIMEOUT_NS + 9).len(), 0);
    assert_eq!(slots.expire(TIMEOUT_NS + 10).len(), 1);
    assert_eq!((slots.answer(second), slots.in_flight()), (None, 1));
    assert_eq!((slots.abandon().len(), slots.in_flight()), (1, 0));
    assert!(slots.take(0, 0, 0).is_some() && slots.take(0, TIMEOUT_NS, 0).is_some());
    assert_eq!(
        slots.expire(TIMEOUT_NS + 1).len(),
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

/// A connection with three requests in flight whose handle has no peer, and the bytes that it sends first.
fn connection(turn: Option<Turn>) -> (Connection<Template>, Arc<Tally>, Arc<ConnectionHandle>, Vec<u8>) {
    let options = ConnectionOptions {
        in_flight: 3,
        work: Template::single(&message(), &targets(), Encoding::Binary),
        first_queue: 0,
        quantity: Some(3),
        pace: None,
        messages_each: 1,
        send_timeout: Duration::from_nanos(TIMEOUT_NS),
        turn,
    };
    let tally = Arc::new(Tally::default());
    let connection = Connection::new(options, Clock::start(), tally.clone());
    let peer = Arc::new(ConnectionHandle::detached(1, "127.0.0.1:1".parse().unwrap()));
    let mut out = Vec::new();
    connection.opened(&peer, &mut out);
    (connection, tally, peer, out)
}

#[test]
fn a_quantity_counts_attempts() {
    let (connection, tally, peer, mut sent) = connection(None);
    let (mut answered, mut out) = (connection.read_batch(), Vec::new());
    while !sent.is_empty() {
        let length = wire::frame::frame_length(&sent).unwrap().unwrap();
        let rest = sent.split_off(length);
        let head = Command::decode(&mut sent).unwrap().response(response::TOPIC_NOT_EXIST);
        let head = head.remark("no route of this topic\nat org.apache");
        let mut answer = Vec::new();
        head.write(&mut answer, b"");
        connection.frame(&mut answered, &peer, Command::decode(&mut answer).unwrap(), &mut out);
        sent = rest;
    }
    connection.end(&mut answered, &peer, &mut out);
    assert_eq!(tally.snapshot(0).response_failed, 3);
    let refusal = tally.take_refusal().unwrap();
    assert_eq!(refusal.to_string(), "code 17: no route of this topic");
    assert_eq!(tally.take_refusal(), None, "told once");
    assert!(connection.is_done() && out.is_empty(), "a topic that refuses everything ends the run too");
}

#[test]
fn a_broker_that_is_not_there_uses_a_quantity_up() {
    let turn = || Spread::new(2, 1, 1, false).turn(1);
    let (waiting, tally, _, sent) = connection(turn());
    waiting.unreachable();
    assert_eq!((sent.len(), tally.snapshot(0).send_failed), (0, 0), "it is another one's turn");
    let (connection, tally, peer, _) = connection(None);
    connection.closed(&peer);
    assert_eq!(tally.snapshot(0).send_failed, 3);
    assert!(connection.is_done());
}

#[test]
fn a_send_is_given_up_after_the_time_of_its_load() {
    let (connection, tally, ..) = connection(None);
    let sent_ns = connection.clock().now_ns();
    connection.expire(TIMEOUT_NS / 2);
    assert!(connection.in_flight() == 3 && !connection.is_in_doubt());
    connection.expire(sent_ns + TIMEOUT_NS);
    assert_eq!((connection.in_flight(), tally.snapshot(0).send_failed), (0, 3));
    assert!(connection.is_in_doubt(), "its master may be another broker now");
}

#[test]
fn requests_that_were_given_up_have_a_latency() {
    let tally = Tally::default();
    tally.answered(&[1000], 1);
    tally.expired(&[3_000_000]);
    let snapshot = tally.snapshot(0);
    assert_eq!((snapshot.succeeded, snapshot.micros_max), (1, 1000), "the scripts know successes only");
    assert!(tally.latency().percentiles().p9999.abs_diff(3_000_000) < 3000);
    let mut slots = Slots::new(1, TIMEOUT_NS);
    slots.take(5, TIMEOUT_NS, 7).unwrap();
    assert_eq!(slots.expire(2 * TIMEOUT_NS), [Flight { since_ns: 5, sequence: 7 }]);
}
