//! Offsets of groups at earlier looks, from which the rate of each queue comes.

use admin::LagQueue;
use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;

/// Groups whose offsets are remembered.
const GROUPS_MAX: usize = 64;
/// Queues of a group that are remembered.
const QUEUES_MAX: usize = 4096;
/// Age from which on offsets give a rate, and up to which they do, ms.
const AGES_MS: std::ops::Range<i64> = 2000..600_000;

/// A queue: topic, broker set and id.
type QueueKey = (String, String, i32);

/// The offsets of a group at one time.
#[derive(Clone, Debug, Default)]
struct OffsetSample {
    at_ms: i64,
    offsets: BTreeMap<QueueKey, i64>,
}

/// Offsets of groups at two times.
#[derive(Debug, Default)]
pub(crate) struct Offsets(Mutex<HashMap<String, [OffsetSample; 2]>>);

impl Offsets {
    /// Messages per second that a group consumed of each of some queues since an earlier look; `None` for a queue at the first look.
    pub fn rates(&self, now_ms: i64, group: &str, queues: &[LagQueue]) -> Vec<Option<f64>> {
        let place = |row: &LagQueue| (row.topic.clone(), row.broker.clone(), row.queue);
        let mut groups = self.0.lock().expect("short section");
        if groups.len() >= GROUPS_MAX && !groups.contains_key(group) {
            let oldest = groups.iter().min_by_key(|(_, seen)| seen[1].at_ms).map(|(name, _)| name.clone());
            oldest.map(|name| groups.remove(&name));
        }
        let [before, last] = groups.entry(group.to_owned()).or_default();
        if !last.offsets.is_empty() && now_ms - last.at_ms >= AGES_MS.start {
            *before = std::mem::take(last);
        }
        if last.offsets.is_empty() {
            let offsets = queues.iter().take(QUEUES_MAX).map(|row| (place(row), row.consumer_offset));
            *last = OffsetSample { at_ms: now_ms, offsets: offsets.collect() };
        }
        let age_ms = now_ms - before.at_ms;
        let rate = |row: &LagQueue| {
            let offset = before.offsets.get(&place(row)).filter(|_| AGES_MS.contains(&age_ms))?;
            Some((row.consumer_offset - offset).max(0) as f64 * 1000.0 / age_ms as f64)
        };
        queues.iter().map(rate).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(offset: i64) -> LagQueue {
        LagQueue {
            topic: "T".to_owned(),
            broker: "a".to_owned(),
            queue: 0,
            state: admin::QueueState::Consuming,
            owner: admin::QueueOwner::default(),
            consumer_offset: offset,
            broker_offset: 1000,
            diff: 1000 - offset,
            lag: admin::Lag::NOTHING,
            inflight: 0,
            held: None,
            locked: None,
            last_pull: String::new(),
            last_consume: String::new(),
        }
    }

    #[test]
    fn the_rate_of_a_queue_is_that_since_an_earlier_look() {
        let offsets = Offsets::default();
        let look = |now_ms: i64, offset: i64| offsets.rates(now_ms, "G", &[queue(offset)])[0];
        assert_eq!(look(10_000, 100), None);
        assert_eq!(look(10_500, 110), None, "too soon");
        assert_eq!(look(14_000, 140), Some(10.0));
        assert_eq!(look(15_000, 160), Some(12.0), "since the look at 10 s");
        assert_eq!(look(18_000, 100), Some(0.0), "a reset is no rate");
        for group in 0..2 * GROUPS_MAX {
            offsets.rates(20_000, &group.to_string(), &[queue(1)]);
        }
        assert_eq!(offsets.0.lock().unwrap().len(), GROUPS_MAX);
    }
}
