//! The counters of statistics, and their samples.

mod puts;
mod totals;
mod windows;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use store::Store;

use crate::names;
use crate::offsets::{Delivered, Offsets};
use puts::Puts;
use totals::Totals;
pub(crate) use totals::decimal;
pub(crate) use windows::{Read, SAMPLE_MS, Span, Windows};

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

/// The counters by their RocketMQ names.
pub(crate) const NAMES: [(&str, Name); 11] = [
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
    totals: Mutex<Totals>,
    /// How long storing messages takes.
    pub(crate) puts: Puts,
}

/// What was counted, as of the last sample.
#[derive(Default)]
pub(crate) struct Tables {
    /// The samples of all counters.
    pub windows: Windows,
    /// By topic, the sum of the ends of its queues at the last sample, and how much it has grown since the start.
    pub put: HashMap<String, Moved>,
    /// By `topic@group`, what was delivered at the last sample, and how much that has grown since the start.
    pub got: HashMap<String, (Delivered, Delivered)>,
    /// The counts of topics and groups that were deleted.
    gone: Sums,
}

/// How far a topic's queues have grown.
#[derive(Clone, Copy, Default)]
pub(crate) struct Moved {
    seen: u64,
    /// How much the sum has grown since the start.
    pub total: u64,
}

/// Totals of messages stored and delivered since the broker started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    /// Messages stored.
    pub put: u64,
    /// Messages stored in topics that are not system topics.
    pub put_user: u64,
    /// Messages delivered.
    pub got: u64,
    /// Messages delivered from topics that are not system topics.
    pub got_user: u64,
    /// Pulls that found messages.
    pub found: u64,
    /// Pulls that found none.
    pub missed: u64,
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

    /// Locks the tables.
    pub(crate) fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stats {
    /// The rare events counted since the start, by counter and key. Those whose key `is_there` denies are forgotten.
    pub(crate) fn events(&self, is_there: impl Fn(&str) -> bool) -> HashMap<(Name, String), u64> {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.retain(|(_, key), _| is_there(key));
        events.clone()
    }

    /// Locks the totals.
    pub(crate) fn totals(&self) -> MutexGuard<'_, Totals> {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tables {
    /// Updates the counts of all queues and groups, and returns the totals. What exists at the first call is not counted.
    pub(crate) fn look(&mut self, store: &Store, offsets: &Offsets, is_first: bool) -> Sums {
        let mut ends: HashMap<String, u64> = HashMap::new();
        for queue in store.queues() {
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
        let delivered: HashMap<String, Delivered> = offsets.delivered().into_iter().collect();
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
