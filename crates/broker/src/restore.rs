//! Restores topics and groups that are missing in their files. If `topics.json` or `subscriptionGroup.json` was
//! missing or broken, an older copy was read. Topics and groups created since would then be gone although their
//! messages and offsets exist. Names that the store and the table of offsets know are created again, with default
//! settings. If the file itself was readable, nothing is restored, because missing names were deleted.

use std::collections::BTreeMap;
use std::io;

use store::{Disk, batched_topics};
use wire::body::topic::{PERM_READ, PERM_WRITE, TopicConfig};
use wire::units::QueueOffset;

use crate::change::GroupChange;
use crate::change::TopicChange;
use crate::config::Config;
use crate::parts::{Delivery, Runtime, Tables};
use crate::persist::Source;
use crate::system_topics::system_topic_config;
use crate::topics::attributes::{BATCHED, QUEUE_TYPE};
use crate::topics::{QUEUES_MAX, Topics};
use crate::{Result, names};

/// Largest difference of the clocks of a group's brokers, in milliseconds.
const SKEW_MAX_MS: i64 = 1_000;

/// Returns the topics with queues of batches (`queue.type=BatchCQ`), which must be known to open the store. They are
/// the topics with that configuration. If `topics.json` was unreadable, unknown topics with such queues in the store
/// are added.
pub(crate) fn batched(topics: &Topics, config: &Config, disk: &dyn Disk) -> io::Result<Vec<String>> {
    let mut batched = topics.batched();
    if topics.source() != Source::File {
        let stored = batched_topics(disk, &config.store.root)?;
        batched.extend(stored.into_iter().filter(|name| topics.find(name).is_none()));
    }
    Ok(batched)
}

/// Creates the missing topics and groups. Called before the broker serves requests.
pub(crate) fn restore(tables: &Tables, delivery: &Delivery, runtime: &Runtime) -> Result<()> {
    if tables.topics.source() != Source::File {
        restore_topics(tables, delivery, runtime, |_| true)?;
    }
    if tables.groups.source() != Source::File {
        restore_groups(tables, runtime)?;
    }
    Ok(())
}

/// Creates topics with messages in the log of a broker that becomes master. The former master may have ended before
/// its table of topics was copied.
pub(crate) fn restore_from_log(tables: &Tables, delivery: &Delivery, runtime: &Runtime) {
    let taken_ms = delivery.replication.replicas.tables_taken_ms();
    // A topic without newer messages was known to the master before, or deleted by it.
    let is_newer = |queue: &store::Queue| {
        let newest = queue.max().get().checked_sub(1).map(QueueOffset::new);
        let stored = newest.and_then(|newest| tables.store.store_time(queue, newest).ok().flatten());
        stored.is_some_and(|stored_ms| stored_ms + SKEW_MAX_MS >= taken_ms)
    };
    if let Err(refusal) = restore_topics(tables, delivery, runtime, is_newer) {
        tracing::error!(reason = %refusal.remark, "topics of the log could not be made");
    }
}

/// The queues of a topic that exist in the store.
#[derive(Default)]
struct Stored {
    count: i32,
    batched: bool,
}

/// Adds the missing topics and queues for the stored queues that `counts` accepts.
fn restore_topics(
    tables: &Tables,
    delivery: &Delivery,
    runtime: &Runtime,
    counts: impl Fn(&store::Queue) -> bool,
) -> Result<()> {
    let mut stored = BTreeMap::<String, Stored>::new();
    for queue in tables.store.queues().into_iter().filter(|queue| counts(queue)) {
        let topic = stored.entry(queue.topic().to_owned()).or_default();
        topic.count = topic.count.max(queue.queue_id().saturating_add(1)).min(QUEUES_MAX);
        topic.batched |= queue.is_batched();
    }
    let is_topic = |name: &str| {
        let is_light = runtime.config.store.multi_dispatch && names::is_light(name);
        !is_light && names::check_topic(name).is_ok()
    };
    let lost = stored.into_iter().filter(|(name, _)| is_topic(name));
    let changes: Vec<_> =
        lost.filter_map(|(name, stored)| change(tables, delivery, runtime, &name, &stored)).collect();
    if changes.is_empty() {
        return Ok(());
    }
    tables.topics.commit(vec![changes], runtime.now_ms()).into_iter().collect()
}

/// Returns the change that gives a topic all its queues in the store, or `None` if it has them already.
fn change(
    tables: &Tables,
    delivery: &Delivery,
    runtime: &Runtime,
    name: &str,
    stored: &Stored,
) -> Option<TopicChange> {
    let count = stored.count;
    if let Some(topic) = tables.topics.find(name) {
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
    let mut config = system_topic_config(delivery, runtime, name).unwrap_or_else(own);
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

fn restore_groups(tables: &Tables, runtime: &Runtime) -> Result<()> {
    let is_lost = |name: &String| {
        !names::is_system_group(name)
            && !names::is_light(name)
            && names::check_group(name).is_ok()
            && tables.groups.find(name).is_none()
    };
    let lost: Vec<String> = tables.offsets.groups().into_iter().filter(is_lost).collect();
    for group in &lost {
        tracing::warn!(
            group,
            "subscriptionGroup.json was not whole: a group is made again from its offsets, with default settings"
        );
    }
    let changes = lost.into_iter().map(|group| vec![GroupChange::Ensure(group)]).collect();
    tables.groups.commit(changes, runtime.now_ms()).into_iter().collect()
}

#[cfg(test)]
mod tests;
