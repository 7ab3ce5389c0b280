//! Calls performed over remoting by the brokers that the name servers know (`ClusterMessageService`,
//! `ClusterMetadataService`): all brokers in cluster mode, the other brokers in local mode.
//!
//! Handles, transaction ids and recall handles name their broker. So the proxy keeps no table of messages, and any other proxy can
//! use these handles. Topics, groups and brokers are cached with the expiry times of RocketMQ's proxy.

mod cache;
mod consumers;
mod heartbeat;
pub mod heartbeat_sync;
mod lite;
pub mod port;
mod remoting_clients;
mod requests;
mod users;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use client::Client;
use grpc::messages::Code;
use net::Response;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use wire::body::{BrokerData, QueueData, SubscriptionGroupConfig, TopicConfig, TopicRouteData};
use wire::codes::{request, response};
use wire::frame::FrameWriter;
use wire::json;

use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::receipt::broker_missing;
use crate::topic::{QueuesOf, Topic, message_type};
use cache::{Cache, Lookup};
use consumers::Consumers;
pub(crate) use heartbeat_sync::ConsumerHeartbeat;
use heartbeat_sync::Outbox;
use lite::LiteTopics;
use remoting_clients::RemotingClients;
pub(crate) use users::{TrustedBrokers, Users, run as read_users};

/// Longest time for a request that does not wait for messages (`DefaultMQAdminExt`, `mqClientApiTimeout`).
const TIMEOUT: Duration = Duration::from_secs(3);

/// Longest wait for a connection to the gRPC port of another broker.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Most pulls and pops of remoting clients that wait at brokers, and most pops of gRPC clients. Each takes a
/// few kilobytes.
const HELD_MAX: usize = 100_000;

/// The brokers of a cluster by the name of their group.
type Addresses = BTreeMap<String, BrokerData>;

/// The brokers of a cluster.
pub struct Cluster {
    pub(crate) client: Client,
    topics: Arc<Cache<Topic>>,
    /// Routes as remoting clients ask for them.
    routes: Arc<Cache<TopicRouteData>>,
    groups: Arc<Cache<SubscriptionGroupConfig>>,
    /// All brokers, under the empty name.
    addresses: Arc<Cache<Addresses>>,
    /// Cache: whether a server listens at an address (`host:port`).
    listeners: Arc<Cache<bool>>,
    /// Name of the cluster whose brokers are asked for the configurations of groups. All brokers are asked if no broker
    /// belongs to the cluster.
    name: String,
    /// Permits for pops that wait at brokers.
    pops: Arc<Semaphore>,
    /// Permits for pulls and pops of remoting clients that wait at brokers.
    held: Arc<Semaphore>,
    /// Notified when a producer states its topics.
    pub(crate) producers_changed: Notify,
    /// Users that clients must authenticate as. `None` if every client is served.
    pub(crate) users: Option<Users>,
    /// The consumers of this proxy and of others.
    pub(crate) consumers: Consumers,
    /// State of lite topics.
    lite: LiteTopics,
    /// The clients of the remoting port of this proxy.
    remoting: RemotingClients,
    /// Queue of reports for other proxies.
    outbox: Outbox,
    /// Topic on which proxies report their consumers to each other. Empty for no reports.
    sync_topic: String,
    /// The name of this proxy among others (`HeartbeatSyncer.buildLocalProxyId`).
    id: String,
    /// The configured port of gRPC.
    port: u16,
}

impl From<client::Error> for Failure {
    fn from(error: client::Error) -> Self {
        match error {
            client::Error::Refused { code, remark, .. } => broker::Refusal::new(code, remark).into(),
            client::Error::Connect { .. } | client::Error::Call(_) => {
                Self::new(Code::ProxyTimeout, error.to_string())
            }
            client::Error::Busy { .. } => Self::new(Code::TooManyRequests, error.to_string()),
            error => Self::new(Code::InternalServerError, error.to_string()),
        }
    }
}

/// Makes the failure for a response that cannot be read.
fn malformed(what: &str) -> Failure {
    Failure::new(
        Code::InternalServerError,
        format!("the answer of the broker has no {what} that can be read"),
    )
}

impl Cluster {
    /// Makes the cluster that `client` connects to.
    pub(crate) fn new(client: Client, users: Option<Users>, config: &Config) -> Arc<Self> {
        Arc::new(Self {
            topics: Arc::default(),
            // Clients ask for routes every 30 s only, so a new topic must not be missing for them.
            routes: Arc::new(Cache::without_missing()),
            groups: Arc::default(),
            addresses: Arc::default(),
            listeners: Arc::default(),
            name: config.cluster.clone(),
            pops: Arc::new(Semaphore::new(HELD_MAX)),
            held: Arc::new(Semaphore::new(HELD_MAX)),
            producers_changed: Notify::new(),
            users,
            consumers: Consumers::default(),
            lite: LiteTopics::default(),
            remoting: RemotingClients::default(),
            outbox: Outbox::default(),
            sync_topic: config.sync_topic.clone(),
            id: format!("{}%{}%{}", client.id(), config.remoting_port, config.port),
            port: config.port,
            client,
        })
    }

    /// Returns a topic by the route of the name server, with its configuration from any of its brokers (105, 351).
    pub(crate) async fn topic(self: &Arc<Self>, name: &str) -> Lookup<Topic> {
        self.topics.get(name, |name| self.clone().fetch_topic(name)).await
    }

    /// The cached topic, without waiting for an answer.
    pub(crate) fn known_topic(self: &Arc<Self>, name: &str) -> Option<Arc<Topic>> {
        self.topics.peek(name, |name| self.clone().fetch_topic(name))
    }

    /// Returns the cached topic. Waits up to `limit` for a response about an unknown topic.
    pub(crate) async fn topic_within(self: &Arc<Self>, name: &str, limit: Duration) -> Option<Arc<Topic>> {
        self.topics.peek_within(name, limit, |name| self.clone().fetch_topic(name)).await
    }

    /// Whether a server listened at an address at the last try; false for an address without a try.
    pub(crate) fn listens(&self, address: &str) -> bool {
        self.listeners.peek(address, connects).is_some_and(|listens| *listens)
    }

    /// Waits until all these addresses have been tried for [`Cluster::listens`].
    pub(crate) async fn try_listeners(&self, addresses: impl Iterator<Item = String>) {
        let mut tries = JoinSet::new();
        for address in addresses {
            let listeners = self.listeners.clone();
            tries.spawn_local(async move { listeners.get(&address, connects).await });
        }
        tries.join_all().await;
    }

    /// Returns the route of a topic from the name server (105), or `None` if the topic does not exist.
    async fn route(self: &Arc<Self>, name: &str) -> Lookup<TopicRouteData> {
        self.routes.get(name, |name| self.clone().fetch_route(name)).await
    }

    async fn fetch_route(self: Arc<Self>, name: String) -> Result<Option<TopicRouteData>> {
        match self.client.fetch_route(&name).await {
            Err(error) if error.code() == Some(response::TOPIC_NOT_EXIST) => Ok(None),
            route => Ok(Some(route?)),
        }
    }

    async fn fetch_topic(self: Arc<Self>, name: String) -> Result<Option<Topic>> {
        let Some(route) = self.clone().fetch_route(name.clone()).await? else { return Ok(None) };
        let addresses = route.broker_datas.iter().filter_map(|broker| preferred(broker));
        let write = |frame: FrameWriter<'_>| frame.text("topic", &name).flag("lo", true).finish(b"");
        let read = |body: &[u8]| json::from_slice::<TopicConfig>(body).map_err(|_| malformed("topic"));
        let found = self.first(addresses, request::GET_TOPIC_CONFIG, write, read).await?;
        // A topic of the name server's own settings has no configuration at a broker.
        let message_type = found.map_or_else(|| "UNSPECIFIED".to_owned(), |config| message_type(&config));
        Ok(Some(Topic { queues: queues(route), message_type }))
    }

    /// The configuration of a group at a broker of the cluster (352), which creates it where groups may be created by their use.
    pub(crate) async fn group(self: &Arc<Self>, name: &str) -> Lookup<SubscriptionGroupConfig> {
        self.groups.get(name, |name| self.clone().fetch_group(name)).await
    }

    async fn fetch_group(self: Arc<Self>, name: String) -> Result<Option<SubscriptionGroupConfig>> {
        let brokers = self.brokers().await?;
        let is_own = |broker: &&BrokerData| broker.cluster == self.name;
        let own: Vec<&BrokerData> = brokers.values().filter(is_own).collect();
        let asked = if own.is_empty() { brokers.values().collect() } else { own };
        let write = |frame: FrameWriter<'_>| frame.text("group", &name).finish(b"");
        let read = |body: &[u8]| json::from_slice(body).map_err(|_| malformed("group"));
        let addresses = asked.into_iter().filter_map(preferred);
        self.first(addresses, request::GET_SUBSCRIPTIONGROUP_CONFIG, write, read).await
    }

    /// Returns the first broker's response with a value, or `None` if no broker has one.
    async fn first<'a, T>(
        &self,
        addresses: impl Iterator<Item = &'a str>,
        code: i32,
        write: impl Fn(FrameWriter<'_>),
        read: impl Fn(&[u8]) -> Result<T>,
    ) -> Result<Option<T>> {
        const ABSENT: [i32; 2] = [response::TOPIC_NOT_EXIST, response::SUBSCRIPTION_GROUP_NOT_EXIST];
        let mut failed = None;
        for address in addresses {
            let found = match self.client.call(address, code, TIMEOUT, &write).await {
                Ok(reply) => read(&reply.body),
                Err(error) if error.code().is_some_and(|code| ABSENT.contains(&code)) => continue,
                Err(error) => Err(error.into()),
            };
            match found {
                Ok(found) => return Ok(Some(found)),
                Err(failure) => failed = Some(failure),
            }
        }
        failed.map_or(Ok(None), Err)
    }

    /// All brokers (106).
    async fn brokers(self: &Arc<Self>) -> Result<Arc<Addresses>> {
        let fetch = |_| {
            let client = self.client.clone();
            async move { Ok(Some(client.cluster_info().await?.broker_addr_table)) }
        };
        Ok(self.addresses.get("", fetch).await?.unwrap_or_default())
    }

    /// The address of a broker group; the name servers must know the group.
    async fn address(self: &Arc<Self>, broker: &str) -> Result<String> {
        let text = || format!("the broker {broker} is not known to the name servers");
        let address = self.known_address(broker).await?;
        address.ok_or_else(|| Failure::new(Code::InternalServerError, text()))
    }

    /// Returns the address of a broker group: its master, or the acting master. `None` if the name servers do not
    /// know the group.
    async fn known_address(self: &Arc<Self>, broker: &str) -> Result<Option<String>> {
        if !self.brokers().await?.contains_key(broker) {
            self.addresses.forget("");
        }
        Ok(self.brokers().await?.get(broker).and_then(preferred).map(str::to_owned))
    }

    /// The address of the broker of a handle.
    ///
    /// # Errors
    /// `INVALID_RECEIPT_HANDLE` for a broker that the name servers do not know (`ClusterMessageService.resolveBrokerAddrInReceiptHandle`).
    async fn address_in_handle(self: &Arc<Self>, broker: &str) -> Result<String> {
        self.known_address(broker).await?.ok_or_else(|| broker_missing(broker))
    }

    /// Sends a request to a broker group. `timeout` is the longest wait, `bytes` the approximate size of the
    /// request.
    async fn ask(
        self: &Arc<Self>,
        broker: &str,
        code: i32,
        (timeout, bytes): (Duration, usize),
        write: impl FnOnce(FrameWriter<'_>),
    ) -> Result<Response> {
        let address = self.address(broker).await?;
        let answer = self.client.ask(&address, code, (timeout, bytes), write).await;
        let is_elsewhere = match &answer {
            Ok(reply) => matches!(reply.code, response::SERVICE_NOT_AVAILABLE | response::NO_PERMISSION),
            Err(error) => matches!(error, client::Error::Connect { .. }),
        };
        if is_elsewhere {
            // The group may have another master by now.
            self.addresses.forget("");
        }
        Ok(answer?)
    }

    /// Sends a request like [`Cluster::ask`], and accepts only the success code.
    async fn call(
        self: &Arc<Self>,
        broker: &str,
        code: i32,
        write: impl FnOnce(FrameWriter<'_>),
    ) -> Result<Response> {
        accepted(self.ask(broker, code, (TIMEOUT, 0), write).await?)
    }
}

/// Whether a connection to an address can be made in a short time.
async fn connects(address: String) -> Result<Option<bool>> {
    let connection = tokio::time::timeout(CONNECT_TIMEOUT, tokio::net::TcpStream::connect(&address)).await;
    Ok(Some(matches!(connection, Ok(Ok(_)))))
}

/// Returns the response if its code is success, else the failure.
fn accepted(reply: Response) -> Result<Response> {
    match reply.code {
        response::SUCCESS => Ok(reply),
        code => Err(broker::Refusal::new(code, reply.remark.unwrap_or_default()).into()),
    }
}

/// The master of a broker group, or the broker with the lowest id (`TopicRouteWrapper.getMasterAddrPrefer`).
fn preferred(broker: &BrokerData) -> Option<&str> {
    broker.broker_addrs.values().next().map(String::as_str)
}

/// The queues of a topic by its route. Queues on a broker group that the route does not name are skipped.
fn queues(route: TopicRouteData) -> Vec<QueuesOf> {
    let brokers: BTreeMap<&str, &BrokerData> =
        route.broker_datas.iter().map(|broker| (broker.broker_name.as_str(), broker)).collect();
    let of = |data: &QueueData| {
        let broker = brokers.get(data.broker_name.as_str())?;
        let host = preferred(broker).and_then(|address| address.rsplit_once(':')).map(|(host, _)| host);
        Some(QueuesOf {
            broker: data.broker_name.clone(),
            ids: broker.broker_addrs.keys().filter_map(|id| i32::try_from(*id).ok()).collect(),
            host: host.unwrap_or_default().trim_matches(['[', ']']).to_owned(),
            address: OnceLock::new(),
            perm: data.perm,
            read: data.read_queue_nums,
            write: data.write_queue_nums,
        })
    };
    route.queue_datas.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests;
