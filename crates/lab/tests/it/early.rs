//! Runs that end before their time.

use crate::echo;
use lab::archive::Record;
use lab::command::Lab;
use std::path::Path;

/// Two seconds of load in one cell, on a disk of which so much has to be free.
fn run(address: &str, out: &Path, (repeats, free): (u32, &str)) -> Result<(), lab::Error> {
    let out = out.display();
    let line = format!(
        "matrix -n {address} --out {out} --no-selftest --threads 4 --warmup 0 --duration 2 --repeats {repeats} --free-min {free}"
    );
    lab::run(Lab::new(line.split_whitespace().map(str::to_owned)))
}

/// Time and length in milliseconds of each sample of the load in the only cell.
fn seconds(record: &Record) -> Vec<(u64, u64)> {
    let load = &record.windows(&record.cells[0], "steady")[0].load;
    load.iter().map(|second| (second.at_ms, second.lasted_ms)).collect()
}

#[test]
fn what_was_measured_until_then_is_kept_and_made_again() {
    let (place, address) = (tempfile::tempdir().unwrap(), echo());
    let out = place.path().join("run");
    let error = run(&address, &out, (1, "1000000g")).unwrap_err().to_string();
    assert!(error.contains("--free-min asks for"), "{error}");
    let record = Record::read(&out).unwrap();
    assert_eq!(record.cells.len(), 1, "the run has ended, what it measured is there");
    assert!(record.cells[0].cell.interrupted);
    let first = seconds(&record);
    assert!(!first.is_empty());
    run(&address, &out, (1, "0")).unwrap();
    let record = Record::read(&out).unwrap();
    assert!(!record.cells[0].cell.interrupted);
    let again = seconds(&record);
    assert!(
        again.iter().all(|(at_ms, _)| !first.iter().any(|(before_ms, _)| at_ms == before_ms)),
        "{again:?}"
    );
    let lasted_ms: u64 = again.iter().map(|(_, lasted_ms)| lasted_ms).sum();
    assert!(lasted_ms >= 1_500, "from the beginning: {again:?}");
}

#[test]
fn a_part_of_a_repeat_is_not_one_of_several() {
    let (place, address) = (tempfile::tempdir().unwrap(), echo());
    let out = place.path().join("run");
    run(&address, &out, (3, "1000000g")).unwrap_err();
    assert!(Record::read(&out).unwrap().cells.is_empty());
}
