//! Configuration files that are replaced as a whole: a crash at any moment leaves the old or the new content
//! (`ConfigManager`, with one difference: a broken file is renamed instead of deleted).
//!
//! | step of a write | what a crash after it leaves |
//! |---|---|
//! | `<file>.tmp` is written and flushed | the old file, and `<file>.tmp`, which Java ignores |
//! | `<file>.bak` is removed | the old file, and `<file>.tmp` |
//! | `<file>` gets the second name `<file>.bak` (hard link) | the old file under both names |
//! | `<file>.tmp` is renamed to `<file>` | the new file |
//! | the directory is flushed | the new file, durable |
//!
//! So `<file>` exists at any moment, and settings can be read without its copy. Where a hard link is not possible, `<file>` is
//! renamed to `<file>.bak` instead, which is read when `<file>` is missing.
//!
//! Files in the directory `config` that Vostok does not use (`topicQueueMapping.json`, `consumerFilter.json`,
//! `timermetrics`, …) are left as they are.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use wire::json::{self, JsonError};

/// Why a configuration file could not be read or written. The text of the error names the file.
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
        /// Why the content cannot be parsed.
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

/// Refuses a `config` directory whose tables exist only in RocksDB (`configManagerVersion`, `realTimePersistRocksDBConfig`),
/// because starting with empty tables would lose all topics and offsets. A table whose JSON file exists is read from that.
///
/// # Errors
/// [`Error::Rocks`] for the first table that exists only in RocksDB.
pub fn refuse_rocks(config: &Path) -> Result<(), Error> {
    for (kind, name) in ROCKS {
        let file = config.join(name);
        let table = [config.join(kind), config.join("rdb")].into_iter().find(|path| path.is_dir());
        if let Some(table) = table
            && !file.exists()
            && !beside(&file, ".bak").exists()
        {
            return Err(Error::Rocks { table, file, kind, path: config.to_owned() });
        }
    }
    Ok(())
}

/// Which file a configuration was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// From the file itself, so that nothing is missing.
    File,
    /// From the copy `<file>.bak`, so that the last changes are missing.
    Copy,
    /// From nowhere: neither the file nor a copy exists.
    Nowhere,
}

/// Reads the file at `path`, or its copy `<file>.bak` when the file is missing, empty or broken. `None` when neither exists.
///
/// # Errors
/// [`Error::Content`] when the copy is needed and broken, or the file is broken and has no copy; [`Error::Disk`] when reading,
/// or renaming a broken file, fails. The content of files is never changed.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    read_from(path).map(|(value, _)| value)
}

/// Reads like [`read`], and also returns where the value was read from.
///
/// # Errors
/// The same as those of [`read`].
pub fn read_from<T: DeserializeOwned>(path: &Path) -> Result<(Option<T>, Source), Error> {
    let broken = match read_one(path)? {
        Content::Value(value) => return Ok((Some(value), Source::File)),
        Content::Nothing => None,
        Content::Broken(error) => Some(error),
    };
    let copy = beside(path, ".bak");
    let value = match (read_one(&copy)?, broken) {
        (Content::Value(value), broken) => {
            tracing::warn!(path = %copy.display(), "config file is read from its copy");
            if let Some(error) = broken {
                let aside = beside(path, ".broken");
                tracing::warn!(path = %path.display(), kept_as = %aside.display(), %error, "config file is broken");
                rename(path, &aside)?;
            }
            value
        }
        (Content::Broken(error), _) => return Err(Error::Content { path: copy, error }),
        (Content::Nothing, Some(error)) => return Err(Error::Content { path: path.to_owned(), error }),
        (Content::Nothing, None) => return Ok((None, Source::Nowhere)),
    };
    Ok((Some(value), Source::Copy))
}

/// The text of a file; empty when the file does not exist.
///
/// # Errors
/// [`Error::Disk`] when the file cannot be read or is not UTF-8.
pub fn read_text(path: &Path) -> Result<String, Error> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(failed("read", path, error)),
    }
}

/// Replaces the content of the file at `path`, and keeps the previous content as `<file>.bak`. The new content is durable when
/// this returns.
///
/// # Errors
/// [`Error::Disk`] when a step fails; the previous content can still be read.
pub fn write(path: &Path, text: &[u8]) -> Result<(), Error> {
    let folder = folder_of(path);
    fs::create_dir_all(folder).map_err(|error| failed("create", folder, error))?;
    let new = beside(path, ".tmp");
    let flushed = File::create(&new).and_then(|mut file| {
        file.write_all(text)?;
        file.sync_all()
    });
    flushed.map_err(|error| failed("write", &new, error))?;
    // An empty file was left by a crash. Its copy has the content, and must not be replaced before the new file is there.
    if fs::metadata(path).is_ok_and(|file| file.len() > 0) {
        keep(path)?;
    }
    rename(&new, path)?;
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| failed("flush", folder, error))
}

/// The directory of a file; `.` for a path that is only a file name.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Keeps a file as `<file>.bak` before a new file takes its name.
fn keep(path: &Path) -> Result<(), Error> {
    let copy = beside(path, ".bak");
    if let Err(error) = fs::remove_file(&copy)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(failed("remove", &copy, error));
    }
    // Some file systems have no hard links, and some systems refuse hard links to files of other users.
    fs::hard_link(path, &copy).or_else(|_| rename(path, &copy))
}

enum Content<T> {
    Value(T),
    Nothing,
    Broken(JsonError),
}

fn read_one<T: DeserializeOwned>(path: &Path) -> Result<Content<T>, Error> {
    match fs::read(path) {
        Ok(text) if text.trim_ascii().is_empty() => Ok(Content::Nothing),
        Ok(text) => Ok(json::from_slice(&text).map_or_else(Content::Broken, Content::Value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Content::Nothing),
        Err(error) => Err(failed("read", path, error)),
    }
}

fn rename(source: &Path, target: &Path) -> Result<(), Error> {
    fs::rename(source, target).map_err(|error| failed("rename", source, error))
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
