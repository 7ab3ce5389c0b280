//! R2: is a rate safe? It is when every guard holds on every machine.
//!
//! The highest rate is not the right rate: a broker is safe while its processors, memory, disk and network all have
//! headroom, nothing fails, consumers keep up and the requested latency is kept.
//!
//! The write time of a disk is compared with twice its idle time. Below [`Limits::await_floor_ms`] it never breaks the
//! guard: write-back in large requests takes longer than a 4 KiB write on an idle disk, and nobody waits for it.
//!
//! A guard without figures is reported as *not measured*: it does not count as broken, and the report says that nobody
//! knows whether it held. When the user's SLO needs a figure that was not measured, the guard is broken.

mod measured;

pub use crate::archive::Slo;
pub use measured::{loopback_bytes, network_bytes};

use super::figures::broker_host_names;
use super::stats::mean;
use super::{Text, both, numbers, validity};
use crate::archive::{BrokerFile, HostFile, HostSecond, LoadSecond, RunFile, Sparse, TargetKind, Window};
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
    #[must_use]
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

/// What a guard watches.
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Guard {
    /// What the guard watches.
    pub watch: Watch,
    /// Name of the machine; empty for the load itself.
    pub node: String,
    /// The figure as a multiple of its limit: above 1 the guard is broken. For a figure that must be 0, it is infinity
    /// when the figure is not 0. `None` when the figure was not measured.
    pub used: Option<f64>,
    /// The figure and its limit as text, or why there is no figure.
    pub reading: Text,
}

impl Guard {
    /// Whether the figure is beyond its limit.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.used.is_some_and(|used| used > 1.0)
    }

    /// Share of the limit that is left, negative when the guard is broken; `None` when it was not measured or has no
    /// scale.
    #[must_use]
    pub fn headroom(&self) -> Option<f64> {
        self.used.filter(|used| used.is_finite()).map(|used| 1.0 - used)
    }

    /// Whether this reading is worse than the other. A broken guard is worst, then one that was not measured.
    #[must_use]
    pub fn is_worse(&self, other: &Self) -> bool {
        let rank = |guard: &Self| match guard.used {
            Some(used) if used > 1.0 => (2, used),
            None => (1, 0.0),
            Some(used) => (0, used),
        };
        rank(self) > rank(other)
    }

    fn new(watch: Watch, node: &str, (value, limit): (f64, f64), reading: Text) -> Self {
        let used = if limit > 0.0 {
            value / limit
        } else if value > 0.0 {
            f64::INFINITY
        } else {
            0.0
        };
        Self { watch, node: node.to_owned(), used: Some(used), reading }
    }

    fn not_measured(watch: Watch, node: &str, reading: Text) -> Self {
        Self { watch, node: node.to_owned(), used: None, reading }
    }

    /// A broken guard for a limit that the user asked for and that was not measured.
    fn asked_in_vain(watch: Watch, reading: Text) -> Self {
        Self { watch, node: String::new(), used: Some(f64::INFINITY), reading }
    }
}

/// Every guard of the observed broker machines and of the load.
#[must_use]
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

/// One guard without a figure for each broker on a machine that was not observed. Empty when no broker machine was
/// observed: the report then says so once.
fn unwatched(file: &RunFile) -> impl Iterator<Item = Guard> {
    let is_known =
        |broker: &BrokerFile| file.hosts.iter().any(|host| Some(&host.name) == broker.host.as_ref());
    let some_are = file.target.brokers.iter().any(is_known);
    let others = file.target.brokers.iter().filter(move |broker| some_are && !is_known(broker));
    others.map(|broker| {
        let node = format!("{} #{}", broker.name, broker.id);
        let text = both!(
            "its machine: run vostok lab agent there and name it with --agents",
            "所在主机：请在其上运行 vostok lab agent 并用 --agents 指定"
        );
        Guard::not_measured(Watch::Machine, &node, text)
    })
}

/// The guard that breaks first when the rate is raised: the one with the least headroom among guards with a measured
/// share.
#[must_use]
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
#[must_use]
pub fn cpu_busy(host: &HostFile, seconds: &[HostSecond]) -> f64 {
    cpu_busy_beside(host, seconds, 0.0)
}

/// Like [`cpu_busy`], without the cores that other programs use. These do not count against the broker's CPU quota.
#[must_use]
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
    let (value, limit) = (numbers::percent(busy), numbers::percent(limits.cpu_busy));
    let others = mean(&column(seconds, |second| second.others_cores)) / f64::from(host.cores.max(1));
    let rest = numbers::percent(others);
    let text = if others > OTHERS_NAMED {
        both!(
            "CPU busy {value} (other programs {rest}), limit {limit}",
            "CPU 使用率 {value}（其他程序 {rest}），上限 {limit}"
        )
    } else {
        both!("CPU busy {value}, limit {limit}", "CPU 使用率 {value}，上限 {limit}")
    };
    let mut all = vec![Guard::new(Watch::CpuBusy, &host.name, (busy, limits.cpu_busy), text)];
    if host.cores > 0 {
        let (load, cores) = (mean(&column(seconds, |second| second.load1)), f64::from(host.cores));
        let limit = cores * limits.load_per_core;
        let (value, most) = (numbers::short(load), numbers::short(limit));
        let text = both!("load {value}, limit {most}", "load {value}，上限 {most}");
        all.push(Guard::new(Watch::Load, &host.name, (load, limit), text));
    }
    all
}

fn memory(host: &HostFile, seconds: &[HostSecond], limits: &Limits) -> Vec<Guard> {
    let mut all = Vec::new();
    if host.memory_bytes > 0 {
        let least = seconds.iter().map(|second| second.memory_available).min().unwrap_or(0);
        let available = least as f64 / host.memory_bytes as f64;
        let (value, limit) = (numbers::percent(available), numbers::percent(limits.memory_available));
        let text = both!("memory available {value}, at least {limit}", "可用内存 {value}，至少 {limit}");
        let used = (1.0 - available, 1.0 - limits.memory_available);
        all.push(Guard::new(Watch::Memory, &host.name, used, text));
    }
    let swapped: u64 = seconds.iter().map(|second| second.swap_in + second.swap_out).sum();
    let text = both!("{swapped} pages swapped, limit 0", "换页 {swapped} 页，上限 0");
    all.push(Guard::new(Watch::Swap, &host.name, (swapped as f64, 0.0), text));
    all
}

fn load(file: &RunFile, window: &Window<'_>, limits: &Limits) -> Vec<Guard> {
    let sum = |value: fn(&LoadSecond) -> u64| window.load.iter().map(value).sum::<u64>();
    let (failed, refused) = (sum(|second| second.failed), sum(|second| second.refused));
    let allowed = limits.slo.errors_max;
    let failures = both!("{failed} requests failed, limit {allowed}", "失败请求 {failed}，上限 {allowed}");
    let refusals = both!("{refused} requests refused, limit {allowed}", "被拒请求 {refused}，上限 {allowed}");
    let mut all = vec![
        Guard::new(Watch::Errors, "", (failed as f64, allowed as f64), failures),
        Guard::new(Watch::Refusals, "", (refused as f64, allowed as f64), refusals),
    ];
    all.extend(rate(window, limits));
    all.push(drift(window, limits));
    all.extend(limits.slo.send_p99_us.map(|most| {
        let name = ("send p99", "发送 p99");
        p99(Watch::SendP99, name, p99_of(window.latency), most)
    }));
    all.extend(limits.slo.end_to_end_p99_us.map(|most| {
        let name = ("end-to-end p99", "端到端 p99");
        let seen = p99_of(window.end_to_end);
        p99(
            Watch::EndToEndP99,
            name,
            seen.filter(|us| validity::clock_is_good_enough(file.clock_skew_us, *us)),
            most,
        )
    }));
    all
}

/// The guard of an open loop's rate: a rate that the generator did not reach was not held.
fn rate(window: &Window<'_>, limits: &Limits) -> Option<Guard> {
    let intended = window.factors?.rate.filter(|rate| *rate > 0.0)?;
    let reached = mean(&window.load.iter().map(LoadSecond::sent_rate).collect::<Vec<_>>()) / intended;
    let (value, least) = (numbers::percent(reached), numbers::percent(1.0 - limits.rate_missing));
    let text = both!(
        "{value} of the intended rate reached, at least {least}",
        "达到目标速率的 {value}，至少 {least}"
    );
    Some(Guard::new(Watch::Rate, "", ((1.0 - reached).max(0.0), limits.rate_missing), text))
}

/// 99th percentile of all latencies of the window, `None` when there are none. A percentile over the percentiles of
/// seconds would hide short pauses.
fn p99_of(seconds: &[(u64, Sparse)]) -> Option<f64> {
    super::figures::merged(seconds.iter()).map(|all| all.value_at_quantile(0.99) as f64)
}

fn p99(watch: Watch, (en, zh): (&str, &str), seen: Option<f64>, most: u64) -> Guard {
    let limit = numbers::micros(most as f64);
    let Some(seen) = seen else {
        let text = both!(
            "{en} was asked to stay below {limit} and was not measured",
            "要求 {zh} 低于 {limit}，但未测量"
        );
        return Guard::asked_in_vain(watch, text);
    };
    let reading = numbers::micros(seen);
    let text = both!("{en} {reading}, limit {limit}", "{zh} {reading}，上限 {limit}");
    Guard::new(watch, "", (seen, most as f64), text)
}

/// The guard of the consumers: each consumer group must receive everything that is sent.
fn drift(window: &Window<'_>, limits: &Limits) -> Guard {
    let groups = u64::from(window.factors.map_or(0, |factors| factors.groups));
    let is_delayed = window.factors.is_some_and(|factors| factors.more.contains_key("delay"));
    let sent: u64 = window.load.iter().map(|second| second.sent).sum();
    if groups == 0 || is_delayed || sent == 0 {
        let text = if is_delayed {
            both!("whether consumers keep up: messages are delayed", "消费是否跟上：消息为延时消息")
        } else {
            both!("whether consumers keep up: nothing was consumed", "消费是否跟上：没有消费")
        };
        return Guard::not_measured(Watch::Drift, "", text);
    }
    let consumed: u64 = window.load.iter().map(|second| second.consumed).sum();
    let behind = ((sent * groups) as f64 - consumed as f64).max(0.0) / (sent * groups) as f64;
    let (value, limit) = (numbers::percent(behind), numbers::percent(limits.drift));
    let text = both!("consumers fell behind by {value}, limit {limit}", "消费落后 {value}，上限 {limit}");
    Guard::new(Watch::Drift, "", (behind, limits.drift), text)
}

#[cfg(test)]
mod tests;
