//! The replicated table (`ReplicasInfoManager.applyEvent`, `BrokerReplicaInfo`, `SyncStateInfo`).

use crate::in_sync::{CommittedSet, SetEpoch};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use wire::ha::{BrokerId, Epoch};

/// A broker of a broker set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Broker {
    /// Address for clients and other brokers.
    pub address: String,
    /// Text of the broker's application for its id: `address;milliseconds`. It proves that the id belongs to the
    /// broker.
    pub check_code: String,
}

/// Broker set: brokers with a common name, among them the master.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BrokerSet {
    /// The cluster that the set belongs to.
    pub cluster: String,
    /// The brokers by id.
    pub brokers: BTreeMap<BrokerId, Broker>,
    /// The id that the next broker should apply for.
    pub next_id: BrokerId,
    /// Master. `None` before the first election, and after an election without a winner.
    pub master: Option<BrokerId>,
    /// Number of the last election. Zero when there was none.
    pub master_epoch: Epoch,
    /// Brokers that have all acknowledged messages.
    pub in_sync: CommittedSet,
    /// Former members that have all acknowledged messages too, while the winner of the last election may not have
    /// led. Invariant: if present, the winner is the only member of `in_sync`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former: Option<FormerSet>,
}

/// Losers of an election: the other members of the preceding in-sync set. They have all acknowledged messages until
/// the winner leads. So one of them can replace a winner that lost the end of its log before it led.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FormerSet {
    /// Epoch of the winner's election. A broker that led with it has it in its log.
    pub epoch: Epoch,
    /// The other members of the set before the election. Never empty.
    pub members: BTreeSet<BrokerId>,
}

impl BrokerSet {
    /// Address of a broker of the set.
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

/// Change of the table. Changes of a broker set must be decided one after the other, each after the preceding change
/// is applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// A broker got its id. The first id of a set creates the set.
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
        /// Address of the broker.
        address: String,
    },
    /// The in-sync set changed.
    SetAltered {
        /// Name of the set.
        name: String,
        /// The members.
        members: BTreeSet<BrokerId>,
    },
    /// A member may have lost the end of its log. It leaves the in-sync set and the set before the election, and is
    /// no longer master.
    MemberLost {
        /// Name of the set.
        name: String,
        /// The member.
        broker: BrokerId,
    },
    /// An election took place. A winner is the only member of the in-sync set. Without a winner the members stay.
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
    /// A set of another group of controllers was imported. It replaces a set with this name.
    Imported {
        /// Name of the set.
        name: String,
        /// State of the set in the other group.
        set: BrokerSet,
    },
}

/// Error: a table or change was written by another version, or is damaged.
#[derive(Debug, thiserror::Error)]
#[error("the controller's table or a change of it cannot be read: {0}")]
pub struct UnreadableTable(#[from] serde_json::Error);

impl Change {
    /// The bytes of changes that consensus puts into the order together.
    pub fn encode(changes: &[Self]) -> Vec<u8> {
        to_json(changes)
    }

    /// Decodes the output of [`Change::encode`].
    ///
    /// # Errors
    /// [`UnreadableTable`] for other bytes.
    pub fn decode(bytes: &[u8]) -> Result<Vec<Self>, UnreadableTable> {
        Ok(serde_json::from_slice(bytes)?)
    }

    /// Name of the broker set that changes.
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
    pub fn new(sets: BTreeMap<String, BrokerSet>) -> Self {
        Self { sets }
    }

    /// The bytes of the table, for a snapshot.
    pub fn encode(&self) -> Vec<u8> {
        to_json(self)
    }

    /// Decodes the output of [`Roster::encode`]. Empty input is an empty table.
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
    pub fn set(&self, name: &str) -> Option<&BrokerSet> {
        self.sets.get(name)
    }

    /// All broker sets by name.
    pub fn sets(&self) -> &BTreeMap<String, BrokerSet> {
        &self.sets
    }

    /// Applies a change. A change of a missing set has no effect.
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
                // The master of the set leads.
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
