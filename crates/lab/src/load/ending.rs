//! The second phase of a transaction: heartbeats, by which brokers know where to send checks, and the request that ends
//! the transaction.

use client::{Credentials, SignedRequest};
use net::ConnectionHandle;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use wire::body::{HeartbeatData, ProducerData};
use wire::codes::request;
use wire::frame::{Command, Encoding, FrameWriter, Head};
use wire::header::{Decision, EndTransaction, SendResponseHeader};
use wire::id::OffsetId;
use wire::properties::{self, key};
use wire::record::RecordView;

/// Nanoseconds between two heartbeats.
const HEARTBEAT_NS: u64 = 30_000_000_000;

/// Ends the transactions of one connection.
#[derive(Debug)]
pub(crate) struct Ending {
    encoding: Encoding,
    group: String,
    heartbeat: Vec<u8>,
    heartbeat_ns: AtomicU64,
    credentials: Option<Credentials>,
}

/// The position of a half message, as the request that ends it names it.
struct Place<'a> {
    queue_offset: i64,
    log_offset: i64,
    message_id: &'a str,
    transaction_id: &'a str,
}

impl Ending {
    pub fn new(encoding: Encoding, group: &str, client_id: &str) -> Self {
        let data = HeartbeatData {
            client_id: client_id.to_owned(),
            producer_data_set: vec![ProducerData { group_name: group.to_owned() }],
            ..HeartbeatData::default()
        };
        let heartbeat = wire::json::to_vec(&data);
        let group = group.to_owned();
        Self { encoding, group, heartbeat, heartbeat_ns: AtomicU64::new(0), credentials: None }
    }

    /// Signs the requests with these credentials.
    pub fn signed_by(self, credentials: Option<Credentials>) -> Self {
        Self { credentials, ..self }
    }

    /// Sends a heartbeat, when the connection was made or the interval has passed.
    pub fn beat(&self, now_ns: u64, peer: &ConnectionHandle, out: &mut Vec<u8>) {
        self.heartbeat_ns.store(now_ns, Relaxed);
        let head = Head::request(self.encoding, request::HEART_BEAT, peer.next_opaque());
        self.put(head, out, |frame| frame.finish(&self.heartbeat));
    }

    /// Calls [`Ending::beat`] when the interval has passed.
    pub fn elapsed(&self, now_ns: u64, peer: &ConnectionHandle, out: &mut Vec<u8>) {
        if now_ns.saturating_sub(self.heartbeat_ns.load(Relaxed)) >= HEARTBEAT_NS {
            self.beat(now_ns, peer, out);
        }
    }

    /// Ends the transaction of a half message whose send was answered.
    pub fn sent(&self, decision: Decision, command: &Command<'_>, out: &mut Vec<u8>) {
        // The answer to a heartbeat has none of these fields.
        let Ok(reply) = SendResponseHeader::decode(&command.fields) else { return };
        let Some(id) = OffsetId::parse(reply.message_id) else { return };
        let place = Place {
            queue_offset: reply.queue_offset,
            log_offset: id.log_offset.to_i64(),
            message_id: reply.transaction_id.unwrap_or_default(),
            transaction_id: reply.transaction_id.unwrap_or_default(),
        };
        self.end(decision, &place, false, out);
    }

    /// Answers a check of the broker (`CHECK_TRANSACTION_STATE`); `None` when the request cannot be read.
    pub fn checked(&self, decision: Decision, command: &Command<'_>, out: &mut Vec<u8>) -> Option<()> {
        let record = RecordView::parse(command.body).ok()?;
        let unique = properties::get_str(record.properties(), key::UNIQ_KEY).unwrap_or_default();
        let place = Place {
            queue_offset: command.fields.text("tranStateTableOffset")?.parse().ok()?,
            log_offset: command.fields.text("commitLogOffset")?.parse().ok()?,
            message_id: command.fields.text("msgId").unwrap_or(unique),
            transaction_id: command.fields.text("transactionId").unwrap_or(unique),
        };
        self.end(decision, &place, true, out);
        Some(())
    }

    fn end(&self, decision: Decision, place: &Place<'_>, from_check: bool, out: &mut Vec<u8>) {
        let end = EndTransaction {
            producer_group: &self.group,
            topic: "",
            queue_offset: place.queue_offset,
            log_offset: place.log_offset,
            decision,
            from_check,
            message_id: place.message_id,
            transaction_id: place.transaction_id,
        };
        let head = Head::one_way(self.encoding, request::END_TRANSACTION, 0);
        self.put(head, out, |frame| end.write(frame).finish(b""));
    }

    fn put(&self, head: Head<'_>, out: &mut Vec<u8>, write: impl FnOnce(FrameWriter<'_>)) {
        let frame = FrameWriter::begin(out, head);
        match &self.credentials {
            None => write(frame),
            Some(credentials) => SignedRequest::new(credentials, write).write(frame),
        }
    }
}
