//! Operators' queries of a queue's messages and units (`AdminBrokerProcessor`).

use store::Unit;
use wire::body::MessageQueue;
use wire::units::QueueOffset;

use crate::parts::{OperatorParts, Replication, Tables};
use crate::{Refusal, Result, topics};

/// Most queue units of a response.
const UNITS_MAX: usize = 10_000;

/// When the messages of a queue were stored, and how far a group is. Times are in milliseconds since the epoch and `None` without
/// such a message.
pub(crate) struct TimeSpan {
    pub queue: MessageQueue,
    /// Store time of the first message.
    pub first_ms: Option<i64>,
    /// Store time of the last message.
    pub last_ms: Option<i64>,
    /// Store time of the last message that the group consumed; of the first message while it consumed none.
    pub consumed_ms: Option<i64>,
    /// Age of the group's next message, in milliseconds. 0 without a message.
    pub delay_ms: i64,
}

/// The time span of every queue of a topic.
pub(crate) fn consume_time_span(parts: &OperatorParts, name: &str, group: &str) -> Result<Vec<TimeSpan>> {
    let topic = parts.tables.topics.find(name).ok_or_else(|| topics::not_exist(name))?;
    let queues = 0..topic.config.write_queue_nums;
    Ok(queues.map(|queue_id| time_span(parts, name, queue_id, group)).collect())
}

fn time_span(parts: &OperatorParts, topic: &str, queue_id: i32, group: &str) -> TimeSpan {
    let queue = parts.tables.log_queue(topic, queue_id);
    let consumed = parts.tables.offsets.committed(group, topic, queue_id).unwrap_or(-1);
    let time_at = |offset: i64| {
        let offset = u64::try_from(offset).ok().map(QueueOffset::new)?;
        parts.tables.store.store_time(&queue.as_ref()?.index, offset).ok()?
    };
    let range =
        queue.as_ref().map(|queue| (queue.index.min().to_i64(), parts.replication.visible_end(queue)));
    let (min, end) = range.unwrap_or_default();
    let first_ms = time_at(min);
    let next_ms = if consumed < end { time_at(consumed.max(min)) } else { None };
    TimeSpan {
        queue: parts.runtime.message_queue(topic, queue_id),
        first_ms,
        last_ms: time_at(end - 1),
        consumed_ms: if consumed > 0 { time_at(consumed - 1) } else { first_ms },
        delay_ms: next_ms.map_or(0, |next_ms| (parts.runtime.now_ms() - next_ms).max(0)),
    }
}

/// Units of a queue that an operator asks for.
pub(crate) struct QueueRange<'a> {
    pub topic: &'a str,
    pub queue_id: i32,
    /// Queue offset of the first unit.
    pub first: i64,
    /// Number of units, at most 10,000.
    pub count: i32,
}

/// A part of a queue, not interpreted.
pub(crate) struct QueueUnits {
    /// First offset of the queue.
    pub min: i64,
    /// Offset that the queue's next message gets.
    pub end: i64,
    /// Requested units. `None` if the first unit is not in the queue.
    pub units: Option<Vec<Unit>>,
}

/// Reads units of a queue.
pub(crate) fn consume_queue(
    tables: &Tables,
    replication: &Replication,
    range: &QueueRange<'_>,
) -> Result<QueueUnits> {
    let QueueRange { topic, queue_id, first, count } = *range;
    let queue = tables
        .log_queue(topic, queue_id)
        .ok_or_else(|| Refusal::error(format!("{queue_id}@{topic} is not exist!")))?;
    let (min, end) = (queue.index.min().to_i64(), replication.visible_end(&queue));
    if !(min..end).contains(&first) {
        return Ok(QueueUnits { min, end, units: None });
    }
    let wanted = usize::try_from(count.max(0)).unwrap_or(0).min(UNITS_MAX);
    let wanted = wanted.min(usize::try_from(end - first).unwrap_or(0));
    let mut units = Vec::new();
    let unread = |error| Refusal::error(format!("the queue cannot be read: {error}"));
    let first = QueueOffset::new(first.unsigned_abs());
    queue.index.units_blocking(first, wanted, &mut units).map_err(unread)?;
    Ok(QueueUnits { min, end, units: Some(units) })
}
