//! R6: what does a backlog cost the producers, and how fast do consumers drain it?

use super::figures::{Means, broker_hosts, busiest, series, spread};
use super::stability::{Stability, stability};
use super::stats::{self, Estimate, mean};
use super::validity::sends;
use super::{Text, both, numbers};
use crate::archive::{LoadSecond, Record, RecordedCell, RunFile, Window};
use serde::{Deserialize, Serialize};

/// Names of the phases of a backlog cell, in order: live load before it, filling without consumers, draining, and
/// after.
pub const PHASES: [&str; 4] = ["before", "during", "drain", "after"];

/// The figures of one phase: the columns of the report of seed 003.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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

/// The name of a phase as reports print it.
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

/// The verdict of R6 on a backlog cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Backlog {
    /// The phases that were recorded, in order.
    pub stages: Vec<Stage>,
    /// Messages consumed per second while draining.
    pub drain_tps: f64,
    /// Seconds until the backlog was drained, or until the time limit of the phase.
    pub drain_seconds: f64,
    /// Whether the backlog was drained in every repeat; `None` when the phase was ended early.
    pub drained: Option<bool>,
    /// Bytes read from the disks divided by bytes consumed while draining; 0 when all reads were served from memory.
    pub cold_ratio: Option<f64>,
    /// Bytes read from the disks per second while draining.
    pub cold_bytes: Option<f64>,
    /// The verdict as a sentence for the report.
    pub says: Text,
}

/// Judges a cell that has a phase `drain`; returns `None` for any other cell, which is no backlog.
#[must_use]
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
    let parts = [
        rests.then(|| both!("nothing was produced meanwhile", "排空期间没有生产")),
        cost(&stages),
        Some(draining_text((drain_tps, drain_seconds), drained, ended_early)),
        cold_text(cold_ratio.zip(cold_bytes)),
        (filled == Some(false)).then(|| {
            both!("the time for filling was over before all was there", "堆积时间用尽，未达到目标堆积量")
        }),
        (cell.repeats.len() == 1).then(|| both!("one repeat", "仅运行一次")),
    ];
    let parts: Vec<Text> = parts.into_iter().flatten().chain(stages.iter().filter_map(unsteady)).collect();
    let join = |word: fn(&Text) -> &str, by| parts.iter().map(word).collect::<Vec<_>>().join(by);
    let says = Text { en: join(|text| &text.en, "; "), zh: join(|text| &text.zh, "；") };
    let stages = stages.into_iter().filter(|stage| stage.seconds > 0.0).collect();
    Some(Backlog { stages, drain_tps, drain_seconds, drained, cold_ratio, cold_bytes, says })
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

/// Describes how the send rate changed in each phase.
fn cost(stages: &[Stage]) -> Option<Text> {
    let known =
        || stages.iter().filter_map(|stage| Some((phase_name(&stage.name), stage.producers.as_ref()?)));
    let texts = known().map(|(name, ratio)| {
        let [value, low, high] =
            [ratio.mean, ratio.low, ratio.high].map(|ratio| numbers::change(ratio - 1.0));
        let Text { en, zh } = name;
        both!("{en} {value} ({low} to {high})", "{zh} {value}（{low} 到 {high}）")
    });
    let (en, zh): (Vec<String>, Vec<String>) = texts.map(|text| (text.en, text.zh)).unzip();
    let shows = known().any(|(_, ratio)| ratio.low > 1.0 || ratio.high < 1.0);
    let (en, zh) = (en.join(", "), zh.join("，"));
    (!en.is_empty()).then(|| {
        if shows {
            both!("what producers reach against before: {en}", "生产 TPS 相比堆积前：{zh}")
        } else {
            both!("the backlog costs producers nothing that shows: {en}", "堆积对生产无明显影响：{zh}")
        }
    })
}

/// Describes a phase in which the send rate fluctuates; `None` for a steady phase.
fn unsteady(stage: &Stage) -> Option<Text> {
    let stability = stage.stability.as_ref().filter(|stability| stability.fluctuates)?;
    let (Text { en, zh }, says, says_zh) = (phase_name(&stage.name), &stability.says.en, &stability.says.zh);
    Some(both!("{en}: {says}", "{zh}：{says_zh}"))
}

fn draining_text((tps, seconds): (f64, f64), drained: Option<bool>, ended_early: bool) -> Text {
    let (rate, time) = (numbers::rate(tps), numbers::short(seconds));
    if ended_early {
        both!(
            "ended early while draining: read at {rate} for {time} s",
            "排空期间提前结束：以 {rate} 消费了 {time} s"
        )
    } else if drained == Some(false) {
        both!(
            "not drained: read at {rate}, {time} s were not enough",
            "未排空：以 {rate} 消费，{time} s 不足"
        )
    } else {
        both!("drained at {rate} in {time} s", "排空速率 {rate}，用时 {time} s")
    }
}

fn cold_text(cold: Option<(f64, f64)>) -> Option<Text> {
    let (ratio, bytes) = cold?;
    let (share, bytes) = (numbers::percent(ratio.min(1.0)), numbers::bytes(bytes));
    Some(both!("{share} of it read from the disk ({bytes}/s)", "其中 {share} 来自磁盘（{bytes}/s）"))
}

#[cfg(test)]
mod tests;
