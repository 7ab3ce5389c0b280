//! The texts of traces (`TraceDataEncoder.encoderFromContextBean`).

use crate::Received;
use std::collections::BTreeMap;
use std::fmt::Display;
use wire::header::{Decision, EndTransaction};
use wire::properties::key;

/// A record and what it is found by.
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

/// What Java writes for a value that is not there.
const ABSENT: &str = "null";

/// An answered or failed send.
#[derive(Clone, Copy, Debug)]
pub struct Published<'a> {
    /// Topic.
    pub topic: &'a str,
    /// Of the message: those that traces tell of.
    pub properties: &'a BTreeMap<String, String>,
    /// As the broker said, `null` when it did not.
    pub region: &'a str,
    /// Unique key.
    pub message_id: &'a str,
    /// Empty when it failed.
    pub offset_id: &'a str,
    /// Address of the broker.
    pub store_host: &'a str,
    /// Bytes of the body as sent.
    pub body_bytes: usize,
    /// From sending to the answer, milliseconds.
    pub cost_ms: i64,
}

impl Published<'_> {
    pub(super) fn record(&self, group: &str, now_ms: i64) -> Record {
        let mut record = Record::default();
        let has = |name: &str| self.properties.contains_key(name);
        // Normal, half and delayed of `MessageType`, by their places in it.
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

/// A decided transaction.
pub(crate) struct Ending<'a> {
    pub end: &'a EndTransaction<'a>,
    pub store_host: &'a str,
    /// Properties of the message: region, tags and keys.
    pub region: Option<&'a str>,
    pub tags: Option<&'a str>,
    pub keys: Option<&'a str>,
}

impl Ending<'_> {
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
            // A committed transaction's place in `MessageType`.
            &2,
            &end.transaction_id,
            &state,
            &end.from_check,
        ];
        record.add(&fields, end.message_id, *keys);
        record
    }
}

/// One call of the listener.
pub(crate) struct Consumed {
    request_id: String,
    begin_ms: i64,
}

/// Brokers with `traceOn=false` mark their messages.
fn is_traced(message: &&Received) -> bool {
    message.property(key::TRACE_SWITCH) != Some("false")
}

impl Consumed {
    pub(super) fn new(messages: &[Received], now_ms: i64) -> Self {
        // The first message's id and the time make it unique among the calls of a listener.
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
        // Success and failure by their places in `ConsumeReturnType`.
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
