use super::*;
use wire::frame::FrameWriter;
use wire::record::{RecordFields, encode};

fn queue(queue_id: i32) -> Queue {
    Queue {
        target: Target { broker: "b".to_owned(), topic: None, queue_id },
        next: 0,
        end: 0,
        heard: false,
        asked_ns: None,
        asks: 0,
        floors: Vec::new(),
    }
}

/// A connection handle without a peer, and a reader of two queues.
fn reader() -> (Arc<ConnectionHandle>, Reader) {
    reader_of(&Workload::default())
}

fn reader_of(workload: &Workload) -> (Arc<ConnectionHandle>, Reader) {
    let address = "127.0.0.1:1".parse().unwrap();
    let counted = (Clock::start(), Arc::default(), None);
    let reader = Reader::new(workload, 0, (Destination::fixed(address), vec![queue(0), queue(1)]), counted);
    (Arc::new(ConnectionHandle::detached(1, address)), reader)
}

/// The ids of the frames in a buffer.
fn ids(mut bytes: Vec<u8>) -> Vec<i32> {
    let mut ids = Vec::new();
    while let Ok(Some(length)) = wire::frame::frame_length(&bytes) {
        let rest = bytes.split_off(length);
        ids.push(Command::decode(&mut bytes).unwrap().opaque);
        bytes = rest;
    }
    ids
}

/// Passes an answer without messages to the reader; returns the number of pull requests that follow.
fn answer(
    (peer, reader): (&Arc<ConnectionHandle>, &Reader),
    (opaque, code): (i32, i32),
    next_offset: i64,
) -> usize {
    let reply = PullResponseHeader {
        suggest_broker_id: 0,
        next_offset,
        min_offset: 0,
        max_offset: 9,
        topic_sys_flag: 0,
        group_sys_flag: 0,
    };
    let (mut frame, mut out) = (Vec::new(), Vec::new());
    let head = Head::response(Encoding::Binary, code, opaque);
    reply.write(FrameWriter::begin(&mut frame, head)).finish(b"");
    reader.frame(&mut Batch::default(), peer, Command::decode(&mut frame).unwrap(), &mut out);
    ids(out).len()
}

#[test]
fn pulls_are_signed() {
    let access = super::super::Access { access_key: "me".to_owned(), secret_key: "hush".to_owned() };
    let (_, reader) = reader_of(&Workload { access: Some(access.clone()), ..Workload::default() });
    let mut out = Vec::new();
    reader.pull_all(&mut out);
    let length = wire::frame::frame_length(&out).unwrap().unwrap();
    let command = Command::decode(&mut out[..length]).unwrap();
    let values = client::signed_fields(&command.fields).into_iter().map(|(_, value)| value);
    let expected = access.credentials().sign(values);
    assert_eq!((command.code, command.fields.text("AccessKey")), (request::PULL_MESSAGE, Some("me")));
    assert_eq!(command.fields.bytes("Signature"), Some(&expected[..]));
}

#[test]
fn the_answer_to_a_pull_that_was_made_again_counts_once() {
    let (peer, reader) = reader();
    let ask = || {
        let mut out = Vec::new();
        reader.state().queues.iter_mut().for_each(|queue| queue.asked_ns = None);
        reader.pull_all(&mut out);
        ids(out)
    };
    let (first, second) = (ask(), ask());
    assert!(first.iter().all(|id| !second.contains(id)), "{first:?} {second:?}");
    let answer = |opaque, next_offset| {
        let pulls = answer((&peer, &reader), (opaque, response::SUCCESS), next_offset);
        (reader.state().queues[1].next, pulls)
    };
    assert_eq!(answer(first[1], 5), (0, 0), "it came too late");
    assert_eq!(answer(second[1], 5), (5, 1));
    assert_eq!(answer(second[1], 7), (5, 0), "only once");
}

#[test]
fn what_a_broker_holds_that_is_gone_is_not_known_until_it_answers_again() {
    let (peer, reader) = reader();
    let connect = || {
        let mut out = Vec::new();
        reader.opened(&peer, &mut out);
        ids(out)
    };
    let read_all = |opaque| answer((&peer, &reader), (opaque, response::PULL_NOT_FOUND), 9);
    let pulls = connect();
    read_all(pulls[0]);
    assert!(!reader.knows_positions(), "one queue has not answered");
    read_all(pulls[1]);
    assert!(reader.knows_positions() && reader.behind() == 0);
    reader.closed(&peer);
    assert!(!reader.knows_positions(), "it may have stored more");
    let pulls = connect();
    assert!(!reader.knows_positions(), "nothing was answered yet");
    let refused = pulls.iter().map(|opaque| answer((&peer, &reader), (*opaque, response::SYSTEM_ERROR), 0));
    assert_eq!(refused.sum::<usize>(), 0, "asked again by the tick");
    assert!(!reader.knows_positions());
    let mut out = Vec::new();
    reader.pull_all(&mut out);
    let pulls = ids(out);
    read_all(pulls[0]);
    answer((&peer, &reader), (pulls[1], response::SUCCESS), 7);
    assert!(reader.knows_positions() && reader.behind() == 2);
}

/// Encodes a record with this body and its checksum.
fn record(body: &[u8]) -> Vec<u8> {
    let host = "127.0.0.1:1".parse().unwrap();
    let fields = RecordFields {
        topic: "t",
        queue_id: 0,
        flag: 0,
        sys_flag: 0,
        born_timestamp: 0,
        born_host: host,
        store_host: host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body,
        properties: b"",
        crc_property: false,
    };
    let mut out = Vec::new();
    encode(&fields, &mut out).unwrap();
    out
}

/// A reader that checks three messages of connection 1, and a function that makes the body of a message.
fn checked() -> (Arc<Ledger>, Reader, impl Fn(u64) -> Vec<u8>) {
    let workload = Workload { checked: true, ..Workload::default() };
    let ledger = Arc::new(Ledger::new(2, 1));
    (0..3).for_each(|sequence| ledger.issued(1, sequence));
    let bodies: Vec<_> = workload.messages().unwrap().into_iter().map(|message| message.body).collect();
    let plain = bodies[0].clone();
    let body = move |sequence| {
        let mut body = plain.clone();
        Mark { run: 0, connection: 1, sequence, floor: 0, since_us: 1 }.write(&mut body);
        body
    };
    let (_, mut reader) = reader_of(&workload);
    reader.check = Some(Arc::new(Check { ledger: ledger.clone(), bodies }));
    (ledger, reader, body)
}

/// The counts of received, changed and out-of-order messages out of three, the second of which has byte `at` changed.
/// With `is_sealed` the checksum is that of the changed body.
fn counts(at: usize, is_sealed: bool) -> [u64; 3] {
    let (ledger, reader, body) = checked();
    let (plain, mut changed, mut queue) = (body(1), body(1), queue(0));
    changed[at] ^= 0xff;
    let mut second = record(if is_sealed { &changed } else { &plain });
    let body_at = RecordView::parse(&second).unwrap().head().len();
    second[body_at + at] = changed[at];
    let mut batch = Batch::default();
    let answer = [record(&body(0)), second, record(&body(2))].concat();
    reader.count(&mut batch, &mut queue, &answer, 1_000);
    assert_eq!((batch.messages, batch.delays.len()), (3, 3), "all of them came");
    assert!(queue.floors.len() <= 2, "as many as there are connections");
    let counts = ledger.counts();
    ["received", "changed", "out_of_order"].map(|name| counts[name])
}

/// Offset in a mark of the run's number.
const RUN: usize = 4;

/// Offset in a mark of the connection's number.
const LANE: usize = 8;

/// Offset in a mark of the message's number.
const SEQUENCE: usize = 16;

/// Offset in a mark of the floor, below which all messages are settled.
const FLOOR: usize = 24;

#[test]
fn a_body_that_changed_on_its_way_is_counted_and_its_mark_not_believed() {
    for at in [0, RUN, LANE, LANE + 3, SEQUENCE, SEQUENCE + 7, FLOOR, MARK_BYTES, 1023] {
        assert_eq!(counts(at, false), [2, 1, 0], "byte {at}");
    }
}

#[test]
fn a_mark_of_a_message_that_was_never_sent_is_counted_as_changed() {
    for at in [LANE, LANE + 3, SEQUENCE, SEQUENCE + 7] {
        assert_eq!(counts(at, true), [2, 1, 0], "byte {at}");
    }
    assert_eq!(counts(MARK_BYTES, true), [3, 1, 0], "it is known which one it was");
    assert_eq!(counts(RUN, true), [2, 0, 0], "another run's");
}
