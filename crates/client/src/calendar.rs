//! Calendar dates in UTC, for message ids and printed lines.

use jiff::Timestamp;
use jiff::tz::Offset;

const DAY_MS: u64 = 86_400_000;

/// Formats milliseconds since 1970 in UTC by a pattern of `strftime`, such as `%Y-%m-%dT%H:%M:%SZ`.
pub fn utc(epoch_ms: u64, pattern: &str) -> String {
    timestamp(epoch_ms).strftime(pattern).to_string()
}

/// Milliseconds since the month began: the variable part of a unique key (`MessageClientIDSetter`).
pub fn month_ms(epoch_ms: u64) -> u32 {
    let days = Offset::UTC.to_datetime(timestamp(epoch_ms)).day() - 1;
    let ms = u64::from(days.unsigned_abs()) * DAY_MS + epoch_ms % DAY_MS;
    u32::try_from(ms).expect("a month has less than 2^32 milliseconds")
}

/// Converts milliseconds since 1970. A time after the year 9999 becomes the start of 1970.
fn timestamp(epoch_ms: u64) -> Timestamp {
    let time = i64::try_from(epoch_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    time.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_begin_at_zero() {
        assert_eq!(month_ms(1_704_067_200_005), 5);
        assert_eq!(month_ms(1_709_251_199_999), 29 * 86_400_000 - 1);
    }

    #[test]
    fn times_are_written_as_dates() {
        let check = |ms, expected: &str| assert_eq!(utc(ms, "%Y-%m-%d %H:%M:%S.%3fZ"), expected);
        check(0, "1970-01-01 00:00:00.000Z");
        check(951_782_400_000, "2000-02-29 00:00:00.000Z");
        check(1_709_251_199_999, "2024-02-29 23:59:59.999Z");
        check(1_735_689_600_001, "2025-01-01 00:00:00.001Z");
        check(u64::MAX, "1970-01-01 00:00:00.000Z");
    }
}
