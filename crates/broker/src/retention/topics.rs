//! Topics that keep their messages for a time of their own: the attribute `reserve.time`, in hours as the tiered store of
//! Java reads it (`TopicAttributes`, `FlatMessageFile.getFileReservedHours`). Their queues begin at the first message
//! young enough; the log is shared and keeps its bytes until its files go.

use std::sync::atomic::Ordering;

use super::lag::Lags;
use super::protects;
use crate::broker::Broker;
use crate::topics::Topic;

/// The attribute.
pub(super) const RESERVE_TIME: &str = "reserve.time";

/// How often such topics are looked at: their time is in hours, and what all groups have consumed is gathered for it.
pub(super) const PAUSE_MS: i64 = 60_000;

/// Lets the queues of such topics begin where they should, unless that was done a short while ago.
pub(super) fn expire_when_due(broker: &Broker, now_ms: i64) {
    let last = &broker.retention.topics_ms;
    // A clock that was set back does not put it off.
    if now_ms.abs_diff(last.load(Ordering::Acquire)) >= PAUSE_MS.unsigned_abs() {
        // Before they are looked at: an operator who asks meanwhile makes it due again.
        last.store(now_ms, Ordering::Release);
        expire(broker, now_ms);
    }
}

/// Lets the queues of such topics begin where they should.
pub(super) fn expire(broker: &Broker, now_ms: i64) {
    let topics = broker.topics.all().into_iter();
    let topics: Vec<_> = topics.filter_map(|topic| Some((reserved_ms(&topic)?, topic))).collect();
    if topics.is_empty() {
        return;
    }
    let lags = if protects(broker) { Lags::of(broker) } else { Lags::default() };
    let firsts = lags.firsts();
    for (reserved_ms, topic) in topics {
        let before_ms = now_ms.saturating_sub(reserved_ms);
        for queue_id in 0..topic.queue_count() {
            let Some(queue) = broker.store.find_queue(topic.name(), queue_id) else { continue };
            let first = firsts.get(&(topic.name(), queue_id)).copied();
            let at_most = first.map_or(queue.max(), |first| first.min(queue.max()));
            if let Err(error) = broker.store.expire_queue(&queue, before_ms, at_most) {
                tracing::error!(topic = topic.name(), queue_id, %error, "the messages of a topic could not expire");
            }
        }
    }
}

/// The time of a topic's own, milliseconds.
fn reserved_ms(topic: &Topic) -> Option<i64> {
    let hours: i64 = topic.config.attributes.get(RESERVE_TIME)?.trim().parse().ok()?;
    (hours > 0).then(|| hours.saturating_mul(3_600_000))
}
