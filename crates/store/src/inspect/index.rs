//! Compares the key index with the records of the log.

use super::dump::Selection;
use super::result::VerifyResult;
use super::row::{Row, TakeRow};
use super::survey::{Finding, Survey};
use crate::disk::DiskFile;
use crate::index::layout::{HEADER_BYTES, Header, ITEM_BYTES, Item};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Items read at once.
const STEP_ITEMS: u32 = 4096;
/// Most listed findings of a file.
const LISTED_MAX: usize = 20;

/// An index file that is being read.
struct FileReader {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    header: Header,
    /// Bytes of the items that were read last.
    bytes: Vec<u8>,
    /// Number of the first item in `bytes`.
    first: u32,
    /// Number of the next item.
    number: u32,
    /// The newest item of each slot so far.
    slots: Vec<u32>,
}

/// The index files, read in step with the log.
pub(super) struct IndexCheck<'a> {
    survey: &'a Survey,
    /// Files not begun yet, oldest last.
    rest: Vec<PathBuf>,
    reading: Option<FileReader>,
    findings: Vec<Finding>,
    notes: Vec<Finding>,
    bad: Option<PathBuf>,
    items: u64,
    unindexed: u64,
}

impl Survey {
    fn index_files(&self) -> io::Result<Vec<(PathBuf, u64)>> {
        let directory = self.root.join("index");
        let entries = self.disk.list(&directory)?;
        let files = entries.iter().filter(|entry| !entry.is_dir && entry.name.parse::<u64>().is_ok());
        Ok(files.map(|entry| (directory.join(&entry.name), entry.length)).collect())
    }

    fn index_header(&self, path: &Path) -> io::Result<(Arc<dyn DiskFile>, Option<Header>)> {
        let file = self.disk.open(path)?;
        let mut bytes = [0; HEADER_BYTES];
        file.read_at(&mut bytes, 0)?;
        Ok((file, Header::from_bytes(&bytes, self.geometry)))
    }

    pub(super) fn dump_index(&self, wanted: &Selection, give: TakeRow<'_>) -> io::Result<()> {
        for (path, length) in self.index_files()? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let row = Row::new("index").with("file", name.as_str()).with("bytes", length);
            let is_whole = length == self.geometry.file_bytes();
            let (file, header) =
                if is_whole { self.index_header(&path)? } else { (self.disk.open(&path)?, None) };
            let Some(header) = header else {
                let expected = self.geometry.file_bytes();
                let what = format!(
                    "not readable as a file of {expected} bytes; say --index-slots and --index-items"
                );
                if give(row.with("error", what)).is_break() {
                    return Ok(());
                }
                continue;
            };
            let row = row
                .with("beginTime", header.begin_time)
                .with("endTime", header.end_time)
                .with("from", header.begin_offset)
                .with("to", header.end_offset)
                .with("slots", header.slots_used)
                .with("items", header.next - 1);
            if give(row).is_break() {
                return Ok(());
            }
            for number in 1..header.next {
                let mut bytes = [0; ITEM_BYTES];
                file.read_at(&mut bytes, self.geometry.item_at(number))?;
                let item = Item::from_bytes(&bytes);
                if !(wanted.from..wanted.to).contains(&item.offset) {
                    continue;
                }
                let row = Row::new("item")
                    .with("file", name.as_str())
                    .with("number", number)
                    .with("hash", item.hash)
                    .with("at", item.offset)
                    .with("seconds", item.seconds)
                    .with("previous", item.previous);
                if give(row).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

impl<'a> IndexCheck<'a> {
    pub(super) fn of(survey: &'a Survey) -> io::Result<Self> {
        let mut check = Self {
            survey,
            rest: Vec::new(),
            reading: None,
            findings: Vec::new(),
            notes: Vec::new(),
            bad: None,
            items: 0,
            unindexed: 0,
        };
        let expected = survey.geometry.file_bytes();
        for (path, length) in survey.index_files()? {
            if length == expected {
                check.rest.push(path);
                continue;
            }
            let what = format!(
                "it is {length} bytes long, one of {} slots and {} items {expected}; say --index-slots and --index-items (maxHashSlotNum, maxIndexNum) to check it",
                survey.geometry.slots, survey.geometry.items
            );
            check.notes.push(Finding::new(&path, None, what));
        }
        check.rest.reverse();
        Ok(check)
    }

    /// Compares the items of records at log positions `base..end`; `keys` are the keys of these records, with their
    /// positions.
    pub(super) fn check(&mut self, base: u64, end: u64, keys: &[(u64, u32)]) -> io::Result<()> {
        let mut found = vec![false; keys.len()];
        while let Some(item) = self.peek()?.filter(|item| item.offset < end) {
            // Earlier items are of deleted records, or repeated: a RocketMQ broker that starts after a crash indexes the end
            // of the log again.
            if item.offset >= base {
                let range = range_of(keys, item.offset);
                match range
                    .clone()
                    .find(|index| keys[*index].1 == item.hash && !found[*index])
                    .or_else(|| range.clone().find(|index| keys[*index].1 == item.hash))
                {
                    Some(index) => {
                        found[index] = true;
                        self.items += 1;
                    }
                    None => self.find(match range.is_empty() {
                        true => format!("it leads to {}, where no record with keys begins", item.offset),
                        false => format!("the record at {} has no key with hash {}", item.offset, item.hash),
                    }),
                }
            }
            self.pass(item)?;
        }
        self.unindexed += found.iter().filter(|found| !**found).count() as u64;
        Ok(())
    }

    /// The next item, of any file.
    fn peek(&mut self) -> io::Result<Option<Item>> {
        loop {
            if self.reading.is_none() && !self.begin()? {
                return Ok(None);
            }
            let Some(reading) = &mut self.reading else { continue };
            if reading.number >= reading.header.next {
                self.end()?;
                continue;
            }
            let held = (reading.bytes.len() / ITEM_BYTES) as u32;
            if reading.number >= reading.first + held {
                let count = STEP_ITEMS.min(reading.header.next - reading.number);
                reading.first = reading.number;
                reading.bytes.resize(count as usize * ITEM_BYTES, 0);
                reading.file.read_at(&mut reading.bytes, self.survey.geometry.item_at(reading.first))?;
            }
            let at = (reading.number - reading.first) as usize * ITEM_BYTES;
            return Ok(Some(Item::from_bytes(&reading.bytes[at..at + ITEM_BYTES])));
        }
    }

    /// Opens the next file; `false` when there is none.
    fn begin(&mut self) -> io::Result<bool> {
        let Some(path) = self.rest.pop() else { return Ok(false) };
        let (file, header) = self.survey.index_header(&path)?;
        match header {
            Some(header) => {
                let slots = vec![0; self.survey.geometry.slots as usize];
                self.reading =
                    Some(FileReader { path, file, header, bytes: Vec::new(), first: 1, number: 1, slots });
            }
            None => {
                self.findings.push(Finding::new(&path, 0, "its header makes no sense"));
                self.bad.get_or_insert(path);
            }
        }
        Ok(true)
    }

    /// Continues behind an item if it fits the chain of its slot, otherwise with the next file.
    fn pass(&mut self, item: Item) -> io::Result<()> {
        let geometry = self.survey.geometry;
        let Some(reading) = &mut self.reading else { return Ok(()) };
        let slot = &mut reading.slots[geometry.slot_of(item.hash) as usize];
        let can_be = item.hash <= i32::MAX.unsigned_abs() && item.seconds >= 0;
        if can_be && item.previous == *slot {
            *slot = reading.number;
            reading.number += 1;
            return Ok(());
        }
        let what =
            format!("it says that item {} is the one before it in its slot, that is {slot}", item.previous);
        self.find(what);
        self.reading = None;
        Ok(())
    }

    /// Compares the slots of a file that was read to its end.
    fn end(&mut self) -> io::Result<()> {
        let Some(reading) = self.reading.take() else { return Ok(()) };
        // The slots of a file that is being filled are in the broker's memory.
        if self.rest.is_empty() && self.survey.is_running {
            return Ok(());
        }
        let geometry = self.survey.geometry;
        let mut bytes = vec![0; 1 << 16];
        for first in (0..geometry.slots).step_by(bytes.len() / 4) {
            let count = (geometry.slots - first).min(bytes.len() as u32 / 4) as usize;
            reading.file.read_at(&mut bytes[..4 * count], geometry.slot_at(first))?;
            let expected = &reading.slots[first as usize..first as usize + count];
            for (index, (slot, expected)) in bytes.as_chunks::<4>().0.iter().zip(expected).enumerate() {
                let found = u32::from_be_bytes(*slot);
                if found != *expected {
                    let at = geometry.slot_at(first) + 4 * index as u64;
                    let what = format!("the slot says that its newest item is {found}, expected {expected}");
                    self.findings.push(Finding::new(&reading.path, at, what));
                    self.bad.get_or_insert(reading.path);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Adds a finding about the next item.
    fn find(&mut self, what: String) {
        let Some(reading) = &self.reading else { return };
        let at = self.survey.geometry.item_at(reading.number);
        let listed = self.findings.iter().filter(|finding| finding.file == reading.path).count();
        if listed < LISTED_MAX {
            let what = format!("item {}: {what}", reading.number);
            self.findings.push(Finding::new(&reading.path, at, what));
        }
        self.bad.get_or_insert(reading.path.clone());
    }

    /// Reads the remaining items and adds all findings to `verified`.
    pub(super) fn finish(mut self, verified: &mut VerifyResult) -> io::Result<()> {
        while let Some(item) = self.peek()? {
            let is_behind = item.offset >= verified.log_end;
            if is_behind && !self.survey.is_running {
                self.find(format!("it leads to {}, the log ends at {}", item.offset, verified.log_end));
                self.reading = None;
                continue;
            }
            self.pass(item)?;
        }
        if let Some(bad) = self.bad {
            let files = self.survey.index_files()?.into_iter().map(|(path, _)| path);
            verified.bad_index = files.filter(|path| *path >= bad).collect();
        }
        verified.findings.append(&mut self.findings);
        verified.unchecked.append(&mut self.notes);
        verified.index_items = self.items;
        verified.unindexed = if self.survey.has_index { self.unindexed } else { 0 };
        Ok(())
    }
}

/// Indexes of the keys of the record at a log position.
fn range_of(keys: &[(u64, u32)], at: u64) -> Range<usize> {
    let first = keys.partition_point(|(offset, _)| *offset < at);
    let count = keys[first..].iter().take_while(|(offset, _)| *offset == at).count();
    first..first + count
}
