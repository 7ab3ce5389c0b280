//! R4: do the byte counts add up? The bytes of the sent messages must match what the network and the disk carried.
//!
//! Each message costs up to [`OVERHEAD`] bytes beside its body (frame, header, properties, record). A term is off when
//! it is more than 10 % below the bytes of the bodies, or more than 10 % above bodies and overhead. The expectation for
//! a machine is the sum over all brokers on it, since masters and slaves are often placed crosswise. When the lab runs
//! on the machine of a broker, traffic between the two goes over loopback and is counted in both directions. The
//! traffic of the lab with brokers on other machines passes the network of this machine, too.
//!
//! When several message sizes reach the same bytes per second, bandwidth is the limit, whatever the message rates are
//! (part B of the earlier report 000 missed such a limit of 0.8 Gb/s, see docs/lab.md).

use super::factor::{Factor, ladders};
use super::figures::{Figures, broker_host_names};
use super::guards::{loopback_bytes, network_bytes};
use super::judged::Judged;
use super::stats::mean;
use crate::archive::{BrokerFile, Factors, RunFile};
use serde::Serialize;

/// Most bytes that a message may cost beside its body.
pub const OVERHEAD: f64 = 512.0;

/// Share by which a term may differ from its expectation.
const TOLERANCE: f64 = 0.1;

/// Spread of the bytes per second of several sizes up to which they count as one bandwidth limit.
const ALIKE: f64 = 0.08;

/// Quantity that a term of the balance measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// Bytes that a machine received.
    NetworkIn,
    /// Bytes that a machine sent.
    NetworkOut,
    /// Bytes written to the disk of the store.
    DiskWritten,
}

/// Term of the balance: expected and measured bytes per second of a resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// Quantity that is measured.
    pub quantity: Quantity,
    /// Expected bytes per second, counting message bodies only.
    pub expected: f64,
    /// Measured bytes per second.
    pub found: f64,
    /// Whether the measured bytes are outside the tolerance.
    pub off: bool,
    /// Measured bytes per message beyond the body.
    pub beside: f64,
}

/// Computes the terms of one cell for the busiest broker machine: network in, network out and disk written. The disk
/// term is left out when the disk of that machine was not observed.
pub fn balance(file: &RunFile, factors: &Factors, figures: &Figures) -> Vec<Term> {
    let Some(host) = &figures.host else { return Vec::new() };
    if factors.compression != "none" && !factors.compression.is_empty() {
        return Vec::new();
    }
    let masters = (file.target.brokers.iter().filter(|broker| broker.id == 0).count() as f64).max(1.0);
    let copies = Copies::on(file, &host.node);
    let (each, each_tps) = (figures.payload_bytes / masters, figures.tps.mean / masters);
    let (bodies, tps) = (each * copies.kept(), each_tps * copies.kept());
    let each_read = figures.consume_tps / masters * factors.size as f64;
    let shared = file.hosts.first().is_some_and(|first| first.name == host.node);
    let (inward, outward) = if shared {
        let elsewhere = masters - copies.masters;
        // A slave on the same machine as its master replicates over loopback, which counts in both directions.
        let local = (each + each_read) * copies.masters + each * copies.within;
        (local + each * copies.taken + each_read * elsewhere, local + each * (copies.given + elsewhere))
    } else {
        (each * (copies.masters + copies.taken), each * copies.given + each_read * copies.masters)
    };
    let term = |quantity: Quantity, expected: f64, found: f64| Term {
        quantity,
        expected,
        found,
        off: found < expected * (1.0 - TOLERANCE)
            || found
                > (expected + most_beside(expected, bodies, tps * (OVERHEAD + properties(factors))))
                    * (1.0 + TOLERANCE),
        beside: if tps > 0.0 { (found - expected) / tps } else { 0.0 },
    };
    let mut terms = vec![
        term(Quantity::NetworkIn, inward, host.net_in),
        term(Quantity::NetworkOut, outward, host.net_out),
    ];
    let has_disk = file.hosts.iter().any(|known| known.name == host.node && !known.disk.is_empty());
    terms.extend(has_disk.then(|| term(Quantity::DiskWritten, bodies, host.disk_written)));
    terms
}

/// The brokers of one machine, counted by the copies of a master's messages that they cause.
struct Copies {
    /// Masters on this machine. They receive messages from producers and send them to consumers.
    masters: f64,
    /// Slaves on this machine whose master is on another machine.
    taken: f64,
    /// Slaves on other machines whose master is on this machine.
    given: f64,
    /// Slaves on this machine whose master is on this machine too.
    within: f64,
}

impl Copies {
    fn on(file: &RunFile, node: &str) -> Self {
        let is_here = |broker: &BrokerFile| broker.host.as_deref() == Some(node);
        let brokers = &file.target.brokers;
        let count = |slave_here: bool, master_here: bool| {
            let slaves = brokers.iter().filter(|slave| slave.id > 0 && is_here(slave) == slave_here);
            let of_masters = slaves.filter(|slave| {
                let mut masters = brokers.iter().filter(|other| other.id == 0 && other.name == slave.name);
                masters.any(is_here) == master_here
            });
            of_masters.count() as f64
        };
        let masters = brokers.iter().filter(|broker| broker.id == 0 && is_here(broker)).count() as f64;
        if brokers.iter().any(is_here) {
            return Self {
                masters,
                taken: count(true, false),
                given: count(false, true),
                within: count(true, true),
            };
        }
        // The run does not say which broker is on this machine: assume one master with its share of the slaves.
        let all = |of: fn(&BrokerFile) -> bool| brokers.iter().filter(|broker| of(broker)).count() as f64;
        let given = all(|broker| broker.id > 0) / all(|broker| broker.id == 0).max(1.0);
        Self { masters: 1.0, taken: 0.0, given, within: 0.0 }
    }

    /// Number of commit logs on the machine.
    fn kept(&self) -> f64 {
        self.masters + self.taken + self.within
    }
}

/// Most overhead in bytes per second for traffic of `expected` bytes per second: the overhead of one copy times the
/// number of copies.
fn most_beside(expected: f64, bodies: f64, overhead: f64) -> f64 {
    let copies = if bodies > 0.0 { (expected / bodies).max(1.0) } else { 1.0 };
    copies * overhead
}

/// Bytes of user properties in each message.
pub fn properties(factors: &Factors) -> f64 {
    factors.more.get("property-size").and_then(|size| size.parse().ok()).unwrap_or(0.0)
}

/// A bandwidth limit: several message sizes that reach the same bytes per second.
#[derive(Clone, Debug, PartialEq)]
pub struct BandwidthLimit {
    /// Bytes of bodies per second that the sizes reach.
    pub bytes: f64,
    /// The message sizes in bytes.
    pub sizes: Vec<u64>,
    /// Capabilities of a broker's machine, for comparison; `None` when no such machine was observed.
    pub machine: Option<MachineLimits>,
}

/// Capabilities of a machine, in bytes per second; `None` where a figure is unknown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MachineLimits {
    /// Bytes in one direction of the network, or over loopback where the lab is on the same machine.
    pub network: Option<f64>,
    /// Bytes written to the disk.
    pub disk: Option<f64>,
}

/// Finds three or more message sizes that reach the same bytes per second.
pub fn bandwidth_limits(file: &RunFile, cells: &[Judged<'_>]) -> Vec<BandwidthLimit> {
    let valid: Vec<(&Factors, f64)> =
        cells.iter().filter_map(|cell| Some((cell.factors(), cell.figures()?.payload_bytes))).collect();
    let factors: Vec<&Factors> = valid.iter().map(|(factors, _)| *factors).collect();
    let found = ladders(&factors, &Factor::Size).into_iter().filter_map(|ladder| {
        let rates: Vec<f64> = ladder.iter().map(|index| valid[*index].1).collect();
        let first = (0..rates.len()).find(|first| alike(&rates[*first..]))?;
        (rates.len() - first >= 3).then(|| {
            let sizes = ladder[first..].iter().map(|index| factors[*index].size).collect();
            BandwidthLimit { bytes: mean(&rates[first..]), sizes, machine: limits_beside(file) }
        })
    });
    found.collect()
}

fn alike(rates: &[f64]) -> bool {
    let centre = mean(rates);
    centre > 0.0 && rates.iter().all(|rate| (rate / centre - 1.0).abs() <= ALIKE)
}

/// The limits measured on a broker machine. The lab's machine is left out, because it says nothing about brokers.
fn limits_beside(file: &RunFile) -> Option<MachineLimits> {
    let names = broker_host_names(file);
    let host = file.hosts.iter().find(|host| names.contains(&host.name.as_str()))?;
    let shared = file.hosts.first().is_some_and(|first| first.name == host.name);
    let disk = host.roofline.as_ref().map(|limit| limit.disk_write_bytes).filter(|bytes| *bytes > 0.0);
    Some(MachineLimits { network: if shared { loopback_bytes(host) } else { network_bytes(host) }, disk })
}

#[cfg(test)]
mod tests;
