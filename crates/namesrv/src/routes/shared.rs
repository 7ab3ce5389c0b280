//! The route tables of all threads: lookups share them, changes are made one at a time and in short steps.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use wire::body::{PERM_READ, PERM_WRITE, QueueData};

use super::{Content, Departure, MinBrokerNotice, RegisterResult, Registration, Routes, SHARDS, Units};

/// Bounds of the route tables.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Most brokers, and most clusters.
    pub brokers: usize,
    /// Most topics that have queues on a broker group.
    pub topics_per_broker: usize,
    /// Most estimated bytes of topics.
    pub bytes: usize,
}

/// Selection of topics to list.
pub(crate) enum TopicFilter<'a> {
    /// All topics.
    All,
    /// Topics with queues in a cluster.
    Cluster(&'a str),
    /// Topics with unit flags.
    Units(Units),
}

/// The route tables with their locks.
#[derive(Debug, Default)]
pub struct SharedRoutes {
    tables: RwLock<Routes>,
    /// Lock of a change of several steps.
    change: Mutex<()>,
}

impl SharedRoutes {
    // A panic under these locks is a bug in the handler of a request; the tables stay usable for further requests.

    /// The tables, for lookups.
    pub fn read(&self) -> RwLockReadGuard<'_, Routes> {
        self.tables.read()
    }

    /// Records a heartbeat; a broker that is not registered stays unknown (`updateBrokerInfoUpdateTimestamp`).
    pub fn touch(&self, now: Instant, cluster: &str, address: &str) {
        self.tables.write().touch(now, cluster, address);
    }

    /// Adds a broker and its topics to the tables, or changes nothing. With `prune`, topics outside the registration
    /// are removed.
    pub fn register(
        &self,
        now: Instant,
        registration: &Registration<'_>,
        prune: bool,
        bounds: &Bounds,
    ) -> RegisterResult {
        let _change = self.change.lock();
        let planned = self.read().plan(registration, bounds.brokers);
        let mut plan = match planned {
            Ok(plan) => plan,
            Err(registered) => {
                if *registered == RegisterResult::Fenced {
                    self.tables.write().forget_live(registration.cluster, registration.address);
                }
                return *registered;
            }
        };
        let Registration { broker, content, .. } = registration;
        let shards = if plan.takes_topics { self.distribute(content) } else { Vec::new() };
        for (shard, names) in shards.iter().enumerate().filter(|(_, names)| !names.is_empty()) {
            self.read().measure(&mut plan, broker, shard, content, names);
        }
        if let Err(excess) = self.read().check_growth(broker, &plan.growth, bounds) {
            return RegisterResult::Refused(excess);
        }
        self.tables.write().join(registration);
        let prune = prune && content.mappings.is_empty();
        let name: Arc<str> = (*broker).into();
        for (shard, names) in shards.iter().enumerate() {
            if prune {
                self.tables.write().prune(broker, shard, content);
            }
            if !names.is_empty() {
                self.tables.write().store_topics(&plan, &name, shard, content, names);
            }
        }
        self.tables.write().complete(now, registration, plan)
    }

    /// Topics of a registration by shard.
    fn distribute<'a>(&self, content: &'a Content) -> Vec<Vec<&'a str>> {
        let mut shards = vec![Vec::new(); SHARDS];
        let hasher = self.read().hasher.clone();
        for topic in content.topics.keys() {
            shards[super::shard_of(&hasher, topic)].push(topic.as_str());
        }
        shards
    }

    /// Removes brokers, and the queues of groups without remaining brokers (`unRegisterBroker`). Returns a notice
    /// for each group with acting master whose broker with the smallest id left.
    pub fn unregister(&self, departures: &[Departure]) -> Vec<MinBrokerNotice> {
        let _change = self.change.lock();
        let left = self.tables.write().leave(departures);
        if left.changes_topics() {
            (0..SHARDS).for_each(|shard| self.tables.write().withdraw_queues(shard, &left));
        }
        left.notices
    }

    /// Removes the write permission of a broker's topics; returns the number of topics (`wipeWritePermOfBrokerByLock`). The
    /// broker's next registration with a new data version restores the permission.
    pub fn wipe_write_perm(&self, broker: &str) -> usize {
        self.change_perm(broker, |perm| perm & !PERM_WRITE)
    }

    /// Adds read and write permission to a broker's topics. Returns the number of topics
    /// (`addWritePermOfBrokerByLock`).
    pub fn add_write_perm(&self, broker: &str) -> usize {
        self.change_perm(broker, |_| PERM_READ | PERM_WRITE)
    }

    fn change_perm(&self, broker: &str, change: impl Fn(i32) -> i32) -> usize {
        let _change = self.change.lock();
        (0..SHARDS).map(|shard| self.tables.write().change_perm(shard, broker, &change)).sum()
    }

    /// Removes a topic from one cluster, or from all.
    pub fn delete_topic(&self, topic: &str, cluster: Option<&str>) {
        let _change = self.change.lock();
        self.tables.write().delete_topic(topic, cluster);
    }

    /// Registers a topic by request (`registerTopic`): adds the queues up to the first unknown broker. A new
    /// topic is added only if all brokers are known. Returns false if the bound of the tables is reached.
    pub fn add_topic(&self, topic: &str, queues: &[QueueData], bounds: &Bounds) -> bool {
        let _change = self.change.lock();
        self.tables.write().add_topic(topic, queues, bounds.bytes)
    }

    /// Topics, sorted; none of an unknown cluster.
    pub(crate) fn topics(&self, listed: &TopicFilter<'_>) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for shard in 0..SHARDS {
            let routes = self.read();
            let topics = routes.topics(shard, |routes, placement| match listed {
                TopicFilter::All => true,
                TopicFilter::Cluster(cluster) => routes.is_in(cluster, placement),
                TopicFilter::Units(units) => units.include(placement),
            });
            names.extend(topics.map(str::to_owned));
        }
        names.sort_unstable();
        names
    }
}
