use super::*;
use crate::archive::{Factors, Phase};
use crate::judge::fixture;

/// A run of twenty seconds before, twenty while filling and twenty while draining, which producers feel by `times`.
fn judge(times: f64) -> Backlog {
    let factors = Factors { groups: 1, rate: Some(16_000.0), size: 4096, ..fixture::factors(60) };
    let mut record = fixture::record(&[(factors, 16_000.0)]);
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
    fixture::each_second(&mut record, |index, second| {
        match index {
            0..20 => (),
            20..40 => (second.consumed, second.consumed_bytes) = (0, 0),
            _ => {
                second.sent = (second.sent as f64 * times) as u64;
                (second.consumed, second.consumed_bytes) = (68_000, 68_000 * 4_096);
            }
        };
    });
    fixture::each_host_second(&mut record, "b1", |index, second| {
        second.disk_read = if index >= 40 { 139_264_000 } else { 0 }
    });
    backlog(&record, &record.cells[0]).expect("it has the phases")
}

#[test]
fn a_backlog_that_costs_nothing() {
    // Seed 003 #34: produced at 39,000 whether it drains or not.
    let found = judge(1.0);
    assert!(found.says.en.contains("costs producers nothing"), "{}", found.says.en);
    assert_eq!((found.drain_tps, found.drain_seconds), (68_000.0, 20.0));
    assert!((found.cold_ratio - 0.5).abs() < 1e-9);
    assert_eq!(
        found.stages.iter().map(|stage| stage.name.as_str()).collect::<Vec<_>>(),
        ["before", "during", "drain"]
    );
}

#[test]
fn a_backlog_that_costs_a_third() {
    let found = judge(0.66);
    assert!(found.says.en.contains("changes what producers reach by -3"), "{}", found.says.en);
    assert!(found.producers.is_some_and(|ratio| ratio.high < 0.7));
}

#[test]
fn other_cells_are_no_backlog() {
    let record = fixture::record(&[(fixture::factors(60), 1_000.0)]);
    assert_eq!(backlog(&record, &record.cells[0]), None);
}
