//! R2: is a rate safe? It is when every guard holds on every machine.
//!
//! The highest rate is not the right rate: a broker is safe while its processors, memory, disk and network all have
//! headroom, nothing fails, consumers keep up and the requested latency is kept.
//!
//! The write time of a disk is compared with twice its idle time. Below [`Limits::await_floor_ms`] it never breaks the
//! guard: write-back in large requests takes longer than a 4 KiB write on an idle disk, and no request waits for it.
//!
//! A guard without figures is reported as *not measured*: it does not count as broken, and the report says so. When the user's SLO needs a figure that was not measured, the guard is broken.

mod measured;

pub use crate::archive::Slo;
pub use measured::{loopback_bytes, network_bytes};

use super::figures::broker_host_names;
use super::stats::mean;
use super::validity;
use crate::archive::{
    BrokerFile, Factors, HostFile, HostSecond, LoadSecond, RunFile, Sparse, TargetKind, Window,
};
use serde::{Deserialize, Serialize};

/// Share of the processors from which on other programs are mentioned in the reading.
const OTHERS_NAMED: f64 = 0.05;

/// Limits up to which a rate is called safe.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Busy share of the processors.
    pub cpu_busy: f64,
    /// One-minute load average per core.
    pub load_per_core: f64,
    /// Share of memory that must be available.
    pub memory_available: f64,
    /// Busy share of the disk.
    pub disk_util: f64,
    /// Write time of the disk as a multiple of the idle disk's write time.
    pub await_times_idle: f64,
    /// Write time of the disk that never breaks the guard, milliseconds.
    pub await_floor_ms: f64,
    /// I/O pressure: percent of time in which all tasks waited for the disk.
    pub io_pressure: f64,
    /// Share of the network's speed, in each direction.
    pub network: f64,
    /// Share by which the consumed rate may stay below the sent rate.
    pub drift: f64,
    /// Share of the intended rate of an open loop that may be missing.
    pub rate_missing: f64,
    /// 99th percentile, over the seconds with a garbage collection, of the longest pause in the second, milliseconds.
    pub gc_pause_ms: f64,
    /// The limits that the user asks for (SLO).
    pub slo: Slo,
}

impl Limits {
    /// The default limits with the SLO of the run.
    pub fn of(file: &RunFile) -> Self {
        Self { slo: file.slo.clone(), ..Self::default() }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            cpu_busy: 0.75,
            load_per_core: 1.0,
            memory_available: 0.15,
            disk_util: 0.75,
            await_times_idle: 2.0,
            await_floor_ms: 10.0,
            io_pressure: 10.0,
            network: 0.8,
            drift: 0.01,
            rate_missing: 0.01,
            gc_pause_ms: 50.0,
            slo: Slo::default(),
        }
    }
}

/// Quantity that a guard watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Watch {
    Machine,
    CpuBusy,
    Load,
    Memory,
    Swap,
    DiskUtil,
    DiskWait,
    IoPressure,
    NetworkIn,
    NetworkOut,
    Errors,
    Refusals,
    Rate,
    Drift,
    SendP99,
    EndToEndP99,
    FullCollections,
    CollectorPause,
}

/// A measured figure compared with its limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Guard {
    /// Quantity that the guard watches.
    pub watch: Watch,
    /// Name of the machine; empty for the load itself.
    pub node: String,
    /// The figure as a multiple of its limit: above 1 the guard is broken. For a figure that must be 0, it is infinity
    /// when the figure is not 0. `None` when the figure was not measured.
    pub used: Option<f64>,
    /// The figure and its limit, or why there is no figure.
    pub reading: Reading,
}

/// Quantity that a guard reads.
#[derive(Clone, Debug, PartialEq)]
pub enum Reading {
    /// A figure and its limit, in the unit of what is watched.
    Measured {
        /// The figure.
        value: f64,
        /// Limit of the quantity; for a quantity that must be there, the least amount.
        limit: f64,
    },
    /// Use of the processors, as shares.
    Processors {
        /// Busy share.
        busy: f64,
        /// Share that other programs use; `None` where that is little.
        others: Option<f64>,
        /// Largest busy share.
        limit: f64,
    },
    /// Bytes per second in one direction of the network.
    Network {
        /// The way that the bytes take.
        path: Path,
        /// Bytes per second.
        bytes: f64,
        /// Most bytes per second; `None` when the speed is unknown.
        limit: Option<f64>,
    },
    /// The user asked for a limit in microseconds of a figure that was not measured.
    AskedInVain {
        /// The limit.
        limit_us: f64,
    },
    /// There is no figure.
    NotMeasured(Missing),
}

/// The way of bytes to or from a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// The network cards.
    Cards,
    /// Loopback, between programs of the machine.
    Loopback,
}

/// Source that a guard without a figure would have needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// An agent on the machine.
    Agent,
    /// A block device under the store.
    Disk {
        /// File system of the store; empty when it is unknown where the store is.
        filesystem: String,
    },
    /// A self-test of the idle disk.
    IdleDisk,
    /// A kernel that reports I/O pressure.
    Pressure,
    /// Messages that are not delayed.
    Delayed,
    /// Consumers.
    Consumers,
    /// A log of the garbage collector.
    Collector,
}

impl Guard {
    /// Whether the figure is beyond its limit.
    pub fn is_broken(&self) -> bool {
        self.used.is_some_and(|used| used > 1.0)
    }

    /// Share of the limit that is left, negative when the guard is broken; `None` when it was not measured or has no
    /// scale.
    pub fn headroom(&self) -> Option<f64> {
        self.used.filter(|used| used.is_finite()).map(|used| 1.0 - used)
    }

    /// Whether this reading is worse than the other. A broken guard is worst, then one that was not measured.
    pub fn is_worse(&self, other: &Self) -> bool {
        let rank = |guard: &Self| match guard.used {
            Some(used) if used > 1.0 => (2, used),
            None => (1, 0.0),
            Some(used) => (0, used),
        };
        rank(self) > rank(other)
    }

    /// A guard of a figure that may be as high as its limit.
    fn new(watch: Watch, node: &str, (value, limit): (f64, f64)) -> Self {
        let used = if limit > 0.0 {
            value / limit
        } else if value > 0.0 {
            f64::INFINITY
        } else {
            0.0
        };
        Self { watch, node: node.to_owned(), used: Some(used), reading: Reading::Measured { value, limit } }
    }

    /// The guard with another reading for people; its use of the limit stays as it is.
    fn read_as(self, reading: Reading) -> Self {
        Self { reading, ..self }
    }

    fn not_measured(watch: Watch, node: &str, missing: Missing) -> Self {
        Self { watch, node: node.to_owned(), used: None, reading: Reading::NotMeasured(missing) }
    }
}

/// Every guard of the observed broker machines and of the load.
pub fn guards(file: &RunFile, window: &Window<'_>, limits: &Limits) -> Vec<Guard> {
    let brokers = broker_host_names(file);
    let is_java = file.target.kind == TargetKind::Rocketmq;
    // R0 judges whether the lab's own machine had headroom.
    let of_broker = |host: &HostFile| brokers.contains(&host.name.as_str());
    let machines = window.hosts.iter().filter(|(host, seconds)| of_broker(host) && !seconds.is_empty());
    let mut all: Vec<Guard> =
        machines.flat_map(|(host, seconds)| machine(host, seconds, (limits, is_java))).collect();
    if !window.load.is_empty() {
        all.extend(load(file, window, limits));
        all.extend(unwatched(file));
    }
    all
}

/// Guards without a figure, for each broker on a machine that was not observed. Empty when no broker machine was
/// observed: the report then says so once.
fn unwatched(file: &RunFile) -> impl Iterator<Item = Guard> {
    let is_known =
        |broker: &BrokerFile| file.hosts.iter().any(|host| Some(&host.name) == broker.host.as_ref());
    let some_are = file.target.brokers.iter().any(is_known);
    let others = file.target.brokers.iter().filter(move |broker| some_are && !is_known(broker));
    others.map(|broker| {
        let node = format!("{} #{}", broker.name, broker.id);
        Guard::not_measured(Watch::Machine, &node, Missing::Agent)
    })
}

/// The guard that breaks first when the rate is raised: the one with the least headroom among guards with a measured
/// share.
pub fn next_to_break(guards: &[Guard]) -> Option<&Guard> {
    let share = |guard: &Guard| guard.used.filter(|used| *used > 0.0 && *used <= 1.0);
    let measured = guards.iter().filter_map(|guard| Some((guard, share(guard)?)));
    measured.max_by(|one, other| one.1.total_cmp(&other.1)).map(|(guard, _)| guard)
}

fn column(seconds: &[HostSecond], value: impl Fn(&HostSecond) -> f64) -> Vec<f64> {
    seconds.iter().map(value).collect()
}

fn machine(host: &HostFile, seconds: &[HostSecond], (limits, is_java): (&Limits, bool)) -> Vec<Guard> {
    let mut all = processors(host, seconds, limits);
    all.extend(memory(host, seconds, limits));
    all.extend(measured::device(host, seconds, limits));
    all.push(measured::pressure(host, seconds, limits));
    all.extend(measured::network(host, seconds, limits));
    all.extend(measured::collector(host, seconds, (limits, is_java)));
    all
}

/// Busy share of the processors that the broker may use, which may be fewer than the machine has because of a CPU
/// quota.
pub fn cpu_busy(host: &HostFile, seconds: &[HostSecond]) -> f64 {
    cpu_busy_beside(host, seconds, 0.0)
}

/// Like [`cpu_busy`], without the cores that other programs use. These do not count against the broker's CPU quota.
pub fn cpu_busy_beside(host: &HostFile, seconds: &[HostSecond], others: f64) -> f64 {
    let all = mean(&column(seconds, |second| second.cpu_user + second.cpu_system + second.cpu_steal));
    let all = (all - others / f64::from(host.cores.max(1))).max(0.0);
    let process = mean(&column(seconds, |second| second.process_cores));
    match host.cores_allowed {
        Some(allowed) if allowed > 0.0 => all.max(process / allowed),
        _ => all,
    }
}

fn processors(host: &HostFile, seconds: &[HostSecond], limits: &Limits) -> Vec<Guard> {
    let busy = cpu_busy(host, seconds);
    let others = mean(&column(seconds, |second| second.others_cores)) / f64::from(host.cores.max(1));
    let others = Some(others).filter(|share| *share > OTHERS_NAMED);
    let reading = Reading::Processors { busy, others, limit: limits.cpu_busy };
    let mut all = vec![Guard::new(Watch::CpuBusy, &host.name, (busy, limits.cpu_busy)).read_as(reading)];
    if host.cores > 0 {
        let (load, cores) = (mean(&column(seconds, |second| second.load1)), f64::from(host.cores));
        all.push(Guard::new(Watch::Load, &host.name, (load, cores * limits.load_per_core)));
    }
    all
}

fn memory(host: &HostFile, seconds: &[HostSecond], limits: &Limits) -> Vec<Guard> {
    let mut all = Vec::new();
    if host.memory_bytes > 0 {
        let least = seconds.iter().map(|second| second.memory_available).min().unwrap_or(0);
        let available = least as f64 / host.memory_bytes as f64;
        let used = (1.0 - available, 1.0 - limits.memory_available);
        let reading = Reading::Measured { value: available, limit: limits.memory_available };
        all.push(Guard::new(Watch::Memory, &host.name, used).read_as(reading));
    }
    let swapped: u64 = seconds.iter().map(|second| second.swap_in + second.swap_out).sum();
    all.push(Guard::new(Watch::Swap, &host.name, (swapped as f64, 0.0)));
    all
}

fn load(file: &RunFile, window: &Window<'_>, limits: &Limits) -> Vec<Guard> {
    let sum = |value: fn(&LoadSecond) -> u64| window.load.iter().map(value).sum::<u64>();
    let (failed, refused) = (sum(|second| second.failed), sum(|second| second.refused));
    let allowed = limits.slo.errors_max as f64;
    let mut all = vec![
        Guard::new(Watch::Errors, "", (failed as f64, allowed)),
        Guard::new(Watch::Refusals, "", (refused as f64, allowed)),
    ];
    all.extend(rate(window, limits));
    all.push(drift(window, limits));
    all.extend(limits.slo.send_p99_us.map(|most| p99(Watch::SendP99, p99_of(window.latency), most)));
    all.extend(limits.slo.end_to_end_p99_us.map(|most| {
        let seen = p99_of(window.end_to_end);
        let seen = seen.filter(|us| validity::clock_is_good_enough(file.clock_skew_us, *us));
        p99(Watch::EndToEndP99, seen, most)
    }));
    all
}

/// The guard of an open loop's rate: a rate that the generator did not reach was not held.
fn rate(window: &Window<'_>, limits: &Limits) -> Option<Guard> {
    let intended = window.factors?.rate.filter(|rate| *rate > 0.0)?;
    let reached = mean(&window.load.iter().map(LoadSecond::sent_rate).collect::<Vec<_>>()) / intended;
    let reading = Reading::Measured { value: reached, limit: 1.0 - limits.rate_missing };
    let missing = ((1.0 - reached).max(0.0), limits.rate_missing);
    Some(Guard::new(Watch::Rate, "", missing).read_as(reading))
}

/// 99th percentile of all latencies of the window, `None` when there are none. A percentile over the percentiles of
/// seconds would hide short pauses.
fn p99_of(seconds: &[(u64, Sparse)]) -> Option<f64> {
    super::figures::merged(seconds.iter()).map(|all| all.value_at_quantile(0.99) as f64)
}

fn p99(watch: Watch, seen: Option<f64>, most: u64) -> Guard {
    let most = most as f64;
    match seen {
        Some(seen) => Guard::new(watch, "", (seen, most)),
        // A limit that the user asked for and that was not measured is broken.
        None => {
            let broken = Guard::new(watch, "", (f64::INFINITY, 1.0));
            broken.read_as(Reading::AskedInVain { limit_us: most })
        }
    }
}

/// The guard of the consumers: each consumer group must receive everything that is sent.
fn drift(window: &Window<'_>, limits: &Limits) -> Guard {
    let groups = u64::from(window.factors.map_or(0, |factors| factors.groups));
    let is_delayed = window.factors.is_some_and(Factors::is_delayed);
    let sent: u64 = window.load.iter().map(|second| second.sent).sum();
    if groups == 0 || is_delayed || sent == 0 {
        let missing = if is_delayed { Missing::Delayed } else { Missing::Consumers };
        return Guard::not_measured(Watch::Drift, "", missing);
    }
    let consumed: u64 = window.load.iter().map(|second| second.consumed).sum();
    let behind = ((sent * groups) as f64 - consumed as f64).max(0.0) / (sent * groups) as f64;
    Guard::new(Watch::Drift, "", (behind, limits.drift))
}

#[cfg(test)]
mod tests;
