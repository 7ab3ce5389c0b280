//! The store lock: a POSIX record lock, as Java's `FileLock` takes, so that Vostok and a RocketMQ broker exclude each other.
//!
//! Such locks belong to a process, so two stores in one process would not exclude each other, and closing
//! any descriptor of the file would drop the lock. A registry of the locked files covers both.

use rustix::fs::{FlockOperation, fcntl_lock};
use std::any::Any;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Mutex;

/// Device and inode of every file locked by this process.
static LOCKED: Mutex<BTreeSet<(u64, u64)>> = Mutex::new(BTreeSet::new());

struct StoreLock {
    key: (u64, u64),
    // Closing it releases the record lock.
    _file: File,
}

impl Drop for StoreLock {
    fn drop(&mut self) {
        LOCKED.lock().unwrap_or_else(|poison| poison.into_inner()).remove(&self.key);
    }
}

pub(super) fn lock(path: &Path) -> io::Result<Box<dyn Any + Send + Sync>> {
    if let Ok(metadata) = fs::metadata(path) {
        let key = (metadata.dev(), metadata.ino());
        if LOCKED.lock().unwrap_or_else(|poison| poison.into_inner()).contains(&key) {
            return Err(io::Error::new(
                ErrorKind::WouldBlock,
                format!("this process, {}", std::process::id()),
            ));
        }
    }
    let file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
    match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) => {
            return Err(io::Error::new(ErrorKind::WouldBlock, holder(&file)));
        }
        Err(error) => return Err(error.into()),
    }
    file.write_at(b"lock", 0)?;
    let metadata = file.metadata()?;
    let key = (metadata.dev(), metadata.ino());
    LOCKED.lock().unwrap_or_else(|poison| poison.into_inner()).insert(key);
    Ok(Box::new(StoreLock { key, _file: file }))
}

fn holder(file: &File) -> String {
    known_holder(file).unwrap_or_else(|| "another process".to_owned())
}

/// The holder of the lock on the store at `root`, such as `process 1234`, read from the kernel's lock table without taking
/// the lock.
pub fn lock_holder(root: &Path) -> Option<String> {
    known_holder(&File::open(root.join("lock")).ok()?)
}

/// The process that holds a record lock on the file, from `/proc/locks`.
fn known_holder(file: &File) -> Option<String> {
    let (metadata, table) = (file.metadata().ok()?, fs::read_to_string("/proc/locks").ok()?);
    let inode = format!(":{}", metadata.ino());
    // `1: POSIX  ADVISORY  WRITE 1234 fd:01:5678 0 EOF`; blocked waiters have `->` behind the number.
    let process = table.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let kind = words.next()?;
        let process = words.nth(2)?;
        (kind == "POSIX" && words.next()?.ends_with(&inode)).then_some(process)
    });
    process.map(|process| format!("process {process}"))
}
