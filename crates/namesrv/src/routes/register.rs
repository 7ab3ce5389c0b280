//! Registration of a broker (`RouteInfoManager.registerBroker`).

use std::cmp::Ordering::{Equal, Greater, Less};
use std::collections::HashMap;
use std::time::{Duration, Instant};

use wire::body::{DataVersion, PERM_WRITE, TopicQueueMapping};

use super::{Group, Live, MASTER, MinBrokerNotice, Routes, TopicQueues, member, place, placed};

/// A broker's registration.
#[derive(Debug)]
pub struct Registration<'a> {
    /// The broker's cluster.
    pub cluster: &'a str,
    /// Name of the broker's group.
    pub broker: &'a str,
    /// The broker's address, `ip:port`.
    pub address: &'a str,
    /// The broker's id in the group; 0 is the master.
    pub id: i64,
    /// Address from which slaves replicate the commit log.
    pub ha_address: &'a str,
    /// The broker's zone.
    pub zone: Option<&'a str>,
    /// Whether a slave may act for a lost master; `None` from brokers before 5.0.
    pub acting_master: Option<bool>,
    /// Time without heartbeat after which the broker counts as lost.
    pub timeout: Duration,
    /// Id of the connection on which the broker registers.
    pub connection: u64,
    /// The body of the request.
    pub content: Content,
}

/// The body of a registration: topics by name and their version.
#[derive(Debug, Default)]
pub struct Content {
    /// Legacy filter servers; `None` leaves the stored list unchanged.
    pub filter_servers: Option<Vec<String>>,
    /// Data version of the topics.
    pub version: DataVersion,
    /// Queues by topic.
    pub topics: HashMap<String, TopicQueues>,
    /// Static-topic mappings by topic.
    pub mappings: HashMap<String, TopicQueueMapping>,
}

/// The master a slave follows.
#[derive(Debug, PartialEq, Eq)]
pub struct Master {
    /// The master's address.
    pub address: String,
    /// Address from which to replicate the commit log.
    pub ha_address: String,
}

/// Result of a registration.
#[derive(Debug, PartialEq, Eq)]
pub enum Registered {
    /// The broker is in the tables.
    Accepted {
        /// For a slave: its master, if that is live.
        master: Option<Master>,
        /// A notice, when the broker is the new smallest one of its group.
        notice: Option<MinBrokerNotice>,
        /// Address of the broker that had this name and id until now and still counts as live, unless controllers elected
        /// this one in its place.
        replaced: Option<String>,
    },
    /// A master of a later epoch has this id. Nothing changed, except that this broker does not count as live.
    Fenced,
    /// The registration has a single topic, which only a registered broker may send. Nothing changed.
    Incomplete,
}

impl Routes {
    /// Adds a broker and its topics to the tables. With `prune`, topics that the registration does not contain are removed.
    pub fn register(&mut self, now: Instant, registration: &Registration<'_>, prune: bool) -> Registered {
        let Registration { cluster, broker, address, id, content, .. } = registration;
        let known = self.groups.get(*broker);
        let holder = known.and_then(|group| group.addresses.get(id));
        let is_first = holder.is_none();
        if is_first && content.topics.len() == 1 {
            return Registered::Incomplete;
        }
        let other = holder.filter(|holder| holder != address);
        let other =
            other.and_then(|holder| Some((holder, self.live(cluster, holder)?.version.state_version)));
        let replaced =
            match other.map(|(holder, version)| (holder, version.cmp(&content.version.state_version))) {
                Some((_, Greater)) => {
                    self.live.remove(&member(cluster, address));
                    return Registered::Fenced;
                }
                Some((holder, Equal)) => Some(holder.clone()),
                // Elected, or nobody is replaced.
                Some((_, Less)) | None => None,
            };
        let previous_smallest = known.and_then(Group::smallest).map_or(MASTER, |(smallest, _)| smallest);

        self.clusters.entry((*cluster).to_owned()).or_default().insert((*broker).to_owned());
        let group = self.groups.entry((*broker).to_owned()).or_default();
        if group.cluster.is_empty() {
            (*cluster).clone_into(&mut group.cluster);
        }
        group.acting_master = registration.acting_master == Some(true);
        group.zone = registration.zone.map(str::to_owned);
        group.addresses.retain(|other, held| other == id || held != address);
        group.addresses.insert(*id, (*address).to_owned());
        let is_prime_slave = registration.acting_master.is_some()
            && *id != MASTER
            && group.smallest().is_some_and(|(smallest, _)| smallest == *id);
        let strip = if is_prime_slave && group.acting_master { PERM_WRITE } else { 0 };

        if *id == MASTER || is_prime_slave {
            let live = self.live.get(&member(cluster, address));
            let is_changed = is_first || live.is_none_or(|live| live.version != content.version);
            self.store_topics(broker, content, strip, is_changed, prune);
        }
        self.store_live(now, registration);
        let master = if *id == MASTER { None } else { self.master(cluster, broker) };
        let notice = if *id < previous_smallest {
            self.groups
                .get(*broker)
                .and_then(|group| MinBrokerNotice::new(group, None, Some(registration.ha_address)))
        } else {
            None
        };
        Registered::Accepted { master, notice, replaced }
    }

    /// Stores queues that changed or are missing, without the permission bits in `strip`.
    fn store_topics(&mut self, broker: &str, content: &Content, strip: i32, is_changed: bool, prune: bool) {
        if prune && content.mappings.is_empty() {
            self.retain_topics(|topic, placement| {
                if !content.topics.contains_key(topic) {
                    placement.retain(|(name, _)| **name != *broker);
                }
            });
        }
        for (topic, queues) in &content.topics {
            let placement = match self.topics.get_mut(topic.as_str()) {
                Some(placement) => placement,
                None => self.topics.entry(topic.as_str().into()).or_default(),
            };
            if is_changed || placed(placement, broker).is_none() {
                place(placement, broker, TopicQueues { perm: queues.perm & !strip, ..*queues });
            }
        }
        if is_changed {
            for (topic, mapping) in &content.mappings {
                let mappings = self.mappings.entry(topic.as_str().into()).or_default();
                mappings.insert(mapping.bname.clone(), mapping.clone());
            }
        }
    }

    fn store_live(&mut self, now: Instant, registration: &Registration<'_>) {
        let key = member(registration.cluster, registration.address);
        let live = Live {
            broker: registration.broker.to_owned(),
            id: registration.id,
            seen: now,
            timeout: registration.timeout,
            version: registration.content.version,
            connection: registration.connection,
            ha_address: registration.ha_address.to_owned(),
        };
        match &registration.content.filter_servers {
            None => {}
            Some(servers) if servers.is_empty() => drop(self.filters.remove(&key)),
            Some(servers) => drop(self.filters.insert(key.clone(), servers.clone())),
        }
        self.live.insert(key, live);
    }

    fn master(&self, cluster: &str, broker: &str) -> Option<Master> {
        let address = self.groups.get(broker)?.addresses.get(&MASTER)?;
        let live = self.live(cluster, address)?;
        Some(Master { address: address.clone(), ha_address: live.ha_address.clone() })
    }
}
