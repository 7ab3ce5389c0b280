//! Tests of whole groups on a single thread: the machines of brokers and of a controller, a network that cuts and
//! delays, crashes, clients, and checks of the promises. A failure names its seed. `SEEDS=100..200` runs other seeds
//! than the usual ones.

mod group;

use group::{Crashes, run};

fn run_all(crashes: Crashes) {
    let seeds = std::env::var("SEEDS").unwrap_or_else(|_| "1..9".to_owned());
    let (first, end) = seeds.split_once("..").expect("SEEDS is first..end");
    for seed in first.parse().expect("a number")..end.parse().expect("a number") {
        run(seed, crashes);
    }
}

#[test]
fn kills_and_cuts_lose_nothing() {
    run_all(Crashes::KeepTheLog);
}

#[test]
fn crashes_that_cost_the_end_of_a_log_lose_nothing_that_another_member_has() {
    run_all(Crashes::LoseTheTail);
}
