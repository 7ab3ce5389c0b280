//! Requests about the progress of groups and the content of topics: 202, 208, 300, 308, 314, 317 and 343
//! (`AdminBrokerProcessor`). Those that return times of messages may read the disk and are served by the disk pool
//! ([`crate::lookup::needs_disk`]).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use wire::body::{ConsumeStats, MessageQueue, OffsetWrapper, TopicConfig, TopicOffset, TopicStats};
use wire::codes::response;
use wire::frame::Command;
use wire::json;
use wire::units::QueueOffset;

use crate::broker::Broker;
use crate::stats::Name;
use crate::{Answer, Refusal};

/// Serves 202 `GET_TOPIC_STATS_INFO`: the first and next offset of every queue of a topic, and when its last message was
/// stored.
pub(crate) fn topic_stats(broker: &Broker, command: &Command<'_>) -> Result<Answer, Refusal> {
    let name = command.fields.need("topic")?;
    let topic = broker
        .topics
        .find(name)
        .ok_or_else(|| Refusal::new(response::TOPIC_NOT_EXIST, format!("topic[{name}] not exist")))?;
    let offset_table = (0..topic.config.write_queue_nums.max(topic.config.read_queue_nums))
        .map(|queue_id| (broker.message_queue(name, queue_id), queue_range(broker, name, queue_id)))
        .collect();
    let body = TopicStats { offset_table, topic_put_tps: broker.stats.tps(Name::TopicPutNums, name) };
    Ok(Answer::success().body(json::to_vec(&body)))
}

fn queue_range(broker: &Broker, topic: &str, queue_id: i32) -> TopicOffset {
    let Some(queue) = broker.log_queue(topic, queue_id) else { return TopicOffset::default() };
    let max_offset = broker.visible_end(&queue);
    TopicOffset {
        last_update_timestamp: broker.time_at(topic, queue_id, max_offset - 1).unwrap_or(0),
        max_offset,
        min_offset: queue.index.min().to_i64(),
    }
}

/// Serves 208 `GET_CONSUME_STATS`: the offsets of a group in the topics the request names, or else in all topics the group
/// committed offsets in.
pub(crate) fn consume_stats(broker: &Broker, command: &Command<'_>) -> Result<Answer, Refusal> {
    let fields = &command.fields;
    let group = fields.need("consumerGroup")?;
    let list = fields.text("topicList").unwrap_or_default();
    let listed: BTreeSet<String> =
        list.split(';').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let topics = if listed.is_empty() {
        let asked = fields.text("topic").map(str::trim).filter(|topic| !topic.is_empty());
        let topics =
            asked.map_or_else(|| broker.offsets.topics_of(group), |topic| BTreeSet::from([topic.to_owned()]));
        topics.into_iter().filter(|topic| broker.clients.is_current(group, topic)).collect()
    } else {
        listed
    };
    let mut stats = ConsumeStats::default();
    for topic in topics {
        let Some(found) = broker.topics.find(&topic) else { continue };
        stats.consume_tps += broker.stats.tps(Name::GroupGetNums, &format!("{topic}@{group}"));
        stats.offset_table.extend(progress(broker, group, &found.config, found.config.read_queue_nums));
    }
    Ok(Answer::success().body(json::to_vec(&stats)))
}

/// The offsets of a group in the first `queues` queues of a topic.
fn progress<'b>(
    broker: &'b Broker,
    group: &'b str,
    topic: &'b TopicConfig,
    queues: i32,
) -> impl Iterator<Item = (MessageQueue, OffsetWrapper)> + 'b {
    let name = topic.topic_name.as_str();
    (0..queues).map(move |queue_id| {
        let place = broker.offsets.place(group, name, queue_id);
        let consumer_offset = place.committed.max(0);
        let wrapper = OffsetWrapper {
            broker_offset: broker.log_queue(name, queue_id).map_or(0, |queue| broker.visible_end(&queue)),
            consumer_offset,
            last_timestamp: broker.time_at(name, queue_id, consumer_offset - 1).unwrap_or(0),
            pull_offset: place.pulled.max(consumer_offset),
        };
        (broker.message_queue(name, queue_id), wrapper)
    })
}

/// Serves 317 `GET_BROKER_CONSUME_STATS`: the offsets of all groups in all topics they committed offsets in.
pub(crate) fn broker_consume_stats(broker: &Broker, command: &Command<'_>) -> Result<Answer, Refusal> {
    let only_ordered = command.fields.flag_or("isOrder", false);
    let mut list = Vec::new();
    let (mut behind, mut in_flight) = (0, 0);
    for group in broker.groups.names() {
        let mut stats = Vec::new();
        for topic in broker.offsets.topics_of(&group) {
            let Some(found) = broker.topics.find(&topic) else { continue };
            if only_ordered && !found.config.order || !broker.clients.is_current(&group, &topic) {
                continue;
            }
            let offset_table: BTreeMap<_, _> =
                progress(broker, &group, &found.config, found.config.write_queue_nums).collect();
            let each = || offset_table.values();
            behind += each().map(|queue| queue.broker_offset - queue.consumer_offset).sum::<i64>();
            in_flight += each().map(|queue| queue.pull_offset - queue.consumer_offset).sum::<i64>();
            let consume_tps = broker.stats.tps(Name::GroupGetNums, &format!("{topic}@{group}"));
            stats.push(ConsumeStats { consume_tps, offset_table });
        }
        list.push(BTreeMap::from([(group, stats)]));
    }
    let body = wire::body::ConsumeStatsList {
        broker_addr: broker.address(),
        consume_stats_list: list,
        total_diff: behind,
        total_inflight_diff: in_flight,
    };
    Ok(Answer::success().body(json::to_vec(&body)))
}

/// Serves 300 `QUERY_TOPIC_CONSUME_BY_WHO`: the groups that subscribe to a topic or committed offsets in it.
pub(crate) fn groups_of_topic(broker: &Broker, command: &Command<'_>) -> Result<Answer, Refusal> {
    let topic = command.fields.need("topic")?;
    let mut groups = broker.offsets.groups_of(topic);
    groups.extend(broker.clients.subscribers(topic));
    Ok(Answer::success().body(json!({ "groupList": groups }).to_string().into_bytes()))
}

/// Serves 343 `QUERY_TOPICS_BY_CONSUMER`: the topics a group committed offsets in.
pub(crate) fn topics_of_group(broker: &Broker, command: &Command<'_>) -> Result<Answer, Refusal> {
    let topics = broker.offsets.topics_of(command.fields.need("group")?);
    let body = json!({ "brokerAddr": broker.address(), "topicList": topics });
    Ok(Answer::success().body(body.to_string().into_bytes()))
}

/// Serves 308 `QUERY_CORRECTION_OFFSET`: for each queue of a topic the smallest offset of all groups, or `i64::MAX` where the
/// offset of the group compared with is smaller still (`ConsumerOffsetManager.queryMinOffsetInAllGroup`). Java removes the
/// filtered groups from its table for good; Vostok only leaves them out of the result.
pub(crate) fn correction(broker: &Broker, command: &Command<'_>) -> Result<Answer, Refusal> {
    let fields = &command.fields;
    let (topic, compared) = (fields.need("topic")?, fields.need("compareGroup")?);
    let filtered: BTreeSet<&str> = fields.text("filterGroups").unwrap_or_default().split(',').collect();
    let mut smallest: BTreeMap<i32, i64> = BTreeMap::new();
    for group in broker.offsets.groups_of(topic).iter().filter(|group| !filtered.contains(group.as_str())) {
        for (queue_id, offset) in broker.offsets.places(group, topic) {
            let min = broker.log_queue(topic, queue_id).map_or(0, |queue| queue.index.min().to_i64());
            if offset >= min {
                let known = smallest.entry(queue_id).or_insert(i64::MAX);
                *known = offset.min(*known);
            }
        }
    }
    for (queue_id, offset) in broker.offsets.places(compared, topic) {
        let known = smallest.entry(queue_id).or_insert(i64::MAX);
        *known = if *known > offset { i64::MAX } else { *known };
    }
    let body = wire::body::CorrectionOffsets { correction_offsets: smallest };
    Ok(Answer::success().body(json::to_vec(&body)))
}

/// Serves 314 `CLONE_GROUP_OFFSET`: copies the offsets of a group to another group, in one topic or in all topics the first
/// group committed offsets in. Waits for the disk.
pub(crate) fn clone_offsets(broker: &Broker, command: &Command<'_>) -> Result<Answer, Refusal> {
    let fields = &command.fields;
    let (source, target) = (fields.need("srcGroup")?, fields.need("destGroup")?);
    if broker.group(target)?.is_none() {
        let remark = format!("Group {target} does not exist");
        return Err(Refusal::new(response::SUBSCRIPTION_GROUP_NOT_EXIST, remark));
    }
    let topics = match fields.text("topic").map(str::trim).filter(|topic| !topic.is_empty()) {
        Some(topic) => BTreeSet::from([topic.to_owned()]),
        None => broker.offsets.topics_of(source),
    };
    let is_offline = fields.flag_or("offline", false);
    for topic in topics.iter().filter(|topic| broker.topics.find(topic).is_some()) {
        if is_offline || broker.clients.is_current(source, topic) {
            broker.offsets.clone_topic(source, target, topic);
        }
    }
    // Saved before the answer, so that the copied offsets survive a kill.
    broker.save();
    tracing::info!(source, target, ?topics, "offsets are cloned");
    Ok(Answer::success())
}

impl Broker {
    /// The full name of a queue of this broker.
    pub(crate) fn message_queue(&self, topic: &str, queue_id: i32) -> MessageQueue {
        MessageQueue::new(topic, &self.config.broker_name, queue_id)
    }

    /// When a message was stored, in milliseconds since the epoch. May read the disk.
    fn time_at(&self, topic: &str, queue_id: i32, offset: i64) -> Option<i64> {
        let offset = QueueOffset::new(u64::try_from(offset).ok()?);
        self.store.store_time(&self.log_queue(topic, queue_id)?.index, offset).ok()?
    }
}

#[cfg(test)]
mod tests;
