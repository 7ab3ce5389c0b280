//! Pop consumption (§19, checklist 30 to 36) and assignment by the broker (§8).

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use wire::body::{BatchAck, BatchAckBody, QueryAssignmentResponseBody};
use wire::codes::{request, response};
use wire::frame::FrameWriter;
use wire::header::SendHeader;
use wire::pop::{Handle, Kind};
use wire::record::RecordView;
use wire::{json, properties};

use crate::common::wire_client::{Arrived, Connection, send_header};
use crate::stage::{FAQ, Stage, beat, eventually, heartbeat};

/// A pop of group `CG`.
#[derive(Clone, Copy)]
struct Pop<'a> {
    topic: &'a str,
    queue_id: i32,
    count: i32,
    invisible_ms: i64,
    poll_ms: i64,
    init_mode: i32,
    order: bool,
    attempt_id: Option<&'a str>,
    expression: &'a str,
}

const POP: Pop<'_> = Pop {
    topic: "T",
    queue_id: 0,
    count: 32,
    invisible_ms: 60_000,
    poll_ms: 0,
    init_mode: 0,
    order: false,
    attempt_id: None,
    expression: "*",
};

/// End of the remark about a pop that is older than its own patience.
const TOO_LATE: &str = "pop message is timeout too much";

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64
}

/// Says to the compiler what a closure that writes fields is.
fn writing<F: for<'b> Fn(FrameWriter<'b>) -> FrameWriter<'b>>(fields: F) -> F {
    fields
}

/// Asks without waiting for the answer.
fn ask(connection: &mut Connection, pop: &Pop<'_>) -> i32 {
    let fields = writing(|writer| {
        let writer = writer
            .text("consumerGroup", "CG")
            .text("topic", pop.topic)
            .number("queueId", pop.queue_id)
            .number("maxMsgNums", pop.count)
            .number("invisibleTime", pop.invisible_ms)
            .number("pollTime", pop.poll_ms)
            .number("bornTime", now_ms())
            .number("initMode", pop.init_mode)
            .text("expType", "TAG")
            .text("exp", pop.expression)
            .flag("order", pop.order);
        writer.maybe("attemptId", pop.attempt_id)
    });
    connection.ask(request::POP_MESSAGE, fields, b"").unwrap()
}

fn pop(connection: &mut Connection, pop: &Pop<'_>) -> Arrived {
    let opaque = ask(connection, pop);
    connection.answer(opaque).unwrap()
}

/// A popped message.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Popped {
    topic: String,
    queue_id: i32,
    offset: i64,
    body: String,
    times: i32,
    handle: String,
    properties: String,
}

/// The messages of an answer with the handles a client makes for them.
fn messages(answer: &Arrived) -> Vec<Popped> {
    let mut rest = answer.body.as_slice();
    let mut found = Vec::new();
    while !rest.is_empty() {
        let record = RecordView::parse(rest).unwrap();
        record.check_crc().unwrap();
        let text = String::from_utf8_lossy(record.properties()).into_owned();
        let (queue_id, offset) = (record.queue_id(), record.raw_queue_offset());
        let made = || {
            let starts = answer.field("startOffsetInfo").unwrap();
            let entry = |entry: &&str| entry.starts_with(&format!("0 {queue_id} "));
            let start = starts.split(';').find(entry).unwrap().rsplit(' ').next().unwrap();
            let handle = Handle {
                start_offset: start.parse().unwrap(),
                pop_ms: answer.number("popTime"),
                invisible_ms: answer.number("invisibleTime"),
                revive_queue: answer.number("reviveQid") as i32,
                kind: Kind::Normal,
                broker_name: "broker-a",
                queue_id: Some(queue_id),
                offset: Some(offset),
            };
            handle.to_string()
        };
        let handle = properties::get_str(text.as_bytes(), "POP_CK").map_or_else(made, str::to_owned);
        found.push(Popped {
            topic: record.topic_str().unwrap().to_owned(),
            queue_id,
            offset,
            body: String::from_utf8_lossy(record.body()).into_owned(),
            times: record.reconsume_times(),
            handle,
            properties: text,
        });
        rest = &rest[record.size()..];
    }
    found
}

fn bodies(messages: &[Popped]) -> Vec<&str> {
    messages.iter().map(|message| message.body.as_str()).collect()
}

/// The topic a message is acknowledged in.
fn real_topic(message: &Popped) -> String {
    Handle::parse(&message.handle).map_or(Kind::Normal, |handle| handle.kind).topic(&message.topic, "CG")
}

fn settle(connection: &mut Connection, code: i32, message: &Popped, more: &[(&str, i64)]) -> Arrived {
    let topic = real_topic(message);
    let fields = writing(|writer| {
        let writer = writer
            .text("consumerGroup", "CG")
            .text("topic", &topic)
            .number("queueId", message.queue_id)
            .text("extraInfo", &message.handle)
            .number("offset", message.offset);
        more.iter().fold(writer, |writer, (name, value)| writer.number(name, *value))
    });
    connection.call(code, fields, b"")
}

fn ack(connection: &mut Connection, message: &Popped) -> Arrived {
    settle(connection, request::ACK_MESSAGE, message, &[])
}

fn acked(connection: &mut Connection, message: &Popped) {
    let answer = ack(connection, message);
    assert_eq!(answer.code, 0, "{answer:?}");
}

fn fill(connection: &mut Connection, topic: &str, bodies: &[&str]) {
    for body in bodies {
        connection.stored(&send_header(topic, 0), body.as_bytes());
    }
}

fn stage(lines: &[&str]) -> (Stage, Connection) {
    let stage = Stage::start(&[&["brokerName=broker-a"], lines].concat());
    let connection = stage.connect();
    (stage, connection)
}

/// Repeats `steps`, each time with a server of its own, until they end while the messages that they pop are invisible. Steps of a slow
/// machine come too late to show anything.
fn while_invisible<T>(
    lines: &[&str],
    invisible_ms: u64,
    steps: impl Fn(&mut Connection) -> T,
) -> (Stage, Connection, T) {
    eventually("steps that end in time", || {
        let (stage, mut connection) = stage(lines);
        let began = Instant::now();
        let outcome = steps(&mut connection);
        (began.elapsed() < Duration::from_millis(invisible_ms)).then_some((stage, connection, outcome))
    })
}

/// The messages that come back.
fn come_back(connection: &mut Connection, pop_them: &Pop<'_>, count: usize) -> Vec<Popped> {
    let mut found = Vec::new();
    eventually("messages come back", || {
        let answer = pop(connection, &Pop { poll_ms: 0, ..*pop_them });
        if answer.code == 0 {
            found.extend(messages(&answer));
        }
        (found.len() >= count).then_some(())
    });
    found
}

fn committed(connection: &mut Connection, topic: &str, queue_id: i32) -> i64 {
    let fields = writing(|writer| {
        let writer = writer.text("consumerGroup", "CG").text("topic", topic).number("queueId", queue_id);
        writer.flag("setZeroIfNotFound", false)
    });
    let answer = connection.call(request::QUERY_CONSUMER_OFFSET, fields, b"");
    if answer.code == 0 { answer.number("offset") } else { -1 }
}

/// Number of pops that wait for a queue of `T`.
fn waiting_at(connection: &mut Connection, queue_id: i32) -> i64 {
    let fields =
        writing(|writer| writer.text("consumerGroup", "CG").text("topic", "T").number("queueId", queue_id));
    connection.call(request::POLLING_INFO, fields, b"").number("pollingNum")
}

#[test]
fn two_members_share_what_they_pop_and_one_goes_on_for_the_other() {
    let (stage, mut sender) = stage(&[]);
    let wanted = Pop { queue_id: -1, count: 4, invisible_ms: 3_600_000, ..POP };
    let mut members = vec![stage.connect(), stage.connect()];
    let mut all = Vec::new();
    for (round, share_min) in [("shared", 1), ("alone", 100)] {
        for number in 0..100 {
            sender.stored(&send_header("T", number % 4), format!("{round} {number}").as_bytes());
        }
        let mut shares = vec![0; members.len()];
        let total = all.len() + 100;
        eventually("all messages are popped", || {
            for (member, share) in members.iter_mut().zip(&mut shares) {
                for message in messages(&pop(member, &wanted)) {
                    acked(member, &message);
                    all.push(message.body);
                    *share += 1;
                }
            }
            (all.len() >= total).then_some(())
        });
        assert!(shares.iter().all(|share| *share >= share_min), "{shares:?}");
        // A pop that waits on a connection that ends gets no message.
        for mut member in members.drain(1..) {
            ask(&mut member, &Pop { poll_ms: 600_000, ..wanted });
            eventually("the pop waits", || (waiting_at(&mut sender, -1) == 1).then_some(()));
        }
        eventually("the pop is gone", || (waiting_at(&mut sender, -1) == 0).then_some(()));
    }
    let bodies = |round: &str| (0..100).map(|number| format!("{round} {number}")).collect::<Vec<_>>();
    let mut sent = [bodies("shared"), bodies("alone")].concat();
    sent.sort();
    all.sort();
    assert_eq!(all, sent, "each once");
}

/// Checklist 30, with checkpoints in the log or in memory.
fn what_is_not_acknowledged_comes_back(lines: &[&str]) {
    let (_stage, mut connection, (asked, answer, codes)) = while_invisible(lines, 5000, |connection| {
        fill(connection, "T", &["a", "b", "c"]);
        let asked = Instant::now();
        let answer = pop(connection, &Pop { invisible_ms: 5000, ..POP });
        let popped = messages(&answer);
        let acks = [0, 2].map(|number| ack(connection, &popped[number]).code);
        (asked, answer, [acks[0], acks[1], pop(connection, &POP).code])
    });
    assert_eq!((answer.code, answer.remark()), (0, "FOUND"), "{answer:?}");
    assert_eq!(
        (answer.field("startOffsetInfo"), answer.field("msgOffsetInfo")),
        (Some("0 0 0"), Some("0 0 0,1,2"))
    );
    assert_eq!(answer.number("restNum"), 0);
    let popped = messages(&answer);
    assert_eq!(bodies(&popped), ["a", "b", "c"]);
    assert_eq!(codes, [0, 0, response::POLLING_TIMEOUT], "two are acknowledged, and all are invisible");
    // Held until it comes.
    let again = Pop { poll_ms: 9000, ..POP };
    let answer = eventually("it comes back", || Some(pop(&mut connection, &again)).filter(|it| it.code == 0));
    assert!(asked.elapsed() > Duration::from_secs(6), "came back after {:?}", asked.elapsed());
    let back = messages(&answer);
    assert_eq!((bodies(&back), back[0].times, back[0].topic.as_str()), (vec!["b"], 1, "T"), "{answer:?}");
    let handle = Handle::parse(&back[0].handle).unwrap();
    assert_eq!((handle.kind, handle.broker_name, handle.queue_id), (Kind::RetryV1, "broker-a", Some(0)));
    assert!(properties::get(back[0].properties.as_bytes(), "1ST_POP_TIME").is_some());
    acked(&mut connection, &back[0]);
    eventually("the offset follows", || (committed(&mut connection, "T", 0) == 3).then_some(()));
    eventually("that of the retry topic too", || {
        (committed(&mut connection, "%RETRY%CG_T", 0) == 1).then_some(())
    });
}

#[test]
fn check_30_what_is_not_acknowledged_comes_back() {
    what_is_not_acknowledged_comes_back(&[]);
}

#[test]
fn check_30_what_is_not_acknowledged_comes_back_from_memory() {
    what_is_not_acknowledged_comes_back(&["enablePopBufferMerge=true"]);
}

#[test]
fn check_31_handles_are_acknowledged() {
    let (_stage, mut connection) = stage(&[]);
    fill(&mut connection, "T", &["a", "b"]);
    let popped = messages(&pop(&mut connection, &POP));
    assert_eq!(Handle::parse(&popped[1].handle).unwrap().offset, Some(1));
    acked(&mut connection, &popped[0]);
    acked(&mut connection, &popped[0]);
    let beyond = Popped { offset: 3, ..popped[0].clone() };
    let answer = ack(&mut connection, &beyond);
    assert_eq!(
        (answer.code, answer.remark()),
        (response::NO_MESSAGE, "offset is illegal, key:T@0, commit:3, store:0~2")
    );
    let elsewhere = Popped { queue_id: 99, ..popped[0].clone() };
    let answer = ack(&mut connection, &elsewhere);
    assert_eq!(answer.code, response::MESSAGE_ILLEGAL, "{answer:?}");
    let nowhere = Popped { topic: "Nowhere".to_owned(), ..popped[0].clone() };
    let answer = ack(&mut connection, &nowhere);
    let remark = format!("topic[Nowhere] not exist, apply first please! {FAQ}");
    assert_eq!((answer.code, answer.remark()), (response::TOPIC_NOT_EXIST, remark.as_str()));
    let answer = ack(
        &mut connection,
        &Popped { handle: "0 1".to_owned(), topic: "T".to_owned(), ..popped[0].clone() },
    );
    assert_ne!(answer.code, 0, "{answer:?}");
}

#[test]
fn check_32_a_message_stays_invisible_for_longer() {
    let (_stage, mut connection, (asked, popped, answer)) = while_invisible(&[], 4000, |connection| {
        fill(connection, "T", &["a"]);
        let popped = messages(&pop(connection, &Pop { invisible_ms: 4000, ..POP }));
        let asked = Instant::now();
        let longer = [("invisibleTime", 5000)];
        let answer = settle(connection, request::CHANGE_MESSAGE_INVISIBLETIME, &popped[0], &longer);
        // The old handle is worth nothing any more.
        acked(connection, &popped[0]);
        (asked, popped, answer)
    });
    assert_eq!(answer.code, 0, "{answer:?}");
    let old = Handle::parse(&popped[0].handle).unwrap();
    assert_eq!(
        (answer.number("invisibleTime"), answer.number("reviveQid")),
        (5000, i64::from(old.revive_queue))
    );
    assert!(answer.number("popTime") > old.pop_ms, "the old handle names another pop");
    let back = come_back(&mut connection, &POP, 1);
    assert!(asked.elapsed() > Duration::from_secs(5), "came back after {:?}", asked.elapsed());
    assert_eq!((bodies(&back), back[0].times), (vec!["a"], 1));
    let answer =
        settle(&mut connection, request::CHANGE_MESSAGE_INVISIBLETIME, &back[0], &[("invisibleTime", 1)]);
    assert_eq!(answer.code, 0, "{answer:?}");
    let again = come_back(&mut connection, &POP, 1);
    assert_eq!(
        (bodies(&again), again[0].times),
        (vec!["a"], 2),
        "a message of the retry topic comes back there"
    );
    let beyond = Popped { offset: 2, ..again[0].clone() };
    let answer =
        settle(&mut connection, request::CHANGE_MESSAGE_INVISIBLETIME, &beyond, &[("invisibleTime", 1)]);
    assert_eq!(answer.code, response::NO_MESSAGE, "{answer:?}");
}

#[test]
fn a_handle_given_in_the_millisecond_of_the_pop_names_another_pop() {
    let (_stage, mut connection) = stage(&[]);
    fill(&mut connection, "T", &["a"]);
    let popped = messages(&pop(&mut connection, &POP)).remove(0);
    let old = Handle::parse(&popped.handle).unwrap().pop_ms;
    // As if the broker still had the millisecond of the pop, or one before.
    let ahead = old + 500;
    let handle = popped.handle.replacen(&old.to_string(), &ahead.to_string(), 1);
    let popped = Popped { handle, ..popped };
    let answer =
        settle(&mut connection, request::CHANGE_MESSAGE_INVISIBLETIME, &popped, &[("invisibleTime", 1)]);
    assert_eq!((answer.code, answer.number("popTime")), (0, ahead + 1), "{answer:?}");
    assert_eq!(bodies(&come_back(&mut connection, &POP, 1)), ["a"]);
}

#[test]
fn check_33_a_new_group_may_begin_with_the_last_message() {
    let (_stage, mut connection) = stage(&["initPopOffsetByCheckMsgInMem=false"]);
    fill(&mut connection, "T", &["a", "b", "c"]);
    let popped = messages(&pop(&mut connection, &Pop { init_mode: 1, ..POP }));
    assert_eq!(bodies(&popped), ["c"]);
    let (_stage, mut connection) = stage(&[]);
    fill(&mut connection, "T", &["a", "b", "c"]);
    let popped = messages(&pop(&mut connection, &Pop { init_mode: 1, ..POP }));
    assert_eq!(bodies(&popped), ["a", "b", "c"], "on a young queue with all");
}

#[test]
fn check_34_ordered_pops_wait_for_each_other() {
    let (stage, mut connection) = stage(&[]);
    fill(&mut connection, "T", &["a", "b", "c"]);
    let first = Pop { count: 2, order: true, attempt_id: Some("one"), ..POP };
    let answer = pop(&mut connection, &first);
    let popped = messages(&answer);
    assert_eq!((bodies(&popped), answer.number("reviveQid")), (vec!["a", "b"], 999));
    assert_eq!(answer.field("orderCountInfo"), Some("0 0 0"));
    assert_eq!(bodies(&messages(&pop(&mut connection, &first))), ["a", "b"], "the same attempt");
    let other = Pop { attempt_id: Some("two"), ..first };
    assert_eq!(pop(&mut connection, &other).code, response::POLLING_TIMEOUT, "blocked");
    assert_eq!(committed(&mut connection, "T", 0), 0);
    // Settled, the queue is free at once for whoever waits.
    let mut waiting = stage.connect();
    let opaque = ask(&mut waiting, &Pop { invisible_ms: 3000, poll_ms: 60_000, ..other });
    let again = messages(&pop(&mut connection, &first));
    acked(&mut connection, &again[1]);
    assert_eq!(committed(&mut connection, "T", 0), 0, "the first one is open");
    let since = Instant::now();
    acked(&mut connection, &again[0]);
    assert_eq!(committed(&mut connection, "T", 0), 2);
    let answer = waiting.answer(opaque).unwrap();
    assert_eq!(bodies(&messages(&answer)), ["c"]);
    // What is not settled in time comes again, counted.
    let third = Pop { attempt_id: Some("three"), poll_ms: 9000, ..first };
    let answer =
        eventually("it comes again", || Some(pop(&mut connection, &third)).filter(|it| it.code == 0));
    // The broker counts whole milliseconds.
    assert!(since.elapsed() > Duration::from_millis(2990), "{:?}", since.elapsed());
    assert_eq!(
        (bodies(&messages(&answer)), answer.field("orderCountInfo")),
        (vec!["c"], Some("0 qo0%2 1;0 0 1"))
    );
    let late = messages(&answer);
    let answer = settle(
        &mut connection,
        request::CHANGE_MESSAGE_INVISIBLETIME,
        &late[0],
        &[("invisibleTime", 60_000)],
    );
    assert!(answer.number("invisibleTime") >= 60_000, "{answer:?}");
    // The state survives.
    let stage = stage.restart(|server| assert!(server.terminate().success()));
    let mut connection = stage.connect();
    assert_eq!(
        pop(&mut connection, &Pop { attempt_id: None, ..first }).code,
        response::POLLING_TIMEOUT,
        "blocked"
    );
    acked(&mut connection, &late[0]);
    assert_eq!(committed(&mut connection, "T", 0), 3);
    let unknown = Popped { offset: 3, ..late[0].clone() };
    assert_eq!(ack(&mut connection, &unknown).code, response::MESSAGE_ILLEGAL);
}

#[test]
fn check_35_a_pop_waits_for_a_message() {
    let (stage, mut connection) = stage(&[]);
    fill(&mut connection, "T", &["first"]);
    let any = Pop { queue_id: -1, poll_ms: 60_000, ..POP };
    let first = messages(&pop(&mut connection, &any));
    acked(&mut connection, &first[0]);
    let (answer, waited) = eventually("a pop that reaches the broker in time", || {
        let since = Instant::now();
        let answer = pop(&mut connection, &Pop { poll_ms: 1000, ..any });
        (!answer.remark().ends_with(TOO_LATE)).then_some((answer, since.elapsed()))
    });
    assert_eq!((answer.code, answer.remark()), (response::POLLING_TIMEOUT, "NO_MESSAGE_IN_QUEUE"));
    assert!(waited >= Duration::from_millis(900), "{waited:?}");
    let mut sender = stage.connect();
    for queue_id in 0..4 {
        // Nobody waits that long for the answer: it comes because of the message.
        let opaque = ask(&mut connection, &any);
        eventually("the pop waits", || (waiting_at(&mut sender, -1) == 1).then_some(()));
        sender.stored(&send_header("T", queue_id), b"next");
        let answer = connection.answer(opaque).unwrap();
        let popped = messages(&answer);
        assert_eq!((bodies(&popped), popped[0].queue_id), (vec!["next"], queue_id));
        acked(&mut connection, &popped[0]);
    }
    // A pop that is older than its own patience is answered at once.
    let late = writing(|writer| {
        let writer = writer.text("consumerGroup", "CG").text("topic", "T").number("queueId", -1);
        let writer = writer.number("maxMsgNums", 1).number("invisibleTime", 60_000).number("initMode", 0);
        writer.number("pollTime", 1000).number("bornTime", now_ms() - 2000)
    });
    let answer = connection.call(request::POP_MESSAGE, late, b"");
    assert_eq!(answer.code, response::POLLING_TIMEOUT);
    assert!(answer.remark().ends_with(TOO_LATE), "{answer:?}");
}

#[test]
fn a_pop_waits_only_for_what_its_filter_wants() {
    let (stage, mut connection) = stage(&[]);
    let tagged = |tag: &'static [u8]| SendHeader { properties: tag, ..send_header("T", 0) };
    connection.stored(&tagged(b"TAGS\x01A\x02"), b"a");
    connection.stored(&tagged(b"TAGS\x01B\x02"), b"b");
    let wanted = Pop { expression: "B", poll_ms: 60_000, ..POP };
    assert_eq!(bodies(&messages(&pop(&mut connection, &wanted))), ["b"]);
    let opaque = ask(&mut connection, &wanted);
    let mut sender = stage.connect();
    sender.stored(&tagged(b"TAGS\x01A\x02"), b"a");
    sender.stored(&tagged(b"TAGS\x01B\x02"), b"c");
    let answer = connection.answer(opaque).unwrap();
    assert_eq!(bodies(&messages(&answer)), ["c"]);
}

#[test]
fn check_36_messages_are_acknowledged_in_batches() {
    let short = Pop { invisible_ms: 3000, ..POP };
    let (_stage, mut connection, ()) = while_invisible(&[ONE_REVIVE_QUEUE], 3000, |connection| {
        fill(connection, "T", &["a", "b", "c", "d"]);
        let popped = messages(&pop(connection, &short));
        let handle = Handle::parse(&popped[0].handle).unwrap();
        let entry = BatchAck {
            // Bits 0, 2, 3 and 77.
            bits: "DQAAAAAAAAAAIA==".to_owned(),
            consumer_group: "CG".to_owned(),
            invisible_ms: handle.invisible_ms,
            pop_time: handle.pop_ms,
            queue_id: 0,
            retry: "0".to_owned(),
            revive_queue_id: handle.revive_queue,
            start_offset: 0,
            topic: "T".to_owned(),
        };
        let unknown = BatchAck { topic: "Nowhere".to_owned(), ..entry.clone() };
        let body = BatchAckBody { acks: vec![unknown, entry], broker_name: "broker-a".to_owned() };
        let answer = connection.call(request::BATCH_ACK_MESSAGE, |writer| writer, &json::to_vec(&body));
        assert_eq!(answer.code, 0, "{answer:?}");
        pop_last(connection, &short);
    });
    assert_eq!(bodies(&come_back(&mut connection, &POP, 2)), ["b", "last"]);
    let answer = connection.call(request::BATCH_ACK_MESSAGE, |writer| writer, b"");
    assert_eq!(answer.code, response::NO_MESSAGE);
}

/// With it messages that were popped later come back later.
const ONE_REVIVE_QUEUE: &str = "reviveQueueNum=1";

/// Pops a message that comes back after all that were popped before.
fn pop_last(connection: &mut Connection, like: &Pop<'_>) {
    fill(connection, "T", &["last"]);
    pop(connection, like);
}

/// Pops three messages, acknowledges one, pops a last one, ends the server, and answers what comes after up to the last one.
fn what_comes_after(lines: &[&str], end: impl FnOnce(crate::common::server::Server)) -> Vec<Popped> {
    let lines = [lines, &[ONE_REVIVE_QUEUE]].concat();
    let short = Pop { invisible_ms: 3000, ..POP };
    let (stage, ..) = while_invisible(&lines, 3000, |connection| {
        fill(connection, "T", &["a", "b", "c"]);
        let popped = messages(&pop(connection, &short));
        acked(connection, &popped[1]);
        pop_last(connection, &short);
    });
    let stage = stage.restart(end);
    let mut connection = stage.connect();
    let mut back: Vec<Popped> = Vec::new();
    while !bodies(&back).contains(&"last") {
        back.extend(come_back(&mut connection, &POP, 1));
    }
    back
}

#[test]
fn pops_survive_a_restart() {
    for lines in [&[][..], &["enablePopBufferMerge=true"]] {
        let back = what_comes_after(lines, |server| assert!(server.terminate().success()));
        assert_eq!(bodies(&back), ["a", "c", "last"], "{lines:?}");
        assert!(back.iter().all(|message| message.times == 1), "{lines:?}: {back:?}");
    }
}

#[test]
fn pops_survive_a_kill() {
    for lines in [&[][..], &["enablePopBufferMerge=true"]] {
        let back = what_comes_after(lines, |server| server.kill9());
        let found = bodies(&back);
        assert!(found.contains(&"a") && found.contains(&"c"), "{lines:?}: {back:?}");
    }
}

#[test]
fn both_forms_of_retry_topics_are_read() {
    let (stage, mut connection) = stage(&[]);
    fill(&mut connection, "T", &["a"]);
    let short = Pop { invisible_ms: 1000, ..POP };
    pop(&mut connection, &short);
    let back = come_back(&mut connection, &short, 1);
    let kind = |message: &Popped| Handle::parse(&message.handle).unwrap().kind;
    assert_eq!(kind(&back[0]), Kind::RetryV1);
    let setup_lines = ["brokerName=broker-a".to_owned(), "enableRetryTopicV2=true".to_owned()];
    let mut setup = stage.server.setup().clone();
    setup.lines = setup_lines.to_vec();
    assert!(stage.server.terminate().success());
    let server = setup.start().unwrap_or_else(|error| panic!("{error}"));
    let mut connection = crate::stage::open(server.setup().broker());
    fill(&mut connection, "T", &["b"]);
    pop(&mut connection, &short);
    let back = come_back(&mut connection, &POP, 2);
    let mut kinds: Vec<_> = back.iter().map(|message| (message.body.as_str(), kind(message))).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, [("a", Kind::RetryV1), ("b", Kind::RetryV2)]);
    for message in &back {
        acked(&mut connection, message);
    }
}

#[test]
fn a_reset_moves_pops() {
    let (_stage, mut connection) = stage(&[]);
    fill(&mut connection, "T", &["a", "b", "c"]);
    for message in messages(&pop(&mut connection, &POP)) {
        acked(&mut connection, &message);
    }
    assert_eq!(pop(&mut connection, &POP).code, response::POLLING_TIMEOUT);
    let fields = writing(|writer| {
        let writer = writer.text("group", "CG").text("topic", "T").number("queueId", 0);
        writer.number("offset", 1).number("timestamp", 0).flag("isForce", true)
    });
    let answer = connection.call(request::INVOKE_BROKER_TO_RESET_OFFSET, fields, b"");
    assert_eq!(answer.code, 0, "{answer:?}");
    assert_eq!(bodies(&messages(&pop(&mut connection, &POP))), ["b", "c"]);
    assert_eq!(pop(&mut connection, &POP).code, response::POLLING_TIMEOUT, "once");
}

#[test]
fn looking_does_not_pop() {
    let (stage, mut connection) = stage(&[]);
    fill(&mut connection, "T", &["a", "b"]);
    let peek = |connection: &mut Connection| {
        let fields = writing(|writer| {
            let writer = writer.text("consumerGroup", "CG").text("topic", "T");
            writer.number("queueId", -1).number("maxMsgNums", 1)
        });
        connection.call(request::PEEK_MESSAGE, fields, b"")
    };
    let notice = |connection: &mut Connection, poll_ms: i64| {
        let fields = writing(|writer| {
            let writer = writer.text("consumerGroup", "CG").text("topic", "T").number("queueId", -1);
            writer.number("pollTime", poll_ms).number("bornTime", now_ms())
        });
        connection.ask(request::NOTIFICATION, fields, b"").unwrap()
    };
    for _ in 0..2 {
        let answer = peek(&mut connection);
        assert_eq!((answer.code, answer.number("restNum")), (0, 2), "{answer:?}");
        assert_eq!(bodies(&messages(&answer_with_starts(&answer))), ["a"]);
    }
    let opaque = notice(&mut connection, 0);
    assert_eq!(connection.answer(opaque).unwrap().field("hasMsg"), Some("true"));
    assert_eq!(messages(&pop(&mut connection, &POP)).len(), 2);
    let answer = peek(&mut connection);
    assert_eq!((answer.code, answer.number("restNum")), (response::PULL_NOT_FOUND, 0));
    let opaque = notice(&mut connection, 0);
    let answer = connection.answer(opaque).unwrap();
    assert_eq!(
        (answer.code, answer.field("hasMsg"), answer.field("pollingFull")),
        (0, Some("false"), Some("false"))
    );
    let opaque = notice(&mut connection, 60_000);
    let mut sender = stage.connect();
    sender.stored(&send_header("T", 2), b"c");
    assert_eq!(connection.answer(opaque).unwrap().field("hasMsg"), Some("true"));
}

/// An answer to a look names no start offsets; handles of its messages are not asked for.
fn answer_with_starts(answer: &Arrived) -> Arrived {
    let mut answer = answer.clone();
    answer.fields.push((
        "startOffsetInfo".to_owned(),
        (0..8).map(|id| format!("0 {id} 0")).collect::<Vec<_>>().join(";"),
    ));
    answer
}

#[test]
fn pops_that_cannot_be_served_say_why() {
    let (_stage, mut connection) =
        stage(&["autoCreateSubscriptionGroup=false", "popPollingSize=0", "brokerIP1=127.0.0.1"]);
    fill(&mut connection, "T", &["a"]);
    let answer = pop(&mut connection, &POP);
    let remark = format!("subscription group [CG] does not exist, {FAQ}");
    assert_eq!((answer.code, answer.remark()), (response::SUBSCRIPTION_GROUP_NOT_EXIST, remark.as_str()));
    let answer = pop(&mut connection, &Pop { topic: "Missing", ..POP });
    let remark = format!("topic[Missing] not exist, apply first please! {FAQ}");
    assert_eq!((answer.code, answer.remark()), (response::TOPIC_NOT_EXIST, remark.as_str()));
    let answer = pop(&mut connection, &Pop { count: 33, ..POP });
    let remark = "the broker[127.0.0.1] pop message's num is greater than 32";
    assert_eq!((answer.code, answer.remark()), (response::INVALID_PARAMETER, remark));
    let answer = pop(&mut connection, &Pop { queue_id: 99, ..POP });
    assert_eq!(answer.code, response::INVALID_PARAMETER, "{answer:?}");
    let (stage, mut connection) = stage(&["popPollingSize=0", "timerWheelEnable=true"]);
    fill(&mut connection, "T", &["a"]);
    pop(&mut connection, &POP);
    let mut other = stage.connect();
    ask(&mut other, &Pop { poll_ms: 60_000, ..POP });
    eventually("one waits", || (waiting_at(&mut connection, 0) == 1).then_some(()));
    let answer = pop(&mut connection, &Pop { poll_ms: 60_000, ..POP });
    assert_eq!((answer.code, answer.remark()), (response::POLLING_FULL, "NO_MESSAGE_IN_QUEUE"));
    let (_stage, mut connection) = self::stage(&["timerWheelEnable=false", "brokerIP1=127.0.0.1"]);
    fill(&mut connection, "T", &["a"]);
    let answer = pop(&mut connection, &POP);
    let remark = "the broker[127.0.0.1] pop message is forbidden because timerWheelEnable is false";
    assert_eq!((answer.code, answer.remark()), (1, remark));
}

fn assigned(connection: &mut Connection, client: &str, strategy: &str) -> String {
    let body = format!(
        "{{\"clientId\":\"{client}\",\"consumerGroup\":\"CG\",\"messageModel\":\"CLUSTERING\",\"strategyName\":\"{strategy}\",\"topic\":\"T\"}}"
    );
    let answer = connection.call(request::QUERY_ASSIGNMENT, |writer| writer, body.as_bytes());
    assert_eq!(answer.code, 0, "{answer:?}");
    let body: QueryAssignmentResponseBody = json::from_slice(&answer.body).unwrap();
    let Some(mut assignments) = body.message_queue_assignments else { return "-".to_owned() };
    assignments.sort_by(|one, other| one.message_queue.cmp(&other.message_queue));
    let one = |it: &wire::body::QueueAssignment| format!("{}{}", it.message_queue.queue_id, &it.mode[..2]);
    assignments.iter().map(one).collect::<Vec<_>>().join(" ")
}

#[test]
fn queues_are_assigned_by_the_broker() {
    let (stage, mut connection) = stage(&[]);
    assert_eq!(assigned(&mut connection, "c1", "AVG"), "-", "nobody knows the topic");
    fill(&mut connection, "T", &["a"]);
    let mut other = stage.connect();
    beat(&mut connection, &heartbeat("c1", "CG", "T", "*", "", 1));
    beat(&mut other, &heartbeat("c2", "CG", "T", "*", "", 1));
    eventually("the route is known", || (assigned(&mut connection, "c1", "AVG") == "0PU 1PU").then_some(()));
    assert_eq!(assigned(&mut other, "c2", "AVG"), "2PU 3PU");
    assert_eq!(assigned(&mut other, "c2", "AVG_BY_CIRCLE"), "1PU 3PU");
    assert_eq!(assigned(&mut other, "c2", "MACHINE_ROOM"), "-");
    assert_eq!(assigned(&mut other, "c3", "AVG"), "", "a client that is not in the group");
    let set = |connection: &mut Connection, topic: &str, mode: &str| {
        let body = format!(
            "{{\"consumerGroup\":\"CG\",\"mode\":\"{mode}\",\"popShareQueueNum\":0,\"topic\":\"{topic}\"}}"
        );
        let answer = connection.call(request::SET_MESSAGE_REQUEST_MODE, |writer| writer, body.as_bytes());
        (answer.code, answer.remark().to_owned())
    };
    assert_eq!(set(&mut connection, "T", "POP").0, 0);
    let retry = (response::NO_PERMISSION, "retry topic is not allowed to set mode".to_owned());
    assert_eq!(set(&mut connection, "%RETRY%CG", "POP"), retry);
    assert_eq!(
        set(&mut connection, "Nowhere", "POP"),
        (response::TOPIC_NOT_EXIST, "topic[Nowhere] not exist".to_owned())
    );
    assert_eq!(assigned(&mut connection, "c1", "AVG"), "-1PO");
    // The mode survives a kill, for it was on disk before it was answered.
    let stage = stage.restart(|server| server.kill9());
    let mut connection = stage.connect();
    beat(&mut connection, &heartbeat("c1", "CG", "T", "*", "", 1));
    eventually("the route is known", || (assigned(&mut connection, "c1", "AVG") == "-1PO").then_some(()));
}
