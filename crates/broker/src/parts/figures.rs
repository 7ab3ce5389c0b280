//! Figures about the work of a broker, for operators.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::refusal_counts::RefusalCounts;
use crate::rpc_latency::RpcLatency;
use crate::slow::{SlowOperations, WaitCause};
use crate::state::Stats;

/// Counts and durations of requests and messages.
pub(crate) struct Figures {
    pub(crate) clock: Clock,
    pub(crate) stats: Stats,
    /// Slow operations by cause.
    pub(crate) slow: SlowOperations,
    /// Refused requests by cause.
    pub(crate) refused: RefusalCounts,
    pub(crate) rpc_latency: Arc<RpcLatency>,
}

impl Figures {
    /// Returns how long an operation has waited since `begin` on the steady clock. Logs a long wait.
    pub(crate) fn note_slow(&self, operation: &str, cause: WaitCause, begin: Duration) -> Duration {
        let took = self.clock.steady().saturating_sub(begin);
        self.slow.note(|| self.clock.now_ms(), operation, cause, took);
        took
    }
}
