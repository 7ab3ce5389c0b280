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
    let (year, month, day) = calendar::civil(epoch_ms / 86_400_000);
    let ms = epoch_ms % 86_400_000;
    let (hours, minutes, seconds) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    format!("{year:04}-{month:02}-{day:02} {hours:02}:{minutes:02}:{seconds:02},{:03}", ms % 1000)
}

/// Offset of local time from UTC in milliseconds, as the system's `date` reports it; 0 when that cannot be run.
pub fn zone_ms() -> i64 {
    let said = std::process::Command::new("date").arg("+%z").output();
    said.ok().and_then(|said| offset_ms(str::from_utf8(&said.stdout).ok()?)).unwrap_or(0)
}

/// Parses an offset such as `+0530` into milliseconds.
fn offset_ms(text: &str) -> Option<i64> {
    let number: i64 = text.trim().parse().ok()?;
    Some((number / 100 * 60 + number % 100) * 60_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_printed_as_java_does() {
        let zones = ["+0000\n", "+0800\n", "-0330\n", "UTC", ""].map(offset_ms);
        assert_eq!(zones, [Some(0), Some(28_800_000), Some(-12_600_000), None, None]);
        assert!(zone_ms().abs() <= 14 * 3_600_000);
        let check = |ms, expected: &str| assert_eq!(date_time(ms), expected);
        check(0, "1970-01-01 00:00:00,000");
        check(1_704_067_200_000, "2024-01-01 00:00:00,000");
        check(1_709_251_199_999, "2024-02-29 23:59:59,999");
    }
}
