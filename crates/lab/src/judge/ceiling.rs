//! R1: at which load does more load give no higher rate?
//!
//! A ladder is a series of cells that differ only in their load. A ladder has a ceiling in three cases:
//! - The last two steps gain less than 5 % each, and their intervals confirm it.
//! - The last step stays below the best step before it.
//! - Latency has a knee: the 99th percentile is more than three times that at half the rate.
//!
//! A ladder whose rate still rises has no ceiling, whatever its last rate is. The gain of a step is measured against the best step before
//! it, so a step that only recovers from a dip gains nothing.

use super::figures::Figures;
use super::stats;
use super::validity::Reason;

/// Ratio of a step's rate to the best rate before it, below which the step counts as flat.
const GAIN_MIN: f64 = 1.05;

/// Ratio of the latency at a step to the latency at half its rate from which on the step is a knee.
const KNEE: f64 = 3.0;

/// Share of the highest rate from which on a step belongs to the flat part of its ladder.
const FLAT: f64 = 0.9;

/// A step of a ladder: a load and the figures of its cell.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// Number of threads, or offered messages per second.
    pub load: f64,
    /// The figures of the step's cell.
    pub figures: &'a Figures,
}

/// Verdict about the ceiling of a ladder.
#[derive(Clone, Debug, PartialEq)]
pub enum Ceiling {
    /// The ladder has a ceiling: more load gives no higher rate.
    Found {
        /// Index of the step with the highest rate.
        step: usize,
        /// Mean rate of the flat part, messages per second.
        tps: f64,
        /// Sign by which the ceiling shows.
        sign: Sign,
    },
    /// The last step still gained, so the ceiling may be any rate above it.
    NotSaturated {
        /// Gain of the last step, as a share of the best rate before it.
        gain: f64,
        /// Load of the last step.
        load: f64,
        /// Higher steps, all of whose cells are invalid.
        invalid: Invalid,
    },
    /// The ladder does not tell whether it has a ceiling.
    Undecided {
        /// Reason for the missing ceiling.
        doubt: Doubt,
        /// Higher steps, all of whose cells are invalid.
        invalid: Invalid,
    },
}

/// Sign of a ceiling. Gains are shares of the best rate before a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sign {
    /// The last step stays below the best before it.
    Below {
        /// Gain of the last step, which is negative.
        gain: f64,
    },
    /// The last two steps gained little.
    Flat {
        /// The two gains.
        gains: [f64; 2],
    },
    /// Latency has its knee.
    Knee {
        /// 99th percentile at the highest rate, microseconds.
        high_us: f64,
        /// 99th percentile at half that rate, microseconds.
        low_us: f64,
    },
}

/// Why it is undecided whether a ladder has a ceiling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Doubt {
    /// The ladder has fewer than three steps; holds their number.
    Steps(usize),
    /// A single step that gained little may be chance. Holds the interval of the gain.
    OneStep(f64, f64),
    /// The gain of the last step is too uncertain. Holds its interval.
    Interval(f64, f64),
}

/// Steps of a ladder that were run but are invalid.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Invalid {
    /// The loads of the invalid steps.
    pub loads: Vec<f64>,
    /// The first reason why the first of these steps is invalid.
    pub why: Option<Reason>,
}

/// Judges the valid steps of a ladder, lowest load first; `invalid` holds the invalid steps above the last of them.
pub fn ceiling(steps: &[Step<'_>], invalid: &Invalid, seed: u64) -> Ceiling {
    let [before @ .., last] = steps else {
        return undecided(steps.len(), invalid);
    };
    let Some(gain) = gain(before, last, seed) else { return undecided(steps.len(), invalid) };
    if gain.mean >= GAIN_MIN && gain.low > 1.0 {
        let invalid = invalid.clone();
        return Ceiling::NotSaturated { gain: gain.mean - 1.0, load: last.load, invalid };
    }
    if let Some(sign) = flat(steps, seed).or_else(|| knee(steps)) {
        let rates: Vec<f64> = steps.iter().map(|step| step.figures.tps.mean).collect();
        return Ceiling::Found { step: highest(steps).0, tps: flat_part(&rates), sign };
    }
    if steps.len() < 3 { undecided(steps.len(), invalid) } else { not_yet(&gain, invalid) }
}

/// Whether the steps, given in any order, show a ceiling.
pub fn is_found(mut steps: Vec<Step<'_>>, seed: u64) -> bool {
    steps.sort_by(|one, other| one.load.total_cmp(&other.load));
    matches!(ceiling(&steps, &Invalid::default(), seed), Ceiling::Found { .. })
}

/// The rate of the flat part of a ladder, as the mean of its steps. The highest of several steps alone would be too
/// high by chance when the rate varies by 10 % or more.
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
pub fn highest(steps: &[Step<'_>]) -> (usize, f64) {
    let rates = steps.iter().map(|step| step.figures.tps.mean).enumerate();
    rates.max_by(|one, other| one.1.total_cmp(&other.1)).unwrap_or((0, 0.0))
}

fn flat(steps: &[Step<'_>], seed: u64) -> Option<Sign> {
    let [first @ .., before, last] = steps else { return None };
    let gains = [gain(first, before, seed)?, gain(&steps[..steps.len() - 1], last, seed)?];
    let [one, other] = gains.map(|gain| gain.mean - 1.0);
    if gains[1].high < 1.0 {
        return Some(Sign::Below { gain: other });
    }
    gains.iter().all(|gain| gain.high < GAIN_MIN).then_some(Sign::Flat { gains: [one, other] })
}

/// The first step whose latency is a knee.
fn knee(steps: &[Step<'_>]) -> Option<Sign> {
    let (step, _) = highest(steps);
    let top = steps.get(step)?.figures;
    let half = steps.iter().map(|step| step.figures).rfind(|below| below.tps.mean <= top.tps.mean / 2.0)?;
    let (high_us, low_us) = (top.latency.p99_us, half.latency.p99_us);
    (high_us / low_us.max(1.0) > KNEE).then_some(Sign::Knee { high_us, low_us })
}

fn undecided(steps: usize, invalid: &Invalid) -> Ceiling {
    Ceiling::Undecided { doubt: Doubt::Steps(steps), invalid: invalid.clone() }
}

fn not_yet(gain: &stats::Estimate, invalid: &Invalid) -> Ceiling {
    let (low, high) = (gain.low - 1.0, gain.high - 1.0);
    let doubt = if gain.high < GAIN_MIN { Doubt::OneStep(low, high) } else { Doubt::Interval(low, high) };
    Ceiling::Undecided { doubt, invalid: invalid.clone() }
}

#[cfg(test)]
mod tests;
