//! Settings of replication between the brokers of a group.

use std::time::Duration;

use net::ReplicationTls;
use replica::acks::{AckConfig, Mode};
use replica::master::MasterConfig;
use replica::slave_log::SlaveConfig;
use replica::transfer::TransferConfig;
use store::FlushMode;

use super::acting_master::ActingMaster;
use super::controller_mode::ControllerMode;

/// Role of a broker in its group (`BrokerRole`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Takes messages, and answers without its slaves.
    AsyncMaster,
    /// Takes messages, and answers when `inSyncReplicas` brokers have them.
    SyncMaster,
    /// Copies the log of its master.
    Slave,
}

impl Role {
    /// The roles by their names in RocketMQ.
    pub(super) const WORDS: [(&str, Self); 3] =
        [("ASYNC_MASTER", Self::AsyncMaster), ("SYNC_MASTER", Self::SyncMaster), ("SLAVE", Self::Slave)];
}

/// Replication of the log between the brokers of a group.
#[derive(Clone, Debug)]
pub struct Replication {
    /// `brokerRole`.
    pub role: Role,
    /// `brokerIP2`: the address that slaves of this broker connect to; empty for `brokerIP1`.
    pub ip: String,
    /// `haListenPort`: port for slaves. 0 for the port above `listenPort`.
    pub port: u16,
    /// `haMasterAddress`: address for a slave's connection. If empty, name servers provide it.
    pub master: String,
    /// `haSendHeartbeatInterval` in milliseconds.
    pub heartbeat_interval_ms: u64,
    /// `haHousekeepingInterval`: time in milliseconds without incoming bytes after which a connection is closed.
    pub housekeeping_interval_ms: u64,
    /// `haTransferBatchSize`: most bytes of the log in a frame.
    pub batch_bytes: u32,
    /// `haFlowControlEnable`: `bytes_per_second` applies.
    pub is_limited: bool,
    /// `maxHaTransferByteInSecond`: most bytes for a slave in a second.
    pub bytes_per_second: u64,
    /// `inSyncReplicas`: number of brokers, the master included, that have a message before a SYNC_MASTER responds.
    pub in_sync_replicas: u32,
    /// `slaveTimeout` in milliseconds: how long an answer waits for slaves.
    pub slave_timeout_ms: u64,
    /// `haMaxGapNotInSync`: bytes by which a slave that counts as in sync may be behind.
    pub max_gap_bytes: u64,
    /// Security of replication connections (`tls.replication.mode`).
    pub tls: ReplicationTls,
    /// Controller mode.
    pub controller: ControllerMode,
    /// Whether, and how, a slave acts for a master that is gone (`enableSlaveActingMaster`).
    pub acting: ActingMaster,
}

/// RocketMQ's defaults.
impl Default for Replication {
    fn default() -> Self {
        let (acks, transfer) = (AckConfig::default(), TransferConfig::default());
        Self {
            role: Role::AsyncMaster,
            ip: String::new(),
            port: 0,
            master: String::new(),
            heartbeat_interval_ms: transfer.heartbeat_interval_ms,
            housekeeping_interval_ms: transfer.housekeeping_interval_ms,
            batch_bytes: transfer.batch_bytes,
            is_limited: false,
            bytes_per_second: 100 << 20,
            in_sync_replicas: acks.in_sync_replicas,
            slave_timeout_ms: acks.slave_timeout_ms,
            max_gap_bytes: acks.max_gap_bytes,
            tls: ReplicationTls::default(),
            controller: ControllerMode::default(),
            acting: ActingMaster::default(),
        }
    }
}

impl Replication {
    /// Whether responses wait for slaves for the broker's whole life. With RocketMQ 5 a SYNC_MASTER with
    /// `inSyncReplicas=1` waits for no slave. In controller mode that depends on the master.
    pub fn waits_for_slaves(&self) -> bool {
        self.role == Role::SyncMaster && self.in_sync_replicas > 1 && !self.controller.is_enabled
    }

    /// Longest wait of responses for slaves.
    pub(crate) fn slave_timeout(&self) -> Duration {
        Duration::from_millis(self.slave_timeout_ms)
    }

    fn transfer(&self, store: &store::Config) -> TransferConfig {
        TransferConfig {
            batch_bytes: self.batch_bytes,
            file_bytes: store.segment_bytes,
            heartbeat_interval_ms: self.heartbeat_interval_ms,
            housekeeping_interval_ms: self.housekeeping_interval_ms,
            bytes_per_second: self.is_limited.then_some(self.bytes_per_second),
        }
    }

    fn acks(&self) -> AckConfig {
        // Only answers of a SYNC_MASTER wait for slaves.
        let is_acting = self.acting.is_enabled && self.role == Role::SyncMaster;
        AckConfig {
            mode: if is_acting { Mode::ActingMaster } else { Mode::Classic },
            in_sync_replicas: self.in_sync_replicas,
            min_in_sync_replicas: self.controller.min_in_sync_replicas,
            is_auto: self.acting.is_auto,
            slave_timeout_ms: self.slave_timeout_ms,
            max_gap_bytes: self.max_gap_bytes,
            is_all_ack: false,
        }
    }

    /// The settings as the state machine of a classic master takes them.
    pub(crate) fn of_master(&self, store: &store::Config) -> MasterConfig {
        MasterConfig { transfer: self.transfer(store), acks: self.acks(), in_sync: self.controller.in_sync() }
    }

    /// The settings as the state machine of an elected master takes them.
    pub(crate) fn of_elected(&self, store: &store::Config) -> MasterConfig {
        let acks =
            AckConfig { mode: Mode::Controller, is_all_ack: self.controller.is_all_ack, ..self.acks() };
        MasterConfig { acks, ..self.of_master(store) }
    }

    /// Returns the settings for the state machine of a slave, with the present flush mode.
    pub(crate) fn of_slave(&self, store: &store::Config, flush: FlushMode) -> SlaveConfig {
        SlaveConfig {
            file_bytes: store.segment_bytes,
            heartbeat_interval_ms: self.heartbeat_interval_ms,
            housekeeping_interval_ms: self.housekeeping_interval_ms,
            is_sync_flush: flush == FlushMode::Sync,
            ..SlaveConfig::default()
        }
    }

    /// Returns the settings for the state machine of a slave with an elected master. A new master serves at once, so
    /// the slaves reconnect soon.
    pub(crate) fn of_elected_slave(&self, store: &store::Config, flush: FlushMode) -> SlaveConfig {
        SlaveConfig { retry_interval_ms: 500, ..self.of_slave(store, flush) }
    }
}
