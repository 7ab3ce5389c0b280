use super::arithmetic::Basis;
use super::target::{Hours, Rate, Size, Target};
use super::*;
use crate::archive::{Factors, HostSecond, LoadSecond, Repeat, TargetKind};
use crate::judge::Language;
use crate::judge::conclusion::Conclusion;
use crate::judge::planned::{DELIVERED_BESIDE, STORED_BESIDE};
use crate::judge::testing;

fn target(peak: f64, nic: f64) -> Target {
    let (peak, size, retain) = (Rate(peak), Size(500.0), Hours(72.0));
    Target { peak, size, groups: 1, retain, survive: 2, growth: 0.0, mean: None, nic }
}

#[test]
fn a_cluster_for_a_peak_rate_is_planned() {
    // One master with two slaves on 1 Gb/s has a safe rate of 70,000 messages per second; 100,000 are needed.
    let plan = plan(&target(100_000.0, 10_000.0), &Basis::named(70_000.0, 500.0));
    // ⌈100,000 / 49,000⌉ = 3 masters, and two more to survive two failures.
    assert_eq!((plan.masters, plan.slaves, plan.name_servers, plan.controllers), (5, 2, 3, 5));
    // 100,000 messages per second × 753 bytes × 259,200 s / 3 / 0.75.
    assert!((plan.disk_bytes / 8.67e12 - 1.0).abs() < 0.01, "{}", plan.disk_bytes);
}

#[test]
fn the_network_may_need_more_masters_than_the_rate() {
    // 100,000 × 810 bytes × 3 copies = 243 MB/s; 1 Gb/s carries 100 MB/s at 80 %.
    let fast = Basis::named(500_000.0, 500.0);
    let limited = plan(&target(100_000.0, 1_000.0), &fast);
    assert_eq!(limited.masters, 3 + 2);
    assert!(limited.send_bytes <= 100e6);
    assert_eq!(plan(&target(100_000.0, 10_000.0), &fast).masters, 1 + 2);
}

#[test]
fn a_plan_writes_files_only_where_it_is_told_to() {
    let place = tempfile::tempdir().unwrap();
    let options = |out| PlanOptions {
        target: target(100_000.0, 10_000.0),
        run: None,
        safe_tps: Some(Rate(70_000.0)),
        out,
        lang: Language::En,
    };
    run(&options(None)).unwrap();
    assert!(!std::path::Path::new("plan").exists(), "in the working directory");
    run(&options(Some(place.path().join("plan")))).unwrap();
    assert!(place.path().join("plan/plan.html").exists() && place.path().join("plan/namesrv.conf").exists());
}

#[test]
fn the_pages_and_a_plan_compute_with_the_same_bytes() {
    let pages =
        [include_str!("../../../../docs/scaling.md"), include_str!("../../../../docs/scaling.zh-CN.md")];
    for page in pages {
        for (letter, bytes) in [("*w*", DELIVERED_BESIDE), ("*d*", STORED_BESIDE)] {
            let row = page.lines().find(|line| line.starts_with(&format!("| {letter}"))).expect("a row");
            let cell = row.split('|').nth(2).map(str::trim);
            assert_eq!(cell.and_then(|cell| cell.parse().ok()), Some(bytes), "{row}");
        }
    }
    // What a plan says it computes with: 500 bytes of body and these.
    let plan = plan(&target(100_000.0, 10_000.0), &Basis::named(70_000.0, 500.0));
    let said: Vec<String> = plan.steps.iter().map(|step| step.sentence().en).collect();
    for bytes in [DELIVERED_BESIDE, STORED_BESIDE] {
        let each = crate::judge::numbers::count(500.0 + bytes);
        assert!(said.iter().any(|step| step.contains(&each)), "{each}: {said:?}");
    }
}

#[test]
fn a_run_is_the_basis() {
    let record = testing::record(&[(testing::factors(10), 9_000.0), (testing::factors(60), 30_000.0)]);
    let run = Conclusion::new(&record, &Limits::default());
    let basis = Basis::measured(&run, 1_024.0).expect("both cells are safe");
    assert!((29_000.0..30_000.0).contains(&basis.safe_tps), "{basis:?}");
    // Twice the bytes halve the messages; fewer bytes give no more messages.
    let larger = Basis::measured(&run, 2_048.0).expect("both cells are safe");
    assert!((larger.safe_tps * 2.0 - basis.safe_tps).abs() < 1e-6);
    assert_eq!(Basis::measured(&run, 100.0).expect("both cells are safe").safe_tps, basis.safe_tps);
}

#[test]
fn a_rate_without_the_readers_that_are_wanted_is_called_too_high() {
    let said = |groups: u32, survive: u32| {
        let factors = Factors { groups: 1, ..testing::factors(60) };
        let record = testing::record(&[(factors, 30_000.0)]);
        let run = Conclusion::new(&record, &Limits::default());
        let basis = Basis::measured(&run, 1_024.0).expect("it is safe");
        let target = Target { groups, survive, ..target(10_000.0, 10_000.0) };
        plan(&target, &basis).steps[1].sentence().en
    };
    assert!(said(3, 0).starts_with("careful: that rate was measured with 1 groups and 0 slaves"));
    assert!(said(1, 1).starts_with("careful: that rate was measured with 1 groups"));
    assert!(said(1, 0).starts_with("careful: that rate was held"), "{}", said(1, 0));
    let named = plan(&target(10_000.0, 10_000.0), &Basis::named(70_000.0, 500.0));
    assert!(named.steps[1].sentence().en.starts_with("by rate"), "nobody knows");
}

/// A run of cells with one consumer group, each given by threads, bytes, messages per second and minutes.
fn held(cells: &[(u32, u64, f64, u32)]) -> Record {
    let factors = |threads, size| Factors { groups: 1, size, ..testing::factors(threads) };
    let made = cells.iter().map(|(threads, size, tps, _)| (factors(*threads, *size), *tps));
    let mut record = testing::record(&made.collect::<Vec<_>>());
    // For RocketMQ, the figures of garbage collection would be missing.
    record.file.target.kind = TargetKind::Vostok;
    for (cell, (.., minutes)) in record.cells.iter_mut().zip(cells) {
        for phase in &mut cell.cell.phases {
            phase.to_ms = phase.from_ms + u64::from(*minutes) * 60_000;
        }
        cell.repeats.iter_mut().for_each(|repeat| prolong(repeat, *minutes));
    }
    record
}

/// Repeats the minute of a repeat `minutes` times.
fn prolong(repeat: &mut Repeat, minutes: u32) {
    let later = |at_ms: u64, minute: u32| at_ms + u64::from(minute) * 60_000;
    let load = repeat.load.clone();
    let host = repeat.hosts["b1"].clone();
    let lab = repeat.hosts["lab"].clone();
    for minute in 1..minutes {
        let seconds = |rows: &[HostSecond]| -> Vec<HostSecond> {
            rows.iter().map(|row| HostSecond { at_ms: later(row.at_ms, minute), ..row.clone() }).collect()
        };
        let again = load.iter().map(|row| LoadSecond { at_ms: later(row.at_ms, minute), ..row.clone() });
        repeat.load.extend(again);
        repeat.hosts.get_mut("b1").expect("the broker's").extend(seconds(&host));
        repeat.hosts.get_mut("lab").expect("the lab's").extend(seconds(&lab));
    }
}

fn basis(record: &Record, size: f64) -> Basis {
    let run = Conclusion::new(record, &Limits::default());
    Basis::measured(&run, size).expect("a cell is safe")
}

#[test]
fn a_rate_that_was_held_is_planned_with_before_a_higher_one() {
    let record = held(&[(60, 1_024, 30_000.0, 1), (20, 1_024, 12_000.0, 5), (20, 10_240, 8_000.0, 5)]);
    let found = basis(&record, 1_024.0);
    assert!((11_500.0..12_100.0).contains(&found.safe_tps), "{found:?}");
    assert_eq!(found.careful, [], "all of it was looked at for long enough");
    // Among the cells that were held long enough, the one of the nearest size.
    let larger = basis(&record, 10_240.0);
    assert!(larger.source.sentence().en.contains("at 10,240 bytes (run"), "{larger:?}");
}

#[test]
fn what_speaks_against_a_basis_is_a_step_of_the_plan() {
    let steps = |record: &Record| {
        let plan = plan(&target(10_000.0, 10_000.0), &basis(record, 1_024.0));
        let careful = plan.steps.iter().map(Sentence::sentence).filter(|step| step.en.starts_with("careful"));
        let careful = careful.inspect(|step| assert!(step.zh.starts_with("注意"), "{step:?}"));
        careful.map(|step| step.en).skip(1).collect::<Vec<_>>()
    };
    let mut record = held(&[(60, 1_024, 30_000.0, 1)]);
    let short = "careful: that rate was held for 60 s only; confirm 300 s with safe-tps";
    assert_eq!(steps(&record), [short]);
    record.file.hosts[1].disk.clear();
    let unseen =
        "careful: not looked at while it was measured: disk: no block device is under the store (ext4) [b1]";
    assert_eq!(steps(&record), [short, unseen]);
    record.file.hosts.truncate(1);
    record.file.target.brokers[0].host = None;
    let found = steps(&record);
    assert_eq!((found.len(), found[0].as_str()), (2, short));
    assert!(found[1].starts_with("careful: CPU, memory, disk and network of the brokers"), "{found:?}");
}

#[test]
fn a_search_is_planned_by_what_it_confirmed() {
    let cell = |threads, rate, purpose: &str, tps| {
        let mut factors = Factors { rate, ..testing::factors(threads) };
        factors.more.insert("purpose".to_owned(), purpose.to_owned());
        (factors, tps)
    };
    let record = testing::record(&[
        cell(60, None, "ceiling", 30_000.0),
        cell(1_000, Some(25_000.0), "search", 25_000.0),
        cell(1_000, Some(20_000.0), "confirm", 20_000.0),
    ]);
    let run = Conclusion::new(&record, &Limits::default());
    let basis = Basis::measured(&run, 1_024.0).expect("the confirmed rate");
    assert!((19_000.0..20_100.0).contains(&basis.safe_tps), "{basis:?}");
}

#[test]
fn an_unsafe_run_is_no_basis() {
    let mut record = testing::record(&[(testing::factors(60), 30_000.0)]);
    testing::each_host_second(&mut record, "b1", |_, second| second.cpu_user = 0.9);
    assert_eq!(Basis::measured(&Conclusion::new(&record, &Limits::default()), 1_024.0), None);
}

#[test]
fn files_for_every_node() {
    let target = target(100_000.0, 10_000.0);
    let plan = plan(&target, &Basis::named(70_000.0, 500.0));
    let files = files::files(&target, &plan);
    assert_eq!(files.len(), 1 + 5 * 3 + 1);
    let (_, master) = files.iter().find(|file| file.0 == "broker-a-0.conf").expect("the first master");
    for line in [
        "brokerName=broker-a",
        "brokerId=0",
        "brokerRole=SYNC_MASTER",
        "inSyncReplicas=3",
        "namesrvAddr=ns1:9876;ns2:9876;ns3:9876",
        "fileReservedTime=72",
    ] {
        assert!(master.lines().any(|found| found == line), "{line} is missing in {master}");
    }
}

#[test]
fn what_no_slave_keeps_waits_for_none() {
    let target = Target { survive: 0, ..target(100_000.0, 10_000.0) };
    let plan = plan(&target, &Basis::named(70_000.0, 500.0));
    let files = files::files(&target, &plan);
    let (_, master) = files.iter().find(|file| file.0 == "broker-a-0.conf").expect("the first master");
    assert!(master.contains("brokerRole=ASYNC_MASTER") && !master.contains("inSyncReplicas"), "{master}");
}

#[test]
fn targets_are_read() {
    assert_eq!("50k/s".parse(), Ok(Rate(50_000.0)));
    assert_eq!("1200".parse(), Ok(Rate(1_200.0)));
    assert_eq!("2k".parse(), Ok(Size(2_048.0)));
    assert_eq!("3d".parse(), Ok(Hours(72.0)));
    for text in ["k", "-1", "1x", ""] {
        assert!(text.parse::<Rate>().is_err(), "{text}");
    }
    assert!("72".parse::<Hours>().is_err());
}
