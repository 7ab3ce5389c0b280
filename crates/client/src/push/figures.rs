//! Figures of a consumer since its start, by topic. `ConsumerStatsManager.consumeStatus` reports the figures of the
//! last minute.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

#[derive(Clone, Copy, Default)]
struct Figures {
    /// Number of pull requests that found messages; their time and the number of messages follow.
    pulls: u64,
    pull_time: Duration,
    pulled: u64,
    /// Number of calls of the listener; their time and results follow.
    calls: u64,
    call_time: Duration,
    done: u64,
    failed: u64,
}

/// The figures of all topics.
#[derive(Default)]
pub(super) struct Tally(Mutex<BTreeMap<String, Figures>>);

impl Tally {
    /// Counts a pull request that found messages.
    pub fn pulled(&self, topic: &str, messages: usize, time: Duration) {
        self.change(topic, |figures| {
            figures.pulls += 1;
            figures.pull_time += time;
            figures.pulled += messages as u64;
        });
    }

    /// Counts a call of the listener.
    pub fn called(&self, topic: &str, messages: usize, is_done: bool, time: Duration) {
        self.change(topic, |figures| {
            figures.calls += 1;
            figures.call_time += time;
            *(if is_done { &mut figures.done } else { &mut figures.failed }) += messages as u64;
        });
    }

    /// `ConsumeStatus` of a topic: rates and means over the `seconds` since the start.
    pub fn status(&self, topic: &str, seconds: f64) -> Value {
        let figures = self.table().get(topic).copied().unwrap_or_default();
        let per_second = |count: u64| count as f64 / seconds.max(0.001);
        let average_ms = |time: Duration, count: u64| {
            if count == 0 { 0.0 } else { time.as_secs_f64() * 1000.0 / count as f64 }
        };
        json!({
            "pullRT": average_ms(figures.pull_time, figures.pulls),
            "pullTPS": per_second(figures.pulled),
            "consumeRT": average_ms(figures.call_time, figures.calls),
            "consumeOKTPS": per_second(figures.done),
            "consumeFailedTPS": per_second(figures.failed),
            "consumeFailedMsgs": figures.failed,
        })
    }

    fn change(&self, topic: &str, apply: impl FnOnce(&mut Figures)) {
        let mut table = self.table();
        match table.get_mut(topic) {
            Some(figures) => apply(figures),
            None => apply(table.entry(topic.to_owned()).or_default()),
        }
    }

    fn table(&self) -> MutexGuard<'_, BTreeMap<String, Figures>> {
        self.0.lock().expect("short section")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_their_topic() {
        let tally = Tally::default();
        tally.pulled("T", 30, Duration::from_millis(4));
        tally.pulled("T", 10, Duration::from_millis(8));
        tally.called("T", 30, true, Duration::from_millis(10));
        tally.called("T", 10, false, Duration::from_millis(30));
        let expected = json!({
            "pullRT": 6.0, "pullTPS": 4.0, "consumeRT": 20.0,
            "consumeOKTPS": 3.0, "consumeFailedTPS": 1.0, "consumeFailedMsgs": 10,
        });
        assert_eq!(tally.status("T", 10.0), expected);
        assert_eq!(tally.status("U", 10.0)["pullRT"], 0.0);
    }
}
