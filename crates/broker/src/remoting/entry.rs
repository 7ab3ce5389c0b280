//! The gate of the remoting protocol: each request gets its caller here, once, before anything of it is staged, queued or kept.

use std::sync::Arc;

use auth::audit::Origin;
use auth::{Answer, Identity, Request, Signed};
use net::ConnectionHandle;
use wire::frame::Command;

use super::{Dispatcher, needs};
use crate::Refusal;
use crate::caller::Caller;
use crate::gate::{Denied, Gate, at_once};

/// Bytes that a waiting answer is charged to its connection beside its frame.
const WAITING_BYTES: usize = 256;

impl Dispatcher {
    /// Finds out who makes a request and whether it may be served. `None` when it is refused: its answer was written, or leaves
    /// later.
    pub(super) fn admit(
        &self,
        peer: &Arc<ConnectionHandle>,
        command: &Command<'_>,
        out: &mut Vec<u8>,
    ) -> Option<Caller> {
        let mut caller = Caller { remote: peer.remote(), version: command.version, user: Identity::Off };
        let gate = &self.broker.gate;
        if gate.is_open(peer.is_local()) {
            return Some(caller);
        }
        let now_ms = self.broker.now_ms();
        let origin = Origin { address: caller.remote.ip().to_canonical(), connection: peer.id() };
        match self.ask(gate, now_ms, command, origin) {
            Ok(user) => {
                caller.user = user;
                return Some(caller);
            }
            Err(Denied { error, answer }) => {
                let refusal = Refusal::from(error);
                match answer {
                    Answer::Now => self.refuse(command, &refusal, out),
                    Answer::After(wait_ms) => {
                        let mut frame = Vec::new();
                        self.refuse(command, &refusal, &mut frame);
                        let (peer, charge) = (peer.clone(), peer.charge(frame.len() + WAITING_BYTES));
                        let send = move || {
                            // A client that has disconnected gets nothing.
                            let _ = peer.push(|out| out.extend_from_slice(&frame));
                            drop(charge);
                        };
                        gate.delays.add(now_ms + wait_ms, Box::new(send));
                    }
                    Answer::Never => peer.close(),
                }
            }
        }
        None
    }

    fn ask(
        &self,
        gate: &Gate,
        now_ms: i64,
        command: &Command<'_>,
        origin: Origin,
    ) -> Result<Identity, Denied> {
        let verified = gate.verify(now_ms, &Signed::from(command), origin)?;
        let needs = if gate.plain().is_some() {
            needs::of_plain(command)
        } else if gate.is_authorizing() {
            let is_strict = gate.auth().settings().is_strict;
            needs::of_request(command, &self.broker.config.broker_cluster_name, is_strict)
        } else {
            Ok(Vec::new())
        };
        let needs = needs.map_err(at_once)?;
        gate.authorize(now_ms, (verified, Request::Code(command.code)), origin, &needs)
    }
}

#[cfg(test)]
mod tests;
