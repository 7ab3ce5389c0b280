//! Part of the replicated log that a controller has in memory: the entries behind the newest snapshot. The shell
//! stores them on disk as [`Record`]s.

use super::record::{Entry, Record, Snapshot, Vote};
use raft::eraftpb::{self, ConfState};
use raft::{Error, GetEntriesContext, RaftState, StorageError};
use std::collections::VecDeque;

/// Log of a controller.
pub(super) struct Log {
    voters: Vec<u64>,
    hard: Vote,
    snapshot: Snapshot,
    entries: VecDeque<Entry>,
    bytes: usize,
}

impl Log {
    /// The log that these records describe, in the order in which they were saved.
    pub(super) fn new(voters: Vec<u64>, records: impl IntoIterator<Item = Record>) -> Self {
        let (hard, snapshot) = (Vote::default(), Snapshot::default());
        let mut log = Self { voters, hard, snapshot, entries: VecDeque::new(), bytes: 0 };
        for record in records {
            log.save(&record);
        }
        // A commit index behind the log's end can only come from a record that never became durable.
        log.hard.commit = log.hard.commit.min(log.end());
        log
    }

    /// Applies a record to the log in memory. An entry replaces the entries from its index on, and a snapshot replaces all
    /// entries. Ignores an entry that would leave a gap.
    pub(super) fn save(&mut self, record: &Record) {
        match record {
            Record::Hard(hard) => self.hard = *hard,
            Record::Entry(entry) => {
                // An entry replaces those from its index on: another leader wrote them, and they were never committed.
                while self.entries.back().is_some_and(|last| last.index >= entry.index) {
                    self.drop_last();
                }
                if entry.index == self.end() + 1 {
                    self.bytes += entry.data.len();
                    self.entries.push_back(entry.clone());
                }
            }
            Record::Snapshot(snapshot) => {
                self.snapshot = snapshot.clone();
                self.entries.clear();
                self.bytes = 0;
                self.hard.commit = self.hard.commit.max(snapshot.index);
            }
        }
    }

    fn drop_last(&mut self) {
        if let Some(entry) = self.entries.pop_back() {
            self.bytes -= entry.data.len();
        }
    }

    /// Replaces everything up to an applied entry by the state behind it.
    pub(super) fn compact(&mut self, index: u64, state: Vec<u8>) {
        let Some(term) = self.term_at(index) else { return };
        while self.entries.front().is_some_and(|first| first.index <= index) {
            if let Some(entry) = self.entries.pop_front() {
                self.bytes -= entry.data.len();
            }
        }
        self.snapshot = Snapshot { index, term, state };
    }

    /// Returns all records that must be on disk.
    pub(super) fn records(&self) -> Vec<Record> {
        let entries = self.entries.iter().cloned().map(Record::Entry);
        let mut records = vec![Record::Snapshot(self.snapshot.clone())];
        records.extend(entries);
        records.push(Record::Hard(self.hard));
        records
    }

    /// The newest snapshot.
    pub(super) fn latest_snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Records the committed end of the log.
    pub(super) fn commit(&mut self, index: u64) {
        self.hard.commit = index;
    }

    /// Entries and their bytes behind the snapshot.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.entries.len(), self.bytes)
    }

    /// Index of the last entry.
    pub(super) fn end(&self) -> u64 {
        self.entries.back().map_or(self.snapshot.index, |entry| entry.index)
    }

    fn term_at(&self, index: u64) -> Option<u64> {
        if index == self.snapshot.index {
            return Some(self.snapshot.term);
        }
        let at = index.checked_sub(self.snapshot.index + 1)?;
        self.entries.get(usize::try_from(at).ok()?).map(|entry| entry.term)
    }

    fn conf_state(&self) -> ConfState {
        (self.voters.clone(), Vec::new()).into()
    }
}

impl raft::Storage for Log {
    fn initial_state(&self) -> raft::Result<RaftState> {
        Ok(RaftState::new(self.hard.into(), self.conf_state()))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _context: GetEntriesContext,
    ) -> raft::Result<Vec<eraftpb::Entry>> {
        let first = self.snapshot.index + 1;
        if low < first {
            return Err(Error::Store(StorageError::Compacted));
        }
        assert!(high <= self.end() + 1, "entries up to {high} of a log that ends with {}", self.end());
        let max_size = max_size.into().unwrap_or(u64::MAX);
        let mut size = 0;
        let (from, to) = ((low - first) as usize, (high - first) as usize);
        let fits = |entry: &&Entry| {
            size += entry.data.len() as u64;
            size <= max_size
        };
        let mut entries: Vec<_> =
            self.entries.range(from..to).take_while(fits).cloned().map(Into::into).collect();
        if entries.is_empty() {
            // The first entry is sent whatever its size is.
            entries.extend(self.entries.range(from..to).take(1).cloned().map(Into::into));
        }
        Ok(entries)
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        match self.term_at(index) {
            Some(term) => Ok(term),
            None if index < self.snapshot.index => Err(Error::Store(StorageError::Compacted)),
            None => Err(Error::Store(StorageError::Unavailable)),
        }
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.snapshot.index + 1)
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.end())
    }

    fn snapshot(&self, request_index: u64, _to: u64) -> raft::Result<eraftpb::Snapshot> {
        if self.snapshot.index < request_index {
            return Err(Error::Store(StorageError::SnapshotTemporarilyUnavailable));
        }
        Ok(self.snapshot.to_raft(self.conf_state()))
    }
}
