//! Bodies of the requests that operators send to brokers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{ConsumeFromWhere, ConsumeType, MessageModel, MessageQueue, SubscriptionData};

/// Offset range of one queue (`org.apache.rocketmq.remoting.protocol.admin.TopicOffset`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicOffset {
    /// Store time of the last message, ms since the epoch.
    pub last_update_timestamp: i64,
    /// Maximum offset, which the next message will get.
    pub max_offset: i64,
    /// Minimum offset.
    pub min_offset: i64,
}

/// The response to `GET_TOPIC_STATS_INFO` (`TopicStatsTable`).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicStats {
    /// Offset range by queue.
    pub offset_table: BTreeMap<MessageQueue, TopicOffset>,
    /// Messages stored per second.
    pub topic_put_tps: f64,
}

/// Progress of a consumer group in one queue (`org.apache.rocketmq.remoting.protocol.admin.OffsetWrapper`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OffsetWrapper {
    /// Maximum offset of the queue.
    pub broker_offset: i64,
    /// Committed offset of the group.
    pub consumer_offset: i64,
    /// Store time of the last consumed message, ms since the epoch.
    pub last_timestamp: i64,
    /// Queue offset that the group will pull next.
    pub pull_offset: i64,
    /// Store time of the first message that the group has not consumed, ms since the epoch. 0 if no message waits, -1
    /// if the time is unknown. RocketMQ's brokers do not send the field, and RocketMQ's tools ignore it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unconsumed_timestamp: Option<i64>,
    /// Whether the first message that the group selects may be newer than `unconsumed_timestamp`, because of a filter.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unconsumed_is_bound: bool,
}

/// The response to `GET_CONSUME_STATS` (`org.apache.rocketmq.remoting.protocol.admin.ConsumeStats`).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumeStats {
    /// Messages consumed per second.
    pub consume_tps: f64,
    /// Progress by queue.
    pub offset_table: BTreeMap<MessageQueue, OffsetWrapper>,
}

/// The response to `GET_BROKER_CONSUME_STATS` (`ConsumeStatsList`).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumeStatsList {
    /// Address of the broker.
    pub broker_addr: String,
    /// Progress in each topic, by group.
    pub consume_stats_list: Vec<BTreeMap<String, Vec<ConsumeStats>>>,
    /// Number of messages not consumed yet.
    pub total_diff: i64,
    /// Number of messages pulled but not consumed yet.
    pub total_inflight_diff: i64,
}

/// The response to `QUERY_CORRECTION_OFFSET` (`QueryCorrectionOffsetBody`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CorrectionOffsets {
    /// Corrected queue offset by queue id.
    pub correction_offsets: BTreeMap<i32, i64>,
}

/// The response to `QUERY_SUBSCRIPTION_BY_CONSUMER` (`QuerySubscriptionResponseBody`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QuerySubscription {
    /// Consumer group.
    pub group: String,
    /// The group's subscription to the topic.
    pub subscription_data: Option<SubscriptionData>,
    /// Topic name.
    pub topic: String,
}

/// Connected client (`org.apache.rocketmq.remoting.protocol.body.Connection`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Connection {
    /// The client's address.
    pub client_addr: String,
    /// The client's id.
    pub client_id: String,
    /// Name of the client's language.
    pub language: String,
    /// The client's version ordinal (`MQVersion`).
    pub version: i32,
}

/// The response to `GET_CONSUMER_CONNECTION_LIST` (`ConsumerConnection`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerConnection {
    /// The connected members of the group.
    pub connection_set: Vec<Connection>,
    /// Start position of a group without committed offsets.
    pub consume_from_where: Option<ConsumeFromWhere>,
    /// Whether the group consumes by pull, push or pop.
    pub consume_type: Option<ConsumeType>,
    /// Whether the group consumes in broadcasting or clustering mode.
    pub message_model: Option<MessageModel>,
    /// Subscription by topic.
    pub subscription_table: BTreeMap<String, SubscriptionData>,
}

/// The response to `GET_PRODUCER_CONNECTION_LIST` (`ProducerConnection`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProducerConnection {
    /// The connected members of the group.
    pub connection_set: Vec<Connection>,
}

/// The response of a client to `GET_CONSUMER_RUNNING_INFO` (`ConsumerRunningInfo`).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerRunningInfo {
    /// The client's thread dump.
    pub jstack: Option<String>,
    /// Pop state by queue.
    pub mq_pop_table: BTreeMap<MessageQueue, serde_json::Value>,
    /// Pull state by queue.
    pub mq_table: BTreeMap<MessageQueue, serde_json::Value>,
    /// The client's settings.
    pub properties: BTreeMap<String, String>,
    /// Consumption rates by topic.
    pub status_table: BTreeMap<String, serde_json::Value>,
    /// The client's subscriptions.
    pub subscription_set: Vec<SubscriptionData>,
    /// Information that the application added.
    pub user_consumer_info: BTreeMap<String, String>,
}
