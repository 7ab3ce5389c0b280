//! Light queues (`enableLmq`): queues in great number, without a topic or group in the tables (`LmqTopicConfigManager`,
//! `LmqSubscriptionGroupManager`, `MixAll.isLmq`).
//!
//! A client pulls queue 0 of a topic whose name begins with `%LMQ%`. Messages reach that queue from ordinary sends that name it
//! in `INNER_MULTI_DISPATCH`. Groups whose names begin with `%LMQ%` have the default configuration. The store has the queues;
//! kept here are the light queues at which clients wait.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use store::{Batch, Store};
use wire::body::topic::{PERM_READ, PERM_WRITE, TopicConfig};
use wire::properties::{self, key};

use crate::Refusal;
use crate::broker::Broker;
use crate::topics::{Queue, Topic};

/// The beginning of the names of light queues, and of groups that read only light queues.
const PREFIX: &str = "%LMQ%";

/// Response code for a broker that has its most light queues (`ResponseCode.LMQ_QUOTA_EXCEEDED`, 5.5).
const LMQ_QUOTA_EXCEEDED: i32 = 2017;

/// Most light queues kept because clients may wait at them, though they have no message. One at which nobody waits makes room for
/// others.
const WAITED_MAX: usize = 100_000;
/// Milliseconds between two searches for light queues at which nobody waits: a search examines all of them under a lock.
const SWEEP_PAUSE_MS: u64 = 1000;

/// True for names of light queues, and of groups that read only light queues.
pub(crate) fn is_light(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// The light queues that were pulled from.
#[derive(Default)]
pub(crate) struct Light {
    topics: RwLock<HashMap<String, Arc<Topic>>>,
    /// When light queues at which nobody waits were last searched for, milliseconds since 1970.
    swept_ms: AtomicI64,
    /// Number of light queues in the store; changed while `making` is held.
    count: AtomicUsize,
    making: Mutex<()>,
}

impl Light {
    /// Counts the light queues of a store.
    pub(crate) fn of(store: &Store) -> Self {
        let count = store.queues().iter().filter(|queue| is_light(queue.topic())).count();
        Self { count: AtomicUsize::new(count), ..Self::default() }
    }

    fn find(&self, name: &str) -> Option<Arc<Topic>> {
        self.topics.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }
}

impl Broker {
    /// A topic that clients may read: one of the table, or a light queue.
    pub(crate) fn topic(&self, name: &str) -> Option<Arc<Topic>> {
        let found = self.topics.find(name);
        if found.is_some() || !(self.config.store.multi_dispatch && is_light(name)) {
            return found;
        }
        if let Some(topic) = self.light.find(name) {
            return Some(topic);
        }
        let mut topics = self.light.topics.write().unwrap_or_else(PoisonError::into_inner);
        if topics.len() >= WAITED_MAX && self.store.find_queue(name, 0).is_none() {
            let (now_ms, swept_ms) = (self.now_ms(), &self.light.swept_ms);
            if now_ms.abs_diff(swept_ms.load(Ordering::Relaxed)) >= SWEEP_PAUSE_MS {
                swept_ms.store(now_ms, Ordering::Relaxed);
                // A suspended pull or waiting pop holds the topic of its light queue.
                topics.retain(|_, topic| Arc::strong_count(topic) > 1);
            }
            if topics.len() >= WAITED_MAX {
                return None;
            }
        }
        let make = || Arc::new(Topic::new(TopicConfig::new(name, 1, PERM_READ | PERM_WRITE), None));
        Some(topics.entry(name.to_owned()).or_insert_with(make).clone())
    }

    /// Creates the light queues that a message names; refuses the message when there would be more than `maxLmqConsumeQueueNum`.
    pub(crate) fn admit_light(&self, stored: &[u8]) -> Result<(), Refusal> {
        if !self.config.store.multi_dispatch || !self.config.light.quota {
            return Ok(());
        }
        let Some(names) = properties::get_str(stored, key::INNER_MULTI_DISPATCH) else { return Ok(()) };
        for name in names.split(',').filter(|name| is_light(name)) {
            if self.store.find_queue(name, 0).is_some() {
                continue;
            }
            let _making = self.light.making.lock().unwrap_or_else(PoisonError::into_inner);
            if self.store.find_queue(name, 0).is_some() {
                continue;
            }
            if self.light.count.load(Ordering::Relaxed) >= self.config.light.queues_max {
                let remark = "[LMQ_CONSUME_QUEUE_NUM_EXCEEDED]lmq consume queue num exceeded.";
                return Err(Refusal::new(LMQ_QUOTA_EXCEEDED, remark));
            }
            if self.store.queue(name, 0).is_ok() {
                self.light.count.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// The further queues named by the messages of a batch, as far as clients may wait at them.
    pub(crate) fn further_queues(&self, batch: &Batch) -> Vec<Arc<Queue>> {
        if !self.config.store.multi_dispatch {
            return Vec::new();
        }
        let named = (0..batch.len()).flat_map(|index| batch.multi_queues(index));
        let waited = |queue: &Arc<store::Queue>| {
            // Nobody waits at a light queue that was never pulled from.
            let topic = self.light.find(queue.topic()).or_else(|| self.topics.find(queue.topic()))?;
            topic.queue(&self.store, queue.queue_id()).cloned()
        };
        let mut queues: Vec<Arc<Queue>> = named.filter_map(waited).collect();
        queues.sort_unstable_by_key(Arc::as_ptr);
        queues.dedup_by(|one, other| Arc::ptr_eq(one, other));
        queues
    }
}

#[cfg(test)]
mod tests;
