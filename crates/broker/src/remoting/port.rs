//! Listening ports of the remoting protocol. The route table says which requests each port serves.

use std::sync::Arc;

/// The port that a request came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    /// The broker's own.
    Own,
    /// Two below the broker's own (VIP channel).
    Fast,
    /// Port of a proxy in the broker's process. Its routes name the given address, or the local address of the
    /// connection.
    Proxy(Option<Arc<str>>),
}

#[cfg(test)]
mod tests;
