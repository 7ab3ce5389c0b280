//! Topics with a retention time of their own: the attribute `reserve.time`, in hours, as Java's tiered store reads it
//! (`TopicAttributes`, `FlatMessageFile.getFileReservedHours`). The minimum offset of their queues is moved to the first
//! message that is young enough. The commit log is shared by all topics, and its bytes are freed only with its files.

use std::sync::atomic::Ordering;

use super::lag::Lags;
use super::protects;
use crate::parts::{Delivery, Runtime, Sessions};
use crate::topics::Topic;

/// Name of the attribute for the retention time in hours.
pub(super) const RESERVE_TIME: &str = "reserve.time";

/// Interval in milliseconds between two checks of such topics. It is long because their time is in hours, and because a check
/// computes the backlogs of all groups.
pub(super) const PAUSE_MS: i64 = 60_000;

/// Expires messages of such topics, unless that was done within the last [`PAUSE_MS`].
pub(super) fn expire_when_due(sessions: &Sessions, delivery: &Delivery, runtime: &Runtime, now_ms: i64) {
    let last = &runtime.retention.topics_ms;
    // The difference is absolute, so that a clock that was set back does not delay the check.
    if now_ms.abs_diff(last.load(Ordering::Acquire)) >= PAUSE_MS.unsigned_abs() {
        // Stored before the check, so that an operator's request during the check makes another one due.
        last.store(now_ms, Ordering::Release);
        expire(sessions, delivery, runtime, now_ms);
    }
}

/// Expires messages of such topics: moves the minimum offset of their queues behind too old messages.
pub(super) fn expire(sessions: &Sessions, delivery: &Delivery, runtime: &Runtime, now_ms: i64) {
    let topics: Vec<_> =
        delivery.tables.topics.all().filter_map(|topic| Some((reserved_ms(&topic)?, topic))).collect();
    if topics.is_empty() {
        return;
    }
    let lags = if protects(&delivery.tables.store, runtime) {
        Lags::of(sessions, delivery, runtime)
    } else {
        Lags::default()
    };
    let firsts = lags.firsts();
    for (reserved_ms, topic) in topics {
        let before_ms = now_ms.saturating_sub(reserved_ms);
        for queue_id in 0..topic.queue_count() {
            let Some(queue) = delivery.tables.store.find_queue(topic.name(), queue_id) else { continue };
            let first = firsts.get(&(topic.name(), queue_id)).copied();
            let at_most = first.map_or(queue.max(), |first| first.min(queue.max()));
            if let Err(error) = delivery.tables.store.expire_queue(&queue, before_ms, at_most) {
                tracing::error!(topic = topic.name(), queue_id, %error, "the messages of a topic could not expire");
            }
        }
    }
}

/// Returns the retention time of a topic's own setting, in milliseconds.
fn reserved_ms(topic: &Topic) -> Option<i64> {
    let hours: i64 = topic.config.attributes.get(RESERVE_TIME)?.trim().parse().ok()?;
    (hours > 0).then(|| hours.saturating_mul(3_600_000))
}
