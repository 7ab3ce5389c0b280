//! A producer commits its half message or rolls it back (`EndTransactionProcessor`).

use store::Message;
use wire::codes::response;
use wire::properties::{self, key};
use wire::record::{RecordView, sys_flag};
use wire::units::LogOffset;

use super::{Put, append_with_op, immunity_ms};
use crate::broker::Broker;
use crate::send::message::delayed;
use crate::send::not_put;
use crate::timer::put::{Asked, timed};
use crate::{Refusal, names};

/// What a producer decides about its half message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Consumers get the message.
    Commit,
    /// Nobody gets the message.
    Rollback,
}

/// A producer's decision about a half message.
pub struct EndTransaction<'a> {
    /// The producer group, which must be that of the half message.
    pub producer_group: &'a str,
    /// Queue offset of the half message in its topic (`tranStateTableOffset`).
    pub half_offset: i64,
    /// Where the half message's record begins in the log.
    pub log_offset: LogOffset,
    /// What was decided.
    pub decision: Decision,
    /// Whether the producer answers a check.
    pub is_checked: bool,
}

/// The refusal of a decision about a half message that is not in the log.
pub(crate) fn not_found() -> Refusal {
    Refusal::error("Find prepared transaction message failed")
}

/// Commits a half message or rolls it back. A message that is already decided stays so, since a producer may send its decision
/// twice: by itself and as the answer to a check. Returns the log offset up to which the log must be on disk before the producer
/// is answered under sync flush.
pub(crate) fn end(broker: &Broker, request: &EndTransaction<'_>) -> Result<LogOffset, Refusal> {
    let EndTransaction { producer_group, half_offset, log_offset: at, decision, is_checked } = *request;
    let mut bytes = Vec::new();
    broker.store.record_at(at, &mut bytes).map_err(|_| not_found())?;
    let half = RecordView::parse(&bytes).map_err(|_| not_found())?;
    if half.topic() != names::HALF_TOPIC.as_bytes() {
        return Err(not_found());
    }
    let age_ms = broker.now_ms() - half.born_timestamp();
    if !is_checked && immunity_ms(&half).is_some_and(|immunity_ms| age_ms > immunity_ms) {
        // The message is being checked, so only the answer to a check counts.
        return Err(Refusal::new(response::ILLEGAL_OPERATION, ""));
    }
    if properties::get(half.properties(), key::PRODUCER_GROUP) != Some(producer_group.as_bytes()) {
        return Err(Refusal::error("The producer group wrong"));
    }
    if half.queue_offset().to_i64() != half_offset {
        return Err(Refusal::error("The transaction state table offset wrong"));
    }
    let mut state = broker.transactions.lock();
    let Some(offset) = state.undecided(half_offset) else {
        // The earlier decision may not be on disk yet.
        return Ok(broker.store.appended());
    };
    let mut text = Vec::new();
    let put = match decision {
        Decision::Commit => Some(committed(broker, &half, at, &mut text)?),
        Decision::Rollback => None,
    };
    let appended = append_with_op(broker, &mut state, offset, put).map_err(|error| not_put(broker, error))?;
    let topic = properties::get_str(half.properties(), key::REAL_TOPIC).unwrap_or_default();
    match decision {
        Decision::Commit => state.count_commit(topic, (age_ms.max(0) / 1000).unsigned_abs()),
        Decision::Rollback => state.count_rollback(topic),
    }
    Ok(appended.end)
}

/// The committed message, in its real topic or, with a delay, in that of delayed or timed messages. `REAL_TOPIC`, `REAL_QID`
/// and `TRAN_MSG` stay in its properties, as in Java.
fn committed<'a>(
    broker: &Broker,
    half: &RecordView<'a>,
    at: LogOffset,
    text: &'a mut Vec<u8>,
) -> Result<Put<'a>, Refusal> {
    let stored = half.properties();
    let real = |name| properties::get_str(stored, name);
    let queue_id = real(key::REAL_QUEUE_ID).and_then(|id| id.parse::<i32>().ok());
    let (Some(topic), Some(queue_id)) = (real(key::REAL_TOPIC), queue_id) else {
        return Err(Refusal::error("the half message names no real topic and queue"));
    };
    let message = Message {
        sys_flag: half.sys_flag() & !sys_flag::TRANSACTION_MASK | sys_flag::TRANSACTION_COMMIT,
        store_host: broker.store_host,
        prepared_transaction_offset: at.to_i64(),
        ..Message::of(half)
    };
    let level = real(key::DELAY).and_then(|level| level.trim().parse::<i32>().ok()).unwrap_or(0);
    if level <= 0 {
        let Some(out_ms) = Asked::of(stored).out_ms(broker)? else {
            return Ok(Put { topic, queue_id, message });
        };
        properties::rewrite(text, stored, &[key::REAL_TOPIC, key::REAL_QUEUE_ID], &[]);
        timed(text, out_ms, topic, queue_id);
        let message = Message { properties: text, ..message };
        return Ok(Put { topic: names::TIMER_TOPIC, queue_id: 0, message });
    }
    let level = level.min(broker.delay_levels());
    let dropped = [
        key::DELAY,
        key::REAL_TOPIC,
        key::REAL_QUEUE_ID,
        key::TIMER_DELAY_SEC,
        key::TIMER_DELAY_MS,
        key::TIMER_DELIVER_MS,
    ];
    properties::rewrite(text, stored, &dropped, &[]);
    delayed(text, level, topic, queue_id);
    let message = Message { properties: text, ..message };
    Ok(Put { topic: names::SCHEDULE_TOPIC, queue_id: level - 1, message })
}
