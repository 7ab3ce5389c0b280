//! Reads keys from the commit log: keys of messages appended before the store was opened, or while the list of
//! pending keys was full.

use super::run::FillError;
use super::{IndexFiles, Indexer};
use crate::keys::KeyEntry;
use crate::keys::hashes_of;
use crate::log::Segment;
use std::sync::atomic::Ordering;
use wire::record::{MAGIC_BLANK, MAGIC_V1, MAGIC_V2, RecordError, RecordView, peek};
use wire::units::LogOffset;

/// Bytes of the log read at once; queries wait meanwhile.
const CHUNK_BYTES: usize = 1 << 20;

/// Upper bound of a record's size in bytes under any configuration.
const RECORD_BYTES_MAX: u64 = 256 << 20;

/// Indexed part of a piece of the log.
struct IndexedPart {
    /// Number of bytes that were indexed.
    bytes: u64,
    /// Bytes that must be read at once for the next record.
    needed: Option<usize>,
}

impl Indexer<'_> {
    /// Indexes a piece of the log between `filling.next` and `end`, at least one record.
    pub(super) fn catch_up(&self, filling: &mut IndexFiles, end: u64) -> Result<(), FillError> {
        let Some(segment) = self.state.log.segment_of(filling.next) else {
            // The file was deleted meanwhile; nothing was written behind the last file.
            filling.next = self.state.log.min().max(filling.next);
            filling.skip = 0;
            if self.state.log.segment_of(filling.next).is_none() {
                filling.next = end;
            }
            return Ok(());
        };
        let at = filling.next - segment.base;
        let left = (self.state.config.segment_bytes - at).min(end - filling.next);
        let mut entries = Vec::new();
        let mut wanted = CHUNK_BYTES;
        let passed = loop {
            let mut bytes = vec![0; wanted.min(usize::try_from(left).unwrap_or(usize::MAX))];
            segment.file.read_at(&mut bytes, at).map_err(FillError::Log)?;
            let passed = self.keys_in(&bytes, &segment, filling, &mut entries);
            match passed.needed.filter(|needed| passed.bytes == 0 && *needed > bytes.len()) {
                Some(needed) if needed as u64 <= left.min(RECORD_BYTES_MAX) => wanted = needed,
                // Such a size means damage.
                Some(_) => break IndexedPart { bytes: self.past_damage(&bytes, filling.next), needed: None },
                None => break passed,
            }
        };
        self.put_all(filling, &entries)?;
        filling.next += passed.bytes;
        self.index.indexed.store(filling.next, Ordering::Release);
        // Drop bytes from the page cache that consumers will hardly read.
        if filling.next + self.state.config.cached_bytes < self.state.flushed.get() {
            segment.file.forget(at, passed.bytes);
        }
        Ok(())
    }

    /// Indexes the whole records at the start of `bytes`; `bytes` begins at log position `filling.next`.
    fn keys_in(
        &self,
        bytes: &[u8],
        segment: &Segment,
        filling: &mut IndexFiles,
        entries: &mut Vec<KeyEntry>,
    ) -> IndexedPart {
        let mut hashes = Vec::new();
        let mut done = 0;
        loop {
            let (rest, offset) = (&bytes[done..], filling.next + done as u64);
            let left = segment.base + self.state.config.segment_bytes - offset;
            let passed = |bytes| IndexedPart { bytes, needed: None };
            match peek(rest) {
                Some((size, MAGIC_BLANK)) if u64::from(size) == left => return passed(done as u64 + left),
                None if left < 8 => return passed(done as u64 + left),
                None => return IndexedPart { bytes: done as u64, needed: Some(8) },
                Some(_) => {}
            }
            match RecordView::parse(rest) {
                Ok(view) if view.log_offset() == Some(LogOffset::new(offset)) => {
                    hashes.clear();
                    hashes_of(&view, &mut hashes);
                    let keys = KeyEntry::all(&hashes, offset, view.store_timestamp());
                    entries.extend(keys.skip(filling.skip));
                    filling.skip = 0;
                    done += view.size();
                }
                Err(RecordError::Truncated { needed, .. }) => {
                    return IndexedPart { bytes: done as u64, needed: Some(needed) };
                }
                // Return the keys found so far first.
                _ if done > 0 => return passed(done as u64),
                _ => {
                    filling.skip = 0;
                    return passed(self.past_damage(rest, offset));
                }
            }
        }
    }

    /// Number of bytes to the next record in `bytes` that holds its own position; `bytes` begins at log position `offset`.
    fn past_damage(&self, bytes: &[u8], offset: u64) -> u64 {
        let begins = |at: &usize| {
            let Some((_, MAGIC_V1 | MAGIC_V2)) = peek(&bytes[*at..]) else { return false };
            let place =
                bytes.get(at + 28..at + 36).map(|place| place.try_into().expect("eight bytes sliced"));
            place.map(u64::from_be_bytes) == Some(offset + *at as u64)
        };
        let skipped = (1..bytes.len()).find(begins).unwrap_or(bytes.len().saturating_sub(35).max(1)) as u64;
        tracing::warn!(offset, skipped, "no record in the log here; its keys are not indexed");
        skipped
    }
}
