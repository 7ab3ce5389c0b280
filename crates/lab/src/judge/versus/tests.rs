use super::*;
use crate::archive::Record;
use crate::judge::{fixture, judged};

fn compare(first: &Record, second: &Record) -> Versus {
    versus(&judged(first), &judged(second), 7)
}

fn run(tps: f64) -> Record {
    fixture::record(&[(fixture::factors(60), tps)])
}

fn verdict(first: f64, second: f64) -> Verdict {
    compare(&run(first), &run(second)).pairings[0].verdict
}

#[test]
fn three_answers() {
    assert_eq!(verdict(30_000.0, 40_000.0), Verdict::Better);
    assert_eq!(verdict(30_000.0, 25_000.0), Verdict::Worse);
    // Certain but too small to matter, as seed 000's 94 against 95.
    assert_eq!(verdict(30_000.0, 30_300.0), Verdict::Equal);
}

#[test]
fn a_run_is_equal_to_itself() {
    let found = compare(&run(30_000.0), &run(30_000.0));
    assert_eq!(found.pairings[0].verdict, Verdict::Equal);
    assert!(found.capacity.is_some_and(|ratio| (ratio.mean - 1.0).abs() < 1e-9));
}

#[test]
fn one_thread_tells_the_round_trip_not_the_capacity() {
    // Seed 000: 741 and 334 per second with one thread are 1.35 and 3.19 ms there and back.
    let single = |tps| fixture::record(&[(fixture::factors(1), tps)]);
    let found = compare(&single(741.0), &single(334.0));
    assert_eq!((found.pairings[0].aspect, found.pairings[0].verdict), (Aspect::RoundTrip, Verdict::Worse));
    assert_eq!(found.capacity, None);
}

#[test]
fn latency_is_compared_at_equal_rate_only() {
    let open = |slower: u64| {
        let factors = Factors { rate: Some(10_000.0), ..fixture::factors(100) };
        let mut record = fixture::record(&[(factors, 10_000.0)]);
        fixture::each_second(&mut record, |_, second| second.p99_us *= slower);
        record
    };
    let found = compare(&open(1), &open(2));
    assert_eq!(
        (found.pairings[0].aspect, found.pairings[0].verdict),
        (Aspect::LatencyAtRate, Verdict::Worse)
    );
    assert!(found.latency.is_some_and(|ratio| (ratio.mean - 2.0).abs() < 0.05));
}

#[test]
fn modes_of_which_each_run_has_one_are_what_is_compared() {
    // As against Java, which runs in one mode from its start to its end.
    let mode = |cells: &[(&str, &str, f64)]| {
        let cell = |(flush, replication, tps): &(&str, &str, f64)| {
            let (flush, replication) = ((*flush).to_owned(), (*replication).to_owned());
            (Factors { flush, replication, ..fixture::factors(60) }, *tps)
        };
        fixture::record(&cells.iter().map(cell).collect::<Vec<_>>())
    };
    let found = compare(&mode(&[("async", "", 30_000.0)]), &mode(&[("sync", "sync", 6_000.0)]));
    assert_eq!((found.pairings[0].verdict, found.unmatched), (Verdict::Worse, 0));
    assert_eq!(found.pairings[0].factors, fixture::factors(60), "of neither run alone");
    let said: Vec<_> = found.modes.iter().map(|mode| mode.en.as_str()).collect();
    assert_eq!(said, ["flush: async in A, sync in B", "replication: as the brokers had it in A, sync in B"]);
    // Where a run has both, each cell has its own partner.
    let both = mode(&[("async", "", 30_000.0), ("sync", "", 6_000.0)]);
    let found = compare(&both, &mode(&[("sync", "", 6_000.0)]));
    assert_eq!((found.pairings.len(), found.unmatched, found.modes.len()), (1, 1, 0));
    assert_eq!(found.pairings[0].verdict, Verdict::Equal);
}

#[test]
fn invalid_cells_are_left_out_with_the_reason() {
    let mut broken = run(40_000.0);
    fixture::each_second(&mut broken, |_, second| second.lab_cores = 7.9);
    let found = compare(&run(30_000.0), &broken);
    assert_eq!(found.pairings, []);
    assert!(found.left_out[0].1.en.starts_with("invalid in the second: the load generator"));
}

#[test]
fn cells_of_one_run_only_are_counted() {
    let more = fixture::record(&[(fixture::factors(60), 30_000.0), (fixture::factors(120), 31_000.0)]);
    assert_eq!(compare(&run(30_000.0), &more).unmatched, 1);
    assert_eq!(compare(&more, &run(30_000.0)).unmatched, 1);
}

#[test]
fn a_million_messages_have_a_price() {
    // 6,900 a month at 70 % of 30,000 per second, around the clock: 54.4 thousand million messages.
    let price = price_per_million(6_900.0, 30_000.0, 0.7);
    assert!((price - 0.1268).abs() < 0.0001, "{price}");
}
