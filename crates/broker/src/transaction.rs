//! Transaction messages (`TransactionalMessageServiceImpl`, `EndTransactionProcessor`).
//!
//! A *half* message waits in `RMQ_SYS_TRANS_HALF_TOPIC` until its producer commits it or rolls it back. Decisions are
//! recorded in `RMQ_SYS_TRANS_OP_HALF_TOPIC`: each *op* record lists the queue offsets of decided half messages (half
//! offsets). The consumer offsets of group `CID_RMQ_SYS_TRANS` are the positions in both topics before which all work
//! is done, as in Java. So a Java broker and Vostok can each continue the other's work.
//!
//! Every step except the last is an append of up to two neighbouring records: the message that the step stores, and
//! the op record of the decision.
//!
//! | step | message stored | op record |
//! |---|---|---|
//! | commit | the message in its real topic, `preparedTransactionOffset` = log offset of the half message | half offset |
//! | roll back | - | half offset |
//! | check | the half message again, with `TRANSACTION_CHECK_TIMES` increased | half offset it had before |
//! | give up | the message in `TRANS_CHECK_MAX_TIME_TOPIC` | half offset |
//! | resume | a message that was given up, as a half message | - |
//!
//! So a crash can separate at most the last two records of the log. [`load()`] detects that and appends the missing op
//! record. Java writes the op record seconds later, and delivers a committed message twice after a crash in between.

mod check;
mod end;
mod load;
mod resume;
#[cfg(test)]
mod tests;

use store::{Batch, Message};
use wire::record::RecordView;
use wire::units::LogOffset;

use crate::names;
use crate::parts::{Delivery, DeliveryParts, Tables};
use crate::refusal::PutError;
use crate::schedule::target;
pub use crate::state::Decision;
use crate::state::HalfMessages;
pub(crate) use check::checks;
pub use end::EndTransaction;
pub(crate) use end::{end, not_found};
pub(crate) use load::load;
pub(crate) use resume::resume;

/// The group whose offsets record the progress of transactions in the half and op topics.
const GROUP: &str = "CID_RMQ_SYS_TRANS";

/// Commits the progress as consumer offsets once the records it depends on are on disk: a position must not outlive them.
/// `flushed` is how far the log was flushed before the call.
pub(crate) fn note(tables: &Tables, delivery: &Delivery, flushed: LogOffset) {
    let positions = {
        let mut half_messages = delivery.transactions.lock();
        // Under the lock, so that every record the state depends on lies before the end of the log read here.
        half_messages.positions(flushed, tables.store.appended())
    };
    let Some((half, op)) = positions else { return };
    tables.offsets.commit(GROUP, names::HALF_TOPIC, 0, half);
    tables.offsets.commit(GROUP, names::OP_HALF_TOPIC, 0, op);
}

/// Message and its target queue.
struct Put<'a> {
    topic: &'a str,
    queue_id: i32,
    message: Message<'a>,
}

/// Records that [`append_with_op`] stored.
struct Appended {
    /// Position of the stored message, if any.
    placed: Option<store::AppendResult>,
    /// Log position behind the message and the op record.
    end: LogOffset,
}

/// Appends a message, if given, and behind it the op record for the half message at half offset `half`, in one write.
fn append_with_op(
    parts: &DeliveryParts,
    state: &mut HalfMessages,
    half: i64,
    put: Option<Put<'_>>,
) -> Result<Appended, PutError> {
    let now_ms = parts.runtime.now_ms();
    let mut batch: Batch = parts.tables.store.batch();
    let mut grown = Vec::with_capacity(2);
    if let Some(Put { topic, queue_id, message }) = &put {
        let queue = target(&parts.delivery, &parts.runtime, topic, *queue_id, now_ms)?;
        batch.push(&queue.index, message)?;
        grown.push(queue);
    }
    let body = format!("{half},");
    let op = parts.tables.put_queue(names::OP_HALF_TOPIC, 0, now_ms)?;
    let message = Message {
        body: body.as_bytes(),
        properties: b"TAGS\x01d\x02",
        sys_flag: 0,
        flag: 0,
        born_timestamp: now_ms,
        born_host: parts.identity.store_host,
        store_host: parts.identity.store_host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
    };
    let index = batch.push(&op.index, &message)?;
    grown.push(op);
    parts.delivery.append_own(&mut batch, now_ms)?;
    state.decided(half, batch.append_result(index).queue_offset.to_i64());
    let placed = put.is_some().then(|| batch.append_result(0));
    grown.extend(parts.tables.further_queues(&batch));
    parts.delivery.grown(batch.end(), grown);
    Ok(Appended { placed, end: batch.end() })
}

/// Reads the half message at a half offset into `bytes`, and returns its log offset. `None` when the message is deleted or
/// cannot be read.
fn read_half(tables: &Tables, offset: i64, bytes: &mut Vec<u8>) -> Option<LogOffset> {
    let queue = tables.log_queue(names::HALF_TOPIC, 0)?;
    let mut units = Vec::with_capacity(1);
    queue.index.units_blocking(wire::units::QueueOffset::from_i64(offset)?, 1, &mut units).ok()?;
    let unit = units.first().filter(|unit| !unit.is_blank())?;
    bytes.clear();
    match tables.store.record_at(unit.log_offset, bytes) {
        Ok(()) => Some(unit.log_offset),
        Err(error) => {
            tracing::error!(offset, at = %unit.log_offset, %error, "a half message cannot be read and is passed over");
            None
        }
    }
}

fn number(record: &RecordView<'_>, name: &str) -> Option<i64> {
    wire::properties::get_str(record.properties(), name)?.trim().parse().ok()
}

/// The time in milliseconds after its birth during which a message is not checked, when its producer set one
/// (`CHECK_IMMUNITY_TIME_IN_SECONDS`).
fn immunity_ms(record: &RecordView<'_>) -> Option<i64> {
    let seconds = number(record, wire::properties::key::CHECK_IMMUNITY_TIME_IN_SECONDS)?;
    (seconds >= 0).then(|| seconds.saturating_mul(1000))
}
