//! R5: does the rate fluctuate, and what coincides with it?
//!
//! A cell fluctuates when the rates of its seconds vary by more than 10 %, or when any ten consecutive seconds reach
//! less than half of the median. A cause is named when it was present in at least half of the low seconds, and at least
//! twice as often there as in the other seconds.

use super::figures::{broker_host_names, series};
use super::stats::{mean, median, variation};
use crate::archive::{BROKER_AWAY, BROKER_RESTARTED, BrokerSecond, HostSecond, LoadSecond, RunFile, Window};
use serde::Serialize;
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

/// Kind of the cause for refused requests.
const FLOW_CONTROL: &str = "flow-control";

/// Kind of the cause for requests that a broker refused without a recorded reason.
const REFUSED: &str = "refused-by-broker";

/// The verdict of R5: how much a rate fluctuates, and the likely causes.
#[derive(Clone, Debug, PartialEq)]
pub struct Stability {
    /// Standard deviation of the rates of single seconds, divided by their mean.
    pub variation: f64,
    /// Mean rate of the lowest ten consecutive seconds, divided by the median.
    pub lowest: f64,
    /// Whether the rate fluctuates by the limits of R5.
    pub fluctuates: bool,
    /// The causes that coincide with the low seconds, strongest first; empty for a steady rate.
    pub causes: Vec<Cause>,
}

impl Stability {
    /// Reason of the broker for refused requests, where refused requests are the first cause.
    pub fn refused_for(&self) -> Option<&Cause> {
        let is_refused = self.causes.first().is_some_and(|cause| cause.kind == FLOW_CONTROL);
        self.causes.iter().find(|cause| is_refused && cause.is_refusal())
    }
}

impl Cause {
    /// Whether the cause is a reason that a broker gave for refused requests.
    pub fn is_refusal(&self) -> bool {
        self.kind == "putMessageFailedTimes" || self.kind.starts_with("refused")
    }
}

/// A possible cause: something that was present in the low seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cause {
    /// Kind of the cause: `flow-control`, `refusedBehind`, `roll`, `gc`, …
    pub kind: String,
    /// Share of the low seconds in which the cause was present.
    pub in_low: f64,
    /// Share of the other seconds in which the cause was present.
    pub in_others: f64,
    /// Number of times that the cause occurred.
    pub times: u64,
}

/// Judges the steady windows of a cell.
pub fn stability(file: &RunFile, windows: &[Window<'_>]) -> Stability {
    let rates = series(windows, LoadSecond::sent_rate);
    let varies = mean(&rates.iter().map(|repeat| variation(repeat)).collect::<Vec<_>>());
    let lowest = rates.iter().map(|repeat| lowest_stretch(repeat)).fold(1.0, f64::min);
    let fluctuates = varies > VARIATION_MAX || lowest < 0.5;
    let causes = if fluctuates { causes(file, windows) } else { Vec::new() };
    Stability { variation: varies, lowest, fluctuates, causes }
}

fn lowest_stretch(rates: &[f64]) -> f64 {
    let middle = median(rates);
    if middle <= 0.0 {
        return 1.0;
    }
    rates.windows(STRETCH).map(|stretch| mean(stretch) / middle).fold(1.0, f64::min)
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
            found.push((FLOW_CONTROL.to_owned(), at, second.refused));
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

/// Events in a broker's own figures that can lower a rate.
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

/// Events in a machine's figures of a second that can lower a rate.
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
