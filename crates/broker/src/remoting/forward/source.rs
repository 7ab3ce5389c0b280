//! Remark of a forwarded request: a mark of forwarding, and the client's address. No signature of a client covers a
//! remark, so the forwarding broker signs it with its `innerClientAuthenticationCredentials`. A master trusts the
//! address in it only if its own credentials make the same signature. Otherwise the request counts as sent from the
//! address of the connection.

use std::net::SocketAddr;

use client::Credentials;
use wire::frame::{Command, Encoding, FrameWriter, Head};

use super::{AGAIN, FORWARDED, copy};
use crate::broker::Broker;

/// The remark that a request of the client at `remote` is forwarded with.
pub(in crate::remoting) fn remark(broker: &Broker, command: &Command<'_>, remote: SocketAddr) -> String {
    match broker.sessions.gate.own_credentials() {
        Some(own) => format!("{FORWARDED} {remote} {}", signature(own, command, remote)),
        None => FORWARDED.to_owned(),
    }
}

/// Returns the address of the client whose request another broker has forwarded. `None` if the request has no such
/// address, or the address is not signed with this broker's credentials.
pub(in crate::remoting) fn remote(broker: &Broker, command: &Command<'_>) -> Option<SocketAddr> {
    let (remote, found) = command.remark?.strip_prefix(FORWARDED)?.strip_prefix(' ')?.split_once(' ')?;
    let found = found.strip_suffix(AGAIN).unwrap_or(found);
    let (own, remote) = (broker.sessions.gate.own_credentials()?, remote.parse().ok()?);
    let expected = signature(own, command, remote);
    // Compares keyed hashes of both signatures, so that timing does not reveal the expected one.
    (own.sign([expected.as_bytes()]) == own.sign([found.as_bytes()])).then_some(remote)
}

/// Signs a request and the address of its client twice, and discards the first signature. It would otherwise be a valid signature of the
/// broker's own request.
fn signature(own: &Credentials, command: &Command<'_>, remote: SocketAddr) -> String {
    let mut request = Vec::new();
    copy(command, FrameWriter::begin(&mut request, Head::request(Encoding::Binary, 0, 0)));
    let (code, remote) = (command.code.to_be_bytes(), remote.to_string());
    let once = own.sign([FORWARDED.as_bytes(), remote.as_bytes(), &code, &request]);
    String::from_utf8_lossy(&own.sign([&once[..]])).into_owned()
}
