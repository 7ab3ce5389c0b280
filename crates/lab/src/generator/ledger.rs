//! What was sent against what came: messages lost, doubled, changed or out of order.
//!
//! A message is lost when the broker said that it is stored and a group has not received it at the end. It is out of
//! order when a group received a message of the same queue before it that was only sent after this one was stored:
//! requests that were in flight together may come in any order, and those that were given up at any time.

use crate::load::Fate;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

/// Words of 64 messages remembered per connection; older ones that are not complete count as lost.
const WORDS_MAX: usize = 1 << 20;

/// The messages of a run.
#[derive(Debug)]
pub struct Ledger {
    lanes: Vec<Mutex<Book>>,
    groups: usize,
    sums: Sums,
}

#[derive(Debug, Default)]
struct Sums {
    stored: AtomicU64,
    unknown: AtomicU64,
    received: AtomicU64,
    missing: AtomicU64,
    doubled: AtomicU64,
    changed: AtomicU64,
    out_of_order: AtomicU64,
}

/// The messages of one connection, from number `base` on.
#[derive(Debug, Default)]
struct Book {
    base: u64,
    words: VecDeque<Word>,
}

/// 64 messages, a bit each.
#[derive(Clone, Debug, Default)]
struct Word {
    stored: u64,
    /// Refused, or nobody knows.
    not_stored: u64,
    received: Vec<u64>,
}

/// Something a group received.
#[derive(Clone, Copy, Debug)]
pub struct Receipt {
    /// Connection that sent it.
    pub lane: u32,
    /// Number on that connection.
    pub sequence: u64,
    /// Group that received it.
    pub group: usize,
    /// It came after a message that was sent when this one was settled.
    pub is_late: bool,
    /// The body is not what was sent.
    pub is_changed: bool,
}

impl Ledger {
    /// A ledger for so many connections and groups.
    #[must_use]
    pub fn new(lanes: usize, groups: usize) -> Self {
        let lanes = (0..lanes).map(|_| Mutex::default()).collect();
        Self { lanes, groups, sums: Sums::default() }
    }

    /// Notes what became of a request.
    pub fn settled(&self, lane: u32, sequence: u64, fate: Fate) {
        let mut book = self.book(lane);
        let groups = self.groups;
        let Some((word, bit)) = book.place(sequence, groups) else { return };
        match fate {
            Fate::Stored => {
                word.stored |= bit;
                self.sums.stored.fetch_add(1, Relaxed);
            }
            Fate::Refused => word.not_stored |= bit,
            Fate::Unknown => {
                word.not_stored |= bit;
                self.sums.unknown.fetch_add(1, Relaxed);
            }
        }
        self.sums.missing.fetch_add(book.retire(), Relaxed);
    }

    /// Notes what a group received.
    pub fn received(&self, receipt: Receipt) {
        let count = |sum: &AtomicU64, is_so: bool| sum.fetch_add(u64::from(is_so), Relaxed);
        if receipt.lane as usize >= self.lanes.len() || receipt.group >= self.groups {
            return;
        }
        count(&self.sums.changed, receipt.is_changed);
        let mut book = self.book(receipt.lane);
        let groups = self.groups;
        let place = book.place(receipt.sequence, groups);
        let (is_new, is_given_up) = place.map_or((false, false), |(word, bit)| {
            let received = &mut word.received[receipt.group];
            let is_new = *received & bit == 0;
            *received |= bit;
            (is_new, word.not_stored & bit != 0)
        });
        count(&self.sums.received, is_new);
        count(&self.sums.doubled, !is_new);
        count(&self.sums.out_of_order, is_new && receipt.is_late && !is_given_up);
        self.sums.missing.fetch_add(book.retire(), Relaxed);
    }

    /// The counts so far; what is stored and not received by every group counts as missing.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<String, u64> {
        let open: u64 = (0..self.lanes.len()).map(|lane| self.book(lane as u32).missing()).sum();
        let get = |sum: &AtomicU64| sum.load(Relaxed);
        let sums = &self.sums;
        let counts = [
            ("acknowledged", get(&sums.stored)),
            ("unknown", get(&sums.unknown)),
            ("received", get(&sums.received)),
            ("missing", get(&sums.missing) + open),
            ("doubled", get(&sums.doubled)),
            ("changed", get(&sums.changed)),
            ("out_of_order", get(&sums.out_of_order)),
        ];
        counts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
    }

    fn book(&self, lane: u32) -> MutexGuard<'_, Book> {
        self.lanes[lane as usize].lock().expect("nothing panics while it is held")
    }
}

impl Book {
    /// The word and bit of a message; `None` when it is complete and forgotten.
    fn place(&mut self, sequence: u64, groups: usize) -> Option<(&mut Word, u64)> {
        let index = usize::try_from(sequence.checked_sub(self.base)? / 64).ok()?;
        while self.words.len() <= index {
            self.words.push_back(Word { received: vec![0; groups], ..Word::default() });
        }
        Some((&mut self.words[index], 1 << (sequence % 64)))
    }

    /// Forgets what is complete; returns what is lost because it is too old.
    fn retire(&mut self) -> u64 {
        let mut lost = 0;
        while let Some(word) = self.words.front() {
            let is_settled = word.stored | word.not_stored == u64::MAX;
            if !(is_settled && word.missing() == 0) && self.words.len() <= WORDS_MAX {
                break;
            }
            lost += word.missing();
            self.words.pop_front();
            self.base += 64;
        }
        lost
    }

    fn missing(&self) -> u64 {
        self.words.iter().map(Word::missing).sum()
    }
}

impl Word {
    /// Messages stored that a group has not received, summed over the groups.
    fn missing(&self) -> u64 {
        self.received.iter().map(|received| u64::from((self.stored & !received).count_ones())).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(ledger: &Ledger, name: &str, expected: u64) {
        assert_eq!(ledger.counts()[name], expected, "{name}: {:?}", ledger.counts());
    }

    fn receipt(sequence: u64, group: usize) -> Receipt {
        Receipt { lane: 0, sequence, group, is_late: false, is_changed: false }
    }

    #[test]
    fn a_clean_run_has_nothing_to_tell() {
        let ledger = Ledger::new(1, 2);
        for sequence in 0..1000 {
            ledger.received(receipt(sequence, 0));
            ledger.settled(0, sequence, Fate::Stored);
            ledger.received(receipt(sequence, 1));
        }
        for (name, count) in [("acknowledged", 1000), ("received", 2000), ("missing", 0), ("doubled", 0)] {
            check(&ledger, name, count);
        }
        assert!(ledger.book(0).words.len() <= 1, "what is complete is forgotten");
    }

    #[test]
    fn every_fault_is_counted_as_what_it_is() {
        let ledger = Ledger::new(1, 1);
        (0..128).for_each(|sequence| ledger.settled(0, sequence, Fate::Stored));
        (0..127).for_each(|sequence| ledger.received(receipt(sequence, 0)));
        check(&ledger, "missing", 1);
        ledger.received(receipt(3, 0));
        ledger.received(receipt(100, 0));
        check(&ledger, "doubled", 2);
        ledger.received(Receipt { is_late: true, ..receipt(127, 0) });
        check(&ledger, "out_of_order", 1);
        check(&ledger, "missing", 0);
        ledger.settled(0, 128, Fate::Unknown);
        ledger.settled(0, 129, Fate::Refused);
        check(&ledger, "missing", 0);
        ledger.received(Receipt { is_changed: true, ..receipt(128, 0) });
        check(&ledger, "changed", 1);
        check(&ledger, "unknown", 1);
    }
}
