//! Bundle of facts about a cluster: a value, written and read as JSON, without bodies of messages and without secrets.

use crate::Error;
use crate::stats::has_no_status;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use wire::body::{DepartedBroker, ReplacedBroker};

/// Version of the bundle's form.
pub(crate) const FORMAT: u32 = 1;

/// Facts about a cluster, gathered at one time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Bundle {
    /// Version of the form.
    pub format: u32,
    /// Version of `vostok` that gathered it.
    pub tool: String,
    /// When the gathering began, ms since the epoch.
    pub taken_at_ms: i64,
    /// The name servers that were asked.
    pub(crate) name_servers: Vec<NameServer>,
    /// The brokers that a name server knows.
    pub(crate) brokers: Vec<Broker>,
    /// The controllers that brokers have in their settings.
    pub(crate) controllers: Vec<Controller>,
    /// The broker sets that the leading controller knows.
    pub(crate) replica_sets: Vec<ReplicaSet>,
    /// Brokers and proxies that are gone; absent if neither name servers nor an earlier look report any.
    pub(crate) departed: Option<Vec<Departed>>,
    /// The proxies in cluster mode that brokers know.
    pub(crate) proxies: Vec<Proxy>,
    /// The topics and how far their queues reach.
    pub(crate) topics: Vec<Topic>,
    /// Number of topics that the doctor left out, because there are very many.
    pub(crate) topics_left_out: usize,
    /// The consumer groups without RocketMQ's own groups.
    pub(crate) groups: Vec<Group>,
    /// Lite topics in which messages wait for a group; absent when no broker serves lite topics.
    pub(crate) lite: Option<Vec<LiteProgress>>,
    /// Facts about the machine on which the bundle was gathered; absent where no broker is on it.
    pub(crate) host: Option<host::Facts>,
}

impl Bundle {
    /// A bundle of a cluster whose name servers do not answer.
    pub(crate) fn without_answer(name_servers: &[String], error: &Error, now_ms: i64) -> Self {
        let silent = |address: &String| NameServer {
            address: address.clone(),
            error: Some(error.to_string()),
            error_code: error.code(),
            ..NameServer::default()
        };
        Self {
            format: FORMAT,
            taken_at_ms: now_ms,
            name_servers: name_servers.iter().map(silent).collect(),
            ..Self::default()
        }
    }
}

/// The address of a server whose host is written as a number.
pub(crate) fn ip(address: &str) -> Option<IpAddr> {
    address.rsplit_once(':')?.0.trim_matches(['[', ']']).parse().ok()
}

/// Brokers and routes that a name server reports.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct NameServer {
    pub address: String,
    /// Error of the first request, after which the name server was asked nothing more; absent when it answered.
    pub error: Option<String>,
    /// Response code if `error` is a refusal.
    pub error_code: Option<i32>,
    pub sets: Vec<BrokerSet>,
    /// Brokers that are registered while another address has their name and id; absent when the name server does not tell, as
    /// RocketMQ's do not.
    pub replaced: Option<Vec<ReplacedBroker>>,
    /// Brokers that left and did not come back; absent when the name server does not tell, as RocketMQ's do not.
    pub departed: Option<Vec<DepartedBroker>>,
    /// The queues of each topic, by its name.
    pub routes: BTreeMap<String, Vec<Route>>,
    /// When the certificate of its port ends, ms since the epoch; absent when it speaks no TLS.
    pub certificate_ends_ms: Option<i64>,
}

/// A broker or proxy that was there and is gone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Departed {
    /// Name of the cluster; empty for a proxy.
    pub cluster: String,
    /// Name of the broker set; client id of a proxy.
    pub name: String,
    pub id: i64,
    pub address: String,
    pub is_proxy: bool,
    /// Whether the broker unregistered.
    pub is_unregistered: bool,
    /// Time at which the server was last heard of, ms since the epoch.
    pub seen_ms: i64,
}

/// A proxy in cluster mode. Proxies exchange their clients through a topic, and are members of a group for this
/// purpose.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Proxy {
    pub client_id: String,
    pub host: String,
}

/// The brokers of one name, as a name server knows them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct BrokerSet {
    pub cluster: String,
    pub name: String,
    /// Address by broker id.
    pub addresses: BTreeMap<i64, String>,
}

/// The queues of a topic on one broker set.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Route {
    pub broker: String,
    pub read_queues: i32,
    pub write_queues: i32,
    pub perm: i32,
}

/// Facts that a broker reports about itself.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Broker {
    pub cluster: String,
    pub name: String,
    pub id: i64,
    pub address: String,
    /// Error of the request for the runtime information; absent when the broker answered.
    pub error: Option<String>,
    /// Response code if `error` is a refusal.
    pub error_code: Option<i32>,
    /// When the runtime information was asked for, ms since the epoch; 0 in a bundle of an older version.
    pub asked_from_ms: i64,
    /// When the runtime information arrived, ms since the epoch.
    pub asked_at_ms: i64,
    /// The runtime information.
    pub runtime: Option<BTreeMap<String, String>>,
    /// The settings. A setting that may hold a secret only has whether it is set.
    pub settings: Option<BTreeMap<String, String>>,
    /// Permission bits of the broker's topics, by name.
    pub topics: Option<BTreeMap<String, i32>>,
    /// Number of the broker's topics that are not in `topics`.
    pub topics_left_out: usize,
    pub replication: Option<Replication>,
    /// The delay levels of a master at which messages wait.
    pub levels: Option<Vec<DelayLevel>>,
    /// Half messages of a master that are not decided.
    pub halves: Option<Vec<Head>>,
    /// Records of popped messages that a master has not processed.
    pub revives: Option<Vec<Head>>,
    /// When the certificate of its port ends, ms since the epoch; absent when it speaks no TLS.
    pub certificate_ends_ms: Option<i64>,
    /// Counts of refused requests that did not grow between two looks.
    pub steady: BTreeSet<String>,
}

/// Waiting messages in a queue of a system topic of a broker. Facts about the first waiting message
/// are absent unless the broker lets operators read the queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Head {
    pub queue: i32,
    pub waiting: i64,
    /// When the first waiting message was stored, ms since the epoch.
    pub stored_ms: Option<i64>,
    /// When a producer made the first waiting message, ms since the epoch by the producer's clock.
    pub born_ms: Option<i64>,
    /// Producer group of a half message; empty for other messages.
    pub producer_group: String,
    /// Number of times that the producer was asked for the outcome.
    pub checks: i64,
}

/// A delay level at which messages wait.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct DelayLevel {
    pub level: i32,
    pub waiting: i64,
    /// When the first waiting message was due, ms since the epoch; absent if the broker does not
    /// let operators read the queue.
    pub due_ms: Option<i64>,
}

/// Figures that Vostok reports as constants, because RocketMQ's tools require them. The constants
/// tell nothing about the broker.
const CONSTANT_IN_VOSTOK: [&str; 6] = [
    "brokerActive",
    "dispatchBehindBytes",
    "pageCacheLockTimeMills",
    "putMessageFailedTimes",
    "remainTransientStoreBufferNumbs",
    "sendThreadPoolQueueHeadWaitTimeMills",
];

impl Broker {
    /// The broker as findings name it.
    pub fn title(&self) -> String {
        format!("{} (id {}, {})", self.name, self.id, self.address)
    }

    /// A figure of the runtime information as text; `None` also for a figure that Vostok answers with a constant.
    pub fn text(&self, name: &str) -> Option<&str> {
        let runtime = self.runtime.as_ref()?;
        let is_constant = runtime.contains_key("vostokVersion") && CONSTANT_IN_VOSTOK.contains(&name);
        runtime.get(name).filter(|_| !is_constant).map(String::as_str)
    }

    /// The first number of a figure of the runtime information.
    pub fn figure(&self, name: &str) -> Option<f64> {
        self.text(name)?.split([' ', ',']).next()?.parse().ok()
    }

    /// Whether the broker runs under its name and id by its own settings. In controller mode its settings do not say which id it has.
    pub fn is_named_so(&self) -> bool {
        let is = |name, expected: &str| self.is_planned(name) || self.setting(name) == Some(expected);
        self.setting("enableControllerMode") != Some("true")
            && is("brokerName", &self.name)
            && is("brokerId", &self.id.to_string())
    }

    /// The present value of a setting; `None` when the broker shows the value of its next start.
    pub fn setting(&self, name: &str) -> Option<&str> {
        let shown = self.settings.as_ref()?.get(name).map(String::as_str);
        shown.filter(|_| !self.is_planned(name))
    }

    /// Whether the broker shows the value of its next start.
    fn is_planned(&self, name: &str) -> bool {
        self.settings.as_ref().is_some_and(|shown| wire::settings::counts_after_restart(shown, name))
    }
}

/// Replication as a broker reports it: a master its slaves, a slave its connection to the master.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Replication {
    pub is_master: bool,
    pub in_sync: i64,
    pub slaves: Vec<Slave>,
    /// Local address of a slave's connection to its master; only slaves of Vostok report it.
    pub connection: Option<String>,
}

/// A slave that is connected to its master.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Slave {
    pub address: String,
    pub behind_bytes: i64,
    pub is_in_sync: bool,
}

/// State of a group of controllers that a controller reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Controller {
    pub address: String,
    /// Reason why the controller did not answer; absent if the controller answered.
    pub error: Option<String>,
    /// Address of the leading controller; empty if the controller knows none.
    pub leader: String,
}

/// The members of a broker set that has controllers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ReplicaSet {
    pub name: String,
    pub members: Vec<Replica>,
}

impl ReplicaSet {
    /// Number of members of the in-sync set, the master included.
    pub fn in_sync(&self) -> usize {
        self.members.iter().filter(|member| member.is_in_sync).count()
    }
}

/// A member of a broker set that has controllers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Replica {
    /// Broker id at the controllers, counted from 1.
    pub id: i64,
    pub address: String,
    pub is_master: bool,
    pub is_in_sync: bool,
    /// Whether the member's heartbeats arrive.
    pub is_alive: bool,
    /// Time of the last heartbeat of a member that is lost, ms since the epoch; absent if the controllers do not tell it.
    pub lost_ms: Option<i64>,
}

/// A topic and how far its queues reach.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Topic {
    pub name: String,
    pub queues: Vec<Queue>,
}

/// The range of a queue.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Queue {
    pub broker: String,
    pub queue: i32,
    pub min: i64,
    pub max: i64,
    /// Store time of the last message, ms since the epoch.
    pub last_ms: i64,
}

/// Progress of a consumer group in a lite topic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct LiteProgress {
    pub broker: String,
    /// Name of the parent topic.
    pub parent: String,
    pub group: String,
    pub lite_topic: String,
    /// Number of waiting messages.
    pub lag: i64,
    /// Store time of the first waiting message, ms since the epoch; absent when the broker does not tell it.
    pub first_ms: Option<i64>,
    /// Whether a member of the group subscribes to the lite topic; absent when the broker does not tell it.
    pub is_subscribed: Option<bool>,
}

/// A consumer group.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Group {
    pub name: String,
    /// Whether the group may consume; absent when no broker said so.
    pub is_enabled: Option<bool>,
    /// Whether a member is connected to a broker; absent when no broker could say.
    pub is_online: Option<bool>,
    /// Mode of consuming, as in `ConsumerConnection.consumeType`; empty when no member is online.
    pub consume_type: String,
    /// Message model, as in `ConsumerConnection.messageModel`; empty when no member is online.
    pub model: String,
    pub connections: Vec<Connection>,
    pub members: Vec<Member>,
    pub progress: Vec<Progress>,
    /// The queue locks of a group with lag; absent when no broker told of any.
    pub locks: Option<Vec<Lock>>,
}

/// A queue that a client of ordered consumption has locked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Lock {
    pub group: String,
    pub topic: String,
    pub broker: String,
    pub queue: i32,
    /// Client id of the holder.
    pub client: String,
    /// Milliseconds since the holder took or renewed the lock.
    pub age_ms: i64,
}

/// A connection of a member to one broker.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Connection {
    /// Address of the broker.
    pub broker: String,
    pub client_id: String,
    pub address: String,
    pub language: String,
    pub version: String,
}

/// State that a member of a group reports about itself.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Member {
    pub client_id: String,
    /// Error of the request for the member's status; absent when the member answered.
    pub error: Option<String>,
    /// Filter expression by topic.
    pub subscriptions: BTreeMap<String, String>,
    pub queues: Vec<Owned>,
    /// Messages per second that its listener failed to consume, by topic.
    pub failed: BTreeMap<String, f64>,
    /// Threads of its listener that stood at the same place in two dumps; absent without a second dump.
    pub standing: Option<Vec<Standing>>,
}

impl Member {
    /// Whether the member did not answer. Clients of gRPC report no status.
    pub fn is_silent(&self) -> bool {
        self.error.as_ref().is_some_and(|why| !has_no_status(why))
    }
}

/// A thread that stood at the same place in two dumps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Standing {
    pub thread: String,
    /// The method in which the thread stood.
    pub at: String,
    /// The nearest calling method that is not of Java's own; empty without one.
    pub called_by: String,
}

/// A queue that a member has.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Owned {
    pub topic: String,
    pub broker: String,
    pub queue: i32,
    /// Times of the last pull and of the last consumption, ms since the epoch by the member's clock; 0 for none.
    pub last_pull_ms: i64,
    pub last_consume_ms: i64,
    /// Messages that the member holds and has not consumed.
    pub cached: i64,
}

/// Progress of a group in a queue.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Progress {
    pub topic: String,
    pub broker: String,
    pub queue: i32,
    pub max: i64,
    pub committed: i64,
    pub pulled: i64,
    /// Store time of the last consumed message, ms since the epoch; 0 for none.
    pub last_ms: i64,
    /// Store time of the first unconsumed message, ms since the epoch; absent if the time is unknown.
    pub first_ms: Option<i64>,
    /// Whether the group's filter selects none of the messages from the committed offset on.
    pub is_done: bool,
    /// The committed offset some seconds later; absent without a second look.
    pub later: Option<Later>,
}

/// A second look at the progress.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Later {
    pub after_ms: i64,
    pub committed: i64,
}

impl Progress {
    /// Messages that are not consumed.
    pub fn lag(&self) -> i64 {
        if self.is_done { 0 } else { self.max - self.committed }
    }

    /// The queue as findings name it.
    pub fn title(&self) -> String {
        format!("{}/{}/{}", self.topic, self.broker, self.queue)
    }
}
