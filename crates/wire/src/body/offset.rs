//! Consumer offsets: the tables a broker keeps in files, and what resetting answers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{DataVersion, Extra, MessageQueue};

/// The file `consumerOffset.json`, and the answer to `GET_ALL_CONSUMER_OFFSET` (`ConsumerOffsetSerializeWrapper`).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerOffsetTable {
    /// Version of the table.
    pub data_version: DataVersion,
    /// Next offset by queue id by `topic@group`.
    pub offset_table: BTreeMap<String, BTreeMap<i32, i64>>,
    /// Offset last pulled by queue id by `topic@group`; since 5.1.4.
    pub pull_offset_table: BTreeMap<String, BTreeMap<i32, i64>>,
    /// Unknown members, kept when the file is rewritten.
    #[serde(flatten)]
    pub extra: Extra,
}

/// The file `delayOffset.json` (`DelayOffsetSerializeWrapper`).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DelayOffsetTable {
    /// Version of the table.
    pub data_version: DataVersion,
    /// Next offset in queue `level - 1` of the schedule topic, by level.
    pub offset_table: BTreeMap<i32, i64>,
    /// Unknown members, kept when the file is rewritten.
    #[serde(flatten)]
    pub extra: Extra,
}

/// New offsets of a group (`org.apache.rocketmq.remoting.protocol.body.ResetOffsetBody`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResetOffsetBody {
    /// Offset by queue.
    pub offset_table: BTreeMap<MessageQueue, i64>,
}

/// New offsets as C++ clients read them (`org.apache.rocketmq.remoting.protocol.body.ResetOffsetBodyForC`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResetOffsetBodyForC {
    /// One entry per queue.
    pub offset_table: Vec<MessageQueueForC>,
}

/// A queue and its offset (`org.apache.rocketmq.common.message.MessageQueueForC`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MessageQueueForC {
    /// Name of the broker group.
    pub broker_name: String,
    /// Offset in the queue.
    pub offset: i64,
    /// Queue number.
    pub queue_id: i32,
    /// Topic name.
    pub topic: String,
}

/// Offsets as clients see them (`org.apache.rocketmq.remoting.protocol.body.GetConsumerStatusBody`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerStatus {
    /// Offset by queue by client id.
    pub consumer_table: BTreeMap<String, BTreeMap<MessageQueue, i64>>,
    /// Offset by queue, from one client.
    pub message_queue_table: BTreeMap<MessageQueue, i64>,
}
