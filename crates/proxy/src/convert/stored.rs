//! Conversion of a stored record to a message of the protocol. The body is not copied, unless 5.x clients do not know
//! its compression.

use bytes::Bytes;
use grpc::messages::{
    DeadLetterQueue, Digest, DigestType, Encoding, Message, MessageType, Resource, SystemProperties,
    Timestamp,
};
use md5::{Digest as _, Md5};
use wire::id::OffsetId;
use wire::properties::{self, key};
use wire::record::sys_flag::Compression;
use wire::record::{RecordView, sys_flag};

use super::sent::MessageKind;
use crate::checks;

/// `__LITE_TOPIC`: the lite topic of a message.
pub const LITE_TOPIC: &str = "__LITE_TOPIC";

/// Largest body in bytes that is decompressed for a client.
const PLAIN_BYTES_MAX: u64 = 16 << 20;

/// Converts the message in `record`, which must be a range of `bytes`. The receiver sets the receipt handle and the
/// number of the delivery.
pub fn message(bytes: &Bytes, record: &RecordView<'_>, now_ms: i64) -> Message {
    let properties = record.properties();
    let [tag, keys, message_id, born_host, message_group, trace_context] = texts(
        properties,
        [key::TAGS, key::KEYS, key::UNIQ_KEY, key::BORN_HOST, key::SHARDING_KEY, key::TRACE_CONTEXT],
    );
    let [delay_s, deliver_ms, priority, lite_topic] =
        texts(properties, [key::TIMER_DELAY_SEC, key::TIMER_DELIVER_MS, key::PRIORITY, LITE_TOPIC]);
    let [dead_topic, dead_id] = texts(properties, [key::DLQ_ORIGIN_TOPIC, key::DLQ_ORIGIN_MESSAGE_ID]);
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<i64>().ok());
    let delivery_ms = match number(delay_s) {
        Some(seconds) => Some(now_ms.saturating_add(seconds.saturating_mul(1000))),
        None => number(deliver_ms),
    };
    let text = |text: Option<&str>| text.map(str::to_owned);
    let dead = text(dead_topic).zip(text(dead_id));
    let (body, encoding) = readable(bytes.slice_ref(record.body()), record.sys_flag());
    let kind = match MessageKind::of(properties).0 {
        MessageType::Unspecified => MessageType::Normal,
        known => known,
    };
    let system = SystemProperties {
        tag: text(tag),
        keys: keys.map(|keys| keys.split(' ').map(str::to_owned).collect()).unwrap_or_default(),
        message_id: text(message_id).unwrap_or_else(|| offset_id(record)),
        body_digest: Some(digest(&body)),
        body_encoding: encoding.into(),
        message_type: kind.into(),
        born_timestamp: Some(Timestamp::of_ms(record.born_timestamp())),
        born_host: text(born_host).unwrap_or_else(|| record.born_host().ip().to_string()),
        store_timestamp: Some(Timestamp::of_ms(record.store_timestamp())),
        store_host: record.store_host().to_string(),
        delivery_timestamp: delivery_ms.map(Timestamp::of_ms),
        receipt_handle: None,
        queue_id: record.queue_id(),
        queue_offset: Some(record.raw_queue_offset()),
        invisible_duration: None,
        delivery_attempt: Some(record.reconsume_times().saturating_add(1)),
        message_group: text(message_group),
        trace_context: text(trace_context),
        orphaned_transaction_recovery_duration: None,
        dead_letter_queue: dead.map(|(topic, message_id)| DeadLetterQueue { topic, message_id }),
        lite_topic: text(lite_topic),
        priority: number(priority).and_then(|priority| i32::try_from(priority).ok()).filter(|it| *it >= 0),
    };
    Message {
        topic: Some(resource(record.topic_str().unwrap_or_default())),
        user_properties: user_properties(properties),
        system_properties: Some(system),
        body,
    }
}

/// The values of properties that are text, found in one pass.
fn texts<'a, const N: usize>(stored: &'a [u8], names: [&str; N]) -> [Option<&'a str>; N] {
    properties::get_all(stored, names).map(|value| std::str::from_utf8(value?).ok())
}

/// Returns a body that 5.x clients can read, with its encoding. Clients inflate zlib, which the protocol calls gzip.
/// LZ4 and ZSTD, which producers of the remoting protocol may use, are decompressed here
/// (`GrpcConverter.buildMessage` calls them gzip too, and clients fail). A body that cannot be decompressed is passed
/// on unchanged.
fn readable(body: Bytes, flag: i32) -> (Bytes, Encoding) {
    match sys_flag::compression(flag) {
        None => (body, Encoding::Identity),
        Some(Ok(kind @ (Compression::Lz4 | Compression::Zstd))) => {
            match client::decompress_up_to(kind, &body, PLAIN_BYTES_MAX) {
                Ok(plain) => (plain.into(), Encoding::Identity),
                Err(_) => (body, Encoding::Gzip),
            }
        }
        Some(Ok(Compression::Zlib) | Err(_)) => (body, Encoding::Gzip),
    }
}

fn user_properties(stored: &[u8]) -> std::collections::BTreeMap<String, String> {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    properties::pairs(stored)
        .filter(|(key, _)| !std::str::from_utf8(key).is_ok_and(checks::is_reserved))
        .map(|(key, value)| (text(key), text(value)))
        .collect()
}

/// A stored topic as a resource: `NS%Name` has a namespace, the prefixes of retry and dead letter topics are none.
pub fn resource(topic: &str) -> Resource {
    match topic.split_once('%') {
        Some((namespace, name)) if !namespace.is_empty() => {
            Resource { resource_namespace: namespace.to_owned(), name: name.to_owned() }
        }
        _ => Resource::named(topic),
    }
}

fn offset_id(record: &RecordView<'_>) -> String {
    let log_offset = record.log_offset().unwrap_or_default();
    OffsetId { store_host: record.store_host(), log_offset }.to_string()
}

/// The digest of a body: 32 upper-case hexadecimal digits of its MD5. The Node client fails without it.
fn digest(body: &[u8]) -> Digest {
    let mut checksum = Vec::with_capacity(32);
    wire::id::append_hex(&mut checksum, &Md5::digest(body));
    let checksum = String::from_utf8_lossy(&checksum).into_owned();
    Digest { r#type: DigestType::Md5.into(), checksum }
}
