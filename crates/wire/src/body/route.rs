//! Routes: where the queues of a topic are.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::json::{self, Dialect};

/// The queues of a topic on one broker group (`org.apache.rocketmq.remoting.protocol.route.QueueData`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueData {
    /// Name of the broker group.
    pub broker_name: String,
    /// Permission bits of the topic there.
    pub perm: i32,
    /// Queues consumers read.
    pub read_queue_nums: i32,
    /// Unit flags; clients up to 4.9 call it `topicSynFlag`.
    #[serde(alias = "topicSynFlag")]
    pub topic_sys_flag: i32,
    /// Queues producers write.
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
    /// A slave may stand in for a lost master.
    pub enable_acting_master: bool,
    /// Zone the group registered from.
    pub zone_name: Option<String>,
}

/// The share of one broker group in a static topic (`TopicQueueMappingInfo`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicQueueMapping {
    /// Name of the broker group.
    pub bname: String,
    /// Physical queue by logical queue.
    pub curr_id_map: BTreeMap<i32, i32>,
    /// The mapping is being moved.
    pub dirty: bool,
    /// Version of the mapping; the highest wins.
    pub epoch: i64,
    /// Scope of the logical queues, normally `__global__`.
    pub scope: Option<String>,
    /// Topic name.
    pub topic: String,
    /// Logical queues of the topic.
    pub total_queues: i32,
}

/// The answer to `GET_ROUTEINFO_BY_TOPIC` (`org.apache.rocketmq.remoting.protocol.route.TopicRouteData`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicRouteData {
    /// Broker groups that have queues of the topic.
    pub broker_datas: Vec<BrokerData>,
    /// Filter servers by broker address; legacy, normally empty.
    pub filter_server_table: BTreeMap<String, Vec<String>>,
    /// `broker-a:8;broker-b:8` if the topic has an order configuration and the name server shows it.
    pub order_topic_conf: Option<String>,
    /// Queues by broker group.
    pub queue_datas: Vec<QueueData>,
    /// Static-topic mappings by broker group.
    pub topic_queue_mapping_by_broker: Option<BTreeMap<String, TopicQueueMapping>>,
}

impl TopicRouteData {
    /// Reads either dialect.
    ///
    /// # Errors
    /// The body is no route.
    pub fn decode(body: &[u8]) -> Result<Self, json::JsonError> {
        json::from_slice(body)
    }

    /// Writes the dialect the asking client wants.
    pub fn encode(&self, dialect: Dialect) -> Vec<u8> {
        json::to_vec_as(self, dialect)
    }
}
