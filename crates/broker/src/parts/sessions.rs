//! Clients, their permissions, and their requests that wait.

use std::time::Duration;

use client::SignedRequest;
use net::{CallError, ConnectionClosed, ConnectionHandle, Response};
use wire::frame::{Encoding, FrameWriter, Head};

use crate::clients::Clients;
use crate::gate::Gate;
use crate::state::{ClientCalls, PollTimeouts};

/// Connected clients, their permissions, calls to clients, and timeouts of suspended pulls.
pub(crate) struct Sessions {
    pub(crate) clients: Clients,
    /// Broker-to-client calls that wait for an answer.
    pub(crate) client_calls: ClientCalls,
    /// Authentication and authorization of requests.
    pub(crate) gate: Gate,
    /// Long polling timeouts of suspended pulls.
    pub(crate) poll_timeouts: PollTimeouts,
}

impl Sessions {
    /// Sends a request to another server, with the broker's own signature if it has one
    /// (`innerClientAuthenticationCredentials`).
    pub(crate) async fn call(
        &self,
        peer: &ConnectionHandle,
        code: i32,
        patience: Duration,
        write: impl FnOnce(FrameWriter<'_>),
    ) -> Result<Response, CallError> {
        let Some(credentials) = self.gate.own_credentials() else {
            return peer.call(Encoding::Json, code, patience, write).await;
        };
        let signed = SignedRequest::sealed(credentials, code, &peer.remote().to_string(), write);
        peer.call(Encoding::Json, code, patience, |writer| signed.write(writer)).await
    }

    /// Sends another server a one-way request, signed like [`Self::call`].
    pub(crate) fn send_one_way(
        &self,
        peer: &ConnectionHandle,
        code: i32,
        write: impl FnOnce(FrameWriter<'_>),
    ) -> Result<(), ConnectionClosed> {
        let head = Head::one_way(Encoding::Json, code, peer.next_opaque());
        peer.push(|out| {
            let writer = FrameWriter::begin(out, head);
            match self.gate.own_credentials() {
                None => write(writer),
                Some(credentials) => {
                    SignedRequest::sealed(credentials, code, &peer.remote().to_string(), write).write(writer);
                }
            }
        })
    }
}
