//! The judge is judged: every rule notices what breaks it, and an honest history breaks none.

use std::time::Instant;

use crate::common::judge::{Cut, Judge, Promise};
use crate::common::load::{Fate, History, Place, Sent};
use crate::common::message::Tag;
use crate::common::read::Read;

/// A message of producer 1 that was acknowledged at an offset of queue 0, ten bytes of log each.
fn acknowledged(offset: i64) -> Sent {
    let place = Place { offset: Some(offset), log: Some(offset as u64 * 10), at: Instant::now() };
    Sent { queue: 0, waited: true, fate: Fate::Acknowledged(place) }
}

fn read(offset: i64, sequence: u64) -> Read {
    let tag = Ok(Tag { producer: 1, sequence });
    Read { queue: 0, offset, log: offset as u64 * 10, print: sequence + 100, age_ms: 0, tag }
}

fn history(sent: Vec<Sent>) -> Vec<History> {
    vec![History { producer: 1, sent, wrong: None }]
}

/// Judges one round of one queue; the rules that were broken.
fn judged(sent: Vec<Sent>, reads: Vec<Read>, end: i64, promise: Promise) -> Vec<String> {
    let mut judge = Judge::new(1);
    judge.begin(history(sent));
    reads.into_iter().for_each(|read| judge.read(read));
    judge.end(promise, &[end]);
    rules(&judge)
}

fn rules(judge: &Judge) -> Vec<String> {
    let rule = |text: &String| {
        let at = text.find('P').expect("a rule is named");
        text[at..at + 2].to_owned()
    };
    judge.violations().1.iter().map(rule).collect()
}

fn three() -> Vec<Sent> {
    (0..3).map(acknowledged).collect()
}

#[test]
fn an_honest_history_passes() {
    let reads = || (0..3).map(|offset| read(offset, offset as u64));
    assert!(judged(three(), reads().collect(), 3, Promise::Everything).is_empty());
    let twice = reads().chain(reads()).collect();
    assert!(judged(three(), twice, 3, Promise::Everything).is_empty(), "reading again is fine");
    let mut unknown = three();
    unknown.push(Sent { queue: 0, waited: true, fate: Fate::Unknown });
    assert!(
        judged(unknown.clone(), reads().collect(), 3, Promise::Everything).is_empty(),
        "unknown may miss"
    );
    let all = reads().chain([read(3, 3)]).collect();
    assert!(judged(unknown, all, 4, Promise::Everything).is_empty(), "unknown may be there");
}

#[test]
fn losses_are_noticed() {
    let reads: Vec<_> = (0..2).map(|offset| read(offset, offset as u64)).collect();
    assert_eq!(judged(three(), reads.clone(), 2, Promise::Everything), ["P1"]);
    let end_at = |flushed| Promise::AllButTheEnd(Cut { at: Instant::now(), flushed });
    let end = end_at(20);
    assert!(judged(three(), reads.clone(), 2, end).is_empty(), "the end may be lost");
    assert_eq!(judged(three(), reads, 2, end_at(30)), ["P1"], "it was on the disk");
    let hole = vec![read(0, 0), Read { log: 20, ..read(1, 2) }];
    assert!(judged(three(), hole, 2, end).iter().any(|rule| rule == "P1"), "a hole is no end");
    let seen: Vec<_> = (0..3).map(|offset| read(offset, offset as u64)).collect();
    assert!(judged(three(), seen, 2, Promise::Everything).iter().any(|rule| rule == "P1"), "seen, then gone");
}

#[test]
fn what_did_not_wait_for_the_disk_may_be_lost_unless_it_was_seen() {
    let late = |sent: Sent| Sent { waited: false, ..sent };
    let sent = || vec![acknowledged(0), acknowledged(1), late(acknowledged(2))];
    let reads = || vec![read(0, 0), read(1, 1)];
    let waited = Promise::Waited(Cut { at: Instant::now(), flushed: 0 });
    assert!(judged(sent(), reads(), 2, waited).is_empty());
    assert_eq!(judged(sent(), reads(), 2, Promise::Everything), ["P1"], "a kill loses nothing");
    assert_eq!(judged(three(), reads(), 2, waited), ["P1"], "it waited");
    let seen = [reads(), vec![read(2, 2)]].concat();
    assert!(judged(sent(), seen, 2, waited).iter().any(|rule| rule == "P1"), "seen, then gone");
    let hole = vec![late(acknowledged(0)), acknowledged(1)];
    let moved = vec![Read { log: 10, ..read(0, 1) }];
    assert!(judged(hole, moved, 1, waited).iter().any(|rule| rule == "P1"), "a hole is no end");
}

#[test]
fn the_age_of_what_is_lost_is_measured() {
    let mut judge = Judge::new(1);
    judge.begin(history(three()));
    judge.read(read(0, 0));
    let age = std::time::Duration::from_secs(60);
    judge.end(Promise::AllButTheEnd(Cut { at: Instant::now() + age, flushed: 0 }), &[1]);
    assert_eq!((judge.counts().lost, judge.violations().0), (2, 0));
    assert!(judge.counts().lost_age >= age, "{:?}", judge.counts());
}

#[test]
fn inventions_are_noticed() {
    let good = || vec![read(0, 0), read(1, 1), read(2, 2)];
    let with = |extra: Read| [good(), vec![extra]].concat();
    let everything = Promise::Everything;
    assert_eq!(judged(three(), with(read(3, 9)), 4, everything), ["P2"], "never sent");
    assert_eq!(judged(three(), with(read(3, 1)), 4, everything), ["P2"], "twice");
    let damaged = Read { tag: Err("checksum differs".to_owned()), ..read(3, 3) };
    assert_eq!(judged(three(), with(damaged), 4, everything), ["P2"]);
    let mut refused = three();
    refused.push(Sent { queue: 0, waited: true, fate: Fate::Refused });
    assert_eq!(judged(refused, with(read(3, 3)), 4, everything), ["P2"]);
}

#[test]
fn offsets_that_change_are_noticed() {
    let everything = Promise::Everything;
    let other = vec![read(0, 0), read(1, 1), read(2, 2), Read { print: 7, ..read(1, 1) }];
    assert_eq!(judged(three(), other, 3, everything), ["P3"]);
    let moved = vec![acknowledged(0), acknowledged(5)];
    assert_eq!(judged(moved, vec![read(0, 0), read(1, 1)], 2, everything), ["P3"]);
    let elsewhere = vec![read(0, 0), read(1, 1), Read { log: 99, ..read(2, 2) }];
    assert_eq!(judged(three(), elsewhere, 3, everything), ["P3"]);
}

#[test]
fn gaps_and_wrong_ends_are_noticed() {
    let everything = Promise::Everything;
    let gap = judged(three(), vec![read(0, 0), read(2, 2)], 3, everything);
    assert!(gap.iter().any(|rule| rule == "P4"), "{gap:?}");
    let beyond = judged(three(), vec![read(0, 0), read(1, 1), read(2, 2)], 5, everything);
    assert_eq!(beyond, ["P4"]);
    let backwards = vec![read(0, 0), read(1, 1), Read { log: 3, ..read(2, 2) }];
    assert!(judged(three(), backwards, 3, everything).iter().any(|rule| rule == "P4"));
}

#[test]
fn a_changed_order_is_noticed() {
    let unknown = || (0..3).map(|_| Sent { queue: 0, waited: true, fate: Fate::Unknown }).collect();
    let swapped = vec![read(0, 0), read(1, 2), read(2, 1)];
    assert_eq!(judged(unknown(), swapped, 3, Promise::Everything), ["P5"]);
}

#[test]
fn an_earlier_round_may_not_come_back() {
    let mut judge = Judge::new(1);
    judge.begin(history(vec![acknowledged(0), Sent { queue: 0, waited: true, fate: Fate::Unknown }]));
    judge.read(read(0, 0));
    judge.end(Promise::Everything, &[1]);
    judge.begin(Vec::new());
    judge.read(read(1, 1));
    judge.end(Promise::Everything, &[2]);
    assert_eq!(rules(&judge), ["P2"], "it was not there after the restart");
}
