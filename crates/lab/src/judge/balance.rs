//! R4: do the bytes add up? What was sent must be what the network and the disk carried.
//!
//! Each message costs up to [`OVERHEAD`] bytes beside its body (frame, header, properties, record), so a term is off
//! when it is more than 10 % below the bodies or more than 10 % above bodies and overhead. A machine is expected to carry
//! what all brokers on it do: masters and slaves often stand crosswise. Where the lab drives a broker on its own machine,
//! what passes between them is counted in both directions, and what the lab has with brokers elsewhere passes here too.
//!
//! Rates of several sizes that are all the same in bytes per second are a ceiling of bandwidth (seed 000-B missed
//! one of 0.8 Gb/s), whatever the message rates look like.

use super::factor::{Factor, ladders};
use super::figures::{Figures, broker_host_names};
use super::guards::{loopback_bytes, network_bytes};
use super::judged::Judged;
use super::stats::mean;
use super::{Text, both, numbers};
use crate::archive::{BrokerFile, Factors, HostFile, RunFile};
use serde::{Deserialize, Serialize};

/// Most bytes a message may cost beside its body.
pub const OVERHEAD: f64 = 512.0;

/// Share by which a term may be off.
const TOLERANCE: f64 = 0.1;

/// Spread of bytes per second over sizes that still counts as one ceiling.
const CEILING: f64 = 0.08;

/// One term of the balance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Term {
    /// What it is.
    pub name: Text,
    /// Bytes per second of bodies that should be there.
    pub expected: f64,
    /// Bytes per second found.
    pub found: f64,
    /// Whether it is off.
    pub off: bool,
    /// Bytes beside the body that each message carries here.
    pub beside: f64,
}

/// The terms of one cell: network in, network out and disk of the brokers' machines, the disk where one was looked at.
#[must_use]
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
        // What a slave takes from its master beside it goes over loopback too.
        let local = (each + each_read) * copies.masters + each * copies.within;
        (local + each * copies.taken + each_read * elsewhere, local + each * (copies.given + elsewhere))
    } else {
        (each * (copies.masters + copies.taken), each * copies.given + each_read * copies.masters)
    };
    let term = |(en, zh): (&str, &str), expected: f64, found: f64| Term {
        name: both!("{en}", "{zh}"),
        expected,
        found,
        off: found < expected * (1.0 - TOLERANCE)
            || found
                > (expected + most_beside(expected, bodies, tps * (OVERHEAD + properties(factors))))
                    * (1.0 + TOLERANCE),
        beside: if tps > 0.0 { (found - expected) / tps } else { 0.0 },
    };
    let mut terms = vec![
        term(("network in", "网络流入"), inward, host.net_in),
        term(("network out", "网络流出"), outward, host.net_out),
    ];
    let has_disk = file.hosts.iter().any(|known| known.name == host.node && !known.disk.is_empty());
    terms.extend(has_disk.then(|| term(("disk written", "磁盘写入"), bodies, host.disk_written)));
    terms
}

/// Brokers of one machine, counted by the copies of a master's messages that they mean.
struct Copies {
    /// Masters, which get what is sent and give it to consumers.
    masters: f64,
    /// Slaves here of masters elsewhere.
    taken: f64,
    /// Slaves elsewhere of masters here.
    given: f64,
    /// Slaves here of masters here.
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
        // Nobody knows which broker it is: one master with its share of the slaves.
        let all = |of: fn(&BrokerFile) -> bool| brokers.iter().filter(|broker| of(broker)).count() as f64;
        let given = all(|broker| broker.id > 0) / all(|broker| broker.id == 0).max(1.0);
        Self { masters: 1.0, taken: 0.0, given, within: 0.0 }
    }

    /// Logs on the machine.
    fn kept(&self) -> f64 {
        self.masters + self.taken + self.within
    }
}

/// Overhead of every copy of every message, and of the answers, of so many bytes per second.
fn most_beside(expected: f64, bodies: f64, overhead: f64) -> f64 {
    let copies = if bodies > 0.0 { (expected / bodies).max(1.0) } else { 1.0 };
    copies * overhead
}

/// Bytes of properties that messages were given.
#[must_use]
pub fn properties(factors: &Factors) -> f64 {
    factors.more.get("property-size").and_then(|size| size.parse().ok()).unwrap_or(0.0)
}

/// A rate in bytes per second that is the same for several sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ByteCeiling {
    /// Bytes of bodies per second.
    pub bytes: f64,
    /// The sizes.
    pub sizes: Vec<u64>,
    /// To be read.
    pub says: Text,
}

/// Finds sizes, three or more, at which the same bytes per second are reached.
#[must_use]
pub fn byte_ceilings(file: &RunFile, cells: &[Judged<'_>]) -> Vec<ByteCeiling> {
    let valid: Vec<(&Factors, f64)> =
        cells.iter().filter_map(|cell| Some((cell.factors(), cell.figures()?.payload_bytes))).collect();
    let factors: Vec<&Factors> = valid.iter().map(|(factors, _)| *factors).collect();
    let found = ladders(&factors, &Factor::Size).into_iter().filter_map(|ladder| {
        let rates: Vec<f64> = ladder.iter().map(|index| valid[*index].1).collect();
        let first = (0..rates.len()).find(|first| alike(&rates[*first..]))?;
        (rates.len() - first >= 3).then(|| {
            let sizes = ladder[first..].iter().map(|index| factors[*index].size).collect();
            byte_ceiling(file, (mean(&rates[first..]), sizes))
        })
    });
    found.collect()
}

fn alike(rates: &[f64]) -> bool {
    let centre = mean(rates);
    centre > 0.0 && rates.iter().all(|rate| (rate / centre - 1.0).abs() <= CEILING)
}

fn byte_ceiling(file: &RunFile, (bytes, sizes): (f64, Vec<u64>)) -> ByteCeiling {
    let (rate, count) = (numbers::bytes(bytes), sizes.len());
    let bits = numbers::short(bytes * 8.0 / 1e9);
    let Text { en, zh } = limits_beside(file);
    let says = both!(
        "{count} sizes all reach {rate}/s ({bits} Gb/s) of bodies: a ceiling of bandwidth, not of messages; {en}",
        "{count} 种消息大小都停在 {rate}/s（{bits} Gb/s）：这是带宽上限，不是消息数上限；{zh}"
    );
    ByteCeiling { bytes, sizes, says }
}

/// What the machines of the brokers can do; those of the lab say nothing about them.
fn limits_beside(file: &RunFile) -> Text {
    let names = broker_host_names(file);
    let of_broker = |host: &&HostFile| names.contains(&host.name.as_str());
    let Some(host) = file.hosts.iter().find(of_broker) else {
        return both!("no machine of a broker to compare with", "没有 Broker 主机数据可供比较");
    };
    let shared = file.hosts.first().is_some_and(|first| first.name == host.name);
    let (net, disk) = (
        if shared { loopback_bytes(host) } else { network_bytes(host) },
        host.roofline.as_ref().map(|limit| limit.disk_write_bytes).filter(|bytes| *bytes > 0.0),
    );
    let known =
        |bytes: Option<f64>| bytes.map_or_else(|| "?".to_owned(), |bytes| numbers::bytes(bytes) + "/s");
    let (net, disk) = (known(net), known(disk));
    both!("its limits: network {net}, disk {disk}", "硬件上限：网络 {net}，磁盘 {disk}")
}

#[cfg(test)]
mod tests;
