//! Messages that are delivered later than they were stored: delayed, timed, undecided and popped messages.

use crate::state::{DeliveryNotes, Pops, Schedule, TimerState, Transactions};

/// State of the engines that deliver messages later than they were stored.
pub(crate) struct Delivery {
    /// Positions of the delay levels.
    pub(crate) schedule: Schedule,
    pub(crate) timer: TimerState,
    /// Positions of delayed and timed messages that the log proves.
    pub(crate) delivery_notes: DeliveryNotes,
    pub(crate) transactions: Transactions,
    pub(crate) pops: Pops,
}
