//! What a lane sends, and what follows from an answer beside the next request.

use super::{Stamp, Template};
use net::Peer;
use wire::codes::response;
use wire::frame::Command;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The broker says that it is stored.
    Stored,
    /// The broker says that it is not.
    Refused,
    /// Nobody knows.
    Unknown,
}

/// The requests of a lane. Plain sends do nothing beside; transactions are ended and answered for.
pub trait Work: Send + Sync + 'static {
    /// Number of queues, which take turns.
    fn queues(&self) -> usize;

    /// Unique keys in one request.
    fn keys(&self) -> u16;

    /// Appends a request to queue number `queue`.
    fn append(&self, out: &mut Vec<u8>, queue: usize, stamp: &Stamp);

    /// Bytes of the bodies in request number `sequence`, as the application gave them.
    fn plain_bytes(&self, _sequence: u64) -> u64 {
        0
    }

    /// True when nobody answers: a request is settled once it was handed to the connection.
    fn is_one_way(&self) -> bool {
        false
    }

    /// True when requests carry [`Stamp::floor`], which takes time to find.
    fn is_checked(&self) -> bool {
        false
    }

    /// Request number `sequence` left its place: stored, refused, or given up and so unknown.
    fn settled(&self, _sequence: u64, _fate: Fate) {}

    /// The connection stands; what is appended comes before the first request.
    fn opened(&self, _now_ns: u64, _peer: &Peer, _out: &mut Vec<u8>) {}

    /// Called every few milliseconds.
    fn elapsed(&self, _now_ns: u64, _peer: &Peer, _out: &mut Vec<u8>) {}

    /// The answer that a message is stored; its successor is sent later in the same turn.
    fn stored(&self, _command: &Command<'_>, _out: &mut Vec<u8>) {}

    /// A request of the broker.
    fn asked(&self, command: &Command<'_>, out: &mut Vec<u8>) {
        if !command.is_one_way() {
            let remark = format!(" request type {} not supported", command.code);
            command.reply(response::REQUEST_CODE_NOT_SUPPORTED).remark(&remark).write(out, b"");
        }
    }
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
