//! Changes of topics and groups, written together: one thread writes everything that came during the write before, and
//! whoever waits is served behind the write that covers his change. No connection waits for the disk, and a thousand
//! new groups cost as many writes as one.
//!
//! | step | where |
//! |---|---|
//! | a handler misses a topic or a group, or changes one: it stops with [`Refusal::later`] | thread of the connection |
//! | the request is detached from the receive buffer and queued | thread of the connection |
//! | all queued changes are applied and written, then visible | `broker-changes` |
//! | of topics, name servers are told | `broker-tasks-0` |
//! | the request is answered | `broker-changes`, or `broker-tasks-0` |
//! | or served once more from the start | thread of the connection |
//!
//! Requests of one connection that wait may be overtaken by later ones that need no change, as in Java, where a pool of
//! threads serves each connection.

mod detached;

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use net::{Charge, Peer};
use store::AppendError;
use wire::body::TopicConfig;
use wire::codes::{request, response};
use wire::frame::Command;

use crate::broker::Broker;
use crate::front::Front;
use crate::groups::GroupChange;
use crate::light::is_light;
use crate::refused::Cause;
use crate::topics::TopicChange;
use crate::vital::Duty;
use crate::{Answer, Refusal, cold, lookup, pop};
pub(crate) use detached::Detached;

/// Most requests that wait for a write; one more is refused as busy.
const WAITING_MAX: usize = 100_000;
/// Most bytes of them, and of those that wait for name servers.
const WAITING_BYTES_MAX: usize = 64 << 20;
/// How often a request is served again: somebody else may remove what it waited for.
const ROUNDS_MAX: u32 = 4;

/// Longest wait for name servers, in all: less than the three seconds clients wait for an answer. Java waits for 24
/// (`registerBrokerTimeoutMills`).
const NAME_SERVER_PATIENCE: Duration = Duration::from_secs(2);

/// What has to be on disk before a request goes on.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Change {
    /// Changes of topics, in their order.
    pub topics: Vec<TopicChange>,
    /// Changes of groups, in their order.
    pub groups: Vec<GroupChange>,
}

/// How a request goes on once its change is on disk.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Then {
    /// It is served from the start.
    Again,
    /// This is the answer.
    Answer(Answer),
}

/// A request that cannot be answered before a change is on disk.
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
    /// A topic that is made unless it exists.
    pub(crate) fn ensure_topic(config: TopicConfig) -> Self {
        TopicChange::Ensure(config).into()
    }
}

struct Waiting {
    change: Change,
    then: Then,
    peer: Arc<Peer>,
    request: Detached,
    charge: Charge,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Waiting>,
    bytes: usize,
    stopped: bool,
    /// The thread that writes ended without being told to.
    abandoned: bool,
}

/// The requests that wait for a write.
#[derive(Default)]
pub(crate) struct Changes {
    queue: Mutex<Queue>,
    added: Condvar,
    /// Bytes of requests that wait for name servers.
    untold_bytes: AtomicUsize,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Changes {
    /// Queues a request with the change it waits for.
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

    /// Takes what waits; `None` when nothing does and the thread shall end.
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

    /// Starts the thread that writes.
    pub(crate) fn start(broker: &Arc<Broker>) -> std::io::Result<()> {
        let writer = broker.clone();
        let run = move || {
            let ending = Ending(writer.clone());
            while let Some(waiting) = writer.changes.next() {
                round(&writer, waiting);
            }
            drop(ending);
        };
        let thread = broker.vital.spawn(Duty::Changes, "broker-changes", run)?;
        *broker.changes.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(())
    }

    /// Writes what waits and ends the thread.
    pub(crate) fn stop(&self) {
        self.queue().stopped = true;
        self.added.notify_one();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

/// Ends with the thread that writes, also when it panics: whoever still waits is refused, and nobody else waits in vain.
struct Ending(Arc<Broker>);

impl Drop for Ending {
    fn drop(&mut self) {
        let waiting = {
            let mut queue = self.0.changes.queue();
            queue.abandoned = !queue.stopped;
            queue.bytes = 0;
            std::mem::take(&mut queue.waiting)
        };
        for waiting in waiting {
            go_on(&self.0, waiting, Err(abandoned()));
        }
    }
}

/// The refusal of a request that would wait for nobody.
fn abandoned() -> Refusal {
    let remark = "service not available now. The thread broker-changes has stopped: topics and groups are not made or changed";
    Refusal::new(response::SERVICE_NOT_AVAILABLE, remark)
}

/// Puts a request off until the change it asks for is on disk.
///
/// # Errors
/// The refusal to answer with now: the one given when it waits for nothing, or that too many wait.
pub(crate) fn postpone(
    broker: &Broker,
    peer: &Arc<Peer>,
    command: &Command<'_>,
    refusal: Refusal,
    fast: bool,
) -> Result<(), Refusal> {
    queue(broker, peer, refusal, || Detached::new(command, fast, 0))
}

fn queue(
    broker: &Broker,
    peer: &Arc<Peer>,
    mut refusal: Refusal,
    detach: impl FnOnce() -> Detached,
) -> Result<(), Refusal> {
    let Some(later) = refusal.later.take() else { return Err(refusal) };
    let Later { change, then } = *later;
    let request = detach();
    let charge = peer.charge(request.bytes() + size_of::<Waiting>());
    broker.changes.add(Waiting { change, then, peer: peer.clone(), request, charge })
}

/// Has a request served by the cold readers, because it may wait for the disk or takes long.
///
/// # Errors
/// The refusal to answer with now: too many wait.
pub(crate) fn serve_from_disk(
    broker: &Arc<Broker>,
    peer: &Arc<Peer>,
    command: &Command<'_>,
    fast: bool,
) -> Result<(), Refusal> {
    // These have a body that counts.
    let bodies = [
        request::UPDATE_BROKER_CONFIG,
        request::SET_MESSAGE_REQUEST_MODE,
        request::LOCK_BATCH_MQ,
        request::UNLOCK_BATCH_MQ,
    ];
    let body = if bodies.contains(&command.code) { command.body } else { &[] };
    let command = Command { body, ..command.clone() };
    broker
        .cold
        .serve(broker, peer, Detached::new(&command, fast, 0))
        .map_err(|_| cold::too_many(command.code))
}

/// Writes the changes of all these requests and lets them go on.
fn round(broker: &Arc<Broker>, mut waiting: Vec<Waiting>) {
    while !waiting.is_empty() {
        let rest = waiting.split_off(written_together(&waiting));
        let are_topics: Vec<bool> = waiting.iter().map(|waiting| !waiting.change.topics.is_empty()).collect();
        let changes = waiting.iter_mut().map(|waiting| std::mem::take(&mut waiting.change));
        let outcomes = broker.store_changes(changes);
        let generation = broker.topics.generation();
        let is_known = broker.told.is_known(generation);
        let mut untold = Vec::new();
        for ((waiting, outcome), are_topics) in waiting.into_iter().zip(outcomes).zip(are_topics) {
            if are_topics && outcome.is_ok() && !is_known {
                untold.push(waiting);
            } else {
                go_on(broker, waiting, outcome);
            }
        }
        if !untold.is_empty() {
            go_on_told(broker, untold, generation);
        }
        waiting = rest;
    }
}

/// Lets requests go on whose topics were stored, once the name servers know those (`registerIncrementBrokerData`). Other
/// than Java's also those that delete topics: nothing still on its way to a name server shall bring one back there.
fn go_on_told(broker: &Arc<Broker>, stored: Vec<Waiting>, generation: u64) {
    let bytes: usize = stored.iter().map(|waiting| waiting.request.bytes() + size_of::<Waiting>()).sum();
    let untold_bytes = &broker.changes.untold_bytes;
    if untold_bytes.load(Ordering::Relaxed) + bytes > WAITING_BYTES_MAX {
        return stored.into_iter().for_each(|waiting| go_on(broker, waiting, Ok(())));
    }
    untold_bytes.fetch_add(bytes, Ordering::Relaxed);
    let handle = broker.clone();
    let wait = move || async move {
        handle.told.wait(generation, NAME_SERVER_PATIENCE).await;
        handle.changes.untold_bytes.fetch_sub(bytes, Ordering::Relaxed);
        stored.into_iter().for_each(|waiting| go_on(&handle, waiting, Ok(())));
    };
    // It fails only when the broker stops; the connections of those who wait have ended then.
    let _ = broker.asks.spawn(wait);
}

/// How many of these requests, from the first on, are written together: those before one that makes a topic again which
/// another of them removes. The queues and positions of the old one go first.
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
    // Somebody who went away learns nothing; the change is made all the same.
    let _ = match (outcome, then) {
        (Ok(()), Then::Again) if lookup::needs_disk(request.code()) => {
            match broker.cold.serve(broker, &peer, request) {
                Ok(()) => Ok(()),
                Err(mut request) => {
                    let mut out = Vec::new();
                    let refusal = cold::too_many(request.code());
                    answer(broker, &mut request, Err(refusal), Then::Again, &mut out);
                    peer.push(|bytes| bytes.extend_from_slice(&out))
                }
            }
        }
        (Ok(()), Then::Again) => {
            let broker = broker.clone();
            // On the connection's thread: what the request reads or writes must not hold up the next change.
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
        (Err(refusal), _) => Front { broker: broker.clone(), fast }.refuse(command, &refusal, out),
        (Ok(()), Then::Answer(answer)) => answer.write(command, out),
        (Ok(()), Then::Again) => {}
    });
}

/// Serves a request that was kept, from the start.
pub(crate) fn serve_again(broker: &Arc<Broker>, peer: &Arc<Peer>, mut request: Detached, out: &mut Vec<u8>) {
    let rounds = request.rounds + 1;
    request.with(|command, fast| {
        let front = Front { broker: broker.clone(), fast };
        let Err(mut refusal) = front.serve_alone(peer, command, out) else { return };
        if rounds < ROUNDS_MAX {
            match queue(broker, peer, refusal, || Detached::new(command, fast, rounds)) {
                Ok(()) => return,
                Err(error) => refusal = error,
            }
        }
        front.refuse(command, &refusal, out);
    });
}

impl Broker {
    /// Applies changes, each whole or not at all, with at most one write of each file.
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
        // A topic made again under the name has other queues: nobody must wait at the old ones.
        for topic in old {
            topic.opened().iter().for_each(|(_, queue)| self.wake(queue));
            pop::gone(&self.handle(), &topic);
        }
        let groups = self.groups.commit(groups, now_ms);
        let made = cleaned.iter().zip(&groups).filter(|(_, outcome)| outcome.is_ok());
        self.forget_offsets(made.flat_map(|(names, _)| names));
        topics.into_iter().zip(groups).map(|(topics, groups)| topics.and(groups)).collect()
    }

    /// Forgets what deleted groups consumed, on the disk as well.
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

    /// Removes what is left of deleted topics: after they are gone from the disk, as otherwise a crash in between would leave
    /// a topic without its messages.
    fn clear_away(&self, gone: &[&String]) {
        if gone.is_empty() {
            return;
        }
        for name in gone {
            self.pops.forget_topic(name);
            self.offsets.forget_topic(name);
        }
        // Durable before the queues go: to a topic made again under such a name they would be ahead of its messages.
        self.save();
        for name in gone {
            // A light queue has no topic: only what its groups have done is forgotten.
            if !is_light(name)
                && let Err(error) = self.remove_queues(name)
            {
                tracing::error!(topic = name, %error, "the queues of a deleted topic are removed later");
            }
            tracing::info!(topic = name, "topic deleted");
        }
    }

    /// Removes the queues of a topic that is gone, and answers how many there were. A topic of that name that was made
    /// meanwhile may have found them; it opens new ones.
    pub(crate) fn remove_queues(&self, topic: &str) -> Result<usize, AppendError> {
        let removed = self.store.remove_topic(topic);
        self.topics.reopen(topic);
        removed
    }

    /// Writes what waits, for tests without the thread.
    #[cfg(test)]
    pub(crate) fn settle(self: &Arc<Self>) {
        loop {
            let waiting = std::mem::take(&mut self.changes.queue().waiting);
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
