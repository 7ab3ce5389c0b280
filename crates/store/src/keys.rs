//! The keys by which a message is found, and their hashes (`IndexService.buildIndex`, `IndexFile.indexKeyHashMethod`).

use wire::hash::java_hash_on;
use wire::properties::{self, key};
use wire::record::{RecordView, sys_flag};

/// Separates topic and key in the hashed text.
const SEPARATOR: &[u8] = b"#";
/// Separates topic and tag in the hashed text.
const TAG_SEPARATOR: &[u8] = b"T#";

/// Kind of key that a query searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// The message's unique key or one of its keys.
    Key,
    /// The message's tag.
    Tag,
}

/// Whether a record with this `sysFlag` is indexed by key: all except rollbacks of transactions.
pub(crate) fn is_keyed(flags: i32) -> bool {
    sys_flag::transaction(flags) != sys_flag::TRANSACTION_ROLLBACK
}

/// Hash of the topic and separator, with which the hashes of all its keys begin.
pub(crate) fn seed_of(topic: &[u8]) -> i32 {
    java_hash_on(java_hash_on(0, topic), SEPARATOR)
}

/// Key of a message for an index file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyEntry {
    pub(crate) hash: u32,
    /// Log position of the message.
    pub(crate) offset: u64,
    /// Store time of the message, ms since the epoch.
    pub(crate) time: i64,
}

impl KeyEntry {
    /// Makes the entries of a record's keys from their hashes.
    pub(crate) fn all(hashes: &[u32], offset: u64, time: i64) -> impl Iterator<Item = Self> + '_ {
        hashes.iter().map(move |hash| Self { hash: *hash, offset, time })
    }
}

/// Appends the hashes of a stored record's keys: none for the rollback of a transaction.
pub(crate) fn hashes_of(view: &RecordView<'_>, hashes: &mut Vec<u32>) {
    if is_keyed(view.sys_flag()) {
        Keys::of(view.properties()).hash_into(seed_of(view.topic()), hashes);
    }
}

/// The hash of a key, as index items hold it.
pub(crate) fn hash_of(seed: i32, kind: KeyKind, key: &[u8]) -> u32 {
    let seed = match kind {
        KeyKind::Key => seed,
        KeyKind::Tag => java_hash_on(seed, TAG_SEPARATOR),
    };
    // `i32::MIN` has no absolute value in Java and counts as zero.
    java_hash_on(seed, key).checked_abs().unwrap_or(0).unsigned_abs()
}

/// The properties by which a message is found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keys<'a> {
    pub(crate) tag: Option<&'a [u8]>,
    keys: Option<&'a [u8]>,
    unique: Option<&'a [u8]>,
}

impl<'a> Keys<'a> {
    pub(crate) fn of(stored: &'a [u8]) -> Self {
        let [tag, keys, unique] = properties::get_all(stored, [key::TAGS, key::KEYS, key::UNIQ_KEY]);
        Self { tag, keys, unique }
    }

    /// Appends the hashes in the order of the message's items: unique key, keys, tag.
    pub(crate) fn hash_into(&self, seed: i32, hashes: &mut Vec<u32>) {
        hashes.extend(self.unique.map(|key| hash_of(seed, KeyKind::Key, key)));
        hashes.extend(self.single_keys().map(|key| hash_of(seed, KeyKind::Key, key)));
        hashes.extend(self.tag.map(|tag| hash_of(seed, KeyKind::Tag, tag)));
    }

    /// Whether the message has this key.
    pub(crate) fn has(&self, kind: KeyKind, key: &[u8]) -> bool {
        match kind {
            KeyKind::Key => self.unique == Some(key) || self.single_keys().any(|own| own == key),
            KeyKind::Tag => self.tag == Some(key),
        }
    }

    fn single_keys(&self) -> impl Iterator<Item = &'a [u8]> {
        let keys = self.keys.unwrap_or_default();
        keys.split(|letter| *letter == b' ').filter(|key| !key.is_empty())
    }
}
