//! R10: does the system last? No message is lost, duplicated, changed or out of order, and no figure drifts.
//!
//! A missing message counts as lost only when its consumers had caught up at the end.

use super::figures::{broker_host_names, series};
use super::stats::{self, Slope, mean};
use crate::archive::{HostSecond, LoadSecond, RecordedCell, RunFile, Window};
use serde::Serialize;

/// Change per hour, as a share, that counts as drift once it exceeds its error.
const DRIFT_PER_HOUR: f64 = 0.02;

/// Fewest seconds of load in which drift can be told from noise.
const SECONDS_MIN: usize = 300;

/// The verdict of R10 on a long run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Soak {
    /// Messages that were lost, duplicated, changed or out of order.
    pub broken: Vec<Fault>,
    /// The figures that drift.
    pub drifts: Vec<Drift>,
    /// Messages of which it is unknown whether they were lost; `None` when that is known.
    pub undecided: Option<Unread>,
    /// Hours of observed load.
    pub hours: f64,
    /// Hours that the soak was meant to take; `None` for a cell that is no soak.
    pub planned_hours: Option<f64>,
    /// Whether the cell was ended early.
    pub interrupted: bool,
    /// Whether the content of the messages was checked.
    pub checked: bool,
}

/// A kind of fault in the messages of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Messages were acknowledged and did not arrive.
    Missing,
    /// Messages arrived more than once.
    Doubled,
    /// Messages arrived with another body.
    Changed,
    /// Messages arrived after later ones of their queue and connection.
    OutOfOrder,
}

/// Messages with the same kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kind of fault.
    pub kind: FaultKind,
    /// Number of messages.
    pub count: u64,
}

/// Messages that consumers had not read at the end of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unread {
    /// Number of messages.
    pub count: u64,
    /// Seconds that consumers were given after the load; `None` when the run was ended early.
    pub seconds: Option<u64>,
}

/// A figure that can drift.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Drifting {
    /// Messages sent per second.
    Rate,
    /// 99th percentile of the send latency.
    SendP99,
    /// Anonymous memory of the broker's process.
    Memory,
    /// Open files of the broker's process.
    Files,
    /// Threads of the broker's process.
    Threads,
}

/// A figure that drifts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// The figure.
    pub figure: Drifting,
    /// Change per hour, as a share of the mean.
    pub per_hour: f64,
}

/// Judges a cell whose content was checked or that ran for at least five minutes; `None` for any other cell, which is
/// no soak.
pub fn soak(file: &RunFile, cell: &RecordedCell, windows: &[Window<'_>]) -> Option<Soak> {
    let seconds: usize = windows.iter().map(|window| window.load.len()).max().unwrap_or(0);
    let checked = !cell.cell.checked.is_empty();
    if seconds < SECONDS_MIN && !checked {
        return None;
    }
    let undecided = unread(cell);
    let drifts = if seconds >= SECONDS_MIN {
        windows.iter().flat_map(|window| drifts(file, window)).collect()
    } else {
        Vec::new()
    };
    let broken = content(cell, undecided.is_none());
    let planned_hours = cell.cell.factors.soak_seconds().map(|seconds| seconds as f64 / 3_600.0);
    let (hours, interrupted) = (seconds as f64 / 3_600.0, cell.cell.interrupted);
    Some(Soak { broken, drifts, undecided, hours, planned_hours, interrupted, checked })
}

/// The messages that were not read when a run ended before its consumers had caught up; `None` when they had.
fn unread(cell: &RecordedCell) -> Option<Unread> {
    let count = cell.cell.checked.get("missing").copied().filter(|count| *count > 0)?;
    if cell.cell.interrupted {
        return Some(Unread { count, seconds: None });
    }
    let rest = cell.cell.phases.iter().find(|phase| phase.name == "rest" && phase.met == Some(false))?;
    Some(Unread { count, seconds: Some(rest.to_ms.saturating_sub(rest.from_ms).div_ceil(1_000)) })
}

/// The faults found by the content check. Missing messages are faults only when `all_read` is true.
fn content(cell: &RecordedCell, all_read: bool) -> Vec<Fault> {
    let kinds = [
        ("missing", FaultKind::Missing),
        ("doubled", FaultKind::Doubled),
        ("changed", FaultKind::Changed),
        ("out_of_order", FaultKind::OutOfOrder),
    ];
    let found = kinds.into_iter().filter(|(_, kind)| all_read || *kind != FaultKind::Missing);
    let fault = |(name, kind): (&str, FaultKind)| {
        let count = cell.cell.checked.get(name).copied().filter(|count| *count > 0)?;
        Some(Fault { kind, count })
    };
    found.filter_map(fault).collect()
}

fn drifts(file: &RunFile, window: &Window<'_>) -> Vec<Drift> {
    let load = std::slice::from_ref(window);
    let of = |value: fn(&crate::archive::LoadSecond) -> f64| series(load, value).concat();
    let mut found = vec![
        drift(Drifting::Rate, &of(LoadSecond::sent_rate), Harm::Both),
        drift(Drifting::SendP99, &of(|second| second.p99_us as f64), Harm::Growth),
    ];
    let names = broker_host_names(file);
    for (_, seconds) in window.hosts.iter().filter(|(host, _)| names.contains(&host.name.as_str())) {
        type Count = fn(&HostSecond) -> u64;
        let figures: [(Drifting, Count); 3] = [
            (Drifting::Memory, |second| second.process_anonymous),
            (Drifting::Files, |second| second.process_files),
            (Drifting::Threads, |second| second.process_threads),
        ];
        found.extend(figures.map(|(figure, value)| {
            let values: Vec<f64> = seconds.iter().map(|second| value(second) as f64).collect();
            drift(figure, &values, Harm::Growth)
        }));
    }
    found.into_iter().flatten().collect()
}

/// The direction of a drift that is bad.
#[derive(Clone, Copy, PartialEq)]
enum Harm {
    Growth,
    Both,
}

fn drift(figure: Drifting, values: &[f64], harm: Harm) -> Option<Drift> {
    let centre = mean(values);
    if centre == 0.0 {
        return None;
    }
    let Slope { per_step, error } = stats::slope(values);
    let (per_hour, error) = (per_step * 3_600.0 / centre, error * 3_600.0 / centre);
    let surely = per_hour.abs() - 3.0 * error;
    // The change within the run must also reach the limit; otherwise the noise of a minute, extrapolated to an hour,
    // counts as drift.
    let within = per_step.abs() * values.len() as f64 / centre;
    let bad = harm == Harm::Both || per_hour > 0.0;
    (bad && surely > DRIFT_PER_HOUR && within > 0.01).then_some(Drift { figure, per_hour })
}

#[cfg(test)]
mod tests;
