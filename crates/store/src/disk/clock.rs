//! The local time of day in the system's time zone (`TZ`, else `/etc/localtime`), from the same zone files as Java.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// Hour of the day, 0 to 23, in the time zone of this machine.
pub fn local_hour(now_ms: i64) -> u8 {
    local_time(now_ms).hour().unsigned_abs()
}

/// Returns the local time as a number, `yyyyMMddHHmmssSSS`, or zero for a time before the year 0.
pub(crate) fn local_digits(now_ms: i64) -> u64 {
    local_time(now_ms).strftime("%Y%m%d%H%M%S%3f").to_string().parse().unwrap_or(0)
}

fn local_time(now_ms: i64) -> DateTime {
    TimeZone::system().to_datetime(Timestamp::from_millisecond(now_ms).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::{local_digits, local_hour};

    /// Compares with the output of the system's `date`.
    #[test]
    fn the_hour_is_the_one_the_system_shows() {
        for seconds in [0, 1_700_000_000, 1_719_800_000, 1_795_171_285] {
            let date = std::process::Command::new("date")
                .args([&format!("-d@{seconds}"), "+%H %Y%m%d%H%M%S"])
                .output()
                .unwrap();
            let date = String::from_utf8(date.stdout).unwrap();
            let (hour, digits) = date.trim().split_once(' ').unwrap();
            assert_eq!(local_hour(seconds * 1000 + 999), hour.parse::<u8>().unwrap(), "{seconds}");
            assert_eq!(local_digits(seconds * 1000 + 7).to_string(), format!("{digits}007"), "{seconds}");
        }
    }
}
