//! R4: do the bytes add up? What was sent must be what the network and the disk carried.
//!
//! Each message costs up to [`OVERHEAD`] bytes beside its body (frame, header, properties, record), so a term is off
//! when it is more than 10 % below the bodies or more than 10 % above bodies and overhead. Where the lab drives a
//! broker on its own machine, both directions pass the same interface and each is expected to hold both.
//!
//! Rates of several sizes that are all the same in bytes per second are a ceiling of bandwidth (seed 000-B missed
//! one of 0.8 Gb/s), whatever the message rates look like.

use super::factor::{Factor, ladders};
use super::figures::{Figures, broker_host_names};
use super::judged::Judged;
use super::stats::mean;
use super::{Text, both, numbers};
use crate::archive::{Factors, RunFile};
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

/// The terms of one cell: network in, network out and disk of the brokers' machines.
#[must_use]
pub fn balance(file: &RunFile, factors: &Factors, figures: &Figures) -> Vec<Term> {
    let Some(host) = &figures.host else { return Vec::new() };
    if factors.compression != "none" && !factors.compression.is_empty() {
        return Vec::new();
    }
    let slaves = file.target.brokers.iter().filter(|broker| broker.id > 0).count() as f64;
    let masters = (file.target.brokers.iter().filter(|broker| broker.id == 0).count() as f64).max(1.0);
    let (bodies, tps) = (figures.payload_bytes / masters, figures.tps.mean / masters);
    let consumed = figures.consume_tps / masters * factors.size as f64;
    let (inward, outward) = (bodies, bodies * slaves / masters + consumed);
    let shared =
        broker_host_names(file).first() == file.hosts.first().map(|host| host.name.as_str()).as_ref();
    let (inward, outward) = if shared { (inward + outward, inward + outward) } else { (inward, outward) };
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
    vec![
        term(("network in", "网络流入"), inward, host.net_in),
        term(("network out", "网络流出"), outward, host.net_out),
        term(("disk written", "磁盘写入"), bodies, host.disk_written),
    ]
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
    let mut limits = file.hosts.iter().rev().filter_map(|host| host.roofline.as_ref());
    let beside = limits.next().map_or_else(
        || both!("no self-test to compare with", "没有自测数据可供比较"),
        |limit| {
            let (net, disk) = (numbers::bytes(limit.net_bytes), numbers::bytes(limit.disk_write_bytes));
            both!("self-test: network {net}/s, disk {disk}/s", "自测：网络 {net}/s，磁盘 {disk}/s")
        },
    );
    let (en, zh) = (beside.en, beside.zh);
    let says = both!(
        "{count} sizes all reach {rate}/s ({bits} Gb/s) of bodies: a ceiling of bandwidth, not of messages; {en}",
        "{count} 种消息大小都停在 {rate}/s（{bits} Gb/s）：这是带宽上限，不是消息数上限；{zh}"
    );
    ByteCeiling { bytes, sizes, says }
}

#[cfg(test)]
mod tests;
