//! Changes of the group table and of the file it is kept in.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use wire::body::{DataVersion, Extra, SubscriptionGroupConfig, SubscriptionGroupTable, TableDelta};
use wire::codes::response;
use wire::json::{self, Dialect};

use super::attributes::altered;
use super::{FORBIDDEN_READ, Forbidden, GROUPS_MAX, Groups};
use crate::change::GroupChange;
use crate::refusal::{Result, refuse_all};
use crate::{Refusal, persist};

/// The result of changes that are not written yet.
#[derive(Default)]
struct Staged {
    /// Changed groups by name. `None` for removed groups.
    groups: BTreeMap<String, Option<Arc<SubscriptionGroupConfig>>>,
    /// Whether a group (first name) may read a topic (second name), where that changes.
    readable: BTreeMap<(String, String), bool>,
}

impl Staged {
    fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.readable.is_empty()
    }

    fn extend(&mut self, next: Self) {
        self.groups.extend(next.groups);
        self.readable.extend(next.readable);
    }

    /// The table of closed topics after the changes.
    fn forbidden(&self, mut forbidden: Forbidden) -> Forbidden {
        for ((group, topic), readable) in &self.readable {
            let mask = forbidden.entry(group.clone()).or_default().entry(topic.clone()).or_default();
            *mask = if *readable { *mask & !FORBIDDEN_READ } else { *mask | FORBIDDEN_READ };
        }
        forbidden.values_mut().for_each(|topics| topics.retain(|_, mask| *mask != 0));
        forbidden
            .retain(|group, topics| !topics.is_empty() && self.groups.get(group).is_none_or(Option::is_some));
        forbidden
    }
}

/// The content of `subscriptionGroup.json`, borrowed from the table.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'a> {
    data_version: DataVersion,
    forbidden_table: &'a Forbidden,
    subscription_group_table: BTreeMap<&'a str, &'a SubscriptionGroupConfig>,
    #[serde(flatten)]
    extra: &'a Extra,
}

impl Groups {
    /// Applies changes with one write of the file. The changes of an inner list are applied together or not at all,
    /// and a refused list does not affect the other lists. No change is visible before the file is on disk.
    pub(crate) fn commit(&self, changes: Vec<Vec<GroupChange>>, now_ms: i64) -> Vec<Result<()>> {
        let _writing = self.writing.lock();
        let mut staged = Staged::default();
        let mut outcomes: Vec<_> =
            changes.into_iter().map(|list| self.stage_all(&mut staged, list)).collect();
        if staged.is_empty() {
            return outcomes;
        }
        let mut version = self.version();
        version.advance(version.state_version, now_ms);
        match self.write(&staged, version) {
            Ok(()) => self.publish(staged, version),
            Err(error) => {
                refuse_all(&mut outcomes, &Refusal::error(format!("the group is not changed: {error}")));
            }
        }
        outcomes
    }

    /// Replaces the table by that of a master, with its version. Does nothing if the version is equal.
    ///
    /// # Errors
    /// When the file cannot be written; the table is then as before.
    pub(crate) fn adopt(&self, table: SubscriptionGroupTable) -> Result<(), persist::Error> {
        let _writing = self.writing.lock();
        if self.version() == table.data_version {
            return Ok(());
        }
        let extra = self.lookup.read().extra.clone();
        let table = SubscriptionGroupTable { extra, ..table };
        self.file.write(&json::to_vec_as(&table, Dialect::Standard))?;
        let named = |(name, mut config): (String, SubscriptionGroupConfig)| {
            config.group_name.get_or_insert_with(|| name.clone());
            (name, Arc::new(config))
        };
        let mut lookup = self.lookup.write();
        lookup.version = table.data_version;
        lookup.forbidden = table.forbidden_table;
        lookup.groups = table.subscription_group_table.into_iter().map(named).collect();
        lookup.changes.clear();
        drop(lookup);
        self.generation.send_modify(|generation| *generation += 1);
        Ok(())
    }

    /// Applies the changes in the table of a master, and takes its version.
    ///
    /// # Errors
    /// When the file cannot be written; the table is then as before.
    pub(crate) fn take_changes(
        &self,
        changed: TableDelta<SubscriptionGroupTable>,
    ) -> Result<(), persist::Error> {
        if changed.is_whole {
            return self.adopt(changed.table);
        }
        let mut table = self.snapshot();
        changed.gone.iter().for_each(|name| drop(table.subscription_group_table.remove(name)));
        table.subscription_group_table.extend(changed.table.subscription_group_table);
        table.forbidden_table = changed.table.forbidden_table;
        table.data_version = changed.table.data_version;
        self.adopt(table)
    }

    fn stage_all(&self, staged: &mut Staged, list: Vec<GroupChange>) -> Result<()> {
        let mut next = Staged::default();
        for change in list {
            let name = change.name().to_owned();
            let coming = next.groups.get(&name).or_else(|| staged.groups.get(&name));
            // A light group exists without standing in the table.
            let is_removed = matches!(change, GroupChange::Remove { .. });
            let find = || if is_removed { self.in_table(&name) } else { self.find(&name) };
            let now = coming.cloned().unwrap_or_else(find);
            let config = match change {
                GroupChange::Ensure(_) if now.is_some() => continue,
                GroupChange::Ensure(name) => SubscriptionGroupConfig::new(name),
                GroupChange::Remove { .. } if now.is_none() => continue,
                GroupChange::Remove { .. } => {
                    next.groups.insert(name, None);
                    continue;
                }
                GroupChange::Forbid { .. } if now.is_none() => continue,
                GroupChange::Forbid { group, topic, readable } => {
                    next.readable.insert((group, topic), readable);
                    continue;
                }
                GroupChange::Put(config) => {
                    let known = now.as_ref().map(|known| &known.attributes);
                    let attributes = altered(known, &config.attributes)?;
                    SubscriptionGroupConfig { attributes, ..*config }
                }
            };
            if now.is_none() {
                let coming = |staged: &Staged| staged.groups.values().flatten().count();
                self.check_room(coming(staged) + coming(&next) + 1)?;
            }
            next.groups.insert(name, Some(Arc::new(config)));
        }
        staged.extend(next);
        Ok(())
    }

    fn check_room(&self, more: usize) -> Result<()> {
        if self.lookup.read().groups.len() + more <= GROUPS_MAX {
            return Ok(());
        }
        let remark = format!("the broker keeps at most {GROUPS_MAX} groups and has as many");
        Err(Refusal::new(response::SYSTEM_ERROR, remark))
    }

    fn write(&self, staged: &Staged, version: DataVersion) -> Result<(), persist::Error> {
        let (visible, forbidden, extra) = {
            let lookup = self.lookup.read();
            (lookup.copied(), lookup.forbidden.clone(), lookup.extra.clone())
        };
        let kept = visible.iter().filter(|(name, _)| !staged.groups.contains_key(name));
        let kept = kept.map(|(name, config)| (name, config));
        let changed = staged.groups.iter().filter_map(|(name, config)| Some((name, config.as_ref()?)));
        let groups = kept.chain(changed).map(|(name, config)| (name.as_str(), &**config)).collect();
        let forbidden = staged.forbidden(forbidden);
        let file = File {
            data_version: version,
            forbidden_table: &forbidden,
            subscription_group_table: groups,
            extra: &extra,
        };
        self.file.write(&json::to_vec_as(&file, Dialect::Standard))
    }

    fn publish(&self, staged: Staged, version: DataVersion) {
        let mut lookup = self.lookup.write();
        lookup.version = version;
        lookup.forbidden = staged.forbidden(std::mem::take(&mut lookup.forbidden));
        // Read while `writing` is locked, which everybody holds who raises it.
        let generation = self.generation() + 1;
        let forbidden = staged.readable.into_keys().map(|(group, _)| group);
        let names = staged.groups.keys().cloned().chain(forbidden);
        lookup.changes.add(generation, names);
        for (name, config) in staged.groups {
            match config {
                Some(config) => lookup.groups.insert(&name, config),
                None => lookup.groups.remove(&name),
            };
        }
        drop(lookup);
        self.generation.send_modify(|generation| *generation += 1);
    }
}
