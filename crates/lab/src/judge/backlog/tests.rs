use super::*;
use crate::archive::{Factors, Phase};
use crate::judge::guards::Limits;
use crate::judge::testing;
use crate::sentences::Sentence;

/// A run of 20 s before, 20 s filling and 20 s draining. While draining the send rate changes by the factor `times`.
fn record(times: f64) -> Record {
    record_of(Some(16_000.0), times)
}

fn record_of(rate: Option<f64>, times: f64) -> Record {
    let factors = Factors { groups: 1, rate, size: 4096, ..testing::factors(60) };
    let mut record = testing::record(&[(factors, 16_000.0)]);
    let phases = record.cells[0].cell.phases.clone();
    record.cells[0].cell.phases = phases
        .iter()
        .flat_map(|whole| {
            let thirds = (0_u64..).zip(["before", "during", "drain"]);
            thirds.map(|(third, name)| {
                let from_ms = whole.from_ms + third * 20_000;
                Phase { name: name.to_owned(), from_ms, to_ms: from_ms + 20_000, ..whole.clone() }
            })
        })
        .collect();
    testing::each_second(&mut record, |index, second| {
        match index {
            0..20 => (),
            20..40 => (second.consumed, second.consumed_bytes) = (0, 0),
            _ => {
                second.sent = (second.sent as f64 * times) as u64;
                (second.consumed, second.consumed_bytes) = (68_000, 68_000 * 4_096);
            }
        };
    });
    testing::each_host_second(&mut record, "b1", |index, second| {
        second.disk_read = if index >= 40 { 139_264_000 } else { 0 }
    });
    record
}

fn judge(times: f64) -> Backlog {
    let record = record(times);
    backlog(&record, &record.cells[0]).expect("it has the phases")
}

#[test]
fn a_backlog_that_is_drained_alone_is_one_in_a_closed_loop_too() {
    let mut record = record_of(None, 1.0);
    testing::each_second(&mut record, |index, second| {
        if index >= 40 {
            // Answers to the requests in flight when producers stopped.
            (second.sent, second.in_flight) = (if index == 40 { 60 } else { 0 }, 0);
        }
    });
    let run = crate::judge::conclusion::Conclusion::new(&record, &Limits::default());
    let found = run.cells[0].backlog.as_ref().expect("nothing speaks against it");
    assert!(found.sentence().en.starts_with("nothing was produced meanwhile"), "{}", found.sentence().en);
}

/// 262,144 messages that are consumed at 150,000 per second without producers, then `idle` seconds until the lab sees
/// that the queue is empty.
fn drained_alone(met: Option<bool>, idle: u64) -> Record {
    let mut record = record_of(None, 1.0);
    let phases = &mut record.cells[0].cell.phases;
    for phase in phases.iter_mut().filter(|phase| phase.name == "drain") {
        (phase.to_ms, phase.met) = (phase.from_ms + (2 + idle) * 1_000, met);
    }
    let consumed = |index| match index {
        40 => 150_000,
        41 => 112_144,
        _ => 0,
    };
    testing::each_second(&mut record, |index, second| {
        if index >= 40 {
            (second.sent, second.in_flight) = (if index == 40 { 60 } else { 0 }, 0);
            (second.consumed, second.consumed_bytes) = (consumed(index), consumed(index) * 4_096);
        }
    });
    testing::each_host_second(&mut record, "b1", |index, second| {
        second.disk_read = if index >= 40 { consumed(index) * 4_096 } else { 0 };
        second.load1 = if index >= 42 { 0.0 } else { 2.0 };
    });
    record
}

#[test]
fn the_second_that_shows_that_nothing_is_left_is_no_part_of_the_drain() {
    for idle in [1, 3] {
        let record = drained_alone(Some(true), idle);
        let found = backlog(&record, &record.cells[0]).expect("it has the phases");
        let seconds = 1.0 + 112_144.0 / 150_000.0;
        assert!((found.drain.seconds - seconds).abs() < 1e-6, "{found:?}");
        assert!((found.drain.tps - 150_000.0).abs() < 1e-6, "{found:?}");
        assert!(
            found.sentence().en.contains("drained at 150,000 msg/s in 1.75 s"),
            "{}",
            found.sentence().en
        );
        assert!(found.drain.cold_ratio.is_some_and(|ratio| (ratio - 1.0).abs() < 1e-9), "{found:?}");
        assert!(found.drain.cold_bytes.is_some_and(|bytes| (bytes - 614_400_000.0).abs() < 1.0), "{found:?}");
        let drain = &found.stages[2];
        assert_eq!((drain.producers, &drain.stability), (None, &None), "nothing was produced");
        assert_eq!(drain.host.as_ref().map(|host| host.load1), Some(2.0), "while it drained");
    }
}

#[test]
fn seconds_without_a_message_count_where_it_was_not_drained() {
    let check = |record: Record| {
        let found = backlog(&record, &record.cells[0]).expect("it has the phases");
        assert_eq!(found.drain.seconds, 3.0, "{found:?}");
        assert!((found.drain.tps - 262_144.0 / 3.0).abs() < 1e-6, "{found:?}");
    };
    check(drained_alone(Some(false), 1));
    // Recorded by a version of the lab that did not record whether the phase met its condition.
    check(drained_alone(None, 1));
    let mut ended_early = drained_alone(None, 1);
    ended_early.cells[0].cell.interrupted = true;
    check(ended_early);
}

#[test]
fn seconds_count_whole_while_producers_go_on() {
    let mut record = record(1.0);
    testing::each_second(&mut record, |index, second| {
        second.consumed = match index {
            58 => 20_000,
            59 => 0,
            _ => second.consumed,
        }
    });
    let found = backlog(&record, &record.cells[0]).expect("it has the phases");
    assert_eq!((found.drain.seconds, found.drain.tps), (20.0, (18.0 * 68_000.0 + 20_000.0) / 20.0));
}

#[test]
fn the_time_to_drain_is_right_at_its_bounds() {
    let check = |consumed: &[u64], expected: f64| {
        let second = |consumed: &u64| LoadSecond { consumed: *consumed, ..LoadSecond::default() };
        let load: Vec<_> = consumed.iter().map(second).collect();
        let window = Window { load: &load, ..Window::default() };
        let found = seconds_to_empty(until_empty(&window).load, load.len());
        assert!((found - expected).abs() < 1e-9, "{consumed:?}: {found}");
    };
    check(&[], 0.0);
    check(&[0, 0], 2.0);
    check(&[9, 0], 1.0);
    check(&[9, 9], 2.0);
    check(&[8, 2], 2.0);
    check(&[8, 2, 0], 1.25);
    check(&[8, 16, 0, 0], 2.0);
    check(&[8, 0, 4, 0], 3.0);
}

#[test]
fn a_backlog_that_costs_nothing() {
    // Seed 003 #34: producers reach 39,000 messages per second whether the backlog drains or not.
    let found = judge(1.0);
    assert!(found.sentence().en.contains("costs producers nothing"), "{}", found.sentence().en);
    assert_eq!((found.drain.tps, found.drain.seconds), (68_000.0, 20.0));
    assert!(found.drain.cold_ratio.is_some_and(|ratio| (ratio - 0.5).abs() < 1e-9));
    assert_eq!(
        found.stages.iter().map(|stage| stage.name.as_str()).collect::<Vec<_>>(),
        ["before", "during", "drain"]
    );
}

#[test]
fn a_backlog_that_costs_a_third() {
    let found = judge(0.66);
    assert!(
        found.sentence().en.contains("what producers reach against before: during "),
        "{}",
        found.sentence().en
    );
    assert!(found.sentence().en.contains(" drain -3"), "{}", found.sentence().en);
    assert!(found.sentence().zh.contains("排空中 -3"), "{}", found.sentence().zh);
    let costs: Vec<_> =
        found.stages.iter().map(|stage| stage.producers.map(|ratio| ratio.high < 0.7)).collect();
    assert_eq!(costs, [None, Some(false), Some(true)]);
}

#[test]
fn every_phase_has_its_own_percentiles_and_stability() {
    let mut record = record(1.0);
    testing::each_second(&mut record, |index, second| {
        // Flow control refuses requests in the first seconds of filling.
        if (20..26).contains(&index) {
            (second.sent, second.refused) = (second.sent / 4, 9);
        }
    });
    for repeat in &mut record.cells[0].repeats {
        for (_, latencies) in repeat.latency.iter_mut().take(26).skip(20) {
            latencies.record_n(900_000, 1_000);
        }
    }
    let found = backlog(&record, &record.cells[0]).expect("it has the phases");
    let [before, during, drain] = &found.stages[..] else { panic!("{:?}", found.stages) };
    assert!(during.send_p99_ms > 500.0 && during.send_p999_ms > 500.0, "{during:?}");
    assert!(before.send_p99_ms < 5.0 && drain.send_p999_ms < 5.0, "{before:?} {drain:?}");
    let fluctuates = |stage: &Stage| stage.stability.as_ref().is_some_and(|stability| stability.fluctuates);
    assert_eq!([before, during, drain].map(fluctuates), [false, true, false]);
    assert!(found.sentence().en.contains("; during: the rate fluctuates by "), "{}", found.sentence().en);
    assert!(found.sentence().en.contains("because of flow-control"), "{}", found.sentence().en);
    assert!(found.sentence().zh.contains("；堆积中：TPS 波动"), "{}", found.sentence().zh);
}

#[test]
fn a_backlog_that_is_left_over_is_not_drained() {
    let says = |met| {
        let mut record = record(1.0);
        let phases = &mut record.cells[0].cell.phases;
        phases.iter_mut().filter(|phase| phase.name == "drain").for_each(|phase| phase.met = met);
        backlog(&record, &record.cells[0]).expect("it has the phases").sentence().en
    };
    assert!(says(Some(false)).contains("not drained: read at 68,000 msg/s, 20.0 s were not enough"));
    assert!(says(Some(true)).contains("drained at 68,000 msg/s in 20.0 s"));
}

#[test]
fn every_broker_reads_what_is_cold() {
    let mut record = record(1.0);
    let twin = crate::archive::HostFile { name: "b2".to_owned(), ..record.file.hosts[1].clone() };
    record.file.hosts.push(twin);
    let broker = &record.file.target.brokers[0];
    let other = crate::archive::BrokerFile { host: Some("b2".to_owned()), ..broker.clone() };
    record.file.target.brokers.push(other);
    for repeat in record.cells.iter_mut().flat_map(|cell| &mut cell.repeats) {
        let seconds = repeat.hosts["b1"].clone();
        repeat.hosts.insert("b2".to_owned(), seconds);
    }
    let found = backlog(&record, &record.cells[0]).expect("it has the phases");
    assert!(found.drain.cold_ratio.is_some_and(|ratio| (ratio - 1.0).abs() < 1e-9), "{found:?}");
}

#[test]
fn one_run_of_a_backlog_is_told_as_one() {
    let mut record = record(1.0);
    record.cells[0].repeats.truncate(1);
    record.cells[0].cell.factors.more.insert("fill".to_owned(), "1".to_owned());
    let run = crate::judge::conclusion::Conclusion::new(&record, &Limits::default());
    let case = &run.cells[0];
    let found = case.backlog.as_ref().expect("its phases are told");
    assert!(found.sentence().en.ends_with("one repeat"), "{}", found.sentence().en);
    assert!(case.judged.figures().is_none() && !case.is_safe(), "one run is no figure");
}

#[test]
fn a_phase_in_which_the_generator_was_the_limit_makes_no_backlog() {
    let mut record = record(1.0);
    testing::each_second(&mut record, |index, second| {
        second.lab_cores = if index >= 40 { 7.9 } else { 1.0 };
    });
    let run = crate::judge::conclusion::Conclusion::new(&record, &Limits::default());
    let reasons = run.cells[0].judged.outcome.as_ref().expect_err("the generator was the limit");
    assert!(reasons[0].sentence().en.starts_with("drain: the load generator used"), "{reasons:?}");
    assert_eq!(run.cells[0].backlog, None, "an invalid cell has no numbers");
}

#[test]
fn other_cells_are_no_backlog() {
    let record = testing::record(&[(testing::factors(60), 1_000.0)]);
    assert_eq!(backlog(&record, &record.cells[0]), None);
}

#[test]
fn what_was_ended_early_is_not_called_not_drained() {
    let mut record = record(1.0);
    record.cells[0].cell.interrupted = true;
    record.cells[0].cell.phases.iter_mut().for_each(|phase| phase.met = None);
    let found = backlog(&record, &record.cells[0]).expect("it has the phases");
    assert!(found.sentence().en.contains("ended early while draining: read at "), "{}", found.sentence().en);
    assert!(!found.sentence().en.contains("not drained"), "{}", found.sentence().en);
}
