//! Guards for which a machine may have no figures: the disk of the store, the network and garbage collection.

use super::{Guard, Limits, Missing, Path, Reading, Watch, column};
use crate::archive::{HostFile, HostSecond};
use crate::judge::stats::{mean, quantile};

/// Guards of the disk that holds the store.
pub(super) fn device(host: &HostFile, seconds: &[HostSecond], limits: &Limits) -> Vec<Guard> {
    if host.disk.is_empty() {
        let missing = || Missing::Disk { filesystem: host.filesystem.clone() };
        return [Watch::DiskUtil, Watch::DiskWait]
            .map(|watch| Guard::not_measured(watch, &host.name, missing()))
            .into();
    }
    let util = mean(&column(seconds, |second| second.disk_util));
    vec![Guard::new(Watch::DiskUtil, &host.name, (util, limits.disk_util)), wait(host, seconds, limits)]
}

fn wait(host: &HostFile, seconds: &[HostSecond], limits: &Limits) -> Guard {
    let idle = host.roofline.as_ref().map_or(0.0, |roofline| roofline.disk_write_await_ms);
    if idle <= 0.0 {
        return Guard::not_measured(Watch::DiskWait, &host.name, Missing::IdleDisk);
    }
    let wait = quantile(&column(seconds, |second| second.disk_write_await_ms), 0.99);
    let most = (idle * limits.await_times_idle).max(limits.await_floor_ms);
    Guard::new(Watch::DiskWait, &host.name, (wait, most))
}

pub(super) fn pressure(host: &HostFile, seconds: &[HostSecond], limits: &Limits) -> Guard {
    if host.tells_pressure == Some(false) {
        return Guard::not_measured(Watch::IoPressure, &host.name, Missing::Pressure);
    }
    let pressure = mean(&column(seconds, |second| second.io_pressure));
    Guard::new(Watch::IoPressure, &host.name, (pressure, limits.io_pressure))
}

/// Most bytes per second that one direction of the machine's network cards carries, as negotiated. Of several cards the
/// fastest counts, because the run does not say which of them the brokers use.
pub fn network_bytes(host: &HostFile) -> Option<f64> {
    let fastest = host.nics.values().flatten().max();
    fastest.map(|megabits| *megabits as f64 * 125_000.0).filter(|bytes| *bytes > 0.0)
}

/// Most bytes per second over loopback, as the self-test measured it.
pub fn loopback_bytes(host: &HostFile) -> Option<f64> {
    host.roofline.as_ref().map(|roofline| roofline.net_bytes).filter(|bytes| *bytes > 0.0)
}

/// Guards of the network cards and of loopback, which have separate limits.
pub(super) fn network(host: &HostFile, seconds: &[HostSecond], limits: &Limits) -> Vec<Guard> {
    let within = mean(&column(seconds, |second| second.net_loopback as f64));
    let directions = [
        (Watch::NetworkIn, mean(&column(seconds, |second| second.net_in as f64))),
        (Watch::NetworkOut, mean(&column(seconds, |second| second.net_out as f64))),
    ];
    let mut all = Vec::new();
    for (watch, bytes) in directions {
        let outside = (bytes - within).max(0.0);
        let paths = [
            (Path::Cards, outside, network_bytes(host), outside >= within),
            (Path::Loopback, within, loopback_bytes(host), within > outside),
        ];
        for (path, bytes, speed, is_main) in paths {
            let limit = speed.map(|speed| speed * limits.network);
            let reading = Reading::Network { path, bytes, limit };
            match limit {
                Some(most) if bytes > 0.0 || is_main => {
                    all.push(Guard::new(watch, &host.name, (bytes, most)).read_as(reading));
                }
                None if is_main => {
                    all.push(Guard { watch, node: host.name.clone(), used: None, reading });
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
        let guards = [Watch::FullCollections, Watch::CollectorPause];
        let seen = guards.map(|watch| Guard::not_measured(watch, &host.name, Missing::Collector));
        return if is_java { seen.into() } else { Vec::new() };
    }
    let full: u64 = seconds.iter().map(|second| second.gc_full).sum();
    // Runs of earlier versions recorded only the sum of the pauses in a second.
    let longest = |second: &HostSecond| {
        if second.gc_pause_max_ms > 0.0 { second.gc_pause_max_ms } else { second.gc_pause_ms }
    };
    // Only seconds with a pause count; otherwise the percentile would hide a pause that comes every two minutes.
    let mut pauses = column(seconds, longest);
    pauses.retain(|longest| *longest > 0.0);
    let pause = quantile(&pauses, 0.99);
    vec![
        Guard::new(Watch::FullCollections, &host.name, (full as f64, 0.0)),
        Guard::new(Watch::CollectorPause, &host.name, (pause, limits.gc_pause_ms)),
    ]
}
