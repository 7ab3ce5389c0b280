//! R12: do more masters carry more? Efficiency is the rate of `n` masters divided by `n` times the rate of one.
//!
//! A run has one cluster, so two runs of the same cells are compared by their capacities. A ladder that was not
//! saturated gives a lower bound of a capacity only; the efficiency is then a bound as well, or cannot be told.

use super::RecordedVerdict;
use super::bottleneck::Bottleneck;
use super::conclusion::Conclusion;
use super::stats::Estimate;
use super::versus::Versus;
use serde::{Deserialize, Serialize};

/// Efficiency below which the masters share a limiting resource.
const EFFICIENT: f64 = 0.8;

/// The verdict of R12: the gain from more masters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScaleOut {
    /// Number of masters of the smaller and of the larger cluster.
    pub masters: (usize, usize),
    /// Rate per master of the larger cluster divided by the rate per master of the smaller one.
    pub efficiency: Estimate,
    /// Meaning of the efficiency.
    pub says: RecordedVerdict<Scaling>,
}

/// Meaning of an efficiency.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaling {
    /// Number of masters of the smaller and of the larger cluster.
    pub masters: (usize, usize),
    /// Efficiency, as [`ScaleOut::efficiency`].
    pub efficiency: Estimate,
    /// Whether the ladders of the smaller and of the larger cluster were not saturated.
    pub climb: (bool, bool),
    /// Bottleneck of the larger cluster, where its masters get in each other's way.
    pub shared: Option<Bottleneck>,
}

/// Compares the capacities of two runs; `None` when both clusters have the same number of masters.
pub fn scale_out((first, second): (&Conclusion<'_>, &Conclusion<'_>), versus: &Versus) -> Option<ScaleOut> {
    let capacity = versus.capacity.as_ref()?;
    let masters =
        |run: &Conclusion<'_>| run.record.file.target.brokers.iter().filter(|broker| broker.id == 0).count();
    let (one, other) = (masters(first), masters(second));
    if one == other || one == 0 || other == 0 || capacity.low <= 0.0 {
        return None;
    }
    let inverse = Estimate { mean: 1.0 / capacity.mean, low: 1.0 / capacity.high, high: 1.0 / capacity.low };
    let climbs = (versus.ladders.unsaturated.0 > 0, versus.ladders.unsaturated.1 > 0);
    let (counts, gain, larger, climb) = if other > one {
        ((one, other), *capacity, second, climbs)
    } else {
        ((other, one), inverse, first, (climbs.1, climbs.0))
    };
    let times = counts.1 as f64 / counts.0 as f64;
    let efficiency = Estimate { mean: gain.mean / times, low: gain.low / times, high: gain.high / times };
    // A ladder that still climbs is limited by its load, which the masters do not share.
    let shared = larger.bottleneck.clone().filter(|_| !climb.1 && efficiency.mean < EFFICIENT);
    let says = RecordedVerdict::Verdict(Scaling { masters: counts, efficiency, climb, shared });
    Some(ScaleOut { masters: counts, efficiency, says })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::{BrokerFile, Record};
    use crate::judge::guards::Limits;
    use crate::judge::testing;
    use crate::sentences::Sentence;

    fn run(masters: usize, tps: f64, busy: f64) -> Record {
        ladder(masters, &[(60, tps)], busy)
    }

    fn ladder(masters: usize, steps: &[(u32, f64)], busy: f64) -> Record {
        let cells: Vec<_> = steps.iter().map(|(threads, tps)| (testing::factors(*threads), *tps)).collect();
        let mut record = testing::record(&cells);
        let brokers = &mut record.file.target.brokers;
        let more = BrokerFile { name: "broker-b".to_owned(), ..brokers[0].clone() };
        brokers.resize(masters, more);
        testing::each_host_second(&mut record, "b1", |_, second| second.cpu_user = busy);
        record
    }

    fn found(two: f64, four: f64, busy: f64) -> ScaleOut {
        of_runs(&run(2, two, 0.2), &run(4, four, busy))
    }

    fn of_runs(two: &Record, four: &Record) -> ScaleOut {
        let limits = Limits::default();
        let (two, four) = (Conclusion::new(two, &limits), Conclusion::new(four, &limits));
        let comparison = crate::compare::Comparison::new((&four, &two), &[]);
        let backwards = comparison.scale_out.expect("other numbers of masters");
        let found = crate::compare::Comparison::new((&two, &four), &[]).scale_out.expect("the same");
        assert!(
            (backwards.efficiency.mean - found.efficiency.mean).abs() < 1e-3 && backwards.masters == (2, 4)
        );
        found
    }

    #[test]
    fn four_masters_do_less_than_two() {
        // 60 threads, 1K, 8 queues: 66,780 with 2m2s and 56,913 with 4m4s on the same four machines.
        let found = found(66_780.0, 56_913.0, 0.85);
        assert!((found.efficiency.mean - 0.426).abs() < 0.01);
        assert!(found.says.sentence().en.contains("they share the CPU"), "{}", found.says.sentence().en);
    }

    /// Compares a matrix on two masters with one on four masters that carry `each` messages per second each.
    fn scaled(each: f64) -> (f64, String) {
        let steps = |masters: f64| {
            let rate = |threads: u32| (threads, (f64::from(threads) / 0.002).min(masters * each));
            [1, 10, 30, 60, 120, 200].map(rate)
        };
        let found = of_runs(&ladder(2, &steps(2.0), 0.85), &ladder(4, &steps(4.0), 0.85));
        (found.efficiency.mean, found.says.sentence().en)
    }

    #[test]
    fn steps_that_wait_for_their_answers_are_nothing_that_masters_share() {
        let (efficiency, says) = scaled(5_000.0);
        assert!((efficiency - 1.0).abs() < 0.02 && says.ends_with("of what each of 2 does"), "{says}");
        // A single flat step of the larger cluster may be chance.
        let (efficiency, says) = scaled(10_000.0);
        assert!((efficiency - 1.0).abs() < 0.02 && says.contains("does, at least: "), "{says}");
        let (_, says) = scaled(1e9);
        assert!(says.contains("does, which is no efficiency: ") && !says.contains("share"), "{says}");
    }

    #[test]
    fn twice_the_masters_twice_the_rate() {
        let found = found(50_000.0, 97_000.0, 0.2);
        assert!(found.says.sentence().en.contains("4 masters carries 97"), "{}", found.says.sentence().en);
        assert!(found.says.sentence().en.ends_with("of what each of 2 does"), "{}", found.says.sentence().en);
    }
}
