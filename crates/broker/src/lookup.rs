//! Looking up offsets, and messages by key, log offset and time. Most of these functions may read the disk.

mod query;
mod span;

use store::Boundary;

use crate::parts::{Replication, Tables};
use crate::topics::Queue;
use crate::{Refusal, Result, names};
pub(crate) use query::{query, record};
pub(crate) use span::{QueueRange, TimeSpan, consume_queue, consume_time_span};

/// The offset that the next message of a queue gets; 0 for a queue without messages.
pub(crate) fn max_offset(tables: &Tables, replication: &Replication, topic: &str, queue_id: i32) -> i64 {
    tables.log_queue(topic, queue_id).map_or(0, |queue| replication.visible_end(&queue))
}

/// The offset of the first message of a queue; -1 for a batch queue that was never written to
/// (`BatchConsumeQueue.getMinOffsetInQueue`).
pub(crate) fn min_offset(tables: &Tables, topic: &str, queue_id: i32) -> i64 {
    tables.log_queue(topic, queue_id).map_or(0, |queue| match queue.index.max().get() {
        0 if queue.index.is_batched() => -1,
        _ => queue.index.min().to_i64(),
    })
}

/// The store time of a queue's first message in milliseconds since the epoch; `None` without messages.
pub(crate) fn earliest_time(tables: &Tables, topic: &str, queue_id: i32) -> Option<i64> {
    let queue = tables.log_queue(topic, queue_id)?;
    tables.store.store_time(&queue.index, queue.index.min()).ok().flatten()
}

/// Query of the offset in a queue for a store time.
pub(crate) struct SearchOffset<'a> {
    pub topic: &'a str,
    pub queue_id: i32,
    /// Milliseconds since the epoch.
    pub timestamp_ms: i64,
    /// Which of several messages with this time counts.
    pub boundary: Boundary,
}

/// The offset of a queue at a store time; 0 for a queue that does not exist.
pub(crate) fn search(tables: &Tables, replication: &Replication, wanted: &SearchOffset<'_>) -> Result<i64> {
    let queue = tables.log_queue(wanted.topic, wanted.queue_id);
    queue.map_or(Ok(0), |queue| by_time(replication, &queue, wanted.timestamp_ms, wanted.boundary))
}

/// The offset in a lite topic of the first message at or after a time, or of the last message before it
/// (`AdminBrokerProcessor.searchOffsetByTimestamp`). 0 for a lite topic without a queue.
pub(crate) fn search_lite(
    tables: &Tables,
    replication: &Replication,
    lite_topic: &str,
    wanted: &SearchOffset<'_>,
) -> Result<i64> {
    let queue = tables.store.find_queue(&names::lite_queue(wanted.topic, lite_topic), 0);
    queue.map_or(Ok(0), |index| {
        by_time(replication, &Queue::lite(index), wanted.timestamp_ms, wanted.boundary)
    })
}

fn by_time(replication: &Replication, queue: &Queue, time: i64, boundary: Boundary) -> Result<i64> {
    let found = replication.store.offset_by_time(&queue.index, time, boundary);
    let unread = |error| Refusal::error(format!("the queue cannot be searched: {error}"));
    let end = replication.visible_end(queue);
    let last = match boundary {
        Boundary::Lower => end,
        // The last message that consumers may see, or the minimum when there is none.
        Boundary::Upper => (end - 1).max(queue.index.min().to_i64()),
    };
    found.map(|offset| offset.to_i64().min(last)).map_err(unread)
}
