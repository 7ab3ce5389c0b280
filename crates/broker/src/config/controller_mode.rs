//! Settings of controller mode (`enableControllerMode`), in which controllers elect the master of a group.

use std::time::Duration;

use replica::agent::AgentConfig;
use replica::in_sync::InSyncConfig;
use wire::settings::{FunctionCodec, Plain};

use super::value::{DAY_MS, INT_MAX, Must, controller_addresses};

wire::settings! {
    /// Settings of a broker in controller mode.
    #[derive(Clone, Debug)]
    pub struct ControllerMode {
        "enableControllerMode" Restart is_enabled: bool = false, [Must(Plain)], "controllers elect the master of the group; brokerRole and brokerId are theirs to decide";
        "controllerAddr" Restart controllers: String = String::new(), [FunctionCodec(controller_addresses)], "controllers, host:port separated by ;";
        "allAckInSyncStateSet" Restart is_all_ack: bool = false, [Must(Plain)], "in controller mode: an answer waits for every member of the in-sync set";
        "minInSyncReplicas" Restart min_in_sync_replicas: u32 = 1, [Must(0..=64)], "in controller mode, and with enableAutoInSyncReplicas: fewest brokers in sync, this one included, with which messages are taken";
        "diskStallTimeoutMillis" Restart disk_stall_timeout_ms: u64 = AgentConfig::default().disk_stall_timeout_ms, [0..=DAY_MS], "milliseconds that the disk may take for a write or flush of the log: after this time a master gives up its role, or without controllers logs a warning; 0 for no limit";
        "haMaxTimeSlaveNotCatchup" Restart not_caught_up_max_ms: u64 = InSyncConfig::default().not_caught_up_max_ms, [1..=DAY_MS], "milliseconds that a slave may be behind before it leaves the in-sync set";
        "checkSyncStateSetPeriod" Restart retry_interval_ms: u64 = InSyncConfig::default().retry_interval_ms, [1..=DAY_MS], "milliseconds before a refused change of the in-sync set is proposed again";
        "asyncLearner" Restart is_learner: bool = false, "this broker never comes into the in-sync set";
        "syncFromLastFile" Restart is_from_last_file: bool = false, "in controller mode: an empty slave begins with the master's newest log file";
        "brokerHeartbeatInterval" Restart heartbeat_interval_ms: u64 = AgentConfig::default().heartbeat_interval_ms, [1..=DAY_MS], "milliseconds between heartbeats to the controllers, and with enableSlaveActingMaster to the name servers";
        "controllerHeartBeatTimeoutMills" Restart heartbeat_timeout_ms: u64 = 2_500, [1..=DAY_MS], "milliseconds without a heartbeat after which the controllers elect another master";
        "syncBrokerMetadataPeriod" Restart poll_interval_ms: u64 = AgentConfig::default().poll_interval_ms, [1..=DAY_MS], "milliseconds between questions to the controllers who is master";
        "syncControllerMetadataPeriod" Restart leader_interval_ms: u64 = AgentConfig::default().leader_interval_ms, [1..=DAY_MS], "milliseconds between questions which controller leads";
        "brokerElectionPriority" Restart election_priority: i32 = i32::MAX, [0..=INT_MAX], "of brokers with equal logs the one with the smallest number becomes master";
    }
}

impl ControllerMode {
    /// The addresses of the controllers.
    pub(crate) fn controllers(&self) -> Vec<String> {
        let addresses = self.controllers.split(';').map(str::trim).filter(|address| !address.is_empty());
        addresses.map(str::to_owned).collect()
    }

    /// Time that the disk may take for a write or flush of the log; zero for no limit.
    pub(crate) fn disk_stall_timeout(&self) -> Duration {
        Duration::from_millis(self.disk_stall_timeout_ms)
    }

    /// Times after which a lagging member leaves the in-sync set, and after which a failed proposal is repeated.
    pub(crate) fn in_sync(&self) -> InSyncConfig {
        InSyncConfig {
            not_caught_up_max_ms: self.not_caught_up_max_ms,
            retry_interval_ms: self.retry_interval_ms,
        }
    }
}
