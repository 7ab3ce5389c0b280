use super::*;
use crate::testing::ip;

/// The waits in milliseconds of answers to failures of an address at these milliseconds; -1 for never.
fn waits(failures: &mut Failures, address: &str, times: &[i64]) -> Vec<i64> {
    let wait = |at: &i64| match failures.note(1_000_000 + *at, ip(address)) {
        Answer::Now => 0,
        Answer::After(wait) => wait,
        Answer::Never => -1,
    };
    times.iter().map(wait).collect()
}

#[test]
fn more_than_ten_failures_a_minute_are_answered_one_a_second() {
    let mut failures = Failures::default();
    assert_eq!(waits(&mut failures, "10.0.0.1", &[0; 10]), [0; 10]);
    assert_eq!(failures.delayed(), 0);
    assert_eq!(waits(&mut failures, "10.0.0.1", &[0, 0, 500]), [1000, 2000, 2500]);
    assert_eq!(waits(&mut failures, "::ffff:10.0.0.1", &[10_000]), [0]);
    assert_eq!(waits(&mut failures, "10.0.0.1", &[10_100]), [900]);
    assert_eq!(failures.delayed(), 4);
}

#[test]
fn other_addresses_never_wait() {
    let mut failures = Failures::default();
    waits(&mut failures, "10.0.0.1", &[0; 50]);
    assert_eq!(waits(&mut failures, "10.0.0.2", &[0]), [0]);
}

#[test]
fn all_addresses_of_an_ipv6_network_of_64_bits_count_as_one() {
    let mut failures = Failures::default();
    for host in 1..=10 {
        assert_eq!(waits(&mut failures, &format!("2001:db8:0:1:{host}::{host}"), &[0]), [0], "{host}");
    }
    assert_eq!(waits(&mut failures, "2001:db8:0:1:ffff::1", &[0, 0]), [1000, 2000]);
    assert_eq!(waits(&mut failures, "2001:db8:0:2::1", &[0]), [0]);
}

#[test]
fn a_minute_without_many_failures_forgives() {
    let mut failures = Failures::default();
    waits(&mut failures, "10.0.0.1", &[0; 15]);
    assert_eq!(waits(&mut failures, "10.0.0.1", &[60_000, 60_000]), [0, 0]);
    let slow: Vec<i64> = (2..40).map(|at| at * 60_000 + at * 6_000).collect();
    assert_eq!(waits(&mut failures, "10.0.0.1", &slow), vec![0; slow.len()]);
}

#[test]
fn too_many_waiting_answers_end_the_connection() {
    let mut failures = Failures::default();
    let waits = waits(&mut failures, "10.0.0.1", &[0; 100]);
    assert_eq!(waits[69], 60_000);
    assert!(waits[70..].iter().all(|wait| *wait == -1));
}

#[test]
fn many_addresses_stay_within_the_bound() {
    let mut failures = Failures::default();
    for at in 0..50_000_u32 {
        failures.note(1, IpAddr::from(std::net::Ipv4Addr::from_bits(at)));
        assert!(failures.recent.len() + failures.older.len() <= 2 * ADDRESSES_MAX);
    }
}

#[test]
fn a_clock_that_is_set_back_makes_nobody_wait_longer() {
    let mut failures = Failures::default();
    waits(&mut failures, "10.0.0.1", &[0; 50]);
    assert_eq!(waits(&mut failures, "10.0.0.1", &[-900_000]), [0]);
}
