//! Which answers leave before, after and without a flush.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use store::{FakeDisk, FlushMode, Message};
use wire::codes::{request, response};
use wire::frame::{Encoding, Head};
use wire::header::SendHeader;
use wire::id::OffsetId;

use super::*;
use crate::names;
use crate::position_writer::wait_flushed;
use crate::remoting::{Dispatcher, Port, RequestFrame, postpone};
use crate::testing::{ADDRESS, Fixture, message, until};

/// A broker with sync flush on a disk that hangs while a lock is held.
struct Slow {
    fixture: Fixture,
    disk: FakeDisk,
    hanging: Arc<Mutex<()>>,
}

/// Requests that store records: description, code, fields and body.
type Asked = Vec<(&'static str, i32, Vec<(&'static str, String)>, Vec<u8>)>;

impl Slow {
    fn new(flush_timeout: Duration) -> Self {
        let disk = FakeDisk::new(512);
        let fixture = Fixture::on(Arc::new(disk.clone()), tempfile::tempdir().unwrap(), |config| {
            config.store.flush = FlushMode::Sync;
            config.store.flush_timeout = flush_timeout;
            config.timers.recall = true;
        });
        fixture.broker.tables.groups.make("G", 1).unwrap();
        for (topic, queue_id) in [("T", 0), ("%RETRY%G", 0), ("%DLQ%G", 0), (names::HALF_TOPIC, 0)] {
            fixture.queue(topic, queue_id);
        }
        for topic in [names::OP_HALF_TOPIC, names::TIMER_TOPIC, names::CHECK_MAX_TIME_TOPIC] {
            fixture.queue(topic, 0);
        }
        fixture.queue(names::SCHEDULE_TOPIC, 17);
        fixture.queue(&fixture.broker.delivery.pops.revive_topic.clone(), 7);
        Self { fixture, disk, hanging: Arc::default() }
    }

    /// Makes the requests. The records that they refer to are stored and on disk.
    fn asked(&self) -> Asked {
        let broker = &self.fixture.broker;
        let half = || {
            let text = b"TRAN_MSG\x01true\x02PGROUP\x01PG\x02REAL_TOPIC\x01T\x02REAL_QID\x010\x02";
            let half = Message { born_timestamp: broker.runtime.now_ms(), ..message(b"half", text) };
            broker.delivery.put(names::HALF_TOPIC, 0, &half).unwrap()
        };
        let end = |state: i32| {
            let half = half();
            vec![
                ("producerGroup", "PG".to_owned()),
                ("tranStateTableOffset", half.queue_offset.to_string()),
                ("commitLogOffset", half.log_offset.to_string()),
                ("commitOrRollback", state.to_string()),
            ]
        };
        let sent = broker.delivery.put("T", 0, &message(b"sent", b"")).unwrap();
        let given_up =
            broker.delivery.put(names::CHECK_MAX_TIME_TOPIC, 0, &message(b"given up", b"PGROUP\x01PG\x02"));
        let id = OffsetId { store_host: ADDRESS, log_offset: given_up.unwrap().log_offset }.to_string();
        let back = |level: i32| {
            vec![
                ("group", "G".to_owned()),
                ("offset", sent.log_offset.to_string()),
                ("delayLevel", level.to_string()),
            ]
        };
        let pop_ms = broker.runtime.now_ms();
        let handle = |offset: i64| {
            vec![
                ("consumerGroup", "G".to_owned()),
                ("topic", "T".to_owned()),
                ("queueId", "0".to_owned()),
                ("offset", offset.to_string()),
                ("extraInfo", format!("{offset} {pop_ms} 60000 0 0 b 0 {offset}")),
                ("invisibleTime", "60000".to_owned()),
            ]
        };
        let acks = format!(
            r#"{{"brokerName":"b","acks":[{{"c":"G","t":"T","r":"0","so":0,"q":0,"rq":0,"pt":{pop_ms},"it":60000,"b":"AQ=="}}]}}"#
        );
        let asked = vec![
            ("commit", request::END_TRANSACTION, end(8), Vec::new()),
            ("roll back", request::END_TRANSACTION, end(12), Vec::new()),
            ("send back", request::CONSUMER_SEND_MSG_BACK, back(1), Vec::new()),
            ("dead letter", request::CONSUMER_SEND_MSG_BACK, back(-1), Vec::new()),
            ("resume", request::RESUME_CHECK_HALF_MESSAGE, vec![("msgId", id)], Vec::new()),
            ("ack", request::ACK_MESSAGE, handle(0), Vec::new()),
            ("batch ack", request::BATCH_ACK_MESSAGE, Vec::new(), acks.into_bytes()),
            ("invisible", request::CHANGE_MESSAGE_INVISIBLETIME, handle(0), Vec::new()),
            ("send", request::SEND_MESSAGE_V2, send(false), b"body".to_vec()),
            ("batch", request::SEND_MESSAGE_V2, send(true), one_entry()),
        ];
        assert!(wait_flushed(&broker.store, broker.store.appended()));
        asked
    }

    /// Makes the disk hang until the returned guard is dropped.
    fn hang(&self) -> MutexGuard<'_, ()> {
        self.disk.faults(|faults| faults.syncs_wait_for = Some(self.hanging.clone()));
        self.hanging.lock().unwrap()
    }

    /// Serves a request as the thread of a connection does.
    fn serve(&self, code: i32, fields: &[(&str, String)], body: &[u8]) -> Arc<ConnectionHandle> {
        let broker = &self.fixture.broker;
        let mut bytes = Vec::new();
        let writer = FrameWriter::begin(&mut bytes, Head::request(Encoding::Json, code, 1));
        fields.iter().fold(writer, |writer, (key, value)| writer.text(key, value)).finish(body);
        let frame = RequestFrame::new(Command::decode(&mut bytes).unwrap());
        let peer = Arc::new(ConnectionHandle::detached(1, ADDRESS));
        let dispatcher = Dispatcher::new(broker.clone(), Port::Own);
        let mut out = Vec::new();
        let request = dispatcher.request(&peer, &frame, &crate::testing::CALLER);
        if let Err(refusal) = dispatcher.serve_alone(&frame, &request, &mut out)
            && let Err(refusal) = postpone(&dispatcher, &frame, &request, refusal)
        {
            dispatcher.refuse(&frame, &refusal, &mut out);
        }
        peer.push(|pushed| pushed.extend_from_slice(&out)).unwrap();
        peer
    }

    /// Serves all requests while the disk hangs, then lets `settle` decide how the disk continues. Checks code and
    /// remark of every response.
    fn check(&self, settle: impl FnOnce(&FakeDisk), code: i32, remark: &str) {
        let asked = self.asked();
        let hanging = self.hang();
        let serve = |(what, code, fields, body): &(&'static str, i32, Vec<_>, Vec<u8>)| {
            (*what, self.serve(*code, fields, body))
        };
        let waiting: Vec<_> = asked.iter().map(serve).collect();
        for (what, peer) in &waiting {
            let early = peer.pushed();
            assert!(early.is_empty(), "{what}: {}", String::from_utf8_lossy(&early));
        }
        settle(&self.disk);
        drop(hanging);
        for (what, peer) in &waiting {
            let (found, text) = answered(peer);
            assert!(found == code && text.contains(remark), "{what}: {found} {text:?}");
        }
    }
}

fn send(batch: bool) -> Vec<(&'static str, String)> {
    let header = SendHeader { producer_group: "PG", topic: "T", batch, ..SendHeader::default() };
    let mut bytes = Vec::new();
    header
        .write(FrameWriter::begin(&mut bytes, Head::request(Encoding::Json, request::SEND_MESSAGE_V2, 1)))
        .finish(b"");
    let command = Command::decode(&mut bytes).unwrap();
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n"];
    let field = |name: &'static str| Some((name, command.fields.text(name)?.to_owned()));
    names.into_iter().filter_map(field).collect()
}

fn one_entry() -> Vec<u8> {
    let mut bytes = Vec::new();
    let entry = wire::batch::Entry { flag: 0, body: b"body", properties: b"" };
    wire::batch::append(&mut bytes, &entry).unwrap();
    bytes
}

/// Code and remark of the answer, once the answer has come.
fn answered(peer: &Arc<ConnectionHandle>) -> (i32, String) {
    let mut bytes = Vec::new();
    until("the answer comes", || {
        bytes = peer.pushed();
        !bytes.is_empty()
    });
    let answer = Command::decode(&mut bytes).unwrap();
    (answer.code, answer.remark.unwrap_or_default().to_owned())
}

const NEVER: Duration = Duration::from_secs(3600);

#[test]
fn under_sync_flush_nothing_that_stores_is_answered_before_it_is_on_disk() {
    Slow::new(NEVER).check(|_| {}, response::SUCCESS, "");
}

#[test]
fn a_flush_that_fails_tells_all_who_wait_that_the_outcome_is_unknown() {
    let fail = |disk: &FakeDisk| disk.faults(|faults| faults.syncs_left = Some(0));
    let text = "The store is fenced until it is reopened (flushing the commit log";
    Slow::new(NEVER).check(fail, response::SERVICE_NOT_AVAILABLE, text);
    Slow::new(NEVER).check(fail, response::SERVICE_NOT_AVAILABLE, "the outcome is unknown");
}

#[test]
fn a_decision_said_twice_waits_for_the_flush_of_the_first() {
    let slow = Slow::new(NEVER);
    let (_, code, fields, _) = slow.asked().remove(0);
    let hanging = slow.hang();
    let (first, second) = (slow.serve(code, &fields, b""), slow.serve(code, &fields, b""));
    assert!(first.pushed().is_empty() && second.pushed().is_empty());
    drop(hanging);
    assert_eq!((answered(&first).0, answered(&second).0), (0, 0));
}

#[test]
fn under_async_flush_nobody_waits_for_the_disk() {
    let slow = Slow::new(NEVER);
    slow.fixture.broker.replication.durability.set_mode(FlushMode::Async, || {});
    let asked = slow.asked();
    let _hanging = slow.hang();
    for (what, code, fields, body) in &asked {
        assert!(!slow.serve(*code, fields, body).pushed().is_empty(), "{what}");
    }
}

#[test]
fn an_answer_that_came_too_late_keeps_where_the_message_is() {
    for encoding in [Encoding::Json, Encoding::Binary] {
        let mut answers = Vec::new();
        for opaque in 0..2 {
            let head = Head::response(encoding, response::SUCCESS, opaque);
            let writer =
                FrameWriter::begin(&mut answers, head).text("msgId", "0A000009").number("queueId", 3);
            writer.number("queueOffset", 7).finish(b"");
        }
        qualify(&mut answers, &Outcome::FlushTimedOut);
        let mut rest = answers.as_mut_slice();
        for opaque in 0..2 {
            let length = frame_length(rest).unwrap().unwrap();
            let (frame, next) = rest.split_at_mut(length);
            let answer = Command::decode(frame).unwrap();
            assert_eq!((answer.code, answer.opaque), (10, opaque));
            assert!(answer.remark.unwrap().contains("the outcome is unknown"));
            assert_eq!(answer.fields.text("msgId"), Some("0A000009"));
            assert_eq!(answer.fields.text("queueOffset"), Some("7"));
            rest = next;
        }
        assert!(rest.is_empty());
    }
}
