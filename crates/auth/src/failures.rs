//! Slows down guessing at an address from which many requests fail authentication, and at no other address. All
//! addresses of an IPv6 network of 64 bits count as one, because a single client may use each of them.
//!
//! After many failures of an address, right and wrong requests of the failed users take turns of one a second, on any
//! connection. A fast response would reveal a right guess, so that a new connection for each guess would cost no
//! time. A connection with an earlier verified user is exempt for that user, so that other clients behind the same
//! address keep working.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicI64, Ordering};

use parking_lot::Mutex;

/// Failures of an address within [`WINDOW_MS`] that are answered at once.
pub const FREE_FAILURES: usize = 10;
/// Milliseconds over which the failures of an address are counted.
pub const WINDOW_MS: i64 = 60_000;
/// Milliseconds between two answers to an address that failed more often.
pub const PACE_MS: i64 = 1000;
/// Longest wait of a response in milliseconds. A connection whose request would wait longer must be closed.
pub const WAIT_MAX_MS: i64 = 60_000;
/// Number of users whose names may fail at a slowed address before every user of that address takes turns.
const USERS_MAX: usize = 5;
/// The bits of an IPv6 address that name its network.
const NETWORK_MASK: u128 = u128::MAX << 64;
/// Most addresses in a generation. The two newest generations are kept.
const ADDRESSES_MAX: usize = 10_000;

/// When a response may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseTime {
    /// Now.
    Now,
    /// After this number of milliseconds.
    After(i64),
    /// The response never leaves: too many responses of the address wait, and its connection should be closed.
    Never,
}

/// Id of the first verified user of a connection. 0 before the verification. Only the [`Failures`] that issued it can
/// compare it.
pub type Mark = u64;

/// Failures of all addresses. Usable from any thread. Bounded: a full generation replaces the generation before it,
/// which holds the addresses whose last failure is oldest.
#[derive(Debug, Default)]
pub struct Failures {
    addresses: Mutex<Generations>,
    /// Time from which on no address is slowed, so that requests can skip the check. Only a hint: the lock of
    /// `addresses` orders everything.
    slowed_until: AtomicI64,
    names: RandomState,
}

#[derive(Debug, Default)]
struct Generations {
    recent: HashMap<IpAddr, AddressFailures>,
    older: HashMap<IpAddr, AddressFailures>,
}

#[derive(Debug)]
struct AddressFailures {
    /// Times of the last failures and the users they named, at most [`FREE_FAILURES`].
    failures: VecDeque<(i64, Mark)>,
    /// When the last answer that waited leaves or left.
    answered: i64,
}

impl Failures {
    /// The mark of a connection on which this user was verified.
    pub fn mark(&self, user: &str) -> Mark {
        self.names.hash_one(user).max(1)
    }

    /// Returns the time of a request's response before its verification, or `None` if the request takes no turn.
    /// `mark` is that of its connection.
    pub fn reserve_response_time(
        &self,
        now_ms: i64,
        address: IpAddr,
        user: &str,
        mark: Mark,
    ) -> Option<ResponseTime> {
        if now_ms >= self.slowed_until.load(Ordering::Relaxed) {
            return None;
        }
        let (address, name) = (counted(address), self.mark(user));
        if mark == name {
            return None;
        }
        let Generations { recent, older } = &mut *self.addresses.lock();
        match recent.get_mut(&address).or_else(|| older.get_mut(&address)) {
            Some(known) if known.slows(now_ms, name) => Some(known.reserve_response_time(now_ms)),
            _ => None,
        }
    }

    /// Records that a request failed authentication, and returns the time of its response. A reserved time stays
    /// valid.
    pub fn record_failure(
        &self,
        now_ms: i64,
        address: IpAddr,
        user: &str,
        reserved: Option<ResponseTime>,
    ) -> ResponseTime {
        let (address, name) = (counted(address), self.mark(user));
        let Generations { recent, older } = &mut *self.addresses.lock();
        let known = recent.remove(&address).or_else(|| older.remove(&address));
        let mut known = known.filter(|known| known.is_of(now_ms)).unwrap_or_else(|| AddressFailures {
            failures: VecDeque::with_capacity(FREE_FAILURES),
            answered: now_ms,
        });
        let time = reserved.unwrap_or_else(|| match now_ms < known.slowed_until() {
            true => known.reserve_response_time(now_ms),
            false => ResponseTime::Now,
        });
        if known.failures.len() == FREE_FAILURES {
            known.failures.pop_front();
        }
        known.failures.push_back((now_ms, name));
        self.slowed_until.fetch_max(known.slowed_until(), Ordering::Relaxed);
        if recent.len() == ADDRESSES_MAX {
            *older = std::mem::take(recent);
        }
        recent.insert(address, known);
        time
    }
}

impl AddressFailures {
    /// Whether the stored entry is at least as old as `now_ms`. After the clock is set back, counting begins
    /// again, so that requests do not wait until the old time.
    fn is_of(&self, now_ms: i64) -> bool {
        self.failures.back().is_none_or(|(last, _)| *last <= now_ms)
    }

    /// Returns the time until which the address is slowed.
    fn slowed_until(&self) -> i64 {
        match self.failures.front() {
            Some((oldest, _)) if self.failures.len() == FREE_FAILURES => oldest + WINDOW_MS,
            _ => i64::MIN,
        }
    }

    /// Whether requests of a user take turns, because the name failed, or because many other names failed as in a
    /// scan of user names.
    fn slows(&self, now_ms: i64, name: Mark) -> bool {
        let has_failed = || self.failures.iter().any(|(_, failed)| *failed == name);
        let names = || self.failures.iter().map(|(_, name)| *name).collect::<HashSet<Mark>>();
        self.is_of(now_ms) && now_ms < self.slowed_until() && (has_failed() || names().len() > USERS_MAX)
    }

    /// Reserves the next time at which a response to the address may leave.
    fn reserve_response_time(&mut self, now_ms: i64) -> ResponseTime {
        let at_ms = now_ms.max(self.answered + PACE_MS);
        let time = match at_ms - now_ms {
            0 => ResponseTime::Now,
            wait if wait <= WAIT_MAX_MS => ResponseTime::After(wait),
            _ => return ResponseTime::Never,
        };
        self.answered = at_ms;
        time
    }
}

/// The address under which the failures of a client are counted: an IPv4 address whole, of an IPv6 address the network.
fn counted(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & NETWORK_MASK).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests;
