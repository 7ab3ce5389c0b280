//! Gate of the remoting protocol: each request gets its caller here, once, before anything of it is staged, queued or
//! kept.

use std::sync::Arc;

use auth::audit::Origin;
use auth::{Arrival, AuthError, Denial, Request, ResponseTime, Signable, Subject};
use net::ConnectionHandle;
use wire::frame::FRAME_BYTES_MAX;

use super::needs::Plain;
use super::request_table::of_caller;
use super::{Dispatcher, RequestFrame, forward};
use crate::Refusal;
use crate::caller::Caller;
use crate::gate::{Gate, Verified};

/// Bytes of an access key above which its request ends the connection: no user has such a name ([`auth::USER_NAME_BYTES_MAX`]).
const ACCESS_KEY_BYTES_MAX: usize = 4096;

impl Dispatcher {
    /// Authenticates and authorizes a request. Returns `None` for a refused request, whose response was written or
    /// leaves later.
    pub(super) fn admit(
        &self,
        peer: &Arc<ConnectionHandle>,
        frame: &RequestFrame<'_>,
        out: &mut Vec<u8>,
    ) -> Option<Caller> {
        let command = &frame.command;
        let mut caller = Caller { remote: peer.remote(), version: command.version, user: Subject::Off };
        let gate = &self.broker.sessions.gate;
        if gate.is_open(peer.is_local()) {
            return Some(caller);
        }
        if command.fields.bytes(auth::ACCESS_KEY).is_some_and(|name| name.len() > ACCESS_KEY_BYTES_MAX) {
            let max = ACCESS_KEY_BYTES_MAX;
            tracing::info!(remote = %caller.remote, max, "a connection was closed: its access key is too long for any user");
            peer.close();
            return None;
        }
        caller.remote = forward::source::remote(&self.broker, command).unwrap_or(caller.remote);
        let now_ms = self.broker.runtime.now_ms();
        let origin = Origin::new(caller.remote, peer.id());
        match self.ask(gate, (now_ms, origin), peer, frame) {
            Ok(user) => {
                if matches!(user, Subject::User(_)) && peer.frame_bytes_max() < FRAME_BYTES_MAX {
                    peer.limit_frames(FRAME_BYTES_MAX);
                }
                caller.user = user;
                return Some(caller);
            }
            Err(Denial { error, response_time: answer, mark }) => {
                let refusal = Refusal::from(error);
                match answer {
                    ResponseTime::Now => self.refuse(frame, &refusal, out),
                    ResponseTime::After(wait_ms) => {
                        let mut answer = Vec::new();
                        self.refuse(frame, &refusal, &mut answer);
                        gate.delays.add(now_ms + wait_ms, Box::new(peer.delayed(answer, mark)));
                    }
                    ResponseTime::Never => peer.close(),
                }
            }
        }
        None
    }

    fn ask(
        &self,
        gate: &Gate,
        (now_ms, origin): (i64, Origin),
        peer: &ConnectionHandle,
        frame: &RequestFrame<'_>,
    ) -> Result<Subject, Denial> {
        let command = &frame.command;
        let signed = Signable::from(command);
        let verified = gate.verify(now_ms, &signed, origin, peer.mark())?;
        let is_forwarded = forward::source::remote(&self.broker, command).is_some();
        let is_own = |address: &str| self.broker.identity.is_named(address);
        let arrival = Arrival { now_ms, is_own: Some(&is_own), is_forwarded };
        gate.check_seal(&verified, &signed, origin, arrival)?;
        let request = Request::Code(command.code);
        let log = |error: &AuthError| {
            gate.auth().log_refusal(now_ms, (&verified.identity(), request), origin, error);
        };
        match &verified {
            Verified::Account(account) => {
                let plain = frame.route.map_or(Plain::Signature, |route| route.plain);
                let needs = plain.of_request(command, &frame.heartbeat).inspect_err(log)?;
                let demands_administrator = matches!(plain, Plain::Administrator);
                let decided = gate.authorize_account(account, command.code, demands_administrator, &needs);
                decided.inspect_err(log)?;
                Ok(verified.identity())
            }
            Verified::User(user) => {
                let needs = || {
                    let is_strict = gate.auth().settings().is_strict;
                    let cluster = &self.broker.runtime.config.broker_cluster_name;
                    of_caller(frame.route).of_request(command, &frame.heartbeat, cluster, is_strict)
                };
                gate.auth().authorize(now_ms, (user, request), origin, needs)?;
                Ok(user.clone())
            }
        }
    }
}

#[cfg(test)]
mod tests;
