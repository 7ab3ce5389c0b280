//! Subscriptions of lite topics, since RocketMQ 5.5.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// What becomes of the lite topics that a client has subscribed to (`org.apache.rocketmq.common.lite.LiteSubscriptionAction`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum LiteSubscriptionAction {
    /// These are added.
    #[default]
    PartialAdd,
    /// These are taken away.
    PartialRemove,
    /// These are all there are.
    CompleteAdd,
    /// There are none any more.
    CompleteRemove,
}

/// What a number says about where the reading of a lite topic begins (`org.apache.rocketmq.common.lite.OffsetOption.Type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum LiteOffsetType {
    /// 0: where the group was, 1: at the first message, 2: behind the last one.
    #[default]
    Policy,
    /// At this offset.
    Offset,
    /// So many messages before where the group was.
    TailN,
    /// At a time, milliseconds since the epoch; brokers of 5.5.0 pass it over.
    Timestamp,
}

/// Where the reading of a lite topic begins (`org.apache.rocketmq.common.lite.OffsetOption`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LiteOffset {
    /// What `value` is.
    pub r#type: LiteOffsetType,
    /// A policy, an offset, a number of messages or a time.
    pub value: i64,
}

/// A change of the lite topics of one client (`org.apache.rocketmq.common.lite.LiteSubscriptionDTO`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LiteSubscription {
    /// What becomes of `lite_topic_set`.
    pub action: LiteSubscriptionAction,
    /// The client.
    pub client_id: String,
    /// Consumer group of the client.
    pub group: String,
    /// Names of lite topics.
    pub lite_topic_set: BTreeSet<String>,
    /// Where the reading of the added topics begins; `None` for where the group was.
    pub offset_option: Option<LiteOffset>,
    /// The topic that the lite topics are part of.
    pub topic: String,
    /// Version of the set, as the client counts.
    pub version: i64,
}

/// The body of `LITE_SUBSCRIPTION_CTL` (`LiteSubscriptionCtlRequestBody`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LiteSubscriptions {
    /// The changes, which brokers make one after the other.
    pub subscription_set: Vec<LiteSubscription>,
}
