//! Digest of a record: the xor of two CRC-32 sums. The first covers the record without its body, with zeros in place
//! of queue offset, log offset and store time. The second covers these 24 bytes. The first sum is known before the
//! appender's lock is taken. A flip in either part changes the digest.

use crc32fast::Hasher;
use wire::record::{Placement, RecordView, store_timestamp_at};

/// Bytes of a record that hold queue offset and log offset.
const PLACED: std::ops::Range<usize> = 20..36;

/// Longest head of a record in bytes: 72 and two IPv6 hosts.
const HEAD_BYTES_MAX: usize = 112;

/// The digest of a stored record.
pub(crate) fn of(record: &RecordView<'_>) -> u32 {
    let mut head = [0; HEAD_BYTES_MAX];
    let head = &mut head[..record.head().len()];
    head.copy_from_slice(record.head());
    let time_at = store_timestamp_at(record.sys_flag());
    let mut placed = [0; 24];
    placed[..16].copy_from_slice(&head[PLACED]);
    placed[16..].copy_from_slice(&head[time_at..time_at + 8]);
    head[PLACED].fill(0);
    head[time_at..time_at + 8].fill(0);
    unplaced(head, record.behind_body()) ^ crc32fast::hash(&placed)
}

/// Returns the part of the digest that is known before the record has a position. `head` is
/// everything before the body, with zeros in place of queue offset, log offset and store time.
pub(crate) fn unplaced(head: &[u8], behind_body: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(head);
    hasher.update(behind_body);
    hasher.finalize()
}

/// The part of the digest that depends on queue offset, log offset and store time, which the appender assigns.
pub(crate) fn placed(placement: &Placement) -> u32 {
    let mut bytes = [0; 24];
    bytes[..8].copy_from_slice(&placement.queue_offset.to_i64().to_be_bytes());
    bytes[8..16].copy_from_slice(&placement.log_offset.to_i64().to_be_bytes());
    bytes[16..].copy_from_slice(&placement.store_timestamp.to_be_bytes());
    crc32fast::hash(&bytes)
}
