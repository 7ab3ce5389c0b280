//! The errors of calls to a cluster.

use net::CallError;
use std::io;
use wire::codes::response;

/// Errors of an operation.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The connection to a server failed.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// Address of the server.
        address: String,
        /// Error of the system.
        source: io::Error,
    },
    /// The number of bytes of sends in flight to a server is at its limit, so another send waited too long.
    #[error("no room for a send to {address} within {within:?}; too much is under way")]
    Busy {
        /// Address of the server.
        address: String,
        /// Duration of the send's wait.
        within: std::time::Duration,
    },
    /// A request got no answer. Whether the server performed it is unknown.
    #[error("{0}")]
    Call(#[from] CallError),
    /// The server answered with an error code.
    #[error("{address} answered {}: {remark}", code_name(*code))]
    Refused {
        /// Address of the server.
        address: String,
        /// Response code.
        code: i32,
        /// Remark of the answer.
        remark: String,
    },
    /// An answer cannot be decoded.
    #[error("the answer of {address} is malformed: {why}")]
    Answer {
        /// Address of the server.
        address: String,
        /// Expected and actual content.
        why: String,
    },
    /// No application replied to a request message in time. The message may still have been consumed.
    #[error("no reply within {0:?}")]
    NoReply(std::time::Duration),
    /// The configuration has no name server.
    #[error("no name server address is configured; set one like 127.0.0.1:9876")]
    NoNameServer,
    /// The topic has no queue that can be used.
    #[error(
        "topic {0} has no queue that can be used: it does not exist, its permission forbids it, or the master of its brokers is gone; look at its route"
    )]
    NoQueue(String),
    /// The broker name is not in any known route.
    #[error("broker {0} is not known from any route")]
    NoBroker(String),
    /// The message or setting is not valid and was not sent.
    #[error("{0}")]
    Illegal(String),
    /// Threads could not be started, or the client was shut down.
    #[error("client: {0}")]
    System(#[from] io::Error),
}

fn code_name(code: i32) -> String {
    response::name(code).map_or_else(|| format!("code {code}"), |name| format!("{name} ({code})"))
}

impl Error {
    /// The response code of the server; `None` for other errors.
    pub fn code(&self) -> Option<i32> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Whether a send may succeed on another broker (`DefaultMQProducer.retryResponseCodes`).
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::Busy { .. } | Self::Call(_) => true,
            Self::Refused { code, .. } => matches!(
                *code,
                response::TOPIC_NOT_EXIST
                    | response::SERVICE_NOT_AVAILABLE
                    | response::SYSTEM_ERROR
                    | response::SYSTEM_BUSY
                    | response::NO_PERMISSION
                    | response::NO_BUYER_ID
                    | response::NOT_IN_CURRENT_UNIT
                    | response::GO_AWAY
            ),
            _ => false,
        }
    }
}
