//! Properties of a sent message: properties that the broker reads, and properties that it adds.

use std::borrow::Cow;
use std::sync::Arc;

use wire::codes::response;
use wire::header::SendHeader;
use wire::properties::{self, key, pairs};

use crate::parts::{Runtime, SendParts};
use crate::timer::delivery_time::{DeliveryTime, timed};
use crate::topics::{MessageKind, Topic};
use crate::{Refusal, Result, names};

/// Topic and queue a message goes to.
#[derive(Clone)]
pub(super) struct Target {
    pub topic: Arc<Topic>,
    pub queue_id: i32,
    /// Whether the topic is a dead letter topic, so that the message is not delayed again.
    pub dead: bool,
}

/// Meaning of a single send's properties for the broker.
#[derive(Default)]
pub(super) struct Properties {
    /// Whether the answer waits for the disk with sync flush (`WAIT`, default true).
    pub waits: bool,
    /// Delay level, from 1 to the highest.
    pub delay_level: Option<i32>,
    /// Whether the message is a half message, which waits for its producer's decision; a delay counts from that decision.
    pub is_half: bool,
    /// Wheel time of a timed message, in milliseconds since the epoch.
    pub out_ms: Option<i64>,
    /// Whether the message cancels a timed message.
    pub cancels: bool,
    /// Whether the message has a sharding key.
    pub has_sharding_key: bool,
    /// The queue that the message's priority stands for.
    pub priority_queue: Option<i32>,
}

/// Properties that only the broker may set; values from clients are dropped.
const DROPPED: [&str; 7] = [
    key::MSG_REGION,
    key::TRACE_SWITCH,
    key::CLUSTER,
    key::POP_CK,
    key::REAL_TOPIC,
    key::REAL_QUEUE_ID,
    key::INNER_MULTI_QUEUE_OFFSET,
];

/// Whether the answer waits for the disk: true unless the properties contain `WAIT=false`.
pub(super) fn waits(properties: &[u8]) -> bool {
    properties::get(properties, key::WAIT_STORE_MSG_OK)
        .is_none_or(|value| value.eq_ignore_ascii_case(b"true"))
}

/// The properties of a batch entry, which are stored as they came, ended by the separator that some clients
/// leave out. Recovery relies on the separator to distinguish a lost sector from a property.
pub(super) fn terminated(properties: &[u8]) -> Cow<'_, [u8]> {
    if properties.last().is_none_or(|last| *last == 2) {
        return Cow::Borrowed(properties);
    }
    let mut text = properties.to_vec();
    text.push(2);
    Cow::Owned(text)
}

/// The kind of a batch of messages.
pub(super) fn kind_of_batch(properties: &[u8]) -> MessageKind {
    match properties::get(properties, key::SHARDING_KEY) {
        Some(_) => MessageKind::Fifo,
        None => MessageKind::Normal,
    }
}

/// The queue of the lite topic that a message names (`SendMessageProcessor.sendMessage`); `None` for any other message.
///
/// # Errors
/// `MESSAGE_ILLEGAL` for a lite topic that can have no queue. Apache's broker would store a message that no client gets.
pub(super) fn lite_queue(runtime: &Runtime, header: &SendHeader<'_>) -> Result<Option<String>> {
    if !runtime.config.store.multi_dispatch {
        return Ok(None);
    }
    let Some(lite_topic) = properties::get_str(header.properties, key::LITE_TOPIC) else { return Ok(None) };
    if lite_topic.is_empty() {
        return Ok(None);
    }
    names::lite_name(header.topic, lite_topic).map(Some).ok_or_else(|| {
        let text = "lite topic can only contain alphanumeric characters, hyphens(-), and underscores(_)";
        Refusal::new(response::MESSAGE_ILLEGAL, text)
    })
}

impl Properties {
    /// The kind of the message, as metrics name it (`BrokerMetricsManager.getMessageType`).
    pub(super) fn kind(&self) -> MessageKind {
        match () {
            () if self.is_half => MessageKind::Transaction,
            () if self.has_sharding_key => MessageKind::Fifo,
            () if self.delay_level.is_some() || self.out_ms.is_some() => MessageKind::Delay,
            () => MessageKind::Normal,
        }
    }

    /// Copies the valid properties of the request to `out`, adds the broker's own, and appends the unique key to `ids`.
    ///
    /// # Errors
    /// The refusal of a transaction message that the broker does not accept, of a delivery time that is not allowed, or of the
    /// property `INNER_NUM`.
    pub(super) fn rewrite(
        parts: &SendParts,
        header: &SendHeader<'_>,
        target: &Target,
        out: &mut Vec<u8>,
        ids: &mut Vec<u8>,
    ) -> Result<Self> {
        let mut found = Self { waits: true, ..Self::default() };
        let mut delay = None;
        let mut priority = None;
        let mut asked = DeliveryTime::default();
        let id_start = ids.len();
        let lite_queue = lite_queue(&parts.runtime, header)?;
        out.extend_from_slice(&parts.identity.sent_properties);
        for (name, value) in pairs(header.properties) {
            if DROPPED.iter().any(|dropped| dropped.as_bytes() == name) {
                continue;
            }
            let is = |wanted: &str| wanted.as_bytes() == name;
            if is(key::INNER_MULTI_DISPATCH) && lite_queue.is_some() {
                continue;
            } else if is(key::UNIQ_KEY) {
                ids.truncate(id_start);
                ids.extend_from_slice(value);
                continue;
            } else if is(key::WAIT_STORE_MSG_OK) {
                found.waits = value.eq_ignore_ascii_case(b"true");
            } else if is(key::DELAY) {
                delay = Some(value);
                continue;
            } else if is(key::TRANSACTION_PREPARED) && value.eq_ignore_ascii_case(b"true") {
                found.is_half = true;
            } else if is(key::TRANSACTION_ID) {
                continue;
            } else if is(key::SHARDING_KEY) {
                found.has_sharding_key = true;
            } else if is(key::PRIORITY) {
                priority = Some(value);
                continue;
            } else if is(key::INNER_NUM) {
                return Err(super::illegal(&parts.runtime));
            } else if name.starts_with(b"TIMER_") && asked.note(name, value) {
                continue;
            }
            copy_pair(out, name, value);
        }
        if let Some(queue) = lite_queue {
            properties::append(out, key::INNER_MULTI_DISPATCH, queue.as_bytes());
        }
        if ids.len() == id_start {
            parts.identity.unique_key(parts.runtime.now_ms(), ids);
        }
        properties::append(out, key::UNIQ_KEY, &ids[id_start..]);
        if let Some(text) = priority {
            let is_plain = !found.is_half && !found.has_sharding_key && delay.is_none() && !asked.is_asked();
            found.priority_queue = prioritized(out, text, target, is_plain);
        }
        let delay = delay.map(Delay::read).transpose()?;
        // A message that a consumer sends back was committed long ago (`SendMessageProcessor.sendMessage`).
        found.is_half &= !(header.reconsume_times > 0 && delay.is_some_and(|delay| delay.level > 0));
        if found.is_half {
            if parts.runtime.config.transaction.rejects {
                return Err(no_transactions(&parts.runtime));
            }
            half(out, target, &ids[id_start..], delay.map(|delay| delay.text));
        }
        found.schedule(parts, target, out, delay, asked)
    }

    /// Appends the broker's properties for messages that are delivered later: after a delay, or at a time.
    ///
    /// # Errors
    /// The refusal of a delivery time that is not allowed.
    fn schedule(
        mut self,
        parts: &SendParts,
        target: &Target,
        out: &mut Vec<u8>,
        delay: Option<Delay<'_>>,
        asked: DeliveryTime<'_>,
    ) -> Result<Self> {
        match delay {
            _ if self.is_half => {}
            Some(Delay { level, .. }) if level > 0 && !target.dead => {
                // A delay level wins over a delivery time, whose property is dropped (`HookUtils.checkIfTimerMessage`).
                let level = level.min(parts.runtime.delay_levels());
                self.delay_level = Some(level);
                delayed(out, level, target.topic.name(), target.queue_id);
                return Ok(self);
            }
            Some(_) if target.dead => properties::append(out, key::DELAY, b"-1"),
            Some(Delay { text, .. }) => properties::append(out, key::DELAY, text),
            None => {}
        }
        asked.copy(out);
        // The time of a half message is checked like any other, but counts from the producer's decision.
        self.out_ms =
            asked.out_ms(&parts.identity, &parts.delivery, &parts.runtime)?.filter(|_| !self.is_half);
        self.cancels = asked.cancels;
        if let Some(out_ms) = self.out_ms {
            timed(out, out_ms, target.topic.name(), target.queue_id);
        }
        Ok(self)
    }
}

/// The property `DELAY` of a request.
#[derive(Clone, Copy)]
struct Delay<'a> {
    text: &'a [u8],
    level: i32,
}

impl<'a> Delay<'a> {
    fn read(text: &'a [u8]) -> Result<Self> {
        Ok(Self { text, level: delay_level(text)? })
    }
}

/// Returns the delay level in the property `DELAY`. An empty property has no level.
fn delay_level(value: &[u8]) -> Result<i32> {
    let text = String::from_utf8_lossy(value);
    match text.as_ref() {
        "" => Ok(0),
        text => text.parse().map_err(|_| {
            let remark = format!("the property DELAY is {text:?}, expected the number of a delay level");
            Refusal::new(response::MESSAGE_ILLEGAL, remark)
        }),
    }
}

/// Appends the properties by which a delayed message is delivered: delay level, real topic and queue.
pub(crate) fn delayed(out: &mut Vec<u8>, level: i32, topic: &str, queue_id: i32) {
    let mut digits = itoa::Buffer::new();
    properties::append(out, key::DELAY, digits.format(level).as_bytes());
    properties::append(out, key::REAL_TOPIC, topic.as_bytes());
    properties::append(out, key::REAL_QUEUE_ID, digits.format(queue_id).as_bytes());
}

/// Appends the properties by which a half message is committed: real topic and queue, transaction id, and the delay
/// (`TransactionalMessageBridge.parseHalfMessageInner`).
fn half(out: &mut Vec<u8>, target: &Target, unique: &[u8], delay: Option<&[u8]>) {
    let mut digits = itoa::Buffer::new();
    properties::append(out, key::REAL_TOPIC, target.topic.name().as_bytes());
    properties::append(out, key::REAL_QUEUE_ID, digits.format(target.queue_id).as_bytes());
    properties::append(out, key::TRANSACTION_ID, unique);
    properties::append(out, key::DELAY, delay.unwrap_or_default());
}

/// Returns the queue for the priority of a message. Priorities above the last queue select the last queue. Only
/// messages without another kind have a priority, and other messages lose the property. An invalid priority is stored
/// unchanged (`SendMessageProcessor.sendMessage`).
fn prioritized(out: &mut Vec<u8>, text: &[u8], target: &Target, is_plain: bool) -> Option<i32> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<i32>().ok());
    let priority = number.filter(|priority| *priority >= 0);
    if priority.is_none() || is_plain {
        properties::append(out, key::PRIORITY, text);
    }
    let last = target.topic.config.write_queue_nums - 1;
    priority.filter(|_| is_plain && last >= 0).map(|priority| priority.min(last))
}

fn copy_pair(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.push(1);
    out.extend_from_slice(value);
    out.push(2);
}

fn no_transactions(runtime: &Runtime) -> Refusal {
    let remark =
        format!("the broker[{}] sending transaction message is forbidden", runtime.config.broker_ip1);
    Refusal::new(response::NO_PERMISSION, remark)
}
