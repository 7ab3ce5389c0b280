//! Sends with message traces (`-m true`): the records that RocketMQ's `SendMessageTraceHookImpl` writes for stored
//! messages.
//!
//! The answer to a send contains the unique key of the message, and the key contains the send time. Tag, keys and cost
//! follow from these, so nothing is kept per request in flight.

use crate::load::{Clock, Message, Stamp, Template, Work};
use client::{Published, Tracer};
use std::collections::BTreeMap;
use wire::frame::Command;
use wire::header::SendReply;
use wire::id::OffsetId;
use wire::properties::key;

/// Position of the milliseconds of the month in a unique key with an IPv4 address (`MessageClientIDSetter`).
const MONTH_DIGITS: std::ops::Range<usize> = 20..28;

/// Requests of a template, with traces if there is a tracer.
pub(super) struct Traced {
    pub template: Template,
    pub tracer: Option<Tracer>,
    pub message: Message,
    pub clock: Clock,
}

impl Traced {
    fn trace(&self, tracer: &Tracer, command: &Command<'_>) -> Option<()> {
        // A broker with `traceOn=false` says so in its answers.
        if command.fields.text("TRACE_ON") == Some("false") {
            return None;
        }
        let reply = SendReply::decode(&command.fields).ok()?;
        let now_ms = self.clock.epoch_ms(self.clock.now_ns());
        let message_id = reply.transaction_id?;
        let sent_ms = sent_ms(message_id, now_ms)?;
        let store_host = OffsetId::parse(reply.message_id)?.store_host.to_string();
        tracer.published(&Published {
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

impl Work for Traced {
    fn queues(&self) -> usize {
        self.template.queues()
    }

    fn keys(&self) -> u16 {
        self.template.keys()
    }

    fn append(&self, out: &mut Vec<u8>, queue: usize, stamp: &Stamp) {
        self.template.append(out, queue, stamp);
    }

    fn is_one_way(&self) -> bool {
        self.template.is_one_way()
    }

    fn stored(&self, command: &Command<'_>, _out: &mut Vec<u8>) {
        if let Some(tracer) = &self.tracer {
            // An answer without these fields comes from a broker that knows no traces.
            let _ = self.trace(tracer, command);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Target;
    use wire::frame::Encoding;

    #[test]
    fn a_unique_key_says_when_its_message_was_sent() {
        let at_ms = 1_700_000_000_123;
        let message = Message { tags: 3, keys: true, ..super::super::tests::message_of("-s 8") };
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
