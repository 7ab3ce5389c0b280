//! Replication between a master and its slaves, as brokers report it.

use serde::{Deserialize, Serialize};

/// The answer to `GET_BROKER_HA_STATUS` (`org.apache.rocketmq.remoting.protocol.body.HARuntimeInfo`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HaRuntimeInfo {
    /// State that a slave reports about itself.
    pub ha_client_runtime_info: HaClientRuntimeInfo,
    /// The slaves of a master.
    pub ha_connection_info: Vec<HaConnectionRuntimeInfo>,
    /// Number of slaves that are in sync.
    pub in_sync_slave_nums: i64,
    /// Whether the broker is a master.
    pub master: bool,
    /// End of the master's commit log; 0 from a slave.
    pub master_commit_log_max_offset: i64,
    /// Clock of the broker in milliseconds since the epoch. Slaves compare it with their own clock. Brokers of RocketMQ do
    /// not send it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub now_ms: Option<i64>,
}

/// A slave, as its master sees it (`HARuntimeInfo.HAConnectionRuntimeInfo`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HaConnectionRuntimeInfo {
    /// Address of the connection's end at the slave.
    pub addr: String,
    /// Bytes of the master's commit log that the slave has not acknowledged.
    pub diff: i64,
    /// Whether the slave is in sync.
    pub in_sync: bool,
    /// Log position up to which the slave has acknowledged.
    pub slave_ack_offset: i64,
    /// Log position of the next bytes for the slave.
    pub transfer_from_where: i64,
    /// Bytes that the slave gets per second.
    pub transferred_byte_in_second: i64,
}

/// State of replication that a slave reports about itself (`HARuntimeInfo.HAClientRuntimeInfo`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HaClientRuntimeInfo {
    /// Whether the slave follows a master.
    pub activated: bool,
    /// Address of this slave in [`HaConnectionRuntimeInfo::addr`] of its master. Brokers of RocketMQ do not send it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_addr: Option<String>,
    /// Time of the last bytes from the master, in milliseconds since the epoch.
    pub last_read_timestamp: i64,
    /// Time of the last report to the master, in milliseconds since the epoch.
    pub last_write_timestamp: i64,
    /// Address of the master for its slaves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub master_addr: Option<String>,
    /// Position up to which the master's commit log was on disk when the slave connected.
    pub master_flush_offset: i64,
    /// End of the slave's commit log.
    pub max_offset: i64,
    /// Bytes that the slave gets per second.
    pub transferred_byte_in_second: i64,
}
