//! Administrators' operations on topics, groups and settings, and the tables that they read.

mod lists;
mod replicas;
mod settings;
mod tables;

use std::collections::BTreeMap;
use std::sync::Arc;

use wire::body::topic::{PERM_INHERIT, PERM_READ, PERM_WRITE, TopicConfig};
use wire::codes::response;
use wire::pop::Kind;

use crate::change::Alterations;
use crate::change::Change;
use crate::change::TopicChange;
use crate::parts::{Delivery, Runtime, Sessions, Tables};
use crate::system_topics::is_system_topic;
use crate::topics::{QUEUES_MAX, Topic};
use crate::{FAQ, Refusal, Result, names, retention, stats};

pub(crate) use lists::{put_groups, put_topics};
pub(crate) use replicas::is_in_sync;
pub(crate) use settings::{config, update_config};
pub(crate) use tables::{delay_offsets, system_topics};

/// All permission bits a topic may have: read, write, inherit.
const PERM_MAX: i32 = PERM_READ | PERM_WRITE | PERM_INHERIT;

/// Names of Java's `TopicFilterType`, the values `topicFilterType` may have.
const FILTER_TYPES: [&str; 2] = ["SINGLE_TAG", "MULTI_TAG"];

/// Creates a topic, or changes it to `config` with these alterations of its attributes.
pub(crate) fn put_topic(
    delivery: &Delivery,
    runtime: &Runtime,
    config: TopicConfig,
    alterations: Alterations,
) -> Result<()> {
    check_topic(delivery, runtime, &config)?;
    tracing::info!(topic = config.topic_name, "topic created or changed");
    Err(Refusal::done_after(TopicChange::Put(config, alterations)))
}

/// Checks that a topic may be created with, or changed to, this configuration.
fn check_topic(delivery: &Delivery, runtime: &Runtime, config: &TopicConfig) -> Result<()> {
    let name = &config.topic_name;
    let invalid = |remark| Err(Refusal::new(response::INVALID_PARAMETER, remark));
    names::check_topic(name)?;
    refuse_system_topic(delivery, runtime, name)?;
    for (key, count) in
        [("readQueueNums", config.read_queue_nums), ("writeQueueNums", config.write_queue_nums)]
    {
        if !(0..=QUEUES_MAX).contains(&count) {
            return invalid(format!("{key} is {count}, expected 0 to {QUEUES_MAX}"));
        }
    }
    let perm = config.perm;
    if !(0..=PERM_MAX).contains(&perm) {
        return invalid(format!("perm is {perm}, expected 0 to {PERM_MAX} (4 read, 2 write, 1 inherit)"));
    }
    let filter_type = config.topic_filter_type.as_str();
    if !FILTER_TYPES.contains(&filter_type) {
        // Code 1, because Java fails to decode the value (`CreateTopicRequestHeader.getTopicFilterTypeEnum`).
        let expected = FILTER_TYPES.join(" or ");
        return Err(Refusal::error(format!("topicFilterType is {filter_type:?}, expected {expected}")));
    }
    Ok(())
}

fn refuse_system_topic(delivery: &Delivery, runtime: &Runtime, name: &str) -> Result<()> {
    if !is_system_topic(delivery, runtime, name) {
        return Ok(());
    }
    let remark = format!("The topic[{name}] is conflict with system topic.");
    Err(Refusal::new(response::INVALID_PARAMETER, remark))
}

/// Removes a topic, its queues, the pop retry topics of its groups and the groups' offsets in it. The topic's messages stay in
/// the commit log until their files expire.
pub(crate) fn delete_topic(
    tables: &Tables,
    delivery: &Delivery,
    runtime: &Runtime,
    name: &str,
) -> Result<()> {
    names::check_not_blank(name)?;
    refuse_system_topic(delivery, runtime, name)?;
    let groups = tables.offsets.groups_of(name);
    // Offsets of groups in a topic that does not exist: a crash interrupted an earlier deletion of the topic.
    if tables.topics.find(name).is_none() && groups.is_empty() {
        return Ok(());
    }
    let retries = groups.iter().flat_map(|group| pop_retry_topics(tables, name, group));
    let names = std::iter::once(name.to_owned()).chain(retries);
    let change = Change { topics: names.map(TopicChange::Remove).collect(), groups: Vec::new() };
    // The request is answered, not served again: a topic made under the name meanwhile is another topic.
    Err(Refusal::done_after(change))
}

/// Returns the retry topics by which popped messages of `topic` return to `group`. The older name may also be the
/// retry topic of a group called `<group>_<topic>`. If that group exists, its topic stays, unlike in Java.
fn pop_retry_topics(tables: &Tables, topic: &str, group: &str) -> impl Iterator<Item = String> {
    let is_shared = tables.groups.find(&format!("{group}_{topic}")).is_some();
    let older = (!is_shared).then(|| Kind::RetryV1.topic(topic, group));
    let names = [Some(Kind::RetryV2.topic(topic, group)), older];
    names.into_iter().flatten().filter(move |name| tables.topics.find(name).is_some())
}

/// Finds a topic that was created.
pub(crate) fn topic(tables: &Tables, name: &str) -> Result<Arc<Topic>> {
    tables.topics.find(name).ok_or_else(|| {
        let remark = format!("No topic in this broker. topic: {name}{FAQ}");
        Refusal::new(response::TOPIC_NOT_EXIST, remark)
    })
}

/// The runtime table: figures of the broker by name, all as text.
pub(crate) fn runtime(
    sessions: &Sessions,
    delivery: &Delivery,
    runtime: &Runtime,
) -> BTreeMap<String, String> {
    let mut table = stats::table(&delivery.tables, delivery, runtime);
    table.extend(retention::status(&delivery.tables.store, runtime));
    table.extend(replicas::status(&delivery.replication, runtime));
    table.extend(
        stats::status(sessions, delivery, runtime).into_iter().map(|(key, value)| (key.to_owned(), value)),
    );
    table
}

#[cfg(test)]
mod tests;
