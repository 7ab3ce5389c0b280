//! The faults that a [`FakeDisk`](super::FakeDisk) injects, and how its operations meet them.

use super::super::Usage;
use crate::wake::lock;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock, RwLockReadGuard};
use std::time::Duration;

/// A kind of operation of a disk that takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reading bytes that may not be in memory.
    Read,
    /// Writing bytes or zeros.
    Write,
    /// Making the content of a file, the names in a directory or a whole file system durable.
    Sync,
    /// Creating, linking, renaming, cutting off and removing files.
    Names,
}

/// Time that each operation of a kind takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// Time of [`Operation::Read`].
    pub read: Duration,
    /// Time of [`Operation::Write`].
    pub write: Duration,
    /// Time of [`Operation::Sync`].
    pub sync: Duration,
    /// Time of [`Operation::Names`].
    pub names: Duration,
}

impl Latency {
    fn of(&self, operation: Operation) -> Duration {
        match operation {
            Operation::Read => self.read,
            Operation::Write => self.write,
            Operation::Sync => self.sync,
            Operation::Names => self.names,
        }
    }
}

/// Faults to inject, and the clock and fill level of the disk. All off by default; changed with [`FakeDisk::faults`](super::FakeDisk::faults).
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Number of writes that still succeed. The next write stores half of its bytes and fails.
    pub writes_left: Option<u64>,
    /// Number of changes of contents and names that still succeed. After them the process counts as killed: every
    /// change fails and has no effect.
    pub killed_after: Option<u64>,
    /// Number of syncs that still succeed. The next sync fails and marks the dirty pages clean, as Linux does.
    pub syncs_left: Option<u64>,
    /// Bytes that can still be reserved for new files.
    pub space_left: Option<u64>,
    /// Whether [`DiskFile::read_resident`](crate::disk::DiskFile::read_resident) finds no page in memory.
    pub nothing_resident: bool,
    /// Modification time of files written from now on, in ms since the epoch.
    pub now_ms: i64,
    /// Results of [`Disk::usage`](crate::Disk::usage) for paths below these. The last matching entry counts. Other
    /// paths are on an empty disk of one terabyte.
    pub usage: Vec<(PathBuf, Usage)>,
    /// Whether the process has no file descriptor left: opening and creating files fails.
    pub no_descriptors: bool,
    /// Files below this directory cannot be created or resized.
    pub fails_below: Option<PathBuf>,
    /// Number of reads of unreadable ranges that still fail. Later reads succeed. With `None` all fail.
    pub failing_reads_left: Option<u64>,
    /// Simulated time of each operation of a kind. The disk does not sleep. A simulation adds the growth of
    /// [`FakeDisk::time_taken`](super::FakeDisk::time_taken) to its clock.
    pub latency: Latency,
    /// Kind of operation whose next call hangs once, and the duration.
    pub hangs: Option<(Operation, Duration)>,
    /// Lock that every sync of a file takes first: while a test holds it, the disk hangs for
    /// the threads that sync.
    pub syncs_wait_for: Option<Arc<Mutex<()>>>,
}

/// State that a disk shares with its files: the faults, the time taken, and the lock that makes a copy consistent.
#[derive(Default)]
pub(super) struct Control {
    pub(super) faults: Mutex<Faults>,
    taken_ns: AtomicU64,
    /// Lock for consistent copies: a change holds it for reading, a copy for writing. Otherwise a copy could contain
    /// a later write and lack an earlier write, a state that neither a kill nor a power cut leaves.
    copying: RwLock<()>,
    /// Lock held by a copy. A change that finds `is_copying` set waits here, so that threads with continuous changes
    /// do not delay the copy for ever.
    gate: Mutex<()>,
    is_copying: AtomicBool,
}

impl Control {
    /// Begins a change of contents or names; fails when the process counts as killed.
    pub(super) fn change(&self, operation: Operation) -> io::Result<RwLockReadGuard<'_, ()>> {
        self.spend(operation);
        let change = self.begin();
        if let Some(left) = &mut lock(&self.faults).killed_after {
            *left = left.checked_sub(1).ok_or_else(|| io::Error::other("the process was killed"))?;
        }
        Ok(change)
    }

    /// Begins a change that does not count against [`Faults::killed_after`]. Waits while the disk is copied.
    pub(super) fn begin(&self) -> RwLockReadGuard<'_, ()> {
        if self.is_copying.load(Ordering::SeqCst) {
            drop(lock(&self.gate));
        }
        self.copying.read().unwrap_or_else(|poison| poison.into_inner())
    }

    /// Copies the disk while changes are blocked.
    pub(super) fn copy<T>(&self, copy: impl FnOnce() -> T) -> T {
        let _gate = lock(&self.gate);
        self.is_copying.store(true, Ordering::SeqCst);
        let stopped = self.copying.write().unwrap_or_else(|poison| poison.into_inner());
        let copied = copy();
        self.is_copying.store(false, Ordering::SeqCst);
        drop(stopped);
        copied
    }

    /// Counts the time of an operation.
    pub(super) fn spend(&self, operation: Operation) {
        let faults = &mut *lock(&self.faults);
        let hang = faults.hangs.take_if(|(hanging, _)| *hanging == operation).map(|(_, length)| length);
        let length = faults.latency.of(operation) + hang.unwrap_or_default();
        if length > Duration::ZERO {
            let length_ns = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
            self.taken_ns.fetch_add(length_ns, Ordering::Relaxed);
        }
    }

    pub(super) fn time_taken(&self) -> Duration {
        Duration::from_nanos(self.taken_ns.load(Ordering::Relaxed))
    }
}
