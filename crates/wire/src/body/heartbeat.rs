//! What clients tell brokers about themselves.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// How a group consumes (`org.apache.rocketmq.remoting.protocol.heartbeat.ConsumeType`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ConsumeType {
    /// Pull.
    ConsumeActively,
    /// Push.
    #[default]
    ConsumePassively,
    /// Pop.
    ConsumePop,
    /// A name this version does not know.
    #[serde(other)]
    Unknown,
}

/// Who gets a message (`org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum MessageModel {
    /// Every member of the group.
    Broadcasting,
    /// One member of the group.
    #[default]
    Clustering,
    /// 5.5: lite topics.
    LiteSelective,
    /// A name this version does not know.
    #[serde(other)]
    Unknown,
}

/// Where a group without stored offsets begins (`org.apache.rocketmq.common.consumer.ConsumeFromWhere`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ConsumeFromWhere {
    /// At the end of the queue.
    #[default]
    ConsumeFromLastOffset,
    /// Deprecated in Java, read as the last offset.
    ConsumeFromLastOffsetAndFromMinWhenBootFirst,
    /// Deprecated in Java, read as the last offset.
    ConsumeFromMinOffset,
    /// Deprecated in Java, read as the last offset.
    ConsumeFromMaxOffset,
    /// At the beginning of the queue.
    ConsumeFromFirstOffset,
    /// At a point in time.
    ConsumeFromTimestamp,
    /// A name this version does not know.
    #[serde(other)]
    Unknown,
}

/// A group's wish for one topic (`org.apache.rocketmq.remoting.protocol.heartbeat.SubscriptionData`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionData {
    /// Legacy class filter.
    pub class_filter_mode: bool,
    /// Java string hashes of the tags.
    pub code_set: BTreeSet<i32>,
    /// `TAG` or `SQL92`; absent or empty means `TAG`.
    pub expression_type: String,
    /// Source of a legacy class filter; Java never sends it.
    #[serde(skip_serializing)]
    pub filter_class_source: Option<String>,
    /// The expression as the application wrote it; `*` for everything.
    pub sub_string: String,
    /// Version of the subscription: a newer one replaces an older one (ms in Java, ns in Go).
    pub sub_version: i64,
    /// The tags of a `TAG` expression; empty for everything.
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
    /// Where to begin without a stored offset.
    pub consume_from_where: ConsumeFromWhere,
    /// Pull, push or pop.
    pub consume_type: ConsumeType,
    /// Group name.
    pub group_name: String,
    /// Broadcasting or clustering.
    pub message_model: MessageModel,
    /// Subscriptions by topic.
    pub subscription_data_set: Vec<SubscriptionData>,
    /// Unit mode.
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
    /// The client, `ip@instance`.
    #[serde(rename = "clientID")]
    pub client_id: String,
    /// Its consumer groups.
    pub consumer_data_set: Vec<ConsumerData>,
    /// Hash of the subscriptions; 0 in heartbeats of the first kind.
    pub heartbeat_fingerprint: i32,
    /// Its producer groups.
    pub producer_data_set: Vec<ProducerData>,
    /// Subscriptions were left out because the broker has them.
    pub without_sub: bool,
}

/// The body of `CHECK_CLIENT_CONFIG` (`CheckClientRequestBody`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CheckClientBody {
    /// The client.
    pub client_id: String,
    /// The consumer group.
    pub group: String,
    /// Namespace of the client.
    pub namespace: Option<String>,
    /// The subscription to check.
    pub subscription_data: SubscriptionData,
}
