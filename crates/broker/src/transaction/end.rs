//! A producer commits its half message or rolls it back (`EndTransactionProcessor`).

use store::{KeyKind, KeyQuery, Message};
use wire::codes::response;
use wire::properties::{self, key};
use wire::record::{RecordView, sys_flag};
use wire::units::LogOffset;

use super::{Put, append_with_op, immunity_ms};
use crate::parts::DeliveryParts;
use crate::send::message::delayed;
use crate::send::not_put;
use crate::state::{Decision, End};
use crate::timer::delivery_time::{DeliveryTime, timed};
use crate::{Refusal, Result, names};

/// A producer's decision about a half message.
pub struct EndTransaction<'a> {
    /// The producer group, which must be that of the half message.
    pub producer_group: &'a str,
    /// Queue offset of the half message in its topic (`tranStateTableOffset`).
    pub half_offset: i64,
    /// Log offset of the half message's record.
    pub log_offset: LogOffset,
    /// Decision of the producer.
    pub decision: Decision,
    /// Whether the producer answers a check.
    pub is_checked: bool,
}

/// Properties of a half message that its committed message does not have
/// (`EndTransactionProcessor.endMessageTransaction`).
const OF_HALF_MESSAGES: [&str; 3] =
    [key::REAL_TOPIC, key::REAL_QUEUE_ID, key::TRANSACTION_PREPARED_QUEUE_OFFSET];

/// The refusal of a decision about a half message that is not in the log.
pub(crate) fn not_found() -> Refusal {
    Refusal::error("Find prepared transaction message failed")
}

/// The refusal of a decision about a half message of which the opposite was decided.
fn ended_otherwise() -> Refusal {
    Refusal::error("the transaction has ended: the opposite was decided before")
}

/// Whether a half message was given up and not committed afterwards, according to the key index.
fn was_given_up(store: &store::Store, half: &RecordView<'_>) -> Result<bool> {
    let text = |name| properties::get_str(half.properties(), name).unwrap_or_default();
    let holds = |topic| {
        let (key, kind) = (text(key::UNIQ_KEY), KeyKind::Key);
        let query = KeyQuery { topic, key, kind, max: 1, begin_ms: 0, end_ms: i64::MAX };
        let matches = store.query(&query);
        let unread = |error| Refusal::error(format!("the key index cannot be searched: {error}"));
        matches.map(|matches| !matches.found.is_empty()).map_err(unread)
    };
    Ok(holds(names::CHECK_MAX_TIME_TOPIC)? && !holds(text(key::REAL_TOPIC))?)
}

/// Commits a half message or rolls it back. A producer may send its decision twice: by itself and as the answer to a check. A
/// message that was given up can still be committed, as in Java. Returns the log offset up to which the log must be on disk before
/// the producer is answered under sync flush.
pub(crate) fn end(parts: &DeliveryParts, request: &EndTransaction<'_>) -> Result<LogOffset> {
    let EndTransaction { producer_group, half_offset, log_offset: at, decision, is_checked } = *request;
    let mut bytes = Vec::new();
    parts.tables.store.record_at(at, &mut bytes).map_err(|_| not_found())?;
    let half = RecordView::parse(&bytes).map_err(|_| not_found())?;
    if half.topic() != names::HALF_TOPIC.as_bytes() {
        return Err(not_found());
    }
    let age_ms = parts.runtime.now_ms() - half.born_timestamp();
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
    let mut state = parts.delivery.transactions.lock();
    let offset = match (state.undecided(half_offset), state.end_of(half_offset)) {
        (Some(offset), _) => offset,
        (None, Some(End::GivenUp(offset))) => offset,
        (None, Some(End::Decided(earlier))) if earlier != decision => return Err(ended_otherwise()),
        // How it ended is not remembered, since the broker was started again or many others have ended since.
        (None, None) if decision == Decision::Commit && was_given_up(&parts.tables.store, &half)? => {
            half_offset
        }
        // The earlier decision may not be on disk yet.
        (None, _) => return Ok(parts.tables.store.appended()),
    };
    let mut text = Vec::new();
    let put = match decision {
        Decision::Commit => Some(committed(parts, &half, at, &mut text)?),
        Decision::Rollback => None,
    };
    let former = state.former(offset);
    let appended = append_with_op(parts, &mut state, offset, put)
        .map_err(|error| not_put(&parts.tables.store, error))?;
    state.note_end(former.into_iter().chain([offset]), End::Decided(decision));
    let topic = properties::get_str(half.properties(), key::REAL_TOPIC).unwrap_or_default();
    match decision {
        Decision::Commit => state.count_commit(topic, (age_ms.max(0) / 1000).unsigned_abs()),
        Decision::Rollback => state.count_rollback(topic),
    }
    Ok(appended.end)
}

/// The committed message, in its real topic or, with a delay, in that of delayed or timed messages. `TRAN_MSG` stays in its
/// properties, as in Java.
fn committed<'a>(
    parts: &DeliveryParts,
    half: &RecordView<'a>,
    at: LogOffset,
    text: &'a mut Vec<u8>,
) -> Result<Put<'a>> {
    let stored = half.properties();
    let real = |name| properties::get_str(stored, name);
    let queue_id = real(key::REAL_QUEUE_ID).and_then(|id| id.parse::<i32>().ok());
    let (Some(topic), Some(queue_id)) = (real(key::REAL_TOPIC), queue_id) else {
        return Err(Refusal::error("the half message names no real topic and queue"));
    };
    let message = Message {
        sys_flag: half.sys_flag() & !sys_flag::TRANSACTION_MASK | sys_flag::TRANSACTION_COMMIT,
        store_host: parts.identity.store_host,
        prepared_transaction_offset: at.to_i64(),
        ..Message::of(half)
    };
    let level = real(key::DELAY).and_then(|level| level.trim().parse::<i32>().ok()).unwrap_or(0);
    if level <= 0 {
        properties::rewrite(text, stored, &OF_HALF_MESSAGES, &[]);
        let out_ms = DeliveryTime::of(stored).out_ms(&parts.identity, &parts.delivery, &parts.runtime)?;
        if let Some(out_ms) = out_ms {
            timed(text, out_ms, topic, queue_id);
        }
        let message = Message { properties: text, ..message };
        return Ok(match out_ms {
            Some(_) => Put { topic: names::TIMER_TOPIC, queue_id: 0, message },
            None => Put { topic, queue_id, message },
        });
    }
    let level = level.min(parts.runtime.delay_levels());
    let dropped = [
        key::DELAY,
        key::REAL_TOPIC,
        key::REAL_QUEUE_ID,
        key::TRANSACTION_PREPARED_QUEUE_OFFSET,
        key::TIMER_DELAY_SEC,
        key::TIMER_DELAY_MS,
        key::TIMER_DELIVER_MS,
    ];
    properties::rewrite(text, stored, &dropped, &[]);
    delayed(text, level, topic, queue_id);
    let message = Message { properties: text, ..message };
    Ok(Put { topic: names::SCHEDULE_TOPIC, queue_id: level - 1, message })
}
