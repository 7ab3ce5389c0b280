//! Request between the dispatcher and its handler.

use std::cell::OnceCell;
use std::sync::Arc;
use std::time::Duration;

use net::ConnectionHandle;
use wire::body::HeartbeatData;
use wire::codes::request;
use wire::frame::Command;
use wire::json::{self, JsonError};

use super::port::Port;
use crate::broker::Broker;
use crate::caller::Caller;
use crate::rpc_latency::Measured;

/// A request as the functions of the route table get it.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub broker: &'a Arc<Broker>,
    /// The connection the request came on.
    pub peer: &'a Arc<ConnectionHandle>,
    pub command: &'a Command<'a>,
    pub heartbeat: &'a ParsedHeartbeat,
    /// Caller of the request, determined once at its arrival.
    pub caller: &'a Caller,
    /// The port the request came to.
    pub port: &'a Port,
    /// Time at which the request's read batch began, from which the latency counts
    /// ([`crate::rpc_latency::RpcLatency::begin`]).
    pub begin: Duration,
    /// Whether a later request of the client may have been performed before this request.
    pub is_late: bool,
}

/// Heartbeat in the body of a request, parsed at most once: for the needs of its sender and for its handler.
#[derive(Default)]
pub(crate) struct ParsedHeartbeat(OnceCell<HeartbeatData>);

impl ParsedHeartbeat {
    /// Returns the heartbeat in `body`, the body of the request that holds this value.
    pub(super) fn parse(&self, body: &[u8]) -> Result<&HeartbeatData, JsonError> {
        if let Some(parsed) = self.0.get() {
            return Ok(parsed);
        }
        #[cfg(test)]
        PARSES.set(PARSES.get() + 1);
        let parsed = json::from_request(body)?;
        Ok(self.0.get_or_init(|| parsed))
    }
}

#[cfg(test)]
thread_local! {
    /// Number of heartbeats parsed by this thread.
    pub(super) static PARSES: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl Request<'_> {
    /// Records that a slave takes tables of this broker. With authentication only a super user counts as a slave,
    /// such as the user of `innerClientAuthenticationCredentials`.
    ///
    /// A slave of Vostok fetches tables and positions on two connections, a slave of RocketMQ on one. Only request 45
    /// comes on a single connection of each slave.
    pub(super) fn note_slave(&self) {
        let broker = self.broker;
        if broker.sessions.gate.auth().is_super(&self.caller.user) {
            let remote = self.peer.remote();
            let port = (self.command.code == request::GET_ALL_DELAY_OFFSET).then_some(remote.port());
            broker.replication.replicas.slave_machines.note(remote.ip(), port, broker.runtime.clock.steady());
        }
    }

    /// Returns the key of the request's latency measurement.
    pub(super) fn measured(&self) -> Measured {
        Measured { request: self.command.code, begin: self.begin, is_long_polling: false }
    }
}
