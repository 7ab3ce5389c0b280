//! Parsing and printing of setting values.

use std::net::IpAddr;
use std::path::PathBuf;

use wire::settings::{CONTROLLER_PORT, Codec, Fault, HA_PORT, addresses, name_servers};

/// Longest interval that a setting may have: a day in milliseconds.
pub(super) const DAY_MS: i64 = 86_400_000;

/// Largest number of Java's `int`.
pub(super) const INT_MAX: i64 = i32::MAX as i64;

/// Smallest number of Java's `int`.
pub(super) const INT_MIN: i64 = i32::MIN as i64;

/// Bytes of a queue unit.
const UNIT_BYTES: i64 = 20;

/// Units of a number of bytes.
const UNITS: [(char, u64); 4] = [('k', 1 << 10), ('m', 1 << 20), ('g', 1 << 30), ('t', 1 << 40)];

/// Parses a number of bytes of a queue's index into units.
pub(super) fn scan_units(text: &str) -> Result<i64, Fault> {
    let bytes: i64 = (UNIT_BYTES..=INT_MAX).read(text)?;
    Ok(bytes / UNIT_BYTES)
}

/// The bytes of units of a queue's index.
pub(super) fn show_scan_units(units: &i64) -> String {
    (units * UNIT_BYTES).to_string()
}

/// Codec that lets a wrong value stop the start instead of being reported, because a promise depends on the setting.
pub(super) struct Must<C>(pub C);

impl<T, C: Codec<T>> Codec<T> for Must<C> {
    fn read(&self, text: &str) -> Result<T, Fault> {
        self.0.read(text).map_err(|fault| match fault {
            Fault::Invalid(expected) | Fault::Above(_, expected) => {
                Fault::Refused(format!("expected {expected}; what is acknowledged depends on it"))
            }
            refused => refused,
        })
    }

    fn show(&self, value: &T) -> String {
        self.0.show(value)
    }
}

/// Whether the value of a setting is a secret, which may have any letters and is never printed.
pub(super) fn is_secret(key: &str) -> bool {
    ["initAuthenticationUser", "innerClientAuthenticationCredentials", "metricsGrpcExporterHeader"]
        .contains(&key)
}

/// Whether a text means a default: the default itself in any case, or a word for off where the default is `false`.
pub(super) fn is_same(default: &str, text: &str) -> bool {
    let is_off = default == "false" && !text.is_empty() && wire::settings::switch(text) == Some(false);
    is_off || text.eq_ignore_ascii_case(default)
}

/// Parses addresses of controllers, separated by `;`.
pub(super) fn controller_addresses(text: &str) -> Result<String, Fault> {
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

/// Parses the trusted proxies. A wrong value stops the start, because no default may decide about trust.
pub(super) fn proxies(text: &str) -> Result<net::TrustedProxies, Fault> {
    text.parse().map_err(|error: net::AddressListError| Fault::Refused(error.to_string()))
}

/// Parses a number of bytes, with an optional unit: k, m, g or t.
pub(super) fn bytes(text: &str) -> Result<u64, Fault> {
    let lower = text.to_ascii_lowercase();
    let (digits, factor) = UNITS
        .iter()
        .find_map(|(unit, factor)| Some((lower.strip_suffix(*unit)?, *factor)))
        .unwrap_or((lower.as_str(), 1));
    let value = digits.parse::<u64>().ok().and_then(|value| value.checked_mul(factor));
    value.ok_or_else(|| Fault::Invalid("a number of bytes such as 1073741824, 500m or 20g".to_owned()))
}

/// The bytes in the largest unit that divides them.
pub(super) fn show_bytes(bytes: &u64) -> String {
    let unit = UNITS.iter().rev().find(|(_, factor)| *bytes > 0 && bytes.is_multiple_of(*factor));
    unit.map_or_else(|| bytes.to_string(), |(unit, factor)| format!("{}{unit}", bytes / factor))
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

/// Parses addresses of servers. `None` without addresses.
pub(super) fn optional_addresses(text: &str) -> Result<Option<String>, Fault> {
    let addresses = name_servers(text).map_err(Fault::Refused)?;
    Ok(Some(addresses).filter(|addresses| !addresses.is_empty()))
}

/// The text of an optional value. Empty without a value.
pub(super) fn show_optional(value: &Option<String>) -> String {
    value.clone().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, expected) in
            [("0", 0), ("17", 17), ("2k", 2048), ("500M", 500 << 20), ("20g", 20 << 30), ("1T", 1 << 40)]
        {
            assert_eq!(bytes(text), Ok(expected), "{text}");
            assert_eq!(bytes(&show_bytes(&expected)), Ok(expected), "{text}");
        }
        for text in ["", "g", "-1", "1.5g", "20gb", "99999999999t", "1 g"] {
            assert!(bytes(text).is_err(), "{text}");
        }
        assert_eq!((show_bytes(&(20 << 30)).as_str(), show_bytes(&1500).as_str()), ("20g", "1500"));
    }
}
