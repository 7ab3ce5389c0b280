//! Transaction messages (`TransactionalMessageServiceImpl`, `EndTransactionProcessor`).
//!
//! A *half* message waits in `RMQ_SYS_TRANS_HALF_TOPIC` until its producer says what became of it. That a half message is
//! done with stands in `RMQ_SYS_TRANS_OP_HALF_TOPIC`: each *op* record lists half offsets. Positions below which nothing is
//! left to do are the consumer offsets of group `CID_RMQ_SYS_TRANS`, as in Java, so either broker continues where the
//! other stopped.
//!
//! Every step but the last is one append of two neighbouring records, what happens and the op record that says so:
//!
//! | step | first record | op |
//! |---|---|---|
//! | commit | the message in its real topic, `preparedTransactionOffset` = place of the half message | half offset |
//! | roll back | - | half offset |
//! | check | the half message once more, with one more `TRANSACTION_CHECK_TIMES` | the offset it had before |
//! | give up | the message in `TRANS_CHECK_MAX_TIME_TOPIC` | half offset |
//! | resume | a given up message as a half one | - |
//!
//! So a crash can part at most the last two records of the log; [`load`] looks for that and completes it. Java writes
//! the op seconds later, and a crash in between makes it deliver a committed message twice.

mod check;
mod end;
mod load;
mod resume;
mod state;
#[cfg(test)]
mod tests;

use std::sync::{Mutex, MutexGuard, PoisonError};

use store::{Batch, Message};
use wire::record::RecordView;
use wire::units::LogOffset;

use crate::broker::{Broker, PutError};
use crate::names;
use crate::schedule::target;
pub(crate) use check::run;
pub(crate) use end::end;
pub(crate) use load::load;
pub(crate) use resume::resume;
use state::State;

/// The group whose offsets are the progress of transactions.
const GROUP: &str = "CID_RMQ_SYS_TRANS";

/// What is known of undecided half messages.
#[derive(Default)]
pub(crate) struct Transactions {
    state: Mutex<State>,
}

impl Transactions {
    /// Held for the time of one append: a half message is decided once.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes progress as consumer offsets once the log is on disk behind it: a position must not outlive what it speaks of.
    pub(crate) fn note(&self, broker: &Broker, flushed: LogOffset) {
        let positions = {
            let mut state = self.state();
            // Under the lock: every record the state speaks of lies before that end.
            state.positions(flushed, broker.store.appended())
        };
        let Some((half, op)) = positions else { return };
        broker.offsets.commit(GROUP, names::HALF_TOPIC, 0, half);
        broker.offsets.commit(GROUP, names::OP_HALF_TOPIC, 0, op);
    }
}

/// A message for the queue of a topic.
struct Put<'a> {
    topic: &'a str,
    queue_id: i32,
    message: Message<'a>,
}

/// What [`append_with_op`] stored.
struct Appended {
    /// Place of the message, if there was one.
    placed: Option<store::Placed>,
    /// End of both records in the log.
    end: LogOffset,
}

/// Appends a message and behind it the op record for the half message at `half`, in one write.
fn append_with_op(
    broker: &Broker,
    state: &mut State,
    half: i64,
    put: Option<Put<'_>>,
) -> Result<Appended, PutError> {
    let now_ms = broker.now_ms();
    let mut batch: Batch = broker.store.batch();
    let mut grown = Vec::with_capacity(2);
    if let Some(Put { topic, queue_id, message }) = &put {
        let queue = target(broker, topic, *queue_id, now_ms)?;
        batch.push(&queue.log, message)?;
        grown.push(queue);
    }
    let body = format!("{half},");
    let op = broker.put_queue(names::OP_HALF_TOPIC, 0, now_ms)?;
    let message = Message {
        body: body.as_bytes(),
        properties: b"TAGS\x01d\x02",
        sys_flag: 0,
        flag: 0,
        born_timestamp: now_ms,
        born_host: broker.store_host,
        store_host: broker.store_host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
    };
    let index = batch.push(&op.log, &message)?;
    grown.push(op);
    broker.store.append(&mut batch, now_ms)?;
    state.decided(half, batch.placed(index).queue_offset.to_i64());
    let placed = put.is_some().then(|| batch.placed(0));
    grown.extend(broker.further_queues(&batch));
    broker.grown(batch.end(), grown);
    Ok(Appended { placed, end: batch.end() })
}

/// The half message at an offset of the half queue, with its place in the log; `None` when it is gone or unreadable.
fn read_half(broker: &Broker, offset: i64, bytes: &mut Vec<u8>) -> Option<LogOffset> {
    let queue = broker.log_queue(names::HALF_TOPIC, 0)?;
    let mut units = Vec::with_capacity(1);
    queue.log.units_blocking(wire::units::QueueOffset::from_i64(offset)?, 1, &mut units).ok()?;
    let unit = units.first().filter(|unit| !unit.is_blank())?;
    bytes.clear();
    match broker.store.record_at(unit.log_offset, bytes) {
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

/// Milliseconds after its birth during which a message is not checked (`CHECK_IMMUNITY_TIME_IN_SECONDS`).
fn immunity_ms(record: &RecordView<'_>) -> Option<i64> {
    let seconds = number(record, wire::properties::key::CHECK_IMMUNITY_TIME_IN_SECONDS)?;
    (seconds >= 0).then(|| seconds.saturating_mul(1000))
}
