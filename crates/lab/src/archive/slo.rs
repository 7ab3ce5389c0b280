//! The latency and errors a user asks for: `e2e.p99<50ms,errors=0`.

use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// Limits that the user asks for, in addition to the guards that always apply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Slo {
    /// Largest 99th percentile of the time from send to consumption, microseconds.
    pub end_to_end_p99_us: Option<u64>,
    /// Largest 99th percentile of the send latency, microseconds.
    pub send_p99_us: Option<u64>,
    /// Most failed requests, and most refused requests.
    pub errors_max: u64,
}

impl FromStr for Slo {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut slo = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let known = "expected send.p99<TIME, e2e.p99<TIME or errors=COUNT";
            let (name, value) = part.split_once(['<', '=']).ok_or_else(|| format!("`{part}`: {known}"))?;
            let value = value.trim_start_matches('=').trim();
            match name.trim() {
                "e2e.p99" => slo.end_to_end_p99_us = Some(micros(value)?),
                "send.p99" | "p99" => slo.send_p99_us = Some(micros(value)?),
                "errors" => {
                    slo.errors_max = value.parse().map_err(|_| format!("errors={value}: expected a count"))?
                }
                other => return Err(format!("`{other}`: {known}")),
            }
        }
        Ok(slo)
    }
}

/// Parses a time such as `50ms`, `800us` or `1.5s` into microseconds.
fn micros(text: &str) -> Result<u64, String> {
    let unit_at = text.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let scale = match unit {
        "us" => 1.0,
        "ms" => 1_000.0,
        "s" => 1_000_000.0,
        _ => return Err(format!("`{text}`: expected a time with its unit, such as 50ms, 800us or 1.5s")),
    };
    let number: f64 =
        number.trim().parse().map_err(|_| format!("`{text}`: expected a number before `{unit}`"))?;
    if number > 0.0 { Ok((number * scale) as u64) } else { Err(format!("`{text}`: expected more than 0")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slos_are_read() {
        let check = |text: &str, e2e: Option<u64>, send: Option<u64>, errors: u64| {
            let expected = Slo { end_to_end_p99_us: e2e, send_p99_us: send, errors_max: errors };
            assert_eq!(text.parse::<Slo>(), Ok(expected), "{text}");
        };
        check("e2e.p99<50ms,errors=0", Some(50_000), None, 0);
        check("send.p99<=1.5s, errors=3", None, Some(1_500_000), 3);
        check("", None, None, 0);
    }

    #[test]
    fn what_is_not_an_slo_is_refused() {
        for text in ["e2e.p99", "e2e.p99<50", "e2e.p99<-1ms", "p50<1ms", "errors=x"] {
            assert!(text.parse::<Slo>().is_err(), "{text}");
        }
    }
}
