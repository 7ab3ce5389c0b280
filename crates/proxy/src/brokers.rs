//! The brokers that calls are performed by: that of this process, or those of a cluster.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use broker::api::{
    Api, Decision, EndTransaction, Identity, Metadata, Need, PopRequest, PopStatus, Popped, RecallRequest,
    Refused, SendRequest, Sends,
};
use wire::body::{HeartbeatData, SubscriptionGroupConfig};
use wire::units::LogOffset;

use crate::cluster::{Believed, Cluster, ConsumerHeartbeat, Users};
use crate::config::Config;
use crate::failure::Failure;
use crate::receipt::{ChangeInvisibleTime, Changed, Held};
use crate::registry::{Client, Stated};
use crate::topic::{QueuesOf, Stored, Topic, message_type};
use crate::transaction_id::TransactionId;

/// The brokers that perform the calls of 5.x clients: that of this process, or those of a cluster over remoting.
///
/// The frequent requests to a cluster are boxed: without that, every call to the broker of the process would take as much memory as one over
/// the network.
#[derive(Clone)]
pub enum Brokers {
    /// The broker of this process (local mode).
    Local(Api),
    /// The brokers that the name servers know (cluster mode).
    Cluster(Arc<Cluster>),
}

impl Brokers {
    /// The brokers of a cluster, which are reached as `reach` says.
    ///
    /// # Errors
    /// Without a name server, with settings of authentication that cannot be, and when no threads can be started.
    pub fn of_cluster(reach: client::Config, config: &Config) -> Result<Self, Box<dyn std::error::Error>> {
        let believed = Believed::new(&config.believed_brokers, reach.security.checks_servers());
        let users = config.authenticates.then(|| Users::new(&config.auth(), believed)).transpose()?;
        Ok(Self::Cluster(Cluster::new(client::Client::start(reach)?, users, config)))
    }

    /// The wall clock, milliseconds since the epoch.
    pub(crate) fn now_ms(&self) -> i64 {
        match self {
            Self::Local(api) => api.now_ms(),
            Self::Cluster(_) => client::now_ms(),
        }
    }

    /// The name of the only broker; `None` in a cluster.
    pub(crate) fn only(&self) -> Option<&str> {
        match self {
            Self::Local(api) => Some(api.name()),
            Self::Cluster(_) => None,
        }
    }

    /// The host that clients are told when neither they nor their requests say which they dialled.
    pub(crate) fn host(&self) -> String {
        match self {
            Self::Local(api) => api.host().to_owned(),
            Self::Cluster(cluster) => cluster.client.ip().to_string(),
        }
    }

    /// Finds out who makes a request, on a connection with this mark. Users are those of the broker of this process, or of the cluster.
    pub(crate) fn authenticate(
        &self,
        metadata: &Metadata<'_>,
        remote: std::net::SocketAddr,
        mark: &AtomicU64,
    ) -> Result<Identity, Refused> {
        match self {
            Self::Local(api) => api.authenticate(metadata, remote, mark),
            Self::Cluster(cluster) => match &cluster.users {
                Some(users) => users.authenticate(self.now_ms(), metadata, remote, mark),
                None => Ok(Identity::Off),
            },
        }
    }

    /// Checks what a user needs for a message of this full name.
    pub(crate) fn authorize<'n>(
        &self,
        (user, message): (&Identity, &str),
        remote: std::net::SocketAddr,
        needs: impl FnOnce() -> Result<Vec<Need<'n>>, Failure>,
    ) -> Result<(), Failure> {
        match self {
            Self::Local(api) if api.is_authorizing() => {
                let needs = needs().inspect_err(|failure| {
                    api.log_refusal((user, message), remote, &failure.message);
                })?;
                api.authorize(user, message, remote, &needs).map_err(Failure::unauthorized)
            }
            Self::Cluster(cluster) => match &cluster.users {
                Some(users) if users.is_authorizing() => users.authorize((user, message), remote, needs()),
                _ => Ok(()),
            },
            Self::Local(_) => Ok(()),
        }
    }

    /// The sends of one thread, where those that come together are stored together.
    pub(crate) fn sends(&self) -> Option<Arc<Sends>> {
        match self {
            Self::Local(api) => Some(Arc::new(api.sends())),
            Self::Cluster(_) => None,
        }
    }

    /// A topic; `None` when it does not exist.
    pub(crate) async fn topic(&self, name: &str) -> Result<Option<Arc<Topic>>, Failure> {
        match self {
            Self::Local(api) => Ok(api.topic_as(name, |config| {
                let queues = QueuesOf {
                    broker: api.name().to_owned(),
                    ids: vec![api.id()],
                    perm: config.perm,
                    read: config.read_queue_nums,
                    write: config.write_queue_nums,
                };
                Topic { queues: vec![queues], message_type: message_type(config) }
            })),
            Self::Cluster(cluster) => Box::pin(cluster.topic(name)).await,
        }
    }

    /// The configuration of a consumer group; `None` when the group does not exist.
    pub(crate) async fn group(&self, name: &str) -> Result<Option<Arc<SubscriptionGroupConfig>>, Failure> {
        match self {
            Self::Local(api) => Ok(api.group(name)),
            Self::Cluster(cluster) => cluster.group(name).await,
        }
    }

    /// Notes the groups and subscriptions of a client. Brokers check expressions when messages are popped.
    ///
    /// # Errors
    /// The refusals of the client's groups.
    pub(crate) async fn heartbeat(
        &self,
        (member, stated): (&broker::api::Member, &Stated),
        data: &HeartbeatData,
    ) -> Result<(), Failure> {
        match self {
            Self::Local(api) => Ok(api.heartbeat(member, data).await?),
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

    /// A producer stated its topics: the brokers of a cluster are to know before it is asked for a decision.
    pub(crate) fn producer_stated(&self) {
        if let Self::Cluster(cluster) = self {
            cluster.producers_changed.notify_one();
        }
    }

    /// Forgets a client.
    pub(crate) fn closed(&self, client: &Client) {
        match self {
            Self::Local(api) => api.closed(client.link()),
            Self::Cluster(cluster) => cluster.client_left(client),
        }
    }

    /// Stores a message on a broker. The first send of those that are stored together calls `first`.
    pub(crate) async fn send(
        &self,
        (broker, sends): (&str, Option<&Arc<Sends>>),
        request: &SendRequest<'_>,
        first: impl Fn(Arc<Sends>),
    ) -> Result<Stored, Failure> {
        match (self, sends) {
            (Self::Local(_), Some(sends)) => {
                let sent = sends.send(request, || first(sends.clone())).await?;
                Ok(Stored {
                    queue_offset: sent.queue_offset,
                    log_offset: sent.log_offset,
                    recall_handle: sent.recall_handle,
                })
            }
            (Self::Cluster(cluster), _) => Box::pin(cluster.send(broker, request)).await,
            (Self::Local(_), None) => unreachable!("the threads of local mode have sends"),
        }
    }

    /// Cancels a timed message; the unique key of that message.
    pub(crate) async fn recall(
        &self,
        caller: &broker::api::Caller,
        broker: &str,
        request: &RecallRequest<'_>,
    ) -> Result<String, Failure> {
        match self {
            Self::Local(api) => Ok(api.recall(caller, request).await?.unique_key),
            Self::Cluster(cluster) => cluster.recall(broker, request).await,
        }
    }

    /// Takes messages from a broker, or waits for them: those of the lite topics of the client `lite`, or else those of the topic.
    pub(crate) async fn pop(
        &self,
        broker: &str,
        request: &PopRequest<'_>,
        lite: Option<&str>,
    ) -> Result<(PopStatus, Popped), Failure> {
        match self {
            Self::Local(api) => {
                // Boxed: the state of `Api::pop` is freed before the wait.
                let mut held = Box::pin(api.pop(request)).await?;
                Ok(held.answer().await?)
            }
            Self::Cluster(cluster) => Box::pin(cluster.pop(broker, request, lite)).await,
        }
    }

    /// Acknowledges popped messages. The outcomes are in the order of the messages.
    pub(crate) async fn acks(&self, messages: &[Held<'_>]) -> Vec<Result<(), Failure>> {
        match self {
            Self::Local(api) => {
                let messages: Vec<_> = messages.iter().map(|held| held.message).collect();
                api.acks(&messages).await.into_iter().map(|acked| Ok(acked?)).collect()
            }
            Self::Cluster(cluster) => Box::pin(cluster.acks(messages)).await,
        }
    }

    /// Acknowledges a popped message.
    pub(crate) async fn ack(&self, message: Held<'_>) -> Result<(), Failure> {
        self.acks(&[message]).await.pop().unwrap_or(Ok(()))
    }

    /// Changes the invisible times of messages. `None` for a message that is acknowledged.
    pub(crate) async fn change_invisible_times(
        &self,
        changes: &[ChangeInvisibleTime<'_>],
    ) -> Vec<Result<Option<Changed>, Failure>> {
        match self {
            Self::Local(api) => {
                let changes: Vec<_> = changes.iter().map(|it| (it.held.message, it.invisible_ms)).collect();
                let outcomes = api.change_invisible_times(&changes).await;
                let changed = |outcome: Result<Option<_>, broker::Refusal>| Ok(outcome?.map(Changed::from));
                outcomes.into_iter().map(changed).collect()
            }
            Self::Cluster(cluster) => cluster.change_invisible_times(changes).await,
        }
    }

    /// Puts a copy of a message into the dead letter topic of its group.
    pub(crate) async fn dead_letter(&self, held: &Held<'_>, log_offset: LogOffset) -> Result<(), Failure> {
        match self {
            Self::Local(api) => Ok(api.dead_letter(held.message.group, log_offset).await?),
            Self::Cluster(cluster) => cluster.dead_letter(held, log_offset).await,
        }
    }

    /// Commits an undecided message, or rolls it back.
    pub(crate) async fn end_transaction(
        &self,
        (caller, id): (&broker::api::Caller, &TransactionId<'_>),
        (topic, decision): (&str, Decision),
        is_checked: bool,
    ) -> Result<(), Failure> {
        match self {
            Self::Local(api) => {
                let end = EndTransaction {
                    producer_group: topic,
                    half_offset: id.half_offset.to_i64(),
                    log_offset: id.log_offset,
                    decision,
                    is_checked,
                };
                Ok(api.end_transaction(caller, &end).await?)
            }
            Self::Cluster(cluster) => cluster.end_transaction(id, (topic, decision), is_checked).await,
        }
    }
}
