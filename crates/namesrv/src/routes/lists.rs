//! Lists of brokers and topics in the route tables.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use serde::Serialize;
use wire::body::{DepartedBroker, ReplacedBroker};

use super::{BrokerView, Routes, TopicPlacement};

/// Bit of `topicSysFlag`: unit topic.
const UNIT: i32 = 1;
/// Bit of `topicSysFlag`: unit subscription.
const UNIT_SUB: i32 = 2;

/// All broker groups and clusters; serializes like `wire::body::ClusterInfo`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterView<'a> {
    /// Broker groups by name.
    pub broker_addr_table: BTreeMap<&'a str, BrokerView<'a>>,
    /// Names of the broker groups by cluster.
    pub cluster_addr_table: &'a BTreeMap<String, BTreeSet<String>>,
}

/// Broker group that serializes like `wire::body::BrokerMemberGroup`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberView<'a> {
    /// Address by broker id.
    pub broker_addrs: Cow<'a, BTreeMap<i64, String>>,
    /// Name of the group.
    pub broker_name: &'a str,
    /// The cluster in the request.
    pub cluster: &'a str,
}

/// Names that are topics of every broker, and the address of a broker; serializes like `wire::body::TopicList`.
#[derive(Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct SystemTopics<'a> {
    /// Address of any broker.
    pub broker_addr: Option<&'a str>,
    /// Names of all clusters and broker groups.
    pub topic_list: BTreeSet<&'a str>,
}

/// Which unit topics to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Units {
    /// Unit topics.
    Unit,
    /// Topics with unit subscriptions.
    Subscribed,
    /// Topics with unit subscriptions that are no unit topics.
    SubscribedOnly,
}

impl Routes {
    /// All groups and clusters.
    pub fn clusters(&self) -> ClusterView<'_> {
        let groups = self.groups.iter();
        ClusterView {
            broker_addr_table: groups
                .map(|(name, group)| (name.as_str(), BrokerView::new(name, group)))
                .collect(),
            cluster_addr_table: &self.clusters,
        }
    }

    /// Returns the brokers that count as live while another address has their name and id. Only a running broker
    /// registers again, so a broker that moved to another address is here for at most its timeout.
    pub fn replaced(&self) -> Vec<ReplacedBroker> {
        let replaced = self.live.iter().filter_map(|((_, address), live)| {
            let group = self.groups.get(&live.broker)?;
            let is_replaced = group.addresses.get(&live.id).is_some_and(|holder| holder != address);
            // The cluster is that of the group, so that both stand under one: there is one group of a name, whatever its brokers say.
            is_replaced.then(|| ReplacedBroker {
                broker_addr: address.clone(),
                broker_id: live.id,
                broker_name: live.broker.clone(),
                cluster: group.cluster.clone(),
            })
        });
        replaced.collect()
    }

    /// The brokers that left and did not come back.
    pub fn departed(&self, now: Instant) -> Vec<DepartedBroker> {
        let silent_ms = |seen| i64::try_from(now.saturating_duration_since(seen).as_millis());
        let departed = self.departed.iter().map(|((cluster, address), departed)| DepartedBroker {
            broker_addr: address.clone(),
            broker_id: departed.id,
            broker_name: departed.broker.clone(),
            cluster: cluster.clone(),
            is_unregistered: departed.is_unregistered,
            silent_ms: silent_ms(departed.seen).unwrap_or(i64::MAX),
        });
        departed.collect()
    }

    /// Returns a broker group by name, without addresses if it is unknown.
    pub fn members<'a>(&'a self, cluster: &'a str, broker: &'a str) -> MemberView<'a> {
        let addresses = self.groups.get(broker).map(|group| Cow::Borrowed(&group.addresses));
        MemberView { broker_addrs: addresses.unwrap_or_default(), broker_name: broker, cluster }
    }

    /// The topics of a shard that `is_meant` accepts.
    pub(super) fn topics(
        &self,
        shard: usize,
        is_meant: impl Fn(&Self, &TopicPlacement) -> bool,
    ) -> impl Iterator<Item = &str> {
        let topics = self.shards[shard].topics.iter();
        topics.filter(move |(_, placement)| is_meant(self, placement)).map(|(topic, _)| &**topic)
    }

    /// Whether a topic has queues in a cluster.
    pub(super) fn is_in(&self, cluster: &str, placement: &TopicPlacement) -> bool {
        let brokers = self.clusters.get(cluster);
        brokers.is_some_and(|brokers| placement.iter().any(|(broker, _)| brokers.contains(&**broker)))
    }

    /// The names of clusters and broker groups, which are topics of every broker.
    pub fn system_topics(&self) -> SystemTopics<'_> {
        let brokers = self.clusters.values().flatten();
        SystemTopics {
            broker_addr: self.groups.values().find_map(|group| group.smallest()).map(|(_, address)| address),
            topic_list: self.clusters.keys().chain(brokers).map(String::as_str).collect(),
        }
    }
}

impl Units {
    /// Whether a topic must be listed. The flags are those of the topic's queues on its first broker.
    pub(super) fn include(self, placement: &TopicPlacement) -> bool {
        let has = |flags: i32| match self {
            Self::Unit => flags & UNIT != 0,
            Self::Subscribed => flags & UNIT_SUB != 0,
            Self::SubscribedOnly => flags & (UNIT | UNIT_SUB) == UNIT_SUB,
        };
        placement.first().is_some_and(|(_, queues)| has(queues.topic_sys_flag))
    }
}
