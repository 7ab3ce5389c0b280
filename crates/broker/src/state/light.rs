//! Light queues (`enableLmq`): queues in great number, without a topic or group in the tables (`LmqTopicConfigManager`,
//! `LmqSubscriptionGroupManager`, `MixAll.isLmq`).
//!
//! A client pulls queue 0 of a topic whose name begins with `%LMQ%`. Messages reach that queue from ordinary sends
//! that name it in `INNER_MULTI_DISPATCH`. Groups whose names begin with `%LMQ%` have the default configuration. The
//! store has the queues, and this module has the light queues at which clients wait.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock};
use store::Store;
use wire::body::topic::{PERM_READ, PERM_WRITE, TopicConfig};

use crate::names::is_light;
use crate::topics::Topic;
use crate::{Refusal, Result};

/// Response code of a broker at its limit of light queues (`ResponseCode.LMQ_QUOTA_EXCEEDED`, 5.5).
const LMQ_QUOTA_EXCEEDED: i32 = 2017;

/// Most light queues without messages that are kept because clients may wait at them. A queue without a waiting
/// client makes room for others.
pub(crate) const WAITED_MAX: usize = 100_000;
/// Milliseconds between two searches for light queues without waiting clients. A search examines all of them under a
/// lock.
const SWEEP_PAUSE_MS: u64 = 1000;

/// The light queues that were pulled from.
#[derive(Default)]
pub(crate) struct Light {
    /// Whether light queues are served (`enableLmq` with `enableMultiDispatch`).
    is_served: bool,
    topics: RwLock<HashMap<String, Arc<Topic>>>,
    /// Time of the last search for light queues without waiting clients, milliseconds since 1970.
    swept_ms: AtomicI64,
    /// Number of light queues in the store; changed while `making` is held.
    count: AtomicUsize,
    making: Mutex<()>,
}

impl Light {
    /// Counts the light queues of a store.
    pub(crate) fn of(store: &Store, is_served: bool) -> Self {
        let light = Self { is_served, ..Self::default() };
        light.recount(store);
        light
    }

    /// Counts the light queues of a store again, because a slave does not count the queues that its master makes.
    pub(crate) fn recount(&self, store: &Store) {
        let _making = self.making.lock();
        let count = store.queues().iter().filter(|queue| is_light(queue.topic())).count();
        self.count.store(count, Ordering::Relaxed);
    }

    /// Whether light queues are served.
    pub(crate) fn is_served(&self) -> bool {
        self.is_served
    }

    /// A light queue that was pulled from.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<Topic>> {
        self.topics.read().get(name).cloned()
    }

    /// A light queue, found or made; `None` when as many as [`WAITED_MAX`] are waited at.
    pub(crate) fn find_or_make(&self, name: &str, store: &Store, now_ms: i64) -> Option<Arc<Topic>> {
        let mut topics = self.topics.write();
        if topics.len() >= WAITED_MAX && store.find_queue(name, 0).is_none() {
            if now_ms.abs_diff(self.swept_ms.load(Ordering::Relaxed)) >= SWEEP_PAUSE_MS {
                self.swept_ms.store(now_ms, Ordering::Relaxed);
                topics.retain(|_, topic| Topic::is_in_use(topic));
            }
            if topics.len() >= WAITED_MAX {
                return None;
            }
        }
        let make = || Arc::new(Topic::new(TopicConfig::new(name, 1, PERM_READ | PERM_WRITE), None));
        Some(topics.entry(name.to_owned()).or_insert_with(make).clone())
    }

    /// Creates the light queue `name` in the store, if it is missing.
    ///
    /// # Errors
    /// `LMQ_QUOTA_EXCEEDED` when the store has `queues_max` light queues.
    pub(crate) fn admit(&self, name: &str, store: &Store, queues_max: usize) -> Result<()> {
        if store.find_queue(name, 0).is_some() {
            return Ok(());
        }
        let _making = self.making.lock();
        if store.find_queue(name, 0).is_some() {
            return Ok(());
        }
        if self.count.load(Ordering::Relaxed) >= queues_max {
            let remark = "[LMQ_CONSUME_QUEUE_NUM_EXCEEDED]lmq consume queue num exceeded.";
            return Err(Refusal::new(LMQ_QUOTA_EXCEEDED, remark));
        }
        if store.queue(name, 0).is_ok() {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Forgets a light queue that the store removed.
    pub(crate) fn removed(&self, name: &str) {
        let _making = self.making.lock();
        // Queues of replicated messages are not counted, so that a slave may remove more queues than it has counted.
        self.count.store(self.count().saturating_sub(1), Ordering::Relaxed);
        self.topics.write().remove(name);
    }

    /// Number of light queues that were admitted or found at the start.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Number of light queues that were pulled from.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.topics.read().len()
    }
}
