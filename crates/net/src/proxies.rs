//! Proxies whose PROXY preambles are accepted. A preamble contains the address of the client that a proxy forwards.
//! From other hosts it would fake an address in records, client lists and logs.

use std::fmt::{self, Display};
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use wire::settings::Setting;

/// The property that names these proxies.
pub(crate) const SETTING: &str = "proxyProtocolTrustedAddresses";

/// A range of addresses with the same leading bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    /// Number of leading bits that count.
    prefix: u32,
}

/// Addresses whose PROXY preambles are accepted. By default the addresses of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedProxies(Arc<[Network]>);

/// Error: a text that is no list of addresses or networks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected addresses or networks separated by ;, as 10.0.0.7;192.168.0.0/16;fd00::/8, found {0:?}")]
pub struct AddressListError(String);

impl TrustedProxies {
    /// Whether preambles from `remote` are accepted.
    pub fn contains(&self, remote: IpAddr) -> bool {
        let remote = remote.to_canonical();
        self.0.iter().any(|network| network.contains(remote))
    }
}

impl Default for TrustedProxies {
    fn default() -> Self {
        let loopback = |address: [u8; 4], prefix| Network { address: address.into(), prefix };
        Self(
            [loopback([127, 0, 0, 0], 8), Network { address: [0, 0, 0, 0, 0, 0, 0, 1].into(), prefix: 128 }]
                .into(),
        )
    }
}

impl FromStr for TrustedProxies {
    type Err = AddressListError;

    fn from_str(text: &str) -> Result<Self, AddressListError> {
        let parts = text.split([';', ',']).map(str::trim).filter(|part| !part.is_empty());
        parts.map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

impl Display for TrustedProxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Network { address, prefix }) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { ";" };
            match bits(*address) {
                (_, width) if *prefix == width => write!(f, "{separator}{address}")?,
                _ => write!(f, "{separator}{address}/{prefix}")?,
            }
        }
        Ok(())
    }
}

impl Network {
    fn contains(&self, remote: IpAddr) -> bool {
        let ((own, width), (other, others)) = (bits(self.address), bits(remote));
        // A prefix of 0 shifts by the full width, which `checked_shr` refuses.
        width == others && (own ^ other).checked_shr(width - self.prefix).unwrap_or(0) == 0
    }
}

impl Setting for TrustedProxies {
    fn parse(text: &str) -> Result<Self, &'static str> {
        text.parse().map_err(|_| "addresses or networks separated by ;, as 10.0.0.7;192.168.0.0/16;fd00::/8")
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl FromStr for Network {
    type Err = AddressListError;

    fn from_str(text: &str) -> Result<Self, AddressListError> {
        let fault = || AddressListError(text.to_owned());
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| fault())?;
        let width = bits(address).1;
        let prefix = prefix.map_or(Some(width), |prefix| prefix.parse().ok());
        match prefix.filter(|prefix| *prefix <= width) {
            Some(prefix) => Ok(Self { address, prefix }),
            None => Err(fault()),
        }
    }
}

/// An address as a number, with its width in bits.
fn bits(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(address) => (address.to_bits().into(), 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(list: &str, remote: &str, expected: bool) {
        let list: TrustedProxies = list.parse().unwrap();
        assert_eq!(list.contains(remote.parse().unwrap()), expected, "{remote} in {list}");
        assert_eq!(list.to_string().parse(), Ok(list));
    }

    #[test]
    fn addresses_and_networks_of_both_families() {
        for (list, remote, expected) in [
            ("127.0.0.0/8;::1", "127.0.0.1", true),
            ("127.0.0.0/8;::1", "127.255.0.1", true),
            ("127.0.0.0/8;::1", "::1", true),
            ("127.0.0.0/8;::1", "::2", false),
            ("127.0.0.0/8;::1", "128.0.0.1", false),
            ("10.0.0.7", "10.0.0.7", true),
            ("10.0.0.7", "10.0.0.6", false),
            ("10.0.0.7/32", "10.0.0.6", false),
            ("10.0.0.7/31", "10.0.0.6", true),
            ("10.1.2.3/16, 192.168.0.0/16", "10.1.255.255", true),
            ("10.1.2.3/16, 192.168.0.0/16", "10.2.0.0", false),
            ("10.1.2.3/16, 192.168.0.0/16", "192.168.3.4", true),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("::/0", "2001:db8::1", true),
            ("::/0", "203.0.113.9", false),
            ("fd00::/8", "fdab::9", true),
            ("fd00::/8", "fe80::9", false),
            ("2001:db8::/33", "2001:db8:7fff::1", true),
            ("2001:db8::/33", "2001:db8:8000::1", false),
            // A socket for both families shows IPv4 addresses in this form.
            ("10.0.0.7", "::ffff:10.0.0.7", true),
            ("", "127.0.0.1", false),
        ] {
            check(list, remote, expected);
        }
    }

    #[test]
    fn the_default_is_this_machine() {
        assert_eq!(TrustedProxies::default().to_string(), "127.0.0.0/8;::1");
        assert_eq!("127.0.0.0/8;::1".parse(), Ok(TrustedProxies::default()));
    }

    #[test]
    fn what_is_no_network_is_said() {
        for text in
            ["proxy.example.org", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/-1", "10.0.0/8", "*"]
        {
            let error = format!("127.0.0.1;{text}").parse::<TrustedProxies>().unwrap_err();
            assert_eq!(error, AddressListError(text.to_owned()));
        }
    }
}
