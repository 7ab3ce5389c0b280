//! Settings of acting masters (`enableSlaveActingMaster`): the slave with the smallest id acts for a master that is gone.

use std::time::Duration;

use super::value::DAY_MS;

wire::settings! {
    /// Settings of a broker in a group with acting masters.
    #[derive(Clone, Debug)]
    pub struct ActingMaster {
        "enableSlaveActingMaster" Restart is_enabled: bool = false, "the slave with the smallest brokerId acts for a master that is gone; a master that returns takes the offsets of its slaves over first";
        "skipPreOnline" Restart skips_pre_online: bool = false, "with enableSlaveActingMaster: serve at once, without an exchange with the other brokers of the group";
        "syncBrokerMemberGroupPeriod" Restart members_interval_ms: u64 = 1_000, [1..=DAY_MS], "with enableSlaveActingMaster: milliseconds between questions to the name servers for the brokers of the group";
        "brokerNotActiveTimeoutMillis" Restart not_active_timeout_ms: u64 = 10_000, [1..=DAY_MS], "with enableSlaveActingMaster: milliseconds without a heartbeat after which name servers take the broker for gone";
        "enableAutoInSyncReplicas" Restart is_auto: bool = false, "with enableSlaveActingMaster: a SYNC_MASTER waits for fewer slaves when fewer are in sync";
    }
}

impl ActingMaster {
    /// Interval of queries to name servers for the brokers of the group.
    pub(crate) fn members_interval(&self) -> Duration {
        Duration::from_millis(self.members_interval_ms)
    }
}
