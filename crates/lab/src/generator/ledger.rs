//! Compares the messages that were sent with those that were received: lost, duplicated, changed, out of order.
//!
//! A message is lost when the broker acknowledged it and a group has not received it at the end. A message is out of
//! order when a group received it after another message of the same queue and connection that was sent only after this
//! one was settled. Requests that were in flight together may arrive in any order, and those that got no answer at any
//! time. A message so changed that it cannot be identified counts as changed, and the message that was sent counts as
//! lost.

use crate::load::Fate;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Mutex, MutexGuard};

/// Most words (64 messages each) kept per connection. When an older word that is incomplete is dropped, its missing
/// messages count as lost.
const WORDS_MAX: usize = 1 << 20;

/// Most words kept per connection only for messages that the broker may or may not have stored. When such a message of
/// an older word arrives, the message counts as duplicated.
const OPEN_WORDS_MAX: usize = if cfg!(test) { 4 } else { 1 << 16 };

/// The messages of a run, by connection.
#[derive(Debug)]
pub struct Ledger {
    connections: Vec<Connection>,
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

/// The messages of one connection.
#[derive(Debug, Default)]
struct Connection {
    /// Number of messages sent. Written before a message is sent and read after one was received.
    issued: AtomicU64,
    book: Mutex<Book>,
}

/// Bitmaps of the messages of one connection, from number `base` on.
#[derive(Debug, Default)]
struct Book {
    base: u64,
    words: VecDeque<Word>,
    /// Messages of dropped words that may still arrive, by the number of the word's first message. For each group, a
    /// bit is set for every message that was not acknowledged and that the group has not received.
    open: BTreeMap<u64, Vec<u64>>,
}

/// Bitmaps of 64 consecutive messages.
#[derive(Clone, Debug, Default)]
struct Word {
    stored: u64,
    /// Messages that were refused or got no answer.
    not_stored: u64,
    received: Vec<u64>,
}

/// A message that a group received.
#[derive(Clone, Copy, Debug)]
pub struct Receipt {
    /// Number of the connection that sent the message.
    pub connection: u32,
    /// Number of the message on that connection.
    pub sequence: u64,
    /// Index of the group that received the message.
    pub group: usize,
    /// Whether the message arrived out of order: a later message of the same connection and queue
    /// arrived first, although the producer had settled this message before it sent the later
    /// message.
    pub is_late: bool,
    /// Whether the body differs from the one that was sent.
    pub is_changed: bool,
}

impl Ledger {
    /// Makes an empty ledger for `connections` connections and `groups` consumer groups.
    pub fn new(connections: usize, groups: usize) -> Self {
        let connections = (0..connections).map(|_| Connection::default()).collect();
        Self { connections, groups, sums: Sums::default() }
    }

    /// Records that a message is about to be sent. Must be called in the order of the numbers.
    pub fn issued(&self, connection: u32, sequence: u64) {
        self.connections[connection as usize].issued.store(sequence + 1, Release);
    }

    /// Whether a message with this number was sent.
    pub fn has_issued(&self, connection: u32, sequence: u64) -> bool {
        self.connections
            .get(connection as usize)
            .is_some_and(|connection| sequence < connection.issued.load(Acquire))
    }

    /// Records the fate of a request: stored, refused or unanswered.
    pub fn settled(&self, connection: u32, sequence: u64, fate: Fate) {
        let mut book = self.book(connection);
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

    /// Records that a group received a message. The number of a message that was never sent comes from a changed body.
    pub fn received(&self, receipt: Receipt) {
        let count = |sum: &AtomicU64, is_so: bool| sum.fetch_add(u64::from(is_so), Relaxed);
        if receipt.group >= self.groups {
            return;
        }
        if !self.has_issued(receipt.connection, receipt.sequence) {
            return self.changed();
        }
        count(&self.sums.changed, receipt.is_changed);
        let mut book = self.book(receipt.connection);
        let (is_new, is_given_up) = book.receive((receipt.sequence, receipt.group), self.groups);
        count(&self.sums.received, is_new);
        count(&self.sums.doubled, !is_new);
        count(&self.sums.out_of_order, is_new && receipt.is_late && !is_given_up);
        self.sums.missing.fetch_add(book.retire(), Relaxed);
    }

    /// Records a received message that was changed so much that it cannot be identified.
    pub fn changed(&self) {
        self.sums.changed.fetch_add(1, Relaxed);
    }

    /// The counts so far. A stored message that a group has not received counts as missing.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        let open: u64 =
            (0..self.connections.len()).map(|connection| self.book(connection as u32).missing()).sum();
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

    fn book(&self, connection: u32) -> MutexGuard<'_, Book> {
        self.connections[connection as usize].book.lock().expect("nothing panics while it is held")
    }
}

impl Book {
    /// The word and the bit of a message; `None` when its word is complete and dropped.
    fn place(&mut self, sequence: u64, groups: usize) -> Option<(&mut Word, u64)> {
        let index = usize::try_from(sequence.checked_sub(self.base)? / 64).ok()?;
        while self.words.len() <= index {
            self.words.push_back(Word { received: vec![0; groups], ..Word::default() });
        }
        Some((&mut self.words[index], 1 << (sequence % 64)))
    }

    /// Records that a group received a message. Returns whether it is the first time, and whether the message was
    /// refused or got no answer.
    fn receive(&mut self, (sequence, group): (u64, usize), groups: usize) -> (bool, bool) {
        if let Some((word, bit)) = self.place(sequence, groups) {
            let is_new = word.received[group] & bit == 0;
            word.received[group] |= bit;
            return (is_new, word.not_stored & bit != 0);
        }
        (self.receive_open(sequence, group), true)
    }

    /// Records a message of a dropped word. Returns whether the message could still arrive.
    fn receive_open(&mut self, sequence: u64, group: usize) -> bool {
        let bit = 1 << (sequence % 64);
        let Some(open) = self.open.get_mut(&(sequence - sequence % 64)) else { return false };
        let is_new = open[group] & bit != 0;
        open[group] &= !bit;
        if open.iter().all(|open| *open == 0) {
            self.open.remove(&(sequence - sequence % 64));
        }
        is_new
    }

    /// Drops complete words and words beyond the limit. Returns the number of messages that are lost with them.
    fn retire(&mut self) -> u64 {
        let mut lost = 0;
        while self.words.front().is_some_and(Word::is_complete) || self.words.len() > WORDS_MAX {
            let Some(word) = self.words.pop_front() else { break };
            lost += word.missing();
            self.keep_open(&word);
            self.base += 64;
        }
        lost
    }

    /// Keeps, of the word at `base`, the messages that may still arrive.
    fn keep_open(&mut self, word: &Word) {
        let open = word.received.iter().map(|received| word.not_stored & !received);
        if word.not_stored == 0 || open.clone().all(|open| open == 0) {
            return;
        }
        self.open.insert(self.base, open.collect());
        if self.open.len() > OPEN_WORDS_MAX {
            self.open.pop_first();
        }
    }

    fn missing(&self) -> u64 {
        self.words.iter().map(Word::missing).sum()
    }
}

impl Word {
    /// Whether all messages are settled and every group received those that are stored.
    fn is_complete(&self) -> bool {
        self.stored | self.not_stored == u64::MAX && self.missing() == 0
    }

    /// Number of stored messages that a group has not received, summed over the groups.
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
        Receipt { connection: 0, sequence, group, is_late: false, is_changed: false }
    }

    /// A ledger of one connection that sent 1,000 messages.
    fn ledger(groups: usize) -> Ledger {
        let ledger = Ledger::new(1, groups);
        (0..1000).for_each(|sequence| ledger.issued(0, sequence));
        ledger
    }

    #[test]
    fn a_clean_run_has_nothing_to_tell() {
        let ledger = ledger(2);
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
        let ledger = ledger(1);
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

    #[test]
    fn an_unknown_message_that_comes_after_its_word_is_forgotten_is_no_duplicate() {
        let ledger = ledger(2);
        ledger.settled(0, 5, Fate::Unknown);
        for sequence in (0..64).filter(|sequence| *sequence != 5) {
            ledger.settled(0, sequence, Fate::Stored);
            (0..2).for_each(|group| ledger.received(receipt(sequence, group)));
        }
        assert!(ledger.book(0).words.is_empty(), "it does not hold its word");
        (0..2).for_each(|group| ledger.received(Receipt { is_late: true, ..receipt(5, group) }));
        for (name, count) in [("received", 128), ("doubled", 0), ("out_of_order", 0), ("missing", 0)] {
            check(&ledger, name, count);
        }
        assert!(ledger.book(0).open.is_empty(), "both groups have it");
        ledger.received(receipt(5, 0));
        check(&ledger, "doubled", 1);
        ledger.received(receipt(6, 1));
        check(&ledger, "doubled", 2);
        check(&ledger, "received", 128);
    }

    #[test]
    fn an_unknown_message_that_comes_twice_to_one_group_is_a_duplicate_there() {
        let ledger = ledger(2);
        (0..64).for_each(|sequence| ledger.settled(0, sequence, Fate::Unknown));
        assert!(ledger.book(0).words.is_empty());
        (0..2).for_each(|_| ledger.received(receipt(63, 0)));
        check(&ledger, "doubled", 1);
        ledger.received(receipt(63, 1));
        ledger.received(receipt(0, 0));
        check(&ledger, "doubled", 1);
        check(&ledger, "received", 3);
    }

    #[test]
    fn of_words_that_are_only_open_the_last_ones_are_remembered() {
        let ledger = ledger(1);
        let end = (OPEN_WORDS_MAX as u64 + 1) * 64;
        (0..end).for_each(|sequence| ledger.settled(0, sequence, Fate::Unknown));
        assert_eq!(ledger.book(0).open.len(), OPEN_WORDS_MAX);
        ledger.received(receipt(64, 0));
        check(&ledger, "doubled", 0);
        ledger.received(receipt(63, 0));
        check(&ledger, "doubled", 1);
    }

    #[test]
    fn what_was_never_sent_came_changed_and_takes_no_room() {
        let ledger = Ledger::new(2, 1);
        (0..10).for_each(|sequence| ledger.issued(0, sequence));
        for (connection, sequence) in [(0, 10), (0, u64::MAX), (1, 0), (2, 0), (u32::MAX, 3)] {
            ledger.received(Receipt { connection, ..receipt(sequence, 0) });
        }
        check(&ledger, "changed", 5);
        check(&ledger, "received", 0);
        assert!((0..2).all(|connection| ledger.book(connection).words.is_empty()));
        ledger.received(receipt(9, 0));
        check(&ledger, "received", 1);
    }
}
