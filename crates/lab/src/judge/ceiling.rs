//! R1: where does more load stop giving more?
//!
//! A ladder is a row of cells that differ in their load alone. Its ceiling is found when the last two steps gain less
//! than 5 % each and their intervals say so, when the last one stays below the best before it, or when latency has its
//! knee: the 99th percentile is more than three times what it was at half the rate. A ladder that still climbs has no
//! ceiling, whatever its last figure is. What a step gains counts against the best before it: one that makes up for a
//! dip gains nothing.

use super::figures::Figures;
use super::stats;
use super::{Text, both, numbers};
use serde::{Deserialize, Serialize};

/// Gain of a step below which it is flat.
const GAIN_MIN: f64 = 1.05;

/// Latency at the knee over latency at half the rate.
const KNEE: f64 = 3.0;

/// Share of the highest rate from which on a step belongs to the flat part of its ladder.
const FLAT: f64 = 0.9;

/// A step of a ladder.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// Threads, or messages per second offered.
    pub load: f64,
    /// What it reached.
    pub figures: &'a Figures,
}

/// What a ladder shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ceiling {
    /// More load gives no more.
    Found {
        /// Step with the highest rate.
        step: usize,
        /// Mean rate of the flat part.
        tps: f64,
        /// How it shows.
        why: Text,
    },
    /// The last step still gained: there may be any amount above it.
    NotSaturated {
        /// Gain of the last step.
        gain: f64,
        /// What to do.
        why: Text,
    },
    /// Two steps or fewer, or intervals too wide to tell.
    Undecided {
        /// What to do.
        why: Text,
    },
}

/// Steps of a ladder that were run and are not valid.
#[derive(Clone, Debug, Default)]
pub struct Invalid {
    /// Their loads.
    pub loads: Vec<f64>,
    /// What speaks against the first of them.
    pub why: Text,
}

impl Invalid {
    /// What to do, where more load is to be tried: what was run and is not valid must become valid first.
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

/// Judges the valid steps of a ladder, lowest load first; `invalid` are those that were run above some of them.
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

/// Whether steps, in any order, show a ceiling.
#[must_use]
pub fn is_found(mut steps: Vec<Step<'_>>, seed: u64) -> bool {
    steps.sort_by(|one, other| one.load.total_cmp(&other.load));
    matches!(ceiling(&steps, &Invalid::default(), seed), Ceiling::Found { .. })
}

/// The ceiling of a ladder that levels off: the mean of its flat part. The highest of several steps alone is too high by its
/// own luck, where the rate wanders by a tenth and more.
#[must_use]
pub fn flat_part(rates: &[f64]) -> f64 {
    let best = rates.iter().copied().fold(0.0, f64::max);
    let flat: Vec<f64> = rates.iter().copied().filter(|rate| *rate >= best * FLAT).collect();
    stats::mean(&flat)
}

/// The rate of a step over the best of those before it.
fn gain(before: &[Step<'_>], step: &Step<'_>, seed: u64) -> Option<stats::Estimate> {
    let best = before.get(highest(before).0)?;
    Some(stats::ratio(&best.figures.tps_seconds, &step.figures.tps_seconds, seed))
}

/// The step with the highest rate, and the rate.
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

/// The first step whose latency left the straight line.
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
