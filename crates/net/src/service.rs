//! The interface between a connection and the code that performs its commands.

use std::sync::Arc;
use std::time::Duration;

use wire::frame::Command;

use crate::ConnectionHandle;

/// Performs the commands of connections.
///
/// All calls for a connection come from its worker thread and never overlap. Responses are appended to `out`, which
/// is written to the socket once, after [`Service::end`]. A response that has to wait is pushed to the
/// [`ConnectionHandle`] later.
pub trait Service: Send + Sync + 'static {
    /// State of one read batch, such as a reusable store batch: one per listener and worker, and one per dialed connection.
    type ReadBatch: 'static;

    /// Creates the state of a read batch.
    fn read_batch(&self) -> Self::ReadBatch;

    /// Handles one command: a request, or a response that no [`ConnectionHandle::call`] waits for.
    fn frame(
        &self,
        read_batch: &mut Self::ReadBatch,
        peer: &Arc<ConnectionHandle>,
        command: Command<'_>,
        out: &mut Vec<u8>,
    );

    /// Runs after all commands of a read batch, or after as many as the output limit permits.
    fn end(&self, _read_batch: &mut Self::ReadBatch, _peer: &Arc<ConnectionHandle>, _out: &mut Vec<u8>) {}

    /// Runs after the responses of a read batch were passed to the socket, which may not have taken all of them.
    /// Suitable for work on behalf of other clients, such as waking pulls.
    fn answered(&self, _read_batch: &mut Self::ReadBatch) {}

    /// Runs when the connection is established. Bytes appended to `out` are its first bytes.
    fn opened(&self, _peer: &Arc<ConnectionHandle>, _out: &mut Vec<u8>) {}

    /// Runs when the connection has ended, for any reason.
    fn closed(&self, _peer: &Arc<ConnectionHandle>) {}
}

/// Service that ignores all requests of the peer. Connections on which only this side sends requests have it.
pub struct Silent;

impl Service for Silent {
    type ReadBatch = ();

    fn read_batch(&self) {}

    fn frame(&self, (): &mut (), peer: &Arc<ConnectionHandle>, command: Command<'_>, _: &mut Vec<u8>) {
        tracing::debug!(from = %peer.remote(), code = command.code, "the request of a server is ignored");
    }
}

/// Limits of one connection.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// A connection without any byte in either direction for this long is closed (RocketMQ: 120 s).
    pub idle: Duration,
    /// Number of unsent bytes above which reading stops.
    pub unsent_bytes_high: usize,
    /// Number of unsent bytes above which the connection is closed. Bytes that were pushed and bytes that the
    /// socket did not take are counted separately.
    pub unsent_bytes_max: usize,
    /// Bytes of the connection's unanswered requests at which reading stops ([`ConnectionHandle::charge`]).
    pub unanswered_bytes_high: usize,
    /// Limit of unanswered bytes for all connections of the workers together. A connection without unanswered
    /// requests is still read.
    pub unanswered_bytes_total: usize,
    /// Bytes of responses at which a read batch ends early.
    pub read_batch_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(120),
            unsent_bytes_high: 4 << 20,
            unsent_bytes_max: 64 << 20,
            unanswered_bytes_high: 8 << 20,
            unanswered_bytes_total: 64 << 20,
            read_batch_bytes: 1 << 20,
        }
    }
}
