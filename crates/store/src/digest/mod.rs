//! Checksums of the record parts that RocketMQ's checksum omits. A RocketMQ record carries the checksum of its body
//! only, so a flipped bit in its flag, times, hosts, topic or properties would be served unnoticed. Files beside the
//! log, which RocketMQ ignores, hold the *digest* of every stored record: the CRC-32 of everything but the body.
//!
//! | layer | what it is |
//! |---|---|
//! | [`sum`] | the digest of a record |
//! | [`block`] | 63 entries (position in the log file, digest) in 512 bytes with a checksum of their own |
//! | [`mod@file`] | `<root>/vostok/digest/<20 digits>`: the blocks of one log file, in the order of the log |
//! | [`pieces`] | cache of the entries that readers needed last |
//! | [`open`] | decides which entries still belong to the records in the log |
//! | `crate::read` | checks records before they are served |
//!
//! **Life cycle.** The encoder computes the part of a digest that does not depend on the record's
//! position, outside of any lock. The appender adds position and time and keeps the entry
//! ([`NewDigests`]). A checkpoint or an entry of the unit journal writes and syncs the digests after the
//! records are durable. It also removes the files of deleted log files. Recovery adds entries for
//! records behind the newest entry.
//!
//! **Digests are optional.** An entry may be missing because a RocketMQ broker wrote the record, the file is lost, or
//! its block is damaged. Then only the other checks apply. A failed write costs entries and a log line, never the
//! store. A stale entry belongs to a record that was replaced. Recovery discards stale entries, so that they do not
//! condemn the new record.

mod block;
mod file;
mod open;
mod pieces;
pub(crate) mod sum;

pub(crate) use file::Digests;

use wire::units::LogOffset;

/// The digest of the record at a log position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordDigest {
    pub(crate) at: LogOffset,
    pub(crate) digest: u32,
}

/// Entries of a piece of [`NewDigests`]. It grows by pieces, so that no append copies earlier entries.
const PIECE: usize = 4096;

/// Most pieces of a [`NewDigests`]: 4 million records. Later records get no digest until a checkpoint or
/// an entry of the unit journal takes the pieces.
const PIECES_MAX: usize = 1024;

/// Entries that are in no file yet, in log order.
#[derive(Default)]
pub(crate) struct NewDigests {
    pieces: Vec<Vec<RecordDigest>>,
}

impl NewDigests {
    pub(crate) fn push(&mut self, entry: RecordDigest) {
        let pieces = self.pieces.len();
        match self.pieces.last_mut() {
            Some(piece) if piece.len() < PIECE => piece.push(entry),
            _ if pieces < PIECES_MAX => {
                let mut piece = Vec::with_capacity(PIECE);
                piece.push(entry);
                self.pieces.push(piece);
            }
            _ => {}
        }
    }

    pub(crate) fn last(&self) -> Option<LogOffset> {
        self.pieces.last()?.last().map(|entry| entry.at)
    }

    /// Whether there are so many entries that recovery should write them now.
    pub(crate) fn is_large(&self) -> bool {
        self.pieces.len() > 64
    }

    /// Appends the entries of `later`, all of which lie behind the present entries.
    fn absorb(&mut self, later: Self) {
        let room = PIECES_MAX.saturating_sub(self.pieces.len());
        self.pieces.extend(later.pieces.into_iter().take(room));
    }

    fn entries(&self) -> impl Iterator<Item = RecordDigest> + '_ {
        self.pieces.iter().flatten().copied()
    }

    fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }
}
