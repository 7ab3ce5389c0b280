//! Consumer offsets: the tables in files, and the bodies of offset resets.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{DataVersion, Extra, MessageQueue};

/// The file `consumerOffset.json`, and the response to `GET_ALL_CONSUMER_OFFSET` (`ConsumerOffsetSerializeWrapper`).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerOffsetTable {
    /// Data version of the table.
    pub data_version: DataVersion,
    /// Committed offset by `topic@group` and queue id.
    pub offset_table: BTreeMap<String, BTreeMap<i32, i64>>,
    /// Last pulled offset by `topic@group` and queue id; since RocketMQ 5.1.4.
    pub pull_offset_table: BTreeMap<String, BTreeMap<i32, i64>>,
    /// Unknown members, kept when the file is rewritten.
    #[serde(flatten)]
    pub extra: Extra,
}

/// The file `delayOffset.json` (`DelayOffsetSerializeWrapper`).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DelayOffsetTable {
    /// Data version of the table.
    pub data_version: DataVersion,
    /// Next offset of each delay level, in queue `level - 1` of `SCHEDULE_TOPIC_XXXX`.
    pub offset_table: BTreeMap<i32, i64>,
    /// Unknown members, kept when the file is rewritten.
    #[serde(flatten)]
    pub extra: Extra,
}

/// New offsets of a consumer group (`org.apache.rocketmq.remoting.protocol.body.ResetOffsetBody`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResetOffsetBody {
    /// New offset by queue.
    pub offset_table: BTreeMap<MessageQueue, i64>,
}

/// New offsets in the format for C++ clients (`org.apache.rocketmq.remoting.protocol.body.ResetOffsetBodyForC`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResetOffsetBodyForC {
    /// New offset of each queue.
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
    /// Queue id.
    pub queue_id: i32,
    /// Topic name.
    pub topic: String,
}

/// Offsets as clients report them (`org.apache.rocketmq.remoting.protocol.body.GetConsumerStatusBody`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerStatus {
    /// Offsets by client id and queue.
    pub consumer_table: BTreeMap<String, BTreeMap<MessageQueue, i64>>,
    /// Offset by queue, reported by one client.
    pub message_queue_table: BTreeMap<MessageQueue, i64>,
}
