//! Messages as applications send and receive them.

use crate::compress::decompress;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use wire::body::MessageQueue;
use wire::frame::Command;
use wire::id::OffsetId;
use wire::properties::{self, key};
use wire::record::{RecordView, sys_flag};

/// A message to send.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Topic.
    pub topic: String,
    /// Content; not empty.
    pub body: Vec<u8>,
    /// A number that is stored with the message and not interpreted.
    pub flag: i32,
    /// Properties by name.
    pub properties: BTreeMap<String, String>,
}

impl Message {
    /// A message without properties.
    pub fn new(topic: impl Into<String>, body: impl Into<Vec<u8>>) -> Self {
        Self { topic: topic.into(), body: body.into(), ..Self::default() }
    }

    /// Sets a property. A property with an empty name or value is not sent.
    #[must_use]
    pub fn property(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties.insert(name.into(), value.into());
        self
    }

    /// Sets the tag, by which consumers filter.
    #[must_use]
    pub fn tag(self, tag: impl Into<String>) -> Self {
        self.property(key::TAGS, tag)
    }

    /// Sets the keys, by which messages can be queried, separated by blanks.
    #[must_use]
    pub fn keys(self, keys: impl Into<String>) -> Self {
        self.property(key::KEYS, keys)
    }

    /// Delays delivery by a delay level of the broker, counted from 1.
    #[must_use]
    pub fn delay_level(self, level: u32) -> Self {
        self.property(key::DELAY, level.to_string())
    }

    /// Delays delivery by a time, which the broker rounds to its precision (a second by default).
    #[must_use]
    pub fn deliver_after(self, delay: std::time::Duration) -> Self {
        self.property(key::TIMER_DELAY_MS, delay.as_millis().to_string())
    }

    /// Delays delivery until a time, milliseconds since 1970.
    #[must_use]
    pub fn deliver_at(self, time_ms: i64) -> Self {
        self.property(key::TIMER_DELIVER_MS, time_ms.to_string())
    }
}

/// A received message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Topic; for a message of the retry topic its original topic.
    pub topic: String,
    /// Queue from which the message was read.
    pub queue: Arc<MessageQueue>,
    /// Offset in the queue.
    pub queue_offset: i64,
    /// Offset in the broker's commit log.
    pub log_offset: i64,
    /// Content, decompressed.
    pub body: Vec<u8>,
    /// The number that the sender set, which is not interpreted.
    pub flag: i32,
    /// System flag as stored.
    pub sys_flag: i32,
    /// Time at which the message was sent, by the sender's clock, milliseconds since 1970.
    pub born_timestamp: i64,
    /// Address of the sender.
    pub born_host: SocketAddr,
    /// Time at which the message was stored, by the broker's clock, milliseconds since 1970.
    pub store_timestamp: i64,
    /// Address of the broker.
    pub store_host: SocketAddr,
    /// Number of earlier deliveries that failed.
    pub reconsume_times: i32,
    /// Properties that the producer and the brokers set.
    pub properties: Properties,
}

/// The properties of a received message in their stored form. Most are never read, so parsing them for every message
/// would cost more than searching them on demand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties(String);

impl Properties {
    /// Takes the stored properties; bytes that are not UTF-8 become U+FFFD.
    pub(crate) fn new(stored: &[u8]) -> Self {
        Self(text(stored))
    }

    /// Returns the value of a property, or the last value of a repeated property.
    pub fn get(&self, name: &str) -> Option<&str> {
        properties::get_str(self.0.as_bytes(), name)
    }

    /// All properties with their values, in stored order.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = properties::pairs(self.0.as_bytes());
        pairs.filter_map(|(name, value)| Some((str::from_utf8(name).ok()?, str::from_utf8(value).ok()?)))
    }
}

impl Received {
    /// Returns the value of a property, or `None` if the message does not have it.
    pub fn property(&self, name: &str) -> Option<&str> {
        self.properties.get(name)
    }

    /// The tag; `None` when the message has none.
    pub fn tag(&self) -> Option<&str> {
        self.property(key::TAGS)
    }

    /// The unique key that the producer set; without one, the id of [`Self::offset_id`].
    pub fn message_id(&self) -> String {
        self.property(key::UNIQ_KEY).map_or_else(|| self.offset_id(), str::to_owned)
    }

    /// The broker's message id: its address and the offset in its commit log.
    pub fn offset_id(&self) -> String {
        let log_offset = wire::units::LogOffset::from_i64(self.log_offset).unwrap_or_default();
        OffsetId { store_host: self.store_host, log_offset }.to_string()
    }
}

impl Received {
    /// Decodes a stored record. The broker set of its queue stays empty.
    ///
    /// # Errors
    /// Description of the record's error.
    pub fn decode(record: &[u8]) -> Result<Self, String> {
        decode_one(record, "")
    }
}

/// Decodes a single record, as requests of brokers contain it.
pub(crate) fn decode_one(body: &[u8], broker: &str) -> Result<Received, String> {
    let record = RecordView::parse(body).map_err(|error| error.to_string())?;
    from_record(&record, broker)
}

/// Builds the message of a record with known bounds.
pub(crate) fn from_record(record: &RecordView<'_>, broker: &str) -> Result<Received, String> {
    let queue = Arc::new(MessageQueue::new(text(record.topic()), broker, record.queue_id()));
    Ok(received(record, queue, plain_body(record)?))
}

/// Decodes a reply message. Everything but its body is in header fields (`ReplyMessageRequestHeader`).
pub(crate) fn from_push(command: &Command<'_>) -> Result<Received, String> {
    let fields = &command.fields;
    let number = |name: &'static str| fields.need_number::<i64>(name).map_err(|error| error.to_string());
    let small = |name: &'static str| fields.need_number::<i32>(name).map_err(|error| error.to_string());
    let topic = fields.need("topic").map_err(|error| error.to_string())?;
    let host = |name: &str| {
        let text = fields.text(name).unwrap_or_default();
        text.parse().unwrap_or(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0))
    };
    let sys_flag = small("sysFlag")?;
    Ok(Received {
        topic: topic.to_owned(),
        queue: Arc::new(MessageQueue::new(topic, "", small("queueId")?)),
        queue_offset: -1,
        log_offset: -1,
        body: plain(sys_flag, command.body)?,
        flag: small("flag")?,
        sys_flag,
        born_timestamp: number("bornTimestamp")?,
        born_host: host("bornHost"),
        store_timestamp: number("storeTimestamp")?,
        store_host: host("storeHost"),
        reconsume_times: small("reconsumeTimes").unwrap_or(0),
        properties: Properties::new(fields.bytes("properties").unwrap_or_default()),
    })
}

/// Decodes the body of the response to a pull at `offset`. Stops at the first record with unknown bounds, like
/// `MessageDecoder` of RocketMQ's Java client. A message with unreadable content is skipped, because no consumer
/// could ever pass it.
pub(crate) fn decode(body: &[u8], queue: &MessageQueue, offset: i64) -> Vec<Received> {
    let mut messages = Vec::new();
    let shared = Arc::new(queue.clone());
    for record in records(body, queue, offset) {
        let outer = match plain_body(&record) {
            Ok(plain) => received(&record, shared.clone(), plain),
            Err(why) => {
                let offset = record.raw_queue_offset();
                tracing::error!(?queue, offset, why, "an unreadable message is passed over");
                continue;
            }
        };
        if record.sys_flag() & (sys_flag::NEED_UNWRAP | sys_flag::INNER_BATCH) == 0 {
            messages.push(outer);
        } else {
            unwrap(outer, &mut messages);
        }
    }
    messages
}

/// Returns the records of a response up to the first record with unknown bounds. `offset` is the least possible queue
/// offset of the first record, and is used for logging.
pub(crate) fn records<'a>(
    body: &'a [u8],
    queue: &'a MessageQueue,
    mut offset: i64,
) -> impl Iterator<Item = RecordView<'a>> {
    let mut rest = body;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        match RecordView::parse(rest) {
            Ok(record) => {
                rest = &rest[record.size()..];
                offset = record.raw_queue_offset().saturating_add(1);
                Some(record)
            }
            Err(error) => {
                tracing::error!(%error, ?queue, offset, "an answer cannot be read; the messages behind are hidden");
                rest = &[];
                None
            }
        }
    })
}

fn plain_body(record: &RecordView<'_>) -> Result<Vec<u8>, String> {
    plain(record.sys_flag(), record.body())
}

fn plain(sys_flag: i32, body: &[u8]) -> Result<Vec<u8>, String> {
    match sys_flag::compression(sys_flag) {
        None => Ok(body.to_vec()),
        Some(Err(kind)) => Err(format!("the body is compressed in an unknown way, type {kind}")),
        Some(Ok(kind)) => {
            decompress(kind, body).map_err(|error| format!("cannot decompress a body: {error}"))
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn received(record: &RecordView<'_>, queue: Arc<MessageQueue>, body: Vec<u8>) -> Received {
    Received {
        topic: text(record.topic()),
        queue,
        queue_offset: record.raw_queue_offset(),
        log_offset: record.log_offset().map_or(-1, |offset| offset.to_i64()),
        body,
        flag: record.flag(),
        sys_flag: record.sys_flag(),
        born_timestamp: record.born_timestamp(),
        born_host: record.born_host(),
        store_timestamp: record.store_timestamp(),
        store_host: record.store_host(),
        reconsume_times: record.reconsume_times(),
        properties: Properties::new(record.properties()),
    }
}

/// Unpacks an inner batch. Every entry has its own flag, body and properties; everything else comes from the outer
/// record.
fn unwrap(outer: Received, messages: &mut Vec<Received>) {
    for (index, entry) in (0_i64..).zip(wire::batch::entries(&outer.body)) {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                let (queue, offset) = (&outer.queue, outer.queue_offset + index);
                return tracing::error!(?queue, offset, %error, "the unreadable rest of a batch is passed over");
            }
        };
        messages.push(Received {
            queue_offset: outer.queue_offset + index,
            flag: entry.flag,
            body: entry.body.to_vec(),
            properties: Properties::new(entry.properties),
            ..outer.clone()
        });
    }
}

#[cfg(test)]
mod tests;
