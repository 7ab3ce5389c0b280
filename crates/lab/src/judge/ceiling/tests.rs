use super::*;
use crate::archive::Record;
use crate::judge::{judged, testing};
use crate::sentences::Sentence;

/// Judges a ladder of (threads, rate); `change` may alter the record first.
fn ladder(rates: &[(u32, f64)], change: impl Fn(&mut Record)) -> Ceiling {
    let cells: Vec<_> = rates.iter().map(|(threads, tps)| (testing::factors(*threads), *tps)).collect();
    let mut record = testing::record(&cells);
    change(&mut record);
    let judged = judged(&record);
    let step = |(index, (threads, _)): (usize, &(u32, f64))| Step {
        load: f64::from(*threads),
        figures: judged[index].figures().expect("a valid cell"),
    };
    let steps: Vec<Step<'_>> = rates.iter().enumerate().map(step).collect();
    ceiling(&steps, &Invalid::default(), 7)
}

#[test]
fn the_ladder_of_seed_000_never_found_a_ceiling() {
    // 2m2s, 1K, 8 queues: 66,780, 89,263 and 102,751 at 60, 120 and 200 threads.
    let found = ladder(&[(60, 66_780.0), (120, 89_263.0), (200, 102_751.0)], |_| ());
    assert!(matches!(found, Ceiling::NotSaturated { gain, .. } if (0.13..0.17).contains(&gain)), "{found:?}");
}

#[test]
fn a_flat_ladder_has_its_ceiling() {
    // Seed 000-B, 5K: 18,528, 16,772 and 16,836; here without the fall.
    let found = ladder(&[(10, 9_000.0), (60, 16_700.0), (120, 16_900.0), (200, 16_836.0)], |_| ());
    assert!(matches!(&found, Ceiling::Found { tps, .. } if (16_000.0..17_500.0).contains(tps)), "{found:?}");
}

#[test]
fn a_rate_that_rises_and_falls_has_its_ceiling_at_the_top() {
    // Seed 001, test 1.
    let found = ladder(&[(1, 8_000.0), (10, 20_000.0), (32, 30_000.0), (64, 26_000.0)], |_| ());
    assert!(
        matches!(&found, Ceiling::Found { step: 2, sign, .. } if sign.sentence().en.contains("stays below")),
        "{found:?}"
    );
}

#[test]
fn a_step_that_makes_up_for_a_dip_gains_nothing() {
    let found = ladder(&[(60, 20_000.0), (120, 30_000.0), (240, 25_000.0), (480, 29_500.0)], |_| ());
    let says = "the last step stays below the best before it (-1.";
    assert!(
        matches!(&found, Ceiling::Found { step: 1, sign, .. } if sign.sentence().en.starts_with(says)),
        "{found:?}"
    );
}

#[test]
fn two_steps_that_gain_little_each_are_flat() {
    let gained = |rates: [f64; 3], expected: f64, says: &str| {
        let steps = [(60, rates[0]), (120, rates[1]), (240, rates[2])];
        match ladder(&steps, |_| ()) {
            Ceiling::Found { step: 2, tps, sign } => {
                assert!((tps / expected - 1.0).abs() < 0.005, "the flat part, not the highest step: {tps}");
                assert_eq!(sign.sentence().en, says);
            }
            other => panic!("{other:?}"),
        }
    };
    gained([10_000.0, 10_400.0, 10_800.0], 10_400.0, "the last two steps gained +3.9 % and +3.9 %");
    gained([10_000.0, 10_200.0, 10_300.0], 10_167.0, "the last two steps gained +2.2 % and +0.8 %");
}

#[test]
fn one_step_that_gains_little_asks_for_another() {
    let found = ladder(&[(54, 18_100.0), (60, 20_000.0), (61, 20_200.0)], |_| ());
    assert!(
        matches!(&found, Ceiling::Undecided { .. } if found.sentence().en.ends_with("extend the ladder")),
        "{found:?}"
    );
}

#[test]
fn a_knee_is_a_ceiling() {
    // The last step gains 3 %, the one before 11 %; latency grows out of proportion.
    let found = ladder(&[(10, 9_000.0), (30, 18_000.0), (60, 20_000.0), (120, 20_600.0)], |_| ());
    assert!(
        matches!(&found, Ceiling::Found { sign, .. } if sign.sentence().en.contains("knee")),
        "{found:?}"
    );
}

#[test]
fn two_steps_are_not_a_ladder() {
    assert!(matches!(ladder(&[(10, 9_000.0), (30, 9_050.0)], |_| ()), Ceiling::Undecided { .. }));
}

#[test]
fn repeats_that_disagree_decide_nothing() {
    let apart = |record: &mut Record| {
        for (index, repeat) in record.cells[2].repeats.iter_mut().enumerate() {
            let times = [0.75, 1.0, 1.25][index];
            for second in &mut repeat.load {
                second.sent = (second.sent as f64 * times) as u64;
                second.mean_us /= times;
            }
        }
    };
    let rates = [(30, 19_000.0), (60, 20_000.0), (61, 20_500.0)];
    assert!(matches!(ladder(&rates, apart), Ceiling::Undecided { .. }));
    assert!(matches!(ladder(&rates, |_| ()), Ceiling::Undecided { .. } | Ceiling::Found { .. }));
}
