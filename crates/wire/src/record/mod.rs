//! The message record: the same bytes in the commit log and in responses to pulls, big-endian.
//!
//! | bytes | field | offset with two IPv4 hosts |
//! |---|---|---|
//! | 4 | total size, this field included | 0 |
//! | 4 | magic: V1 or V2 | 4 |
//! | 4 | CRC of the stored body | 8 |
//! | 4 | queue id | 12 |
//! | 4 | the user-defined flag | 16 |
//! | 8 | queue offset | 20 |
//! | 8 | log position | 28 |
//! | 4 | [`sys_flag`] | 36 |
//! | 8 | born time, ms | 40 |
//! | 8 or 20 | born host: address, 4-byte port | 48 |
//! | 8 | store time, ms | 56 |
//! | 8 or 20 | store host | 64 |
//! | 4 | how often the message was consumed before | 72 |
//! | 8 | log position of the half message | 76 |
//! | 4 + n | body | 84 |
//! | 1 or 2 + m | topic; V2 has the two-byte length | |
//! | 2 + p | properties | |

mod encode;
pub mod sys_flag;

pub use encode::{
    BLANK_BYTES, CRC_PROPERTY_BYTES, EncodeError, Placement, RecordFields, encode, encode_blank, head_size,
    place, seal_crc_property, size_of,
};

use crate::hash::crc32;
use crate::units::{LogOffset, QueueOffset};
use std::net::{IpAddr, SocketAddr};
use thiserror::Error;

/// Magic of a record with a one-byte topic length.
pub const MAGIC_V1: u32 = 0xdaa3_20a7;
/// Magic of a record with a two-byte topic length.
pub const MAGIC_V2: u32 = 0xdaa3_20ab;
/// Magic of the record that fills the rest of a file.
pub const MAGIC_BLANK: u32 = 0xcbd4_3194;
/// Size in bytes of the smallest record: no body, topic or properties, and IPv4 hosts.
pub const RECORD_BYTES_MIN: usize = 91;

/// Errors of bytes that are not a valid record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RecordError {
    /// The bytes are fewer than the record or its fixed part needs.
    #[error("record is cut short: {needed} bytes expected, {found} found")]
    Truncated {
        /// Number of bytes needed.
        needed: usize,
        /// Number of bytes there.
        found: usize,
    },
    /// A blank record: the rest of the file is unused, and the next record begins in the next file.
    #[error("blank record of {size} bytes")]
    Blank {
        /// Bytes left in the file, with the blank record itself.
        size: u32,
    },
    /// The magic number is not valid.
    #[error("record magic is {found:#010x}, expected {MAGIC_V1:#010x} or {MAGIC_V2:#010x}")]
    Magic {
        /// The number found. Zero means the end of the written part.
        found: u32,
    },
    /// A length field is negative or leads past the record.
    #[error("record of {size} bytes has a wrong {field} length {found}")]
    Length {
        /// Total size of the record in bytes.
        size: usize,
        /// Name of the length field.
        field: &'static str,
        /// Value of the length field.
        found: i64,
    },
    /// The body does not match its checksum.
    #[error("body checksum is {found:#010x}, the record says {expected:#010x}")]
    Checksum {
        /// The stored checksum.
        expected: u32,
        /// The checksum of the body.
        found: u32,
    },
}

/// Record with a checked layout, borrowed from the buffer that holds it.
///
/// Invariant: `bytes` is exactly one record, and all positions below are inside it.
#[derive(Clone, Copy, Debug)]
pub struct RecordView<'a> {
    bytes: &'a [u8],
    born_host_bytes: usize,
    store_host_bytes: usize,
    body_end: usize,
    topic_at: usize,
    topic_end: usize,
}

/// Size and magic of the record or blank record at the start of `bytes`.
pub fn peek(bytes: &[u8]) -> Option<(u32, u32)> {
    let head = bytes.get(..8)?;
    Some((u32_at(head, 0), u32_at(head, 4)))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes sliced"))
}

fn i32_at(bytes: &[u8], at: usize) -> i32 {
    u32_at(bytes, at).cast_signed()
}

fn i64_at(bytes: &[u8], at: usize) -> i64 {
    i64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes sliced"))
}

fn host_at(bytes: &[u8], at: usize, length: usize) -> SocketAddr {
    let port_at = at + length - 4;
    let ip = match length {
        8 => IpAddr::from(<[u8; 4]>::try_from(&bytes[at..port_at]).expect("four bytes sliced")),
        _ => IpAddr::from(<[u8; 16]>::try_from(&bytes[at..port_at]).expect("sixteen bytes sliced")),
    };
    // RocketMQ writes the port as 4 bytes; the upper two are zero in every record of a broker.
    SocketAddr::new(ip, u16::from_be_bytes([bytes[port_at + 2], bytes[port_at + 3]]))
}

impl<'a> RecordView<'a> {
    /// Parses the record at the start of `bytes`; more bytes may follow it. Checks the magic and that the parts add up to the
    /// total size, but not the body's checksum ([`Self::check_crc`]).
    ///
    /// # Errors
    /// [`RecordError`] when the bytes do not begin with a complete, well-formed record; never [`RecordError::Checksum`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, RecordError> {
        let (size, magic) = peek(bytes).ok_or(RecordError::Truncated { needed: 8, found: bytes.len() })?;
        let topic_length_bytes = match magic {
            MAGIC_V1 => 1,
            MAGIC_V2 => 2,
            MAGIC_BLANK => return Err(RecordError::Blank { size }),
            found => return Err(RecordError::Magic { found }),
        };
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let wrong = |field, found| RecordError::Length { size, field, found };
        if size < RECORD_BYTES_MIN || size > i32::MAX.unsigned_abs() as usize {
            return Err(wrong("total", i64::try_from(size).unwrap_or(i64::MAX)));
        }
        let whole = bytes.len();
        let bytes = bytes.get(..size).ok_or(RecordError::Truncated { needed: size, found: whole })?;
        let sys_flag = i32_at(bytes, 36);
        let host_bytes = |bit| if sys_flag & bit == 0 { 8 } else { 20 };
        let born_host_bytes = host_bytes(sys_flag::BORN_HOST_V6);
        let store_host_bytes = host_bytes(sys_flag::STORE_HOST_V6);
        // `take` steps over the three variable parts; each must leave space for those behind it.
        let take = |at: usize, length: i64, field| -> Result<usize, RecordError> {
            let end = usize::try_from(length).ok().and_then(|length| at.checked_add(length));
            end.filter(|end| *end <= size).ok_or(wrong(field, length))
        };
        let body_at = take(72 + born_host_bytes + store_host_bytes, 0, "body")?;
        let body_length = i64::from(i32_at(bytes, body_at - 4));
        let body_end = take(body_at, body_length, "body")?;
        let topic_at = take(body_end, topic_length_bytes, "topic")?;
        let topic_length = match topic_length_bytes {
            1 => i64::from(bytes[topic_at - 1].cast_signed()),
            _ => i64::from(i16::from_be_bytes([bytes[topic_at - 2], bytes[topic_at - 1]])),
        };
        let topic_end = take(topic_at, topic_length, "topic")?;
        let properties_at = take(topic_end, 2, "properties")?;
        let properties_length =
            i64::from(i16::from_be_bytes([bytes[properties_at - 2], bytes[properties_at - 1]]));
        if take(properties_at, properties_length, "properties")? != size {
            return Err(wrong("properties", properties_length));
        }
        Ok(Self { bytes, born_host_bytes, store_host_bytes, body_end, topic_at, topic_end })
    }

    /// Compares the body with its checksum.
    ///
    /// # Errors
    /// [`RecordError::Checksum`] when they differ.
    pub fn check_crc(&self) -> Result<(), RecordError> {
        let (expected, found) = (self.body_crc(), crc32(self.body()));
        if expected == found { Ok(()) } else { Err(RecordError::Checksum { expected, found }) }
    }

    /// The whole record.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Total size in bytes.
    pub const fn size(&self) -> usize {
        self.bytes.len()
    }

    /// [`MAGIC_V1`] or [`MAGIC_V2`].
    pub fn magic(&self) -> u32 {
        u32_at(self.bytes, 4)
    }

    /// The stored checksum of the body.
    pub fn body_crc(&self) -> u32 {
        u32_at(self.bytes, 8)
    }

    /// The queue id of the message.
    pub fn queue_id(&self) -> i32 {
        i32_at(self.bytes, 12)
    }

    /// The user-defined flag.
    pub fn flag(&self) -> i32 {
        i32_at(self.bytes, 16)
    }

    /// The queue offset as stored; zero for half and rolled-back messages.
    pub fn raw_queue_offset(&self) -> i64 {
        i64_at(self.bytes, 20)
    }

    /// The queue offset; a negative field counts as zero.
    pub fn queue_offset(&self) -> QueueOffset {
        QueueOffset::from_i64(self.raw_queue_offset()).unwrap_or(QueueOffset::ZERO)
    }

    /// The log position in the record; `None` when the field is negative.
    pub fn log_offset(&self) -> Option<LogOffset> {
        LogOffset::from_i64(i64_at(self.bytes, 28))
    }

    /// The [`sys_flag`] bits.
    pub fn sys_flag(&self) -> i32 {
        i32_at(self.bytes, 36)
    }

    /// The sender's clock, ms since the epoch.
    pub fn born_timestamp(&self) -> i64 {
        i64_at(self.bytes, 40)
    }

    /// The sender's address.
    pub fn born_host(&self) -> SocketAddr {
        host_at(self.bytes, 48, self.born_host_bytes)
    }

    /// Store time: the broker's clock, ms since the epoch.
    pub fn store_timestamp(&self) -> i64 {
        i64_at(self.bytes, 48 + self.born_host_bytes)
    }

    /// The storing broker's address.
    pub fn store_host(&self) -> SocketAddr {
        host_at(self.bytes, 56 + self.born_host_bytes, self.store_host_bytes)
    }

    /// Returns the number of times the message was consumed before.
    pub fn reconsume_times(&self) -> i32 {
        i32_at(self.bytes, 56 + self.born_host_bytes + self.store_host_bytes)
    }

    /// Log position of the half message, for a committed transactional message; otherwise zero.
    pub fn prepared_transaction_offset(&self) -> i64 {
        i64_at(self.bytes, 60 + self.born_host_bytes + self.store_host_bytes)
    }

    /// The stored body.
    pub fn body(&self) -> &'a [u8] {
        &self.bytes[72 + self.born_host_bytes + self.store_host_bytes..self.body_end]
    }

    /// Returns all bytes before the body: the fixed part with the hosts, and the body's length.
    pub fn head(&self) -> &'a [u8] {
        &self.bytes[..72 + self.born_host_bytes + self.store_host_bytes]
    }

    /// Returns all bytes after the body: topic and properties with their lengths.
    pub fn behind_body(&self) -> &'a [u8] {
        &self.bytes[self.body_end..]
    }

    /// Compares the record with the checksum property at its end, if it has one (`enabledAppendPropCRC`).
    ///
    /// # Errors
    /// [`RecordError::Checksum`] when they differ.
    pub fn check_crc_property(&self) -> Result<(), RecordError> {
        let name = crate::properties::key::CRC32.as_bytes();
        let Some(from) = self.properties().len().checked_sub(CRC_PROPERTY_BYTES) else { return Ok(()) };
        let property = &self.properties()[from..];
        let digits = property.strip_prefix(name).and_then(|rest| rest.strip_prefix(&[1]));
        let Some([digits @ .., 2]) = digits else { return Ok(()) };
        let found = crc32(&self.bytes[..self.bytes.len() - CRC_PROPERTY_BYTES]);
        let value = digits.iter().rev().try_fold(0u64, |value, digit| {
            digit.is_ascii_digit().then(|| value * 10 + u64::from(digit - b'0'))
        });
        let expected = value.and_then(|value| u32::try_from(value).ok()).unwrap_or(u32::MAX);
        if expected == found { Ok(()) } else { Err(RecordError::Checksum { expected, found }) }
    }

    /// The topic as bytes.
    pub fn topic(&self) -> &'a [u8] {
        &self.bytes[self.topic_at..self.topic_end]
    }

    /// The topic as text; `None` when it is not UTF-8.
    pub fn topic_str(&self) -> Option<&'a str> {
        std::str::from_utf8(self.topic()).ok()
    }

    /// The properties string.
    pub fn properties(&self) -> &'a [u8] {
        &self.bytes[self.topic_end + 2..]
    }
}

/// Position of the store time in a record with this `sysFlag`.
pub const fn store_timestamp_at(sys_flag: i32) -> usize {
    if sys_flag & sys_flag::BORN_HOST_V6 == 0 { 56 } else { 68 }
}

/// Store time in ms of the record that begins with `head`, which must have at least 76 bytes.
pub fn peek_store_timestamp(head: &[u8]) -> Option<i64> {
    let (_, magic) = peek(head)?;
    if !matches!(magic, MAGIC_V1 | MAGIC_V2) || head.len() < 76 {
        return None;
    }
    Some(i64_at(head, store_timestamp_at(i32_at(head, 36))))
}

#[cfg(test)]
mod tests;
