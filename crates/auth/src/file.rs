//! Files with secrets, replaced as a whole. A crash at any moment leaves the old or the new content, and only the
//! owner can read either. The former content stays as `<file>.bak`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Mode with which only the owner of a file reads and writes it.
const MODE: u32 = 0o600;
/// Error number of Linux for too many symbolic links.
const ELOOP: i32 = 40;

/// An operation on a file that failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {path}: {error}")]
pub struct FileError {
    /// The operation that failed, as a verb.
    pub action: &'static str,
    /// The file or directory the operation was applied to.
    pub path: PathBuf,
    /// The error of the operating system.
    pub error: io::Error,
}

impl FileError {
    /// Whether the path is not a regular file, or the file is too large.
    pub(crate) fn is_unfit(&self) -> bool {
        use io::ErrorKind::{FileTooLarge, InvalidInput};
        // The standard library has no stable name for the error of a link that leads to itself.
        matches!(self.error.kind(), InvalidInput | FileTooLarge) || self.error.raw_os_error() == Some(ELOOP)
    }
}

pub(crate) fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FileError {
    move |error| FileError { action, path: path.to_owned(), error }
}

/// Converts the result of an operation on an optional file or directory. `None` if it does not exist.
pub(crate) fn if_found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

/// Returns the path of the former content of a file.
pub(crate) fn copy_of(path: &Path) -> PathBuf {
    beside(path, ".bak")
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Identity of a file's content without reading it: inode, length, and seconds and nanoseconds of the change.
pub(crate) type FileId = (u64, u64, i64, i64);

/// Returns the id of the file's present content, or `None` when the file cannot be examined.
pub(crate) fn id_of(path: &Path) -> Option<FileId> {
    let file = fs::metadata(path).ok()?;
    Some((file.ino(), file.len(), file.ctime(), file.ctime_nsec()))
}

/// Reads a regular file of at most `bytes_max` bytes; `None` if the file does not exist.
///
/// # Errors
/// [`FileError`] when the file exists and is unreadable, not a regular file, or too large.
pub fn read(path: &Path, bytes_max: u64) -> Result<Option<Vec<u8>>, FileError> {
    if_found(read_regular(path, bytes_max)).map_err(failed("read", path))
}

fn read_regular(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    // Before the file is opened, because opening a FIFO waits for a writer.
    let found = fs::metadata(path)?;
    if !found.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "expected a regular file"));
    }
    let too_large =
        || io::Error::new(io::ErrorKind::FileTooLarge, format!("expected at most {bytes_max} bytes"));
    if found.len() > bytes_max {
        return Err(too_large());
    }
    let mut text = Vec::new();
    // The file may grow meanwhile.
    let read = File::open(path)?.take(bytes_max.saturating_add(1)).read_to_end(&mut text)?;
    if read as u64 > bytes_max { Err(too_large()) } else { Ok(text) }
}

/// Replaces the content of a file. From then on only its owner may read it. The new content is durable when this
/// returns. A missing directory is created.
///
/// # Errors
/// [`FileError`] when a step fails. The former content can still be read.
pub fn write(path: &Path, text: &[u8]) -> Result<(), FileError> {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(failed("create", folder))?;
    let (new, copy) = (beside(path, ".tmp"), copy_of(path));
    remove(&new)?;
    let flushed =
        OpenOptions::new().write(true).create_new(true).mode(MODE).open(&new).and_then(|mut file| {
            file.write_all(text)?;
            file.sync_all()
        });
    flushed.map_err(failed("write", &new))?;
    if fs::metadata(path).is_ok_and(|file| file.len() > 0) {
        remove(&copy)?;
        fs::hard_link(path, &copy)
            .or_else(|_| fs::copy(path, &copy).map(drop))
            .map_err(failed("keep", &copy))?;
    }
    fs::rename(&new, path).map_err(failed("rename", &new))?;
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed("flush", folder))
}

fn remove(path: &Path) -> Result<(), FileError> {
    if_found(fs::remove_file(path)).map(drop).map_err(failed("remove", path))
}

#[cfg(test)]
mod tests;
