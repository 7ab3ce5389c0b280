//! Subscriptions of lite topics, since RocketMQ 5.5.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Change of a client's lite topics (`org.apache.rocketmq.common.lite.LiteSubscriptionAction`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum LiteSubscriptionAction {
    /// Adds the named topics to the client's lite topics.
    #[default]
    PartialAdd,
    /// Removes the named topics from the client's lite topics.
    PartialRemove,
    /// The client has the named topics and no others.
    CompleteAdd,
    /// Removes all lite topics of the client, whatever the request names.
    CompleteRemove,
}

/// Meaning of the number in a [`LiteOffset`] (`org.apache.rocketmq.common.lite.OffsetOption.Type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum LiteOffsetType {
    /// Policy: 0 for the position of the group, 1 for the first message, 2 behind the last message.
    #[default]
    Policy,
    /// At this queue offset.
    Offset,
    /// Number of messages before the group's position.
    TailN,
    /// At a time, milliseconds since the epoch. Brokers of 5.5.0 ignore it.
    Timestamp,
}

/// Start position in a lite topic (`org.apache.rocketmq.common.lite.OffsetOption`).
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
    /// Change that `lite_topic_set` describes.
    pub action: LiteSubscriptionAction,
    /// Id of the client whose lite topics change.
    pub client_id: String,
    /// Consumer group of the client.
    pub group: String,
    /// Names of lite topics.
    pub lite_topic_set: BTreeSet<String>,
    /// Start position in the added topics. `None` for the position of the group.
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
    /// Changes in the order in which brokers apply them.
    pub subscription_set: Vec<LiteSubscription>,
}
