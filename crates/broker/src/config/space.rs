//! Parsing and printing of the settings of retention: disk limits, hours, lists of directories.

use std::path::PathBuf;

use store::{FlushMode, UnconsumedPolicy, UsageLimit};
use wire::settings::{Codec, Fault};

use super::value::{INT_MAX, bytes, show_bytes};

/// Parses a disk limit: a percentage in use, brought within Java's bounds (`MessageStoreConfig`), or free bytes with a unit.
pub(super) fn watermark(text: &str, low: u64, high: u64) -> Result<UsageLimit, Fault> {
    if text.ends_with(|last: char| last.is_ascii_alphabetic()) {
        return bytes(text).map(UsageLimit::FreeBytes);
    }
    let percent = text.parse::<i64>().ok().and_then(|percent| u64::try_from(percent).ok());
    let percent = percent.ok_or_else(|| {
        Fault::Invalid(format!("percent in use, {low} to {high}, or free bytes such as 500m or 20g"))
    })?;
    Ok(UsageLimit::Percent(percent.clamp(low, high)))
}

pub(super) fn show_watermark(mark: &UsageLimit) -> String {
    match mark {
        UsageLimit::Percent(percent) => percent.to_string(),
        // Printed with a unit always; without one the number would be read as a percentage.
        UsageLimit::FreeBytes(bytes) if !bytes.is_multiple_of(1 << 10) || *bytes == 0 => {
            let whole = bytes.checked_next_multiple_of(1 << 10).unwrap_or(u64::MAX << 10);
            show_watermark(&UsageLimit::FreeBytes(whole.max(1 << 10)))
        }
        UsageLimit::FreeBytes(bytes) => show_bytes(bytes),
    }
}

/// Parses hours of the day into a bit mask.
pub(super) fn hours(text: &str) -> Result<u32, Fault> {
    let hour = |part: &str| part.trim().parse::<u32>().ok().filter(|hour| *hour < 24).map(|hour| 1 << hour);
    let parts: Option<Vec<u32>> = text.split(';').filter(|part| !part.trim().is_empty()).map(hour).collect();
    let bits =
        parts.filter(|parts| !parts.is_empty()).map(|parts| parts.iter().fold(0, |all, bit| all | bit));
    bits.ok_or_else(|| Fault::Invalid("hours of the day such as 04 or 02;14".to_owned()))
}

pub(super) fn show_hours(bits: &u32) -> String {
    let set = (0..24).filter(|hour| bits >> hour & 1 == 1);
    set.map(|hour| format!("{hour:02}")).collect::<Vec<_>>().join(";")
}

/// Parses a time in hours into milliseconds.
pub(super) fn hours_ms(text: &str) -> Result<i64, Fault> {
    let hours: i64 = (0..=INT_MAX).read(text)?;
    Ok(hours * 3_600_000)
}

pub(super) fn show_hours_ms(ms: &i64) -> String {
    (ms / 3_600_000).to_string()
}

pub(super) const FLUSH_MODES: [(&str, FlushMode); 2] =
    [("ASYNC_FLUSH", FlushMode::Async), ("SYNC_FLUSH", FlushMode::Sync)];

pub(super) const POLICIES: [(&str, UnconsumedPolicy); 3] = [
    ("PROTECT", UnconsumedPolicy::Protect),
    ("DROP", UnconsumedPolicy::Drop),
    ("REJECT", UnconsumedPolicy::Reject),
];

/// Parses directories separated by commas.
pub(super) fn directories(text: &str) -> Result<Vec<PathBuf>, Fault> {
    Ok(text.split(',').map(str::trim).filter(|path| !path.is_empty()).map(PathBuf::from).collect())
}

pub(super) fn show_directories<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> String {
    paths.into_iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(",")
}

/// Refuses more than one broker on a disk (`replicasPerDiskPartition`), because limits count for the whole disk.
pub(super) fn only_broker(text: &str) -> Result<i32, Fault> {
    match text.parse() {
        Ok(count @ ..=1) => Ok(count),
        _ => Err(Fault::Refused(
            "a broker does not know its share of a disk here; limit each one with commitLogRetentionBytes instead"
                .to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_a_disk() {
        use UsageLimit::{FreeBytes, Percent};
        for (text, expected, shown) in [
            ("75", Percent(75), "75"),
            ("5", Percent(10), "10"),
            ("99", Percent(95), "95"),
            ("20g", FreeBytes(20 << 30), "20g"),
            ("1t", FreeBytes(1 << 40), "1t"),
        ] {
            assert_eq!(watermark(text, 10, 95), Ok(expected), "{text}");
            assert_eq!(show_watermark(&expected), shown);
        }
        for text in ["", "-5", "75%", "x", "7.5"] {
            assert!(watermark(text, 10, 95).is_err(), "{text}");
        }
    }

    #[test]
    fn hours_of_the_day() {
        for (text, bits, shown) in [
            ("04", 1 << 4, "04"),
            ("4", 1 << 4, "04"),
            ("02;14", 1 << 2 | 1 << 14, "02;14"),
            ("23;0;", 1 << 23 | 1, "00;23"),
        ] {
            assert_eq!(hours(text), Ok(bits), "{text}");
            assert_eq!(show_hours(&bits), shown);
        }
        for text in ["", ";", "24", "-1", "4,5", "x"] {
            assert!(hours(text).is_err(), "{text}");
        }
    }
}
