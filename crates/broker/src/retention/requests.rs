//! Requests 306 and 329: an operator wants old messages to go now.

use std::sync::atomic::Ordering;

use crate::broker::Broker;
use crate::{Answer, Refusal};

/// Rounds one request is good for (`CleanCommitLogService.MAX_MANUAL_DELETE_FILE_TIMES`).
const ROUNDS: u32 = 20;

/// 329 `DELETE_EXPIRED_COMMITLOG`: expired files go in the next rounds, whatever the hour.
pub(crate) fn delete_expired_log(broker: &Broker) -> Result<Answer, Refusal> {
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
