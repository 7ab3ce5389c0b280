//! Limits of accepted connections for the listeners of a process. Limits apply to the total, to each address, and to
//! TLS handshakes per second. The limit of an address prevents that one client uses up the total. Handshakes are
//! limited because each costs a signature. All addresses of an IPv6 network of 64 bits count as one, because a single
//! client may use each of them.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// An address may begin at most `1 / ADDRESS_SHARE` of the TLS handshakes of a second.
const ADDRESS_SHARE: usize = 4;

/// Longest wait of a client for its handshake when the handshakes of the present second have begun. After that its
/// connection is closed. Clients of RocketMQ give up after three seconds.
const HANDSHAKE_WAIT: Duration = Duration::from_secs(2);

/// Time between two log lines about refusals of the same kind.
pub(crate) const REFUSALS_LOGGED: Duration = Duration::from_secs(60);

/// The bits of an IPv6 address that name its network.
const NETWORK_MASK: u128 = u128::MAX << 64;

/// Most connections that clients may open to the listeners of a process. Further connections are closed at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Connections in total.
    pub total: usize,
    /// Most connections from an address. Trusted proxies are left out, because many clients share their address.
    pub per_address: usize,
    /// Most TLS handshakes that begin in a second. An address may begin a quarter of them. Trusted proxies are left
    /// out of the quarter.
    pub handshakes_per_second: usize,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self { total: 200_000, per_address: 50_000, handshakes_per_second: 1000 }
    }
}

/// Counts of open connections and of recent TLS handshakes, compared with [`ConnectionLimits`].
#[derive(Debug)]
pub struct Admission {
    limits: ConnectionLimits,
    counts: Mutex<Counts>,
    handshakes: Mutex<Handshakes>,
}

#[derive(Debug, Default)]
struct Counts {
    total: usize,
    /// Number of open connections by address. Invariant: no entry is 0.
    addresses: HashMap<IpAddr, usize>,
}

/// The TLS handshakes that began in the present second.
#[derive(Debug)]
struct Handshakes {
    second: Instant,
    total: usize,
    /// Number of handshakes of the present second by address. Invariant: at most one entry for each
    /// handshake, which bounds the map.
    addresses: HashMap<IpAddr, usize>,
    /// When a refused handshake was last logged.
    logged: Option<Instant>,
}

impl Handshakes {
    fn new(now: Instant) -> Self {
        Self { second: now, total: 0, addresses: HashMap::new(), logged: None }
    }

    /// Counts a handshake if it may begin now. Returns `false` if a limit of this second is reached.
    fn enter(&mut self, now: Instant, address: Option<IpAddr>, max: usize) -> bool {
        if now.duration_since(self.second) >= Duration::from_secs(1) {
            (self.second, self.total) = (now, 0);
            self.addresses.clear();
        }
        let of_address = address.and_then(|it| self.addresses.get(&it)).copied().unwrap_or(0);
        if self.total >= max || of_address >= (max / ADDRESS_SHARE).max(1) {
            return false;
        }
        self.total += 1;
        if let Some(address) = address {
            self.addresses.insert(address, of_address + 1);
        }
        true
    }

    /// Whether a refusal must be logged now, at most one per minute. A `true` result starts the next minute.
    fn take_log_permit(&mut self, now: Instant) -> bool {
        let is_due = self.logged.is_none_or(|last| now.duration_since(last) > REFUSALS_LOGGED);
        if is_due {
            self.logged = Some(now);
        }
        is_due
    }
}

/// Permit of one open connection. Dropping the permit frees it for another connection.
#[derive(Debug)]
pub struct ConnectionPermit {
    admission: Arc<Admission>,
    /// Address under which the connection is counted. `None` for a trusted proxy, which has no limit per
    /// address.
    address: Option<IpAddr>,
}

impl Admission {
    /// Makes the counts of a process without open connections.
    pub fn new(limits: ConnectionLimits) -> Self {
        Self { limits, counts: Mutex::default(), handshakes: Mutex::new(Handshakes::new(Instant::now())) }
    }

    /// Returns the permit of a new connection, or `None` if a limit is reached.
    #[must_use]
    pub fn enter(self: &Arc<Self>, address: IpAddr, is_proxy: bool) -> Option<ConnectionPermit> {
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
        Some(ConnectionPermit { admission: self.clone(), address })
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionPermit {
    /// Waits until the connection may begin a TLS handshake. Returns `false` after two seconds. The caller then
    /// closes the connection, and its client reconnects.
    pub(crate) async fn begin_tls(&self) -> bool {
        let deadline = Instant::now() + HANDSHAKE_WAIT;
        while let Err(next) = self.may_begin_tls(Instant::now()) {
            if next > deadline {
                self.log_closed(Instant::now());
                return false;
            }
            tokio::time::sleep_until(next.into()).await;
        }
        true
    }

    /// Counts a handshake if it may begin now.
    ///
    /// # Errors
    /// The start of the next second, because the handshakes of this second, or of the address in it, have begun.
    fn may_begin_tls(&self, now: Instant) -> Result<(), Instant> {
        let mut handshakes = self.handshakes();
        match handshakes.enter(now, self.address, self.admission.limits.handshakes_per_second) {
            true => Ok(()),
            false => Err(handshakes.second + Duration::from_secs(1)),
        }
    }

    fn log_closed(&self, now: Instant) {
        // The guard ends before the line is written: who reads the log may be slow.
        let take_log_permit = self.handshakes().take_log_permit(now);
        if take_log_permit {
            tracing::warn!(
                address = ?self.address,
                "a connection was closed before its TLS handshake: tlsHandshakesPerSecondMax is reached"
            );
        }
    }

    fn handshakes(&self) -> MutexGuard<'_, Handshakes> {
        self.admission.handshakes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ConnectionPermit {
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
        let admission = Arc::new(Admission::new(ConnectionLimits {
            total: 5,
            per_address: 2,
            ..ConnectionLimits::default()
        }));
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

    #[test]
    fn an_address_begins_a_quarter_of_the_handshakes_of_a_second() {
        let from = Instant::now();
        let mut handshakes = Handshakes::new(from);
        let mut enter = |ms: u64, address: Option<&str>| {
            handshakes.enter(from + Duration::from_millis(ms), address.map(ip), 8)
        };
        assert!(enter(0, Some("10.0.0.1")) && enter(999, Some("10.0.0.1")));
        assert!(!enter(999, Some("10.0.0.1")), "the third one of an address");
        assert!((0..6).all(|_| enter(999, None)), "a proxy stands for many clients");
        assert!(!enter(999, Some("10.0.0.2")), "the ninth one in total");
        assert!(enter(1000, Some("10.0.0.1")), "in the next second");
        assert!(handshakes.addresses.len() == 1 && handshakes.total == 1, "{handshakes:?}");
    }
}
