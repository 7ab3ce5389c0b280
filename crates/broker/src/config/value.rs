//! Parsing and printing of setting values.

use std::fmt::Display;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Why a value is not taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The text is not a value of the setting's type; holds what would be.
    Invalid(String),
    /// The value cannot be served and must not be ignored; holds why, and what to do instead.
    Refused(String),
}

/// Parses a number within bounds.
pub(super) fn number<T: TryFrom<i64>>(text: &str, bounds: RangeInclusive<i64>) -> Result<T, Fault> {
    let value = text.parse::<i64>().ok().filter(|value| bounds.contains(value));
    value
        .and_then(|value| T::try_from(value).ok())
        .ok_or_else(|| Fault::Invalid(format!("a number of {} to {}", bounds.start(), bounds.end())))
}

/// Java's `Boolean.parseBoolean`: anything but `true` is false.
pub(super) fn flag(text: &str) -> Result<bool, Fault> {
    Ok(text.eq_ignore_ascii_case("true"))
}

/// Parses a text that must not be empty.
pub(super) fn name(text: &str) -> Result<String, Fault> {
    if text.is_empty() { Err(Fault::Invalid("a name".to_owned())) } else { Ok(text.to_owned()) }
}

/// Parses the name of a topic.
pub(super) fn topic(text: &str) -> Result<String, Fault> {
    match crate::names::check_topic(text) {
        Ok(()) => Ok(text.to_owned()),
        Err(_) => Err(Fault::Invalid("the name of a topic".to_owned())),
    }
}

/// Parses an IP address.
pub(super) fn address(text: &str) -> Result<IpAddr, Fault> {
    text.parse().map_err(|_| Fault::Refused("expected an IP address, as 192.168.1.10".to_owned()))
}

/// Makes a wrong value stop the start instead of being reported, because a promise depends on the setting.
pub(super) fn must<T>(value: Result<T, Fault>) -> Result<T, Fault> {
    value.map_err(|fault| match fault {
        Fault::Invalid(expected) => {
            Fault::Refused(format!("expected {expected}; what is acknowledged depends on it"))
        }
        refused => refused,
    })
}

/// Parses one of some words.
pub(super) fn one_of<T: Copy>(text: &str, words: &[(&str, T)]) -> Result<T, Fault> {
    words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value).ok_or_else(|| {
        let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        Fault::Invalid(words.join(" or "))
    })
}

/// Parses a number of milliseconds within bounds.
pub(super) fn milliseconds(text: &str, bounds: RangeInclusive<i64>) -> Result<Duration, Fault> {
    number(text, bounds).map(Duration::from_millis)
}

/// The text of a value.
pub(super) fn show(value: impl Display) -> String {
    value.to_string()
}
