//! Slows down an address from which many requests fail authentication, and no other address. All addresses of an IPv6 network of
//! 64 bits count as one, because a single client may use each of them.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};

/// Failures of an address within [`WINDOW_MS`] that are answered at once.
pub const FREE_FAILURES: usize = 10;
/// Milliseconds over which the failures of an address are counted.
pub const WINDOW_MS: i64 = 60_000;
/// Milliseconds between two answers to an address that failed more often.
pub const PACE_MS: i64 = 1000;
/// Longest time in milliseconds that an answer waits; an address with more answers waiting is to be disconnected.
pub const WAIT_MAX_MS: i64 = 60_000;
/// The bits of an IPv6 address that name its network.
const NETWORK_MASK: u128 = u128::MAX << 64;
/// Addresses of one generation; two generations are kept.
const ADDRESSES_MAX: usize = 10_000;

/// When an answer may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Now.
    Now,
    /// After this number of milliseconds.
    After(i64),
    /// Never: too many answers of the address wait, and its connection should be closed.
    Never,
}

/// The failures of all addresses. Bounded: when a generation is full, the one before it is forgotten, which holds the addresses
/// that have not failed for the longest time.
#[derive(Debug, Default)]
pub struct Failures {
    recent: HashMap<IpAddr, Address>,
    older: HashMap<IpAddr, Address>,
    delayed: u64,
}

#[derive(Debug)]
struct Address {
    /// Times of the last failures, at most [`FREE_FAILURES`].
    failures: VecDeque<i64>,
    /// When the last answer to a failure leaves or left.
    answered: i64,
}

impl Failures {
    /// Notes that a request failed authentication, and says when its answer may leave. Requests that do not fail are not noted
    /// and never wait, so that a neighbour behind the same address goes on working.
    pub fn note(&mut self, now_ms: i64, address: IpAddr) -> Answer {
        let address = counted(address);
        let known = self.recent.remove(&address).or_else(|| self.older.remove(&address));
        // A clock that is set back begins anew, so that nobody waits for the time that it was set back by.
        let known = known.filter(|known| known.failures.back().is_none_or(|last| *last <= now_ms));
        let mut known = known.unwrap_or_else(|| Address {
            failures: VecDeque::with_capacity(FREE_FAILURES),
            answered: now_ms,
        });
        let oldest = known.failures.front().filter(|_| known.failures.len() == FREE_FAILURES);
        let is_slowed = oldest.is_some_and(|oldest| now_ms - oldest < WINDOW_MS);
        if known.failures.len() == FREE_FAILURES {
            known.failures.pop_front();
        }
        known.failures.push_back(now_ms);
        let at_ms = if is_slowed { now_ms.max(known.answered + PACE_MS) } else { now_ms };
        let answer = match at_ms - now_ms {
            0 => Answer::Now,
            wait if wait <= WAIT_MAX_MS => Answer::After(wait),
            _ => Answer::Never,
        };
        if answer != Answer::Never {
            known.answered = at_ms;
        }
        self.delayed += u64::from(answer != Answer::Now);
        if self.recent.len() == ADDRESSES_MAX {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(address, known);
        answer
    }

    /// How many answers were delayed or withheld, for the metrics.
    #[must_use]
    pub fn delayed(&self) -> u64 {
        self.delayed
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
