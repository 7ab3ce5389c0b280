//! The one seam to files: a real disk and an in-memory one with faults.

mod clock;
mod fake;
mod lock;
mod read_only;
mod real;

pub(crate) use clock::local_digits;
pub use clock::local_hour;
pub use fake::{FakeDisk, Faults};
pub use lock::lock_holder;
pub use read_only::ReadOnlyDisk;
pub use real::RealDisk;

use std::any::Any;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// What the page cache holds of a file comes and goes in such pieces.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Whether it is a directory.
    pub is_dir: bool,
    /// Length in bytes; zero for directories.
    pub length: u64,
    /// When it was written last, milliseconds since the epoch; zero for directories.
    pub modified_ms: i64,
}

/// How the space of a new file is provided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Reserved on the disk now, so that writing into it cannot run out of space.
    Reserved,
    /// A hole, filled as it is written.
    Sparse,
}

/// How full the file system of a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Tells file systems apart.
    pub device: u64,
    /// Its size in bytes.
    pub total: u64,
    /// Bytes nobody uses.
    pub free: u64,
    /// Bytes of these that this process may use.
    pub available: u64,
}

/// Makes a file system durable; see [`Disk::syncer`].
pub type Syncer = Box<dyn Fn() -> io::Result<()> + Send + Sync>;

/// Files by path. Paths are absolute or relative to the process, as the configuration gives them.
pub trait Disk: Send + Sync + 'static {
    /// Makes a directory and its parents; fine when it exists.
    ///
    /// # Errors
    /// The disk's.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;

    /// What a directory holds, sorted by name; empty when it does not exist.
    ///
    /// # Errors
    /// The disk's.
    fn list(&self, path: &Path) -> io::Result<Vec<Entry>>;

    /// Opens an existing file for reading and writing.
    ///
    /// # Errors
    /// The disk's; `NotFound` when it does not exist.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;

    /// Makes a file of this size that reads as zeros, or opens and resizes an existing one.
    ///
    /// # Errors
    /// The disk's; `StorageFull` when the space cannot be reserved.
    fn create(&self, path: &Path, length: u64, space: Space) -> io::Result<Arc<dyn DiskFile>>;

    /// Renames a file, replacing the target.
    ///
    /// # Errors
    /// The disk's; `CrossesDevices` when the two are on different file systems.
    fn rename(&self, source: &Path, target: &Path) -> io::Result<()>;

    /// Removes a file; fine when it does not exist.
    ///
    /// # Errors
    /// The disk's.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// How full the file system of an existing path is.
    ///
    /// # Errors
    /// The disk's.
    fn usage(&self, path: &Path) -> io::Result<Usage>;

    /// Removes a directory; fine when it does not exist, or has something in it and stays.
    ///
    /// # Errors
    /// The disk's.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;

    /// Makes the entries of a directory durable.
    ///
    /// # Errors
    /// The disk's.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// A call that makes everything on the file system of `path` durable. It fails as well when writing
    /// something back failed since the call before, or since this one; so it is asked for before writing.
    ///
    /// # Errors
    /// The disk's.
    fn syncer(&self, path: &Path) -> io::Result<Syncer>;

    /// Names the mount a path is on: the same name later means that the kernel held the file system all the time, so that
    /// no write to it was lost that was not flushed. `None` where that cannot be told.
    ///
    /// # Errors
    /// The disk's.
    fn mount(&self, path: &Path) -> io::Result<Option<String>>;

    /// Takes the exclusive lock Java's `FileLock` takes. It is held until the value is dropped.
    ///
    /// # Errors
    /// `WouldBlock` with the holder as text when it is taken.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Any + Send + Sync>>;
}

/// An open file. All positions are absolute; nothing has a cursor.
pub trait DiskFile: Send + Sync {
    /// Fills `target` from position `at`.
    ///
    /// # Errors
    /// The disk's; `UnexpectedEof` past the end.
    fn read_at(&self, target: &mut [u8], at: u64) -> io::Result<()>;

    /// [`Self::read_at`] only as far as no disk is needed: `false` when some of it is not in memory, and
    /// then `target` is unspecified.
    ///
    /// # Errors
    /// As [`Self::read_at`].
    fn read_resident(&self, target: &mut [u8], at: u64) -> io::Result<bool>;

    /// The file's length in bytes.
    ///
    /// # Errors
    /// The disk's.
    fn length(&self) -> io::Result<u64>;

    /// The first position from `at` on that may hold something else than zeros, as far as that can be told without
    /// reading; the file's end when there is none.
    ///
    /// # Errors
    /// The disk's.
    fn next_data(&self, at: u64) -> io::Result<u64>;

    /// Writes all of `source` at position `at`.
    ///
    /// # Errors
    /// The disk's; part of it may have been written.
    fn write_at(&self, source: &[u8], at: u64) -> io::Result<()>;

    /// Makes the written data durable (`fdatasync`). Must not be repeated after an error.
    ///
    /// # Errors
    /// The disk's.
    fn sync(&self) -> io::Result<()>;

    /// Starts writing a range to the disk without waiting for it. A hint; errors surface in [`Self::sync`].
    fn start_write_back(&self, at: u64, length: u64);

    /// Takes a range out of memory as far as it is on the disk. A hint.
    fn forget(&self, at: u64, length: u64);

    /// Starts reading a range into memory without waiting for it. A hint.
    fn will_need(&self, at: u64, length: u64);

    /// Turns a range into zeros without changing the length.
    ///
    /// # Errors
    /// The disk's.
    fn zero(&self, at: u64, length: u64) -> io::Result<()>;

    /// Writes zeros, where it can be past the page cache: nobody reads them. Both numbers are multiples of
    /// [`PAGE_BYTES`], or one of them ends the file.
    ///
    /// # Errors
    /// The disk's; part of it may have been written.
    fn write_zeros(&self, at: u64, length: u64) -> io::Result<()>;

    /// Cuts off what lies behind `length`, giving its space back.
    ///
    /// # Errors
    /// The disk's.
    fn truncate(&self, length: u64) -> io::Result<()>;
}
