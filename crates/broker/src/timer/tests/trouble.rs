//! Timed messages on a disk that fails for a while, or for good.

use std::fs::{self, File};
use std::path::PathBuf;

use store::timer::ChainRequest;

use super::super::fetch::{Chain, Fetched, Job, Reader, TRIES_MAX};
use super::*;

/// A file that cannot be read until it is restored.
struct Lost {
    path: PathBuf,
    bytes: Vec<u8>,
}

fn lose(path: PathBuf) -> Lost {
    let bytes = fs::read(&path).unwrap();
    File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
    Lost { path, bytes }
}

impl Lost {
    fn give_back(self) {
        let mut file = File::options().write(true).open(&self.path).unwrap();
        std::io::Write::write_all(&mut file, &self.bytes).unwrap();
    }
}

fn log_file(fixture: &Fixture, number: u64) -> PathBuf {
    fixture.config_path(&format!("../commitlog/{:020}", number << 20))
}

/// Stores half a log file full of other messages. From the second call on, further messages lie in the next file of the log.
fn fill(fixture: &Fixture) {
    fixture.put("Filler", 0, &[7; 600_000], b"");
}

fn undelivered(fixture: &Fixture) -> u64 {
    fixture.broker.runtime.retention.undelivered.load(Ordering::Relaxed)
}

#[test]
fn a_unit_that_was_not_written_yet_is_written_before_its_slot_is_read() {
    let fixture = Fixture::new();
    // A start time at which the interval between saves does not make the timer save.
    let start = start_ms(&fixture) - 80_000;
    let mut scheduler = scheduler(&fixture, |_| {});
    put(&fixture, "kept", start + 10, &[]);
    fill(&fixture);
    fill(&fixture);
    put(&fixture, "lost", start + 20, &[]);
    fill(&fixture);
    lose(log_file(&fixture, 1));
    wind(&mut scheduler, start - 10_000);
    wind(&mut scheduler, start - 2000);
    for second in 0..=60 {
        wind(&mut scheduler, start + 30 + second * 1000);
    }
    assert_eq!((delivered(&fixture), undelivered(&fixture)), (vec!["kept".to_owned()], 1));
    scheduler.stop();
}

/// Returns the job of loading a slot with a message and its cancelling message. Their records are in a file of the
/// log that is not the last file.
fn cancelled(fixture: &Fixture, scheduler: &mut Timer, start: i64) -> Job {
    put(fixture, "gone", start + 100, &[]);
    put(fixture, "1", start + 100, &[(key::TIMER_DEL_UNIQKEY, "gone")]);
    fill(fixture);
    fill(fixture);
    wind(scheduler, start - 60_000);
    load(scheduler, start)
}

fn load(scheduler: &mut Timer, slot_ms: i64) -> Job {
    let last = scheduler.files.slot(slot_ms).unwrap().unwrap().last.unwrap();
    Job::Load(Chain::of(ChainRequest { slot_ms, precision_ms: 1000, last, from: None, limit: 1000 }))
}

/// Repeats a job until it succeeds or is given up. Returns the number of failed attempts, the number of entries, and the keys.
fn insist(reader: &mut Reader, mut job: Job) -> (u32, usize, Vec<String>) {
    let mut refused = 0;
    loop {
        match reader.serve(job) {
            Ok(Fetched::Loaded(loaded, keys)) => {
                let keys = keys.iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect();
                return (refused, loaded.entries.len(), keys);
            }
            Ok(Fetched::Touched(_)) => panic!("a chain was asked for"),
            Err(chain) => job = Job::Load(*chain),
        }
        refused += 1;
    }
}

#[test]
fn a_recall_that_the_disk_does_not_give_for_a_while_counts() {
    let fixture = Fixture::new();
    let start = start_ms(&fixture);
    let mut scheduler = scheduler(&fixture, |_| {});
    let mut job = cancelled(&fixture, &mut scheduler, start);
    let mut reader = Reader::new(fixture.broker.engines.clone(), scheduler.files.log().clone());
    let lost = lose(log_file(&fixture, 0));
    for _ in 0..TRIES_MAX / 2 {
        let Err(chain) = reader.serve(job) else { panic!("it cannot be read") };
        job = Job::Load(*chain);
    }
    lost.give_back();
    assert_eq!(insist(&mut reader, job), (0, 1, vec!["gone".to_owned()]));
    assert_eq!(undelivered(&fixture), 0);
    scheduler.stop();
}

#[test]
fn a_recall_that_the_disk_does_not_give_for_a_minute_is_skipped_and_counted() {
    let fixture = Fixture::new();
    let start = start_ms(&fixture);
    let mut scheduler = scheduler(&fixture, |_| {});
    let job = cancelled(&fixture, &mut scheduler, start);
    let mut reader = Reader::new(fixture.broker.engines.clone(), scheduler.files.log().clone());
    lose(log_file(&fixture, 0));
    assert_eq!(insist(&mut reader, job), (TRIES_MAX, 1, Vec::new()));
    let again = load(&mut scheduler, start);
    assert_eq!(insist(&mut reader, again), (0, 1, Vec::new()), "it is not waited for again");
    assert_eq!(undelivered(&fixture), 1);
    scheduler.stop();
}

#[test]
fn a_part_of_the_timer_log_that_cannot_be_read_costs_no_more_than_what_lies_behind_it() {
    let fixture = Fixture::new();
    let start = start_ms(&fixture);
    let mut scheduler = scheduler(&fixture, |_| {});
    let ids: Vec<String> = (0..100).map(|number| format!("{number:02}")).collect();
    for (number, id) in (0..).zip(&ids) {
        put(&fixture, id, start + 1 + number, &[]);
    }
    put(&fixture, "next", start + 3000, &[]);
    wind(&mut scheduler, start - 60_000);
    lose(fixture.config_path("../timerlog/00000000000000000000"));
    wind(&mut scheduler, start - 2000);
    wind(&mut scheduler, start + 10_000);
    // The first file of the timer log holds 78 units.
    let mut expected = ids[78..].to_vec();
    expected.push("next".to_owned());
    assert_eq!((delivered(&fixture), undelivered(&fixture)), (expected, 1));
    assert_eq!(scheduler.due_entries.read_ms(), start + 10_000);
    scheduler.stop();
}

#[test]
fn a_chain_the_disk_refuses_for_a_while_is_whole_afterwards_and_does_not_hold_up_the_reader() {
    let fixture = Fixture::new();
    let start = start_ms(&fixture);
    let mut scheduler = scheduler(&fixture, |_| {});
    for number in 0..80 {
        put(&fixture, &format!("{number:02}"), start + 1 + number, &[]);
    }
    put(&fixture, "next", start + 3000, &[]);
    wind(&mut scheduler, start - 60_000);
    let mut reader = Reader::new(fixture.broker.engines.clone(), scheduler.files.log().clone());
    let lost = lose(fixture.config_path("../timerlog/00000000000000000000"));
    let job = load(&mut scheduler, start);
    let Err(chain) = reader.serve(job) else { panic!("it cannot be read") };
    let other = load(&mut scheduler, start + 2000);
    assert_eq!(insist(&mut reader, other), (0, 1, Vec::new()));
    lost.give_back();
    assert_eq!(insist(&mut reader, Job::Load(*chain)), (0, 80, Vec::new()));
    assert_eq!(undelivered(&fixture), 0);
    scheduler.stop();
}

#[test]
fn nothing_is_delivered_before_a_recall_that_rolls_and_cannot_be_read() {
    let fixture = Fixture::new();
    let start = start_ms(&fixture);
    let mut scheduler = scheduler(&fixture, |config| config.roll_window_slots = 10);
    wind(&mut scheduler, start);
    put(&fixture, "gone", start + 15_345, &[]);
    wind(&mut scheduler, start + 500);
    put(&fixture, "1", start + 15_345, &[(key::TIMER_DEL_UNIQKEY, "gone")]);
    wind(&mut scheduler, start + 1000);
    fill(&fixture);
    fill(&fixture);
    for ms in (1500..=10_500).step_by(500) {
        wind(&mut scheduler, start + ms);
    }
    put(&fixture, "next", start + 15_500, &[]);
    wind(&mut scheduler, start + 11_000);
    let lost = lose(log_file(&fixture, 0));
    for ms in (16_000..=40_000).step_by(500) {
        wind(&mut scheduler, start + ms);
        assert_eq!(delivered(&fixture), [] as [String; 0]);
    }
    lost.give_back();
    wind(&mut scheduler, start + 42_000);
    assert_eq!((delivered(&fixture), scheduler.pending), (vec!["next".to_owned()], 0));
    // The copy in the timer queue has the property that says it was rolled.
    let copies = fixture.messages(names::TIMER_TOPIC, 0);
    let rolled = |text: &[u8]| properties::get_str(text, key::TIMER_ROLL_TIMES).is_some();
    assert_eq!(copies.iter().filter(|(body, text, _)| body == b"1" && rolled(text)).count(), 1);
    scheduler.stop();
}
