//! Time zones of people, by the names that browsers give them.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};

/// Longest name of a time zone.
const NAME_MAX: usize = 64;
/// Length of a time in UTC as [`crate::time`] writes it.
const UTC_LEN: usize = "2026-01-31T12:00:00.000Z".len();

/// A time zone with its name.
#[derive(Clone, Debug)]
pub struct Zone {
    name: String,
    zone: TimeZone,
}

impl Default for Zone {
    fn default() -> Self {
        Self { name: "UTC".to_owned(), zone: TimeZone::UTC }
    }
}

impl Zone {
    /// The zone of a text such as `Asia/Shanghai~480`: its name, and minutes east of UTC that count where this machine does not
    /// know the name. `None` for another text.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, minutes) = text.split_once('~').unwrap_or((text, ""));
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"/_+-".contains(&byte);
        if name.is_empty() || name.len() > NAME_MAX || !name.bytes().all(is_name) {
            return None;
        }
        if name == "UTC" {
            return Some(Self::default());
        }
        let fixed = || {
            let minutes: i32 = minutes.parse().ok().filter(|minutes: &i32| minutes.abs() < 24 * 60)?;
            Some(TimeZone::fixed(Offset::from_seconds(minutes * 60).ok()?))
        };
        let zone = TimeZone::get(name).ok().or_else(fixed)?;
        Some(Self { name: name.to_owned(), zone })
    }

    /// Replaces the times in a text, which are written as by [`crate::time`] in UTC, by times in the zone.
    pub fn localized(&self, text: &str) -> String {
        let (mut out, mut from) = (String::new(), 0);
        for (end, _) in text.match_indices('Z') {
            let begin = (end + 1).checked_sub(UTC_LEN).filter(|begin| *begin >= from);
            let time =
                begin.and_then(|begin| Some((begin, text.get(begin..=end)?.parse::<Timestamp>().ok()?)));
            if let Some((begin, time)) = time {
                out.push_str(&text[from..begin]);
                out.push_str(&self.time(time.as_millisecond()));
                from = end + 1;
            }
        }
        out.push_str(&text[from..]);
        out
    }

    /// Name of the zone.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A time in the zone with milliseconds, as `2026-01-31 12:00:00.000`; empty for 0, which servers write where there is no time.
    pub fn time(&self, ms: i64) -> String {
        if ms <= 0 { String::new() } else { self.civil(ms).strftime("%Y-%m-%d %H:%M:%S.%3f").to_string() }
    }

    /// A time in the zone to the second, as fields of forms take it: `2026-01-31T12:00:00`.
    pub fn field(&self, ms: i64) -> String {
        self.civil(ms).strftime("%Y-%m-%dT%H:%M:%S").to_string()
    }

    /// Milliseconds since 1970 of a time of a form in the zone, with or without seconds; `None` for another text, such as a time
    /// with an offset of its own.
    pub fn read(&self, text: &str) -> Option<i64> {
        // The parser passes over an offset or a zone after the time.
        let (_, clock) = text.split_once('T')?;
        let is_clock = clock.bytes().all(|byte| byte.is_ascii_digit() || b":.".contains(&byte));
        let civil: DateTime = text.parse().ok().filter(|_| is_clock)?;
        Some(self.zone.to_timestamp(civil).ok()?.as_millisecond())
    }

    fn civil(&self, ms: i64) -> DateTime {
        self.zone.to_datetime(Timestamp::from_millisecond(ms).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_written_in_a_zone() {
        let noon_ms = crate::parse_time("2026-01-31T12:00:00.000Z").unwrap();
        // The second name is in no table: its minutes count.
        for text in ["Asia/Shanghai~480", "Mars/Shanghai~480"] {
            let zone = Zone::parse(text).unwrap();
            assert_eq!(zone.time(noon_ms), "2026-01-31 20:00:00.000", "{text}");
            for field in ["2026-01-31T20:00", "2026-01-31T20:00:00", "2026-01-31T20:00:00.000"] {
                assert_eq!(zone.read(field), Some(noon_ms), "{text} {field}");
            }
            assert_eq!(zone.read(&zone.field(noon_ms)), Some(noon_ms));
            let evidence = "ZZ：最后 2026-01-31T12:00:00.000Z, 2026-01-31T20:00:00.000Z of Z";
            let local = "ZZ：最后 2026-01-31 20:00:00.000, 2026-02-01 04:00:00.000 of Z";
            assert_eq!(zone.localized(evidence), local);
        }
        assert_eq!(Zone::default().read("2026-01-31T12:00"), Some(noon_ms));
        for text in [
            "",
            "17",
            "now",
            "2026-01-31",
            "2026-01-31T12:00:00.000Z",
            "2026-01-31T12:00+08:00",
            "2026-01-31T12:00[Asia/Shanghai]",
            "T",
        ] {
            assert_eq!(Zone::default().read(text), None, "{text}");
        }
        for text in ["", "Mars/Shanghai", "Mars/Shanghai~99999", "<b>~1"] {
            assert!(Zone::parse(text).is_none(), "{text}");
        }
    }
}
