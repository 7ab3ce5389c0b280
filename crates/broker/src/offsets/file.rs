//! The file `consumerOffset.json`, which maps `topic@group` to queue ids and these to offsets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use wire::body::ConsumerOffsetTable;

use super::Offsets;
use super::text::Text;
use crate::persist;

/// Member that lists topics by group. Like Java, Vostok derives it from the other tables.
pub(super) const TOPICS_BY_GROUP: &str = "groupTopicMap";

/// Member with the offsets of light groups, whose queues all have the id 0 (`LmqConsumerOffsetManager`).
pub(super) const LIGHT_OFFSETS: &str = "lmqOffsetTable";

pub(super) type Table = BTreeMap<String, BTreeMap<i32, i64>>;

impl Offsets {
    /// Writes the file when an offset changed since the last save. A commit during the write is saved by the next call.
    ///
    /// Returns whether the file has all offsets that were committed before the call.
    ///
    /// `settled` waits until the log is on disk, and returns whether it is. If it is not, the file is not replaced.
    /// After a power cut, an offset beyond the end of its queue would skip the messages stored there next. An offset
    /// behind a message that its consumer sent back would outlive the copy in the retry topic.
    pub(crate) fn save(&self, now_ms: i64, settled: impl FnOnce() -> bool) -> Result<bool, persist::Error> {
        let book = self.book.lock();
        if !self.changed.swap(false, Ordering::AcqRel) {
            return Ok(true);
        }
        let mut version = self.version();
        version.advance(version.state_version, now_ms);
        let leaving = self.leaving.lock().clone();
        let text = Text { offsets: self, version, extra: &book.extra, leaving: &leaving };
        let written = self.file.write_pieces(|file| text.write(file), settled);
        match &written {
            Ok(true) => self.raise_version(version),
            Ok(false) | Err(_) => self.changed.store(true, Ordering::Release),
        }
        written
    }

    /// Announces that the queues of these topics are about to be removed. Until [`Self::end_removal`] the file has the
    /// offset 0 for them. After a crash during the removal a group then gets messages again. An older offset would skip
    /// the first messages of a new queue of that name.
    pub(crate) fn begin_removal<'a>(&self, topics: impl Iterator<Item = &'a str>) {
        Arc::make_mut(&mut *self.leaving.lock()).extend(topics.map(Box::from));
        self.changed.store(true, Ordering::Release);
    }

    /// Ends the removal of queues. The next save writes the offsets of topics that stayed.
    pub(crate) fn end_removal(&self) {
        *self.leaving.lock() = Arc::default();
        self.changed.store(true, Ordering::Release);
    }

    /// All offsets and their version, in the form of the file.
    pub(crate) fn table(&self) -> ConsumerOffsetTable {
        // Read first: the offsets are at least as new as their version.
        let data_version = self.version();
        ConsumerOffsetTable { data_version, ..self.unversioned() }
    }

    fn unversioned(&self) -> ConsumerOffsetTable {
        let mut file = ConsumerOffsetTable::default();
        let mut topics_by_group: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        self.each_part(None, |group, part| {
            for (topic, queues) in part {
                let key = || format!("{topic}@{group}");
                let entry = queues.lock();
                let committed: BTreeMap<i32, i64> = entry
                    .queues
                    .iter()
                    .filter_map(|(queue, it)| Some((queue, it.committed.get()?)))
                    .collect();
                let pulled: BTreeMap<i32, i64> =
                    entry.queues.iter().filter_map(|(queue, it)| Some((queue, it.pulled.get()?))).collect();
                drop(entry);
                if !committed.is_empty() {
                    topics_by_group.entry(group.to_owned()).or_default().insert(topic.to_string());
                    file.offset_table.insert(key(), committed);
                }
                if !pulled.is_empty() {
                    file.pull_offset_table.insert(key(), pulled);
                }
            }
        });
        file.extra.insert(TOPICS_BY_GROUP.to_owned(), serde_json::json!(topics_by_group));
        file
    }

    /// Takes over the offsets of a master and their version. Offsets that the master does not have stay.
    pub(crate) fn merge(&self, table: ConsumerOffsetTable) {
        self.fill(table);
        self.changed.store(true, Ordering::Release);
    }

    /// Takes over the offsets of a file that was read.
    pub(super) fn fill(&self, mut file: ConsumerOffsetTable) {
        self.fill_table(committed(&mut file), |position, offset| _ = position.committed.replace(offset));
        self.fill_table(file.pull_offset_table, |position, offset| _ = position.pulled.replace(offset));
        *self.version.lock() = file.data_version;
        let mut book = self.book.lock();
        book.extra = file.extra;
        book.extra.remove(TOPICS_BY_GROUP);
    }

    pub(super) fn fill_table(&self, table: Table, set: impl Fn(&mut super::Position, i64)) {
        for (key, queues) in table {
            let Some((topic, group)) = key.split_once('@') else {
                tracing::warn!(key, "an entry of the offset table is not topic@group and is left out");
                continue;
            };
            for (queue_id, offset) in queues {
                self.change(group, topic, queue_id, |position| set(position, offset));
            }
        }
    }
}

/// Takes the committed offsets out of a table, including those of light groups.
pub(super) fn committed(file: &mut ConsumerOffsetTable) -> Table {
    let light = file.extra.remove(LIGHT_OFFSETS).and_then(|table| serde_json::from_value(table).ok());
    let light: BTreeMap<String, i64> = light.unwrap_or_default();
    let mut table = std::mem::take(&mut file.offset_table);
    for (key, offset) in light {
        table.entry(key).or_insert_with(|| BTreeMap::from([(0, offset)]));
    }
    table
}
