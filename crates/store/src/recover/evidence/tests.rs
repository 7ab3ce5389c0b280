//! The table of decision 0004, row by row.

use super::*;

fn behind(records: u64, fitting: u64, age_ms: i64) -> RecordsBehind {
    RecordsBehind { records, fitting, first_ms: 1_000_000, newest_ms: 1_000_000 + age_ms, pause_ms: 0 }
}

const PLAIN: Facts = Facts {
    broken: BrokenKind::Zeros,
    is_checkpointed: false,
    was_durable: false,
    kept_pages: false,
    behind: RecordsBehind { records: 0, fitting: 0, first_ms: 0, newest_ms: 0, pause_ms: 0 },
};

fn check(facts: Facts, flush: FlushMode, expected: Meaning) {
    let config = Config { flush, ..Config::new("/store") };
    assert_eq!(judge(&facts, FlushDelay::of(&config)), expected, "{facts:?} {flush:?}");
}

fn both(facts: Facts, expected: Meaning) {
    check(facts, FlushMode::Async, expected);
    check(facts, FlushMode::Sync, expected);
}

#[test]
fn without_whole_records_behind_it_the_log_ends() {
    for broken in [BrokenKind::Zeros, BrokenKind::Altered] {
        for (was_durable, kept_pages) in [(false, false), (false, true), (true, false), (true, true)] {
            both(Facts { broken, was_durable, kept_pages, ..PLAIN }, Meaning::End);
        }
    }
}

#[test]
fn records_that_were_cut_off_before_count_for_nothing() {
    for fitting in [0, 1, 5] {
        let behind = behind(10, fitting, 100_000);
        both(Facts { broken: BrokenKind::Altered, kept_pages: true, behind, ..PLAIN }, Meaning::End);
    }
    // Below the checkpoint there is no leftover of an earlier cut: a clock set back, or a damaged time before the position,
    // looks the same.
    both(Facts { is_checkpointed: true, behind: behind(10, 0, 0), ..PLAIN }, Meaning::Damage);
    // One record among those that continue the queues may be damaged in a field without checksum.
    both(Facts { broken: BrokenKind::Altered, behind: behind(10, 9, 0), ..PLAIN }, Meaning::Damage);
}

#[test]
fn bytes_no_lost_page_explains_are_damage() {
    both(Facts { broken: BrokenKind::Altered, behind: behind(1, 1, 0), ..PLAIN }, Meaning::Damage);
}

#[test]
fn zeros_are_damage_where_no_page_can_have_been_lost() {
    both(Facts { kept_pages: true, behind: behind(1, 1, 0), ..PLAIN }, Meaning::Damage);
    both(Facts { was_durable: true, behind: behind(1, 1, 0), ..PLAIN }, Meaning::Damage);
}

#[test]
fn zeros_that_young_records_follow_are_lost_pages() {
    both(Facts { behind: behind(1, 1, 0), ..PLAIN }, Meaning::LostPages);
    check(Facts { behind: behind(9, 9, 5_000), ..PLAIN }, FlushMode::Sync, Meaning::LostPages);
    check(Facts { behind: behind(9, 9, 10_500), ..PLAIN }, FlushMode::Async, Meaning::LostPages);
}

#[test]
fn zeros_are_damage_where_the_log_went_on_for_long() {
    check(Facts { behind: behind(9, 9, 35_001), ..PLAIN }, FlushMode::Sync, Meaning::Damage);
    check(Facts { behind: behind(9, 9, 40_501), ..PLAIN }, FlushMode::Async, Meaning::Damage);
}

#[test]
fn in_between_somebody_else_has_to_decide() {
    check(Facts { behind: behind(9, 9, 5_001), ..PLAIN }, FlushMode::Sync, Meaning::Undecided);
    check(Facts { behind: behind(9, 9, 35_000), ..PLAIN }, FlushMode::Sync, Meaning::Undecided);
    check(Facts { behind: behind(9, 9, 10_501), ..PLAIN }, FlushMode::Async, Meaning::Undecided);
}

#[test]
fn a_clock_that_was_set_forward_proves_nothing() {
    let behind = RecordsBehind { pause_ms: 3_300_000, ..behind(9, 9, 3_300_900) };
    both(Facts { behind, ..PLAIN }, Meaning::LostPages);
    // Whoever appended for long before or after it still counts.
    let behind = RecordsBehind { pause_ms: 3_300_000, ..self::behind(9, 9, 3_350_000) };
    both(Facts { behind, ..PLAIN }, Meaning::Damage);
}
