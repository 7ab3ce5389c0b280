//! Origins of requests, and the addresses and ranges for which an entry of a policy counts (`Environment`).

use std::fmt;
use std::net::IpAddr;

/// An address or a range of addresses of one family.
///
/// Java compares ranges as plain numbers (`IPAddressUtils.isIPInRange`), so that `0.0.0.0/1` there matches
/// the address `::1`. Here a range matches addresses of its own family only. An IPv6 address that maps an
/// IPv4 address (`::ffff:10.0.0.1`) counts as the IPv4 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    address: IpAddr,
    /// Number of leading bits that count. `None` for a single address.
    bits: Option<u8>,
}

impl Source {
    /// Parses an address or a range such as `10.0.0.0/8`; `None` when the text is neither.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let Some((address, bits)) = text.split_once('/') else {
            return Some(Self { address: text.parse().ok()?, bits: None });
        };
        let address: IpAddr = address.parse().ok()?;
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.parse().ok().filter(|found| *found <= bits_max && !bits.starts_with('+'))?;
        Some(Self { address, bits: Some(bits) })
    }

    /// Whether `caller` is this address or in this range.
    pub(crate) fn matches(&self, caller: IpAddr) -> bool {
        let caller = caller.to_canonical();
        let Some(bits) = self.bits else { return self.address.to_canonical() == caller };
        let equal_bits = match (self.address, caller) {
            (IpAddr::V4(range), IpAddr::V4(caller)) => (range.to_bits() ^ caller.to_bits()).leading_zeros(),
            (IpAddr::V6(range), IpAddr::V6(caller)) => (range.to_bits() ^ caller.to_bits()).leading_zeros(),
            _ => return false,
        };
        equal_bits >= u32::from(bits)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bits {
            Some(bits) => write!(f, "{}/{bits}", self.address),
            None => write!(f, "{}", self.address),
        }
    }
}
