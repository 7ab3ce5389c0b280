//! The address of `brokerIP1`, for records and message ids.

use std::net::{IpAddr, ToSocketAddrs};

/// Returns `host` as an address, or an address to which it resolves. May wait for the machine's resolver.
///
/// # Errors
/// The host does not resolve. The text contains the cause and advice.
pub(crate) fn own_ip(host: &str) -> Result<IpAddr, String> {
    if let Ok(ip) = host.parse() {
        return Ok(ip);
    }
    let found = (host, 0).to_socket_addrs().map(|found| found.map(|address| address.ip()).collect());
    let advice = "put an address of this machine there, or a name that resolves to one";
    let failed = |why: String| format!("brokerIP1={host} does not resolve ({why}): {advice}");
    let found: Vec<IpAddr> = found.map_err(|error| failed(error.to_string()))?;
    preferred(&found).ok_or_else(|| failed("no address".to_owned()))
}

/// Returns the preferred address of a host name: an IPv4 address if possible, because some clients cannot read IPv6
/// addresses in message ids.
fn preferred(found: &[IpAddr]) -> Option<IpAddr> {
    found.iter().find(|ip| ip.is_ipv4()).or(found.first()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv6Addr;

    #[test]
    fn the_name_of_a_broker_stands_for_an_address() {
        assert_eq!(own_ip("10.1.2.3").unwrap(), IpAddr::from([10, 1, 2, 3]));
        let (four, six) = (IpAddr::from([10, 1, 2, 3]), IpAddr::from(Ipv6Addr::LOCALHOST));
        assert_eq!(
            [preferred(&[six, four]), preferred(&[six]), preferred(&[])],
            [Some(four), Some(six), None]
        );
        // The name is too long for a host name, so that no resolver is queried.
        let refused = own_ip(&"a".repeat(300)).unwrap_err();
        assert!(refused.contains(" does not resolve ("), "{refused}");
    }
}
