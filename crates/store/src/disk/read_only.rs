//! [`Disk`] for tools that only read. It opens no file for writing, so the tools work on a store of another user, on
//! a read-only file system, or on a store in use.

use super::{DirEntry, Disk, DiskFile, RealDisk, Space, Syncer, Usage, real};
use std::any::Any;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

/// The operating system's file systems, for reading.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadOnlyDisk;

fn refused<T>() -> io::Result<T> {
    Err(ErrorKind::ReadOnlyFilesystem.into())
}

impl Disk for ReadOnlyDisk {
    fn create_dir_all(&self, _path: &Path) -> io::Result<()> {
        refused()
    }

    fn list(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        RealDisk.list(path)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        real::open_to_read(path)
    }

    fn create(&self, _path: &Path, _length: u64, _space: Space) -> io::Result<Arc<dyn DiskFile>> {
        refused()
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        RealDisk.read(path)
    }

    fn link(&self, _source: &Path, _target: &Path) -> io::Result<()> {
        refused()
    }

    fn rename(&self, _source: &Path, _target: &Path) -> io::Result<()> {
        refused()
    }

    fn remove(&self, _path: &Path) -> io::Result<()> {
        refused()
    }

    fn usage(&self, path: &Path) -> io::Result<Usage> {
        RealDisk.usage(path)
    }

    fn remove_dir(&self, _path: &Path) -> io::Result<()> {
        refused()
    }

    fn sync_dir(&self, _path: &Path) -> io::Result<()> {
        refused()
    }

    fn syncer(&self, _path: &Path) -> io::Result<Syncer> {
        refused()
    }

    fn mount(&self, path: &Path) -> io::Result<Option<String>> {
        RealDisk.mount(path)
    }

    fn lock(&self, _path: &Path) -> io::Result<Box<dyn Any + Send + Sync>> {
        refused()
    }
}
