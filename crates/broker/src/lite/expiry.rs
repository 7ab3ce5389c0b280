//! Expiry of lite topics (`AbstractLiteLifecycleManager`): a lite topic goes when its last message is older than the
//! parent's `lite.topic.expiration`. Unlike Apache's broker, it stays while a group lacks messages of it, unless
//! `unconsumedDataPolicy` is `DROP`.

use std::collections::HashMap;
use std::sync::Arc;

use store::{Queue, Unconsumed};
use wire::units::QueueOffset;

use super::rules;
use crate::names::lite_parts;
use crate::parts::{Delivery, Runtime, Tables};
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
    pub(super) fn begin(tables: &Tables, runtime: &Runtime) -> Self {
        let mut queues = tables.store.queues();
        queues.retain(|queue| lite_parts(queue.topic()).is_some());
        let mut groups: HashMap<Arc<str>, Vec<String>> = HashMap::new();
        for name in tables.groups.names() {
            if let Some(rules) = rules(tables, runtime, &name) {
                groups.entry(rules.topic).or_default().push(name);
            }
        }
        Self { queues: queues.into_iter(), groups, removed: 0 }
    }

    /// Looks at `count` lite queues. Returns false at the end.
    pub(super) fn step(&mut self, delivery: &Delivery, runtime: &Runtime, now_ms: i64, count: usize) -> bool {
        let mut expired = Vec::new();
        let mut goes_on = true;
        for _ in 0..count {
            let Some(queue) = self.queues.next() else {
                goes_on = false;
                break;
            };
            // Before the look at the last message, so that a message that arrives meanwhile keeps the lite topic.
            let end = queue.max();
            if self.is_expired(delivery, runtime, (&queue, end.get()), now_ms) {
                expired.push((queue, end));
            }
        }
        self.removed += remove(&delivery.tables, delivery, &expired);
        if !goes_on && self.removed > 0 {
            tracing::info!(count = self.removed, "lite topics expired");
        }
        goes_on
    }

    fn is_expired(
        &self,
        delivery: &Delivery,
        runtime: &Runtime,
        (queue, max): (&Queue, u64),
        now_ms: i64,
    ) -> bool {
        let tables = &delivery.tables;
        let Some((parent, _)) = lite_parts(queue.topic()) else { return false };
        // The light queues of a parent that was deleted go with it. A slave gets new topics later than their messages.
        let Some(topic) = tables.topics.find(parent) else { return !delivery.replication.role.is_slave() };
        let attributes = &topic.config.attributes;
        if attributes.get(attributes::MESSAGE_TYPE).is_none_or(|kind| kind != attributes::LITE) {
            return false;
        }
        let minutes = attributes.get(attributes::LITE_EXPIRATION).and_then(|text| text.parse::<i64>().ok());
        let Some(minutes) = minutes.filter(|minutes| *minutes > 0) else { return false };
        let life_ms = minutes.saturating_mul(MINUTE_MS).max(runtime.config.lite.life_min_ms);
        // A queue without messages was made for a message that is being stored.
        if max == 0 {
            return false;
        }
        match tables.store.store_time(queue, QueueOffset::new(max - 1)) {
            Ok(Some(stored_ms)) if now_ms.saturating_sub(stored_ms) <= life_ms => return false,
            // Without its last message nothing is left of the lite topic.
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(queue = queue.topic(), %error, "the last message of a lite topic cannot be read");
                return false;
            }
        }
        runtime.config.retention.unconsumed == Unconsumed::Drop || !self.is_lacked(tables, parent, queue)
    }

    /// Whether a group has not consumed all messages of a lite queue: it has an offset, or a client that subscribes.
    fn is_lacked(&self, tables: &Tables, parent: &str, queue: &Queue) -> bool {
        let name = queue.topic();
        let is_readable = |next: i64| queue.max().to_i64() > next.max(queue.min().to_i64());
        let subscribing = tables.lite.groups_of(name);
        self.groups.get(parent).into_iter().flatten().any(|group| {
            match tables.offsets.committed(group, name, 0) {
                Some(next) => is_readable(next),
                None => subscribing.iter().any(|other| **other == **group) && is_readable(0),
            }
        })
    }
}

/// Removes the lite topics of parent topics that were deleted.
pub(crate) fn remove_of_parents(tables: &Tables, delivery: &Delivery, parents: &[&String]) {
    if parents.is_empty() || !tables.light.is_served() {
        return;
    }
    let mut queues = tables.store.queues();
    queues.retain(|queue| {
        lite_parts(queue.topic()).is_some_and(|(parent, _)| parents.iter().any(|gone| *gone == parent))
    });
    let queues: Vec<_> = queues.into_iter().map(|queue| (queue.clone(), queue.max())).collect();
    remove(tables, delivery, &queues);
}

/// Removes lite topics that still end at these offsets: their queues, the offsets and the state of all groups, and their
/// subscriptions. Returns their number.
fn remove(tables: &Tables, delivery: &Delivery, queues: &[(Arc<Queue>, QueueOffset)]) -> usize {
    if queues.is_empty() {
        return 0;
    }
    let ends: Vec<(&str, QueueOffset)> = queues.iter().map(|(queue, end)| (queue.topic(), *end)).collect();
    // In this order: a pop in flight no longer moves the offset of a lite topic of the same name that begins anew.
    ends.iter().for_each(|(name, _)| delivery.pops.forget_topic(name));
    let (names, durable) = tables.store.remove_ended_topics(&ends);
    if let Err(error) = durable {
        tracing::error!(%error, "the removal of lite topics is not on disk yet");
    }
    for name in &names {
        tables.offsets.forget_topic(name);
        tables.light.removed(name);
        tables.lite.tables().forget_queue(name);
    }
    names.len()
}
