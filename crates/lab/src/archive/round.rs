//! Findings of a round of a failover run beside its rows: `round.json` in the directory of the repeat.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A fault and its effects on clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Round {
    /// When the injection of the fault began, milliseconds since 1970.
    pub fault_ms: u64,
    /// When the injection was done: a command may take long before it does harm. Never before `fault_ms`, 0 in older records.
    pub injected_ms: u64,
    /// When the healing began.
    pub heal_ms: u64,
    /// Whether the cluster was whole again within its time; `None` when the round ended before.
    pub is_whole: Option<bool>,
    /// The master that the fault met.
    pub master: String,
    /// The master of the same broker set at the end of the round; empty when there was none.
    pub master_after: String,
    /// Number of producing connections.
    pub connections: u32,
    /// Times without an acknowledgement that were long enough to be kept.
    pub silences: Vec<Silence>,
    /// Offsets that were committed before the fault, and offsets that were found after the healing.
    pub offsets: Vec<CommittedOffset>,
    /// Counts of messages, as in [`super::Cell::checked`], of this round alone.
    pub checked: BTreeMap<String, u64>,
}

/// A time without an acknowledgement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Silence {
    /// Number of the connection; `None` for all connections together.
    pub connection: Option<u32>,
    /// The last acknowledgement before, microseconds since 1970.
    pub from_us: u64,
    /// The first acknowledgement after; `None` when none came.
    pub to_us: Option<u64>,
}

/// The committed offset of a queue before and after a fault.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CommittedOffset {
    /// Name of the broker set.
    pub broker: String,
    /// Number of the queue.
    pub queue: i32,
    /// Acknowledged commits before the fault, oldest first: milliseconds since 1970, and the offset.
    pub commits: Vec<(u64, i64)>,
    /// The offset after the healing; `None` when it could not be asked for.
    pub found: Option<i64>,
}
