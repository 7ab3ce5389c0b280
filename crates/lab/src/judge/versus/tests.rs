use super::*;
use crate::archive::Record;
use crate::judge::{judged, testing};
use crate::sentences::{Sentence, reservation};

fn compare(first: &Record, second: &Record) -> Versus {
    versus(&judged(first), &judged(second), 7)
}

fn run(tps: f64) -> Record {
    testing::record(&[(testing::factors(60), tps)])
}

fn verdict(first: f64, second: f64) -> Verdict {
    compare(&run(first), &run(second)).pairings[0].verdict
}

#[test]
fn three_answers() {
    assert_eq!(verdict(30_000.0, 40_000.0), Verdict::Better);
    assert_eq!(verdict(30_000.0, 25_000.0), Verdict::Worse);
    // A certain difference that is too small to matter, such as 94 against 95 in seed 000.
    assert_eq!(verdict(30_000.0, 30_300.0), Verdict::Equal);
}

#[test]
fn a_wide_interval_cannot_be_told() {
    // -12.9 to +42.5 % was called equal.
    let ratio = Estimate { mean: 1.11, low: 0.871, high: 1.425 };
    assert_eq!(Verdict::more_is_better(&ratio), Verdict::Undecided);
    assert_eq!(Verdict::less_is_better(&ratio), Verdict::Undecided);
    assert_eq!(Verdict::more_is_better(&Estimate { mean: 1.01, low: 0.97, high: 1.04 }), Verdict::Equal);
    assert_eq!(Verdict::more_is_better(&Estimate { mean: 1.01, low: 1.005, high: 1.015 }), Verdict::Equal);
    assert_eq!(Verdict::more_is_better(&Estimate { mean: 1.01, low: 0.9, high: 1.12 }), Verdict::Undecided);
    assert_eq!(repeats_to_decide(&ratio, 3), 20, "half of the interval must be less than 11 %");
    let near = Estimate { mean: 1.0, low: 0.9, high: 1.1 };
    assert!((12..=13).contains(&repeats_to_decide(&near, 3)), "twice as narrow to be within 5 %");
}

#[test]
fn an_undecided_cell_says_how_many_repeats_would_tell() {
    let mut noisy = run(33_000.0);
    for (index, repeat) in noisy.cells[0].repeats.iter_mut().enumerate() {
        let times = [0.75, 1.0, 1.25][index];
        repeat.load.iter_mut().for_each(|row| row.sent = (row.sent as f64 * times) as u64);
        repeat.load.iter_mut().for_each(|row| row.mean_us /= times);
    }
    let found = compare(&run(30_000.0), &noisy);
    let [pairing] = &found.pairings[..] else { panic!("one cell: {found:?}") };
    assert_eq!(pairing.verdict, Verdict::Undecided, "{pairing:?}");
    let told = crate::sentences::verdict(pairing).en;
    assert!(told.starts_with("cannot be told; about ") && told.ends_with(" repeats would tell"), "{told}");
}

#[test]
fn a_run_is_equal_to_itself() {
    let found = compare(&run(30_000.0), &run(30_000.0));
    assert_eq!(found.pairings[0].verdict, Verdict::Equal);
    assert!(found.capacity.is_some_and(|ratio| (ratio.mean - 1.0).abs() < 1e-9));
}

#[test]
fn one_thread_tells_the_round_trip_not_the_capacity() {
    // Seed 000: with one thread, 741 and 334 messages per second are round trips of 1.35 and 3.19 ms.
    let single = |tps| testing::record(&[(testing::factors(1), tps)]);
    let found = compare(&single(741.0), &single(334.0));
    assert_eq!((found.pairings[0].aspect, found.pairings[0].verdict), (Aspect::RoundTrip, Verdict::Worse));
    assert_eq!(found.capacity, None);
}

#[test]
fn latency_is_compared_at_equal_rate_only() {
    let open = |slower: u64| {
        let factors = Factors { rate: Some(10_000.0), ..testing::factors(100) };
        let mut record = testing::record(&[(factors, 10_000.0)]);
        testing::each_second(&mut record, |_, second| second.p99_us *= slower);
        record
    };
    let found = compare(&open(1), &open(2));
    assert_eq!(
        (found.pairings[0].aspect, found.pairings[0].verdict),
        (Aspect::LatencyAtRate, Verdict::Worse)
    );
    assert!(found.latency.is_some_and(|ratio| (ratio.mean - 2.0).abs() < 0.05));
}

/// A ladder of threads on a server that answers after 2 ms and carries at most `most` messages per second.
fn ladder(threads: &[u32], most: f64) -> Record {
    let cell = |threads: &u32| (testing::factors(*threads), (f64::from(*threads) / 0.002).min(most));
    testing::record(&threads.iter().map(cell).collect::<Vec<_>>())
}

const THREADS: [u32; 6] = [1, 10, 30, 60, 120, 200];

#[test]
fn the_top_step_of_a_ladder_is_its_capacity() {
    let found = compare(&ladder(&THREADS, 10_000.0), &ladder(&THREADS, 20_000.0));
    let aspects: Vec<_> = found.pairings.iter().map(|pairing| pairing.aspect).collect();
    let step = Aspect::RateAtLoad;
    assert_eq!(aspects, [Aspect::RoundTrip, step, step, step, step, Aspect::Capacity]);
    assert_eq!(found.pairings[1].verdict, Verdict::Equal, "10 in flight wait for their answers on both");
    assert!(found.capacity.is_some_and(|ratio| (ratio.mean - 2.0).abs() < 0.05), "{:?}", found.capacity);
    assert_eq!(found.ladders, Ladders { compared: 1, unsaturated: (0, 0) });
    assert_eq!(reservation(&found.ladders), None);
}

#[test]
fn an_overloaded_server_is_judged_by_its_best_step() {
    let cells = [(30, 15_000.0), (60, 30_000.0), (120, 24_000.0), (200, 20_000.0)];
    let falls = testing::record(&cells.map(|(threads, tps)| (testing::factors(threads), tps)));
    let found = compare(&falls, &ladder(&[30, 60, 120, 200], 25_000.0));
    let step = Aspect::RateAtLoad;
    let aspects: Vec<_> = found.pairings.iter().map(|pairing| pairing.aspect).collect();
    assert_eq!(aspects, [step, Aspect::Capacity, step, step]);
    assert_eq!(found.pairings[1].verdict, Verdict::Worse);
    assert!(
        found.capacity.is_some_and(|ratio| (ratio.mean - 25.0 / 30.0).abs() < 0.02),
        "{:?}",
        found.capacity
    );
    assert_eq!(reservation(&found.ladders), None);
}

#[test]
fn a_ladder_that_climbs_tells_no_capacity() {
    let said = |one: f64, other: f64| {
        let found = compare(&ladder(&THREADS, one), &ladder(&THREADS, other));
        assert_eq!(found.pairings[5].aspect, Aspect::Capacity);
        (found.ladders.unsaturated, reservation(&found.ladders).map(|says| says.en).unwrap_or_default())
    };
    let (unsaturated, says) = said(1e9, 1e9);
    assert_eq!(unsaturated, (1, 1));
    assert!(says.starts_with("the ladders were not saturated in either run"), "{says}");
    let (unsaturated, says) = said(10_000.0, 1e9);
    assert_eq!(unsaturated, (0, 1));
    assert!(says.starts_with("of 1 ladders 0 were not saturated in A and 1 in B"), "{says}");
}

#[test]
fn the_top_of_a_ladder_is_what_both_runs_have() {
    let found = compare(&ladder(&[10, 30, 60, 120, 200], 10_000.0), &ladder(&[10, 30, 60], 20_000.0));
    assert_eq!(
        found.pairings.last().map(|top| (top.factors.threads, top.aspect)),
        Some((60, Aspect::Capacity))
    );
    assert_eq!(found.unmatched, 2);
    // With a single common step, whether it is the best one is unknown.
    let found = compare(&ladder(&[60, 120], 10_000.0), &ladder(&[60], 10_000.0));
    assert_eq!((found.pairings[0].aspect, found.ladders), (Aspect::Capacity, Ladders::default()));
}

#[test]
fn each_size_has_a_ladder_of_its_own() {
    let cell = |threads, size, tps| (Factors { size, ..testing::factors(threads) }, tps);
    let cells = [(10, 1_024), (60, 1_024), (10, 10_240), (60, 10_240)];
    let record = testing::record(&cells.map(|(threads, size)| cell(threads, size, 5_000.0)));
    let found = compare(&record, &record);
    let capacity: Vec<_> = found.pairings.iter().map(|pairing| pairing.aspect == Aspect::Capacity).collect();
    assert_eq!(capacity, [false, true, false, true]);
    assert_eq!(found.ladders, Ladders { compared: 2, unsaturated: (2, 2) });
}

#[test]
fn modes_of_which_each_run_has_one_are_what_is_compared() {
    // A comparison with RocketMQ in Java, whose broker keeps one mode for the whole run.
    let mode = |cells: &[(&str, &str, f64)]| {
        let cell = |(flush, replication, tps): &(&str, &str, f64)| {
            let (flush, replication) = ((*flush).to_owned(), (*replication).to_owned());
            (Factors { flush, replication, ..testing::factors(60) }, *tps)
        };
        testing::record(&cells.iter().map(cell).collect::<Vec<_>>())
    };
    let found = compare(&mode(&[("async", "", 30_000.0)]), &mode(&[("sync", "sync", 6_000.0)]));
    assert_eq!((found.pairings[0].verdict, found.unmatched), (Verdict::Worse, 0));
    assert_eq!(found.pairings[0].factors, testing::factors(60), "of neither run alone");
    let said: Vec<_> = found.modes.iter().map(|mode| mode.sentence().en).collect();
    assert_eq!(said, ["flush: async in A, sync in B", "replication: as the brokers had it in A, sync in B"]);
    // When both runs have both modes, each cell matches the cell of its own mode.
    let both = mode(&[("async", "", 30_000.0), ("sync", "", 6_000.0)]);
    let found = compare(&both, &mode(&[("sync", "", 6_000.0)]));
    assert_eq!((found.pairings.len(), found.unmatched, found.modes.len()), (1, 1, 0));
    assert_eq!(found.pairings[0].verdict, Verdict::Equal);
}

#[test]
fn invalid_cells_are_left_out_with_the_reason() {
    let mut broken = run(40_000.0);
    testing::each_second(&mut broken, |_, second| second.lab_cores = 7.9);
    let found = compare(&run(30_000.0), &broken);
    assert_eq!(found.pairings, []);
    assert!(found.left_out[0].1.sentence().en.starts_with("invalid in the second: the load generator"));
}

#[test]
fn cells_of_one_run_only_are_counted() {
    let more = testing::record(&[(testing::factors(60), 30_000.0), (testing::factors(120), 31_000.0)]);
    assert_eq!(compare(&run(30_000.0), &more).unmatched, 1);
    assert_eq!(compare(&more, &run(30_000.0)).unmatched, 1);
}

#[test]
fn a_million_messages_have_a_price() {
    // 6,900 a month at 70 % of 30,000 per second, around the clock: 54.4 thousand million messages.
    let price = price_per_million(6_900.0, 30_000.0, 0.7);
    assert!((price - 0.1268).abs() < 0.0001, "{price}");
}
