//! Values of an answer as cells of a table: figures with units, and whether a value is wrong.

use serde_json::Value;

/// State of a value in the eyes of an operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Level {
    /// No known fault.
    #[default]
    Plain,
    /// Something may become wrong.
    Warning,
    /// Something is wrong.
    Wrong,
}

/// A cell of a table.
#[derive(Clone, Debug, Default)]
pub(super) struct Cell {
    pub text: String,
    pub level: Level,
    /// Whether the cell is aligned to the right.
    pub is_number: bool,
}

/// Names of members that are numbers and no amounts: thousands separators would hinder copying them.
const NAMES_AND_PLACES: [&str; 9] =
    ["offset", "id", "epoch", "code", "flag", "queue", "port", "value", "time"];
/// Lag in seconds that is shown as a warning, and as wrong.
const LAG_SECONDS: [f64; 2] = [60.0, 600.0];
/// Share of a disk in use that is shown as a warning (`diskMaxUsedSpaceRatio`), and as wrong (`diskSpaceCleanForciblyRatio`).
const DISK_RATIO: [f64; 2] = [0.75, 0.85];
/// Bytes behind the master with which a slave is not in sync (`haMaxGapNotInSync`).
const BEHIND_BYTES: [f64; 2] = [268_435_456.0, f64::INFINITY];
/// Beginnings of states that are wrong.
const WRONG_STATES: [&str; 8] =
    ["error", "fail", "not_online", "offline", "broken", "critical", "unknown", "not_consume"];

/// The cell of a member for a reader at a terminal.
pub(super) fn for_people(name: &str, value: &Value) -> Cell {
    let level = level(name, value);
    match value {
        Value::Number(number) => {
            let text = figure(name, number.as_f64().unwrap_or_default(), number.is_f64());
            Cell { text: text.unwrap_or_else(|| number.to_string()), level, is_number: true }
        }
        other => Cell { text: plain(other).replace(char::is_control, " "), level, is_number: false },
    }
}

/// A value on one line, as it is piped to another program.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.replace(['\n', '\r', '\t'], " "),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        Value::Number(number) if number.is_f64() => digits(number.as_f64().unwrap_or_default()),
        other => other.to_string(),
    }
}

/// A number with its unit; `None` for a number that stays as it is.
fn figure(name: &str, number: f64, is_fraction: bool) -> Option<String> {
    let last = name.rsplit('_').next().unwrap_or(name);
    let is_one_of = |words: &[&str]| words.iter().any(|word| last.eq_ignore_ascii_case(word));
    match name {
        "bytes_per_second" => return Some(format!("{}/s", bytes(number))),
        _ if last == "bytes" => return Some(bytes(number)),
        _ if last == "seconds" => return Some(span(number)),
        _ if last == "ms" => return Some(format!("{} ms", separated(&digits(number)))),
        _ if last == "tps" => return Some(format!("{}/s", separated(&digits(number)))),
        _ if last == "hours" => return Some(format!("{} h", separated(&digits(number)))),
        _ if last == "ratio" => return Some(format!("{:.1} %", number * 100.0)),
        _ => {}
    }
    let is_camel = |word: &str| name.ends_with(&format!("{}{}", word[..1].to_uppercase(), &word[1..]));
    let is_amount = !is_one_of(&NAMES_AND_PLACES) && !NAMES_AND_PLACES.into_iter().any(is_camel);
    (is_amount || is_fraction).then(|| separated(&digits(number)))
}

/// A number with all digits of its whole part, and at most three significant digits.
pub(super) fn digits(number: f64) -> String {
    let size = number.abs();
    let places = if size >= 100.0 || size == 0.0 { 0 } else { (2 - size.log10().floor() as i32).clamp(0, 6) };
    let text = format!("{number:.*}", places as usize);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A number with a comma before each third digit of its whole part.
fn separated(digits: &str) -> String {
    let (sign, rest) = digits.strip_prefix('-').map_or(("", digits), |rest| ("-", rest));
    let (whole, fraction) = rest.find('.').map_or((rest, ""), |point| rest.split_at(point));
    let mut out = sign.to_owned();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out + fraction
}

fn bytes(number: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut number, mut unit) = (number, 0);
    while number.abs() >= 1024.0 && unit + 1 < units.len() {
        (number, unit) = (number / 1024.0, unit + 1);
    }
    format!("{} {}", digits(number), units[unit])
}

/// A span of time in its two largest units.
fn span(seconds: f64) -> String {
    let seconds = seconds as i64;
    let [minutes, hours, days] = [60, 3600, 86_400].map(|unit| seconds / unit);
    match seconds {
        ..60 => format!("{seconds}s"),
        60..3600 => format!("{minutes}m {}s", seconds % 60),
        3600..86_400 => format!("{hours}h {}m", minutes % 60),
        _ => format!("{days}d {}h", hours % 24),
    }
}

fn level(name: &str, value: &Value) -> Level {
    let above = |[warning, wrong]: [f64; 2]| match value.as_f64() {
        Some(number) if number >= wrong => Level::Wrong,
        Some(number) if number >= warning => Level::Warning,
        _ => Level::Plain,
    };
    let is_said = match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => true,
    };
    match name {
        "lag_seconds" => above(LAG_SECONDS),
        "disk_ratio" => above(DISK_RATIO),
        "behind_bytes" => above(BEHIND_BYTES),
        "error" | "failures" | "finding" | "tracks_error" if is_said => Level::Wrong,
        "alive" | "in_sync" if value == &Value::Bool(false) => Level::Wrong,
        "state" | "status" | "outcome" | "severity" | "type" | "result" => {
            let state = value.as_str().unwrap_or_default().to_ascii_lowercase();
            match state.as_str() {
                "warning" | "warn" => Level::Warning,
                state if WRONG_STATES.iter().any(|wrong| state.starts_with(wrong)) => Level::Wrong,
                _ => Level::Plain,
            }
        }
        _ => Level::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn figures_have_units_and_sensible_digits() {
        for (name, value, expected) in [
            ("in_tps", json!(1234.5678), "1,235/s"),
            ("consume_tps", json!(0.333_333), "0.333/s"),
            ("behind_bytes", json!(1_610_612_736), "1.5 GiB"),
            ("bytes_per_second", json!(2048), "2 KiB/s"),
            ("lag_seconds", json!(471), "7m 51s"),
            ("lag_seconds", json!(90_000), "1d 1h"),
            ("cost_ms", json!(1234), "1,234 ms"),
            ("disk_ratio", json!(0.4321), "43.2 %"),
            ("hours", json!(72.25), "72.2 h"),
            ("messages", json!(1_234_567), "1,234,567"),
            ("diff", json!(-1234), "-1,234"),
            ("broker_offset", json!(1_234_567), "1234567"),
            ("queueId", json!(1000), "1000"),
            ("epoch", json!(1234), "1234"),
            ("topic", json!("a\nb"), "a b"),
            ("failures", json!(["a", "b"]), "a, b"),
        ] {
            assert_eq!(for_people(name, &value).text, expected, "{name} {value}");
        }
        let piped = [json!(0.5), json!(0.333_333), json!(1_234_567.0), json!(0.0), json!(1_234_567)];
        let expected = ["0.5", "0.333", "1234567", "0", "1234567"];
        assert_eq!(piped.map(|value| plain(&value)), expected);
    }

    #[test]
    fn wrong_values_are_seen() {
        use Level::{Plain, Warning, Wrong};
        for (name, value, expected) in [
            ("lag_seconds", json!(59), Plain),
            ("lag_seconds", json!(61), Warning),
            ("lag_seconds", json!(4000), Wrong),
            ("lag_seconds", json!(null), Plain),
            ("in_sync", json!(false), Wrong),
            ("in_sync", json!(true), Plain),
            ("error", json!("refused"), Wrong),
            ("error", json!(null), Plain),
            ("failures", json!([]), Plain),
            ("type", json!("NOT_ONLINE"), Wrong),
            ("type", json!("PUSH"), Plain),
            ("severity", json!("warning"), Warning),
            ("disk_ratio", json!(0.8), Warning),
        ] {
            assert_eq!(for_people(name, &value).level, expected, "{name} {value}");
        }
    }
}
