//! The replicated table (`ReplicasInfoManager.applyEvent`, `BrokerReplicaInfo`, `SyncStateInfo`).

use crate::in_sync::{CommittedSet, SetEpoch};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use wire::ha::{BrokerId, Epoch};

/// A broker of a broker set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Broker {
    /// Where its clients and other brokers reach it.
    pub address: String,
    /// What it gave when it applied for its id: `address;milliseconds`. It proves that the id is its own.
    pub check_code: String,
}

/// Brokers with one name, of which one is master.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BrokerSet {
    /// The cluster that the set belongs to.
    pub cluster: String,
    /// The brokers by id.
    pub brokers: BTreeMap<BrokerId, Broker>,
    /// The id that the next broker should apply for.
    pub next_id: BrokerId,
    /// The master; `None` before the first election, and when one found nobody.
    pub master: Option<BrokerId>,
    /// Number of the last election. Zero when there was none.
    pub master_epoch: Epoch,
    /// The brokers that have everything that was acknowledged.
    pub in_sync: CommittedSet,
    /// Who else has everything, as long as the winner of the last election may not have led. Invariant: with one, the winner is
    /// the only member of `in_sync`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former: Option<FormerSet>,
}

/// The losers of an election: the other members of the in-sync set before. They have everything that was acknowledged until the
/// winner leads, so that one of them can take its place when it turns out that the winner lost the end of its log before it led.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FormerSet {
    /// The epoch with which the winner was elected. A broker that has led with it has it in its log.
    pub epoch: Epoch,
    /// The other members of the set before the election. Never empty.
    pub members: BTreeSet<BrokerId>,
}

impl BrokerSet {
    /// Address of a broker of the set.
    #[must_use]
    pub fn address(&self, broker: BrokerId) -> Option<&str> {
        self.brokers.get(&broker).map(|broker| broker.address.as_str())
    }

    fn set_members(&mut self, members: BTreeSet<BrokerId>) {
        self.in_sync = CommittedSet { members, epoch: SetEpoch(self.in_sync.epoch.0 + 1) };
    }

    fn set_master(&mut self, master: Option<BrokerId>) {
        self.master = master;
        self.master_epoch = self.master_epoch.next();
    }

    fn elect(&mut self, winner: BrokerId) {
        self.set_master(Some(winner));
        // A winner that wins again may not have led since the first time.
        if self.former.is_none() || !self.in_sync.members.contains(&winner) {
            let mut members = self.in_sync.members.clone();
            members.remove(&winner);
            let former = FormerSet { epoch: self.master_epoch, members };
            self.former = Some(former).filter(|former| !former.members.is_empty());
        }
        self.set_members(BTreeSet::from([winner]));
    }

    /// Takes these brokers out of the former set.
    fn forget_former(&mut self, brokers: &BTreeSet<BrokerId>) {
        if let Some(former) = &mut self.former {
            former.members.retain(|member| !brokers.contains(member));
        }
        self.former.take_if(|former| former.members.is_empty());
    }

    /// A broker lost the end of its log.
    fn lose(&mut self, broker: BrokerId) {
        self.forget_former(&BTreeSet::from([broker]));
        let mut members = self.in_sync.members.clone();
        if members.remove(&broker) {
            self.set_members(members);
        }
        if self.master == Some(broker) {
            self.set_master(None);
        }
    }
}

/// A change of the table. Changes of one broker set must be decided one after the other: each when the one before is applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// A broker has got its id; with the first one the set comes into being.
    IdApplied {
        /// Cluster of the set.
        cluster: String,
        /// Name of the set.
        name: String,
        /// The id.
        broker: BrokerId,
        /// The broker's address and check code.
        details: Broker,
    },
    /// A broker has another address.
    AddressChanged {
        /// Name of the set.
        name: String,
        /// The broker.
        broker: BrokerId,
        /// Its address.
        address: String,
    },
    /// The in-sync set has other members.
    SetAltered {
        /// Name of the set.
        name: String,
        /// The members.
        members: BTreeSet<BrokerId>,
    },
    /// A member may have lost the end of its log: it leaves the in-sync set, and that from before the election, and is master no
    /// more.
    MemberLost {
        /// Name of the set.
        name: String,
        /// The member.
        broker: BrokerId,
    },
    /// There was an election. A winner is the only member of the in-sync set; without one the members stay.
    Elected {
        /// Name of the set.
        name: String,
        /// The winner.
        master: Option<BrokerId>,
    },
    /// Brokers were removed.
    Cleaned {
        /// Name of the set.
        name: String,
        /// The brokers; all of them when empty.
        brokers: BTreeSet<BrokerId>,
    },
    /// A set of another group of controllers was taken over; it replaces one with this name.
    Imported {
        /// Name of the set.
        name: String,
        /// What the other group knew of it.
        set: BrokerSet,
    },
}

/// Error: a table or change was written by another version, or is damaged.
#[derive(Debug, thiserror::Error)]
#[error("the controller's table or a change of it cannot be read: {0}")]
pub struct UnreadableTable(#[from] serde_json::Error);

impl Change {
    /// The bytes of changes that consensus puts into the order together.
    #[must_use]
    pub fn encode(changes: &[Self]) -> Vec<u8> {
        to_json(changes)
    }

    /// Reads what [`Change::encode`] wrote.
    ///
    /// # Errors
    /// [`UnreadableTable`] for other bytes.
    pub fn decode(bytes: &[u8]) -> Result<Vec<Self>, UnreadableTable> {
        Ok(serde_json::from_slice(bytes)?)
    }

    /// Name of the broker set that changes.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::IdApplied { name, .. }
            | Self::AddressChanged { name, .. }
            | Self::SetAltered { name, .. }
            | Self::MemberLost { name, .. }
            | Self::Elected { name, .. }
            | Self::Cleaned { name, .. }
            | Self::Imported { name, .. } => name,
        }
    }
}

fn to_json(value: &(impl Serialize + ?Sized)) -> Vec<u8> {
    serde_json::to_vec(value).expect("all keys are text or numbers")
}

/// All broker sets by name.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Roster {
    sets: BTreeMap<String, BrokerSet>,
}

impl Roster {
    /// A table with these sets: from a snapshot, or from another group of controllers.
    #[must_use]
    pub fn new(sets: BTreeMap<String, BrokerSet>) -> Self {
        Self { sets }
    }

    /// The bytes of the table, for a snapshot.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        to_json(self)
    }

    /// Reads what [`Roster::encode`] wrote; no bytes are an empty table.
    ///
    /// # Errors
    /// [`UnreadableTable`] for other bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, UnreadableTable> {
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        Ok(serde_json::from_slice(bytes)?)
    }

    /// The broker set with this name.
    #[must_use]
    pub fn set(&self, name: &str) -> Option<&BrokerSet> {
        self.sets.get(name)
    }

    /// All broker sets by name.
    #[must_use]
    pub fn sets(&self) -> &BTreeMap<String, BrokerSet> {
        &self.sets
    }

    /// Performs a change. One of a set that is gone changes nothing.
    pub fn apply(&mut self, change: Change) {
        match change {
            Change::IdApplied { cluster, name, broker, details } => {
                let set = self.sets.entry(name).or_insert_with(|| BrokerSet {
                    cluster,
                    brokers: BTreeMap::new(),
                    next_id: BrokerId::FIRST,
                    master: None,
                    master_epoch: Epoch::ZERO,
                    in_sync: CommittedSet::default(),
                    former: None,
                });
                set.brokers.entry(broker).or_insert(details);
                while set.brokers.contains_key(&set.next_id) {
                    set.next_id = BrokerId::new(set.next_id.get() + 1);
                }
            }
            Change::AddressChanged { name, broker, address } => {
                let broker = self.sets.get_mut(&name).and_then(|set| set.brokers.get_mut(&broker));
                if let Some(broker) = broker {
                    broker.address = address;
                }
            }
            Change::SetAltered { name, members } => self.change(&name, |set| {
                // Its master leads.
                set.former = None;
                set.set_members(members);
            }),
            Change::MemberLost { name, broker } => self.change(&name, |set| set.lose(broker)),
            Change::Elected { name, master } => self.change(&name, |set| match master {
                Some(winner) => set.elect(winner),
                None => set.set_master(None),
            }),
            Change::Cleaned { name, brokers } => self.remove(&name, &brokers),
            Change::Imported { name, set } => drop(self.sets.insert(name, set)),
        }
    }

    fn change(&mut self, name: &str, change: impl FnOnce(&mut BrokerSet)) {
        if let Some(set) = self.sets.get_mut(name) {
            change(set);
        }
    }

    fn remove(&mut self, name: &str, brokers: &BTreeSet<BrokerId>) {
        let Some(set) = self.sets.get_mut(name) else { return };
        set.brokers.retain(|broker, _| !brokers.contains(broker));
        let members: BTreeSet<_> = set.in_sync.members.difference(brokers).copied().collect();
        if members != set.in_sync.members {
            // With a larger epoch: the master takes no other set of the epoch that it knows.
            set.set_members(members);
        }
        set.forget_former(brokers);
        set.master = set.master.filter(|master| !brokers.contains(master));
        if brokers.is_empty() || set.brokers.is_empty() || set.in_sync.members.is_empty() {
            self.sets.remove(name);
        }
    }
}
