use super::*;
use crate::archive::{BrokerSecond, Event, Record};
use crate::judge::testing;
use crate::sentences::Sentence;

/// Whether this second belongs to the dip: seconds 20 to 34 of every repeat.
fn dips(index: usize) -> bool {
    (20..35).contains(&index)
}

fn dipping() -> Record {
    let mut record = testing::record(&[(testing::factors(60), 30_000.0)]);
    testing::each_second(&mut record, |index, second| second.sent /= if dips(index) { 4 } else { 1 });
    record
}

fn judge(record: &Record) -> Stability {
    stability(&record.file, &record.windows(&record.cells[0], "steady"))
}

fn check(change: impl Fn(&mut Record), kind: &str) {
    let mut record = dipping();
    change(&mut record);
    let found = judge(&record);
    assert!(found.fluctuates);
    assert_eq!(found.causes.first().map(|cause| cause.kind.as_str()), Some(kind), "{found:?}");
    assert!(found.sentence().en.contains(kind));
}

#[test]
fn a_clean_run_is_steady() {
    let found = judge(&testing::record(&[(testing::factors(60), 30_000.0)]));
    assert!(!found.fluctuates && found.causes.is_empty(), "{found:?}");
}

#[test]
fn a_dip_without_a_cause_has_none() {
    let found = judge(&dipping());
    assert!(found.fluctuates && found.causes.is_empty());
    assert!(found.lowest < 0.3, "{}", found.lowest);
}

#[test]
fn refusals_are_flow_control() {
    // Seed 003 #11: the rate fluctuates because flow control fired.
    check(
        |record| testing::each_second(record, |index, second| second.refused = u64::from(dips(index)) * 88),
        "flow-control",
    );
}

#[test]
fn what_a_machine_shows() {
    check(
        |r| testing::each_host_second(r, "b1", |i, s| s.gc_pause_ms = if dips(i) { 400.0 } else { 5.0 }),
        "gc",
    );
    check(|r| testing::each_host_second(r, "b1", |i, s| s.gc_full = u64::from(dips(i))), "full-gc");
    check(
        |r| testing::each_host_second(r, "b1", |i, s| s.cpu_steal = if dips(i) { 0.3 } else { 0.0 }),
        "steal",
    );
    let other = |record: &mut Record| {
        testing::each_host_second(record, "b1", |index, second| {
            (second.others_cores, second.process_waiting) = if dips(index) { (6.0, 2.0) } else { (0.2, 0.0) };
        });
    };
    check(other, "other-programs");
    check(
        |r| testing::each_host_second(r, "b1", |i, s| s.disk_util = if dips(i) { 1.0 } else { 0.3 }),
        "disk",
    );
}

#[test]
fn events_that_last() {
    let stall = |record: &mut Record| {
        for repeat in &mut record.cells[0].repeats {
            let at_ms = repeat.load[20].at_ms - 1_000;
            let kind = "no-answer".to_owned();
            repeat.events.push(Event { at_ms, kind, lasted_ms: 14_500, ..Event::default() });
        }
    };
    check(stall, "no-answer");
}

#[test]
fn a_mark_of_the_lab_is_no_cause() {
    for kind in ["during", "drain", "rest", "producers-start", "consumers-stop", "broker-back"] {
        let mut record = dipping();
        for repeat in &mut record.cells[0].repeats {
            let at_ms = repeat.load[20].at_ms - 1_000;
            repeat.events.push(Event { at_ms, kind: kind.to_owned(), lasted_ms: 14_500, ..Event::default() });
        }
        assert_eq!(judge(&record).causes, [], "{kind}");
    }
}

type Change = fn(usize, &mut BrokerSecond);

fn each_broker_second(record: &mut Record, change: Change) {
    let repeats = record.cells.iter_mut().flat_map(|cell| &mut cell.repeats);
    for seconds in repeats.flat_map(|repeat| repeat.brokers.values_mut()) {
        seconds.iter_mut().enumerate().for_each(|(index, second)| change(index, second));
    }
}

/// A running total of refused requests that grows by seven in every second of the dip.
fn refused(index: usize) -> u64 {
    index.clamp(19, 34) as u64 * 7
}

#[test]
fn what_a_broker_says_of_itself() {
    let signs: [(Change, &str); 7] = [
        (|i, s| s.flush_behind = if dips(i) { 1 << 30 } else { 1 << 20 }, "flush-stall"),
        (|i, s| s.replica_behind = if dips(i) { 1 << 30 } else { 1 << 20 }, "replica-lag"),
        (|i, s| s.put_max_ms = if dips(i) { 800.0 } else { 9.0 }, "slow-append"),
        (|i, s| s.rolls = u64::from(dips(i)), "roll"),
        (|i, s| s.removed = u64::from(dips(i)) << 30, "clean"),
        (|i, s| s.refused_total = refused(i), "refused-by-broker"),
        (
            |i, s| {
                s.refused_total = refused(i) + 5;
                s.refused_causes = format!("refusedBehind={} refusedColdReads=5", refused(i));
            },
            "refusedBehind",
        ),
    ];
    for (change, kind) in signs {
        check(|record| each_broker_second(record, change), kind);
    }
}

#[test]
fn flow_control_is_told_with_the_cause_that_the_broker_gives() {
    let mut record = dipping();
    testing::each_second(&mut record, |index, second| second.refused = u64::from(dips(index)) * 88);
    each_broker_second(&mut record, |index, second| {
        second.refused_total = refused(index);
        second.refused_causes = format!("refusedDiskFull={}", refused(index));
    });
    let found = judge(&record);
    assert!(found.sentence().en.ends_with("the broker's cause: refusedDiskFull"), "{}", found.sentence().en);
    assert!(found.sentence().zh.ends_with("磁盘已满"), "{}", found.sentence().zh);
    assert_eq!(found.causes[1].times, 3 * 15 * 7);
}

#[test]
fn a_second_of_refusals_is_counted_once_and_where_it_was() {
    let mut record = dipping();
    testing::each_second(&mut record, |index, second| second.refused = u64::from(dips(index)) * 88);
    for repeat in &mut record.cells[0].repeats {
        let refusing: Vec<u64> =
            repeat.load.iter().filter(|second| second.refused > 0).map(|second| second.at_ms).collect();
        repeat.events = refusing
            .into_iter()
            .map(|end| Event {
                at_ms: end - 1_000,
                kind: "flow-control".to_owned(),
                lasted_ms: 1_000,
                ..Event::default()
            })
            .collect();
    }
    let found = judge(&record);
    let cause = &found.causes[0];
    assert_eq!((cause.kind.as_str(), cause.times, cause.in_others), ("flow-control", 3 * 15 * 88, 0.0));
    assert!(found.sentence().zh.contains("原因 流控"), "{}", found.sentence().zh);
}

#[test]
fn what_is_there_all_the_time_is_no_cause() {
    let mut record = dipping();
    testing::each_host_second(&mut record, "b1", |_, second| second.disk_util = 1.0);
    assert_eq!(judge(&record).causes, []);
}
