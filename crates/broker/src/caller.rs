//! Caller of a request: known after the request has passed its front, and passed to every operation.

use std::net::SocketAddr;

use auth::Subject;

/// The client that made a request, as the front that received the request knows it.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Address of the client, or the address in a trusted PROXY preamble.
    pub remote: SocketAddr,
    /// RocketMQ version of the client (`MQVersion`).
    pub version: i32,
    /// The user. [`Subject::User`] only if the signature of the request was verified.
    pub user: Subject,
}
