//! Push consumption: messages come to a listener (`DefaultMQPushConsumerImpl`).
//!
//! Every assigned queue has a loop that keeps one pull waiting at the broker. What arrives goes to the listener's
//! threads in groups of up to [`PushConfig::batch`]. A [`window::Window`] per queue knows which messages are out, so
//! that the offset stored never passes one that is not done. Every 20 seconds, and whenever the broker says that the
//! members of the group changed, queues are allocated anew over all members.
//!
//! | what | where |
//! |---|---|
//! | which queues are ours | [`allocation`] (pure) |
//! | which offset may be stored | [`window`] (pure) |
//! | start, background work and end | `consumer` |
//! | taking queues, giving them up, offsets | `rebalance` |
//! | one queue's loop | `queue` |
//! | listener threads | `crew` |
//! | messages in any order, sent back on failure | `listener` |
//! | messages in the order of their queues | `orderly` |
//! | what brokers ask | `answers`, `figures` |

mod allocation;
mod answers;
mod broadcast;
mod consumer;
mod crew;
mod figures;
mod listener;
mod orderly;
mod queue;
mod rebalance;
mod window;

pub use allocation::Allocation;
pub use consumer::PushConsumer;
pub use listener::Verdict;

use crate::{Expression, MessageQueue};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
pub use wire::body::MessageModel;

/// Where a group begins in a queue in which it has no offset (`ConsumeFromWhere`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum From {
    /// At the end; messages sent before are not seen.
    #[default]
    Last,
    /// At the first message.
    First,
    /// At the first message stored at or after this time, milliseconds since 1970.
    Time(i64),
}

/// How a push consumer works.
#[derive(Clone, Debug)]
pub struct PushConfig {
    /// Consumer group.
    pub group: String,
    /// What is wanted by topic.
    pub subscriptions: BTreeMap<String, Expression>,
    /// One member of the group gets a message, or every member.
    pub model: MessageModel,
    /// Where to begin.
    pub from: From,
    /// How queues are shared out among the members.
    pub allocation: Allocation,
    /// Listener threads (`consumeThreadMin`).
    pub threads: usize,
    /// Most messages per call of the listener (`consumeMessageBatchMaxSize`).
    pub batch: usize,
    /// Most messages per pull (`pullBatchSize`).
    pub pull_messages: i32,
    /// A queue with this many messages not done is not pulled from (`pullThresholdForQueue`).
    pub pending_messages_max: usize,
    /// The same in bytes of bodies (`pullThresholdSizeForQueue`).
    pub pending_bytes_max: usize,
    /// Retries before a message goes to the dead letter topic (`maxReconsumeTimes`). `None` is 16; in order it is
    /// never, and nothing behind a message that keeps failing is consumed.
    pub retries: Option<i32>,
    /// File that keeps the offsets of a broadcasting consumer; without it every start begins at `from`.
    pub broadcast_offsets: Option<PathBuf>,
    /// Topic that is told of every consumption (`enableMsgTrace`), such as [`crate::TRACE_TOPIC`].
    pub trace: Option<String>,
}

impl PushConfig {
    /// Java's defaults for a group with one subscription.
    #[must_use]
    pub fn new(
        group: impl Into<String>,
        topic: impl Into<String>,
        expression: impl Into<Expression>,
    ) -> Self {
        Self {
            group: group.into(),
            subscriptions: BTreeMap::from([(topic.into(), expression.into())]),
            model: MessageModel::Clustering,
            from: From::Last,
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

/// Between two allocations of queues (`RebalanceService`).
const REBALANCE_INTERVAL: Duration = Duration::from_secs(20);

/// The same while queues of ours are still with other members.
const REBALANCE_SOON: Duration = Duration::from_millis(200);

/// Between two stores of offsets (`persistConsumerOffsetInterval`).
const COMMIT_INTERVAL: Duration = Duration::from_secs(5);

/// How long the broker holds a pull (`brokerSuspendMaxTimeMillis`).
const HOLD: Duration = Duration::from_secs(15);

/// Pause after a pull that failed (`pullTimeDelayMillsWhenException`).
const PAUSE: Duration = Duration::from_secs(3);

/// Pause before a message that could not be sent back is tried again (`submitConsumeRequestLater`).
const RETRY_LATER: Duration = Duration::from_secs(5);

/// Name of a group's retry topic (`MixAll.getRetryTopic`).
fn retry_topic(group: &str) -> String {
    format!("%RETRY%{group}")
}

/// A queue in logs.
fn name_of(queue: &MessageQueue) -> String {
    format!("{}@{}@{}", queue.topic, queue.broker_name, queue.queue_id)
}
