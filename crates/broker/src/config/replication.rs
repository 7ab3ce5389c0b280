//! Settings of replication between the brokers of a group.

use std::time::Duration;

use net::ReplicationTls;
use replica::acks::{AckConfig, Mode};
use replica::master::MasterConfig;
use replica::slave_log::SlaveConfig;
use replica::transfer::TransferConfig;
use store::FlushMode;
use wire::settings::{Exact, FunctionCodec};

use super::acting_master::ActingMaster;
use super::controller_mode::ControllerMode;
use super::value::{DAY_MS, INT_MAX, Must, one_address, optional_host};

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

wire::settings! {
    /// Replication of the log between the brokers of a group.
    #[derive(Clone, Debug)]
    pub struct Replication {
        "brokerRole" Restart role: Role = Role::AsyncMaster, [Must(Role::WORDS)], "ASYNC_MASTER; SYNC_MASTER answers when inSyncReplicas brokers have a message; SLAVE copies the log of the master with its brokerName";
        "brokerIP2" Restart ip: String = String::new(), [FunctionCodec(optional_host)], "address that slaves of this broker connect to; brokerIP1 when empty";
        "haListenPort" Restart port: u16 = 0, [Exact(0..=65_535)], "port that slaves connect to; 0 is the one behind listenPort";
        "haMasterAddress" Restart master: String = String::new(), [FunctionCodec(one_address)], "where a slave connects to, host:port; when empty, where the name servers say";
        "haSendHeartbeatInterval" Restart heartbeat_interval_ms: u64 = TransferConfig::default().heartbeat_interval_ms, [1..=DAY_MS], "milliseconds after which master and slave send each other something";
        "haHousekeepingInterval" Restart housekeeping_interval_ms: u64 = TransferConfig::default().housekeeping_interval_ms, [1..=DAY_MS], "milliseconds of silence after which master and slave close their connection";
        "haTransferBatchSize" Restart batch_bytes: u32 = TransferConfig::default().batch_bytes, [1..=INT_MAX], "most bytes of the log in one frame to a slave";
        "haFlowControlEnable" Restart is_limited: bool = false, "maxHaTransferByteInSecond applies";
        "maxHaTransferByteInSecond" Restart bytes_per_second: u64 = 100 << 20, [1..=i64::MAX], "most bytes that one slave gets in a second, with haFlowControlEnable";
        "inSyncReplicas" Restart in_sync_replicas: u32 = AckConfig::default().in_sync_replicas, [Must(0..=64)], "brokers that have a message before a SYNC_MASTER answers, itself included; 1 waits for no slave";
        "slaveTimeout" Restart slave_timeout_ms: u64 = AckConfig::default().slave_timeout_ms, [1..=DAY_MS], "milliseconds an answer of a SYNC_MASTER waits for slaves before it says FLUSH_SLAVE_TIMEOUT";
        "haMaxGapNotInSync" Restart max_gap_bytes: u64 = AckConfig::default().max_gap_bytes, [0..=i64::MAX], "bytes by which a slave that counts as in sync may be behind";
    }
    parts {
        /// Controller mode.
        controller: ControllerMode;
        /// Whether, and how, a slave acts for a master that is gone (`enableSlaveActingMaster`).
        acting: ActingMaster;
    }
    fields {
        /// Security of replication connections (`tls.replication.mode`).
        pub tls: ReplicationTls = ReplicationTls::default();
    }
}

impl Replication {
    /// Whether responses wait for slaves from start to stop, by the settings alone. With RocketMQ 5
    /// a SYNC_MASTER with `inSyncReplicas=1` waits for no slave. False in controller mode, where
    /// responses begin to wait when an elected master requires that.
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
