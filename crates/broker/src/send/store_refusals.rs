//! Refusals of messages that cannot be stored.

use store::AppendError;
use wire::codes::response;

use crate::Refusal;
use crate::parts::Runtime;
use crate::refusal::PutError;

/// The refusal of a message that cannot be stored (`MESSAGE_ILLEGAL`).
pub(super) fn illegal(runtime: &Runtime) -> Refusal {
    let remark = format!(
        "the message is illegal, maybe msg body or properties length not matched. msg body length limit {}B, msg properties length limit 32KB.",
        runtime.config.max_message_size
    );
    Refusal::new(response::MESSAGE_ILLEGAL, remark)
}

/// The refusal, with RocketMQ's code, for a message written by the broker itself that was not stored.
pub(crate) fn not_put(store: &store::Store, error: PutError) -> Refusal {
    match error {
        PutError::Append(error) => not_stored(store, &error),
        PutError::Topic(refusal) => refusal,
        error => Refusal::error(error.to_string()),
    }
}

/// The refusal, with RocketMQ's code, for an append that failed.
pub(crate) fn not_stored(store: &store::Store, error: &AppendError) -> Refusal {
    match error {
        AppendError::Busy { .. } => {
            let remark = format!("[PC_SYNCHRONIZED]broker busy, start flow control for a while: {error}");
            Refusal::because(error.into(), response::SYSTEM_BUSY, remark)
        }
        AppendError::NoSpace(_)
        | AppendError::DiskFull { .. }
        | AppendError::Fenced(_)
        | AppendError::Closed
        | AppendError::Following
        | AppendError::Removed { .. } => {
            let space = store.space();
            let (log, queues) = (space.log_percent() as f64 / 100.0, space.queue_percent() as f64 / 100.0);
            // The key index is on the same disk as the queues' index.
            let ratios = format!("CL: {log:5.2} CQ: {queues:5.2} INDEX: {queues:5.2}");
            let remark = format!(
                "service not available now. It may be caused by one of the following reasons: the broker's disk is full [{ratios}], messages are put to the slave, message store has been shut down, etc. Cause: {error}"
            );
            Refusal::because(error.into(), response::SERVICE_NOT_AVAILABLE, remark)
        }
    }
}
