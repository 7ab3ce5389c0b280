//! The border between a connection and the meaning of its commands.

use std::sync::Arc;
use std::time::Duration;

use wire::frame::Command;

use crate::Peer;

/// What one side does with the commands of its connections.
///
/// All calls for one connection come from its worker thread and never overlap. Answers are appended to `out`, which
/// goes to the socket in one write after [`Service::end`]; an answer that must wait is pushed to the [`Peer`] later.
pub trait Service: Send + Sync + 'static {
    /// Scratch of one wake-up, such as a reusable batch: one per listener and worker, one per dialed connection.
    type Turn: 'static;

    /// Makes the scratch.
    fn turn(&self) -> Self::Turn;

    /// One command: a request, or an answer that no [`Peer::call`] waits for.
    fn frame(&self, turn: &mut Self::Turn, peer: &Arc<Peer>, command: Command<'_>, out: &mut Vec<u8>);

    /// The commands of this wake-up, or as many as the output bound admits, were given.
    fn end(&self, _turn: &mut Self::Turn, _peer: &Arc<Peer>, _out: &mut Vec<u8>) {}

    /// The answers of this wake-up were given to the socket, which may not have taken all of them. What others wait for,
    /// and whoever asked does not, is done here.
    fn answered(&self, _turn: &mut Self::Turn) {}

    /// The connection stands; bytes put into `out` are its first.
    fn opened(&self, _peer: &Arc<Peer>, _out: &mut Vec<u8>) {}

    /// The connection ended, for whatever reason.
    fn closed(&self, _peer: &Arc<Peer>) {}
}

/// Bounds of one connection.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// A connection without any byte in either direction for this long is closed (Java: 120 s).
    pub idle: Duration,
    /// Reading stops while more than this many bytes wait to be written.
    pub unsent_bytes_high: usize,
    /// A peer that lets more than this many bytes pile up is disconnected: bytes pushed and not yet taken by the
    /// connection, or taken and not yet written, each.
    pub unsent_bytes_max: usize,
    /// Reading stops while requests of the connection that are not answered take this many bytes ([`Peer::charge`]).
    pub unanswered_bytes_high: usize,
    /// The same for all connections of the workers together; one without such requests is still read.
    pub unanswered_bytes_total: usize,
    /// Commands of one wake-up are cut off when their answers reach this many bytes.
    pub turn_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(120),
            unsent_bytes_high: 4 << 20,
            unsent_bytes_max: 64 << 20,
            unanswered_bytes_high: 8 << 20,
            unanswered_bytes_total: 64 << 20,
            turn_bytes: 1 << 20,
        }
    }
}
