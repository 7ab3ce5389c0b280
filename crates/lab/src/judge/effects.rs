//! R7, R8 and R11: what each factor changes, over pairs of cells that differ in it alone.
//!
//! An effect is the geometric mean of the ratios over all such pairs, so a factor is never confused with another one
//! that was changed at the same time. When a run has closed and open loops, rates are compared in the closed loops, and
//! latency, which is comparable only at equal rate, in the open loops. R7 is about the factors flush and
//! replication, whose latency is reported at equal rate only. R11 is about the settings of a sweep, and reports only
//! those whose interval excludes "no effect".

use super::factor::{Factor, ladders};
use super::figures::Figures;
use super::judged::Judged;
use super::stats::{Estimate, ratio};
use crate::archive::Factors;

/// An effect of at most this share is called flat, when its interval lies within the share as well.
const FLAT: f64 = 0.05;

/// The effect of changing one factor from its first level to another level.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// The factor.
    pub factor: Factor,
    /// The level that is the base of the comparison.
    pub from: String,
    /// The level that is compared with `from`.
    pub to: String,
    /// Rate at level `to` divided by the rate at level `from`.
    pub tps: Estimate,
    /// 99th percentile of latency at level `to` divided by that at `from`; 0 when latency cannot be compared.
    pub p99: Estimate,
    /// Number of pairs of cells behind both ratios.
    pub pairs: usize,
    /// Whether `p99` compares cells that were sent the same rate.
    pub equal_rate: bool,
}

impl Effect {
    /// Whether the interval of the rate, or of the latency at equal rate, excludes that there is no effect.
    pub fn is_certain(&self) -> bool {
        self.is_rate_certain() || (self.equal_rate && is_certain(&self.p99))
    }

    /// Whether the interval of the rate excludes that there is no effect.
    pub fn is_rate_certain(&self) -> bool {
        is_certain(&self.tps)
    }

    /// Whether the rate stays the same, apart from a negligible share.
    pub fn is_flat(&self) -> bool {
        self.tps.low > 1.0 - FLAT && self.tps.high < 1.0 + FLAT
    }
}

/// Whether the interval of a ratio excludes 1.
fn is_certain(ratio: &Estimate) -> bool {
    ratio.mean > 0.0 && (ratio.low > 1.0 || ratio.high < 1.0)
}

/// Effects of every factor that varies, except settings.
pub fn effects(cells: &[Judged<'_>], seed: u64) -> Vec<Effect> {
    let valid: Vec<(&Factors, &Figures)> = valid(cells);
    let (_, factors) = varied(&valid);
    factors.iter().flat_map(|factor| of_factor(&valid, factor, seed)).collect()
}

/// R11: the swept settings that have an effect; `None` when no setting was swept.
pub fn sensitive(cells: &[Judged<'_>], seed: u64) -> Option<Vec<Effect>> {
    let valid = valid(cells);
    let (settings, _) = varied(&valid);
    let all = settings.iter().flat_map(|factor| of_factor(&valid, factor, seed));
    (!settings.is_empty()).then(|| all.filter(Effect::is_certain).collect())
}

/// The factors that vary: settings first, then all others.
fn varied(cells: &[(&Factors, &Figures)]) -> (Vec<Factor>, Vec<Factor>) {
    let factors: Vec<&Factors> = cells.iter().map(|(factors, _)| *factors).collect();
    Factor::varied(&factors).into_iter().partition(Factor::is_setting)
}

fn valid<'a>(cells: &'a [Judged<'_>]) -> Vec<(&'a Factors, &'a Figures)> {
    cells.iter().filter_map(|cell| Some((cell.factors(), cell.figures()?))).collect()
}

/// Two cells that differ in one factor only.
struct Pair<'a> {
    base: &'a Figures,
    other: &'a Figures,
    /// Whether both cells were sent the same rate in an open loop.
    equal_rate: bool,
}

/// Pairs of cells by level: first level, other level, the pairs.
type Pairs<'a> = Vec<(String, String, Vec<Pair<'a>>)>;

fn of_factor(cells: &[(&Factors, &Figures)], factor: &Factor, seed: u64) -> Vec<Effect> {
    let factors: Vec<&Factors> = cells.iter().map(|(factors, _)| *factors).collect();
    let mut levels: Pairs<'_> = Vec::new();
    for ladder in ladders(&factors, factor) {
        let (base, others) = (ladder[0], &ladder[1..]);
        for other in others {
            let (from, to) = (factor.level(factors[base]), factor.level(factors[*other]));
            let rates = (factors[base].rate, factors[*other].rate);
            let equal_rate = rates.0.is_some() && rates.0 == rates.1;
            let pair = Pair { base: cells[base].1, other: cells[*other].1, equal_rate };
            match levels.iter_mut().find(|level| level.0 == from && level.1 == to) {
                Some(level) => level.2.push(pair),
                None => levels.push((from, to, vec![pair])),
            }
        }
    }
    levels.into_iter().map(|(from, to, pairs)| effect(factor, (from, to), &pairs, seed)).collect()
}

fn effect(factor: &Factor, (from, to): (String, String), pairs: &[Pair<'_>], seed: u64) -> Effect {
    let (open, closed): (Vec<&Pair<'_>>, Vec<_>) = pairs.iter().partition(|pair| pair.equal_rate);
    let equal_rate = !open.is_empty();
    // Open loops all reach the rate they are sent, so rates are compared in closed loops when there are any. In a
    // closed loop the faster mode is the more loaded one, so latency is not.
    let reached = if closed.is_empty() { &open } else { &closed };
    let is_mode = matches!(factor, Factor::Flush | Factor::Replication);
    let late = if equal_rate || is_mode { &open } else { &closed };
    let tps = reached.iter().map(|pair| ratio(&pair.base.tps_seconds, &pair.other.tps_seconds, seed));
    let p99 = late.iter().map(|pair| ratio(&pair.base.p99_seconds, &pair.other.p99_seconds, seed));
    let (tps, p99) = (together(tps), together(p99));
    Effect { factor: factor.clone(), from, to, tps, p99, pairs: pairs.len(), equal_rate }
}

/// The geometric mean of ratios with its interval. Errors of independent pairs add up as squares, here of logarithms,
/// because these are ratios.
pub fn together(ratios: impl Iterator<Item = Estimate>) -> Estimate {
    let known: Vec<Estimate> = ratios.filter(|ratio| ratio.mean > 0.0 && ratio.low > 0.0).collect();
    if known.is_empty() {
        return Estimate::default();
    }
    let count = known.len() as f64;
    let centre = known.iter().map(|ratio| ratio.mean.ln()).sum::<f64>() / count;
    let squares = |half: fn(&Estimate) -> f64| {
        known.iter().map(|ratio| half(ratio).powi(2)).sum::<f64>().sqrt() / count
    };
    let below = squares(|ratio| ratio.mean.ln() - ratio.low.ln());
    let above = squares(|ratio| ratio.high.ln() - ratio.mean.ln());
    Estimate { mean: centre.exp(), low: (centre - below).exp(), high: (centre + above).exp() }
}

/// Two factors whose effects depend on each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Interaction {
    /// The factor at whose levels the effect of the other one is compared.
    pub at: Factor,
    /// The factor whose effect is compared.
    pub of: Factor,
    /// The second factor's effect at the first factor's highest level, divided by its effect at the lowest level: 1
    /// means that the effects are independent.
    pub times: Estimate,
}

/// Pairs of factors where the effect of one, from its lowest to its highest level, differs by more than 5 % between the
/// levels of the other, and the interval confirms it.
pub fn interactions(cells: &[Judged<'_>], seed: u64) -> Vec<Interaction> {
    let mut valid = valid(cells);
    // With closed and open loops, only closed loops count: at equal rate every cell reaches the same rate.
    if valid.iter().any(|(factors, _)| factors.rate.is_none()) {
        valid.retain(|(factors, _)| factors.rate.is_none());
    }
    let factors: Vec<&Factors> = valid.iter().map(|(factors, _)| *factors).collect();
    let varied = Factor::varied(&factors);
    let pairs = varied
        .iter()
        .enumerate()
        .flat_map(|(index, one)| varied[index + 1..].iter().map(move |other| (one, other)));
    pairs.filter_map(|(one, other)| interaction(&valid, (one, other), seed)).collect()
}

fn interaction(
    cells: &[(&Factors, &Figures)],
    (one, other): (&Factor, &Factor),
    seed: u64,
) -> Option<Interaction> {
    let factors: Vec<&Factors> = cells.iter().map(|(factors, _)| *factors).collect();
    // The other factor's effect over its whole range, at each level of the first factor.
    let spans = ladders(&factors, other).into_iter().map(|ladder| (ladder[0], ladder[ladder.len() - 1]));
    let spans: Vec<(usize, usize)> = spans.collect();
    let starts: Vec<&Factors> = spans.iter().map(|span| factors[span.0]).collect();
    let effect =
        |span: (usize, usize)| ratio(&cells[span.0].1.tps_seconds, &cells[span.1].1.tps_seconds, seed);
    let ratios = ladders(&starts, one).into_iter().filter_map(|ladder| {
        let (low, high) = (spans[ladder[0]], spans[ladder[ladder.len() - 1]]);
        let ends = |span: (usize, usize)| (other.level(factors[span.0]), other.level(factors[span.1]));
        (ends(low) == ends(high)).then(|| quotient(&effect(low), &effect(high)))
    });
    let times = together(ratios.collect::<Vec<_>>().into_iter());
    if times.mean == 0.0 || (times.low <= 1.0 + FLAT && times.high >= 1.0 - FLAT) {
        return None;
    }
    Some(Interaction { at: one.clone(), of: other.clone(), times })
}

/// Divides one ratio by another, with the intervals.
fn quotient(below: &Estimate, above: &Estimate) -> Estimate {
    let inverse = Estimate { mean: 1.0 / below.mean, low: 1.0 / below.high, high: 1.0 / below.low };
    let product = together([*above, inverse].into_iter());
    let square = |value: f64| value * value;
    Estimate { mean: square(product.mean), low: square(product.low), high: square(product.high) }
}

#[cfg(test)]
mod tests;
