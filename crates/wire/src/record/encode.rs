//! Encodes records. Body, hosts and properties are written once. [`place`] later fills in the fields that only the
//! appender knows: log position, queue offset and store time.

use super::{MAGIC_BLANK, MAGIC_V1, MAGIC_V2, RECORD_BYTES_MIN, sys_flag};
use crate::hash::crc32;
use crate::properties::PROPERTIES_BYTES_MAX;
use crate::properties::key;
use crate::units::{LogOffset, QueueOffset};
use std::net::{IpAddr, SocketAddr};
use thiserror::Error;

/// Size in bytes of the written part of a blank record; every commit log file reserves it at its end.
pub const BLANK_BYTES: usize = 8;
/// Size in bytes of the optional checksum property at the end of a record.
pub const CRC_PROPERTY_BYTES: usize = 20;
/// Longest topic in bytes for the one-byte signed length.
const TOPIC_V1_MAX: usize = 127;

/// Fields of a record that are known before the append.
#[derive(Clone, Copy, Debug)]
pub struct RecordFields<'a> {
    /// The topic's name.
    pub topic: &'a str,
    /// The queue id in the topic.
    pub queue_id: i32,
    /// The user-defined flag.
    pub flag: i32,
    /// [`sys_flag`] bits; the two host bits are set or cleared from the addresses.
    pub sys_flag: i32,
    /// The sender's clock, ms since the epoch.
    pub born_timestamp: i64,
    /// The sender's address.
    pub born_host: SocketAddr,
    /// Address of this broker.
    pub store_host: SocketAddr,
    /// Number of times the message was consumed before.
    pub reconsume_times: i32,
    /// Log position of the half message, for a committed transactional message; otherwise zero.
    pub prepared_transaction_offset: i64,
    /// The body as it will be stored.
    pub body: &'a [u8],
    /// The properties string as it will be stored.
    pub properties: &'a [u8],
    /// Whether space for the checksum property is reserved ([`seal_crc_property`]).
    pub crc_property: bool,
}

/// The fields of a record that the appender assigns under its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Queue offset; zero for records that are in no queue.
    pub queue_offset: QueueOffset,
    /// Log position of the record.
    pub log_offset: LogOffset,
    /// Store time: the broker's clock, ms since the epoch.
    pub store_timestamp: i64,
}

/// Errors of a record that cannot be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum EncodeError {
    /// The properties string does not fit its length field.
    #[error("properties are {found} bytes long, the limit is {PROPERTIES_BYTES_MAX}")]
    Properties {
        /// Length in bytes, with the checksum property.
        found: usize,
    },
    /// The topic does not fit its length field.
    #[error("topic is {found} bytes long, the limit is 32767")]
    Topic {
        /// Length of the topic in bytes.
        found: usize,
    },
    /// The record does not fit its size field.
    #[error("record is {found} bytes long, the limit is 2147483647")]
    Record {
        /// Length of the record in bytes.
        found: usize,
    },
}

fn is_v2(topic: &str) -> bool {
    topic.len() > TOPIC_V1_MAX
}

fn host_bytes(host: SocketAddr) -> usize {
    if host.is_ipv4() { 8 } else { 20 }
}

fn properties_bytes(fields: &RecordFields<'_>) -> usize {
    let separator = fields.properties.last().is_some_and(|last| *last != 2);
    let extra = if fields.crc_property { CRC_PROPERTY_BYTES + usize::from(separator) } else { 0 };
    fields.properties.len() + extra
}

/// Size in bytes of the record with these fields.
pub fn size_of(fields: &RecordFields<'_>) -> usize {
    RECORD_BYTES_MIN - 16
        + host_bytes(fields.born_host)
        + host_bytes(fields.store_host)
        + fields.body.len()
        + fields.topic.len()
        + usize::from(is_v2(fields.topic))
        + properties_bytes(fields)
}

/// Size in bytes of the part before the body.
pub fn head_size(fields: &RecordFields<'_>) -> usize {
    72 + host_bytes(fields.born_host) + host_bytes(fields.store_host)
}

/// Appends the record to `out`, with zeros for the fields that [`place`] fills in, and returns its size in bytes. On an error
/// `out` is unchanged.
///
/// # Errors
/// [`EncodeError`] when a part does not fit into its length field.
pub fn encode(fields: &RecordFields<'_>, out: &mut Vec<u8>) -> Result<usize, EncodeError> {
    let properties = properties_bytes(fields);
    let properties_field =
        i16::try_from(properties).map_err(|_| EncodeError::Properties { found: properties })?;
    let topic_field =
        i16::try_from(fields.topic.len()).map_err(|_| EncodeError::Topic { found: fields.topic.len() })?;
    let size = size_of(fields);
    let size_field = i32::try_from(size).map_err(|_| EncodeError::Record { found: size })?;
    let body_field = i32::try_from(fields.body.len()).map_err(|_| EncodeError::Record { found: size })?;
    let mut flags = fields.sys_flag & !(sys_flag::BORN_HOST_V6 | sys_flag::STORE_HOST_V6);
    if fields.born_host.is_ipv6() {
        flags |= sys_flag::BORN_HOST_V6;
    }
    if fields.store_host.is_ipv6() {
        flags |= sys_flag::STORE_HOST_V6;
    }
    let magic = if is_v2(fields.topic) { MAGIC_V2 } else { MAGIC_V1 };
    let start = out.len();
    out.reserve(size);
    // Assemble the fixed part on the stack, so that it is copied to `out` at once.
    let mut head = [0u8; 48];
    head[0..4].copy_from_slice(&size_field.to_be_bytes());
    head[4..8].copy_from_slice(&magic.to_be_bytes());
    head[8..12].copy_from_slice(&crc32(fields.body).to_be_bytes());
    head[12..16].copy_from_slice(&fields.queue_id.to_be_bytes());
    head[16..20].copy_from_slice(&fields.flag.to_be_bytes());
    head[36..40].copy_from_slice(&flags.to_be_bytes());
    head[40..48].copy_from_slice(&fields.born_timestamp.to_be_bytes());
    out.extend_from_slice(&head);
    append_host(out, fields.born_host);
    out.extend_from_slice(&[0; 8]);
    append_host(out, fields.store_host);
    let mut middle = [0u8; 16];
    middle[0..4].copy_from_slice(&fields.reconsume_times.to_be_bytes());
    middle[4..12].copy_from_slice(&fields.prepared_transaction_offset.to_be_bytes());
    middle[12..16].copy_from_slice(&body_field.to_be_bytes());
    out.extend_from_slice(&middle);
    out.extend_from_slice(fields.body);
    let topic_field = topic_field.to_be_bytes();
    out.extend_from_slice(if is_v2(fields.topic) { &topic_field } else { &topic_field[1..] });
    out.extend_from_slice(fields.topic.as_bytes());
    out.extend_from_slice(&properties_field.to_be_bytes());
    out.extend_from_slice(fields.properties);
    if fields.crc_property && fields.properties.last().is_some_and(|last| *last != 2) {
        out.push(2);
    }
    // With the checksum property this reserves zeros for its value.
    out.resize(start + size, 0);
    Ok(size)
}

fn append_host(out: &mut Vec<u8>, host: SocketAddr) {
    let port = u32::from(host.port()).to_be_bytes();
    match host.ip() {
        IpAddr::V4(ip) => out.extend_from_slice(&ip.octets()),
        IpAddr::V6(ip) => out.extend_from_slice(&ip.octets()),
    }
    out.extend_from_slice(&port);
}

/// Fills the appender's fields into an encoded record.
pub fn place(record: &mut [u8], placement: &Placement) {
    record[20..28].copy_from_slice(&placement.queue_offset.to_i64().to_be_bytes());
    record[28..36].copy_from_slice(&placement.log_offset.to_i64().to_be_bytes());
    let at = super::store_timestamp_at(super::i32_at(record, 36));
    record[at..at + 8].copy_from_slice(&placement.store_timestamp.to_be_bytes());
}

/// Fills the reserved space at the end of a placed record with the checksum of everything before it (`enabledAppendPropCRC`):
/// ten digits, the least significant first.
pub fn seal_crc_property(record: &mut [u8]) {
    let at = record.len() - CRC_PROPERTY_BYTES;
    let name = key::CRC32.as_bytes();
    let mut value = crc32(&record[..at]);
    record[at..at + name.len()].copy_from_slice(name);
    record[at + name.len()] = 1;
    for digit in &mut record[at + name.len() + 1..at + CRC_PROPERTY_BYTES - 1] {
        *digit = b'0' + u8::try_from(value % 10).expect("a digit is below ten");
        value /= 10;
    }
    record[at + CRC_PROPERTY_BYTES - 1] = 2;
}

/// The blank record that fills the last `left` bytes of a file.
pub fn encode_blank(left: u32) -> [u8; BLANK_BYTES] {
    let mut blank = [0; BLANK_BYTES];
    blank[..4].copy_from_slice(&left.to_be_bytes());
    blank[4..].copy_from_slice(&MAGIC_BLANK.to_be_bytes());
    blank
}
