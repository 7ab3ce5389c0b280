//! Copies of the bytes that recovery cuts from the end of the commit log, in the directory `vostok/cut`: a torn
//! record and the bytes behind it. The copies are for people. Brokers do not read them.
//!
//! A file `<20 digits>.<number>` holds bytes of a commit log file, from the log position in its name up to the last
//! byte that is not zero. The newest [`COPIES_MAX`] copies are kept. A cut copies at most [`BYTES_MAX`] bytes.

use super::Recovery;
use crate::disk::Space;
use crate::disk::file_name;
use crate::error::is_lack;
use crate::log::Segment;
use crate::queue::table;
use std::io;
use std::path::{Path, PathBuf};

/// Most bytes that a cut copies.
const BYTES_MAX: u64 = 64 << 20;
/// Most copies in the directory, including the copies of the current cut. A cut copies at most as many commit log
/// files.
const COPIES_MAX: usize = 16;
/// Bytes read and written at once while copying.
const STEP_BYTES: u64 = 64 << 10;
/// Number of zero bytes after which the search for data to copy ends: commit log files are filled with zeros
/// by preallocation.
const ZEROS_MAX: u64 = 8 << 20;

impl Recovery<'_> {
    /// Copies the bytes of the log from position `end` on and returns the paths of the copies. When the disk is full the copy
    /// is skipped and the store still opens.
    pub(super) fn set_aside(&self, end: u64) -> io::Result<Vec<PathBuf>> {
        let mut copies = Vec::new();
        let mut left = BYTES_MAX;
        for segment in self.state.log.segments_in(end, u64::MAX).into_iter().take(COPIES_MAX) {
            match self.copy_rest(&segment, end.max(segment.base) - segment.base, &mut left) {
                Ok(copy) => copies.extend(copy),
                Err(error) if is_lack(&error) => {
                    tracing::warn!(%error, "no space for a copy of what is cut from the log");
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        if !copies.is_empty() {
            self.remove_old_copies()?;
        }
        Ok(copies)
    }

    fn copy_rest(&self, segment: &Segment, from: u64, left: &mut u64) -> io::Result<Option<PathBuf>> {
        let found = self.data_behind(segment, from)?;
        let Some(data_end) = found else { return Ok(None) };
        let length = (data_end - from).min(*left);
        if length < data_end - from {
            let at = segment.base + from + length;
            tracing::warn!(at, bytes = data_end - from - length, "what is cut from here on is not copied");
        }
        if length == 0 {
            return Ok(None);
        }
        *left -= length;
        let directory = copies_directory(&self.state.config.root);
        self.state.disk.create_dir_all(&directory)?;
        let names: Vec<_> = self.state.disk.list(&directory)?.into_iter().map(|entry| entry.name).collect();
        let name = (1u64..).map(|number| format!("{}.{number}", file_name(segment.base + from)));
        let path = directory.join(name.into_iter().find(|name| !names.contains(name)).unwrap_or_default());
        let done =
            self.copy(segment, from, length, &path).and_then(|()| self.state.disk.sync_dir(&directory));
        // Remove a half-written copy: it would pass for a whole one.
        done.inspect_err(|_| drop(self.state.disk.remove(&path)))?;
        Ok(Some(path))
    }

    /// Position in the file behind the last byte that is not zero, looking from position `from` on; `None` when there are
    /// only zeros.
    fn data_behind(&self, segment: &Segment, from: u64) -> io::Result<Option<u64>> {
        let (mut at, mut zeros, mut end) = (from, 0, None);
        let mut bytes = Vec::new();
        while at < self.state.log.segment_bytes && zeros <= ZEROS_MAX {
            at = segment.file.next_data(at)?.max(at);
            let step = STEP_BYTES.min(self.state.log.segment_bytes.saturating_sub(at));
            read(segment, at, step, &mut bytes);
            match bytes.iter().rposition(|byte| *byte != 0) {
                Some(last) => (zeros, end) = (0, Some(at + last as u64 + 1)),
                None => zeros += step,
            }
            at += step;
        }
        Ok(end)
    }

    fn copy(&self, segment: &Segment, from: u64, length: u64, path: &Path) -> io::Result<()> {
        let target = self.state.disk.create(path, length, Space::Reserved)?;
        let mut bytes = Vec::new();
        let mut done = 0;
        while done < length {
            let step = STEP_BYTES.min(length - done);
            read(segment, from + done, step, &mut bytes);
            target.write_at(&bytes, done)?;
            done += step;
        }
        target.sync()
    }

    fn remove_old_copies(&self) -> io::Result<()> {
        let directory = copies_directory(&self.state.config.root);
        let mut copies = self.state.disk.list(&directory)?;
        copies.sort_by_key(|copy| std::cmp::Reverse((copy.modified_ms, copy.name.clone())));
        copies
            .iter()
            .skip(COPIES_MAX)
            .try_for_each(|copy| self.state.disk.remove(&directory.join(&copy.name)))
    }
}

fn copies_directory(root: &Path) -> PathBuf {
    table::directory(root).join("cut")
}

/// Reads bytes of a commit log file for a copy. A range that the disk cannot read is copied as zeros.
fn read(segment: &Segment, at: u64, length: u64, bytes: &mut Vec<u8>) {
    bytes.clear();
    bytes.resize(usize::try_from(length).expect("a short step"), 0);
    if segment.file.read_at(bytes, at).is_err() {
        bytes.fill(0);
    }
}
