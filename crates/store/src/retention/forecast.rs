//! Forecasts when the disk will be full, from the growth of the log.

use std::collections::VecDeque;

/// Longest time in ms that a forecast looks back.
const WINDOW_MS: i64 = 3_600_000;
/// Shortest time in ms that a forecast needs.
const SHORTEST_MS: i64 = 60_000;
/// Least time in ms between two samples.
const STEP_MS: i64 = 15_000;

/// Sizes of the log in bytes over the last hour.
#[derive(Debug, Default)]
pub struct Forecast {
    samples: VecDeque<(i64, u64)>,
}

impl Forecast {
    /// Records that the log holds `log_bytes` bytes at the time `now_ms`.
    pub fn note(&mut self, now_ms: i64, log_bytes: u64) {
        if self.samples.back().is_some_and(|(last, _)| now_ms < *last) {
            // The clock was set back: the earlier samples are meaningless.
            self.samples.clear();
        }
        if self.samples.back().is_some_and(|(last, _)| now_ms - last < STEP_MS) {
            return;
        }
        self.samples.push_back((now_ms, log_bytes));
        while self.samples.front().is_some_and(|(first, _)| now_ms - first > WINDOW_MS) {
            self.samples.pop_front();
        }
    }

    /// Returns the time in ms until `room` bytes are written at the rate of the last hour. `None` if the log does not
    /// grow, or was watched for less than a minute.
    pub fn full_in_ms(&self, room: u64) -> Option<i64> {
        let ((first, before), (last, after)) = (self.samples.front()?, self.samples.back()?);
        let grown = after.checked_sub(*before).filter(|grown| *grown > 0)?;
        let elapsed = u128::try_from(last - first).ok().filter(|_| last - first >= SHORTEST_MS)?;
        Some(i64::try_from(u128::from(room) * elapsed / u128::from(grown)).unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(samples: &[(i64, u64)], expected: Option<i64>) {
        let mut forecast = Forecast::default();
        samples.iter().for_each(|(second, bytes)| forecast.note(second * 1000, *bytes));
        assert_eq!(forecast.full_in_ms(1000).map(|time| time / 1000), expected, "{samples:?}");
    }

    #[test]
    fn the_future_is_like_the_last_hour() {
        check(&[], None);
        check(&[(0, 0)], None);
        check(&[(0, 0), (59, 100)], None);
        check(&[(0, 0), (60, 100)], Some(600));
        check(&[(0, 500), (100, 500)], None);
        check(&[(0, 500), (100, 400)], None);
        // Samples closer than fifteen seconds to the one before are left out.
        check(&[(0, 0), (60, 100), (70, 1000)], Some(600));
        // Growth more than an hour ago does not count.
        check(&[(0, 0), (100, 1000), (3800, 1000)], None);
        check(&[(0, 0), (300, 100), (3700, 200)], Some(34_000));
        // A clock that is set back discards the earlier samples.
        check(&[(1000, 0), (1060, 100), (10, 100), (100, 190)], Some(1000));
    }
}
