//! Clients: who is connected, who may do what, and which requests of clients wait.

use crate::clients::Clients;
use crate::gate::Gate;
use crate::state::{ClientCalls, PollTimeouts};

/// Connected clients, their permissions, and what waits for them.
pub(crate) struct Sessions {
    pub(crate) clients: Clients,
    /// Broker-to-client calls that wait for an answer.
    pub(crate) client_calls: ClientCalls,
    /// Authentication and authorization of requests.
    pub(crate) gate: Gate,
    /// Long polling timeouts of suspended pulls.
    pub(crate) poll_timeouts: PollTimeouts,
}
