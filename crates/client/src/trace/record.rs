//! The encoded form of trace records (`TraceDataEncoder.encoderFromContextBean`).

use crate::Received;
use std::collections::BTreeMap;
use std::fmt::Display;
use wire::header::{Decision, EndTransaction};
use wire::properties::key;

/// Encoded record with the keys for queries.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    pub text: String,
    pub keys: Vec<String>,
}

impl Record {
    fn add(&mut self, fields: &[&dyn Display], message_id: &str, keys: Option<&str>) {
        for (index, field) in fields.iter().enumerate() {
            if index > 0 {
                self.text.push('\u{1}');
            }
            self.text.push_str(&field.to_string());
        }
        self.text.push('\u{2}');
        self.keys.push(message_id.to_owned());
        self.keys.extend(keys.into_iter().flat_map(|keys| keys.split(' ')).map(str::to_owned));
    }
}

/// Text that RocketMQ's Java client writes for a missing value.
const ABSENT: &str = "null";

/// A send that was answered or failed.
#[derive(Clone, Copy, Debug)]
pub struct SendTrace<'a> {
    /// Topic of the message.
    pub topic: &'a str,
    /// Properties of the message, at least those that traces contain.
    pub properties: &'a BTreeMap<String, String>,
    /// Region that the broker returned, or `null` without a region.
    pub region: &'a str,
    /// Unique key of the message.
    pub message_id: &'a str,
    /// Id that the broker gave the message; empty when the send failed.
    pub offset_id: &'a str,
    /// Address of the broker.
    pub store_host: &'a str,
    /// Bytes of the body as sent, after compression.
    pub body_bytes: usize,
    /// Time from sending to the answer, milliseconds.
    pub cost_ms: i64,
}

impl SendTrace<'_> {
    pub(super) fn record(&self, group: &str, now_ms: i64) -> Record {
        let mut record = Record::default();
        let has = |name: &str| self.properties.contains_key(name);
        // Ordinals of normal, half and delayed messages in `MessageType`.
        let kind = if has(key::TRANSACTION_PREPARED) {
            1
        } else if [key::DELAY, key::TIMER_DELAY_SEC, key::TIMER_DELAY_MS, key::TIMER_DELIVER_MS]
            .into_iter()
            .any(has)
        {
            3
        } else {
            0
        };
        let [tags, keys] = [key::TAGS, key::KEYS].map(|name| self.properties.get(name).map(String::as_str));
        let fields: [&dyn Display; 14] = [
            &"Pub",
            &(now_ms - self.cost_ms),
            &self.region,
            &group,
            &self.topic,
            &self.message_id,
            &tags.unwrap_or(ABSENT),
            &keys.unwrap_or(ABSENT),
            &self.store_host,
            &self.body_bytes,
            &self.cost_ms,
            &kind,
            &self.offset_id,
            &!self.offset_id.is_empty(),
        ];
        record.add(&fields, self.message_id, keys);
        record
    }
}

/// The end of a transaction.
pub(crate) struct TransactionTrace<'a> {
    pub end: &'a EndTransaction<'a>,
    pub store_host: &'a str,
    /// Property of the message with its region; `tags` and `keys` likewise.
    pub region: Option<&'a str>,
    pub tags: Option<&'a str>,
    pub keys: Option<&'a str>,
}

impl TransactionTrace<'_> {
    pub(super) fn record(&self, group: &str, now_ms: i64) -> Record {
        let Self { end, store_host, region, tags, keys } = self;
        let state = match end.decision {
            Decision::Commit => "COMMIT_MESSAGE",
            Decision::Rollback => "ROLLBACK_MESSAGE",
            Decision::Unknown => "UNKNOW",
        };
        let mut record = Record::default();
        let fields: [&dyn Display; 13] = [
            &"EndTransaction",
            &now_ms,
            &region.unwrap_or("DefaultRegion"),
            &group,
            &end.topic,
            &end.message_id,
            &tags.unwrap_or(ABSENT),
            &keys.unwrap_or(ABSENT),
            store_host,
            // Ordinal of a transaction commit in `MessageType`.
            &2,
            &end.transaction_id,
            &state,
            &end.from_check,
        ];
        record.add(&fields, end.message_id, *keys);
        record
    }
}

/// Call of the listener.
pub(crate) struct ConsumeTrace {
    request_id: String,
    begin_ms: i64,
}

/// Whether a message is traced: brokers with `traceOn=false` mark their messages.
fn is_traced(message: &&Received) -> bool {
    message.property(key::TRACE_SWITCH) != Some("false")
}

impl ConsumeTrace {
    pub(super) fn new(messages: &[Received], now_ms: i64) -> Self {
        // The id of the first message and the time make the request id unique among the calls of a listener.
        let first = messages.first().map(Received::message_id).unwrap_or_default();
        Self { request_id: format!("{first}-{now_ms}"), begin_ms: now_ms }
    }

    pub(super) fn before(&self, group: &str, messages: &[Received]) -> Record {
        let mut record = Record::default();
        for message in messages.iter().filter(is_traced) {
            let (id, keys) = (message.message_id(), message.property(key::KEYS));
            let region = message.property(key::MSG_REGION).unwrap_or(ABSENT);
            let fields: [&dyn Display; 8] = [
                &"SubBefore",
                &self.begin_ms,
                &region,
                &group,
                &self.request_id,
                &id,
                &message.reconsume_times,
                &keys.unwrap_or(ABSENT),
            ];
            record.add(&fields, &id, keys);
        }
        record
    }

    pub(super) fn after(&self, group: &str, messages: &[Received], outcome: (i64, bool)) -> Record {
        let (now_ms, is_done) = outcome;
        let mut record = Record::default();
        let cost_ms = (now_ms - self.begin_ms) / i64::try_from(messages.len().max(1)).unwrap_or(1);
        // Ordinals of success and failure in `ConsumeReturnType`.
        let code = if is_done { 0 } else { 4 };
        for message in messages.iter().filter(is_traced) {
            let (id, keys) = (message.message_id(), message.property(key::KEYS));
            let fields: [&dyn Display; 9] = [
                &"SubAfter",
                &self.request_id,
                &id,
                &cost_ms,
                &is_done,
                &keys.unwrap_or(ABSENT),
                &code,
                &now_ms,
                &group,
            ];
            record.add(&fields, &id, keys);
        }
        record
    }
}
