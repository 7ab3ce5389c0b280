//! The controller: one reliable node that runs `replica::roster`. What it proposes is committed after a delay; it can be paused
//! and cut off, but forgets nothing.

use crate::settings::{Bug, NodeId};
use replica::agent::CallId;
use replica::roster::{
    Answer, Change, ConnectionId, Content, Heartbeat, Leader, LeaderAction, LeaderConfig, LeaderEvent,
    ProposalId, Request, RequestId, Roster,
};
use std::collections::{BTreeMap, BTreeSet};
use wire::ha::BrokerId;

/// Name of the broker set.
const SET: &str = "set";

/// What the controller does.
#[derive(Debug)]
pub enum Action {
    /// Answer the call of a broker's process.
    Answer((NodeId, u64), CallId, Answer),
    /// Commit these changes after a while.
    Commit(ProposalId, Vec<Change>),
    /// Tell a broker who was elected.
    Notify(NodeId, replica::roster::Mastership),
    /// Come again at this time.
    WakeAt(u64),
}

/// The controller.
pub struct Controller {
    leader: Leader,
    bug: Option<Bug>,
    calls: BTreeMap<RequestId, ((NodeId, u64), CallId)>,
    last_request: u64,
}

impl Controller {
    /// A controller that leads.
    #[must_use]
    pub fn new(bug: Option<Bug>) -> Self {
        let config = LeaderConfig { may_lose: bug == Some(Bug::UncleanElection), ..LeaderConfig::default() };
        Self { leader: Leader::new(config, Roster::default()), bug, calls: BTreeMap::new(), last_request: 0 }
    }

    /// Begins to lead.
    pub fn start(&mut self, now_ms: u64) -> Vec<Action> {
        self.step(now_ms, LeaderEvent::Leads(true))
    }

    /// A broker's process asks something.
    pub fn ask(&mut self, now_ms: u64, who: (NodeId, u64), call: CallId, request: Request) -> Vec<Action> {
        if let Some(set) = self.stale_set(&request) {
            return self.accept(now_ms, who, call, set);
        }
        self.last_request += 1;
        let id = RequestId(self.last_request);
        self.calls.insert(id, (who, call));
        self.step(now_ms, LeaderEvent::Asked(id, request))
    }

    /// A broker lives.
    pub fn beat(&mut self, now_ms: u64, heartbeat: Heartbeat) -> Vec<Action> {
        self.step(now_ms, LeaderEvent::Heartbeat(heartbeat))
    }

    /// A broker's connection has ended.
    pub fn disconnected(&mut self, now_ms: u64, connection: ConnectionId) -> Vec<Action> {
        self.step(now_ms, LeaderEvent::Disconnected(connection))
    }

    /// Changes are committed.
    pub fn commit(&mut self, now_ms: u64, proposal: ProposalId, changes: Vec<Change>) -> Vec<Action> {
        self.step(now_ms, LeaderEvent::Committed(Some(proposal), changes))
    }

    /// A time has come that the controller asked for.
    pub fn wake(&mut self, now_ms: u64) -> Vec<Action> {
        self.step(now_ms, LeaderEvent::Timer)
    }

    /// The members of the in-sync set.
    #[must_use]
    pub fn members(&self) -> Vec<BrokerId> {
        let set = self.leader.roster().set(SET);
        set.map(|set| set.in_sync.members.iter().copied().collect()).unwrap_or_default()
    }

    /// With the planted bug, the set that a deposed master wants.
    fn stale_set(&self, request: &Request) -> Option<BTreeSet<BrokerId>> {
        let Request::AlterSet(alter) = request else { return None };
        let set = self.leader.roster().set(SET).filter(|_| self.bug == Some(Bug::StaleEpoch))?;
        (alter.master_epoch < set.master_epoch).then(|| alter.members.clone())
    }

    /// Replaces the set without looking who wants that.
    fn accept(
        &mut self,
        now_ms: u64,
        who: (NodeId, u64),
        call: CallId,
        members: BTreeSet<BrokerId>,
    ) -> Vec<Action> {
        let change = Change::SetAltered { name: SET.to_owned(), members };
        let mut actions = self.step(now_ms, LeaderEvent::Committed(None, vec![change]));
        let in_sync = self.leader.roster().set(SET).expect("it was altered").in_sync.clone();
        let answer = Answer { code: 0, remark: None, content: Content::Set(in_sync) };
        actions.push(Action::Answer(who, call, answer));
        actions
    }

    fn step(&mut self, now_ms: u64, event: LeaderEvent) -> Vec<Action> {
        let mut out = Vec::new();
        self.leader.step(now_ms, event, &mut out);
        out.into_iter().filter_map(|action| self.perform(action)).collect()
    }

    fn perform(&mut self, action: LeaderAction) -> Option<Action> {
        Some(match action {
            LeaderAction::Answer(id, answer) => {
                let (who, call) = self.calls.remove(&id).expect("it was asked");
                Action::Answer(who, call, answer)
            }
            LeaderAction::Propose(proposal, changes) => Action::Commit(proposal, changes),
            LeaderAction::Notify(_, address, mastership) => {
                Action::Notify(NodeId::of_broker(&address)?, mastership)
            }
            LeaderAction::Lost(_) => return None,
            LeaderAction::WakeAt(at_ms) => Action::WakeAt(at_ms),
        })
    }
}
