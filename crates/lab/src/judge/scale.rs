//! R12: do more masters carry more? Efficiency is the rate of `n` over `n` times the rate of one.

use super::bottleneck::bottleneck;
use super::factor::{Factor, ladders};
use super::judged::Judged;
use super::{Text, both, numbers};
use crate::archive::{Factors, RunFile};
use serde::{Deserialize, Serialize};

/// Efficiency below which something is shared.
const EFFICIENT: f64 = 0.8;

/// Key of the number of masters in [`Factors::more`].
pub const MASTERS: &str = "masters";

/// A number of masters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScaleOut {
    /// How many.
    pub masters: f64,
    /// Rate over masters times the smallest number's rate per master.
    pub efficiency: f64,
    /// To be read.
    pub says: Text,
}

/// Judges every ladder over [`MASTERS`].
#[must_use]
pub fn scale_out(file: &RunFile, cells: &[Judged<'_>]) -> Vec<ScaleOut> {
    let valid: Vec<&Judged<'_>> = cells.iter().filter(|cell| cell.figures().is_some()).collect();
    let factors: Vec<&Factors> = valid.iter().map(|cell| cell.factors()).collect();
    let masters = Factor::More(MASTERS.to_owned());
    let each = |index: &usize| {
        let tps = valid[*index].figures().map_or(0.0, |figures| figures.tps.mean);
        masters.number(factors[*index]).map(|count| (count, tps / count))
    };
    let found = ladders(&factors, &masters).into_iter().flat_map(|ladder| {
        let base = each(&ladder[0]);
        let above = ladder.into_iter().skip(1);
        above.filter_map(move |index| Some((index, each(&index)?, base?))).collect::<Vec<_>>()
    });
    found.map(|(index, (masters, tps), (_, base))| judge(file, valid[index], (masters, tps / base))).collect()
}

fn judge(file: &RunFile, cell: &Judged<'_>, (masters, efficiency): (f64, f64)) -> ScaleOut {
    let value = numbers::percent(efficiency);
    let says = if efficiency >= EFFICIENT {
        both!(
            "{masters} masters: {value} of what each does alone",
            "{masters} 主：达到单主线性扩展的 {value}"
        )
    } else {
        let shared = bottleneck(file, &cell.windows, true);
        let (name, evidence) = (shared.resource.name(), shared.evidence);
        let (en, zh, why, why_zh) = (name.en, name.zh, evidence.en, evidence.zh);
        both!(
            "{masters} masters: only {value} of what each does alone; they share the {en}: {why}",
            "{masters} 主：仅达到线性扩展的 {value}；共享资源为{zh}：{why_zh}"
        )
    };
    ScaleOut { masters, efficiency, says }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::{fixture, judged};

    fn found(two: f64, four: f64, busy: f64) -> Vec<ScaleOut> {
        let cell = |masters: &str, tps| {
            let mut factors = fixture::factors(60);
            factors.more.insert(MASTERS.to_owned(), masters.to_owned());
            (factors, tps)
        };
        let mut record = fixture::record(&[cell("2", two), cell("4", four)]);
        fixture::each_host_second(&mut record, "b1", |_, second| second.cpu_user = busy);
        scale_out(&record.file, &judged(&record))
    }

    #[test]
    fn seed_000_four_masters_do_less_than_two() {
        // 60 threads, 1K, 8 queues: 66,780 with 2m2s and 56,913 with 4m4s on the same four machines.
        let found = found(66_780.0, 56_913.0, 0.85);
        assert!((found[0].efficiency - 0.426).abs() < 0.01);
        assert!(found[0].says.en.contains("they share the CPU"), "{}", found[0].says.en);
    }

    #[test]
    fn twice_the_masters_twice_the_rate() {
        let found = found(50_000.0, 97_000.0, 0.2);
        assert!(found[0].says.en.ends_with("of what each does alone"), "{}", found[0].says.en);
    }
}
