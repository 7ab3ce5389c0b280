//! Format of numbers in reports: always with a unit, with a thousands separator, with three significant digits.

use super::{Text, both};
use client::calendar;

/// Writes a count with a thousands separator: `12,346`.
pub fn count(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::with_capacity(digits.len() + digits.len() / 3 + 1);
    if value <= -0.5 {
        text.push('-');
    }
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Writes a number with three significant digits: `0.0123`, `1.23`, `12.3`, `1,234`.
pub fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size < 0.001 => format!("{value:.1e}"),
        size if size < 0.1 => format!("{value:.4}"),
        size if size < 10.0 => format!("{value:.2}"),
        size if size < 100.0 => format!("{value:.1}"),
        _ => count(value),
    }
}

/// Writes a rate in messages per second: `12,346 msg/s`.
pub fn rate(value: f64) -> String {
    format!("{} msg/s", count(value))
}

/// Writes a time given in microseconds, in the unit that reads best: µs, ms or s.
pub fn micros(value: f64) -> String {
    match value {
        value if value < 1_000.0 => format!("{value:.0} µs"),
        value if value < 1_000_000.0 => format!("{} ms", short(value / 1_000.0)),
        _ => format!("{} s", short(value / 1_000_000.0)),
    }
}

/// Writes a number of bytes in decimal units: `93.4 MB`.
pub fn bytes(value: f64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let mut scaled = value;
    let mut unit = 0;
    while scaled.abs() >= 1_000.0 && unit + 1 < UNITS.len() {
        scaled /= 1_000.0;
        unit += 1;
    }
    if unit == 0 { format!("{scaled:.0} B") } else { format!("{} {}", short(scaled), UNITS[unit]) }
}

/// Writes a size in bytes as the flags accept it: `1k`, `10k`, `1m`, `100`.
pub fn size(bytes: u64) -> String {
    match bytes {
        0 => "0".to_owned(),
        bytes if bytes.is_multiple_of(1 << 20) => format!("{}m", bytes >> 20),
        bytes if bytes.is_multiple_of(1 << 10) => format!("{}k", bytes >> 10),
        bytes => bytes.to_string(),
    }
}

/// Writes a share as percent: `12.3 %`.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent.abs() >= 100.0 { format!("{} %", count(percent)) } else { format!("{percent:.1} %") }
}

/// Writes a relative change as percent with its sign: `+12.3 %`.
pub fn change(share: f64) -> String {
    format!("{:+.1} %", share * 100.0)
}

/// Writes a time given in milliseconds since 1970: `2026-11-29 15:33:50 UTC`.
pub fn utc(epoch_ms: u64) -> String {
    calendar::utc(epoch_ms, "%Y-%m-%d %H:%M:%S UTC")
}

/// Writes a time given in milliseconds since 1970 by ISO 8601: `2026-11-29T15:33:50Z`.
pub fn iso(epoch_ms: u64) -> String {
    calendar::utc(epoch_ms, "%Y-%m-%dT%H:%M:%SZ")
}

/// Writes the day of a time given in milliseconds since 1970: `2026-11-29`.
pub fn day(epoch_ms: u64) -> String {
    calendar::utc(epoch_ms, "%Y-%m-%d")
}

/// Writes a length of time in the unit that reads best.
pub fn span(seconds: f64) -> Text {
    match seconds {
        seconds if seconds < 120.0 => both!("numbers.count-s", seconds),
        seconds if seconds < 7_200.0 => both!("numbers.count-min", minutes = seconds / 60.0),
        seconds => both!("numbers.count-h", hours = seconds / 3_600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        let check = |given: String, expected: &str| assert_eq!(given, expected);
        check(count(1_234_567.4), "1,234,567");
        check(count(-1_234.0), "-1,234");
        check(count(12.0), "12");
        check(short(0.012_34), "0.0123");
        check(short(2.346), "2.35");
        check(micros(741.0), "741 µs");
        check(micros(1_349.0), "1.35 ms");
        check(micros(2_249_820.0), "2.25 s");
        check(bytes(93_412_000.0), "93.4 MB");
        check(size(1024), "1k");
        check(size(1_048_576), "1m");
        check(size(500), "500");
        check(percent(0.123), "12.3 %");
        check(change(-0.05), "-5.0 %");
        check(utc(1_795_966_430_123), "2026-11-29 15:33:50 UTC");
        check(iso(1_795_966_430_123), "2026-11-29T15:33:50Z");
        check(day(1_709_251_199_999), "2024-02-29");
        check(span(90.0).en, "90 s");
        check(span(720.0).en, "12.0 min");
        check(span(14_400.0).zh, "4.00 小时");
    }
}
