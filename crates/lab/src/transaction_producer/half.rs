//! The work of a transaction lane.

use super::verdict::Meta;
use crate::load::{Stamp, Template, Work};
use net::Peer;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use wire::body::{HeartbeatData, ProducerData};
use wire::codes::request;
use wire::frame::{Command, Encoding, FrameWriter, Head};
use wire::header::{Decision, EndTransaction, SendReply};
use wire::id::OffsetId;
use wire::properties::{self, key};
use wire::record::RecordView;

/// Nanoseconds between two heartbeats, which tell the broker where check-backs go.
const HEARTBEAT_NS: u64 = 30_000_000_000;

/// Messages whose check-backs are remembered to find duplicates.
const REMEMBERED: usize = 1 << 20;

/// Check-backs of all lanes.
#[derive(Debug, Default)]
pub(super) struct Checks {
    pub checked: AtomicU64,
    pub unexpected: AtomicU64,
    pub duplicated: AtomicU64,
    /// Which check-backs of a message came, a bit each.
    seen: Mutex<HashMap<u64, u32>>,
}

/// Sends half messages and ends them.
#[derive(Debug)]
pub(super) struct Half {
    template: Template,
    meta: Meta,
    encoding: Encoding,
    group: String,
    heartbeat: Vec<u8>,
    heartbeat_ns: AtomicU64,
    checks: Arc<Checks>,
}

/// Where a half message is, as its end names it.
struct Place<'a> {
    queue_offset: i64,
    log_offset: i64,
    message_id: &'a str,
    transaction_id: &'a str,
}

impl Half {
    pub fn new(
        template: Template,
        meta: Meta,
        encoding: Encoding,
        (group, client_id): (&str, &str),
        checks: Arc<Checks>,
    ) -> Self {
        let data = HeartbeatData {
            client_id: client_id.to_owned(),
            producer_data_set: vec![ProducerData { group_name: group.to_owned() }],
            ..HeartbeatData::default()
        };
        let heartbeat = wire::json::to_vec(&data);
        let (group, heartbeat_ns) = (group.to_owned(), AtomicU64::new(0));
        Self { template, meta, encoding, group, heartbeat, heartbeat_ns, checks }
    }

    fn beat(&self, now_ns: u64, peer: &Peer, out: &mut Vec<u8>) {
        self.heartbeat_ns.store(now_ns, Relaxed);
        Head::request(self.encoding, request::HEART_BEAT, peer.next_opaque()).write(out, &self.heartbeat);
    }

    fn end(&self, decision: Decision, place: &Place<'_>, from_check: bool, out: &mut Vec<u8>) {
        let writer = FrameWriter::begin(out, Head::one_way(self.encoding, request::END_TRANSACTION, 0));
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
        end.write(writer).finish(b"");
    }

    /// Answers a check-back and counts it.
    fn check(&self, command: &Command<'_>, out: &mut Vec<u8>) -> Option<()> {
        self.checks.checked.fetch_add(1, Relaxed);
        let record = RecordView::parse(command.body).ok()?;
        let get = |name| properties::get_str(record.properties(), name);
        let times =
            get(key::TRANSACTION_CHECK_TIMES).and_then(|times| times.parse().ok()).unwrap_or(1_usize).max(1);
        let unique = get(key::UNIQ_KEY).unwrap_or_default();
        let judged = self.meta.check(record.body(), times);
        if let (Some((_, true)), Some(number)) = (judged, record.body().get(8..16)) {
            self.checks.unexpected.fetch_add(1, Relaxed);
            let number = u64::from_be_bytes(number.try_into().ok()?);
            println!("unexpected check: msgId={number},txId={unique},checkTimes={times}");
        }
        if judged.is_some() && self.is_duplicate(record.body(), times) {
            self.checks.duplicated.fetch_add(1, Relaxed);
        }
        let place = Place {
            queue_offset: command.fields.text("tranStateTableOffset")?.parse().ok()?,
            log_offset: command.fields.text("commitLogOffset")?.parse().ok()?,
            message_id: command.fields.text("msgId").unwrap_or(unique),
            transaction_id: command.fields.text("transactionId").unwrap_or(unique),
        };
        let verdict = judged.map_or(Decision::Rollback, |(verdict, _)| verdict);
        self.end(verdict, &place, true, out);
        Some(())
    }

    fn is_duplicate(&self, body: &[u8], times: usize) -> bool {
        let Some(number) = body.get(8..16).and_then(|bytes| bytes.try_into().ok()) else { return false };
        let mut seen = self.checks.seen.lock().expect("nothing panics while it is held");
        if seen.len() >= REMEMBERED {
            // Late check-backs of forgotten messages count as first ones.
            seen.clear();
        }
        let bits = seen.entry(u64::from_be_bytes(number)).or_default();
        let bit = 1 << (times - 1).min(31);
        let is_known = *bits & bit != 0;
        *bits |= bit;
        is_known
    }
}

impl Work for Half {
    fn queues(&self) -> usize {
        self.template.queues()
    }

    fn keys(&self) -> u16 {
        self.template.keys()
    }

    fn append(&self, out: &mut Vec<u8>, queue: usize, stamp: &Stamp) {
        self.template.append(out, queue, stamp);
        let body_at = out.len() - self.template.body_bytes();
        self.meta.write(&mut out[body_at..], stamp.opaque.cast_unsigned());
    }

    fn opened(&self, now_ns: u64, peer: &Peer, out: &mut Vec<u8>) {
        self.beat(now_ns, peer, out);
    }

    fn elapsed(&self, now_ns: u64, peer: &Peer, out: &mut Vec<u8>) {
        if now_ns.saturating_sub(self.heartbeat_ns.load(Relaxed)) >= HEARTBEAT_NS {
            self.beat(now_ns, peer, out);
        }
    }

    fn stored(&self, command: &Command<'_>, out: &mut Vec<u8>) {
        // Answers to heartbeats have none of these fields.
        let Ok(reply) = SendReply::decode(&command.fields) else { return };
        let Some(id) = OffsetId::parse(reply.message_id) else { return };
        let place = Place {
            queue_offset: reply.queue_offset,
            log_offset: id.log_offset.to_i64(),
            message_id: reply.transaction_id.unwrap_or_default(),
            transaction_id: reply.transaction_id.unwrap_or_default(),
        };
        self.end(self.meta.sent(command.opaque.cast_unsigned()), &place, false, out);
    }

    fn asked(&self, command: &Command<'_>, out: &mut Vec<u8>) {
        if command.code == request::CHECK_TRANSACTION_STATE && self.check(command, out).is_none() {
            eprintln!("a check-back cannot be read: {:?}", command.remark);
        }
    }
}
