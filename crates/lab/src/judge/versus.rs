//! R9: is one better than the other? Cell by cell, with three answers, and never mixing capacity and latency.
//!
//! *Capacity* is the rate of cells in a closed loop, of a ladder that of its best step alone (`ladders`). *Latency* is
//! compared only where both were sent the same rate (open loop): in a closed loop the faster one is also the more
//! loaded one, and a single thread's rate is nothing but the round trip (seed 000 read "0.45×" as capacity).

mod ladders;
mod machines;

pub use ladders::Ladders;
pub use machines::apart;

use super::effects::together;
use super::factor::Factor;
use super::figures::Figures;
use super::judged::Judged;
use super::stats::{Estimate, ratio};
use super::{Text, both, numbers};
use crate::archive::Factors;
use serde::{Deserialize, Serialize};

/// A certain difference smaller than this is still called equal.
const RELEVANT: f64 = 0.02;

/// Threads below which a closed loop measures the round trip.
const ROUND_TRIP_THREADS: u32 = 4;

/// How the second compares with the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The second is better.
    Better,
    /// No difference shows.
    Equal,
    /// The second is worse.
    Worse,
    /// The machines were apart: nobody knows what the servers have to do with the difference.
    NotComparable,
}

impl Verdict {
    /// From a ratio of which more is better.
    #[must_use]
    pub fn more_is_better(ratio: &Estimate) -> Self {
        match ratio {
            ratio if ratio.low > 1.0 && ratio.mean > 1.0 + RELEVANT => Self::Better,
            ratio if ratio.high < 1.0 && ratio.mean < 1.0 - RELEVANT => Self::Worse,
            _ => Self::Equal,
        }
    }

    /// From a ratio of which less is better.
    #[must_use]
    pub fn less_is_better(ratio: &Estimate) -> Self {
        match Self::more_is_better(ratio) {
            Self::Better => Self::Worse,
            Self::Worse => Self::Better,
            same => same,
        }
    }

    /// What it is called.
    #[must_use]
    pub fn name(self) -> Text {
        let (en, zh) = match self {
            Self::Better => ("better", "更优"),
            Self::Equal => ("equal", "相当"),
            Self::Worse => ("worse", "更差"),
            Self::NotComparable => ("not comparable", "不可比"),
        };
        Text { en: en.to_owned(), zh: zh.to_owned() }
    }
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aspect {
    /// Messages per second, closed loop: of a cell that is no step of a ladder, or of the best step of one.
    Capacity,
    /// Messages per second of another step of a ladder: what the load asked for, or overload.
    RateAtLoad,
    /// The 99th percentile at the same rate, open loop.
    LatencyAtRate,
    /// The time of one request after the other.
    RoundTrip,
}

/// One cell of both runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pairing {
    /// What the cell was.
    pub factors: Factors,
    /// What is compared.
    pub aspect: Aspect,
    /// Figure of the first: messages per second, or microseconds.
    pub first: f64,
    /// Figure of the second.
    pub second: f64,
    /// Second over first.
    pub ratio: Estimate,
    /// The answer.
    pub verdict: Verdict,
}

/// Two runs beside each other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Versus {
    /// In what the machines of the two runs were apart, so that no cell is judged; empty where the machines are judged too.
    #[serde(default)]
    pub apart: Vec<Text>,
    /// Cells that are valid in both.
    pub pairings: Vec<Pairing>,
    /// Cells of both that are invalid in one of them, with the reason.
    pub left_out: Vec<(Factors, Text)>,
    /// Cells that only one of them has.
    pub unmatched: usize,
    /// Modes of flush and replication that each run has one of, and another one.
    #[serde(default)]
    pub modes: Vec<Text>,
    /// Geometric mean of the ratios of capacity.
    pub capacity: Option<Estimate>,
    /// The ladders behind it; older comparisons do not say.
    #[serde(default)]
    pub ladders: Ladders,
    /// Geometric mean of the ratios of latency at equal rate.
    pub latency: Option<Estimate>,
    /// Geometric mean of the ratios of processor time per message.
    pub cpu: Option<f64>,
}

/// Compares the second run with the first.
#[must_use]
pub fn versus(first: &[Judged<'_>], second: &[Judged<'_>], seed: u64) -> Versus {
    let modes = modes(first, second);
    // The same load; how the servers are set up may differ, for that is what is compared.
    let load = |cell: &Judged<'_>| {
        modes.iter().fold(cell.factors().clone(), |factors, (factor, _)| factor.without(&factors))
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
            (Err(reasons), _) => all.left_out.push((factors, because(("first", "前者"), reasons))),
            (_, Err(reasons)) => all.left_out.push((factors, because(("second", "后者"), reasons))),
        }
    }
    let matched = all.pairings.len() + all.left_out.len();
    all.unmatched += second.len().saturating_sub(matched);
    let tops = ladders::tops(&mut all.pairings);
    all.ladders = Ladders::of(&tops, (first, second), &load, seed);
    all.capacity = mean_of(&all.pairings, Aspect::Capacity);
    all.latency = mean_of(&all.pairings, Aspect::LatencyAtRate);
    all.cpu = (!times.is_empty()).then(|| (times.iter().sum::<f64>() / times.len() as f64).exp());
    all.modes = modes.into_iter().map(|(_, says)| says).collect();
    all
}

impl Versus {
    /// The same without a verdict, because the machines were apart in this.
    #[must_use]
    pub fn without_verdicts(mut self, apart: Vec<Text>) -> Self {
        if !apart.is_empty() {
            self.pairings.iter_mut().for_each(|pairing| pairing.verdict = Verdict::NotComparable);
            (self.capacity, self.latency, self.cpu) = (None, None, None);
        }
        Self { apart, ..self }
    }
}

/// Modes of which each run has one alone, and another one. With more of them a cell would have several partners.
fn modes(first: &[Judged<'_>], second: &[Judged<'_>]) -> Vec<(Factor, Text)> {
    let only = |run: &[Judged<'_>], factor: &Factor| {
        let mut levels: Vec<String> = run.iter().map(|cell| factor.level(cell.factors())).collect();
        levels.dedup();
        levels.pop().filter(|_| levels.is_empty())
    };
    let differs = |factor: Factor| {
        let (one, other) = only(first, &factor).zip(only(second, &factor)).filter(|(a, b)| a != b)?;
        let said = |level: &str, found: &str| if level == "-" { found.to_owned() } else { level.to_owned() };
        let Text { en, zh } = factor.name();
        let [from, to] = [&one, &other].map(|level| said(level, "as the brokers had it"));
        let [from_zh, to_zh] = [&one, &other].map(|level| said(level, "沿用 Broker 设置"));
        let says = both!("{en}: {from} in A, {to} in B", "{zh}：A 为 {from_zh}，B 为 {to_zh}");
        Some((factor, says))
    };
    [Factor::Flush, Factor::Replication].into_iter().filter_map(differs).collect()
}

fn because((en, zh): (&str, &str), reasons: &[Text]) -> Text {
    let first = reasons.first().cloned().unwrap_or_default();
    let (why, why_zh) = (first.en, first.zh);
    both!("invalid in the {en}: {why}", "{zh}无效：{why_zh}")
}

fn mean_of(pairings: &[Pairing], aspect: Aspect) -> Option<Estimate> {
    let mut ratios =
        pairings.iter().filter(|pairing| pairing.aspect == aspect).map(|pairing| pairing.ratio).peekable();
    ratios.peek()?;
    Some(together(ratios))
}

fn pairing(factors: &Factors, (before, after): (&Figures, &Figures), seed: u64) -> Pairing {
    let aspect = match factors {
        // One-way sends have no latency: what arrived is all there is to compare.
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
            // In a closed loop the time of a round trip is what the rate says, upside down.
            let ratio = ratio(&after.tps_seconds, &before.tps_seconds, seed);
            (before.latency.mean_us, after.latency.mean_us, ratio, Verdict::less_is_better(&ratio))
        }
    };
    Pairing { factors: factors.clone(), aspect, first, second, ratio, verdict }
}

/// Price of a million messages at `share` of a rate, when a month costs `month`.
#[must_use]
pub fn price_per_million(month: f64, tps: f64, share: f64) -> f64 {
    const SECONDS_PER_MONTH: f64 = 30.0 * 86_400.0;
    if tps <= 0.0 { 0.0 } else { month / (tps * share * SECONDS_PER_MONTH) * 1e6 }
}

/// Reads a ratio: `+12.3 % (+8.0 to +16.1 %)`.
#[must_use]
pub fn ratio_text(ratio: &Estimate) -> String {
    let [value, low, high] = [ratio.mean, ratio.low, ratio.high].map(|ratio| numbers::change(ratio - 1.0));
    format!("{value} ({low} … {high})")
}

#[cfg(test)]
mod tests;
