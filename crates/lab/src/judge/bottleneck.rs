//! R3: which resource limits the rate?
//!
//! The use of every resource is put on one scale, where 1 means fully used, and the resource with the highest use is
//! named with its evidence. Some limits do not show as use: a throttled disk is not busy, a shaped network is not full.
//! They are recognised by their effects: threads wait for the disk, or bytes flow at a constant rate while nothing else
//! is busy.

mod reading;
mod uses;

pub use reading::{Cpu, Disk, Evidence, Network, PRESSURE_FULL, RETRANSMITS_FULL, Reading, THROTTLED_FULL};
pub use uses::{Resource, Use, uses};

use super::figures::{broker_host_names, mean_latency_us, series};
use super::stats::{self, mean};
use super::validity::in_flight;
use crate::archive::{LoadSecond, RunFile, Window};
use serde::Serialize;

/// Use from which on a resource is named as the bottleneck.
const NAMED: f64 = 0.6;

/// Use from which on a resource counts as full.
const FULL: f64 = 0.95;

/// Variation of the bytes per second below which a shaped network is assumed.
const PIPE_VARIATION: f64 = 0.03;

/// The verdict of R3: the resource that limits a rate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bottleneck {
    /// The resource that limits the rate.
    pub resource: Resource,
    /// Machine of that resource; empty when the load itself is the limit.
    pub node: String,
    /// Why this resource is named.
    pub evidence: Evidence,
    /// Every resource with its use, highest use first.
    pub ranked: Vec<Use>,
}

/// Judges the steady windows of one cell. `saturated` says whether more load was tried and gave no higher rate.
pub fn bottleneck(file: &RunFile, windows: &[Window<'_>], saturated: bool) -> Bottleneck {
    let mut ranked = uses(file, windows);
    if saturated {
        ranked.extend(uses::on_the_way(file, windows));
    }
    ranked.sort_by(|one, other| other.reading.rank().total_cmp(&one.reading.rank()));
    let is_observed = !broker_host_names(file).is_empty();
    let (resource, node, evidence) = match ranked.first() {
        Some(top) if top.reading.rank() > NAMED => {
            (top.resource, top.node.clone(), Evidence::Used(top.reading))
        }
        _ if is_observed && saturated => {
            let (resource, evidence) = without_use(windows);
            (resource, String::new(), evidence)
        }
        _ if saturated => (Resource::Unknown, String::new(), Evidence::Unobserved),
        _ => {
            // The resources of the lab's machine say nothing about the brokers'.
            let resource = if is_observed { Resource::Client } else { Resource::Unknown };
            (resource, String::new(), room_left(windows, is_observed))
        }
    };
    Bottleneck { resource, node, evidence, ranked }
}

impl Bottleneck {
    /// The figure of a server's resource that is full; `None` when no resource is, or the load generator is the limit.
    pub fn full(&self) -> Option<&Reading> {
        let Evidence::Used(reading) = &self.evidence else { return None };
        (self.resource != Resource::Client && reading.used() >= FULL).then_some(reading)
    }
}

/// The verdict when more load gives no more although no observed resource is used much.
fn without_use(windows: &[Window<'_>]) -> (Resource, Evidence) {
    let rates = series(windows, LoadSecond::sent_bytes_rate);
    let variation = mean(&rates.iter().map(|rates| stats::variation(rates)).collect::<Vec<_>>());
    if variation < PIPE_VARIATION {
        (Resource::Network, Evidence::ShapedNetwork { bytes: mean(&rates.concat()), variation })
    } else {
        (Resource::Server, Evidence::NothingBusy { variation })
    }
}

/// The evidence when no resource is used much, and more load was not tried or gave a higher rate.
fn room_left(windows: &[Window<'_>], observed: bool) -> Evidence {
    let round_trip_us = mean(&windows.iter().map(|window| mean_latency_us(window.load)).collect::<Vec<_>>());
    let in_flight = windows.first().and_then(in_flight).unwrap_or_default();
    Evidence::RoomLeft { round_trip_us, in_flight, observed }
}

#[cfg(test)]
mod tests;
