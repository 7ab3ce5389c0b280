//! The name of a queue, and the version of a table of topics or groups.

use serde::{Deserialize, Serialize};

/// A queue of a topic on one broker group (`org.apache.rocketmq.common.message.MessageQueue`).
///
/// Order: topic, broker name, queue id. Clients allocate queues in this order.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MessageQueue {
    /// Name of the broker group.
    pub broker_name: String,
    /// Queue id within the topic on that broker group; -1 stands for all queues in pop assignments.
    pub queue_id: i32,
    /// Topic name.
    pub topic: String,
}

impl MessageQueue {
    /// Creates the name of a queue.
    pub fn new(topic: impl Into<String>, broker_name: impl Into<String>, queue_id: i32) -> Self {
        Self { broker_name: broker_name.into(), queue_id, topic: topic.into() }
    }
}

impl Ord for MessageQueue {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (&self.topic, &self.broker_name, self.queue_id).cmp(&(
            &other.topic,
            &other.broker_name,
            other.queue_id,
        ))
    }
}

impl PartialOrd for MessageQueue {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The version of a table of topics or groups (`org.apache.rocketmq.remoting.protocol.DataVersion`).
///
/// The order is RocketMQ's: by state version, then counter, then timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DataVersion {
    /// Number of changes since the table was created.
    pub counter: i64,
    /// Epoch of the master that made the change; 0 outside controller mode and from brokers before 5.0.
    pub state_version: i64,
    /// Time of the last change, ms since the epoch.
    pub timestamp: i64,
}

impl DataVersion {
    /// Records one change, made at `now_ms` (ms since the epoch).
    pub fn advance(&mut self, state_version: i64, now_ms: i64) {
        self.counter += 1;
        self.state_version = state_version;
        self.timestamp = now_ms;
    }
}

impl Ord for DataVersion {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let key = |version: &Self| (version.state_version, version.counter, version.timestamp);
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for DataVersion {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
