//! The route tables: all brokers, and the queues of all topics on them (`RouteInfoManager`).
//!
//! | table | key | value |
//! |---|---|---|
//! | topics, in shards | topic | queues by broker name, sorted |
//! | groups | broker name | cluster, address by broker id, number of topics |
//! | clusters | cluster | broker names |
//! | live | cluster, address | last heartbeat, data version, connection, name and id |
//! | departed | cluster, address | last heartbeat, name and id of a broker that left |
//! | filters | cluster, address | legacy filter servers |
//! | mappings, in the shard of the topic | topic | static-topic mapping by broker name |
//!
//! Changes go through [`SharedRoutes`], one at a time. A change of many topics is made shard by shard, so that lookups continue
//! between two shards: a lookup sees a topic before or after the change. Between two changes the tables agree: every broker name in
//! `clusters` is in `groups` and vice versa, no group is without address, no topic without queues.

mod change;
mod leave;
mod lists;
mod register;
mod shared;
mod view;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Deserialize;
use wire::body::{DataVersion, PERM_READ, PERM_WRITE, TopicQueueMapping};

pub use leave::Departure;
pub use lists::{ClusterView, MemberView, SystemTopics, Units};
pub use register::{Content, Excess, Master, RegisterResult, Registration};
pub(crate) use shared::TopicFilter;
pub use shared::{Bounds, SharedRoutes};
pub use view::{BrokerView, QueueView, RouteOptions, RouteView};

/// The broker id of a master.
const MASTER: i64 = 0;

/// The queues of a topic in one broker group (`TopicConfig`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicQueues {
    /// Permission bits (`PermName`).
    pub perm: i32,
    /// Number of queues that consumers read.
    pub read_queue_nums: i32,
    /// Bit 0: unit topic, bit 1: unit subscription.
    #[serde(alias = "topicSynFlag")]
    pub topic_sys_flag: i32,
    /// Number of queues that producers write.
    pub write_queue_nums: i32,
}

impl Default for TopicQueues {
    fn default() -> Self {
        Self { perm: PERM_READ | PERM_WRITE, read_queue_nums: 16, topic_sys_flag: 0, write_queue_nums: 16 }
    }
}

/// The queues of a topic by broker name, sorted: a short list that is searched directly.
type TopicPlacement = Vec<(Arc<str>, TopicQueues)>;

/// Stores the queues of a topic on a broker group; returns whether the group had none.
fn place(placement: &mut TopicPlacement, broker: &Arc<str>, queues: TopicQueues) -> bool {
    match placement.binary_search_by(|(name, _)| (**name).cmp(broker)) {
        Ok(at) => {
            placement[at].1 = queues;
            false
        }
        Err(at) => {
            placement.reserve_exact(1);
            placement.insert(at, (broker.clone(), queues));
            true
        }
    }
}

fn placed<'a>(placement: &'a TopicPlacement, broker: &str) -> Option<&'a TopicQueues> {
    let at = placement.binary_search_by(|(name, _)| (**name).cmp(broker)).ok()?;
    Some(&placement[at].1)
}

/// Number of shards of the topic table. A change holds the lock for the topics of one shard.
const SHARDS: usize = if cfg!(test) { 3 } else { 64 };

/// Topics of one shard, and their static-topic mappings. Invariant: each topic of `mappings` is in `topics`.
#[derive(Debug, Default)]
struct Shard {
    topics: HashMap<Box<str>, TopicPlacement>,
    mappings: HashMap<Box<str>, BTreeMap<String, TopicQueueMapping>>,
}

/// Bytes that entries of the tables take beside their texts, slack of the allocator included.
mod cost {
    use wire::body::TopicQueueMapping;

    pub(super) const TOPIC: usize = 128;
    pub(super) const PLACE: usize = 64;

    pub(super) fn mapping(mapping: &TopicQueueMapping) -> usize {
        let texts = mapping.bname.len() * 2
            + mapping.topic.len()
            + mapping.scope.as_deref().unwrap_or_default().len();
        256 + texts + mapping.curr_id_map.len() * 16
    }

    pub(super) fn servers(servers: &[String]) -> usize {
        servers.iter().map(|server| 64 + server.len()).sum()
    }
}

/// A broker group: a master and its slaves. Invariant: `addresses` is not empty.
#[derive(Debug, Clone, Default)]
struct Group {
    cluster: String,
    addresses: BTreeMap<i64, String>,
    acting_master: bool,
    zone: Option<String>,
    /// Number of topics with queues on the group.
    topics: usize,
}

impl Group {
    fn smallest(&self) -> Option<(i64, &str)> {
        self.addresses.first_key_value().map(|(id, address)| (*id, address.as_str()))
    }
}

/// Key of a broker process: cluster and address.
type Member = (String, String);

fn member(cluster: &str, address: &str) -> Member {
    (cluster.to_owned(), address.to_owned())
}

/// A registered broker process.
#[derive(Debug, Clone)]
pub struct LiveBroker {
    /// Name of the broker's group.
    pub broker: String,
    /// The broker's id in the group.
    pub id: i64,
    /// Time of the last registration or heartbeat.
    pub seen: Instant,
    /// Time without heartbeat after which the broker counts as lost.
    pub timeout: Duration,
    /// Data version of the topics that the broker registered.
    pub version: DataVersion,
    /// Id of the connection on which the broker registered.
    pub connection: u64,
    /// Address from which slaves replicate the commit log.
    pub ha_address: String,
}

/// A broker that left and did not come back.
#[derive(Debug, Clone)]
struct DepartedMember {
    broker: String,
    id: i64,
    /// Time of the last registration or heartbeat.
    seen: Instant,
    is_unregistered: bool,
}

/// A notice that the smallest broker id of a group changed (`NOTIFY_MIN_BROKER_ID_CHANGE`), and its recipients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MinBrokerNotice {
    /// The smallest broker id now.
    pub id: i64,
    /// Address of the broker with this id.
    pub address: String,
    /// Address of the broker that left, if one did.
    pub offline_address: Option<String>,
    /// Address from which to replicate the commit log, if a broker was added.
    pub ha_address: Option<String>,
    /// Addresses of the brokers to notify.
    pub recipients: Vec<String>,
}

impl MinBrokerNotice {
    fn new(group: &Group, offline_address: Option<&str>, ha_address: Option<&str>) -> Option<Self> {
        let (id, address) = group.smallest()?;
        let notify_all = offline_address.is_some() || group.addresses.len() == 1;
        let notified = group.addresses.iter().filter(|(other, _)| notify_all || **other != id);
        Some(Self {
            id,
            address: address.to_owned(),
            offline_address: offline_address.map(str::to_owned),
            ha_address: ha_address.map(str::to_owned),
            recipients: notified.map(|(_, address)| address.clone()).collect(),
        })
    }
}

fn shard_of(hasher: &RandomState, topic: &str) -> usize {
    usize::try_from(hasher.hash_one(topic) % SHARDS as u64).expect("below the number of shards")
}

/// The route tables.
#[derive(Debug)]
pub struct Routes {
    shards: [Shard; SHARDS],
    /// Hash by which topics are distributed; random, so that no client can choose names for a single shard.
    hasher: RandomState,
    /// Estimated bytes of topics, mappings and filter servers.
    bytes: usize,
    groups: BTreeMap<String, Group>,
    clusters: BTreeMap<String, BTreeSet<String>>,
    live: BTreeMap<Member, LiveBroker>,
    departed: BTreeMap<Member, DepartedMember>,
    filters: BTreeMap<Member, Vec<String>>,
}

impl Default for Routes {
    fn default() -> Self {
        Self {
            shards: std::array::from_fn(|_| Shard::default()),
            hasher: RandomState::new(),
            bytes: 0,
            groups: BTreeMap::new(),
            clusters: BTreeMap::new(),
            live: BTreeMap::new(),
            departed: BTreeMap::new(),
            filters: BTreeMap::new(),
        }
    }
}

impl Routes {
    fn shard_of(&self, topic: &str) -> usize {
        shard_of(&self.hasher, topic)
    }

    fn shard(&self, topic: &str) -> &Shard {
        &self.shards[self.shard_of(topic)]
    }

    /// The registration of a broker process.
    pub fn live(&self, cluster: &str, address: &str) -> Option<&LiveBroker> {
        self.live.get(&member(cluster, address))
    }

    /// Records a heartbeat; a broker that is not registered stays unknown (`updateBrokerInfoUpdateTimestamp`).
    fn touch(&mut self, now: Instant, cluster: &str, address: &str) {
        if let Some(live) = self.live.get_mut(&member(cluster, address)) {
            live.seen = now;
        }
    }

    fn forget_live(&mut self, cluster: &str, address: &str) {
        self.live.remove(&member(cluster, address));
    }
}

#[cfg(test)]
mod tests;
