//! Counters of looks, and how fast they grow.

use std::collections::HashMap;

/// How long a counter that is not told any more is remembered.
const KEPT_MS: i64 = 600_000;

/// What is counted.
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

/// The last two values of a counter that were told at different times.
#[derive(Clone, Copy, Debug)]
struct Counter {
    before: Option<(i64, i64)>,
    last: (i64, i64),
}

/// Counters by what they count. Their number is bounded by that of what the cluster told in the last ten minutes.
#[derive(Default)]
pub(super) struct Rates(HashMap<Key, Counter>);

impl Rates {
    /// Takes over a value, told at `at_ms`; the growth since the one before per second. `None` for the first value, and for one
    /// that went back, as at midnight or after a reset.
    pub fn take(&mut self, key: Key, at_ms: i64, value: i64) -> Option<f64> {
        let counter = self.0.entry(key).or_insert(Counter { before: None, last: (at_ms, value) });
        if counter.last.0 < at_ms {
            *counter = Counter { before: Some(counter.last), last: (at_ms, value) };
        }
        let ((since_ms, since), (last_ms, last)) = (counter.before?, counter.last);
        (last >= since).then(|| (last - since) as f64 * 1000.0 / (last_ms - since_ms) as f64)
    }

    /// Forgets counters that were not told for long.
    pub fn forget_old(&mut self, now_ms: i64) {
        self.0.retain(|_, counter| now_ms - counter.last.0 < KEPT_MS);
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
}
