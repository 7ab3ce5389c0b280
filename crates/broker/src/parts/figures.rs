//! Figures about the work of a broker, for operators.

use std::sync::Arc;

use crate::refused::Refused;
use crate::rpc_latency::RpcLatency;
use crate::slow::SlowOperations;
use crate::state::Stats;

/// Counts and durations of requests and messages.
pub(crate) struct Figures {
    pub(crate) stats: Stats,
    /// Slow operations by cause.
    pub(crate) slow: SlowOperations,
    /// Refused requests by cause.
    pub(crate) refused: Refused,
    pub(crate) rpc_latency: Arc<RpcLatency>,
}
