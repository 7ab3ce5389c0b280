//! Bodies with which clients register at brokers.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Way in which a group gets messages (`org.apache.rocketmq.remoting.protocol.heartbeat.ConsumeType`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ConsumeType {
    /// Pull consumption.
    ConsumeActively,
    /// Push consumption.
    #[default]
    ConsumePassively,
    /// Pop consumption.
    ConsumePop,
    /// A name this version does not know.
    #[serde(other)]
    Unknown,
}

/// Distribution of messages among the members of a group
/// (`org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum MessageModel {
    /// Every member of the group gets each message.
    Broadcasting,
    /// A single member of the group gets each message.
    #[default]
    Clustering,
    /// Lite topics, since RocketMQ 5.5.
    LiteSelective,
    /// A name this version does not know.
    #[serde(other)]
    Unknown,
}

/// Start position of a group without committed offsets (`org.apache.rocketmq.common.consumer.ConsumeFromWhere`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ConsumeFromWhere {
    /// At the end of the queue.
    #[default]
    ConsumeFromLastOffset,
    /// Deprecated in RocketMQ, treated as the last offset.
    ConsumeFromLastOffsetAndFromMinWhenBootFirst,
    /// Deprecated in RocketMQ, treated as the last offset.
    ConsumeFromMinOffset,
    /// Deprecated in RocketMQ, treated as the last offset.
    ConsumeFromMaxOffset,
    /// At the beginning of the queue.
    ConsumeFromFirstOffset,
    /// At a point in time.
    ConsumeFromTimestamp,
    /// A name this version does not know.
    #[serde(other)]
    Unknown,
}

/// A group's subscription to one topic (`org.apache.rocketmq.remoting.protocol.heartbeat.SubscriptionData`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionData {
    /// Whether a legacy class filter is used.
    pub class_filter_mode: bool,
    /// Java string hashes of the tags.
    pub code_set: BTreeSet<i32>,
    /// `TAG` or `SQL92`; absent or empty means `TAG`.
    pub expression_type: String,
    /// Source of a legacy class filter; RocketMQ never sends it.
    #[serde(skip_serializing)]
    pub filter_class_source: Option<String>,
    /// The filter expression as the application wrote it; `*` for all messages.
    pub sub_string: String,
    /// Version of the subscription (ms in Java, ns in Go). A newer version replaces an older version.
    pub sub_version: i64,
    /// The tags in a `TAG` expression; empty for all messages.
    pub tags_set: BTreeSet<String>,
    /// Topic name.
    pub topic: String,
}

impl Default for SubscriptionData {
    fn default() -> Self {
        Self {
            class_filter_mode: false,
            code_set: BTreeSet::new(),
            expression_type: "TAG".to_owned(),
            filter_class_source: None,
            sub_string: String::new(),
            sub_version: 0,
            tags_set: BTreeSet::new(),
            topic: String::new(),
        }
    }
}

/// Consumer group of a client (`org.apache.rocketmq.remoting.protocol.heartbeat.ConsumerData`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerData {
    /// Start position without a committed offset.
    pub consume_from_where: ConsumeFromWhere,
    /// Whether the group consumes by pull, push or pop.
    pub consume_type: ConsumeType,
    /// Group name.
    pub group_name: String,
    /// Whether the group consumes in broadcasting or clustering mode.
    pub message_model: MessageModel,
    /// Subscriptions of the group.
    pub subscription_data_set: Vec<SubscriptionData>,
    /// Whether the group is in unit mode.
    pub unit_mode: bool,
}

/// Producer group of a client (`org.apache.rocketmq.remoting.protocol.heartbeat.ProducerData`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProducerData {
    /// Group name.
    pub group_name: String,
}

/// The body of `HEART_BEAT` (`org.apache.rocketmq.remoting.protocol.heartbeat.HeartbeatData`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HeartbeatData {
    /// Id of the client, `ip@instance`.
    #[serde(rename = "clientID")]
    pub client_id: String,
    /// Consumer groups of the client.
    pub consumer_data_set: Vec<ConsumerData>,
    /// Hash of the subscriptions; 0 in V1 heartbeats.
    pub heartbeat_fingerprint: i32,
    /// Producer groups of the client.
    pub producer_data_set: Vec<ProducerData>,
    /// Whether the heartbeat omits the subscriptions because the broker already has them.
    pub without_sub: bool,
}

/// The body of `CHECK_CLIENT_CONFIG` (`CheckClientRequestBody`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CheckClientBody {
    /// Id of the client.
    pub client_id: String,
    /// Consumer group of the client.
    pub group: String,
    /// Namespace of the client.
    pub namespace: Option<String>,
    /// The subscription to check.
    pub subscription_data: SubscriptionData,
}

/// Whether a proxy reports that a consumer registered or left
/// (`org.apache.rocketmq.proxy.service.sysmessage.HeartbeatType`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum HeartbeatType {
    /// The consumer is connected.
    #[default]
    Register,
    /// The consumer closed its connection or unregistered.
    Unregister,
    /// A name this version does not know.
    #[serde(other)]
    Unknown,
}

/// Notice between proxies about one consumer (`org.apache.rocketmq.proxy.service.sysmessage.HeartbeatSyncerData`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HeartbeatSyncerData {
    /// The client's connection: the text of a [`RemoteChannel`].
    pub channel_data: String,
    /// Id of the client.
    pub client_id: String,
    /// Start position of the group without a committed offset.
    pub consume_from_where: Option<ConsumeFromWhere>,
    /// Whether the group consumes by pull, push or pop.
    pub consume_type: Option<ConsumeType>,
    /// Group name.
    pub group: String,
    /// Whether the consumer registers or leaves.
    pub heartbeat_type: HeartbeatType,
    /// Name of the client's language.
    pub language: Option<String>,
    /// When the proxy heard of the client, milliseconds since the epoch by its clock.
    pub last_update_timestamp: i64,
    /// Id of the sending proxy. A proxy ignores notices with its own id.
    pub local_proxy_id: String,
    /// Whether the group consumes in broadcasting or clustering mode.
    pub message_model: Option<MessageModel>,
    /// Subscriptions of the group.
    pub subscription_data_set: Option<Vec<SubscriptionData>>,
    /// The client's version ordinal (`MQVersion`).
    pub version: i32,
}

/// A client's connection to another proxy (`org.apache.rocketmq.proxy.processor.channel.RemoteChannelSerializer`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RemoteChannel {
    /// Settings of a `GRPC_V2` client as protobuf's JSON.
    pub extend_attribute: Option<String>,
    /// Address at the proxy.
    pub local_address: String,
    /// Address of the client.
    pub remote_address: String,
    /// Host of the proxy.
    pub remote_proxy_ip: String,
    /// `GRPC_V2` or `REMOTING`.
    pub r#type: String,
}
