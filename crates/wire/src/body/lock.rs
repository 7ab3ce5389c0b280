//! Queue locks of ordered consumption.

use serde::{Deserialize, Serialize};

use super::MessageQueue;

/// The body of `LOCK_BATCH_MQ` and `UNLOCK_BATCH_MQ` (`LockBatchRequestBody`, `UnlockBatchRequestBody`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LockBatchBody {
    /// Who locks.
    pub client_id: String,
    /// For which group.
    pub consumer_group: String,
    /// The queues.
    pub mq_set: Vec<MessageQueue>,
    /// Ask no other replica, even in strict mode.
    pub only_this_broker: bool,
}

/// Java has two classes of the same shape.
pub type UnlockBatchBody = LockBatchBody;

/// The answer to `LOCK_BATCH_MQ` (`LockBatchResponseBody`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LockBatchResponseBody {
    /// The queues the client holds now.
    #[serde(rename = "lockOKMQSet")]
    pub lock_ok_mq_set: Vec<MessageQueue>,
}
