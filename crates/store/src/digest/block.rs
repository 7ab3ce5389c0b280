//! Block of a digest file, a 512-byte sector. A power cut leaves the old block or the new block, and a checksum
//! detects damage.
//!
//! | bytes | field |
//! |---|---|
//! | 4 | CRC-32 of the other 508 bytes |
//! | 4 | number of entries, 1 to 63 |
//! | 63 x 8 | position in the log file (4 bytes), digest (4 bytes); ascending; unused ones are zero |

use super::RecordDigest;

pub(super) const BLOCK_BYTES: usize = 512;

/// Entries of a full block.
pub(super) const ENTRIES: usize = 63;

/// The entries of a block: position in the log file and digest. Invariant: ascending, at most [`ENTRIES`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DigestBlock(pub(super) Vec<(u32, u32)>);

impl DigestBlock {
    /// Reads a block. Returns `None` if it is damaged or was never written.
    pub(super) fn read(bytes: &[u8; BLOCK_BYTES]) -> Option<Self> {
        let field = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes sliced"));
        let count = usize::try_from(field(4)).ok().filter(|count| (1..=ENTRIES).contains(count))?;
        if field(0) != crc32fast::hash(&bytes[4..]) {
            return None;
        }
        Some(Self((0..count).map(|index| (field(8 + index * 8), field(12 + index * 8))).collect()))
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        let count = u32::try_from(self.0.len()).expect("at most 63");
        out.extend_from_slice(&count.to_be_bytes());
        for (position, digest) in &self.0 {
            out.extend_from_slice(&position.to_be_bytes());
            out.extend_from_slice(&digest.to_be_bytes());
        }
        out.resize(start + BLOCK_BYTES, 0);
        let sum = crc32fast::hash(&out[start + 4..]);
        out[start..start + 4].copy_from_slice(&sum.to_be_bytes());
    }

    pub(super) fn is_full(&self) -> bool {
        self.0.len() == ENTRIES
    }

    /// Adds an entry; `base` is the log position at which its log file starts.
    pub(super) fn push(&mut self, entry: RecordDigest, base: u64) {
        let position = u32::try_from(entry.at.get() - base).expect("log files are at most 2 GiB");
        self.0.push((position, entry.digest));
    }

    pub(super) fn first(&self) -> Option<u32> {
        self.0.first().map(|entry| entry.0)
    }

    pub(super) fn last(&self) -> Option<(u32, u32)> {
        self.0.last().copied()
    }
}
