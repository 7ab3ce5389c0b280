//! Pages as a reader sees them first: figures that agree with their words, and nothing that is beside the matter.

use super::{chapter, report_of};
use crate::archive::{Factors, Purpose, Record, Round, Silence};
use crate::judge::conclusion::Conclusion;
use crate::judge::guards::Limits;
use crate::judge::testing;

fn lines(record: &Record) -> Vec<(String, String)> {
    let run = Conclusion::new(record, &Limits::default());
    crate::report::verdict::lines(&run).into_iter().map(|(name, text)| (name.en, text.en)).collect()
}

fn told(record: &Record, name: &str) -> String {
    let found = lines(record).into_iter().find(|(own, _)| own == name);
    found.unwrap_or_else(|| panic!("no line {name}")).1
}

/// The run of a search: two steps of its ladder, two probes and the rate that was confirmed.
fn search() -> Record {
    let open =
        |rate, purpose| (Factors { rate: Some(rate), ..testing::factors(960) }.meant_for(purpose), rate);
    let closed = |threads| testing::factors(threads).meant_for(Purpose::Ceiling);
    let mut record = testing::record(&[
        (closed(480), 11_180.0),
        (closed(960), 11_990.0),
        open(9_000.0, Purpose::Probe),
        open(6_500.0, Purpose::Probe),
        open(6_270.0, Purpose::Confirm),
    ]);
    for cell in &mut record.cells[2..4] {
        cell.repeats.truncate(1);
        cell.cell.repeats = 1;
    }
    let hosts = record.cells[2].repeats.iter_mut().filter_map(|repeat| repeat.hosts.get_mut("b1"));
    hosts.flatten().for_each(|second| second.cpu_user = 0.8);
    record
}

#[test]
fn a_safe_rate_below_a_cell_that_kept_every_guard_says_why() {
    let record = search();
    let why = "cell 002-w960-s1024-q8 carried 12,007 msg/s with every guard kept, for 60 s in a closed loop";
    assert!(told(&record, "Highest safe rate").contains(why), "{}", told(&record, "Highest safe rate"));
    let page = report_of(&record);
    let answer = chapter(&page, "verdict");
    let tile = |place: usize| answer.split("class=\"tile\"").nth(place).expect("three tiles");
    assert!(tile(1).contains(why), "{}", tile(1));
    assert!(tile(2).contains("every guard held, but not called safe"), "{}", tile(2));
}

#[test]
fn probes_are_folded_and_no_fault() {
    let record = search();
    let page = report_of(&record);
    let cases = chapter(&page, "cases");
    let (table, probes) = cases.split_once("<details class=\"probes\">").expect("they are folded");
    assert_eq!(table.matches("<tr>").count(), 4, "a head, two steps and the confirmed rate: {table}");
    assert!(!cases.contains("class=\"bad\""), "{cases}");
    for words in ["2 probes of the search", "9,000", "CPU busy 90.0 %, limit 75.0 %", "every guard held"] {
        assert!(probes.contains(words), "{words}: {probes}");
    }
    let cells = chapter(&page, "cells");
    let (before, after) = cells.split_once("<details class=\"probes\">").expect("they are folded");
    assert!(!before.contains("-r9000") && after.contains("id=\"cell-3\""), "{cells}");
    assert!(!after.contains("class=\"bad\""), "{after}");
    let run = Conclusion::new(&record, &Limits::default());
    let text = crate::report::markdown::markdown(&run, crate::judge::Language::En);
    assert!(text.contains("2 probes of the search") && !text.contains("probe: "), "{text}");
    assert!(crate::report::columns::csv(&run).contains("probe: "), "programs get every cell");
}

#[test]
fn a_ladder_that_climbs_on_a_full_machine_is_not_called_unsaturated() {
    let cells = [(1, 900.0), (10, 9_000.0), (60, 30_000.0)];
    let mut record = testing::record(&cells.map(|(threads, tps)| (testing::factors(threads), tps)));
    assert!(told(&record, "Ceiling").starts_with("not saturated"), "{}", told(&record, "Ceiling"));
    testing::each_host_second(&mut record, "b1", |_, second| second.cpu_user = 0.897);
    let said = told(&record, "Ceiling");
    assert!(!said.contains("not saturated"), "{said}");
    assert!(said.contains("although a resource is full (CPU: 99.7 % of 8.00 cores busy)"), "{said}");
    assert!(told(&record, "Bottleneck").ends_with("(cell 003-w60-s1024-q8)"));
}

#[test]
fn a_bar_is_as_long_as_its_text_says() {
    let cells = [(60, 30_000.0), (120, 30_300.0), (200, 30_400.0)];
    let mut record = testing::record(&cells.map(|(threads, tps)| (testing::factors(threads), tps)));
    testing::each_second(&mut record, |_, second| second.lab_cores = 2.856);
    let page = report_of(&record);
    let row = page.split("<tr>").find(|row| row.contains("the generator uses 35.7 %")).expect("a bar");
    assert!(row.contains("35.7 % of its processors, limit 70.0 %"), "{row}");
    assert!(row.contains("width:51%") && row.contains("51.0 %"), "{row}");
    assert!(chapter(&page, "verdict").contains("of its limit"), "the column says what it is");
}

#[test]
fn times_have_a_date_and_a_zone() {
    let mut record = search();
    record.file.scenario = "safe-tps".to_owned();
    let page = report_of(&record);
    let title = page.split("<title>").nth(1).and_then(|rest| rest.split('<').next());
    assert_eq!(title, Some("2025-10-09 · safe-tps · rocketmq-5.5.0 @ 10.0.0.1:9876"));
    let began = "<time datetime=\"2025-10-09T08:53:20Z\">2025-10-09 08:53:20 UTC</time>";
    assert!(chapter(&page, "origin").contains(began) && page.contains("1.00 h") || page.contains("60.0 min"));
    assert!(!page.contains("1760000000"), "a number of milliseconds tells a reader nothing");
    record.file.ended_ms = None;
    assert!(report_of(&record).contains("not finished"));
    assert!(told(&record, "Confidence").starts_with("the run is not finished; "));
    let run = Conclusion::new(&record, &Limits::default());
    let text = crate::report::markdown::markdown(&run, crate::judge::Language::En);
    assert!(text.starts_with("# 2025\\-10") || text.starts_with("# 2025-10-09 · safe-tps"), "{text}");
    assert_eq!(crate::report::json::json(&run)["started"], "2025-10-09T08:53:20Z");
}

#[test]
fn a_failover_has_no_rows_about_ceilings() {
    let mut record = testing::record(&[(testing::factors(60), 20_000.0)]);
    for factors in [&mut record.cells[0].cell.factors, &mut record.file.cells[0]] {
        factors.more.insert("fault".to_owned(), "leader-kill".to_owned());
    }
    for repeat in record.cells[0].repeats.iter_mut().take(2) {
        let fault_ms = repeat.load[30].at_ms;
        let to_us = Some((fault_ms + 1_000) * 1_000);
        let silence = |connection| Silence { connection, from_us: fault_ms * 1_000, to_us };
        let (silences, connections) = (vec![silence(None), silence(Some(0))], 1);
        let heal_ms = fault_ms + 9_000;
        repeat.round = Some(Round { fault_ms, heal_ms, connections, silences, ..Round::default() });
    }
    testing::each_second(&mut record, |_, second| second.lab_cores = 7.9);
    record.cells[0].cell.checked.insert("missing".to_owned(), 0);
    let said = told(&record, "Rate and latency");
    assert!(said.starts_with("not judged: ") && said.ends_with("losses count all the same"), "{said}");
    let names: Vec<String> = lines(&record).into_iter().map(|(name, _)| name).collect();
    for name in ["Ceiling", "Highest safe rate", "Next guard", "Bottleneck", "Invalid", "Soak"] {
        assert!(!names.iter().any(|own| own == name), "{names:?}");
    }
    assert!(told(&record, "Failover").starts_with("leader-kill: 2 of 3 rounds, interrupted"));
    let page = report_of(&record);
    assert!(!chapter(&page, "verdict").contains("How full each resource was"), "that is about rates too");
}

#[test]
fn a_soak_alone_has_no_ceiling_and_tells_its_length() {
    let mut record = testing::record(&[(testing::factors(60), 20_000.0)]);
    for factors in [&mut record.cells[0].cell.factors, &mut record.file.cells[0]] {
        factors.more.insert("soak".to_owned(), "14400".to_owned());
    }
    let cell = &mut record.cells[0].cell;
    cell.interrupted = true;
    cell.checked = ["missing", "doubled"].map(|kind| (kind.to_owned(), 0)).into();
    assert!(!lines(&record).iter().any(|(name, _)| name == "Ceiling"));
    let said = told(&record, "Soak");
    assert!(said.starts_with("interrupted after 60 s of 4.00 h; until then nothing lost"), "{said}");
    let page = report_of(&record);
    let answer = chapter(&page, "verdict");
    for words in
        ["Faults in messages", ">0</p>", "Watched for", ">60 s</p>", "of 4.00 h planned", "interrupted"]
    {
        assert!(answer.contains(words), "{words}: {answer}");
    }
}
