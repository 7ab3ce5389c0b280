//! What operators ask brokers for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{ConsumeFromWhere, ConsumeType, MessageModel, MessageQueue, SubscriptionData};

/// The range of one queue (`org.apache.rocketmq.remoting.protocol.admin.TopicOffset`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicOffset {
    /// Store time of the last message, milliseconds since 1970.
    pub last_update_timestamp: i64,
    /// Next offset to be written.
    pub max_offset: i64,
    /// First offset kept.
    pub min_offset: i64,
}

/// The answer to `GET_TOPIC_STATS_INFO` (`TopicStatsTable`).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicStats {
    /// Range by queue.
    pub offset_table: BTreeMap<MessageQueue, TopicOffset>,
    /// Messages per second written.
    pub topic_put_tps: f64,
}

/// How far a group is in one queue (`org.apache.rocketmq.remoting.protocol.admin.OffsetWrapper`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OffsetWrapper {
    /// Next offset to be written.
    pub broker_offset: i64,
    /// Next offset of the group.
    pub consumer_offset: i64,
    /// Store time of the last message consumed, milliseconds since 1970.
    pub last_timestamp: i64,
    /// Next offset to be pulled.
    pub pull_offset: i64,
}

/// The answer to `GET_CONSUME_STATS` (`org.apache.rocketmq.remoting.protocol.admin.ConsumeStats`).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumeStats {
    /// Messages per second consumed.
    pub consume_tps: f64,
    /// Progress by queue.
    pub offset_table: BTreeMap<MessageQueue, OffsetWrapper>,
}

/// The answer to `GET_BROKER_CONSUME_STATS` (`ConsumeStatsList`).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumeStatsList {
    /// Address of the broker.
    pub broker_addr: String,
    /// Progress in each topic, by group.
    pub consume_stats_list: Vec<BTreeMap<String, Vec<ConsumeStats>>>,
    /// Messages not consumed.
    pub total_diff: i64,
    /// Messages pulled and not consumed.
    pub total_inflight_diff: i64,
}

/// The answer to `QUERY_CORRECTION_OFFSET` (`QueryCorrectionOffsetBody`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CorrectionOffsets {
    /// Offset by queue.
    pub correction_offsets: BTreeMap<i32, i64>,
}

/// The answer to `QUERY_SUBSCRIPTION_BY_CONSUMER` (`QuerySubscriptionResponseBody`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QuerySubscription {
    /// The group.
    pub group: String,
    /// What it wants of the topic.
    pub subscription_data: Option<SubscriptionData>,
    /// The topic.
    pub topic: String,
}

/// One connected client (`org.apache.rocketmq.remoting.protocol.body.Connection`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Connection {
    /// Its address.
    pub client_addr: String,
    /// Its id.
    pub client_id: String,
    /// Its language by name.
    pub language: String,
    /// Its version ordinal.
    pub version: i32,
}

/// The answer to `GET_CONSUMER_CONNECTION_LIST` (`ConsumerConnection`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerConnection {
    /// Members of the group.
    pub connection_set: Vec<Connection>,
    /// Where the group begins.
    pub consume_from_where: Option<ConsumeFromWhere>,
    /// Pull, push or pop.
    pub consume_type: Option<ConsumeType>,
    /// Broadcasting or clustering.
    pub message_model: Option<MessageModel>,
    /// Subscription by topic.
    pub subscription_table: BTreeMap<String, SubscriptionData>,
}

/// The answer to `GET_PRODUCER_CONNECTION_LIST` (`ProducerConnection`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProducerConnection {
    /// Members of the group.
    pub connection_set: Vec<Connection>,
}

/// The answer of a client to `GET_CONSUMER_RUNNING_INFO` (`ConsumerRunningInfo`).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerRunningInfo {
    /// Thread dump.
    pub jstack: Option<String>,
    /// Pop state by queue.
    pub mq_pop_table: BTreeMap<MessageQueue, serde_json::Value>,
    /// Pull state by queue.
    pub mq_table: BTreeMap<MessageQueue, serde_json::Value>,
    /// Settings.
    pub properties: BTreeMap<String, String>,
    /// Speeds by topic.
    pub status_table: BTreeMap<String, serde_json::Value>,
    /// Subscriptions.
    pub subscription_set: Vec<SubscriptionData>,
    /// Whatever the application adds.
    pub user_consumer_info: BTreeMap<String, String>,
}
