//! R6: what does a backlog cost the producers, and how fast does it drain?

use super::figures::{Means, broker_hosts, busiest, series};
use super::stats::{self, Estimate, mean};
use super::validity::sends;
use super::{Text, both, numbers};
use crate::archive::{Record, RecordedCell, RunFile, Window};
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
    /// The busiest machine with a broker.
    pub host: Option<Means>,
    /// Bytes read from the disks of all of them per second.
    pub disk_read: Option<f64>,
}

/// What a phase is called.
#[must_use]
pub fn phase_name(name: &str) -> Text {
    let zh = match name {
        "before" => "堆积前",
        "during" => "堆积中",
        "drain" => "排空中",
        "after" => "排空后",
        other => other,
    };
    Text { en: name.to_owned(), zh: zh.to_owned() }
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
    /// Seconds until it was drained, or until the time for that was over.
    pub drain_seconds: f64,
    /// Whether it was drained in every repeat; runs of earlier versions do not say.
    pub drained: Option<bool>,
    /// Bytes read from the disks per byte consumed while draining: 0 when all came from memory.
    pub cold_ratio: Option<f64>,
    /// Bytes read from the disks per second while draining.
    pub cold_bytes: Option<f64>,
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
    let produces = sends(&record.windows(cell, PHASES[0])) && sends(&drain);
    let producers = produces.then(|| stats::ratio(&quiet, &draining, seed));
    let [_, _, drained, _] = &stages;
    let consumed_bytes = mean(&series(&drain, |second| second.consumed_bytes as f64).concat());
    let cold_bytes = drained.disk_read;
    let cold_ratio = cold_bytes.map(|read| if consumed_bytes > 0.0 { read / consumed_bytes } else { 0.0 });
    let (drain_tps, drain_seconds) = (drained.consume_tps, drained.seconds);
    let (filled, drained) = (met(cell, "during"), met(cell, "drain"));
    let parts = [
        cost(producers.as_ref()),
        draining_text((drain_tps, drain_seconds), drained),
        cold_text(cold_ratio.zip(cold_bytes)),
        (filled == Some(false)).then(|| {
            both!("the time for filling was over before all was there", "堆积时间用尽，未达到目标堆积量")
        }),
        (cell.repeats.len() == 1).then(|| both!("one repeat", "仅运行一次")),
    ];
    let parts: Vec<Text> = parts.into_iter().flatten().collect();
    let join = |word: fn(&Text) -> &str, by| parts.iter().map(word).collect::<Vec<_>>().join(by);
    let says = Text { en: join(|text| &text.en, "; "), zh: join(|text| &text.zh, "；") };
    let stages = stages.into_iter().filter(|stage| stage.seconds > 0.0).collect();
    Some(Backlog { stages, producers, drain_tps, drain_seconds, drained, cold_ratio, cold_bytes, says })
}

/// Whether every repeat of a phase came to what it waited for; absent where none says.
fn met(cell: &RecordedCell, phase: &str) -> Option<bool> {
    let said = cell.cell.phases.iter().filter(|found| found.name == phase).filter_map(|found| found.met);
    said.reduce(|one, other| one && other)
}

fn stage(file: &RunFile, name: &str, windows: &[Window<'_>], seed: u64) -> Stage {
    let rows = windows.iter().map(|window| window.load.len() as f64).sum::<f64>();
    let latencies: Vec<f64> =
        windows.iter().map(|window| super::figures::mean_latency_us(window.load)).collect();
    let hosts = broker_hosts(file, windows);
    Stage {
        name: name.to_owned(),
        seconds: if windows.is_empty() { 0.0 } else { rows / windows.len() as f64 },
        send_ms: mean(&latencies) / 1_000.0,
        send_tps: stats::estimate(&series(windows, |second| second.sent as f64), seed),
        consume_tps: mean(&series(windows, |second| second.consumed as f64).concat()),
        disk_read: (!hosts.is_empty()).then(|| hosts.iter().map(|host| host.means.disk_read).sum()),
        host: busiest(hosts),
    }
}

/// What it costs producers.
fn cost(producers: Option<&Estimate>) -> Option<Text> {
    let Some(ratio) = producers else {
        return Some(both!("nothing was produced meanwhile", "排空期间没有生产"));
    };
    let [value, low, high] = [ratio.mean, ratio.low, ratio.high].map(|ratio| numbers::change(ratio - 1.0));
    Some(if ratio.low <= 1.0 && ratio.high >= 1.0 {
        both!(
            "the backlog costs producers nothing that shows ({low} to {high})",
            "堆积对生产无明显影响（{low} 到 {high}）"
        )
    } else {
        both!(
            "draining changes what producers reach by {value} ({low} to {high})",
            "排空期间生产 TPS 变化 {value}（{low} 到 {high}）"
        )
    })
}

fn draining_text((tps, seconds): (f64, f64), drained: Option<bool>) -> Option<Text> {
    let (rate, time) = (numbers::rate(tps), numbers::short(seconds));
    Some(if drained == Some(false) {
        both!(
            "not drained: read at {rate}, {time} s were not enough",
            "未排空：以 {rate} 消费，{time} s 不足"
        )
    } else {
        both!("drained at {rate} in {time} s", "排空速率 {rate}，用时 {time} s")
    })
}

fn cold_text(cold: Option<(f64, f64)>) -> Option<Text> {
    let (ratio, bytes) = cold?;
    let (share, bytes) = (numbers::percent(ratio.min(1.0)), numbers::bytes(bytes));
    Some(both!("{share} of it read from the disk ({bytes}/s)", "其中 {share} 来自磁盘（{bytes}/s）"))
}

#[cfg(test)]
mod tests;
