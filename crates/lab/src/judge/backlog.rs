//! R6: what does a backlog cost the producers, and how fast do consumers drain it?

use super::figures::{Means, broker_hosts, busiest, series, spread};
use super::stability::{Stability, stability};
use super::stats::{self, Estimate, mean};
use super::validity::sends;
use crate::archive::{LoadSecond, Record, RecordedCell, RunFile, Window};
use serde::Serialize;

/// Names of the phases of a backlog cell, in order: live load before it, filling without consumers, draining, and
/// after.
pub const PHASES: [&str; 4] = ["before", "during", "drain", "after"];

/// The figures of one phase: the columns of the earlier report 003 (docs/lab.md).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[allow(missing_docs, reason = "the columns say it")]
pub struct Stage {
    pub name: String,
    pub seconds: f64,
    pub send_ms: f64,
    pub send_p99_ms: f64,
    pub send_p999_ms: f64,
    pub send_tps: Estimate,
    /// Send rate in this phase divided by the rate in the phase `before`; `None` when there was no rate before.
    pub producers: Option<Estimate>,
    /// R5 for this phase; `None` when nothing was sent in it.
    pub stability: Option<Stability>,
    pub consume_tps: f64,
    /// The broker machine with the busiest processors in this phase.
    pub host: Option<Means>,
    /// Bytes read per second from the disks of all broker machines together.
    pub disk_read: Option<f64>,
}

/// The verdict of R6 on a backlog cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Backlog {
    /// The phases that were recorded, in order.
    pub stages: Vec<Stage>,
    /// Drain of the backlog.
    pub drain: Drain,
    /// Whether everything was there before the time for filling was over; `None` when that was not waited for.
    pub filled: Option<bool>,
    /// Whether producers rested before or during the drain.
    pub rests: bool,
    /// Number of repeats.
    pub repeats: usize,
}

/// Drain of a backlog.
#[derive(Clone, Debug, PartialEq)]
pub struct Drain {
    /// Messages consumed per second.
    pub tps: f64,
    /// Seconds until the backlog was drained, or until the time limit of the phase.
    pub seconds: f64,
    /// Whether the backlog was drained in every repeat; `None` when the phase was ended early.
    pub met: Option<bool>,
    /// Whether the run ended before the phase did.
    pub ended_early: bool,
    /// Bytes read from the disks divided by bytes consumed; 0 when all reads were served from memory.
    pub cold_ratio: Option<f64>,
    /// Bytes read from the disks per second.
    pub cold_bytes: Option<f64>,
}

/// Judges a cell that has a phase `drain`; returns `None` for any other cell, which is no backlog.
pub fn backlog(record: &Record, cell: &RecordedCell) -> Option<Backlog> {
    let drain = record.windows(cell, "drain");
    if drain.is_empty() {
        return None;
    }
    let quiet = record.windows(cell, PHASES[0]);
    let (filled, drained) = (met(cell, "during"), met(cell, "drain"));
    let ended_early = cell.cell.interrupted && drained.is_none();
    let rests = !sends(&quiet) || !sends(&drain);
    let mut stages = PHASES.map(|name| stage(&record.file, name, &record.windows(cell, name), &quiet));
    let draining = &mut stages[2];
    let mut consumed_bytes = mean(&series(&drain, LoadSecond::consumed_bytes_rate).concat());
    if !sends(&drain) && drained == Some(true) {
        consumed_bytes *= draining.end_when_empty(&record.file, &drain);
    }
    let cold_bytes = draining.disk_read;
    let cold_ratio = cold_bytes.map(|read| if consumed_bytes > 0.0 { read / consumed_bytes } else { 0.0 });
    let (drain_tps, drain_seconds) = (draining.consume_tps, draining.seconds);
    let stages = stages.into_iter().filter(|stage| stage.seconds > 0.0).collect();
    let repeats = cell.repeats.len();
    let drain =
        Drain { tps: drain_tps, seconds: drain_seconds, met: drained, ended_early, cold_ratio, cold_bytes };
    Some(Backlog { stages, drain, filled, rests, repeats })
}

/// Whether every repeat of a phase met the condition it waited for; `None` when no repeat recorded that.
fn met(cell: &RecordedCell, phase: &str) -> Option<bool> {
    let said = cell.cell.phases.iter().filter(|found| found.name == phase).filter_map(|found| found.met);
    said.reduce(|one, other| one && other)
}

fn stage(file: &RunFile, name: &str, windows: &[Window<'_>], quiet: &[Window<'_>]) -> Stage {
    let sent = |windows: &[Window<'_>]| series(windows, LoadSecond::sent_rate);
    let (produces, is_quiet) = (sends(windows), name == PHASES[0]);
    let rows = windows.iter().map(|window| window.load.len() as f64).sum::<f64>();
    let latencies: Vec<f64> =
        windows.iter().map(|window| super::figures::mean_latency_us(window.load)).collect();
    let (hosts, latency) = (broker_hosts(file, windows), spread(windows));
    Stage {
        name: name.to_owned(),
        seconds: if windows.is_empty() { 0.0 } else { rows / windows.len() as f64 },
        send_ms: mean(&latencies) / 1_000.0,
        send_p99_ms: latency.p99_us / 1_000.0,
        send_p999_ms: latency.p999_us / 1_000.0,
        send_tps: stats::estimate(&sent(windows), file.seed),
        producers: (produces && sends(quiet) && !is_quiet)
            .then(|| stats::ratio(&sent(quiet), &sent(windows), file.seed)),
        stability: produces.then(|| stability(file, windows)),
        consume_tps: mean(&series(windows, LoadSecond::consumed_rate).concat()),
        disk_read: (!hosts.is_empty()).then(|| hosts.iter().map(|host| host.means.disk_read).sum()),
        host: busiest(hosts),
    }
}

impl Stage {
    /// Cuts a phase in which nothing was produced after its last message. The lab recognises an empty queue only by a
    /// whole second without a message, so the recorded phase is longer than the drain. Returns the recorded length
    /// divided by the new length.
    fn end_when_empty(&mut self, file: &RunFile, windows: &[Window<'_>]) -> f64 {
        let short: Vec<Window<'_>> = windows.iter().map(until_empty).collect();
        let rows =
            |windows: &[Window<'_>]| windows.iter().map(|window| window.load.len() as f64).sum::<f64>();
        let pairs = windows.iter().zip(&short);
        let seconds: f64 = pairs.map(|(whole, short)| seconds_to_empty(short.load, whole.load.len())).sum();
        if seconds == 0.0 {
            return 1.0;
        }
        let times = rows(windows) / seconds;
        let hosts = broker_hosts(file, &short);
        let disk_read = hosts.iter().map(|host| host.means.disk_read).sum::<f64>() * rows(&short) / seconds;
        self.seconds /= times;
        self.consume_tps *= times;
        self.disk_read = (!hosts.is_empty()).then_some(disk_read);
        self.host = busiest(hosts);
        times
    }
}

/// Returns the window without the trailing seconds in which nothing was consumed.
fn until_empty<'a>(window: &Window<'a>) -> Window<'a> {
    let Some(last) = window.load.iter().rposition(|second| second.consumed > 0) else {
        return window.clone();
    };
    let end_ms = window.load[last].at_ms;
    let hosts = window.hosts.iter().map(|(host, seconds)| {
        let count = seconds.partition_point(|second| second.at_ms <= end_ms);
        (*host, &seconds[..count])
    });
    Window { load: &window.load[..=last], hosts: hosts.collect(), ..window.clone() }
}

/// Seconds until everything was consumed; `whole` is the number of seconds before trailing empty seconds were cut. If
/// some were cut, the last second counts only for the share that its messages need at the rate of the second before it.
fn seconds_to_empty(load: &[LoadSecond], whole: usize) -> f64 {
    match load {
        [.., before, last] if load.len() < whole => {
            let share = last.consumed as f64 / before.consumed.max(1) as f64;
            load.len() as f64 - 1.0 + share.min(1.0)
        }
        _ => load.len() as f64,
    }
}

#[cfg(test)]
mod tests;
