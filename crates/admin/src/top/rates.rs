//! Counters of looks, and how fast they grow.

use std::collections::{HashMap, VecDeque};

/// Time for which a counter without new values is remembered.
const KEPT_MS: i64 = 600_000;

/// Counter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// Messages stored by the broker at an address today.
    BrokerIn(String),
    /// Messages delivered by the broker at an address today.
    BrokerOut(String),
    /// The end of a queue: topic, broker, queue.
    End(String, String, i32),
    /// The offset of a group in a queue: group, topic, broker, queue.
    Consumed(String, String, String, i32),
}

impl Key {
    /// Over which time the rate is a mean. Groups commit their offsets every five seconds only.
    fn window_ms(&self) -> i64 {
        if let Self::Consumed(..) = self { 10_000 } else { 0 }
    }
}

/// Values of counters with the times of the answers. Their number is bounded by the counters that the cluster reported
/// in the last ten minutes.
#[derive(Default)]
pub(super) struct Rates(HashMap<Key, VecDeque<(i64, i64)>>);

impl Rates {
    /// Adds a value of the time `at_ms`. Returns the growth per second since the value before, or within the window of
    /// the counter. `None` for the first value, and for a smaller value than before, as at midnight or after a reset.
    pub fn take(&mut self, key: Key, at_ms: i64, value: i64) -> Option<f64> {
        let window_ms = key.window_ms();
        let values = self.0.entry(key).or_default();
        if values.back().is_none_or(|(last_ms, _)| *last_ms < at_ms) {
            if values.back().is_some_and(|(_, last)| *last > value) {
                values.clear();
            }
            values.push_back((at_ms, value));
        }
        while values.len() > 2 && values[1].0 <= at_ms - window_ms {
            values.pop_front();
        }
        let (since_ms, since) = *values.front()?;
        let (last_ms, last) = *values.back()?;
        (last_ms > since_ms).then(|| (last - since) as f64 * 1000.0 / (last_ms - since_ms) as f64)
    }

    /// Forgets counters without a new value for [`KEPT_MS`].
    pub fn forget_old(&mut self, now_ms: i64) {
        self.0.retain(|_, values| values.back().is_some_and(|(last_ms, _)| now_ms - last_ms < KEPT_MS));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_the_growth_between_the_last_two_looks() {
        let mut rates = Rates::default();
        let mut take = |at_ms, value| rates.take(Key::BrokerIn("a".to_owned()), at_ms, value);
        assert_eq!(take(1000, 10), None);
        assert_eq!(take(3000, 30), Some(10.0));
        assert_eq!(take(3000, 30), Some(10.0), "told by several groups");
        assert_eq!(take(4000, 5), None, "midnight");
        assert_eq!(take(5000, 6), Some(1.0));
        rates.forget_old(5000 + KEPT_MS);
        assert!(rates.0.is_empty());
    }

    #[test]
    fn what_is_committed_every_five_seconds_has_a_steady_rate() {
        let mut rates = Rates::default();
        let mut take = |second: i64| {
            let key = Key::Consumed("G".to_owned(), "T".to_owned(), "a".to_owned(), 0);
            rates.take(key, second * 1000, second / 5 * 500)
        };
        let found: Vec<_> = (0..40).filter_map(&mut take).skip(14).collect();
        assert!(found.iter().all(|rate| *rate == 100.0), "{found:?}");
    }
}
