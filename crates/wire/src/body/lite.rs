//! Subscriptions of lite topics, since RocketMQ 5.5.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// What becomes of the lite topics that a client has subscribed to (`org.apache.rocketmq.common.lite.LiteSubscriptionAction`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum LiteSubscriptionAction {
    /// The named topics are added to those that the client has.
    #[default]
    PartialAdd,
    /// The named topics are taken away from those that the client has.
    PartialRemove,
    /// The client has the named topics and no others.
    CompleteAdd,
    /// The client has no lite topic any more, whatever is named.
    CompleteRemove,
}

/// What a number says about where the reading of a lite topic begins (`org.apache.rocketmq.common.lite.OffsetOption.Type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum LiteOffsetType {
    /// 0: where the group was, 1: at the first message, 2: behind the last one.
    #[default]
    Policy,
    /// At this queue offset.
    Offset,
    /// So many messages before where the group was.
    TailN,
    /// At a time, milliseconds since the epoch; brokers of 5.5.0 pass it over.
    Timestamp,
}

/// Where the reading of a lite topic begins (`org.apache.rocketmq.common.lite.OffsetOption`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LiteOffset {
    /// Whether `value` is a policy, an offset, a number of messages or a time.
    pub r#type: LiteOffsetType,
    /// The number that `type` gives its meaning.
    pub value: i64,
}

/// A change of the lite topics of one client (`org.apache.rocketmq.common.lite.LiteSubscriptionDTO`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LiteSubscription {
    /// What becomes of `lite_topic_set`.
    pub action: LiteSubscriptionAction,
    /// Id of the client whose lite topics change.
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
