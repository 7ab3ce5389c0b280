//! Totals of messages over the last ten minutes and the last days, for rates.

use std::collections::VecDeque;

use super::{SAMPLE_MS, Sums};

/// The spans in milliseconds for which rates are shown.
const SPEED_SPANS_MS: [i64; 3] = [10_000, 60_000, 600_000];

/// Samples of the totals, every ten seconds for the last ten minutes.
#[derive(Default)]
pub(crate) struct Totals {
    samples: VecDeque<(i64, Sums)>,
    /// When the first sample was taken, in milliseconds since the epoch.
    pub started_ms: i64,
    /// Log offset of the end of the log when the broker started.
    pub started_at: u64,
    /// Total messages stored and delivered until the last midnight.
    pub today: (u64, u64),
    /// Total messages stored and delivered until the midnight before that.
    pub yesterday: (u64, u64),
    hour: Option<u8>,
}

impl Totals {
    /// Adds a sample of the totals, taken when the log ended at `appended`.
    pub(crate) fn sample(&mut self, now_ms: i64, sums: Sums, appended: u64) {
        if self.samples.is_empty() {
            (self.started_ms, self.started_at) = (now_ms, appended);
        }
        let hour = store::local_hour(now_ms);
        // The first sample after midnight.
        if self.hour.is_some_and(|last| hour < last) {
            self.yesterday = std::mem::replace(&mut self.today, (sums.put_user, sums.got_user));
        }
        self.hour = Some(hour);
        self.samples.push_back((now_ms, sums));
        let oldest_ms = now_ms - SPEED_SPANS_MS[2] - SAMPLE_MS;
        while self.samples.front().is_some_and(|(time, _)| *time < oldest_ms) {
            self.samples.pop_front();
        }
    }

    /// The rates per second over the last 10, 60 and 600 seconds, or over the time the broker has run if that is less.
    pub(crate) fn speeds(&self, now_ms: i64, now: Sums, of: fn(&Sums) -> u64) -> String {
        let speed = |span_ms: i64| {
            let old = self.samples.iter().rev().find(|(time, _)| now_ms - time >= span_ms);
            let Some((from_ms, then)) = old.or_else(|| self.samples.front()) else { return 0.0 };
            let seconds = (now_ms - from_ms).max(1) as f64 / 1000.0;
            of(&now).saturating_sub(of(then)) as f64 / seconds
        };
        SPEED_SPANS_MS.map(|span_ms| decimal(speed(span_ms))).join(" ")
    }
}

/// Writes a number much as Java writes a `double`: always with a decimal point.
pub(crate) fn decimal(value: f64) -> String {
    format!("{value:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(put: u64) -> Sums {
        Sums { put, put_user: put, got_user: put / 2, ..Sums::default() }
    }

    #[test]
    fn speeds_are_told_for_three_spans_and_never_empty() {
        let mut totals = Totals::default();
        let speeds = |totals: &Totals, now_ms, sums| totals.speeds(now_ms, sums, |sums| sums.put);
        assert_eq!(speeds(&totals, 0, put(0)), "0.0 0.0 0.0");
        for index in 0..200_i64 {
            totals.sample(index * 10_000, put(index as u64 * 100), 0);
        }
        let now_ms = 199 * 10_000 + 5000;
        assert_eq!(speeds(&totals, now_ms, put(200 * 100 - 50)), "10.0 10.0 10.0");
        assert!(totals.samples.len() < 64);
    }

    #[test]
    fn mornings_are_noted_at_midnight() {
        let mut totals = Totals::default();
        let hours = 60;
        for hour in 0..hours {
            totals.sample(hour * 3_600_000, put(hour as u64), 0);
        }
        assert!(totals.today.0 > totals.yesterday.0 && totals.yesterday.0 > 0);
        assert_eq!(totals.today.0 - totals.yesterday.0, 24);
        assert_eq!(totals.today.1, totals.today.0 / 2);
    }
}
