//! The figures of one cell over its repeats. Only a valid cell has any: see [`super::Judged`].

use super::stats::{self, Estimate, mean};
use super::validity::clock_is_good_enough;
use crate::archive::{HostSecond, LoadSecond, RunFile, Sparse, Window};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Figures of a cell in its steady state, over all repeats.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Messages acknowledged per second.
    pub tps: Estimate,
    /// Messages acknowledged in every second of every repeat.
    pub tps_seconds: Vec<Vec<f64>>,
    /// 99th percentile of the send latency in every second of every repeat, microseconds.
    pub p99_seconds: Vec<Vec<f64>>,
    /// Bytes of message bodies sent per second.
    pub payload_bytes: f64,
    /// Messages consumed per second.
    pub consume_tps: f64,
    /// Distribution of the send latency over all repeats.
    pub latency: Spread,
    /// 99th percentile of the time from send to consumption over all messages, microseconds. `None` without consumers,
    /// and when the clocks of the machines differ too much to tell.
    pub end_to_end_p99_us: Option<f64>,
    /// Number of requests that got no answer.
    pub failed: u64,
    /// Number of requests that were answered with an error.
    pub refused: u64,
    /// The broker machine with the busiest processors; `None` when no broker machine was observed.
    pub host: Option<Means>,
    /// Processor time that the brokers used per message, microseconds.
    pub cpu_us_per_message: Option<f64>,
}

/// A distribution of latencies in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "percentiles")]
pub struct Spread {
    pub mean_us: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub p9999_us: f64,
    pub max_us: f64,
}

/// A machine in the steady state: each figure is the mean over its seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "fields of `HostSecond`")]
pub struct Means {
    pub node: String,
    pub cpu: f64,
    pub load1: f64,
    pub iowait: f64,
    pub io_pressure: f64,
    pub net_in: f64,
    pub net_out: f64,
    pub disk_read: f64,
    pub disk_written: f64,
    pub disk_util: f64,
    pub memory: f64,
}

impl Figures {
    /// Computes the figures from the windows of all repeats; `seed` is the seed of the bootstrap.
    pub fn new(file: &RunFile, windows: &[Window<'_>], seed: u64) -> Self {
        let tps_seconds = series(windows, LoadSecond::sent_rate);
        let tps = stats::estimate(&tps_seconds, seed);
        let end_to_end = merged(windows.iter().flat_map(|window| window.end_to_end));
        let end_to_end = end_to_end.map(|all| all.value_at_quantile(0.99) as f64);
        let sum = |value: fn(&LoadSecond) -> u64| rows(windows).map(value).sum::<u64>();
        let machines = broker_hosts(file, windows);
        let cores: f64 = machines.iter().map(|machine| machine.process_cores).sum();
        Self {
            payload_bytes: mean_of(windows, LoadSecond::sent_bytes_rate),
            consume_tps: mean_of(windows, LoadSecond::consumed_rate),
            p99_seconds: series(windows, |second| second.p99_us as f64),
            latency: spread(windows),
            end_to_end_p99_us: end_to_end.filter(|us| clock_is_good_enough(file.clock_skew_us, *us)),
            failed: sum(|second| second.failed),
            refused: sum(|second| second.refused),
            host: busiest(machines),
            cpu_us_per_message: (cores > 0.0 && tps.mean > 0.0).then(|| cores * 1e6 / tps.mean),
            tps,
            tps_seconds,
        }
    }
}

fn rows<'a>(windows: &'a [Window<'a>]) -> impl Iterator<Item = &'a LoadSecond> {
    windows.iter().flat_map(|window| window.load)
}

/// Values of the seconds of load, in a list per repeat.
pub fn series(windows: &[Window<'_>], value: impl Fn(&LoadSecond) -> f64) -> Vec<Vec<f64>> {
    windows.iter().map(|window| window.load.iter().map(&value).collect()).collect()
}

fn mean_of(windows: &[Window<'_>], value: impl Fn(&LoadSecond) -> f64) -> f64 {
    mean(&series(windows, value).concat())
}

/// Mean latency in microseconds, weighted by the messages of each second: the mean that Little's law needs.
pub fn mean_latency_us(load: &[LoadSecond]) -> f64 {
    let sent: u64 = load.iter().map(|second| second.sent).sum();
    let total: f64 = load.iter().map(|second| second.mean_us * second.sent as f64).sum();
    if sent == 0 { 0.0 } else { total / sent as f64 }
}

/// Histogram of all send latencies of the windows; `None` when none was recorded.
pub fn histogram(windows: &[Window<'_>]) -> Option<Histogram<u64>> {
    merged(windows.iter().flat_map(|window| window.latency))
}

/// Merges the histograms of several seconds; `None` when they hold no latency.
pub fn merged<'a>(seconds: impl Iterator<Item = &'a (u64, Sparse)>) -> Option<Histogram<u64>> {
    let mut all = Histogram::new(3).expect("three digits are valid");
    seconds.for_each(|(_, second)| second.add_to(&mut all));
    (!all.is_empty()).then_some(all)
}

/// Distribution of the send latencies of the windows. Without histograms it is estimated from the percentiles of each
/// second.
pub(super) fn spread(windows: &[Window<'_>]) -> Spread {
    let Some(all) = histogram(windows) else {
        let seconds = |value: fn(&LoadSecond) -> f64| stats::median(&series(windows, value).concat());
        let means: Vec<f64> = windows.iter().map(|window| mean_latency_us(window.load)).collect();
        return Spread {
            mean_us: mean(&means),
            p50_us: seconds(|second| second.p50_us as f64),
            p99_us: seconds(|second| second.p99_us as f64),
            p999_us: seconds(|second| second.p999_us as f64),
            p9999_us: 0.0,
            max_us: rows(windows).map(|second| second.max_us).max().unwrap_or(0) as f64,
        };
    };
    let at = |share| all.value_at_quantile(share) as f64;
    Spread {
        mean_us: all.mean(),
        p50_us: at(0.5),
        p99_us: at(0.99),
        p999_us: at(0.999),
        p9999_us: at(0.9999),
        max_us: all.max() as f64,
    }
}

/// Names of the observed machines that run brokers: those that the run names for its brokers. Where it names none, all
/// machines except the first, which is the lab's: the run would name that one if a broker ran there. Empty when no
/// broker machine was observed.
pub fn broker_host_names(file: &RunFile) -> Vec<&str> {
    let said: Vec<&str> = file.target.brokers.iter().filter_map(|broker| broker.host.as_deref()).collect();
    let known: Vec<&str> = file.hosts.iter().map(|host| host.name.as_str()).collect();
    let found: Vec<&str> = known.iter().copied().filter(|name| said.contains(name)).collect();
    if found.is_empty() { known.into_iter().skip(1).collect() } else { found }
}

/// A machine that runs brokers, with its means over the windows.
pub(super) struct Machine {
    pub means: Means,
    process_cores: f64,
}

/// Returns the means of the machine with the highest processor use.
pub(super) fn busiest(machines: Vec<Machine>) -> Option<Means> {
    let busiest = machines.into_iter().max_by(|one, other| one.means.cpu.total_cmp(&other.means.cpu));
    busiest.map(|machine| machine.means)
}

/// The machines with brokers that were observed during the windows.
pub(super) fn broker_hosts(file: &RunFile, windows: &[Window<'_>]) -> Vec<Machine> {
    let names = broker_host_names(file);
    let machine = |name: &str| {
        let all = windows.iter().flat_map(|window| &window.hosts).filter(|(host, _)| host.name == name);
        let seconds: Vec<HostSecond> = all.flat_map(|(_, seconds)| seconds.iter().cloned()).collect();
        (!seconds.is_empty()).then(|| {
            let process: Vec<f64> = seconds.iter().map(|second| second.process_cores).collect();
            Machine { means: means(name, &seconds), process_cores: mean(&process) }
        })
    };
    names.into_iter().filter_map(machine).collect()
}

fn means(node: &str, seconds: &[HostSecond]) -> Means {
    let of = |value: fn(&HostSecond) -> f64| mean(&seconds.iter().map(value).collect::<Vec<_>>());
    Means {
        node: node.to_owned(),
        cpu: of(|second| second.cpu_user + second.cpu_system + second.cpu_steal),
        load1: of(|second| second.load1),
        iowait: of(|second| second.cpu_iowait),
        io_pressure: of(|second| second.io_pressure),
        net_in: of(|second| second.net_in as f64),
        net_out: of(|second| second.net_out as f64),
        disk_read: of(|second| second.disk_read as f64),
        disk_written: of(|second| second.disk_written as f64),
        disk_util: of(|second| second.disk_util),
        memory: of(|second| second.process_anonymous as f64),
    }
}
