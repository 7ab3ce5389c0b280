//! R12: do more masters carry more? Efficiency is the rate of `n` masters over `n` times the rate of one.
//!
//! A run has one cluster, so the numbers of masters come from two runs of the same cells: what their capacities say.

use super::bottleneck::Bottleneck;
use super::conclusion::Conclusion;
use super::stats::Estimate;
use super::{Text, both, numbers};
use serde::{Deserialize, Serialize};

/// Efficiency below which something is shared.
const EFFICIENT: f64 = 0.8;

/// What more masters bring.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScaleOut {
    /// Masters of the smaller and of the larger cluster.
    pub masters: (usize, usize),
    /// What each master of the larger one carries over what each of the smaller one does.
    pub efficiency: Estimate,
    /// To be read.
    pub says: Text,
}

/// Judges two runs by the second's capacity over the first's; nothing where both have as many masters.
#[must_use]
pub fn scale_out(
    (first, second): (&Conclusion<'_>, &Conclusion<'_>),
    capacity: &Estimate,
) -> Option<ScaleOut> {
    let masters =
        |run: &Conclusion<'_>| run.record.file.target.brokers.iter().filter(|broker| broker.id == 0).count();
    let (one, other) = (masters(first), masters(second));
    if one == other || one == 0 || other == 0 || capacity.low <= 0.0 {
        return None;
    }
    let inverse = Estimate { mean: 1.0 / capacity.mean, low: 1.0 / capacity.high, high: 1.0 / capacity.low };
    let (counts, gain, larger) =
        if other > one { ((one, other), *capacity, second) } else { ((other, one), inverse, first) };
    let times = counts.1 as f64 / counts.0 as f64;
    let efficiency = Estimate { mean: gain.mean / times, low: gain.low / times, high: gain.high / times };
    let says = says(counts, &efficiency, larger.bottleneck.as_ref());
    Some(ScaleOut { masters: counts, efficiency, says })
}

fn says((few, many): (usize, usize), efficiency: &Estimate, limit: Option<&Bottleneck>) -> Text {
    let [value, low, high] = [efficiency.mean, efficiency.low, efficiency.high].map(numbers::percent);
    let (en, zh) = (
        format!("each of {many} masters carries {value} ({low} to {high}) of what each of {few} does"),
        format!("{many} 主时单主能力为 {few} 主时的 {value}（{low} 到 {high}）"),
    );
    match limit {
        Some(limit) if efficiency.mean < EFFICIENT => {
            let (name, why) = (limit.resource.name(), &limit.evidence);
            let (shared, shared_zh, why, why_zh) = (name.en, name.zh, &why.en, &why.zh);
            both!("{en}; they share the {shared}: {why}", "{zh}；共享资源为{shared_zh}：{why_zh}")
        }
        _ => Text { en, zh },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::{BrokerFile, Record};
    use crate::judge::fixture;
    use crate::judge::guards::Limits;

    fn run(masters: usize, tps: f64, busy: f64) -> Record {
        let mut record = fixture::record(&[(fixture::factors(60), tps)]);
        let brokers = &mut record.file.target.brokers;
        let more = BrokerFile { name: "broker-b".to_owned(), ..brokers[0].clone() };
        brokers.resize(masters, more);
        fixture::each_host_second(&mut record, "b1", |_, second| second.cpu_user = busy);
        record
    }

    fn found(two: f64, four: f64, busy: f64) -> ScaleOut {
        let (two, four) = (run(2, two, 0.2), run(4, four, busy));
        let limits = Limits::default();
        let (two, four) = (Conclusion::new(&two, &limits), Conclusion::new(&four, &limits));
        let comparison = crate::compare::Comparison::new((&four, &two), &[]);
        let backwards = comparison.scale_out.expect("other numbers of masters");
        let found = crate::compare::Comparison::new((&two, &four), &[]).scale_out.expect("the same");
        assert!(
            (backwards.efficiency.mean - found.efficiency.mean).abs() < 1e-3 && backwards.masters == (2, 4)
        );
        found
    }

    #[test]
    fn seed_000_four_masters_do_less_than_two() {
        // 60 threads, 1K, 8 queues: 66,780 with 2m2s and 56,913 with 4m4s on the same four machines.
        let found = found(66_780.0, 56_913.0, 0.85);
        assert!((found.efficiency.mean - 0.426).abs() < 0.01);
        assert!(found.says.en.contains("they share the CPU"), "{}", found.says.en);
    }

    #[test]
    fn twice_the_masters_twice_the_rate() {
        let found = found(50_000.0, 97_000.0, 0.2);
        assert!(found.says.en.contains("4 masters carries 97"), "{}", found.says.en);
        assert!(found.says.en.ends_with("of what each of 2 does"), "{}", found.says.en);
    }
}
