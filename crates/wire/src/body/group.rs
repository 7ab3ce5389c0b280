//! Consumer groups: one configuration, the table in `subscriptionGroup.json`, and lists of members.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{DataVersion, Extra};

/// Configuration of a consumer group (`org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionGroupConfig {
    /// Attributes by name.
    pub attributes: BTreeMap<String, String>,
    /// Id of the broker that the group reads from.
    pub broker_id: i64,
    /// Whether broadcast consumption is allowed.
    pub consume_broadcast_enable: bool,
    /// Whether consumption is allowed.
    pub consume_enable: bool,
    /// Whether consumption may begin at the minimum offset.
    pub consume_from_min_enable: bool,
    /// Whether retries are delivered in order.
    pub consume_message_orderly: bool,
    /// Time in minutes after which a delivered message counts as failed.
    pub consume_timeout_minute: i32,
    /// Group name.
    pub group_name: Option<String>,
    /// Delays of retries; `{"type":"CUSTOMIZED"}` means the delay levels.
    pub group_retry_policy: Value,
    /// Flags that responses to pulls repeat (`groupSysFlag`). Brokers and clients of RocketMQ give them no meaning.
    pub group_sys_flag: i32,
    /// Whether members are notified when the membership changes.
    pub notify_consumer_ids_changed_enable: bool,
    /// Most retries of a message before it goes to the dead letter queue.
    pub retry_max_times: i32,
    /// Number of queues of the retry topic.
    pub retry_queue_nums: i32,
    /// Subscriptions that an operator fixed.
    pub subscription_data_set: Option<Vec<Value>>,
    /// Id of the broker to which slow consumers are redirected.
    pub which_broker_when_consume_slowly: i64,
    /// Unknown members, kept when the file is rewritten.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Default for SubscriptionGroupConfig {
    fn default() -> Self {
        Self {
            attributes: BTreeMap::new(),
            broker_id: 0,
            consume_broadcast_enable: true,
            consume_enable: true,
            consume_from_min_enable: true,
            consume_message_orderly: false,
            consume_timeout_minute: 15,
            group_name: None,
            group_retry_policy: serde_json::json!({"type": "CUSTOMIZED"}),
            group_sys_flag: 0,
            notify_consumer_ids_changed_enable: true,
            retry_max_times: 16,
            retry_queue_nums: 1,
            subscription_data_set: None,
            which_broker_when_consume_slowly: 1,
            extra: Extra::new(),
        }
    }
}

impl SubscriptionGroupConfig {
    /// A group with RocketMQ's default configuration.
    pub fn new(group_name: impl Into<String>) -> Self {
        Self { group_name: Some(group_name.into()), ..Self::default() }
    }
}

/// The file `subscriptionGroup.json`, and the response to `GET_ALL_SUBSCRIPTIONGROUP_CONFIG`
/// (`SubscriptionGroupWrapper`).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionGroupTable {
    /// Data version of the table.
    pub data_version: DataVersion,
    /// Forbidden permission bits by group and topic.
    pub forbidden_table: BTreeMap<String, BTreeMap<String, i32>>,
    /// Groups by name.
    pub subscription_group_table: BTreeMap<String, SubscriptionGroupConfig>,
    /// Unknown members, kept when the file is rewritten.
    #[serde(flatten)]
    pub extra: Extra,
}

/// The response to `GET_CONSUMER_LIST_BY_GROUP` (`GetConsumerListByGroupResponseBody`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerListByGroup {
    /// Client ids of the members.
    pub consumer_id_list: Vec<String>,
}

/// Groups that consume a topic (`org.apache.rocketmq.remoting.protocol.body.GroupList`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupList {
    /// Group names.
    pub group_list: Vec<String>,
}
