//! Bodies between brokers, controllers and operators. A controller assigned the ids.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::BrokerMemberGroup;

/// An in-sync set (`org.apache.rocketmq.remoting.protocol.body.SyncStateSet`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SyncStateSet {
    /// The members.
    pub sync_state_set: BTreeSet<i64>,
    /// The number of changes that led to the set.
    pub sync_state_set_epoch: i32,
}

/// The response to an election (`ElectMasterResponseBody`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ElectMasterBody {
    /// All brokers of the set.
    pub broker_member_group: BrokerMemberGroup,
    /// Members of the in-sync set.
    pub sync_state_set: BTreeSet<i64>,
}

/// A broker of a broker set (`BrokerReplicasInfo.ReplicaIdentity`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaIdentity {
    /// Whether the controller receives heartbeats of the broker.
    pub alive: bool,
    /// Address of the broker.
    pub broker_address: String,
    /// Id of the broker.
    pub broker_id: i64,
    /// Name of the set.
    pub broker_name: String,
    /// Age of the last heartbeat of a broker that is not alive, ms. Controllers of RocketMQ do not send it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silent_ms: Option<u64>,
}

/// State of one broker set (`BrokerReplicasInfo.ReplicasInfo`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicasInfo {
    /// Members of the in-sync set.
    pub in_sync_replicas: Vec<ReplicaIdentity>,
    /// Address of the master.
    pub master_address: Option<String>,
    /// Id of the master.
    pub master_broker_id: Option<i64>,
    /// Number of the last election.
    pub master_epoch: i32,
    /// Brokers outside the in-sync set.
    pub not_in_sync_replicas: Vec<ReplicaIdentity>,
    /// The number of changes of the in-sync set.
    pub sync_state_set_epoch: i32,
}

/// The response to `CONTROLLER_GET_SYNC_STATE_DATA` (`BrokerReplicasInfo`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BrokerReplicasInfo {
    /// Broker sets by name.
    pub replicas_info_table: BTreeMap<String, ReplicasInfo>,
}
