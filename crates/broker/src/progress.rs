//! The progress of groups and the content of topics (`AdminBrokerProcessor`). Functions that return times of messages may read
//! the disk.

use std::collections::{BTreeMap, BTreeSet};

use wire::body::{
    ConsumeStats, ConsumeStatsList, MessageQueue, OffsetWrapper, TopicConfig, TopicOffset, TopicStats,
};

use crate::parts::{OperatorParts, Replication, Sessions, Tables};
use crate::state::Name;
use crate::{Result, offsets, topics};

/// The first and next offset of every queue of a topic, and when its last message was stored.
pub(crate) fn topic_stats(parts: &OperatorParts, name: &str) -> Result<TopicStats> {
    let topic = parts.tables.topics.find(name).ok_or_else(|| topics::not_exist(name))?;
    let offset_table = (0..topic.config.write_queue_nums.max(topic.config.read_queue_nums))
        .map(|queue_id| {
            (
                parts.runtime.message_queue(name, queue_id),
                queue_range(&parts.tables, &parts.replication, name, queue_id),
            )
        })
        .collect();
    Ok(TopicStats { offset_table, topic_put_tps: parts.figures.stats.tps(Name::TopicPutNums, name) })
}

fn queue_range(tables: &Tables, replication: &Replication, topic: &str, queue_id: i32) -> TopicOffset {
    let Some(queue) = tables.log_queue(topic, queue_id) else { return TopicOffset::default() };
    let max_offset = replication.visible_end(&queue);
    TopicOffset {
        last_update_timestamp: tables.time_at(topic, queue_id, max_offset - 1).unwrap_or(0),
        max_offset,
        min_offset: queue.index.min().to_i64(),
    }
}

/// Topics in which the offsets of a group are requested.
pub(crate) enum TopicsOfGroup {
    /// These topics, whether the group reads them or not.
    Listed(BTreeSet<String>),
    /// A single topic, if the group reads it.
    One(String),
    /// All topics that the group reads and committed offsets in.
    Committed,
}

/// The offsets of a group in some topics.
pub(crate) fn consume_stats(parts: &OperatorParts, group: &str, topics: TopicsOfGroup) -> ConsumeStats {
    let topics = match topics {
        TopicsOfGroup::Listed(topics) => topics,
        TopicsOfGroup::One(topic) => read(&parts.sessions, group, BTreeSet::from([topic])),
        TopicsOfGroup::Committed => read(&parts.sessions, group, parts.tables.offsets.topics_of(group)),
    };
    let mut stats = ConsumeStats::default();
    for topic in topics {
        let Some(found) = parts.tables.topics.find(&topic) else { continue };
        stats.consume_tps += parts.figures.stats.tps(Name::GroupGetNums, &format!("{topic}@{group}"));
        stats.offset_table.extend(progress(parts, group, &found.config, found.config.read_queue_nums));
    }
    stats
}

/// Returns the topics among `topics` that a group reads.
fn read(sessions: &Sessions, group: &str, mut topics: BTreeSet<String>) -> BTreeSet<String> {
    topics.retain(|topic| sessions.clients.is_current(group, topic));
    topics
}

/// The offsets of a group in the first `queues` queues of a topic.
fn progress<'b>(
    parts: &'b OperatorParts,
    group: &'b str,
    topic: &'b TopicConfig,
    queues: i32,
) -> impl Iterator<Item = (MessageQueue, OffsetWrapper)> + 'b {
    let name = topic.topic_name.as_str();
    (0..queues).map(move |queue_id| {
        let offsets = parts.tables.offsets.offsets_of(group, name, queue_id);
        let consumer_offset = offsets.committed.max(0);
        let queue = parts.tables.log_queue(name, queue_id);
        let broker_offset = queue.as_ref().map_or(0, |queue| parts.replication.visible_end(queue));
        let range = (consumer_offset, broker_offset);
        let (unconsumed_timestamp, unconsumed_is_bound) = queue.map_or((0, false), |queue| {
            parts.sessions.unconsumed_time(&parts.tables.store, group, &queue.index, range)
        });
        let wrapper = OffsetWrapper {
            broker_offset,
            consumer_offset,
            last_timestamp: parts.tables.time_at(name, queue_id, consumer_offset - 1).unwrap_or(0),
            pull_offset: offsets.pulled.max(consumer_offset),
            unconsumed_timestamp: Some(unconsumed_timestamp),
            unconsumed_is_bound,
        };
        (parts.runtime.message_queue(name, queue_id), wrapper)
    })
}

/// The offsets of all groups in all topics, or in all ordered topics, that they committed offsets in.
pub(crate) fn broker_consume_stats(parts: &OperatorParts, only_ordered: bool) -> ConsumeStatsList {
    let mut list = Vec::new();
    let (mut behind, mut in_flight) = (0, 0);
    for group in parts.tables.groups.names() {
        let mut stats = Vec::new();
        for topic in parts.tables.offsets.topics_of(&group) {
            let Some(found) = parts.tables.topics.find(&topic) else { continue };
            if only_ordered && !found.config.order || !parts.sessions.clients.is_current(&group, &topic) {
                continue;
            }
            let offset_table: BTreeMap<_, _> =
                progress(parts, &group, &found.config, found.config.write_queue_nums).collect();
            let each = || offset_table.values();
            behind += each().map(|queue| queue.broker_offset - queue.consumer_offset).sum::<i64>();
            in_flight += each().map(|queue| queue.pull_offset - queue.consumer_offset).sum::<i64>();
            let consume_tps = parts.figures.stats.tps(Name::GroupGetNums, &format!("{topic}@{group}"));
            stats.push(ConsumeStats { consume_tps, offset_table });
        }
        list.push(BTreeMap::from([(group, stats)]));
    }
    ConsumeStatsList {
        broker_addr: parts.identity.address(),
        consume_stats_list: list,
        total_diff: behind,
        total_inflight_diff: in_flight,
    }
}

/// The groups that subscribe to a topic or committed offsets in it.
pub(crate) fn groups_of_topic(tables: &Tables, sessions: &Sessions, topic: &str) -> BTreeSet<String> {
    let mut groups = tables.offsets.groups_of(topic);
    groups.extend(sessions.clients.subscribers(topic));
    groups
}

/// Returns the smallest offset of all groups except `filtered` in each queue of a topic. The value is `i64::MAX` if
/// the offset of the group `compared` is smaller still (`ConsumerOffsetManager.queryMinOffsetInAllGroup`). Java
/// removes the filtered groups from its table for good. Vostok only leaves them out of the result.
pub(crate) fn correction(
    tables: &Tables,
    topic: &str,
    compared: &str,
    filtered: &BTreeSet<&str>,
) -> BTreeMap<i32, i64> {
    let mut smallest: BTreeMap<i32, i64> = BTreeMap::new();
    for group in tables.offsets.groups_of(topic).iter().filter(|group| !filtered.contains(group.as_str())) {
        for (queue_id, offset) in tables.offsets.places(group, topic) {
            let min = tables.log_queue(topic, queue_id).map_or(0, |queue| queue.index.min().to_i64());
            if offset >= min {
                let known = smallest.entry(queue_id).or_insert(i64::MAX);
                *known = offset.min(*known);
            }
        }
    }
    for (queue_id, offset) in tables.offsets.places(compared, topic) {
        let known = smallest.entry(queue_id).or_insert(i64::MAX);
        *known = if *known > offset { i64::MAX } else { *known };
    }
    smallest
}

/// Offsets that a group takes over from another group.
pub(crate) struct CloneOffsets<'a> {
    /// Group whose offsets are copied.
    pub source: &'a str,
    /// The group that gets the offsets.
    pub target: &'a str,
    /// The topic; `None` for all topics in which the source group committed offsets.
    pub topic: Option<&'a str>,
    /// Whether offsets are copied even in topics that the source group no longer reads.
    pub is_offline: bool,
}

/// Copies the offsets of a group to another group. Waits for the disk.
pub(crate) fn clone_offsets(parts: &OperatorParts, wanted: &CloneOffsets<'_>) -> Result<()> {
    let CloneOffsets { source, target, topic, is_offline } = *wanted;
    if parts.tables.group(&parts.runtime.config, target)?.is_none() {
        return Err(offsets::no_group(target));
    }
    let topics = match topic {
        Some(topic) => BTreeSet::from([topic.to_owned()]),
        None => parts.tables.offsets.topics_of(source),
    };
    for topic in topics.iter().filter(|topic| parts.tables.topics.find(topic).is_some()) {
        if is_offline || parts.sessions.clients.is_current(source, topic) {
            parts.tables.offsets.clone_topic(source, target, topic);
        }
    }
    // Saved before the answer, so that the copied offsets survive a kill.
    crate::save::save(&parts.delivery, &parts.runtime, &parts.pops);
    tracing::info!(source, target, ?topics, "offsets are cloned");
    Ok(())
}

#[cfg(test)]
mod tests;
