//! R6: what does a backlog cost the producers, and how fast does it drain?

use super::figures::{broker_host_names, series};
use super::stats::{self, Estimate, mean};
use super::{Text, both, numbers};
use crate::archive::{HostSecond, Record, RecordedCell, RunFile, Window};
use serde::{Deserialize, Serialize};

/// Phases of a backlog, in order: the live load, filling without consumers, draining, and after.
pub const PHASES: [&str; 4] = ["before", "during", "drain", "after"];

/// One phase: the columns of seed 003.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the columns say it")]
pub struct Stage {
    pub name: String,
    pub seconds: f64,
    pub send_ms: f64,
    pub send_tps: Estimate,
    pub consume_tps: f64,
    pub load1: f64,
    pub iowait: f64,
    pub io_pressure: f64,
    pub net_in: f64,
    pub net_out: f64,
    pub disk_read: f64,
}

/// What a backlog did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Backlog {
    /// The phases that were recorded.
    pub stages: Vec<Stage>,
    /// Rate of producers while draining over the rate before.
    pub producers: Option<Estimate>,
    /// Messages consumed per second while draining.
    pub drain_tps: f64,
    /// Seconds until it was drained.
    pub drain_seconds: f64,
    /// Bytes read from the disk per byte consumed while draining: 0 when all came from memory.
    pub cold_ratio: f64,
    /// Bytes read from the disk per second while draining.
    pub cold_bytes: f64,
    /// To be read.
    pub says: Text,
}

/// Judges a cell with the phase `drain`; others are no backlog.
#[must_use]
pub fn backlog(record: &Record, cell: &RecordedCell) -> Option<Backlog> {
    let drain = record.windows(cell, "drain");
    if drain.is_empty() {
        return None;
    }
    let seed = record.file.seed;
    let stages = PHASES.map(|name| stage(&record.file, name, &record.windows(cell, name), seed));
    let sent = |name: &str| series(&record.windows(cell, name), |second| second.sent as f64);
    let (quiet, draining) = (sent(PHASES[0]), sent("drain"));
    let produces = |rates: &[Vec<f64>]| rates.iter().flatten().any(|rate| *rate > 0.0);
    let producers = (produces(&quiet) && produces(&draining)).then(|| stats::ratio(&quiet, &draining, seed));
    let [_, _, drained, _] = &stages;
    let consumed_bytes = mean(&series(&drain, |second| second.consumed_bytes as f64).concat());
    let cold_ratio = if consumed_bytes > 0.0 { drained.disk_read / consumed_bytes } else { 0.0 };
    let (drain_tps, drain_seconds, cold_bytes) = (drained.consume_tps, drained.seconds, drained.disk_read);
    let says = says(producers.as_ref(), (drain_tps, drain_seconds), (cold_ratio, cold_bytes));
    let stages = stages.into_iter().filter(|stage| stage.seconds > 0.0).collect();
    Some(Backlog { stages, producers, drain_tps, drain_seconds, cold_ratio, cold_bytes, says })
}

fn stage(file: &RunFile, name: &str, windows: &[Window<'_>], seed: u64) -> Stage {
    let names = broker_host_names(file);
    let on_brokers = windows
        .iter()
        .flat_map(|window| &window.hosts)
        .filter(|(host, _)| names.contains(&host.name.as_str()));
    let hosts: Vec<&HostSecond> = on_brokers.flat_map(|(_, seconds)| seconds.iter()).collect();
    let of =
        |value: fn(&HostSecond) -> f64| mean(&hosts.iter().map(|second| value(second)).collect::<Vec<_>>());
    let rows = windows.iter().map(|window| window.load.len() as f64).sum::<f64>();
    let latencies: Vec<f64> =
        windows.iter().map(|window| super::figures::mean_latency_us(window.load)).collect();
    Stage {
        name: name.to_owned(),
        seconds: if windows.is_empty() { 0.0 } else { rows / windows.len() as f64 },
        send_ms: mean(&latencies) / 1_000.0,
        send_tps: stats::estimate(&series(windows, |second| second.sent as f64), seed),
        consume_tps: mean(&series(windows, |second| second.consumed as f64).concat()),
        load1: of(|second| second.load1),
        iowait: of(|second| second.cpu_iowait),
        io_pressure: of(|second| second.io_pressure),
        net_in: of(|second| second.net_in as f64),
        net_out: of(|second| second.net_out as f64),
        disk_read: of(|second| second.disk_read as f64),
    }
}

fn says(producers: Option<&Estimate>, (tps, seconds): (f64, f64), (ratio, bytes): (f64, f64)) -> Text {
    let (rate, time) = (numbers::rate(tps), numbers::short(seconds));
    let (cold, bytes) = (numbers::percent(ratio.min(1.0)), numbers::bytes(bytes));
    let cost = match producers {
        None => both!("nothing was produced meanwhile", "排空期间没有生产"),
        Some(ratio) if ratio.low <= 1.0 && ratio.high >= 1.0 => {
            let (low, high) = (numbers::change(ratio.low - 1.0), numbers::change(ratio.high - 1.0));
            both!(
                "the backlog costs producers nothing that shows ({low} to {high})",
                "堆积对生产无明显影响（{low} 到 {high}）"
            )
        }
        Some(ratio) => {
            let (value, low, high) = (
                numbers::change(ratio.mean - 1.0),
                numbers::change(ratio.low - 1.0),
                numbers::change(ratio.high - 1.0),
            );
            both!(
                "draining changes what producers reach by {value} ({low} to {high})",
                "排空期间生产 TPS 变化 {value}（{low} 到 {high}）"
            )
        }
    };
    let (en, zh) = (cost.en, cost.zh);
    both!(
        "{en}; drained at {rate} in {time} s, {cold} of it read from the disk ({bytes}/s)",
        "{zh}；排空速率 {rate}，用时 {time} s，其中 {cold} 来自磁盘（{bytes}/s）"
    )
}

#[cfg(test)]
mod tests;
