//! Patterns of addresses that need no signature (`RemoteAddressStrategyFactory`).

use std::net::IpAddr;
use std::ops::RangeInclusive;

/// The addresses that a white list names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WhiteList {
    /// Every address.
    Everybody,
    /// The listed addresses. No address for a blank text.
    These(Vec<IpAddr>),
    /// Addresses of which every part, of four or of eight, is in its range.
    Parts(Vec<RangeInclusive<u16>>),
}

impl WhiteList {
    /// Parses `*`, an address, a list with commas, a list in braces as the last part, or ranges and `*` for parts.
    ///
    /// RocketMQ ignores the text behind the first range (`10.1-5.3.4` there lets in all of `10.1-5.*.*`). Every part
    /// counts here, so a white list never lets in more addresses than its text names.
    ///
    /// # Errors
    /// Description of the text's error.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let bad = || format!("netaddress examine Exception netaddress is {text}");
        let text = text.trim();
        if matches!(text, "*" | "*.*.*.*" | "*:*:*:*:*:*:*:*") {
            return Ok(Self::Everybody);
        }
        let braces = text.strip_suffix('}').and_then(|text| text.split_once('{'));
        if braces.is_none() && !text.contains(',') && text.contains(['*', '-']) {
            return parts(text).map(Self::Parts).ok_or_else(bad);
        }
        let (start, list) = braces.unwrap_or(("", text));
        let list = list.split(',').filter(|last| !last.is_empty());
        let address = |last: &str| format!("{start}{}", last.trim()).trim().parse().ok();
        list.map(|last| address(last).ok_or_else(bad)).collect::<Result<_, _>>().map(Self::These)
    }

    /// Whether these addresses include an address.
    pub(crate) fn contain(&self, caller: IpAddr) -> bool {
        let caller = caller.to_canonical();
        match self {
            Self::Everybody => true,
            Self::These(addresses) => addresses.iter().any(|address| address.to_canonical() == caller),
            Self::Parts(parts) => {
                let found = numbers(caller);
                found.len() == parts.len()
                    && found.iter().zip(parts).all(|(part, range)| range.contains(part))
            }
        }
    }
}

/// Returns the ranges of the four or eight parts of a text, or `None` for other texts. The first numbers of all
/// ranges form an address, and so do the last numbers.
fn parts(text: &str) -> Option<Vec<RangeInclusive<u16>>> {
    let (separator, largest) = match (text.contains(':'), text.contains('.')) {
        (true, false) => (":", "ffff"),
        (false, true) => (".", "255"),
        _ => return None,
    };
    let range = |part| match str::trim(part) {
        "*" => ("0", largest),
        part => part.split_once('-').unwrap_or((part, part)),
    };
    let (first, last): (Vec<_>, Vec<_>) = text.split(separator).map(range).unzip();
    let address = |parts: Vec<&str>| parts.join(separator).parse().ok().map(numbers);
    let ranges = address(first)?.into_iter().zip(address(last)?).map(|(first, last)| first..=last);
    ranges.map(|range| (!range.is_empty()).then_some(range)).collect()
}

/// The four or eight numbers of an address.
fn numbers(address: IpAddr) -> Vec<u16> {
    match address {
        IpAddr::V4(address) => address.octets().map(u16::from).to_vec(),
        IpAddr::V6(address) => address.segments().to_vec(),
    }
}
