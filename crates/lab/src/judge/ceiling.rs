//! R1: at which load does more load give no higher rate?
//!
//! A ladder is a series of cells that differ only in their load. Its ceiling is found in one of three cases: the last
//! two steps gain less than 5 % each and their intervals confirm it; the last step stays below the best step before it;
//! or latency has a knee, where the 99th percentile is more than three times that at half the rate. A ladder whose rate
//! still rises has no ceiling, whatever its last rate is. The gain of a step is measured against the best step before
//! it, so a step that only recovers from a dip gains nothing.

use super::figures::Figures;
use super::stats;
use super::{Text, both, numbers};
use serde::{Deserialize, Serialize};

/// Ratio of a step's rate to the best rate before it, below which the step counts as flat.
const GAIN_MIN: f64 = 1.05;

/// Ratio of the latency at a step to the latency at half its rate from which on the step is a knee.
const KNEE: f64 = 3.0;

/// Share of the highest rate from which on a step belongs to the flat part of its ladder.
const FLAT: f64 = 0.9;

/// A step of a ladder: a load and what it reached.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// Number of threads, or offered messages per second.
    pub load: f64,
    /// The figures of the step's cell.
    pub figures: &'a Figures,
}

/// What a ladder shows about its ceiling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ceiling {
    /// The ladder has a ceiling: more load gives no higher rate.
    Found {
        /// Index of the step with the highest rate.
        step: usize,
        /// Mean rate of the flat part, messages per second.
        tps: f64,
        /// How the ceiling shows.
        why: Text,
    },
    /// The last step still gained, so the ceiling may be any rate above it.
    NotSaturated {
        /// Gain of the last step, as a ratio to the best rate before it.
        gain: f64,
        /// What to do to find the ceiling.
        why: Text,
    },
    /// The ladder has two steps or fewer, or intervals too wide to tell.
    Undecided {
        /// What to do to find the ceiling.
        why: Text,
    },
}

/// Steps of a ladder that were run but are invalid.
#[derive(Clone, Debug, Default)]
pub struct Invalid {
    /// The loads of the invalid steps.
    pub loads: Vec<f64>,
    /// The first reason why the first of these steps is invalid.
    pub why: Text,
}

impl Invalid {
    /// The advice in place of "try more load": the invalid steps must become valid first.
    fn advice(&self) -> Text {
        if self.loads.is_empty() {
            return both!("extend the ladder", "请继续加压");
        }
        let loads: Vec<String> = self.loads.iter().map(|load| numbers::count(*load)).collect();
        let (loads, why, why_zh) = (loads.join(", "), &self.why.en, &self.why.zh);
        both!(
            "load {loads} was run and is not valid ({why}): mend that first, a longer ladder tells no more",
            "负载 {loads} 已运行但无效（{why_zh}）：请先解决，继续加压没有意义"
        )
    }
}

/// Judges the valid steps of a ladder, lowest load first; `invalid` holds the invalid steps above the last of them.
#[must_use]
pub fn ceiling(steps: &[Step<'_>], invalid: &Invalid, seed: u64) -> Ceiling {
    let [before @ .., last] = steps else {
        return undecided(steps.len(), invalid);
    };
    let Some(gain) = gain(before, last, seed) else { return undecided(steps.len(), invalid) };
    if gain.mean >= GAIN_MIN && gain.low > 1.0 {
        let (value, load) = (numbers::change(gain.mean - 1.0), numbers::count(last.load));
        let Text { en, zh } = invalid.advice();
        let why = both!(
            "not saturated: the last valid step (load {load}) still gained {value}; {en}",
            "未饱和：最后一个有效级（负载 {load}）仍增长 {value}；{zh}"
        );
        return Ceiling::NotSaturated { gain: gain.mean - 1.0, why };
    }
    if let Some(why) = flat(steps, seed).or_else(|| knee(steps)) {
        let rates: Vec<f64> = steps.iter().map(|step| step.figures.tps.mean).collect();
        return Ceiling::Found { step: highest(steps).0, tps: flat_part(&rates), why };
    }
    if steps.len() < 3 { undecided(steps.len(), invalid) } else { not_yet(&gain, invalid) }
}

/// Whether the steps, given in any order, show a ceiling.
#[must_use]
pub fn is_found(mut steps: Vec<Step<'_>>, seed: u64) -> bool {
    steps.sort_by(|one, other| one.load.total_cmp(&other.load));
    matches!(ceiling(&steps, &Invalid::default(), seed), Ceiling::Found { .. })
}

/// The rate of the flat part of a ladder, as the mean of its steps. The highest of several steps alone would be too
/// high by chance when the rate varies by 10 % or more.
#[must_use]
pub fn flat_part(rates: &[f64]) -> f64 {
    let best = rates.iter().copied().fold(0.0, f64::max);
    let flat: Vec<f64> = rates.iter().copied().filter(|rate| *rate >= best * FLAT).collect();
    stats::mean(&flat)
}

/// The rate of a step divided by the best rate of the steps before it.
fn gain(before: &[Step<'_>], step: &Step<'_>, seed: u64) -> Option<stats::Estimate> {
    let best = before.get(highest(before).0)?;
    Some(stats::ratio(&best.figures.tps_seconds, &step.figures.tps_seconds, seed))
}

/// Index and rate of the step with the highest rate.
#[must_use]
pub fn highest(steps: &[Step<'_>]) -> (usize, f64) {
    let rates = steps.iter().map(|step| step.figures.tps.mean).enumerate();
    rates.max_by(|one, other| one.1.total_cmp(&other.1)).unwrap_or((0, 0.0))
}

fn flat(steps: &[Step<'_>], seed: u64) -> Option<Text> {
    let [first @ .., before, last] = steps else { return None };
    let gains = [gain(first, before, seed)?, gain(&steps[..steps.len() - 1], last, seed)?];
    let [one, other] = gains.map(|gain| numbers::change(gain.mean - 1.0));
    if gains[1].high < 1.0 {
        return Some(both!(
            "the last step stays below the best before it ({other})",
            "最后一级低于此前的最高值（{other}）"
        ));
    }
    gains
        .iter()
        .all(|gain| gain.high < GAIN_MIN)
        .then(|| both!("the last two steps gained {one} and {other}", "最后两级仅增长 {one} 与 {other}"))
}

/// Describes the first step whose latency is a knee.
fn knee(steps: &[Step<'_>]) -> Option<Text> {
    let (step, _) = highest(steps);
    let top = steps.get(step)?.figures;
    let half = steps.iter().map(|step| step.figures).rfind(|below| below.tps.mean <= top.tps.mean / 2.0)?;
    let times = top.latency.p99_us / half.latency.p99_us.max(1.0);
    (times > KNEE).then(|| {
        let (value, high, low) = (
            numbers::short(times),
            numbers::micros(top.latency.p99_us),
            numbers::micros(half.latency.p99_us),
        );
        both!(
            "latency has its knee: p99 {high} is {value} times the {low} at half the rate",
            "时延拐点：p99 {high} 是半载 {low} 的 {value} 倍"
        )
    })
}

fn undecided(steps: usize, invalid: &Invalid) -> Ceiling {
    let Text { en, zh } = invalid.advice();
    let why = both!(
        "{steps} valid steps: three are needed to find a ceiling; {en}",
        "只有 {steps} 个有效级：判断上限至少需要三级；{zh}"
    );
    Ceiling::Undecided { why }
}

fn not_yet(gain: &stats::Estimate, invalid: &Invalid) -> Ceiling {
    let Text { en, zh } = invalid.advice();
    let (low, high) = (numbers::change(gain.low - 1.0), numbers::change(gain.high - 1.0));
    let why = if gain.high < GAIN_MIN {
        both!(
            "the last valid step gained little ({low} to {high}), and one alone may be chance: {en}",
            "最后一个有效级增长很小（{low} 到 {high}），但仅一级可能是偶然：{zh}"
        )
    } else {
        both!(
            "the last step gained between {low} and {high}: measure longer, or with more repeats",
            "最后一级增长在 {low} 到 {high} 之间，无法判定：请延长或增加重复次数"
        )
    };
    Ceiling::Undecided { why }
}

#[cfg(test)]
mod tests;
