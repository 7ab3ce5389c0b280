use crate::archive::{Factors, LoadSecond, Phase, Record, Repeat};
use crate::judge::{testing, validity};
use crate::sentences::Sentence;

fn reasons(record: &Record) -> String {
    let windows = record.windows(&record.cells[0], "steady");
    let reasons = validity::too_few(&windows).into_iter().chain(validity::faults(&windows, &record.file));
    reasons.map(|reason| reason.sentence().en).collect::<Vec<_>>().join("; ")
}

fn clean() -> Record {
    testing::record(&[(testing::factors(60), 30_000.0)])
}

/// Checks the reason that R0 finds when `change` is applied to every second of load.
fn check(change: impl Fn(usize, &mut LoadSecond), expected: &str) {
    let mut record = clean();
    testing::each_second(&mut record, change);
    let found = reasons(&record);
    assert!(found.contains(expected) && !found.contains("; "), "`{found}` should be `{expected}` alone");
}

#[test]
fn a_clean_cell_is_valid() {
    assert_eq!(reasons(&clean()), "");
}

#[test]
fn rate_and_latency_of_different_moments() {
    // Seed 000-C: rate times latency exceeds the threads by 7 to 25 % in 23 of 44 rows.
    check(|_, second| second.mean_us *= 1.1, "rate × latency is 1.10 times");
    // Seed 003: 94 of 128 requests in flight.
    check(|_, second| second.mean_us *= 0.73, "rate × latency is 0.73");
}

#[test]
fn a_climbing_rate() {
    let climb = |index: usize, second: &mut LoadSecond| {
        let times = 1.0 + 0.1 * index as f64 / 60.0;
        second.sent = (second.sent as f64 * times) as u64;
        second.mean_us /= times;
    };
    check(climb, "not steady: the rate changes by +9");
}

#[test]
fn a_repeat_that_climbs_does_not_make_up_for_one_that_falls() {
    let mut record = clean();
    for (number, repeat) in record.cells[0].repeats.iter_mut().enumerate() {
        let slope = [0.12, -0.12, 0.0][number];
        for (index, second) in repeat.load.iter_mut().enumerate() {
            let times = 1.0 + slope * (index as f64 / 60.0 - 0.5);
            second.sent = (second.sent as f64 * times) as u64;
            second.mean_us /= times;
        }
    }
    assert!(reasons(&record).starts_with("not steady"), "{}", reasons(&record));
}

#[test]
fn a_repeat_without_an_answer_does_not_hide_that_another_climbs() {
    let mut record = clean();
    record.cells[0].repeats[1].load.iter_mut().for_each(|second| second.sent = 0);
    assert_eq!(reasons(&record), "repeats without an acknowledged message: 1");
}

#[test]
fn a_second_that_is_late_counts_with_its_requests() {
    let late = |us: u64, count: u64| {
        let mut latencies = crate::archive::Sparse::default();
        latencies.record_n(us, count);
        latencies
    };
    let mut record = clean();
    for repeat in &mut record.cells[0].repeats {
        repeat.late = repeat.load.iter().map(|second| (second.at_ms, late(10, 1_000))).collect();
        // Two of sixty seconds are late; a percentile over the percentiles of seconds would hide them.
        repeat.late[30].1 = late(40_000, 1_000);
        repeat.late[31].1 = late(40_000, 1_000);
    }
    assert!(reasons(&record).contains("late (p99), limit 1.00 ms"), "{}", reasons(&record));
}

#[test]
fn a_probe_is_no_figure() {
    let mut record = clean();
    record.cells[0].cell.factors.more.insert("purpose".to_owned(), "search".to_owned());
    assert!(reasons(&record).starts_with("a probe"));
}

#[test]
fn a_busy_generator() {
    check(|_, second| second.lab_cores = 5.7, "the load generator used 71");
}

#[test]
fn a_quota_of_the_generator_is_all_it_has() {
    let mut record = clean();
    record.file.lab_cores_allowed = Some(0.2);
    testing::each_second(&mut record, |_, second| second.lab_cores = 0.19);
    assert_eq!(
        reasons(&record),
        "the load generator used 95.0 % of its processors, limit 70.0 %: it was itself the limit"
    );
}

#[test]
fn one_thread_on_eight_cores_is_the_whole_generator() {
    let mut record = clean();
    record.file.lab_threads = 1;
    assert!(reasons(&record).contains("the load generator used 100 %"));
}

#[test]
fn a_soak_is_run_once() {
    let mut record = clean();
    let (name, to_ms) = ("steady".to_owned(), u64::MAX);
    let phase = Phase { repeat: 1, name, from_ms: 0, to_ms, met: None };
    let short = record.cells[0].repeats[0].load.clone();
    let second = |index: u64| LoadSecond {
        at_ms: testing::START_MS + index * 1_000,
        ..short[index as usize % short.len()].clone()
    };
    let cell = &mut record.cells[0];
    cell.cell.phases = vec![phase];
    cell.repeats = vec![Repeat { load: (1..=900).map(second).collect(), ..Repeat::default() }];
    // The run observes no machine.
    record.file.hosts.clear();
    assert!(reasons(&record).starts_with("1 repeats"), "one long run does not show how much another differs");
    record.cells[0].cell.factors.more.insert("soak".to_owned(), "900".to_owned());
    assert_eq!(reasons(&record), "");
    record.cells[0].repeats[0].load.truncate(600);
    assert!(reasons(&record).starts_with("2 repeats"));
}

#[test]
fn a_late_generator() {
    check(|_, second| second.lag_p99_us = 1_200, "late (p99), limit 1.00 ms");
}

#[test]
fn too_few_repeats_and_missing_seconds() {
    let mut record = clean();
    record.cells[0].repeats.pop();
    assert!(reasons(&record).starts_with("2 repeats"));
    let mut record = clean();
    record.cells[0].repeats[1].load.drain(10..13);
    assert_eq!(reasons(&record), "3 seconds of the series are missing");
}

#[test]
fn nothing_sent() {
    check(|_, second| second.sent = 0, "no message was acknowledged");
}

#[test]
fn nothing_sent_is_told_with_what_the_broker_said() {
    let mut record = clean();
    testing::each_second(&mut record, |_, second| (second.sent, second.refused) = (0, 60));
    for repeat in &mut record.cells[0].repeats {
        let event = |second: &LoadSecond| crate::archive::Event {
            at_ms: second.at_ms - 1_000,
            kind: "flow-control".to_owned(),
            detail: "60 requests were refused, the first with code 13: the message is illegal".to_owned(),
            ..crate::archive::Event::default()
        };
        repeat.events = repeat.load.iter().map(event).collect();
    }
    let found = reasons(&record);
    assert!(found.ends_with("the first with code 13: the message is illegal"), "{found}");
}

#[test]
fn an_open_loop_may_have_any_number_in_flight() {
    let factors = Factors { rate: Some(10_000.0), ..testing::factors(1_000) };
    assert_eq!(reasons(&testing::record(&[(factors, 10_000.0)])), "");
}

#[test]
fn clocks_must_agree_better_than_what_they_measure() {
    assert!(validity::clock_is_good_enough(100, 1_300_000.0));
    assert!(!validity::clock_is_good_enough(500, 3_000.0));
}

#[test]
fn a_machine_that_was_not_seen_all_the_time() {
    let mut record = clean();
    let seconds = record.cells[0].repeats[1].hosts.get_mut("b1").unwrap();
    seconds.truncate(58);
    assert_eq!(reasons(&record), "", "its seconds begin at other moments");
    record.cells[0].repeats[1].hosts.get_mut("b1").unwrap().truncate(40);
    assert_eq!(reasons(&record), "20 seconds of the machine b1 were not observed");
    record.cells[0].repeats[1].hosts.remove("b1");
    assert_eq!(reasons(&record), "60 seconds of the machine b1 were not observed");
}

#[test]
fn a_broker_that_was_lost_in_a_repeat_is_named() {
    use crate::archive::{BROKER_AWAY, BROKER_BACK, BROKER_RESTARTED, Event};
    let check = |at_ms: u64, kinds: &[&str], expected: &str| {
        let mut record = clean();
        let repeat = &mut record.cells[0].repeats[1];
        let from_ms = repeat.load[0].at_ms;
        repeat.events = kinds
            .iter()
            .map(|kind| Event {
                at_ms: (from_ms + at_ms).saturating_sub(10_000),
                node: "broker-a".to_owned(),
                kind: (*kind).to_owned(),
                ..Event::default()
            })
            .collect();
        assert_eq!(reasons(&record), expected, "{kinds:?} at {at_ms}");
    };
    let restarted = "the broker broker-a was started again during repeat 2";
    check(30_000, &[BROKER_AWAY, BROKER_RESTARTED], restarted);
    check(30_000, &[BROKER_RESTARTED], restarted);
    check(30_000, &[BROKER_AWAY, BROKER_BACK], "the broker broker-a did not answer during repeat 2");
    // The restarted broker lost its warm caches.
    check(5_000, &[BROKER_RESTARTED], restarted);
    check(900_000, &[BROKER_AWAY], "");
    check(30_000, &["roll"], "");
}

#[test]
fn machines_that_other_programs_use_tell_nothing() {
    let check = |host: &str, others_cores: f64, expected: &str| {
        let mut record = clean();
        let seconds = record.cells[0].repeats[1].hosts.get_mut(host).expect("a machine of the run");
        seconds.iter_mut().for_each(|second| second.others_cores = others_cores);
        assert_eq!(reasons(&record), expected, "{others_cores} cores of {host}");
    };
    // The machine has eight cores.
    check("b1", 7.44, "other programs used 93.0 % of the processors of b1 in repeat 2, limit 10.0 %");
    check("lab", 1.0, "other programs used 12.5 % of the processors of lab in repeat 2, limit 10.0 %");
    check("b1", 0.7, "");
    let mut record = clean();
    record.file.others_max = Some(1.0);
    testing::each_host_second(&mut record, "b1", |_, second| second.others_cores = 7.44);
    assert_eq!(reasons(&record), "", "a run that was told to bear them");
}
