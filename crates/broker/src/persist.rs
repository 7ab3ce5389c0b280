//! Configuration files that are replaced as a whole. A crash at any moment leaves the old or the new content
//! (`ConfigManager`, except that a broken file is renamed instead of deleted).
//!
//! | step of a write | what a crash after it leaves |
//! |---|---|
//! | `<file>.tmp` is written and flushed | the old file, and `<file>.tmp`, which Java ignores |
//! | `<file>.bak` is removed | the old file, and `<file>.tmp` |
//! | `<file>` gets the second name `<file>.bak` (hard link) | the old file under both names |
//! | `<file>.tmp` is renamed to `<file>` | the new file |
//! | the directory is flushed | the new file, durable |
//!
//! So `<file>` exists at any moment, and settings can be read without its copy. If a hard link is not possible,
//! `<file>` is renamed to `<file>.bak` instead, which is read when `<file>` is missing.
//!
//! Files in the directory `config` that Vostok does not use (`topicQueueMapping.json`, `consumerFilter.json`,
//! `timermetrics`, …) are left as they are.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use store::{Disk, DiskFile, Space};
use wire::json::{self, JsonError};

/// Errors of reading or writing a configuration file. The text of the error names the file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system reported an error.
    #[error("cannot {action} {path}: {error}")]
    Disk {
        /// The operation that failed, as a verb.
        action: &'static str,
        /// The file or directory the operation was applied to.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The file cannot be parsed, and there is no copy that can.
    #[error("{path} is not readable: {error}; repair or remove it to start")]
    Content {
        /// The file that cannot be parsed.
        path: PathBuf,
        /// Error of parsing the content.
        error: JsonError,
    },
    /// A Java broker kept this table in RocksDB, which Vostok cannot read.
    #[error(
        "{table} is kept in RocksDB and there is no {file}; write it with the Java broker's tool and start again: mqadmin rocksDBConfigToJson -t {kind} -p {path}"
    )]
    Rocks {
        /// The directory of the RocksDB database.
        table: PathBuf,
        /// The JSON file that is missing.
        file: PathBuf,
        /// The name of the table for `mqadmin rocksDBConfigToJson -t`.
        kind: &'static str,
        /// The directory for `mqadmin rocksDBConfigToJson -p`.
        path: PathBuf,
    },
}

/// The tables that Java can keep in RocksDB: the name of the directory, which is also that of the table for `mqadmin`, and the
/// JSON file.
const ROCKS: [(&str, &str); 3] = [
    ("topics", "topics.json"),
    ("subscriptionGroups", "subscriptionGroup.json"),
    ("consumerOffsets", "consumerOffset.json"),
];

/// The directory of a broker's configuration files.
#[derive(Clone)]
pub struct ConfigFiles {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
}

impl ConfigFiles {
    /// The directory `directory` on a disk.
    pub fn new(disk: Arc<dyn Disk>, directory: PathBuf) -> Self {
        Self { disk, directory }
    }

    /// The disk the directory is on.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// The file `name` of the directory.
    pub fn file(&self, name: &str) -> ConfigFile {
        self.at(self.directory.join(name))
    }

    /// The file at `path`, which may lie outside of the directory, on the same disk.
    pub fn at(&self, path: PathBuf) -> ConfigFile {
        ConfigFile { disk: self.disk.clone(), path }
    }

    /// Refuses a directory whose tables exist only in RocksDB (`configManagerVersion`,
    /// `realTimePersistRocksDBConfig`), because a start with empty tables would lose all topics and offsets. A table
    /// with a JSON file is read from the file.
    ///
    /// # Errors
    /// [`Error::Rocks`] for the first table that exists only in RocksDB, [`Error::Disk`] when the directory cannot be listed.
    pub fn refuse_rocks(&self) -> Result<(), Error> {
        let config = &self.directory;
        let entries = self.disk.list(config).map_err(|error| failed("list", config, error))?;
        let exists = |path: &Path| entries.iter().any(|entry| config.join(&entry.name) == path);
        // A symbolic link to a directory is listed as a file.
        let is_dir = |path: &PathBuf| {
            entries.iter().any(|entry| entry.is_dir && config.join(&entry.name) == *path)
                || self.disk.list(path).is_ok_and(|inside| !inside.is_empty())
        };
        for (kind, name) in ROCKS {
            let file = config.join(name);
            let table = [config.join(kind), config.join("rdb")].into_iter().find(is_dir);
            if let Some(table) = table
                && !exists(&file)
                && !exists(&beside(&file, ".bak"))
            {
                return Err(Error::Rocks { table, file, kind, path: config.to_owned() });
            }
        }
        Ok(())
    }
}

/// Which file a configuration was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The value is from the file itself, so it is complete.
    File,
    /// The value is from the copy `<file>.bak`, so the last changes are missing.
    Copy,
    /// Neither the file nor a copy exists.
    Nowhere,
}

/// A configuration file and its copy `<file>.bak`.
#[derive(Clone)]
pub struct ConfigFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
}

impl ConfigFile {
    /// Reads the file, or its copy `<file>.bak` when the file is missing, empty or broken. `None` when neither exists.
    ///
    /// # Errors
    /// [`Error::Content`] when the copy is needed and broken, or the file is broken and has no copy; [`Error::Disk`] when
    /// reading, or renaming a broken file, fails. The content of files is never changed.
    pub fn read<T: DeserializeOwned>(&self) -> Result<Option<T>, Error> {
        self.read_from().map(|(value, _)| value)
    }

    /// Reads like [`Self::read`], and also returns the source of the value.
    ///
    /// # Errors
    /// See [`Self::read`].
    pub fn read_from<T: DeserializeOwned>(&self) -> Result<(Option<T>, Source), Error> {
        let path = &self.path;
        let broken = match self.read_one(path)? {
            Content::Value(value) => return Ok((Some(value), Source::File)),
            Content::Nothing => None,
            Content::Broken(error) => Some(error),
        };
        let copy = beside(path, ".bak");
        let value = match (self.read_one(&copy)?, broken) {
            (Content::Value(value), broken) => {
                tracing::warn!(path = %copy.display(), "config file is read from its copy");
                if let Some(error) = broken {
                    let aside = beside(path, ".broken");
                    tracing::warn!(path = %path.display(), kept_as = %aside.display(), %error, "config file is broken");
                    self.rename(path, &aside)?;
                }
                value
            }
            (Content::Broken(error), _) => return Err(Error::Content { path: copy, error }),
            (Content::Nothing, Some(error)) => return Err(Error::Content { path: path.clone(), error }),
            (Content::Nothing, None) => return Ok((None, Source::Nowhere)),
        };
        Ok((Some(value), Source::Copy))
    }

    /// Whether the file exists.
    ///
    /// # Errors
    /// [`Error::Disk`] when that cannot be found out.
    pub fn exists(&self) -> Result<bool, Error> {
        match self.disk.open(&self.path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(failed("open", &self.path, error)),
        }
    }

    /// The text of the file; empty when the file does not exist.
    ///
    /// # Errors
    /// [`Error::Disk`] when the file cannot be read or is not UTF-8.
    pub fn read_text(&self) -> Result<String, Error> {
        let text = match self.disk.read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
            Err(error) => return Err(failed("read", &self.path, error)),
        };
        let is_no_text =
            |error| failed("read", &self.path, io::Error::new(io::ErrorKind::InvalidData, error));
        String::from_utf8(text).map_err(is_no_text)
    }

    /// Replaces the content of the file, and keeps the previous content as `<file>.bak`. The new content is durable when this
    /// returns.
    ///
    /// # Errors
    /// [`Error::Disk`] when a step fails; the previous content can still be read.
    pub fn write(&self, text: &[u8]) -> Result<(), Error> {
        self.write_pieces(|file| io::Write::write_all(file, text), || true).map(drop)
    }

    /// Like [`Self::write`] for a large text, which `text` writes piece by piece, so that it is never in memory as a whole.
    /// The file is replaced if `may_replace` then returns true. Returns that value.
    ///
    /// # Errors
    /// Errors of [`Self::write`].
    pub(crate) fn write_pieces(
        &self,
        text: impl FnOnce(&mut NewFile<'_>) -> io::Result<()>,
        may_replace: impl FnOnce() -> bool,
    ) -> Result<bool, Error> {
        let (disk, folder) = (&self.disk, folder_of(&self.path));
        disk.create_dir_all(folder).map_err(|error| failed("create", folder, error))?;
        let new = beside(&self.path, ".tmp");
        let unwritten = |error| failed("write", &new, error);
        let handle = disk.create(&new, 0, Space::Sparse).map_err(unwritten)?;
        let mut file = NewFile { disk: &**disk, path: &new, handle, length: 0 };
        text(&mut file).map_err(unwritten)?;
        if !may_replace() {
            return Ok(false);
        }
        file.handle.sync().map_err(unwritten)?;
        // An empty file was left by a crash. Its copy has the content, and must not be replaced before the new file is there.
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let entries = disk.list(folder).map_err(|error| failed("list", folder, error))?;
        if entries.iter().any(|entry| entry.name == name && entry.length > 0) {
            self.keep()?;
        }
        self.rename(&new, &self.path)?;
        disk.sync_dir(folder).map_err(|error| failed("flush", folder, error))?;
        Ok(true)
    }

    /// Keeps the file as `<file>.bak` before a new file takes its name.
    fn keep(&self) -> Result<(), Error> {
        let copy = beside(&self.path, ".bak");
        self.disk.remove(&copy).map_err(|error| failed("remove", &copy, error))?;
        // Some file systems have no hard links, and some systems refuse hard links to files of other users.
        self.disk.link(&self.path, &copy).or_else(|_| self.rename(&self.path, &copy))
    }

    fn read_one<T: DeserializeOwned>(&self, path: &Path) -> Result<Content<T>, Error> {
        match self.disk.read(path) {
            Ok(text) if text.trim_ascii().is_empty() => Ok(Content::Nothing),
            Ok(text) => Ok(json::from_slice(&text).map_or_else(Content::Broken, Content::Value)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Content::Nothing),
            Err(error) => Err(failed("read", path, error)),
        }
    }

    fn rename(&self, source: &Path, target: &Path) -> Result<(), Error> {
        self.disk.rename(source, target).map_err(|error| failed("rename", source, error))
    }
}

/// A file that is being written from its begin.
pub(crate) struct NewFile<'a> {
    disk: &'a dyn Disk,
    path: &'a Path,
    /// Handle that is open from before the first write until the flush. Linux may report a failed write-back to no handle that
    /// was opened later.
    handle: Arc<dyn DiskFile>,
    length: u64,
}

impl io::Write for NewFile<'_> {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let length = self.length + piece.len() as u64;
        self.disk.create(self.path, length, Space::Sparse)?;
        self.handle.write_at(piece, self.length)?;
        self.length = length;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

enum Content<T> {
    Value(T),
    Nothing,
    Broken(JsonError),
}

/// The directory of a file; `.` for a path that is only a file name.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn failed(action: &'static str, path: &Path, error: io::Error) -> Error {
    Error::Disk { action, path: path.to_owned(), error }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests;
