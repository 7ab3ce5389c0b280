//! Sends with message traces (`-m true`): the records that RocketMQ's `SendMessageTraceHookImpl` writes for stored
//! messages.
//!
//! The answer to a send contains the unique key of the message, and the key contains the send time. Tag, keys and cost
//! follow from these, so nothing is kept per request in flight.

use crate::load::{Clock, Message};
use client::{SendTrace, Tracer};
use std::collections::BTreeMap;
use wire::frame::Command;
use wire::header::SendResponseHeader;
use wire::id::OffsetId;
use wire::properties::key;

/// Position of the milliseconds of the month in a unique key with an IPv4 address (`MessageClientIDSetter`).
const MONTH_DIGITS: std::ops::Range<usize> = 20..28;

/// Traces the messages of one connection.
pub(super) struct Traced {
    pub tracer: Tracer,
    pub message: Message,
    pub clock: Clock,
}

impl std::fmt::Debug for Traced {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Traced").field("message", &self.message).finish_non_exhaustive()
    }
}

impl Traced {
    /// Writes the trace of a message that is stored. An answer without the fields comes from a broker that knows no
    /// traces, and leaves none.
    pub fn stored(&self, command: &Command<'_>) {
        let _ = self.trace(command);
    }

    fn trace(&self, command: &Command<'_>) -> Option<()> {
        // A broker with `traceOn=false` says so in its answers.
        if command.fields.text("TRACE_ON") == Some("false") {
            return None;
        }
        let reply = SendResponseHeader::decode(&command.fields).ok()?;
        let now_ms = self.clock.epoch_ms(self.clock.now_ns());
        let message_id = reply.transaction_id?;
        let sent_ms = sent_ms(message_id, now_ms)?;
        let store_host = OffsetId::parse(reply.message_id)?.store_host.to_string();
        self.tracer.published(&SendTrace {
            topic: &self.message.topic,
            properties: &properties(&self.message, sent_ms),
            region: command.fields.text("MSG_REGION").unwrap_or("null"),
            message_id,
            offset_id: reply.message_id,
            store_host: &store_host,
            body_bytes: self.message.body.len(),
            cost_ms: i64::try_from(now_ms - sent_ms).unwrap_or(i64::MAX),
        });
        Some(())
    }
}

/// The properties for a trace that differ between messages: tag and keys, and the delay level.
fn properties(message: &Message, sent_ms: u64) -> BTreeMap<String, String> {
    let mut properties = BTreeMap::new();
    let mut add = |name: &str, value: String| properties.insert(name.to_owned(), value);
    if message.tags > 0 {
        add(key::TAGS, format!("tag{}", sent_ms % u64::from(message.tags)));
    }
    if message.keys {
        add(key::KEYS, (sent_ms / 1000).to_string());
    }
    if message.delay_level > 0 {
        add(key::DELAY, message.delay_level.to_string());
    }
    properties
}

/// Send time of a message from its unique key. A key holds the time within the month: at most a month back; a key of
/// the month before counts as now.
fn sent_ms(unique_key: &str, now_ms: u64) -> Option<u64> {
    let of_month = u64::from_str_radix(unique_key.get(MONTH_DIGITS)?, 16).ok()?;
    Some(now_ms - u64::from(client::calendar::month_ms(now_ms)).saturating_sub(of_month))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::Workload;
    use crate::load::{Stamp, Target, Template};
    use wire::frame::Encoding;

    #[test]
    fn a_unique_key_says_when_its_message_was_sent() {
        let at_ms = 1_700_000_000_123;
        let message = Workload { tags: 3, keys: true, ..Workload::default() }.messages().unwrap().remove(0);
        let target = Target { broker: "b".to_owned(), topic: None, queue_id: 0 };
        let template = Template::single(&message, &[target], Encoding::Binary);
        let stamp = Stamp {
            opaque: 1_000_000_001,
            epoch_ms: at_ms,
            month_ms: client::calendar::month_ms(at_ms),
            counter: 7,
            sequence: 0,
            floor: 0,
            since_us: at_ms * 1000,
        };
        let mut frame = Vec::new();
        template.append(&mut frame, 0, &stamp);
        let command = Command::decode(&mut frame).unwrap();
        let header = wire::header::SendHeader::decode(command.code, &command.fields).unwrap();
        let sent = |name| wire::properties::get_str(header.properties, name).unwrap().to_owned();
        assert_eq!(sent_ms(&sent("UNIQ_KEY"), at_ms + 42), Some(at_ms));
        let told = properties(&message, at_ms);
        assert_eq!((&told["TAGS"], &told["KEYS"]), (&sent("TAGS"), &sent("KEYS")));
        assert_eq!(sent_ms("short", at_ms), None);
        assert_eq!(
            sent_ms(&sent("UNIQ_KEY"), 1_704_067_200_005),
            Some(1_704_067_200_005),
            "the month before"
        );
    }
}
