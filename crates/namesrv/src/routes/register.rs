//! Registration of a broker (`RouteInfoManager.registerBroker`).

use std::cmp::Ordering::{Equal, Greater, Less};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wire::body::{DataVersion, PERM_WRITE, TopicQueueMapping};

use super::{
    Bounds, Group, LiveBroker, MASTER, MinBrokerNotice, Routes, Shard, TopicQueues, cost, member, place,
    placed,
};

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
pub enum RegisterResult {
    /// The broker is in the tables.
    Accepted {
        /// Master of a slave, if it is live.
        master: Option<Master>,
        /// Notice, if the broker has a smaller id than all brokers that its group had before.
        notice: Option<MinBrokerNotice>,
        /// Address of the broker that had this name and id until now and still counts as live, unless controllers
        /// elected this broker in its place.
        replaced: Option<String>,
    },
    /// A master of a later epoch has this id. The tables are unchanged, except that this broker does not count as
    /// live.
    Fenced,
    /// The registration has a single topic, which only a registered broker may send. The tables are unchanged.
    Incomplete,
    /// The registration exceeds a bound of the tables, which are unchanged.
    Refused(Excess),
}

/// A bound that a registration exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected at most {max} {counted} ({setting}), found {found}")]
pub struct Excess {
    /// Unit of the bound.
    pub counted: &'static str,
    /// Setting of the bound.
    pub setting: &'static str,
    /// The bound.
    pub max: usize,
    /// Sum of everything in the tables and in the registration.
    pub found: usize,
}

impl Excess {
    pub(super) fn check(
        counted: &'static str,
        setting: &'static str,
        max: usize,
        found: usize,
    ) -> Result<(), Self> {
        if found > max { Err(Self { counted, setting, max, found }) } else { Ok(()) }
    }
}

/// Longest name or address in a registration, in bytes.
const NAME_BYTES_MAX: usize = 1024;

/// Decisions about a registration, made before the tables change.
pub(super) struct RegistrationPlan {
    previous_smallest: i64,
    replaced: Option<String>,
    /// Whether the broker's topics are used: the broker is the master, or the slave with the smallest id.
    pub takes_topics: bool,
    /// Whether the tables have no topics of this data version from the broker.
    pub is_changed: bool,
    /// Permission bits that the broker's topics do not get.
    strip: i32,
    /// Growth of the tables by the registration. [`Routes::plan`] counts its filter servers.
    pub growth: Growth,
}

/// Growth of the tables by a registration.
#[derive(Default)]
pub(super) struct Growth {
    pub bytes: usize,
    pub topics: usize,
}

impl Routes {
    /// Decides about a registration.
    ///
    /// # Errors
    /// The result of a registration that does not change the tables.
    pub(super) fn plan(
        &self,
        registration: &Registration<'_>,
        brokers_max: usize,
    ) -> Result<RegistrationPlan, Box<RegisterResult>> {
        let Registration { cluster, broker, address, id, content, .. } = registration;
        let known = self.groups.get(*broker);
        let holder = known.and_then(|group| group.addresses.get(id));
        let is_first = holder.is_none();
        if is_first && content.topics.len() == 1 {
            return Err(Box::new(RegisterResult::Incomplete));
        }
        let live = self.live(cluster, address);
        let other = holder.filter(|holder| holder != address);
        let other =
            other.and_then(|holder| Some((holder, self.live(cluster, holder)?.version.state_version)));
        let replaced =
            match other.map(|(holder, version)| (holder, version.cmp(&content.version.state_version))) {
                Some((_, Greater)) => return Err(Box::new(RegisterResult::Fenced)),
                Some((holder, Equal)) => Some(holder.clone()),
                // The broker was elected, or replaces no other broker.
                Some((_, Less)) | None => None,
            };
        self.check_room(registration, is_first || live.is_none(), brokers_max)
            .map_err(|excess| Box::new(RegisterResult::Refused(excess)))?;
        let smallest_other = known.and_then(|group| {
            group.addresses.iter().find(|(other, held)| *other != id && *held != address).map(|(id, _)| *id)
        });
        let is_prime_slave = registration.acting_master.is_some()
            && *id != MASTER
            && smallest_other.is_none_or(|smallest| *id < smallest);
        let acts = is_prime_slave && registration.acting_master == Some(true);
        let stored = self.filters.get(&member(cluster, address)).map_or(0, |servers| cost::servers(servers));
        let servers = content.filter_servers.as_deref().map_or(0, cost::servers);
        Ok(RegistrationPlan {
            previous_smallest: known.and_then(Group::smallest).map_or(MASTER, |(smallest, _)| smallest),
            replaced,
            takes_topics: *id == MASTER || is_prime_slave,
            is_changed: is_first || live.is_none_or(|live| live.version != content.version),
            strip: if acts { PERM_WRITE } else { 0 },
            growth: Growth { bytes: servers.saturating_sub(stored), topics: 0 },
        })
    }

    /// Checks the length of names, and the numbers of brokers and clusters.
    fn check_room(
        &self,
        registration: &Registration<'_>,
        is_new: bool,
        brokers_max: usize,
    ) -> Result<(), Excess> {
        let Registration { cluster, broker, address, ha_address, zone, .. } = registration;
        for text in [cluster, broker, address, ha_address, &zone.unwrap_or_default()] {
            Excess::check("bytes of a name", "a fixed bound", NAME_BYTES_MAX, text.len())?;
        }
        if is_new {
            let addresses: usize = self.groups.values().map(|group| group.addresses.len()).sum();
            let brokers = addresses.max(self.live.len()).max(self.clusters.len()) + 1;
            Excess::check("brokers", "brokersMax", brokers_max, brokers)?;
        }
        Ok(())
    }

    /// Adds the growth of the tables by these topics, all of one shard.
    pub(super) fn measure(
        &self,
        plan: &mut RegistrationPlan,
        broker: &str,
        shard: usize,
        content: &Content,
        names: &[&str],
    ) {
        let Shard { topics, mappings } = &self.shards[shard];
        let Growth { bytes, topics: count } = &mut plan.growth;
        for topic in names {
            let stored = topics.get(*topic);
            if stored.is_none() {
                *bytes += cost::TOPIC + topic.len();
            }
            if stored.is_none_or(|placement| placed(placement, broker).is_none()) {
                *bytes += cost::PLACE;
                *count += 1;
            }
            if plan.is_changed
                && let Some(mapping) = content.mappings.get(*topic)
            {
                let stored = mappings.get(*topic).and_then(|mappings| mappings.get(&mapping.bname));
                *bytes += cost::mapping(mapping).saturating_sub(stored.map_or(0, cost::mapping));
            }
        }
    }

    /// Checks the measured growth against the bounds.
    pub(super) fn check_growth(&self, broker: &str, growth: &Growth, bounds: &Bounds) -> Result<(), Excess> {
        let topics = self.groups.get(broker).map_or(0, |group| group.topics) + growth.topics;
        if growth.topics > 0 {
            Excess::check("topics of a broker", "topicsPerBrokerMax", bounds.topics_per_broker, topics)?;
        }
        if growth.bytes > 0 {
            Excess::check("bytes of routes", "routeBytesMax", bounds.bytes, self.bytes + growth.bytes)?;
        }
        Ok(())
    }

    /// Adds a broker to its group and cluster.
    pub(super) fn join(&mut self, registration: &Registration<'_>) {
        let Registration { cluster, broker, address, id, .. } = registration;
        self.clusters.entry((*cluster).to_owned()).or_default().insert((*broker).to_owned());
        let group = self.groups.entry((*broker).to_owned()).or_default();
        if group.cluster.is_empty() {
            (*cluster).clone_into(&mut group.cluster);
        }
        group.acting_master = registration.acting_master == Some(true);
        group.zone = registration.zone.map(str::to_owned);
        group.addresses.retain(|other, held| other == id || held != address);
        group.addresses.insert(*id, (*address).to_owned());
    }

    /// Removes a group's topics of one shard that a registration does not contain.
    pub(super) fn prune(&mut self, broker: &str, shard: usize, content: &Content) {
        let removed = self.retain_topics(shard, |topic, placement| {
            if !content.topics.contains_key(topic) {
                placement.retain(|(name, _)| **name != *broker);
            }
        });
        if let Some(group) = self.groups.get_mut(broker) {
            group.topics -= removed;
        }
    }

    /// Stores changed or missing queues of these topics, all of one shard.
    pub(super) fn store_topics(
        &mut self,
        plan: &RegistrationPlan,
        broker: &Arc<str>,
        shard: usize,
        content: &Content,
        names: &[&str],
    ) {
        let Shard { topics, mappings } = &mut self.shards[shard];
        let mut added = 0;
        for name in names {
            let queues = &content.topics[*name];
            let placement = match topics.get_mut(*name) {
                Some(placement) => placement,
                None => {
                    self.bytes += cost::TOPIC + name.len();
                    topics.entry((*name).into()).or_default()
                }
            };
            if plan.is_changed || placed(placement, broker).is_none() {
                let queues = TopicQueues { perm: queues.perm & !plan.strip, ..*queues };
                added += usize::from(place(placement, broker, queues));
            }
            if plan.is_changed
                && let Some(mapping) = content.mappings.get(*name)
            {
                self.bytes += cost::mapping(mapping);
                let mappings = mappings.entry((*name).into()).or_default();
                let old = mappings.insert(mapping.bname.clone(), mapping.clone());
                self.bytes -= old.as_ref().map_or(0, cost::mapping);
            }
        }
        self.bytes += added * cost::PLACE;
        if let Some(group) = self.groups.get_mut(&**broker) {
            group.topics += added;
        }
    }

    /// Records the registered broker as live, and returns the result of the registration.
    pub(super) fn complete(
        &mut self,
        now: Instant,
        registration: &Registration<'_>,
        plan: RegistrationPlan,
    ) -> RegisterResult {
        let Registration { cluster, broker, id, ha_address, .. } = registration;
        self.store_live(now, registration);
        let master = if *id == MASTER { None } else { self.master(cluster, broker) };
        let group = self.groups.get(*broker).filter(|_| *id < plan.previous_smallest);
        let notice = group.and_then(|group| MinBrokerNotice::new(group, None, Some(ha_address)));
        RegisterResult::Accepted { master, notice, replaced: plan.replaced }
    }

    fn store_live(&mut self, now: Instant, registration: &Registration<'_>) {
        let key = member(registration.cluster, registration.address);
        let live = LiveBroker {
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
            Some(servers) => {
                self.forget_filters(&key);
                if !servers.is_empty() {
                    self.bytes += cost::servers(servers);
                    self.filters.insert(key.clone(), servers.clone());
                }
            }
        }
        self.forget_departure(&key, registration.broker, registration.id);
        self.live.insert(key, live);
    }

    fn master(&self, cluster: &str, broker: &str) -> Option<Master> {
        let address = self.groups.get(broker)?.addresses.get(&MASTER)?;
        let live = self.live(cluster, address)?;
        Some(Master { address: address.clone(), ha_address: live.ha_address.clone() })
    }
}
