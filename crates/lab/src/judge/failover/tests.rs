use super::*;
use crate::archive::{Cell, Phase};

const FAULT_MS: u64 = 1_000_000;

/// Silences of a connection, or of all, by begin and end in milliseconds after the fault.
fn silence(connection: Option<u32>, from_ms: i64, to_ms: Option<i64>) -> Silence {
    let us = |ms: i64| FAULT_MS.saturating_add_signed(ms) * 1_000;
    Silence { connection, from_us: us(from_ms), to_us: to_ms.map(us) }
}

fn round(silences: Vec<Silence>) -> Round {
    Round { fault_ms: FAULT_MS, heal_ms: FAULT_MS + 9_000, connections: 2, silences, ..Round::default() }
}

/// A run of these rounds, of which everything was read.
fn cell(rounds: Vec<Round>) -> RecordedCell {
    let phase = |repeat| Phase { repeat, name: "rest".to_owned(), met: Some(true), ..Phase::default() };
    let phases = (1..).take(rounds.len()).map(phase).collect();
    let second = |at_ms, failed, refused| LoadSecond { at_ms, failed, refused, ..LoadSecond::default() };
    let load =
        vec![second(FAULT_MS - 1, 100, 100), second(FAULT_MS + 999, 3, 4), second(FAULT_MS + 1_999, 1, 0)];
    let repeats = rounds
        .into_iter()
        .map(|round| Repeat { round: Some(round), load: load.clone(), ..Repeat::default() })
        .collect();
    RecordedCell { cell: Cell { phases, ..Cell::default() }, repeats }
}

fn judged(rounds: Vec<Round>) -> Failover {
    let file = RunFile { repeats: u32::try_from(rounds.len()).expect("few"), ..RunFile::default() };
    failover(&file, &cell(rounds)).expect("there are rounds")
}

#[test]
fn the_service_gap_is_the_one_that_the_fault_made() {
    let check = |silences: Vec<Silence>, service: Gap, longest: Gap| {
        let found = judged(vec![round(silences.clone())]);
        assert_eq!((found.rounds[0].service, found.rounds[0].longest), (service, longest), "{silences:?}");
    };
    let all = |from, to| silence(None, from, to);
    check(vec![], Gap::Short, Gap::Short);
    check(vec![all(-900, Some(-400))], Gap::Short, Gap::Short);
    check(vec![all(-900, Some(-400)), all(-5, Some(1_995))], Gap::Ms(2_000.0), Gap::Ms(2_000.0));
    // Answers may be under way when the fault comes.
    check(vec![all(-8, Some(3)), all(3, Some(1_503))], Gap::Ms(1_500.0), Gap::Ms(1_500.0));
    check(vec![all(2_100, Some(5_100)), all(-10, Some(1_990))], Gap::Ms(2_000.0), Gap::Ms(3_000.0));
    check(vec![all(-10, Some(90)), all(1_200, None)], Gap::Ms(100.0), Gap::Endless);
    check(vec![silence(Some(0), -10, Some(900))], Gap::Short, Gap::Short);
}

#[test]
fn the_gap_of_a_command_that_takes_long_begins_until_it_is_done() {
    let slow = Round { injected_ms: FAULT_MS + 6_000, ..round(vec![silence(None, 5_900, Some(7_900))]) };
    assert_eq!(judged(vec![slow]).rounds[0].service, Gap::Ms(2_000.0));
}

#[test]
fn every_client_has_its_own_gap() {
    let found = judged(vec![round(vec![
        silence(Some(1), -10, Some(990)),
        silence(Some(1), 1_000, Some(1_400)),
        silence(Some(1), -5_000, Some(-1)),
        silence(None, -10, Some(500)),
    ])]);
    assert_eq!(found.rounds[0].clients, [Gap::Short, Gap::Ms(1_000.0)]);
    assert_eq!((found.client.median, found.client.max), (Gap::Short, Gap::Ms(1_000.0)));
}

#[test]
fn percentiles_are_of_the_nearest_rank_and_know_what_has_no_end() {
    let check = |gaps: &[Gap], [median, p99, max]: [Gap; 3]| {
        assert_eq!(spread(gaps.iter().copied()), Some(Spread { median, p99, max }), "{gaps:?}");
    };
    assert_eq!(spread(std::iter::empty()), None);
    check(&[Gap::Ms(7.0)], [Gap::Ms(7.0); 3]);
    check(&[Gap::Ms(3.0), Gap::Short, Gap::Ms(1.0)], [Gap::Ms(1.0), Gap::Ms(3.0), Gap::Ms(3.0)]);
    check(&[Gap::Endless, Gap::Ms(9.0)], [Gap::Ms(9.0), Gap::Endless, Gap::Endless]);
    let many: Vec<Gap> = (1..=200).rev().map(|ms| Gap::Ms(f64::from(ms))).collect();
    check(&many, [Gap::Ms(100.0), Gap::Ms(198.0), Gap::Ms(200.0)]);
}

#[test]
fn requests_and_messages_are_counted_from_the_fault_on() {
    let counts = [("missing", 2), ("doubled", 3), ("out_of_order", 4), ("changed", 0)];
    let checked = counts.map(|(name, count)| (name.to_owned(), count)).into();
    let found = judged(vec![Round { checked, ..round(vec![]) }, round(vec![])]);
    assert_eq!((found.rounds[0].failed, found.rounds[0].refused), (4, 4));
    assert_eq!((found.lost(), found.sum(|one| one.doubled), found.sum(|one| one.out_of_order)), (2, 3, 4));
    let mut unread = cell(vec![round(vec![])]);
    unread.cell.phases[0].met = Some(false);
    assert_eq!(failover(&RunFile::default(), &unread).expect("a round").rounds[0].lost, None, "nobody knows");
}

#[test]
fn offsets_go_back_when_less_is_found_than_was_committed() {
    let check = |commits: &[(u64, i64)], found: Option<i64>, expected: WentBack| {
        // Times are milliseconds before the fault.
        let commits = commits.iter().map(|(before, offset)| (FAULT_MS - before, *offset)).collect();
        let offset = CommittedOffset { commits, found, ..CommittedOffset::default() };
        let back = went_back(std::slice::from_ref(&offset), FAULT_MS);
        assert_eq!(back, expected, "{offset:?}");
    };
    let none = WentBack::default();
    check(&[], Some(0), none);
    check(&[(500, 10), (250, 20)], Some(20), none);
    check(&[(500, 10), (250, 20)], Some(25), none);
    check(&[(500, 10), (250, 20)], Some(10), WentBack { queues: 1, messages: 10, age_ms: 250, unknown: 0 });
    check(&[(500, 10), (250, 20)], Some(0), WentBack { queues: 1, messages: 20, age_ms: 500, unknown: 0 });
    check(&[(500, 10)], None, WentBack { unknown: 1, ..none });
}

#[test]
fn only_failover_runs_have_rounds() {
    let mut other = cell(vec![round(vec![])]);
    other.repeats[0].round = None;
    assert_eq!(failover(&RunFile::default(), &other), None);
}

#[test]
fn a_failover_that_was_ended_early_tells_how_many_rounds_it_has() {
    let said = |repeats| {
        let file = RunFile { repeats, ..RunFile::default() };
        failover(&file, &cell(vec![round(Vec::new()), round(Vec::new())])).expect("rounds").rounds_text().en
    };
    assert_eq!(said(20), "2 of 20 rounds, interrupted");
    assert_eq!(said(2), "2 rounds");
}
