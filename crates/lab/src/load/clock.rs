//! The clock of a run: it is read once per wake-up, and every form of the time is derived from that reading.

use crate::runtime::since_epoch;
use client::calendar;
use std::time::Instant;

/// The start of a run, on the monotonic clock and on the wall clock. The wall clock is read only here, so that a step
/// of it does not disturb a run.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    epoch_us: u64,
}

impl Clock {
    /// Starts the clock of a run.
    pub fn start() -> Self {
        Self { start: Instant::now(), epoch_us: since_epoch().as_micros() as u64 }
    }

    /// Makes the clock report wall-clock times of another machine, which is `us` microseconds behind this one.
    pub fn ahead(self, us: i64) -> Self {
        Self { epoch_us: self.epoch_us.saturating_add_signed(-us), ..self }
    }

    /// Nanoseconds since the run began.
    pub fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Milliseconds since 1970 at a time of the run.
    pub fn epoch_ms(&self, now_ns: u64) -> u64 {
        (self.epoch_us + now_ns / 1000) / 1000
    }

    /// Microseconds since 1970 at a time of the run.
    pub fn epoch_us(&self, now_ns: u64) -> u64 {
        self.epoch_us + now_ns / 1000
    }

    /// Milliseconds since the begin of the month at a time of the run.
    pub fn month_ms(&self, now_ns: u64) -> u32 {
        calendar::month_ms(self.epoch_ms(now_ns))
    }
}

/// Formats milliseconds of local time, counted from 1970, as `2024-01-01 00:00:00,000`.
/// `UtilAll.timeMillisToHumanString2` uses the time zone of the machine, so all lines do.
pub fn date_time(epoch_ms: u64) -> String {
    calendar::utc(epoch_ms, "%Y-%m-%d %H:%M:%S,%3f")
}

/// Offset of local time from UTC in milliseconds; 0 when the system has no time zone.
pub fn zone_ms() -> i64 {
    let now = jiff::Timestamp::now();
    i64::from(jiff::tz::TimeZone::system().to_offset(now).seconds()) * 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_printed_as_java_does() {
        assert!(zone_ms().abs() <= 14 * 3_600_000);
        let check = |ms, expected: &str| assert_eq!(date_time(ms), expected);
        check(0, "1970-01-01 00:00:00,000");
        check(1_704_067_200_000, "2024-01-01 00:00:00,000");
        check(1_709_251_199_999, "2024-02-29 23:59:59,999");
    }
}
