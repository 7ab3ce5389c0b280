//! Guards for which a machine may have no figures: the disk of the store, the network and garbage collection.

use super::{Guard, Limits, Watch, column};
use crate::archive::{HostFile, HostSecond};
use crate::judge::stats::{mean, quantile};
use crate::judge::{both, numbers};

/// Guards of the disk that holds the store.
pub(super) fn device(host: &HostFile, seconds: &[HostSecond], limits: &Limits) -> Vec<Guard> {
    if host.disk.is_empty() {
        let (kind, name) = (&host.filesystem, &host.name);
        let text = || {
            if kind.is_empty() {
                both!("disk: which one the store is on is not known", "磁盘：不知道存储目录在哪块磁盘上")
            } else {
                both!(
                    "disk: no block device is under the store ({kind})",
                    "磁盘：存储目录下没有块设备（{kind}）"
                )
            }
        };
        return [Watch::DiskUtil, Watch::DiskWait]
            .map(|watch| Guard::not_measured(watch, name, text()))
            .into();
    }
    let util = mean(&column(seconds, |second| second.disk_util));
    let (value, limit) = (numbers::percent(util), numbers::percent(limits.disk_util));
    let text = both!("disk busy {value}, limit {limit}", "磁盘 util {value}，上限 {limit}");
    vec![Guard::new(Watch::DiskUtil, &host.name, (util, limits.disk_util), text), wait(host, seconds, limits)]
}

fn wait(host: &HostFile, seconds: &[HostSecond], limits: &Limits) -> Guard {
    let idle = host.roofline.as_ref().map_or(0.0, |roofline| roofline.disk_write_await_ms);
    if idle <= 0.0 {
        let text = both!(
            "write await: no self-test says what the idle disk takes",
            "写 await：没有自测，不知道空闲磁盘的时延"
        );
        return Guard::not_measured(Watch::DiskWait, &host.name, text);
    }
    let wait = quantile(&column(seconds, |second| second.disk_write_await_ms), 0.99);
    let most = (idle * limits.await_times_idle).max(limits.await_floor_ms);
    let (value, limit) = (numbers::short(wait), numbers::short(most));
    let text =
        both!("write await p99 {value} ms, limit {limit} ms", "写 await p99 {value} ms，上限 {limit} ms");
    Guard::new(Watch::DiskWait, &host.name, (wait, most), text)
}

pub(super) fn pressure(host: &HostFile, seconds: &[HostSecond], limits: &Limits) -> Guard {
    if host.tells_pressure == Some(false) {
        let text = both!(
            "how long everything waits for the disk: the kernel does not tell (/proc/pressure)",
            "PSI io.full：内核未提供 /proc/pressure"
        );
        return Guard::not_measured(Watch::IoPressure, &host.name, text);
    }
    let pressure = mean(&column(seconds, |second| second.io_pressure));
    let (value, limit) = (numbers::short(pressure), numbers::short(limits.io_pressure));
    let text = both!(
        "everything waits for the disk {value} % of the time, limit {limit} %",
        "PSI io.full {value} %，上限 {limit} %"
    );
    Guard::new(Watch::IoPressure, &host.name, (pressure, limits.io_pressure), text)
}

/// Most bytes per second that one direction of the machine's network cards carries, as negotiated. Of several cards the
/// fastest counts, because the run does not say which of them the brokers use.
#[must_use]
pub fn network_bytes(host: &HostFile) -> Option<f64> {
    let fastest = host.nics.values().flatten().max();
    fastest.map(|megabits| *megabits as f64 * 125_000.0).filter(|bytes| *bytes > 0.0)
}

/// Most bytes per second over loopback, as the self-test measured it.
#[must_use]
pub fn loopback_bytes(host: &HostFile) -> Option<f64> {
    host.roofline.as_ref().map(|roofline| roofline.net_bytes).filter(|bytes| *bytes > 0.0)
}

/// Guards of the network cards and of loopback, which have separate limits.
pub(super) fn network(host: &HostFile, seconds: &[HostSecond], limits: &Limits) -> Vec<Guard> {
    let within = mean(&column(seconds, |second| second.net_loopback as f64));
    let directions = [
        (Watch::NetworkIn, ("in", "流入"), mean(&column(seconds, |second| second.net_in as f64))),
        (Watch::NetworkOut, ("out", "流出"), mean(&column(seconds, |second| second.net_out as f64))),
    ];
    let mut all = Vec::new();
    for (watch, (en, zh), bytes) in directions {
        let outside = (bytes - within).max(0.0);
        let paths = [
            (("network", "网络"), outside, network_bytes(host), outside >= within),
            (("loopback", "本机回环"), within, loopback_bytes(host), within > outside),
        ];
        for ((path, path_zh), bytes, speed, is_main) in paths {
            let value = numbers::bytes(bytes);
            match speed.map(|speed| speed * limits.network) {
                Some(most) if bytes > 0.0 || is_main => {
                    let limit = numbers::bytes(most);
                    let text = both!(
                        "{path} {en} {value}/s, limit {limit}/s",
                        "{path_zh}{zh} {value}/s，上限 {limit}/s"
                    );
                    all.push(Guard::new(watch, &host.name, (bytes, most), text));
                }
                None if is_main => {
                    let text = both!(
                        "{path} {en} {value}/s: its speed is not known",
                        "{path_zh}{zh} {value}/s：速率上限未知"
                    );
                    all.push(Guard::not_measured(watch, &host.name, text));
                }
                _ => {}
            }
        }
    }
    all
}

pub(super) fn collector(
    host: &HostFile,
    seconds: &[HostSecond],
    (limits, is_java): (&Limits, bool),
) -> Vec<Guard> {
    if seconds.iter().all(|second| second.gc_young == 0 && second.gc_full == 0 && second.gc_pause_ms == 0.0) {
        let text = || {
            both!(
                "collector pauses: none was seen; without a unified log (JDK 8, another user's process) none can be",
                "GC 停顿：未见；没有统一日志（JDK 8、其他用户的进程）时无法观察"
            )
        };
        let guards = [Watch::FullCollections, Watch::CollectorPause];
        let seen = guards.map(|watch| Guard::not_measured(watch, &host.name, text()));
        return if is_java { seen.into() } else { Vec::new() };
    }
    let full: u64 = seconds.iter().map(|second| second.gc_full).sum();
    let text = both!("{full} full collections, limit 0", "Full GC {full} 次，上限 0");
    // Runs of earlier versions recorded only the sum of the pauses in a second.
    let longest = |second: &HostSecond| {
        if second.gc_pause_max_ms > 0.0 { second.gc_pause_max_ms } else { second.gc_pause_ms }
    };
    // Only seconds with a pause count; otherwise the percentile would hide a pause that comes every two minutes.
    let mut pauses = column(seconds, longest);
    pauses.retain(|longest| *longest > 0.0);
    let pause = quantile(&pauses, 0.99);
    let (value, limit) = (numbers::short(pause), numbers::short(limits.gc_pause_ms));
    let paused = both!(
        "longest collector pause {value} ms in 99 of 100 seconds that had one, limit {limit} ms",
        "有停顿的秒中，99 % 的最长 GC 停顿不超过 {value} ms，上限 {limit} ms"
    );
    vec![
        Guard::new(Watch::FullCollections, &host.name, (full as f64, 0.0), text),
        Guard::new(Watch::CollectorPause, &host.name, (pause, limits.gc_pause_ms), paused),
    ]
}
