//! Bodies with which clients register at brokers.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// How a group consumes (`org.apache.rocketmq.remoting.protocol.heartbeat.ConsumeType`).
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

/// Which members of a group get a message (`org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum MessageModel {
    /// Every member of the group gets it.
    Broadcasting,
    /// One member of the group gets it.
    #[default]
    Clustering,
    /// Lite topics, since RocketMQ 5.5.
    LiteSelective,
    /// A name this version does not know.
    #[serde(other)]
    Unknown,
}

/// Where a group without committed offsets begins (`org.apache.rocketmq.common.consumer.ConsumeFromWhere`).
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
    /// Version of the subscription: a newer one replaces an older one (ms in Java, ns in Go).
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

/// One consumer group of a client (`org.apache.rocketmq.remoting.protocol.heartbeat.ConsumerData`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerData {
    /// Where to begin without a committed offset.
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

/// One producer group of a client (`org.apache.rocketmq.remoting.protocol.heartbeat.ProducerData`).
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
    /// Whether the subscriptions are left out because the broker has them.
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

/// Whether a proxy met a consumer or lost one (`org.apache.rocketmq.proxy.service.sysmessage.HeartbeatType`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum HeartbeatType {
    /// The consumer is there.
    #[default]
    Register,
    /// The consumer closed its connection or said that it leaves.
    Unregister,
    /// A name this version does not know.
    #[serde(other)]
    Unknown,
}

/// What proxies tell each other of one consumer (`org.apache.rocketmq.proxy.service.sysmessage.HeartbeatSyncerData`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HeartbeatSyncerData {
    /// The client's connection: the text of a [`RemoteChannel`].
    pub channel_data: String,
    /// Id of the client.
    pub client_id: String,
    /// Where the group begins without a committed offset.
    pub consume_from_where: Option<ConsumeFromWhere>,
    /// Whether the group consumes by pull, push or pop.
    pub consume_type: Option<ConsumeType>,
    /// Group name.
    pub group: String,
    /// Whether the consumer is there or left.
    pub heartbeat_type: HeartbeatType,
    /// Name of the client's language.
    pub language: Option<String>,
    /// When the proxy heard of the client, milliseconds since the epoch by its clock.
    pub last_update_timestamp: i64,
    /// Which proxy it is. Proxies compare the text with their own and pass over what they told themselves.
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
    /// For `GRPC_V2` the client's settings as protobuf's JSON.
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
