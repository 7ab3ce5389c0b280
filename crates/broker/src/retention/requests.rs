//! Requests 306, 316 and 329: an operator wants old messages to go now.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use crate::broker::Broker;
use crate::light::is_light;
use crate::names;
use crate::{Answer, Refusal};

/// Rounds one request is good for (`CleanCommitLogService.MAX_MANUAL_DELETE_FILE_TIMES`).
const ROUNDS: u32 = 20;

/// 329 `DELETE_EXPIRED_COMMITLOG`: expired files go in the next rounds, whatever the hour, and so does what is older than
/// the time of its topic.
pub(crate) fn delete_expired_log(broker: &Broker) -> Result<Answer, Refusal> {
    broker.retention.topics_ms.store(0, Ordering::Release);
    broker.retention.asked.store(ROUNDS, Ordering::Release);
    broker.retention.wake();
    tracing::info!("an operator asked for expired commit log files to be deleted");
    Ok(Answer::success())
}

/// 306 `CLEAN_EXPIRED_CONSUMEQUEUE`: queue files follow the log with every round here, so that there is nothing left to
/// clean; a queue keeps its end, other than in Java.
pub(crate) fn clean_expired_queues(broker: &Broker) -> Result<Answer, Refusal> {
    broker.retention.wake();
    Ok(Answer::success())
}

/// 316 `CLEAN_UNUSED_TOPIC`: the queues of topics nobody has configured go with the next look at the disk.
pub(crate) fn clean_unused_topics(broker: &Broker) -> Result<Answer, Refusal> {
    broker.retention.unused_asked.store(true, Ordering::Release);
    broker.retention.wake();
    Ok(Answer::success())
}

/// Removes the queues of topics that are not configured (`DefaultMessageStore.cleanUnusedTopic`).
pub(super) fn remove_unused_topics(broker: &Broker) {
    let is_unused =
        |name: &str| !names::is_system_topic(name) && !is_light(name) && broker.topics.find(name).is_none();
    let queues = broker.store.queues();
    let unused: BTreeSet<&str> =
        queues.iter().map(|queue| queue.topic()).filter(|name| is_unused(name)).collect();
    for topic in unused {
        match broker.remove_queues(topic) {
            Ok(queues) => tracing::info!(topic, queues, "the queues of an unused topic were removed"),
            Err(error) => {
                tracing::error!(topic, %error, "the queues of an unused topic could not be removed")
            }
        }
    }
}
