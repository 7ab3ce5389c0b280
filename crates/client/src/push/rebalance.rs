//! Rebalancing: taking and giving up queues, and committing their offsets (`RebalanceImpl`, `RebalancePushImpl`).

use super::consumer::ConsumerState;
use super::process_queue::ProcessQueue;
use super::queue::{AssignedQueue, Context, pull};
use super::{ConsumeFrom, broadcast, name_of, retry_topic};
use crate::{Error, MessageQueue};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use std::time::Instant;
use tokio::task::JoinSet;
use wire::body::MessageModel;
use wire::names::RETRY_PREFIX;

/// When to rebalance again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextRebalance {
    /// At the next regular interval.
    Sometime,
    /// Shortly, because other members still hold the locks of some queues.
    Soon,
}

type Queues = BTreeMap<MessageQueue, Arc<AssignedQueue>>;

impl ConsumerState {
    /// Takes the queues that are allocated to this member now, and gives up all others.
    pub async fn rebalance(self: &Arc<Self>) -> NextRebalance {
        let _alone = self.rebalancing.lock().await;
        if self.is_over.load(Ordering::Acquire) {
            return NextRebalance::Sometime;
        }
        let config = &self.shared.config;
        let mut topics: Vec<_> = config.subscriptions.keys().cloned().collect();
        if config.model == MessageModel::Clustering {
            topics.push(retry_topic(&config.group));
        }
        let mut again = NextRebalance::Sometime;
        for topic in topics {
            match self.share(&topic).await {
                Ok(share) => {
                    if self.adopt(&topic, &share).await == NextRebalance::Soon {
                        again = NextRebalance::Soon;
                    }
                }
                // The retry topic exists only after a broker has received the group's heartbeat.
                Err(error) if topic.starts_with(RETRY_PREFIX) => tracing::debug!(%error, topic, "no share"),
                Err(error) => tracing::warn!(%error, topic, "queues stay as they are"),
            }
        }
        again
    }

    /// The queues of a topic that are allocated to this member.
    async fn share(&self, topic: &str) -> Result<Vec<MessageQueue>, Error> {
        let Context { client, config, .. } = &*self.shared;
        let route = client.route(topic).await?;
        if config.model == MessageModel::Broadcasting {
            return Ok(route.subscribe.clone());
        }
        let mut failed = Error::NoQueue(topic.to_owned());
        for broker in route.brokers.keys().filter_map(|broker| route.reader(broker, 0)) {
            match client.consumer_ids(broker, &config.group).await {
                Ok(members) if members.is_empty() => {
                    failed = Error::Illegal(format!("the broker knows no member of group {}", config.group));
                }
                Ok(mut members) => {
                    members.sort();
                    return Ok(config.allocation.share(&route.subscribe, &members, client.id()));
                }
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    async fn adopt(self: &Arc<Self>, topic: &str, share: &[MessageQueue]) -> NextRebalance {
        let lost: Queues = {
            let mut assigned = self.assigned();
            assigned.extract_if(.., |queue, _| queue.topic == topic && !share.contains(queue)).collect()
        };
        self.give_up(lost).await;
        let missing: Vec<_> = {
            let (assigned, leaving) = (self.assigned(), self.leaving.lock().expect("short section"));
            let is_missing =
                |queue: &&MessageQueue| !assigned.contains_key(*queue) && !leaving.contains(*queue);
            share.iter().filter(is_missing).cloned().collect()
        };
        let now = Instant::now();
        if !self.shared.needs_locks() {
            for queue in missing {
                self.take(queue, now).await;
            }
            return NextRebalance::Sometime;
        }
        let mut again = NextRebalance::Sometime;
        for (queue, is_held) in self.shared.client.lock(&self.shared.config.group, &missing).await {
            if is_held {
                self.take(queue, now).await;
            } else {
                again = NextRebalance::Soon;
            }
        }
        again
    }

    /// Starts to read a queue. If the queue needs a lock, it was granted at `locked`.
    async fn take(&self, queue: MessageQueue, locked: Instant) {
        let process_queue = match self.begin(&queue).await {
            Ok(process_queue) => process_queue,
            Err(error) => {
                return tracing::warn!(%error, queue = name_of(&queue), "the queue cannot be read yet");
            }
        };
        let taken = Arc::new(AssignedQueue::new(queue.clone(), process_queue));
        taken.renew(locked);
        let (shared, looped) = (self.shared.clone(), taken.clone());
        if self.shared.client.inner.remote.workers.spawn(0, move || pull(shared, looped)).is_ok() {
            self.assigned().insert(queue, taken);
        }
    }

    /// Gives up queues that move to other members.
    async fn give_up(self: &Arc<Self>, lost: Queues) {
        lost.values().for_each(|queue| queue.drop_queue());
        if !self.shared.needs_locks() {
            return self.commit(&lost, false).await;
        }
        for (queue, assigned) in lost {
            self.leaving.lock().expect("short section").insert(queue.clone());
            let state = self.clone();
            let leave = move || async move {
                state.leave(&assigned).await;
                state.leaving.lock().expect("short section").remove(&assigned.queue);
                state.left.notify_one();
                // The queue may have been allocated to this member again.
                state.members_changed.notify_one();
            };
            if self.shared.client.inner.remote.workers.spawn(0, leave).is_err() {
                // The client has ended; the lock expires by itself.
                self.leaving.lock().expect("short section").remove(&queue);
            }
        }
    }

    /// Waits until the listener has returned from a queue, commits its offset and releases its lock if this member
    /// holds it.
    async fn leave(&self, assigned: &Arc<AssignedQueue>) {
        let Context { client, config, .. } = &*self.shared;
        let _listener_is_out = assigned.consuming.lock().await;
        if !assigned.is_owned(Instant::now()) {
            // Another member may hold the lock and have committed a larger offset.
            return;
        }
        let stored = client.commit_offset(&config.group, &assigned.queue, assigned.committable()).await;
        if let Err(error) = stored {
            tracing::warn!(%error, queue = assigned.name(), "the offset could not be stored; messages come again");
        }
        client.unlock(&config.group, std::slice::from_ref(&assigned.queue)).await;
    }

    /// Renews the locks. A queue whose lock is lost is given up, and taken again when it can be locked.
    pub async fn renew(self: &Arc<Self>) {
        let assigned = self.assigned().clone();
        let queues: Vec<_> = assigned.keys().cloned().collect();
        let now = Instant::now();
        let held = self.shared.client.lock(&self.shared.config.group, &queues).await;
        for (queue, state) in assigned {
            match held.get(&queue) {
                Some(true) => state.renew(now),
                // The broker of the queue does not answer; until it does, no other member gets the lock.
                None if state.is_owned(Instant::now()) => {}
                _ => {
                    tracing::warn!(queue = state.name(), "the lock of a queue is lost");
                    state.disown();
                    self.assigned().remove(&queue);
                    // The queue is taken again when the listener has returned.
                    self.give_up([(queue, state)].into()).await;
                }
            }
        }
    }

    /// The offset at which to begin in a queue (`RebalancePushImpl.computePullFromWhere`).
    async fn begin(&self, queue: &MessageQueue) -> Result<ProcessQueue, Error> {
        let Context { client, config, .. } = &*self.shared;
        let stored = match config.model {
            MessageModel::Broadcasting => self.local().get(queue).copied(),
            _ => client.committed_offset(&config.group, queue).await?,
        };
        if let Some(offset) = stored {
            return Ok(ProcessQueue::new(offset));
        }
        let offset = match config.from {
            ConsumeFrom::Last if queue.topic.starts_with(RETRY_PREFIX) => 0,
            ConsumeFrom::Last => client.max_offset(queue).await?,
            ConsumeFrom::First => 0,
            ConsumeFrom::Time(timestamp) => client.search_offset(queue, timestamp).await?,
        };
        Ok(ProcessQueue::new(offset))
    }

    /// Commits the offsets of queues; with `sure` it waits for the brokers' answers.
    pub async fn commit(&self, assigned: &Queues, sure: bool) {
        let mut calls = self.begin_commit(assigned, sure);
        while calls.join_next().await.is_some() {}
    }

    /// Starts to commit the offsets of all queues, including unchanged offsets, because a one-way request may be lost
    /// (`RemoteBrokerOffsetStore.persistAll`). Each broker has its own task, so an unreachable broker does not delay
    /// the others.
    pub fn begin_commit(&self, assigned: &Queues, sure: bool) -> JoinSet<()> {
        let mut calls = JoinSet::new();
        if self.shared.config.model == MessageModel::Broadcasting {
            self.commit_locally(assigned);
            return calls;
        }
        let mut brokers: BTreeMap<&str, Vec<_>> = BTreeMap::new();
        for (queue, state) in assigned {
            brokers.entry(&queue.broker_name).or_default().push((state.clone(), state.is_dropped()));
        }
        for queues in brokers.into_values() {
            calls.spawn(commit_at(self.shared.clone(), queues, sure));
        }
        calls
    }

    fn commit_locally(&self, assigned: &Queues) {
        let offsets = {
            let mut local = self.local();
            local.extend(assigned.iter().map(|(queue, state)| (queue.clone(), state.committable())));
            local.clone()
        };
        let Some(path) = &self.shared.config.broadcast_offsets else { return };
        if !offsets.is_empty()
            && let Err(error) = broadcast::store(path, offsets)
        {
            tracing::warn!(%error, path = %path.display(), "the offsets could not be stored");
        }
    }

    /// The offsets of a broadcasting consumer.
    pub fn local(&self) -> MutexGuard<'_, BTreeMap<MessageQueue, i64>> {
        self.local.lock().expect("short section")
    }
}

/// Commits the offsets of the queues of a broker. Each flag tells whether the queue was already given up when the
/// commit began; a queue that was given up since then is left out.
async fn commit_at(shared: Arc<Context>, queues: Vec<(Arc<AssignedQueue>, bool)>, sure: bool) {
    let Context { client, config, .. } = &*shared;
    for (state, was_dropped) in queues {
        let is_lost = shared.needs_locks() && !state.is_owned(Instant::now());
        if is_lost || state.is_dropped() != was_dropped {
            // Another member may have the queue and have committed a larger offset. The code that gave the queue up
            // has committed its offset.
            continue;
        }
        let stored = if sure {
            client.commit_offset(&config.group, &state.queue, state.committable()).await
        } else {
            client.commit_offset_one_way(&config.group, &state.queue, state.committable()).await
        };
        if let Err(error) = stored {
            tracing::warn!(%error, queue = state.name(), "the offset could not be stored");
            if matches!(error, Error::Connect { .. } | Error::Call(_)) {
                // The broker does not answer, so its other queues are not tried.
                return;
            }
        }
    }
}
