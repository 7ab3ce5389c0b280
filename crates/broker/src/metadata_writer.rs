//! Metadata writer: a thread writes all changes of topics and groups that arrived during the preceding write. A
//! request that waits for a change continues after the write of the change. No connection waits for the disk, and a
//! thousand new groups cost as many writes as one group.
//!
//! | step | where |
//! |---|---|
//! | a handler misses a topic or a group, or changes one: it stops with [`Refusal::later`] | thread of the connection |
//! | the request is detached from the receive buffer and queued | thread of the connection |
//! | all queued changes are applied and written, then visible | `metadata-writer` |
//! | of topics, name servers are told; slaves of the in-sync set take the tables | `broker-tasks-0` |
//! | the request is answered | `metadata-writer`, or `broker-tasks-0` |
//! | or served once more from the start | thread of the connection |
//!
//! A request that waits here may be overtaken by later requests of its connection that need no change. In Java, too,
//! several threads serve the requests of a connection.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::change::{Change, GroupChange, TopicChange};
use crate::engine::{Engine, Next};
use crate::names::is_light;
use crate::parts::MetadataParts;
use crate::save::save;
use crate::state::{WAITING_BYTES_MAX, Waiting, abandoned};
use crate::{Result, lite, pop, table_changes};

/// Longest wait for name servers to learn of a topic. It is below the three seconds for which clients wait for an answer; Java
/// waits for 24 s (`registerBrokerTimeoutMills`).
const NAME_SERVER_PATIENCE: Duration = Duration::from_secs(2);

/// The engine that stores the changes of topics and groups.
pub(crate) struct MetadataWriter {
    parts: Arc<MetadataParts>,
}

impl MetadataWriter {
    /// The engine that works off the broker's queue of changes.
    pub(crate) fn new(parts: Arc<MetadataParts>) -> Self {
        Self { parts }
    }
}

impl Engine for MetadataWriter {
    fn round(&mut self, _now_ms: i64) -> Next {
        loop {
            let waiting = self.parts.runtime.metadata_queue.take();
            if waiting.is_empty() {
                return Next::Woken;
            }
            round(&self.parts, waiting);
        }
    }

    /// Stores the waiting changes. Later requests are refused.
    fn stop(&mut self) {
        let waiting = self.parts.runtime.metadata_queue.close();
        round(&self.parts, waiting);
    }
}

/// Refuses waiting and later requests, even after a panic.
impl Drop for MetadataWriter {
    fn drop(&mut self) {
        for waiting in self.parts.runtime.metadata_queue.abandon() {
            waiting.go_on(Err(abandoned()));
        }
    }
}

/// Stores the changes of these requests and continues the requests.
fn round(parts: &Arc<MetadataParts>, mut waiting: Vec<Waiting>) {
    while !waiting.is_empty() {
        let rest = waiting.split_off(written_together(&waiting));
        let are_topics: Vec<bool> = waiting.iter().map(|waiting| !waiting.change.topics.is_empty()).collect();
        let changes = waiting.iter_mut().map(|waiting| std::mem::take(&mut waiting.change));
        let outcomes = parts.store_changes(changes);
        let generation = parts.tables.topics.generation();
        let is_known = parts.replication.registration_acks.is_known(generation);
        let is_copied = table_changes::are_copied(
            &parts.replication,
            &parts.runtime,
            &table_changes::topics_and_groups(&parts.tables),
        );
        let mut unacknowledged = Vec::new();
        for ((waiting, outcome), are_topics) in waiting.into_iter().zip(outcomes).zip(are_topics) {
            if outcome.is_ok() && (are_topics && !is_known || !is_copied) {
                unacknowledged.push(waiting);
            } else {
                waiting.go_on(outcome);
            }
        }
        if !unacknowledged.is_empty() {
            go_on_acknowledged(parts, unacknowledged, generation);
        }
        waiting = rest;
    }
}

/// Continues requests whose changes are stored, after the name servers have acknowledged the topics
/// (`registerIncrementBrokerData`). In controller mode the slaves of the in-sync set must have topics and groups too.
/// Unlike in Java, this includes requests that delete topics, because a registration in flight must not restore a
/// deleted topic at a name server.
fn go_on_acknowledged(parts: &Arc<MetadataParts>, stored: Vec<Waiting>, generation: u64) {
    let bytes: usize = stored.iter().map(|waiting| waiting.request.bytes() + size_of::<Waiting>()).sum();
    let unacknowledged_bytes = &parts.runtime.metadata_queue.unacknowledged_bytes;
    if unacknowledged_bytes.load(Ordering::Relaxed) + bytes > WAITING_BYTES_MAX {
        return stored.into_iter().for_each(|waiting| waiting.go_on(Ok(())));
    }
    unacknowledged_bytes.fetch_add(bytes, Ordering::Relaxed);
    let tables = table_changes::topics_and_groups(&parts.tables);
    let handle = parts.clone();
    let wait = move || async move {
        let ((), copied) = tokio::join!(
            handle.replication.registration_acks.wait(generation, NAME_SERVER_PATIENCE),
            table_changes::wait(&handle.replication, &handle.runtime, tables),
        );
        handle.runtime.metadata_queue.unacknowledged_bytes.fetch_sub(bytes, Ordering::Relaxed);
        // A slave that took too long may still get them; the master has them.
        let outcome =
            copied.or_else(|refusal| if handle.replication.role.is_slave() { Err(refusal) } else { Ok(()) });
        stored.into_iter().for_each(|waiting| waiting.go_on(outcome.clone()));
    };
    // Fails only while the broker stops; the connections of these requests are closed by then.
    if parts.sessions.client_calls.spawn(wait).is_err() {
        unacknowledged_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Returns the number of leading requests that are stored together: all requests before a request that creates a
/// topic which an earlier request removes. Queues and offsets of the removed topic must be gone before the new topic
/// exists.
fn written_together(waiting: &[Waiting]) -> usize {
    let mut removed = HashSet::new();
    for (count, waiting) in waiting.iter().enumerate() {
        let topics = &waiting.change.topics;
        if topics.iter().filter_map(TopicChange::made).any(|name| removed.contains(name)) {
            return count;
        }
        removed.extend(topics.iter().filter_map(TopicChange::removed));
    }
    waiting.len()
}

impl MetadataParts {
    /// Applies changes with at most one write of each file. Each change is made whole or not at all.
    pub(crate) fn store_changes(self: &Arc<Self>, changes: impl Iterator<Item = Change>) -> Vec<Result<()>> {
        let now_ms = self.runtime.now_ms();
        let (topics, groups): (Vec<Vec<TopicChange>>, Vec<Vec<GroupChange>>) =
            changes.map(|change| (change.topics, change.groups)).unzip();
        let removed = topics.iter().flatten().filter_map(TopicChange::removed);
        let removed: Vec<String> = removed.map(str::to_owned).collect();
        // The offsets of a lite group always go with it (`SubscriptionGroupManager.deleteSubscriptionGroupConfig`).
        let is_cleaned = |(group, cleans): &(&str, bool)| {
            *cleans || lite::is_lite_group(&self.tables, &self.runtime, group)
        };
        let cleaned = |list: &Vec<GroupChange>| -> Vec<String> {
            let removed = list.iter().filter_map(GroupChange::removed).filter(is_cleaned);
            removed.map(|(group, _)| group.to_owned()).collect()
        };
        let cleaned: Vec<_> = groups.iter().map(cleaned).collect();
        let old: Vec<_> = removed.iter().filter_map(|name| self.tables.topics.find(name)).collect();
        let topics = self.tables.topics.commit(topics, now_ms);
        let gone: Vec<_> = removed.iter().filter(|name| self.tables.topics.find(name).is_none()).collect();
        self.clear_away(&gone);
        // A re-created topic gets new queues, so requests that wait at the old queues must be woken.
        for topic in old {
            topic.opened().iter().for_each(|(_, queue)| self.delivery.wake(queue));
            pop::gone(&self.pops, &topic);
        }
        let groups = self.tables.groups.commit(groups, now_ms);
        let made = cleaned.iter().zip(&groups).filter(|(_, outcome)| outcome.is_ok());
        self.forget_offsets(made.flat_map(|(names, _)| names));
        topics.into_iter().zip(groups).map(|(topics, groups)| topics.and(groups)).collect()
    }

    /// Removes the offsets of deleted groups, from the file as well.
    fn forget_offsets<'a>(&self, groups: impl Iterator<Item = &'a String>) {
        let mut is_any = false;
        for group in groups {
            self.tables.lite.tables().forget_group(group);
            self.delivery.pops.forget_group(group);
            self.tables.offsets.forget_group(group);
            is_any = true;
        }
        if is_any {
            save(&self.delivery, &self.runtime, &self.pops);
        }
    }

    /// Removes the queues and offsets of deleted topics. The topics must have been removed from `topics.json`
    /// before. Otherwise a crash in between would leave a topic without its messages.
    fn clear_away(&self, gone: &[&String]) {
        if gone.is_empty() {
            return;
        }
        let lite = lite::of_parents(&self.tables, gone);
        let lite_names = lite.iter().map(|(queue, _)| queue.topic());
        for name in gone.iter().map(|name| name.as_str()).chain(lite_names) {
            self.delivery.pops.forget_topic(name);
            self.tables.offsets.forget_topic(name);
        }
        for name in gone {
            self.delivery.transactions.lock().forget_topic(name);
            self.figures.stats.forget_own(name);
        }
        // The offsets are removed from disk before the queues: in a topic created again under the name they would be ahead of its
        // messages.
        save(&self.delivery, &self.runtime, &self.pops);
        lite::remove(&self.tables, &self.delivery, &lite);
        for name in gone {
            // A light queue has no topic: only the offsets of its groups are removed.
            if !is_light(name)
                && let Err(error) = self.tables.remove_queues(name)
            {
                tracing::error!(topic = name, %error, "the queues of a deleted topic are removed later");
            }
            tracing::info!(topic = name, "topic deleted");
        }
    }

    /// Does the metadata writer's work, in tests without that thread.
    #[cfg(test)]
    pub(crate) fn settle(self: &Arc<Self>) {
        loop {
            let waiting = self.runtime.metadata_queue.take();
            if waiting.is_empty() {
                return;
            }
            let connections: Vec<_> = waiting.iter().map(|waiting| waiting.request.catch_up()).collect();
            round(self, waiting);
            connections.iter().for_each(|catch_up| catch_up());
        }
    }
}

#[cfg(test)]
mod tests;
