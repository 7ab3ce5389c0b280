//! R7, R8 and R11: what each factor does, over pairs of cells that differ in it alone.
//!
//! An effect is the geometric mean of the ratios over all such pairs, so that a factor is never mixed up with another
//! that was changed beside it. R7 reads the factors flush and replication, and adds latency at equal rate; R11 reads
//! settings of a sweep, of which only those are told whose interval excludes no effect.

use super::factor::{Factor, ladders};
use super::figures::Figures;
use super::judged::Judged;
use super::stats::{Estimate, ratio};
use super::{Text, both, numbers};
use crate::archive::Factors;
use serde::{Deserialize, Serialize};

/// An effect within this is called flat, when its interval is as well.
const FLAT: f64 = 0.05;

/// What changing one factor from its first level to another does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// Name of the factor.
    pub factor: Text,
    /// Level it is compared with.
    pub from: String,
    /// The other level.
    pub to: String,
    /// Rate at the other level over the rate at the first.
    pub tps: Estimate,
    /// The same for the 99th percentile of latency; in an open loop it is at equal rate.
    pub p99: Estimate,
    /// Pairs of cells behind it.
    pub pairs: usize,
    /// Whether both cells of every pair were sent the same rate.
    pub equal_rate: bool,
    /// To be read.
    pub says: Text,
}

impl Effect {
    /// Whether the interval of the rate leaves no doubt that there is one.
    #[must_use]
    pub fn is_certain(&self) -> bool {
        self.tps.low > 1.0 || self.tps.high < 1.0
    }
}

/// Effects of every factor that varies.
#[must_use]
pub fn effects(cells: &[Judged<'_>], seed: u64) -> Vec<Effect> {
    let valid: Vec<(&Factors, &Figures)> = valid(cells);
    let factors: Vec<&Factors> = valid.iter().map(|(factors, _)| *factors).collect();
    Factor::varied(&factors).iter().flat_map(|factor| of_factor(&valid, factor, seed)).collect()
}

/// R11: of the settings that were swept, those that do something.
#[must_use]
pub fn sensitive(cells: &[Judged<'_>], seed: u64) -> Vec<Effect> {
    let valid = valid(cells);
    let factors: Vec<&Factors> = valid.iter().map(|(factors, _)| *factors).collect();
    let settings = Factor::varied(&factors).into_iter().filter(|factor| matches!(factor, Factor::More(_)));
    settings.flat_map(|factor| of_factor(&valid, &factor, seed)).filter(Effect::is_certain).collect()
}

fn valid<'a>(cells: &'a [Judged<'_>]) -> Vec<(&'a Factors, &'a Figures)> {
    cells.iter().filter_map(|cell| Some((cell.factors(), cell.figures()?))).collect()
}

/// Pairs by level: (first level, other level, pairs of cells).
type Pairs<'a> = Vec<(String, String, Vec<(&'a Figures, &'a Figures)>)>;

fn of_factor(cells: &[(&Factors, &Figures)], factor: &Factor, seed: u64) -> Vec<Effect> {
    let factors: Vec<&Factors> = cells.iter().map(|(factors, _)| *factors).collect();
    let mut levels: Pairs<'_> = Vec::new();
    for ladder in ladders(&factors, factor) {
        let (base, others) = (ladder[0], &ladder[1..]);
        for other in others {
            let (from, to) = (factor.level(factors[base]), factor.level(factors[*other]));
            let pair = (cells[base].1, cells[*other].1);
            match levels.iter_mut().find(|level| level.0 == from && level.1 == to) {
                Some(level) => level.2.push(pair),
                None => levels.push((from, to, vec![pair])),
            }
        }
    }
    let equal_rate = *factor != Factor::Rate && cells.iter().all(|(factors, _)| factors.rate.is_some());
    levels
        .into_iter()
        .map(|(from, to, pairs)| effect(factor, (from, to), &pairs, (equal_rate, seed)))
        .collect()
}

fn effect(
    factor: &Factor,
    (from, to): (String, String),
    pairs: &[(&Figures, &Figures)],
    (equal_rate, seed): (bool, u64),
) -> Effect {
    let tps = together(pairs.iter().map(|(one, other)| ratio(&one.tps_seconds, &other.tps_seconds, seed)));
    let p99 = together(pairs.iter().map(|(one, other)| ratio(&one.p99_seconds, &other.p99_seconds, seed)));
    let name = factor.name();
    let says = says((&name, &from, &to), &tps, &p99);
    Effect { factor: name, from, to, tps, p99, pairs: pairs.len(), equal_rate, says }
}

/// The geometric mean of ratios. Errors of independent pairs add up in squares; in logarithms, because ratios do.
#[must_use]
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

fn says((name, from, to): (&Text, &str, &str), tps: &Estimate, p99: &Estimate) -> Text {
    let [value, low, high] = [tps.mean, tps.low, tps.high].map(|ratio| numbers::change(ratio - 1.0));
    // What is sent one way has no latency.
    let late =
        if p99.mean > 0.0 { format!(", p99 {}", numbers::change(p99.mean - 1.0)) } else { String::new() };
    let (en, zh, late_zh) = (&name.en, &name.zh, late.replace(", ", "，"));
    if tps.low > 1.0 - FLAT && tps.high < 1.0 + FLAT {
        return both!(
            "{en} {from} → {to}: flat ({low} to {high} TPS){late}",
            "{zh} {from} → {to}：无影响（TPS {low} 到 {high}）{late_zh}"
        );
    }
    both!(
        "{en} {from} → {to}: {value} TPS ({low} to {high}){late}",
        "{zh} {from} → {to}：TPS {value}（{low} 到 {high}）{late_zh}"
    )
}

/// Two factors whose effects do not simply add up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interaction {
    /// How much the second factor's effect is changed by the first's: 1 is not at all.
    pub times: Estimate,
    /// To be read.
    pub says: Text,
}

/// Pairs of factors where the effect of one, from its lowest to its highest level, depends on the other's by more
/// than 5 %, certainly.
#[must_use]
pub fn interactions(cells: &[Judged<'_>], seed: u64) -> Vec<Interaction> {
    let valid = valid(cells);
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
    // The other factor's whole effect at each level of the first.
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
    let (first, second, value) = (one.name(), other.name(), numbers::short(times.mean));
    let (en, zh, en2, zh2) = (first.en, first.zh, second.en, second.zh);
    let says = both!(
        "{en2} works {value} times as strongly at the highest {en} as at the lowest",
        "在{zh}最高一级，{zh2}的作用是最低一级的 {value} 倍"
    );
    Some(Interaction { times, says })
}

/// One ratio over another.
fn quotient(below: &Estimate, above: &Estimate) -> Estimate {
    let inverse = Estimate { mean: 1.0 / below.mean, low: 1.0 / below.high, high: 1.0 / below.low };
    let product = together([*above, inverse].into_iter());
    let square = |value: f64| value * value;
    Estimate { mean: square(product.mean), low: square(product.low), high: square(product.high) }
}

#[cfg(test)]
mod tests;
