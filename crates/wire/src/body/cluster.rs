//! Lists in responses of the name server.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::BrokerData;

/// The response to `GET_BROKER_CLUSTER_INFO` (`org.apache.rocketmq.remoting.protocol.body.ClusterInfo`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterInfo {
    /// Broker groups by name.
    pub broker_addr_table: BTreeMap<String, BrokerData>,
    /// Names of the broker groups of each cluster.
    pub cluster_addr_table: BTreeMap<String, BTreeSet<String>>,
}

/// Broker that registered at a name server before another address took over its name and id. The list is in
/// [`REPLACED_BROKERS`], which name servers of RocketMQ do not have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplacedBroker {
    /// Address of the broker.
    pub broker_addr: String,
    /// Id of the broker in its group.
    pub broker_id: i64,
    /// Name of the broker group.
    pub broker_name: String,
    /// Cluster of the broker group.
    pub cluster: String,
}

/// Header field of `GET_BROKER_CLUSTER_INFO` that asks for [`REPLACED_BROKERS`] when it is `true`.
pub const WITH_REPLACED_BROKERS: &str = "withReplacedBrokers";

/// Header field of the response to `GET_BROKER_CLUSTER_INFO`: a JSON array of [`ReplacedBroker`].
pub const REPLACED_BROKERS: &str = "replacedBrokers";

/// A broker that left a name server and did not come back. It is in [`DEPARTED_BROKERS`], which name servers of RocketMQ do not have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DepartedBroker {
    /// Address of the broker.
    pub broker_addr: String,
    /// Id of the broker in its group.
    pub broker_id: i64,
    /// Name of the broker group.
    pub broker_name: String,
    /// Cluster of the broker group.
    pub cluster: String,
    /// Whether the broker unregistered. A broker that is killed, or does not reach the name server, does not unregister.
    pub is_unregistered: bool,
    /// Age of the broker's last registration or heartbeat, ms.
    pub silent_ms: i64,
}

/// Header field of `GET_BROKER_CLUSTER_INFO` that asks for [`DEPARTED_BROKERS`] when it is `true`.
pub const WITH_DEPARTED_BROKERS: &str = "withDepartedBrokers";

/// Header field of the response to `GET_BROKER_CLUSTER_INFO`: a JSON array of [`DepartedBroker`].
pub const DEPARTED_BROKERS: &str = "departedBrokers";

/// The members of one broker group (`org.apache.rocketmq.remoting.protocol.body.BrokerMemberGroup`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BrokerMemberGroup {
    /// Address by broker id.
    pub broker_addrs: BTreeMap<i64, String>,
    /// Name of the group.
    pub broker_name: String,
    /// Cluster of the broker group.
    pub cluster: String,
}

/// The response to `GET_BROKER_MEMBER_GROUP` (`GetBrokerMemberGroupResponseBody`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BrokerMemberGroupBody {
    /// The broker group; without addresses if the name server does not know it.
    pub broker_member_group: BrokerMemberGroup,
}

/// A list of topic names (`org.apache.rocketmq.remoting.protocol.body.TopicList`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicList {
    /// Address of any broker; only in the response to `GET_SYSTEM_TOPIC_LIST_FROM_NS`.
    pub broker_addr: Option<String>,
    /// Topic names.
    pub topic_list: Vec<String>,
}

/// A table of keys and values (`org.apache.rocketmq.remoting.protocol.body.KVTable`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct KvTable {
    /// Value by key.
    pub table: BTreeMap<String, String>,
}
