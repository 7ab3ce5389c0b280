//! Expiry of lite topics (`AbstractLiteLifecycleManager`): a lite topic goes when its last message is older than the
//! parent's `lite.topic.expiration`. Unlike Apache's broker, it stays while a group lacks messages of it, unless
//! `unconsumedDataPolicy` is `DROP`.

use std::collections::HashMap;
use std::sync::Arc;

use store::{Queue, Unconsumed};
use wire::units::QueueOffset;

use super::rules;
use crate::broker::Broker;
use crate::names::lite_parts;
use crate::topics::attributes;

/// Milliseconds of a minute.
const MINUTE_MS: i64 = 60_000;

/// A search for expired lite topics.
pub(super) struct Search {
    queues: std::vec::IntoIter<Arc<Queue>>,
    /// Groups of each parent topic.
    groups: HashMap<Arc<str>, Vec<String>>,
    removed: usize,
}

impl Search {
    /// Begins a search of all lite queues.
    pub(super) fn begin(broker: &Broker) -> Self {
        let mut queues = broker.store.queues();
        queues.retain(|queue| lite_parts(queue.topic()).is_some());
        let mut groups: HashMap<Arc<str>, Vec<String>> = HashMap::new();
        for name in broker.tables.groups.names() {
            if let Some(rules) = rules(broker, &name) {
                groups.entry(rules.topic).or_default().push(name);
            }
        }
        Self { queues: queues.into_iter(), groups, removed: 0 }
    }

    /// Looks at `count` lite queues. Returns false at the end.
    pub(super) fn step(&mut self, broker: &Broker, now_ms: i64, count: usize) -> bool {
        let mut expired = Vec::new();
        let mut goes_on = true;
        for _ in 0..count {
            let Some(queue) = self.queues.next() else {
                goes_on = false;
                break;
            };
            if self.is_expired(broker, &queue, now_ms) {
                expired.push(queue);
            }
        }
        remove(broker, &expired);
        self.removed += expired.len();
        if !goes_on && self.removed > 0 {
            tracing::info!(count = self.removed, "lite topics expired");
        }
        goes_on
    }

    fn is_expired(&self, broker: &Broker, queue: &Queue, now_ms: i64) -> bool {
        let Some((parent, _)) = lite_parts(queue.topic()) else { return false };
        // The light queues of a parent that was deleted go with it.
        let Some(topic) = broker.tables.topics.find(parent) else { return true };
        let attributes = &topic.config.attributes;
        if attributes.get(attributes::MESSAGE_TYPE).is_none_or(|kind| kind != attributes::LITE) {
            return false;
        }
        let minutes = attributes.get(attributes::LITE_EXPIRATION).and_then(|text| text.parse::<i64>().ok());
        let Some(minutes) = minutes.filter(|minutes| *minutes > 0) else { return false };
        let life_ms = minutes.saturating_mul(MINUTE_MS).max(broker.runtime.config.lite.life_min_ms);
        let max = queue.max().get();
        // A queue without messages was made for a message that is being stored.
        if max == 0 {
            return false;
        }
        match broker.store.store_time(queue, QueueOffset::new(max - 1)) {
            Ok(Some(stored_ms)) if now_ms.saturating_sub(stored_ms) <= life_ms => return false,
            // Without its last message nothing is left of the lite topic.
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(queue = queue.topic(), %error, "the last message of a lite topic cannot be read");
                return false;
            }
        }
        broker.runtime.config.retention.unconsumed == Unconsumed::Drop
            || !self.is_lacked(broker, parent, queue)
    }

    /// Whether a group has not consumed all messages of a lite queue: it has an offset, or a client that subscribes.
    fn is_lacked(&self, broker: &Broker, parent: &str, queue: &Queue) -> bool {
        let name = queue.topic();
        let is_readable = |next: i64| queue.max().to_i64() > next.max(queue.min().to_i64());
        let subscribing = broker.tables.lite.groups_of(name);
        self.groups.get(parent).into_iter().flatten().any(|group| {
            match broker.tables.offsets.committed(group, name, 0) {
                Some(next) => is_readable(next),
                None => subscribing.iter().any(|other| **other == **group) && is_readable(0),
            }
        })
    }
}

/// Removes lite topics: their queues, the offsets and the state of all groups, and their subscriptions.
fn remove(broker: &Broker, queues: &[Arc<Queue>]) {
    if queues.is_empty() {
        return;
    }
    let names: Vec<&str> = queues.iter().map(|queue| queue.topic()).collect();
    // In this order: a pop in flight no longer moves the offset of a lite topic of the same name that begins anew.
    names.iter().for_each(|name| broker.delivery.pops.forget_topic(name));
    if let Err(error) = broker.store.remove_topics(&names) {
        tracing::error!(%error, "the removal of lite topics is not on disk yet");
    }
    for name in names {
        broker.tables.offsets.forget_topic(name);
        broker.tables.light.removed(name);
        broker.tables.lite.tables().forget_queue(name);
    }
}
