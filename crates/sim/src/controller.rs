//! Controller of the group: its machine and journal, on a disk that loses unsynced data.

use crate::network::Process;
use crate::settings::{Bug, NodeId};
use controller::{Action as Wanted, Event, Journal, Machine};
use replica::agent::CallId;
use replica::consensus::{self, ConsensusConfig};
use replica::in_sync::SetEpoch;
use replica::roster::{
    ControllerResponse, LeaderConfig, LeaderEvent, Mastership, Request, RequestId, Roster,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use store::FakeDisk;
use wire::ha::BrokerId;

/// Name of the broker set.
const SET: &str = "set";
/// Milliseconds of a tick of consensus, as in production.
const TICK_MS: u64 = 100;
/// Entries of consensus after which the journal is replaced. Low, so that every run reaches it.
const ENTRIES_MAX: usize = 20;

/// Action of a controller.
#[derive(Debug)]
pub enum Action {
    /// Answer the call of a broker's process.
    Answer(Process, CallId, ControllerResponse),
    /// Send another controller a message of consensus.
    Send(NodeId, Vec<u8>),
    /// Notify a broker of the elected master.
    Notify(NodeId, Mastership),
    /// Call the controller again at this time, in ms.
    WakeAt(u64),
    /// The controller cannot continue and ends.
    End(String),
}

/// Process of a controller. Its memory, unlike its journal, ends with it.
pub struct Controller {
    machine: Machine,
    journal: Journal,
    bug: Option<Bug>,
    calls: BTreeMap<RequestId, (Process, CallId)>,
    last_request: u64,
}

fn member(node: NodeId) -> consensus::NodeId {
    let place = NodeId::controllers().position(|other| other == node).expect("a controller");
    consensus::NodeId(place as u64 + 1)
}

fn node_of(member: consensus::NodeId) -> Option<NodeId> {
    NodeId::controllers().find(|node| self::member(*node) == member)
}

impl Controller {
    /// Starts the process of a controller with the content of its disk.
    ///
    /// # Errors
    /// Error of the journal.
    pub fn open(node: NodeId, disk: &FakeDisk, bug: Option<Bug>) -> Result<Self, String> {
        let (journal, saved) = Journal::open(Arc::new(disk.clone()), Path::new("/controller"))
            .map_err(|error| error.to_string())?;
        let peers = NodeId::controllers().map(member).collect();
        let consensus =
            ConsensusConfig { id: member(node), peers, tick_ms: TICK_MS, entries_max: ENTRIES_MAX };
        let elections =
            LeaderConfig { may_lose: bug == Some(Bug::UncleanElection), ..LeaderConfig::default() };
        let machine = Machine::new(consensus, elections, saved).map_err(|error| error.to_string())?;
        Ok(Self { machine, journal, bug, calls: BTreeMap::new(), last_request: 0 })
    }

    /// Processes a request of a broker's process.
    pub fn ask(&mut self, now_ms: u64, who: Process, call: CallId, mut request: Request) -> Vec<Action> {
        if let (Request::AlterSet(alter), Some(Bug::StaleEpoch)) = (&mut request, self.bug)
            && let Some(set) = self.roster().set(SET)
        {
            // With the planted bug a deposed master's set is taken for the master's.
            (alter.master_epoch, alter.epoch) = (set.master_epoch, set.in_sync.epoch);
            alter.master = set.master.unwrap_or(alter.master);
            alter.members.insert(alter.master);
        }
        self.last_request += 1;
        let id = RequestId(self.last_request);
        self.calls.insert(id, (who, call));
        self.step(now_ms, Event::Leader(LeaderEvent::Asked(id, request)))
    }

    /// Processes a message of consensus from another controller.
    pub fn receive(&mut self, now_ms: u64, from: NodeId, message: Vec<u8>) -> Vec<Action> {
        self.step(now_ms, Event::Received(member(from), message))
    }

    /// Processes the failure to reach another controller.
    pub fn unreachable(&mut self, now_ms: u64, peer: NodeId) -> Vec<Action> {
        self.step(now_ms, Event::Unreachable(member(peer)))
    }

    /// Whether this controller leads the group and answers.
    pub fn leads(&self) -> bool {
        self.machine.leads()
    }

    /// Returns the leading controller, as known to this controller.
    pub fn leading(&self) -> Option<NodeId> {
        self.machine.leading().and_then(node_of)
    }

    /// Returns the table with the changes that this controller has applied.
    pub fn roster(&self) -> &Roster {
        self.machine.roster()
    }

    /// The number of changes of the in-sync set, and its members.
    pub fn members(&self) -> (SetEpoch, Vec<BrokerId>) {
        let set = self.roster().set(SET);
        set.map(|set| (set.in_sync.epoch, set.in_sync.members.iter().copied().collect())).unwrap_or_default()
    }

    /// Processes an event.
    pub fn step(&mut self, now_ms: u64, event: Event) -> Vec<Action> {
        let (mut wanted, mut actions) = (Vec::new(), Vec::new());
        if let Err(error) = self.machine.step(now_ms, event, &mut wanted) {
            return vec![Action::End(error.to_string())];
        }
        for action in wanted {
            let saved = match action {
                Wanted::Save(_) if self.bug == Some(Bug::UnsavedVote) => Ok(()),
                Wanted::Save(records) => self.journal.save(&records),
                Wanted::Replace(records) => self.journal.replace(&records),
                other => {
                    actions.extend(self.perform(other));
                    Ok(())
                }
            };
            if let Err(error) = saved {
                // Later actions must not happen.
                actions.push(Action::End(error.to_string()));
                break;
            }
        }
        actions
    }

    fn perform(&mut self, action: Wanted) -> Option<Action> {
        Some(match action {
            Wanted::Send(peer, message) => Action::Send(node_of(peer)?, message),
            Wanted::Answer(id, answer) => {
                let (who, call) = self.calls.remove(&id).expect("it was asked");
                Action::Answer(who, call, answer)
            }
            Wanted::Notify(_, address, mastership) => {
                Action::Notify(NodeId::of_broker(&address)?, mastership)
            }
            Wanted::WakeAt(at_ms) => Action::WakeAt(at_ms),
            Wanted::Save(_) | Wanted::Replace(_) => return None,
        })
    }
}
