use super::*;
use crate::archive::{Phase, Record, Repeat};
use crate::judge::testing;
use crate::sentences::Sentence;

const SECONDS: u64 = 1_200;

/// Twenty minutes that repeat the seconds of a valid cell.
fn long() -> Record {
    let mut record = testing::record(&[(testing::factors(60), 30_000.0)]);
    let (name, to_ms) = ("steady".to_owned(), u64::MAX);
    let phase = Phase { repeat: 1, name, from_ms: 0, to_ms, met: None };
    let short = record.cells[0].repeats[0].clone();
    let mut random = fastrand::Rng::with_seed(3);
    let mut repeat = Repeat::default();
    let mut seconds = Vec::new();
    for index in 0..SECONDS {
        let at_ms = testing::START_MS + (index + 1) * 1_000;
        let pick = random.usize(..short.load.len());
        repeat.load.push(crate::archive::LoadSecond { at_ms, ..short.load[pick].clone() });
        seconds.push(crate::archive::HostSecond { at_ms, ..short.hosts["b1"][pick].clone() });
    }
    repeat.hosts.insert("b1".to_owned(), seconds);
    record.cells[0].cell.phases = vec![phase];
    record.cells[0].cell.checked =
        ["missing", "doubled", "changed", "out_of_order"].map(|kind| (kind.to_owned(), 0)).into();
    record.cells[0].repeats = vec![repeat];
    record
}

fn faults(change: impl Fn(&mut Record)) -> String {
    let mut record = long();
    change(&mut record);
    let cell = &record.cells[0];
    let found = soak(&record.file, cell, &record.windows(cell, "steady")).expect("long enough");
    assert!(found.checked);
    let broken = found.broken.iter().map(Sentence::sentence);
    let all = broken.chain(found.drifts.iter().map(Sentence::sentence));
    all.map(|fault| fault.en).collect::<Vec<_>>().join("; ")
}

#[test]
fn a_clean_run_lasts() {
    assert_eq!(faults(|_| ()), "");
}

#[test]
fn broken_promises() {
    let plant = |kind: &'static str| {
        move |record: &mut Record| {
            record.cells[0].cell.checked.insert(kind.to_owned(), 3);
        }
    };
    assert_eq!(faults(plant("missing")), "3 messages are missing");
    assert_eq!(faults(plant("doubled")), "3 messages came twice");
    assert_eq!(faults(plant("changed")), "3 messages came changed");
    assert_eq!(faults(plant("out_of_order")), "3 messages came out of order");
}

#[test]
fn what_is_still_to_be_read_is_not_lost() {
    let judge = |met| {
        let mut record = long();
        let cell = &mut record.cells[0].cell;
        cell.checked.insert("missing".to_owned(), 3);
        cell.phases.push(Phase { repeat: 1, name: "rest".to_owned(), from_ms: 0, to_ms: 120_000, met });
        let cell = &record.cells[0];
        soak(&record.file, cell, &record.windows(cell, "steady")).expect("long enough")
    };
    let unread = judge(Some(false));
    assert!(
        unread.broken.is_empty() && unread.sentence().en.contains("not read yet 120 s after"),
        "{unread:?}"
    );
    for met in [Some(true), None] {
        assert!(judge(met).sentence().en.starts_with("3 messages are missing"), "{met:?}");
    }
}

#[test]
fn what_was_under_way_when_a_run_was_ended_early_is_not_lost() {
    let mut record = long();
    record.cells[0].cell.checked.insert("missing".to_owned(), 3);
    record.cells[0].cell.interrupted = true;
    let cell = &record.cells[0];
    let found = soak(&record.file, cell, &record.windows(cell, "steady")).expect("long enough");
    assert!(found.broken.is_empty() && found.sentence().en.contains("ended early"), "{found:?}");
}

#[test]
fn a_soak_tells_how_long_it_was_watched() {
    let said = |interrupted: bool, planned: Option<&str>| {
        let mut record = long();
        let cell = &mut record.cells[0].cell;
        cell.interrupted = interrupted;
        cell.factors.more.extend(planned.map(|seconds| ("soak".to_owned(), seconds.to_owned())));
        let cell = &record.cells[0];
        soak(&record.file, cell, &record.windows(cell, "steady")).expect("long enough").sentence()
    };
    let kept = "nothing lost, doubled, changed or out of order";
    assert_eq!(said(false, None).en, format!("{kept}; watched for 20.0 min"));
    assert_eq!(said(false, Some("1200")).en, format!("{kept}; watched for 20.0 min of 20.0 min"));
    let interrupted = said(true, Some("14400"));
    assert_eq!(interrupted.en, format!("interrupted after 20.0 min of 4.00 h; until then {kept}"));
    assert_eq!(interrupted.zh, "运行 20.0 分钟（计划 4.00 小时）后中断；此前无丢失、重复、改变、乱序");
}

#[test]
fn drifts_are_seen() {
    let fading = |r: &mut Record| {
        testing::each_second(r, |index, second| {
            second.sent = (second.sent as f64 * (1.0 - index as f64 / 12_000.0)) as u64
        })
    };
    assert!(faults(fading).starts_with("the rate drifts by -3"));
    let leak = |r: &mut Record| {
        testing::each_host_second(r, "b1", |index, second| second.process_anonymous += index as u64 * 100_000)
    };
    assert!(faults(leak).starts_with("anonymous memory drifts by +"));
    let files = |r: &mut Record| {
        testing::each_host_second(r, "b1", |index, second| second.process_files += index as u64 / 10)
    };
    assert!(faults(files).starts_with("open files drifts by +"));
}

#[test]
fn shrinking_memory_is_no_fault() {
    let shrink = |r: &mut Record| {
        testing::each_host_second(r, "b1", |index, second| second.process_anonymous -= index as u64 * 100_000)
    };
    assert_eq!(faults(shrink), "");
}

#[test]
fn a_short_cell_is_no_soak() {
    let record = testing::record(&[(testing::factors(60), 30_000.0)]);
    let cell = &record.cells[0];
    assert_eq!(soak(&record.file, cell, &record.windows(cell, "steady")), None);
}
