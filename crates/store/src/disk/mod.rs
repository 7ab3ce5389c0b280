//! Access to files, all through the trait [`Disk`]: a real disk, a read-only disk, and a disk in memory that injects
//! faults.

mod clock;
mod fake;
mod lock;
mod read_only;
mod real;

pub(crate) use clock::local_digits;
pub use clock::local_hour;
pub use fake::{FakeDisk, Faults, Latency, Operation};
pub use lock::lock_holder;
pub use read_only::ReadOnlyDisk;
pub use real::RealDisk;

use std::any::Any;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Size in bytes of a page of the page cache.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// Entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirEntry {
    /// Name of the entry.
    pub name: String,
    /// Whether the entry is a directory.
    pub is_dir: bool,
    /// Length in bytes; zero for directories.
    pub length: u64,
    /// Time of the last change in ms since the epoch; zero for directories.
    pub modified_ms: i64,
}

/// Allocation of space for a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Reserved on the disk at once, so that later writes cannot run out of space.
    Reserved,
    /// Hole: the file system allocates space on write.
    Sparse,
}

/// Size and free space of a file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Device number of the file system.
    pub device: u64,
    /// Size of the file system.
    pub total: u64,
    /// Free bytes, including those reserved for the superuser.
    pub free: u64,
    /// Free bytes that this process may use.
    pub available: u64,
}

/// A call that makes a whole file system durable; see [`Disk::syncer`].
pub type Syncer = Box<dyn Fn() -> io::Result<()> + Send + Sync>;

/// Name of the lock in the root directory of a store.
pub(crate) const LOCK_FILE: &str = "lock";

/// The name of the file that starts at byte `start` of a sequence of files.
pub(crate) fn file_name(start: u64) -> String {
    format!("{start:020}")
}

/// Outcome of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Read {
    /// All requested bytes were delivered.
    Done,
    /// Some of the bytes are not in memory, and no bytes were delivered.
    NotResident,
}

/// Writes a small file durably under another name beside it, and renames it, so that a crash leaves the old or the
/// new file.
pub(crate) fn write_beside(disk: &dyn Disk, path: &Path, content: &[u8]) -> io::Result<()> {
    let (directory, beside) = (path.parent().unwrap_or(Path::new(".")), path.with_extension("next"));
    disk.create_dir_all(directory)?;
    let file = disk.create(&beside, content.len() as u64, Space::Reserved)?;
    file.write_at(content, 0)?;
    file.sync()?;
    disk.rename(&beside, path)?;
    disk.sync_dir(directory)
}

/// Access to files by path. Paths are absolute or relative to the process's working directory, as configured.
///
/// Unless a method's documentation differs, its error is that of the failed system call.
pub trait Disk: Send + Sync + 'static {
    /// Creates a directory and its parents. Does nothing if the directory exists.
    ///
    /// # Errors
    /// The error of the failed system call, such as `PermissionDenied` or `StorageFull`.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;

    /// The entries of a directory, sorted by name; empty when the directory does not exist.
    ///
    /// # Errors
    /// The error of the failed system call.
    fn list(&self, path: &Path) -> io::Result<Vec<DirEntry>>;

    /// Opens an existing file for reading and writing.
    ///
    /// # Errors
    /// `NotFound` when the file does not exist; otherwise the error of the failed system call.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;

    /// Creates a file of `length` bytes that reads as zeros, or opens and resizes an existing file.
    ///
    /// # Errors
    /// `StorageFull` when the space cannot be reserved; otherwise the error of the failed system call.
    fn create(&self, path: &Path, length: u64, space: Space) -> io::Result<Arc<dyn DiskFile>>;

    /// Returns the whole content of a file. The process may lack write permission for the file.
    ///
    /// # Errors
    /// `NotFound` when the file does not exist; otherwise the error of the failed system call.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Creates a hard link `target` to a file.
    ///
    /// # Errors
    /// `AlreadyExists` when the target exists. `Unsupported` or `PermissionDenied` when the file system has no hard
    /// links or rejects this link. Otherwise the error of the failed system call.
    fn link(&self, source: &Path, target: &Path) -> io::Result<()>;

    /// Renames a file, replacing the target.
    ///
    /// # Errors
    /// `CrossesDevices` when both paths are on different file systems; otherwise the error of the failed system call.
    fn rename(&self, source: &Path, target: &Path) -> io::Result<()>;

    /// Removes a file. Does nothing if the file does not exist.
    ///
    /// # Errors
    /// The error of the failed system call.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Size and free space of the file system of an existing path.
    ///
    /// # Errors
    /// The error of the failed system call; `NotFound` when the path does not exist.
    fn usage(&self, path: &Path) -> io::Result<Usage>;

    /// Removes an empty directory. Does nothing if the directory does not exist or is not empty.
    ///
    /// # Errors
    /// The error of the failed system call.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable (`fsync` of the directory).
    ///
    /// # Errors
    /// The error of the failed system call.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// Returns a call that makes everything on the file system of `path` durable (`syncfs`). The call also fails when a
    /// write-back has failed since its previous run, or since this method returned; so get it before writing.
    ///
    /// # Errors
    /// The error of the failed system call.
    fn syncer(&self, path: &Path) -> io::Result<Syncer>;

    /// Names the mount of a path. The same name at a later time means that the kernel kept the file system mounted in
    /// between, so that no unflushed write to it was lost. `None` where the system cannot tell.
    ///
    /// # Errors
    /// The error of the failed system call.
    fn mount(&self, path: &Path) -> io::Result<Option<String>>;

    /// Takes the exclusive lock that Java's `FileLock` takes on the same file. The lock is held until the returned value is
    /// dropped.
    ///
    /// # Errors
    /// `WouldBlock`, with the holder in its text, when the lock is taken; otherwise the error of the failed system call.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Any + Send + Sync>>;
}

/// An open file. All positions are absolute byte positions; a file has no cursor.
pub trait DiskFile: Send + Sync {
    /// Fills `target` from position `at`.
    ///
    /// # Errors
    /// `UnexpectedEof` when the file ends within the range; otherwise the error of the failed system call.
    fn read_at(&self, target: &mut [u8], at: u64) -> io::Result<()>;

    /// Reads only from memory, otherwise like [`Self::read_at`]. Returns `false` if a part of the range is not in the
    /// page cache, and leaves `target` in an unspecified state.
    ///
    /// # Errors
    /// Errors of [`Self::read_at`].
    fn read_resident(&self, target: &mut [u8], at: u64) -> io::Result<bool>;

    /// Length of the file in bytes.
    ///
    /// # Errors
    /// The error of the failed system call.
    fn length(&self) -> io::Result<u64>;

    /// Returns the first position from `at` on that may hold a byte other than zero, or the end of the file. Uses the
    /// file's holes and does not read the file.
    ///
    /// # Errors
    /// The error of the failed system call.
    fn next_data(&self, at: u64) -> io::Result<u64>;

    /// Writes all of `source` at position `at`.
    ///
    /// # Errors
    /// The error of the failed system call; a part of `source` may have been written then.
    fn write_at(&self, source: &[u8], at: u64) -> io::Result<()>;

    /// Makes the written data durable (`fdatasync`). Must not be repeated after an error: the kernel may have dropped the
    /// data.
    ///
    /// # Errors
    /// The error of the failed system call.
    fn sync(&self) -> io::Result<()>;

    /// Starts writing a range to the disk without waiting for it. A hint: errors appear in the next [`Self::sync`].
    fn start_write_back(&self, at: u64, length: u64);

    /// Drops the clean pages of a range from the page cache. A hint.
    fn forget(&self, at: u64, length: u64);

    /// Starts reading a range into the page cache without waiting for it. A hint.
    fn will_need(&self, at: u64, length: u64);

    /// Fills a range with zeros without changing the file's length.
    ///
    /// # Errors
    /// The error of the failed system call.
    fn zero(&self, at: u64, length: u64) -> io::Result<()>;

    /// Writes zeros, past the page cache if the file system supports that, because the zeros are not read soon. `at`
    /// and `length` are multiples of `PAGE_BYTES`, or the range ends at the end of the file.
    ///
    /// # Errors
    /// The error of the failed system call; a part of the range may have been written then.
    fn write_zeros(&self, at: u64, length: u64) -> io::Result<()>;

    /// Cuts the file off behind `length` bytes and frees the space of the rest.
    ///
    /// # Errors
    /// The error of the failed system call.
    fn truncate(&self, length: u64) -> io::Result<()>;
}
