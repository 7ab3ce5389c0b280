//! Batch consume queues (`queue.type=BatchCQ`, `BatchConsumeQueue`): one record may hold many messages of its queue.
//!
//! A record of such a queue has the properties `INNER_NUM`, its number of messages, and `INNER_BASE`, the queue
//! offset of the first message. Vostok has a unit for every message. The units of a record are equal, and lie in
//! `vostok/batched` in the format of any other queue. So append, journal, table, healing and retention treat them
//! alike. RocketMQ has one unit per record:
//!
//! | bytes | content |
//! |---|---|
//! | 0..8 | log position of the record |
//! | 8..12 | size of the record |
//! | 12..20 | tags code |
//! | 20..28 | store time, ms |
//! | 28..36 | queue offset of the record's first message |
//! | 36..38 | number of messages in the record |
//! | 38..42 | -1, except where the topic is compacted |
//! | 42..46 | 0 |
//!
//! The checkpoint updates RocketMQ's files before it commits ([`export`]). They are read after a RocketMQ broker had
//! the store open (`crate::recover`).
//!
//! A record without the two properties is no message of the queue. RocketMQ stores a single message sent to such a
//! topic that way, and never serves it. Vostok gives each such record the properties, with one message, and RocketMQ
//! then serves it too.

pub(crate) mod export;
pub(crate) mod reader;

use super::Unit;
use crate::disk::Disk;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use wire::properties::{self, PROPERTIES_BYTES_MAX, key};
use wire::record::{EncodeError, sys_flag};

/// Size of RocketMQ's unit in bytes.
pub(crate) const BATCH_UNIT_BYTES: u64 = 46;
/// RocketMQ's directory of batch consume queues, below the root.
pub(crate) const JAVA_DIR: &str = "batchconsumequeue";
/// Vostok's directory of batch consume queues, below the root.
pub(crate) const VOSTOK_DIR: &str = "vostok/batched";
/// Digits of `INNER_BASE`, which is filled in under the appender's lock; RocketMQ accepts leading zeros.
const BASE_DIGITS: usize = 19;

/// Topics with batch consume queues in a store, Vostok's or RocketMQ's, to restore a lost topic table.
///
/// # Errors
/// The error of listing a directory of the store.
pub fn batched_topics(disk: &dyn Disk, root: &Path) -> io::Result<BTreeSet<String>> {
    let mut topics = BTreeSet::new();
    for directory in [VOSTOK_DIR, JAVA_DIR] {
        match disk.list(&root.join(directory)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            entries => {
                topics.extend(entries?.into_iter().filter(|entry| entry.is_dir).map(|entry| entry.name))
            }
        }
    }
    Ok(topics)
}

/// A unit of RocketMQ's batch consume queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchUnit {
    pub(crate) unit: Unit,
    pub(crate) store_time: i64,
    /// Queue offset of the record's first message.
    pub(crate) base: u64,
    pub(crate) count: u16,
}

impl BatchUnit {
    pub(crate) fn to_bytes(self) -> [u8; BATCH_UNIT_BYTES as usize] {
        let mut bytes = [0; BATCH_UNIT_BYTES as usize];
        bytes[..20].copy_from_slice(&self.unit.to_bytes());
        bytes[20..28].copy_from_slice(&self.store_time.to_be_bytes());
        bytes[28..36].copy_from_slice(&self.base.to_be_bytes());
        bytes[36..38].copy_from_slice(&self.count.to_be_bytes());
        bytes[38..42].copy_from_slice(&(-1i32).to_be_bytes());
        bytes
    }

    /// Parses a unit; `None` where none was written (`BatchConsumeQueue.recover`).
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let long = |at: usize| i64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes sliced"));
        let count = i16::from_be_bytes(bytes[36..38].try_into().expect("two bytes sliced"));
        let base = u64::try_from(long(28)).ok()?;
        let unit = Unit::from_bytes(&bytes[..20])?;
        (count > 0).then_some(Self { unit, store_time: long(20), base, count: count.unsigned_abs() })
    }

    /// Queue offset behind the record's last message.
    pub(crate) fn end(&self) -> u64 {
        self.base + u64::from(self.count)
    }
}

/// Number of messages by the property `INNER_NUM` (`ShortUnit.parseShort`).
fn count_in(stored: &[u8]) -> Option<u16> {
    let count = properties::get_str(stored, key::INNER_NUM)?.parse::<i16>().ok()?;
    (count > 0).then_some(count.unsigned_abs())
}

/// Queue offset of a stored record's first message, and its number of messages; `None` for a record that is not of a batch
/// consume queue (`CommitLog.setBatchSizeIfNeeded`).
pub(crate) fn place_in(stored: &[u8]) -> Option<(u64, u16)> {
    let base = properties::get_str(stored, key::INNER_BASE)?.parse::<u64>().ok()?;
    Some((base, count_in(stored)?))
}

/// Batch properties of a record that is being encoded.
#[derive(Clone, Copy)]
pub(crate) struct BatchProperties {
    /// Number of messages in the record.
    pub(crate) count: u16,
    /// Position in the record where the queue offset of the first message is filled in.
    pub(crate) base_at: usize,
}

/// Adds the batch properties to a message's properties. Returns them with the number of messages, which is one
/// without [`sys_flag::INNER_BATCH`]. The value of `INNER_BASE` is filled in later, [`missing_base`] bytes before the
/// end.
///
/// # Errors
/// [`EncodeError::Properties`] when the properties become too long.
pub(crate) fn number(sent: &[u8], flags: i32) -> Result<(Vec<u8>, u16), EncodeError> {
    let count = count_in(sent).filter(|_| flags & sys_flag::INNER_BATCH != 0).unwrap_or(1);
    let mut stored = Vec::with_capacity(sent.len() + 48);
    let text = count.to_string();
    let added = [(key::INNER_NUM, text.as_bytes()), (key::INNER_BASE, &[b'0'; BASE_DIGITS][..])];
    properties::rewrite(&mut stored, sent, &[], &added);
    match stored.len() {
        found if found > PROPERTIES_BYTES_MAX => Err(EncodeError::Properties { found }),
        _ => Ok((stored, count)),
    }
}

/// Distance in bytes between the value of `INNER_BASE` and the end of the properties that [`number`] returns.
pub(crate) const fn missing_base() -> usize {
    BASE_DIGITS + 1
}

/// Fills in the queue offset of a record's first message.
pub(crate) fn put_base(record: &mut [u8], at: usize, base: u64) {
    let text = format!("{base:0width$}", width = BASE_DIGITS);
    record[at..at + BASE_DIGITS].copy_from_slice(text.as_bytes());
}

/// Groups consecutive units, the first at queue offset `from`, by record.
fn group(from: u64, units: &[Unit]) -> Vec<BatchUnit> {
    let mut groups: Vec<BatchUnit> = Vec::new();
    for (number, unit) in (from..).zip(units).filter(|(_, unit)| !unit.is_blank()) {
        match groups.last_mut() {
            Some(last) if last.unit == *unit && last.count < i16::MAX.unsigned_abs() => last.count += 1,
            _ => groups.push(BatchUnit { unit: *unit, store_time: 0, base: number, count: 1 }),
        }
    }
    groups
}

#[cfg(test)]
mod tests;
