use super::*;
use crate::testing::ip;

/// The wait in milliseconds of an answer; -1 for never.
fn wait(answer: ResponseTime) -> i64 {
    match answer {
        ResponseTime::Now => 0,
        ResponseTime::After(wait) => wait,
        ResponseTime::Never => -1,
    }
}

/// The waits of answers to failures of alice at an address at these milliseconds.
fn waits(failures: &Failures, address: &str, times: &[i64]) -> Vec<i64> {
    times
        .iter()
        .map(|at| wait(failures.record_failure(1_000_000 + *at, ip(address), "alice", None)))
        .collect()
}

/// The turn of a request of a user at the address that fails in these tests, on a new connection.
fn turn(failures: &Failures, at: i64, user: &str) -> Option<i64> {
    failures.reserve_response_time(1_000_000 + at, ip("10.0.0.1"), user, 0).map(wait)
}

#[test]
fn more_than_ten_failures_a_minute_are_answered_one_a_second() {
    let failures = Failures::default();
    assert_eq!(waits(&failures, "10.0.0.1", &[0; 10]), [0; 10]);
    assert_eq!(waits(&failures, "10.0.0.1", &[0, 0, 500]), [1000, 2000, 2500]);
    assert_eq!(waits(&failures, "::ffff:10.0.0.1", &[10_000]), [0]);
    assert_eq!(waits(&failures, "10.0.0.1", &[10_100]), [900]);
}

#[test]
fn other_addresses_never_wait() {
    let failures = Failures::default();
    waits(&failures, "10.0.0.1", &[0; 50]);
    assert_eq!(waits(&failures, "10.0.0.2", &[0]), [0]);
}

#[test]
fn all_addresses_of_an_ipv6_network_of_64_bits_count_as_one() {
    let failures = Failures::default();
    for host in 1..=10 {
        assert_eq!(waits(&failures, &format!("2001:db8:0:1:{host}::{host}"), &[0]), [0], "{host}");
    }
    assert_eq!(waits(&failures, "2001:db8:0:1:ffff::1", &[0, 0]), [1000, 2000]);
    assert_eq!(waits(&failures, "2001:db8:0:2::1", &[0]), [0]);
}

#[test]
fn a_minute_without_many_failures_forgives() {
    let failures = Failures::default();
    waits(&failures, "10.0.0.1", &[0; 15]);
    assert_eq!(waits(&failures, "10.0.0.1", &[60_000, 60_000]), [0, 0]);
    let slow: Vec<i64> = (2..40).map(|at| at * 60_000 + at * 6_000).collect();
    assert_eq!(waits(&failures, "10.0.0.1", &slow), vec![0; slow.len()]);
}

#[test]
fn too_many_waiting_answers_end_the_connection() {
    let failures = Failures::default();
    let waits = waits(&failures, "10.0.0.1", &[0; 100]);
    assert_eq!(waits[69], 60_000);
    assert!(waits[70..].iter().all(|wait| *wait == -1));
}

#[test]
fn many_addresses_stay_within_the_bound() {
    let failures = Failures::default();
    for at in 0..50_000_u32 {
        failures.record_failure(1, IpAddr::from(std::net::Ipv4Addr::from_bits(at)), "alice", None);
        let addresses = failures.addresses.lock();
        assert!(addresses.recent.len() + addresses.older.len() <= 2 * ADDRESSES_MAX);
    }
}

#[test]
fn a_clock_that_is_set_back_makes_nobody_wait_longer() {
    let failures = Failures::default();
    waits(&failures, "10.0.0.1", &[0; 50]);
    assert_eq!(waits(&failures, "10.0.0.1", &[-900_000]), [0]);
}

/// A right guess on a new connection must not be revealed by a fast response, nor by closed connections of wrong
/// guesses.
#[test]
fn right_and_wrong_requests_of_a_slowed_address_take_turns_on_every_connection() {
    let failures = Failures::default();
    assert_eq!(turn(&failures, 0, "alice"), None, "nothing failed yet");
    waits(&failures, "10.0.0.1", &[0; 10]);
    assert_eq!([0, 0].map(|at| turn(&failures, at, "alice")), [Some(1000), Some(2000)]);
    assert_eq!(turn(&failures, 3500, "alice"), Some(0), "nothing waits any more");
    let all: Vec<_> = (0..70).map(|_| turn(&failures, 3500, "alice")).collect();
    assert_eq!((all[59], all[60], all[69]), (Some(60_000), Some(-1), Some(-1)));
    assert_eq!(
        failures.reserve_response_time(1_000_000, ip("10.0.0.2"), "alice", 0),
        None,
        "another address"
    );
    assert_eq!(turn(&failures, 60_000, "alice"), None, "a minute later");
}

#[test]
fn a_request_that_took_a_turn_takes_no_second_one_when_it_fails() {
    let failures = Failures::default();
    waits(&failures, "10.0.0.1", &[0; 10]);
    let turn = failures.reserve_response_time(1_000_000, ip("10.0.0.1"), "alice", 0);
    assert_eq!(wait(failures.record_failure(1_000_000, ip("10.0.0.1"), "alice", turn)), 1000);
    assert_eq!(waits(&failures, "10.0.0.1", &[0]), [2000]);
}

#[test]
fn connections_of_the_user_and_other_users_of_a_slowed_address_take_no_turns() {
    let failures = Failures::default();
    waits(&failures, "10.0.0.1", &[0; 10]);
    let of_alice = failures.mark("alice");
    assert_eq!(failures.reserve_response_time(1_000_000, ip("10.0.0.1"), "alice", of_alice), None);
    assert_eq!(
        failures.reserve_response_time(1_000_000, ip("10.0.0.1"), "alice", failures.mark("bob")),
        Some(ResponseTime::After(1000))
    );
    assert_eq!(turn(&failures, 0, "bob"), None);
}

#[test]
fn whoever_tries_one_user_after_the_other_slows_all_users_of_the_address() {
    let failures = Failures::default();
    for user in 0..FREE_FAILURES {
        failures.record_failure(1_000_000, ip("10.0.0.1"), &format!("user-{user}"), None);
    }
    assert_eq!(turn(&failures, 0, "bob"), Some(1000));
}
