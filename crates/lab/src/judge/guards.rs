//! R2: may this rate be called safe? It may when every guard holds, on every machine.
//!
//! The highest rate is not the right rate: a broker is safe while its processors, memory, disk and network all have
//! room, nothing fails, consumers keep up and the latency asked for is kept.
//!
//! A disk's write time is judged against twice its idle time, but below [`Limits::await_floor_ms`] it is never too
//! long: write-back in large requests takes longer than the idle disk's 4 KiB without anybody waiting for it.

mod slo;

pub use slo::Slo;

use super::stats::{mean, quantile};
use super::{Text, both, numbers};
use crate::archive::{HostFile, HostSecond, LoadSecond, Window};
use serde::{Deserialize, Serialize};

/// Share of the processors from which on other programs are named.
const OTHERS_NAMED: f64 = 0.05;

/// What is still called safe.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Busy share of the processors.
    pub cpu_busy: f64,
    /// Load average of one minute per core.
    pub load_per_core: f64,
    /// Share of memory that must be available.
    pub memory_available: f64,
    /// Busy share of the disk.
    pub disk_util: f64,
    /// Write time as a multiple of the idle disk's.
    pub await_times_idle: f64,
    /// Write time that is never too long, milliseconds.
    pub await_floor_ms: f64,
    /// Percent of time in which everything waited for the disk.
    pub io_pressure: f64,
    /// Share of the network's speed, each direction.
    pub network: f64,
    /// Share by which consumers may fall behind producers.
    pub drift: f64,
    /// Collector pauses, 99 of 100 seconds, milliseconds.
    pub gc_pause_ms: f64,
    /// What the user asks for.
    pub slo: Slo,
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
    Drift,
    SendP99,
    EndToEndP99,
    FullCollections,
    CollectorPause,
}

/// One figure beside its limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Guard {
    /// What is watched.
    pub watch: Watch,
    /// On which machine; empty for the load itself.
    pub node: String,
    /// As a multiple of the limit: above 1 the guard is broken. For what must be 0, infinity when it is not.
    pub used: f64,
    /// The figure and the limit, to be read.
    pub reading: Text,
}

impl Guard {
    /// Whether it holds.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.used <= 1.0
    }

    /// Share of the limit that is left; negative when broken.
    #[must_use]
    pub fn headroom(&self) -> f64 {
        1.0 - self.used
    }

    fn new(watch: Watch, node: &str, (value, limit): (f64, f64), reading: Text) -> Self {
        let used = if limit > 0.0 {
            value / limit
        } else if value > 0.0 {
            f64::INFINITY
        } else {
            0.0
        };
        Self { watch, node: node.to_owned(), used, reading }
    }
}

/// Every guard that the window has figures for.
#[must_use]
pub fn guards(window: &Window<'_>, limits: &Limits) -> Vec<Guard> {
    let machines = window.hosts.iter().filter(|(_, seconds)| !seconds.is_empty());
    let mut all: Vec<Guard> = machines.flat_map(|(host, seconds)| machine(host, seconds, limits)).collect();
    if !window.load.is_empty() {
        all.extend(load(window, limits));
    }
    all
}

/// The guard that breaks first when the rate is raised: the least headroom among those that measure a share.
#[must_use]
pub fn next_to_break(guards: &[Guard]) -> Option<&Guard> {
    let measured = guards.iter().filter(|guard| guard.holds() && guard.used > 0.0);
    measured.max_by(|one, other| one.used.total_cmp(&other.used))
}

fn column(seconds: &[HostSecond], value: impl Fn(&HostSecond) -> f64) -> Vec<f64> {
    seconds.iter().map(value).collect()
}

fn machine(host: &HostFile, seconds: &[HostSecond], limits: &Limits) -> Vec<Guard> {
    let mut all = processors(host, seconds, limits);
    all.extend(memory(host, seconds, limits));
    all.extend(disk(host, seconds, limits));
    all.extend(network(host, seconds, limits));
    all.extend(collector(host, seconds, limits));
    all
}

/// Busy share of what the processes may use: a quota makes four idle cores look like room that is not there.
#[must_use]
pub fn cpu_busy(host: &HostFile, seconds: &[HostSecond]) -> f64 {
    cpu_busy_beside(host, seconds, 0.0)
}

/// The same without so many cores that other programs use; of the quota they use nothing.
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

fn disk(host: &HostFile, seconds: &[HostSecond], limits: &Limits) -> Vec<Guard> {
    let util = mean(&column(seconds, |second| second.disk_util));
    let (value, limit) = (numbers::percent(util), numbers::percent(limits.disk_util));
    let text = both!("disk busy {value}, limit {limit}", "磁盘 util {value}，上限 {limit}");
    let mut all = vec![Guard::new(Watch::DiskUtil, &host.name, (util, limits.disk_util), text)];
    let idle = host.roofline.as_ref().map_or(0.0, |roofline| roofline.disk_write_await_ms);
    if idle > 0.0 {
        let wait = quantile(&column(seconds, |second| second.disk_write_await_ms), 0.99);
        let most = (idle * limits.await_times_idle).max(limits.await_floor_ms);
        let (value, limit) = (numbers::short(wait), numbers::short(most));
        let text =
            both!("write await p99 {value} ms, limit {limit} ms", "写 await p99 {value} ms，上限 {limit} ms");
        all.push(Guard::new(Watch::DiskWait, &host.name, (wait, most), text));
    }
    let pressure = mean(&column(seconds, |second| second.io_pressure));
    let (value, limit) = (numbers::short(pressure), numbers::short(limits.io_pressure));
    let text = both!(
        "everything waits for the disk {value} % of the time, limit {limit} %",
        "PSI io.full {value} %，上限 {limit} %"
    );
    all.push(Guard::new(Watch::IoPressure, &host.name, (pressure, limits.io_pressure), text));
    all
}

/// Bytes per second one direction of the network carries at most: the negotiated speed, else what was measured.
#[must_use]
pub fn network_bytes(host: &HostFile) -> Option<f64> {
    let negotiated = host.nics.values().flatten().max().map(|megabits| *megabits as f64 * 125_000.0);
    let measured = host.roofline.as_ref().map(|roofline| roofline.net_bytes);
    negotiated.or(measured).filter(|bytes| *bytes > 0.0)
}

fn network(host: &HostFile, seconds: &[HostSecond], limits: &Limits) -> Vec<Guard> {
    let Some(speed) = network_bytes(host) else { return Vec::new() };
    let most = speed * limits.network;
    let limit = numbers::bytes(most);
    let guard = |watch, (en, zh): (&str, &str), bytes: f64| {
        let value = numbers::bytes(bytes);
        let text = both!("network {en} {value}/s, limit {limit}/s", "网络{zh} {value}/s，上限 {limit}/s");
        Guard::new(watch, &host.name, (bytes, most), text)
    };
    vec![
        guard(Watch::NetworkIn, ("in", "流入"), mean(&column(seconds, |second| second.net_in as f64))),
        guard(Watch::NetworkOut, ("out", "流出"), mean(&column(seconds, |second| second.net_out as f64))),
    ]
}

fn collector(host: &HostFile, seconds: &[HostSecond], limits: &Limits) -> Vec<Guard> {
    if seconds.iter().all(|second| second.gc_young == 0 && second.gc_full == 0 && second.gc_pause_ms == 0.0) {
        return Vec::new();
    }
    let full: u64 = seconds.iter().map(|second| second.gc_full).sum();
    let text = both!("{full} full collections, limit 0", "Full GC {full} 次，上限 0");
    let pause = quantile(&column(seconds, |second| second.gc_pause_ms), 0.99);
    let (value, limit) = (numbers::short(pause), numbers::short(limits.gc_pause_ms));
    let paused = both!(
        "collector pauses p99 {value} ms per second, limit {limit} ms",
        "GC 停顿 p99 每秒 {value} ms，上限 {limit} ms"
    );
    vec![
        Guard::new(Watch::FullCollections, &host.name, (full as f64, 0.0), text),
        Guard::new(Watch::CollectorPause, &host.name, (pause, limits.gc_pause_ms), paused),
    ]
}

fn load(window: &Window<'_>, limits: &Limits) -> Vec<Guard> {
    let sum = |value: fn(&LoadSecond) -> u64| window.load.iter().map(value).sum::<u64>();
    let (failed, refused) = (sum(|second| second.failed), sum(|second| second.refused));
    let allowed = limits.slo.errors_max;
    let failures = both!("{failed} requests failed, limit {allowed}", "失败请求 {failed}，上限 {allowed}");
    let refusals = both!("{refused} requests refused, limit {allowed}", "被拒请求 {refused}，上限 {allowed}");
    let mut all = vec![
        Guard::new(Watch::Errors, "", (failed as f64, allowed as f64), failures),
        Guard::new(Watch::Refusals, "", (refused as f64, allowed as f64), refusals),
    ];
    all.extend(drift(window, limits));
    let p99 = |value: fn(&LoadSecond) -> u64| {
        // Nineteen of twenty seconds keep it.
        quantile(&window.load.iter().map(|second| value(second) as f64).collect::<Vec<_>>(), 0.95)
    };
    if let Some(most) = limits.slo.send_p99_us {
        let (value, limit) = (p99(|second| second.p99_us), numbers::micros(most as f64));
        let reading = numbers::micros(value);
        let text = both!("send p99 {reading}, limit {limit}", "发送 p99 {reading}，上限 {limit}");
        all.push(Guard::new(Watch::SendP99, "", (value, most as f64), text));
    }
    if let Some(most) = limits.slo.end_to_end_p99_us {
        let (value, limit) = (p99(|second| second.end_to_end_p99_us), numbers::micros(most as f64));
        let reading = numbers::micros(value);
        let text = both!("end-to-end p99 {reading}, limit {limit}", "端到端 p99 {reading}，上限 {limit}");
        all.push(Guard::new(Watch::EndToEndP99, "", (value, most as f64), text));
    }
    all
}

/// Consumers must get what is sent: each group all of it.
fn drift(window: &Window<'_>, limits: &Limits) -> Option<Guard> {
    let groups = u64::from(window.factors.map_or(0, |factors| factors.groups));
    let sent: u64 = window.load.iter().map(|second| second.sent).sum();
    if groups == 0 || sent == 0 {
        return None;
    }
    let consumed: u64 = window.load.iter().map(|second| second.consumed).sum();
    let behind = ((sent * groups) as f64 - consumed as f64).max(0.0) / (sent * groups) as f64;
    let (value, limit) = (numbers::percent(behind), numbers::percent(limits.drift));
    let text = both!("consumers fell behind by {value}, limit {limit}", "消费落后 {value}，上限 {limit}");
    Some(Guard::new(Watch::Drift, "", (behind, limits.drift), text))
}

#[cfg(test)]
mod tests;
