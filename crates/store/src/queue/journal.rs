//! Unit journal: units of records behind the checkpoint, appended to files of Vostok's own. With it, a store with
//! many queues writes to each queue's file rarely. After a crash, the journal restores the units without a read of
//! the log from the last checkpoint on.
//!
//! Files `vostok/units.<number>` hold records in the format of [the table](super::table): length, checksum tied to file
//! number and position, body. The first byte of a body is its kind; all numbers are big-endian:
//!
//! | kind | content |
//! |---|---|
//! | 0, once, at the start | 8: log position at which this file continues |
//! | 1 | groups: 2 + n topic, 4 queue id, 8 queue offset of the first unit, 4 count, units as in a queue file |
//! | 2 | the fields of `JournalEnd`, 8 each: *all units of records before `at`* are in committed queue files or in the journal so far |
//!
//! A record of kind 2 is written after the log is durable up to its position, so a whole record is always valid.
//! Neither checkpoint nor queue table refers to the journal. Groups behind the last record of kind 2 are invalid. A
//! file that does not continue at the end of the preceding file begins a new journal, which is valid if the
//! checkpoint has reached its start. Files wholly before the checkpoint are removed.
//!
//! All of the journal is derived data. If a part of it does not fit, the journal is dropped, and more of the log is
//! read.

use super::Unit;
use super::table::{HEAD_BYTES, checksum, directory};
use crate::disk::{Disk, DiskFile, Space};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const START: u8 = 0;
const GROUPS: u8 = 1;
const END: u8 = 2;
/// Bytes after which a new file is begun.
const FILE_BYTES: u64 = 24 << 20;
/// Initial size of a file in bytes; it grows by doubling.
const ROOM_BYTES_MIN: u64 = 16 << 10;
/// Approximate size in bytes of a record of kind 1.
const PART_BYTES: usize = 512 << 10;

/// The point up to which a journal is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JournalEnd {
    /// Log position before which all records have their units in the journal or the queue files.
    pub(crate) at: u64,
    /// Log position of the newest record before `at`.
    pub(crate) last_record: u64,
    pub(crate) store_timestamp: i64,
}

/// A record of kind 1 that is being assembled.
pub(crate) struct GroupsRecord(Vec<u8>);

impl GroupsRecord {
    pub(crate) fn new() -> Self {
        Self(body(GROUPS))
    }

    pub(crate) fn add(&mut self, topic: &str, queue_id: i32, first: u64, units: impl Iterator<Item = Unit>) {
        let length = u16::try_from(topic.len()).expect("topics have at most 255 bytes");
        self.0.extend_from_slice(&length.to_be_bytes());
        self.0.extend_from_slice(topic.as_bytes());
        self.0.extend_from_slice(&queue_id.to_be_bytes());
        self.0.extend_from_slice(&first.to_be_bytes());
        let at = self.0.len();
        self.0.extend_from_slice(&[0; 4]);
        units.for_each(|unit| self.0.extend_from_slice(&unit.to_bytes()));
        let count = (self.0.len() - at - 4) / 20;
        let count = u32::try_from(count).expect("a tail has less than 4 billion units");
        self.0[at..at + 4].copy_from_slice(&count.to_be_bytes());
    }

    pub(crate) fn is_full(&self) -> bool {
        self.0.len() >= PART_BYTES
    }

    fn is_empty(&self) -> bool {
        self.0.len() == HEAD_BYTES + 1
    }
}

fn body(kind: u8) -> Vec<u8> {
    let mut bytes = vec![0; HEAD_BYTES];
    bytes.push(kind);
    bytes
}

fn path_of(root: &Path, number: u64) -> PathBuf {
    directory(root).join(format!("units.{number}"))
}

/// Numbers of the existing files, ascending.
fn numbers(disk: &dyn Disk, root: &Path) -> io::Result<Vec<u64>> {
    let entries = disk.list(&directory(root))?;
    let mut numbers: Vec<u64> =
        entries.iter().filter_map(|entry| entry.name.strip_prefix("units.")?.parse().ok()).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Removes all files except those in `kept`. The removal is durable when this returns.
pub(crate) fn remove_except(disk: &dyn Disk, root: &Path, kept: &[u64]) -> io::Result<()> {
    let gone: Vec<u64> = numbers(disk, root)?.into_iter().filter(|number| !kept.contains(number)).collect();
    if gone.is_empty() {
        return Ok(());
    }
    gone.iter().try_for_each(|number| disk.remove(&path_of(root, *number)))?;
    disk.sync_dir(&directory(root))
}

/// The file of the unit journal that is being written.
struct JournalFile {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    at: u64,
    length: u64,
}

/// The unit journal as its writer holds it.
#[derive(Default)]
pub(crate) struct UnitJournal {
    /// The newest file number used.
    number: u64,
    open: Option<JournalFile>,
    /// Log position up to which the journal is complete; `None` before the first entry and after an error.
    end: Option<u64>,
    /// Log position that the checkpoint must reach before a new journal may begin: some units before it are in neither
    /// journal nor files.
    gap_end: u64,
    /// Finished files: their numbers, and the log position at which each ends.
    older: Vec<(u64, u64)>,
}

impl UnitJournal {
    /// Continues the journal of an earlier run, after its units were restored.
    pub(crate) fn resume(&mut self, found: &PreviousJournal) {
        self.number = found.files.last().map_or(0, |(number, _)| *number);
        self.end = Some(found.end.at);
        self.older = found.files.iter().map(|(number, _)| (*number, found.end.at)).collect();
    }

    /// Log position up to which the journal is complete.
    pub(crate) fn end(&self) -> Option<u64> {
        self.end
    }

    /// Drops the journal: some units of records before log position `end` are in neither journal nor queue files.
    pub(crate) fn give_up(&mut self, disk: &dyn Disk, root: &Path, end: u64) {
        self.gap_end = self.gap_end.max(end);
        self.end = None;
        self.open = None;
        self.older.clear();
        if let Err(error) = remove_except(disk, root, &[]) {
            tracing::debug!(%error, "files of the unit journal stay; they end before what is missing");
        }
    }

    /// Prepares for an entry; `committed` is the checkpoint's log position. Returns `false` when units before the
    /// entry are in neither journal nor queue files, so that the entry would be invalid.
    pub(crate) fn begin(
        &mut self,
        disk: &dyn Disk,
        root: &Path,
        committed: u64,
        file_bytes: u64,
    ) -> io::Result<bool> {
        let from = match self.end {
            Some(end) if end >= committed => end,
            _ if committed < self.gap_end => return Ok(false),
            _ => committed,
        };
        let goes_on = self.end == Some(from);
        if goes_on && self.open.as_ref().is_some_and(|open| open.at < file_bytes.min(FILE_BYTES)) {
            return Ok(true);
        }
        if self.open.take().is_some() {
            self.older.push((self.number, self.end.unwrap_or(0)));
        }
        self.number += 1;
        let path = path_of(root, self.number);
        disk.create_dir_all(&directory(root))?;
        // A leftover file of this name may have any content.
        disk.remove(&path)?;
        let length = ROOM_BYTES_MIN;
        let file = disk.create(&path, length, Space::Sparse)?;
        self.open = Some(JournalFile { file, path, at: 0, length });
        let mut start = body(START);
        start.extend_from_slice(&from.to_be_bytes());
        self.write(disk, start)?;
        disk.sync_dir(&directory(root))?;
        self.end = Some(from);
        Ok(true)
    }

    fn write(&mut self, disk: &dyn Disk, mut bytes: Vec<u8>) -> io::Result<()> {
        let open = self.open.as_mut().expect("begun before anything is written");
        let length = u32::try_from(bytes.len() - HEAD_BYTES).map_err(io::Error::other)?;
        let sum = checksum(self.number, open.at, &bytes[HEAD_BYTES..]);
        bytes[..4].copy_from_slice(&length.to_be_bytes());
        bytes[4..8].copy_from_slice(&sum.to_be_bytes());
        let end = open.at + bytes.len() as u64;
        if end > open.length {
            open.length = end.max(open.length * 2);
            open.file = disk.create(&open.path, open.length, Space::Sparse)?;
        }
        open.file.write_at(&bytes, open.at)?;
        open.at = end;
        Ok(())
    }

    /// Adds groups, which are valid after [`Self::finish`].
    pub(crate) fn add(&mut self, disk: &dyn Disk, part: &mut GroupsRecord) -> io::Result<()> {
        if part.is_empty() {
            return Ok(());
        }
        let part = std::mem::replace(part, GroupsRecord::new());
        self.write(disk, part.0)
    }

    /// Ends an entry. The log is durable up to the entry's position. The entry is durable when this returns.
    pub(crate) fn finish(&mut self, disk: &dyn Disk, end: JournalEnd) -> io::Result<()> {
        let mut bytes = body(END);
        for number in [end.at, end.last_record, end.store_timestamp.cast_unsigned()] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        self.write(disk, bytes)?;
        self.open.as_ref().map_or(Ok(()), |open| open.file.sync())?;
        self.end = Some(end.at);
        Ok(())
    }

    /// Removes the files that lie wholly before the checkpoint.
    pub(crate) fn remove_passed(&mut self, disk: &dyn Disk, root: &Path, committed: u64) -> io::Result<()> {
        let (gone, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.older).into_iter().partition(|(_, end)| *end <= committed);
        self.older = kept;
        if self.end.is_some_and(|end| end <= committed) && self.open.take().is_some() {
            disk.remove(&path_of(root, self.number))?;
        }
        gone.iter().try_for_each(|(number, _)| disk.remove(&path_of(root, *number)))
    }
}

/// A unit journal found when the store is opened.
pub(crate) struct PreviousJournal {
    pub(crate) end: JournalEnd,
    /// Numbers of the journal's files, each with the position in the file behind its last valid record.
    files: Vec<(u64, u64)>,
}

/// Consecutive units of a queue.
pub(crate) struct UnitGroup<'a> {
    pub(crate) topic: &'a str,
    pub(crate) queue_id: i32,
    pub(crate) first: u64,
    units: &'a [u8],
}

impl UnitGroup<'_> {
    pub(crate) fn units(&self) -> impl Iterator<Item = Option<Unit>> + '_ {
        self.units.as_chunks::<20>().0.iter().map(|bytes| Unit::from_bytes(bytes))
    }
}

/// Finds the journal that reaches beyond `committed`, the checkpoint's log position. Returns `None` when no journal
/// does.
pub(crate) fn find(disk: &dyn Disk, root: &Path, committed: u64) -> io::Result<Option<PreviousJournal>> {
    let mut at = None;
    let mut end = None;
    let mut files = Vec::new();
    for number in numbers(disk, root)? {
        let mut records = Records::open(disk, root, number)?;
        let Some(from) = records.next()?.and_then(|body| number_at(body.strip_prefix(&[START])?, 0)) else {
            continue;
        };
        if at != Some(from) {
            if from > committed {
                continue;
            }
            (end, files) = (None, Vec::new());
        }
        at = Some(from);
        let mut until = records.at;
        while let Some(body) = records.next()? {
            if let Some(found) = end_of(body) {
                (at, end) = (Some(found.at), Some(found));
                until = records.at;
            }
        }
        files.push((number, until));
    }
    Ok(end.filter(|end| end.at > committed).map(|end| PreviousJournal { end, files }))
}

fn number_at(bytes: &[u8], index: usize) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.get(index * 8..index * 8 + 8)?.try_into().ok()?))
}

fn end_of(body: &[u8]) -> Option<JournalEnd> {
    let rest = body.strip_prefix(&[END])?;
    let number = |index| number_at(rest, index);
    Some(JournalEnd { at: number(0)?, last_record: number(1)?, store_timestamp: number(2)?.cast_signed() })
}

impl PreviousJournal {
    /// The numbers of the journal's files.
    pub(crate) fn numbers(&self) -> Vec<u64> {
        self.files.iter().map(|(number, _)| *number).collect()
    }

    /// Passes all groups in order to the callback until it returns false. Returns `false` if the
    /// callback did, or if a record is damaged.
    pub(crate) fn each_group(
        &self,
        disk: &dyn Disk,
        root: &Path,
        mut take: impl FnMut(&UnitGroup<'_>) -> bool,
    ) -> io::Result<bool> {
        for (number, until) in &self.files {
            let mut records = Records::open(disk, root, *number)?;
            while records.at < *until {
                let Some(body) = records.next()? else { return Ok(false) };
                let Some(mut rest) = body.strip_prefix(&[GROUPS]) else { continue };
                while !rest.is_empty() {
                    let group = group(&mut rest).ok_or(io::Error::from(ErrorKind::InvalidData))?;
                    if !take(&group) {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }
}

fn group<'a>(rest: &mut &'a [u8]) -> Option<UnitGroup<'a>> {
    let length = u16::from_be_bytes(rest.split_off(..2)?.try_into().ok()?);
    let topic = str::from_utf8(rest.split_off(..usize::from(length))?).ok()?;
    let queue_id = i32::from_be_bytes(rest.split_off(..4)?.try_into().ok()?);
    let first = u64::from_be_bytes(rest.split_off(..8)?.try_into().ok()?);
    let count = u32::from_be_bytes(rest.split_off(..4)?.try_into().ok()?);
    let units = rest.split_off(..usize::try_from(count).ok()?.checked_mul(20)?)?;
    Some(UnitGroup { topic, queue_id, first, units })
}

/// Iterates over the whole records of a file.
struct Records {
    file: Arc<dyn DiskFile>,
    number: u64,
    length: u64,
    /// Position behind the record returned last.
    at: u64,
    bytes: Vec<u8>,
}

impl Records {
    fn open(disk: &dyn Disk, root: &Path, number: u64) -> io::Result<Self> {
        let file = disk.open(&path_of(root, number))?;
        let length = file.length()?;
        Ok(Self { file, number, length, at: 0, bytes: Vec::new() })
    }

    /// The next record's body; `None` where no whole record follows.
    fn next(&mut self) -> io::Result<Option<&[u8]>> {
        let start = self.at + HEAD_BYTES as u64;
        if start > self.length {
            return Ok(None);
        }
        let mut head = [0; HEAD_BYTES];
        self.file.read_at(&mut head, self.at)?;
        let length = u32::from_be_bytes(head[..4].try_into().expect("four bytes sliced"));
        let sum = u32::from_be_bytes(head[4..].try_into().expect("four bytes sliced"));
        if length == 0 || start + u64::from(length) > self.length {
            return Ok(None);
        }
        self.bytes.resize(length as usize, 0);
        self.file.read_at(&mut self.bytes, start)?;
        if checksum(self.number, self.at, &self.bytes) != sum {
            return Ok(None);
        }
        self.at = start + u64::from(length);
        Ok(Some(&self.bytes))
    }
}

#[cfg(test)]
mod tests;
