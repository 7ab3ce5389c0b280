//! One application's view of a cluster: routes and their brokers.

use crate::heartbeat::{self, Groups};
use crate::remote::{Remote, accept};
use crate::{Credentials, Error, Route, clock};
use net::tls::Security;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use wire::body::TopicRouteData;
use wire::codes::{request, response};
use wire::frame::Encoding;

/// The topic whose queues a missing topic is created from (`TopicValidator.AUTO_CREATE_TOPIC_KEY_TOPIC`).
pub(crate) const TEMPLATE_TOPIC: &str = "TBW102";

/// How to reach a cluster.
#[derive(Clone, Debug)]
pub struct Config {
    /// Name servers, `host:port`.
    pub name_servers: Vec<String>,
    /// Tells several clients of one process apart; the process id when empty (`ClientConfig.instanceName`).
    pub instance_name: String,
    /// Address put into the client id; found by itself when absent.
    pub client_ip: Option<IpAddr>,
    /// Threads that carry connections.
    pub workers: usize,
    /// How headers are written.
    pub encoding: Encoding,
    /// Whether connections are encrypted.
    pub security: Security,
    /// Who signs requests; without, they are not signed.
    pub credentials: Option<Credentials>,
}

impl Config {
    /// The defaults of Java's client, with name servers separated by semicolons.
    #[must_use]
    pub fn new(name_servers: &str) -> Self {
        let name_servers = name_servers.split([';', ',']).map(str::trim).filter(|server| !server.is_empty());
        Self {
            name_servers: name_servers.map(str::to_owned).collect(),
            instance_name: String::new(),
            client_ip: None,
            workers: 1,
            encoding: Encoding::Json,
            security: Security::default(),
            credentials: None,
        }
    }
}

/// A connection to a cluster, cheap to clone and shared by producers, consumers and admin calls.
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
    /// Routes of the topics in use.
    routes: Mutex<HashMap<String, Arc<Route>>>,
}

impl Client {
    /// Starts the client's threads. Servers are contacted on first use.
    ///
    /// # Errors
    /// There is no name server address, or threads cannot be started.
    pub fn start(config: Config) -> Result<Self, Error> {
        let ip = config.client_ip.or_else(|| own_address(config.name_servers.first()?));
        let ip = ip.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let seed = clock::seed();
        let instance = match config.instance_name.as_str() {
            "" | "DEFAULT" => format!("{}#{seed}", std::process::id()),
            name => name.to_owned(),
        };
        let remote = Remote::start(&config, seed)?;
        let id = format!("{ip}@{instance}");
        let inner = Arc::new(Inner { remote, id, ip, groups: Groups::default(), routes: Mutex::default() });
        let weak = Arc::downgrade(&inner);
        inner.remote.workers.spawn(0, move || heartbeat::run(weak))?;
        Ok(Self { inner })
    }

    /// The id brokers know this client by, `ip@instance` (`ClientConfig.buildMQClientId`).
    #[must_use]
    pub fn id(&self) -> &str {
        &self.inner.id
    }

    /// Our address as servers see it.
    #[must_use]
    pub fn ip(&self) -> IpAddr {
        self.inner.ip
    }

    /// Closes all connections and ends the client's threads. Shut producers and consumers down before.
    pub fn shutdown(&self) {
        self.inner.remote.workers.shutdown();
    }

    /// The route of a topic from a name server, without looking at what is known.
    ///
    /// # Errors
    /// No name server answers, or the topic does not exist ([`Error::Refused`] with code 17).
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

    /// The route of a topic in use, from memory when it is known.
    ///
    /// # Errors
    /// As [`Client::fetch_route`].
    pub async fn route(&self, topic: &str) -> Result<Arc<Route>, Error> {
        match self.known_route(topic) {
            Some(route) => Ok(route),
            None => self.refresh_route(topic).await,
        }
    }

    /// Asks for the route of a topic again. The known one stays in use when that fails.
    ///
    /// # Errors
    /// As [`Client::fetch_route`].
    pub async fn refresh_route(&self, topic: &str) -> Result<Arc<Route>, Error> {
        let data = self.fetch_route(topic).await?;
        let route = Arc::new(Route::new(topic, &data));
        self.inner.routes.lock().expect("short section").insert(topic.to_owned(), route.clone());
        Ok(route)
    }

    /// The route to send to a topic that may not exist yet: then that of the topic it will be created from, which
    /// stays in use until the topic's own is there.
    ///
    /// # Errors
    /// As [`Client::fetch_route`], for both topics.
    pub async fn publish_route(&self, topic: &str, queues_max: i32) -> Result<Arc<Route>, Error> {
        match self.route(topic).await {
            Err(error) if error.code() == Some(response::TOPIC_NOT_EXIST) => {
                let data = self.fetch_route(TEMPLATE_TOPIC).await?;
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

    /// Topics whose routes are kept.
    pub(crate) fn topics(&self) -> Vec<String> {
        self.inner.routes.lock().expect("short section").keys().cloned().collect()
    }
}

/// Our address towards a server. Nothing is sent: connecting a UDP socket only picks a route.
fn own_address(server: &str) -> Option<IpAddr> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect(server).ok()?;
    Some(socket.local_addr().ok()?.ip())
}
