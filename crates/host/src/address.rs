//! Addresses of this machine.

use std::net::{IpAddr, UdpSocket};

/// Whether an address belongs to this machine, because the kernel binds a socket only to own addresses. No packet is
/// sent.
pub fn is_own_address(ip: IpAddr) -> bool {
    !ip.is_unspecified() && UdpSocket::bind((ip, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_own_and_documentation_addresses_are_not() {
        assert!(is_own_address("127.0.0.1".parse().unwrap()));
        assert!(!is_own_address("192.0.2.1".parse().unwrap()));
        assert!(!is_own_address("0.0.0.0".parse().unwrap()));
    }
}
