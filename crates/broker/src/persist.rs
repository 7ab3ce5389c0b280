//! Configuration files that are replaced as a whole: a crash at any moment leaves the old or the new content
//! (`ConfigManager`, with one difference: a broken file is set aside instead of deleted).
//!
//! | step of a write | what a crash after it leaves |
//! |---|---|
//! | `<file>.tmp` is written and flushed | the old file; Java ignores the other |
//! | `<file>.bak` is removed | the same |
//! | `<file>` gets the second name `<file>.bak` | the old file under both names |
//! | `<file>.tmp` becomes `<file>` | the new file |
//! | the directory is flushed | the same, durable |
//!
//! So there is always a `<file>`: settings are read without a look at the copy. A file that cannot have a second name is
//! renamed to `<file>.bak` instead, which reading falls back to.
//!
//! Files of `config` that nothing here uses (`topicQueueMapping.json`, `consumerFilter.json`, `timermetrics`, …) are left
//! as they are.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use wire::json::{self, JsonError};

/// Why a configuration file could not be read or written. The text names the file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The disk's.
    #[error("cannot {action} {path}: {error}")]
    Disk {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The file and its copy hold something else than expected.
    #[error("{path} is not readable: {error}; repair or remove it to start")]
    Content {
        /// The file.
        path: PathBuf,
        /// What was expected.
        error: JsonError,
    },
    /// Java kept this table in RocksDB, which is not read here.
    #[error(
        "{table} is kept in RocksDB and there is no {file}; write it with the Java broker's tool and start again: mqadmin rocksDBConfigToJson -t {kind} -p {path}"
    )]
    Rocks {
        /// The database.
        table: PathBuf,
        /// The file that is missing.
        file: PathBuf,
        /// The tool's word for the table.
        kind: &'static str,
        /// The directory the tool is told.
        path: PathBuf,
    },
}

/// The tables of which Java can keep a copy in RocksDB: directory and the tool's word for it, file.
const ROCKS: [(&str, &str); 3] = [
    ("topics", "topics.json"),
    ("subscriptionGroups", "subscriptionGroup.json"),
    ("consumerOffsets", "consumerOffset.json"),
];

/// Refuses a `config` directory whose truth is in RocksDB (`configManagerVersion`, `realTimePersistRocksDBConfig`):
/// starting with empty tables would lose every topic and offset. With the file there, it counts.
///
/// # Errors
/// [`Error::Rocks`] for the first such table.
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

/// Where a configuration was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The file itself: nothing is missing.
    File,
    /// The copy: the last changes are missing.
    Copy,
    /// There was neither.
    Nowhere,
}

/// Reads `path`, or its copy `<file>.bak` when it is missing, empty or broken; `None` when there is neither.
///
/// # Errors
/// The copy is needed and broken, the file is broken and has no copy, or the disk fails. Nothing was changed.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    read_from(path).map(|(value, _)| value)
}

/// The same, and where it was read from.
///
/// # Errors
/// Those of [`read`].
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

/// The text of a file; empty when there is none.
///
/// # Errors
/// The disk fails, or it is no text.
pub fn read_text(path: &Path) -> Result<String, Error> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(failed("read", path, error)),
    }
}

/// Replaces the content of `path` by a text, keeping the previous one as `<file>.bak`. Durable when it returns.
///
/// # Errors
/// The disk fails; the previous content is still there.
pub fn write(path: &Path, text: &[u8]) -> Result<(), Error> {
    let folder = folder_of(path);
    fs::create_dir_all(folder).map_err(|error| failed("create", folder, error))?;
    let new = beside(path, ".tmp");
    let flushed = File::create(&new).and_then(|mut file| {
        file.write_all(text)?;
        file.sync_all()
    });
    flushed.map_err(|error| failed("write", &new, error))?;
    // An empty file is what a crash left: its copy has the tables, until the new file is there.
    if fs::metadata(path).is_ok_and(|file| file.len() > 0) {
        keep(path)?;
    }
    rename(&new, path)?;
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| failed("flush", folder, error))
}

/// The directory a file lies in, also of one named without any.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Keeps a file as `<file>.bak`, for when another takes its name.
fn keep(path: &Path) -> Result<(), Error> {
    let copy = beside(path, ".bak");
    if let Err(error) = fs::remove_file(&copy)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(failed("remove", &copy, error));
    }
    // Some file systems have no second names, and some systems refuse them for files of somebody else.
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
