//! The requests of a connection under load, and reactions to their answers.

use super::{Stamp, Template};
use net::ConnectionHandle;
use wire::frame::Command;

/// Result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The broker acknowledged that the message is stored.
    Stored,
    /// The broker answered that the message is not stored.
    Refused,
    /// No answer came, so it is unknown whether the message is stored.
    Unknown,
}

/// The requests of a connection. Plain sends use only the required methods; transactions also end half messages and answer
/// checks.
pub trait Work: Send + Sync + 'static {
    /// Number of queues, to which requests are sent in turn.
    fn queues(&self) -> usize;

    /// Number of unique keys in one request.
    fn keys(&self) -> u16;

    /// Appends a request to queue number `queue`.
    fn append(&self, out: &mut Vec<u8>, queue: usize, stamp: &Stamp);

    /// Bytes of the bodies in request number `sequence`, before compression.
    fn plain_bytes(&self, _sequence: u64) -> u64 {
        0
    }

    /// Whether sends are one-way. A one-way request is settled once it was handed to the connection.
    fn is_one_way(&self) -> bool {
        false
    }

    /// Whether requests carry [`Stamp::floor`], which takes time to compute.
    fn is_checked(&self) -> bool {
        false
    }

    /// Called when request number `sequence` was stored, refused or given up.
    fn settled(&self, _sequence: u64, _fate: Fate) {}

    /// Called once for all answers of a read batch that messages are stored, with the time of the run.
    fn acknowledged(&self, _now_ns: u64) {}

    /// Called when the connection is made. Output that is appended is sent before the first request.
    fn opened(&self, _now_ns: u64, _peer: &ConnectionHandle, _out: &mut Vec<u8>) {}

    /// Called every few milliseconds while the connection is open.
    fn elapsed(&self, _now_ns: u64, _peer: &ConnectionHandle, _out: &mut Vec<u8>) {}

    /// Called for the answer that a message is stored. The next request is sent later in the same read batch.
    fn stored(&self, _command: &Command<'_>, _out: &mut Vec<u8>) {}

    /// Called for a request of the broker, which is left without an answer by default.
    fn asked(&self, _command: &Command<'_>, _out: &mut Vec<u8>) {}
}

impl Work for Template {
    fn is_one_way(&self) -> bool {
        Self::is_one_way(self)
    }

    fn queues(&self) -> usize {
        Self::queues(self)
    }

    fn keys(&self) -> u16 {
        Self::keys(self)
    }

    fn append(&self, out: &mut Vec<u8>, queue: usize, stamp: &Stamp) {
        Self::append(self, out, queue, stamp);
    }
}
