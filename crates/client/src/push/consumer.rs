//! Start, background work and shutdown of a push consumer.

use super::consume_pool::ConsumePool;
use super::figures::Tally;
use super::listener::{ConsumeStatus, Listener, send_back_all};
use super::queue::{AssignedQueue, Context};
use super::rebalance::NextRebalance;
use super::{COMMIT_INTERVAL, ConsumeFrom, PushConfig, REBALANCE_INTERVAL, broadcast, orderly, retry_topic};
use crate::server_requests::{ConsumerRequest, RequestChannel, WAITING_MAX};
use crate::trace::Tracer;
use crate::{Client, Error, Expression, MessageQueue, Received, clock, subscription};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use wire::body::{CheckClientBody, ConsumeFromWhere, ConsumeType, ConsumerData, MessageModel};
use wire::codes::request;
use wire::json;

/// A consumer that passes messages to a listener on its own threads.
pub struct PushConsumer {
    state: Arc<ConsumerState>,
}

pub(super) struct ConsumerState {
    pub shared: Arc<Context>,
    pub assigned: Mutex<BTreeMap<MessageQueue, Arc<AssignedQueue>>>,
    /// Queues of orderly consumption that go to other members, while the listener has not returned yet. They cannot be
    /// taken again.
    pub leaving: Mutex<BTreeSet<MessageQueue>>,
    /// Notified when any of the `leaving` queues is released. Only the shutdown waits for it.
    pub left: Notify,
    /// Offsets of a broadcasting consumer, including queues that it no longer reads.
    pub local: Mutex<BTreeMap<MessageQueue, i64>>,
    /// Wakes the rebalancing task.
    pub members_changed: Arc<Notify>,
    /// Ends the background task.
    ended: Notify,
    /// Serialises rebalancing.
    pub rebalancing: tokio::sync::Mutex<()>,
    /// Whether the shutdown has begun, after which no queues are taken.
    pub is_over: AtomicBool,
    /// Locked by the background task while it runs.
    background: tokio::sync::Mutex<()>,
}

impl PushConsumer {
    /// Joins the group, takes its share of the queues and calls `listener` on several threads concurrently.
    ///
    /// # Errors
    /// [`Error::Illegal`] when the client already has a consumer of this group. [`Error::Connect`] or [`Error::Call`]
    /// when no name server answers. [`Error::Refused`] when a subscribed topic does not exist or a broker refuses an
    /// SQL condition. [`Error::System`] when threads cannot be started.
    pub async fn start(
        client: &Client,
        config: PushConfig,
        listener: impl Fn(&[Received]) -> ConsumeStatus + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        Self::begin(client, config, Arc::new(listener), false).await
    }

    /// Starts a consumer like [`PushConsumer::start`], but with orderly consumption. The messages of a queue are
    /// passed to the listener one call after the other, and to one member of the group at a time. After
    /// [`ConsumeStatus::Later`] the same messages are passed again after a second, before later messages. After
    /// [`PushConfig::retries`] retries, if set, they go to the dead letter topic.
    ///
    /// A member that ends without [`PushConsumer::shutdown`] blocks its queues until its locks expire, a minute after
    /// their last renewal.
    ///
    /// # Errors
    /// Errors of [`PushConsumer::start`].
    pub async fn start_orderly(
        client: &Client,
        config: PushConfig,
        listener: impl Fn(&[Received]) -> ConsumeStatus + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        Self::begin(client, config, Arc::new(listener), true).await
    }

    async fn begin(
        client: &Client,
        config: PushConfig,
        listener: Arc<Listener>,
        is_orderly: bool,
    ) -> Result<Self, Error> {
        let version = clock::now_ms();
        let data = registration(&config, version);
        for topic in config.subscriptions.keys() {
            client.refresh_route(topic).await?;
        }
        check(client, &config.group, &data).await?;
        let local = match (&config.broadcast_offsets, config.model) {
            (Some(path), MessageModel::Broadcasting) => broadcast::load(path)?,
            _ => BTreeMap::new(),
        };
        if !client.inner.groups.add_consumer(data) {
            return Err(Error::Illegal(format!(
                "the client already has a consumer of group {}",
                config.group
            )));
        }
        let (returns, returned) = mpsc::unbounded_channel();
        let consume_pool = ConsumePool::start(config.threads)?;
        let tracer = config.trace.as_ref().and_then(|topic| Tracer::start(client, &config.group, topic));
        let tally = Tally::default();
        let (client, listener) = (client.clone(), Mutex::new(Some(listener)));
        let shared =
            Context { client, config, consume_pool, listener, is_orderly, returns, tracer, version, tally };
        let shared = Arc::new(shared);
        let state = Arc::new(ConsumerState::new(shared.clone(), local));
        let Context { client, config, .. } = &*shared;
        let (asked, questions) = mpsc::channel(WAITING_MAX);
        let door = RequestChannel { members_changed: state.members_changed.clone(), asked };
        client.inner.remote.server_requests.open(&config.group, door);
        let workers = &client.inner.remote.workers;
        let back = (client.clone(), config.group.clone(), shared.back());
        workers.spawn(0, move || send_back_all(back.0, back.1, back.2, returned))?;
        client.heartbeat().await;
        // The first heartbeat creates the retry topic. Without its route, messages that were sent back would not be
        // read.
        let again = state.rebalance().await;
        let background = state.clone();
        workers.spawn(0, move || background.run(questions, again))?;
        Ok(Self { state })
    }

    /// The queues that this consumer reads now.
    pub fn queues(&self) -> Vec<MessageQueue> {
        self.state.assigned().keys().cloned().collect()
    }

    /// Waits for the running calls of the listener, commits the offsets and leaves the group.
    pub async fn shutdown(&self) {
        let state = self.state.clone();
        state.is_over.store(true, Ordering::Release);
        state.ended.notify_one();
        let Context { client, config, tracer, .. } = &*state.shared;
        client.inner.remote.server_requests.close(&config.group);
        // The background task must have ended: if it renewed locks after they are released, it would take them again.
        let _idle = state.background.lock().await;
        let _still = state.rebalancing.lock().await;
        let assigned = std::mem::take(&mut *state.assigned());
        let shared = state.shared.clone();
        // Messages that the listener has not begun stay at the broker; calls that it has begun are finished and
        // counted.
        assigned.values().for_each(|queue| queue.drop_queue());
        let consume_pool = move || shared.consume_pool.finish();
        if tokio::task::spawn_blocking(consume_pool).await.is_err() {
            tracing::error!("the listener's threads did not end");
        }
        state.shared.listener.lock().expect("short section").take();
        state.commit(&assigned, true).await;
        if state.shared.needs_locks() {
            // Locks are released only now, so that the next owner begins at the offsets just committed.
            let queues: Vec<_> = assigned.keys().cloned().collect();
            client.unlock(&config.group, &queues).await;
            while !state.leaving.lock().expect("short section").is_empty() {
                state.left.notified().await;
            }
        }
        if let Some(tracer) = tracer {
            tracer.finish().await;
        }
        client.inner.groups.remove_consumer(&config.group);
        client.unregister("consumerGroup", &config.group).await;
    }
}

/// The group as heartbeats describe it.
pub(super) fn registration(config: &PushConfig, version: i64) -> ConsumerData {
    let mut subscriptions: Vec<_> = config
        .subscriptions
        .iter()
        .map(|(topic, expression)| subscription::data(topic, expression, version))
        .collect();
    if config.model == MessageModel::Clustering {
        subscriptions.push(subscription::data(&retry_topic(&config.group), &Expression::default(), version));
    }
    ConsumerData {
        group_name: config.group.clone(),
        consume_type: ConsumeType::ConsumePassively,
        message_model: config.model,
        consume_from_where: match config.from {
            ConsumeFrom::Last => ConsumeFromWhere::ConsumeFromLastOffset,
            ConsumeFrom::First => ConsumeFromWhere::ConsumeFromFirstOffset,
            ConsumeFrom::Time(_) => ConsumeFromWhere::ConsumeFromTimestamp,
        },
        subscription_data_set: subscriptions,
        unit_mode: false,
    }
}

/// Asks brokers to validate SQL conditions (`MQClientInstance.checkClientInBroker`).
async fn check(client: &Client, group: &str, data: &ConsumerData) -> Result<(), Error> {
    for subscription in data.subscription_data_set.iter().filter(|data| data.expression_type == "SQL92") {
        let route = client.route(&subscription.topic).await?;
        let body = json::to_vec(&CheckClientBody {
            client_id: client.id().to_owned(),
            group: group.to_owned(),
            subscription_data: subscription.clone(),
            ..CheckClientBody::default()
        });
        let (code, timeout) = (request::CHECK_CLIENT_CONFIG, std::time::Duration::from_secs(3));
        let mut checked = Ok(());
        for address in route.brokers.keys().filter_map(|broker| route.reader(broker, 0)) {
            let write = |frame: wire::frame::FrameWriter<'_>| frame.finish(&body);
            checked = client.inner.remote.call(address, code, timeout, write).await.map(drop);
            if !matches!(checked, Err(Error::Connect { .. } | Error::Call(_))) {
                // This broker has answered, which is enough.
                break;
            }
        }
        checked?;
    }
    Ok(())
}

impl ConsumerState {
    fn new(shared: Arc<Context>, local: BTreeMap<MessageQueue, i64>) -> Self {
        Self {
            shared,
            assigned: Mutex::default(),
            leaving: Mutex::default(),
            left: Notify::new(),
            local: Mutex::new(local),
            members_changed: Arc::new(Notify::new()),
            ended: Notify::new(),
            rebalancing: tokio::sync::Mutex::new(()),
            is_over: AtomicBool::new(false),
            background: tokio::sync::Mutex::new(()),
        }
    }

    /// Rebalances, commits offsets, renews locks and answers brokers until the consumer ends.
    async fn run(self: Arc<Self>, mut questions: mpsc::Receiver<ConsumerRequest>, first: NextRebalance) {
        let _alive = self.background.lock().await;
        let mut rebalance_at = after(first);
        let mut commit = interval(COMMIT_INTERVAL);
        commit.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Commits wait for brokers that cannot be reached, so they run as separate tasks.
        let mut commits = JoinSet::new();
        let mut renewal = interval(orderly::RENEWAL);
        renewal.reset();
        loop {
            tokio::select! {
                () = self.ended.notified() => return,
                () = sleep_until(rebalance_at) => rebalance_at = after(self.rebalance().await),
                () = self.members_changed.notified() => rebalance_at = after(self.rebalance().await),
                _ = commit.tick(), if commits.is_empty() => {
                    let assigned = self.assigned().clone();
                    commits = self.begin_commit(&assigned, false);
                }
                Some(_) = commits.join_next() => {}
                _ = renewal.tick(), if self.shared.needs_locks() => self.renew().await,
                Some(asked) = questions.recv() => self.answer(asked).await,
            }
        }
    }

    pub(super) fn assigned(&self) -> MutexGuard<'_, BTreeMap<MessageQueue, Arc<AssignedQueue>>> {
        self.assigned.lock().expect("short section")
    }
}

fn after(again: NextRebalance) -> Instant {
    let pause = match again {
        NextRebalance::Sometime => REBALANCE_INTERVAL,
        NextRebalance::Soon => super::REBALANCE_SOON,
    };
    Instant::now() + pause
}

#[cfg(test)]
mod tests;
