//! Removes files of the commit log: at its end when a store is recovered or closed, at its start when files have expired.
//!
//! A file at the start is unlinked at once, but its space is freed in small steps: freeing a gigabyte occupies the
//! file system for long, and flushes would wait. The unlink comes first, so that no crash leaves a file of a wrong
//! size, with which neither Vostok nor RocketMQ opens the store. The kernel frees the rest when the process ends.

use super::{Log, Segment};
use crate::wake::lock;
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// Bytes freed in a step.
const CUT_BYTES: u64 = 8 << 20;

/// Result of freeing space of removed files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreedSpace {
    /// No space to free now.
    Nothing,
    /// A part of a file was freed.
    Piece,
    /// The last part of a file was freed.
    LastPiece,
}

/// Unlinked files, and the bytes that each still occupies.
#[derive(Default)]
pub(crate) struct RemovedFiles(Mutex<VecDeque<(Arc<Segment>, u64)>>);

impl Log {
    /// Removes the files that start at or behind `end`.
    pub(crate) fn remove_from(&self, end: u64) -> io::Result<()> {
        let mut segments = self.write();
        let kept = segments.iter().take_while(|segment| segment.base < end).count();
        let removed = segments.split_off(kept);
        drop(segments);
        // The last file first, so that the remaining files never have a gap.
        for (index, segment) in removed.iter().enumerate().rev() {
            self.disk.remove(&segment.path)?;
            if index == 0 || self.directories.are_several() {
                self.sync_directory_of(segment)?;
            }
        }
        Ok(())
    }

    /// Wipes the log from position `to` on, durably, and removes the files behind; the first file stays.
    pub(crate) fn wipe_from(&self, to: u64) -> io::Result<()> {
        // Excludes preallocation: a file that it makes in place of a removed one would be removed too.
        let _making = lock(&self.making);
        let first = self.segments_in(0, u64::MAX).first().map_or(0, |first| first.base);
        self.remove_from(to.max(first + 1))?;
        let Some(segment) = self.segment_of(to) else { return Ok(()) };
        // Where preallocation wrote zeros ahead this makes holes of some: flushes are slower there for once, no more.
        let at = to - segment.base;
        segment.file.zero(at, self.segment_bytes - at)?;
        segment.file.sync()
    }

    /// The files that end at or before log position `limit`, oldest first, except the last file of the log.
    pub(crate) fn files_below(&self, limit: u64) -> Vec<Arc<Segment>> {
        let segments = self.read();
        let last = segments.len().saturating_sub(1);
        let is_below = |segment: &&Arc<Segment>| segment.base + self.segment_bytes <= limit;
        segments[..last].iter().take_while(is_below).cloned().collect()
    }

    /// Makes everything before log position `limit` count as deleted, for readers and queues; no file is removed yet.
    pub(crate) fn raise_min(&self, limit: u64) {
        self.removed_below.fetch_max(limit, Ordering::AcqRel);
    }

    /// Removes the files that end at or before log position `limit`, oldest first, but never the last file. Reads in
    /// progress can finish. Returns the number of removed files. An error stops the removal, and the remaining files
    /// have no gap.
    pub(crate) fn remove_below(&self, limit: u64) -> io::Result<usize> {
        let removed = self.files_below(limit);
        for segment in &removed {
            self.disk.remove(&segment.path)?;
            if self.directories.are_several() {
                self.sync_directory_of(segment)?;
            }
            self.raise_min(segment.base + self.segment_bytes);
            let first = self.write().remove(0);
            assert_eq!(first.base, segment.base, "only this function removes the first file");
            lock(&self.removed.0).push_back((first, self.segment_bytes));
        }
        if let Some(last) = removed.last()
            && !self.directories.are_several()
        {
            self.sync_directory_of(last)?;
        }
        Ok(removed.len())
    }

    fn sync_directory_of(&self, segment: &Segment) -> io::Result<()> {
        self.disk.sync_dir(segment.path.parent().unwrap_or(Path::new(".")))
    }

    /// Frees a part of the space of removed files. Skips a file that is being read.
    pub(crate) fn cut_removed(&self) -> io::Result<FreedSpace> {
        let next = {
            let mut removed = lock(&self.removed.0);
            // A file in this list can get no new readers: if only the list holds it, that stays so.
            let free = removed.iter().position(|(segment, _)| Arc::strong_count(segment) == 1);
            free.and_then(|index| removed.remove(index))
        };
        let Some((segment, left)) = next else { return Ok(FreedSpace::Nothing) };
        let left = left.saturating_sub(CUT_BYTES);
        segment.file.truncate(left)?;
        if left == 0 {
            return Ok(FreedSpace::LastPiece);
        }
        lock(&self.removed.0).push_front((segment, left));
        Ok(FreedSpace::Piece)
    }

    /// Number of removed files whose space is not freed yet.
    pub(crate) fn uncut_files(&self) -> usize {
        lock(&self.removed.0).len()
    }

    /// Removed files whose space is not freed yet, with the bytes that each still occupies.
    pub(crate) fn uncut(&self) -> Vec<(PathBuf, u64)> {
        lock(&self.removed.0).iter().map(|(segment, left)| (segment.path.clone(), *left)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::disk::{Disk, FakeDisk};

    #[test]
    fn a_file_in_use_keeps_its_bytes_until_it_is_not() {
        let config = Config { segment_bytes: 3 * CUT_BYTES, ..Config::new("/store") };
        let disk = FakeDisk::new(4096);
        disk.create_dir_all(&config.commit_log).unwrap();
        let log = Log::new(&config, Arc::new(disk));
        for number in 0..3 {
            log.ensure(number * 3 * CUT_BYTES).unwrap().file.write_at(b"end", 3 * CUT_BYTES - 3).unwrap();
        }
        let reader = log.segment_of(0).unwrap();
        assert_eq!(log.remove_below(u64::MAX).unwrap(), 2);
        assert_eq!((log.min(), log.capacity_end()), (6 * CUT_BYTES, 9 * CUT_BYTES));
        let cut_all = || {
            std::iter::from_fn(|| Some(log.cut_removed().unwrap()).filter(|it| *it != FreedSpace::Nothing))
                .count()
        };
        // The second file, in three parts; the first file is being read.
        assert_eq!(cut_all(), 3);
        let mut end = [0; 3];
        reader.file.read_at(&mut end, 3 * CUT_BYTES - 3).unwrap();
        assert_eq!((&end, log.uncut().len()), (b"end", 1));
        drop(reader);
        assert_eq!((cut_all(), log.uncut().len()), (3, 0));
    }
}
