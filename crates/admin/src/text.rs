//! Text as `mqadmin` and `vostok admin` print it: times, versions, permissions, indented JSON.

mod table;

pub(crate) use table::Table;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use std::ops::RangeInclusive;
use std::sync::LazyLock;
use wire::body::{PERM_INHERIT, PERM_READ, PERM_WRITE};

/// The time zone of this process, found as by Java: the zone of `TZ`, otherwise of the machine.
static LOCAL: LazyLock<TimeZone> = LazyLock::new(TimeZone::system);

/// Milliseconds since 1970 as a date and a time of day in a zone; 1970 where they are beyond all dates.
fn in_zone(ms: i64, zone: &TimeZone) -> DateTime {
    zone.to_datetime(Timestamp::from_millisecond(ms).unwrap_or_default())
}

/// A time in UTC as in ISO 8601; empty for times before 1970 and for 0, which servers write where there is none.
pub fn time(ms: i64) -> String {
    if ms <= 0 {
        return String::new();
    }
    in_zone(ms, &TimeZone::UTC).strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}

/// A local time as `UtilAll.timeMillisToHumanString2` writes it, with milliseconds after a comma.
pub(crate) fn time_to_ms(ms: i64) -> String {
    time_to_ms_in(ms, &LOCAL)
}

fn time_to_ms_in(ms: i64, zone: &TimeZone) -> String {
    in_zone(ms, zone).strftime("%Y-%m-%d %H:%M:%S,%3f").to_string()
}

/// A local time to the second.
pub(crate) fn time_to_second(ms: i64) -> String {
    time_to_second_in(ms, &LOCAL)
}

/// A time in a zone to the second.
pub(crate) fn time_to_second_in(ms: i64, zone: &TimeZone) -> String {
    in_zone(ms, zone).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// Times in seconds from 2001 to 2286, which are no plausible milliseconds.
const SECONDS: RangeInclusive<i64> = 1_000_000_000..=9_999_999_999;

/// Forms of times that operations take.
pub(crate) const TIME_HELP: &str = "Times: now, -1h (s, m, h or d), 2026-11-29 06:00:00 in local time (TZ), 2026-11-29T06:00:00Z or +08:00, \
    2026-11-29#06:00:00:000, or milliseconds since 1970";

/// Reads a time: milliseconds since 1970, a date and a time of day as in ISO 8601 (in local time without an offset), or
/// `yyyy-MM-dd#HH:mm:ss:SSS` in local time as in RocketMQ's tools. `None` for another text.
pub fn parse_time(text: &str) -> Option<i64> {
    parse_time_in(text, &LOCAL)
}

/// Reads a time that may be relative: `now`, `-90m`, `+1d`, or a form of [`parse_time`].
pub(crate) fn parse_time_at(text: &str, now_ms: i64) -> Option<i64> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("now") {
        return Some(now_ms);
    }
    let time_ms = match relative(text) {
        Some(ms) => now_ms.checked_add(ms).filter(|ms| *ms >= 0),
        None => parse_time(text),
    };
    // A time in seconds would be read as one of January 1970, from which a reset repeats all messages.
    time_ms.filter(|ms| !SECONDS.contains(ms))
}

/// Milliseconds of a signed span with a unit: `-1h`.
fn relative(text: &str) -> Option<i64> {
    let unit = match text.chars().last()? {
        's' => 1000,
        'm' => 60_000,
        'h' => 3_600_000,
        'd' => 86_400_000,
        _ => return None,
    };
    let number = &text[..text.len() - 1];
    let is_signed = number.starts_with(['-', '+']);
    number.parse::<i64>().ok().filter(|_| is_signed)?.checked_mul(unit)
}

fn parse_time_in(text: &str, local: &TimeZone) -> Option<i64> {
    let text = text.trim();
    if let Ok(ms) = text.parse() {
        return Some(ms);
    }
    // RocketMQ's tools take milliseconds after a colon, and print them after a comma.
    let iso = match text.split_once('#') {
        Some((date, time)) => match time.split([':', '#', '.', ',']).collect::<Vec<_>>()[..] {
            [hour, minute, second, milli] => format!("{date}T{hour}:{minute}:{second}.{milli}"),
            _ => format!("{date}T{time}"),
        },
        None => text.replace(',', "."),
    };
    let time: Timestamp = match iso.parse() {
        Ok(time) => time,
        Err(_) => local.to_timestamp(iso.parse::<DateTime>().ok()?).ok()?,
    };
    Some(time.as_millisecond()).filter(|ms| *ms >= 0)
}

/// A span of time in its largest unit.
pub(crate) fn span(seconds: i64) -> String {
    match seconds {
        ..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Permission bits as `PermName.perm2String` writes them, for example `RW-`.
pub(crate) fn permission(perm: i32) -> String {
    let bits = [(PERM_READ, 'R'), (PERM_WRITE, 'W'), (PERM_INHERIT, 'X')];
    bits.iter().map(|(bit, letter)| if perm & bit == 0 { '-' } else { *letter }).collect()
}

pub(crate) use wire::codes::version_name as version;

/// JSON indented with tabs, as fastjson writes it with `PrettyFormat`. Empty objects and lists stay on one line.
pub(crate) fn indented(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let (mut depth, mut is_text, mut is_escaped) = (0_usize, false, false);
    let mut letters = json.chars().peekable();
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n('\t', depth));
    };
    while let Some(letter) = letters.next() {
        if is_text {
            out.push(letter);
            is_text = is_escaped || letter != '"';
            is_escaped = letter == '\\' && !is_escaped;
            continue;
        }
        match letter {
            '{' | '[' => {
                out.push(letter);
                match letters.next_if(|next| matches!(next, '}' | ']')) {
                    Some(end) => out.push(end),
                    None => {
                        depth += 1;
                        line(&mut out, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(letter);
            }
            ',' => {
                out.push(letter);
                line(&mut out, depth);
            }
            letter => {
                is_text = letter == '"';
                out.push(letter);
            }
        }
    }
    out
}

/// The beginning of a text, at most `length` characters (`UtilAll.frontStringAtLeast`).
pub(crate) fn front(text: &str, length: usize) -> String {
    text.chars().take(length).collect()
}

/// The threads of a dump: a paragraph for each, which begins with name, id and state (`UtilAll.jstack`).
pub fn threads(dump: &str) -> Vec<String> {
    let text = dump.replace("\r\n", "\n");
    text.split("\n\n").map(str::trim).filter(|it| !it.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_versions_and_permissions_are_written_as_in_java() {
        assert_eq!(time(1_700_000_000_123), "2023-11-14T22:13:20.123Z");
        assert_eq!(time(0), "");
        assert_eq!(time(i64::MAX), "1970-01-01T00:00:00.000Z", "no date");
        assert_eq!(time_to_ms_in(1_700_000_000_123, &shanghai()), "2023-11-15 06:13:20,123");
        assert_eq!(time_to_second_in(1_700_000_000_123, &shanghai()), "2023-11-15 06:13:20");
        let versions =
            [(513, "V5_5_0"), (413, "V5_0_0"), (401, "V4_9_4"), (512, "V5_5_0_SNAPSHOT"), (37, "V37")];
        versions.iter().for_each(|(ordinal, name)| assert_eq!(version(*ordinal), *name));
        assert_eq!((permission(6), permission(4), permission(7)), ("RW-".into(), "R--".into(), "RWX".into()));
        assert_eq!(front("broker-a", 6), "broker");
    }

    fn shanghai() -> TimeZone {
        TimeZone::fixed(jiff::tz::offset(8))
    }

    #[test]
    fn times_are_read() {
        let parse_time = |text: &str| parse_time_in(text, &shanghai());
        assert_eq!(parse_time("2023-11-15#06:13:20:123"), Some(1_700_000_000_123));
        assert_eq!(parse_time(&time(1_700_000_000_123)), Some(1_700_000_000_123));
        assert_eq!((parse_time("0"), parse_time("-1")), (Some(0), Some(-1)));
        for same in [
            "2023-11-14T22:13:20Z",
            "2023-11-14T22:13:20.000Z",
            "2023-11-14 22:13:20Z",
            "2023-11-15T06:13:20+08:00",
            "2023-11-14T23:13:20+01:00",
            "2023-11-15T06:13:20",
            " 2023-11-15 06:13:20 ",
            "2023-11-15#06:13:20:000",
            "2023-11-15#06:13:20",
            "2023-11-15#06:13:20#000",
            "2023-11-15 06:13:20,000",
            "1700000000000",
        ] {
            assert_eq!(parse_time(same), Some(1_700_000_000_000), "{same}");
        }
        assert_eq!(parse_time("2023-11-15"), parse_time("2023-11-15 00:00"));
        for wrong in [
            "",
            "yesterday",
            "2023-02-30#00:00:00:000",
            "2023-11-14#25:00:00:000",
            "1960-01-01#00:00:00:000",
            "1h",
        ] {
            assert_eq!(parse_time(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn relative_times_count_from_now() {
        let now_ms = 1_700_000_000_000;
        for (text, seconds) in [("now", 0), ("-90s", -90), ("-15m", -900), ("-1h", -3600), ("+2d", 172_800)] {
            assert_eq!(parse_time_at(text, now_ms), Some(now_ms + seconds * 1000), "{text}");
        }
        assert_eq!(parse_time_at("2023-11-14T22:13:20Z", 5), Some(now_ms));
        for special in [0, -1, now_ms] {
            assert_eq!(parse_time_at(&special.to_string(), now_ms), Some(special));
        }
        for wrong in [
            "1h",
            "-h",
            "-",
            "--1h",
            "-1w",
            "-30000d",
            "-99999999999999999d",
            "nowish",
            "-\u{e9}",
            // Seconds.
            "1700000000",
        ] {
            assert_eq!(parse_time_at(wrong, now_ms), None, "{wrong}");
        }
    }

    #[test]
    fn json_is_indented_with_tabs() {
        let text = r#"{"a":[],"b":[{"c":"x,{\"}"}],0:1}"#;
        let expected = "{\n\t\"a\":[],\n\t\"b\":[\n\t\t{\n\t\t\t\"c\":\"x,{\\\"}\"\n\t\t}\n\t],\n\t0:1\n}";
        assert_eq!(indented(text), expected);
    }
}
