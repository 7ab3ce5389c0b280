//! Answers to requests, and the changes that they need (`ReplicasInfoManager`). The order of checks, codes and texts are
//! Java's; an answer with changes may leave only when they are committed.

use super::live::Lives;
use super::policy::{Candidates, elect};
use super::table::{Broker, BrokerSet, Change, Roster};
use crate::in_sync::{CommittedSet, SetEpoch};
use std::collections::{BTreeMap, BTreeSet};
use wire::codes::response;
use wire::ha::{BrokerId, Epoch};
use wire::units::LogOffset;

/// Registration of a broker under its id (request 1003).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Name of the broker set.
    pub name: String,
    /// The broker.
    pub broker: BrokerId,
    /// Address of the broker.
    pub address: String,
    /// Whether the last stop of the broker may have cost the end of its log. Vostok's brokers report it in a field
    /// that Java controllers ignore. Java brokers never report it.
    pub may_have_lost: bool,
    /// Last epoch of the broker's log now. It shows whether the broker led with the epoch of its election. `None` if
    /// the broker does not send it, like Java brokers.
    pub log_epoch: Option<Epoch>,
    /// End of the broker's log at its start, in the first registration after the start. `None` if the broker does not
    /// send it, like Java brokers. A log that ends before the position of the last heartbeat ([`Heartbeat::kept`]) is
    /// an older copy, or damaged, and counts as a possible loss.
    ///
    /// [`Heartbeat::kept`]: super::Heartbeat::kept
    pub log_end: Option<LogOffset>,
}

impl Registration {
    /// Whether the broker may lack the end of its log.
    pub(super) fn has_lost(&self, lives: &Lives) -> bool {
        let kept = lives.last_kept(&self.name, self.broker);
        let is_older = || self.log_end.zip(kept).is_some_and(|(end, kept)| end < kept);
        self.may_have_lost || is_older()
    }
}

/// Request of a master to replace the in-sync set (request 1001).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterSet {
    /// Name of the broker set.
    pub name: String,
    /// Id of the requesting master.
    pub master: BrokerId,
    /// Epoch of its mastership.
    pub master_epoch: Epoch,
    /// The members of the new set.
    pub members: BTreeSet<BrokerId>,
    /// Epoch of the set to replace.
    pub epoch: SetEpoch,
}

/// Request for an election (request 1002).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Election {
    /// Name of the broker set.
    pub name: String,
    /// Broker to elect: the requesting broker, or the broker that an operator or a resigning master chose. `None` when
    /// the controller starts the election.
    pub broker: Option<BrokerId>,
    /// Whether only that broker may win, because an operator or a resigning master chose it (`designateElect`).
    pub is_designated: bool,
}

/// Request to remove brokers (request 1011).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clean {
    /// Name of the broker set.
    pub name: String,
    /// The ids, separated by semicolons; blank for the whole set (`brokerControllerIdsToClean`).
    pub ids: String,
    /// Whether living brokers are removed too (`isCleanLivingBroker`). Java then removes the whole set, whatever the
    /// ids are.
    pub is_forced: bool,
}

/// Master of a broker set, for responses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mastership {
    /// Master and its address. `None` if the set has no master, or if a response to a registration finds the master
    /// not alive.
    pub master: Option<(BrokerId, Option<String>)>,
    /// Number of the last election.
    pub epoch: Epoch,
    /// The in-sync set.
    pub in_sync: CommittedSet,
    /// Addresses of all brokers of the set.
    pub members: BTreeMap<BrokerId, String>,
}

/// A broker of a set in an answer to an operator (request 1006).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaStatus {
    /// The broker.
    pub broker: BrokerId,
    /// Address of the broker.
    pub address: String,
    /// Whether the controller receives heartbeats of the broker.
    pub is_alive: bool,
    /// Age of the last heartbeat of a broker that is not alive, ms; `None` if this controller never heard of the broker.
    pub silent_ms: Option<u64>,
    /// Whether it is in the in-sync set.
    pub is_in_sync: bool,
}

/// Content of a response beside its code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// No content.
    None,
    /// The id to apply for.
    NextId(BrokerId),
    /// The in-sync set.
    Set(CommittedSet),
    /// Master of the set.
    Master(Mastership),
    /// The broker sets asked for that exist, with their brokers.
    Replicas(BTreeMap<String, (Mastership, Vec<ReplicaStatus>)>),
}

/// An answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerResponse {
    /// The response code.
    pub code: i32,
    /// The remark of an answer that is no success.
    pub remark: Option<String>,
    /// Content of the response. Some rejections have content too.
    pub content: Content,
}

/// Response, and the changes that must be committed before it leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The answer.
    pub answer: ControllerResponse,
    /// The changes. Without any the answer may leave at once.
    pub changes: Vec<Change>,
}

impl ControllerResponse {
    pub(super) fn ok(content: Content) -> Self {
        Self { code: response::SUCCESS, remark: None, content }
    }

    pub(super) fn refuse(code: i32, remark: impl Into<String>) -> Self {
        Self { code, remark: Some(remark.into()), content: Content::None }
    }
}

impl From<ControllerResponse> for Decision {
    fn from(answer: ControllerResponse) -> Self {
        Self { answer, changes: Vec::new() }
    }
}

fn refuse(code: i32, remark: impl Into<String>) -> Decision {
    ControllerResponse::refuse(code, remark).into()
}

fn not_registered(name: &str, broker: BrokerId) -> Decision {
    let remark = format!("BrokerId: {broker} hasn't been registered in broker-set: {name}");
    refuse(response::CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, remark)
}

/// Returns the changes when a broker of a set registers after a possible loss of its log's end.
fn after_loss(set: &BrokerSet, request: &Registration) -> Vec<Change> {
    let Registration { name, broker, log_epoch, .. } = request;
    let lost = Change::MemberLost { name: name.clone(), broker: *broker };
    let members = &set.in_sync.members;
    let is_member = members.contains(broker);
    match &set.former {
        _ if is_member && members.len() > 1 => vec![lost],
        Some(former) if former.members.contains(broker) => vec![lost],
        // The broker won by its heartbeats from before the loss and has not led. So it acknowledged nothing, and the
        // others have everything.
        Some(former) if is_member && log_epoch.is_some_and(|epoch| epoch < former.epoch) => {
            let members = former.members.union(members).copied().collect();
            vec![Change::SetAltered { name: name.clone(), members }, lost]
        }
        // The last member stays whatever it lost: there is no better broker to elect.
        _ => Vec::new(),
    }
}

impl Mastership {
    pub(super) fn of(set: &BrokerSet) -> Self {
        let master = set.master.map(|master| (master, set.address(master).map(str::to_owned)));
        let members = set.brokers.iter().map(|(id, broker)| (*id, broker.address.clone())).collect();
        Self { master, epoch: set.master_epoch, in_sync: set.in_sync.clone(), members }
    }
}

impl Roster {
    /// The id that the next broker of a set should apply for (request 1012).
    pub fn next_id(&self, name: &str) -> ControllerResponse {
        ControllerResponse::ok(Content::NextId(self.set(name).map_or(BrokerId::FIRST, |set| set.next_id)))
    }

    /// Assigns an id to a broker (request 1013). A repeated request with the same check code succeeds.
    pub fn apply_id(&self, cluster: &str, name: &str, broker: BrokerId, check_code: &str) -> Decision {
        let invalid = |remark| refuse(response::CONTROLLER_BROKER_ID_INVALID, remark);
        match self.set(name) {
            None if broker != BrokerId::FIRST => {
                return invalid(format!(
                    "Broker-set: {name} hasn't been registered in controller, but broker try to apply brokerId: {broker}"
                ));
            }
            Some(set) if set.brokers.get(&broker).is_some_and(|holder| holder.check_code != check_code) => {
                return invalid(format!("Fail to apply brokerId: {broker} in broker-set: {name}"));
            }
            _ => {}
        }
        let address = check_code.split(';').next().unwrap_or_default().to_owned();
        let change = Change::IdApplied {
            cluster: cluster.to_owned(),
            name: name.to_owned(),
            broker,
            details: Broker { address, check_code: check_code.to_owned() },
        };
        Decision { answer: ControllerResponse::ok(Content::None), changes: vec![change] }
    }

    /// Registers a broker (request 1003). The response names the master only if it is alive.
    pub fn register(&self, now_ms: u64, lives: &Lives, request: &Registration) -> Decision {
        let Registration { name, broker, address, .. } = request;
        let Some(set) = self.set(name) else {
            let remark = format!("Broker-set: {name} hasn't been registered in controller");
            return refuse(response::CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, remark);
        };
        let Some(known) = set.brokers.get(broker) else { return not_registered(name, *broker) };
        let mut changes = Vec::new();
        if known.address != *address {
            let (name, address) = (name.clone(), address.clone());
            changes.push(Change::AddressChanged { name, broker: *broker, address });
        }
        if request.has_lost(lives) {
            changes.extend(after_loss(set, request));
        }
        let mut mastership = Mastership::of(&self.set_after(name, &changes));
        mastership.master = mastership.master.filter(|(master, _)| lives.is_alive(now_ms, name, *master));
        Decision { answer: ControllerResponse::ok(Content::Master(mastership)), changes }
    }

    /// Replaces the in-sync set (request 1001).
    pub fn alter_set(&self, now_ms: u64, lives: &Lives, request: &AlterSet) -> Decision {
        let AlterSet { name, members, .. } = request;
        let failed = response::CONTROLLER_ALTER_SYNC_STATE_SET_FAILED;
        let rejected =
            |code, why| refuse(code, format!("Rejecting alter syncStateSet request because {why}"));
        let Some(set) = self.set(name) else { return refuse(failed, "Broker metadata is not existed") };
        if set.in_sync.members == *members {
            let remark =
                "The newSyncStateSet is equal with oldSyncStateSet, no needed to update syncStateSet";
            return refuse(failed, remark);
        }
        if set.master != Some(request.master) {
            let leader = set.master.map_or("null".to_owned(), |master| master.to_string());
            let why = format!("the current leader is:{{{leader}}}, not {{{}}}", request.master);
            return rejected(response::CONTROLLER_INVALID_MASTER, why);
        }
        if set.master_epoch != request.master_epoch {
            let (current, asked) = (set.master_epoch, request.master_epoch);
            let why = format!("the current master epoch is:{{{current}}}, not {{{asked}}}");
            return rejected(response::CONTROLLER_FENCED_MASTER_EPOCH, why);
        }
        if set.in_sync.epoch != request.epoch {
            let (current, asked) = (set.in_sync.epoch.0, request.epoch.0);
            let why = format!("the current syncStateSet epoch is:{{{current}}}, not {{{asked}}}");
            return rejected(response::CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH, why);
        }
        for member in members {
            if !set.brokers.contains_key(member) {
                let why = format!("the replicas {{{member}}} don't exist");
                return rejected(response::CONTROLLER_INVALID_REPLICAS, why);
            }
            if !lives.is_alive(now_ms, name, *member) {
                let why = format!("the replicas {{{member}}} don't alive");
                return rejected(response::CONTROLLER_BROKER_NOT_ALIVE, why);
            }
        }
        if !members.contains(&request.master) {
            let why = format!("the newSyncStateSet don't contains origin leader {{{}}}", request.master);
            return rejected(failed, why);
        }
        let changes = vec![Change::SetAltered { name: name.clone(), members: members.clone() }];
        let altered = self.set_after(name, &changes).in_sync;
        Decision { answer: ControllerResponse::ok(Content::Set(altered)), changes }
    }

    /// Elects a master (request 1002). `may_lose` allows brokers outside the in-sync set (`enableElectUncleanMaster`).
    pub fn elect(&self, now_ms: u64, lives: &Lives, request: &Election, may_lose: bool) -> Decision {
        let Election { name, broker, is_designated } = request;
        let Some(set) = self.set(name) else {
            return refuse(
                response::CONTROLLER_BROKER_NEED_TO_BE_REGISTERED,
                "Broker hasn't been registered",
            );
        };
        let first = broker.filter(|_| set.master_epoch == Epoch::ZERO);
        if let Some(unknown) = first.filter(|first| !set.brokers.contains_key(first)) {
            return not_registered(name, unknown);
        }
        let live = |broker| lives.last(now_ms, name, broker);
        let designated = broker.filter(|_| *is_designated);
        let among = |brokers: &BTreeSet<BrokerId>| {
            elect(&Candidates { brokers, former: set.master, designated }, live)
        };
        let everybody = || among(&set.brokers.keys().copied().collect());
        let mut winner = first.or_else(|| among(&set.in_sync.members));
        if may_lose {
            winner = winner.or_else(everybody);
        }
        match winner {
            Some(winner) if set.master == Some(winner) => {
                let remark = format!(
                    "The old master {winner} is still alive, not need to elect new master for broker {name}"
                );
                let content = Content::Master(Mastership::of(set));
                let code = response::CONTROLLER_MASTER_STILL_EXIST;
                ControllerResponse { code, remark: Some(remark), content }.into()
            }
            Some(winner) => {
                let changes = vec![Change::Elected { name: name.clone(), master: Some(winner) }];
                let elected = Mastership::of(&self.set_after(name, &changes));
                Decision { answer: ControllerResponse::ok(Content::Master(elected)), changes }
            }
            None if broker.is_some() => {
                refuse(response::CONTROLLER_ELECT_MASTER_FAILED, "Failed to elect a new master")
            }
            None => {
                let remark = "Old master has down and failed to elect a new broker master";
                let answer = ControllerResponse::refuse(response::CONTROLLER_MASTER_NOT_AVAILABLE, remark);
                let changes = set.master.map(|_| Change::Elected { name: name.clone(), master: None });
                Decision { answer, changes: changes.into_iter().collect() }
            }
        }
    }

    /// Returns the master (request 1004).
    pub fn replica_info(&self, name: &str) -> ControllerResponse {
        match self.set(name) {
            Some(set) => ControllerResponse::ok(Content::Master(Mastership::of(set))),
            None => ControllerResponse::refuse(
                response::CONTROLLER_BROKER_METADATA_NOT_EXIST,
                "Broker metadata is not existed",
            ),
        }
    }

    /// Returns the state of the broker sets with these names (request 1006). Unknown sets are left out.
    pub fn sync_state(&self, now_ms: u64, lives: &Lives, names: &[String]) -> ControllerResponse {
        let known = names.iter().filter_map(|name| self.set(name).map(|set| (name, set)));
        let replicas_of = |(name, set): (&String, &BrokerSet)| {
            let status = |(id, broker): (&BrokerId, &Broker)| {
                let is_alive = lives.is_alive(now_ms, name, *id);
                let beat_ms = lives.last_beat_ms(name, *id).filter(|_| !is_alive);
                ReplicaStatus {
                    broker: *id,
                    address: broker.address.clone(),
                    is_alive,
                    silent_ms: beat_ms.map(|beat_ms| now_ms.saturating_sub(beat_ms)),
                    is_in_sync: set.in_sync.members.contains(id),
                }
            };
            (name.clone(), (Mastership::of(set), set.brokers.iter().map(status).collect()))
        };
        ControllerResponse::ok(Content::Replicas(known.map(replicas_of).collect()))
    }

    /// Removes brokers (request 1011).
    pub fn clean(&self, now_ms: u64, lives: &Lives, request: &Clean) -> Decision {
        let Clean { name, ids, is_forced } = request;
        let invalid = |remark| refuse(response::CONTROLLER_INVALID_CLEAN_BROKER_METADATA, remark);
        let ids = ids.trim();
        let mut brokers = BTreeSet::new();
        if ids.is_empty() {
            let has_master = self.set(name).is_some_and(|set| set.master.is_some());
            if has_master && !is_forced {
                return invalid(format!("Broker {name} is still alive, clean up failure"));
            }
        } else {
            for id in ids.split(';') {
                let Some(broker) = id.parse().ok().and_then(BrokerId::from_i64) else {
                    return invalid(format!(
                        "Please set the option <brokerControllerIdsToClean> according to the format, exception: \
                         java.lang.NumberFormatException: For input string: \"{id}\""
                    ));
                };
                brokers.insert(broker);
            }
            let alive = brokers.iter().find(|broker| lives.is_alive(now_ms, name, **broker));
            if let Some(alive) = alive.filter(|_| !is_forced) {
                return invalid(format!("Broker [{name},  {alive}] is still alive, clean up failure"));
            }
        }
        if self.set(name).is_none() {
            return invalid(format!("Broker {name} is not existed,clean broker data failure."));
        }
        let changes = vec![Change::Cleaned { name: name.clone(), brokers }];
        Decision { answer: ControllerResponse::ok(Content::None), changes }
    }

    /// Imports a set from another group of controllers. An existing set with a newer election stays, because its
    /// brokers have roles by it.
    pub fn import(&self, name: &str, set: &BrokerSet) -> Decision {
        if let Some(here) = self.set(name).filter(|here| here.master_epoch >= set.master_epoch) {
            let (here, there) = (here.master_epoch, set.master_epoch);
            let remark = format!(
                "broker-set {name} is here already, with master epoch {here}; the import's is {there}"
            );
            return refuse(response::CONTROLLER_INVALID_REQUEST, remark);
        }
        let changes = vec![Change::Imported { name: name.to_owned(), set: set.clone() }];
        Decision { answer: ControllerResponse::ok(Content::None), changes }
    }

    /// Returns a set with the changes applied.
    fn set_after(&self, name: &str, changes: &[Change]) -> BrokerSet {
        let set = self.set(name).expect("the caller has found it").clone();
        let mut after = Self::new(BTreeMap::from([(name.to_owned(), set)]));
        changes.iter().cloned().for_each(|change| after.apply(change));
        after.set(name).expect("no change here removes it").clone()
    }
}
