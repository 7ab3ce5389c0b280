//! Gathers the delay levels of a master at which messages wait, and when the first of each was due.

use crate::Session;
use crate::doctor::bundle::{Broker, DelayLevel};
use crate::message::delay_ms;
use wire::body::MessageQueue;

/// The topic of delayed messages; a level has the queue below its number (`ScheduleMessageService`).
const TOPIC: &str = "SCHEDULE_TOPIC_XXXX";
/// Name of the entries of the runtime information, before the level.
const ENTRY: &str = "scheduleMessageOffset_";

/// The levels; `None` when the broker does not say how long they delay.
pub(super) async fn gather(session: &Session, broker: &Broker) -> Option<Vec<DelayLevel>> {
    let delays: Vec<i64> =
        broker.setting("messageDelayLevel")?.split(' ').map(delay_ms).collect::<Option<_>>()?;
    let mut levels = Vec::new();
    for (name, value) in broker.runtime.as_ref()? {
        let level = name.strip_prefix(ENTRY).and_then(|level| level.parse::<i32>().ok());
        let offsets =
            value.split_once(',').and_then(|(next, end)| Some((next.parse().ok()?, end.parse().ok()?)));
        let (Some(level), Some((next, end))) = (level, offsets) else { continue };
        let (next, end): (i64, i64) = (next, end);
        let delay = usize::try_from(level - 1).ok().and_then(|place| delays.get(place));
        if let Some(delay_ms) = delay.filter(|_| next < end) {
            let queue = MessageQueue::new(TOPIC, &broker.name, level - 1);
            let first_ms = super::groups::first_from(session, &queue, next).await;
            levels.push(DelayLevel {
                level,
                waiting: end - next,
                due_ms: first_ms.map(|stored_ms| stored_ms + delay_ms),
            });
        }
    }
    Some(levels)
}
