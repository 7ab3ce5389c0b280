//! R3: which resource limits the rate?
//!
//! The use of every resource is put on one scale, where 1 means fully used, and the resource with the highest use is
//! named with its evidence. Some limits do not show as use: a throttled disk is not busy, a shaped network is not full.
//! They are recognised by their effects: threads wait for the disk, or bytes flow at a constant rate while nothing else
//! is busy.

mod uses;

pub use uses::{Resource, Use, uses};

use super::figures::{broker_host_names, mean_latency_us, series};
use super::stats::{mean, variation};
use super::validity::in_flight;
use super::{Text, both, numbers};
use crate::archive::{LoadSecond, RunFile, Window};
use serde::{Deserialize, Serialize};

/// Use from which on a resource is named as the bottleneck.
const NAMED: f64 = 0.6;

/// Variation of the bytes per second below which a shaped network is assumed.
const PIPE_VARIATION: f64 = 0.03;

/// The verdict of R3: the resource that limits a rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bottleneck {
    /// The resource that limits the rate.
    pub resource: Resource,
    /// Machine of that resource; empty when the load itself is the limit.
    pub node: String,
    /// Why this resource is named.
    pub evidence: Text,
    /// Every resource with its use, highest use first.
    pub ranked: Vec<Use>,
}

/// Judges the steady windows of one cell. `saturated` says whether more load was tried and gave no higher rate.
#[must_use]
pub fn bottleneck(file: &RunFile, windows: &[Window<'_>], saturated: bool) -> Bottleneck {
    let mut ranked = uses(file, windows);
    if saturated {
        ranked.extend(uses::on_the_way(file, windows));
    }
    ranked.sort_by(|one, other| other.used.total_cmp(&one.used));
    match ranked.first() {
        Some(top) if top.used > NAMED => {
            let (resource, node, evidence) = (top.resource, top.node.clone(), top.reading.clone());
            Bottleneck { resource, node, evidence, ranked }
        }
        _ if broker_host_names(file).is_empty() => unseen(windows, (saturated, ranked)),
        _ if saturated => without_use(windows, ranked),
        _ => room_left(windows, ranked),
    }
}

/// The verdict when no broker machine was observed: the resources of the lab's machine say nothing about the brokers'.
fn unseen(windows: &[Window<'_>], (saturated, ranked): (bool, Vec<Use>)) -> Bottleneck {
    let evidence = if saturated {
        both!(
            "more load gives no more, and no machine of a broker was observed: run vostok lab agent there and name it with \
             --agents",
            "继续加压不再增长，但没有观察任何 Broker 主机：请在其上运行 vostok lab agent 并用 --agents 指定"
        )
    } else {
        let says = room_left(windows, Vec::new()).evidence;
        let (en, zh) = (says.en, says.zh);
        both!("{en}; no machine of a broker was observed", "{zh}；没有观察任何 Broker 主机")
    };
    Bottleneck { resource: Resource::Unknown, node: String::new(), evidence, ranked }
}

/// The verdict when more load gives no more although no observed resource is used much.
fn without_use(windows: &[Window<'_>], ranked: Vec<Use>) -> Bottleneck {
    let varies =
        mean(&series(windows, LoadSecond::sent_bytes_rate).iter().map(|s| variation(s)).collect::<Vec<_>>());
    let bytes = numbers::bytes(mean(&series(windows, LoadSecond::sent_bytes_rate).concat()));
    let spread = numbers::percent(varies);
    let (resource, evidence) = if varies < PIPE_VARIATION {
        let evidence = both!(
            "more load gives no more, nothing is busy, and {bytes}/s of bodies flow almost evenly (variation {spread}): \
             a network shaped below the speed of its cards",
            "继续加压不再增长，各项资源均不忙，消息体流量稳定在 {bytes}/s（波动 {spread}）：网络被限速"
        );
        (Resource::Network, evidence)
    } else {
        let evidence = both!(
            "more load gives no more and nothing is busy; the rate varies by {spread}: a lock, a partition or a queue \
             in the server",
            "继续加压不再增长且各项资源均不忙，TPS 波动 {spread}：服务端内部的锁、分区或队列"
        );
        (Resource::Server, evidence)
    };
    Bottleneck { resource, node: String::new(), evidence, ranked }
}

/// The verdict when no resource is used much, and more load was not tried or gave a higher rate.
fn room_left(windows: &[Window<'_>], ranked: Vec<Use>) -> Bottleneck {
    let round_trip = mean(&windows.iter().map(|window| mean_latency_us(window.load)).collect::<Vec<_>>());
    let threads = numbers::count(windows.first().and_then(in_flight).unwrap_or_default());
    let time = numbers::micros(round_trip);
    let evidence = both!(
        "client- or RTT-limited: RT {time} × {threads} requests in flight, and nothing above 60 %; repeat with more in \
         flight or an open loop",
        "受客户端或往返时延限制：RT {time} × 在途 {threads}，各项资源均低于 60 %；请增加并发或改用开环"
    );
    Bottleneck { resource: Resource::Client, node: String::new(), evidence, ranked }
}

#[cfg(test)]
mod tests;
