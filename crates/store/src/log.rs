//! The commit log's files: fixed size, named by their start offset, preallocated, in one directory or several.

mod directories;
mod removal;

use crate::config::Config;
use crate::disk::file_name;
use crate::disk::{Disk, DiskFile, Space};
use crate::error::is_lack;
use crate::wake::lock;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, RwLock};

use directories::Directories;
pub use removal::FreedSpace;
use removal::RemovedFiles;

/// File of the commit log.
pub(crate) struct Segment {
    pub(crate) base: u64,
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<dyn DiskFile>,
    /// Position in the file up to which preallocation wrote zeros; with synchronous flush the appender stays below it. Only
    /// grows. Paired with the condition variable in [`Log`].
    pub(crate) written_ahead: AtomicU64,
}

/// All files of the commit log, ascending and without gaps.
pub(crate) struct Log {
    pub(crate) directories: Directories,
    pub(crate) segment_bytes: u64,
    disk: Arc<dyn Disk>,
    segments: RwLock<Vec<Arc<Segment>>>,
    /// Log position before which everything is being removed and counts as deleted. Only grows.
    removed_below: AtomicU64,
    removed: RemovedFiles,
    /// Lock of file creation, so that the appender and the preallocation thread do not both create a file.
    making: Mutex<()>,
    /// Whether space is taken for a file that is not listed yet.
    takes_space: AtomicBool,
    ahead: (Mutex<()>, Condvar),
}

impl Log {
    pub(crate) fn new(config: &Config, disk: Arc<dyn Disk>) -> Self {
        Self {
            directories: Directories::new(config),
            segment_bytes: config.segment_bytes,
            disk,
            segments: RwLock::default(),
            removed_below: AtomicU64::new(0),
            removed: RemovedFiles::default(),
            making: Mutex::default(),
            takes_space: AtomicBool::new(false),
            ahead: Default::default(),
        }
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Vec<Arc<Segment>>> {
        self.segments.read().unwrap_or_else(|poison| poison.into_inner())
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Vec<Arc<Segment>>> {
        self.segments.write().unwrap_or_else(|poison| poison.into_inner())
    }

    /// First log position that the log holds.
    pub(crate) fn min(&self) -> u64 {
        let held = self.read().first().map_or(0, |segment| segment.base);
        held.max(self.removed_below.load(Ordering::Acquire))
    }

    /// Log position of the end of the last file, used or not.
    pub(crate) fn capacity_end(&self) -> u64 {
        self.read().last().map_or(0, |segment| segment.base + self.segment_bytes)
    }

    /// The file that holds a log position.
    pub(crate) fn segment_of(&self, offset: u64) -> Option<Arc<Segment>> {
        let segments = self.read();
        let first = segments.first()?.base;
        let index = usize::try_from(offset.checked_sub(first)? / self.segment_bytes).ok()?;
        segments.get(index).cloned()
    }

    /// The files that overlap a range of log positions.
    pub(crate) fn segments_in(&self, from: u64, end: u64) -> Vec<Arc<Segment>> {
        let overlaps =
            |segment: &&Arc<Segment>| segment.base < end && from < segment.base + self.segment_bytes;
        self.read().iter().filter(overlaps).cloned().collect()
    }

    /// Adds a file found at opening. The caller has checked its size and start offset.
    pub(crate) fn adopt(&self, base: u64, path: PathBuf, file: Arc<dyn DiskFile>) {
        let written_ahead = AtomicU64::new(self.segment_bytes);
        self.write().push(Arc::new(Segment { base, path, file, written_ahead }));
    }

    /// Whether a file is being created: its space is allocated, but it is not listed yet. An attempt that
    /// finds no directory with enough space allocates nothing.
    pub(crate) fn is_making(&self) -> bool {
        self.takes_space.load(Ordering::Acquire)
    }

    /// Returns the file that starts at `base`, created if it does not exist. `base` must be the end of the last file, or any
    /// multiple of the file size when there are no files.
    pub(crate) fn ensure(&self, base: u64) -> io::Result<Arc<Segment>> {
        if let Some(segment) = self.segment_of(base) {
            return Ok(segment);
        }
        let _making = lock(&self.making);
        if let Some(segment) = self.segment_of(base) {
            return Ok(segment);
        }
        let end = self.capacity_end();
        assert!(base == end || self.read().is_empty(), "files are made in order");
        self.make_at(base)
    }

    /// Creates the next file ahead of its use. Does nothing if the log's end has moved, so that `base` is no longer
    /// the start of the next file.
    pub(crate) fn ensure_ahead(&self, base: u64) -> io::Result<()> {
        if self.segment_of(base).is_some() {
            return Ok(());
        }
        let _making = lock(&self.making);
        let is_next = base == self.capacity_end() || self.read().is_empty() && base >= self.min();
        if is_next && self.segment_of(base).is_none() { self.make_at(base).map(drop) } else { Ok(()) }
    }

    /// Makes an empty log begin at `base`: removes the preallocated files and creates the file that begins at `base`.
    pub(crate) fn begin_at(&self, base: u64) -> io::Result<()> {
        let _making = lock(&self.making);
        self.remove_from(0)?;
        self.raise_min(base);
        self.make_at(base).map(drop)
    }

    /// Makes the file that starts at `base`. The caller holds `making`.
    fn make_at(&self, base: u64) -> io::Result<Arc<Segment>> {
        assert!(base.is_multiple_of(self.segment_bytes), "files start at multiples of their size");
        let directory = self.directory_of(base / self.segment_bytes)?;
        let path = directory.join(file_name(base));
        // The next attempt may choose another directory, and the file must not exist in both.
        self.takes_space.store(true, Ordering::Release);
        let made = self.make(directory, &path).inspect_err(|_| drop(self.disk.remove(&path)));
        let segment = made.map(|file| {
            let segment = Arc::new(Segment { base, path, file, written_ahead: AtomicU64::new(0) });
            self.write().push(segment.clone());
            segment
        });
        self.takes_space.store(false, Ordering::Release);
        segment
    }

    /// Returns the directory for a new file: the next directory in turn, or another directory if the first has no
    /// space.
    fn directory_of(&self, number: u64) -> io::Result<&Path> {
        let turn = self.directories.of(number);
        let Err(error) = self.check_room(turn) else { return Ok(turn) };
        if !is_lack(&error) {
            return Err(error);
        }
        let mut others =
            self.directories.writable().iter().map(PathBuf::as_path).filter(|other| *other != turn);
        others.find(|other| self.check_room(other).is_ok()).ok_or(error)
    }

    /// Rejects a directory without space for a file. An attempt to reserve the space would first fill the disk.
    fn check_room(&self, directory: &Path) -> io::Result<()> {
        let usage = self.disk.usage(directory)?;
        if usage.total > 0 && usage.available < self.segment_bytes {
            let (found, needed) = (usage.available, self.segment_bytes);
            let text = format!("{} has {found} bytes left, a file takes {needed}", directory.display());
            return Err(io::Error::new(ErrorKind::StorageFull, text));
        }
        Ok(())
    }

    /// Creates a file under a temporary name beside the directory, and renames it at full size. A power cut in
    /// between must not leave a file of a wrong size, because neither Vostok nor RocketMQ opens such a store.
    fn make(&self, directory: &Path, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let beside = directories::beside(directory);
        self.disk.remove(&beside)?;
        let file = self.disk.create(&beside, self.segment_bytes, Space::Reserved)?;
        // The file's length must be durable before its name is.
        file.sync()?;
        let file = match self.disk.rename(&beside, path) {
            // The directory is the mount point of another file system.
            Err(error) if error.kind() == ErrorKind::CrossesDevices => {
                self.disk.remove(&beside)?;
                let file = self.disk.create(path, self.segment_bytes, Space::Reserved)?;
                file.sync()?;
                file
            }
            done => done.map(|()| file)?,
        };
        self.disk.sync_dir(directory)?;
        Ok(file)
    }

    /// Makes the log positions `from..end` durable.
    pub(crate) fn sync(&self, from: u64, end: u64) -> io::Result<()> {
        self.segments_in(from, end).iter().try_for_each(|segment| segment.file.sync())
    }

    /// Waits until preallocation has written zeros up to `end` of the file; `false` when `give_up` returns true.
    pub(crate) fn wait_written_ahead(&self, segment: &Segment, end: u64, give_up: impl Fn() -> bool) -> bool {
        if segment.written_ahead.load(Ordering::Acquire) >= end {
            return true;
        }
        let mut guard = lock(&self.ahead.0);
        while segment.written_ahead.load(Ordering::Acquire) < end {
            if give_up() {
                return false;
            }
            guard = self.ahead.1.wait(guard).unwrap_or_else(|poison| poison.into_inner());
        }
        true
    }

    /// Publishes the position up to which zeros were written to a file. `None` only wakes waiting threads.
    pub(crate) fn publish_written_ahead(&self, segment_end: Option<(&Segment, u64)>) {
        let _guard = lock(&self.ahead.0);
        if let Some((segment, end)) = segment_end {
            segment.written_ahead.store(end, Ordering::Release);
        }
        self.ahead.1.notify_all();
    }
}

#[cfg(test)]
mod tests;
