//! Routes: the brokers and queues of a topic.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::json::{self, Dialect};

/// The queues of a topic on one broker group (`org.apache.rocketmq.remoting.protocol.route.QueueData`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueData {
    /// Name of the broker group.
    pub broker_name: String,
    /// Permission bits of the topic on this broker group.
    pub perm: i32,
    /// Number of queues that consumers read.
    pub read_queue_nums: i32,
    /// Bit 0: unit topic, bit 1: unit subscription (`TopicSysFlag`). Clients up to 4.9 call the field
    /// `topicSynFlag`.
    #[serde(alias = "topicSynFlag")]
    pub topic_sys_flag: i32,
    /// Number of queues that producers write.
    pub write_queue_nums: i32,
}

/// The addresses of one broker group (`org.apache.rocketmq.remoting.protocol.route.BrokerData`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BrokerData {
    /// Address `ip:port` by broker id; 0 is the master.
    pub broker_addrs: BTreeMap<i64, String>,
    /// Name of the group.
    pub broker_name: String,
    /// Cluster the group belongs to.
    pub cluster: String,
    /// Whether a slave may act for a lost master.
    pub enable_acting_master: bool,
    /// Zone of the group.
    pub zone_name: Option<String>,
}

/// The part of a static topic on one broker group (`TopicQueueMappingInfo`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicQueueMapping {
    /// Name of the broker group.
    pub bname: String,
    /// Physical queue id by logical queue id.
    pub curr_id_map: BTreeMap<i32, i32>,
    /// Whether the mapping is being moved.
    pub dirty: bool,
    /// Epoch of the mapping. The mapping with the highest epoch is valid.
    pub epoch: i64,
    /// Scope of the logical queues, normally `__global__`.
    pub scope: Option<String>,
    /// Topic name.
    pub topic: String,
    /// Number of logical queues of the topic.
    pub total_queues: i32,
}

/// The response to `GET_ROUTEINFO_BY_TOPIC` (`org.apache.rocketmq.remoting.protocol.route.TopicRouteData`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicRouteData {
    /// Broker groups that have queues of the topic.
    pub broker_datas: Vec<BrokerData>,
    /// Filter servers by broker address; legacy, normally empty.
    pub filter_server_table: BTreeMap<String, Vec<String>>,
    /// `broker-a:8;broker-b:8` if the topic has an order configuration and the name server shows it.
    pub order_topic_conf: Option<String>,
    /// The topic's queues by broker group.
    pub queue_datas: Vec<QueueData>,
    /// Static-topic mappings by broker group.
    pub topic_queue_mapping_by_broker: Option<BTreeMap<String, TopicQueueMapping>>,
}

impl TopicRouteData {
    /// Parses a route in either JSON dialect.
    ///
    /// # Errors
    /// [`json::JsonError`] when the body is not a route.
    pub fn decode(body: &[u8]) -> Result<Self, json::JsonError> {
        json::from_slice(body)
    }

    /// Serializes the route in the dialect that the client expects.
    pub fn encode(&self, dialect: Dialect) -> Vec<u8> {
        json::to_vec_as(self, dialect)
    }
}
