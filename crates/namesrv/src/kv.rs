//! Key-value settings by namespace, stored in `kvConfig.json` (`KVConfigManager`).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use wire::json::{self, JsonError};

use crate::files;

/// Namespace of the order configurations: topic to `broker-a:8;broker-b:8`.
pub(crate) const ORDER_TOPIC_CONFIG: &str = "ORDER_TOPIC_CONFIG";

type KvTables = BTreeMap<String, BTreeMap<String, String>>;

/// Content of the file, to be written.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct KvFileText<'a> {
    config_table: BTreeMap<&'a str, BTreeMap<&'a str, &'a str>>,
}

/// Content of the file (`KVConfigSerializeWrapper`).
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct KvFile {
    config_table: KvTables,
}

/// Errors of reading or writing the key-value settings.
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
        /// Error and its position.
        error: JsonError,
    },
}

/// A change of one key.
#[derive(Debug, Clone, Copy)]
pub struct KvChange<'a> {
    /// Namespace of the key.
    pub namespace: &'a str,
    /// Key.
    pub key: &'a str,
    /// Value of the key from now on; `None` removes the key. Its namespace stays, as in RocketMQ.
    pub value: Option<&'a str>,
}

/// Estimated bytes that a key or a namespace takes beside its text.
const ENTRY_BYTES: usize = 64;

/// The key-value settings, and the path of their file. The caller writes `KvStore::text_with` to the file before
/// `KvStore::apply` makes changes visible.
#[derive(Debug)]
pub struct KvStore {
    table: KvTables,
    /// Estimated bytes of the table.
    bytes: usize,
    path: PathBuf,
}

impl KvStore {
    /// Loads the file; a missing or empty file holds no settings.
    ///
    /// # Errors
    /// [`KvError::File`] when the file exists and cannot be read; [`KvError::Malformed`] when its content is invalid.
    pub fn open(path: &Path) -> Result<Self, KvError> {
        let text = files::read(path).map_err(|error| KvError::File { path: path.to_owned(), error })?;
        let stored: KvFile = if text.trim_ascii().is_empty() {
            KvFile::default()
        } else {
            json::from_slice(&text).map_err(|error| KvError::Malformed { path: path.to_owned(), error })?
        };
        let keys = |keys: &BTreeMap<String, String>| -> usize {
            keys.iter().map(|(key, value)| ENTRY_BYTES + key.len() + value.len()).sum()
        };
        let table = stored.config_table;
        let bytes = table.iter().map(|(name, found)| ENTRY_BYTES + name.len() + keys(found)).sum();
        Ok(Self { table, bytes, path: path.to_owned() })
    }

    /// The value of a key, if it is set.
    pub fn get(&self, namespace: &str, key: &str) -> Option<&str> {
        self.namespace(namespace)?.get(key).map(String::as_str)
    }

    /// All keys and values of a namespace.
    pub fn namespace(&self, namespace: &str) -> Option<&BTreeMap<String, String>> {
        self.table.get(namespace)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Estimated bytes after these changes.
    pub(crate) fn bytes_after<'a>(&self, changes: &[KvChange<'a>]) -> usize {
        let change = |change: &KvChange<'a>| ((change.namespace, change.key), change.value);
        let values: BTreeMap<_, _> = changes.iter().map(change).collect();
        let mut bytes = self.bytes;
        let mut new_namespaces = BTreeSet::new();
        for ((namespace, key), value) in values {
            let entry = |value: Option<&str>| value.map_or(0, |value| ENTRY_BYTES + key.len() + value.len());
            bytes = bytes - entry(self.get(namespace, key)) + entry(value);
            if value.is_some() && !self.table.contains_key(namespace) && new_namespaces.insert(namespace) {
                bytes += ENTRY_BYTES + namespace.len();
            }
        }
        bytes
    }

    /// The text of the file with these changes. Keys and values are copied only into the text.
    pub(crate) fn text_with(&self, changes: &[KvChange<'_>]) -> Vec<u8> {
        fn texts(keys: &BTreeMap<String, String>) -> BTreeMap<&str, &str> {
            keys.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
        }
        let mut config_table: BTreeMap<&str, BTreeMap<&str, &str>> =
            self.table.iter().map(|(namespace, keys)| (namespace.as_str(), texts(keys))).collect();
        for KvChange { namespace, key, value } in changes {
            match value {
                Some(value) => drop(config_table.entry(namespace).or_default().insert(key, value)),
                None => drop(config_table.get_mut(namespace).and_then(|keys| keys.remove(key))),
            }
        }
        json::to_vec(&KvFileText { config_table })
    }

    /// Makes changes visible.
    pub(crate) fn apply(&mut self, changes: &[KvChange<'_>]) {
        self.bytes = self.bytes_after(changes);
        for KvChange { namespace, key, value } in changes {
            match value {
                Some(value) => {
                    let keys = self.table.entry((*namespace).to_owned()).or_default();
                    keys.insert((*key).to_owned(), (*value).to_owned());
                }
                None => drop(self.table.get_mut(*namespace).and_then(|keys| keys.remove(*key))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn changes_of_one_write_are_counted_and_stored_in_their_order() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("kvConfig.json");
        let mut store = KvStore::open(&path).unwrap();
        let change = |namespace, key, value| KvChange { namespace, key, value };
        let changes = [
            change("ns", "a", Some("1")),
            change("ns", "b", Some("中\"")),
            change("ns", "a", None),
            change("other", "a", None),
        ];
        let text = store.text_with(&changes);
        assert_eq!(std::str::from_utf8(&text).unwrap(), r#"{"configTable":{"ns":{"b":"中\""}}}"#);
        store.apply(&changes);
        assert_eq!(store.bytes, 2 * ENTRY_BYTES + 2 + 1 + 4);
        fs::write(&path, text).unwrap();
        let store = KvStore::open(&path).unwrap();
        assert_eq!(store.bytes, 2 * ENTRY_BYTES + 2 + 1 + 4);
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
}
