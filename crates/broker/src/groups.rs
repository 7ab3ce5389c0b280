//! Subscription groups: what a consumer group may do, kept in `subscriptionGroup.json`
//! (`SubscriptionGroupManager`).
//!
//! Every change is on disk before it takes effect. Changes are rare (operators, the first heartbeat of a new group),
//! so one mutex serialises them; lookups take a read lock only.

mod handlers;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use wire::body::{DataVersion, SubscriptionGroupConfig, SubscriptionGroupTable};
use wire::json::{self, Dialect};

use crate::{names, persist};
pub(crate) use handlers::{all_groups, delete_group, get_group, update_group};

/// Bit of a group's forbidden mask that closes a topic for reading (`PermName.INDEX_PERM_READ`).
const FORBIDDEN_READ: i32 = 1 << 2;

/// Most groups a broker keeps; one more is refused.
const GROUPS_MAX: usize = 500_000;

type Table = HashMap<String, Arc<SubscriptionGroupConfig>>;
type Forbidden = BTreeMap<String, BTreeMap<String, i32>>;

/// The groups of a broker.
pub(crate) struct Groups {
    path: PathBuf,
    lookup: RwLock<Lookup>,
    book: Mutex<Book>,
}

#[derive(Default)]
struct Lookup {
    groups: Table,
    forbidden: Forbidden,
}

/// What only writers of the file need.
struct Book {
    version: DataVersion,
    /// Members of the file this version does not know.
    extra: wire::body::Extra,
}

/// Why a group was not changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GroupError {
    /// The table is full.
    #[error("the broker keeps at most {GROUPS_MAX} groups and has as many")]
    Full,
    /// The file could not be written.
    #[error(transparent)]
    Persist(#[from] persist::Error),
}

impl Groups {
    /// Loads `subscriptionGroup.json` from `path` and adds the system groups it lacks.
    pub(crate) fn load(path: PathBuf) -> Result<Self, persist::Error> {
        let file: SubscriptionGroupTable = persist::read(&path)?.unwrap_or_default();
        let mut groups: Table = file
            .subscription_group_table
            .into_iter()
            .map(|(name, mut config)| {
                config.group_name.get_or_insert_with(|| name.clone());
                (name, Arc::new(config))
            })
            .collect();
        for name in names::SYSTEM_GROUPS {
            groups.entry(name.to_owned()).or_insert_with(|| Arc::new(SubscriptionGroupConfig::new(name)));
        }
        Ok(Self {
            path,
            lookup: RwLock::new(Lookup { groups, forbidden: file.forbidden_table }),
            book: Mutex::new(Book { version: file.data_version, extra: file.extra }),
        })
    }

    /// A group by name.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<SubscriptionGroupConfig>> {
        self.lookup().groups.get(name).cloned()
    }

    /// A group by name; created with the defaults when `auto_create` is set or it is a system group, and the name is
    /// legal (`SubscriptionGroupManager.findSubscriptionGroupConfig`). `None` also when it could not be stored.
    pub(crate) fn find_or_create(
        &self,
        name: &str,
        auto_create: bool,
        now_ms: i64,
    ) -> Option<Arc<SubscriptionGroupConfig>> {
        if let Some(found) = self.find(name) {
            return Some(found);
        }
        if !(auto_create || names::is_system_group(name)) || names::check_group(name).is_err() {
            return None;
        }
        let mut book = self.book();
        if let Some(found) = self.find(name) {
            return Some(found);
        }
        let created = self.put_locked(&mut book, name, SubscriptionGroupConfig::new(name), now_ms);
        if let Err(error) = &created {
            tracing::error!(group = name, %error, "a group could not be created");
        }
        created.ok()
    }

    /// Creates or replaces a group.
    pub(crate) fn put(&self, config: SubscriptionGroupConfig, now_ms: i64) -> Result<(), GroupError> {
        let name = config.group_name.clone().unwrap_or_default();
        let mut book = self.book();
        self.put_locked(&mut book, &name, config, now_ms).map(|_| ())
    }

    /// Removes a group; true when it existed.
    pub(crate) fn remove(&self, name: &str, now_ms: i64) -> Result<bool, GroupError> {
        let mut book = self.book();
        let (mut groups, mut forbidden) = self.copy();
        if groups.remove(name).is_none() {
            return Ok(false);
        }
        forbidden.remove(name);
        self.publish(&mut book, Lookup { groups, forbidden }, now_ms)?;
        Ok(true)
    }

    /// True when an operator closed the topic for the group.
    pub(crate) fn is_read_forbidden(&self, group: &str, topic: &str) -> bool {
        let mask = self.lookup().forbidden.get(group).and_then(|topics| topics.get(topic)).copied();
        mask.unwrap_or(0) & FORBIDDEN_READ != 0
    }

    /// The whole table, as the file holds it.
    pub(crate) fn snapshot(&self) -> SubscriptionGroupTable {
        let book = self.book();
        table(&book, &self.lookup())
    }

    fn put_locked(
        &self,
        book: &mut Book,
        name: &str,
        config: SubscriptionGroupConfig,
        now_ms: i64,
    ) -> Result<Arc<SubscriptionGroupConfig>, GroupError> {
        let (mut groups, forbidden) = self.copy();
        let config = Arc::new(config);
        groups.insert(name.to_owned(), config.clone());
        if groups.len() > GROUPS_MAX {
            return Err(GroupError::Full);
        }
        self.publish(book, Lookup { groups, forbidden }, now_ms)?;
        Ok(config)
    }

    /// Writes the file, then lets everybody see the new table.
    fn publish(&self, book: &mut Book, next: Lookup, now_ms: i64) -> Result<(), persist::Error> {
        let previous = book.version;
        book.version.advance(0, now_ms);
        let written = persist::write(&self.path, &json::to_vec_as(&table(book, &next), Dialect::Standard));
        match &written {
            Ok(()) => *self.lookup.write().unwrap_or_else(PoisonError::into_inner) = next,
            Err(_) => book.version = previous,
        }
        written
    }

    fn copy(&self) -> (Table, Forbidden) {
        let lookup = self.lookup();
        (lookup.groups.clone(), lookup.forbidden.clone())
    }

    fn lookup(&self) -> RwLockReadGuard<'_, Lookup> {
        self.lookup.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn table(book: &Book, lookup: &Lookup) -> SubscriptionGroupTable {
    let groups = &lookup.groups;
    SubscriptionGroupTable {
        data_version: book.version,
        forbidden_table: lookup.forbidden.clone(),
        subscription_group_table: groups
            .iter()
            .map(|(name, config)| (name.clone(), (**config).clone()))
            .collect(),
        extra: book.extra.clone(),
    }
}

#[cfg(test)]
mod tests;
