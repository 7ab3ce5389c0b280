//! Topics that keep their messages for a time of their own: the attribute `reserve.time`, in hours as the tiered store of
//! Java reads it (`TopicAttributes`, `FlatMessageFile.getFileReservedHours`). Their queues begin at the first message
//! young enough; the log is shared and keeps its bytes until its files go.

use wire::units::QueueOffset;

use super::lag::Lags;
use super::protects;
use crate::broker::Broker;

/// The attribute.
pub(super) const RESERVE_TIME: &str = "reserve.time";

/// Lets the queues of such topics begin where they should.
pub(super) fn expire(broker: &Broker, now_ms: i64) {
    let mut lags = None;
    for topic in broker.topics.all() {
        let hours =
            topic.config.attributes.get(RESERVE_TIME).and_then(|hours| hours.trim().parse::<i64>().ok());
        let Some(hours) = hours.filter(|hours| *hours > 0) else { continue };
        let before_ms = now_ms.saturating_sub(hours.saturating_mul(3_600_000));
        for queue_id in 0..topic.queue_count() {
            let Some(queue) = broker.store.find_queue(topic.name(), queue_id) else { continue };
            let mut at_most = queue.max();
            if protects(broker) {
                let lags = lags.get_or_insert_with(|| Lags::of(broker));
                at_most = lags
                    .first_of(topic.name(), queue_id)
                    .map_or(at_most, |first: QueueOffset| first.min(at_most));
            }
            if let Err(error) = broker.store.expire_queue(&queue, before_ms, at_most) {
                tracing::error!(topic = topic.name(), queue_id, %error, "the messages of a topic could not expire");
            }
        }
    }
}
