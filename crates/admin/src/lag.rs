//! Lag of consumer groups in time: the age of the first message that a group has not consumed. Every front shows this figure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wire::body::{MessageQueue, OffsetWrapper};
use wire::codes::request;

use crate::Session;
use crate::request::{Request, number};
use crate::text::span;

/// Most queues of one answer for which brokers of RocketMQ are asked for the time of the first unconsumed message.
const QUEUES_ASKED_MAX: usize = 64;

/// Age of the first message that a group has not consumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Lag {
    /// Age in seconds; 0 if no message waits, absent if the age is unknown.
    pub lag_seconds: Option<i64>,
    /// Whether the age may be smaller. A filter may leave out the waiting messages. Brokers of RocketMQ only report the
    /// store time of the last consumed message.
    pub lag_is_bound: bool,
}

impl Lag {
    /// Lag of a group that has consumed all messages.
    pub const NOTHING: Self = Self { lag_seconds: Some(0), lag_is_bound: false };

    /// The age of a message that was stored at `stored_ms`.
    pub fn since(stored_ms: i64, is_bound: bool, now_ms: i64) -> Self {
        Self { lag_seconds: Some((now_ms - stored_ms).max(0) / 1000), lag_is_bound: is_bound }
    }

    /// The lag of a group in a queue.
    pub(crate) fn of(offsets: &OffsetWrapper, now_ms: i64) -> Self {
        if offsets.broker_offset <= offsets.consumer_offset {
            return Self::NOTHING;
        }
        match offsets.unconsumed_timestamp {
            Some(0) => Self::NOTHING,
            Some(..0) => Self::default(),
            Some(stored_ms) => Self::since(stored_ms, offsets.unconsumed_is_bound, now_ms),
            // The first message that waits is younger than the last message that was consumed.
            None if offsets.last_timestamp > 0 => Self::since(offsets.last_timestamp, true, now_ms),
            None => Self::default(),
        }
    }

    /// The largest of several lags; unknown if any lag is unknown.
    pub fn largest(lags: impl IntoIterator<Item = Self>) -> Self {
        let larger = |largest: Self, lag: Self| {
            let Some((one, other)) = largest.lag_seconds.zip(lag.lag_seconds) else { return Self::default() };
            // Of two equal ages the exact age counts.
            if (other, !lag.lag_is_bound) > (one, !largest.lag_is_bound) { lag } else { largest }
        };
        lags.into_iter().fold(Self::NOTHING, larger)
    }
}

impl std::fmt::Display for Lag {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.lag_seconds {
            None => out.write_str("-"),
            Some(seconds) if self.lag_is_bound => write!(out, "≤{}", span(seconds)),
            Some(seconds) => out.write_str(&span(seconds)),
        }
    }
}

/// Adds the time of the first message for queues from which a group has consumed nothing, if the broker of the queue is
/// a RocketMQ broker.
pub(crate) async fn add_first_times(
    session: &Session,
    broker: &str,
    tables: Vec<&mut BTreeMap<MessageQueue, OffsetWrapper>>,
) {
    let mut asked = 0;
    for table in tables {
        for (queue, offsets) in table.iter_mut() {
            let is_known = offsets.broker_offset <= offsets.consumer_offset
                || offsets.unconsumed_timestamp.is_some()
                || offsets.last_timestamp > 0;
            if is_known {
                continue;
            }
            if asked == QUEUES_ASKED_MAX {
                return;
            }
            asked += 1;
            let ask = Request::new(request::GET_EARLIEST_MSG_STORETIME)
                .with("topic", queue.topic.as_str())
                .with("queueId", queue.queue_id);
            // The time stays unknown if the broker does not answer.
            let Ok(reply) = session.look(broker, &ask).await else { return };
            offsets.unconsumed_timestamp = number(broker, &reply, "timestamp").ok().filter(|ms| *ms > 0);
            offsets.unconsumed_is_bound = offsets.consumer_offset > 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: i64 = 1_000_000;

    fn offsets(waiting: i64, last_timestamp: i64, unconsumed_timestamp: Option<i64>) -> OffsetWrapper {
        let offsets =
            OffsetWrapper { broker_offset: 10, consumer_offset: 10 - waiting, ..OffsetWrapper::default() };
        OffsetWrapper { last_timestamp, unconsumed_timestamp, ..offsets }
    }

    fn exact(seconds: i64) -> Lag {
        Lag { lag_seconds: Some(seconds), lag_is_bound: false }
    }

    fn bound(seconds: i64) -> Lag {
        Lag { lag_is_bound: true, ..exact(seconds) }
    }

    #[test]
    fn the_age_of_the_first_message_that_waits_counts() {
        let check =
            |offsets: OffsetWrapper, expected| assert_eq!(Lag::of(&offsets, NOW_MS), expected, "{offsets:?}");
        let age = |seconds: i64| NOW_MS - seconds * 1000;
        check(offsets(0, age(99), Some(0)), exact(0));
        check(offsets(0, age(99), None), exact(0));
        check(offsets(3, age(99), Some(age(8))), exact(8));
        check(offsets(3, 0, Some(age(8))), exact(8));
        check(offsets(3, age(99), Some(0)), exact(0));
        check(offsets(3, age(99), Some(-1)), Lag::default());
        check(offsets(3, age(99), None), bound(99));
        check(offsets(3, 0, None), Lag::default());
        check(OffsetWrapper { unconsumed_is_bound: true, ..offsets(3, 0, Some(age(8))) }, bound(8));
        check(offsets(3, 0, Some(NOW_MS + 5000)), exact(0));
    }

    #[test]
    fn the_largest_lag_is_not_known_if_a_lag_is_not() {
        assert_eq!(Lag::largest([]), Lag::NOTHING);
        assert_eq!(Lag::largest([exact(3), bound(9), exact(5)]), bound(9));
        assert_eq!(Lag::largest([bound(9), exact(9)]), exact(9));
        assert_eq!(Lag::largest([exact(3), Lag::default(), exact(5)]), Lag::default());
        let shown = [exact(3), bound(300), Lag::default()].map(|lag| lag.to_string());
        assert_eq!(shown, ["3s", "≤5m", "-"]);
    }
}
