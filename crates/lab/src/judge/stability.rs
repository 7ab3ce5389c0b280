//! R5: does the rate fluctuate, and what coincides with it?
//!
//! A cell fluctuates when the rates of its seconds vary by more than 10 %, or when any ten consecutive seconds reach
//! less than half of the median. A cause is named when it was present in at least half of the low seconds, and at least
//! twice as often there as in the other seconds.

use super::figures::{broker_host_names, series};
use super::stats::{mean, median, variation};
use super::{Text, both, numbers};
use crate::archive::{BROKER_AWAY, BROKER_RESTARTED, BrokerSecond, HostSecond, LoadSecond, RunFile, Window};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Variation of the rate above which it fluctuates.
const VARIATION_MAX: f64 = 0.1;

/// Number of consecutive seconds whose mean is compared with the median.
const STRETCH: usize = 10;

/// Share of the median below which a second is low.
const LOW: f64 = 0.8;

/// Share of the low seconds in which a cause must have been present.
const OVERLAP_MIN: f64 = 0.5;

/// Kinds of events that can lower a rate. Other events are marks of the lab, such as the begin of a phase, or repeat
/// what the rows of load and machines say, so they would be counted twice.
const EVENT_CAUSES: [&str; 3] = ["no-answer", BROKER_AWAY, BROKER_RESTARTED];

/// Unflushed or unreplicated bytes, as a multiple of the bytes sent per second, from which on flushing or replication
/// lags.
const BEHIND: f64 = 2.0;

/// Milliseconds from which on a slow append or a garbage collection counts as a cause.
const PAUSE_MS: f64 = 100.0;

/// Kind of the cause for requests that a broker refused without a recorded reason.
const REFUSED: &str = "refused-by-broker";

/// The verdict of R5: how much a rate fluctuates, and the likely causes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stability {
    /// Standard deviation of the rates of single seconds, divided by their mean.
    pub variation: f64,
    /// Mean rate of the lowest ten consecutive seconds, divided by the median.
    pub lowest: f64,
    /// Whether the rate fluctuates by the limits of R5.
    pub fluctuates: bool,
    /// The causes that coincide with the low seconds, strongest first; empty for a steady rate.
    pub causes: Vec<Cause>,
    /// The verdict as a sentence for the report.
    pub says: Text,
}

/// A possible cause: something that was present in the low seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cause {
    /// Kind of the cause: `flow-control`, `refusedBehind`, `roll`, `gc`, …
    pub kind: String,
    /// Share of the low seconds in which the cause was present.
    pub in_low: f64,
    /// Share of the other seconds in which the cause was present.
    pub in_others: f64,
    /// How many times the cause occurred.
    pub times: u64,
}

/// Judges the steady windows of a cell.
#[must_use]
pub fn stability(file: &RunFile, windows: &[Window<'_>]) -> Stability {
    let rates = series(windows, LoadSecond::sent_rate);
    let varies = mean(&rates.iter().map(|repeat| variation(repeat)).collect::<Vec<_>>());
    let lowest = rates.iter().map(|repeat| lowest_stretch(repeat)).fold(1.0, f64::min);
    let fluctuates = varies > VARIATION_MAX || lowest < 0.5;
    let causes = if fluctuates { causes(file, windows) } else { Vec::new() };
    let says = says(varies, fluctuates, &causes);
    Stability { variation: varies, lowest, fluctuates, causes, says }
}

fn lowest_stretch(rates: &[f64]) -> f64 {
    let middle = median(rates);
    if middle <= 0.0 {
        return 1.0;
    }
    rates.windows(STRETCH).map(|stretch| mean(stretch) / middle).fold(1.0, f64::min)
}

fn says(varies: f64, fluctuates: bool, causes: &[Cause]) -> Text {
    let spread = numbers::percent(varies);
    match causes.first() {
        _ if !fluctuates => both!("steady: the rate varies by {spread}", "稳定：TPS 波动 {spread}"),
        None => both!(
            "the rate fluctuates by {spread}, and nothing recorded goes with it",
            "TPS 波动 {spread}，未发现与之重合的原因"
        ),
        Some(cause) => {
            let (kind, zh) = (&cause.kind, name_zh(&cause.kind));
            let (times, share) = (numbers::count(cause.times as f64), numbers::percent(cause.in_low));
            let why = causes.iter().find(|why| kind == "flow-control" && is_refusal(&why.kind));
            let why = why.map(|why| (&why.kind, name_zh(&why.kind)));
            let (why, why_zh) = why.map_or_else(Default::default, |(en, zh)| {
                (format!(", the broker's cause: {en}"), format!("，Broker 给出的原因：{zh}"))
            });
            both!(
                "the rate fluctuates by {spread} because of {kind}: {times} times, in {share} of the low seconds{why}",
                "TPS 波动 {spread}，原因 {zh}：{times} 次，出现在 {share} 的低谷秒内{why_zh}"
            )
        }
    }
}

/// Whether the cause is a reason that a broker gave for refused requests.
fn is_refusal(kind: &str) -> bool {
    kind == "putMessageFailedTimes" || kind.starts_with("refused")
}

/// The name of a cause in Chinese; a kind without a translation is returned unchanged.
pub(crate) fn name_zh(kind: &str) -> &str {
    match kind {
        "flow-control" => "流控",
        "no-answer" => "请求无应答",
        "refused-by-broker" | "putMessageFailedTimes" => "Broker 写入失败",
        "refusedBehind" => "索引等待磁盘",
        "refusedDiskFull" => "磁盘已满",
        "refusedFenced" => "写盘或刷盘失败",
        "refusedColdReads" => "冷读过多",
        "refusedChanges" => "主题或消费组变更过多",
        "refusedHeldPulls" => "等待消息的拉取过多",
        "refusedOther" => "其他拒绝",
        "flush-stall" => "刷盘滞后",
        "slow-append" => "写入停顿",
        "replica-lag" => "副本滞后",
        "roll" => "文件滚动",
        "clean" => "文件清理",
        "gc" => "GC 停顿",
        "full-gc" => "Full GC",
        "steal" => "虚拟化抢占（steal）",
        "cpu-quota" => "CPU 配额限流",
        "other-programs" => "其他程序占用 CPU",
        "disk" => "磁盘繁忙",
        "swap" => "换页",
        "retransmits" => "网络重传",
        BROKER_AWAY => "Broker 无应答",
        BROKER_RESTARTED => "Broker 重启",
        other => other,
    }
}

/// The seconds in which a cause was present, over all repeats, and how often it occurred.
#[derive(Default)]
struct Presence {
    seconds: Vec<bool>,
    times: u64,
}

fn causes(file: &RunFile, windows: &[Window<'_>]) -> Vec<Cause> {
    let mut low = Vec::new();
    let mut present: BTreeMap<String, Presence> = BTreeMap::new();
    for window in windows {
        let before = low.len();
        let middle = median(&window.load.iter().map(LoadSecond::sent_rate).collect::<Vec<_>>());
        low.extend(window.load.iter().map(|second| second.sent_rate() < LOW * middle));
        for (kind, at, times) in sightings(file, window) {
            let presence = present.entry(kind).or_default();
            presence.seconds.resize(low.len(), false);
            presence.seconds[before + at] = true;
            presence.times += times;
        }
    }
    let mut found: Vec<Cause> =
        present.into_iter().filter_map(|(kind, presence)| cause(kind, presence, &low)).collect();
    found.sort_by(|one, other| (other.in_low - other.in_others).total_cmp(&(one.in_low - one.in_others)));
    found
}

fn cause(kind: String, mut presence: Presence, low: &[bool]) -> Option<Cause> {
    presence.seconds.resize(low.len(), false);
    let share = |of: bool| {
        let seconds = low.iter().zip(&presence.seconds).filter(|(low, _)| **low == of);
        mean(&seconds.map(|(_, there)| f64::from(u8::from(*there))).collect::<Vec<_>>())
    };
    let (in_low, in_others) = (share(true), share(false));
    (in_low >= OVERLAP_MIN && in_low >= 2.0 * in_others).then_some(Cause {
        kind,
        in_low,
        in_others,
        times: presence.times,
    })
}

/// Everything in a window that can lower a rate: kind, index of the second, number of occurrences.
fn sightings(file: &RunFile, window: &Window<'_>) -> Vec<(String, usize, u64)> {
    let mut found = Vec::new();
    for event in window.events.iter().filter(|event| EVENT_CAUSES.contains(&event.kind.as_str())) {
        let ends = event.at_ms + event.lasted_ms.max(1);
        let overlaps = |second: &LoadSecond| second.at_ms > event.at_ms && second.at_ms < ends + 1_000;
        let seconds = window.load.iter().enumerate().filter(|(_, second)| overlaps(second));
        // An event that lasts several seconds is counted once, in its first second.
        found.extend(
            seconds.enumerate().map(|(place, (at, _))| (event.kind.clone(), at, u64::from(place == 0))),
        );
    }
    for (at, second) in window.load.iter().enumerate() {
        if second.refused > 0 {
            found.push(("flow-control".to_owned(), at, second.refused));
        }
    }
    let names = broker_host_names(file);
    for (_, seconds) in window.hosts.iter().filter(|(host, _)| names.contains(&host.name.as_str())) {
        for second in *seconds {
            let Some(at) = window.load.iter().position(|load| load.at_ms + 500 > second.at_ms) else {
                continue;
            };
            found.extend(troubles(second).map(|kind| (kind.to_owned(), at, 1)));
        }
    }
    for (_, seconds) in &window.brokers {
        found.extend(broker_troubles(window, seconds));
    }
    found
}

/// What a broker's own figures show that can lower a rate.
fn broker_troubles(window: &Window<'_>, seconds: &[BrokerSecond]) -> Vec<(String, usize, u64)> {
    let sent = median(&window.load.iter().map(LoadSecond::sent_bytes_rate).collect::<Vec<_>>());
    let mut found = Vec::new();
    let mut refused = seconds.first().map_or_else(BTreeMap::new, refusals);
    for second in seconds {
        let before = std::mem::replace(&mut refused, refusals(second));
        let Some(at) = window.load.iter().position(|load| load.at_ms + 500 > second.at_ms) else { continue };
        for (cause, count) in &refused {
            let new = count.saturating_sub(before.get(cause).copied().unwrap_or_default());
            found.extend((new > 0).then(|| ((*cause).to_owned(), at, new)));
        }
        let is_behind = |bytes: u64| sent > 0.0 && bytes as f64 > BEHIND * sent;
        let signs = [
            ("flush-stall", is_behind(second.flush_behind)),
            ("replica-lag", is_behind(second.replica_behind)),
            ("slow-append", second.put_max_ms > PAUSE_MS),
            ("roll", second.rolls > 0),
            ("clean", second.removed > 0),
        ];
        found.extend(signs.into_iter().filter(|(_, there)| *there).map(|(kind, _)| (kind.to_owned(), at, 1)));
    }
    found
}

/// Requests that a broker has refused so far, by cause.
fn refusals(second: &BrokerSecond) -> BTreeMap<&str, u64> {
    let mut causes: BTreeMap<&str, u64> = second.refused().collect();
    // Runs of earlier versions recorded only the sum over all causes.
    let unnamed = second.refused_total.saturating_sub(causes.values().sum());
    causes.insert(REFUSED, unnamed);
    causes
}

/// What a machine's figures of one second show that can lower a rate.
fn troubles(second: &HostSecond) -> impl Iterator<Item = &'static str> {
    let signs = [
        ("full-gc", second.gc_full > 0),
        ("gc", second.gc_pause_ms > PAUSE_MS && second.gc_full == 0),
        ("steal", second.cpu_steal > 0.05),
        ("cpu-quota", second.cpu_throttled > 0.05),
        // The broker waited for a fifth of a core while other programs used more than that.
        ("other-programs", second.process_waiting > 0.2 && second.others_cores > second.process_waiting),
        ("disk", second.disk_util > 0.9 || second.io_pressure > 20.0),
        ("swap", second.swap_in + second.swap_out > 0),
        ("retransmits", second.net_retransmits > 100),
    ];
    signs.into_iter().filter(|(_, there)| *there).map(|(kind, _)| kind)
}

#[cfg(test)]
mod tests;
