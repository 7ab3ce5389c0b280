//! The client of a cluster: it holds the routes of topics and the connections to name servers and brokers.

use crate::groups::Groups;
use crate::remote::{Remote, accept};
use crate::{Error, Route};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use wire::body::TopicRouteData;
use wire::codes::{request, response};
use wire::names::DEFAULT_TOPIC;

/// A client of a cluster. It is cheap to clone, and shared by producers, consumers and admin calls.
///
/// All calls must run on a tokio runtime with timers; connections live on the client's own threads.
#[derive(Clone)]
pub struct Client {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub remote: Remote,
    pub id: String,
    pub ip: IpAddr,
    pub groups: Groups,
    /// Lock held during a heartbeat, and while brokers are notified that a group was left. A heartbeat that brokers
    /// read afterwards would make this client a member again (`MQClientInstance.lockHeartbeat`).
    pub heartbeat: tokio::sync::Mutex<()>,
    /// Routes of the topics in use.
    routes: Mutex<HashMap<String, Arc<Route>>>,
}

impl Inner {
    pub fn new(remote: Remote, id: String, ip: IpAddr) -> Self {
        Self {
            remote,
            id,
            ip,
            groups: Groups::default(),
            heartbeat: tokio::sync::Mutex::default(),
            routes: Mutex::default(),
        }
    }
}

impl Client {
    /// The client id, by which brokers know this client: `ip@instance` (`ClientConfig.buildMQClientId`).
    pub fn id(&self) -> &str {
        &self.inner.id
    }

    /// The IP address of this client as servers see it.
    pub fn ip(&self) -> IpAddr {
        self.inner.ip
    }

    /// Closes all connections and ends the client's threads. Producers and consumers must be shut down before.
    pub fn shutdown(&self) {
        self.inner.remote.workers.shutdown();
    }

    /// Asks a name server for the route of a topic, and ignores the known route.
    ///
    /// # Errors
    /// [`Error::Connect`] or [`Error::Call`] when no name server answers, [`Error::Refused`] with code 17 when the
    /// topic does not exist.
    pub async fn fetch_route(&self, topic: &str) -> Result<TopicRouteData, Error> {
        let write = |frame: wire::frame::FrameWriter<'_>| {
            frame.text("topic", topic).flag("acceptStandardJsonOnly", true).finish(b"");
        };
        let (reply, server) =
            self.inner.remote.ask_name_server(request::GET_ROUTEINFO_BY_TOPIC, write).await?;
        let server = server.to_owned();
        let reply = accept(&server, reply)?;
        TopicRouteData::decode(&reply.body)
            .map_err(|why| Error::Answer { address: server, why: why.to_string() })
    }

    /// Returns the route of a topic. Asks a name server only for an unknown route.
    ///
    /// # Errors
    /// Errors of [`Client::fetch_route`].
    pub async fn route(&self, topic: &str) -> Result<Arc<Route>, Error> {
        match self.known_route(topic) {
            Some(route) => Ok(route),
            None => self.refresh_route(topic).await,
        }
    }

    /// Asks a name server for the route of a topic again. The known route stays in use when that fails.
    ///
    /// # Errors
    /// Errors of [`Client::fetch_route`].
    pub async fn refresh_route(&self, topic: &str) -> Result<Arc<Route>, Error> {
        let data = self.fetch_route(topic).await?;
        let route = Arc::new(Route::new(topic, &data));
        self.inner.routes.lock().expect("short section").insert(topic.to_owned(), route.clone());
        Ok(route)
    }

    /// Returns the route for sending to a topic. For a missing topic it is the route of the topic from which the
    /// broker will create it, until a name server knows the topic's own route.
    ///
    /// # Errors
    /// Errors of [`Client::fetch_route`], for both topics.
    pub async fn publish_route(&self, topic: &str, queues_max: i32) -> Result<Arc<Route>, Error> {
        match self.route(topic).await {
            Err(error) if error.code() == Some(response::TOPIC_NOT_EXIST) => {
                let data = self.fetch_route(DEFAULT_TOPIC).await?;
                let route = Arc::new(Route::limited(topic, &data, queues_max));
                self.inner.routes.lock().expect("short section").insert(topic.to_owned(), route.clone());
                Ok(route)
            }
            found => found,
        }
    }

    pub(crate) fn known_route(&self, topic: &str) -> Option<Arc<Route>> {
        self.inner.routes.lock().expect("short section").get(topic).cloned()
    }

    /// Returns the topics with known routes.
    pub(crate) fn topics(&self) -> Vec<String> {
        self.inner.routes.lock().expect("short section").keys().cloned().collect()
    }
}
