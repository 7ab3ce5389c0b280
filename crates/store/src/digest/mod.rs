//! A checksum of what RocketMQ's own one leaves out. A record carries the checksum of its body only: a bit that
//! flipped in its flag, times, hosts, topic or properties would be served unnoticed. So beside the log, in files of
//! ours that Java ignores, there is for every record we stored its *digest*: the CRC-32 of everything but the body.
//!
//! | layer | what it is |
//! |---|---|
//! | [`sum`] | the digest of a record |
//! | [`block`] | 63 entries (position in the log file, digest) in 512 bytes with a checksum of their own |
//! | [`file`] | `<root>/vostok/digest/<20 digits>`: the blocks of one log file, in the order of the log |
//! | [`pieces`] | entries that readers had last, in memory |
//! | [`open`] | which of them still speak of what is in the log |
//! | [`check`] | records on their way out |
//!
//! **Life.** The part of a digest that does not depend on the record's place is computed when the message is encoded,
//! outside of any lock; the appender adds place and time and keeps the entry ([`Fresh`]). The checkpoint writes the
//! entries behind the log, makes them durable and removes files whose log file is gone. Recovery adds entries for the
//! records it reads behind the newest one.
//!
//! **Derived, and never believed against evidence.** An entry that is missing (Java wrote the record, the file is lost,
//! its block is damaged) means that only the other checks apply. A failed write costs entries and a line in the
//! server's log, never the store. What must not happen is that an entry of a record that is no longer there condemns
//! the one that took its place; [`open`] sees to that.

mod block;
mod check;
mod file;
mod open;
mod pieces;
pub(crate) mod sum;

pub use check::{Damage, Numbered};
pub(crate) use check::{Damaged, leads_to_it};
pub(crate) use file::Digests;
pub(crate) use open::MARK;

use wire::units::LogOffset;

/// The digest of the record at a position of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) at: LogOffset,
    pub(crate) digest: u32,
}

/// Entries of one piece of [`Fresh`]; it grows by pieces, so that no append ever copies what others left.
const PIECE: usize = 4096;

/// Pieces kept at most: 4 million records between two checkpoints. What comes then goes without.
const PIECES_MAX: usize = 1024;

/// Entries that are in no file yet, ascending.
#[derive(Default)]
pub(crate) struct Fresh {
    pieces: Vec<Vec<Entry>>,
}

impl Fresh {
    pub(crate) fn push(&mut self, entry: Entry) {
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

    fn last(&self) -> Option<LogOffset> {
        self.pieces.last()?.last().map(|entry| entry.at)
    }

    /// Whether so much waits that recovery should write it.
    pub(crate) fn is_large(&self) -> bool {
        self.pieces.len() > 64
    }

    /// Takes over what another one holds; all of it lies behind.
    fn absorb(&mut self, later: Self) {
        let room = PIECES_MAX.saturating_sub(self.pieces.len());
        self.pieces.extend(later.pieces.into_iter().take(room));
    }

    fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        self.pieces.iter().flatten().copied()
    }

    fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }
}
