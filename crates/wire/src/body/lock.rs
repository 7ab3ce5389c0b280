//! Queue locks of ordered consumption.

use serde::{Deserialize, Serialize};

use super::MessageQueue;

/// The body of `LOCK_BATCH_MQ` and `UNLOCK_BATCH_MQ` (`LockBatchRequestBody`, `UnlockBatchRequestBody`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LockBatchBody {
    /// Id of the client that locks or unlocks.
    pub client_id: String,
    /// Consumer group of the client.
    pub consumer_group: String,
    /// The queues to lock or unlock.
    pub mq_set: Vec<MessageQueue>,
    /// Whether only this broker locks or unlocks the queues. In RocketMQ, `lockInStrictMode` otherwise asks the
    /// other brokers of the group too.
    pub only_this_broker: bool,
}

/// The response to `LOCK_BATCH_MQ` (`LockBatchResponseBody`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LockBatchResponseBody {
    /// The queues that the client holds now.
    #[serde(rename = "lockOKMQSet")]
    pub lock_ok_mq_set: Vec<MessageQueue>,
}
