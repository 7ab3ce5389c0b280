//! The timer log's files: units one behind the other, none across two files.

use super::unit::{BLANK_BYTES, Found, TimerUnit, UNIT_BYTES, blank, look};
use crate::disk::{Disk, DiskFile, Space};
use crate::error::OpenError;
use crate::queue::files::file_name;
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::{Arc, RwLock};

/// Bytes read at once while units are looked through.
const STEP_BYTES: u64 = 1 << 20;

#[derive(Clone)]
struct LogFile {
    base: u64,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
}

/// The files, ascending and without gaps. Reading needs no more than a shared reference; one owner writes.
pub struct TimerLog {
    directory: PathBuf,
    file_bytes: u64,
    disk: Arc<dyn Disk>,
    files: RwLock<VecDeque<LogFile>>,
    /// A file was missing between others, or cut off, when they were opened; those before it are not in `files`.
    has_gap: bool,
}

impl TimerLog {
    /// Opens the files there are.
    pub(super) fn open(directory: PathBuf, file_bytes: u64, disk: Arc<dyn Disk>) -> Result<Self, OpenError> {
        disk.create_dir_all(&directory).map_err(OpenError::io(&directory))?;
        let mut entries = disk.list(&directory).map_err(OpenError::io(&directory))?;
        entries.retain(|entry| !entry.is_dir);
        let mut files = VecDeque::<LogFile>::new();
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
                // Retention leaves no gap: recovery lets the log go.
                tracing::warn!(path = %path.display(), "the timer log misses the file before this one");
                files.clear();
                has_gap = true;
            }
            let file = disk.open(&path).map_err(OpenError::io(&path))?;
            files.push_back(LogFile { base, path, file });
        }
        Ok(Self { directory, file_bytes, disk, files: RwLock::new(files), has_gap })
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, VecDeque<LogFile>> {
        self.files.read().unwrap_or_else(|poison| poison.into_inner())
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, VecDeque<LogFile>> {
        self.files.write().unwrap_or_else(|poison| poison.into_inner())
    }

    /// First position held.
    #[must_use]
    pub fn min(&self) -> u64 {
        self.read().front().map_or(0, |file| file.base)
    }

    /// Whether a file was missing between others, or cut off, when they were opened.
    pub(super) fn has_gap(&self) -> bool {
        self.has_gap
    }

    /// End of the last file, used or not.
    pub(super) fn capacity_end(&self) -> u64 {
        self.read().back().map_or(0, |file| file.base + self.file_bytes)
    }

    pub(super) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    fn file_of(&self, at: u64) -> Option<LogFile> {
        let files = self.read();
        let first = files.front()?.base;
        let index = usize::try_from(at.checked_sub(first)? / self.file_bytes).ok()?;
        files.get(index).cloned()
    }

    /// Fills as much of `target` as the file of `at` holds from there; answers how much.
    ///
    /// # Errors
    /// The disk's; `NotFound` when the position is not held.
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

    /// Where the unit behind `end` goes: at the start of the next file when it does not fit into this one.
    pub(super) fn place(&self, end: u64) -> u64 {
        let left = self.file_bytes - end % self.file_bytes;
        if left < UNIT_BYTES + BLANK_BYTES { end + left } else { end }
    }

    /// Makes sure that a file is there for the unit at `at`.
    ///
    /// # Errors
    /// The disk's; `StorageFull` when there is no space, and then nothing has changed.
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
        // Its length must be durable before its name is.
        file.sync()?;
        self.disk.rename(&beside, &path)?;
        self.disk.sync_dir(&self.directory)?;
        self.write().push_back(LogFile { base, path, file });
        Ok(())
    }

    /// Writes bytes of one file.
    pub(super) fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let file = self.file_of(at).ok_or(io::Error::from(ErrorKind::NotFound))?;
        file.file.write_at(bytes, at - file.base)
    }

    /// Ends the file of `at` there.
    pub(super) fn write_blank(&self, at: u64) -> io::Result<()> {
        let left = self.file_bytes - at % self.file_bytes;
        if left < BLANK_BYTES {
            return Ok(());
        }
        self.write_at(&blank(left), at)
    }

    /// Makes a range durable.
    pub(super) fn sync(&self, from: u64, end: u64) -> io::Result<()> {
        let files: Vec<LogFile> = self
            .read()
            .iter()
            .filter(|file| file.base < end && from < file.base + self.file_bytes)
            .cloned()
            .collect();
        files.iter().try_for_each(|file| file.file.sync())
    }

    /// Goes through the units from the start of the file that holds `from`, until one is missing or `take` says
    /// stop; answers the end of the last one taken.
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
                    Found::Unit(unit) if take(here, unit) => {
                        used += UNIT_BYTES as usize;
                        end = here + UNIT_BYTES;
                    }
                    Found::Blank => break,
                    _ => return Ok(end),
                }
            }
            let here = at + used as u64;
            let blank = matches!(look(&buffer[used..filled]), Found::Blank);
            at = if blank || file_end - here < UNIT_BYTES + BLANK_BYTES { file_end } else { here };
        }
        Ok(end)
    }

    /// Removes the files behind `end` and turns the rest of its own into zeros: what was written there once must not
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

    /// Removes all files, those before a gap as well. The newest go first: what a crash leaves of them is a log that
    /// lost its end, or still shows that its beginning is missing.
    pub(super) fn clear(&self) -> io::Result<()> {
        let mut files = self.write();
        files.clear();
        let entries = self.disk.list(&self.directory)?;
        for entry in entries.iter().rev().filter(|entry| !entry.is_dir) {
            self.disk.remove(&self.directory.join(&entry.name))?;
        }
        self.disk.sync_dir(&self.directory)
    }

    /// Removes the first file if it ends before `limit`; answers whether it did. The last file stays.
    pub(super) fn remove_first(&self, limit: u64) -> io::Result<bool> {
        let mut files = self.write();
        let old = files.len() > 1 && files.front().is_some_and(|file| file.base + self.file_bytes <= limit);
        if old && let Some(file) = files.pop_front() {
            self.disk.remove(&file.path)?;
            drop(files);
            // Before the next one goes: a gap means that units are lost.
            self.disk.sync_dir(&self.directory)?;
        }
        Ok(old)
    }
}
