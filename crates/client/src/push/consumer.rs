//! Start, rebalancing, offsets and end of a push consumer.

use super::allocation::average;
use super::listener::{Crew, Verdict, send_back_all};
use super::queue::{Assigned, Shared, pull};
use super::window::Window;
use super::{COMMIT_INTERVAL, From, PushConfig, REBALANCE_INTERVAL, broadcast, retry_topic};
use crate::{Client, Error, MessageQueue, Received, clock, subscription};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::Notify;
use wire::body::{ConsumeFromWhere, ConsumeType, ConsumerData, MessageModel};

/// A consumer that gives messages to a listener, on threads of its own.
pub struct PushConsumer {
    state: Arc<State>,
}

struct State {
    shared: Arc<Shared>,
    assigned: Mutex<BTreeMap<MessageQueue, Arc<Assigned>>>,
    /// Offsets read at the start of a broadcasting consumer.
    local: BTreeMap<MessageQueue, i64>,
    /// Wakes rebalancing.
    members_changed: Arc<Notify>,
    /// Ends the background task.
    ended: Notify,
    /// Allows one rebalancing at a time.
    rebalancing: tokio::sync::Mutex<()>,
}

impl PushConsumer {
    /// Joins the group, takes its share of the queues and begins to call `listener`, on several threads at once.
    ///
    /// # Errors
    /// The client already has a consumer of this group, no name server answers, a subscribed topic does not exist,
    /// or threads cannot be started.
    pub async fn start(
        client: &Client,
        config: PushConfig,
        listener: impl Fn(&[Received]) -> Verdict + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let version = clock::now_ms();
        let data = registration(&config, version);
        for topic in config.subscriptions.keys() {
            client.refresh_route(topic).await?;
        }
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
        let (returns, returned) = tokio::sync::mpsc::unbounded_channel();
        let crew = Crew::start(config.threads, Arc::new(listener), config.model, returns)?;
        let shared = Arc::new(Shared { client: client.clone(), config, crew, version });
        let members_changed = Arc::new(Notify::new());
        let state = Arc::new(State {
            shared: shared.clone(),
            assigned: Mutex::default(),
            local,
            members_changed: members_changed.clone(),
            ended: Notify::new(),
            rebalancing: tokio::sync::Mutex::new(()),
        });
        let workers = &client.inner.remote.workers;
        let (group, retries, returner) = (shared.config.group.clone(), shared.config.retries, client.clone());
        workers.spawn(0, move || send_back_all(returner, group, retries, returned))?;
        client.inner.remote.inbox.watch(&shared.config.group, members_changed);
        client.heartbeat().await;
        // The first heartbeat creates the retry topic; without its route a message sent back would not be seen.
        state.rebalance().await;
        let background = state.clone();
        workers.spawn(0, move || background.run())?;
        Ok(Self { state })
    }

    /// Queues this consumer reads now.
    #[must_use]
    pub fn queues(&self) -> Vec<MessageQueue> {
        self.state.assigned().keys().cloned().collect()
    }

    /// Lets the listener finish what it has begun, stores the offsets and leaves the group.
    pub async fn shutdown(&self) {
        let state = self.state.clone();
        state.ended.notify_one();
        let config = &state.shared.config;
        state.shared.client.inner.remote.inbox.forget(&config.group);
        let _still = state.rebalancing.lock().await;
        let assigned = std::mem::take(&mut *state.assigned());
        let shared = state.shared.clone();
        // What the listener has not begun stays with the broker; what it has begun is finished and counted.
        assigned.values().for_each(|queue| queue.drop_queue());
        let crew = move || shared.crew.finish();
        if tokio::task::spawn_blocking(crew).await.is_err() {
            tracing::error!("the listener's threads did not end");
        }
        state.commit(&assigned, true).await;
        state.shared.client.inner.groups.remove_consumer(&config.group);
        state.shared.client.unregister("consumerGroup", &config.group).await;
    }
}

/// What heartbeats say about the group.
fn registration(config: &PushConfig, version: i64) -> ConsumerData {
    let mut subscriptions: Vec<_> = config
        .subscriptions
        .iter()
        .map(|(topic, expression)| subscription::data(topic, expression, version))
        .collect();
    if config.model == MessageModel::Clustering {
        subscriptions.push(subscription::data(&retry_topic(&config.group), "*", version));
    }
    ConsumerData {
        group_name: config.group.clone(),
        consume_type: ConsumeType::ConsumePassively,
        message_model: config.model,
        consume_from_where: match config.from {
            From::Last => ConsumeFromWhere::ConsumeFromLastOffset,
            From::First => ConsumeFromWhere::ConsumeFromFirstOffset,
            From::Time(_) => ConsumeFromWhere::ConsumeFromTimestamp,
        },
        subscription_data_set: subscriptions,
        unit_mode: false,
    }
}

impl State {
    /// Rebalances and stores offsets until the consumer ends.
    async fn run(self: Arc<Self>) {
        let mut rebalance = tokio::time::interval(REBALANCE_INTERVAL);
        let mut commit = tokio::time::interval(COMMIT_INTERVAL);
        rebalance.reset();
        loop {
            tokio::select! {
                () = self.ended.notified() => return,
                _ = rebalance.tick() => self.rebalance().await,
                () = self.members_changed.notified() => {
                    self.rebalance().await;
                    rebalance.reset();
                }
                _ = commit.tick() => {
                    let assigned = self.assigned().clone();
                    self.commit(&assigned, false).await;
                }
            }
        }
    }

    /// Takes the queues that are ours now and gives up those that are not.
    async fn rebalance(self: &Arc<Self>) {
        let _alone = self.rebalancing.lock().await;
        let config = &self.shared.config;
        let mut topics: Vec<_> = config.subscriptions.keys().cloned().collect();
        if config.model == MessageModel::Clustering {
            topics.push(retry_topic(&config.group));
        }
        for topic in topics {
            match self.share(&topic).await {
                Ok(share) => self.adopt(&topic, &share).await,
                // The retry topic exists once a broker has seen our heartbeat.
                Err(error) if topic.starts_with("%RETRY%") => tracing::debug!(%error, topic, "no share"),
                Err(error) => tracing::warn!(%error, topic, "queues stay as they are"),
            }
        }
    }

    /// The queues of a topic that are ours.
    async fn share(&self, topic: &str) -> Result<Vec<MessageQueue>, Error> {
        let Shared { client, config, .. } = &*self.shared;
        let route = client.route(topic).await?;
        if config.model == MessageModel::Broadcasting {
            return Ok(route.subscribe.clone());
        }
        let broker = route.brokers.keys().find_map(|broker| route.reader(broker, 0));
        let broker = broker.ok_or_else(|| Error::NoQueue(topic.to_owned()))?;
        let mut members = client.consumer_ids(broker, &config.group).await?;
        if members.is_empty() {
            return Err(Error::Illegal(format!("the broker knows no member of group {}", config.group)));
        }
        members.sort();
        Ok(average(&route.subscribe, &members, client.id()).to_vec())
    }

    async fn adopt(self: &Arc<Self>, topic: &str, share: &[MessageQueue]) {
        let lost: BTreeMap<_, _> = {
            let mut assigned = self.assigned();
            assigned.extract_if(.., |queue, _| queue.topic == topic && !share.contains(queue)).collect()
        };
        lost.values().for_each(|queue| queue.drop_queue());
        self.commit(&lost, false).await;
        for queue in share {
            if self.assigned().contains_key(queue) {
                continue;
            }
            let window = match self.begin(queue).await {
                Ok(window) => window,
                Err(error) => {
                    tracing::warn!(%error, queue = super::name_of(queue), "the queue cannot be read yet");
                    continue;
                }
            };
            let taken = Arc::new(Assigned::new(queue.clone(), window));
            let (shared, looped) = (self.shared.clone(), taken.clone());
            let workers = &self.shared.client.inner.remote.workers;
            if workers.spawn(0, move || pull(shared, looped)).is_ok() {
                self.assigned().insert(queue.clone(), taken);
            }
        }
    }

    /// Where to begin in a queue (`RebalancePushImpl.computePullFromWhere`).
    async fn begin(&self, queue: &MessageQueue) -> Result<Window, Error> {
        let Shared { client, config, .. } = &*self.shared;
        let stored = match config.model {
            MessageModel::Broadcasting => self.local.get(queue).copied(),
            _ => client.committed_offset(&config.group, queue).await?,
        };
        if let Some(offset) = stored {
            return Ok(Window::new(offset, true));
        }
        let offset = match config.from {
            From::Last if queue.topic.starts_with("%RETRY%") => 0,
            From::Last => client.max_offset(queue).await?,
            From::First => 0,
            From::Time(timestamp) => client.search_offset(queue, timestamp).await?,
        };
        Ok(Window::new(offset, false))
    }

    /// Stores the offsets that moved; with `sure` all of them, and waits for the brokers.
    async fn commit(&self, assigned: &BTreeMap<MessageQueue, Arc<Assigned>>, sure: bool) {
        let Shared { client, config, .. } = &*self.shared;
        if config.model == MessageModel::Broadcasting {
            return self.commit_locally(assigned);
        }
        for (queue, state) in assigned {
            let stored = if sure {
                client.commit_offset(&config.group, queue, state.committable()).await
            } else if let Some(offset) = state.take_commit() {
                client.tell_offset(&config.group, queue, offset).await
            } else {
                continue;
            };
            if let Err(error) = stored {
                tracing::warn!(%error, queue = super::name_of(queue), "the offset could not be stored");
            }
        }
    }

    fn commit_locally(&self, assigned: &BTreeMap<MessageQueue, Arc<Assigned>>) {
        let Some(path) = &self.shared.config.broadcast_offsets else { return };
        if assigned.is_empty() {
            return;
        }
        let mut offsets = self.local.clone();
        offsets.extend(assigned.iter().map(|(queue, state)| (queue.clone(), state.committable())));
        if let Err(error) = broadcast::store(path, offsets) {
            tracing::warn!(%error, path = %path.display(), "the offsets could not be stored");
        }
    }

    fn assigned(&self) -> MutexGuard<'_, BTreeMap<MessageQueue, Arc<Assigned>>> {
        self.assigned.lock().expect("short section")
    }
}
