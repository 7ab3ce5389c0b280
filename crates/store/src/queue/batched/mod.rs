//! Queues of batches (`queue.type=BatchCQ`, `BatchConsumeQueue`): one record may be many messages of its queue.
//!
//! A record of such a queue has the properties `INNER_NUM`, how many messages it is, and `INNER_BASE`, the number of the first
//! one. Here every message has a unit of its own; those of one record are alike, and lie in `vostok/batched` like the units of
//! any other queue: appending, the journal, the table, healing and retention know no difference. RocketMQ has one unit for a record:
//!
//! | bytes | content |
//! |---|---|
//! | 0..8 | position of the record in the log |
//! | 8..12 | its size |
//! | 12..20 | tags code |
//! | 20..28 | store time |
//! | 28..36 | number of its first message |
//! | 36..38 | how many messages it is |
//! | 38..42 | -1, except where the topic is compacted |
//! | 42..46 | 0 |
//!
//! The checkpoint brings these files up to ours before its page speaks of them ([`export`]); they are read when RocketMQ had
//! the store open ([`import`]).
//!
//! A record without the two properties is no message of the queue: so RocketMQ stores what is sent one by one to such a topic,
//! and passes it over. Here each gets the properties, with the number 1, and RocketMQ serves it then.

pub(crate) mod export;
mod import;
pub(crate) mod reader;

use super::Unit;
use crate::disk::Disk;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use wire::properties::{self, PROPERTIES_BYTES_MAX, key};
use wire::record::{EncodeError, sys_flag};

/// Bytes of a unit of RocketMQ's.
pub(crate) const BATCH_UNIT_BYTES: u64 = 46;
/// Where RocketMQ has its units, in the root.
pub(crate) const JAVAS: &str = "batchconsumequeue";
/// Where ours are, in the root.
pub(crate) const OURS: &str = "vostok/batched";
/// Digits of the number that is put in under the appender's lock; Java reads leading zeros as well.
const BASE_DIGITS: usize = 19;

/// Topics of which a store has queues of batches, its own or RocketMQ's: for whoever lost the table that says which do.
///
/// # Errors
/// The disk's.
pub fn batched_topics(disk: &dyn Disk, root: &Path) -> io::Result<BTreeSet<String>> {
    let mut topics = BTreeSet::new();
    for directory in [OURS, JAVAS] {
        match disk.list(&root.join(directory)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            entries => {
                topics.extend(entries?.into_iter().filter(|entry| entry.is_dir).map(|entry| entry.name))
            }
        }
    }
    Ok(topics)
}

/// A unit as RocketMQ has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchUnit {
    pub(crate) unit: Unit,
    pub(crate) store_time: i64,
    /// Number of the first message.
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

    /// Reads a unit; `None` where none was written (`BatchConsumeQueue.recover`).
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let long = |at: usize| i64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes sliced"));
        let count = i16::from_be_bytes(bytes[36..38].try_into().expect("two bytes sliced"));
        let base = u64::try_from(long(28)).ok()?;
        let unit = Unit::from_bytes(&bytes[..20])?;
        (count > 0).then_some(Self { unit, store_time: long(20), base, count: count.unsigned_abs() })
    }

    /// Number behind its last message.
    pub(crate) fn end(&self) -> u64 {
        self.base + u64::from(self.count)
    }
}

/// How many messages the properties `INNER_NUM` gives (`Short.parseShort`).
fn count_in(stored: &[u8]) -> Option<u16> {
    let count = properties::get_str(stored, key::INNER_NUM)?.parse::<i16>().ok()?;
    (count > 0).then_some(count.unsigned_abs())
}

/// Number of a stored record's first message, and how many it is; `None` for a record that is none of such a queue
/// (`CommitLog.setBatchSizeIfNeeded`).
pub(crate) fn place_in(stored: &[u8]) -> Option<(u64, u16)> {
    let base = properties::get_str(stored, key::INNER_BASE)?.parse::<u64>().ok()?;
    Some((base, count_in(stored)?))
}

/// What a record on its way into such a queue is.
#[derive(Clone, Copy)]
pub(crate) struct Numbered {
    /// How many messages.
    pub(crate) count: u16,
    /// Where in the record the number of the first of them is to be put.
    pub(crate) base_at: usize,
}

/// The properties of a record on its way into such a queue, and how many messages it is: one without [`sys_flag::INNER_BATCH`].
/// The number of the first one is still missing, [`missing_base`] bytes before their end.
///
/// # Errors
/// When there is no room for them.
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

/// How far before the end of its properties the missing number of [`number`] begins.
pub(crate) const fn missing_base() -> usize {
    BASE_DIGITS + 1
}

/// Puts the number of a record's first message in.
pub(crate) fn put_base(record: &mut [u8], at: usize, base: u64) {
    let text = format!("{base:0width$}", width = BASE_DIGITS);
    record[at..at + BASE_DIGITS].copy_from_slice(text.as_bytes());
}

/// Groups units that follow one another from number `from` on by their records.
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
