//! Settings of an agent.

use wire::ha::Epoch;
use wire::units::LogOffset;

/// Identity of this broker, and its request intervals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentConfig {
    /// Cluster of this broker (`brokerClusterName`).
    pub cluster: String,
    /// Name of its broker set (`brokerName`).
    pub name: String,
    /// Address of this broker for others.
    pub address: String,
    /// Text with which this broker applies for an id: its address, a semicolon, the time of day in milliseconds.
    pub check_code: String,
    /// Addresses of all controllers (`controllerAddr`).
    pub controllers: Vec<String>,
    /// Last epoch of the log, or zero if the log has no epoch. The broker rejects a role with an older epoch.
    pub log_epoch: Epoch,
    /// End of the log at the start. The controllers compare it with the last heartbeat before the start.
    pub log_end: Option<LogOffset>,
    /// Whether the broker's last stop may have cost it the end of its log: a crash without sync flush.
    pub may_have_lost: bool,
    /// Pause between heartbeats, in milliseconds (`brokerHeartbeatInterval`).
    pub heartbeat_interval_ms: u64,
    /// Pause between polls of the role, in milliseconds (`syncBrokerMetadataPeriod`).
    pub poll_interval_ms: u64,
    /// Pause between requests for the leading controller, in milliseconds (`syncControllerMetadataPeriod`).
    pub leader_interval_ms: u64,
    /// Milliseconds that the disk may take for a write or flush before a master gives up its role (`diskStallTimeoutMillis`); zero
    /// for no limit.
    pub disk_stall_timeout_ms: u64,
    /// Pause after a step of the start-up that failed, in milliseconds.
    pub retry_interval_ms: u64,
}

/// RocketMQ's defaults for a broker without names.
impl Default for AgentConfig {
    fn default() -> Self {
        Self {
            cluster: String::new(),
            name: String::new(),
            address: String::new(),
            check_code: String::new(),
            controllers: Vec::new(),
            log_epoch: Epoch::ZERO,
            log_end: None,
            may_have_lost: false,
            heartbeat_interval_ms: 1_000,
            poll_interval_ms: 5_000,
            leader_interval_ms: 10_000,
            disk_stall_timeout_ms: 3_000,
            retry_interval_ms: 1_000,
        }
    }
}
