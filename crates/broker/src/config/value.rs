//! Parsing and printing of setting values.

use std::fmt::Display;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use wire::settings::{CONTROLLER_PORT, HA_PORT, addresses, name_servers};

use super::space::{bytes, show_bytes};

/// Reason why a value is rejected.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The text is not a value of the setting's type. Holds the description of a valid value.
    Invalid(String),
    /// The number is above its upper bound. Holds the bound, and the description of a valid value.
    Above(String, String),
    /// The value cannot work and must not be ignored. Holds the reason and advice.
    Refused(String),
}

/// Parses a number within bounds. A number below them may be a word of RocketMQ's for "none" or "any", which the lower bound is not.
pub(super) fn number<T: TryFrom<i64>>(text: &str, bounds: RangeInclusive<i64>) -> Result<T, Fault> {
    let expected = || format!("a number of {} to {}", bounds.start(), bounds.end());
    let value = text.parse::<i128>().map_err(|_| Fault::Invalid(expected()))?;
    if value < i128::from(*bounds.start()) {
        return Err(Fault::Invalid(expected()));
    }
    if value > i128::from(*bounds.end()) {
        return Err(Fault::Above(bounds.end().to_string(), expected()));
    }
    let value = i64::try_from(value).ok().and_then(|value| T::try_from(value).ok());
    value.ok_or_else(|| Fault::Invalid(expected()))
}

/// Parses a number that means another thing than its neighbours, such as a port: the upper bound is no replacement.
pub(super) fn exact<T: TryFrom<i64>>(text: &str, bounds: RangeInclusive<i64>) -> Result<T, Fault> {
    number(text, bounds).map_err(|fault| match fault {
        Fault::Above(_, expected) => Fault::Invalid(expected),
        fault => fault,
    })
}

/// Parses a switch.
pub(super) fn flag(text: &str) -> Result<bool, Fault> {
    wire::settings::switch(text).ok_or_else(|| Fault::Invalid("true or false".to_owned()))
}

/// Whether a text means a default: the default itself in any case, or a word for off where the default is `false`.
pub(super) fn is_same(default: &str, text: &str) -> bool {
    let is_off = default == "false" && !text.is_empty() && wire::settings::switch(text) == Some(false);
    is_off || text.eq_ignore_ascii_case(default)
}

/// Parses addresses of controllers, separated by `;`.
pub(super) fn controllers(text: &str) -> Result<String, Fault> {
    addresses(text, CONTROLLER_PORT).map_err(Fault::Refused)
}

/// Parses the replication address of a master, which may be left out.
pub(super) fn one_address(text: &str) -> Result<String, Fault> {
    let address = addresses(text, HA_PORT).map_err(Fault::Refused)?;
    match address.contains(';') {
        true => Err(Fault::Refused("expected one address, host:port, as 10.0.0.1:10912".to_owned())),
        false => Ok(address),
    }
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
        Fault::Invalid(expected) | Fault::Above(_, expected) => {
            Fault::Refused(format!("expected {expected}; what is acknowledged depends on it"))
        }
        refused => refused,
    })
}

/// Parses a word of a list.
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

/// Parses the trusted proxies. A wrong value stops the start, because no default may decide about trust.
pub(super) fn proxies(text: &str) -> Result<net::TrustedProxies, Fault> {
    text.parse().map_err(|error: net::NoNetwork| Fault::Refused(error.to_string()))
}

/// Parses a number of bytes in memory.
pub(super) fn size(text: &str) -> Result<usize, Fault> {
    bytes(text).map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
}

/// The text of a number of bytes in memory.
pub(super) fn show_size(bytes: &usize) -> String {
    show_bytes(&(*bytes as u64))
}

/// Parses an address, taking the brackets off an IPv6 address, or the name of a machine.
pub(super) fn host(text: &str) -> Result<String, Fault> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    match bare.parse::<IpAddr>() {
        Ok(ip) => Ok(ip.to_string()),
        Err(_) if wire::settings::is_host(bare) => Ok(bare.to_owned()),
        Err(_) => Err(Fault::Refused("expected an IP address or the name of a machine".to_owned())),
    }
}

/// Parses the path of a directory.
pub(super) fn directory(text: &str) -> Result<PathBuf, Fault> {
    match text {
        "" => Err(Fault::Invalid("a directory".to_owned())),
        text if text.contains(',') => {
            Err(Fault::Refused("the store lies in one directory here; name one without a comma".to_owned()))
        }
        text => Ok(PathBuf::from(text)),
    }
}

/// Parses an optional address or host name.
pub(super) fn optional_host(text: &str) -> Result<String, Fault> {
    if text.is_empty() { Ok(String::new()) } else { host(text) }
}

/// Parses addresses of servers; none of them are no value.
pub(super) fn optional_addresses(text: &str) -> Result<Option<String>, Fault> {
    let addresses = name_servers(text).map_err(Fault::Refused)?;
    Ok(Some(addresses).filter(|addresses| !addresses.is_empty()))
}

/// The text of a value that may be none.
pub(super) fn show_optional(value: &Option<String>) -> String {
    value.clone().unwrap_or_default()
}

/// The milliseconds of a duration as text.
pub(super) fn show_milliseconds(value: &Duration) -> String {
    show(value.as_millis())
}

/// The word for a value.
pub(super) fn show_one_of<T: PartialEq + Copy>(value: T, words: &[(&str, T)]) -> String {
    words.iter().find(|(_, known)| *known == value).map(|(word, _)| (*word).to_owned()).unwrap_or_default()
}
