//! Offsets as requests of operators and statistics see them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::Ordering;

use super::{Delivered, Entry, Offsets, Position, Topics};

/// Entry of a group and a topic, looked up once for a pull. Records in the entry of a deleted group or topic are
/// lost.
#[derive(Clone)]
pub(crate) struct Reader(Entry);

/// Offsets of a group in a queue. -1 for an offset that the group never set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupOffsets {
    /// Offset of the next message to consume, or the offset of a pending reset.
    pub committed: i64,
    /// Offset of the next message to pull, or `committed` if the group has not pulled the queue.
    pub pulled: i64,
}

impl From<Position> for GroupOffsets {
    fn from(position: Position) -> Self {
        let committed = position.reset.get().or(position.committed.get()).unwrap_or(-1);
        Self { committed, pulled: position.pulled.get().unwrap_or(committed) }
    }
}

impl Offsets {
    /// The entry in which pulls of a group from a topic are recorded.
    pub(crate) fn reader(&self, group: &str, topic: &str) -> Reader {
        Reader(self.find(group, topic).unwrap_or_else(|| self.make(group, topic)))
    }

    /// Records the outcome of a pull and the offset the group pulls next, for statistics.
    pub(crate) fn note_pull(&self, reader: &Reader, queue_id: i32, next: i64, messages: usize, bytes: usize) {
        let mut topic = reader.0.lock();
        if topic.queues.change(queue_id, |position| position.pulled.replace(next)) != Some(next) {
            self.changed.store(true, Ordering::Release);
        }
        let delivered = topic.delivered.get_or_insert_default();
        delivered.messages += messages as u64;
        delivered.bytes += bytes as u64;
        delivered.found += u64::from(messages > 0);
        delivered.missed += u64::from(messages == 0);
    }

    /// Records how much a pop returned, for statistics (`PopMessageProcessor.popMsgFromQueue`).
    pub(crate) fn note_pop(&self, reader: &Reader, messages: usize, bytes: usize) {
        let mut topic = reader.0.lock();
        let delivered = topic.delivered.get_or_insert_default();
        delivered.messages += messages as u64;
        delivered.bytes += bytes as u64;
        delivered.found += 1;
    }

    /// The offsets of a group in a queue (`ConsumerOffsetManager.queryOffset`, `queryPullOffset`).
    pub(crate) fn offsets_of(&self, group: &str, topic: &str, queue_id: i32) -> GroupOffsets {
        self.position(group, topic, queue_id).unwrap_or_default().into()
    }

    /// The offsets of a group in a topic, by queue id.
    pub(crate) fn offsets_by_queue(&self, group: &str, topic: &str) -> BTreeMap<i32, GroupOffsets> {
        let Some(topic) = self.find(group, topic) else { return BTreeMap::new() };
        let topic = topic.lock();
        topic.queues.iter().map(|(queue_id, position)| (queue_id, position.into())).collect()
    }

    /// The offsets a group committed in a topic, by queue id.
    pub(crate) fn places(&self, group: &str, topic: &str) -> BTreeMap<i32, i64> {
        let Some(topic) = self.find(group, topic) else { return BTreeMap::new() };
        let topic = topic.lock();
        topic.queues.iter().filter_map(|(queue, position)| Some((queue, position.committed.get()?))).collect()
    }

    /// Number of entries: pairs of a group and a topic with offsets or counts.
    pub(crate) fn size(&self) -> usize {
        self.groups.read().values().map(Topics::len).sum()
    }

    /// Calls `each` with the topic, the queue id and the committed offset of every queue with a commit of a group. A
    /// queue may be passed twice.
    pub(crate) fn each_committed(&self, group: &str, mut each: impl FnMut(&str, i32, i64)) {
        self.each_part(Some(group), |_, part| {
            for (name, topic) in part {
                for (queue_id, position) in topic.lock().queues.iter() {
                    if let Some(offset) = position.committed.get() {
                        each(name, queue_id, offset);
                    }
                }
            }
        });
    }

    /// The topics a group committed offsets of (`ConsumerOffsetManager.whichTopicByConsumer`).
    pub(crate) fn topics_of(&self, group: &str) -> BTreeSet<String> {
        let mut topics = BTreeSet::new();
        self.each_part(Some(group), |_, part| {
            let committed = part.iter().filter(|(_, topic)| is_committed(topic));
            topics.extend(committed.map(|(name, _)| name.to_string()));
        });
        topics
    }

    /// Returns the names of the groups that have entries, sorted.
    pub(crate) fn groups(&self) -> BTreeSet<String> {
        self.groups.read().keys().cloned().collect()
    }

    /// Whether a group committed an offset of a topic.
    pub(crate) fn has_topic(&self, topic: &str) -> bool {
        let groups = self.groups.read();
        groups.values().any(|topics| topics.get(topic).is_some_and(is_committed))
    }

    /// The groups that committed offsets of a topic (`ConsumerOffsetManager.whichGroupByTopic`).
    pub(crate) fn groups_of(&self, topic: &str) -> BTreeSet<String> {
        let groups = self.groups.read();
        let has = |topics: &Topics| topics.get(topic).is_some_and(is_committed);
        groups.iter().filter(|(_, topics)| has(topics)).map(|(name, _)| name.clone()).collect()
    }

    /// Returns the deliveries by `topic@group`, of all groups that pulled or popped since the broker started.
    pub(crate) fn delivered(&self) -> HashMap<String, Delivered> {
        let mut found = HashMap::new();
        self.each_part(None, |group, part| {
            for (topic, entry) in part {
                if let Some(delivered) = &entry.lock().delivered {
                    found.insert(format!("{topic}@{group}"), **delivered);
                }
            }
        });
        found
    }

    /// Copies the committed offsets of the group `source` in a topic to the group `target` (`ConsumerOffsetManager.cloneOffset`).
    pub(crate) fn clone_topic(&self, source: &str, target: &str, topic: &str) {
        for (queue_id, offset) in self.places(source, topic) {
            self.change(target, topic, queue_id, |position| _ = position.committed.replace(offset));
        }
    }
}

fn is_committed(topic: &Entry) -> bool {
    topic.lock().queues.iter().any(|(_, position)| position.committed.get().is_some())
}
