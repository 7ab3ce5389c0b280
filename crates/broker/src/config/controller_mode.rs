//! Settings of controller mode (`enableControllerMode`), in which controllers elect the master of a group.

use std::time::Duration;

use replica::agent::AgentConfig;
use replica::in_sync::InSyncConfig;

/// Settings of a broker in controller mode.
#[derive(Clone, Debug)]
pub struct ControllerMode {
    /// `enableControllerMode`.
    pub is_enabled: bool,
    /// `controllerAddr`: controllers, `host:port` separated by `;`.
    pub controllers: String,
    /// `brokerHeartbeatInterval` in milliseconds.
    pub heartbeat_interval_ms: u64,
    /// `controllerHeartBeatTimeoutMills`: without a heartbeat for this long the controllers take the broker for dead.
    pub heartbeat_timeout_ms: u64,
    /// `syncBrokerMetadataPeriod`: interval in milliseconds of requests for the master.
    pub poll_interval_ms: u64,
    /// `syncControllerMetadataPeriod`: interval in milliseconds of requests for the leading controller.
    pub leader_interval_ms: u64,
    /// `checkSyncStateSetPeriod` in milliseconds: pause before a refused change of the in-sync set is proposed again.
    pub retry_interval_ms: u64,
    /// `haMaxTimeSlaveNotCatchup` in milliseconds: how long a member of the in-sync set may be behind.
    pub not_caught_up_max_ms: u64,
    /// `brokerElectionPriority`: the smallest number wins among candidates with equal logs.
    pub election_priority: i32,
    /// `minInSyncReplicas`: fewest members of the in-sync set with which sends are taken.
    pub min_in_sync_replicas: u32,
    /// `allAckInSyncStateSet`: every member of the in-sync set must have a message.
    pub is_all_ack: bool,
    /// `diskStallTimeoutMillis`: time after which a master with an unfinished write or flush gives up its role; zero for never.
    pub disk_stall_timeout_ms: u64,
    /// `asyncLearner`: this broker never comes into the in-sync set.
    pub is_learner: bool,
    /// `syncFromLastFile`: an empty slave begins with the master's newest log file.
    pub is_from_last_file: bool,
}

/// RocketMQ's defaults, but for the time after which a silent broker counts as dead, which is 10 s there.
impl Default for ControllerMode {
    fn default() -> Self {
        let (agent, in_sync) = (AgentConfig::default(), InSyncConfig::default());
        Self {
            is_enabled: false,
            controllers: String::new(),
            heartbeat_interval_ms: agent.heartbeat_interval_ms,
            heartbeat_timeout_ms: 2_500,
            poll_interval_ms: agent.poll_interval_ms,
            leader_interval_ms: agent.leader_interval_ms,
            retry_interval_ms: in_sync.retry_interval_ms,
            not_caught_up_max_ms: in_sync.not_caught_up_max_ms,
            election_priority: i32::MAX,
            min_in_sync_replicas: 1,
            is_all_ack: false,
            disk_stall_timeout_ms: agent.disk_stall_timeout_ms,
            is_learner: false,
            is_from_last_file: false,
        }
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

    /// When members of the in-sync set come and go.
    pub(crate) fn in_sync(&self) -> InSyncConfig {
        InSyncConfig {
            not_caught_up_max_ms: self.not_caught_up_max_ms,
            retry_interval_ms: self.retry_interval_ms,
        }
    }
}
