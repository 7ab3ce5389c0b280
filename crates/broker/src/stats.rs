//! Statistics: messages stored and delivered, by topic and group, over the last minute, hour and day (`BrokerStatsManager`,
//! `StatsItem`), and totals for the broker's runtime status (`StoreStatsService`, `BrokerStats`).
//!
//! The number of stored messages comes from the ends of the queues that grew. The number of delivered messages comes
//! from the entries in which pulls are recorded. Only bytes and times of sends, and bytes that the broker itself
//! stores, are counted on arrival. Every ten seconds the changed counters are sampled.

mod runtime;
mod status;

use std::sync::atomic::{AtomicU64, Ordering};

use crate::parts::{Figures, Runtime};
use crate::state::{NAMES, Name, Read, Tables, Windows};
use crate::{Refusal, Result};

/// Samples the messages of producers and of the broker itself since the last sample. The counts of a topic that was
/// deleted and created again begin at zero.
fn note_sent(tables: &crate::parts::Tables, figures: &Figures, windows: &mut Windows) {
    for topic in figures.stats.take_sent_to() {
        let Some(topic) = tables.topics.find(&topic) else { continue };
        let own = figures.stats.own_of(topic.name());
        let (mut bytes, mut requests) = (own.bytes, own.records);
        for (queue_id, queue) in topic.opened() {
            // Before the counts are read: a send that is counted after that notes the topic once more.
            queue.sent.take_noted();
            let sent = |count: &AtomicU64| count.load(Ordering::Relaxed);
            bytes += queue.sent.bytes();
            requests += sent(&queue.sent.requests);
            let ms = sent(&queue.sent.ms);
            if ms > 0 {
                let key = format!("{queue_id}@{}", topic.name());
                windows.note(Name::TopicPutLatency, &key, ms, sent(&queue.sent.requests));
            }
        }
        windows.note(Name::TopicPutSize, topic.name(), bytes, requests);
    }
}

/// Samples all counters. To be called every [`crate::state::SAMPLE_MS`].
pub(crate) fn sample(tables: &crate::parts::Tables, figures: &Figures, runtime: &Runtime, now_ms: i64) {
    let stats = &figures.stats;
    let events = stats.events(|key| is_there(tables, key));
    let mut sampled = stats.tables();
    let is_first = sampled.windows.is_empty();
    let sums = sampled.look(&tables.store, &tables.offsets, is_first);
    let Tables { windows, put, grown, got, .. } = &mut *sampled;
    windows.begin(now_ms);
    if windows.begins_hour() {
        put.retain(|topic, _| tables.store.topic_end(topic).is_some());
        for name in [Name::TopicPutNums, Name::TopicPutSize, Name::TopicPutLatency] {
            windows.retain(name, |key| has_queues(&tables.store, key));
        }
        windows.forget_still();
        stats.forget_sent_to(|topic| tables.topics.find(topic).is_some());
    }
    note_sent(tables, figures, windows);
    for topic in std::mem::take(grown) {
        tables.ranking.grew(&topic, || tables.store.topic_end(&topic));
        let total = put.get(&topic).copied().unwrap_or_default();
        windows.note(Name::TopicPutNums, &topic, total, total);
    }
    for (key, (_, total)) in got.iter() {
        windows.note(Name::GroupGetNums, key, total.messages, total.found);
        windows.note(Name::GroupGetSize, key, total.bytes, total.found);
    }
    for name in [Name::GroupGetNums, Name::GroupGetSize] {
        windows.retain(name, |key| got.contains_key(key));
    }
    for name in [Name::SendBack, Name::DeadLetters] {
        windows.retain(name, |key| events.contains_key(&(name, key.to_owned())));
    }
    for ((name, key), count) in events {
        windows.note(name, &key, count, count);
    }
    let cluster = &runtime.config.broker_cluster_name;
    for (name, value) in [
        (Name::BrokerPutNums, sums.put),
        (Name::BrokerPutNumsUser, sums.put_user),
        (Name::BrokerGetNums, sums.got),
        (Name::BrokerGetNumsUser, sums.got_user),
    ] {
        windows.note(name, cluster, value, value);
    }
    let is_minute = windows.end();
    drop(sampled);
    if is_minute {
        stats.puts.end_minute();
    }
    stats.totals().sample(now_ms, sums, tables.store.appended().get());
}

/// Whether the topic in `key` still has queues. A key is a topic, or ends with a topic behind a queue id (`3@topic`).
fn has_queues(store: &store::Store, key: &str) -> bool {
    let topic = key.split_once('@').map_or(key, |(_, topic)| topic);
    store.topic_end(topic).is_some()
}

/// Whether the topic and the group of a key `topic@group` exist.
fn is_there(tables: &crate::parts::Tables, key: &str) -> bool {
    let Some((topic, group)) = key.split_once('@') else { return false };
    tables.topic(topic).is_some() && tables.groups.find(group).is_some()
}

/// The change of a counter, which is given by its RocketMQ name and its key, over the last minute, hour and day.
pub(crate) fn view(store: &store::Store, figures: &Figures, name: &str, key: &str) -> Result<Read> {
    let known = NAMES.iter().find(|(text, _)| *text == name).map(|(_, name)| *name);
    let is_of_topic =
        |name: &Name| matches!(name, Name::TopicPutNums | Name::TopicPutSize | Name::TopicPutLatency);
    // The counters of a deleted topic are removed only once an hour.
    let known = known.filter(|name| !is_of_topic(name) || has_queues(store, key));
    let read = known.and_then(|known| figures.stats.tables().windows.read(known, key));
    read.ok_or_else(|| Refusal::error(format!("The stats <{name}> <{key}> not exist")))
}

pub(crate) use runtime::{earliest_ms, table};
pub(crate) use status::status;

#[cfg(test)]
mod tests;
