//! Send-back: a consumer returns a message that it could not process, and gets it again later.

use std::fmt::Display;

use store::Message;
use wire::codes::response;
use wire::id::OffsetId;
use wire::properties::{self, key};
use wire::record::RecordView;
use wire::units::LogOffset;

use crate::parts::SendParts;
use crate::send::message::delayed;
use crate::send::not_put;
use crate::state::Name;
use crate::{FAQ, Refusal, Result, names};

/// A message that a consumer returns.
pub(crate) struct SendBack<'a> {
    pub group: &'a str,
    /// Log offset of the message's record.
    pub log_offset: LogOffset,
    /// Delay of the message: a delay level, 0 for the level that follows from the number of send-backs, or negative
    /// for the dead letter topic.
    pub delay_level: i32,
    /// After this many times the message goes to the dead letter topic; `None` for the group's own number.
    pub times_max: Option<i32>,
}

/// The refusal of a message that is not in the log.
pub(crate) fn not_found(log_offset: impl Display) -> Refusal {
    Refusal::error(format!("look message by offset failed, {log_offset}"))
}

/// Stores a copy of the message in the group's retry topic, delayed by the delay level, or in its dead letter topic
/// (`AbstractSendMessageProcessor.consumerSendMsgBack`). Returns the log offset up to which the log must be on disk before the
/// consumer is answered under sync flush.
pub(crate) fn send_back(parts: &SendParts, message: &SendBack<'_>) -> Result<LogOffset> {
    let SendBack { group, log_offset: at, delay_level, times_max } = *message;
    let config = parts.tables.group(&parts.runtime.config, group)?.ok_or_else(|| {
        let remark = format!("subscription group not exist, {group} {FAQ}");
        Refusal::new(response::SUBSCRIPTION_GROUP_NOT_EXIST, remark)
    })?;
    if !parts.runtime.is_writable() {
        let remark = format!("the broker[{}] sending message is forbidden", parts.runtime.config.broker_ip1);
        return Err(Refusal::new(response::NO_PERMISSION, remark));
    }
    if config.retry_queue_nums <= 0 {
        return Ok(LogOffset::ZERO);
    }
    let retry = parts.tables.retry_topic(group, config.retry_queue_nums)?;
    if !retry.is_writable() {
        let remark = format!("the topic[{}] sending message is forbidden", retry.name());
        return Err(Refusal::new(response::NO_PERMISSION, remark));
    }
    let mut bytes = Vec::new();
    parts.tables.store.record_at(at, &mut bytes).map_err(|_| not_found(at))?;
    let record = RecordView::parse(&bytes).map_err(|_| not_found(at))?;
    let times_max = times_max.unwrap_or(config.retry_max_times);
    let dead = record.reconsume_times() >= times_max || delay_level < 0;
    let (topic, queue_id) = if dead {
        (parts.tables.dead_letter_topic(group)?, 0)
    } else {
        let queue_id = parts.identity.spread(config.retry_queue_nums);
        (retry, queue_id)
    };
    let level = if delay_level == 0 { record.reconsume_times().saturating_add(3) } else { delay_level };
    let level = (!dead).then(|| level.clamp(1, parts.runtime.delay_levels()));
    let end = put_copy(parts, &record, at, topic.name(), queue_id, level)?;
    let original = properties::get_str(record.properties(), key::RETRY_TOPIC);
    let original = original.or_else(|| std::str::from_utf8(record.topic()).ok()).unwrap_or_default();
    parts.figures.stats.count(Name::SendBack, original, group);
    if dead {
        parts.figures.stats.count(Name::DeadLetters, original, group);
    }
    Ok(end)
}

/// Properties of a former delay or delivery time, which a delay level replaces
/// (`HookUtils.checkIfTimerMessage`, `transformDelayLevelMessage`).
const REPLACED: [&str; 6] = [
    key::DELAY,
    key::REAL_TOPIC,
    key::REAL_QUEUE_ID,
    key::TIMER_DELIVER_MS,
    key::TIMER_DELAY_SEC,
    key::TIMER_DELAY_MS,
];

/// Appends the copy of the message and returns the end of its record. Under sync flush the response waits for that
/// position. Java's response does not wait for the flush, so a consumer that stores its offsets elsewhere would lose
/// the message in a power cut. The copy has `WAIT=false` like Java's.
fn put_copy(
    parts: &SendParts,
    record: &RecordView<'_>,
    at: LogOffset,
    topic: &str,
    queue_id: i32,
    level: Option<i32>,
) -> Result<LogOffset> {
    let mut copied = Vec::new();
    let original = record.properties();
    let id = OffsetId { store_host: record.store_host(), log_offset: at }.to_string();
    let origin = properties::get(original, key::ORIGIN_MESSAGE_ID).unwrap_or(id.as_bytes());
    let source = properties::get(original, key::RETRY_TOPIC).unwrap_or(record.topic());
    let added: [(_, &[u8]); 3] =
        [(key::RETRY_TOPIC, source), (key::ORIGIN_MESSAGE_ID, origin), (key::WAIT_STORE_MSG_OK, b"false")];
    let (topic, queue_id) = match level {
        Some(level) => {
            properties::rewrite(&mut copied, original, &REPLACED, &added);
            delayed(&mut copied, level, topic, queue_id);
            (names::SCHEDULE_TOPIC, level - 1)
        }
        None => {
            // A dead letter is no message of the light queues that the original is in.
            let dropped = [key::DELAY, key::INNER_MULTI_DISPATCH, key::INNER_MULTI_QUEUE_OFFSET];
            properties::rewrite(&mut copied, original, &dropped, &added);
            properties::append(&mut copied, key::DELAY, b"0");
            (topic, queue_id)
        }
    };
    let message = Message {
        properties: &copied,
        store_host: parts.identity.store_host,
        reconsume_times: record.reconsume_times().saturating_add(1),
        prepared_transaction_offset: 0,
        ..Message::of(record)
    };
    parts
        .delivery
        .put(topic, queue_id, &message)
        .map(|placed| placed.end())
        .map_err(|error| not_put(&parts.tables.store, error))
}

#[cfg(test)]
mod tests;
