//! R10: does the system last? No message is lost, duplicated, changed or out of order, and no figure drifts.
//!
//! A missing message counts as lost only when its consumers had caught up at the end.

use super::figures::{broker_host_names, series};
use super::stats::{self, Slope, mean};
use super::{Text, both, numbers};
use crate::archive::{HostSecond, LoadSecond, RecordedCell, RunFile, Window};
use serde::{Deserialize, Serialize};

/// Change per hour, as a share, that counts as drift once it exceeds its error.
const DRIFT_PER_HOUR: f64 = 0.02;

/// Fewest seconds of load in which drift can be told from noise.
const SECONDS_MIN: usize = 300;

/// The verdict of R10 on a long run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Soak {
    /// Messages that were lost, duplicated, changed or out of order.
    pub broken: Vec<Text>,
    /// The figures that drift.
    pub drifts: Vec<Text>,
    /// Why it is unknown whether messages were lost; `None` when it is known.
    pub undecided: Option<Text>,
    /// Hours of observed load.
    pub hours: f64,
    /// Whether the content of the messages was checked.
    pub checked: bool,
}

/// Judges a cell whose content was checked or that ran for at least five minutes; `None` for any other cell, which is
/// no soak.
#[must_use]
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
    Some(Soak { broken, drifts, undecided, hours: seconds as f64 / 3_600.0, checked })
}

impl Soak {
    /// The whole verdict in one sentence.
    #[must_use]
    pub fn says(&self) -> Text {
        let mut parts: Vec<&Text> = self.broken.iter().chain(&self.undecided).chain(&self.drifts).collect();
        let whole = match self.checked {
            true => both!("nothing lost, doubled, changed or out of order", "无丢失、重复、改变、乱序"),
            false => both!("nothing drifts", "无漂移"),
        };
        if parts.is_empty() || (self.checked && self.broken.is_empty() && self.undecided.is_none()) {
            parts.insert(0, &whole);
        }
        let (en, zh): (Vec<&str>, Vec<&str>) =
            parts.into_iter().map(|part| (part.en.as_str(), part.zh.as_str())).unzip();
        Text { en: en.join("; "), zh: zh.join("；") }
    }
}

/// The sentence for a run whose consumers had not caught up at its end; `None` when they had.
fn unread(cell: &RecordedCell) -> Option<Text> {
    let missing = cell.cell.checked.get("missing").copied().filter(|count| *count > 0)?;
    if cell.cell.interrupted {
        let count = numbers::count(missing as f64);
        return Some(both!(
            "{count} messages were not read yet when the run was ended early: whether any is lost is not known",
            "运行提前结束时仍有 {count} 条消息未读完：无法判断是否丢失"
        ));
    }
    let rest = cell.cell.phases.iter().find(|phase| phase.name == "rest" && phase.met == Some(false))?;
    let (count, seconds) =
        (numbers::count(missing as f64), rest.to_ms.saturating_sub(rest.from_ms).div_ceil(1_000));
    Some(both!(
        "{count} messages were not read yet {seconds} s after the load ended: whether any is lost is not known",
        "负载结束 {seconds} 秒后仍有 {count} 条消息未读完：无法判断是否丢失"
    ))
}

/// The faults found by the content check. Missing messages are faults only when `all_read` is true.
fn content(cell: &RecordedCell, all_read: bool) -> Vec<Text> {
    let fault = |(kind, en, zh): (&str, &str, &str)| {
        let count = cell.cell.checked.get(kind).copied().filter(|count| *count > 0)?;
        let count = numbers::count(count as f64);
        Some(both!("{count} messages {en}", "{count} 条消息{zh}"))
    };
    let kinds = [
        ("missing", "are missing", "丢失"),
        ("doubled", "came twice", "重复"),
        ("changed", "came changed", "内容改变"),
        ("out_of_order", "came out of order", "乱序"),
    ];
    kinds.into_iter().filter(|kind| all_read || kind.0 != "missing").filter_map(fault).collect()
}

fn drifts(file: &RunFile, window: &Window<'_>) -> Vec<Text> {
    let load = std::slice::from_ref(window);
    let of = |value: fn(&crate::archive::LoadSecond) -> f64| series(load, value).concat();
    let mut found = vec![
        drift(("the rate", "TPS"), &of(LoadSecond::sent_rate), Harm::Both),
        drift(("send p99", "发送 p99"), &of(|second| second.p99_us as f64), Harm::Growth),
    ];
    let names = broker_host_names(file);
    for (_, seconds) in window.hosts.iter().filter(|(host, _)| names.contains(&host.name.as_str())) {
        let of = |value: fn(&HostSecond) -> f64| seconds.iter().map(value).collect::<Vec<_>>();
        found.push(drift(
            ("anonymous memory", "匿名内存"),
            &of(|second| second.process_anonymous as f64),
            Harm::Growth,
        ));
        found.push(drift(
            ("open files", "打开的文件数"),
            &of(|second| second.process_files as f64),
            Harm::Growth,
        ));
        found.push(drift(("threads", "线程数"), &of(|second| second.process_threads as f64), Harm::Growth));
    }
    found.into_iter().flatten().collect()
}

/// The direction of a drift that is bad.
#[derive(Clone, Copy, PartialEq)]
enum Harm {
    Growth,
    Both,
}

fn drift((en, zh): (&str, &str), values: &[f64], harm: Harm) -> Option<Text> {
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
    (bad && surely > DRIFT_PER_HOUR && within > 0.01).then(|| {
        let value = numbers::change(per_hour);
        both!("{en} drifts by {value} per hour", "{zh} 每小时漂移 {value}")
    })
}

#[cfg(test)]
mod tests;
