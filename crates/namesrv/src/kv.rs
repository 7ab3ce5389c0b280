//! Key-value settings by namespace, stored in `kvConfig.json` (`KVConfigManager`).

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use wire::json::{self, JsonError};

use crate::files;

/// Namespace of the order configurations: topic to `broker-a:8;broker-b:8`.
pub(crate) const ORDER_TOPIC_CONFIG: &str = "ORDER_TOPIC_CONFIG";

type Table = BTreeMap<String, BTreeMap<String, String>>;

/// Content of the file (`KVConfigSerializeWrapper`).
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Stored {
    config_table: Table,
}

/// Why the key-value settings cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum KvError {
    /// A file operation failed.
    #[error("cannot access {path}: {error}")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The error of the operation.
        error: io::Error,
    },
    /// The file is not JSON, or not of the expected structure.
    #[error("cannot read {path}: {error}")]
    Malformed {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong, and where.
        error: JsonError,
    },
}

/// The key-value settings and their file. A change is on disk before it is visible.
#[derive(Debug)]
pub struct KvStore {
    table: Table,
    path: PathBuf,
}

impl KvStore {
    /// Loads the file; a missing or empty file holds no settings.
    ///
    /// # Errors
    /// [`KvError::File`] when the file exists and cannot be read; [`KvError::Malformed`] when its content is invalid.
    pub fn open(path: &Path) -> Result<Self, KvError> {
        let text = files::read(path).map_err(|error| KvError::File { path: path.to_owned(), error })?;
        let stored: Stored = if text.trim_ascii().is_empty() {
            Stored::default()
        } else {
            json::from_slice(&text).map_err(|error| KvError::Malformed { path: path.to_owned(), error })?
        };
        Ok(Self { table: stored.config_table, path: path.to_owned() })
    }

    /// The value of a key, if it is set.
    pub fn get(&self, namespace: &str, key: &str) -> Option<&str> {
        self.namespace(namespace)?.get(key).map(String::as_str)
    }

    /// All keys and values of a namespace.
    pub fn namespace(&self, namespace: &str) -> Option<&BTreeMap<String, String>> {
        self.table.get(namespace)
    }

    /// Sets a key.
    ///
    /// # Errors
    /// [`KvError::File`] when the file cannot be written; the setting is then unchanged.
    pub fn put(&mut self, namespace: &str, key: &str, value: &str) -> Result<(), KvError> {
        let mut table = self.table.clone();
        table.entry(namespace.to_owned()).or_default().insert(key.to_owned(), value.to_owned());
        self.replace(table)
    }

    /// Removes a key; its namespace stays, as in RocketMQ.
    ///
    /// # Errors
    /// [`KvError::File`] when the file cannot be written; the setting is then unchanged.
    pub fn delete(&mut self, namespace: &str, key: &str) -> Result<(), KvError> {
        if self.get(namespace, key).is_none() {
            return Ok(());
        }
        let mut table = self.table.clone();
        if let Some(keys) = table.get_mut(namespace) {
            keys.remove(key);
        }
        self.replace(table)
    }

    fn replace(&mut self, table: Table) -> Result<(), KvError> {
        let stored = Stored { config_table: table };
        files::write_atomically(&self.path, &json::to_vec(&stored))
            .map_err(|error| KvError::File { path: self.path.clone(), error })?;
        self.table = stored.config_table;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn settings_survive_reopening() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("namesrv/kvConfig.json");
        let mut store = KvStore::open(&path).unwrap();
        store.put("ns", "a", "1").unwrap();
        store.put("ns", "b", "中\"").unwrap();
        store.delete("ns", "a").unwrap();
        store.delete("other", "a").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), r#"{"configTable":{"ns":{"b":"中\""}}}"#);
        let store = KvStore::open(&path).unwrap();
        assert_eq!((store.get("ns", "a"), store.get("ns", "b")), (None, Some("中\"")));
    }

    #[test]
    fn a_damaged_file_is_an_error_and_an_empty_one_is_not() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("kvConfig.json");
        fs::write(&path, " \n").unwrap();
        assert!(KvStore::open(&path).unwrap().namespace("ns").is_none());
        fs::write(&path, "{\"configTable\":{").unwrap();
        let error = KvStore::open(&path).unwrap_err().to_string();
        assert!(error.ends_with("bad json at byte 16: expected text, found the end of the text"), "{error}");
    }

    #[test]
    fn a_failed_write_changes_nothing() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("file/kvConfig.json");
        fs::write(home.path().join("file"), "not a directory").unwrap();
        let mut store = KvStore { table: Table::new(), path };
        assert!(matches!(store.put("ns", "a", "1"), Err(KvError::File { .. })));
        assert_eq!(store.get("ns", "a"), None);
    }
}
