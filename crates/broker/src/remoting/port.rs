//! Listening ports of the remoting protocol, and the requests that each port serves.

use std::sync::Arc;

use wire::codes::request as code;

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

/// The requests that a proxy serves (`RemotingProtocolServer.registerRemotingServer`), sorted by code.
const OF_PROXY: [i32; 24] = [
    code::SEND_MESSAGE,
    code::PULL_MESSAGE,
    code::QUERY_CONSUMER_OFFSET,
    code::UPDATE_CONSUMER_OFFSET,
    code::SEARCH_OFFSET_BY_TIMESTAMP,
    code::GET_MAX_OFFSET,
    code::GET_MIN_OFFSET,
    code::HEART_BEAT,
    code::UNREGISTER_CLIENT,
    code::CONSUMER_SEND_MSG_BACK,
    code::END_TRANSACTION,
    code::GET_CONSUMER_LIST_BY_GROUP,
    code::LOCK_BATCH_MQ,
    code::UNLOCK_BATCH_MQ,
    code::CHECK_CLIENT_CONFIG,
    code::GET_ROUTEINFO_BY_TOPIC,
    code::GET_CONSUMER_CONNECTION_LIST,
    code::SEND_MESSAGE_V2,
    code::SEND_BATCH_MESSAGE,
    code::LITE_PULL_MESSAGE,
    code::RECALL_MESSAGE,
    code::POP_MESSAGE,
    code::ACK_MESSAGE,
    code::CHANGE_MESSAGE_INVISIBLETIME,
];

/// Whether the port of a proxy serves the requests with a code.
pub fn served_by_proxy(code: i32) -> bool {
    OF_PROXY.binary_search(&code).is_ok()
}

impl Port {
    /// Whether the port serves the requests with a code. `on_fast_port` is true if the fast port serves them.
    pub(super) fn serves(&self, code: i32, on_fast_port: bool) -> bool {
        match self {
            Self::Own => code != code::GET_ROUTEINFO_BY_TOPIC,
            Self::Fast => on_fast_port && code != code::GET_ROUTEINFO_BY_TOPIC,
            Self::Proxy(_) => served_by_proxy(code),
        }
    }
}

#[cfg(test)]
mod tests;
