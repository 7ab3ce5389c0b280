//! Subscription groups: the settings of consumer groups, stored in `subscriptionGroup.json`
//! (`SubscriptionGroupManager`).
//!
//! Every change is on disk before it takes effect. Changes are rare (operators, the first heartbeat of a new group),
//! so a mutex serialises them. Lookups take a read lock only.

pub(crate) mod attributes;
mod change;
mod handlers;

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;
use wire::body::{DataVersion, Extra, SubscriptionGroupConfig, SubscriptionGroupTable};

use crate::change::GroupChange;
use crate::change_log::ChangeLog;
use crate::names::is_light;
use crate::ordered_table::OrderedTable;
use crate::persist::{self, ConfigFile};
use crate::{Refusal, Result, names};
pub(crate) use handlers::{ForbidTopic, check_group, delete_group, forbid, found, page, put_group};

/// Bit of a group's forbidden mask that closes a topic for reading (`PermName.INDEX_PERM_READ`).
const FORBIDDEN_READ: i32 = 1 << 2;

/// Most groups of a broker. Further groups are refused.
const GROUPS_MAX: usize = 500_000;

type Table = OrderedTable<Arc<SubscriptionGroupConfig>>;
type Forbidden = BTreeMap<String, BTreeMap<String, i32>>;

/// The groups of a broker.
pub(crate) struct Groups {
    file: ConfigFile,
    /// The file that the table was read from: the table itself, an older copy, or none.
    source: persist::Source,
    lookup: RwLock<Lookup>,
    /// Lock of file writes, so that the file follows the order of changes. Taken before `lookup`.
    writing: Mutex<()>,
    /// The generation of the table: a number that grows with every change, since the process started.
    generation: watch::Sender<u64>,
    /// Whether light groups exist: they have the default configuration and no entry in the table.
    light: bool,
}

struct Lookup {
    version: DataVersion,
    groups: Table,
    forbidden: Forbidden,
    /// Members of the file that this version does not know; they are written back.
    extra: Extra,
    /// The last changes, for slaves.
    changes: ChangeLog,
}

impl Lookup {
    /// All groups and their configurations, which are shared, not copied.
    fn copied(&self) -> Vec<(String, Arc<SubscriptionGroupConfig>)> {
        self.groups.iter().map(|(name, config)| (name.to_owned(), config.clone())).collect()
    }
}

impl Groups {
    /// Loads `subscriptionGroup.json` and adds the system groups it lacks.
    pub(crate) fn load(file: ConfigFile) -> Result<Self, persist::Error> {
        let (table, source) = file.read_from()?;
        let table: SubscriptionGroupTable = table.unwrap_or_default();
        let mut groups: Table = table
            .subscription_group_table
            .into_iter()
            .map(|(name, mut config)| {
                config.group_name.get_or_insert_with(|| name.clone());
                (name, Arc::new(config))
            })
            .collect();
        for name in names::SYSTEM_GROUPS {
            if groups.get(name).is_none() {
                groups.insert(name, Arc::new(SubscriptionGroupConfig::new(name)));
            }
        }
        Ok(Self {
            file,
            source,
            lookup: RwLock::new(Lookup {
                version: table.data_version,
                groups,
                forbidden: table.forbidden_table,
                extra: table.extra,
                changes: ChangeLog::default(),
            }),
            writing: Mutex::default(),
            generation: watch::Sender::new(1),
            light: false,
        })
    }

    /// Sets whether every group whose name begins with `%LMQ%` exists.
    pub(crate) fn with_light(self, light: bool) -> Self {
        Self { light, ..self }
    }

    /// The file that the table was read from.
    pub(crate) fn source(&self) -> persist::Source {
        self.source
    }

    /// The generation of the table.
    pub(crate) fn generation(&self) -> u64 {
        *self.generation.borrow()
    }

    /// Returns a receiver that has the generation of the table and is notified of changes.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    /// Returns the version of the table, and the sorted names of the groups that changed or were removed after
    /// `generation`. Returns `None` instead of names if the list of changes does not reach back that far.
    pub(crate) fn changed_since(&self, generation: u64) -> (DataVersion, Option<Vec<String>>) {
        let lookup = self.lookup.read();
        (lookup.version, lookup.changes.after(generation, self.generation()))
    }

    /// The topics that operators closed for groups.
    pub(crate) fn forbidden(&self) -> Forbidden {
        self.lookup.read().forbidden.clone()
    }

    /// The configuration of a group.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<SubscriptionGroupConfig>> {
        if self.light && is_light(name) {
            return Some(Arc::new(SubscriptionGroupConfig::new(name)));
        }
        self.in_table(name)
    }

    /// The configuration of a group in the table. Light groups have no entry.
    pub(crate) fn in_table(&self, name: &str) -> Option<Arc<SubscriptionGroupConfig>> {
        self.lookup.read().groups.get(name).cloned()
    }

    /// Names of all groups, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        self.lookup.read().groups.iter().map(|(name, _)| name.to_owned()).collect()
    }

    /// Returns the names that contain `text` among the `count` names behind `name`, in order. Also returns the last
    /// examined name if there were `count` names.
    pub(crate) fn search(&self, name: &str, text: &str, count: usize) -> (Vec<String>, Option<String>) {
        let mut names = Vec::new();
        let lookup = self.lookup.read();
        let last = lookup.groups.search(name, text, count, |name| {
            names.push(name.to_owned());
            true
        });
        (names, last.map(str::to_owned))
    }

    /// The number of groups.
    pub(crate) fn count(&self) -> usize {
        self.lookup.read().groups.len()
    }

    /// Returns the configuration of a group. A missing group with a legal name is created with defaults if
    /// `auto_create` is set or the group is a system group. The request then waits for the metadata writer
    /// (`SubscriptionGroupManager.findSubscriptionGroupConfig`).
    pub(crate) fn find_or_create(
        &self,
        name: &str,
        auto_create: bool,
    ) -> Result<Option<Arc<SubscriptionGroupConfig>>> {
        match self.find(name) {
            Some(found) => Ok(Some(found)),
            None if self.may_create(name, auto_create) => {
                Err(Refusal::after(GroupChange::Ensure(name.to_owned())))
            }
            None => Ok(None),
        }
    }

    /// Whether a missing group may be created by its first use.
    pub(crate) fn may_create(&self, name: &str, auto_create: bool) -> bool {
        (auto_create || names::is_system_group(name))
            && names::check_group(name).is_ok()
            && self.lookup.read().groups.len() < GROUPS_MAX
    }

    /// Whether an operator closed the topic for the group (request 353).
    pub(crate) fn is_read_forbidden(&self, group: &str, topic: &str) -> bool {
        let mask = self.lookup.read().forbidden.get(group).and_then(|topics| topics.get(topic)).copied();
        mask.unwrap_or(0) & FORBIDDEN_READ != 0
    }

    /// Version of the group table.
    pub(crate) fn version(&self) -> DataVersion {
        self.lookup.read().version
    }

    /// The whole group table, as the file holds it.
    pub(crate) fn snapshot(&self) -> SubscriptionGroupTable {
        let lookup = self.lookup.read();
        let (data_version, extra) = (lookup.version, lookup.extra.clone());
        let (forbidden_table, groups) = (lookup.forbidden.clone(), lookup.copied());
        // The configurations are copied without the lock: a writer would wait for it, and all requests wait behind the writer.
        drop(lookup);
        let config =
            |(name, config): (String, Arc<SubscriptionGroupConfig>)| (name, Arc::unwrap_or_clone(config));
        SubscriptionGroupTable {
            data_version,
            forbidden_table,
            subscription_group_table: groups.into_iter().map(config).collect(),
            extra,
        }
    }
}

#[cfg(test)]
mod tests;
