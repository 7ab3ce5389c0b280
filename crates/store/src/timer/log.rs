//! The timer log's files: a sequence of units, none of which spans two files.

use super::unit::{BLANK_BYTES, TimerContent, TimerUnit, UNIT_BYTES, blank, look};
use crate::disk::file_name;
use crate::disk::{Disk, DiskFile, Space};
use crate::error::OpenError;
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::{Arc, RwLock};

/// Bytes read at once while units are scanned.
const STEP_BYTES: u64 = 1 << 20;

#[derive(Clone)]
struct TimerLogFile {
    base: u64,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
}

/// Files of the timer log, ascending and without gaps. Reading takes a shared reference. A single owner writes.
pub struct TimerLog {
    directory: PathBuf,
    file_bytes: u64,
    disk: Arc<dyn Disk>,
    files: RwLock<VecDeque<TimerLogFile>>,
    /// Whether a file was missing between others, or was truncated, at opening. Files before the gap are not in
    /// `files`.
    has_gap: bool,
}

impl TimerLog {
    /// Opens the existing files.
    pub(super) fn open(directory: PathBuf, file_bytes: u64, disk: Arc<dyn Disk>) -> Result<Self, OpenError> {
        disk.create_dir_all(&directory).map_err(OpenError::io(&directory))?;
        let mut entries = disk.list(&directory).map_err(OpenError::io(&directory))?;
        entries.retain(|entry| !entry.is_dir);
        let mut files = VecDeque::<TimerLogFile>::new();
        let mut has_gap = false;
        let count = entries.len();
        for (index, entry) in entries.into_iter().enumerate() {
            let path = directory.join(&entry.name);
            let base = entry.name.parse::<u64>().ok().filter(|base| file_name(*base) == entry.name);
            let base = base.ok_or_else(|| OpenError::FileName { path: path.clone() })?;
            if entry.length == 0 && index + 1 == count {
                disk.remove(&path).map_err(OpenError::io(&path))?;
                continue;
            }
            if entry.length > file_bytes {
                return Err(OpenError::FileSize { path, expected: file_bytes, found: entry.length });
            }
            if entry.length < file_bytes {
                tracing::error!(path = %path.display(), found = entry.length, expected = file_bytes, "a file of the timer log is cut off");
                files.clear();
                has_gap = true;
                continue;
            }
            if files.back().is_some_and(|last| last.base + file_bytes != base) {
                // Deletion of old files leaves no gap: recovery drops the timer log.
                tracing::warn!(path = %path.display(), "the timer log misses the file before this one");
                files.clear();
                has_gap = true;
            }
            let file = disk.open(&path).map_err(OpenError::io(&path))?;
            files.push_back(TimerLogFile { base, path, file });
        }
        Ok(Self { directory, file_bytes, disk, files: RwLock::new(files), has_gap })
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, VecDeque<TimerLogFile>> {
        self.files.read().unwrap_or_else(|poison| poison.into_inner())
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, VecDeque<TimerLogFile>> {
        self.files.write().unwrap_or_else(|poison| poison.into_inner())
    }

    /// First position that the timer log holds.
    pub fn min(&self) -> u64 {
        self.read().front().map_or(0, |file| file.base)
    }

    /// Whether a file was missing between others, or was truncated, at opening.
    pub(super) fn has_gap(&self) -> bool {
        self.has_gap
    }

    /// Position behind the last file, used or not.
    pub(super) fn capacity_end(&self) -> u64 {
        self.read().back().map_or(0, |file| file.base + self.file_bytes)
    }

    pub(super) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    fn file_of(&self, at: u64) -> Option<TimerLogFile> {
        let files = self.read();
        let first = files.front()?.base;
        let index = usize::try_from(at.checked_sub(first)? / self.file_bytes).ok()?;
        files.get(index).cloned()
    }

    /// Fills `target` from position `at`, but reads at most to the end of the file with that position. Returns the
    /// number of bytes.
    ///
    /// # Errors
    /// `NotFound` when the timer log does not hold the position; otherwise the error of the read.
    pub(super) fn read_at(&self, target: &mut [u8], at: u64) -> io::Result<usize> {
        let file = self.file_of(at).ok_or(io::Error::from(ErrorKind::NotFound))?;
        let left = file.base + self.file_bytes - at;
        let length = usize::try_from(left).map_or(target.len(), |left| left.min(target.len()));
        file.file.read_at(&mut target[..length], at - file.base)?;
        Ok(length)
    }

    /// Start of the file that holds a position.
    pub(super) fn base_of(&self, at: u64) -> u64 {
        at / self.file_bytes * self.file_bytes
    }

    /// Returns the position of the unit behind `end`: the start of the next file if the unit does not fit into the
    /// current file.
    pub(super) fn place(&self, end: u64) -> u64 {
        let left = self.file_bytes - end % self.file_bytes;
        if left < UNIT_BYTES + BLANK_BYTES { end + left } else { end }
    }

    /// Creates the file for the unit at `at` if it is missing.
    ///
    /// # Errors
    /// `StorageFull` when there is no space; otherwise the error of the failed file operation. Nothing has changed then.
    pub(super) fn ensure(&self, at: u64) -> io::Result<()> {
        let base = self.base_of(at);
        if base < self.capacity_end() {
            return Ok(());
        }
        assert!(self.read().is_empty() || base == self.capacity_end(), "files are made in order");
        let path = self.directory.join(file_name(base));
        let mut beside = self.directory.clone().into_os_string();
        beside.push(".next");
        let beside = PathBuf::from(beside);
        self.disk.remove(&beside)?;
        let file = self.disk.create(&beside, self.file_bytes, Space::Reserved)?;
        // The file's length must be durable before its name is.
        file.sync()?;
        self.disk.rename(&beside, &path)?;
        self.disk.sync_dir(&self.directory)?;
        self.write().push_back(TimerLogFile { base, path, file });
        Ok(())
    }

    /// Writes bytes that lie in a single file.
    pub(super) fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let file = self.file_of(at).ok_or(io::Error::from(ErrorKind::NotFound))?;
        file.file.write_at(bytes, at - file.base)
    }

    /// Writes the mark at position `at` that ends the file there.
    pub(super) fn write_blank(&self, at: u64) -> io::Result<()> {
        let left = self.file_bytes - at % self.file_bytes;
        if left < BLANK_BYTES {
            return Ok(());
        }
        self.write_at(&blank(left), at)
    }

    /// Makes the positions `from..end` durable.
    pub(super) fn sync(&self, from: u64, end: u64) -> io::Result<()> {
        let files: Vec<TimerLogFile> = self
            .read()
            .iter()
            .filter(|file| file.base < end && from < file.base + self.file_bytes)
            .cloned()
            .collect();
        files.iter().try_for_each(|file| file.file.sync())
    }

    /// Passes the units to `take`, from the start of the file that contains `from`, until a unit is missing or `take`
    /// returns false. Returns the position behind the last accepted unit.
    pub(super) fn scan(&self, from: u64, mut take: impl FnMut(u64, TimerUnit) -> bool) -> io::Result<u64> {
        let mut at = self.base_of(from).max(self.min());
        let mut end = at;
        let mut buffer = vec![0; usize::try_from(STEP_BYTES.min(self.file_bytes)).expect("a megabyte")];
        while at < self.capacity_end() {
            let filled = self.read_at(&mut buffer, at)?;
            let mut used = 0;
            let file_end = self.base_of(at) + self.file_bytes;
            while used < filled {
                let rest = &buffer[used..filled];
                let here = at + used as u64;
                if file_end - here < UNIT_BYTES + BLANK_BYTES {
                    break;
                }
                if rest.len() < UNIT_BYTES as usize {
                    break;
                }
                match look(rest) {
                    TimerContent::Unit(unit) if take(here, unit) => {
                        used += UNIT_BYTES as usize;
                        end = here + UNIT_BYTES;
                    }
                    TimerContent::Blank => break,
                    _ => return Ok(end),
                }
            }
            let here = at + used as u64;
            let blank = matches!(look(&buffer[used..filled]), TimerContent::Blank);
            at = if blank || file_end - here < UNIT_BYTES + BLANK_BYTES { file_end } else { here };
        }
        Ok(end)
    }

    /// Removes the files behind `end` and fills the rest of the file at `end` with zeros, because old units must not
    /// follow new units.
    pub(super) fn cut(&self, end: u64) -> io::Result<()> {
        let mut files = self.write();
        while files.back().is_some_and(|file| file.base >= end.max(1) && file.base != self.base_of(end)) {
            let file = files.pop_back().expect("looked at above");
            self.disk.remove(&file.path)?;
        }
        self.disk.sync_dir(&self.directory)?;
        if let Some(last) = files.back().filter(|file| file.base <= end) {
            let from = end - last.base;
            if from < self.file_bytes {
                last.file.zero(from, self.file_bytes - from)?;
                last.file.sync()?;
            }
        }
        Ok(())
    }

    /// Removes all files, including files before a gap, newest first. A crash then leaves a log without its end, or a
    /// log whose missing beginning is visible.
    pub(super) fn clear(&self) -> io::Result<()> {
        let mut files = self.write();
        files.clear();
        let entries = self.disk.list(&self.directory)?;
        for entry in entries.iter().rev().filter(|entry| !entry.is_dir) {
            self.disk.remove(&self.directory.join(&entry.name))?;
        }
        self.disk.sync_dir(&self.directory)
    }

    /// Removes the first file if it ends before `limit`; returns whether it did. The last file is never removed.
    pub(super) fn remove_first(&self, limit: u64) -> io::Result<bool> {
        let mut files = self.write();
        let old = files.len() > 1 && files.front().is_some_and(|file| file.base + self.file_bytes <= limit);
        if old && let Some(file) = files.pop_front() {
            self.disk.remove(&file.path)?;
            drop(files);
            // Synced before the next file is removed: a gap would mean that units are lost.
            self.disk.sync_dir(&self.directory)?;
        }
        Ok(old)
    }
}
