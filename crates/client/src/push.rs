//! Push consumption: messages are passed to a listener (`DefaultMQPushConsumerImpl`).
//!
//! Every assigned queue has a task that keeps a pull request waiting at the broker (long polling). The messages go to
//! the listener's threads in groups of up to [`PushConfig::batch`]. A [`process_queue::ProcessQueue`] per queue holds
//! the unfinished messages, so that the committed offset never passes them. Every 20 seconds, and after a broker's
//! notice of changed members, the queues are allocated again among all members.
//!
//! | what | where |
//! |---|---|
//! | allocation of queues to members | [`allocation`] (pure) |
//! | offset that may be committed | [`process_queue`] (pure) |
//! | start, background work and shutdown | `consumer` |
//! | taking queues, giving them up, offsets | `rebalance` |
//! | pull task of one queue | `queue` |
//! | listener threads (consume pool) | `consume_pool` |
//! | concurrent consumption, send-back of failed messages | `listener` |
//! | orderly consumption | `orderly` |
//! | answers to requests of brokers | `answers`, `figures` |

mod allocation;
mod answers;
mod broadcast;
mod consume_pool;
mod consumer;
mod figures;
mod listener;
mod orderly;
mod process_queue;
mod queue;
mod rebalance;

pub use allocation::Allocation;
pub use consumer::PushConsumer;
pub use listener::ConsumeStatus;

use crate::{Expression, MessageQueue};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
pub use wire::body::MessageModel;
use wire::names::RETRY_PREFIX;

/// Start position of a group in a queue without a committed offset (`ConsumeFromWhere`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ConsumeFrom {
    /// At the end of the queue; earlier messages are not consumed.
    #[default]
    Last,
    /// At the first message.
    First,
    /// At the first message stored at or after this time, milliseconds since 1970.
    Time(i64),
}

/// Settings of a push consumer.
#[derive(Clone, Debug)]
pub struct PushConfig {
    /// Consumer group.
    pub group: String,
    /// Filter expressions by topic.
    pub subscriptions: BTreeMap<String, Expression>,
    /// Clustering (one member of the group gets a message) or broadcasting (every member gets it).
    pub model: MessageModel,
    /// Start position in a queue without a committed offset.
    pub from: ConsumeFrom,
    /// Allocation of queues to the members of the group.
    pub allocation: Allocation,
    /// Number of listener threads (`consumeThreadMin`).
    pub threads: usize,
    /// Most messages per call of the listener (`consumeMessageBatchMaxSize`).
    pub batch: usize,
    /// Most messages per pull (`pullBatchSize`).
    pub pull_messages: i32,
    /// Number of messages that are not done from which on a queue is not pulled (`pullThresholdForQueue`).
    pub pending_messages_max: usize,
    /// Bytes of bodies that are not done from which on a queue is not pulled (`pullThresholdSizeForQueue`).
    pub pending_bytes_max: usize,
    /// Number of retries before a message goes to the dead letter topic (`maxReconsumeTimes`). `None` means 16; in
    /// orderly consumption it means never, so a message that keeps failing blocks its queue.
    pub retries: Option<i32>,
    /// File for the offsets of a broadcasting consumer; without one, every start begins at `from`.
    pub broadcast_offsets: Option<PathBuf>,
    /// Topic of the message traces (`enableMsgTrace`), such as [`crate::TRACE_TOPIC`]; `None` for no traces.
    pub trace: Option<String>,
}

impl PushConfig {
    /// The defaults of RocketMQ's Java client, for a group with one subscription.
    pub fn new(
        group: impl Into<String>,
        topic: impl Into<String>,
        expression: impl Into<Expression>,
    ) -> Self {
        Self {
            group: group.into(),
            subscriptions: BTreeMap::from([(topic.into(), expression.into())]),
            model: MessageModel::Clustering,
            from: ConsumeFrom::Last,
            allocation: Allocation::Average,
            threads: 20,
            batch: 1,
            pull_messages: 32,
            pending_messages_max: 1000,
            pending_bytes_max: 100 << 20,
            retries: None,
            broadcast_offsets: None,
            trace: None,
        }
    }
}

/// Interval of rebalancing (`RebalanceService`).
const REBALANCE_INTERVAL: Duration = Duration::from_secs(20);

/// Interval of rebalancing while other members still hold the locks of assigned queues.
const REBALANCE_SOON: Duration = Duration::from_millis(200);

/// Interval of committing offsets (`persistConsumerOffsetInterval`).
const COMMIT_INTERVAL: Duration = Duration::from_secs(5);

/// Longest time for which a broker suspends a pull request (`brokerSuspendMaxTimeMillis`).
const HOLD: Duration = Duration::from_secs(15);

/// Pause after a failed pull request (`pullTimeDelayMillsWhenException`).
const PAUSE: Duration = Duration::from_secs(3);

/// Pause before a message whose send-back failed is passed to the listener again (`submitConsumeRequestLater`).
const RETRY_LATER: Duration = Duration::from_secs(5);

/// Name of the retry topic of a group (`MixAll.getRetryTopic`).
fn retry_topic(group: &str) -> String {
    format!("{RETRY_PREFIX}{group}")
}

/// Name of a queue for logs.
fn name_of(queue: &MessageQueue) -> String {
    format!("{}@{}@{}", queue.topic, queue.broker_name, queue.queue_id)
}
