//! How the requests of a tool are spread over connections.

use super::topic::Place;
use crate::arguments::Sending;
use crate::load::{Clock, Connection, ConnectionOptions, Pace, Spread, Target, Work};
use crate::report::Tally;
use std::net::SocketAddr;
use std::sync::Arc;

/// The load of a tool's run before it is spread over connections.
pub(crate) struct Plan<'a> {
    /// The flags of the tool.
    pub sending: &'a Sending,
    /// Requests in flight over all connections together.
    pub in_flight: u32,
    /// Requests after which the run ends, whatever their results (`Producer.msgNums` of RocketMQ's benchmark scripts).
    pub quantity: Option<u64>,
    /// Messages per request.
    pub messages_each: u64,
}

impl Plan<'_> {
    /// Makes the connections: `--connections` to every broker, which share requests in flight, rate and quantity evenly. The
    /// first ones take the remainder.
    pub fn connections<W: Work>(
        &self,
        places: &[Place],
        watch: (&Arc<Tally>, Clock),
        work: impl Fn(&[Target], u32) -> W,
    ) -> Vec<(SocketAddr, Arc<Connection<W>>)> {
        let (tally, clock) = watch;
        let Sending { connections, rate, .. } = self.sending;
        let spread = Spread::new(places.len(), *connections, self.in_flight, rate.is_some());
        let count = spread.connections();
        let requests = |rate: f64| rate / f64::from(count) / self.messages_each as f64;
        let connection = |index: u32| {
            let place = &places[index as usize % places.len()];
            let share = |whole: u64| {
                whole / u64::from(count) + u64::from(u64::from(index) < whole % u64::from(count))
            };
            let options = ConnectionOptions {
                in_flight: spread.share(index),
                work: work(&place.targets, index),
                first_queue: index as usize / places.len(),
                quantity: self.quantity.map(share),
                pace: rate.map(|rate| Pace::new(requests(rate))),
                messages_each: self.messages_each,
                turn: spread.turn(index),
            };
            (place.address, Arc::new(Connection::new(options, clock, tally.clone())))
        };
        (0..count).map(connection).collect()
    }
}
