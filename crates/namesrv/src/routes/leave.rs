//! Removal of brokers: by their request, when their connection ends, or after missing heartbeats.

use std::collections::BTreeSet;
use std::time::Instant;

use wire::body::PERM_WRITE;

use super::{
    DepartedMember, LiveBroker, MASTER, Member, MinBrokerNotice, Routes, Shard, TopicPlacement, cost, member,
};

/// Departures that are remembered; the oldest is dropped.
const DEPARTED_MAX: usize = if cfg!(test) { 3 } else { 256 };

/// A broker to be removed from the tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Departure {
    /// The broker's cluster.
    pub cluster: String,
    /// Name of the broker's group.
    pub broker: String,
    /// The broker's address.
    pub address: String,
    /// The broker's id in the group.
    pub id: i64,
    /// Ended connection of a lost broker. The broker stays if it has registered on another connection since. `None`
    /// for a broker that unregistered.
    pub connection: Option<u64>,
}

/// Result of departures: the groups whose queues must be withdrawn, and notices. A group with acting master gets a
/// notice if its broker with the smallest id left.
pub(super) struct DepartureResult<'a> {
    removed: BTreeSet<&'a str>,
    read_only: BTreeSet<&'a str>,
    pub notices: Vec<MinBrokerNotice>,
}

impl DepartureResult<'_> {
    /// Whether topics change.
    pub fn changes_topics(&self) -> bool {
        !self.removed.is_empty() || !self.read_only.is_empty()
    }
}

impl Routes {
    /// Returns the broker that registered on a connection (`onChannelDestroy`), or the first of several.
    pub fn owner(&self, connection: u64) -> Option<Departure> {
        let (key, _) = self.live.iter().find(|(_, live)| live.connection == connection)?;
        Some(self.lost(key, connection))
    }

    /// Brokers without heartbeat for longer than their timeout (`scanNotActiveBroker`).
    pub fn silent(&self, now: Instant) -> Vec<Departure> {
        let silent =
            self.live.iter().filter(|(_, live)| now.saturating_duration_since(live.seen) > live.timeout);
        silent.map(|(key, live)| self.lost(key, live.connection)).collect()
    }

    fn lost(&self, (cluster, address): &Member, connection: u64) -> Departure {
        let mut found = self.groups.iter().flat_map(|(broker, group)| {
            let held =
                group.addresses.iter().filter(|(_, held)| *held == address && group.cluster == *cluster);
            held.map(move |(id, _)| (broker, *id))
        });
        let (broker, id) = found.next().map_or((String::new(), MASTER), |(broker, id)| (broker.clone(), id));
        Departure {
            cluster: cluster.clone(),
            broker,
            address: address.clone(),
            id,
            connection: Some(connection),
        }
    }

    /// Removes brokers, and groups without any broker left (`unRegisterBroker`). Their queues are removed by
    /// [`Routes::withdraw_queues`].
    pub(super) fn leave<'a>(&mut self, departures: &'a [Departure]) -> DepartureResult<'a> {
        let mut removed = BTreeSet::new();
        let mut reduced = BTreeSet::new();
        let mut offline = Vec::new();
        for departure in departures {
            let Departure { cluster, broker, address, id, connection } = departure;
            let key = member(cluster, address);
            if let (Some(connection), Some(live)) = (connection, self.live.get(&key))
                && live.connection != *connection
            {
                continue;
            }
            let live = self.live.remove(&key);
            self.note_departure(&key, live, connection.is_none());
            self.forget_filters(&key);
            let Some(group) = self.groups.get_mut(broker) else { continue };
            let is_smallest = group.smallest().is_some_and(|(smallest, _)| smallest == *id);
            group.addresses.retain(|_, held| held != address);
            if group.addresses.is_empty() {
                self.remove_group(broker);
                removed.insert(broker.as_str());
                reduced.remove(broker.as_str());
                continue;
            }
            reduced.insert(broker.as_str());
            if is_smallest {
                offline.push((broker, address));
            }
        }
        let notice = |(broker, address): (&String, &String)| {
            let group = self.groups.get(broker).filter(|group| group.acting_master)?;
            MinBrokerNotice::new(group, Some(address), None)
        };
        let notices = offline.into_iter().filter_map(notice).collect();
        let has_no_writer = |broker: &&str| {
            let group = self.groups.get(*broker);
            group.is_some_and(|group| group.acting_master && !group.addresses.contains_key(&MASTER))
        };
        reduced.retain(has_no_writer);
        DepartureResult { removed, read_only: reduced, notices }
    }

    /// Records that a broker left, unless another address has its name and id. A request to unregister an
    /// absent broker, which operators send, deletes the record.
    fn note_departure(&mut self, key: &Member, live: Option<LiveBroker>, is_unregistered: bool) {
        let Some(LiveBroker { broker, id, seen, .. }) = live else {
            if is_unregistered {
                self.departed.remove(key);
            }
            return;
        };
        let holder = self.groups.get(&broker).and_then(|group| group.addresses.get(&id));
        if holder.is_some_and(|holder| *holder != key.1) {
            return;
        }
        if self.departed.len() >= DEPARTED_MAX {
            let oldest = self.departed.iter().min_by_key(|(_, departed)| departed.seen);
            let oldest = oldest.map(|(key, _)| key.clone());
            self.departed.retain(|key, _| Some(key) != oldest.as_ref());
        }
        self.departed.insert(key.clone(), DepartedMember { broker, id, seen, is_unregistered });
    }

    /// Forgets the departure of a broker that registers, at its former address or at a new address.
    pub(super) fn forget_departure(&mut self, key: &Member, broker: &str, id: i64) {
        self.departed
            .retain(|other, departed| other != key && !(departed.broker == broker && departed.id == id));
    }

    /// Removes the filter servers of a broker.
    pub(super) fn forget_filters(&mut self, key: &Member) {
        self.bytes -= self.filters.remove(key).map_or(0, |servers| cost::servers(&servers));
    }

    fn remove_group(&mut self, broker: &str) {
        self.groups.remove(broker);
        // A group that changed its cluster is listed under both clusters.
        self.clusters.retain(|_, brokers| {
            brokers.remove(broker);
            !brokers.is_empty()
        });
    }

    /// Removes the queues of removed groups from one shard, and the write permission where an acting master takes over.
    pub(super) fn withdraw_queues(&mut self, shard: usize, left: &DepartureResult<'_>) {
        self.retain_topics(shard, |_, placement| {
            placement.retain(|(broker, _)| !left.removed.contains(&**broker));
            for (broker, queues) in placement {
                if left.read_only.contains(&**broker) {
                    queues.perm &= !PERM_WRITE;
                }
            }
        });
    }

    /// Applies `change` to the placement of every topic of a shard; topics left without queues are removed
    /// with their mappings. Returns the number of removed placements.
    pub(super) fn retain_topics(
        &mut self,
        shard: usize,
        mut change: impl FnMut(&str, &mut TopicPlacement),
    ) -> usize {
        let Shard { topics, mappings } = &mut self.shards[shard];
        let (mut placements, mut freed) = (0, 0);
        topics.retain(|topic, placement| {
            placements += placement.len();
            change(topic, placement);
            placements -= placement.len();
            if placement.is_empty() {
                freed += cost::TOPIC + topic.len();
                freed +=
                    mappings.remove(topic).unwrap_or_default().values().map(cost::mapping).sum::<usize>();
            }
            !placement.is_empty()
        });
        self.bytes -= freed + placements * cost::PLACE;
        placements
    }
}
