//! Settings of acting masters (`enableSlaveActingMaster`): the slave with the smallest id acts for a master that is gone.

use std::time::Duration;

/// Settings of a broker in a group with acting masters.
#[derive(Clone, Debug)]
pub struct ActingMaster {
    /// `enableSlaveActingMaster`.
    pub is_enabled: bool,
    /// `skipPreOnline`: whether the broker serves at its start, without an exchange with the other brokers of its
    /// group.
    pub skips_pre_online: bool,
    /// `syncBrokerMemberGroupPeriod`: interval in milliseconds of queries to name servers for the brokers of the
    /// group.
    pub members_interval_ms: u64,
    /// `brokerNotActiveTimeoutMillis`: name servers take the broker for dead when they have not heard of it for this long.
    pub not_active_timeout_ms: u64,
    /// `enableAutoInSyncReplicas`: a SYNC_MASTER waits for fewer slaves when fewer are in sync.
    pub is_auto: bool,
}

/// RocketMQ's defaults.
impl Default for ActingMaster {
    fn default() -> Self {
        Self {
            is_enabled: false,
            skips_pre_online: false,
            members_interval_ms: 1_000,
            not_active_timeout_ms: 10_000,
            is_auto: false,
        }
    }
}

impl ActingMaster {
    /// Interval of queries to name servers for the brokers of the group.
    pub(crate) fn members_interval(&self) -> Duration {
        Duration::from_millis(self.members_interval_ms)
    }
}
