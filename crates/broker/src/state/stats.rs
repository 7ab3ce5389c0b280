//! The counters of statistics, and their samples.

mod puts;
mod totals;
mod windows;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use store::{Batch, Queue, Store};

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
    /// `TOPIC_PUT_SIZE`: bytes of the stored records, by topic.
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
    sent_to: Mutex<SentTo>,
    own: Mutex<Own>,
    head_times: Mutex<KnownTimes>,
    /// Durations of storing messages.
    pub(crate) puts: Puts,
}

/// Store times in milliseconds of messages, by the address of their queue, which the entry holds, and by queue offset.
pub(crate) type KnownTimes = HashMap<(usize, u64), (Arc<Queue>, i64)>;

/// The topics that producers sent to.
#[derive(Default)]
struct SentTo {
    /// Topics since the start. Some may be deleted.
    all: BTreeSet<Arc<str>>,
    /// Topics since the last sample.
    fresh: BTreeSet<Arc<str>>,
}

/// Messages that the broker itself stored: delayed, timed and decided messages, and messages sent back.
#[derive(Default)]
struct Own {
    /// Counts by topic since the start. A deleted topic has a count for at most an hour if a delayed copy arrived
    /// after its deletion.
    counts: HashMap<String, OwnCount>,
    /// Topics whose counts grew since the last sample.
    fresh: Vec<String>,
}

/// Count of the messages that the broker itself stored in a topic.
#[derive(Clone, Copy, Default)]
pub(crate) struct OwnCount {
    pub bytes: u64,
    pub records: u64,
    /// Whether the topic is in the list of topics that grew since the last sample.
    is_fresh: bool,
}

/// Counts as of the last sample.
#[derive(Default)]
pub(crate) struct Tables {
    /// The samples of all counters.
    pub windows: Windows,
    /// Messages stored since the start, by topic, of the topics that got any.
    pub put: HashMap<String, u64>,
    /// The topics of `put` that got messages since the last sample.
    pub grown: BTreeSet<String>,
    /// Deliveries by `topic@group` at the last sample, and their growth since the start.
    pub got: HashMap<String, (Delivered, Delivered)>,
    /// Counts of stored messages, and of deliveries to deleted groups.
    counted: Sums,
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
        let mut events = self.events.lock();
        *events.entry((name, format!("{topic}@{group}"))).or_default() += 1;
    }

    /// Records that producers sent to a topic.
    pub(crate) fn note_sent_to(&self, topic: &str) {
        let mut sent_to = self.sent_to.lock();
        let name = sent_to.all.get(topic).cloned().unwrap_or_else(|| topic.into());
        sent_to.all.insert(name.clone());
        sent_to.fresh.insert(name);
    }

    /// Takes the topics that producers sent to since the last call, or that the broker itself stored messages in.
    pub(crate) fn take_sent_to(&self) -> BTreeSet<Arc<str>> {
        let mut topics = std::mem::take(&mut self.sent_to.lock().fresh);
        let mut own = self.own.lock();
        for topic in std::mem::take(&mut own.fresh) {
            if let Some(count) = own.counts.get_mut(&topic) {
                count.is_fresh = false;
            }
            topics.insert(topic.into());
        }
        topics
    }

    /// Counts the messages of a batch that the broker made itself and has appended.
    pub(crate) fn count_own(&self, batch: &Batch) {
        let mut own = self.own.lock();
        let Own { counts, fresh } = &mut *own;
        for index in 0..batch.len() {
            let topic = batch.queue(index).topic();
            let count = match counts.get_mut(topic) {
                Some(count) => count,
                None => counts.entry(topic.to_owned()).or_default(),
            };
            count.bytes += u64::from(batch.append_result(index).size);
            count.records += 1;
            if !std::mem::replace(&mut count.is_fresh, true) {
                fresh.push(topic.to_owned());
            }
        }
    }

    /// Returns the count of the messages that the broker itself stored in a topic since the start.
    pub(crate) fn own_of(&self, topic: &str) -> OwnCount {
        self.own.lock().counts.get(topic).copied().unwrap_or_default()
    }

    /// Removes the counts of a removed topic.
    pub(crate) fn forget_own(&self, topic: &str) {
        self.own.lock().counts.remove(topic);
    }

    /// The topics that producers sent to since the start, sorted by name. Some may be deleted.
    pub(crate) fn topics_sent_to(&self) -> Vec<Arc<str>> {
        self.sent_to.lock().all.iter().cloned().collect()
    }

    /// Removes the counts of topics that do not exist any more.
    pub(crate) fn forget_sent_to(&self, is_there: impl Fn(&str) -> bool) {
        self.sent_to.lock().all.retain(|topic| is_there(topic));
        self.own.lock().counts.retain(|topic, _| is_there(topic));
    }

    /// Takes the store times of the messages that groups consume next, as the last scrape of metrics kept them.
    pub(crate) fn take_head_times(&self) -> KnownTimes {
        std::mem::take(&mut *self.head_times.lock())
    }

    /// Stores the store times of the messages that groups consume next, until the next scrape of metrics.
    pub(crate) fn keep_head_times(&self, times: KnownTimes) {
        *self.head_times.lock() = times;
    }

    /// Returns the rate of a counter per second over the last minute. 0 for an unused counter.
    pub(crate) fn tps(&self, name: Name, key: &str) -> f64 {
        self.minute(name, key).tps
    }

    /// Returns the change of a counter over the last minute. Zero for an unused counter.
    pub(crate) fn minute(&self, name: Name, key: &str) -> Span {
        self.tables().windows.read(name, key).map_or_else(Span::default, |read| read.minute)
    }

    /// Locks the tables.
    pub(crate) fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock()
    }
}

impl Stats {
    /// Returns the rare events counted since the start, by counter and key. Removes the events whose key `is_there`
    /// denies.
    pub(crate) fn events(&self, is_there: impl Fn(&str) -> bool) -> HashMap<(Name, String), u64> {
        let mut events = self.events.lock();
        events.retain(|(_, key), _| is_there(key));
        events.clone()
    }

    /// Locks the totals.
    pub(crate) fn totals(&self) -> MutexGuard<'_, Totals> {
        self.totals.lock()
    }
}

impl Tables {
    /// Adds the growth since the last call to the counts of topics and groups, and returns the totals. Messages that
    /// exist at the first call are not counted.
    pub(crate) fn look(&mut self, store: &Store, offsets: &Offsets, is_first: bool) -> Sums {
        for (queue, growth) in store.take_grown() {
            if is_first || growth == 0 {
                continue;
            }
            let topic = queue.topic();
            self.counted.add_put(topic, growth);
            if queue.is_removed() {
                continue;
            }
            match self.put.get_mut(topic) {
                Some(total) => *total += growth,
                None => drop(self.put.insert(topic.to_owned(), growth)),
            }
            if !self.grown.contains(topic) {
                self.grown.insert(topic.to_owned());
            }
        }
        let delivered = offsets.delivered();
        for (key, (_, total)) in self.got.extract_if(|key, _| !delivered.contains_key(key)) {
            self.counted.add_got(&key, total);
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
        let mut sums = self.counted;
        self.got.iter().for_each(|(key, (_, total))| sums.add_got(key, *total));
        sums
    }
}

impl Sums {
    fn add_put(&mut self, topic: &str, messages: u64) {
        self.put += messages;
        self.put_user += if names::is_system_topic(topic) { 0 } else { messages };
    }

    /// Adds deliveries to a group. `key` is `topic@group`.
    fn add_got(&mut self, key: &str, total: Delivered) {
        let topic = key.split_once('@').map_or(key, |(topic, _)| topic);
        self.got += total.messages;
        self.got_user += if names::is_system_topic(topic) { 0 } else { total.messages };
        self.found += total.found;
        self.missed += total.missed;
    }
}
