//! How many connections the listeners of a process accept: in total, and from one address, so that one client cannot take the places of
//! all others. All addresses of an IPv6 network of 64 bits count as one, because a single client may use each of them.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The bits of an IPv6 address that name its network.
const NETWORK_MASK: u128 = u128::MAX << 64;

/// Most connections that clients may open to the listeners of a process; further ones are closed at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Connections in total.
    pub total: usize,
    /// Connections from one address. Proxies whose preambles are believed are left out, because many clients share their address.
    pub per_address: usize,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self { total: 200_000, per_address: 50_000 }
    }
}

/// The connections that were accepted.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    limits: ConnectionLimits,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    total: usize,
    /// Invariant: no entry is 0.
    addresses: HashMap<IpAddr, usize>,
}

/// The place of one connection, which is free again when this is dropped.
#[derive(Debug)]
pub struct Place {
    admission: Arc<Admission>,
    /// The address that the connection counts for; `None` for that of a proxy.
    address: Option<IpAddr>,
}

impl Admission {
    pub fn new(limits: ConnectionLimits) -> Self {
        Self { limits, counts: Mutex::default() }
    }

    /// A place for a connection; `None` when there is none.
    pub fn enter(self: &Arc<Self>, address: IpAddr, is_proxy: bool) -> Option<Place> {
        let address = (!is_proxy).then(|| counted(address));
        let mut counts = self.counts();
        let of_address = address.and_then(|it| counts.addresses.get(&it)).copied().unwrap_or(0);
        if counts.total >= self.limits.total || of_address >= self.limits.per_address {
            return None;
        }
        counts.total += 1;
        if let Some(address) = address {
            counts.addresses.insert(address, of_address + 1);
        }
        Some(Place { admission: self.clone(), address })
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.admission.counts();
        counts.total -= 1;
        let Some(address) = self.address else { return };
        if let Some(count) = counts.addresses.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                counts.addresses.remove(&address);
            }
        }
    }
}

/// The address under which the connections of a client are counted: an IPv4 address whole, of an IPv6 address the network.
fn counted(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & NETWORK_MASK).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_has_its_share_of_the_places_and_gives_them_back() {
        let admission = Arc::new(Admission::new(ConnectionLimits { total: 5, per_address: 2 }));
        let enter = |address: &str| admission.enter(ip(address), false);
        let (one, two) = (enter("10.0.0.1"), enter("::ffff:10.0.0.1"));
        assert!(one.is_some() && two.is_some());
        assert!(enter("10.0.0.1").is_none(), "the third one of an address");
        let networks = [enter("2001:db8::1"), enter("2001:db8::2")];
        assert!(networks.iter().all(Option::is_some) && enter("2001:db8::3").is_none());
        let other = enter("2001:db8:0:1::1");
        assert!(other.is_some() && enter("10.0.0.3").is_none(), "the sixth one in total");
        assert!(admission.enter(ip("127.0.0.1"), true).is_none(), "of a proxy, too");
        drop(one);
        let again = enter("10.0.0.1");
        assert!(again.is_some());
        drop((two, again, networks, other));
        assert!(admission.counts().addresses.is_empty() && admission.counts().total == 0);
        let many: Vec<_> = (0..5).map(|_| admission.enter(ip("127.0.0.1"), true)).collect();
        assert!(many.iter().all(Option::is_some), "a proxy stands for many clients");
    }
}
