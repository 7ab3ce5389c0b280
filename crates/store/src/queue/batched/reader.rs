//! Reads RocketMQ's batch consume queue files.

use super::{BATCH_UNIT_BYTES, BatchUnit};
use crate::disk::file_name;
use crate::disk::{Disk, DiskFile};
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes read at once.
const STEP_BYTES: u64 = 1024 * BATCH_UNIT_BYTES;

/// Start positions of a queue's files, ascending.
///
/// # Errors
/// `InvalidData` when a file has a wrong size or name; otherwise the error of listing the directory.
pub(super) fn starts(disk: &dyn Disk, directory: &Path, file_bytes: u64) -> io::Result<VecDeque<u64>> {
    let mut starts = VecDeque::new();
    let mut entries: Vec<_> = disk.list(directory)?.into_iter().filter(|entry| !entry.is_dir).collect();
    // An empty last file was left by a crash right after its creation.
    entries.pop_if(|last| last.length == 0);
    for entry in entries {
        let start = entry.name.parse::<u64>().ok().filter(|start| start.is_multiple_of(file_bytes));
        let is_next = starts.back().is_none_or(|last| start == Some(last + file_bytes));
        match start.filter(|_| is_next && entry.length == file_bytes) {
            Some(start) => starts.push_back(start),
            None => {
                let (path, found) = (directory.join(&entry.name), entry.length);
                let text = format!(
                    "{} of {found} bytes does not fit: expected files of {file_bytes} bytes (mapperFileSizeBatchConsumeQueue), each named by where the one before ends",
                    path.display()
                );
                return Err(io::Error::new(ErrorKind::InvalidData, text));
            }
        }
    }
    Ok(starts)
}

/// Iterates over the units of a queue's files, up to the first unit that is empty or does not continue the
/// queue.
pub(crate) struct BatchUnitReader {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    file_bytes: u64,
    /// Start positions of the files not begun yet.
    pub(super) starts: VecDeque<u64>,
    file: Option<Arc<dyn DiskFile>>,
    /// Position of the next unit.
    at: u64,
    /// Bytes of the file that were read at once; they contain the position `at`.
    chunk: Vec<u8>,
    /// Number of bytes in `chunk` before the next unit.
    passed: usize,
    last: Option<BatchUnit>,
}

impl BatchUnitReader {
    pub(crate) fn of(disk: Arc<dyn Disk>, directory: PathBuf, file_bytes: u64) -> io::Result<Self> {
        let starts = starts(&*disk, &directory, file_bytes)?;
        Ok(Self {
            disk,
            directory,
            file_bytes,
            starts,
            file: None,
            at: 0,
            chunk: Vec::new(),
            passed: 0,
            last: None,
        })
    }

    /// Position of the next unit, or the position behind the last unit.
    pub(super) fn position(&self) -> u64 {
        self.at
    }

    /// The next unit; `None` at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<BatchUnit>> {
        if self.passed == self.chunk.len() {
            if self.file.is_none() || self.at.is_multiple_of(self.file_bytes) {
                let Some(start) = self.starts.pop_front() else { return Ok(None) };
                self.file = Some(self.disk.open(&self.directory.join(file_name(start)))?);
                self.at = start;
            }
            self.fill()?;
        }
        let bytes = &self.chunk[self.passed..self.passed + BATCH_UNIT_BYTES as usize];
        let follows = |unit: &BatchUnit| {
            self.last.is_none_or(|last| unit.base >= last.end() && unit.unit.log_offset >= last.unit.end())
        };
        let Some(unit) = BatchUnit::from_bytes(bytes).filter(follows) else { return Ok(None) };
        self.passed += BATCH_UNIT_BYTES as usize;
        self.at += BATCH_UNIT_BYTES;
        self.last = Some(unit);
        Ok(Some(unit))
    }

    fn fill(&mut self) -> io::Result<()> {
        let in_file = self.at % self.file_bytes;
        let bytes = STEP_BYTES.min(self.file_bytes - in_file);
        self.chunk.resize(usize::try_from(bytes).map_err(io::Error::other)?, 0);
        self.passed = 0;
        let file = self.file.as_ref().expect("opened before it is read");
        file.read_at(&mut self.chunk, in_file)?;
        Ok(())
    }
}
