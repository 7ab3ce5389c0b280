//! The metadata writer: one thread writes all changes of topics and groups that came during the write before, and a request that
//! waits for a change goes on after the write that stores it. No connection waits for the disk, and a thousand new groups cost as
//! many writes as one.
//!
//! | step | where |
//! |---|---|
//! | a handler misses a topic or a group, or changes one: it stops with [`Refusal::later`] | thread of the connection |
//! | the request is detached from the receive buffer and queued | thread of the connection |
//! | all queued changes are applied and written, then visible | `metadata-writer` |
//! | of topics, name servers are told | `broker-tasks-0` |
//! | the request is answered | `metadata-writer`, or `broker-tasks-0` |
//! | or served once more from the start | thread of the connection |
//!
//! A request that waits here may be overtaken by later requests of its connection that need no change. In Java, too, several
//! threads serve the requests of one connection.

mod detached;

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use net::{ConnectionHandle, MemoryCharge};
use store::AppendError;
use wire::body::TopicConfig;
use wire::codes::{request, response};
use wire::frame::Command;

use crate::broker::Broker;
use crate::dispatcher::Dispatcher;
use crate::groups::GroupChange;
use crate::light::is_light;
use crate::refused::Cause;
use crate::supervisor::SupervisedWork;
use crate::topics::TopicChange;
use crate::{Answer, Refusal, disk_pool, lookup, pop};
pub(crate) use detached::Detached;

/// Most requests that wait for the metadata writer; a further one is refused as busy.
const WAITING_MAX: usize = 100_000;
/// Most bytes of the requests that wait for the metadata writer, and also of those that wait for name servers.
const WAITING_BYTES_MAX: usize = 64 << 20;
/// How often one request is served again at most: what it waited for may be removed each time before it is served.
const ROUNDS_MAX: u32 = 4;

/// Longest wait for name servers to learn of a topic. It is below the three seconds for which clients wait for an answer; Java
/// waits for 24 s (`registerBrokerTimeoutMills`).
const NAME_SERVER_PATIENCE: Duration = Duration::from_secs(2);

/// A change of topics and groups that must be on disk before a request goes on.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Change {
    /// Changes of topics, applied in this order.
    pub topics: Vec<TopicChange>,
    /// Changes of groups, applied in this order.
    pub groups: Vec<GroupChange>,
}

/// How a request goes on once its change is on disk.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Then {
    /// The request is served again from the start.
    Again,
    /// The request is answered with this.
    Answer(Answer),
}

/// A pending answer: the change that a request waits for, and how the request goes on afterwards.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Later {
    pub change: Change,
    pub then: Then,
}

impl From<TopicChange> for Change {
    fn from(change: TopicChange) -> Self {
        Self { topics: vec![change], groups: Vec::new() }
    }
}

impl From<GroupChange> for Change {
    fn from(change: GroupChange) -> Self {
        Self { topics: Vec::new(), groups: vec![change] }
    }
}

impl Change {
    /// The change that creates a topic unless it exists.
    pub(crate) fn ensure_topic(config: TopicConfig) -> Self {
        TopicChange::Ensure(config).into()
    }
}

struct Waiting {
    change: Change,
    then: Then,
    peer: Arc<ConnectionHandle>,
    request: Detached,
    charge: MemoryCharge,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Waiting>,
    bytes: usize,
    stopped: bool,
    /// The metadata writer ended before it was told to; requests are refused.
    abandoned: bool,
}

/// The requests that wait for the metadata writer.
#[derive(Default)]
pub(crate) struct MetadataWriter {
    queue: Mutex<Queue>,
    added: Condvar,
    /// Bytes of the requests whose topics are stored and that wait for name servers.
    unacknowledged_bytes: AtomicUsize,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl MetadataWriter {
    /// Queues a request together with the change it waits for.
    fn add(&self, waiting: Waiting) -> Result<(), Refusal> {
        let mut queue = self.queue();
        if queue.abandoned {
            return Err(abandoned());
        }
        let bytes = queue.bytes + waiting.request.bytes();
        if queue.stopped || queue.waiting.len() >= WAITING_MAX || bytes > WAITING_BYTES_MAX {
            let count = queue.waiting.len();
            let remark = format!(
                "[OVERLOAD]system busy, start flow control for a while: {count} requests wait for topics or groups to be stored"
            );
            return Err(Refusal::because(Cause::Changes, response::SYSTEM_BUSY, remark));
        }
        queue.bytes = bytes;
        queue.waiting.push(waiting);
        self.added.notify_one();
        Ok(())
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for requests and takes all of them; `None` when there are none and the thread is told to end.
    fn next(&self) -> Option<Vec<Waiting>> {
        let mut queue = self.queue();
        while queue.waiting.is_empty() {
            if queue.stopped {
                return None;
            }
            queue = self.added.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        queue.bytes = 0;
        Some(std::mem::take(&mut queue.waiting))
    }

    /// Starts the metadata writer.
    pub(crate) fn start(broker: &Arc<Broker>) -> std::io::Result<()> {
        let writer = broker.clone();
        let run = move || {
            let ending = Ending(writer.clone());
            while let Some(waiting) = writer.metadata_writer.next() {
                round(&writer, waiting);
            }
            drop(ending);
        };
        let thread = broker.supervisor.spawn(SupervisedWork::Metadata, "metadata-writer", run)?;
        *broker.metadata_writer.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(())
    }

    /// Lets the metadata writer store what waits, and ends it.
    pub(crate) fn stop(&self) {
        self.queue().stopped = true;
        self.added.notify_one();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

/// Dropped when the metadata writer ends, also by a panic: the requests that wait are refused, and later ones are refused at
/// once.
struct Ending(Arc<Broker>);

impl Drop for Ending {
    fn drop(&mut self) {
        let waiting = {
            let mut queue = self.0.metadata_writer.queue();
            queue.abandoned = !queue.stopped;
            queue.bytes = 0;
            std::mem::take(&mut queue.waiting)
        };
        for waiting in waiting {
            go_on(&self.0, waiting, Err(abandoned()));
        }
    }
}

/// The refusal of a request that needs the metadata writer after that thread has ended.
fn abandoned() -> Refusal {
    let remark = "service not available now. The thread metadata-writer has stopped: topics and groups are not made or changed";
    Refusal::new(response::SERVICE_NOT_AVAILABLE, remark)
}

/// Queues a request for the metadata writer until the change that its refusal asks for is on disk.
///
/// # Errors
/// The refusal to answer with now: `refusal` itself when it asks for no change, `SYSTEM_BUSY` when too many requests wait.
pub(crate) fn postpone(
    broker: &Broker,
    peer: &Arc<ConnectionHandle>,
    command: &Command<'_>,
    refusal: Refusal,
    fast: bool,
) -> Result<(), Refusal> {
    queue(broker, peer, refusal, || Detached::new(command, fast, 0))
}

fn queue(
    broker: &Broker,
    peer: &Arc<ConnectionHandle>,
    mut refusal: Refusal,
    detach: impl FnOnce() -> Detached,
) -> Result<(), Refusal> {
    let Some(later) = refusal.later.take() else { return Err(refusal) };
    let Later { change, then } = *later;
    let request = detach();
    let charge = peer.charge(request.bytes() + size_of::<Waiting>());
    broker.metadata_writer.add(Waiting { change, then, peer: peer.clone(), request, charge })
}

/// Queues a request for the disk pool, because serving it may wait for the disk or takes long.
///
/// # Errors
/// `SYSTEM_BUSY`: too many requests wait for the disk pool.
pub(crate) fn serve_from_disk(
    broker: &Arc<Broker>,
    peer: &Arc<ConnectionHandle>,
    command: &Command<'_>,
    fast: bool,
) -> Result<(), Refusal> {
    // Only these requests have a body that is used; the bodies of others are not copied.
    let bodies = [
        request::UPDATE_BROKER_CONFIG,
        request::SET_MESSAGE_REQUEST_MODE,
        request::LOCK_BATCH_MQ,
        request::UNLOCK_BATCH_MQ,
    ];
    let body = if bodies.contains(&command.code) { command.body } else { &[] };
    let command = Command { body, ..command.clone() };
    broker
        .disk_pool
        .serve(broker, peer, Detached::new(&command, fast, 0))
        .map_err(|_| disk_pool::too_many(command.code))
}

/// Stores the changes of these requests and lets the requests go on.
fn round(broker: &Arc<Broker>, mut waiting: Vec<Waiting>) {
    while !waiting.is_empty() {
        let rest = waiting.split_off(written_together(&waiting));
        let are_topics: Vec<bool> = waiting.iter().map(|waiting| !waiting.change.topics.is_empty()).collect();
        let changes = waiting.iter_mut().map(|waiting| std::mem::take(&mut waiting.change));
        let outcomes = broker.store_changes(changes);
        let generation = broker.topics.generation();
        let is_known = broker.registration_acks.is_known(generation);
        let mut unacknowledged = Vec::new();
        for ((waiting, outcome), are_topics) in waiting.into_iter().zip(outcomes).zip(are_topics) {
            if are_topics && outcome.is_ok() && !is_known {
                unacknowledged.push(waiting);
            } else {
                go_on(broker, waiting, outcome);
            }
        }
        if !unacknowledged.is_empty() {
            go_on_acknowledged(broker, unacknowledged, generation);
        }
        waiting = rest;
    }
}

/// Lets requests go on whose topics were stored, once the name servers have acknowledged these topics
/// (`registerIncrementBrokerData`). Unlike in Java this includes requests that delete topics: a registration that is still on its
/// way must not bring a deleted topic back at a name server.
fn go_on_acknowledged(broker: &Arc<Broker>, stored: Vec<Waiting>, generation: u64) {
    let bytes: usize = stored.iter().map(|waiting| waiting.request.bytes() + size_of::<Waiting>()).sum();
    let unacknowledged_bytes = &broker.metadata_writer.unacknowledged_bytes;
    if unacknowledged_bytes.load(Ordering::Relaxed) + bytes > WAITING_BYTES_MAX {
        return stored.into_iter().for_each(|waiting| go_on(broker, waiting, Ok(())));
    }
    unacknowledged_bytes.fetch_add(bytes, Ordering::Relaxed);
    let handle = broker.clone();
    let wait = move || async move {
        handle.registration_acks.wait(generation, NAME_SERVER_PATIENCE).await;
        handle.metadata_writer.unacknowledged_bytes.fetch_sub(bytes, Ordering::Relaxed);
        stored.into_iter().for_each(|waiting| go_on(&handle, waiting, Ok(())));
    };
    // Fails only while the broker stops; the connections of these requests are closed by then.
    let _ = broker.client_calls.spawn(wait);
}

/// How many of these requests, counted from the first, are stored together: those before a request that creates a topic which
/// another of them removes. Queues and offsets of the removed topic must be gone before the new topic exists.
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

fn go_on(broker: &Arc<Broker>, waiting: Waiting, outcome: Result<(), Refusal>) {
    let Waiting { then, peer, mut request, charge, .. } = waiting;
    // The client may be gone; the change is made all the same.
    let _ = match (outcome, then) {
        (Ok(()), Then::Again) if lookup::needs_disk(request.code()) => {
            match broker.disk_pool.serve(broker, &peer, request) {
                Ok(()) => Ok(()),
                Err(mut request) => {
                    let mut out = Vec::new();
                    let refusal = disk_pool::too_many(request.code());
                    answer(broker, &mut request, Err(refusal), Then::Again, &mut out);
                    peer.push(|bytes| bytes.extend_from_slice(&out))
                }
            }
        }
        (Ok(()), Then::Again) => {
            let broker = broker.clone();
            // On the connection's thread, because what the request reads or writes must not hold up the metadata writer.
            peer.put_back(Box::new(move |peer, out| {
                serve_again(&broker, peer, request, out);
                drop(charge);
            }))
        }
        (outcome, then) => {
            let mut out = Vec::new();
            answer(broker, &mut request, outcome, then, &mut out);
            peer.push(|bytes| bytes.extend_from_slice(&out))
        }
    };
}

fn answer(
    broker: &Arc<Broker>,
    request: &mut Detached,
    outcome: Result<(), Refusal>,
    then: Then,
    out: &mut Vec<u8>,
) {
    request.with(|command, fast| match (outcome, then) {
        (Err(refusal), _) => Dispatcher { broker: broker.clone(), fast }.refuse(command, &refusal, out),
        (Ok(()), Then::Answer(answer)) => answer.write(command, out),
        (Ok(()), Then::Again) => {}
    });
}

/// Serves a detached request again from the start.
pub(crate) fn serve_again(
    broker: &Arc<Broker>,
    peer: &Arc<ConnectionHandle>,
    mut request: Detached,
    out: &mut Vec<u8>,
) {
    let rounds = request.rounds + 1;
    request.with(|command, fast| {
        let dispatcher = Dispatcher { broker: broker.clone(), fast };
        let Err(mut refusal) = dispatcher.serve_alone(peer, command, out) else { return };
        if rounds < ROUNDS_MAX {
            match queue(broker, peer, refusal, || Detached::new(command, fast, rounds)) {
                Ok(()) => return,
                Err(error) => refusal = error,
            }
        }
        dispatcher.refuse(command, &refusal, out);
    });
}

impl Broker {
    /// Applies changes with at most one write of each file. Each change is made whole or not at all.
    pub(crate) fn store_changes(&self, changes: impl Iterator<Item = Change>) -> Vec<Result<(), Refusal>> {
        let now_ms = self.now_ms();
        let (topics, groups): (Vec<Vec<TopicChange>>, Vec<Vec<GroupChange>>) =
            changes.map(|change| (change.topics, change.groups)).unzip();
        let removed = topics.iter().flatten().filter_map(TopicChange::removed);
        let removed: Vec<String> = removed.map(str::to_owned).collect();
        let cleaned = |list: &Vec<GroupChange>| -> Vec<String> {
            list.iter().filter_map(GroupChange::cleaned).map(str::to_owned).collect()
        };
        let cleaned: Vec<_> = groups.iter().map(cleaned).collect();
        let old: Vec<_> = removed.iter().filter_map(|name| self.topics.find(name)).collect();
        let topics = self.topics.commit(topics, now_ms);
        let gone: Vec<_> = removed.iter().filter(|name| self.topics.find(name).is_none()).collect();
        self.clear_away(&gone);
        // A topic created again under the name gets new queues, so whoever waits at the old ones must be woken.
        for topic in old {
            topic.opened().iter().for_each(|(_, queue)| self.wake(queue));
            pop::gone(&self.handle(), &topic);
        }
        let groups = self.groups.commit(groups, now_ms);
        let made = cleaned.iter().zip(&groups).filter(|(_, outcome)| outcome.is_ok());
        self.forget_offsets(made.flat_map(|(names, _)| names));
        topics.into_iter().zip(groups).map(|(topics, groups)| topics.and(groups)).collect()
    }

    /// Removes the offsets of deleted groups, from the file as well.
    fn forget_offsets<'a>(&self, groups: impl Iterator<Item = &'a String>) {
        let mut is_any = false;
        for group in groups {
            self.pops.forget_group(group);
            self.offsets.forget_group(group);
            is_any = true;
        }
        if is_any {
            self.save();
        }
    }

    /// Removes the queues and offsets of deleted topics. The topics are gone from `topics.json` by then; otherwise a crash in
    /// between would leave a topic without its messages.
    fn clear_away(&self, gone: &[&String]) {
        if gone.is_empty() {
            return;
        }
        for name in gone {
            self.pops.forget_topic(name);
            self.offsets.forget_topic(name);
        }
        // The offsets are removed from disk before the queues: in a topic created again under the name they would be ahead of its
        // messages.
        self.save();
        for name in gone {
            // A light queue has no topic: only the offsets of its groups are removed.
            if !is_light(name)
                && let Err(error) = self.remove_queues(name)
            {
                tracing::error!(topic = name, %error, "the queues of a deleted topic are removed later");
            }
            tracing::info!(topic = name, "topic deleted");
        }
    }

    /// Removes the queues of a deleted topic and returns how many there were. A topic created under the name meanwhile may hold
    /// the removed queues; it opens new ones.
    pub(crate) fn remove_queues(&self, topic: &str) -> Result<usize, AppendError> {
        let removed = self.store.remove_topic(topic);
        self.topics.reopen(topic);
        removed
    }

    /// Does what the metadata writer does, in tests that run without that thread.
    #[cfg(test)]
    pub(crate) fn settle(self: &Arc<Self>) {
        loop {
            let waiting = std::mem::take(&mut self.metadata_writer.queue().waiting);
            if waiting.is_empty() {
                return;
            }
            let peers: Vec<_> = waiting.iter().map(|waiting| waiting.peer.clone()).collect();
            round(self, waiting);
            for peer in peers {
                while let Some(work) = peer.take_work() {
                    let mut out = Vec::new();
                    work(&peer, &mut out);
                    peer.push(|bytes| bytes.extend_from_slice(&out)).unwrap();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
