//! Requests of operators to delete old messages now: 306 `CLEAN_EXPIRED_CONSUMEQUEUE`, 316 `CLEAN_UNUSED_TOPIC` and 329
//! `DELETE_EXPIRED_COMMITLOG`.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use crate::broker::Broker;
use crate::light::is_light;
use crate::names;
use crate::{Answer, Refusal};

/// Number of rounds for which one 329 request counts (`CleanCommitLogService.MAX_MANUAL_DELETE_FILE_TIMES`).
const ROUNDS: u32 = 20;

/// Serves 329 `DELETE_EXPIRED_COMMITLOG`: the next rounds delete expired files whatever the hour, and messages older than the
/// retention time of their topic.
pub(crate) fn delete_expired_log(broker: &Broker) -> Result<Answer, Refusal> {
    broker.retention.topics_ms.store(0, Ordering::Release);
    broker.retention.asked.store(ROUNDS, Ordering::Release);
    broker.retention.wake();
    tracing::info!("an operator asked for expired commit log files to be deleted");
    Ok(Answer::success())
}

/// Serves 306 `CLEAN_EXPIRED_CONSUMEQUEUE`. Every round deletes expired files of the queues' index anyway, so the request only
/// makes a round start soon. Unlike in Java, a queue never loses its end.
pub(crate) fn clean_expired_queues(broker: &Broker) -> Result<Answer, Refusal> {
    broker.retention.wake();
    Ok(Answer::success())
}

/// Serves 316 `CLEAN_UNUSED_TOPIC`: the retention thread removes the queues of topics that are not configured.
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
