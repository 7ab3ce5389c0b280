//! Statistics: messages stored and delivered, by topic and group, over the last minute, hour and day (`BrokerStatsManager`,
//! `StatsItem`), and totals for the broker's runtime status (`StoreStatsService`, `BrokerStats`).
//!
//! The number of stored messages is derived from the ends of the queues, and that of delivered ones from the entries in which
//! pulls are recorded; only bytes and times of sends are counted per request. Every ten seconds all counters are sampled, and
//! those that changed are kept.

mod puts;
mod runtime;
mod windows;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::json;
use wire::frame::Command;

use crate::broker::Broker;
use crate::offsets::Delivered;
use crate::{Answer, Refusal, names};
use puts::Puts;
pub(crate) use windows::SAMPLE_MS;
use windows::Windows;

/// The counters, with RocketMQ's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Name {
    /// `TOPIC_PUT_NUMS`: messages stored, by topic.
    TopicPutNums,
    /// `TOPIC_PUT_SIZE`: bytes of the stored records of messages from producers, by topic.
    TopicPutSize,
    /// `TOPIC_PUT_LATENCY`: milliseconds it took to store messages, by `queue@topic`; the average is per send.
    TopicPutLatency,
    /// `GROUP_GET_NUMS`: messages delivered, by `topic@group`.
    GroupGetNums,
    /// `GROUP_GET_SIZE`: bytes of the messages delivered, by `topic@group`.
    GroupGetSize,
    /// `SNDBCK_PUT_NUMS`: messages consumers sent back, by `topic@group`.
    SendBack,
    /// `DLQ_PUT_NUMS`: messages that went to the dead letter topic, by `topic@group`.
    DeadLetters,
    /// `BROKER_PUT_NUMS`: messages stored, by cluster.
    BrokerPutNums,
    /// `BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC`: messages stored in topics that are not system topics, by cluster.
    BrokerPutNumsUser,
    /// `BROKER_GET_NUMS`: messages delivered, by cluster.
    BrokerGetNums,
    /// `BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC`: messages delivered from topics that are not system topics, by cluster.
    BrokerGetNumsUser,
}

const NAMES: [(&str, Name); 11] = [
    ("TOPIC_PUT_NUMS", Name::TopicPutNums),
    ("TOPIC_PUT_SIZE", Name::TopicPutSize),
    ("TOPIC_PUT_LATENCY", Name::TopicPutLatency),
    ("GROUP_GET_NUMS", Name::GroupGetNums),
    ("GROUP_GET_SIZE", Name::GroupGetSize),
    ("SNDBCK_PUT_NUMS", Name::SendBack),
    ("DLQ_PUT_NUMS", Name::DeadLetters),
    ("BROKER_PUT_NUMS", Name::BrokerPutNums),
    ("BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC", Name::BrokerPutNumsUser),
    ("BROKER_GET_NUMS", Name::BrokerGetNums),
    ("BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC", Name::BrokerGetNumsUser),
];

/// The statistics of a broker.
#[derive(Default)]
pub(crate) struct Stats {
    tables: Mutex<Tables>,
    /// Rare events, counted when they happen. Their number is bounded by that of groups and topics.
    events: Mutex<HashMap<(Name, String), u64>>,
    totals: Mutex<runtime::Totals>,
    pub(crate) puts: Puts,
}

#[derive(Default)]
struct Tables {
    windows: Windows,
    /// By topic, the sum of the ends of its queues at the last sample, and how much it has grown since the start.
    put: HashMap<String, Moved>,
    /// By `topic@group`, what was delivered at the last sample, and how much that has grown since the start.
    got: HashMap<String, (Delivered, Delivered)>,
    /// The counts of topics and groups that were deleted.
    gone: Sums,
}

#[derive(Clone, Copy, Default)]
struct Moved {
    seen: u64,
    total: u64,
}

/// Totals of messages stored and delivered since the broker started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    put: u64,
    put_user: u64,
    got: u64,
    got_user: u64,
    found: u64,
    missed: u64,
}

impl Stats {
    /// Counts an event of a topic and a group.
    pub(crate) fn count(&self, name: Name, topic: &str, group: &str) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        *events.entry((name, format!("{topic}@{group}"))).or_default() += 1;
    }

    /// The rate of a counter per second over the last minute; 0 when it has never counted.
    pub(crate) fn tps(&self, name: Name, key: &str) -> f64 {
        self.tables().windows.read(name, key).map_or(0.0, |read| read.minute.tps)
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tables {
    /// Updates the counts of all queues and groups, and returns the totals. What exists at the first call is not counted.
    fn look(&mut self, broker: &Broker, is_first: bool) -> Sums {
        let mut ends: HashMap<String, u64> = HashMap::new();
        for queue in broker.store.queues() {
            match ends.get_mut(queue.topic()) {
                Some(end) => *end += queue.max().get(),
                None => drop(ends.insert(queue.topic().to_owned(), queue.max().get())),
            }
        }
        for (topic, moved) in self.put.extract_if(|topic, _| !ends.contains_key(topic)) {
            self.gone.add_put(&topic, moved.total);
        }
        for (topic, end) in ends {
            let moved = self.put.entry(topic).or_default();
            // An end below the last one means that the topic was deleted and created again.
            let from = if is_first {
                end
            } else if end < moved.seen {
                0
            } else {
                moved.seen
            };
            *moved = Moved { seen: end, total: moved.total + (end - from) };
        }
        let delivered: HashMap<String, Delivered> = broker.offsets.delivered().into_iter().collect();
        for (key, (_, total)) in self.got.extract_if(|key, _| !delivered.contains_key(key)) {
            self.gone.add_got(&key, total);
        }
        for (key, now) in delivered {
            let (seen, total) = self.got.entry(key).or_default();
            let from = if now.messages < seen.messages { Delivered::default() } else { *seen };
            total.messages += now.messages - from.messages;
            total.bytes += now.bytes.saturating_sub(from.bytes);
            total.found += now.found.saturating_sub(from.found);
            total.missed += now.missed.saturating_sub(from.missed);
            *seen = now;
        }
        self.sums()
    }

    fn sums(&self) -> Sums {
        let mut sums = self.gone;
        self.put.iter().for_each(|(topic, moved)| sums.add_put(topic, moved.total));
        self.got.iter().for_each(|(key, (_, total))| sums.add_got(key, *total));
        sums
    }
}

impl Sums {
    fn add_put(&mut self, topic: &str, messages: u64) {
        self.put += messages;
        self.put_user += if names::is_system_topic(topic) { 0 } else { messages };
    }

    /// Adds what was delivered to a group; `key` is `topic@group`.
    fn add_got(&mut self, key: &str, total: Delivered) {
        let topic = key.split_once('@').map_or(key, |(topic, _)| topic);
        self.got += total.messages;
        self.got_user += if names::is_system_topic(topic) { 0 } else { total.messages };
        self.found += total.found;
        self.missed += total.missed;
    }
}

/// What producers sent to one queue since it was opened.
#[derive(Default)]
pub(crate) struct Sent {
    bytes: AtomicU64,
    requests: AtomicU64,
    ms: AtomicU64,
}

impl Sent {
    /// Counts a request whose records have this many bytes.
    pub(crate) fn count(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds the time it took to store the messages of one request.
    pub(crate) fn took(&self, time: Duration) {
        self.ms.fetch_add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// Samples what producers sent. The counts of a topic that was deleted and created again begin at zero.
fn note_sent(broker: &Broker, windows: &mut Windows) {
    for topic in broker.topics.all() {
        let (mut bytes, mut requests) = (0, 0);
        for (queue_id, queue) in topic.opened() {
            let sent = |count: &AtomicU64| count.load(Ordering::Relaxed);
            bytes += sent(&queue.sent.bytes);
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

/// Samples all counters. To be called every [`SAMPLE_MS`].
pub(crate) fn sample(broker: &Broker, now_ms: i64) {
    let stats = &broker.stats;
    let events = {
        let mut events = stats.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.retain(|(_, key), _| is_there(broker, key));
        events.clone()
    };
    let mut tables = stats.tables();
    let is_first = tables.windows.is_empty();
    let sums = tables.look(broker, is_first);
    let Tables { windows, put, got, .. } = &mut *tables;
    windows.begin(now_ms);
    note_sent(broker, windows);
    for (topic, moved) in put.iter() {
        windows.note(Name::TopicPutNums, topic, moved.total, moved.total);
    }
    for (key, (_, total)) in got.iter() {
        windows.note(Name::GroupGetNums, key, total.messages, total.found);
        windows.note(Name::GroupGetSize, key, total.bytes, total.found);
    }
    for ((name, key), count) in events {
        windows.note(name, &key, count, count);
    }
    let cluster = &broker.config.broker_cluster_name;
    for (name, value) in [
        (Name::BrokerPutNums, sums.put),
        (Name::BrokerPutNumsUser, sums.put_user),
        (Name::BrokerGetNums, sums.got),
        (Name::BrokerGetNumsUser, sums.got_user),
    ] {
        windows.note(name, cluster, value, value);
    }
    windows.end();
    let is_minute = windows.ends_minute();
    drop(tables);
    if is_minute {
        stats.puts.end_minute();
    }
    stats.totals.lock().unwrap_or_else(PoisonError::into_inner).sample(
        now_ms,
        sums,
        broker.store.appended().get(),
    );
}

/// Whether the topic and the group of a key `topic@group` exist.
fn is_there(broker: &Broker, key: &str) -> bool {
    let Some((topic, group)) = key.split_once('@') else { return false };
    broker.topic(topic).is_some() && broker.groups.find(group).is_some()
}

/// Serves 315 `VIEW_BROKER_STATS_DATA`: one counter over the last minute, hour and day.
pub(crate) fn view(broker: &Broker, command: &Command<'_>) -> Result<Answer, Refusal> {
    let (name, key) = (command.fields.need("statsName")?, command.fields.need("statsKey")?);
    let known = NAMES.iter().find(|(text, _)| *text == name).map(|(_, name)| *name);
    let read = known.and_then(|known| broker.stats.tables().windows.read(known, key));
    let read = read.ok_or_else(|| Refusal::error(format!("The stats <{name}> <{key}> not exist")))?;
    let span = |span: windows::Span| json!({ "avgpt": span.average, "sum": span.sum, "tps": span.tps });
    let body = json!({
        "statsDay": span(read.day), "statsHour": span(read.hour), "statsMinute": span(read.minute),
    });
    Ok(Answer::success().body(body.to_string().into_bytes()))
}

pub(crate) use runtime::table;

#[cfg(test)]
mod tests;
