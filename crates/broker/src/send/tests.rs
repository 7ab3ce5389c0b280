//! The answers of sends: their codes and remarks, and when they are sent.

use std::sync::{Mutex, MutexGuard};

use net::{ConnectionHandle, Service as _};
use store::{AppendError, FakeDisk, FlushMode};
use wire::batch;
use wire::body::topic::{PERM_READ, PERM_WRITE, TopicConfig};
use wire::codes::request;
use wire::frame::{Command, Encoding, FrameWriter, Head};
use wire::header::{PullHeader, pull_flag};
use wire::properties::{self, key};

use super::*;
use crate::position_writer::wait_flushed;
use crate::remoting::{Dispatcher, Port};
use crate::state::Name;
use crate::testing::{ADDRESS, Fixture, until};

fn check(error: &AppendError, code: i32, begins: &str) {
    let fixture = Fixture::new();
    let refusal = not_stored(&fixture.broker.store, error);
    assert_eq!(refusal.code, code, "{error}");
    assert!(refusal.remark.starts_with(begins), "{}", refusal.remark);
}

#[test]
fn appends_that_fail_have_the_codes_and_texts_of_java() {
    let gone = "service not available now. It may be caused by one of the following reasons: the broker's disk is full [CL: ";
    check(&AppendError::Closed, 14, gone);
    check(&AppendError::Fenced("x".to_owned()), 14, gone);
    check(&AppendError::NoSpace(std::io::ErrorKind::StorageFull.into()), 14, gone);
    check(&AppendError::DiskFull { log_percent: 91, queue_percent: 5 }, 14, gone);
    let busy = "[PC_SYNCHRONIZED]broker busy, start flow control for a while";
    check(&AppendError::Busy { waiting: 9, limit: 8 }, 2, busy);
    let fixture = Fixture::new();
    assert_eq!(
        illegal(&fixture.broker.runtime),
        Refusal::new(
            13,
            "the message is illegal, maybe msg body or properties length not matched. msg body length limit 4194304B, msg properties length limit 32KB."
        )
    );
}

/// A broker on a disk that hangs while a lock is held.
struct Hanging {
    fixture: Fixture,
    disk: FakeDisk,
    lock: Arc<Mutex<()>>,
}

impl Hanging {
    /// A broker with a queue of topic `T`.
    fn new(flush: FlushMode) -> Self {
        let disk = FakeDisk::new(512);
        let fixture = Fixture::on(Arc::new(disk.clone()), tempfile::tempdir().unwrap(), |config| {
            config.store.flush = flush;
            config.replication.slave_timeout_ms = 3_600_000;
        });
        fixture.queue("T", 0);
        // The file of the log is there before the disk hangs.
        fixture.put("Filler", 0, b"", b"");
        assert!(wait_flushed(&fixture.broker.store, fixture.broker.store.appended()));
        Self { fixture, disk, lock: Arc::default() }
    }

    /// Makes the disk hang until the returned guard is dropped.
    fn hang(&self) -> MutexGuard<'_, ()> {
        self.disk.faults(|faults| faults.syncs_wait_for = Some(self.lock.clone()));
        self.lock.lock().unwrap()
    }
}

/// Sends a message while the disk hangs. True when it was answered without waiting for the disk.
fn answered_at_once(hanging: &Hanging, properties: &[u8]) -> bool {
    let header = SendHeader { producer_group: "PG", topic: "T", properties, ..SendHeader::default() };
    let mut bytes = Vec::new();
    let head = Head::request(Encoding::Json, request::SEND_MESSAGE_V2, 1);
    header.write(FrameWriter::begin(&mut bytes, head)).finish(b"body");
    let dispatcher = Dispatcher::new(hanging.fixture.broker.clone(), Port::Own);
    let peer = Arc::new(ConnectionHandle::detached(1, ADDRESS));
    let (mut read_batch, mut out) = (dispatcher.read_batch(), Vec::new());
    let disk = hanging.hang();
    dispatcher.frame(&mut read_batch, &peer, Command::decode(&mut bytes).unwrap(), &mut out);
    dispatcher.end(&mut read_batch, &peer, &mut out);
    let is_at_once = !out.is_empty();
    drop(disk);
    if !is_at_once {
        until("the answer comes", || {
            out = peer.pushed();
            !out.is_empty()
        });
    }
    assert_eq!(Command::decode(&mut out).unwrap().code, 0);
    is_at_once
}

#[test]
fn a_send_that_does_not_wait_for_the_disk_is_answered_at_once() {
    let hanging = Hanging::new(FlushMode::Sync);
    assert!(answered_at_once(&hanging, b"WAIT\x01false\x02"));
    for properties in [&b"WAIT\x01true\x02"[..], b""] {
        assert!(!answered_at_once(&hanging, properties), "{properties:?}");
    }
}

#[test]
fn a_producer_is_answered_before_those_who_wait_are_woken() {
    let fixture = Fixture::new();
    fixture.queue("T", 0);
    fixture.broker.tables.groups.make("G", 1).unwrap();
    let dispatcher = Dispatcher::new(fixture.broker.clone(), Port::Own);
    let (producer, consumer) =
        (Arc::new(ConnectionHandle::detached(1, ADDRESS)), Arc::new(ConnectionHandle::detached(2, ADDRESS)));
    let (mut read_batch, mut out) = (dispatcher.read_batch(), Vec::new());
    let mut bytes = Vec::new();
    let pull = PullHeader {
        consumer_group: "G",
        topic: "T",
        max_messages: 32,
        sys_flag: pull_flag::SUSPEND | pull_flag::SUBSCRIPTION,
        suspend_timeout_ms: 60_000,
        subscription: "*",
        ..PullHeader::default()
    };
    pull.write(FrameWriter::begin(&mut bytes, Head::request(Encoding::Json, request::PULL_MESSAGE, 1)))
        .finish(b"");
    dispatcher.frame(&mut read_batch, &consumer, Command::decode(&mut bytes).unwrap(), &mut out);
    dispatcher.end(&mut read_batch, &consumer, &mut out);
    dispatcher.answered(&mut read_batch);
    assert_eq!(crate::testing::answers(out), [], "the pull waits");
    let header = SendHeader { producer_group: "PG", topic: "T", ..SendHeader::default() };
    let (mut bytes, mut out) = (Vec::new(), Vec::new());
    header
        .write(FrameWriter::begin(&mut bytes, Head::request(Encoding::Json, request::SEND_MESSAGE_V2, 2)))
        .finish(b"body");
    dispatcher.frame(&mut read_batch, &producer, Command::decode(&mut bytes).unwrap(), &mut out);
    dispatcher.end(&mut read_batch, &producer, &mut out);
    assert_eq!(crate::testing::answers(out), [(0, 2)]);
    assert!(consumer.pushed().is_empty(), "nobody is served before the producer has its answer");
    dispatcher.answered(&mut read_batch);
    let work = consumer.take_task().expect("the pull runs on the consumer's connection");
    let mut out = Vec::new();
    work(&consumer, &mut out);
    assert_eq!(crate::testing::answers(out), [(0, 1)]);
    assert_eq!(fixture.broker.sessions.poll_timeouts.earliest(), None);
}

#[test]
fn a_send_that_waits_for_the_disk_is_charged_to_its_connection() {
    let hanging = Hanging::new(FlushMode::Sync);
    let dispatcher = Dispatcher::new(hanging.fixture.broker.clone(), Port::Own);
    let peer = Arc::new(ConnectionHandle::detached(1, ADDRESS));
    let (mut read_batch, mut out) = (dispatcher.read_batch(), Vec::new());
    let header = SendHeader { producer_group: "PG", topic: "T", ..SendHeader::default() };
    let mut bytes = Vec::new();
    let head = Head::request(Encoding::Json, request::SEND_MESSAGE_V2, 1);
    header.write(FrameWriter::begin(&mut bytes, head)).finish(&[7; 1000]);
    let disk = hanging.hang();
    dispatcher.frame(&mut read_batch, &peer, Command::decode(&mut bytes).unwrap(), &mut out);
    dispatcher.end(&mut read_batch, &peer, &mut out);
    assert!(out.is_empty() && peer.unanswered() > 0);
    drop(disk);
    let mut is_answered = false;
    until("the send is answered and the charge given back", || {
        is_answered |= !peer.pushed().is_empty();
        is_answered && peer.unanswered() == 0
    });
}

#[test]
fn a_send_waits_for_an_heir_that_is_named_during_its_flush() {
    let hanging = Hanging::new(FlushMode::Sync);
    let broker = &hanging.fixture.broker;
    let dispatcher = Dispatcher::new(broker.clone(), Port::Own);
    let peer = Arc::new(ConnectionHandle::detached(1, ADDRESS));
    let (mut read_batch, mut out) = (dispatcher.read_batch(), Vec::new());
    let header = SendHeader { producer_group: "PG", topic: "T", ..SendHeader::default() };
    let mut bytes = Vec::new();
    let head = Head::request(Encoding::Json, request::SEND_MESSAGE_V2, 1);
    header.write(FrameWriter::begin(&mut bytes, head)).finish(b"body");
    let disk = hanging.hang();
    dispatcher.frame(&mut read_batch, &peer, Command::decode(&mut bytes).unwrap(), &mut out);
    dispatcher.end(&mut read_batch, &peer, &mut out);
    assert!(out.is_empty());
    // The agent looks for an heir because the disk stalls.
    broker.replication.durability.wait_for_slaves();
    let end = broker.store.appended();
    let (sender, flushed) = std::sync::mpsc::channel();
    // The store calls functions in the order in which they came, so this function is called after that of the send.
    broker.store.when_flushed(end, Box::new(move |outcome| sender.send(outcome).unwrap()));
    drop(disk);
    assert_eq!(flushed.recv(), Ok(store::FlushOutcome::Flushed));
    assert_eq!(crate::testing::answers(peer.pushed()), [], "the heir does not have the message");
    broker.store.set_replicated(Some(end));
    let mut answers = Vec::new();
    until("the send is answered", || {
        answers.extend(crate::testing::answers(peer.pushed()));
        !answers.is_empty()
    });
    assert_eq!(answers, [(0, 1)]);
}

#[test]
fn the_flush_mode_changes_while_sends_go_on() {
    let hanging = Hanging::new(FlushMode::Async);
    let fixture = &hanging.fixture;
    let switch = |value: &str| {
        let mut bytes = Vec::new();
        let head = Head::request(Encoding::Json, request::UPDATE_BROKER_CONFIG, 1);
        head.write(&mut bytes, value.as_bytes());
        let dispatcher = Dispatcher::new(fixture.broker.clone(), Port::Own);
        let peer = Arc::new(ConnectionHandle::detached(1, ADDRESS));
        let (mut read_batch, mut out) = (dispatcher.read_batch(), Vec::new());
        dispatcher.frame(&mut read_batch, &peer, Command::decode(&mut bytes).unwrap(), &mut out);
        until("the change is answered", || {
            if out.is_empty() {
                out = peer.pushed();
            }
            !out.is_empty()
        });
        Command::decode(&mut out).unwrap().code
    };
    assert!(answered_at_once(&hanging, b""));
    assert_eq!(switch("flushDiskType=SYNC_FLUSH"), 0);
    assert!(!answered_at_once(&hanging, b""));
    let shown = crate::admin::config(&fixture.broker.replication, &fixture.broker.runtime).to_properties();
    assert!(shown.contains("flushDiskType=SYNC_FLUSH"));
    assert_eq!(switch("flushDiskType=ASYNC_FLUSH"), 0);
    assert!(answered_at_once(&hanging, b""));
    assert_eq!(switch("flushDiskType=SOMETIMES"), response::INVALID_PARAMETER);
    assert_eq!(switch("brokerName=other"), response::SUCCESS);
    assert_eq!(switch("bindAddress=10.0.0.1"), response::NO_PERMISSION);
    assert_eq!(switch("configBlackList=x"), response::NO_PERMISSION);
    assert_eq!(fixture.messages("T", 0).len(), 3);
}

#[test]
fn a_change_there_is_no_place_for_is_not_written_to_the_file() {
    let fixture = Fixture::new();
    let file = fixture.config_path("broker.properties");
    let mut sizes = 1..;
    let mut change = || {
        let text = format!("maxMessageSize={}", 10_000 + sizes.next().unwrap());
        fixture.ask(request::UPDATE_BROKER_CONFIG, &[], text.as_bytes())
    };
    let mut written = String::new();
    let (code, remark, _) = loop {
        let answer = change();
        if answer.0 != 0 {
            break answer;
        }
        written = std::fs::read_to_string(&file).unwrap();
    };
    assert_eq!(code, response::SYSTEM_ERROR, "{remark}");
    assert!(remark.contains("start the broker again") && written.contains("maxMessageSize=1000"), "{remark}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), written);
    assert!(written.contains(&fixture.broker.runtime.config.max_message_size.to_string()));
}

/// A broker with the topic `B`, whose queues hold batches (`queue.type=BatchCQ`), as a Java broker may have left it.
fn batched() -> Fixture {
    let fixture = Fixture::new();
    fixture.queue("T", 0);
    let text = r#"{"topicConfigTable":{"B":{"attributes":{"queue.type":"BatchCQ"},"perm":6,"readQueueNums":1,"topicName":"B","writeQueueNums":1},
        "T":{"perm":6,"readQueueNums":1,"topicName":"T","writeQueueNums":1}}}"#;
    std::fs::write(fixture.config_path("topics.json"), text).unwrap();
    let fixture = fixture.reopened();
    fixture.broker.tables.groups.make("g", 1).unwrap();
    fixture
}

/// Returns the response to a frame: its code, and a function that returns its fields.
fn call(fixture: &Fixture, bytes: &mut [u8]) -> (i32, impl Fn(&str) -> Option<String> + use<>) {
    let dispatcher = Dispatcher::new(fixture.broker.clone(), Port::Own);
    let peer = Arc::new(ConnectionHandle::detached(1, ADDRESS));
    let (mut read_batch, mut out) = (dispatcher.read_batch(), Vec::new());
    dispatcher.frame(&mut read_batch, &peer, Command::decode(bytes).unwrap(), &mut out);
    dispatcher.end(&mut read_batch, &peer, &mut out);
    fixture.broker.metadata_parts().settle();
    out.extend(peer.pushed());
    let code = Command::decode(&mut out.clone()).unwrap().code;
    let field =
        move |name: &str| Command::decode(&mut out.clone()).unwrap().fields.text(name).map(str::to_owned);
    (code, field)
}

fn send(
    fixture: &Fixture,
    header: &SendHeader<'_>,
    body: &[u8],
) -> (i32, impl Fn(&str) -> Option<String> + use<>) {
    let code = if header.batch { request::SEND_BATCH_MESSAGE } else { request::SEND_MESSAGE_V2 };
    send_as(fixture, code, header, body)
}

fn send_as(
    fixture: &Fixture,
    code: i32,
    header: &SendHeader<'_>,
    body: &[u8],
) -> (i32, impl Fn(&str) -> Option<String> + use<>) {
    let mut bytes = Vec::new();
    header.write(FrameWriter::begin(&mut bytes, Head::request(Encoding::Json, code, 1))).finish(body);
    call(fixture, &mut bytes)
}

fn header<'a>(topic: &'a str, properties: &'a [u8]) -> SendHeader<'a> {
    SendHeader { producer_group: "PG", topic, properties, batch: true, ..SendHeader::default() }
}

fn body_of(count: usize) -> Vec<u8> {
    let mut body = Vec::new();
    for number in 0..count {
        let text = format!("body {number}");
        let entry = batch::Entry { flag: 7, body: text.as_bytes(), properties: b"KEYS\x01k\x02" };
        batch::append(&mut body, &entry).unwrap();
    }
    body
}

#[test]
fn a_batch_to_a_topic_of_batches_is_one_record_of_many_messages() {
    let fixture = batched();
    let key = b"UNIQ_KEY\x01K1\x02WAIT\x01true\x02";
    let body = body_of(3);
    let (code, field) = send(&fixture, &header("B", key), &body);
    assert_eq!(code, 0);
    assert_eq!((field("queueOffset").as_deref(), field("queueId").as_deref()), (Some("0"), Some("0")));
    assert_eq!(
        (field("batchUniqId").as_deref(), field("transactionId").as_deref()),
        (Some("K1"), Some("K1"))
    );
    assert_eq!(field("msgId").map(|id| id.len()), Some(32));
    let queue = fixture.queue("B", 0);
    assert_eq!(queue.index.max().get(), 3);
    let mut units = Vec::new();
    queue.index.units_blocking(queue.index.min(), 9, &mut units).unwrap();
    assert!(units.len() == 3 && units.iter().all(|unit| *unit == units[0]));
    let mut bytes = Vec::new();
    fixture.broker.store.record_at(units[0].log_offset, &mut bytes).unwrap();
    let record = wire::record::RecordView::parse(&bytes).unwrap();
    assert_eq!(record.sys_flag(), sys_flag::INNER_BATCH | sys_flag::NEED_UNWRAP);
    assert_eq!(record.body(), body);
    let get = |name| properties::get_str(record.properties(), name);
    assert_eq!((get(key::INNER_NUM), get(key::UNIQ_KEY)), (Some("3"), Some("K1")));
    assert_eq!(get(key::INNER_BASE).and_then(|base| base.parse::<u64>().ok()), Some(0));
    assert_eq!(get(key::CLUSTER), Some("DefaultCluster"));
    // Another batch, a batch whose producer gave it no unique key, and a single message.
    let (code, field) = send(&fixture, &header("B", key), &body_of(40));
    assert_eq!((code, field("queueOffset").as_deref()), (0, Some("3")));
    let (code, field) = send(&fixture, &header("B", b""), &body_of(2));
    assert_eq!((code, field("queueOffset").as_deref(), field("batchUniqId")), (0, Some("43"), None));
    assert_eq!(field("msgId").map(|ids| ids.split(',').count()), Some(2));
    let (code, field) = send(&fixture, &SendHeader { batch: false, ..header("B", b"") }, b"alone");
    assert_eq!((code, field("queueOffset").as_deref()), (0, Some("45")));
    // On other topics batches are stored message by message.
    let (code, field) = send(&fixture, &header("T", key), &body);
    assert_eq!((code, field("batchUniqId")), (0, None));
    assert_eq!(field("msgId").map(|ids| ids.split(',').count()), Some(3));
    let fixture = fixture.killed();
    assert_eq!(fixture.queue("B", 0).index.max().get(), 46);
}

#[test]
fn only_single_sends_to_a_compacted_topic_need_a_key() {
    let fixture = Fixture::new();
    fixture.queue("C", 0);
    let text = r#"{"topicConfigTable":{"C":{"attributes":{"cleanup.policy":"COMPACTION"},"perm":6,"readQueueNums":1,"topicName":"C","writeQueueNums":1}}}"#;
    std::fs::write(fixture.config_path("topics.json"), text).unwrap();
    let fixture = fixture.reopened();
    let single = |properties| SendHeader { batch: false, ..header("C", properties) };
    assert_eq!(send(&fixture, &single(b""), b"x").0, response::MESSAGE_ILLEGAL);
    assert_eq!(send(&fixture, &single(b"KEYS\x01k\x02"), b"x").0, 0);
    assert_eq!(send(&fixture, &header("C", b"WAIT\x01true\x02"), &body_of(3)).0, 0);
}

#[test]
fn a_refused_send_makes_no_light_queue() {
    let fixture = Fixture::new();
    fixture.queue("C", 0);
    let text = r#"{"topicConfigTable":{"C":{"attributes":{"cleanup.policy":"COMPACTION"},"perm":6,"readQueueNums":1,"topicName":"C","writeQueueNums":1}}}"#;
    std::fs::write(fixture.config_path("topics.json"), text).unwrap();
    let fixture = Fixture::at(fixture.left(), |config| config.store.multi_dispatch = true);
    let lite = SendHeader { batch: false, ..header("C", b"__LITE_TOPIC\x01x\x02") };
    let light = SendHeader { batch: false, ..header("C", b"INNER_MULTI_DISPATCH\x01%LMQ%x\x02") };
    assert_eq!(send(&fixture, &lite, b"x").0, response::MESSAGE_ILLEGAL);
    assert_eq!(send(&fixture, &light, b"x").0, response::MESSAGE_ILLEGAL);
    let mut body = Vec::new();
    for properties in [&b"INNER_MULTI_DISPATCH\x01%LMQ%y\x02"[..], b"INNER_MULTI_QUEUE_OFFSET\x010\x02"] {
        batch::append(&mut body, &batch::Entry { flag: 0, body: b"x", properties }).unwrap();
    }
    assert_eq!(send(&fixture, &header("C", b""), &body).0, response::MESSAGE_ILLEGAL);
    assert_eq!(fixture.broker.tables.light.count(), 0);
    let light = SendHeader { properties: b"KEYS\x01k\x02INNER_MULTI_DISPATCH\x01%LMQ%x\x02", ..light };
    assert_eq!((send(&fixture, &light, b"x").0, fixture.broker.tables.light.count()), (0, 1));
}

#[test]
fn a_topic_without_write_permission_takes_what_producers_with_an_older_route_send() {
    let fixture = batched();
    for topic in ["B", "T", "%RETRY%g"] {
        fixture.broker.tables.topics.put(TopicConfig::new(topic, 1, PERM_READ), 1).unwrap();
    }
    let single = |topic, properties| SendHeader { batch: false, ..header(topic, properties) };
    let (plain, half) = (b"".as_slice(), b"TRAN_MSG\x01true\x02PGROUP\x01g\x02UNIQ_KEY\x01K\x02".as_slice());
    for (topic, properties) in [("T", plain), ("T", b"DELAY\x011\x02"), ("T", half), ("%RETRY%g", plain)] {
        assert_eq!(send(&fixture, &single(topic, properties), b"x").0, 0, "{topic} {properties:?}");
    }
    assert_eq!(send(&fixture, &header("T", plain), &body_of(3)).0, 0);
    assert_eq!(send(&fixture, &header("B", b"UNIQ_KEY\x01K\x02"), &body_of(3)).0, 0);
    let reply = single("T", b"REPLY_TO_CLIENT\x01gone\x02");
    assert_eq!(
        send_as(&fixture, request::SEND_REPLY_MESSAGE_V2, &reply, b"x").0,
        1,
        "stored, but its requester is gone"
    );
    let stored = |topic: &str| fixture.broker.tables.log_queue(topic, 0).unwrap().index.max().get();
    assert_eq!((stored("T"), stored("B"), stored("%RETRY%g")), (5, 3, 1));
    // A consumer that sends a message back has no route: the retry topic's permission decides (`consumerSendMsgBack`).
    let (code, remark, _) = give_back(&fixture);
    assert_eq!((code, remark.as_str()), (16, "the topic[%RETRY%g] sending message is forbidden"));
    // Pulls from a topic without read permission are refused.
    fixture.broker.tables.topics.put(TopicConfig::new("T", 1, PERM_WRITE), 1).unwrap();
    let (code, remark, _) = pull(&fixture);
    assert_eq!((code, remark.as_str()), (16, "the topic[T] pulling message is forbidden"));
}

fn give_back(fixture: &Fixture) -> (i32, String, Vec<u8>) {
    let fields = [("group", "g"), ("offset", "0"), ("delayLevel", "0")];
    fixture.ask(request::CONSUMER_SEND_MSG_BACK, &fields, b"")
}

fn pull(fixture: &Fixture) -> (i32, String, Vec<u8>) {
    let fields = [
        ("consumerGroup", "g"),
        ("topic", "T"),
        ("queueId", "0"),
        ("queueOffset", "0"),
        ("maxMsgNums", "1"),
        ("sysFlag", "4"),
        ("commitOffset", "0"),
        ("suspendTimeoutMillis", "0"),
        ("subscription", "*"),
        ("subVersion", "0"),
    ];
    fixture.ask(request::PULL_MESSAGE, &fields, b"")
}

#[test]
fn a_queue_of_batches_begins_below_zero_until_something_is_written() {
    let fixture = batched();
    let min = |topic: &str| {
        let mut bytes = Vec::new();
        let head = Head::request(Encoding::Json, request::GET_MIN_OFFSET, 1);
        FrameWriter::begin(&mut bytes, head).text("topic", topic).number("queueId", 0).finish(b"");
        call(&fixture, &mut bytes).1("offset").unwrap()
    };
    assert_eq!((min("B").as_str(), min("T").as_str(), min("unknown").as_str()), ("-1", "0", "0"));
    assert_eq!(send(&fixture, &header("B", b"UNIQ_KEY\x01K\x02"), &body_of(3)).0, 0);
    assert_eq!(min("B"), "0");
}

#[test]
fn inner_batches_are_illegal_where_java_says_so() {
    let fixture = batched();
    let body = body_of(3);
    let is_illegal = |header: &SendHeader<'_>, body: &[u8]| {
        assert_eq!(send(&fixture, header, body).0, response::MESSAGE_ILLEGAL, "{header:?}");
    };
    for topic in ["B", "T"] {
        let flagged = SendHeader { sys_flag: sys_flag::INNER_BATCH, batch: false, ..header(topic, b"") };
        is_illegal(&flagged, &body);
        is_illegal(&SendHeader { batch: false, ..header(topic, b"INNER_NUM\x013\x02") }, &body);
    }
    let late = b"UNIQ_KEY\x01K\x02DELAY\x013\x02";
    is_illegal(&header("B", late), &body);
    is_illegal(&header("B", b"UNIQ_KEY\x01K\x02"), b"no batch at all");
    is_illegal(&header("B", b"UNIQ_KEY\x01K\x02"), &body_of(32_768));
    assert_eq!(fixture.broker.store.appended().get(), 0);
}

#[test]
fn a_pull_gives_whole_records_of_a_topic_of_batches() {
    let fixture = batched();
    for count in [3, 1, 40, 2, 20, 7] {
        assert_eq!(send(&fixture, &header("B", b"UNIQ_KEY\x01K\x02"), &body_of(count)).0, 0);
    }
    let pull = |offset: i64, max: i32| {
        let mut bytes = Vec::new();
        let (offset, max) = (offset.to_string(), max.to_string());
        let fields = [
            ("consumerGroup", "g"),
            ("topic", "B"),
            ("queueId", "0"),
            ("queueOffset", &offset),
            ("maxMsgNums", &max),
            ("sysFlag", "4"),
            ("commitOffset", "0"),
            ("suspendTimeoutMillis", "0"),
            ("subscription", "*"),
            ("subVersion", "0"),
        ];
        let writer = FrameWriter::begin(&mut bytes, Head::request(Encoding::Json, request::PULL_MESSAGE, 1));
        fields.iter().fold(writer, |writer, (key, value)| writer.text(key, value)).finish(b"");
        let (code, field) = call(&fixture, &mut bytes);
        (code, field("nextBeginOffset").unwrap().parse::<i64>().unwrap())
    };
    // A pull returns records that fit into the count as a whole, but at least one; of a record that is pulled from its middle
    // only the rest of its messages counts.
    assert_eq!(pull(0, 32), (0, 4));
    assert_eq!(fixture.broker.tables.offsets.delivered().values().next().unwrap().messages, 4);
    for (inside, next) in [(4, 44), (5, 44), (20, 46), (43, 73)] {
        assert_eq!(pull(inside, 32), (0, next), "{inside}");
    }
    assert_eq!(pull(44, 32), (0, 73));
    assert_eq!((pull(44, 21), pull(44, 22)), ((0, 46), (0, 66)));
    assert_eq!((pull(2, 1), pull(72, 1)), ((0, 3), (0, 73)));
    assert_eq!(pull(73, 32), (response::PULL_NOT_FOUND, 73));
    // Pops are refused: clients would hand whole batches to the application as bodies.
    let pop = [
        ("consumerGroup", "g"),
        ("topic", "B"),
        ("queueId", "0"),
        ("maxMsgNums", "9"),
        ("invisibleTime", "9"),
    ];
    let pop = [&pop[..], &[("pollTime", "0"), ("initMode", "0")]].concat();
    let mut bytes = Vec::new();
    let writer = FrameWriter::begin(&mut bytes, Head::request(Encoding::Json, request::POP_MESSAGE, 1));
    pop.iter().fold(writer, |writer, (key, value)| writer.text(key, value)).finish(b"");
    assert_eq!(call(&fixture, &mut bytes).0, response::NO_PERMISSION);
    // A single message of a record cannot be sent back either; the client then sends it as a new message.
    fixture.queue("%RETRY%g", 0);
    let fields = [("group", "g"), ("offset", "0"), ("delayLevel", "1")];
    let (code, remark, _) = fixture.ask(request::CONSUMER_SEND_MSG_BACK, &fields, b"");
    let remark = (code, remark);
    assert!(remark.0 == response::SYSTEM_ERROR && remark.1.contains("takes no inner batches"), "{remark:?}");
}

#[test]
fn a_priority_stands_for_a_queue() {
    let fixture = Fixture::new();
    fixture.queue("T", 3);
    for (properties, queue_id, is_kept) in [
        (&b"_SYS_MSG_PRIORITY_\x010\x02"[..], 0, true),
        (b"_SYS_MSG_PRIORITY_\x012\x02", 2, true),
        (b"_SYS_MSG_PRIORITY_\x0150\x02", 3, true),
        (b"_SYS_MSG_PRIORITY_\x01-1\x02", 1, true),
        (b"_SYS_MSG_PRIORITY_\x01high\x02", 1, true),
        (b"_SYS_MSG_PRIORITY_\x013\x02__SHARDINGKEY\x01g\x02", 1, false),
        (b"_SYS_MSG_PRIORITY_\x013\x02DELAY\x010\x02", 1, false),
        (b"_SYS_MSG_PRIORITY_\x013\x02TIMER_DELAY_SEC\x010\x02", 1, false),
    ] {
        let header = SendHeader { batch: false, queue_id: 1, ..header("T", properties) };
        let (code, field) = send(&fixture, &header, b"m");
        let shown = String::from_utf8_lossy(properties);
        assert_eq!((code, field("queueId")), (0, Some(queue_id.to_string())), "{shown}");
        let (_, stored, _) = fixture.messages("T", queue_id).pop().unwrap();
        assert_eq!(properties::get(&stored, key::PRIORITY).is_some(), is_kept, "{shown}");
    }
}

#[test]
fn a_dead_letter_that_a_client_sends_to_the_retry_topic_is_counted_once_it_is_stored() {
    let fixture = Fixture::new();
    fixture.broker.tables.groups.make("g", 1).unwrap();
    fixture.queue("%RETRY%g", 0);
    let key = (Name::DeadLetters, "%RETRY%g@g".to_owned());
    let count = || fixture.broker.figures.stats.events(|_| true).get(&key).copied();
    let sent = |reconsume_times, properties| {
        let header = SendHeader { batch: false, reconsume_times, ..header("%RETRY%g", properties) };
        send(&fixture, &header, b"x").0
    };
    assert_eq!((sent(16, b"".as_slice()), count()), (0, None), "the group retries this often");
    assert_eq!((sent(17, b"DELAY\x01none\x02"), count()), (response::MESSAGE_ILLEGAL, None));
    assert_eq!((sent(17, b""), count()), (0, Some(1)));
    assert_eq!(fixture.messages("%DLQ%g", 0).len(), 1);
}
