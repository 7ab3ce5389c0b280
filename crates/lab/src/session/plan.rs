//! How requests are spread over connections.

use super::topic::Place;
use crate::command::Sending;
use crate::load::{Clock, Lane, LaneOptions, Pace, Target, Work};
use crate::report::Tally;
use std::net::SocketAddr;
use std::sync::Arc;

/// The load of a run before it is spread.
pub(crate) struct Plan<'a> {
    /// Flags of the tool.
    pub sending: &'a Sending,
    /// Requests in flight over all connections.
    pub in_flight: u32,
    /// Successful requests after which the run ends.
    pub quantity: Option<u64>,
    /// Messages per request.
    pub messages_each: u64,
}

impl Plan<'_> {
    /// Makes the lanes: `--connections` to every broker, sharing flight, rate and quantity evenly; the first ones
    /// get the remainder, and connections without a share are not made.
    pub fn lanes<W: Work>(
        &self,
        places: &[Place],
        watch: (&Arc<Tally>, Clock),
        work: impl Fn(&[Target], u32) -> W,
    ) -> Vec<(SocketAddr, Arc<Lane<W>>)> {
        let (tally, clock) = watch;
        let count = places.len() as u32 * self.sending.connections;
        let count = count.min(self.in_flight);
        let lane = |index: u32| {
            let place = &places[index as usize % places.len()];
            let share = |whole: u64| {
                whole / u64::from(count) + u64::from(u64::from(index) < whole % u64::from(count))
            };
            let options = LaneOptions {
                in_flight: u32::try_from(share(self.in_flight.into())).expect("no more than the whole"),
                work: work(&place.targets, index),
                first_queue: index as usize / places.len(),
                quantity: self.quantity.map(share),
                pace: self.sending.rate.map(|rate| Pace::new(rate / f64::from(count))),
                messages_each: self.messages_each,
            };
            (place.address, Arc::new(Lane::new(options, clock, tally.clone())))
        };
        (0..count).map(lane).collect()
    }
}
