//! Restoring topics and groups that are missing from their files. When `topics.json` or `subscriptionGroup.json` was missing
//! or broken and an older copy was read, topics and groups created since would be gone although their messages and offsets are
//! there. Those that the store and the table of offsets know are created again, with default settings. When the file itself
//! could be read nothing is restored: what it does not contain was deleted.

use std::collections::BTreeMap;
use std::io;

use store::{Disk, batched_topics};
use wire::body::topic::{PERM_READ, PERM_WRITE, TopicConfig};

use crate::broker::Broker;
use crate::config::Config;
use crate::groups::GroupChange;
use crate::light::is_light;
use crate::persist::Source;
use crate::topics::attributes::{BATCHED, QUEUE_TYPE};
use crate::topics::{QUEUES_MAX, TopicChange, Topics, system_topic_config};
use crate::{Refusal, names};

/// The topics with queues of batches (`queue.type=BatchCQ`), which must be known to open the store: those configured so, and,
/// when `topics.json` could not be read, unknown topics that have such queues in the store.
pub(crate) fn batched(topics: &Topics, config: &Config, disk: &dyn Disk) -> io::Result<Vec<String>> {
    let mut batched = topics.batched();
    if topics.source() != Source::File {
        let stored = batched_topics(disk, &config.store.root)?;
        batched.extend(stored.into_iter().filter(|name| topics.find(name).is_none()));
    }
    Ok(batched)
}

/// Creates the missing topics and groups. Called before the broker serves requests.
pub(crate) fn restore(broker: &Broker) -> Result<(), Refusal> {
    if broker.topics.source() != Source::File {
        restore_topics(broker)?;
    }
    if broker.groups.source() != Source::File {
        restore_groups(broker)?;
    }
    Ok(())
}

/// The queues of a topic that exist in the store.
#[derive(Default)]
struct Stored {
    count: i32,
    batched: bool,
}

fn restore_topics(broker: &Broker) -> Result<(), Refusal> {
    let mut stored = BTreeMap::<String, Stored>::new();
    for queue in broker.store.queues() {
        let topic = stored.entry(queue.topic().to_owned()).or_default();
        topic.count = topic.count.max(queue.queue_id().saturating_add(1)).min(QUEUES_MAX);
        topic.batched |= queue.is_batched();
    }
    let is_topic = |name: &str| {
        let is_light = broker.config.store.multi_dispatch && is_light(name);
        !is_light && names::check_topic(name).is_ok()
    };
    let lost = stored.into_iter().filter(|(name, _)| is_topic(name));
    let changes: Vec<_> = lost.filter_map(|(name, stored)| change(broker, &name, &stored)).collect();
    if changes.is_empty() {
        return Ok(());
    }
    broker.topics.commit(vec![changes], broker.now_ms()).into_iter().collect()
}

/// The change that gives a topic all the queues it has in the store; `None` when it has them already.
fn change(broker: &Broker, name: &str, stored: &Stored) -> Option<TopicChange> {
    let count = stored.count;
    if let Some(topic) = broker.topics.find(name) {
        let TopicConfig { read_queue_nums, write_queue_nums, .. } = topic.config;
        if read_queue_nums >= count {
            return None;
        }
        tracing::warn!(
            topic = name,
            queues = count,
            before = read_queue_nums,
            "topics.json was not whole: a topic gets the queues again that the store has of it"
        );
        let config = TopicConfig {
            read_queue_nums: count,
            write_queue_nums: write_queue_nums.max(count),
            ..topic.config.clone()
        };
        return Some(TopicChange::Put(config, Vec::new()));
    }
    let own = || TopicConfig::new(name, count, PERM_READ | PERM_WRITE);
    let mut config = system_topic_config(broker, name).unwrap_or_else(own);
    config.read_queue_nums = config.read_queue_nums.max(count);
    config.write_queue_nums = config.write_queue_nums.max(count);
    if stored.batched {
        config.attributes.insert(QUEUE_TYPE.to_owned(), BATCHED.to_owned());
    }
    tracing::warn!(
        topic = name,
        queues = config.read_queue_nums,
        "topics.json was not whole: a topic is made again from its queues in the store, with default settings"
    );
    Some(TopicChange::Ensure(config))
}

fn restore_groups(broker: &Broker) -> Result<(), Refusal> {
    let is_lost = |name: &String| {
        !names::is_system_group(name)
            && !is_light(name)
            && names::check_group(name).is_ok()
            && broker.groups.find(name).is_none()
    };
    let lost: Vec<String> = broker.offsets.groups().into_iter().filter(is_lost).collect();
    for group in &lost {
        tracing::warn!(
            group,
            "subscriptionGroup.json was not whole: a group is made again from its offsets, with default settings"
        );
    }
    let changes = lost.into_iter().map(|group| vec![GroupChange::Ensure(group)]).collect();
    broker.groups.commit(changes, broker.now_ms()).into_iter().collect()
}

#[cfg(test)]
mod tests;
