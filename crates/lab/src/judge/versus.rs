//! R9: is one run better than the other? Compared cell by cell, with four answers (better, equal, worse, cannot be told),
//! capacity and latency apart.
//!
//! *Capacity* is the rate of cells in a closed loop; of a ladder only its best step counts (`ladders`). *Latency* is
//! compared only where both runs were sent the same rate (open loop). In a closed loop the faster system is also the
//! more loaded one. The rate of a single thread is nothing but the round trip time (the earlier report 000 read "0.45×" as capacity, see docs/lab.md).

mod ladders;
mod machines;

pub use ladders::Ladders;
pub use machines::{Apart, Tested, apart};

use super::RecordedVerdict;
use super::effects::together;
use super::factor::Factor;
use super::figures::Figures;
use super::judged::Judged;
use super::stats::{Estimate, ratio};
use super::validity::Reason;
use crate::archive::Factors;
use serde::{Deserialize, Serialize};

/// Relative difference below which two cells are called equal even when the interval excludes 1.
const RELEVANT: f64 = 0.02;

/// Relative difference within which the whole interval of two equal cells lies.
const ALIKE: f64 = 0.05;

/// Number of threads below which a closed loop measures the round trip time.
const ROUND_TRIP_THREADS: u32 = 4;

/// Verdict on the second run, compared with the first run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The second run is better.
    Better,
    /// Any difference is too small to matter.
    Equal,
    /// The second run is worse.
    Worse,
    /// The interval holds differences that matter as well as none, so it cannot be told.
    Undecided,
    /// The machines of the runs differ, so a difference cannot be attributed to the servers.
    NotComparable,
}

impl Verdict {
    /// The verdict for a ratio of a figure where more is better.
    pub fn more_is_better(ratio: &Estimate) -> Self {
        match ratio {
            ratio if ratio.low > 1.0 && ratio.mean > 1.0 + RELEVANT => Self::Better,
            ratio if ratio.high < 1.0 && ratio.mean < 1.0 - RELEVANT => Self::Worse,
            ratio if ratio.low >= 1.0 - ALIKE && ratio.high <= 1.0 + ALIKE => Self::Equal,
            _ => Self::Undecided,
        }
    }

    /// The verdict for a ratio of a figure where less is better.
    pub fn less_is_better(ratio: &Estimate) -> Self {
        match Self::more_is_better(ratio) {
            Self::Better => Self::Worse,
            Self::Worse => Self::Better,
            same => same,
        }
    }
}

/// Number of repeats that would probably decide a ratio, when `repeats` left it undecided. The width of an interval falls
/// with the square root of their number.
fn repeats_to_decide(ratio: &Estimate, repeats: usize) -> usize {
    let (away, half) = ((ratio.mean - 1.0).abs(), (ratio.high - ratio.low) / 2.0);
    // Either the interval leaves 1 behind, or it comes to lie within the difference that does not matter.
    let different = if away > RELEVANT { away } else { 0.0 };
    let narrow = different.max(ALIKE - away).max(RELEVANT / 2.0);
    ((repeats as f64 * (half / narrow).powi(2)).ceil() as usize).max(repeats + 1)
}

/// Run of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The run to compare with.
    First,
    /// The run that is compared.
    Second,
}

/// The figure that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aspect {
    /// Messages per second in a closed loop, of a cell outside any ladder or of the best step of one.
    Capacity,
    /// Messages per second of another step of a ladder: below the best step it shows the load, above it overload.
    RateAtLoad,
    /// 99th percentile of latency in an open loop at the same rate.
    LatencyAtRate,
    /// Mean time of a request with few threads, where nothing but the round trip is measured.
    RoundTrip,
}

/// A cell that both runs have, with its figures in both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pairing {
    /// The factors of the cell.
    pub factors: Factors,
    /// The figure that is compared.
    pub aspect: Aspect,
    /// The figure in the first run: messages per second, or microseconds.
    pub first: f64,
    /// The figure in the second run, in the same unit.
    pub second: f64,
    /// The second figure divided by the first.
    pub ratio: Estimate,
    /// The verdict.
    pub verdict: Verdict,
    /// Number of repeats in each run that would probably give a verdict, where it is undecided.
    #[serde(default)]
    pub repeats_needed: Option<usize>,
}

/// A mode of the brokers that the two runs differ in, each having one level of it in all cells.
#[derive(Clone, Debug, PartialEq)]
pub struct Mode {
    /// Flush or replication.
    pub factor: Factor,
    /// The mode of the first run; `None` where the brokers were left as they were.
    pub first: Option<String>,
    /// The mode of the second run, as that of the first.
    pub second: Option<String>,
}

/// The comparison of two runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Versus {
    /// The differences between the machines of the two runs that prevent a verdict; empty when verdicts were given.
    #[serde(default)]
    pub apart: Vec<RecordedVerdict<Apart>>,
    /// Cells that are valid in both runs.
    pub pairings: Vec<Pairing>,
    /// Cells that are invalid in one of the runs, with the reason.
    pub left_out: Vec<(Factors, Reason)>,
    /// Number of cells of the first run that the second one does not have.
    pub unmatched: usize,
    /// Flush and replication modes that differ between the runs: each run has one mode of such a factor.
    #[serde(default)]
    pub modes: Vec<RecordedVerdict<Mode>>,
    /// Geometric mean of the ratios of capacity.
    pub capacity: Option<Estimate>,
    /// The ladders from which `capacity` was taken; comparisons of earlier versions have no such field.
    #[serde(default)]
    pub ladders: Ladders,
    /// Geometric mean of the ratios of latency at equal rate.
    pub latency: Option<Estimate>,
    /// Geometric mean of the ratios of processor time per message.
    pub cpu: Option<f64>,
}

/// Compares the second run with the first.
pub fn versus(first: &[Judged<'_>], second: &[Judged<'_>], seed: u64) -> Versus {
    let modes = modes(first, second);
    // Cells match by their load. The set-up of the servers may differ, because that is what is compared.
    let load = |cell: &Judged<'_>| {
        modes.iter().fold(cell.factors().clone(), |factors, mode| mode.factor.without(&factors))
    };
    let mut all = Versus::default();
    let mut times = Vec::new();
    for one in first {
        let factors = load(one);
        let Some(other) = second.iter().find(|other| load(other) == factors) else {
            all.unmatched += 1;
            continue;
        };
        match (&one.outcome, &other.outcome) {
            (Ok(before), Ok(after)) => {
                all.pairings.push(pairing(&factors, (before, after), seed));
                if let (Some(before), Some(after)) = (before.cpu_us_per_message, after.cpu_us_per_message) {
                    times.push((after / before).ln());
                }
            }
            (Err(reasons), _) => all.left_out.push((factors, because(Side::First, reasons))),
            (_, Err(reasons)) => all.left_out.push((factors, because(Side::Second, reasons))),
        }
    }
    let matched = all.pairings.len() + all.left_out.len();
    all.unmatched += second.len().saturating_sub(matched);
    let tops = ladders::tops(&mut all.pairings);
    all.ladders = Ladders::of(&tops, (first, second), &load, seed);
    all.capacity = mean_of(&all.pairings, Aspect::Capacity);
    all.latency = mean_of(&all.pairings, Aspect::LatencyAtRate);
    all.cpu = (!times.is_empty()).then(|| (times.iter().sum::<f64>() / times.len() as f64).exp());
    all.modes = modes.into_iter().map(RecordedVerdict::Verdict).collect();
    all
}

impl Versus {
    /// The comparison without verdicts, because of these differences between the machines.
    pub fn without_verdicts(mut self, apart: Vec<RecordedVerdict<Apart>>) -> Self {
        if !apart.is_empty() {
            for pairing in &mut self.pairings {
                (pairing.verdict, pairing.repeats_needed) = (Verdict::NotComparable, None);
            }
            (self.capacity, self.latency, self.cpu) = (None, None, None);
        }
        Self { apart, ..self }
    }
}

/// Flush and replication modes of which each run has exactly one, and not the same. With more modes a cell would match
/// several others.
fn modes(first: &[Judged<'_>], second: &[Judged<'_>]) -> Vec<Mode> {
    let only = |run: &[Judged<'_>], factor: &Factor| {
        let mut levels: Vec<String> = run.iter().map(|cell| factor.level(cell.factors())).collect();
        levels.dedup();
        levels.pop().filter(|_| levels.is_empty())
    };
    let differs = |factor: Factor| {
        let (one, other) = only(first, &factor).zip(only(second, &factor)).filter(|(a, b)| a != b)?;
        let set = |level: String| Some(level).filter(|level| level != "-");
        Some(Mode { factor, first: set(one), second: set(other) })
    };
    [Factor::Flush, Factor::Replication].into_iter().filter_map(differs).collect()
}

fn because(side: Side, reasons: &[Reason]) -> Reason {
    let first = reasons.first().cloned().unwrap_or(Reason::EndedEarly);
    Reason::InRun(side, Box::new(first))
}

fn mean_of(pairings: &[Pairing], aspect: Aspect) -> Option<Estimate> {
    let mut ratios =
        pairings.iter().filter(|pairing| pairing.aspect == aspect).map(|pairing| pairing.ratio).peekable();
    ratios.peek()?;
    Some(together(ratios))
}

fn pairing(factors: &Factors, (before, after): (&Figures, &Figures), seed: u64) -> Pairing {
    let aspect = match factors {
        // One-way sends have no latency, so the received rate is all there is to compare.
        _ if before.latency.p99_us == 0.0 || after.latency.p99_us == 0.0 => Aspect::Capacity,
        factors if factors.rate.is_some() => Aspect::LatencyAtRate,
        factors if factors.threads < ROUND_TRIP_THREADS => Aspect::RoundTrip,
        _ => Aspect::Capacity,
    };
    let (first, second, ratio, verdict) = match aspect {
        Aspect::Capacity | Aspect::RateAtLoad => {
            let ratio = ratio(&before.tps_seconds, &after.tps_seconds, seed);
            (before.tps.mean, after.tps.mean, ratio, Verdict::more_is_better(&ratio))
        }
        Aspect::LatencyAtRate => {
            let ratio = ratio(&before.p99_seconds, &after.p99_seconds, seed);
            (before.latency.p99_us, after.latency.p99_us, ratio, Verdict::less_is_better(&ratio))
        }
        Aspect::RoundTrip => {
            // In a closed loop the round trip time is the reciprocal of the rate.
            let ratio = ratio(&after.tps_seconds, &before.tps_seconds, seed);
            (before.latency.mean_us, after.latency.mean_us, ratio, Verdict::less_is_better(&ratio))
        }
    };
    let repeats = before.tps_seconds.len().min(after.tps_seconds.len());
    let repeats_needed = (verdict == Verdict::Undecided).then(|| repeats_to_decide(&ratio, repeats));
    Pairing { factors: factors.clone(), aspect, first, second, ratio, verdict, repeats_needed }
}

/// Price of a million messages when a month costs `month` and the load is `share` of the rate `tps`.
pub fn price_per_million(month: f64, tps: f64, share: f64) -> f64 {
    const SECONDS_PER_MONTH: f64 = 30.0 * 86_400.0;
    if tps <= 0.0 { 0.0 } else { month / (tps * share * SECONDS_PER_MONTH) * 1e6 }
}

#[cfg(test)]
mod tests;
