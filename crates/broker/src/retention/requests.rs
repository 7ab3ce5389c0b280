//! Deleting old messages now, because an operator asked for it.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use crate::names;
use crate::parts::{Runtime, Tables};

/// Number of rounds for which a request to delete expired log files counts
/// (`CleanCommitLogService.MAX_MANUAL_DELETE_FILE_TIMES`).
const ROUNDS: u32 = 20;

/// Makes the next rounds delete expired files at any hour, and messages older than the retention time of their topic.
pub(crate) fn delete_expired_log(runtime: &Runtime) {
    runtime.retention.topics_ms.store(0, Ordering::Release);
    runtime.retention.asked.store(ROUNDS, Ordering::Release);
    runtime.retention.wakeup().wake();
    tracing::info!("an operator asked for expired commit log files to be deleted");
}

/// Starts a round soon, which deletes expired files of the queues' index. Unlike in Java, a queue never loses its end.
pub(crate) fn clean_expired_queues(runtime: &Runtime) {
    runtime.retention.wakeup().wake();
}

/// Makes the retention thread remove the queues of topics without configuration.
pub(crate) fn clean_unused_topics(runtime: &Runtime) {
    runtime.retention.unused_asked.store(true, Ordering::Release);
    runtime.retention.wakeup().wake();
}

/// Removes the queues of topics that are not configured (`DefaultMessageStore.cleanUnusedTopic`).
pub(super) fn remove_unused_topics(tables: &Tables) {
    let is_unused = |name: &str| {
        !names::is_system_topic(name) && !names::is_light(name) && tables.topics.find(name).is_none()
    };
    let queues = tables.store.queues();
    let unused: BTreeSet<&str> =
        queues.iter().map(|queue| queue.topic()).filter(|name| is_unused(name)).collect();
    for topic in unused {
        match tables.remove_queues(topic) {
            Ok(queues) => tracing::info!(topic, queues, "the queues of an unused topic were removed"),
            Err(error) => {
                tracing::error!(topic, %error, "the queues of an unused topic could not be removed")
            }
        }
    }
}
