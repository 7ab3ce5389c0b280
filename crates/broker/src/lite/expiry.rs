//! Expiry of lite topics (`AbstractLiteLifecycleManager`): a lite topic goes when its last message is older than the
//! parent's `lite.topic.expiration`. Unlike Apache's broker, it stays while a group lacks messages of it, unless
//! `unconsumedDataPolicy` is `DROP`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use store::{Queue, UnconsumedPolicy};
use wire::units::QueueOffset;

use super::rules;
use crate::names::lite_parts;
use crate::parts::{Delivery, LiteParts, Runtime, Tables};
use crate::save::save;
use crate::topics::attributes;

/// Milliseconds of a minute.
const MINUTE_MS: i64 = 60_000;

/// A search for expired lite topics, and their removal. The offsets of all expired lite topics are on disk as 0 before
/// the first queue is removed ([`crate::offsets::Offsets::begin_removal`]).
pub(super) struct Search {
    queues: std::vec::IntoIter<Arc<Queue>>,
    /// Groups of each parent topic.
    groups: HashMap<Arc<str>, Vec<String>>,
    /// Expired lite queues, with their ends.
    expired: Vec<(Arc<Queue>, QueueOffset)>,
    /// Lite queues without messages that this search found.
    empty: Empty,
    /// Lite queues without messages that the last search found.
    empty_before: Empty,
    is_removing: bool,
    removed: usize,
}

/// Names of lite queues without messages.
pub(super) type Empty = HashSet<Box<str>>;

/// State of a search after a step.
pub(super) enum Step {
    GoesOn,
    /// The search has ended. Contains the lite queues without messages.
    Ended(Empty),
}

impl Search {
    /// Begins a search of all lite queues. `empty_before` is the result of the last search.
    pub(super) fn begin(tables: &Tables, runtime: &Runtime, empty_before: Empty) -> Self {
        let mut queues = tables.store.queues();
        queues.retain(|queue| lite_parts(queue.topic()).is_some());
        let mut groups: HashMap<Arc<str>, Vec<String>> = HashMap::new();
        for name in tables.groups.names() {
            if let Some(rules) = rules(tables, runtime, &name) {
                groups.entry(rules.topic).or_default().push(name);
            }
        }
        let queues = queues.into_iter();
        let (expired, empty) = (Vec::new(), Empty::new());
        Self { queues, groups, expired, empty, empty_before, is_removing: false, removed: 0 }
    }

    /// Looks at `count` lite queues, or removes `count` expired lite topics.
    pub(super) fn step(&mut self, parts: &LiteParts, now_ms: i64, count: usize) -> Step {
        let delivery = &parts.delivery;
        if self.is_removing {
            let first = self.expired.len().saturating_sub(count);
            let mut queues = self.expired.split_off(first);
            // Messages, subscriptions and resets may have arrived since the search.
            queues.retain(|(queue, _)| self.may_go(&delivery.tables, &parts.runtime, queue));
            self.removed += remove(&delivery.tables, delivery, &queues);
            return if self.expired.is_empty() { self.end(&delivery.tables) } else { Step::GoesOn };
        }
        for _ in 0..count {
            let Some(queue) = self.queues.next() else {
                self.is_removing = self.begin_removal(parts);
                return if self.is_removing { Step::GoesOn } else { self.end(&delivery.tables) };
            };
            // Before the look at the last message, so that a message that arrives meanwhile keeps the lite topic.
            let end = queue.max();
            if self.is_expired(delivery, &parts.runtime, (&queue, end.get()), now_ms) {
                self.expired.push((queue, end));
            }
        }
        Step::GoesOn
    }

    /// Writes 0 as the offset of all groups in the expired lite topics to the file of offsets.
    /// False without expired lite topics, and if the offsets are not in the file.
    fn begin_removal(&self, parts: &LiteParts) -> bool {
        if self.expired.is_empty() {
            return false;
        }
        parts.tables.offsets.begin_removal(self.expired.iter().map(|(queue, _)| queue.topic()));
        save(&parts.delivery, &parts.runtime, &parts.pops)
    }

    /// Ends the search.
    fn end(&mut self, tables: &Tables) -> Step {
        if self.removed > 0 {
            tracing::info!(count = self.removed, "lite topics expired");
        }
        tables.offsets.end_removal();
        Step::Ended(std::mem::take(&mut self.empty))
    }

    fn is_expired(
        &mut self,
        delivery: &Delivery,
        runtime: &Runtime,
        (queue, max): (&Queue, u64),
        now_ms: i64,
    ) -> bool {
        let tables = &delivery.tables;
        let Some((parent, _)) = lite_parts(queue.topic()) else { return false };
        // The light queues of a parent that was deleted go with it. A slave gets new topics later than their messages.
        let is_slave = delivery.replication.role.is_slave();
        let Some(topic) = tables.topics.find(parent) else { return !is_slave };
        // A queue without messages was made for a message that is being stored, or that was refused.
        if max == 0 {
            self.empty.insert(queue.topic().into());
            return self.empty_before.contains(queue.topic());
        }
        let attributes = &topic.config.attributes;
        if attributes.get(attributes::MESSAGE_TYPE).is_none_or(|kind| kind != attributes::LITE) {
            return false;
        }
        let minutes = attributes.get(attributes::LITE_EXPIRATION).and_then(|text| text.parse::<i64>().ok());
        let Some(minutes) = minutes.filter(|minutes| *minutes > 0) else { return false };
        let life_ms = minutes.saturating_mul(MINUTE_MS).max(runtime.config.lite.life_min_ms);
        match tables.store.store_time(queue, QueueOffset::new(max - 1)) {
            Ok(Some(stored_ms)) if now_ms.saturating_sub(stored_ms) <= life_ms => return false,
            // Without its last message nothing is left of the lite topic.
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(queue = queue.topic(), %error, "the last message of a lite topic cannot be read");
                return false;
            }
        }
        // A master tells its slaves when it removed the offsets. A message that the slave lacks may still keep the lite topic.
        !(is_slave && tables.offsets.has_topic(queue.topic())) && self.may_go(tables, runtime, queue)
    }

    /// Whether a lite queue may go with the messages that groups have not consumed: the settings allow the removal, or
    /// the parent topic was deleted.
    fn may_go(&self, tables: &Tables, runtime: &Runtime, queue: &Queue) -> bool {
        let is_deleted = lite_parts(queue.topic()).is_some_and(|(of, _)| tables.topics.find(of).is_none());
        is_deleted
            || runtime.config.retention.unconsumed == UnconsumedPolicy::Drop
            || !self.is_lacked(tables, queue)
    }

    /// Whether a group has not consumed all messages of a lite queue: it has an offset, or a client that subscribes.
    fn is_lacked(&self, tables: &Tables, queue: &Queue) -> bool {
        let name = queue.topic();
        let parent = lite_parts(name).map_or("", |(parent, _)| parent);
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

/// Lite queues of parent topics that were deleted, with their ends.
pub(crate) fn of_parents(tables: &Tables, parents: &[&String]) -> Vec<(Arc<Queue>, QueueOffset)> {
    if parents.is_empty() || !tables.light.is_served() {
        return Vec::new();
    }
    let mut queues = tables.store.queues();
    queues.retain(|queue| {
        lite_parts(queue.topic()).is_some_and(|(parent, _)| parents.iter().any(|gone| *gone == parent))
    });
    queues.into_iter().map(|queue| (queue.clone(), queue.max())).collect()
}

/// Removes lite topics that still end at these offsets: their queues, the offsets and the state of all groups. Returns
/// their number. The file of offsets must have no offset of them above 0. Subscriptions stay, because clients repeat
/// them: a new message of the lite topic finds its subscribers.
pub(crate) fn remove(tables: &Tables, delivery: &Delivery, queues: &[(Arc<Queue>, QueueOffset)]) -> usize {
    let ended = queues.iter().filter(|(queue, end)| queue.max() == *end);
    let ends: Vec<(&str, QueueOffset)> = ended.map(|(queue, end)| (queue.topic(), *end)).collect();
    if ends.is_empty() {
        return 0;
    }
    // In this order: a pop in flight no longer moves the offset of a lite topic of the same name that begins anew.
    ends.iter().for_each(|(name, _)| delivery.pops.forget_topic(name));
    let (names, durable) = tables.store.remove_ended_topics(&ends);
    if let Err(error) = durable {
        tracing::error!(%error, "the removal of lite topics is not on disk yet");
    }
    forget(tables, delivery, &names);
    names.len()
}

/// Removes the offsets and events of lite queues that the store removed. Gives a new event for a
/// lite queue that a message made again meanwhile. By the old offset this message counted as
/// consumed, so the message gave no client an event, or its event is removed here.
pub(super) fn forget(tables: &Tables, delivery: &Delivery, names: &[&str]) {
    for name in names {
        tables.offsets.forget_topic(name);
        tables.light.removed(name);
        tables.lite.tables().forget_queue(name);
        if tables.store.find_queue(name, 0).is_some() {
            delivery.dispatch_lite(None, &(*name).into());
        }
    }
}
