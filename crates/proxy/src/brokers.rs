//! Brokers that perform calls: the broker of this process and the other brokers in its name servers, or the brokers
//! of a cluster.

mod local;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use auth::audit::Origin;
use auth::{Denial, Request};
use broker::api::{
    Api, ClientLink, Decision, EndTransaction, InvisibleTimeChange, LitePopRequest, Metadata, PopRequest,
    PopStatus, Popped, RecallRequest, SendRequest, Sends, Subject, lite_queue,
};
use wire::body::{HeartbeatData, LiteSubscription, LiteSubscriptions, SubscriptionGroupConfig};
use wire::units::LogOffset;

use crate::cluster::{Cluster, ConsumerHeartbeat, TrustedBrokers, Users};
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::needs::Needs;
use crate::receipt::{ChangeInvisibleTime, Changed, PopRef, Receipt};
use crate::registry::{Client, ClientSettings};
use crate::subscribed::Subscribed;
use crate::topic::{Stored, Topic};
use crate::transaction_id::TransactionId;
pub use local::Local;

/// Brokers that perform the calls of 5.x clients: the broker of this process by typed requests, other brokers over
/// remoting.
///
/// The frequent requests to a cluster are boxed. Otherwise every call to the broker of the process would take as much
/// memory as a call over the network.
#[derive(Clone)]
pub enum Brokers {
    /// Broker of this process, and the other brokers that its name servers know (local mode).
    Local(Local),
    /// The brokers that the name servers know (cluster mode).
    Cluster(Arc<Cluster>),
}

/// Access to one broker: typed requests within the process, or remoting.
enum Performer<'a> {
    Own(&'a Api),
    Cluster(&'a Arc<Cluster>),
}

impl Brokers {
    /// Makes the brokers of local mode: the broker of this process, and the other brokers in the name servers of
    /// `reach`.
    ///
    /// # Errors
    /// [`client::Error::System`] when no threads can be started.
    pub fn of_process(api: Api, reach: client::Config, config: &Config) -> Result<Self, client::Error> {
        let cluster = match reach.name_servers.is_empty() {
            true => None,
            false => Some(Cluster::new(client::Client::start(reach)?, None, config)),
        };
        Ok(Self::Local(Local { api, cluster, merged: Arc::default() }))
    }

    /// Makes the brokers of a cluster, which is reached by `reach`.
    ///
    /// # Errors
    /// No name server is configured, settings of authentication are invalid, or no threads can be started.
    pub fn of_cluster(reach: client::Config, config: &Config) -> Result<Self, Box<dyn std::error::Error>> {
        let believed = TrustedBrokers::new(&config.believed_brokers, reach.security.checks_servers());
        let users = config.authenticates.then(|| Users::new(&config.auth(), believed)).transpose()?;
        Ok(Self::Cluster(Cluster::new(client::Client::start(reach)?, users, config)))
    }

    /// The broker of this process; `None` in cluster mode.
    fn api(&self) -> Option<&Api> {
        match self {
            Self::Local(Local { api, .. }) => Some(api),
            Self::Cluster(_) => None,
        }
    }

    /// The wall clock, milliseconds since the epoch.
    pub(crate) fn now_ms(&self) -> i64 {
        self.api().map_or_else(client::now_ms, Api::now_ms)
    }

    /// The name of the broker of this process; `None` in cluster mode.
    pub(crate) fn own(&self) -> Option<&str> {
        self.api().map(Api::name)
    }

    /// The host with which the broker of this process registers at name servers; `None` in cluster mode.
    pub(crate) fn own_host(&self) -> Option<&str> {
        self.api().map(Api::host)
    }

    /// The name of the only broker that requests can go to; `None` if the broker has name servers.
    pub(crate) fn only(&self) -> Option<&str> {
        self.own().filter(|_| self.cluster().is_none())
    }

    /// The brokers that the name servers know; `None` for a broker without a name server.
    pub(crate) fn cluster(&self) -> Option<&Arc<Cluster>> {
        match self {
            Self::Local(Local { cluster, .. }) => cluster.as_ref(),
            Self::Cluster(cluster) => Some(cluster),
        }
    }

    /// The name of the broker of this process while it is the master of its group.
    pub(crate) fn own_master(&self) -> Option<&str> {
        self.api().filter(|api| !api.is_slave()).map(Api::name)
    }

    /// Returns the access to the master of the group with this name, for requests that only a master takes.
    /// While the broker of this process is a slave, its master is another broker.
    fn writer(&self, broker: &str) -> Performer<'_> {
        match self {
            Self::Local(Local { api, cluster: Some(cluster), .. }) if api.is_slave() => {
                Performer::Cluster(cluster)
            }
            _ => self.performer(broker),
        }
    }

    /// Returns the access to the broker with this name.
    fn performer(&self, broker: &str) -> Performer<'_> {
        match self {
            Self::Local(Local { api, cluster: Some(cluster), .. }) if api.name() != broker => {
                Performer::Cluster(cluster)
            }
            Self::Local(Local { api, .. }) => Performer::Own(api),
            Self::Cluster(cluster) => Performer::Cluster(cluster),
        }
    }

    /// Host for clients that do not send the host that they dialled.
    pub(crate) fn host(&self) -> String {
        match self {
            Self::Local(Local { api, .. }) => api.host().to_owned(),
            Self::Cluster(cluster) => cluster.client.ip().to_string(),
        }
    }

    /// Authenticates a gRPC request with the users of the broker of this process, or of the cluster. `mark` is the mark of
    /// the request's connection ([`auth::Mark`]), which names the first verified user of the connection.
    pub(crate) fn authenticate(
        &self,
        metadata: &Metadata<'_>,
        remote: std::net::SocketAddr,
        mark: &AtomicU64,
    ) -> Result<Subject, Denial> {
        match self {
            Self::Local(Local { api, .. }) => api.authenticate(metadata, remote, mark),
            Self::Cluster(cluster) => match &cluster.users {
                Some(users) => users.authenticate(self.now_ms(), metadata, remote, mark),
                None => Ok(Subject::Off),
            },
        }
    }

    /// Checks that a user has the permissions `needs`. `message` is the full name of the gRPC request message, such as
    /// `apache.rocketmq.v2.SendMessageRequest`, which white lists and the audit log contain.
    pub(crate) fn authorize<'n>(
        &self,
        (user, message): (&Subject, &str),
        remote: std::net::SocketAddr,
        needs: impl FnOnce() -> Needs<'n>,
    ) -> Result<()> {
        let auth = match self {
            Self::Local(Local { api, .. }) => Some(api.auth()),
            Self::Cluster(cluster) => cluster.users.as_ref().map(Users::auth),
        };
        let (request, origin) = (Request::Message(message), Origin::new(remote, 0));
        let Some(auth) = auth else { return Ok(()) };
        let decided = auth.authorize(self.now_ms(), (user, request), origin, needs);
        decided.map_err(|error| Failure::unauthorized(error.into()))
    }

    /// Makes the send queue of a worker thread, whose messages the broker of this process stores with one write. `None` in
    /// cluster mode.
    pub(crate) fn sends(&self) -> Option<Arc<Sends>> {
        self.api().map(|api| Arc::new(api.sends()))
    }

    /// Returns a topic, or `None` if it does not exist. In local mode the call waits for name servers, as
    /// [`Brokers::whole_topic`] does, only if no known broker has the topic or the broker of this process is a slave.
    pub(crate) async fn topic(&self, name: &str) -> Result<Option<Arc<Topic>>> {
        match self {
            Self::Local(local) => match local.topic(name) {
                Some(known) if !local.api.is_slave() => Ok(Some(known)),
                _ => Ok(Box::pin(local.whole_topic(name)).await),
            },
            Self::Cluster(cluster) => Box::pin(cluster.topic(name)).await,
        }
    }

    /// A topic with the queues of all brokers (`LocalTopicRouteService.getTopicRouteForProxy`). In local mode, if no name server
    /// answers, only with the queues of the broker of this process.
    pub(crate) async fn whole_topic(&self, name: &str) -> Result<Option<Arc<Topic>>> {
        match self {
            Self::Local(local) => Ok(Box::pin(local.whole_topic(name)).await),
            Self::Cluster(cluster) => Box::pin(cluster.topic(name)).await,
        }
    }

    /// The configuration of a consumer group; `None` when the group does not exist.
    pub(crate) async fn group(&self, name: &str) -> Result<Option<Arc<SubscriptionGroupConfig>>> {
        match self {
            Self::Local(Local { api, .. }) => Ok(api.group(name)),
            Self::Cluster(cluster) => cluster.group(name).await,
        }
    }

    /// Records the groups and subscriptions of a client. Brokers check expressions when messages are popped.
    ///
    /// # Errors
    /// The refusals of the client's groups.
    pub(crate) async fn heartbeat(
        &self,
        (member, stated): (&broker::api::Member, &ClientSettings),
        data: &HeartbeatData,
    ) -> Result<()> {
        match self {
            Self::Local(Local { api, .. }) => Ok(api.heartbeat(member, data).await?),
            // The brokers learn of producers by the heartbeats of `cluster`.
            Self::Cluster(cluster) => {
                let heartbeat = ConsumerHeartbeat {
                    remote: member.link.remote(),
                    stated: Some(stated),
                    client_id: &member.client_id,
                    language: member.language,
                    version: member.version,
                };
                cluster.consumer_heard(&heartbeat, &data.consumer_data_set);
                Ok(())
            }
        }
    }

    /// Records the heartbeat of a consumer that sent its settings to another proxy. Returns false if no proxy
    /// reported the consumer. In local mode proxies do not synchronize, as in RocketMQ.
    pub(crate) async fn record_remote_heartbeat(&self, group: &str, client_id: &str) -> bool {
        match self {
            Self::Local(_) => false,
            Self::Cluster(cluster) => Box::pin(cluster.record_remote_heartbeat(group, client_id)).await,
        }
    }

    /// Removes a consumer that sent its settings to another proxy. Returns whether a proxy reported the consumer.
    pub(crate) fn remove_remote_consumer(&self, group: &str, client: &Client) -> bool {
        match self {
            Self::Cluster(cluster) if cluster.consumers.get(group, &client.id).is_some() => {
                cluster.client_left(client, group);
                true
            }
            _ => false,
        }
    }

    /// Wakes the task that sends heartbeats, after a producer stated its topics. The brokers of the cluster then know the producer
    /// before they ask it to decide about a transaction. Does nothing without a name server.
    pub(crate) fn producer_stated(&self) {
        if let Some(cluster) = self.cluster() {
            cluster.producers_changed.notify_one();
        }
    }

    /// Removes a client.
    pub(crate) fn closed(&self, client: &Client) {
        match self {
            Self::Local(Local { api, .. }) => api.closed(client.link()),
            Self::Cluster(cluster) => {
                if let Some(group) = client.consumer_group() {
                    cluster.client_left(client, &group);
                }
            }
        }
    }

    /// Stores a message on a broker. `first` runs if the message begins a batch of the send queue `sends`: it must
    /// schedule [`Sends::commit`], which stores the batch. It does not run for a message to another broker.
    pub(crate) async fn send(
        &self,
        (broker, sends): (&str, Option<&Arc<Sends>>),
        request: &SendRequest<'_>,
        first: impl Fn(Arc<Sends>),
    ) -> Result<Stored> {
        match (self.writer(broker), sends) {
            (Performer::Own(_), Some(sends)) => {
                let sent = sends.send(request, || first(sends.clone())).await?;
                Ok(Stored {
                    queue_offset: sent.queue_offset,
                    log_offset: sent.log_offset,
                    recall_handle: sent.recall_handle,
                })
            }
            (Performer::Cluster(cluster), _) => Box::pin(cluster.send(broker, request)).await,
            (Performer::Own(_), None) => unreachable!("the threads of local mode have sends"),
        }
    }

    /// Cancels a timed message, and returns the unique key of that message.
    pub(crate) async fn recall(
        &self,
        caller: &broker::api::Caller,
        broker: &str,
        request: &RecallRequest<'_>,
    ) -> Result<String> {
        match self.writer(broker) {
            Performer::Own(api) => Ok(api.recall(caller, request).await?.unique_key),
            Performer::Cluster(cluster) => cluster.recall(broker, request).await,
        }
    }

    /// Pops messages from a broker, or waits for them. With a client `lite`, the messages are from its lite topics,
    /// otherwise from the topic.
    pub(crate) async fn pop(
        &self,
        broker: &str,
        request: &PopRequest<'_>,
        lite: Option<&str>,
    ) -> Result<(PopStatus, Popped)> {
        match self.performer(broker) {
            Performer::Own(api) => {
                // Boxed: the state of `Api::pop` is freed before the wait.
                let mut held = match lite {
                    Some(client_id) => Box::pin(api.pop_lite(&lite_pop(request, client_id))).await?,
                    None => Box::pin(api.pop(request)).await?,
                };
                Ok(held.answer().await?)
            }
            Performer::Cluster(cluster) => Box::pin(cluster.pop(broker, request, lite)).await,
        }
    }

    /// Repeats the lite topics of a client to a broker that may not know them. The receive that follows fails if the
    /// broker is not reachable, and the client's next request repeats them if the broker refuses.
    pub(crate) async fn restore_lite(&self, broker: &str, subscribed: &Subscribed) {
        if let Performer::Cluster(cluster) = self.performer(broker)
            && subscribed.has_lite_topics()
            && let Err(failure) = Box::pin(cluster.restore_lite(broker, subscribed)).await
        {
            tracing::warn!(broker, ?failure, "a broker did not get the lite topics of a client again");
        }
    }

    /// Whether all known brokers of a topic serve lite topics. For an unknown topic: whether the broker of this process
    /// serves them.
    pub(crate) async fn serves_lite(&self, topic: Option<&Topic>) -> bool {
        if let Self::Local(Local { api, .. }) = self {
            let is_here = |topic: &Topic| topic.queues.iter().any(|it| it.broker == api.name());
            if topic.is_none_or(is_here) && !api.serves_lite() {
                return false;
            }
        }
        match (topic, self.cluster()) {
            (Some(topic), Some(cluster)) => Box::pin(cluster.serves_lite(topic, self.own())).await,
            _ => true,
        }
    }

    /// Changes the lite topics of a client at every broker from which their parent topic can be read. The broker of this
    /// process sends notices for the client over `link`.
    ///
    /// # Errors
    /// The refusal of the broker of this process, or the first refusal of other brokers, after all brokers have
    /// responded.
    pub(crate) async fn subscribe_lite(
        &self,
        link: &Arc<dyn ClientLink>,
        topic: &Topic,
        subscription: LiteSubscription,
    ) -> Result<()> {
        let changes = LiteSubscriptions { subscription_set: vec![subscription] };
        let is_readable =
            |broker: &str| topic.queues.iter().any(|it| it.broker == broker && it.is_readable());
        let here = match self {
            Self::Local(Local { api, .. }) if is_readable(api.name()) => {
                api.subscribe_lite(link, &changes).await.map_err(Failure::from)
            }
            _ => Ok(()),
        };
        let there = match self.cluster() {
            Some(cluster) => Box::pin(cluster.subscribe_lite((topic, self.own()), &changes)).await,
            None => Ok(()),
        };
        here.and(there)
    }

    /// Returns the topic by which requests about a popped message name it to its broker. For a message of a lite topic on
    /// the broker of this process, this is the light queue of the lite topic. Other brokers get the parent topic here, and
    /// the lite topic in a field of its own. For other messages the topic may be a retry topic.
    pub(crate) fn stored_in(
        &self,
        receipt: &Receipt<'_>,
        (topic, lite_topic): (&str, &str),
        group: &str,
    ) -> String {
        match self.performer(receipt.handle.broker_name) {
            Performer::Own(_) if !lite_topic.is_empty() => lite_queue(topic, lite_topic),
            _ => receipt.topic(topic, group),
        }
    }

    /// Acknowledges popped messages. The outcomes are in the order of the messages.
    pub(crate) async fn acks(&self, messages: &[PopRef<'_>]) -> Vec<Result<()>> {
        let own = async |api: &Api, messages: &[PopRef<'_>]| {
            let messages: Vec<_> = messages.iter().map(|held| held.message).collect();
            api.acks(&messages).await.into_iter().map(|acked| Ok(acked?)).collect()
        };
        let others = async |cluster: &Arc<Cluster>, messages: &[PopRef<'_>]| cluster.acks(messages).await;
        self.apart(messages, |held| held.broker, own, others).await
    }

    /// Performs a request for each item at the item's broker: in one batch for the broker of this process, and in one
    /// batch for all other brokers. Returns the results in the order of the items.
    async fn apart<I: Copy, O>(
        &self,
        items: &[I],
        broker: impl Fn(&I) -> &str,
        own: impl AsyncFnOnce(&Api, &[I]) -> Vec<O>,
        others: impl AsyncFnOnce(&Arc<Cluster>, &[I]) -> Vec<O>,
    ) -> Vec<O> {
        let is_own = |item: &I| matches!(self.performer(broker(item)), Performer::Own(_));
        match self {
            Self::Local(Local { api, cluster: Some(cluster), .. }) if !items.iter().all(is_own) => {
                let (here, there): (Vec<I>, Vec<I>) = items.iter().copied().partition(is_own);
                let mut there = Box::pin(others(cluster, &there)).await.into_iter();
                let mut here = own(api, &here).await.into_iter();
                items
                    .iter()
                    .filter_map(|item| if is_own(item) { here.next() } else { there.next() })
                    .collect()
            }
            Self::Local(Local { api, .. }) => own(api, items).await,
            Self::Cluster(cluster) => Box::pin(others(cluster, items)).await,
        }
    }

    /// Acknowledges a popped message.
    pub(crate) async fn ack(&self, message: PopRef<'_>) -> Result<()> {
        self.acks(&[message]).await.pop().unwrap_or(Ok(()))
    }

    /// Changes the invisible times of messages. `None` for a message that is acknowledged.
    pub(crate) async fn change_invisible_times(
        &self,
        changes: &[ChangeInvisibleTime<'_>],
    ) -> Vec<Result<Option<Changed>>> {
        let own = async |api: &Api, changes: &[ChangeInvisibleTime<'_>]| {
            let changes: Vec<_> = changes
                .iter()
                .map(|&ChangeInvisibleTime { held, invisible_ms, suspend }| InvisibleTimeChange {
                    message: held.message,
                    invisible_ms,
                    suspend,
                })
                .collect();
            let outcomes = api.change_invisible_times(&changes).await;
            let changed = |outcome: Result<Option<_>, broker::Refusal>| Ok(outcome?.map(Changed::from));
            outcomes.into_iter().map(changed).collect()
        };
        let others = async |cluster: &Arc<Cluster>, changes: &[ChangeInvisibleTime<'_>]| {
            cluster.change_invisible_times(changes).await
        };
        self.apart(changes, |change| change.held.broker, own, others).await
    }

    /// Copies a message to the dead letter topic of its group.
    pub(crate) async fn dead_letter(&self, held: &PopRef<'_>, log_offset: LogOffset) -> Result<()> {
        match self.writer(held.broker) {
            Performer::Own(api) => Ok(api.dead_letter(held.message.group, log_offset).await?),
            Performer::Cluster(cluster) => cluster.dead_letter(held, log_offset).await,
        }
    }

    /// Commits an undecided message, or rolls it back.
    pub(crate) async fn end_transaction(
        &self,
        (caller, id): (&broker::api::Caller, &TransactionId<'_>),
        (topic, decision): (&str, Decision),
        is_checked: bool,
    ) -> Result<()> {
        match self.writer(id.broker) {
            Performer::Own(api) => {
                let end = EndTransaction {
                    producer_group: topic,
                    half_offset: id.half_offset.to_i64(),
                    log_offset: id.log_offset,
                    decision,
                    is_checked,
                };
                Ok(api.end_transaction(caller, &end).await?)
            }
            Performer::Cluster(cluster) => cluster.end_transaction(id, (topic, decision), is_checked).await,
        }
    }
}

/// The pop of a client's lite topics that a receive asks for.
fn lite_pop<'a>(request: &PopRequest<'a>, client_id: &'a str) -> LitePopRequest<'a> {
    let PopRequest { target, polling, count_max, invisible_ms, .. } = request;
    LitePopRequest {
        caller: target.caller,
        topic: target.topic,
        group: target.group,
        client_id,
        born_ms: polling.born_ms,
        poll_ms: polling.poll_ms,
        attempt_id: polling.attempt_id,
        count_max: *count_max,
        invisible_ms: *invisible_ms,
    }
}
