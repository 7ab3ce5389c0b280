//! Runs of the simulator itself: the same seed does the same, every scenario holds, and a planted bug is found. Thousands of seeds
//! and all planted bugs are the business of `vostok-sim --planted`.

use sim::run;
use sim::settings::{BUGS, Bug, Planted, SCENARIOS, Scenario};

#[test]
fn every_scenario_holds() {
    for scenario in SCENARIOS {
        let outcome = run(7, scenario, None, false);
        assert_eq!(outcome.failure, None, "{}", scenario.name);
        assert!(outcome.acknowledged > 100, "{}: {} acknowledged", scenario.name, outcome.acknowledged);
    }
}

/// Seeds that failed before a fault was mended, with their scenarios.
const FAILED_ONCE: &[(u64, &str)] = &[
    // A clock set forward right before a power cut made lost pages look as if they had been flushed.
    (1_795_550_080_065, "classic-async-async"),
    // A master whose messages nobody confirmed came back, and the new one had none of its epochs.
    (40_001_317, "cut-off"),
    (40_002_534, "controller-sync"),
    // A checkpoint that found no space forgot the queues it had not written.
    (1_795_718_776_102, "classic-all-async"),
    // A slave's answer was on its way to a reader when its master came back without the message.
    (1_795_721_625_200, "classic-all-async"),
    // The simulator's broker did not try again to write its identity, as the real one does.
    (1_795_754_279_034, "controller-sync"),
    // A slave that was killed within a write had more than it knew, and was not emptied after its master had lost that.
    (30_001_752, "classic-sync-async"),
    // What was read from a slave that had more than its restarted master counted, before the slave had found out.
    (40_002_732, "classic-sync-async"),
    // A late answer told a broker that it leads an epoch that was over: it was held to what the next master acknowledged.
    (72_002_792, "controller-sync"),
    // A connection that had broken in silence answered for its slave, which had lost that with its power and come again.
    (71_003_602, "classic-all-async"),
    // A master whose disk had failed put the slave out of the set that had what it lost.
    (82_004_247, "controller-async"),
    // A master did not know yet that its disk failed when it put out the slave that had what it lost.
    (1_795_879_595_453, "controller-async"),
    // The heal forgot that a master stood still, which went down later with what it had not flushed before.
    (81_008_656, "classic-all-async"),
];

#[test]
fn seeds_that_failed_hold() {
    for (seed, name) in FAILED_ONCE {
        let scenario = Scenario::named(name).expect("a scenario");
        assert_eq!(run(*seed, scenario, None, false).failure, None, "{name}, seed {seed}");
    }
}

#[test]
fn a_seed_run_twice_does_the_same() {
    for name in ["classic-sync-sync", "controller-async"] {
        let scenario = Scenario::named(name).expect("a scenario");
        let (first, second) = (run(8, scenario, None, false), run(8, scenario, None, false));
        assert_eq!((first.hash, first.events), (second.hash, second.events), "{name}");
        assert_ne!(first.hash, run(9, scenario, None, false).hash, "{name}");
    }
}

#[test]
fn planted_bugs_are_found() {
    for (bug, scenario) in
        [(Bug::AckBeforeReplica, "classic-sync-async"), (Bug::UncleanElection, "controller-async")]
    {
        let scenario = Scenario::named(scenario).expect("a scenario");
        let found = (0..5).filter_map(|seed| run(seed, scenario, Some(bug), false).failure).next();
        assert!(found.is_some_and(|what| what.contains("P1") || what.contains("P3")), "{bug:?}");
    }
}

#[test]
fn every_planted_bug_has_a_name_and_a_scenario_of_its_own() {
    for Planted { name, bug, scenario, .. } in BUGS {
        assert!(Scenario::named(scenario).is_some(), "{name}");
        assert_eq!(BUGS.iter().filter(|other| other.name == name || other.bug == bug).count(), 1, "{name}");
    }
}
