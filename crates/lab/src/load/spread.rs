//! Spreads the requests in flight over brokers and their connections.
//!
//! Usually every broker has at least one request in flight. With fewer requests than brokers, each request goes to all
//! brokers in turn, like a thread of RocketMQ's Java producer (`TopicPublishInfo.selectOneMessageQueue`). A request has
//! a connection to every broker, and one connection at a time may send.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tokio::sync::Notify;

/// The number of connections and of requests in flight on each. Connection number `index` leads to broker `index %
/// brokers`.
#[derive(Debug)]
pub struct Spread {
    brokers: usize,
    in_flight: u32,
    connections: u32,
    rings: Vec<Arc<Ring>>,
}

impl Spread {
    /// Spreads `in_flight` requests over at most `connections` connections to every broker. An open loop has at least
    /// one request in flight per broker, because its rate is what counts.
    pub fn new(brokers: usize, connections: u32, in_flight: u32, is_paced: bool) -> Self {
        let each = u32::try_from(brokers).unwrap_or(u32::MAX);
        let mut rings = Vec::new();
        let connections = match in_flight {
            0 => 0,
            few if few < each && is_paced => each,
            few if few < each => {
                rings = (0..few).map(|_| Arc::new(Ring::new(brokers))).collect();
                few.saturating_mul(each)
            }
            many => each.saturating_mul(connections).min(many),
        };
        Self { brokers, in_flight, connections, rings }
    }

    /// Number of connections.
    pub fn connections(&self) -> u32 {
        self.connections
    }

    /// Number of requests in flight on a connection; the first connections take the remainder.
    pub fn share(&self, index: u32) -> u32 {
        (self.in_flight / self.connections + u32::from(index < self.in_flight % self.connections)).max(1)
    }

    /// The place of a connection in its ring; `None` when the connection may send at any time.
    pub fn turn(&self, index: u32) -> Option<Turn> {
        let (ring, place) = (index as usize / self.brokers, index as usize % self.brokers);
        self.rings.get(ring).map(|ring| Turn { ring: ring.clone(), place })
    }
}

/// Connections of which one at a time may have a request in flight.
#[derive(Debug)]
struct Ring {
    /// Index of the connection that may send. Every change is followed by a [`Notify`], which publishes it.
    at: AtomicUsize,
    woken: Vec<Notify>,
}

impl Ring {
    fn new(places: usize) -> Self {
        Self { at: AtomicUsize::new(0), woken: (0..places).map(|_| Notify::new()).collect() }
    }
}

/// A connection's place in a ring of connections.
#[derive(Clone, Debug)]
pub struct Turn {
    ring: Arc<Ring>,
    place: usize,
}

impl Turn {
    /// Whether this connection may send now.
    pub fn is_mine(&self) -> bool {
        self.ring.at.load(Relaxed) == self.place
    }

    /// Lets the next connection of the ring send. Has no effect when this connection may not send itself.
    pub fn pass(&self) {
        let next = (self.place + 1) % self.ring.woken.len();
        if self.ring.at.compare_exchange(self.place, next, Relaxed, Relaxed).is_ok() {
            self.ring.woken[next].notify_one();
        }
    }

    /// Waits until this connection may send; returns at once when it may already.
    pub async fn comes(&self) {
        self.ring.woken[self.place].notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_broker_has_its_share() {
        let check = |(brokers, connections, in_flight, is_paced), expected: &[u32]| {
            let spread = Spread::new(brokers, connections, in_flight, is_paced);
            let shares: Vec<u32> = (0..spread.connections()).map(|index| spread.share(index)).collect();
            assert_eq!(shares, expected, "{in_flight} over {connections} to each of {brokers}");
        };
        check((2, 1, 0, false), &[]);
        check((1, 1, 1, false), &[1]);
        check((2, 1, 5, false), &[3, 2]);
        check((2, 4, 5, false), &[1; 5]);
        check((2, 1, 1, true), &[1, 1]);
        check((2, 1, 1, false), &[1, 1]);
        check((3, 2, 2, false), &[1; 6]);
    }

    #[test]
    fn one_request_goes_round_all_brokers() {
        let spread = Spread::new(3, 1, 2, false);
        let turns: Vec<Turn> = (0..6).map(|index| spread.turn(index).unwrap()).collect();
        let whose = || turns.iter().map(Turn::is_mine).collect::<Vec<_>>();
        assert_eq!(whose(), [true, false, false, true, false, false]);
        turns[1].pass();
        turns[0].pass();
        assert_eq!(whose(), [false, true, false, true, false, false], "rings do not know each other");
        turns[1].pass();
        turns[2].pass();
        assert_eq!(whose(), [true, false, false, true, false, false]);
        assert!(Spread::new(3, 1, 3, false).turn(0).is_none(), "enough for everyone");
    }
}
