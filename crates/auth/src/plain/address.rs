//! Patterns of addresses that need no signature (`RemoteAddressStrategyFactory`).

use std::net::IpAddr;
use std::ops::RangeInclusive;

/// The addresses that a white list names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Addresses {
    /// Every address.
    Everybody,
    /// These addresses; none when the text was blank.
    These(Vec<IpAddr>),
    /// Addresses of which every part, of four or of eight, is in its range.
    Parts(Vec<RangeInclusive<u16>>),
}

impl Addresses {
    /// Parses `*`, an address, a list with commas, a list in braces as the last part, or ranges and `*` for parts.
    ///
    /// Where RocketMQ ignores what follows the first range (`10.1-5.3.4` there lets in all of `10.1-5.*.*`), every part counts
    /// here: a white list never lets in more than it says.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let bad = || format!("netaddress examine Exception netaddress is {text}");
        let address = |text: &str| text.trim().parse::<IpAddr>().map_err(|_| bad());
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
        list.map(|last| address(&format!("{start}{}", last.trim())))
            .collect::<Result<_, _>>()
            .map(Self::These)
    }

    /// Whether an address is one of these.
    pub(crate) fn contain(&self, caller: IpAddr) -> bool {
        let caller = caller.to_canonical();
        match self {
            Self::Everybody => true,
            Self::These(addresses) => addresses.iter().any(|address| address.to_canonical() == caller),
            Self::Parts(parts) => {
                let found: Vec<u16> = match caller {
                    IpAddr::V4(caller) => caller.octets().into_iter().map(u16::from).collect(),
                    IpAddr::V6(caller) => caller.segments().to_vec(),
                };
                found.len() == parts.len()
                    && found.iter().zip(parts).all(|(part, range)| range.contains(part))
            }
        }
    }
}

/// The ranges of the four or eight parts of a text; `None` when it is not made of such parts.
fn parts(text: &str) -> Option<Vec<RangeInclusive<u16>>> {
    if !text.contains(':') {
        let parts: Vec<_> = text.split('.').map(|part| range(part, 10, 255)).collect::<Option<_>>()?;
        return (parts.len() == 4).then_some(parts);
    }
    let groups = |text: &str| -> Option<Vec<_>> {
        let parts = text.split(':').filter(|_| !text.is_empty());
        parts.map(|part| range(part, 16, u16::MAX)).collect()
    };
    let Some((start, end)) = text.split_once("::") else {
        return groups(text).filter(|groups| groups.len() == 8);
    };
    let (mut start, end) = (groups(start)?, groups(end)?);
    let missing = 8_usize.checked_sub(start.len() + end.len()).filter(|missing| *missing > 0)?;
    start.extend(std::iter::repeat_n(0..=0, missing));
    start.extend(end);
    Some(start)
}

fn range(part: &str, radix: u32, max: u16) -> Option<RangeInclusive<u16>> {
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.chars().all(|digit| digit.is_digit(radix));
        u16::from_str_radix(text, radix).ok().filter(|number| is_number && *number <= max)
    };
    match part.trim() {
        "*" => Some(0..=max),
        part => match part.split_once('-') {
            None => number(part).map(|number| number..=number),
            Some((first, last)) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(first..=last)
            }
        },
    }
}
