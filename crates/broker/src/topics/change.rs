//! Changes of the table of topics, and writing the file `topics.json`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use wire::body::queue::DataVersion;
use wire::body::topic::{PERM_READ, PERM_WRITE, TopicConfig};
use wire::body::{Extra, TableDelta, TopicTable};
use wire::json;

use super::attributes::ATTRIBUTES;
use super::{Topic, Topics};
use crate::attributes::altered;
use crate::change::TopicChange;
use crate::refusal::{Result, refuse_all};
use crate::{Refusal, persist};

/// Changed topics by name. `None` for removed topics.
type Staged = BTreeMap<String, Option<Arc<Topic>>>;

/// The content of `topics.json`, borrowed from the table: with 60,000 topics a copy would cost more than writing the text.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'a> {
    data_version: DataVersion,
    topic_config_table: BTreeMap<&'a str, &'a TopicConfig>,
    #[serde(flatten)]
    extra: &'a Extra,
}

impl Topics {
    /// Applies changes with one write of the file, and returns the outcome of each list. The changes of a list are
    /// applied together or not at all, and a refused list does not affect the other lists. No change is visible
    /// before the file is on disk.
    pub(crate) fn commit(&self, changes: Vec<Vec<TopicChange>>, now_ms: i64) -> Vec<Result<()>> {
        let writing = self.writing.lock();
        let mut staged = Staged::new();
        let mut outcomes: Vec<_> =
            changes.into_iter().map(|list| self.stage_all(&mut staged, list)).collect();
        if staged.is_empty() {
            return outcomes;
        }
        let mut version = self.version();
        version.advance(version.state_version, now_ms);
        match self.write(&staged, version, &writing) {
            Ok(()) => self.publish(staged, version),
            Err(error) => refuse_all(&mut outcomes, &Refusal::from(error)),
        }
        outcomes
    }

    /// Replaces the table by that of a master, with its version. Removes topics that the master does not have. Does
    /// nothing if the version is equal.
    ///
    /// # Errors
    /// When the file cannot be written; the table is then as before.
    pub(crate) fn adopt(
        &self,
        version: DataVersion,
        configs: BTreeMap<String, TopicConfig>,
    ) -> Result<(), persist::Error> {
        let writing = self.writing.lock();
        if self.version() == version {
            return Ok(());
        }
        let removed = self.all().filter(|topic| !configs.contains_key(topic.name()));
        let removed = removed.map(|topic| topic.name().to_owned()).collect();
        self.replace(version, removed, configs, &writing)
    }

    /// Applies the changes in the table of a master, and takes its version.
    ///
    /// # Errors
    /// When the file cannot be written; the table is then as before.
    pub(crate) fn take_changes(&self, changed: TableDelta<TopicTable>) -> Result<(), persist::Error> {
        let TopicTable { data_version, topic_config_table, .. } = changed.table;
        if changed.is_whole {
            return self.adopt(data_version, topic_config_table);
        }
        let writing = self.writing.lock();
        self.replace(data_version, changed.gone, topic_config_table, &writing)
    }

    fn replace(
        &self,
        version: DataVersion,
        removed: Vec<String>,
        configs: BTreeMap<String, TopicConfig>,
        writing: &Extra,
    ) -> Result<(), persist::Error> {
        let mut staged: Staged = removed.into_iter().map(|name| (name, None)).collect();
        for (name, config) in configs {
            let config = TopicConfig { topic_name: name.clone(), ..config };
            let now = self.find(&name);
            if now.as_ref().is_none_or(|now| now.config != config) {
                staged.insert(name, Some(Arc::new(Topic::new(config, now.as_deref()))));
            }
        }
        self.write(&staged, version, writing)?;
        self.publish(staged, version);
        Ok(())
    }

    /// Finds a topic, or creates it with `queues` queues. Waits for the disk.
    pub(crate) fn ensure(&self, name: &str, queues: i32, now_ms: i64) -> Result<Arc<Topic>> {
        if let Some(topic) = self.find(name) {
            return Ok(topic);
        }
        let config = TopicConfig::new(name, queues, PERM_READ | PERM_WRITE);
        self.commit(vec![vec![TopicChange::Ensure(config)]], now_ms)
            .into_iter()
            .collect::<Result<(), _>>()?;
        self.find(name).ok_or_else(|| Refusal::error(format!("topic[{name}] was removed while it was made")))
    }

    /// Makes a topic open its queues again when some of them belong to a deleted topic of the same name.
    pub(crate) fn reopen(&self, name: &str) {
        let _writing = self.writing.lock();
        let Some(topic) = self.find(name) else { return };
        if topic.opened().iter().any(|(_, queue)| queue.index.is_removed()) {
            let topic = Topic::new(topic.config.clone(), None);
            self.publish(Staged::from([(name.to_owned(), Some(Arc::new(topic)))]), self.version());
        }
    }

    fn stage_all(&self, staged: &mut Staged, list: Vec<TopicChange>) -> Result<()> {
        let mut next = Vec::with_capacity(list.len());
        for change in list {
            let name = change.name().to_owned();
            let now = match next.iter().rev().find(|(other, _)| *other == name) {
                Some((_, topic)) => Option::clone(topic),
                None => staged.get(&name).cloned().unwrap_or_else(|| self.find(&name)),
            };
            if let Some(topic) = after(change, now.as_ref())? {
                next.push((name, topic));
            }
        }
        staged.extend(next);
        Ok(())
    }

    fn write(&self, staged: &Staged, version: DataVersion, extra: &Extra) -> Result<(), persist::Error> {
        let visible: Vec<_> = self.all().collect();
        let kept = visible.iter().filter(|topic| !staged.contains_key(topic.name()));
        let topics = kept.chain(staged.values().flatten());
        let file = File {
            data_version: version,
            topic_config_table: topics.map(|topic| (topic.name(), &topic.config)).collect(),
            extra,
        };
        self.file.write(&json::to_vec(&file))
    }

    fn publish(&self, staged: Staged, version: DataVersion) {
        let mut book = self.book.lock();
        let mut table = self.table.write();
        book.version = version;
        book.generation += 1;
        let generation = book.generation;
        book.changes.add(generation, staged.keys().cloned());
        for (name, topic) in staged {
            match topic {
                Some(topic) => table.insert(&name, topic),
                None => table.remove(&name),
            };
        }
        drop(table);
        self.show(generation);
    }
}

/// Returns the topic after a change: `None` if nothing changes, `Some(None)` if the topic is removed.
#[expect(clippy::option_option, reason = "the outer one says whether there is something to write")]
fn after(change: TopicChange, now: Option<&Arc<Topic>>) -> Result<Option<Option<Arc<Topic>>>> {
    let config = match change {
        TopicChange::Ensure(_) if now.is_some() => return Ok(None),
        TopicChange::Ensure(config) => config,
        TopicChange::Remove(_) => return Ok(now.map(|_| None)),
        TopicChange::Order(_) => match now.map(|topic| &topic.config) {
            Some(config) if !config.order => TopicConfig { order: true, ..config.clone() },
            _ => return Ok(None),
        },
        TopicChange::Put(config, alterations) => {
            let known = now.map(|topic| &topic.config);
            let attributes = altered(&ATTRIBUTES, known.map(|known| &known.attributes), &alterations)?;
            let extra = known.map(|known| known.extra.clone()).unwrap_or_default();
            let config = TopicConfig { attributes, extra, ..config };
            if known == Some(&config) {
                return Ok(None);
            }
            config
        }
    };
    Ok(Some(Some(Arc::new(Topic::new(config, now.map(Arc::as_ref))))))
}

/// Splits the content of a file into its version, its topics, and the members that this version does not know.
pub(super) fn split(file: TopicTable) -> (DataVersion, BTreeMap<String, TopicConfig>, Extra) {
    (file.data_version, file.topic_config_table, file.extra)
}
